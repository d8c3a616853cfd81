"""Number columns whose empty values are declared to be missing, in text and in Parquet."""

import numpy as np
import pytest

from app.api.formats import table_as_csv
from app.storage.columns import columns_json, parse_columns
from app.storage.errors import IngestError
from tests.storage.conftest import Files
from tests.storage.test_ingest import as_parquet, rows_of, take

DECLARED = [
    {"name": "age", "type": "number", "lower": 17, "upper": 90, "integer": True, "missing": True},
    {"name": "sex", "type": "category", "categories": ["f", "m"]},
]
COLUMNS = parse_columns(DECLARED)
CODE = 16.0
TEXT = b"age,sex\n30,f\n,m\n16,f\n95,m\nNaN,f\n"
STORED = [30.0, CODE, 17.0, 90.0, CODE]  # a real 16 is clamped, and is no missing value


def test_empty_fields_are_missing_and_a_number_like_their_code_is_not(files: Files) -> None:
    table = rows_of(files, take(files, TEXT, columns=COLUMNS))
    np.testing.assert_array_equal(table.columns["age"], STORED)


@pytest.mark.parametrize("type", ["float32", "float64"])
def test_null_and_nan_of_parquet_are_missing(files: Files, type: str) -> None:
    import pyarrow as pa

    ages = pa.array(
        [30, None, 16, 95, float("nan")], pa.float32() if "32" in type else pa.float64()
    )
    content = as_parquet(age=ages, sex=pa.array(["f", "m", "f", "m", "f"]))
    table = rows_of(files, take(files, content, "parquet", columns=COLUMNS))
    np.testing.assert_array_equal(table.columns["age"], STORED)


def test_nulls_of_whole_numbers_in_parquet_are_missing(files: Files) -> None:
    import pyarrow as pa

    content = as_parquet(age=pa.array([None, 30, 16], pa.int8()), sex=pa.array(["f", "m", "f"]))
    table = rows_of(files, take(files, content, "parquet", columns=COLUMNS))
    np.testing.assert_array_equal(table.columns["age"], [CODE, 30.0, 17.0])


@pytest.mark.parametrize(
    ("row", "code"),
    [(b"inf,f", "not_a_number"), (b"x,f", "not_a_number"), (b"30.5,f", "not_whole")],
)
def test_what_is_no_number_is_still_refused(files: Files, row: bytes, code: str) -> None:
    with pytest.raises(IngestError) as caught:
        take(files, TEXT + row + b"\n", columns=COLUMNS)
    assert caught.value.code == code
    assert caught.value.problems[0][1].startswith("1 values")


def test_a_record_says_true_and_not_the_code() -> None:
    assert columns_json(COLUMNS)[0] == {**DECLARED[0], "lower": 17.0, "upper": 90.0}
    assert parse_columns(columns_json(COLUMNS)) == COLUMNS


def test_missing_values_of_synthetic_tables_are_empty_fields() -> None:
    parts = [{"age": np.array([30.0, np.nan]), "sex": np.array(["f", "m"])}]
    assert b"".join(table_as_csv(parts)) == b"age,sex\r\n30.0,f\r\n,m\r\n"
