"""Files as people have them: what is found of them, what is asked, what is read."""

import base64
import gzip
import io
import random
import re
import uuid
import zipfile
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage import dialect, read_parquet
from app.storage.columns import columns_json, parse_columns
from app.storage.dialect import Dialect, Reading
from app.storage.errors import IngestError
from app.storage.ingest import ingest
from app.storage.limits import Limits
from app.storage.read_csv import first_rows
from app.storage.rows import DatasetRow
from dpmcmc.base.private import Permit
from tests.messy.exports import COLUMN, COLUMNS, EXPORTS, arrow_file, written, zipped
from tests.messy.tables import AGE, PARQUET, SEEN, SEX, TABLES
from tests.storage.conftest import Files, Folder

PARSED = parse_columns(COLUMNS)


@pytest.fixture
def files(tmp_path):
    return Files(Folder(tmp_path / "datasets"))


def reading_of(declared):
    told = declared.get("format", {})
    dialect = Dialect(**{**told, "missing": tuple(told.get("missing", ()))})
    skip = tuple(declared.get("skip", ()))
    return Reading(
        dialect=dialect, skip=skip, skip_undeclared=declared.get("skip_undeclared", False)
    )


def take(files, content, columns=PARSED, **declared):
    own, kind = uuid.uuid4(), "parquet" if content.startswith(b"PAR1") else "csv"
    limits = Limits(**declared.pop("limits", {}))
    reading = reading_of(declared)
    stored = ingest(files, own, io.BytesIO(content), kind, columns, limits, None, reading)
    row = DatasetRow(
        id=own,
        columns=columns_json(columns),
        rows=stored.rows,
        neighbouring="replace_one",
        wrapped_key=stored.wrapped_key,
    )
    return files.load(row).open(Permit(subject=str(own), event_digest=""))


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_every_export_holds_the_same_rows(files, export):
    table = take(files, export.content, **export.declared)
    for name, wanted in COLUMN.items():
        np.testing.assert_array_equal(table.columns[name], wanted)


SECRET = "1.234"
TWO = parse_columns(
    [
        {"name": "a", "type": "number", "lower": 0, "upper": 5000},
        {"name": "b", "type": "number", "lower": 0, "upper": 5000},
    ]
)


def test_the_header_is_below_comments_and_may_be_one(files):
    """As a tool writes a header, and as numpy.savetxt does."""
    for content in (b"# by me, 2024\na,b\n1,2\n", b"#a,b\n1,2\n"):
        sample = first_rows(io.BytesIO(content), Dialect(), Limits())
        assert [name.strip("#") for name in sample.names] == ["a", "b"]
        assert sample.records == (("1", "2"),)


OPEN = {
    "thousands or decimals": b"a;b\n1.234;7\n2.500;8\n",
    "thousands or decimals, commas": b'a,b\n"1,234",7\n"2,500",8\n',
    "written in two ways": b"a;b\n1.5;2,5\n",
    "only later on": b"a;b\n" + b"1;2\n" * 100_000 + b"1.234;7\n",
}


@pytest.mark.parametrize("content", OPEN.values(), ids=OPEN)
def test_what_can_be_read_in_two_ways_is_asked_and_not_guessed(files, content):
    with pytest.raises(IngestError) as caught:
        take(files, content, TWO)
    assert caught.value.code == "ambiguous_format"
    assert caught.value.pointer == "/format/decimal"
    assert files.place.names() == []


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [({"decimal": "."}, [1.234, 2.5]), ({"decimal": ",", "thousands": "."}, [1234, 2500])],
)
def test_the_answer_to_the_question_is_kept_to(files, declared, wanted):
    table = take(files, OPEN["thousands or decimals"], TWO, format=declared)
    np.testing.assert_array_equal(table.columns["a"], wanted)


def test_between_commas_a_point_is_a_decimal_point(files):
    table = take(files, b"a,b\n1.234,7\n", TWO)
    assert table.columns["a"].tolist() == [1.234]


def test_evidence_of_other_columns_counts(files):
    table = take(files, b"a;b\n1.234;7,5\n", TWO)
    assert (table.columns["a"].tolist(), table.columns["b"].tolist()) == ([1234.0], [7.5])


def test_a_number_that_is_written_otherwise_later_is_counted(files):
    with pytest.raises(IngestError) as caught:
        take(files, b"a;b\n" + b"1,5;2\n" * 100_000 + b"1.5;7\n", TWO)
    assert (caught.value.code, caught.value.pointer) == ("not_a_number", "/columns/0")
    assert caught.value.problems[0][1].startswith("1 values")


def test_one_field_more_than_the_header_is_asked(files):
    with pytest.raises(IngestError) as caught:
        take(files, b"a;b\nx;1;2\ny;3;4\n", TWO)
    assert (caught.value.code, caught.value.pointer) == ("ambiguous_format", "/format/row_names")
    table = take(files, b"a;b\nx;1;2\ny;3;4\n", TWO, format={"row_names": True})
    assert table.columns["a"].tolist() == [1.0, 3.0]


def test_undeclared_columns_are_refused_unless_they_are_skipped(files):
    content = b"a,b,c,d\n1,2,3,4\n"
    with pytest.raises(IngestError) as caught:
        take(files, content, TWO, skip=["c"])
    assert caught.value.code == "extra_column"
    assert "skip" in caught.value.message
    for declared in ({"skip": ["c", "d"]}, {"skip_undeclared": True}):
        assert set(take(files, content, TWO, **declared).columns) == {"a", "b"}


def test_all_columns_that_are_not_there_are_named(files):
    with pytest.raises(IngestError) as caught:
        take(files, b"x,y\n1,2\n", TWO)
    assert [place for place, _ in caught.value.problems] == ["/columns/0", "/columns/1"]


def test_blank_lines_are_no_rows_but_an_empty_value_is(files):
    assert take(files, b"\n\na,b\n\n1,2\n\n3,4\n,\n\n,\n", TWO).rows == 2
    with pytest.raises(IngestError) as caught:
        take(files, b"a\n1\n\n2\n\n\n", TWO[:1])
    assert caught.value.problems[0][1].startswith("1 missing")


def test_a_value_with_two_decimal_signs_is_no_number(files):
    for content in (b"a;b\n1,5;2\n1,5,3;2\n", b"a;b\n1,5;2\n1.5;2\n"):
        with pytest.raises(IngestError) as caught:
            take(files, content, TWO, format={"decimal": ","})
        assert (caught.value.code, caught.value.pointer) == ("not_a_number", "/columns/0")


BOMB = b"a,b\n" + b"1,2\n" * 4_000_000
LIMITS = {"file_bytes": 2**20}


@pytest.mark.parametrize("pack", [gzip.compress, zipped], ids=["gzip", "zip"])
def test_a_bomb_is_refused_while_it_is_read(files, pack):
    bomb = pack(BOMB)
    assert len(bomb) < 2**17
    with pytest.raises(IngestError) as caught:
        take(files, bomb, TWO, limits=LIMITS)
    assert caught.value.code == "file_too_large"
    assert "decompressed" in caught.value.message


def test_the_order_of_dates_is_asked_where_none_tells_it(files):
    content, columns = b"seen;age\n01/02/2020;1\n", parse_columns([SEEN, AGE])
    with pytest.raises(IngestError) as caught:
        take(files, content, columns)
    assert (caught.value.code, caught.value.pointer) == ("ambiguous_format", "/format/dates")
    assert take(files, content, columns, format={"dates": "dmy"}).columns["seen"].tolist() == [
        396.0
    ]
    with pytest.raises(IngestError) as caught:  # in two orders
        take(files, b"seen;age\n31/01/2020;1\n01/31/2020;1\n", columns)
    assert caught.value.pointer == "/format/dates"


OTHERS = {
    "JSON": b'[{"age": 1}]',
    "lines of JSON": b'{"age": 1}\n{"age": 2}\n',
    "HTML": b"<!DOCTYPE html>",
    "XML": b"\xef\xbb\xbf<?xml version='1.0'?>",
    "Stata": b"<stata_dta><header>",
    "SPSS": b"$FL2@(#)",
    "SAS": b"HEADER RECORD*******LIBRARY",
    "R": gzip.compress(b"X\n\0\0\0\3"),
    "office": b"\xd0\xcf\x11\xe0",
    "tar": gzip.compress(b"a" * 257 + b"ustar" + b"\0" * 250),
    "bzip2": b"BZh9",
    "Arrow": b"ARROW1\0\0",
    "Avro": b"Obj\x01\x04\x14avro.codec",
    "ORC": b"ORC\x1e\x08\x03",
    "NumPy": b"\x93NUMPY\x01\0v\0",
    "pickled": b"\x80\x04\x95\x10",
    "dump": b"--\n-- PostgreSQL database dump\n--\n\nCOPY visits (age) FROM stdin;\n34\n",
    "SQL": b"/*!40101 SET NAMES utf8 */;\nINSERT INTO `visits` VALUES (34,'f'),(1,'m');\n",
    "Weka": b"% made by a tool\n@RELATION visits\n\n@ATTRIBUTE age NUMERIC\n@DATA\n34\n",
    "archive": zipped(gzip.compress(b"age,sex\n34,f\n")),
    "an archive": gzip.compress(zipped(b"age,sex\n34,f\n")),
}


@pytest.mark.parametrize(("kind", "content"), OTHERS.items(), ids=OTHERS)
def test_files_of_other_programs_are_refused_by_name(files, kind, content):
    with pytest.raises(IngestError) as caught:
        take(files, content)
    assert caught.value.code == "not_csv"
    (_, message), *_ = caught.value.problems
    assert kind.split()[-1] in message
    assert "give CSV" in message


def test_a_last_line_of_notes_is_left_out_in_any_block(files):
    """Also where it alone is in the last block, and where a value says the same."""
    for rows in (10, 60_000):
        content = written()[: written().index(b"\n") + 1] + b"34,1.5,Trier,yes\n" * rows
        for after in (b"(9 rows)\n", b"\n\n9 rows selected.\n\n"):
            assert take(files, content + after).rows == rows
        notes = b"\n* one, and\n\n* another\n"
        assert take(files, content + notes, format={"skip_last_lines": 2}).rows == rows
    one = parse_columns([{"name": "said", "type": "category", "categories": ["(9 rows)", "no"]}])
    assert take(files, b"said\nno\n(9 rows)\n", one).rows == 2


def archive(*names, **options):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", **options) as made:
        for name in names:
            made.writestr(name, written())
    return sink.getvalue()


PACKED = {
    "several": (archive("a.csv", "b.csv"), "several_files"),
    "none": (archive(), "not_csv"),
    "workbook": (archive("[Content_Types].xml", "xl/workbook.xml"), "not_csv"),
    "sheet": (archive("content.xml", "mimetype"), "not_csv"),
    "cut": (archive("a.csv")[:-30], "malformed_archive"),
    "of another kind": (archive("a.csv", compression=zipfile.ZIP_LZMA), "malformed_archive"),
    "many": (archive(*map(str, range(30_000))), "several_files"),
}


@pytest.mark.parametrize(("content", "code"), PACKED.values(), ids=PACKED)
def test_archives_that_hold_something_else_are_refused(files, content, code):
    with pytest.raises(IngestError) as caught:
        take(files, content)
    assert caught.value.code == code


def test_damaged_archives_are_refused_however_they_are_damaged(files):
    """A thousand of them: none ends otherwise than by an error that says so."""
    draw = random.Random(3)
    for content in [archive("a.csv"), zipped(written()), gzip.compress(written())] * 350:
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 4)):
            at = draw.choice([draw.randrange(len(damaged)), -draw.randint(1, 100)])
            if draw.random() < 0.5:
                damaged[at] = draw.randrange(256)
            else:
                del damaged[at : at + draw.randint(1, 9) if at >= 0 else len(damaged)]
            if len(damaged) < 200:
                break
        with suppress(IngestError):
            take(files, bytes(damaged))


# a table of one number; one byte of its footer is such that Arrow 26 aborts where it is asked for
# the facts of a column
ABORTS = base64.b64decode(
    "UEFSMRUAFRwVHCwVAhUAFQYVBhwAAAACAAAAAgEAAAAAAADgPxUEGSw1ABgGc2NoZW1hFQIAFQomAhgBeAAWAhkcGRwm"
    "ABwVChklBgAZGAF4FQAWAhZCFkImCEkcFQAVABUCADwpBhkmAAIAAAAWQhYCJggWQgAoIHBhcnF1ZXQtY3BwLWFycm93"
    "IHZlcnNpb24gMjYuMC4xGRwcAAAAegAAAFBBUjE="
)


@pytest.mark.parametrize("limits", [{}, {"text_bytes": 1}])
def test_a_parquet_file_ends_no_process(files, limits):
    """Neither a small one, nor one whose columns have to be asked for."""
    columns = parse_columns([{"name": "x", "type": "number", "lower": 0, "upper": 1}])
    with pytest.raises(IngestError) as caught:
        take(files, ABORTS, columns, limits=limits)
    assert caught.value.code == "malformed_parquet"
    with pytest.raises(IngestError) as caught:
        take(files, EXPORTS["Parquet"].content, limits={"text_bytes": 1}, skip=["id", "tags"])
    assert caught.value.code == "file_too_large"


def test_a_footer_that_takes_too_long_is_refused(files, monkeypatch):
    monkeypatch.setattr(read_parquet, "FOOTER_SECONDS", 1e-6)
    with pytest.raises(IngestError) as caught:
        take(files, EXPORTS["Parquet"].content, limits={"text_bytes": 1})
    assert caught.value.code == "malformed_parquet"


def test_damaged_parquet_files_are_refused_however_they_are_damaged(files):
    draw, undamaged = random.Random(5), EXPORTS["Parquet, texts as bytes"].content
    for _ in range(1000):
        damaged = bytearray(undamaged)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(4, len(damaged) - 4)] = draw.randrange(256)
        with suppress(IngestError):
            take(files, bytes(damaged))


def test_a_wrong_encoding_is_no_silent_mistake(files):
    content = written(encoding="iso-8859-2")  # reads alike in windows-1252 but for some letters
    assert take(files, content).rows
    with pytest.raises(IngestError) as caught:
        take(files, written(encoding="cp437"))
    assert caught.value.code == "undeclared_category"
    assert take(files, written(encoding="cp437"), format={"encoding": "cp437"}).rows


def test_the_header_tells_the_separator_before_rows_are_read(monkeypatch):
    """Reading a sample five times, once by each separator, took most of an upload's time."""
    read, real = [], dialect._Table
    monkeypatch.setattr(dialect, "_Table", lambda *given: read.append(given[1]) or real(*given))
    text = "x;y\n" + "1,5;\n" + "2;3\n" * 9
    named = dialect.sample_of(text, Dialect(), ["x", "y"], ["x", "y"], whole=True)
    assert (named.dialect.separator, named.dialect.decimal, read) == (";", ",", [";"])
    open_ = dialect.sample_of(text, Dialect(), [], [], whole=True)
    assert (open_, len(read)) == (named, 6)


@given(st.text("0123456789.,' +-e\u2212\u202f\u2019", max_size=12))
def test_numbers_with_nonzero_digits_alike_are_divided_alike(cell):
    alike = cell.translate(dialect.ALIKE)
    for pattern in dialect.WAYS.values():
        assert bool(pattern.fullmatch(cell)) == bool(pattern.fullmatch(alike))
    assert len(set(alike) & set("0123456789")) <= 2


def test_a_sample_is_cut_at_a_whole_row():
    sample = first_rows(io.BytesIO(written() * 500), Dialect(), Limits())
    assert sample.dialect.separator == ","
    assert {len(record) for record in sample.records} == {4}


CATEGORIES = parse_columns(
    [
        {"name": "n", "type": "category", "categories": ["1", "2", "10"]},
        {"name": "w", "type": "binary", "categories": ["a\u00a0b", "\u0645\u06cc\u200c\u062e"]},
    ]
)


def test_whole_numbers_are_categories_however_they_are_written(files):
    content = "n;w\n1,0;a\u00a0b\n2;\u0645\u06cc\u200c\u062e\n 10.00;a\u00a0b\n".encode()
    table = take(files, content, CATEGORIES)
    assert table.columns["n"].tolist() == [0, 1, 2]
    assert table.columns["w"].tolist() == [0, 1, 0]


@pytest.mark.parametrize("word", ["01", "1.5", "1e0", "+1", "1.", "x"])
def test_other_words_are_no_category(files, word):
    content = f"n,w\n{word},a\u00a0b\n".encode()
    if word in ("1.",):
        assert take(files, content, CATEGORIES).columns["n"].tolist() == [0]
        return
    with pytest.raises(IngestError) as caught:
        take(files, content, CATEGORIES)
    assert caught.value.code == "undeclared_category"


@pytest.mark.parametrize(("content", "declared", "format", "wanted"), TABLES.values(), ids=TABLES)
def test_odd_tables_go_in_with_one_confirmation(files, content, declared, format, wanted):
    columns = parse_columns(declared)
    table = take(files, content.encode(), columns, format=format, skip_undeclared=True)
    for name, values in wanted.items():
        assert table.columns[name].tolist() == values
    sample = first_rows(io.BytesIO(content.encode()), Dialect(), Limits())
    assert {column["name"] for column in declared} <= set(sample.names)


@pytest.mark.parametrize(("table", "declared", "wanted"), PARQUET.values(), ids=PARQUET)
def test_odd_tables_of_parquet_go_in(files, table, declared, wanted):
    stored = take(files, arrow_file(table), parse_columns(declared), skip_undeclared=True)
    for name, values in wanted.items():
        assert stored.columns[name].tolist() == values


ASKED = {
    "a last line of totals": ("id;age\n1;34\nTotal;34\n", "skip_last_lines"),
    "in quotes, after others": ('id,age\n1,34\n"Gesamtergebnis:",34\n,\n', "skip_last_lines"),
    "under an empty name": (";id;age\n;1;34\n;Grand total;34\n", "skip_last_lines"),
    "row names or decimal commas": ("id,age,fee\n1,3,5,1\n2,4,5,2\n", "row_names"),
    "decimal sign later on": (
        "id\tage\n" + "1\t1 234\n" * 50_000 + "2\t2 345,5\n", "decimal"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "asked"), ASKED.values(), ids=ASKED)
def test_what_may_be_misread_is_asked(files, content, asked):
    """A decimal comma between commas divided 3,5 in two, and the first part was a row's name."""
    with pytest.raises(IngestError) as caught:
        take(files, content.encode(), parse_columns([AGE]), skip_undeclared=True)
    assert (caught.value.code, caught.value.pointer) == ("ambiguous_format", f"/format/{asked}")


REFUSED_PARQUET = {
    "no values": (pa.nulls(2), "has no values: leave it out"),
    "texts": (pa.array(["34"]), "not numbers: it has texts; convert them"),
    "not a number": (pa.array([34, float("nan")]), '1 values .* and NaN by "missing": true'),
}


@pytest.mark.parametrize(("values", "told"), REFUSED_PARQUET.values(), ids=REFUSED_PARQUET)
def test_columns_of_parquet_that_cannot_go_in_are_told_with_a_remedy(files, values, told):
    columns = parse_columns([{**AGE, "missing": []}])
    with pytest.raises(IngestError) as caught:
        take(files, arrow_file(pa.table({"age": values})), columns)
    assert re.search(told, caught.value.problems[0][1])


REFUSED = {
    "a line of units": (
        "age;sex\n[years];f\n34;m\n", "1 values are not finite numbers in 'age'.*skip_first_rows"
    ),
    "percent signs": ("age,sex\n34%,f\n5 %,m\n", "2 values are not finite numbers in 'age'.*%"),
    "footnotes": (
        "age;sex\n34;f\n* revised;\n", "1 values are not finite numbers in 'age': spellings"
    ),
    "notes": (
        "age;sex\n34;f\nSource: an office\n", "1 rows have another number.*skip_last_lines"
    ),
    "a currency": (
        'age,sex\n"$1,234.50",f\n€ 5,m\n', "2 values are not finite .* 'age'.*currency signs"
    ),
    "brackets": (  # a loss, or a number that is not sure: offices and ledgers differ
        "age,sex\n(12),f\n5,m\n", "1 values are not finite numbers in 'age'.*brackets"
    ),
    "an amount": ("age,sex\n34.5 EUR,f\n", "1 values are not finite numbers in 'age'"),
    "undeclared words": (
        "age,sex\n34,F\n5,M\n", "2 values are no declared category in 'sex': declare it"
    ),
    "names twice": ("age,sex,age\n34,f,5\n", "more than once: 'age'; rename all but one"),
    "capitals in the header": (
        "AGE,sex\n34,f\n", "no column 'age': its name there differs in small"
    ),
    "a header behind a sign": ("#age,sex\n34,f\n", "no column 'age': its name there .* signs"),
    "open classes": ("age,sex\n18-,f\n5,m\n", "1 values are not finite numbers in 'age'"),
    "signs that escape": (
        'age,sex\n34,"he said \\"hi\\""\n', "1 values .* a quote .* is written twice, and not"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_go_in_is_told_by_column_count_and_remedy(files, content, told):
    with pytest.raises(IngestError) as caught:
        take(files, content.encode(), parse_columns([AGE, SEX]))
    assert re.search(told, " ".join(message for _, message in caught.value.problems))


def test_letters_that_are_read_wrongly_are_told_by_a_remedy(files):
    """As windows-1252 reads what was written in ISO 8859-2."""
    town = {"name": "m\u011bsto", "type": "binary", "categories": ["Plze\u0148", "\u010cesk\u00e1"]}
    for declared in (town, {**town, "name": "town"}):
        content = f"{declared['name']};age\nPlze\u0148;34\n\u010cesk\u00e1;1\n".encode("iso-8859-2")
        columns = parse_columns([declared, AGE])
        with pytest.raises(IngestError) as caught:
            take(files, content, columns)
        assert "declare the encoding in format" in caught.value.problems[0][1]
        table = take(files, content, columns, format={"encoding": "iso-8859-2"})
        assert table.columns[declared["name"]].tolist() == [0, 1]


def test_accents_in_two_parts_in_a_name_are_told(files):
    columns = parse_columns([{**AGE, "name": "gr\u00f6\u00dfe"}])
    with pytest.raises(IngestError) as caught:
        take(files, "gro\u0308\u00dfe\n3\n".encode(), columns)
    assert "its name there differs" in caught.value.problems[0][1]


def test_rows_that_end_empty_and_begin_with_numbers_are_asked(files):
    content, columns = b"age;sex\n1;f;\n2;m;\n", parse_columns([AGE, SEX])
    with pytest.raises(IngestError) as caught:
        take(files, content, columns)
    assert caught.value.pointer == "/format/row_names"
    table = take(files, content, columns, format={"row_names": False})
    assert table.columns["age"].tolist() == [1.0, 2.0]
