"""One table as spreadsheets, R, SAS, databases and statistical offices export it.

Each export says what the admin confirms besides columns and budget: the members of `format`, and
what is skipped. All of them hold the same rows.
"""

import csv
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

Row = tuple[int, float, str, str]
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 0, "upper": 120, "integer": True},
    {"name": "pay", "type": "number", "lower": 0, "upper": 100_000},
    {"name": "stadt", "type": "category", "categories": ["Köln", "Trier", "Bad Ems"]},
    {"name": "cured", "type": "binary", "categories": ["no", "yes"]},
]
NAMES = [column["name"] for column in COLUMNS]
CITIES, CURED = COLUMNS[2]["categories"], COLUMNS[3]["categories"]


def rows(number: int = 60) -> list[Row]:
    draw = random.Random(7)
    return [
        (draw.randint(18, 90), draw.randint(80, 999_999) / 100, draw.choice(CITIES),
         draw.choice(CURED))
        for _ in range(number)
    ]  # fmt: skip


ROWS = rows()
COLUMN = {
    "age": np.array([row[0] for row in ROWS], float),
    "pay": np.array([row[1] for row in ROWS]),
    "stadt": np.array([CITIES.index(row[2]) for row in ROWS]),
    "cured": np.array([CURED.index(row[3]) for row in ROWS]),
}


@dataclass(frozen=True)
class Export:
    content: bytes
    declared: dict[str, Any] = field(default_factory=dict)


def written(
    table: Sequence[Row] = ROWS,
    *,
    pay: Callable[[float], str] = lambda value: f"{value:.2f}",
    encoding: str = "utf-8",
    before: str = "",
    after: str = "",
    ids: bool = False,
    **dialect: Any,
) -> bytes:
    """The table as text. ids: with a leading column of ids and a trailing one of notes."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, **{"lineterminator": "\r\n", **dialect})
    writer.writerow(["id", *NAMES, "notes"] if ids else NAMES)
    for at, (age, value, city, cured) in enumerate(table):
        row = [str(age), pay(value), city, cured]
        note = f'He said, "{at}"\nand left; so it is' if at % 3 else ""
        writer.writerow([f"P{at:04}", *row, note] if ids else row)
    return (before + sink.getvalue() + after).encode(encoding)


def grouped(mark: str, point: str) -> Callable[[float], str]:
    return lambda value: f"{value:,.2f}".translate(str.maketrans({",": mark, ".": point}))


def comma(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


def zipped(content: bytes, *more: tuple[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("export")
        for name, data in (("export/table.csv", content), *more):
            archive.writestr(name, data)
    return sink.getvalue()


def r_table(separator: str) -> bytes:
    """As write.table of R: names of rows that the header does not name."""
    lines = [separator.join(f'"{name}"' for name in NAMES)]
    for at, (age, value, city, cured) in enumerate(ROWS, 1):
        lines.append(
            separator.join([f'"{at}"', str(age), f"{value:.2f}", f'"{city}"', f'"{cured}"'])
        )
    return "\n".join([*lines, ""]).encode()


def r_csv() -> bytes:
    """As write.csv of R: a first column without a name."""
    lines = ['"",' + ",".join(f'"{name}"' for name in NAMES)]
    for at, (age, value, city, cured) in enumerate(ROWS, 1):
        lines.append(f'"{at}",{age},{value!r},"{city}","{cured}"')
    return "\n".join([*lines, ""]).encode()


def printed(rule: str, separator: str, edge: str = "") -> bytes:
    """As psql and sqlcmd print a table: padded, with a rule below the header and a number below."""
    lines = [separator.join(f"{name:^9}" for name in NAMES), rule]
    lines += [separator.join(f"{value!s:>9}" for value in row) for row in ROWS]
    lines = [f"{edge}{line}{edge}" for line in lines]
    return "\n".join([*lines, f"({len(ROWS)} rows)", ""]).encode()


def survey() -> bytes:
    """As Qualtrics writes a survey: wordings of questions and ids below the header."""
    questions = [f"What is your {name},\nif you know it?" for name in NAMES]
    ids = [json.dumps({"ImportId": f"QID{at}"}) for at, _ in enumerate(NAMES)]
    sink = io.StringIO(newline="")
    csv.writer(sink).writerows([NAMES, questions, ids, *ROWS])
    return b"\xef\xbb\xbf" + sink.getvalue().encode()


def spaced() -> bytes:
    """Columns of fixed widths, as statistical programs print them."""
    lines = [" ".join(f"{name:<9}" for name in NAMES)]
    for age, pay, city, cured in ROWS:
        named = f'"{city}"'
        lines.append(f" {age:<8} {pay:>9.2f} {named:>9} {cured:<9}")
    return "\r\n".join([*lines, ""]).encode()


def arrow_file(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


AGE, PAY, CITY, DONE = (list(column) for column in zip(*ROWS, strict=True))
SEMICOLON = {"delimiter": ";", "pay": comma}
EXPORTS: dict[str, Export] = {
    "plain": Export(written()),
    "spreadsheet, German": Export(written(encoding="utf-8-sig", **SEMICOLON)),
    "spreadsheet, German, Windows": Export(written(encoding="windows-1252", **SEMICOLON)),
    "spreadsheet, German, thousands": Export(written(delimiter=";", pay=grouped(".", ","))),
    "spreadsheet, French": Export(written(delimiter=";", pay=grouped("\u202f", ","))),
    "spreadsheet, French, NBSP": Export(
        written(delimiter=";", pay=grouped("\u00a0", ","), encoding="windows-1252")
    ),
    "spreadsheet, Swiss": Export(written(delimiter=";", pay=grouped("'", "."))),
    "spreadsheet, English, thousands": Export(written(pay=grouped(",", "."))),
    "spreadsheet, Unicode text": Export(written(delimiter="\t", encoding="utf-16")),
    "spreadsheet, UTF-16 without a mark": Export(written(delimiter="\t", encoding="utf-16-le")),
    "spreadsheet, blank last lines": Export(written(after=";;;\r\n" * 5 + "\r\n\r\n", **SEMICOLON)),
    "spreadsheet, sep line": Export(written(before="sep=;\r\n", **SEMICOLON)),
    "spreadsheet, separator at each end": Export(
        written(**SEMICOLON).replace(b"\r\n", b";\r\n")
    ),
    "spreadsheet, old machine": Export(
        written(encoding="mac-roman", lineterminator="\r"), {"format": {"encoding": "mac-roman"}}
    ),
    "spreadsheet, notes with line ends": Export(
        written(ids=True, **SEMICOLON), {"skip": ["id", "notes"]}
    ),
    "all quoted": Export(written(quoting=csv.QUOTE_ALL)),
    "single quotes": Export(written(quotechar="'", quoting=csv.QUOTE_ALL)),
    "R, write.csv": Export(r_csv()),
    "R, write.table": Export(r_table(" ")),
    "R, write.table, tabs": Export(r_table("\t")),
    "R, write.csv2": Export(
        written(quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n", **SEMICOLON)
    ),
    "SAS, padded": Export(
        "\n".join([", ".join(NAMES), *(f"{a:>8}, {p:>12.2f}, {c}, {d}" for a, p, c, d in ROWS)])
        .encode()
    ),
    "SPSS, tabs and whole doubles": Export(
        "\n".join(["\t".join(NAMES), *(f"{a}.00\t{p:.2f}\t{c}\t{d}" for a, p, c, d in ROWS), ""])
        .encode()
    ),
    "SQL dump, pipes": Export(written(delimiter="|", lineterminator="\n")),
    "SQL dump, Hive": Export(
        written(delimiter="\x01", lineterminator="\n"), {"format": {"separator": "\x01"}}
    ),
    "database, ids and free text": Export(written(ids=True), {"skip_undeclared": True}),
    "statistical office, titles": Export(
        written(before="Table 7: persons\r\nSource: a survey; 2020\r\n\r\n", **SEMICOLON)
    ),
    "statistical office, minus": Export(written(delimiter="\t").replace(b"+", b"")),
    "SQL client, printed": Export(printed("-" * 9 + "+" + "-" * 29, "|")),
    "SQL client, rule in columns": Export(printed(",".join(["---"] * 4), ",")),
    "SQL client, edges": Export(printed("|".join(["---"] * 4), "|", edge="|")),
    "SQL client, rows affected": Export(
        written(delimiter=";", after="\r\n(60 rows affected)\r\n")
    ),
    "spreadsheet, numbers as text": Export(
        written(pay=lambda value: f'="{value:.2f}"', quoting=csv.QUOTE_NONE, quotechar=None)
    ),
    "survey, Qualtrics": Export(survey()),
    "survey, wording of questions": Export(
        written(before="").replace(b"\n", b'\n"How old?","How much?",Where?,Well?\r\n', 1),
        {"format": {"skip_first_rows": 1}},
    ),
    "DOS, end of file": Export(written(after="\x1a")),
    "statistical program, columns of fixed widths": Export(spaced()),
    "mainframe, carets": Export(written(delimiter="^")),
    "mainframe, unit separators": Export(written(delimiter="\x1f")),
    "statistical office, notes below": Export(
        written(after="\r\nSource: the office, 2024\r\n* revised\r\n", **SEMICOLON),
        {"format": {"skip_last_lines": 2}},
    ),
    "zip with a code book": Export(
        zipped(written(), ("export/README.txt", b"hello"), ("codebook.pdf", b"%PDF"))
    ),
    "Parquet, texts as bytes": Export(
        arrow_file(
            pa.table(
                {
                    "age": AGE,
                    "pay": PAY,
                    "stadt": [city.encode() for city in CITY],
                    "cured": [cured.encode() for cured in DONE],
                }
            )
        )
    ),
    "gzip": Export(gzip.compress(written())),
    "gzip, members": Export(gzip.compress(written()[:700]) + gzip.compress(written()[700:])),
    "zip": Export(zipped(written(**SEMICOLON))),
    "zip of a Mac": Export(zipped(written(), ("__MACOSX/export/._table.csv", b"\0\5\x16\7"))),
    "Parquet": Export(
        arrow_file(
            pa.table({"age": pa.array(AGE, pa.int16()), "pay": PAY, "stadt": CITY, "cured": DONE})
        )
    ),
    "Parquet, string views and ids": Export(
        arrow_file(
            pa.table(
                {
                    "id": list(range(len(ROWS))),
                    "cured": pa.array(DONE, pa.string_view()),
                    "stadt": pa.array(CITY, pa.large_string()).dictionary_encode(),
                    "age": pa.array(AGE, pa.float64()),
                    "pay": pa.array(PAY, pa.float64()),
                    "tags": [["a"]] * len(ROWS),
                }
            )
        ),
        {"skip": ["id", "tags"]},
    ),
}  # fmt: skip
