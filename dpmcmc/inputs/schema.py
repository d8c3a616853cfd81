"""Public facts about a table: columns with declared bounds and categories, and the row count."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from itertools import groupby
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import near
from dpmcmc.base.private import Neighbouring
from dpmcmc.inputs.frames import DecimalType, ValueType, columns_of, held, rows_of, type_of

DATES = (
    "dates are no type of column: give the column as numbers, such as days since a date, and its"
    " bounds in the same unit"
)
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(  # a year first, a year last, or a month by its name
    r"\d{4}[-/](0?[1-9]|1[0-2])|\d{4}[-/.](0?[1-9]|1[0-2])[-/.]\d{1,2}([T ].*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})( .*)?"
    rf"|(\d{{1,2}}[.,]?[- ]+)?({_MONTHS})[a-z]*[.,]?[- ]+(\d{{1,2}},?[- ]+)?\d{{2,4}}",
    re.ASCII | re.IGNORECASE,
)
LARGEST_WHOLE = 2.0**51  # up to which every half is a double
MOST_SPIKES = 20
LARGEST_BOUND = 1e30  # of a number that is modelled: inverses of sums of its squares stay finite


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn:
    """A numeric column. lower < upper: declared finite bounds; values outside are clamped.

    missing: codes, wherever they lie, that stand for no value. They are kept as they are, and a row
    with one in a column of a model is left out of that model. It counts as a row all the same.
    integer: whether all values are whole numbers, codes apart; synthetic tables hold whole numbers
    then, and quantiles are whole. spikes: values that many rows have exactly, such as 0 of an
    amount; tables of counts and synthetic tables give each of them a cell of its own.
    Raises ValueError where bounds, codes or spikes are none.
    """

    name: str
    lower: float
    upper: float
    type: Literal["number"] = "number"
    missing: tuple[float, ...] = ()
    integer: bool = False
    spikes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)
        if is_date(self.lower) or is_date(self.upper):
            raise ValueError(f"the bounds of {self.name!r} are dates, and {DATES}")
        if not _is_number(self.lower) or not _is_number(self.upper):
            raise ValueError(f"{self.name!r} needs finite numbers as its bounds (lower, upper)")
        if not -np.inf < self.lower < self.upper < np.inf:
            raise ValueError(f"{self.name!r} needs finite bounds with lower below upper")
        if not isinstance(self.missing, Sequence | np.ndarray) or isinstance(self.missing, str):
            raise ValueError(f"the missing codes of {self.name!r} must be a list, such as [-9]")
        if not all(_is_number(code) and np.isfinite(code) for code in self.missing):
            raise ValueError(f"the missing codes of {self.name!r} must be finite numbers")
        # whole numbers in an array of such would cut priors to whole numbers as well
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))
        object.__setattr__(self, "missing", tuple(map(_code, self.missing)))
        self._check_whole()
        object.__setattr__(self, "spikes", self._checked_spikes())

    def _check_whole(self) -> None:
        if type(self.integer) is not bool:
            raise ValueError(f"integer of {self.name!r} must be True or False")
        ends = (self.lower, self.upper)
        if self.integer and not all(e.is_integer() and abs(e) <= LARGEST_WHOLE for e in ends):
            limit = "whole numbers within 2^51, as its values are"
            raise ValueError(f"the bounds of {self.name!r} must be {limit}")

    def _checked_spikes(self) -> tuple[float, ...]:
        given = self.spikes
        if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
            raise ValueError(f"the spikes of {self.name!r} must be a list, such as [0]")
        if not all(_is_number(one) for one in given):
            raise ValueError(f"the spikes of {self.name!r} must be numbers")
        found = tuple(sorted(map(_code, given)))
        if len(found) > MOST_SPIKES or len(set(found)) < len(found):
            raise ValueError(f"{self.name!r} may have {MOST_SPIKES} different spikes")
        if not all(self.lower <= one <= self.upper for one in found):
            raise ValueError(f"the spikes of {self.name!r} must lie within its bounds")
        if set(found) & set(self.missing):
            raise ValueError(f"a spike of {self.name!r} is a missing code as well")
        if self.integer and not all(one.is_integer() for one in found):
            raise ValueError(
                f"the spikes of {self.name!r} must be whole numbers, as its values are"
            )
        return found

    def is_whole(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which values may be those of an integer column: whole ones, and codes."""
        whole: NDArray[np.bool_] = np.trunc(values) == values
        return whole | self.is_missing(values)

    def impossible(self, type: ValueType) -> tuple[float, ...]:
        """Return the missing codes and spikes that no value of a column of this type can equal."""
        return tuple(code for code in (*self.missing, *self.spikes) if not held(code, type))

    def declared(self, numbers: NDArray[np.float64], type: ValueType) -> NDArray[np.float64]:
        """Return numbers of a column of this type, each code and spike as the double it is here.

        numbers: as doubles. In a float32, -9.9 is another number than in a double.
        """
        read = [(code, held(code, type)) for code in (*self.missing, *self.spikes)]
        found = numbers
        for code, doubles in read:
            if doubles not in ((code,), ()):
                found = np.where(np.isin(numbers, doubles), code, found)
        return found

    def clamped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values within the bounds, missing codes as they are.

        values: as `declared` returns them. None that is no code becomes one: where a bound is a
        code, a value beyond it becomes the double next to it.
        """
        within = np.clip(values, self.lower, self.upper)
        if not self.missing:
            return within
        for code in self.missing:
            if code in (self.lower, self.upper):
                other = self.upper if code == self.lower else self.lower
                inside = code + np.sign(other - code) if self.integer else np.nextafter(code, other)
                within = np.where(within == code, inside, within)
        return np.where(self.is_missing(values), values, within)

    def is_missing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values are missing codes. values: as `declared` returns them."""
        return np.isin(values, self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryColumn:
    """A column of declared categories (at least two, distinct). Raises ValueError on others."""

    name: str
    categories: tuple[str, ...]
    type: Literal["category"] = "category"

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", _words(self.name, self.categories))


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryColumn:
    """A column of exactly two declared categories, the second one coded as 1.

    Raises ValueError on others.
    """

    name: str
    categories: tuple[str, str]
    type: Literal["binary"] = "binary"

    def __post_init__(self) -> None:
        words = _words(self.name, self.categories)
        if len(words) != 2:
            raise ValueError(f"{self.name!r} has {len(words)} categories: a binary column has two")
        object.__setattr__(self, "categories", words)


Column = NumberColumn | CategoryColumn | BinaryColumn


def is_date(value: object) -> bool:
    """Whether it is a date, a time or a duration, or a word that is written as a date."""
    if isinstance(value, str):
        return _DATE.fullmatch(value.strip()) is not None
    if isinstance(value, date | time | timedelta | np.datetime64 | np.timedelta64):
        return True
    return hasattr(value, "year") and hasattr(value, "month")  # a period of pandas


def zero_to_one(column: Column) -> bool:
    """Whether it is a number with bounds 0 and 1, which may be a yes or no."""
    return isinstance(column, NumberColumn) and (column.lower, column.upper) == (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Everything about a dataset that is public. rows is public under replace_one.

    holders: where several data holders have the rows, how many each of them has, in the order of
    the rows; who holds a row is public then, and a replaced row stays with its holder. Raises
    ValueError where they do not add up to the rows, and on what is no column or no number of rows.
    """

    columns: tuple[Column, ...]
    rows: int
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    holders: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        told = self.columns
        if not isinstance(told, Sequence) or not all(isinstance(c, get_args(Column)) for c in told):
            kinds = "NumberColumn, CategoryColumn and BinaryColumn"
            raise ValueError(f"columns must be a tuple of {kinds}; Schema.from_frame makes them")
        names = [column.name for column in told]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"column {twice!r} is declared twice")
        if not isinstance(self.rows, Integral) or isinstance(self.rows, bool) or self.rows < 0:
            raise ValueError("rows must be a whole number, 0 or more")
        if self.neighbouring not in tuple(Neighbouring):
            raise ValueError(f"neighbouring must be one of {', '.join(Neighbouring)}")
        object.__setattr__(self, "neighbouring", Neighbouring(self.neighbouring))
        object.__setattr__(self, "rows", int(self.rows))
        object.__setattr__(self, "columns", tuple(told))
        object.__setattr__(self, "holders", tuple(self.holders))
        if self.holders and (min(self.holders) < 1 or sum(self.holders) != self.rows):
            raise ValueError("holders need a row each, and their rows add up to all rows")

    @classmethod
    def from_frame(
        cls,
        frame: object,
        bounds: Mapping[str, Sequence[object]],
        *,
        missing: Mapping[str, Sequence[float]] | None = None,
        integer: Sequence[str] = (),
        spikes: Mapping[str, Sequence[float]] | None = None,
        holders: str | Sequence[int] = (),
    ) -> "Schema":
        """Return the schema of a data frame: its number of rows, and what you declare of columns.

        frame: pandas, polars, Arrow or any other that narwhals reads or that has `__dataframe__`,
        or column name -> values. bounds: of each column that is used, its bounds (lower, upper)
        where it holds numbers, or its categories; two categories make a binary column, whose second
        one is coded 1, and so do two words, also "0" and "1". missing: of number columns, the codes
        that stand for no value. integer: names of number columns whose values are whole. spikes: of
        number columns, values that many rows have exactly; see NumberColumn. Bounds, categories and
        spikes are public promises: state them from what is known of the world, not from these rows.
        holders: where several data holders have the rows, how many each has, in the order of the
        rows, or the name of a column that says whose a row is, sorted by it; that is public then.
        Raises ValueError on a column that is not there, and on bounds that are none.
        """
        for what, given in (("bounds", bounds), ("missing", missing), ("spikes", spikes)):
            if not isinstance(given, Mapping) and (given is not None or what == "bounds"):
                raise ValueError(f"{what} must be a dictionary, {_EXAMPLES[what]}")
        if isinstance(integer, str) or not isinstance(integer, Sequence):
            raise ValueError('integer must be a list of names, such as ["age"]')
        there, missing, spikes = columns_of(frame), missing or {}, spikes or {}
        for name in (*bounds, *missing, *integer, *spikes):
            if name not in there:
                raise ValueError(f"there is no column {name!r}{near(name, there)}")
        columns = tuple(
            _more(_declared(name, told, missing), name in integer, spikes.get(name, ()))
            for name, told in bounds.items()
        )
        for column in columns:
            if isinstance(column, NumberColumn):
                check_type(column, type_of(there[column.name]))
        for name in {*missing, *integer, *spikes} - set(bounds):
            what = "missing codes" if name in missing else "a type or spikes"
            raise ValueError(f"{name!r} has {what} and no bounds: declare those as well")
        if not isinstance(holders, Sequence):
            raise ValueError("holders must be numbers of rows, such as [300, 200], or a column")
        held_by = _counted(holders, there) if isinstance(holders, str) else tuple(holders)
        return cls(columns=columns, rows=rows_of(there), holders=held_by)


def _counted(name: str, columns: Mapping[str, Sequence[object]]) -> tuple[int, ...]:
    """Return how many rows each holder has, of a column of their names. Raises ValueError."""
    if name not in columns:
        raise ValueError(f"there is no column {name!r}{near(name, columns)}")
    runs = [(key, sum(1 for _ in run)) for key, run in groupby(map(word_of, columns[name]))]
    if len({key for key, _ in runs}) < len(runs):
        raise ValueError(f"the rows of a holder must lie together: sort them by {name!r}")
    return tuple(count for _, count in runs)


_EXAMPLES = {
    "bounds": 'such as {"age": (0, 120), "sex": ("f", "m")}',
    "missing": 'such as {"age": [-9]}',
    "spikes": 'such as {"income": [0]}',
}


def _more(column: Column, integer: bool, spikes: Sequence[float]) -> Column:
    """Return a column with what only number columns have. Raises ValueError."""
    if isinstance(column, NumberColumn):
        return replace(column, integer=integer, spikes=tuple(spikes))
    if integer or spikes:
        raise ValueError(f"{column.name!r} has categories: only numbers are whole or have spikes")
    return column


def _declared(name: str, told: object, missing: Mapping[str, Any]) -> Column:
    """Return a column from its bounds or categories. Raises ValueError."""
    if getattr(getattr(told, "dtype", None), "kind", "") in ("m", "M"):
        raise ValueError(f"the bounds of {name!r} are dates, and {DATES}")
    if isinstance(told, np.ndarray):
        told = told.tolist()
    if isinstance(told, str) or not isinstance(told, Sequence) or len(told) < 2:
        raise ValueError(
            f"{name!r} needs bounds (lower, upper) or two categories or more, in order"
        )
    dates = [is_date(one) for one in told]
    if any(dates) and (len(told) == 2 or not all(isinstance(one, str) for one in told)):
        categories = " (categories that are written as dates: BinaryColumn or CategoryColumn)"
        raise ValueError(f"the bounds of {name!r} are dates, and {DATES}{categories}")
    numbers = [_is_number(one) for one in told]
    if len(told) == 2 and all(numbers):
        lower, upper = (float(one) for one in told)
        return NumberColumn(name=name, lower=lower, upper=upper, missing=missing.get(name, ()))
    if any(numbers) and not all(numbers):
        raise ValueError(f"{name!r} has numbers and words: give two numbers, or categories alike")
    if name in missing:
        raise ValueError(
            f"{name!r} has categories: declare what stands for no value as one of them"
        )
    words = _words(name, told)
    if len(words) == 2:
        return BinaryColumn(name=name, categories=(words[0], words[1]))
    return CategoryColumn(name=name, categories=words)


def check_type(column: NumberColumn, type: ValueType) -> None:
    """Refuse values that are no numbers, and codes and spikes that none of this type can equal.

    Raises ValueError.
    """
    kind = "" if isinstance(type, DecimalType) else type.kind
    if kind in ("m", "M"):
        raise ValueError(f"column {column.name!r} has dates or times, and {DATES}")
    if kind == "c":
        raise ValueError(f"column {column.name!r} has complex numbers: give their parts")
    for code in column.impossible(type):
        what = "missing code" if code in column.missing else "spike"
        raise ValueError(
            f"column {column.name!r} has the type {type}, and none of its values can equal the"
            f" {what} {code:.15g}: declare the one that it has there, or give it as float64"
        )


def _code(code: float) -> float:
    """Return a missing code as a double: -9.9 in a float32 is meant as -9.9."""
    return float(str(code)) if isinstance(code, np.floating) else float(code)


def _is_number(value: object) -> bool:
    """Whether it is a number, of Python or NumPy; truth values and durations are none."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def _words(name: str, categories: object) -> tuple[str, ...]:
    """Return categories as words. Raises ValueError where they are none."""
    _check_name(name)
    if isinstance(categories, str) or not isinstance(categories, Sequence | np.ndarray):
        raise ValueError(f'the categories of {name!r} must be a list, such as ("no", "yes")')
    known = (str, bool, np.bool_, Real)
    if any(is_date(one) and not isinstance(one, str) for one in categories):
        raise ValueError(f"the categories of {name!r} are dates or times: write them as words")
    if not all(isinstance(one, known) and one == one for one in categories):
        raise ValueError(f"the categories of {name!r} must be words, numbers or truth values")
    words = tuple(map(word_of, categories))
    if len(set(words)) < len(words):
        raise ValueError(f"{name!r} has the same category twice")
    if len(words) < 2:
        raise ValueError(f"{name!r} needs two or more different categories")
    return words


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"a column's name must be a word, and {name!r} is none")


def word_of(value: object) -> str:
    """Return a value as the name of its category: 1.0 as "1"."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, clamped to their schema. columns: name -> (rows,) float64 for numbers (or a missing
    code), int32 codes into the declared categories otherwise. Only ever held as Private[Table]."""

    columns: Mapping[str, NDArray[np.float64] | NDArray[np.int32]]
    rows: int
