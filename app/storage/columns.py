"""Columns: the public promises about a table, checked when they are made and written as JSON."""

import hashlib
import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
    NumberColumn,
    PrivacyUnit,
    Schema,
)

MAX_COLUMNS = 1000
MAX_CATEGORIES = 1000
MAX_CODES = 20
MAX_NAME = 200
TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
SMALLEST_RANGE = 1.0 / LARGEST_BOUND
TOO_CLOSE = (
    f"must be above lower by at least {SMALLEST_RANGE:g}: scale the column, and declare its new"
    " bounds"
)
TOO_LARGE = f"must lie within +-{LARGEST_BOUND:g}: scale the column, and declare its new bounds"


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """The column of an upload that names persons, in words or whole numbers. It is not stored."""

    name: str


def _refuse(pointer: str, message: str) -> IngestError:
    return IngestError("invalid_columns", pointer, message)


def parse_columns(columns: Sequence[Any]) -> tuple[Column, ...]:
    """Columns from the upload's metadata. Raises IngestError with a pointer into it."""
    if not isinstance(columns, list | tuple) or not columns:
        raise _refuse("/columns", "declare at least one column")
    if len(columns) > MAX_COLUMNS:
        raise _refuse("/columns", f"at most {MAX_COLUMNS} columns")
    parsed = tuple(_column(column, f"/columns/{at}") for at, column in enumerate(columns))
    repeated = _first_repeated(column.name for column in parsed)
    if repeated is not None:
        raise _refuse(f"/columns/{repeated}/name", "this name is taken by an earlier column")
    return parsed


def _column(column: Any, pointer: str) -> Column:
    kinds = {"number": _number, "category": _category, "binary": _binary}
    if not isinstance(column, dict) or column.get("type") not in kinds:
        raise _refuse(f"{pointer}/type", "a column is a number, a category or binary")
    _check_text(column.get("name"), f"{pointer}/name")
    parsed = kinds[column["type"]](column, pointer)
    unknown = set(column) - (set(asdict(parsed)) - {"empty"})
    if unknown:
        raise _refuse(pointer, "fields that this type of column does not have")
    return parsed


def _number(column: dict[str, Any], pointer: str) -> Column:
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
            told = "a whole number within 2^51, as the column is declared integer"
            raise _refuse(f"{pointer}/{bound}", told)
    return NumberColumn(
        name=column["name"],
        lower=lower,
        upper=upper,
        missing=missing,
        integer=integer,
        spikes=_spikes(spikes, f"{pointer}/spikes", (lower, upper), missing, integer=integer),
        empty=empty,
    )


def _spikes(
    given: Any,
    pointer: str,
    bounds: tuple[float, float],
    missing: tuple[float, ...],
    *,
    integer: bool,
) -> tuple[float, ...]:
    """Values that many rows have exactly. Raises IngestError."""
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
    found = tuple(float(value) for value in given)
    repeated = _first_repeated(found)
    if repeated is not None:
        raise _refuse(f"{pointer}/{repeated}", "this spike is declared twice")
    return found


def _missing(codes: Any, pointer: str) -> tuple[float, ...]:
    """Codes of missing values. Raises IngestError."""
    if not isinstance(codes, list | tuple) or len(codes) > MAX_CODES:
        raise _refuse(pointer, f"a list of at most {MAX_CODES} numbers")
    for at, code in enumerate(codes):
        if isinstance(code, bool) or not isinstance(code, int | float) or not _finite(code):
            raise _refuse(f"{pointer}/{at}", "a code is a finite number")
    found = tuple(float(code) for code in codes)
    repeated = _first_repeated(found)
    if repeated is not None:
        raise _refuse(f"{pointer}/{repeated}", "this code is declared twice")
    return found


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _categories(column: dict[str, Any], pointer: str) -> list[str]:
    categories = column.get("categories")
    if not isinstance(categories, list | tuple) or not 2 <= len(categories) <= MAX_CATEGORIES:
        raise _refuse(f"{pointer}/categories", f"declare 2 to {MAX_CATEGORIES} categories")
    for at, category in enumerate(categories):
        _check_text(category, f"{pointer}/categories/{at}")
    repeated = _first_repeated(categories)
    if repeated is not None:
        raise _refuse(f"{pointer}/categories/{repeated}", "this category is declared twice")
    return list(categories)


def _category(column: dict[str, Any], pointer: str) -> Column:
    return CategoryColumn(name=column["name"], categories=tuple(_categories(column, pointer)))


def _binary(column: dict[str, Any], pointer: str) -> Column:
    categories = _categories(column, pointer)
    if len(categories) != 2:
        raise _refuse(f"{pointer}/categories", "a binary column has exactly two categories")
    return BinaryColumn(name=column["name"], categories=(categories[0], categories[1]))


def _check_text(value: Any, pointer: str) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not all(map(_shows, value)):
        raise _refuse(pointer, f"1 to {MAX_NAME} printable characters")


def _shows(character: str) -> bool:
    """Whether a character may stand in a name: what is printed, blanks and joiners.

    What turns the direction of all that follows may not.
    """
    if character.isprintable():
        return True
    turns = unicodedata.bidirectional(character) in TURNS
    return unicodedata.category(character) in ("Zs", "Cf") and not turns


def _first_repeated(values: Iterable[str | float]) -> int | None:
    seen: set[str | float] = set()
    for at, value in enumerate(values):
        if value in seen:
            return at
        seen.add(value)
    return None


def check_names(
    names: Sequence[str], columns: Sequence[Column | UnitColumn], reading: Reading
) -> None:
    """Refuse a file whose columns are not the declared ones and those that are left out.

    They may come in any order. A column without a name is left out. Names that only the file has
    are not repeated in the message: without a header they are values.
    """
    absent = tuple(
        (f"/columns/{at}", f"the file has no column {column.name!r}")
        for at, column in enumerate(columns)
        if column.name not in names
    )
    if absent:
        raise IngestError("missing_column", *absent[0], absent)
    declared = {column.name for column in columns}
    undeclared = sum(1 for name in names if name and name not in {*declared, *reading.skip})
    if undeclared and not reading.skip_undeclared:
        told = f"{undeclared} columns of the file are not declared: name them in skip, or say"
        raise IngestError("extra_column", "/file", f"{told} skip_undeclared, to leave them out")
    if any(names.count(name) > 1 for name in declared):
        raise IngestError("repeated_column", "/file", "a declared column is there more than once")


def columns_json(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Columns as the contract writes them, for `DatasetRow.columns`.

    What is not declared (`missing`, `integer`, `spikes`) is not there: what was written before
    there was any keeps its digest.
    """
    order = ("name", "type", "lower", "upper", "integer", "missing", "spikes", "categories")
    plain = [json.loads(json.dumps(asdict(column))) for column in columns]
    plain = [{**one, "missing": True} if one.get("empty") else one for one in plain]
    declared = [{k: v for k, v in one.items() if v is not False and v != []} for one in plain]
    return [{k: one[k] for k in order if k in one} for one in declared]


def columns_digest(columns: Sequence[Column]) -> bytes:
    """SHA-256 of the promises; the encrypted rows are bound to it."""
    text = json.dumps(columns_json(columns), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def schema_of(row: DatasetRow) -> Schema:
    """The public facts of a stored dataset."""
    return Schema(
        columns=parse_columns(row.columns),
        rows=row.rows,
        neighbouring=Neighbouring(row.neighbouring),
        holders=tuple(one["rows"] for one in row.holders or ()),
        privacy_unit=unit_of(row.privacy_unit),
    )


def unit_of(declared: Mapping[str, Any] | str | None) -> PrivacyUnit | Literal["row"] | None:
    """The privacy unit of what a record or an upload's metadata says."""
    if isinstance(declared, Mapping):
        return PrivacyUnit(column=declared["column"], max_rows=declared["max_rows"])
    return None if declared is None else "row"
