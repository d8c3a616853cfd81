"""The rows of a design, in memory or computed again at every pass."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.target import Floats
from dpmcmc.inputs.blocks import Blocks, Steps, summed
from dpmcmc.inputs.streamed import AnyRows, summed_rows

# covariates and responses, 128 MiB of them, that are computed once and held; and so many times that
# of rows that are in memory themselves
HELD_NUMBERS, BESIDE_ROWS = 2**24, 2
# A block of these stays in a core's second cache, and its arrays below what the allocator returns
# to the system, which clears their pages anew for each block: a third of the time in blocks of
# 2^19. In smaller ones threads wait for their turns at the interpreter.
BLOCK_NUMBERS, FEWEST_ROWS, MOST_ROWS = 2**17, 4096, 16_384
THREADS_NUMBERS = 2**19  # covariates and responses, from which on several threads share them
SOME_BLOCKS = 4  # at least, of so many rows, so that threads share them


def is_held(rows: int, width: int, *, in_memory: bool = False) -> bool:
    """Return whether covariates are few enough to be kept in memory. in_memory: of rows there."""
    return rows * (width + 1) <= HELD_NUMBERS * (BESIDE_ROWS if in_memory else 1)


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

    def blocks(self, size: int) -> "Blocks[HeldRows]":
        """Return the rows in blocks of `size`, the last one shorter."""
        few = self.rows * (self.width + 1) < THREADS_NUMBERS
        return Blocks(lambda change: summed(self._each(size), change, few=few))

    def _each(self, size: int) -> Iterator["HeldRows"]:
        """Yield the blocks of `size` rows."""
        for start in range(0, self.rows, size):
            block = slice(start, start + size)
            counted = None if self.counted is None else self.counted[block]
            cells = None if self.cells is None else self.cells[block]
            yield HeldRows(self.x[:, block], self.y[block], counted, cells)

    def answering(self, change: Callable[[Floats], Floats]) -> "HeldRows":
        """Return the rows with transformed responses. change: maps responses to responses."""
        return replace(self, y=change(self.y))


@dataclass(frozen=True, slots=True)
class PassedRows:
    """Rows that are read again and computed at each pass. See HeldRows.

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

    def blocks(self, size: int) -> Blocks[HeldRows]:
        """Return the rows in blocks of this many, the last one of what is left.

        A sum raises as the source does, before whoever asks for it has drawn noise.
        """
        return Blocks(partial(summed_rows, self.source, self.names, size), Steps((self.build,)))

    def answering(self, change: Callable[[Floats], Floats]) -> "PassedRows":
        """Return the rows with transformed responses. change: maps responses to responses."""
        return replace(self, build=Steps((self.build, partial(_answering, change))))


def _answering(change: Callable[[Floats], Floats], rows: HeldRows) -> HeldRows:
    """Return one block of rows with transformed responses."""
    return rows.answering(change)


DesignRows = HeldRows | PassedRows


def block_rows(rows: DesignRows, unit_rows: int = 1, classes: int = 1) -> int:
    """Return the number of rows of a block, in which no unit is split.

    It follows from public facts. unit_rows: of a unit of privacy. classes: predictors of a row.
    """
    most = min(BLOCK_NUMBERS // (classes * (rows.width + 1)), MOST_ROWS)
    size = max(min(most, rows.rows // SOME_BLOCKS), FEWEST_ROWS // classes, 1)
    return max(size // unit_rows, 1) * unit_rows
