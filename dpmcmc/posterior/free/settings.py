"""Settings of covariates in a request: values that the caller chooses, within public bounds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, near
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import DateColumn, NumberColumn, Table, word_of
from dpmcmc.posterior.free.priors import Floats

SETTINGS = 'must be a list of settings, each with a value by covariate, such as [{"age": 40}]'
Setting = Mapping[str, object]


def at(pointer: str, name: str) -> str:
    """Return the JSON pointer of a member."""
    name = str(name)
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


def covariates(design: Design) -> list[str]:
    """Return the columns that the design is computed from."""
    return list(design.covariates)


def rows(design: Design, given: Sequence[Setting], pointer: str) -> tuple[Floats, Floats]:
    """Return the design's rows (d, settings) and offsets (settings,). Raises SpecError.

    A number beyond its declared bounds is refused, not clamped: the fit has no data there.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise SpecError(pointer, SETTINGS)
    names = design.of_terms
    columns: dict[str, Any] = {name: [] for name in names}
    for k, row in enumerate(given):
        field = f"{pointer}/{k}"
        if not isinstance(row, Mapping):
            raise SpecError(pointer, SETTINGS)
        for name in row:
            check_covariate(design, name, at(field, name))
        for name in names:
            if name not in row:
                raise SpecError(at(field, name), "is missing: give every covariate of the job")
            columns[name].append(value_of(design, name, row[name], at(field, name)))
    columns_of_numbers = {name: np.array(values, np.float64) for name, values in columns.items()}
    table = Table(columns=columns_of_numbers, rows=len(given))
    x, _ = replace(design, answer=None).build(table)
    return x, design.offset(table)


def filled(design: Design, given: Setting, left_out: str) -> dict[str, object]:
    """Return a setting of all covariates but one, at mid-range where none is given.

    Of categories it is the one that others are compared with; of groups none.
    """
    setting = dict(given)
    for name in covariates(design):
        if name in setting or name == left_out or name not in design.of_terms:
            continue
        column = column_of(design.schema, name)
        if isinstance(column, NumberColumn):
            middle = 0.5 * column.lower + 0.5 * column.upper
            middle = math.floor(middle) if column.integer else middle
            setting[name] = shown(column, middle + 0.0)
        else:
            setting[name] = column.categories[design.references.get(name, 0)]
    return setting


def shown(column: NumberColumn, value: float) -> object:
    """Return a value of a column as a setting shows it: a date for date columns."""
    return column.date_of(value) if isinstance(column, DateColumn) else value


def groups(design: Design, given: Sequence[Setting], pointer: str) -> NDArray[np.int64]:
    """Return (settings,), each one's group code, those of groups not seen before behind the others.

    given: settings that `rows` took. Raises SpecError.
    """
    if design.grouping is None:
        return np.full(len(given), -1, np.int64)
    every = []
    for name in design.grouped_by:
        codes = np.full(len(given), -1, np.int64)
        for k, row in enumerate(given):
            if row.get(name) is not None:
                codes[k] = int(value_of(design, name, row[name], at(f"{pointer}/{k}", name)))
        every.append(codes)
    return design.grouping.or_new(every)


def check_covariate(design: Design, name: str, pointer: str) -> None:
    """Raise SpecError where a name is no covariate."""
    names = covariates(design)
    if name not in names:
        known = (", ".join(names[:12]) or "none") + near(str(name), names)
        raise SpecError(pointer, f"is no covariate of this job; it has {known}")


def value_of(design: Design, name: str, value: object, pointer: str) -> float:
    """Return a number, or the code of a category. Raises SpecError."""
    column = column_of(design.schema, name)
    if not isinstance(column, NumberColumn):
        category = word_of(value)
        if category not in column.categories:
            known = ", ".join(column.categories[:12]) + near(category, column.categories)
            raise SpecError(pointer, f"must be a declared category: {known}")
        return float(column.categories.index(category))
    bounds = f"must be a number between its declared bounds, {column.lower:g} and {column.upper:g}"
    if isinstance(column, DateColumn):
        first, last = column.date_of(column.lower), column.date_of(column.upper)
        bounds = f"must be a date between its declared bounds, {first} and {last}"
        value = column.number_of(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SpecError(pointer, bounds)
    number = column.declared(np.array([value], np.float64), np.asarray(value).dtype).item()
    if number in column.missing and not column.empty:
        raise SpecError(pointer, "is a missing code: rows that have it were left out")
    if not column.lower <= number <= column.upper:
        raise SpecError(pointer, bounds)
    return number
