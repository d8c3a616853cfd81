"""The public design of a formula and a schema: the bounds of every covariate of a row."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import coefficient_names
from dpmcmc.formula.coding import pieces
from dpmcmc.formula.columns import Columns, Factor, Source, Variable, bounds_of, size_of
from dpmcmc.formula.parse import POINTER, parse
from dpmcmc.formula.variables import (
    check_response,
    check_terms,
    column_of,
    expanded_powers,
    is_offset,
    offset_of,
    response_variable,
    variables_of,
)
from dpmcmc.inputs.schema import LARGEST_BOUND, Column, NumberColumn, Schema, Table

Floats = NDArray[np.float64]
MAX_PARAMETERS = 200
NARROWEST_BOUNDS = 1e-12  # distance of its bounds
__all__ = ["POINTER", "Design", "check_measured", "make_design", "response_of"]


@dataclass(frozen=True, slots=True)
class Design:
    """The public design matrix. Everything here follows from the formula and the schema alone.

    response: name of the response, empty where there is none. answer: its column, or what its
    values are like where they are computed. parameters: one name per column. terms: the factors
    whose product the column is. lower, upper: (d,) bounds of each column. group: (d,) which columns
    exclude each other; at most one column of a group is different from zero in any row. max_norm:
    largest Euclidean norm that a row within the bounds can have. mixing: (k, j, weight): column j
    is the sum of the formula's columns k as they stand, times these weights.
    """

    response: str
    parameters: tuple[str, ...]
    terms: tuple[tuple[Factor, ...], ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    group: tuple[int, ...]
    schema: Schema
    max_norm: float
    mixing: tuple[tuple[int, int, float], ...]
    answer: Column | None = None
    computed: Source | None = None
    offsets: tuple[Variable, ...] = ()

    @property
    def renamed(self) -> dict[str, str]:
        """The coefficients that are called otherwise than their columns, by what they are of."""
        plain = (":".join(factor.label for factor in term) for term in self.terms)
        pairs = zip(plain, self.parameters, strict=True)
        return {word: name for word, name in pairs if word and word != name}

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns of the schema that a row's covariates and offset are computed from."""
        names = [c for term in self.terms for factor in term for c in factor.columns]
        return tuple(dict.fromkeys([*names, *(c for v in self.offsets for c in v.columns)]))

    @property
    def read(self) -> tuple[str, ...]:
        """All columns of the schema that the formula reads."""
        if self.answer is None:
            return self.covariates
        answer = (self.answer.name,) if self.computed is None else self.computed.columns
        return (*self.covariates, *answer)

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Return (d,) whether a column holds 0 and 1 alone: categories, and the intercept."""
        told = [all(factor.code is not None for factor in term) for term in self.terms]
        return np.array(told, np.bool_)

    @property
    def middle_offset(self) -> float:
        """The middle of the public bounds of what is added to a row's predictor."""
        return sum(0.5 * v.lower[0] + 0.5 * v.upper[0] for v in self.offsets)

    def offset(self, table: Table) -> Floats:
        """Return (n,), what is added to each row's predictor, forced into its public bounds."""
        total = np.zeros(table.rows)
        for variable in self.offsets:
            if variable.source is not None:
                values = variable.source.values(_numbers(table, variable.source))[0]
                total += _clamped(values, variable.lower[0], variable.upper[0])
        return total

    @property
    def gappy(self) -> tuple[NumberColumn, ...]:
        """The columns of the formula that have missing codes: their rows may be left out."""
        numbers = [column for column in self.schema.columns if isinstance(column, NumberColumn)]
        return tuple(column for column in numbers if column.missing and column.name in self.read)

    def left_out(self, table: Table) -> NDArray[np.bool_]:
        """Return (n,) whether a row has a missing code in a column of the formula."""
        out = np.zeros(table.rows, np.bool_)
        for column in self.gappy:
            out |= column.is_missing(table.columns[column.name])
        return out

    def build(self, table: Table) -> tuple[Floats, Floats]:
        """Return (x, y): x (d, n) column-major design, y (n,) response codes or clamped numbers.

        Every entry is forced into its public bounds, so no table can leave them. A row that is left
        out has covariates of 0, and a response that is not a number.
        """
        with np.errstate(all="ignore"):  # a missing code may have no logarithm
            x, y = self._built(table)
        if self.gappy:
            out = self.left_out(table)
            x[:, out], y = 0.0, np.where(out, np.nan, y)
        return x, y

    def _built(self, table: Table) -> tuple[Floats, Floats]:
        """Return (x, y) as if no row were left out."""
        x, made = np.empty((len(self.parameters), table.rows)), dict[Source, Floats]()
        for row, factors in enumerate(self.terms):
            x[row] = 1.0
            for factor in factors:
                x[row] *= _values(table, factor, made)
        return x, self.responses(table)

    def responses(self, table: Table) -> Floats:
        """Return (n,) responses as if no row were left out; zeros where there are none."""
        answer = self.answer
        if answer is None:
            return np.zeros(table.rows)
        if self.computed is not None:
            told = self.computed.values(_numbers(table, self.computed))[0]
        else:
            told = table.columns[answer.name]
        if isinstance(answer, NumberColumn):
            return _clamped(told, answer.lower, answer.upper)
        return _clamped(told, 0, len(answer.categories) - 1)


def _values(table: Table, factor: Factor, made: dict[Source, Floats]) -> Floats:
    """made: what was computed before, which grows."""
    source = factor.source
    if factor.code is not None:
        indicator: NDArray[np.bool_] = table.columns[factor.column] == factor.code
        return indicator.astype(np.float64)
    if source is None:
        values = table.columns[factor.column]
    else:
        if source not in made:
            made[source] = source.values(_numbers(table, source))
        values = made[source][factor.part]
    return _clamped((values - factor.middle) / factor.half, factor.lower, factor.upper)


def _numbers(table: Table, source: Source) -> dict[str, Floats]:
    return {name: table.columns[name].astype(np.float64) for name in source.columns}


def _clamped(values: NDArray[np.generic], low: float, high: float) -> Floats:
    return np.fmin(np.fmax(values.astype(np.float64), low), high)


def check_measured(column: NumberColumn, largest_bound: float = LARGEST_BOUND) -> None:
    """Refuse bounds that nothing can be computed with, where a model needs them: SpecError."""
    width, largest = column.upper - column.lower, max(abs(column.lower), abs(column.upper))
    if not (width >= NARROWEST_BOUNDS and largest <= largest_bound):
        raise SpecError(
            POINTER,
            f"the bounds of {column.name!r} must lie within +-{largest_bound:g} and at least "
            f"{NARROWEST_BOUNDS:g} apart for this model; scale the column and declare its new "
            "bounds",
        )


def response_of(design: Design) -> Column:
    """Return the response's column. Raises SpecError where the formula has no response."""
    if design.answer is None:
        raise SpecError(POINTER, "this model needs a response: write response ~ covariates")
    return design.answer


@lru_cache(maxsize=256)  # the same question is planned at one budget after the other
def make_design(schema: Schema, formula: str) -> Design:
    """Return the design of a formula over a schema. Grammar: docs/guides/formulas.md.

    Numbers are standardised by their declared bounds to [-1, 1]; categories are treatment coded
    with the first declared one as the reference. `~ a + b` has no response and no intercept.
    Nothing in a formula is ever evaluated, and nothing of the data enters a design.
    Raises SpecError.
    """
    parsed = parse(formula)
    offsets = tuple(offset_of(schema, term[0]) for term in parsed.terms if is_offset(term))
    parts = [term for term in parsed.terms if not is_offset(term)]
    terms = [variables_of(schema, term) for term in expanded_powers(parts)]
    answer = None if parsed.response is None else response_variable(schema, parsed.response)
    if answer is None:
        terms = [term for term in terms if term]
        if offsets:
            raise SpecError(POINTER, "an offset needs a response")
    else:
        check_response(answer, [*terms, list(offsets)])
    check_terms(terms)
    return _made(schema, answer, terms, offsets)


def _made(
    schema: Schema,
    answer: Variable | None,
    terms: list[list[Variable]],
    offsets: tuple[Variable, ...],
) -> Design:
    every = list(dict.fromkeys(variable for term in terms for variable in term))
    place = {variable: k for k, variable in enumerate(every)}
    kinds = frozenset(k for k, variable in enumerate(every) if variable.categories)
    found = [one for more in pieces([[place[v] for v in t] for t in terms], kinds) for one in more]
    count = sum(size_of(every, piece) for piece in found)
    if not 1 <= count <= MAX_PARAMETERS:
        raise SpecError(POINTER, f"{count} parameters; 1 to {MAX_PARAMETERS} are allowed")
    columns = Columns(every, found, centre_all=answer is None)
    factors = columns.factors
    bounds = [bounds_of(fs) for fs in factors]
    response, computed = _answer(schema, answer)
    return Design(
        response="" if response is None else response.name,
        parameters=coefficient_names([[factor.label for factor in term] for term in factors]),
        terms=factors,
        lower=tuple(low for low, _ in bounds),
        upper=tuple(high for _, high in bounds),
        group=columns.group,
        schema=schema,
        max_norm=columns.norm,
        mixing=columns.mixing(),
        answer=response,
        computed=computed,
        offsets=offsets,
    )


def _answer(schema: Schema, found: Variable | None) -> tuple[Column | None, Source | None]:
    if found is None or found.source is None:
        return (None if found is None else column_of(schema, found.columns[0])), None
    column = NumberColumn(name=found.label, lower=found.lower[0], upper=found.upper[0])
    return column, found.source
