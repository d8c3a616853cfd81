"""The levels of a column in a contingency table: declared categories, or bins of declared bounds.

Levels follow from public facts alone, never from the rows.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.errors import SpecError, near
from dpmcmc.schema import Column, NumberColumn, Schema, Table

Integers = NDArray[np.int64]
Bins = int | Sequence[float]
BINS, MOST_BINS = 10, 4096
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Axis:
    """One column of a contingency table. edges: of its bins, increasing; None of categories.

    Bins are closed on the left, the last one on both sides. A number column with missing codes has
    one level more, behind the bins.
    """

    column: Column
    labels: tuple[str, ...]
    edges: tuple[float, ...] | None = None

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def size(self) -> int:
        """How many levels there are."""
        return len(self.labels)

    def codes(self, table: Table) -> Integers:
        """Return the level of each row, (rows,)."""
        values = table.columns[self.name]
        if not isinstance(self.column, NumberColumn) or self.edges is None:
            return values.astype(np.int64)
        numbers = values.astype(np.float64)
        inner = np.searchsorted(np.array(self.edges[1:-1]), numbers, side="right")
        missing = self.column.is_missing(numbers)
        return np.where(missing, len(self.edges) - 1, inner).astype(np.int64)


def axis(column: Column, bins: Bins = BINS) -> Axis:
    """Return the levels of a column. bins: how many of equal width, or inner edges of bins.

    Raises SpecError on bins that do not lie within the declared bounds.
    """
    if not isinstance(column, NumberColumn):
        return Axis(column, column.categories)
    edges = _edges(column, bins)
    pairs = itertools.pairwise(edges)
    labels = tuple(f"{low:g} to {high:g}" for low, high in pairs)
    return Axis(column, (*labels, MISSING) if column.missing else labels, edges)


def _edges(column: NumberColumn, bins: Bins) -> tuple[float, ...]:
    if isinstance(bins, int):
        if not 1 <= bins <= MOST_BINS:
            raise SpecError(f"/bins/{column.name}", f"must be 1 to {MOST_BINS} bins")
        edges = np.linspace(column.lower, column.upper, bins + 1).tolist()
    else:
        edges = [column.lower, *(float(edge) for edge in bins), column.upper]
    if not all(low < high for low, high in itertools.pairwise(edges)):
        raise SpecError(f"/bins/{column.name}", "must increase, within the declared bounds")
    return tuple(edges)


def axes(schema: Schema, names: Sequence[str], bins: Mapping[str, Bins]) -> tuple[Axis, ...]:
    """Return the axes of these columns. Raises SpecError on a name that is not declared."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SpecError("/columns", 'must be a list of names, such as ("age", "sex")')
    known = {column.name: column for column in schema.columns}
    strange = [name for name in (*names, *bins) if name not in known]
    if strange:
        guess = near(str(strange[0]), known)
        raise SpecError("/columns", f"{strange[0]!r} is not a declared column{guess}")
    if len(set(names)) < len(names):
        raise SpecError("/columns", "must be distinct")
    return tuple(axis(known[name], bins.get(name, BINS)) for name in names)
