"""Keys and encrypted files: bound to their dataset and promises, never half there."""

import io
import os
import pickle
import signal
import stat
import struct
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.storage.columns import columns_digest, columns_json, parse_columns, schema_of
from app.storage.durable import durable_file
from app.storage.errors import DatasetFileError, IngestError, StoreAwayError
from app.storage.files import CHUNK_ROWS, DatasetFiles, name_of, stored_type
from app.storage.ingest import ingest
from app.storage.keys import KeyFileError, MasterKey, master_key
from app.storage.local_store import LocalStore
from app.storage.rows import DatasetRow
from dpmcmc.base.private import Permit, PermitError, Private
from tests.storage.conftest import MASTER, Files

ROOT = Path(__file__).resolve().parents[2]
NUMBER = {"name": "x", "type": "number", "lower": 0.0, "upper": 1.0}
COLUMNS = parse_columns([NUMBER])
ROWS = 2 * CHUNK_ROWS + 5


def stored(files: DatasetFiles, rows: int = ROWS, value: bytes = b"0.5") -> DatasetRow:
    dataset_id = uuid.uuid4()
    content = io.BytesIO(b"x\n" + (value + b"\n") * rows)
    found = ingest(files, dataset_id, content, "csv", COLUMNS)
    return DatasetRow(
        id=dataset_id,
        columns=columns_json(COLUMNS),
        rows=found.rows,
        neighbouring="replace_one",
        wrapped_key=found.wrapped_key,
    )


def content_of(files: Files, row: DatasetRow) -> bytes:
    return files.place.content(name_of(row.id))


def replace(files: Files, row: DatasetRow, content: bytes) -> None:
    files.place.put(name_of(row.id), content)


def test_rows_come_back_as_private_and_open_with_a_permit_for_this_dataset_only(files):
    row = stored(files)
    private = files.load(row)
    assert isinstance(private, Private)
    table = private.open(Permit(subject=str(row.id), event_digest=""))
    assert table.rows == ROWS
    assert (table.columns["x"] == 0.5).all()
    with pytest.raises(PermitError):
        private.open(Permit(subject=str(uuid.uuid4()), event_digest=""))


def test_nothing_readable_reaches_the_disk(files):
    content = content_of(files, stored(files, value=b"0.8125"))
    assert np.float64(0.8125).tobytes() not in content
    assert b"0.8125" not in content


def test_files_in_a_folder_are_for_their_owner_only(tmp_path):
    row = stored(DatasetFiles(LocalStore(tmp_path / "datasets"), MASTER))
    path = tmp_path / "datasets" / name_of(row.id)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "cut to a chunk", "longer", "flipped", "swapped chunks"]
)
def test_a_damaged_file_is_found(files, damage):
    row = stored(files)
    chunk = CHUNK_ROWS * 8 + 16
    content = content_of(files, row)
    damaged = {
        "empty": b"",
        "cut": content[:-1],
        "cut to a chunk": content[: 8 + 2 * chunk],
        "longer": content + b"x",
        "flipped": content[:50] + bytes([content[50] ^ 1]) + content[51:],
        "swapped chunks": content[:8] + content[8 + chunk : 8 + 2 * chunk]
        + content[8 : 8 + chunk] + content[8 + 2 * chunk :],
    }[damage]  # fmt: skip
    replace(files, row, damaged)
    with pytest.raises(DatasetFileError):
        files.load(row)


@pytest.fixture
def large(files, monkeypatch):
    """A dataset that is read anew at every pass, and its rows."""
    row = stored(files)
    monkeypatch.setattr("app.storage.files.LARGEST_HELD", 0)
    return row, files.load(row).open(Permit(subject=str(row.id), event_digest=""))


def test_a_large_dataset_is_read_at_every_pass_a_chunk_at_a_time(large):
    rows = large[1]
    for _ in range(2):
        parts = list(rows.parts(["x"]))
        assert [part.rows for part in parts] == [CHUNK_ROWS, CHUNK_ROWS, 5]
        assert all((part.columns["x"] == 0.5).all() for part in parts)
    assert next(rows.parts([])).columns == {}
    assert (rows.whole(["x"]).columns["x"] == 0.5).all()


@pytest.mark.parametrize("at", [50, 8 + CHUNK_ROWS * 8 + 30, -3])
def test_damage_to_a_large_dataset_is_found_by_each_pass(files, large, at):
    row, rows = large
    content = bytearray(content_of(files, row))
    content[at] ^= 1
    for _ in rows.parts(["x"]):
        pass
    replace(files, row, bytes(content))
    with pytest.raises(DatasetFileError):
        for _ in rows.parts(["x"]):
            pass
    replace(files, row, bytes(content) + b"x")
    with pytest.raises(DatasetFileError, match="longer"):
        files.load(row)
    files.destroy(row.id)
    with pytest.raises(DatasetFileError, match="missing"):
        next(rows.parts(["x"]))


def test_a_pass_goes_on_where_it_was_once_the_store_is_back(files, monkeypatch):
    row = stored(files)
    monkeypatch.setattr("app.storage.files.LARGEST_HELD", 0)
    waits, starts = [], []
    unbroken = files._store.read

    @contextmanager
    def read(name, start=0):
        starts.append(start)
        with unbroken(name, start) as file:
            if len(starts) == 2:  # the first one was looked at by `load`
                yield Broken(file, 2)
            elif len(starts) == 3:
                raise StoreAwayError("away")
            else:
                yield file

    monkeypatch.setattr(files._store, "read", read)

    def away(error, since):
        waits.append(since)

    rows = files.load(row, away=away).open(Permit(subject=str(row.id), event_digest=""))
    parts = list(rows.parts(["x"]))
    assert sum(part.rows for part in parts) == ROWS
    assert starts == [0, 0, *[8 + CHUNK_ROWS * 8 + 16] * 2]
    assert len(waits) == 2
    assert waits[0] == waits[1] > 0.0  # one and the same time away


class Broken:
    """A file that breaks off after some reads."""

    def __init__(self, file, reads):
        self.file, self.left, self.size = file, reads, file.size

    def read(self, size):
        if not self.left:
            raise StoreAwayError("broke off")
        self.left -= 1
        return self.file.read(size)

    def skip(self, size):
        self.file.skip(size)


def test_a_store_that_stays_away_ends_a_pass(files, monkeypatch):
    row = stored(files)
    monkeypatch.setattr("app.storage.files.LARGEST_HELD", 0)
    rows = files.load(row).open(Permit(subject=str(row.id), event_digest=""))

    def read(*_):
        raise StoreAwayError("away")

    monkeypatch.setattr(files._store, "read", read)
    with pytest.raises(StoreAwayError):
        next(rows.parts(["x"]))


def test_fewer_rows_than_were_stored_cannot_be_claimed(files):
    row = stored(files)
    row.rows = CHUNK_ROWS
    replace(files, row, content_of(files, row)[: 8 + CHUNK_ROWS * 8 + 16])
    with pytest.raises(DatasetFileError):
        files.load(row)


@pytest.mark.longer
def test_another_datasets_file_is_found(files):
    ours, theirs = stored(files), stored(files)
    replace(files, ours, content_of(files, theirs))
    with pytest.raises(DatasetFileError):
        files.load(ours)
    ours.wrapped_key = theirs.wrapped_key
    with pytest.raises(KeyFileError):
        files.load(ours)


def test_bounds_edited_after_the_upload_are_found(files):
    row = stored(files)
    row.columns = [{**NUMBER, "upper": 2.0}]
    with pytest.raises(DatasetFileError):
        files.load(row)


def test_another_master_key_opens_nothing(files):
    row = stored(files)
    with pytest.raises(KeyFileError):
        Files(files.place, MasterKey(b"n" * 32)).load(row)


def test_a_destroyed_dataset_is_gone_and_destroying_twice_is_harmless(files):
    row = stored(files)
    files.destroy(row.id)
    files.destroy(row.id)
    assert files.place.names() == []
    with pytest.raises(DatasetFileError, match="missing"):
        files.load(row)
    row.wrapped_key = None
    with pytest.raises(DatasetFileError, match="destroyed"):
        files.load(row)


def test_the_sweep_deletes_what_crashes_left_and_nothing_else(files):
    kept, orphan = stored(files), stored(files)
    files.place.put("notes.txt", b"somebody else's")
    assert files.sweep({kept.id}, older_than=time.time() - 60) == 0
    assert name_of(orphan.id) in files.place.names()
    assert files.sweep({kept.id}, older_than=time.time() + 60) == 1
    assert files.place.names() == sorted([name_of(kept.id), "notes.txt"])


def test_the_sweep_deletes_files_that_were_never_finished(tmp_path):
    store = LocalStore(tmp_path)
    (tmp_path / "a.rows.1.part").write_bytes(b"half")
    assert store.sweep(set(), ".rows", time.time() - 60) == 0
    assert store.sweep(set(), ".rows", time.time() + 60) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_not_overwritten_in_any_store(place):
    store = place.store()
    with store.write("x") as file:
        file.write(b"first")
    with pytest.raises(FileExistsError), store.write("x") as file:
        file.write(b"second")
    assert place.content("x") == b"first"


def test_an_error_while_a_file_is_written_leaves_no_file(place):
    def half():
        with place.store().write("x") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert place.names() == []


def test_a_store_that_works_passes_its_check(place):
    place.store().check()


def test_a_folder_that_is_gone_fails_its_check(tmp_path):
    store = LocalStore(tmp_path / "datasets")
    (tmp_path / "datasets").rmdir()
    with pytest.raises(StoreAwayError):
        store.check()


def test_a_writer_killed_at_any_moment_leaves_a_whole_file_or_none(tmp_path):
    program = """
import sys
from pathlib import Path
from app.storage.durable import durable_file
for number in range(10**6):
    with durable_file(Path(sys.argv[1]) / f"{number % 3}") as file:
        file.write(b"a" * 50_000)
        file.write(b"z" * 50_000)
"""
    for attempt in range(6):
        writer = subprocess.Popen([sys.executable, "-c", program, tmp_path], cwd=ROOT)
        time.sleep(0.5 + 0.037 * attempt)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        for path in tmp_path.glob("[0-9]"):
            assert path.read_bytes() == b"a" * 50_000 + b"z" * 50_000


def test_an_error_while_writing_leaves_nothing(tmp_path):
    def half():
        with durable_file(tmp_path / "x") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert list(tmp_path.iterdir()) == []


def test_a_taken_name_is_not_overwritten(tmp_path):
    (tmp_path / "x").write_bytes(b"first")
    with pytest.raises(FileExistsError), durable_file(tmp_path / "x", overwrite=False) as file:
        file.write(b"second")
    assert (tmp_path / "x").read_bytes() == b"first"


def test_the_master_key_is_made_once_for_its_owner_only(tmp_path):
    path = tmp_path / "keys" / "master.key"
    with ThreadPoolExecutor(16) as pool:
        keys = list(pool.map(lambda _: master_key(path, create=True), range(64)))
    assert len({key.derive("x") for key in keys}) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["master.key"]


@pytest.mark.parametrize("content", [b"", b"abc", b"zz" * 32, b"ab" * 31])
def test_a_key_file_without_a_key_is_refused(tmp_path, content):
    path = tmp_path / "master.key"
    path.write_bytes(content)
    with pytest.raises(KeyFileError):
        master_key(path, create=True)
    assert path.read_bytes() == content


def test_a_missing_key_file_is_not_made_unasked(tmp_path):
    with pytest.raises(KeyFileError):
        master_key(tmp_path / "master.key", create=False)


def test_derived_keys_differ_and_the_master_key_hides(tmp_path):
    assert MASTER.derive("a") != MASTER.derive("b")
    assert repr(MASTER) == "<MasterKey>"
    with pytest.raises(TypeError):
        pickle.dumps(MASTER)


COLUMN_FAULTS = {  # beyond those that the API refuses by member
    "control characters": ({**NUMBER, "name": "a\nb"}, "/name"),
    "a turn of the direction": ({**NUMBER, "name": "a\u202eb"}, "/name"),
    "unprintable category": (
        {"name": "c", "type": "category", "categories": ["a", "b\u200e\u2028"]}, "/categories/1"),
    "bounds too close": ({**NUMBER, "lower": 0, "upper": 9e-31}, "/upper"),
    "too high": ({**NUMBER, "upper": 3.5e38}, "/upper"),
    "equal bounds": ({**NUMBER, "upper": 0.0}, ""),
    "infinite bound": ({**NUMBER, "upper": float("inf")}, ""),
    "unknown type": ({**NUMBER, "type": "time"}, ""),
    "unknown field": ({**NUMBER, "mean": 1}, ""),
    "twice the same": ({"name": "c", "type": "category", "categories": ["a", "a"]}, ""),
    "three in a binary": ({"name": "c", "type": "binary", "categories": ["a", "b", "c"]}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("column", "pointer"), COLUMN_FAULTS.values(), ids=COLUMN_FAULTS)
def test_promises_that_are_none_are_refused(column, pointer):
    with pytest.raises(IngestError) as caught:
        parse_columns([NUMBER | {"name": "first"}, column])
    assert (caught.value.code, caught.value.pointer) == ("invalid_columns", f"/columns/1{pointer}")


def test_columns_survive_being_stored(files):
    columns = parse_columns(
        [NUMBER, {"name": "b", "type": "binary", "categories": ["n", "y"]},
         {"name": "c", "type": "category", "categories": ["a", "b", "c"]}]
    )  # fmt: skip
    row = DatasetRow(columns=columns_json(columns), rows=3, neighbouring="replace_one")
    assert schema_of(row).columns == columns


WIDE = parse_columns(
    [
        {
            "name": "age",
            "type": "number",
            "integer": True,
            "lower": 0,
            "upper": 120,
            "missing": [-9],
        },
        {"name": "income", "type": "number", "lower": 0, "upper": 1e6},
        {"name": "ward", "type": "category", "categories": [f"w{k}" for k in range(300)]},
        {"name": "in use", "type": "binary", "categories": ["no", "yes"], "missing": True},
        {"name": "born", "type": "date", "lower": "1900-01-01", "upper": "2020-12-31"},
        {
            "name": "steps",
            "type": "number",
            "integer": True,
            "lower": -1e6,
            "upper": 1e6,
            "missing": True,
        },
        {
            "name": "odd",
            "type": "number",
            "integer": True,
            "lower": 0,
            "upper": 9,
            "missing": [99.5],
        },
        {"name": "size", "type": "number", "integer": True, "lower": 0, "upper": 10, "missing": []},
    ]
)
WIDE_TYPES = ["i1", "f8", "u2", "u1", "u2", "i4", "f8", "u1"]


def wide_rows(rows):
    rng = np.random.default_rng(4)
    return [
        rng.choice([0.0, 47.0, 120.0, -9.0], rows),
        rng.uniform(0.0, 1e6, rows),
        rng.integers(0, 300, rows).astype(np.int32),
        rng.integers(0, 3, rows).astype(np.int32),
        rng.integers(0, 44_000, rows).astype(float),
        rng.choice([-1e6, 1e6, *WIDE[5].missing], rows),
        rng.choice([0.0, 9.0, 99.5], rows),
        rng.integers(0, 11, rows).astype(float),
    ]


def wide(files, batch):
    dataset_id = uuid.uuid4()
    key, wrapped = files.new_key(dataset_id)
    with files.write(dataset_id, key, WIDE) as writer:
        writer.add(batch)
    return DatasetRow(
        id=dataset_id,
        columns=columns_json(WIDE),
        rows=len(batch[0]),
        neighbouring="replace_one",
        wrapped_key=wrapped,
    )


def opened(files, row):
    return files.load(row).open(Permit(subject=str(row.id), event_digest=""))


@pytest.mark.parametrize("rows", [1, CHUNK_ROWS, CHUNK_ROWS + 5])
def test_values_are_stored_as_narrow_as_declared_and_come_back_as_they_were(files, rows):
    assert [stored_type(column).str[1:] for column in WIDE] == WIDE_TYPES
    batch = wide_rows(rows)
    row = wide(files, batch)
    chunks = -(-rows // CHUNK_ROWS)
    assert len(content_of(files, row)) == 8 + rows * 27 + chunks * len(WIDE) * 16
    table = opened(files, row)
    for column, values in zip(WIDE, batch, strict=True):
        kept = table.columns[column.name]
        assert kept.dtype == values.dtype
        assert np.array_equal(kept, values)


@pytest.mark.parametrize(("at", "value"), [(0, 128.0), (0, 0.5), (3, 256), (4, -1.0), (7, np.nan)])
def test_a_value_that_its_column_cannot_have_is_not_written(files, at, value):
    batch = wide_rows(3)
    batch[at][1] = value
    with pytest.raises(ValueError, match="declared to have"), np.errstate(invalid="ignore"):
        wide(files, batch)


def test_columns_that_are_not_asked_for_are_not_read(files, monkeypatch):
    batch = wide_rows(CHUNK_ROWS + 5)
    row = wide(files, batch)
    monkeypatch.setattr("app.storage.files.LARGEST_HELD", 0)
    rows = opened(files, row)
    content = bytearray(content_of(files, row))
    content[8 + CHUNK_ROWS + 16 + 100] ^= 1  # an income
    replace(files, row, bytes(content))
    asked = ["size", "age"]
    parts = list(rows.parts(asked))
    for name in asked:
        every = np.concatenate([part.columns[name] for part in parts])
        assert np.array_equal(every, batch[[c.name for c in WIDE].index(name)])
    assert set(parts[0].columns) == set(asked)
    with pytest.raises(DatasetFileError):
        list(rows.parts(["income"]))
    with pytest.raises(DatasetFileError):
        files.examine(row)


def test_columns_cannot_be_swapped(files, monkeypatch):
    rows = CHUNK_ROWS
    row = wide(files, wide_rows(rows))
    content = content_of(files, row)
    starts = np.cumsum([8, *(rows * int(kind[1]) + 16 for kind in WIDE_TYPES)])
    born, ward = (content[starts[k] : starts[k + 1]] for k in (4, 2))  # as long as each other
    between = content[starts[3] : starts[4]]
    swapped = content[: starts[2]] + born + between + ward + content[starts[5] :]
    assert len(swapped) == len(content)
    replace(files, row, swapped)
    with pytest.raises(DatasetFileError):
        files.load(row)


def test_no_two_parts_of_a_file_have_a_nonce_in_common(files, monkeypatch):
    nonces = []

    class Watched:
        generate_key = AESGCM.generate_key

        def __init__(self, key):
            self.cipher = AESGCM(key)

        def encrypt(self, nonce, data, bound):
            nonces.append(nonce)
            return self.cipher.encrypt(nonce, data, bound)

    monkeypatch.setattr("app.storage.files.AESGCM", Watched)
    wide(files, wide_rows(2 * CHUNK_ROWS + 5))
    assert len(nonces) == 3 * len(WIDE) == len(set(nonces))
    assert {len(nonce) for nonce in nonces} == {12}


@pytest.mark.parametrize("held", [0, 2**26])
def test_files_of_the_first_format_are_read(files, monkeypatch, held):
    monkeypatch.setattr("app.storage.files.LARGEST_HELD", held)
    batch = wide_rows(CHUNK_ROWS + 5)
    row = wide(files, batch)
    seal = AESGCM(MASTER.unwrap(row.wrapped_key, row.id))
    content = b"DPMCMC01"
    for number, part in enumerate((slice(0, CHUNK_ROWS), slice(CHUNK_ROWS, None))):
        plain = b"".join(values[part].tobytes() for values in batch)
        bound = b"DPMCMC01" + row.id.bytes + columns_digest(WIDE)
        bound += struct.pack("<Q?", number, number == 1)
        content += seal.encrypt(number.to_bytes(12), plain, bound)
    replace(files, row, content)
    files.examine(row)
    rows = opened(files, row)
    (table,) = [rows.whole([c.name for c in WIDE])] if held == 0 else [rows]
    for column, values in zip(WIDE, batch, strict=True):
        assert np.array_equal(table.columns[column.name], values)
    replace(files, row, b"DPMCMC02" + content[8:])
    with pytest.raises(DatasetFileError):
        files.load(row)
