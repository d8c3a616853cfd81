"""Number columns whose empty values are declared to be missing, in text and in Parquet."""

import numpy as np
import pytest

from app.api.formats import table_as_csv, table_as_parquet
from app.storage.columns import columns_json, parse_columns
from app.storage.errors import IngestError
from app.storage.rows import DatasetRow
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


WORDS = parse_columns(
    [
        {"name": "sex", "type": "binary", "categories": ["f", "m"], "missing": True},
        {"name": "grade", "type": "category", "categories": ["1", "2", "3"], "missing": True},
    ]
)
WORDS_STORED = {"sex": [0, 2, 1, 2], "grade": [0, 1, 3, 3]}


def assert_words(files: Files, row: DatasetRow) -> None:
    table = rows_of(files, row)
    for name, wanted in WORDS_STORED.items():
        assert table.columns[name].tolist() == wanted


def test_empty_fields_of_categories_are_missing(files: Files) -> None:
    content = b"sex,grade\nf,1\n,2.0\nm,\nNaN,nan\n"
    assert_words(files, take(files, content, columns=WORDS))


def test_nulls_of_categories_in_parquet_are_missing(files: Files) -> None:
    import pyarrow as pa

    sex = pa.array(["f", None, "m", ""])
    for grade in (
        pa.array([1, 2, None, None], pa.int8()),
        pa.array([1.0, 2.0, None, float("nan")]),
        pa.array(["1", "2", None, " "]),
        pa.array(["1", "2", None, None]).dictionary_encode(),
    ):
        for words in (sex, sex.dictionary_encode(), sex.cast(pa.large_string())):
            content = as_parquet(sex=words, grade=grade)
            assert_words(files, take(files, content, "parquet", columns=WORDS))


def test_truth_values_of_parquet_may_be_missing(files: Files) -> None:
    import pyarrow as pa

    (column,) = parse_columns(
        [{"name": "x", "type": "binary", "categories": ["false", "true"], "missing": True}]
    )
    content = as_parquet(x=pa.array([True, None, False]))
    table = rows_of(files, take(files, content, "parquet", columns=[column]))
    assert table.columns["x"].tolist() == [1, 2, 0]


def test_a_word_that_is_no_category_is_no_missing_value(files: Files) -> None:
    with pytest.raises(IngestError) as caught:
        take(files, b"sex,grade\nf,1\n?,2\n,4\n", columns=WORDS)
    for (_, message), name in zip(caught.value.problems, ("sex", "grade"), strict=True):
        assert message.startswith(f"1 values are no declared category in {name!r}: declare it")


def test_a_record_of_categories_says_true(files: Files) -> None:
    assert columns_json(WORDS)[0]["missing"] is True
    assert parse_columns(columns_json(WORDS)) == WORDS
    whole = parse_columns([{**columns_json(WORDS)[0], "missing": False}])
    assert "missing" not in columns_json(whole)[0]


def test_missing_words_of_a_whole_table_are_text_in_parquet() -> None:
    import io

    from pyarrow import parquet

    parts = [{"sex": np.array([None, None], object)}, {"sex": np.array(["f", None], object)}]
    made = parquet.read_table(io.BytesIO(b"".join(table_as_parquet(parts))))
    assert made["sex"].to_pylist() == [None, None, "f", None]
    assert b"".join(table_as_csv(parts)) == b'sex\r\n""\r\n""\r\nf\r\n""\r\n'
