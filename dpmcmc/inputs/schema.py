"""Public facts about a table: columns with declared bounds and categories, and the row count."""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base import schema_file
from dpmcmc.base.errors import near
from dpmcmc.base.names import NAMED_ROW, ROW, protected
from dpmcmc.base.private import Neighbouring
from dpmcmc.inputs.frames import (
    DecimalType,
    ValueType,
    columns_of,
    earlier,
    is_missing,
    representations,
    rows_of,
    type_of,
)

DATES = (
    "a column of dates has dates as its bounds (its type is date), such as 2020-01-31; otherwise"
    " give numbers, such as days since a date, and bounds in the same unit"
)
NO_DATE = "write dates as 2020-01-31, 31.1.2020 or 31JAN2020, with or without a time of day"
_MONTHS = (
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|fév|avr|aoû|déc|ene|abr|dic"
)
_WHOLE_MONTHS = (  # where no year follows: "3 decades" are no date
    "jan(uary?)?|feb(ruary?)?|mar(ch)?|märz|apr(il)?|may|mai|jun[ei]?|jul[iy]?|aug(ust)?"
    "|sept?(ember)?|o[ck]t(ober)?|nov(ember)?|de[cz](ember)?"
)
_DATE = re.compile(  # a year first, a year last, a month by its name, a week, a quarter, a time
    r"\d{4}[-/](0?[1-9]|1[0-2])|\d{4}[-/.](0?[1-9]|1[0-2])[-/.]\d{1,2}([T ].*)?"
    r"|(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(T.*)?"
    r"|\d{4}-?W\d\d(-?\d)?|\d{4}[- ]?Q[1-4]|Q[1-4][-/ ]?\d{4}|\d{4}年(\d{1,2}月(\d{1,2}日)?)?"
    r"|([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?( ?[ap]\.?m\.?)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})( .*)?"
    rf"|(\d{{1,2}}[.,]?[- ]+)?({_MONTHS})[a-z]*[.,]?[- ]+(\d{{1,2}},?[- ]+)?\d{{2,4}}"
    rf"|\d{{1,2}}[.,]?[- ]+({_WHOLE_MONTHS})\.?",
    re.ASCII | re.IGNORECASE,
)
_ENGLISH = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_SHORT = [month[:3] for month in _ENGLISH]  # as SAS, Stata and Oracle write months
_BY_NAME = "|".join([*_ENGLISH, *_SHORT])
_DAY = re.compile(  # a year first, days first with points, or months by name: read in one way
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"|(?P<year2>\d{4})(?P<month2>\d\d)(?P<day2>\d\d)"
    r"|(?P<day3>\d{1,2})\.(?P<month3>\d{1,2})\.(?P<year3>\d{4})"
    rf"|(?P<day4>\d{{1,2}})(?P<sign>[- ]?)(?P<month4>{_BY_NAME})(?P=sign)(?P<year4>\d{{4}})"
    r"|(?P<year5>\d{4})/(?P<month5>\d{1,2})/(?P<day5>\d{1,2})"
    rf"|(?P<month6>{_BY_NAME}) (?P<day6>\d{{1,2}}),? (?P<year6>\d{{4}}))"
    r"(?:[T :]\d\d?:?\d\d(?::?\d\d(?:[.,]\d+)?)?"
    r" ?(?:[AP]M ?)?(?:Z|(?:UTC|GMT)?(?:[+-]\d\d?(?::?\d\d)?)?))?",
    re.ASCII | re.IGNORECASE,
)
_UNSEEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")  # in a name: joiners, soft hyphens
LARGEST_WHOLE = 2.0**51  # up to which every half is a double
MOST_SPIKES = 20
LARGEST_BOUND = 1e30  # of a number that is modelled: inverses of sums of its squares stay finite
MOST_UNIT_ROWS = 1000  # of one unit of privacy
MOST_DUMMY_ROWS = 1_000_000
DUMMY_MISSING, DUMMY_SPIKES = 0.05, 0.3  # shares of rows, where a column declares codes or spikes
DUMMY_DIGITS = 4  # of a number, counted from the width of its bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """A numeric column and what is public about it.

    Parameters
    ----------
    name
        Name of the column.
    lower, upper
        Declared finite bounds, lower < upper. Values outside are clamped to them.
    missing
        Codes that stand for a missing value, within the bounds or not. They are not clamped, and a
        row with one in a column of a model is left out of that model. It still counts as a row.
        Values are doubles: a whole number beyond 2^53 stands for all that are the same double.
        True: a value is missing where there is none (null, not a number, an empty field). Such
        values are then stored as a code below the bounds, which follows from the bounds alone.
    integer
        Whether all values except the missing codes are whole numbers. Synthetic tables then have
        whole numbers, and quantiles are whole.
    spikes
        Values that many rows have exactly, such as 0 in an amount. Tables of counts and synthetic
        tables have a cell of its own for each.
    empty
        Whether null, not a number and an empty field are missing values; set by `missing=True`.
    description
        What the column holds, in words, for those who analyse it. Public.

    Raises
    ------
    ValueError
        If bounds, codes or spikes are not finite numbers in the right order; the message names the
        column.

    Examples
    --------
    >>> NumberColumn(name="income", lower=0, upper=200_000, missing=(-9,), spikes=(0,))
    """

    name: str
    lower: float
    upper: float
    type: Literal["number"] = "number"
    missing: tuple[float, ...] = ()
    integer: bool = False
    spikes: tuple[float, ...] = ()
    empty: bool = False
    description: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_description(self.name, self.description)
        if is_date(self.lower) or is_date(self.upper):
            raise ValueError(f"the bounds of {self.name!r} are dates, and {DATES}")
        if not _is_number(self.lower) or not _is_number(self.upper):
            raise ValueError(f"{self.name!r} needs finite numbers as its bounds (lower, upper)")
        if not -np.inf < self.lower < self.upper < np.inf:
            raise ValueError(f"{self.name!r} needs finite bounds with lower below upper")
        if type(self.empty) is not bool:
            raise ValueError(f"empty of {self.name!r} must be True or False")
        is_true = isinstance(self.missing, bool) and bool(self.missing)
        if is_true or self.empty:
            code = _code_below(float(self.lower))
            if not is_true and tuple(self.missing) not in ((), (code,)):
                remedy = "give the codes, or missing=True, and not both"
                raise ValueError(f"{self.name!r} has missing codes and empty values: {remedy}")
            object.__setattr__(self, "empty", True)
            object.__setattr__(self, "missing", (code,))
        if not _is_list(self.missing):
            raise ValueError(f"the missing codes of {self.name!r} must be a list, such as [-9]")
        if not all(_is_number(code) and _is_finite(code) for code in self.missing):
            raise ValueError(f"the missing codes of {self.name!r} must be finite numbers")
        # whole numbers in an array of such would cut priors to whole numbers as well
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))
        object.__setattr__(self, "missing", tuple(map(_code, self.missing)))
        self._check_whole()
        object.__setattr__(self, "spikes", self._checked_spikes())

    def _check_whole(self) -> None:
        """Refuse bounds of a whole-number column that are no whole numbers."""
        if type(self.integer) is not bool:
            raise ValueError(f"integer of {self.name!r} must be True or False")
        ends = (self.lower, self.upper)
        if self.integer and not all(e.is_integer() and abs(e) <= LARGEST_WHOLE for e in ends):
            limit = "whole numbers within 2^51, as its values are"
            raise ValueError(f"the bounds of {self.name!r} must be {limit}")

    def _checked_spikes(self) -> tuple[float, ...]:
        """Return the spikes, checked and sorted. Raises ValueError."""
        declared = self.spikes
        if not _is_list(declared):
            raise ValueError(f"the spikes of {self.name!r} must be a list, such as [0]")
        if not all(_is_number(spike) for spike in declared):
            raise ValueError(f"the spikes of {self.name!r} must be numbers")
        spikes = tuple(sorted(map(_code, declared)))
        if len(spikes) > MOST_SPIKES or len(set(spikes)) < len(spikes):
            raise ValueError(f"{self.name!r} may have {MOST_SPIKES} different spikes")
        if not all(self.lower <= spike <= self.upper for spike in spikes):
            raise ValueError(f"the spikes of {self.name!r} must lie within its bounds")
        if set(spikes) & set(self.missing):
            raise ValueError(f"a spike of {self.name!r} is a missing code as well")
        if self.integer and not all(spike.is_integer() for spike in spikes):
            raise ValueError(
                f"the spikes of {self.name!r} must be whole numbers, as its values are"
            )
        return spikes

    def is_whole(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which values an integer column may have: whole numbers and missing codes."""
        integral: NDArray[np.bool_] = np.trunc(values) == values
        return integral | self.is_missing(values)

    def impossible(self, type: ValueType) -> tuple[float, ...]:
        """Return the missing codes and spikes that no value of this type can equal."""
        return tuple(code for code in self._in_data if not representations(code, type))

    @property
    def _in_data(self) -> tuple[float, ...]:
        """Return the codes and spikes that occur in data as numbers."""
        return self.spikes if self.empty else (*self.missing, *self.spikes)

    def filled(
        self, numbers: NDArray[np.float64], none: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return numbers with the missing code where there is no value.

        numbers: as `declared` returns them; unchanged unless `empty`. none: which are missing; by
        default those that are not a number. A number that equals the code is clamped first, so that
        it does not become a missing value.
        """
        if not self.empty:
            return numbers
        (code,) = self.missing
        present = np.where(numbers == code, self.lower, numbers)
        return np.where(np.isnan(numbers) if none is None else none, code, present)

    def declared(self, numbers: NDArray[np.float64], type: ValueType) -> NDArray[np.float64]:
        """Return numbers with codes and spikes rounded to the declared doubles.

        numbers: of a column of this type, converted to doubles. -9.9 in a float32 differs from -9.9
        in a double.
        """
        codes, result = self._in_data, numbers
        for code in codes:
            before = earlier(code, type, self.lower, self.upper)
            doubles = {*representations(code, type), *before} - {*codes} - {code}
            if doubles:
                result = np.where(np.isin(numbers, list(doubles)), code, result)
        return result

    def clamped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values clamped to the bounds, missing codes unchanged.

        values: as `declared` returns them. Where a bound is itself a missing code, a value beyond
        it is clamped to the next number inside, so that it does not become a code.
        """
        within = np.clip(values, self.lower, self.upper)
        if not self.missing:
            return within
        for code in self.missing:
            if code in (self.lower, self.upper):
                opposite = self.upper if code == self.lower else self.lower
                inside = (
                    code + np.sign(opposite - code)
                    if self.integer
                    else np.nextafter(code, opposite)
                )
                within = np.where(within == code, inside, within)
        return np.where(self.is_missing(values), values, within)

    def is_missing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values are missing codes. values: as `declared` returns them."""
        return np.isin(values, self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateColumn(NumberColumn):
    """A column of dates. In formulas, bounds and statistics it is whole days since `origin`.

    The time of day of a timestamp is left out, and the day is that of its own time zone.

    Parameters
    ----------
    name
        Name of the column.
    lower, upper
        Declared bounds as dates, also in words such as "2020-01-31"; lower < upper. Dates outside
        are clamped to them. Of a DateColumn they are numbers of days: lower is 0.
    missing
        Dates that stand for a missing value, such as "9999-12-31"; or True, as of a NumberColumn.
    spikes
        Dates that many rows have.
    empty
        As of a NumberColumn.
    origin
        The date of day 0; by default the lower bound. With it bounds, codes and spikes are days.
    description
        What the column holds, in words. Public.

    Raises
    ------
    ValueError
        If bounds, codes or spikes are no dates, or not in the right order; the message names the
        column.

    Examples
    --------
    >>> DateColumn(name="admitted", lower="2015-01-01", upper="2024-12-31")
    """

    lower: Any
    upper: Any
    type: Literal["date"] = "date"  # type: ignore[assignment]
    missing: Any = ()
    integer: Literal[True] = True
    spikes: Any = ()
    origin: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not self.origin:
            first = day_of(self.lower)
            if first is None or day_of(self.upper) is None:
                message = "needs dates as its bounds (lower, upper), such as 2020-01-31"
                raise ValueError(f"{self.name!r} {message}")
            object.__setattr__(self, "origin", first.isoformat())
            for field in ("lower", "upper"):
                object.__setattr__(self, field, self._day(getattr(self, field), "bound"))
            for field, kind in (("missing", "missing code"), ("spikes", "spike")):
                values = getattr(self, field)
                if _is_list(values):
                    days = tuple(self._day(item, kind) for item in values)
                    object.__setattr__(self, field, days)
        object.__setattr__(self, "integer", True)
        NumberColumn.__post_init__(self)

    def _day(self, value: object, kind: str) -> float:
        """Return a date in days from the origin. Raises ValueError."""
        number = self.number_of(value)
        if number is None:
            raise ValueError(f"a {kind} of {self.name!r} is no date: {NO_DATE}")
        return number

    def number_of(self, value: object) -> float | None:
        """Return the days from the origin to a date or its text; None where it is none."""
        day = day_of(value)
        return None if day is None else float((day - date.fromisoformat(self.origin)).days)

    def date_of(self, days: float) -> date:
        """Return the date so many days after the origin, clamped to the calendar."""
        number = date.fromisoformat(self.origin).toordinal() + math.floor(days)
        return date.fromordinal(min(max(number, date.min.toordinal()), date.max.toordinal()))

    def dates_of(self, days: NDArray[np.float64]) -> NDArray[np.datetime64]:
        """Return the dates so many whole days after the origin, NaT for NaN."""
        none = np.isnan(days)
        dates = np.datetime64(self.origin, "D") + np.where(none, 0.0, days).astype(np.int64)
        return np.where(none, np.datetime64("NaT", "D"), dates)


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryColumn:
    """A column of declared categories.

    Parameters
    ----------
    name
        Name of the column.
    categories
        At least two different categories; the first one is the reference of a model.
    missing
        Whether null, not a number and an empty field stand for no value. A row with one in a column
        of a model is left out of that model, and still counts as a row.
    description
        What the column holds, in words. Public.

    Raises
    ------
    ValueError
        If there are fewer than two, or two are equal; the message names the column.

    Examples
    --------
    >>> CategoryColumn(name="region", categories=("north", "south", "west"))
    """

    name: str
    categories: tuple[str, ...]
    type: Literal["category"] = "category"
    missing: bool = False
    description: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", _category_names(self.name, self.categories))
        _check_flag(self.name, self.missing)
        _check_description(self.name, self.description)

    def is_missing(self, codes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which codes mean a missing value: the one after those of categories."""
        return np.asarray(codes >= len(self.categories), np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryColumn:
    """A column of two declared categories.

    Parameters
    ----------
    name
        Name of the column.
    categories
        Exactly two different categories; the second one is coded as 1.
    missing, description
        As of a CategoryColumn.

    Raises
    ------
    ValueError
        If there are not exactly two; the message names the column.

    Examples
    --------
    >>> BinaryColumn(name="cured", categories=("no", "yes"))
    """

    name: str
    categories: tuple[str, str]
    type: Literal["binary"] = "binary"
    missing: bool = False
    description: str = ""

    def __post_init__(self) -> None:
        categories = _category_names(self.name, self.categories)
        if len(categories) != 2:
            raise ValueError(
                f"{self.name!r} has {len(categories)} categories: a binary column has two"
            )
        object.__setattr__(self, "categories", categories)
        _check_flag(self.name, self.missing)
        _check_description(self.name, self.description)

    def is_missing(self, codes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which codes mean a missing value: the one after those of categories."""
        return np.asarray(codes >= len(self.categories), np.bool_)


Column = NumberColumn | DateColumn | CategoryColumn | BinaryColumn


def day_of(value: object) -> date | None:
    """Return the date of a date, time or text; None where it is none.

    Words are in ISO 8601, days first with points (31.1.2020), a year first with slashes
    (2020/1/31), or with an English month (31JAN2020; Jan 31, 2020).
    """
    try:
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[D]").item()
        if isinstance(value, datetime):
            return None if is_missing(value) else value.date()  # NaT of pandas is a time
        if isinstance(value, date):
            return value
        if not isinstance(value, str) or (written := _DAY.fullmatch(value.strip())) is None:
            return None
        parts = {name.rstrip("23456"): part for name, part in written.groupdict().items() if part}
        month = parts["month"].lower()[:3]
        number = _SHORT.index(month) + 1 if month in _SHORT else int(month)
        return date(int(parts["year"]), number, int(parts["day"]))
    except ValueError:  # 2020-02-30, or not a time
        return None


def is_date(value: object) -> bool:
    """Return whether a value is a date, time or duration, or a text that looks like one."""
    if isinstance(value, str):
        return _DATE.fullmatch(value.strip()) is not None
    if isinstance(value, date | time | timedelta | np.datetime64 | np.timedelta64):
        return True
    return hasattr(value, "year") and hasattr(value, "month")  # a period of pandas


def are_truth(categories: Sequence[str]) -> bool:
    """Return whether categories are the words for true and false, in any case."""
    return sorted(category.lower() for category in categories) == ["false", "true"]


def zero_to_one(column: Column) -> bool:
    """Return whether a column is a number with bounds 0 and 1, hence perhaps binary."""
    bounds = (column.lower, column.upper) if column.type == "number" else ()
    return bounds == (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyUnit:
    """The privacy unit, where all rows of a person are protected together.

    Parameters
    ----------
    column
        The column of the data that names the person, such as a patient's number. It is not kept
        among the rows, and no formula can use it.
    max_rows
        Most rows of one person that are used; of those with more, so many are chosen at random.

    Raises
    ------
    ValueError
        If the column has no name, or max_rows is not a whole number from 1 to 1000.

    Examples
    --------
    >>> PrivacyUnit(column="patient", max_rows=6)
    """

    column: str
    max_rows: int

    def __post_init__(self) -> None:
        _check_name(self.column)
        if self.column == ROW:
            raise ValueError(NAMED_ROW)
        integral = isinstance(self.max_rows, Integral) and not isinstance(self.max_rows, bool)
        if not integral or not 1 <= self.max_rows <= MOST_UNIT_ROWS:
            limits = f"a whole number from 1 to {MOST_UNIT_ROWS}"
            raise ValueError(f"max_rows of the privacy unit {self.column!r} must be {limits}")
        object.__setattr__(self, "max_rows", int(self.max_rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The public facts of a dataset.

    Parameters
    ----------
    columns
        NumberColumn, DateColumn, CategoryColumn and BinaryColumn, each name once.
    rows
        Number of rows, which is public if neighbours differ in one replaced row. With a privacy
        unit: number of units times its max_rows, of which an unknown part is in use.
    neighbouring
        When two datasets count as neighbours.
    privacy_unit
        What neighbours differ in. A PrivacyUnit: in all rows of one person. "row": in one row, and
        each row is declared to be a person of its own. None: in one row, and nothing is declared.
    holders
        Number of rows of each data holder, in the order of the rows, if several hold them. Which
        holder has a row is then public, and a replaced row stays with its holder.

    Raises
    ------
    ValueError
        If a column, the number of rows or the holders' numbers are not valid.

    Examples
    --------
    >>> columns = (NumberColumn(name="dose", lower=0, upper=10),)
    >>> Schema(columns=columns, rows=20_000)
    """

    columns: tuple[Column, ...]
    rows: int
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    holders: tuple[int, ...] = ()
    privacy_unit: PrivacyUnit | Literal["row"] | None = None

    def __post_init__(self) -> None:
        columns = self.columns
        if not isinstance(columns, Sequence) or not all(
            isinstance(c, get_args(Column)) for c in columns
        ):
            kinds = "NumberColumn, DateColumn, CategoryColumn and BinaryColumn"
            raise ValueError(f"columns must be a tuple of {kinds}; Schema.from_frame makes them")
        names = [column.name for column in columns]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"column {repeated!r} is declared twice")
        if not isinstance(self.rows, Integral) or isinstance(self.rows, bool) or self.rows < 0:
            raise ValueError("rows must be a whole number, 0 or more")
        if self.neighbouring not in tuple(Neighbouring):
            raise ValueError(f"neighbouring must be one of {', '.join(Neighbouring)}")
        object.__setattr__(self, "neighbouring", Neighbouring(self.neighbouring))
        object.__setattr__(self, "rows", int(self.rows))
        object.__setattr__(self, "columns", tuple(columns))
        holders = tuple(self.holders)
        if not all(isinstance(n, Integral) and not isinstance(n, bool) for n in holders):
            raise ValueError("holders must be whole numbers of rows, such as [300, 200]")
        object.__setattr__(self, "holders", tuple(map(int, holders)))
        if self.holders and (min(self.holders) < 1 or sum(self.holders) != self.rows):
            raise ValueError("holders need a row each, and their rows add up to all rows")
        self._check_unit(names)

    def _check_unit(self, names: Sequence[str]) -> None:
        """Refuse a privacy unit whose column is declared, or with invalid max_rows."""
        unit = self.privacy_unit
        if unit is None or unit == ROW:
            return
        if not isinstance(unit, PrivacyUnit):
            example = 'PrivacyUnit(column="patient", max_rows=6), "row" or None'
            raise ValueError(f"privacy_unit must be {example}")
        if unit.column in names:
            raise ValueError(
                f"{unit.column!r} is the privacy unit, which is not kept: declare no column for it"
            )
        if self.rows % unit.max_rows:
            raise ValueError("rows must be the number of units times max_rows")

    def with_max_rows(self, max_rows: int | None) -> "Schema":
        """Return the schema with fewer rows of each person; unchanged for None.

        Raises ValueError where no persons are declared, or with fewer rows than that.
        """
        unit = self.privacy_unit
        if max_rows is None:
            return self
        if not isinstance(unit, PrivacyUnit):
            raise ValueError("max_rows needs a privacy unit: the schema declares no persons")
        fewer = PrivacyUnit(column=unit.column, max_rows=max_rows)
        if fewer.max_rows > unit.max_rows:
            raise ValueError(f"max_rows must be at most {unit.max_rows}, as was declared")
        return replace(self, rows=self.units * fewer.max_rows, privacy_unit=fewer)

    @property
    def unit_rows(self) -> int:
        """Largest number of rows of a unit: max_rows, or 1."""
        return self.privacy_unit.max_rows if isinstance(self.privacy_unit, PrivacyUnit) else 1

    @property
    def units(self) -> int:
        """Number of privacy units, public: persons or rows."""
        return self.rows // self.unit_rows

    @property
    def unit(self) -> str:
        """Name of the privacy unit: the column of persons, or "row"."""
        return self.privacy_unit.column if isinstance(self.privacy_unit, PrivacyUnit) else ROW

    @property
    def protects(self) -> str:
        """Whom an epsilon protects, in words."""
        return protected(self.unit, self.unit_rows)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        bounds: Mapping[str, Sequence[object]],
        *,
        missing: Mapping[str, Sequence[float] | bool] | None = None,
        integer: Sequence[str] = (),
        spikes: Mapping[str, Sequence[float]] | None = None,
        holders: str | Sequence[int] = (),
        privacy_unit: str | None = None,
        max_rows: int | None = None,
    ) -> "Schema":
        """Return the schema of a data frame, from its number of rows and declared bounds.

        Bounds, categories, codes and spikes are public promises: take them from what is known of
        the world, never from these rows.

        Parameters
        ----------
        frame
            A data frame of pandas, polars, Arrow or any library that narwhals reads or that has
            `__dataframe__`; or a mapping of column names to values; or a dataset of Arrow, of which
            only named columns are read.
        bounds
            For each column that is used: (lower, upper) of a number column, or of a column of dates
            such as ("2020-01-01", "2024-12-31"), or the categories. Two categories, also the texts
            "0" and "1", make a binary column; the second is coded 1.
        missing
            Codes that stand for a missing value, by number column; or, by column of any type, True
            where a missing value is none at all: null, NaN or None.
        integer
            Names of number columns whose values are whole numbers.
        spikes
            Values that many rows have exactly, by number column; see NumberColumn.
        holders
            If several data holders have the rows: the number of rows of each, in the order of the
            rows, or the name of a column of holders by which the rows are sorted. It is public.
        privacy_unit
            May one person have several rows? If so, the column that names the person: an epsilon
            then protects all rows of a person at once. If not, "row". If left out nothing is
            declared, and an epsilon protects one row.
        max_rows
            Most rows of one person that are used, where the privacy unit is a column. A public
            promise, as bounds are.

        Returns
        -------
        Schema
            The declared columns in the order of `bounds`, and the number of rows.

        Raises
        ------
        ValueError
            If a named column does not exist, or a declaration is not valid; the message names the
            column.

        Examples
        --------
        >>> rows = {"dose": [1.0, 2.5], "cured": ["no", "yes"]}
        >>> Schema.from_frame(rows, bounds={"dose": (0, 10), "cured": ("no", "yes")})
        """
        for argument, value in (("bounds", bounds), ("missing", missing), ("spikes", spikes)):
            if not isinstance(value, Mapping) and (value is not None or argument == "bounds"):
                raise ValueError(f"{argument} must be a dictionary, {_EXAMPLES[argument]}")
        if isinstance(integer, str) or not isinstance(integer, Sequence):
            raise ValueError('integer must be a list of names, such as ["age"]')
        missing, spikes = missing or {}, spikes or {}
        named = (*bounds, *missing, *integer, *spikes, privacy_unit, holders)
        values_of = columns_of(frame, named)
        unit = _unit_of(privacy_unit, max_rows)
        for name in (*bounds, *missing, *integer, *spikes):
            if name not in values_of:
                raise ValueError(f"there is no column {name!r}{near(name, values_of)}")
        columns = tuple(
            _with_number_options(
                _declared(name, declaration, missing), name in integer, spikes.get(name, ())
            )
            for name, declaration in bounds.items()
        )
        for column in columns:
            _check_values(column, values_of[column.name])
        for name in {*missing, *integer, *spikes} - set(bounds):
            extra = "missing codes" if name in missing else "a type or spikes"
            raise ValueError(f"{name!r} has {extra} and no bounds: declare those as well")
        return cls._of_rows(columns, values_of, holders, unit)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        frame: object = None,
        *,
        holders: str | Sequence[int] = (),
        privacy_unit: str | None = None,
        max_rows: int | None = None,
    ) -> "Schema":
        """Return the schema that a file declares, with the number of rows of a data frame.

        Parameters
        ----------
        path
            A table with a line for each column, as a spreadsheet saves it: fields between commas,
            semicolons or tabs below a header, of name, type (number, integer, date, category,
            binary), lower, upper, categories (a|b|c), missing (true, or codes), integer, spikes and
            description. Or JSON: a list of columns in the words of the REST API, or an object with
            such a list as columns, such as `to_file` writes it.
        frame
            The data, of which their number of rows is taken. It may be left out where the file is
            JSON that says rows.
        holders, privacy_unit, max_rows
            As in `from_frame`.

        Returns
        -------
        Schema
            The declared columns in the order of the file.

        Raises
        ------
        ValueError
            If the file is wrong; the message names lines and fields. If the data lack a column.
        OSError
            If it cannot be read.

        Examples
        --------
        >>> schema = Schema.from_file("schema.csv", rows)
        """
        columns, facts = _columns_in(path)
        if frame is None:
            if (holders, privacy_unit, max_rows) != ((), None, None) or "rows" not in facts:
                raise ValueError("give the data as well: their number of rows is part of a schema")
            return cls(columns=columns, **facts)
        values_of = columns_of(frame, [*(one.name for one in columns), privacy_unit, holders])
        for column in columns:
            if column.name not in values_of:
                raise ValueError(
                    f"there is no column {column.name!r}{near(column.name, values_of)}"
                )
            _check_values(column, values_of[column.name])
        return cls._of_rows(columns, values_of, holders, _unit_of(privacy_unit, max_rows))

    def to_file(self, path: str | PathLike[str]) -> None:
        """Write the schema as a table (`.csv`), or with the number of rows as JSON (`.json`).

        Parameters
        ----------
        path
            The file; one that is there is replaced.

        Raises
        ------
        ValueError
            If its name ends with something else.
        OSError
            If it cannot be written.

        Examples
        --------
        >>> schema.to_file("schema.csv")
        """
        _write(self, path)

    @classmethod
    def _of_rows(
        cls,
        columns: tuple[Column, ...],
        values_of: Mapping[str, Sequence[object]],
        holders: object,
        unit: PrivacyUnit | Literal["row"] | None,
    ) -> "Schema":
        """Return the schema of columns and the number of rows of these data. Raises ValueError."""
        if isinstance(holders, np.ndarray):
            holders = holders.tolist()
        if not isinstance(holders, Sequence):
            raise ValueError("holders must be numbers of rows, such as [300, 200], or a column")
        held_by = (
            _rows_of_holders(holders, values_of) if isinstance(holders, str) else tuple(holders)
        )
        if not isinstance(unit, PrivacyUnit):
            return cls(columns=columns, rows=rows_of(values_of), holders=held_by, privacy_unit=unit)
        units = len(units_of(unit.column, values_of)[0])
        return cls(columns=columns, rows=units * unit.max_rows, privacy_unit=unit)

    def dummy(self, rows: int = 100, *, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Return rows made from the declared bounds and categories alone.

        For code that is written and tried before any budget is spent: nothing but this schema goes
        in. Numbers are uniform within their bounds, categories equally frequent, and columns
        independent, so that no result of these rows says anything of the true ones.

        Parameters
        ----------
        rows
            How many rows: 0 to 1,000,000.
        seed
            The same seed gives the same rows.

        Returns
        -------
        dict
            Arrays of `rows` values by name, in the units of the columns: floats, whole numbers
            where a column is declared `integer`, dates, and texts of categories. About 5 % of a
            column that declares missing values are missing, and 30 % of one with spikes are spikes.
            With a privacy unit its column is the first, and persons have 1 to max_rows rows.

        Raises
        ------
        ValueError
            If `rows` or `seed` is out of range.

        Examples
        --------
        >>> schema = Schema(columns=(NumberColumn(name="dose", lower=0, upper=10),), rows=20_000)
        >>> rows = schema.dummy(2000)
        >>> sorted(rows)
        ['dose']
        """
        for name, value, most in (("rows", rows, MOST_DUMMY_ROWS), ("seed", seed, 2**32 - 1)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise ValueError(f"{name} must be a whole number, such as 100")
            if not 0 <= value <= most:
                raise ValueError(f"{name} must be between 0 and {most:,}")
        columns = self._dummy_columns(int(rows), seed)
        if not isinstance(self.privacy_unit, PrivacyUnit):
            return columns
        return {self.privacy_unit.column: _dummy_persons(self.unit_rows, int(rows)), **columns}

    def dummy_whole(self, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Return rows as `dummy` does, as many as the schema has, of as many units."""
        if not isinstance(self.privacy_unit, PrivacyUnit):
            return self._dummy_columns(self.rows, seed)
        sizes = np.resize(np.arange(1, self.unit_rows + 1), self.units)
        owners = np.repeat(np.arange(self.units), sizes)
        columns = self._dummy_columns(len(owners), seed)
        return {self.privacy_unit.column: owners.astype(str).astype(object), **columns}

    def _dummy_columns(self, rows: int, seed: int) -> dict[str, NDArray[Any]]:
        """Return simulated columns from declared bounds and categories."""
        random = np.random.default_rng(seed)
        return {column.name: _dummy_values(column, rows, random) for column in self.columns}


def _dummy_values(column: Column, rows: int, random: np.random.Generator) -> NDArray[Any]:
    """Return simulated values of one column."""
    if not isinstance(column, NumberColumn):
        chosen = random.integers(len(column.categories), size=rows)
        words = np.array(column.categories, dtype=object)[chosen]
        if column.missing:
            words[random.random(rows) < DUMMY_MISSING] = None
        return words
    lower, upper = column.lower, column.upper
    share = random.random(rows)
    values = lower * (1 - share) + upper * share  # upper - lower may overflow
    if column.integer:
        values = np.round(values)
    else:
        width = upper / 2 - lower / 2
        digits = DUMMY_DIGITS - math.ceil(math.log10(width)) if width else 0
        if abs(digits) < 300:  # beyond, powers of ten are no doubles
            values = np.clip(np.round(values, digits), lower, upper)
    if column.spikes:
        at_one = random.random(rows) < DUMMY_SPIKES
        values = np.where(at_one, random.choice(column.spikes, rows), values)
    if column.missing:
        codes = [math.nan] if column.empty else column.missing
        left_out = random.random(rows) < DUMMY_MISSING
        values = np.where(left_out, random.choice(codes, rows), values)
    if isinstance(column, DateColumn):
        return column.dates_of(values)
    return values.astype(np.int64) if column.integer and _are_int64(values) else values


def _are_int64(values: NDArray[np.float64]) -> bool:
    """Return whether doubles are all whole numbers of 64 bits."""
    return bool(np.all(np.isfinite(values) & (values % 1 == 0) & (abs(values) < 2.0**63)))


def _dummy_persons(most: int, rows: int) -> NDArray[Any]:
    """Return names of simulated persons with 1, 2, ... most rows in turn."""
    sizes = np.resize(np.arange(1, most + 1), rows)  # as many persons as rows are enough
    owners = np.repeat(np.arange(1, rows + 1), sizes)[:rows]
    return np.array([f"person {owner}" for owner in owners], dtype=object)


def _unit_of(column: object, max_rows: object) -> PrivacyUnit | Literal["row"] | None:
    """Return the requested privacy unit. Raises ValueError."""
    if column is not None and not isinstance(column, str):
        raise ValueError(
            f'privacy_unit must be the name of a column, or "row", and {column!r} is none'
        )
    if column is None or column == ROW:
        if max_rows is not None:
            raise ValueError('max_rows needs a column that names persons: privacy_unit="patient"')
        return None if column is None else "row"
    if max_rows is None:
        raise ValueError(
            f"max_rows is needed: the most rows of one {column!r} that are to be used, such as 6"
        )
    return PrivacyUnit(column=column, max_rows=max_rows)  # type: ignore[arg-type]


def name_of_unit(value: object) -> str:
    """Return the name of a privacy unit as names are compared.

    Equal numbers and texts are the same unit, and so are texts that look the same: whether accents
    are part of a letter or behind it, whatever kind of space is between words, however many signs
    have no width, and with spaces at the ends or none.
    """
    name = word_of(value)
    if not name.isascii():
        name = unicodedata.normalize("NFC", re.sub(r"\s", " ", _UNSEEN.sub("", name)))
    return name.strip()


def units_named(column: str, values: Sequence[object]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of units, each once, and the number (rows,) of each row's unit.

    Names are compared as `name_of_unit` has them. Raises ValueError where a value is missing or
    empty: such a row belongs to nobody.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        numbers, unit_of = np.unique(values, return_inverse=True)
        return list(map(str, numbers.tolist())), unit_of.reshape(-1)
    known = dict[str, int]()
    words = ("" if is_missing(value) else name_of_unit(value) for value in values)
    unit_of = np.array([known.setdefault(word, len(known)) for word in words], np.int64)
    lacking = int((unit_of == known[""]).sum()) if "" in known else 0
    if lacking:
        raise ValueError(
            f"{lacking} rows have no value in {column!r}, the privacy unit: give each person a"
            " name or number, or leave these rows out"
        )
    return list(known), unit_of


def units_of(
    column: str, data: Mapping[str, Sequence[object]]
) -> tuple[list[str], NDArray[np.int64]]:
    """Return `units_named` of a column. Raises ValueError where the data lack it."""
    if column not in data:
        message = f"the data have no column {column!r}, the privacy unit{near(column, data)}"
        raise ValueError(message)
    return units_named(column, data[column])


def _rows_of_holders(name: str, columns: Mapping[str, Sequence[object]]) -> tuple[int, ...]:
    """Return the number of rows of each holder, from the column of holders. Raises ValueError."""
    if name not in columns:
        raise ValueError(f"there is no column {name!r}{near(name, columns)}")
    if any(map(is_missing, columns[name])):
        raise ValueError(f"{name!r} has rows of no holder: name one in each row")
    runs = [(key, sum(1 for _ in run)) for key, run in groupby(map(word_of, columns[name]))]
    if len({key for key, _ in runs}) < len(runs):
        raise ValueError(f"the rows of a holder must lie together: sort them by {name!r}")
    return tuple(count for _, count in runs)


_EXAMPLES = {
    "bounds": 'such as {"age": (0, 120), "sex": ("f", "m")}',
    "missing": 'such as {"age": [-9], "region": True}',
    "spikes": 'such as {"income": [0]}',
}


def _with_number_options(column: Column, integer: bool, spikes: Sequence[float]) -> Column:
    """Return a column with `integer` and `spikes`. Raises ValueError where it has categories."""
    if isinstance(column, DateColumn) and not spikes:
        return column
    if isinstance(column, NumberColumn):
        return replace(column, integer=integer, spikes=tuple(spikes))
    if integer or spikes:
        raise ValueError(f"{column.name!r} has categories: only numbers are whole or have spikes")
    return column


def _declared(name: str, declaration: object, missing: Mapping[str, Any]) -> Column:
    """Return the column that bounds or categories declare. Raises ValueError on anything else."""
    if getattr(getattr(declaration, "dtype", None), "kind", "") in ("m", "M"):
        declaration = list(np.asarray(declaration))
    if isinstance(declaration, np.ndarray):
        declaration = declaration.tolist()
    if (
        isinstance(declaration, str)
        or not isinstance(declaration, Sequence)
        or len(declaration) < 2
    ):
        raise ValueError(
            f"{name!r} needs bounds (lower, upper) or two categories or more, in order"
        )
    if len(declaration) == 2 and all(map(day_of, declaration)):
        lower, upper = declaration
        return DateColumn(name=name, lower=lower, upper=upper, missing=missing.get(name, ()))
    dates = [is_date(item) for item in declaration]
    if any(dates) and (
        len(declaration) == 2 or not all(isinstance(item, str) for item in declaration)
    ):
        remedy = " (categories that are written as dates: BinaryColumn or CategoryColumn)"
        raise ValueError(f"the bounds of {name!r} are dates, and {DATES}{remedy}")
    numbers = [_is_number(item) for item in declaration]
    if len(declaration) == 2 and all(numbers):
        lower, upper = (float(item) for item in declaration)
        return NumberColumn(name=name, lower=lower, upper=upper, missing=missing.get(name, ()))
    if any(numbers) and not all(numbers):
        raise ValueError(f"{name!r} has numbers and words: give two numbers, or categories alike")
    empty = missing.get(name, False)
    categories = _category_names(name, declaration)
    if len(categories) == 2:
        pair = categories[0], categories[1]
        return BinaryColumn(name=name, categories=pair, missing=empty)
    return CategoryColumn(name=name, categories=categories, missing=empty)


def _check_values(column: Column, values: Sequence[object]) -> None:
    """Raise ValueError where a column's type is not the declared one."""
    if isinstance(column, NumberColumn):
        check_type(column, type_of(values))
    elif getattr(getattr(values, "dtype", None), "kind", "") in ("m", "M"):
        words = " and ".join(repr(category) for category in column.categories[:2])
        raise ValueError(
            f"column {column.name!r} has dates or times, and {words} declare categories: {DATES}"
        )


def check_type(column: NumberColumn, type: ValueType) -> None:
    """Raise ValueError for a non-numeric type, or codes that it cannot represent."""
    kind = "" if isinstance(type, DecimalType) else type.kind
    if isinstance(column, DateColumn):
        return
    if kind in ("m", "M"):
        raise ValueError(f"column {column.name!r} has dates or times, and {DATES}")
    if kind == "c":
        raise ValueError(f"column {column.name!r} has complex numbers: give their parts")
    for code in column.impossible(type):
        kind_of_code = "missing code" if code in column.missing else "spike"
        raise ValueError(
            f"column {column.name!r} has the type {type}, and none of its values can equal the"
            f" {kind_of_code} {code:.15g}: declare the one that it has there, or give it as float64"
        )


def _code_below(lower: float) -> float:
    """Return a number below the bounds, determined by them, as missing code."""
    below = math.floor(lower) - 1.0
    return below if below < lower else float(np.nextafter(lower, -np.inf))


def _code(code: float) -> float:
    """Return a missing code as a double, a float32 by its shortest decimal."""
    return float(str(code)) if isinstance(code, np.floating) else float(code)


def _is_list(value: object) -> bool:
    """Return whether a value is a sequence or array, and not a text."""
    is_text = isinstance(value, str | bytes | bytearray)
    return isinstance(value, Sequence | np.ndarray) and not is_text


def _is_number(value: object) -> bool:
    """Return whether a value is a number of Python or NumPy, and not a truth value."""
    return isinstance(value, Real | Decimal) and not isinstance(
        value, bool | np.bool_ | np.timedelta64
    )


def _is_finite(number: float) -> bool:
    """Return whether a number is finite as a double."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _check_flag(name: str, missing: object) -> None:
    """Raise ValueError unless `missing` of a category column is True or False."""
    if not isinstance(missing, bool | np.bool_):
        raise ValueError(
            f"missing of {name!r} must be True (null, NaN and empty are no value) or False: it has"
            " categories: declare what stands for no value as one of them, or give None for it"
        )


def _category_names(name: str, categories: object) -> tuple[str, ...]:
    """Return the names of categories. Raises ValueError where they are not valid and distinct."""
    _check_name(name)
    if isinstance(categories, str) or not isinstance(categories, Sequence | np.ndarray):
        raise ValueError(f'the categories of {name!r} must be a list, such as ("no", "yes")')
    types = (str, bool, np.bool_, Real)
    if any(is_date(category) and not isinstance(category, str) for category in categories):
        raise ValueError(f"the categories of {name!r} are dates or times: write them as words")
    if not all(isinstance(category, types) and category == category for category in categories):
        raise ValueError(f"the categories of {name!r} must be words, numbers or truth values")
    names = tuple(map(word_of, categories))
    if len(set(names)) < len(names):
        raise ValueError(f"{name!r} has the same category twice")
    if len(names) < 2:
        raise ValueError(f"{name!r} needs two or more different categories")
    return names


def _check_description(name: str, description: object) -> None:
    """Refuse a description that is not a text. Raises ValueError."""
    if not isinstance(description, str):
        raise ValueError(f"the description of {name!r} must be a text")


def _check_name(name: object) -> None:
    """Refuse a column name that is not a nonempty text. Raises ValueError."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"a column's name must be a word, and {name!r} is none")


def word_of(value: object) -> str:
    """Return the category name of a value, such as "1" of 1.0.

    A double from 2^53 on may stand for several whole numbers, and so is the name of none.
    """
    is_float = isinstance(value, float | np.floating)
    integral = is_float and float(value).is_integer() and abs(float(value)) < 2.0**53  # type: ignore[arg-type]
    return str(int(value)) if integral else str(value)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, clamped to their schema; always inside Private[Table].

    columns: (rows,) arrays by name: float64 of a number column, missing codes included; int32
    positions in the declared categories otherwise. present: (rows,), which rows are in use, where a
    schema has a privacy unit: unit u has the rows from u * max_rows on, those in use first and in
    random order. What the columns hold elsewhere is valid and means nothing.
    """

    columns: Mapping[str, NDArray[np.float64] | NDArray[np.int32]]
    rows: int
    present: NDArray[np.bool_] | None = None

    def within(self, schema: Schema) -> "Table":
        """Return the rows that a schema with fewer rows of each unit has.

        Raises ValueError where that is none of these rows, depending on numbers of rows alone.
        """
        several, rest = divmod(self.rows, max(schema.units, 1))
        if self.rows == schema.rows:
            return self
        if rest or several < schema.unit_rows:
            raise ValueError("the rows are not those of the schema")
        return self.first_of_units(several, schema.unit_rows)

    def first_of_units(self, several: int, wanted: int) -> "Table":
        """Return the first `wanted` of each unit's `several` rows."""

        def first(values: NDArray[Any]) -> NDArray[Any]:
            """Return the values of these rows."""
            return values.reshape(-1, several)[:, :wanted].reshape(-1)

        kept = {name: first(values) for name, values in self.columns.items()}
        present = None if self.present is None else first(self.present)
        return Table(kept, self.rows // several * wanted, present)

    def between(self, start: int, end: int) -> "Table":
        """Return rows start to end (exclusive), without copying."""
        rows = slice(start, end)
        kept = {name: values[rows] for name, values in self.columns.items()}
        present = None if self.present is None else self.present[rows]
        return Table(kept, end - start, present)

    def parts(self, _: Sequence[str]) -> Iterator["Table"]:
        """Yield the rows, as one table in memory."""
        yield self

    def whole(self, _: Sequence[str]) -> "Table":
        """Return the rows, which are in memory."""
        return self


COLUMN_KINDS: dict[str, type[Column]] = {
    "number": NumberColumn,
    "date": DateColumn,
    "category": CategoryColumn,
    "binary": BinaryColumn,
}
_ORDER = (
    "name", "type", "lower", "upper", "integer", "missing", "spikes", "categories", "description",
)  # fmt: skip
_OPTIONAL = ("integer", "missing", "spikes", "description")


def as_json(column: Column) -> dict[str, Any]:
    """Return a column as JSON values, without fields that are not declared."""
    members: dict[str, Any] = {"name": column.name, "type": column.type}
    if isinstance(column, NumberColumn):
        dated = isinstance(column, DateColumn)

        def shown(number: float) -> Any:
            """Return a number as JSON has it, of a column of dates as an ISO date."""
            return str(column.date_of(number)) if isinstance(column, DateColumn) else number

        members |= {"lower": shown(column.lower), "upper": shown(column.upper)}
        members["integer"] = column.integer and not dated
        members["missing"] = column.empty or [shown(code) for code in column.missing]
        members["spikes"] = [shown(spike) for spike in column.spikes]
    else:
        members |= {"categories": list(column.categories), "missing": column.missing}
    members["description"] = column.description
    names = [
        name for name in _ORDER if name in members and (members[name] or name not in _OPTIONAL)
    ]
    return {name: members[name] for name in names}


def members_of(kind: type[Column]) -> set[str]:
    """Return the JSON members of this type of column."""
    derived = {"empty", "origin", *(("integer",) if kind is DateColumn else ())}
    return {field.name for field in fields(kind)} - derived


def from_json(declared: Mapping[str, Any]) -> Column:
    """Return the column declared in JSON. Raises ValueError, which names it."""
    name, kind = declared.get("name"), declared.get("type")
    if kind not in COLUMN_KINDS:
        raise ValueError(f"the type of {name!r} must be one of {', '.join(COLUMN_KINDS)}")
    column_type = COLUMN_KINDS[kind]
    known = members_of(column_type)
    for member in declared:
        if member not in known:
            message = f"{name!r} has no member {member!r} as a {kind}{near(member, known)}"
            raise ValueError(message)
    values = {**declared}
    if isinstance(values.get("categories"), list):
        values["categories"] = tuple(values["categories"])
    try:
        return column_type(**values)
    except TypeError:
        needed = "lower and upper" if issubclass(column_type, NumberColumn) else "categories"
        raise ValueError(f"{name!r} needs {needed}") from None


def _columns_in(path: str | PathLike[str]) -> tuple[tuple[Column, ...], dict[str, Any]]:
    """Return the columns of a schema file, and its other JSON members.

    Raises ValueError, which names lines and fields, OSError.
    """
    name = fspath(path)
    content = schema_file.read(Path(path).read_bytes())
    problems, columns = list(content.problems), list[Column]()
    wrong = {problem.line for problem in problems}
    for at, declared in enumerate(content.columns):
        line = content.lines[at] if content.lines else at + 1
        if line not in wrong:
            try:
                columns.append(from_json(declared))
            except ValueError as error:
                problems.append(schema_file.Problem(line, "column", str(error)))
    if problems:
        problems.sort(key=lambda problem: problem.line)
        raise ValueError(f"{name}: {schema_file.message_of(problems)}")
    return tuple(columns), _facts(content.others)


def _facts(others: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema's facts beside columns, from its JSON or a dataset's."""
    facts: dict[str, Any] = {}
    unit = others.get("privacy_unit")
    if isinstance(unit, Mapping):
        unit = PrivacyUnit(column=unit["column"], max_rows=unit["max_rows"])
        if isinstance(others.get("units"), int):
            facts["rows"] = others["units"] * unit.max_rows
    if isinstance(others.get("rows"), int):
        facts["rows"] = others["rows"]
    if unit is not None:
        facts["privacy_unit"] = unit
    if "neighbouring" in others:
        facts["neighbouring"] = Neighbouring(others["neighbouring"])
    holders = [
        holder["rows"] if isinstance(holder, Mapping) else holder
        for holder in others.get("holders", ())
    ]
    return facts | ({"holders": tuple(holders)} if holders else {})


def _write(schema: Schema, path: str | PathLike[str]) -> None:
    """Write a schema: its columns as a table, or all of it as JSON. Raises ValueError, OSError."""
    columns, suffix = list(map(as_json, schema.columns)), Path(path).suffix.lower()
    if suffix == ".csv":
        text = schema_file.written(columns)
    elif suffix == ".json":
        facts: dict[str, Any] = {"rows": schema.rows, "neighbouring": schema.neighbouring.value}
        if isinstance(schema.privacy_unit, PrivacyUnit):
            unit = schema.privacy_unit
            facts["privacy_unit"] = {"column": unit.column, "max_rows": unit.max_rows}
        elif schema.privacy_unit is not None:
            facts["privacy_unit"] = schema.privacy_unit
        if schema.holders:
            facts["holders"] = list(schema.holders)
        text = json.dumps({**facts, "columns": columns}, indent=1, ensure_ascii=False) + "\n"
    else:
        raise ValueError(f"the name of a schema file ends with .csv or .json, not {suffix!r}")
    Path(path).write_text(text, encoding="utf-8")
