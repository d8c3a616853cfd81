"""Uploads: what is taken, what is refused, and that nothing of a row shows."""

import bz2
import contextlib
import gzip
import io
import logging
import os
import struct
import subprocess
import sys
import tracemalloc
import uuid
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from app.logs import NOISY
from app.storage.columns import columns_json, parse_columns
from app.storage.errors import IngestError, StoreAwayError
from app.storage.files import DatasetFiles, file_size
from app.storage.ingest import ingest
from app.storage.limits import Limits
from app.storage.rows import DatasetRow
from dpmcmc.base.private import Permit
from dpmcmc.inputs.schema import Table
from tests.storage.conftest import Files, Folder

COLUMNS = parse_columns(
    [
        {"name": "age", "type": "number", "lower": 17, "upper": 90},
        {"name": "sex", "type": "category", "categories": ["Female", "Male"]},
        {"name": "income", "type": "binary", "categories": ["<=50K", ">50K"]},
    ]
)
HEADER = b"age,sex,income\n"
GOOD = HEADER + b"39,Male,<=50K\n50,Female,>50K\n"
SECRET = b"73.25"
ROOT = Path(__file__).resolve().parents[2]


def take(files: DatasetFiles, content: bytes, format="csv", columns=COLUMNS, **limits):
    dataset_id = uuid.uuid4()
    stored = ingest(files, dataset_id, io.BytesIO(content), format, columns, Limits(**limits))
    return DatasetRow(
        id=dataset_id,
        columns=columns_json(columns),
        rows=stored.rows,
        neighbouring="replace_one",
        wrapped_key=stored.wrapped_key,
    )


def rows_of(files: DatasetFiles, row: DatasetRow) -> Table:
    return files.load(row).open(Permit(subject=str(row.id), event_digest=""))


def refused(files: Files, content: bytes, format="csv", **limits) -> IngestError:
    with pytest.raises(IngestError) as caught:
        take(files, content, format, **limits)
    assert files.place.names() == [], "something was left half stored"
    assert SECRET.decode() not in str(caught.value) + repr(caught.value.problems)
    return caught.value


def said(caplog) -> list[logging.LogRecord]:
    """What was logged, but for libraries that `app.logs` silences at every level."""
    return [record for record in caplog.records if record.name.split(".")[0] not in NOISY]


def as_parquet(**columns) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_csv_is_stored_in_the_declared_coding(files):
    table = rows_of(files, take(files, GOOD))
    assert table.rows == 2
    np.testing.assert_array_equal(table.columns["age"], [39.0, 50.0])
    np.testing.assert_array_equal(table.columns["sex"], [1, 0])
    np.testing.assert_array_equal(table.columns["income"], [0, 1])
    assert table.columns["age"].dtype == np.float64
    assert table.columns["sex"].dtype == np.int32


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.removesuffix(b"\n"),
        b'"income","age","sex"\n"<=50K",39,"Male"\n>50K,+5.0e1,Female\n',
    ],
    ids=["byte order mark", "CRLF", "no last newline", "quoted, other order"],
)
def test_harmless_variants_of_csv_mean_the_same(files, content):
    table = rows_of(files, take(files, content))
    np.testing.assert_array_equal(table.columns["age"], [39.0, 50.0])
    np.testing.assert_array_equal(table.columns["sex"], [1, 0])
    np.testing.assert_array_equal(table.columns["income"], [0, 1])


def test_parquet_and_csv_store_the_same_table(files):
    content = as_parquet(
        sex=pa.array(["Male", "Female"]).dictionary_encode(),
        income=["<=50K", ">50K"],
        age=pa.array([39, 50], pa.int16()),
    )
    ours, theirs = (
        rows_of(files, take(files, content, "parquet")),
        rows_of(files, take(files, GOOD)),
    )
    for name in theirs.columns:
        np.testing.assert_array_equal(ours.columns[name], theirs.columns[name])


def test_numbers_outside_their_bounds_are_clamped_in_silence(files, caplog):
    with caplog.at_level(logging.DEBUG):
        row = take(files, HEADER + b"-5,Male,>50K\n1e300,Male,>50K\n40,Male,>50K\n")
    np.testing.assert_array_equal(rows_of(files, row).columns["age"], [17.0, 90.0, 40.0])
    assert said(caplog) == []


def test_many_rows_survive_the_chunks(files):
    generator = np.random.default_rng(1)
    age = generator.uniform(17, 90, 40_001)
    sex = generator.integers(0, 2, 40_001)
    lines = [f"{a!r},{('Female', 'Male')[s]},>50K" for a, s in zip(age.tolist(), sex, strict=True)]
    table = rows_of(files, take(files, HEADER + "\n".join(lines).encode()))
    np.testing.assert_array_equal(table.columns["age"], age)
    np.testing.assert_array_equal(table.columns["sex"], sex)


CSV_FAULTS = {
    "empty file": (b"", "empty_file", "/file"),
    "only a header": (HEADER, "no_rows", "/file"),
    "missing number": (HEADER + b"73.25,Male,>50K\n,Male,>50K\n", "missing_value", "/columns/0"),
    "missing category": (HEADER + b"73.25,,>50K\n", "missing_value", "/columns/1"),
    "undeclared": (HEADER + b"73.25,73.25,>50K\n", "undeclared_category", "/columns/1"),
    "text for a number": (HEADER + b"x73.25,Male,>50K\n", "not_a_number", "/columns/0"),
    "hexadecimal": (HEADER + b"0x73,Male,>50K\n", "not_a_number", "/columns/0"),
    "NaN": (HEADER + b"NaN,Male,>50K\n", "not_a_number", "/columns/0"),
    "infinite": (HEADER + b"-inf,Male,>50K\n", "not_a_number", "/columns/0"),
    "overflowing": (HEADER + b"1e999,Male,>50K\n", "not_a_number", "/columns/0"),
    "missing column": (b"age,sex\n73.25,Male\n", "missing_column", "/columns/2"),
    "renamed column": (b"Age,sex,income\n73.25,Male,>50K\n", "missing_column", "/columns/0"),
    "extra column": (b"age,sex,income,73.25\n1,Male,>50K,1\n", "extra_column", "/file"),
    "repeated column": (b"age,sex,income,age\n1,Male,>50K,1\n", "repeated_column", "/file"),
    "no header": (b"73.25,Male,>50K\n", "missing_column", "/columns/0"),
    "too few fields": (GOOD + b"73.25,Male\n", "ragged_rows", "/file"),
    "too many fields": (GOOD + b"73.25,Male,>50K,1\n", "ragged_rows", "/file"),
    "not UTF-8 later on": (
        HEADER + b"73.25,Male,>50K\n" * 20_000 + b"73.25,M\xe4le,>50K\n",
        "not_utf8",
        "/file",
    ),
    "cut UTF-8": (HEADER + b"73.25,Male,>50K\xc3", "not_utf8", "/file"),
    "NUL": (HEADER + b"73.25,Ma\0le,>50K\n", "not_csv", "/file"),
    "bzip2": (bz2.compress(GOOD), "not_csv", "/file"),
    "cut gzip": (gzip.compress(GOOD)[:-9], "malformed_archive", "/file"),
    "Parquet": (as_parquet(age=[73.25]), "not_csv", "/file"),
    "open quote": (HEADER + b'73.25,"Male,>50K\n1,Male,>50K\n', "malformed_csv", "/file"),
    "loose quotes": (HEADER + b'73.25,"Male",>50K\n7,Ma"le",>50K\n', "malformed_csv", "/file"),
    "blank field within quotes": (HEADER + b'73.25,"\n",>50K\n', "missing_value", "/columns/1"),
    "row of nothing": (HEADER + b"1,Male,>50K\n,,\n1,Male,>50K\n", "missing_value", "/columns/0"),
}


@pytest.mark.parametrize(("content", "code", "pointer"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_a_faulty_csv_is_refused_by_name(files, content, code, pointer):
    error = refused(files, content)
    assert (error.code, error.pointer) == (code, pointer)


def test_faults_are_counted_per_column_over_the_whole_file(files):
    lines = b"x,Male,>50K\n" * 30_000 + b",Mal,>50K\n" * 7
    error = refused(files, HEADER + lines)
    wanted = (
        ("/columns/0", "7 missing values in 'age': declare"),
        ("/columns/0", "30000 values are not finite numbers in 'age': spellings of no value"),
        ("/columns/1", "7 values are no declared category in 'sex': declare it"),
    )
    for (pointer, message), (place, begin) in zip(error.problems, wanted, strict=True):
        assert pointer == place
        assert message.startswith(begin)


class Endless(io.RawIOBase):
    """A stream that repeats a pattern for ever and counts what is taken of it."""

    def __init__(self, start: bytes, pattern: bytes) -> None:
        self.start, self.pattern, self.taken = start, pattern, 0

    def read(self, size=-1):
        block = self.start or (self.pattern * (size // len(self.pattern) + 1))[:size]
        self.start = b""
        self.taken += len(block)
        return block


@pytest.mark.parametrize(
    ("start", "pattern", "code", "most"),
    [
        (HEADER + b"73.25,", b"a", "line_too_long", 2**22),
        (b"", b"a,", "line_too_long", 2**22),
        (HEADER + b'73.25,"', b"a\n", "malformed_csv", 2**22),
        (HEADER, b"73.25,Male,>50K\n", "too_many_rows", 2**25),
        (HEADER, b"\n", "too_many_rows", 2**25),
    ],
    ids=["a 2 GB field", "columns for ever", "an open quote", "rows for ever", "blank lines"],
)
def test_an_endless_upload_is_refused_early_in_little_memory(files, start, pattern, code, most):
    source = Endless(start, pattern)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    with pytest.raises(IngestError) as caught:
        ingest(files, uuid.uuid4(), source, "csv", COLUMNS, Limits(rows=100_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.code == code
    assert source.taken <= most
    assert peak < 2**27
    assert pa.total_allocated_bytes() - before < 2**24
    assert files.place.names() == []


def test_a_file_over_the_limit_is_refused(files):
    assert refused(files, GOOD, file_bytes=20).code == "file_too_large"


PARQUET_FAULTS = {
    "empty file": (b"", "empty_file", "/file"),
    "not Parquet": (GOOD, "malformed_parquet", "/file"),
    "only a frame": (b"PAR1" + struct.pack("<I", 0) + b"PAR1", "malformed_parquet", "/file"),
    "no rows": (
        as_parquet(age=pa.array([], pa.int8()), sex=pa.array([], pa.string()),
                   income=pa.array([], pa.string())),
        "no_rows",
        "/file",
    ),
    "missing": (as_parquet(age=[None, 73.25], sex=["Male"] * 2, income=[">50K"] * 2),
                "missing_value", "/columns/0"),
    "missing category": (as_parquet(age=[1, 73.25], sex=["Male", None], income=[">50K"] * 2),
                         "missing_value", "/columns/1"),
    "undeclared": (as_parquet(age=[73.25], sex=["73.25"], income=[">50K"]),
                   "undeclared_category", "/columns/1"),
    "NaN": (as_parquet(age=[float("nan")], sex=["Male"], income=[">50K"]),
            "not_a_number", "/columns/0"),
    "text for a number": (as_parquet(age=["73.25"], sex=["Male"], income=[">50K"]),
                          "wrong_type", "/columns/0"),
    "dates for text": (as_parquet(age=[73.25], sex=[date(2020, 1, 1)], income=[">50K"]),
                       "wrong_type", "/columns/1"),
    "nested": (as_parquet(age=[[73.25]], sex=["Male"], income=[">50K"]),
               "wrong_type", "/columns/0"),
    "extra": (as_parquet(age=[73.25], sex=["Male"], income=[">50K"], more=[1]),
              "extra_column", "/file"),
    "missing column": (as_parquet(age=[73.25], sex=["Male"]), "missing_column", "/columns/2"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "code", "pointer"), PARQUET_FAULTS.values(), ids=PARQUET_FAULTS
)
def test_a_faulty_parquet_is_refused_by_name(files, content, code, pointer):
    error = refused(files, content, "parquet")
    assert (error.code, error.pointer) == (code, pointer)


def test_a_damaged_parquet_ends_in_nothing_but_a_refusal(files):
    good = as_parquet(age=[73.25] * 100, sex=["Male"] * 100, income=[">50K"] * 100)
    for at in range(4, len(good) - 8, 97):
        damaged = good[:at] + bytes([good[at] ^ 0xFF]) * 8 + good[at + 8 :]
        with contextlib.suppress(IngestError):
            take(files, damaged, "parquet")


def test_a_parquet_bomb_is_refused_before_it_is_decoded(files):
    sink = io.BytesIO()
    rows = 2_000_000
    table = pa.table({"age": np.zeros(rows), "sex": ["Male"] * rows, "income": [">50K"] * rows})
    parquet.write_table(table, sink, compression="zstd", use_dictionary=False)
    bomb = sink.getvalue()
    assert len(bomb) < 100_000
    assert refused(files, bomb, "parquet", rows=1_000_000).code == "too_many_rows"
    assert refused(files, bomb, "parquet", decoded_bytes=2**20).code == "file_too_large"
    assert refused(files, bomb, "parquet", chunk_bytes=2**20).code == "file_too_large"


def test_run_lengths_of_many_rows_are_bounded_by_what_they_stand_for(files):
    rows = 2_000_000
    same = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["Male"])
    pay = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [">50K"])
    content = as_parquet(age=np.zeros(rows), sex=same, income=pay)
    assert len(content) < 200_000
    refusal = refused(files, content, "parquet", decoded_bytes=16 * rows - 1)
    assert (refusal.code, refusal.pointer) == ("file_too_large", "/file")


def test_one_text_of_many_bytes_is_refused_before_it_is_decoded(files):
    long = ["Male", "m" * 200 * 2**20]
    sink = io.BytesIO()
    table = pa.table({"age": [1.0, 2.0], "sex": long, "income": [">50K"] * 2})
    parquet.write_table(table, sink, compression="zstd")
    del table
    assert len(sink.getvalue()) < 200_000
    pa.default_memory_pool().release_unused()
    before = pa.total_allocated_bytes()
    refusal = refused(files, sink.getvalue(), "parquet")
    assert (refusal.code, refusal.pointer) == ("file_too_large", "/columns/1")
    assert pa.total_allocated_bytes() - before < 2**20


def test_one_long_category_repeated_is_not_blown_up(files):
    rows = 100_000
    long = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["m" * 2**20])
    content = as_parquet(age=np.zeros(rows), sex=long, income=[">50K"] * rows)
    before = pa.default_memory_pool().max_memory()
    assert refused(files, content, "parquet").code == "undeclared_category"
    assert pa.default_memory_pool().max_memory() - before < 2**28


def test_an_upload_needs_no_pandas(tmp_path):
    program = """
import io, sys, uuid
from pathlib import Path
from app.storage.columns import parse_columns
from app.storage.files import DatasetFiles
from app.storage.ingest import ingest
from app.storage.keys import MasterKey
from app.storage.local_store import LocalStore
columns = parse_columns([{"name": "sex", "type": "category", "categories": ["f", "m"]}])
files = DatasetFiles(LocalStore(Path(sys.argv[1])), MasterKey(bytes(32)))
ingest(files, uuid.uuid4(), io.BytesIO(b"sex\\nf\\n"), "csv", columns)
heavy = ("pandas", "numba", "scipy.stats", "botocore", "opentelemetry")
sys.exit(any(name in sys.modules for name in heavy))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, cwd=ROOT)


def test_nothing_but_the_chain_can_show_an_extreme_row(files, caplog):
    plain = GOOD * 1 + b"40,Male,>50K\n" * 20_000
    extreme = plain.replace(b"39,Male,<=50K", b"90,Female,>50K", 1)
    with caplog.at_level(logging.DEBUG):
        first, second = take(files, plain), take(files, extreme)
    assert first.rows == second.rows
    assert len(first.wrapped_key) == len(second.wrapped_key)
    sizes = {len(files.place.content(name)) for name in files.place.names()}
    assert sizes == {file_size(COLUMNS, first.rows)}
    assert said(caplog) == []


def test_a_full_disk_leaves_nothing_and_is_told_by_its_code(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device", "a path")

    place = Folder(tmp_path / "datasets")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreAwayError, match=r"^the disk is full$"):
        take(Files(place), GOOD)
    assert place.names() == []


def test_columns_named_with_dots_can_be_uploaded(files):
    columns = parse_columns([{"name": "hours.per.week", "type": "number", "lower": 0, "upper": 99}])
    for content, format in ((b"hours.per.week\n40\n", "csv"),
                            (as_parquet(**{"hours.per.week": [40]}), "parquet")):  # fmt: skip
        row = take(files, content, format, columns)
        np.testing.assert_array_equal(rows_of(files, row).columns["hours.per.week"], [40.0])


CODED = parse_columns([{"name": "x", "type": "number", "lower": 0, "upper": 10, "missing": [-9.9]}])
TENS = [1.5, -9.9, 0.25, 3.5, -9.9, 2.0]
DECIMALS = pa.array([Decimal(repr(x)).quantize(Decimal("1.00")) for x in TENS])
SINGLE = pa.array(np.array(TENS, np.float32))
WRITTEN = {
    "float16": SINGLE.cast(pa.float16()),
    "float32": SINGLE,
    "float64": pa.array(np.array(TENS)),
    "float64 that was float32": SINGLE.cast(pa.float64()),
    "decimal": DECIMALS.cast(pa.decimal128(10, 2)),
    "decimal of 32 bits": DECIMALS.cast(pa.decimal32(9, 2)),
    "decimal of 64 bits": DECIMALS.cast(pa.decimal64(18, 3)),
    "long decimal": DECIMALS.cast(pa.decimal256(60, 2)),
    "dictionary of float32": SINGLE.dictionary_encode(),
    "dictionary of float64": pa.array(np.array(TENS)).dictionary_encode(),
}


@pytest.mark.parametrize("values", WRITTEN.values(), ids=WRITTEN)
def test_a_missing_code_is_found_in_every_type_of_parquet(files, values):
    (column,) = CODED
    found = rows_of(files, take(files, as_parquet(x=values), "parquet", CODED)).columns["x"]
    assert column.is_missing(found).tolist() == [x == -9.9 for x in TENS]
    assert np.allclose(found, TENS)


@pytest.mark.parametrize("text", ["-9.9", "-9.90", "-99e-1", "-0.99E1", "-9.899999618530273"])
def test_a_missing_code_is_found_however_csv_writes_it(files, text):
    (column,) = CODED
    found = rows_of(files, take(files, f"x\n1.5\n{text}\n".encode(), "csv", CODED)).columns["x"]
    assert column.is_missing(found).tolist() == [False, True]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (np.array([1, 1e20], np.float32), 1e20),
        (np.array([1, 2**63 - 1]), 2**63 - 1),
        (np.array([1, -(2**63)]), -(2**63)),
        (np.array([1, 255], np.uint8), 255),
        (np.array([1, -999], np.int16), -999.0),
        (np.array([1, 2**53 + 1]), 2**53 + 1),
    ],
)
def test_a_large_missing_code_is_found(files, values, code):
    declared = [{"name": "x", "type": "number", "lower": 0, "upper": 10, "missing": [code]}]
    for content, format in ((as_parquet(x=pa.array(values)), "parquet"), (b"x\n1\n%s\n", "csv")):
        columns, text = parse_columns(declared), repr(values[1].item()).encode()
        told = content if format == "parquet" else content % text
        found = rows_of(files, take(files, told, format, columns)).columns["x"]
        assert columns[0].is_missing(found).tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (str(np.float32(123456789)), 123456789),
        (str(np.float32(999999999999)), 999999999999),
        ("1e+09", 999999999),
        (str(np.float16(65504)), 65504),
        ("9.22337203685478e+18", 2**63 - 1),
        ("-1.23456789012346E+16", -12345678901234567),
    ],
)
def test_a_code_in_a_text_is_found_with_the_digits_of_its_type(files, text, code):
    declared = [{"name": "x", "type": "number", "lower": 0, "upper": 10, "missing": [code]}]
    columns = parse_columns(declared)
    found = rows_of(files, take(files, f"x\n1\n{text}\n".encode(), "csv", columns)).columns["x"]
    assert columns[0].is_missing(found).tolist() == [False, True]


@pytest.mark.parametrize(
    ("type", "code"),
    [
        (pa.int8(), 999),
        (pa.int64(), -9.5),
        (pa.uint16(), -9),
        (pa.float16(), 99999),
        (pa.float32(), 1e300),
        (pa.decimal128(10, 2), -9.999),
        (pa.decimal128(4, 2), 999),
    ],
)
def test_a_missing_code_that_the_file_cannot_hold_is_refused(files, type, code):
    declared = [{"name": "x", "type": "number", "lower": 0, "upper": 10, "missing": [-0.0, code]}]
    content = as_parquet(x=pa.array(["1", "2"]).cast(type))
    with pytest.raises(IngestError) as caught:
        take(files, content, "parquet", parse_columns(declared))
    assert (caught.value.code, caught.value.pointer) == ("impossible_code", "/columns/0/missing/1")
    assert "'x'" in str(caught.value.problems)
    assert files.place.names() == []


def test_truth_values_of_parquet_are_0_and_1(files):
    columns = parse_columns([{"name": "x", "type": "number", "lower": 0, "upper": 1}])
    content = as_parquet(x=pa.array([True, False, True]))
    assert rows_of(files, take(files, content, "parquet", columns)).columns["x"].tolist() == [
        1,
        0,
        1,
    ]


DAYS = ["2023-01-05", "2023-02-17"]


@pytest.mark.parametrize(
    "days",
    [DAYS, ["05.01.2023", "17.2.2023"], ["2023-01", "2023-02"], ["2023Q1", "2023 Q2"], ["1", *DAYS],
     ["Jan 2023", "Feb 2023"], ["12:30", "9:15"]],
)  # fmt: skip
def test_dates_written_as_text_are_refused_by_name(files, days):
    content = HEADER + "".join(f"{day},Male,>50K\n" for day in days).encode()
    error = refused(files, content)
    assert (error.code, error.pointer) == ("not_a_number", "/columns/0")
    assert "such as days since a date" in error.problems[0][1]
    assert not any(day in error.problems[0][1] for day in days if len(day) > 1)


@pytest.mark.parametrize("words", [["many", "2023-01-05"], ["1", "x"], ["nan", "1e999"]])
def test_words_that_are_no_dates_are_not_called_dates(files, words):
    error = refused(files, HEADER + "".join(f"{w},Male,>50K\n" for w in words).encode())
    assert "date" not in error.problems[0][1]


@pytest.mark.parametrize("type", [pa.date32(), pa.date64(), pa.timestamp("ms"), pa.time32("s")])
@pytest.mark.parametrize("at", [0, 1])
def test_dates_of_parquet_are_refused_by_name(files, type, at):
    told = {"age": pa.array([30]), "sex": pa.array(["Male"]), "income": pa.array([">50K"])}
    days = pa.array(np.array([1], np.int64 if type.bit_width == 64 else np.int32)).cast(type)
    content = as_parquet(**told | {list(told)[at]: days})
    error = refused(files, content, "parquet")
    assert (error.code, error.pointer) == ("wrong_type", f"/columns/{at}")
    assert "such as days since a date" in error.problems[0][1]
