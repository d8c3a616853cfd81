"""Rows that are read again at every pass, in pieces, to bound memory."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import numpy as np

from dpmcmc.base.private import PermitError
from dpmcmc.inputs.blocks import Floats, summed
from dpmcmc.inputs.schema import Schema, Table

Names = Sequence[str]


class Streamed:
    """Rows of a schema, stored elsewhere; always inside Private, as a Table is.

    rows: how many. Serves the process that made it, as the permit does that opened it.
    """

    def __init__(
        self,
        schema: Schema,
        read: Callable[[Names], Iterator[Table]],
        elsewhere: "Elsewhere | None" = None,
    ) -> None:
        """read: (names) -> tables of these columns alone, in order.

        It is called once for a pass, and may raise while its tables are taken. elsewhere: what sums
        where the rows lie, see `summed`; None: this process does.
        """
        self.rows = schema.rows
        self._read, self._elsewhere, self._process = read, elsewhere, os.getpid()

    def parts(self, names: Names) -> Iterator[Table]:
        """Yield the rows in order, in tables of these columns. One pass.

        Raises PermitError in another process, what reading raises, and ValueError where the number
        of rows is not that of the schema.
        """
        if os.getpid() != self._process:  # a fork would read on for the same payment
            raise PermitError("these rows were opened in another process, which may read them")
        rows = 0
        for part in self._read(names):
            rows += part.rows
            yield part
        if rows != self.rows:
            raise ValueError("the rows have changed since they were counted")

    def summed(self, names: Names, size: int, change: Callable[[Table], Floats]) -> Floats:
        """Return the sum of change(table) over tables of `size` rows. One pass.

        What it makes are whole numbers: the sum has the same bits wherever parts of it are made.
        change: takes only public numbers along. Raises as `parts` does.
        """
        if self._elsewhere is None or os.getpid() != self._process:
            return summed(in_blocks(self.parts(names), size), change)
        return self._elsewhere(names, size, change)

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("opened rows are not serialised")

    def whole(self, names: Names) -> Table:
        """Return all rows in one table of these columns. Raises as `parts` does."""
        columns: dict[str, np.ndarray] = {}
        present, at = None, 0
        for part in self.parts(names):
            block = slice(at, at + part.rows)
            for name, values in part.columns.items():
                columns.setdefault(name, np.empty(self.rows, values.dtype))[block] = values
            if part.present is not None:
                present = np.empty(self.rows, np.bool_) if present is None else present
                present[block] = part.present
            at += part.rows
        return Table(columns, self.rows, present)

    def within(self, schema: Schema) -> "Streamed":
        """Return the rows that a schema with fewer rows of each unit has.

        Raises ValueError where that is none of these rows, depending on numbers of rows alone.
        """
        if self.rows == schema.rows:
            return self
        several = self.rows // max(schema.units, 1)
        Table({}, self.rows).within(schema)  # which refuses it, or not

        def read(names: Names) -> Iterator[Table]:
            """Yield the tables with the first rows of each unit."""
            for part in in_blocks(self.parts(names), PIECE_UNITS * several):
                yield part.first_of_units(several, schema.unit_rows)

        return Streamed(schema, read)


# (names, rows of a block, change) -> the sum over blocks, see Streamed.summed
Elsewhere = Callable[[Names, int, Callable[[Table], Floats]], Floats]
PIECE_UNITS = 4096  # units at a time, of which some rows are taken
PIECE_ROWS = 2**18  # rows at a time that are counted
AnyRows = Table | Streamed


def pieces(rows: AnyRows, names: Names) -> Iterator[Table]:
    """Yield rows in a few tables, whose counts add up. One pass."""
    return in_blocks(rows.parts(names), PIECE_ROWS)


def summed_rows(
    rows: AnyRows, names: Names, size: int, change: Callable[[Table], Floats]
) -> Floats:
    """Return the sum of change(table) over tables of `size` rows. One pass.

    Raises as `parts` does.
    """
    if isinstance(rows, Streamed):
        return rows.summed(names, size, change)
    return summed(in_blocks(rows.parts(names), size), change)


def in_blocks(parts: Iterator[Table], size: int) -> Iterator[Table]:
    """Yield the rows in tables of `size` rows, the last one shorter."""
    pending, held = list[Table](), 0
    for part in parts:
        at = 0
        while held + part.rows - at >= size:
            end = at + size - held
            yield _joined([*pending, part.between(at, end)])
            pending, held, at = [], 0, end
        if at < part.rows:
            pending.append(part.between(at, part.rows))
            held += part.rows - at
    if held:
        yield _joined(pending)


def _joined(tables: Sequence[Table]) -> Table:
    """Return the concatenation of tables."""
    if len(tables) == 1:
        return tables[0]
    columns = {
        name: np.concatenate([table.columns[name] for table in tables])
        for name in tables[0].columns
    }
    used = [table.present for table in tables if table.present is not None]
    present = np.concatenate(used) if used else None
    return Table(columns, sum(table.rows for table in tables), present)
