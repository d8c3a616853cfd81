"""A schema as a file: a table with a line for each column, or JSON as the REST API has it.

The table comes from a spreadsheet: fields between commas, semicolons or tabs, below a header that
names them, see FIELDS. Lists are written a|b|c. Nothing here looks at data.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpmcmc.base.errors import near

FIELDS = (
    "name", "type", "lower", "upper", "categories", "missing", "integer", "spikes", "description",
)  # fmt: skip
TYPES = {
    "number": "number", "numeric": "number", "float": "number", "double": "number",
    "decimal": "number", "real": "number", "integer": "integer", "int": "integer",
    "whole": "integer", "count": "integer", "date": "date", "datetime": "date",
    "timestamp": "date", "binary": "binary", "boolean": "binary", "bool": "binary",
    "logical": "binary", "yes or no": "binary", "category": "category", "text": "category",
    "string": "category", "character": "category", "factor": "category", "nominal": "category",
    "ordinal": "category",
}  # fmt: skip
YES = ("true", "yes", "y", "x", "empty", "wahr", "ja", "vrai", "oui", "verdadero", "sí")
NO = ("", "false", "no", "n", "falsch", "nein", "faux", "non", "falso")
BETWEEN = ("|", "\n", ";", ",")  # items of a list, the first that is there
NEEDED = f"the first line names the fields, {', '.join(FIELDS)}, of which name is needed"
TWO_WAYS = "can be read in two ways: write 1234 or 1.234, without a thousands separator"
MOST_SHOWN = 20  # problems
_ABOVE = re.compile(
    r"\s*(#.*|sep=.|\"sep=.\")?\s*"
)  # a header: blank, a comment, as Excel needs it
_YAML = re.compile(r"---|- *\w+:|\w+: *$")
_DAY = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.\d{4}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong in a schema file. line: of a table, from 1; of JSON the column's place."""

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """What a file declares, as the REST API has it.

    columns: with words where a number or a date is wrong, and without what is open. lines: where
    each of them is. others: members of JSON beside the columns, such as rows.
    """

    columns: tuple[dict[str, Any], ...]
    lines: tuple[int, ...]
    problems: tuple[Problem, ...]
    others: Mapping[str, Any]

    def place(self, column: int) -> str:
        """Return where a column is, in words."""
        return f"line {self.lines[column]}" if self.lines else f"column {column + 1}"


def read(content: bytes | str) -> SchemaFile:
    """Return what a schema file says, with all that is wrong in it."""
    text = _text(content) if isinstance(content, bytes) else content.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        return _from_json(text)
    return _from_table(text)


def message_of(problems: Sequence[Problem]) -> str:
    """Return the problems as one message, which quotes the first of them."""
    more = f"; and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
    return "; ".join(map(str, problems[:MOST_SHOWN])) + more


def written(columns: Iterable[Mapping[str, Any]]) -> str:
    """Return the columns as CSV text that `read` reads. Undeclared fields stay empty.

    columns: as the REST API has them.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for column in columns:
        writer.writerow([_cell(column.get(field, "")) for field in FIELDS])
    return out.getvalue()


def _cell(value: Any) -> str:
    """Return a field's value as the text of a CSV cell; a list with separators in it as JSON."""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.17g}"
    if not isinstance(value, list | tuple):
        return str(value)
    words = list(map(_cell, value))
    if _items("|".join(words)) == words and all(map(str.isprintable, words)):
        return "|".join(words)
    return json.dumps(list(value), ensure_ascii=False)


def _text(content: bytes) -> str:
    """Return the text of a file as spreadsheets write it: UTF-8, UTF-16, or Windows."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def _from_json(text: str) -> SchemaFile:
    """Return what a schema file in JSON declares, with all problems in it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        message = "neither JSON nor a table: " + NEEDED
        return SchemaFile((), (), (Problem(1, "file", message),), {})
    columns = document.get("columns") if isinstance(document, dict) else document
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        message = "JSON must be a list of columns, or have such a list as columns"
        return SchemaFile((), (), (Problem(1, "columns", message),), {})
    others = (
        {k: v for k, v in document.items() if k != "columns"} if document is not columns else {}
    )
    return SchemaFile(tuple(columns), (), (), others)


def _from_table(text: str) -> SchemaFile:
    """Return what a schema file in CSV declares, with all problems in it."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if not _ABOVE.fullmatch(line)), 0)
    header_line = lines[first] if lines else ""
    if _YAML.match(header_line):
        message = f"is YAML: write it as JSON, or as a table: {NEEDED}"
        return SchemaFile((), (), (Problem(first + 1, "file", message),), {})
    separator = max("\t;,|", key=lambda sign: len(_known(header_line.split(sign))))
    reader = csv.reader(io.StringIO("\n".join(lines[first:]), newline=""), delimiter=separator)
    problems, columns, places = list[Problem](), list[dict[str, Any]](), list[int]()
    header, first_lines, before = list[str](), dict[str, int](), first
    try:
        for row in reader:
            line, before = before + 1, first + reader.line_num
            cells = [cell.strip() for cell in row]
            if not header:
                header = [cell.lower() for cell in cells]
                problems = _of_header(header, line)
                if problems:
                    break
            elif any(cells):
                column, wrong = _column(dict(zip(header, cells, strict=False)), line)
                if any(cells[len(header) :]):
                    wrong.append(Problem(line, "line", "has more fields than the header"))
                same = first_lines.setdefault(column["name"], line)
                if column["name"] and same != line:
                    wrong.append(Problem(line, "name", f"is declared by line {same} as well"))
                problems += wrong
                columns.append(column)
                places.append(line)
    except csv.Error:
        problems.append(Problem(before + 1, "line", "a quoted value does not end"))
    if not columns and not problems:
        problems.append(Problem(1, "file", f"declares no column: {NEEDED}"))
    return SchemaFile(tuple(columns), tuple(places), tuple(problems), {})


def _known(cells: Iterable[str]) -> set[str]:
    """Return the recognised column names of a CSV header."""
    return {cell.strip().strip('"').lower() for cell in cells} & set(FIELDS)


def _of_header(header: Sequence[str], line: int) -> list[Problem]:
    """Return the problems of a CSV header: names that are unknown, missing or repeated."""
    if "name" not in header:
        return [Problem(line, "header", NEEDED)]
    strange = [field for field in header if field and field not in FIELDS]
    wrong = [Problem(line, field, f"is no field{near(field, FIELDS)}") for field in strange]
    twice = {field for field in header if field and header.count(field) > 1}
    return wrong + [Problem(line, field, "is there twice") for field in sorted(twice)]


def _column(cells: Mapping[str, str], line: int) -> tuple[dict[str, Any], list[Problem]]:
    """Return the column that a line of the CSV file declares, and the line's problems."""
    problems: list[Problem] = []

    def wrong(field: str, message: str) -> None:
        """Record a problem of one field of this line."""
        problems.append(Problem(line, field, message))

    column: dict[str, Any] = {"name": cells.get("name", "")}
    if not column["name"]:
        wrong("name", "is needed")
    kind, categories = _kind(cells), _items(cells.get("categories", ""))
    if kind is None:
        known = ", ".join(dict.fromkeys(TYPES.values()))
        word = cells.get("type", "")
        wrong("type", f"must be one of {known}{near(word.lower(), TYPES) if word else ''}")
    else:
        column["type"] = "number" if kind == "integer" else kind
    dated = kind == "date"
    for field in ("lower", "upper"):
        if word := cells.get(field, ""):
            column[field], message = _bound(word, dated=dated)
            if message:
                wrong(field, message)
    if categories:
        column["categories"] = categories
    missing = cells.get("missing", "")
    if missing.lower() in YES:
        column["missing"] = True
    elif missing.lower() not in NO:
        column["missing"] = _bounds(missing, wrong, "missing", dated=dated)
    integer = cells.get("integer", "").lower()
    if integer not in (*YES, *NO, "1", "0"):
        wrong("integer", "must be true or false")
    if kind == "integer" or (kind == "number" and integer in (*YES, "1")):
        column["integer"] = True
    if spikes := cells.get("spikes", ""):
        column["spikes"] = _bounds(spikes, wrong, "spikes", dated=dated)
    if description := cells.get("description", ""):
        column["description"] = description
    return column, problems


def _kind(cells: Mapping[str, str]) -> str | None:
    """Return a column's type, as named or inferred from its other fields, or None."""
    if word := cells.get("type", "").lower():
        return TYPES.get(word)
    if categories := cells.get("categories"):
        return "binary" if len(_items(categories)) == 2 else "category"
    if bound := cells.get("lower") or cells.get("upper"):
        return "date" if _DAY.fullmatch(bound) else "number"
    return None


def _items(cell: str) -> list[str]:
    """Return the items of a list that is written in one CSV cell."""
    if cell.startswith("["):
        try:
            listed = json.loads(cell)
        except ValueError:
            listed = None
        if isinstance(listed, list):
            return [item if isinstance(item, str) else json.dumps(item) for item in listed]
    sign = next((mark for mark in BETWEEN if mark in cell), "|")
    return [item.strip() for item in cell.split(sign) if item.strip()]


def _bounds(cell: str, wrong: Callable[[str, str], None], field: str, *, dated: bool) -> list[Any]:
    """Return the numbers or dates of a cell. wrong: takes the field and message of a problem."""
    numbers = []
    # a comma may be a decimal sign
    items = [cell] if not dated and _NUMBER.fullmatch(cell) else _items(cell)
    for item in items:
        number, message = _bound(item, dated=dated)
        numbers.append(number)
        if message:
            wrong(field, message)
    return numbers


def _bound(word: str, *, dated: bool) -> tuple[float | str, str]:
    """Return a bound as a number, or as an ISO 8601 date, and a message where it is neither."""
    if dated:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", word, re.ASCII):
            return word, ""
        if _DAY.fullmatch(word):
            day, month, year = word.split(".")
            return f"{year}-{month:0>2}-{day:0>2}", ""
        return word, "is no date: write it as 2020-01-31"
    word = word.replace("\u2212", "-")
    if not _NUMBER.fullmatch(word):
        return word, "is no number: write it as 1234.5, without a thousands separator or a unit"
    if re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", word):
        return word, TWO_WAYS
    number = float(word.replace(",", "."))
    return int(number) if number.is_integer() and abs(number) < 2**53 else number, ""
