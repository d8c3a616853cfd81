"""Declared columns: validation of their bounds and categories, and their JSON form."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.storage.dialect import Reading
from app.storage.errors import IngestError
from app.storage.rows import DatasetRow
from dpmcmc.base.private import Neighbouring
from dpmcmc.inputs.schema import (
    LARGEST_BOUND,
    LARGEST_WHOLE,
    MOST_SPIKES,
    BinaryColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    as_json,
    day_of,
    members_of,
)

MAX_COLUMNS = 1000
MAX_CATEGORIES = 1000
MAX_CODES = 20
MAX_NAME = 200
MAX_DESCRIPTION = 1000
ISO_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
SMALLEST_RANGE = 1.0 / LARGEST_BOUND
TOO_CLOSE = (
    f"must be above lower by at least {SMALLEST_RANGE:g}: scale the column, and declare its new"
    " bounds"
)
TOO_LARGE = f"must lie within +-{LARGEST_BOUND:g}: scale the column, and declare its new bounds"


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """The upload column that names persons, as text or whole numbers. It is not stored."""

    name: str


def _refuse(pointer: str, message: str) -> IngestError:
    """Return an IngestError of a column's declaration."""
    return IngestError("invalid_columns", pointer, message)


def parse_columns(columns: Sequence[Any]) -> tuple[Column, ...]:
    """Return the columns of an upload's metadata. Raises IngestError with a pointer."""
    if not isinstance(columns, list | tuple) or not columns:
        raise _refuse("/columns", "declare at least one column")
    if len(columns) > MAX_COLUMNS:
        raise _refuse("/columns", f"at most {MAX_COLUMNS} columns")
    parsed = tuple(_column(column, f"/columns/{at}") for at, column in enumerate(columns))
    names = (column.name for column in parsed)
    _check_distinct(names, "/columns", "this name is taken by an earlier column", of="/name")
    return parsed


def _column(column: Any, pointer: str) -> Column:
    """Return one declared column. Raises IngestError."""
    kinds = {"number": _number, "date": _date, "category": _category, "binary": _binary}
    if not isinstance(column, dict) or column.get("type") not in kinds:
        raise _refuse(f"{pointer}/type", "a column is a number, a date, a category or binary")
    _check_text(column.get("name"), f"{pointer}/name")
    description = column.get("description", "")
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        raise _refuse(f"{pointer}/description", f"a text of at most {MAX_DESCRIPTION} characters")
    parsed = replace(kinds[column["type"]](column, pointer), description=description)
    if set(column) - members_of(type(parsed)):
        raise _refuse(pointer, "fields that this type of column does not have")
    return parsed


def _number(column: dict[str, Any], pointer: str) -> Column:
    """Return a declared number column. Raises IngestError."""
    for bound in ("lower", "upper"):
        value = column.get(bound)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise _refuse(f"{pointer}/{bound}", "a bound is a finite number")
    lower, upper = float(column["lower"]), float(column["upper"])
    for bound, value in (("lower", lower), ("upper", upper)):
        if abs(value) > LARGEST_BOUND:
            raise _refuse(f"{pointer}/{bound}", TOO_LARGE)
    if not lower < upper or not math.isfinite(upper - lower):
        raise _refuse(f"{pointer}/upper", "must be above lower, and their distance finite")
    if upper - lower < SMALLEST_RANGE:
        raise _refuse(f"{pointer}/upper", TOO_CLOSE)
    empty = column.get("missing") is True
    missing = () if empty else _missing(column.get("missing", ()), f"{pointer}/missing")
    integer, spikes = column.get("integer", False), column.get("spikes", ())
    if not isinstance(integer, bool):
        raise _refuse(f"{pointer}/integer", "true or false")
    for bound, value in (("lower", lower), ("upper", upper)):
        if integer and not (value.is_integer() and abs(value) <= LARGEST_WHOLE):
            message = "a whole number within 2^51, as the column is declared integer"
            raise _refuse(f"{pointer}/{bound}", message)
    return NumberColumn(
        name=column["name"],
        lower=lower,
        upper=upper,
        missing=missing,
        integer=integer,
        spikes=_spikes(spikes, f"{pointer}/spikes", (lower, upper), missing, integer=integer),
        empty=empty,
    )


def _date(column: dict[str, Any], pointer: str) -> Column:
    """Return a declared date column. Raises IngestError."""
    missing, spikes = column.get("missing", ()), column.get("spikes", ())
    if missing is not True:
        missing = _days(missing, f"{pointer}/missing", MAX_CODES)
    spikes = _days(spikes, f"{pointer}/spikes", MOST_SPIKES)
    for bound in ("lower", "upper"):
        _check_day(column.get(bound), f"{pointer}/{bound}")
    if not column["lower"] < column["upper"]:
        raise _refuse(f"{pointer}/upper", "must be after lower")
    try:
        return DateColumn(
            name=column["name"],
            lower=column["lower"],
            upper=column["upper"],
            missing=missing,
            spikes=spikes,
        )
    except ValueError as error:  # what is left: spikes outside the bounds, or among the codes
        raise _refuse(f"{pointer}/spikes", str(error)) from None


def _days(given: Any, pointer: str, most: int) -> tuple[str, ...]:
    """Return a list of dates. Raises IngestError."""
    if not isinstance(given, list | tuple) or len(given) > most:
        raise _refuse(pointer, f"a list of at most {most} dates")
    for at, value in enumerate(given):
        _check_day(value, f"{pointer}/{at}")
    _check_distinct(given, pointer, "this date is declared twice")
    return tuple(given)


def _check_day(value: Any, pointer: str) -> None:
    """Refuse a value that is not an ISO date."""
    if not isinstance(value, str) or not re.fullmatch(ISO_DAY, value) or day_of(value) is None:
        raise _refuse(pointer, "a date, such as 2020-01-31")


def _spikes(
    given: Any,
    pointer: str,
    bounds: tuple[float, float],
    missing: tuple[float, ...],
    *,
    integer: bool,
) -> tuple[float, ...]:
    """Return the declared spikes, values that many rows have exactly. Raises IngestError."""
    if not isinstance(given, list | tuple) or len(given) > MOST_SPIKES:
        raise _refuse(pointer, f"a list of at most {MOST_SPIKES} numbers")
    for at, value in enumerate(given):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _refuse(f"{pointer}/{at}", "a spike is a number")
        if not bounds[0] <= value <= bounds[1]:
            raise _refuse(f"{pointer}/{at}", "a spike lies within the bounds of its column")
        if value in missing:
            raise _refuse(f"{pointer}/{at}", "a spike is no missing code")
        if integer and not float(value).is_integer():
            raise _refuse(f"{pointer}/{at}", "a spike of an integer column is a whole number")
    numbers = tuple(float(value) for value in given)
    _check_distinct(numbers, pointer, "this spike is declared twice")
    return numbers


def _missing(codes: Any, pointer: str) -> tuple[float, ...]:
    """Return the codes of missing values. Raises IngestError."""
    if not isinstance(codes, list | tuple) or len(codes) > MAX_CODES:
        raise _refuse(pointer, f"a list of at most {MAX_CODES} numbers")
    for at, code in enumerate(codes):
        if isinstance(code, bool) or not isinstance(code, int | float) or not _finite(code):
            raise _refuse(f"{pointer}/{at}", "a code is a finite number")
    numbers = tuple(float(code) for code in codes)
    _check_distinct(numbers, pointer, "this code is declared twice")
    return numbers


def _finite(value: int | float) -> bool:
    """Return whether a number is finite as a double."""
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _categories(column: dict[str, Any], pointer: str) -> list[str]:
    """Return the declared categories. Raises IngestError."""
    categories = column.get("categories")
    if not isinstance(categories, list | tuple) or not 2 <= len(categories) <= MAX_CATEGORIES:
        raise _refuse(f"{pointer}/categories", f"declare 2 to {MAX_CATEGORIES} categories")
    for at, category in enumerate(categories):
        _check_text(category, f"{pointer}/categories/{at}")
    _check_distinct(categories, f"{pointer}/categories", "this category is declared twice")
    return list(categories)


def _category(column: dict[str, Any], pointer: str) -> Column:
    """Return a declared category column. Raises IngestError."""
    categories, missing = _categories(column, pointer), _may_be_missing(column, pointer)
    return CategoryColumn(name=column["name"], categories=tuple(categories), missing=missing)


def _binary(column: dict[str, Any], pointer: str) -> Column:
    """Return a declared binary column. Raises IngestError."""
    categories = _categories(column, pointer)
    if len(categories) != 2:
        raise _refuse(f"{pointer}/categories", "a binary column has exactly two categories")
    pair, missing = (categories[0], categories[1]), _may_be_missing(column, pointer)
    return BinaryColumn(name=column["name"], categories=pair, missing=missing)


def _may_be_missing(column: dict[str, Any], pointer: str) -> bool:
    """Return whether a category column may have missing values. Raises IngestError."""
    missing = column.get("missing", False)
    if not isinstance(missing, bool):
        message = "true or false: a word for no value is a category of its own, or one of format"
        raise _refuse(f"{pointer}/missing", message)
    return missing


def _check_text(value: Any, pointer: str) -> None:
    """Refuse a text that is empty, too long or has unprintable characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not all(map(_shows, value)):
        raise _refuse(pointer, f"1 to {MAX_NAME} printable characters")


def _shows(character: str) -> bool:
    """Return whether a character may be in a name: printable, blank or joiner.

    What turns the direction of all that follows may not.
    """
    if character.isprintable():
        return True
    turns = unicodedata.bidirectional(character) in TURNS
    return unicodedata.category(character) in ("Zs", "Cf") and not turns


def _check_distinct(
    values: Iterable[str | float], pointer: str, message: str, *, of: str = ""
) -> None:
    """Raise IngestError at the first repeated value; of: what follows its number in the pointer."""
    earlier: set[str | float] = set()
    for at, value in enumerate(values):
        if value in earlier:
            raise _refuse(f"{pointer}/{at}{of}", message)
        earlier.add(value)


def holds_numbers(column: Column | UnitColumn) -> bool:
    """Return whether a column's values are numbers, and no dates or words."""
    return isinstance(column, NumberColumn) and not isinstance(column, DateColumn)


def check_names(
    names: Sequence[str], columns: Sequence[Column | UnitColumn], reading: Reading
) -> None:
    """Refuse a file whose columns differ from the declared and the skipped ones.

    They may come in any order. A column without a name is left out. Names that only the file has
    are not repeated in the message: without a header they are values.
    """
    absent = tuple(
        (f"/columns/{at}", f"the file has no column {column.name!r}{_case(column.name, names)}")
        for at, column in enumerate(columns)
        if column.name not in names
    )
    if absent:
        raise IngestError("missing_column", *absent[0], absent)
    declared = {column.name for column in columns}
    undeclared = sum(1 for name in names if name and name not in {*declared, *reading.skip})
    if undeclared and not reading.skip_undeclared:
        message = f"{undeclared} columns of the file are not declared: name them in skip, or say"
        raise IngestError("extra_column", "/file", f"{message} skip_undeclared, to leave them out")
    twice = [name for name in sorted(declared) if names.count(name) > 1]
    if twice:
        message = f"declared columns are there more than once: {', '.join(map(repr, twice))}"
        raise IngestError("repeated_column", "/file", f"{message}; rename all but one in the file")


def _case(name: str, names: Sequence[str]) -> str:
    """Return a hint where a name in the file differs in case alone."""
    alike = any(name.casefold() == other.casefold() for other in names)
    return ": its name there differs in small and capital letters" if alike else ""


def columns_json(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return columns as JSON values, for `DatasetRow.columns`.

    What is not declared (`missing`, `integer`, `spikes`) is not there: what was written before
    there was any keeps its digest.
    """
    return [as_json(column) for column in columns]


def columns_digest(columns: Sequence[Column]) -> bytes:
    """Return the SHA-256 of the declarations, to which encrypted rows are bound."""
    text = json.dumps(columns_json(columns), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def schema_of(row: DatasetRow) -> Schema:
    """Return the public schema of a stored dataset."""
    return Schema(
        columns=parse_columns(row.columns),
        rows=row.rows,
        neighbouring=Neighbouring(row.neighbouring),
        holders=tuple(holder["rows"] for holder in row.holders or ()),
        privacy_unit=unit_of(row.privacy_unit),
    )


def unit_of(declared: Mapping[str, Any] | str | None) -> PrivacyUnit | Literal["row"] | None:
    """Return the privacy unit in a record or an upload's metadata."""
    if isinstance(declared, Mapping):
        return PrivacyUnit(column=declared["column"], max_rows=declared["max_rows"])
    return None if declared is None else "row"
