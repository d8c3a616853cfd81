"""The levels of a column in a contingency table: declared categories, or bins of declared bounds.

Levels follow from public facts alone, never from the rows.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, is_number, near
from dpmcmc.inputs.schema import Column, DateColumn, NumberColumn, Schema, Table, day_of

Integers = NDArray[np.int64]
Bins = int | Sequence[float]
BINS, MOST_BINS = 10, 4096
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Axis:
    """One column of a contingency table. edges: of its bins, increasing; None of categories.

    Bins are closed on the left, the last one on both sides; those of whole numbers end halfway
    between two. Behind the bins of a number column there is a level for each spike. Where values
    may be missing the last level is theirs.
    """

    column: Column
    labels: tuple[str, ...]
    edges: tuple[float, ...] | None = None
    spikes: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.labels)

    @property
    def bins(self) -> int:
        """Number of levels that are bins."""
        return 0 if self.edges is None else len(self.edges) - 1

    def codes(self, table: Table) -> Integers:
        """Return the level (rows,) of each row."""
        values = table.columns[self.name]
        if not isinstance(self.column, NumberColumn) or self.edges is None:
            return values.astype(np.int64)  # that of no value is the last one
        numbers = values.astype(np.float64)
        level = np.searchsorted(np.array(self.edges[1:-1]), numbers, side="right")
        for k, spike in enumerate(self.spikes):
            level = np.where(numbers == spike, self.bins + k, level)
        missing = self.column.is_missing(numbers)
        return np.where(missing, self.bins + len(self.spikes), level).astype(np.int64)


def axis(column: Column, bins: Bins = BINS, *, spikes: bool = True) -> Axis:
    """Return the levels of a column. bins: their number, of equal width, or inner edges.

    spikes: whether those of the column have a level each. A bin of whole numbers that holds a spike
    alone is its level. Raises SpecError on bins that do not lie within the declared bounds.
    """
    if not isinstance(column, NumberColumn):
        missing = MISSING if MISSING not in column.categories else f"{MISSING}, without a value"
        return Axis(column, (*column.categories, *([missing] if column.missing else [])))
    edges = _edges(column, bins)
    pairs = list(itertools.pairwise(edges))
    if column.integer:
        word: Callable[[float], object] = int
        if isinstance(column, DateColumn):
            word = column.date_of
        ends = [(str(word(math.ceil(low))), str(word(math.floor(high)))) for low, high in pairs]
        labels = [low if low == high else f"{low} to {high}" for low, high in ends]
    else:
        labels = [f"{low} to {high}" for low, high in itertools.pairwise(_texts(edges))]
    apart: tuple[float, ...] = ()
    if spikes:
        alone = [low for low, high in pairs if column.integer and high - low == 1.0]
        apart = tuple(s for s in column.spikes if s - 0.5 not in alone)
        labels += (
            [str(word(day)) for day in apart] if isinstance(column, DateColumn) else _texts(apart)
        )
    return Axis(column, (*labels, *([MISSING] if column.missing else [])), edges, apart)


def _texts(numbers: Sequence[float]) -> list[str]:
    """Return numbers as text, with the fewest digits that tell them apart."""
    for digits in range(6, 17):
        words = [f"{number:.{digits}g}" for number in numbers]
        if len(set(words)) == len(numbers):
            return words
    return [f"{number:.17g}" for number in numbers]


def _edges(column: NumberColumn, bins: Bins) -> tuple[float, ...]:
    """Return the edges of a number column's bins, outer bounds included."""
    if isinstance(bins, int):
        if not 1 <= bins <= MOST_BINS:
            raise SpecError(f"/bins/{column.name}", f"must be 1 to {MOST_BINS} bins")
        edges = np.linspace(column.lower, column.upper, bins + 1).tolist()
    elif isinstance(column, DateColumn) and isinstance(bins, Sequence) and all(map(day_of, bins)):
        edges = [column.lower, *(column.number_of(edge) for edge in bins), column.upper]
    elif isinstance(bins, str) or not isinstance(bins, Sequence) or not all(map(is_number, bins)):
        raise SpecError(f"/bins/{column.name}", "must be a whole number, or inner edges in a list")
    else:
        edges = [column.lower, *(float(edge) for edge in bins), column.upper]
    if column.integer:
        edges = _between(column, edges, even=isinstance(bins, int))
    if not all(low < high for low, high in itertools.pairwise(edges)):
        raise SpecError(f"/bins/{column.name}", "must increase, within the declared bounds")
    return tuple(edges)


def _between(column: NumberColumn, edges: Sequence[float], *, even: bool) -> list[float]:
    """Return edges of bins of whole numbers, halfway between adjacent ones.

    even: whether they are of equal width, or of one number each where there are no more numbers.
    """
    count = column.upper - column.lower + 1.0
    if even:
        bins = int(min(len(edges) - 1.0, count))
        inner = [column.lower + round(k * count / bins) for k in range(1, bins)]
    else:
        inner = [math.ceil(edge) for edge in edges[1:-1]]
    return [column.lower - 0.5, *(edge - 0.5 for edge in inner), column.upper + 0.5]


def axes(
    schema: Schema, names: Sequence[str], bins: Mapping[str, Bins], *, spikes: bool = True
) -> tuple[Axis, ...]:
    """Return the axes of these columns. Raises SpecError on a name that is not declared."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SpecError("/columns", 'must be a list of names, such as ("age", "sex")')
    if not isinstance(bins, Mapping):
        raise SpecError("/bins", 'must be bins by column, such as {"age": 10}')
    known = {column.name: column for column in schema.columns}
    strange = [name for name in (*names, *bins) if name not in known]
    if strange:
        guess = near(str(strange[0]), known)
        raise SpecError("/columns", f"{strange[0]!r} is not a declared column{guess}")
    if len(set(names)) < len(names):
        raise SpecError("/columns", "must be distinct")
    return tuple(axis(known[name], bins.get(name, BINS), spikes=spikes) for name in names)
