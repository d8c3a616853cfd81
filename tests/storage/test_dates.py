"""Columns of dates, in text and in Parquet."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from app.api.formats import table_as_csv, table_as_parquet
from app.storage.columns import columns_json, parse_columns
from app.storage.errors import IngestError
from dpmcmc.inputs.schema import DateColumn
from tests.storage.conftest import Files
from tests.storage.test_ingest import as_parquet, rows_of, take

DECLARED = [
    {"name": "seen", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    {"name": "sex", "type": "category", "categories": ["f", "m"]},
]
COLUMNS = parse_columns(DECLARED)
MISSING = parse_columns([DECLARED[0] | {"missing": True}, DECLARED[1]])
CODED = parse_columns([DECLARED[0] | {"missing": ["9999-12-31"]}, DECLARED[1]])
DAYS = [dt.date(2020, 1, 3), dt.date(2019, 5, 1), dt.date(2020, 2, 29), dt.date(2031, 1, 1)]
STORED = [2.0, 0.0, 59.0, 365.0]
WRITTEN = {
    "ISO 8601": [str(day) for day in DAYS],
    "with times": [f"{day}T23:59:59.999+05:30" for day in DAYS],
    "with times of SQL": [f"{day} 00:00:00" for day in DAYS],
    "quoted, of SQL Server": [f'"{day} 13:05:00.0000000 +02:00"' for day in DAYS],
    "of Germany": [day.strftime("%d.%m.%Y") for day in DAYS],
    "of Germany, short": [f"{day.day}.{day.month}.{day.year} 14:00" for day in DAYS],
    "without signs": [day.strftime("%Y%m%d") for day in DAYS],
}


def text(words: list[str], separator: str = ",") -> bytes:
    return "\n".join([f"seen{separator}sex", *(f"{w}{separator}f" for w in words), ""]).encode()


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("separator", [",", ";"])
def test_dates_of_text_are_days_since_the_lower_bound(
    files: Files, written: str, separator: str
) -> None:
    row = take(files, text(WRITTEN[written], separator), columns=COLUMNS)
    assert rows_of(files, row).columns["seen"].tolist() == STORED


TYPES = {
    "date32": pa.array(DAYS, pa.date32()),
    "date64": pa.array(DAYS, pa.date64()),
    "s": pa.array(DAYS, pa.date32()).cast(pa.timestamp("s")),
    "ns": pa.array([dt.datetime.combine(day, dt.time(23, 59)) for day in DAYS], pa.timestamp("ns")),
    "zone": pa.array(
        [
            dt.datetime.combine(day, dt.time(20), dt.timezone(dt.timedelta(hours=-5)))
            for day in DAYS
        ],
        pa.timestamp("us", "America/Panama"),
    ),
    "text": pa.array(list(map(str, DAYS))),
    "dictionary": pa.array(list(map(str, DAYS))).dictionary_encode(),
}


@pytest.mark.parametrize("type", TYPES)
def test_dates_of_parquet_are_days_since_the_lower_bound(files: Files, type: str) -> None:
    content = as_parquet(seen=TYPES[type], sex=pa.array(["f", "m", "f", "m"]))
    table = rows_of(files, take(files, content, "parquet", columns=COLUMNS))
    assert table.columns["seen"].tolist() == STORED


def test_missing_dates_are_declared(files: Files) -> None:
    table = rows_of(
        files, take(files, text(["2020-01-03", "", "2019-12-31", "NaT"]), columns=MISSING)
    )
    assert MISSING[0].is_missing(table.columns["seen"]).tolist() == [False, True, False, True]
    for type in (pa.date32(), pa.timestamp("us"), pa.string()):
        seen = pa.array([DAYS[0], None], pa.date32()).cast(type)
        content = as_parquet(seen=seen, sex=pa.array(["f", "m"]))
        table = rows_of(files, take(files, content, "parquet", columns=MISSING))
        assert MISSING[0].is_missing(table.columns["seen"]).tolist() == [False, True]
        with pytest.raises(IngestError) as caught:
            take(files, content, "parquet", columns=COLUMNS)
        assert caught.value.problems[0][1].startswith("1 missing values in 'seen': declare")


def test_dates_that_stand_for_no_value_are_not_clamped(files: Files) -> None:
    table = rows_of(
        files, take(files, text(["2020-01-03", "31.12.9999", "2090-01-01"]), columns=CODED)
    )
    assert CODED[0].is_missing(table.columns["seen"]).tolist() == [False, True, False]
    assert table.columns["seen"][2] == 365.0


WRONG = ["2020-02-30", "1.2.20", "43831", "2020-01", "soon", "1,5", "nan"]


@pytest.mark.parametrize("word", WRONG)
def test_what_is_no_date_is_counted_and_never_named(files: Files, word: str) -> None:
    with pytest.raises(IngestError) as caught:
        take(files, text(["2020-01-03", word, word], ";"), columns=COLUMNS)
    ((pointer, message),) = caught.value.problems
    assert (caught.value.code, pointer) == ("not_a_date", "/columns/0")
    assert message.startswith("2 values are no dates in 'seen': write dates as 2020-01-31")
    assert word not in message.replace("2020-01-31", "")


@pytest.mark.parametrize("type", [pa.int32(), pa.float64(), pa.bool_(), pa.time32("s")])
def test_other_types_of_parquet_are_no_dates(files: Files, type: pa.DataType) -> None:
    content = as_parquet(seen=pa.array([1]).cast(pa.int32()).cast(type), sex=pa.array(["f"]))
    with pytest.raises(IngestError) as caught:
        take(files, content, "parquet", columns=COLUMNS)
    assert caught.value.code == "wrong_type"
    assert "'seen' is not dates or text" in caught.value.problems[0][1]


@pytest.mark.parametrize(
    "changes",
    [
        {"lower": 5},
        {"upper": "2020-02-30"},
        {"upper": "2020-01-01"},
        {"missing": ["soon"]},
        {"missing": False},
        {"spikes": ["2021-01-01"]},
        {"integer": True},
        {"origin": "2020-01-01"},
        {"description": 5},
    ],
)
def test_wrong_declarations_are_refused(changes: dict) -> None:
    with pytest.raises(IngestError) as caught:
        parse_columns([DECLARED[0] | changes])
    assert caught.value.pointer == "/columns/0"


def test_a_record_has_dates() -> None:
    told = DECLARED[0] | {
        "missing": ["9999-12-31"], "spikes": ["2020-06-01"], "description": "first visit",
    }  # fmt: skip
    columns = parse_columns([told])
    assert columns_json(columns) == [told]
    assert isinstance(columns[0], DateColumn)
    assert parse_columns(columns_json(columns)) == columns
    assert columns_json(MISSING)[0]["missing"] is True


def test_dates_of_synthetic_tables_are_dates_in_files() -> None:
    import io

    from pyarrow import parquet

    parts = [{"seen": np.array(["2020-01-03", "NaT"], "datetime64[D]"), "n": np.array([1, 2])}]
    assert b"".join(table_as_csv(parts)) == b"seen,n\r\n2020-01-03,1\r\n,2\r\n"
    made = parquet.read_table(io.BytesIO(b"".join(table_as_parquet(parts))))
    assert made["seen"].type == pa.date32()
    assert made["seen"].to_pylist() == [DAYS[0], None]
