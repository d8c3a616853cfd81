"""The columns of a design: their factors, bounds and groups."""

from collections.abc import Iterable, Mapping
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
LARGEST_UNIT = 1e200  # factor between standardised coefficients and those in units of columns


class Source(Protocol):
    """A computed variable: arithmetic on columns, a polynomial or a spline."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it is computed from."""

    @property
    def square(self) -> float:
        """Largest sum of squares of its values in a row."""

    def values(self, columns: Mapping[str, Floats], /) -> Floats:
        """Return values (parts, n)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a formula. parts: names of its columns; of categories, all but the reference.

    lower, upper: of each part of a number. source: None for a column as it stands. reference: the
    number of the category that the others are compared with.
    """

    label: str
    columns: tuple[str, ...]
    parts: tuple[str, ...]
    categories: tuple[str, ...] = ()
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    square: float = 1.0
    source: Source | None = None
    reference: int = 0

    @property
    def scaled(self) -> bool:
        """Whether it is one number with units: no categories, no basis of functions."""
        return not self.categories and len(self.parts) == 1


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a term: a number within [-1, 1], or the indicator of a category.

    column: a column's name, or what is computed from some. A number enters as (value - middle) /
    half. lower, upper: of the factor. part: of the values of its source. reference: the number of
    the category that the column's others are compared with.
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
    reference: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the schema that it is computed from."""
        return (self.column,) if self.source is None else self.source.columns


def size_of(variables: list[Variable], piece: Piece) -> int:
    """Return the number of columns of a piece."""
    return prod(len(variables[v].parts) + full for v, full in piece)


class Columns:
    """The columns of all pieces of a formula, in order."""

    def __init__(self, variables: list[Variable], pieces: list[Piece], *, centre_all: bool) -> None:
        self._variables, self._pieces = variables, pieces
        self._codings: list[Coded] = []
        self._of: list[int] = []
        group: list[int] = []
        for number, piece in enumerate(pieces):
            for parts in product(*(range(len(variables[v].parts)) for v, _ in self._wide(piece))):
                block = len(set(group))
                for coded in self._codes(piece, parts):
                    self._codings.append(coded)
                    self._of.append(number)
                    group.append(block)
        self.group = tuple(group)
        self._span = Span(self._codings, {k: len(v.categories) for k, v in enumerate(variables)})
        self._centred = [
            frozenset(v for v, _ in piece if variables[v].scaled)
            if centre_all
            else self._centrable(number)
            for number, piece in enumerate(pieces)
        ]
        self._identity = centre_all
        self.factors = tuple(
            tuple(self._factor(number, v, coded) for v, _ in pieces[number])
            for number, coded in zip(self._of, self._codings, strict=True)
        )
        self.norm = float(np.sqrt(sum(self._square(number) for number in range(len(pieces)))))

    def _wide(self, piece: Piece) -> list[tuple[int, bool]]:
        """Return the bases of a piece, whose functions may all be nonzero in one row."""
        variables = self._variables
        return [(v, f) for v, f in piece if not variables[v].categories and not variables[v].scaled]

    def _codes(self, piece: Piece, parts: tuple[int, ...]) -> list[Coded]:
        """Return the columns of a piece for these functions of its bases."""
        part_of = {v: part for (v, _), part in zip(self._wide(piece), parts, strict=True)}
        numeric = (v for v, _ in piece if not self._variables[v].categories)
        numbers = frozenset((v, part_of.get(v, 0)) for v in numeric)
        categorical = [(v, full) for v, full in piece if self._variables[v].categories]
        ranges = (self._codes_of(v, full=full) for v, full in categorical)
        return [
            (numbers, {v: code for (v, _), code in zip(categorical, codes, strict=True)})
            for codes in product(*ranges)
        ]

    def _codes_of(self, v: int, *, full: bool) -> list[int]:
        """Return the numbers of the categories of a variable that have columns."""
        variable = self._variables[v]
        return [k for k in range(len(variable.categories)) if full or k != variable.reference]

    def _centrable(self, number: int) -> frozenset[int]:
        """Return the largest set of a term's numbers that centring leaves with the same span."""
        numbers = [v for v, _ in self._pieces[number] if self._variables[v].scaled]
        own_columns = [
            coded for piece, coded in zip(self._of, self._codings, strict=True) if piece == number
        ]
        for size in range(len(numbers), 0, -1):
            for subset in combinations(numbers, size):
                if all(self._spanned_without(coded, subset) for coded in own_columns):
                    return frozenset(subset)
        return frozenset()

    def _spanned_without(self, coded: Coded, shifted: tuple[int, ...]) -> bool:
        """Return whether columns span a coded one with any of the shifted numbers left out."""
        numbers, codes = coded
        removed = (
            set(dropped) for k in range(1, len(shifted) + 1) for dropped in combinations(shifted, k)
        )
        return all(
            self._span.weights(frozenset(n for n in numbers if n[0] not in dropped), codes)
            is not None
            for dropped in removed
        )

    def _factor(self, number: int, v: int, coded: Coded) -> Factor:
        """Return the factor of variable v in a coded column of the piece with this number."""
        numbers, codes = coded
        variable = self._variables[v]
        if variable.categories:
            code = codes[v]
            label = f"{variable.label}[{variable.categories[code]}]"
            return Factor(variable.label, code, label, reference=variable.reference)
        part = dict(numbers)[v]
        low, high = variable.lower[part], variable.upper[part]
        middle, half = (
            _standard(low, high, v in self._centred[number]) if variable.scaled else (0, 1)
        )
        bounds = ((low - middle) / half, (high - middle) / half)
        if v in self._centred[number]:
            bounds = (-1.0, 1.0)
        return Factor(
            variable.label if variable.source else variable.columns[0],
            None,
            variable.parts[part],
            *bounds,
            middle,
            half,
            variable.source,
            part,
        )

    def _square(self, number: int) -> float:
        """Return the largest sum of squares of a piece's columns in a row."""
        factors = next(
            fs for piece, fs in zip(self._of, self.factors, strict=True) if piece == number
        )
        square = 1.0
        for (v, _), factor in zip(self._pieces[number], factors, strict=True):
            variable = self._variables[v]
            if variable.scaled:
                square *= max(factor.lower**2, factor.upper**2)
            elif not variable.categories:
                square *= variable.square
        return square

    def mixing(self) -> tuple[tuple[int, int, float], ...]:
        """Return (k, j, weight): column j is the sum of weights times the formula's columns k.

        Raises SpecError where numbers would overflow.
        """
        if self._identity:
            return tuple((k, k, 1.0) for k in range(len(self._codings)))
        weights: dict[tuple[int, int], float] = {}
        for j, (numbers, codes) in enumerate(self._codings):
            scaled = [f for f in self.factors[j] if f.code is None]
            half = prod(f.half for f in scaled)
            centred = {v: self._middle(j, v) for v in self._centred[self._of[j]]}
            for size in range(len(centred) + 1):
                for shifted in combinations(centred, size):
                    shift = prod(-centred[v] for v in shifted)
                    remaining = frozenset(n for n in numbers if n[0] not in shifted)
                    for k, weight in (self._span.weights(remaining, codes) or {}).items():
                        weights[k, j] = weights.get((k, j), 0.0) + weight * shift / half
            if not (half < np.inf and all(abs(w) < LARGEST_UNIT for w in weights.values())):
                reason = (
                    "are too wide or too narrow; scale the columns and declare their new bounds"
                )
                raise SpecError(POINTER, f"the bounds of {self._name(j)} {reason}")
        return tuple((k, j, weight) for (k, j), weight in weights.items() if weight)

    def _middle(self, j: int, v: int) -> float:
        position = [u for u, _ in self._pieces[self._of[j]]].index(v)
        return self.factors[j][position].middle

    def _name(self, j: int) -> str:
        return repr(":".join(factor.label for factor in self.factors[j]))


def _standard(low: float, high: float, centred: bool) -> tuple[float, float]:
    """Return the middle and the half width that standardise a number: (value - middle) / half."""
    if centred:
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    return 0.0, max(abs(low), abs(high))


def bounds_of(factors: Iterable[Factor]) -> tuple[float, float]:
    """Return the bounds (lower, upper) of the product of factors."""
    low, high = 1.0, 1.0
    for factor in factors:
        ends = [a * b for a in (low, high) for b in (factor.lower, factor.upper)]
        low, high = min(ends), max(ends)
    return low, high
