"""A formula and a schema become a public design: what every row's covariates can be."""

import re
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.errors import SpecError
from dpmcmc.schema import BinaryColumn, CategoryColumn, Column, NumberColumn, Schema, Table

POINTER = "/model/formula"
MAX_LENGTH = 2000
MAX_PARAMETERS = 200
MAX_CROSSINGS = 4
FURTHEST = 1e50  # of a number that is modelled: sums of its squares stay finite
_QUOTED = re.compile(r"`[^`]+`")
_CATEGORICAL = re.compile(r"C\(\s*(\w+)\s*\)")
_PLAIN = re.compile(r"[\w\s~+\-*:]*")


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a term: a number standardised to [-1, 1], or the indicator of a category."""

    column: str
    code: int | None
    label: str


@dataclass(frozen=True, slots=True)
class Design:
    """The public design matrix. Everything here follows from the formula and the schema alone.

    response: name of the response column, empty where there is none.
    parameters: one name per column. terms: the factors whose product the column is.
    lower, upper: (d,) bounds of each column. group: (d,) term of each column; at most one column
    of a term with categories is different from zero in any row.
    """

    response: str
    parameters: tuple[str, ...]
    terms: tuple[tuple[Factor, ...], ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    group: tuple[int, ...]
    schema: Schema

    @property
    def max_norm(self) -> float:
        """Largest Euclidean norm that a row within the bounds can have."""
        largest: dict[int, float] = {}
        for low, high, group in zip(self.lower, self.upper, self.group, strict=True):
            largest[group] = max(largest.get(group, 0.0), low * low, high * high)
        return float(np.sqrt(sum(largest.values())))

    def build(self, table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (x, y): x (d, n) column-major design, y (n,) response codes or clamped numbers.

        Every entry is forced into its public bounds, so no table can leave them.
        """
        x = np.empty((len(self.parameters), table.rows))
        for row, factors in enumerate(self.terms):
            x[row] = 1.0
            for factor in factors:
                x[row] *= self._values(table, factor)
        if not self.response:
            return x, np.zeros(table.rows)
        response = column_of(self.schema, self.response)
        if isinstance(response, NumberColumn):
            return x, _clamped(table.columns[response.name], response.lower, response.upper)
        return x, _clamped(table.columns[response.name], 0, len(response.categories) - 1)

    def _values(self, table: Table, factor: Factor) -> NDArray[np.float64]:
        column, values = column_of(self.schema, factor.column), table.columns[factor.column]
        if not isinstance(column, NumberColumn):
            indicator: NDArray[np.bool_] = values == factor.code
            return indicator.astype(np.float64)
        middle = 0.5 * column.lower + 0.5 * column.upper
        half = 0.5 * column.upper - 0.5 * column.lower
        return _clamped((values - middle) / half, -1.0, 1.0)


def _clamped(values: NDArray[np.generic], low: float, high: float) -> NDArray[np.float64]:
    return np.fmin(np.fmax(values.astype(np.float64), low), high)


def column_of(schema: Schema, name: str) -> Column:
    """Return the column of this name. Raises SpecError where there is none."""
    for column in schema.columns:
        if column.name == name:
            return column
    raise SpecError(POINTER, f"the dataset has no column {name!r}")


def _check_column(column: Column) -> None:
    """Refuse bounds and categories that leave nothing to tell rows apart by."""
    if not isinstance(column, NumberColumn):
        if len(set(column.categories)) < max(2, len(column.categories)):
            raise SpecError(POINTER, f"{column.name!r} needs two or more different categories")
    elif not -np.inf < column.lower < column.upper < np.inf:
        raise SpecError(POINTER, f"{column.name!r} needs finite bounds, lower below upper")


def check_measured(column: NumberColumn) -> None:
    """Refuse bounds whose squares are no numbers, where a model needs them. Raises SpecError."""
    width, largest = column.upper - column.lower, max(abs(column.lower), abs(column.upper))
    if not (width >= 1.0 / FURTHEST and largest <= FURTHEST):
        raise SpecError(
            POINTER,
            f"the bounds of {column.name!r} must lie within +-{FURTHEST:g} and at least "
            f"{1.0 / FURTHEST:g} apart for this model",
        )


def response_of(design: Design) -> Column:
    """Return the response's column. Raises SpecError where the formula has no response."""
    if not design.response:
        raise SpecError(POINTER, "this model needs a response: write response ~ covariates")
    return column_of(design.schema, design.response)


def make_design(schema: Schema, formula: str) -> Design:
    """Parse a formula against a schema.

    Allowed: `y ~ a + C(b) + a:b + c*d`, `1`, `0`, `-1`, names with other characters in backticks.
    Numbers are standardised by their declared bounds to [-1, 1]; categories are treatment coded
    with the first declared one as the reference. `~ a + b` has no response and no intercept.
    Nothing in a formula is ever evaluated.
    Raises SpecError.
    """
    response, terms = _parse(formula)
    if response:
        column_of(schema, response)
    else:
        terms = [term for term in terms if term]
    _check_terms(response, terms)
    for name in {name for term in terms for name, _ in term} | ({response} - {""}):
        _check_column(column_of(schema, name))
    choices = [[_factors(schema, *pair) for pair in term] for term in terms]
    count = sum(prod(len(levels) for levels in term) for term in choices)
    if not 1 <= count <= MAX_PARAMETERS:
        raise SpecError(POINTER, f"{count} parameters; 1 to {MAX_PARAMETERS} are allowed")
    columns = [(number, fs) for number, term in enumerate(choices) for fs in product(*term)]
    factors = tuple(combined for _, combined in columns)
    return Design(
        response=response,
        parameters=tuple(":".join(f.label for f in fs) or "Intercept" for fs in factors),
        terms=factors,
        lower=tuple(_lower(fs) for fs in factors),
        upper=tuple(1.0 for _ in factors),
        group=tuple(number for number, _ in columns),
        schema=schema,
    )


def _lower(factors: tuple[Factor, ...]) -> float:
    if not factors:
        return 1.0
    return -1.0 if any(factor.code is None for factor in factors) else 0.0


def _check_terms(response: str, terms: list[list[tuple[str, bool]]]) -> None:
    """Refuse the response as a covariate, and any column or term that is named twice."""
    named = [frozenset(name for name, _ in term) for term in terms]
    if any(response in names for names in named):
        raise SpecError(POINTER, "the response cannot be a covariate as well")
    repeated = any(len(names) < len(term) for names, term in zip(named, terms, strict=True))
    if repeated or len(set(named)) < len(named):
        raise SpecError(POINTER, "a term names a column twice, or stands in the formula twice")


def _factors(schema: Schema, name: str, categorical: bool) -> list[Factor]:
    column = column_of(schema, name)
    if isinstance(column, CategoryColumn | BinaryColumn):
        labels = enumerate(column.categories)
        return [Factor(column.name, c, f"{column.name}[{w}]") for c, w in labels if c > 0]
    if categorical:
        raise SpecError(POINTER, f"C() needs a column of categories, {column.name!r} is a number")
    return [Factor(column.name, None, column.name)]


def _parse(formula: str) -> tuple[str, list[list[tuple[str, bool]]]]:
    """Return the response's name and, per term, (column, written as C(column)) pairs."""
    _check_form(formula)
    from formulaic.errors import FormulaicError
    from formulaic.parser import DefaultFormulaParser

    try:
        structure = DefaultFormulaParser().get_terms(formula)
    except (FormulaicError, AttributeError, ValueError):
        raise SpecError(POINTER, "the formula cannot be parsed") from None
    sides = structure._to_dict()
    if set(sides) == {"root"}:
        return "", _columns(sides["root"])
    if set(sides) != {"lhs", "rhs"} or len(sides["lhs"]) != 1:
        raise SpecError(POINTER, "write a formula as: response ~ covariate + covariate")
    response = [_name(factor) for term in sides["lhs"] for factor in term.factors]
    if len(response) != 1 or response[0] is None or response[0][1]:
        raise SpecError(POINTER, "the response must be one column")
    return response[0][0], _columns(sides["rhs"])


def _columns(side: list[Any]) -> list[list[tuple[str, bool]]]:
    terms = [[_name(factor) for factor in term.factors] for term in side]
    return [[pair for pair in term if pair is not None] for term in terms]


def _check_form(formula: str) -> None:
    """Refuse, before any parser sees it, all that is not a sum of products of columns."""
    if len(formula) > MAX_LENGTH:
        raise SpecError(POINTER, f"longer than {MAX_LENGTH} characters")
    bare = _CATEGORICAL.sub("c", _QUOTED.sub("c", formula))
    if not _PLAIN.fullmatch(bare) or "**" in bare or bare.count("~") != 1:
        raise SpecError(
            POINTER, "only columns, C(column), 0, 1 and the signs ~ + - * : are allowed"
        )
    if any(part.count("*") + part.count(":") > MAX_CROSSINGS for part in re.split(r"[~+\-]", bare)):
        raise SpecError(POINTER, f"a term crosses more than {MAX_CROSSINGS + 1} columns")


def _name(factor: object) -> tuple[str, bool] | None:
    """Return (column, is categorical), or None for the intercept."""
    text = str(getattr(factor, "expr", ""))
    method = str(getattr(getattr(factor, "eval_method", None), "value", ""))
    if method == "literal" and text == "1":
        return None
    if method == "lookup":
        return text, False
    inner = re.fullmatch(r"C\((.*)\)", text)
    if inner is None:
        raise SpecError(POINTER, "only columns, C(column), 0 and 1 may be added or crossed")
    return inner.group(1).strip().strip("`"), True
