"""Rows in files or batches give the table that a frame of the same rows gives."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.exceptions import InvalidTag
from pyarrow import dataset, parquet

from dpmcmc import Budget, Counts, Mean, Schema, describe, sample
from dpmcmc.fit import local
from dpmcmc.fit.local import checked_rows
from dpmcmc.inputs import spooled as spooling
from dpmcmc.inputs.streamed import Streamed
from dpmcmc.releases import design_rows
from tests.sources import Seeded

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


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any rows that come in batches count as many."""
    monkeypatch.setattr(local, "SPOOLED_NUMBERS", 0)
    monkeypatch.setattr(spooling, "CHUNK_ROWS", 800)
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_many_batches_are_read_again_and_again_and_are_the_rows_of_a_frame(
    kind: str, table: pa.Table, tmp_path: Path, many: None
) -> None:
    schema = Schema.from_frame(table, BOUNDS, missing={"x": True})
    read = ("x", "g", "y")
    whole = checked_rows(schema, table, 1e-6, None, read).whole(read)
    made = checked_rows(schema, KINDS[kind](table, tmp_path), 1e-6, None, read)
    assert isinstance(made, Streamed)
    for names in (read, read, ("g",)):
        parts = list(made.parts(names))
        assert [part.rows for part in parts] == [800, 800, 800, 600]
        assert {name for part in parts for name in part.columns} == set(names)
        for name in names:
            theirs = np.concatenate([part.columns[name] for part in parts])
            kept = whole.columns[name]
            assert theirs.dtype == kept.dtype
            assert np.array_equal(theirs, kept, equal_nan=kept.dtype.kind == "f")


@pytest.mark.parametrize("kind", ["dataset", "batches"])
def test_a_fit_of_many_batches_is_that_of_a_frame(
    kind: str, table: pa.Table, tmp_path: Path, many: None
) -> None:
    schema = Schema.from_frame(table, BOUNDS, missing={"x": True})
    fits = [
        sample(
            "y ~ x + g", data, schema,
            epsilon=4, delta=1e-6, sampler="noisy_quadratic", random=Seeded(1),
            accept_low_quality=True,
        )
        for data in (table, KINDS[kind](table, tmp_path))
    ]  # fmt: skip
    assert (fits[0].draws == fits[1].draws).all()
    asked = [Mean("x"), Counts(("g", "y"))]
    tables = [
        describe(data, asked, schema=schema, epsilon=1, random=Seeded(2))
        for data in (table, KINDS[kind](table, tmp_path))
    ]
    assert (tables[0].released == tables[1].released).all()


def test_what_lies_in_the_temporary_file_tells_nothing(
    table: pa.Table, tmp_path: Path, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    real = spooling.tempfile.TemporaryFile

    def kept(**options: Any) -> Any:
        files.append(real(**options))
        return files[-1]

    monkeypatch.setattr(spooling.tempfile, "TemporaryFile", kept)
    schema = Schema.from_frame(table, BOUNDS, missing={"x": True})
    rows = checked_rows(schema, iter(table.to_batches()), 1e-6, None, ("x", "y"))
    (file,) = files
    file.seek(0)
    content = file.read()
    assert len(content) == ROWS * (8 + 4) + 2 * 4 * 16
    plain = table["x"].to_numpy().tobytes()
    assert not any(plain[at : at + 8] in content for at in range(0, 800, 8))
    file.seek(40)
    file.write(b"\0\0")
    with pytest.raises(InvalidTag):
        rows.whole(("x",))


def test_a_schema_of_other_rows_or_other_answers_is_refused_before_anything_is_paid(
    table: pa.Table, many: None
) -> None:
    schema = Schema.from_frame(table, BOUNDS, missing={"x": True})
    budget = Budget(epsilon=8, delta=1e-5)
    other = replace(schema, rows=ROWS + 1)
    call = {"epsilon": 1, "budget": budget, "sampler": "noisy_quadratic"}
    with pytest.raises(ValueError, match=f"{ROWS} rows, and the schema says {ROWS + 1}"):
        sample("y ~ g", iter(table.to_batches()), other, **call)  # type: ignore[arg-type]
    numbers = pa.table({"x": np.linspace(0, 1, ROWS), "y": np.linspace(0, 1, ROWS)})
    shares = Schema.from_frame(numbers, {"x": (0, 1), "y": (0, 1)})
    with pytest.raises(ValueError, match="needs 0 or 1"):
        sample("y ~ x", iter(numbers.to_batches()), shares, family="logistic", **call)  # type: ignore[arg-type]
    assert budget.calls == 0


@pytest.mark.longer
def test_memory_does_not_grow_with_the_rows_of_an_iterator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "SPOOLED_NUMBERS", 0)
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)

    def batches(count: int) -> Any:
        for number in range(count):
            x = np.random.default_rng(number).uniform(-1, 1, (3, 20_000))
            yield {"x": x[0], "z": x[1], "y": np.clip(x[0] + x[2], -1, 1)}

    most = []
    # The first one loads what it needs. With fewer rows than the second one's, the blocks in flight
    # are not all full.
    for count in (4, 64, 256):
        schema = Schema.from_frame(
            {name: np.zeros(1) for name in "xyz"}, dict.fromkeys("xyz", (-1, 1))
        )
        schema = replace(schema, rows=20_000 * count)
        tracemalloc.start()
        sample("y ~ x + z", batches(count), schema, epsilon=1, sampler="noisy_quadratic")
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    added = 192 * 20_000 * 3 * 8  # bytes of the rows that the last one has more
    assert most[2] - most[1] < 0.05 * added
