"""The protocol of all kinds of task."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.paid import Paid
from dpmcmc.queries.summaries.intervals import IntervalTarget

Floats = NDArray[np.float64]


class Planned(Protocol):
    """A planned task on a schema, from public facts alone."""

    @property
    def paid(self) -> Paid:
        """Its mechanism and cost."""

    @property
    def blocks(self) -> int:
        """Number of released blocks."""

    @property
    def numbers(self) -> int:
        """Numbers in all blocks together."""

    @property
    def noise(self) -> str:
        """A sentence on the noise."""

    @property
    def memory(self) -> int:
        """Bytes in addition to rows and numbers."""

    @property
    def seconds(self) -> float:
        """Expected run time in seconds, above 0."""

    def release(
        self, rows: Private[AnyRows], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield blocks (numbers,).

        Privacy: paid.event, all of it in the first block; the others are post-processing of it.
        Raises PermitError before the rows are opened; never depending on the rows.
        """

    def answer(self, first: Floats, level: float, target: IntervalTarget) -> dict[str, Any]:
        """Return the answer from the first block, as JSON values. Raises SpecError on a level."""

    def verdict(self, first: Floats) -> Verdict:
        """Return the verdict on the release, from its first block."""


def quick_seconds(rows: int) -> float:
    """Return the expected seconds of one pass over the rows, with its overhead."""
    return 0.1 + 1e-7 * rows
