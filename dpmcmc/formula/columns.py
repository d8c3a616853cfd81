"""The columns of a design: factors, their bounds and groups, and what they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.coding import Column as Coded
from dpmcmc.formula.coding import Piece, Span
from dpmcmc.formula.parse import POINTER

Floats = NDArray[np.float64]
LARGEST_UNIT = 1e200  # of what a coefficient is multiplied by to be in units of columns, and back


class Source(Protocol):
    """What computes the values of a variable that is no plain column."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What it reads."""

    @property
    def square(self) -> float:
        """Largest sum of squares of its values in a row."""

    def values(self, columns: Mapping[str, Floats], /) -> Floats:
        """Return (parts, n)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What a formula names. parts: names of its columns; for categories, of all but the first.

    lower, upper: of each part of a number. source: None for a column as it stands.
    """

    label: str
    columns: tuple[str, ...]
    parts: tuple[str, ...]
    categories: tuple[str, ...] = ()
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    square: float = 1.0
    source: Source | None = None

    @property
    def scaled(self) -> bool:
        """Whether it is a number with units, and no function of a basis."""
        return not self.categories and len(self.parts) == 1


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a term: a number within [-1, 1], or the indicator of a category.

    column: a column's name, or what is computed from some. A number enters as (value - middle) /
    half. lower, upper: of the factor. part: of the values of its source.
    """

    column: str
    code: int | None
    label: str
    lower: float = 0.0
    upper: float = 1.0
    middle: float = 0.0
    half: float = 1.0
    source: Source | None = None
    part: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the schema that it reads."""
        return (self.column,) if self.source is None else self.source.columns


def size_of(every: list[Variable], piece: Piece) -> int:
    """Return how many columns a piece has."""
    return prod(len(every[v].parts) + full for v, full in piece)


class Columns:
    """The columns of all pieces of a formula, one after the other."""

    def __init__(self, every: list[Variable], found: list[Piece], *, centre_all: bool) -> None:
        self._every, self._pieces = every, found
        self._coded: list[Coded] = []
        self._of: list[int] = []
        group: list[int] = []
        for at, piece in enumerate(found):
            for parts in product(*(range(len(every[v].parts)) for v, _ in self._wide(piece))):
                number = len(set(group))
                for coded in self._codes(piece, parts):
                    self._coded.append(coded)
                    self._of.append(at)
                    group.append(number)
        self.group = tuple(group)
        self._span = Span(self._coded, {k: len(v.categories) for k, v in enumerate(every)})
        self._centred = [
            frozenset(v for v, _ in piece if every[v].scaled) if centre_all else self._shifts(at)
            for at, piece in enumerate(found)
        ]
        self._identity = centre_all
        self.factors = tuple(
            tuple(self._factor(at, v, coded) for v, _ in found[at])
            for at, coded in zip(self._of, self._coded, strict=True)
        )
        self.norm = float(np.sqrt(sum(self._square(at) for at in range(len(found)))))

    def _wide(self, piece: Piece) -> list[tuple[int, bool]]:
        """Return the bases: their functions do not exclude each other."""
        every = self._every
        return [(v, f) for v, f in piece if not every[v].categories and not every[v].scaled]

    def _codes(self, piece: Piece, parts: tuple[int, ...]) -> list[Coded]:
        """Return the columns of a piece for these functions of its bases."""
        chosen = {v: part for (v, _), part in zip(self._wide(piece), parts, strict=True)}
        counted = (v for v, _ in piece if not self._every[v].categories)
        numbers = frozenset((v, chosen.get(v, 0)) for v in counted)
        kinds = [(v, full) for v, full in piece if self._every[v].categories]
        ranges = (range(0 if full else 1, len(self._every[v].categories)) for v, full in kinds)
        return [
            (numbers, {v: code for (v, _), code in zip(kinds, codes, strict=True)})
            for codes in product(*ranges)
        ]

    def _shifts(self, at: int) -> frozenset[int]:
        """Return the numbers of a piece that may be centred, as many as may."""
        numbers = [v for v, _ in self._pieces[at] if self._every[v].scaled]
        mine = [coded for of, coded in zip(self._of, self._coded, strict=True) if of == at]
        for size in range(len(numbers), 0, -1):
            for some in combinations(numbers, size):
                if all(self._made_up_for(coded, some) for coded in mine):
                    return frozenset(some)
        return frozenset()

    def _made_up_for(self, coded: Coded, some: tuple[int, ...]) -> bool:
        numbers, codes = coded
        lost = (set(away) for k in range(1, len(some) + 1) for away in combinations(some, k))
        return all(
            self._span.weights(frozenset(n for n in numbers if n[0] not in away), codes) is not None
            for away in lost
        )

    def _factor(self, at: int, v: int, coded: Coded) -> Factor:
        numbers, codes = coded
        variable = self._every[v]
        if variable.categories:
            code = codes[v]
            return Factor(variable.label, code, f"{variable.label}[{variable.categories[code]}]")
        part = dict(numbers)[v]
        low, high = variable.lower[part], variable.upper[part]
        middle, half = _standard(low, high, v in self._centred[at]) if variable.scaled else (0, 1)
        ends = ((low - middle) / half, (high - middle) / half)
        if v in self._centred[at]:
            ends = (-1.0, 1.0)
        return Factor(
            variable.label if variable.source else variable.columns[0],
            None,
            variable.parts[part],
            *ends,
            middle,
            half,
            variable.source,
            part,
        )

    def _square(self, at: int) -> float:
        """Return the largest sum of squares of a piece's columns in a row."""
        one = next(fs for of, fs in zip(self._of, self.factors, strict=True) if of == at)
        square = 1.0
        for (v, _), factor in zip(self._pieces[at], one, strict=True):
            variable = self._every[v]
            if variable.scaled:
                square *= max(factor.lower**2, factor.upper**2)
            elif not variable.categories:
                square *= variable.square
        return square

    def mixing(self) -> tuple[tuple[int, int, float], ...]:
        """Return what each column is made of. Raises SpecError where numbers would overflow."""
        if self._identity:
            return tuple((k, k, 1.0) for k in range(len(self._coded)))
        found: dict[tuple[int, int], float] = {}
        for j, (numbers, codes) in enumerate(self._coded):
            scaled = [f for f in self.factors[j] if f.code is None]
            half = prod(f.half for f in scaled)
            centred = {v: self._middle(j, v) for v in self._centred[self._of[j]]}
            for size in range(len(centred) + 1):
                for away in combinations(centred, size):
                    shift = prod(-centred[v] for v in away)
                    left = frozenset(n for n in numbers if n[0] not in away)
                    for k, weight in (self._span.weights(left, codes) or {}).items():
                        found[k, j] = found.get((k, j), 0.0) + weight * shift / half
            if not (half < np.inf and all(abs(w) < LARGEST_UNIT for w in found.values())):
                why = "are too wide or too narrow; scale the columns and declare their new bounds"
                raise SpecError(POINTER, f"the bounds of {self._name(j)} {why}")
        return tuple((k, j, weight) for (k, j), weight in found.items() if weight)

    def _middle(self, j: int, v: int) -> float:
        where = [u for u, _ in self._pieces[self._of[j]]].index(v)
        return self.factors[j][where].middle

    def _name(self, j: int) -> str:
        return repr(":".join(factor.label for factor in self.factors[j]))


def _standard(low: float, high: float, centred: bool) -> tuple[float, float]:
    """Return what is taken from a number, and what it is divided by."""
    if centred:
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    return 0.0, max(abs(low), abs(high))


def bounds_of(factors: tuple[Factor, ...]) -> tuple[float, float]:
    """Return the ends of a product."""
    low, high = 1.0, 1.0
    for factor in factors:
        ends = [a * b for a in (low, high) for b in (factor.lower, factor.upper)]
        low, high = min(ends), max(ends)
    return low, high
