"""Rows in files or batches give the table that a frame of the same rows gives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from dpmcmc import Schema, sample
from dpmcmc.fit.local import checked_rows

ROWS = 3000
BOUNDS = {"x": (0, 10), "g": ("a", "b", "c"), "y": ("no", "yes")}


@pytest.fixture
def table() -> pa.Table:
    random = np.random.default_rng(5)
    x = random.uniform(0, 10, ROWS)
    return pa.table(
        {
            "id": [f"person {k // 3}" for k in range(ROWS)],
            "x": pa.array(np.where(x > 9.5, np.nan, x), from_pandas=True),
            "g": random.choice(["a", "b", "c"], ROWS),
            "y": np.where(random.random(ROWS) < 0.1 + 0.08 * x, "yes", "no"),
            "unread": pa.array([None] * ROWS, pa.string()),
        }
    )


def in_folder(table: pa.Table, folder: Path) -> Any:
    for at in range(3):
        part = table[at * 1000 : (at + 1) * 1000]
        parquet.write_table(part, folder / f"{at}.parquet", row_group_size=300)
    return dataset.dataset(folder)


KINDS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "dataset": in_folder,
    "reader": lambda table, _: table.to_reader(max_chunksize=700),
    "batches": lambda table, _: iter(table.to_batches(max_chunksize=700)),
    "frames": lambda table, _: (one.to_pandas() for one in table.to_batches(max_chunksize=700)),
    "mappings": lambda table, _: (one.to_pydict() for one in table.to_batches(max_chunksize=700)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "id"])
def test_batches_give_the_table_of_a_frame(
    kind: str, unit: str | None, table: pa.Table, tmp_path: Path
) -> None:
    more = {} if unit is None else {"privacy_unit": unit, "max_rows": 3}
    schema = Schema.from_frame(table, BOUNDS, missing={"x": True}, **more)  # type: ignore[arg-type]
    read = ("x", "g", "y")
    whole = checked_rows(schema, table, 1e-6, None, read)
    made = checked_rows(schema, KINDS[kind](table, tmp_path), 1e-6, None, read)
    assert list(made.columns) == list(whole.columns)
    for name, values in whole.columns.items():
        theirs = made.columns[name]
        if unit is not None:  # persons are in the order of digests under a key of the call
            values, theirs = np.sort(values, axis=None), np.sort(theirs, axis=None)
        assert values.dtype == theirs.dtype
        assert np.array_equal(values, theirs, equal_nan=values.dtype.kind == "f")


def test_of_a_dataset_only_the_columns_of_the_formula_are_read(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = in_folder(table, tmp_path)
    schema = Schema.from_frame(source, BOUNDS, missing={"x": True})
    asked: list[list[str]] = []

    class Watched:
        schema = source.schema
        count_rows = source.count_rows

        def to_batches(self, columns: list[str], **options: Any) -> Any:
            asked.append(columns)
            return source.to_batches(columns=columns, **options)

    fit = sample("y ~ x", Watched(), schema, epsilon=3, delta=1e-6)
    assert asked == [["x", "y"]]
    assert fit.summary()["x"].mean > 0


@pytest.mark.parametrize(("rows", "says"), [(2999, 3000), (3000, 2999), (0, 3000)])
def test_another_number_of_rows_is_refused(rows: int, says: int, table: pa.Table) -> None:
    schema = Schema.from_frame(table[:says], BOUNDS, missing={"x": True})
    given = iter(table[:rows].to_batches(max_chunksize=700))
    with pytest.raises(ValueError, match=f"the data have {rows} rows, and the schema says {says}"):
        checked_rows(schema, given, 1e-6, None, ("x", "y"))


def test_what_is_wrong_in_a_batch_is_named(table: pa.Table) -> None:
    schema = Schema.from_frame(table, BOUNDS)
    with pytest.raises(ValueError, match="column 'x' has values that are not finite"):
        checked_rows(schema, table.to_reader(), 1e-6, None, ("x",))
    with pytest.raises(ValueError, match="no column 'y'"):
        checked_rows(schema, iter([table.select(["x"])]), 1e-6, None, ("y",))
    with pytest.raises(TypeError, match="a data frame or a mapping"):
        checked_rows(schema, iter([1, 2]), 1e-6, None, ("x",))
