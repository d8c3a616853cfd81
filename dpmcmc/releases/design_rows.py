"""Rows of a design as a release passes over them: from memory, or computed anew at every pass."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.target import Floats
from dpmcmc.inputs.streamed import AnyRows, in_blocks

# covariates and responses, 128 MiB of them, that are computed once and held
HELD_NUMBERS = 2**24


def is_held(rows: int, width: int) -> bool:
    """Return whether so many rows and covariates are computed once, and not at every pass."""
    return rows * (width + 1) <= HELD_NUMBERS


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows in memory. x: (d, n). y: (n,) or (n, k). counted: (n,), see Block.

    None where no row may be left out. cells: (n,) of 0 to the number of groups less 1, or -1 where
    none is known; None where there are no groups.
    """

    x: Floats
    y: Floats
    counted: Floats | None = None
    cells: NDArray[np.int64] | None = None

    @property
    def width(self) -> int:
        """Number of covariates."""
        return len(self.x)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def gaps(self) -> bool:
        """Whether rows may be left out."""
        return self.counted is not None

    def blocks(self, size: int) -> Iterator["HeldRows"]:
        """Yield the rows in blocks of this many, the last one of what is left. One pass."""
        for start in range(0, self.rows, size):
            here = slice(start, start + size)
            counted = None if self.counted is None else self.counted[here]
            cells = None if self.cells is None else self.cells[here]
            yield HeldRows(self.x[:, here], self.y[here], counted, cells)

    def answering(self, change: Callable[[Floats], Floats]) -> "HeldRows":
        """Return the rows with other responses. change: of the responses of any rows."""
        return replace(self, y=change(self.y))


@dataclass(frozen=True, slots=True)
class PassedRows:
    """Rows that are read and computed anew at each pass. See HeldRows.

    source: where they lie. names: of the columns that are read. build: of a table of some of them.
    """

    source: AnyRows
    names: Sequence[str]
    build: Callable[..., HeldRows]
    width: int
    gaps: bool

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.source.rows

    def blocks(self, size: int) -> Iterator[HeldRows]:
        """Yield the rows in blocks of this many, the last one of what is left. One pass.

        Raises as the source does, before whoever adds them up has drawn noise.
        """
        for table in in_blocks(self.source.parts(self.names), size):
            yield self.build(table)

    def answering(self, change: Callable[[Floats], Floats]) -> "PassedRows":
        """Return the rows with other responses. change: of the responses of any rows."""
        return replace(self, build=lambda table: self.build(table).answering(change))


DesignRows = HeldRows | PassedRows
