"""What every kind of task has."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.schema import Table
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.paid import Paid
from dpmcmc.queries.summaries.intervals import Target

Floats = NDArray[np.float64]


class Planned(Protocol):
    """A task on a schema, settled from public facts alone. paid: what it costs.

    blocks: how many it releases; numbers: how many all of them hold. noise: in words. memory: bytes
    that it takes beyond those of rows and numbers. seconds: about how long it runs, above 0.
    """

    @property
    def paid(self) -> Paid:
        """Its event, and what that costs."""

    @property
    def blocks(self) -> int:
        """How many it releases."""

    @property
    def numbers(self) -> int:
        """How many all blocks hold."""

    @property
    def noise(self) -> str:
        """The noise, in words."""

    @property
    def memory(self) -> int:
        """Bytes beyond those of rows and numbers."""

    @property
    def seconds(self) -> float:
        """About how long it runs, above 0."""

    def release(
        self, rows: Private[Table], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield blocks (numbers,).

        Privacy: paid.event, all of it in the first block; what follows is made of that. Raises
        PermitError before the rows are opened; never on the rows.
        """

    def told(self, first: Floats, level: float, target: Target) -> dict[str, Any]:
        """Return what the first block says, as JSON holds it. Free. Raises SpecError on a level."""

    def verdict(self, first: Floats) -> Verdict:
        """Return whether what was released may be believed, by its first block."""


def quick_seconds(rows: int) -> float:
    """Return about how long one pass over the rows takes, and all that stands about it."""
    return 0.1 + 1e-7 * rows


def reliable(why: str) -> Verdict:
    """Return that nothing is wrong."""
    return Verdict("reliable", f"Reliable: {why}.", (), None)
