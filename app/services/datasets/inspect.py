"""What a file looks like, for the admin who is about to upload it, and for nobody else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal

from app.services.context import Services
from app.services.datasets.uploads import kind_of, refused
from app.storage.dialect import SPELLINGS, TWO_WAYS, WAYS, Dialect, opened
from app.storage.errors import IngestError
from app.storage.limits import Limits
from app.storage.read_csv import ROW_NAMES, first_rows
from app.storage.read_parquet import Kind, columns_of_file
from dpmcmc.inputs.schema import is_date

SHOWN_ROWS, SHOWN_CHARACTERS = 5, 100
MANY = 20  # different texts of a column that has hardly any twice: an id, or free text
WHY = {"/format/decimal": TWO_WAYS, "/format/row_names": ROW_NAMES}


@dataclass(frozen=True, slots=True)
class Found:
    """A column of a file. kind: of its first values. missing: spellings of no value among them."""

    name: str
    kind: Kind
    skip: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspected:
    """A file at first sight. questions: (pointer, message) of what has to be declared."""

    kind: Literal["csv", "parquet"]
    dialect: Dialect | None
    questions: tuple[tuple[str, str], ...]
    columns: tuple[Found, ...]
    rows: tuple[tuple[str, ...], ...]


def inspect(services: Services, file: BinaryIO, declared: Dialect) -> Inspected:
    """Look at the beginning of a file; nothing of it is stored. Raises Refusal 422."""
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
    spelled = [one for one in SPELLINGS if any(one in column.missing for column in columns)]
    dialect = replace(sample.dialect, missing=tuple(dict.fromkeys([*declared.missing, *spelled])))
    left = set(opened(dialect))
    if "/format/thousands" not in left:  # no number with a mark was seen
        left.discard("/format/decimal")
    questions = tuple((place, said) for place, said in WHY.items() if place in left)
    rows = tuple(
        tuple(cell[:SHOWN_CHARACTERS] for cell in row) for row in sample.records[:SHOWN_ROWS]
    )
    return Inspected("csv", dialect, questions, tuple(columns), rows)


def _found(name: str, values: Sequence[str], dialect: Dialect, missing: set[str]) -> Found:
    """What the first values of a column are, spellings of no value set aside."""
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
    if (kind == "text" and len(spelled) > 1) or not words:
        spelled = set()  # words such as x and ? may be categories
    many = len(words) > max(MANY, len(values) * 0.9)
    skip = not name or (many and kind in ("text", "whole"))
    return Found(name, kind, skip, tuple(one for one in SPELLINGS if one in spelled))
