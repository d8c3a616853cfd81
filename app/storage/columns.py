"""Declared columns: validation of their bounds and categories, and their JSON form."""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.storage.dialect import Reading
from app.storage.errors import IngestError
from app.storage.rows import DatasetRow
from dpmcmc.base.private import Neighbouring
from dpmcmc.inputs.schema import (
    LARGEST_BOUND,
    BinaryColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    as_json,
    from_json,
)

MAX_NAME = 200
MAX_DESCRIPTION = 1000
MISREAD = "where its letters are read wrongly, declare the encoding in format"
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


def parse_columns(columns: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Return the columns of an upload's metadata. Raises IngestError with a pointer.

    `app.api.schemas` has checked types, lengths and orders before, by member.
    """
    return tuple(_column(column, f"/columns/{at}") for at, column in enumerate(columns))


def _column(declared: Mapping[str, Any], pointer: str) -> Column:
    """Return one declared column. Raises IngestError."""
    try:
        column = from_json(declared)
    except ValueError as error:
        raise _refuse(pointer, str(error)) from None
    _check_text(column.name, f"{pointer}/name")
    if isinstance(column, CategoryColumn | BinaryColumn):
        for at, category in enumerate(column.categories):
            _check_text(category, f"{pointer}/categories/{at}")
    elif not isinstance(column, DateColumn):
        for bound in ("lower", "upper"):
            if abs(getattr(column, bound)) > LARGEST_BOUND:
                raise _refuse(f"{pointer}/{bound}", TOO_LARGE)
        if column.upper - column.lower < SMALLEST_RANGE:
            raise _refuse(f"{pointer}/upper", TOO_CLOSE)
    return column


def _check_text(text: str, pointer: str) -> None:
    """Refuse a text that is empty or has characters that do not show."""
    if not text or not all(map(_shows, text)):
        raise _refuse(pointer, f"1 to {MAX_NAME} printable characters")


def _shows(character: str) -> bool:
    """Return whether a character may be in a name: printable, blank or joiner.

    What turns the direction of all that follows may not.
    """
    if character.isprintable():
        return True
    turns = unicodedata.bidirectional(character) in TURNS
    return unicodedata.category(character) in ("Zs", "Cf") and not turns


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
        (f"/columns/{at}", f"the file has no column {column.name!r}{_hint(column.name, names)}")
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


def _hint(name: str, names: Sequence[str]) -> str:
    """Return a hint where a name in the file has the same letters, or may be read wrongly."""
    if any(_letters(name) == _letters(other) for other in names):
        return ": its name there differs in small and capital letters, accents, spaces or signs"
    if not name.isascii() and not all(map(str.isascii, names)):
        return f": {MISREAD}"
    return ""


def _letters(name: str) -> str:
    """Return a name's letters and digits without case and accents; itself where it has none."""
    parts = unicodedata.normalize("NFKD", name.casefold())
    return "".join(filter(str.isalnum, parts)) or name


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
