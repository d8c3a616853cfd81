"""Inspection of a file before upload, for the admin who uploads it. Nothing is stored."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal

from app.services.context import Services
from app.services.datasets.uploads import kind_of, refused
from app.storage.dialect import (
    DATES_TWO_WAYS,
    LONGEST_SPELLING,
    MOST_SPELLINGS,
    SLASHED,
    SPELLINGS,
    TWO_WAYS,
    WAYS,
    Dialect,
    opened,
)
from app.storage.errors import IngestError
from app.storage.limits import Limits
from app.storage.read_csv import ROW_NAMES, first_rows
from app.storage.read_parquet import Kind, columns_of_file
from dpmcmc.inputs.schema import is_date

SHOWN_ROWS, SHOWN_CHARACTERS = 5, 100
MANY = 20  # different texts of a column that has hardly any twice: an id, or free text
MOSTLY = 0.75  # numbers or dates among the values of a column in which few words mean no value
FEW = 3
WHY = {
    "/format/decimal": TWO_WAYS,
    "/format/row_names": ROW_NAMES,
    "/format/dates": DATES_TWO_WAYS,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A column of a file. kind: of its first values. missing: spellings of missing values."""

    name: str
    kind: Kind
    skip: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspected:
    """The inspected file. questions: (pointer, message) of options that must be declared."""

    kind: Literal["csv", "parquet"]
    dialect: Dialect | None
    questions: tuple[tuple[str, str], ...]
    columns: tuple[Found, ...]
    rows: tuple[tuple[str, ...], ...]


def inspect(services: Services, file: BinaryIO, declared: Dialect) -> Inspected:
    """Inspect the beginning of a file without storing anything. Raises Refusal 422."""
    limits = Limits(file_bytes=services.settings.max_upload_bytes)
    try:
        if kind_of(file) == "parquet":
            kinds = [Found(name, kind, False) for name, kind in columns_of_file(file, limits)]
            return Inspected("parquet", None, (), tuple(kinds), ())
        try:
            sample = first_rows(file, declared, limits)
        except IngestError as error:
            if error.code != "ambiguous_format":
                raise
            return Inspected("csv", declared, error.problems, (), ())
    except IngestError as error:
        raise refused(error) from None
    missing = set(declared.missing)
    columns = []
    for at, name in enumerate(sample.names):
        values = [row[at] for row in sample.records if at < len(row)]
        columns.append(_found(name, values, sample.dialect, missing))
    said = dict.fromkeys(one for column in columns for one in column.missing)
    spelled = sorted(
        said, key=lambda one: SPELLINGS.index(one) if one in SPELLINGS else len(SPELLINGS)
    )
    spellings = tuple(dict.fromkeys([*declared.missing, *spelled]))[:MOST_SPELLINGS]
    dialect = replace(sample.dialect, missing=spellings)
    unknown = set(opened(dialect))
    if "/format/thousands" not in unknown:  # no number with a mark was seen
        unknown.discard("/format/decimal")
    dated = {at for at, column in enumerate(columns) if column.kind == "date"}
    cells = (row[at] for row in sample.records for at in dated if at < len(row))
    if not any(re.match(SLASHED, cell) for cell in cells):
        unknown.discard("/format/dates")
    questions = tuple((place, said) for place, said in WHY.items() if place in unknown)
    rows = tuple(
        tuple(cell[:SHOWN_CHARACTERS] for cell in row) for row in sample.records[:SHOWN_ROWS]
    )
    return Inspected("csv", dialect, questions, tuple(columns), rows)


def _found(name: str, values: Sequence[str], dialect: Dialect, missing: set[str]) -> Found:
    """Return the kind of a column by its first values, missing ones excluded."""
    said = {value for value in values if value and value not in missing}
    spelled = said & set(SPELLINGS)
    words = said - spelled
    decimal = dialect.decimal or "."
    number = WAYS[decimal, dialect.thousands or ""]
    kind: Kind = "text"
    if words and all(map(number.fullmatch, words)):
        kind = "whole" if all(re.fullmatch(r"[+-]?[0-9]+", word) for word in words) else "number"
    elif words and all(map(is_date, words)):
        kind = "date"
    if kind == "text":
        spellings = _own_spellings(values, words, number)
        if spellings:
            found = _found(name, values, dialect, missing | spellings)
            return replace(found, missing=(*found.missing, *sorted(spellings)))
    if (kind == "text" and len(spelled) > 1) or not words:
        spelled = set()  # words such as x and ? may be categories
    filled = sum(1 for value in values if value)
    many = len(words) > max(MANY, filled * 0.9)
    prose = kind == "text" and any("\n" in word or len(word) > SHOWN_CHARACTERS for word in words)
    skip = not name or prose or (many and kind in ("text", "whole"))
    return Found(name, kind, skip, tuple(spelling for spelling in SPELLINGS if spelling in spelled))


def _own_spellings(values: Sequence[str], words: set[str], number: re.Pattern[str]) -> set[str]:
    """Return rare words without digits among numbers or dates, such as `k.A.`.

    A value such as `<5` has a digit, and is none of them: it says something.
    """
    for reads in (number.fullmatch, is_date):
        others = {word for word in words if not reads(word)}
        said = sum(1 for value in values if value in words)
        read = sum(1 for value in values if value in words and value not in others)
        plain = not any(
            re.search(r"\d", word) or not word.isprintable() or len(word) > LONGEST_SPELLING
            for word in others
        )
        if 0 < len(others) <= FEW and plain and read >= MOSTLY * said:
            return others
    return set()
