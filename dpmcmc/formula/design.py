"""The public design of a formula and a schema: the bounds of every covariate of a row."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT, coefficient_names
from dpmcmc.formula.bases import Basis
from dpmcmc.formula.coding import pieces
from dpmcmc.formula.columns import Columns, Factor, Source, Variable, bounds_of, size_of
from dpmcmc.formula.grouping import Grouping, grouping_of
from dpmcmc.formula.parse import POINTER, parse
from dpmcmc.formula.smooths import Smooth, check_smooths, smooths_of
from dpmcmc.formula.variables import (
    check_response,
    check_terms,
    column_of,
    expanded_powers,
    is_offset,
    of_response,
    offset_of,
    variables_of,
    with_one_reference,
)
from dpmcmc.inputs.schema import LARGEST_BOUND, Column, NumberColumn, Schema, Table

Floats = NDArray[np.float64]
MAX_PARAMETERS = 200
NARROWEST_BOUNDS = 1e-12  # least distance of a modelled column's bounds
__all__ = [
    "POINTER",
    "Design",
    "check_measured",
    "make_design",
    "number_response",
    "response_of",
]


@dataclass(frozen=True, slots=True)
class Design:
    """The public design matrix. Everything here follows from the formula and the schema alone.

    response: name of the response, empty where there is none. answer: the response's column, or a
    column with its bounds where it is computed. parameters: one name for each of the d columns.
    terms: the factors whose product a column is. lower, upper: (d,) bounds of each column. group:
    (d,) numbers; of the columns of one group at most one is nonzero in any row. max_norm: largest
    Euclidean norm of a row within the bounds. mixing: (k, j, weight): column j is the sum of the
    formula's columns k before centring, times these weights. grouping: of rows, whose effects are
    no columns of the design; None without. smooths: terms s(x), whose columns have an sd in common.
    kind: what beside is, of a response of two: the trials
    of a count of cases, or whether a time ended with an event.
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
    grouping: Grouping | None = None
    kind: Literal["", "trials", "event"] = ""
    beside: Variable | None = None
    smooths: tuple[Smooth, ...] = ()

    @property
    def sds(self) -> tuple[str, ...]:
        """Names of the sds of groups' effects and of smooths, which have priors of their own."""
        grouped = () if self.grouping is None else self.grouping.sds
        return (*(smooth.sd for smooth in self.smooths), *grouped)

    @property
    def beside_families(self) -> tuple[str, ...]:
        """Names of the parameters behind those of the family: of smooths and of groups."""
        grouped = () if self.grouping is None else self.grouping.parameters
        return (*(smooth.sd for smooth in self.smooths), *grouped)

    @property
    def slope(self) -> int:
        """The number of the coefficient that differs by group; 0 where none does."""
        named = "" if self.grouping is None else self.grouping.slope
        return self.parameters.index(named) if named else 0

    @property
    def of_slopes(self) -> tuple[str, ...]:
        """Names of the parameters of groups that are in the unit of their slope."""
        if self.grouping is None or not self.grouping.slope:
            return ()
        return (self.grouping.sds[1], *self.grouping.slopes)

    @property
    def slope_unit(self) -> float:
        """What the standardised slope that differs by group is times in units of the columns."""
        return 1.0 / self.terms[self.slope][0].half if self.slope else 1.0

    @property
    def renamed(self) -> dict[str, str]:
        """Coefficients whose names differ from their terms' (see base.names), by the term."""
        plain_names = (":".join(factor.label for factor in term) for term in self.terms)
        pairs = zip(plain_names, self.parameters, strict=True)
        return {plain_name: name for plain_name, name in pairs if plain_name and plain_name != name}

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns of the schema that a row's covariates and offset are computed from."""
        return tuple(dict.fromkeys([*self.of_terms, *self.grouped_by]))

    @property
    def of_terms(self) -> tuple[str, ...]:
        """The same, of columns and offset of the design alone, without groups."""
        names = [c for term in self.terms for factor in term for c in factor.columns]
        return tuple(dict.fromkeys([*names, *(c for v in self.offsets for c in v.columns)]))

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The columns of the schema whose categories group rows."""
        return () if self.grouping is None else self.grouping.columns

    @property
    def references(self) -> dict[str, int]:
        """Numbers of the categories that others are compared with, by column."""
        return {f.column: f.reference for term in self.terms for f in term if f.code is not None}

    @property
    def read(self) -> tuple[str, ...]:
        """Names of all columns that the formula uses, with the response."""
        if self.answer is None:
            return self.covariates
        answer = (self.answer.name,) if self.computed is None else self.computed.columns
        beside = () if self.beside is None else self.beside.columns
        return tuple(dict.fromkeys((*self.covariates, *answer, *beside)))

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Return (d,): whether a column has 0 and 1 alone, as categories and the intercept do."""
        is_indicator = [all(factor.code is not None for factor in term) for term in self.terms]
        return np.array(is_indicator, np.bool_)

    @property
    def middle_offset(self) -> float:
        """The middle of the public bounds of the offset."""
        return sum(0.5 * v.lower[0] + 0.5 * v.upper[0] for v in self.offsets)

    @property
    def usual_trials(self) -> float:
        """The middle of what trials can be; 1 where there are none."""
        trials = self.beside if self.kind == "trials" else None
        return 1.0 if trials is None else 0.5 * trials.lower[0] + 0.5 * trials.upper[0]

    @property
    def most_trials(self) -> float:
        """The upper end of what trials can be; 1 where there are none."""
        trials = self.beside if self.kind == "trials" else None
        return 1.0 if trials is None else trials.upper[0]

    def offset(self, table: Table) -> Floats:
        """Return the offset (n,) of the linear predictor, clamped to its public bounds."""
        total = np.zeros(table.rows)
        for variable in self.offsets:
            if variable.source is not None:
                values = variable.source.values(_numbers(table, variable.source))[0]
                total += _clamped(values, variable.lower[0], variable.upper[0])
        return total

    @property
    def gappy(self) -> tuple[Column, ...]:
        """The columns of the formula whose values may be missing."""
        gappy = [column for column in self.schema.columns if column.missing]
        return tuple(column for column in gappy if column.name in self.read)

    @property
    def gaps(self) -> bool:
        """Whether rows may be left out: for missing codes, or as a unit may have fewer rows."""
        return bool(self.gappy) or self.schema.unit_rows > 1

    def left_out(self, table: Table) -> NDArray[np.bool_]:
        """Return (n,): whether a row is not in use, or misses a value in a formula's column."""
        out = np.zeros(table.rows, np.bool_) if table.present is None else ~table.present
        for column in self.gappy:
            out |= column.is_missing(table.columns[column.name])
        return out

    def build(self, table: Table) -> tuple[Floats, Floats]:
        """Return (x, y): x (d, n) column-major design, y (n,) response codes or clamped numbers.

        Every entry is clamped to its public bounds. A row that is left out has covariates of 0 and
        a response of NaN.
        """
        with np.errstate(all="ignore"):  # a missing code may have no logarithm
            x, y = self._built(table)
        if self.gaps:
            out = self.left_out(table)
            x[:, out], y = 0.0, np.where(out, np.nan, y)
        return x, y

    def _built(self, table: Table) -> tuple[Floats, Floats]:
        """Return (x, y) with the missing codes still as numbers."""
        x, computed = np.empty((len(self.parameters), table.rows)), dict[Source, Floats]()
        for row, factors in zip(x, self.terms, strict=True):
            if not factors:
                row[:] = 1.0
                continue
            _fill(row, table, factors[0], computed)
            for factor in factors[1:]:
                row *= _fill(np.empty_like(row), table, factor, computed)
        return x, self.responses(table)

    def responses(self, table: Table) -> Floats:
        """Return responses (n,) of all rows, also those left out; zeros without a response."""
        answer = self.answer
        if answer is None:
            return np.zeros(table.rows)
        if self.computed is not None:
            values = self.computed.values(_numbers(table, self.computed))[0]
        else:
            values = table.columns[answer.name]
        if isinstance(answer, NumberColumn):
            return _clamped(values, answer.lower, answer.upper)
        return _clamped(values, 0, len(answer.categories) - 1)

    def besides(self, table: Table) -> Floats:
        """Return (n,) what stands beside the responses, within its public bounds."""
        if self.beside is None:
            return np.ones(table.rows)
        low, high = self.beside.lower, self.beside.upper
        if self.beside.categories:
            low, high = (0.0,), (len(self.beside.categories) - 1.0,)
        if not self.beside.columns:
            return np.full(table.rows, low[0])
        if self.beside.source is None:
            return _clamped(table.columns[self.beside.columns[0]], low[0], high[0])
        with np.errstate(all="ignore"):
            values = self.beside.source.values(_numbers(table, self.beside.source))[0]
        return _clamped(values, low[0], high[0])


def _fill(out: Floats, table: Table, factor: Factor, computed: dict[Source, Floats]) -> Floats:
    """Write the values of a factor into out (n,). computed: by source, kept for the next factor."""
    source = factor.source
    if factor.code is not None:
        np.equal(table.columns[factor.column], factor.code, out=out)
        return out
    if source is None:
        values = table.columns[factor.column]
    else:
        if source not in computed:
            computed[source] = source.values(_numbers(table, source))
        values = computed[source][factor.part]
    np.subtract(values, factor.middle, out=out)
    np.divide(out, factor.half, out=out)
    return _clip(out, factor.lower, factor.upper)


def _numbers(table: Table, source: Source) -> dict[str, Floats]:
    return {name: table.columns[name].astype(np.float64) for name in source.columns}


def _clamped(values: NDArray[np.generic], low: float, high: float) -> Floats:
    return _clip(values.astype(np.float64), low, high)


def _clip(values: Floats, low: float, high: float) -> Floats:
    """Clip values (n,) in place; NaN becomes low. As np.fmax and np.fmin, in half the time."""
    np.clip(values, low, high, out=values)
    if math.isnan(np.dot(values, values)):
        values[np.isnan(values)] = low
    return values


def check_measured(column: NumberColumn, largest_bound: float = LARGEST_BOUND) -> None:
    """Raise SpecError where a modelled column's bounds are too large or too close together."""
    width, largest = column.upper - column.lower, max(abs(column.lower), abs(column.upper))
    if not (width >= NARROWEST_BOUNDS and largest <= largest_bound):
        raise SpecError(
            POINTER,
            f"the bounds of {column.name!r} must lie within +-{largest_bound:g} and at least "
            f"{NARROWEST_BOUNDS:g} apart for this model; scale the column and declare its new "
            "bounds",
        )


def number_response(design: Design, model: str) -> NumberColumn:
    """Return the response's column. Raises SpecError where it is not a number. model: in words."""
    response = response_of(design)
    if not isinstance(response, NumberColumn):
        raise SpecError(POINTER, f"{model} needs a number as its response")
    return response


def response_of(design: Design) -> Column:
    """Return the response's column. Raises SpecError where the formula has no response."""
    if design.answer is None:
        raise SpecError(POINTER, "this model needs a response: write response ~ covariates")
    return design.answer


@lru_cache(maxsize=256)  # a model is planned at many budgets
def make_design(schema: Schema, formula: str) -> Design:
    """Return the design of a formula over a schema. Grammar: docs/guides/formulas.md.

    Numbers are standardised by their declared bounds to [-1, 1]; categories are treatment coded
    with the first declared one as the reference, or the one that `C(g, ref="b")` names. `~ a + b`
    has no response and no intercept. `y ~ .` has all other columns.
    No part of a formula is executed, and a design does not depend on the data.
    Raises SpecError, which names the term and the remedy.
    """
    parsed = parse(formula, tuple(column.name for column in schema.columns))
    offsets = tuple(offset_of(schema, term[0]) for term in parsed.terms if is_offset(term))
    parts = [term for term in parsed.terms if not is_offset(term)]
    terms = with_one_reference([variables_of(schema, term) for term in expanded_powers(parts)])
    answer, beside = None, None
    kind: Literal["", "trials", "event"] = ""
    if parsed.response is not None:
        answer, kind, beside = of_response(schema, parsed.response, parsed.beside)
    if answer is None:
        terms = [term for term in terms if term]
        if offsets:
            raise SpecError(POINTER, "an offset needs a response")
    else:
        both = [answer, beside] if beside is not None and kind == "event" else [answer]
        for variable in both:
            check_response(variable, [*terms, list(offsets)])
    check_terms(terms)
    check_smooths(terms)
    design = _assembled(schema, answer, terms, offsets)
    design = replace(design, kind=kind, beside=beside)
    numbers = tuple(
        name
        for name, term in zip(design.parameters, design.terms, strict=True)
        if len(term) == 1 and term[0].code is None and not isinstance(term[0].source, Basis)
    )
    grouping = grouping_of(schema, parsed.groups, design.read, numbers)
    if grouping is not None and design.parameters[0] != INTERCEPT:
        raise SpecError(
            POINTER, "groups need an intercept, which is their mean: leave out 0 or - 1"
        )
    if grouping is not None and design.smooths:
        smooth = design.smooths[0]
        message = f"{smooth.term} beside groups is not available: write {smooth.without_penalty}"
        raise SpecError(POINTER, message)
    return replace(design, grouping=grouping)


def _assembled(
    schema: Schema,
    answer: Variable | None,
    terms: list[list[Variable]],
    offsets: tuple[Variable, ...],
) -> Design:
    """Return the design of these terms. Raises SpecError on none or too many parameters."""
    variables = list(dict.fromkeys(variable for term in terms for variable in term))
    number_of = {variable: k for k, variable in enumerate(variables)}
    categorical = frozenset(k for k, variable in enumerate(variables) if variable.categories)
    all_pieces = [
        part
        for term_pieces in pieces([[number_of[v] for v in t] for t in terms], categorical)
        for part in term_pieces
    ]
    count = sum(size_of(variables, piece) for piece in all_pieces)
    if not 1 <= count <= MAX_PARAMETERS:
        raise SpecError(POINTER, f"{count} parameters; 1 to {MAX_PARAMETERS} are allowed")
    columns = Columns(variables, all_pieces, centre_all=answer is None)
    factors = columns.factors
    bounds = [bounds_of(fs) for fs in factors]
    response, computed = _response_column(schema, answer)
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
        smooths=smooths_of(factors),
    )


def _response_column(
    schema: Schema, variable: Variable | None
) -> tuple[Column | None, Source | None]:
    """Return the column of the response, and what it is computed from if it is."""
    if variable is None or variable.source is None:
        return (None if variable is None else column_of(schema, variable.columns[0])), None
    column = NumberColumn(name=variable.label, lower=variable.lower[0], upper=variable.upper[0])
    return column, variable.source
