"""Uploads of persons: the memory that grouping their rows takes is bounded by what is public."""

import io
import tracemalloc
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from app.storage.dialect import Reading
from app.storage.errors import IngestError
from app.storage.files import DatasetFiles
from app.storage.fingerprint import Sketch
from app.storage.ingest import GROUPING_BYTES, MOST_NAMES, SLOT_BYTES, StoredUnits, ingest_by_unit
from app.storage.limits import Limits
from app.storage.local_store import LocalStore
from dpmcmc.inputs.schema import Column, NumberColumn, PrivacyUnit
from tests.storage.conftest import MASTER


def visits(rows: int, persons: int, columns: int) -> bytes:
    """Rows in random order; names are long."""
    rng = np.random.default_rng(1)
    own, values = rng.integers(0, persons, rows), rng.integers(0, 9, (rows, columns))
    lines = [
        f"person number {who:09d}," + ",".join(map(str, numbers))
        for who, numbers in zip(own.tolist(), values.tolist(), strict=True)
    ]
    return "\n".join([",".join(["who", *map(named, range(columns))]), *lines, ""]).encode()


def named(at: int) -> str:
    return f"c{at}"


def taken(folder: Path, content: bytes, columns: int, most: int, limits: Limits) -> StoredUnits:
    declared: list[Column] = [
        NumberColumn(name=named(at), lower=0, upper=9) for at in range(columns)
    ]
    files, unit = DatasetFiles(LocalStore(folder), MASTER), PrivacyUnit(column="who", max_rows=most)
    source, sketch = io.BytesIO(content), Sketch(b"k" * 32, declared)
    upload = [uuid4()], [(source, "csv")], declared, unit, limits, [sketch], Reading()
    return ingest_by_unit(files, *upload)[0]


@pytest.mark.longer
@pytest.mark.parametrize(
    ("rows", "persons", "columns", "most"),
    [(300_000, 10**9, 1, 1), (300_000, 500, 1, 8), (150_000, 90_000, 9, 20)],
)
def test_grouping_takes_no_more_memory_than_is_allowed(
    tmp_path: Path, rows: int, persons: int, columns: int, most: int
) -> None:
    """Refused at one byte less than what is counted, which is what it takes and little more."""
    content = visits(rows, persons, columns)
    taken(tmp_path, visits(100, 10, columns), columns, most, Limits())  # loads what it needs
    tracemalloc.start()
    try:
        stored = taken(tmp_path, content, columns, most, Limits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    counted = rows * (8 * columns + GROUPING_BYTES) + stored.rows * SLOT_BYTES
    assert 0.6 * counted < peak <= counted
    assert taken(tmp_path, content, columns, most, Limits(unit_bytes=counted)).rows == stored.rows
    with pytest.raises(IngestError) as refusal:
        taken(tmp_path, content, columns, most, Limits(unit_bytes=counted - 1))
    assert refusal.value.code == "file_too_large"


def test_more_slots_than_a_table_may_have_rows_are_refused(tmp_path: Path) -> None:
    content = visits(100, 10**9, 1)
    assert taken(tmp_path, content, 1, 10, Limits(rows=1000)).rows == 1000
    with pytest.raises(IngestError, match="declare fewer") as refusal:
        taken(tmp_path, content, 1, 11, Limits(rows=1000))
    assert (refusal.value.code, refusal.value.pointer) == (
        "too_many_rows",
        "/privacy_unit/max_rows",
    )


def test_persons_whose_digests_were_forgotten_keep_their_rows(tmp_path: Path) -> None:
    rows = 2 * MOST_NAMES + 1000
    once = [f"n{at}" for at in range(rows)]
    lines = [f"{who},1" for _ in range(2) for who in once]
    content = "\n".join(["who,c0", *lines, ""]).encode()
    assert taken(tmp_path, content, 1, 2, Limits()).rows == 2 * rows


def test_spellings_that_look_the_same_are_one_person(tmp_path: Path) -> None:
    names = ["Zo\u00eb Roe", "Zoe\u0308 Roe", "Zo\u00eb\u00a0Roe", "Zo\u00eb\u200b Roe "]
    content = "\n".join(["who,c0", *(f"{who},1" for who in names), "Zoe Roe,1", ""]).encode()
    assert taken(tmp_path, content, 1, 4, Limits()).rows == 2 * 4
    nobody = content.replace(b"Zoe Roe", "\u200b\u00a0".encode())
    with pytest.raises(IngestError, match="1 missing"):
        taken(tmp_path, nobody, 1, 4, Limits())
