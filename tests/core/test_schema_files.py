"""Schemas as files: tables of spreadsheets and JSON, read, written, refused by line and field."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpmcmc import BinaryColumn, CategoryColumn, DateColumn, NumberColumn, Schema
from dpmcmc.base import schema_file
from dpmcmc.inputs.schema import PrivacyUnit

COLUMNS = (
    NumberColumn(name="age", lower=0, upper=120, integer=True, missing=(-9, 999), description="x"),
    NumberColumn(name="pay", lower=-0.5, upper=1e6, missing=True, spikes=(0,)),  # type: ignore[arg-type]
    DateColumn(name="seen", lower="2015-01-01", upper="2024-12-31", missing=["9999-12-31"]),
    CategoryColumn(name="stadt", categories=("Köln", "Bad Ems, Kurort", "a;b")),
    CategoryColumn(name="odd", categories=("a|b", " c", "[d"), missing=True),
    BinaryColumn(name="cured", categories=("no", "yes"), missing=True, description='say "yes"'),
)
ROWS = {column.name: [None, None, None] for column in COLUMNS}
SCHEMA = Schema(columns=COLUMNS, rows=3)


@pytest.mark.parametrize("name", ["schema.csv", "schema.JSON"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    SCHEMA.to_file(tmp_path / name)
    assert Schema.from_file(tmp_path / name, ROWS) == SCHEMA


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        Schema(columns=COLUMNS, rows=12, privacy_unit=PrivacyUnit(column="p", max_rows=4)),
        Schema(columns=COLUMNS, rows=12, privacy_unit="row", holders=(5, 7)),
    ],
)
def test_json_has_the_rows_and_whose_they_are(tmp_path: Path, schema: Schema) -> None:
    schema.to_file(str(tmp_path / "s.json"))
    assert Schema.from_file(str(tmp_path / "s.json")) == schema


def test_rows_and_units_come_from_the_data(tmp_path: Path) -> None:
    SCHEMA.to_file(tmp_path / "s.csv")
    rows = ROWS | {"person": ["a", "b", "a"]}
    made = Schema.from_file(tmp_path / "s.csv", rows, privacy_unit="person", max_rows=2)
    assert (made.units, made.rows, made.columns) == (2, 4, COLUMNS)
    with pytest.raises(ValueError, match="give the data as well"):
        Schema.from_file(tmp_path / "s.csv")
    with pytest.raises(ValueError, match=r"no column 'stadt'; did you mean 'stadtt'"):
        Schema.from_file(
            tmp_path / "s.csv", {k.replace("stadt", "stadtt"): v for k, v in rows.items()}
        )
    with pytest.raises(ValueError, match=r"ends with \.csv or \.json"):
        SCHEMA.to_file(tmp_path / "s.yaml")


HEADER = "name,type,lower,upper,categories,missing,integer,spikes,description\n"
TABLE = (
    HEADER + "age,integer,0,120,,-9|999,,,x\npay,number,-0.5,1e6,,true,,0,\ncured,,,,no|yes,,,,\n"
)
WANTED: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 0, "upper": 120, "missing": [-9, 999],
     "integer": True, "description": "x"},
    {"name": "pay", "type": "number", "lower": -0.5, "upper": 1_000_000, "missing": True,
     "spikes": [0]},
    {"name": "cured", "type": "binary", "categories": ["no", "yes"]},
]  # fmt: skip
GERMAN = (
    "Name;Type;Lower;Upper;Categories;Missing;Integer;Spikes;Description;;\r\n"
    "age;number;0;120;;-9|999;WAHR;;x;;\r\npay;;-0,5;1e6;;WAHR;;0;;;\r\n;;;;;;;;;;\r\n"
    "cured;binary;;;no|yes;FALSCH;;;;;\r\n"
)
TABLES = {
    "commas": TABLE.encode(),
    "of Excel in Germany": GERMAN.encode("cp1252"),
    "with a mark": b"\xef\xbb\xbf" + GERMAN.encode(),
    "Unicode text": TABLE.replace(",", "\t").replace("no|yes", '"no\nyes"').encode("utf-16"),
    "pasted": "\n"
    + TABLE.replace(",", "\t").replace("no|yes", "no, yes").replace("-9|999", "-9;999"),
    "for Excel, with a comment": b"sep=;\r\n# of the trial\r\n" + GERMAN.encode("cp1252"),
    "few fields": (
        "type,name,upper,lower,categories,missing,integer,spikes,description\n"
        "Whole,age,120,0,,-9|999,,,x\nfloat,pay,1e6,-0.5,,yes,no,0\nlogical,cured,,,no|yes\n"
    ),
    "JSON": json.dumps(WANTED),
    "JSON of a dataset": json.dumps({"id": "x", "rows": 5, "columns": WANTED}),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_of_spreadsheets_are_read_alike(table: str | bytes) -> None:
    found = schema_file.read(table)
    assert found.problems == ()
    assert list(found.columns) == WANTED


def test_types_may_follow_from_what_is_declared() -> None:
    table = "name,lower,upper,categories\na,1.5,2\n b ,1.1.2020,31.12.2020,\nc,,,x;y;z\nd,,,0|1\n"
    found = schema_file.read(table)
    assert [column["type"] for column in found.columns] == ["number", "date", "category", "binary"]
    assert found.columns[1]["lower"] == "2020-01-01"


WRONG = {
    "no name": (HEADER + ",number,0,1\n", [(2, "name", "is needed")]),
    "YAML": ("# ours\ncolumns:\n- name: age\n", [(2, "file", "is YAML: write it as JSON")]),
    "YAML, a list": ("- name: age\n  type: number\n", [(1, "file", "is YAML")]),
    "no header": ("age,number,0,120\n", [(1, "header", "the first line names the fields")]),
    "a strange field": (
        "name,type,min,max\nage,number,0,1\n", [(1, "min", "no field"), (1, "max", "no field")],
    ),
    "a field twice": ("name,type,type\nage,number,\n", [(1, "type", "twice")]),
    "a strange type": (HEADER + "age,numbr,0,120\n", [(2, "type", "did you mean 'number'")]),
    "no type": (HEADER + "age,number,0,120\n\nx\n", [(4, "type", "one of number, integer")]),
    "words as bounds": (
        HEADER + "age,number,zero,x\n", [(2, "lower", "no number"), (2, "upper", "no number")],
    ),
    "two ways": ('name;type;lower;upper\na;number;0;"1,234"\n', [(2, "upper", "two ways")]),
    "no dates": (HEADER + "d,date,2020-01-01,31/12/2020\n", [(2, "upper", "2020-01-31")]),
    "codes of words": (HEADER + "age,number,0,120,,-9|NA\n", [(2, "missing", "no number")]),
    "whole": (HEADER + "age,number,0,120,,,perhaps\n", [(2, "integer", "true or false")]),
    "too many fields": (HEADER + "age,number,0,120,,,,,,more\n", [(2, "line", "more fields")]),
    "an open quote": (HEADER + 'age,number,0,120,,,,,"x\n', []),
    "nothing": ("", [(1, "file", "declares no column")]),
    "torn JSON": ("[{", [(1, "file", "neither JSON nor a table")]),
    "JSON of something else": ('{"columns": 5}', [(1, "columns", "a list of columns")]),
}  # fmt: skip


@pytest.mark.parametrize(("table", "wanted"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_by_line_and_field(
    tmp_path: Path, table: str, wanted: list[tuple[int, str, str]]
) -> None:
    found = schema_file.read(table)
    if not wanted:  # the csv module closes a quote at the end of a file
        assert len(found.columns) == 1
        return
    assert [(one.line, one.field) for one in found.problems] == [(a, b) for a, b, _ in wanted]
    for problem, (line, field, message) in zip(found.problems, wanted, strict=True):
        assert message in problem.message
        (tmp_path / "s.csv").write_text(table)
        with pytest.raises(ValueError, match=rf"s\.csv: .*line {line}, {field}: "):
            Schema.from_file(tmp_path / "s.csv", {"age": [1]})


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("age,number,120,0", "line 3, column: 'age' needs finite bounds with lower below upper"),
        ("age,number,0", "line 3, column: 'age' needs lower and upper"),
        ("age,category,,,one", "line 3, column: 'age' needs two or more different categories"),
        ("age,date,2020-01-01,2020-02-30", "line 3, column: 'age' needs dates as its bounds"),
        ("age,binary,,,a|b,-9", "line 3, column: missing of 'age' must be True"),
        ("cured,binary,,,a|b", "line 3, name: is declared by line 2 as well"),
    ],
)
def test_what_a_column_cannot_be_is_told_by_its_line(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "s.csv").write_text(HEADER + f"cured,,,,no|yes\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(told)):
        Schema.from_file(tmp_path / "s.csv", {"age": [1], "cured": ["no"]})


def test_json_of_other_members_is_refused_by_name(tmp_path: Path) -> None:
    columns = [{"name": "age", "type": "number", "lower": 0, "uper": 9}, {"name": "x", "type": "y"}]
    (tmp_path / "s.json").write_text(json.dumps(columns))
    with pytest.raises(ValueError, match=r"line 1.*'uper'.*did you mean 'upper'.*line 2.*'x'"):
        Schema.from_file(tmp_path / "s.json", {"age": [1], "x": [1]})
