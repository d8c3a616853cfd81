"""Encrypted dataset files: AES-256-GCM in chunks of rows, one random key per file.

Layout: 8 bytes of format name, then the chunks. A chunk holds up to CHUNK_ROWS rows, column after
column (float64 numbers, int32 codes, little-endian), encrypted under nonce = chunk number and bound
to the dataset, its columns (bounds and categories), the chunk's number and whether it is the last:
cutting, reordering, swapping files or editing the declared bounds is found. Every chunk but the
last is full, so a file's size follows from the schema and the number of rows alone.
"""

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from app.storage.columns import columns_digest, schema_of
from app.storage.errors import DatasetFileError, FileRefusedError, StoreAwayError
from app.storage.keys import KeyFileError, MasterKey
from app.storage.rows import DatasetRow
from app.storage.store import Sink, Source, Store
from dpmcmc.base.private import Private
from dpmcmc.inputs.schema import BinaryColumn, Column, NumberColumn, Schema, Table
from dpmcmc.inputs.streamed import AnyRows, Streamed

FORMAT = b"DPMCMC01"
CHUNK_ROWS = 16384
TAG_BYTES = 16
SUFFIX = ".rows"
MARK = "installation-"

LARGEST_HELD = 2**26  # bytes of a dataset that are read into memory at once

Values = NDArray[np.float64] | NDArray[np.int32]
# called with the error and when the store was first away, by the monotonic clock: returns for
# another try, or raises
Away = Callable[[StoreAwayError, float], None]


def _at_once(error: StoreAwayError, _: float) -> None:
    """Give up where a store is away."""
    raise error


def name_of(dataset_id: UUID) -> str:
    """A dataset's name in its store."""
    return f"{dataset_id}{SUFFIX}"


def dtype_of(column: Column) -> np.dtype[np.float64] | np.dtype[np.int32]:
    """How a column's values are kept."""
    return np.dtype("<f8") if isinstance(column, NumberColumn) else np.dtype("<i4")


PRESENT = BinaryColumn(name="in use", categories=("no", "yes"))  # of a person's rows: not a column


def layout_of(schema: Schema) -> tuple[Column, ...]:
    """The columns of a dataset's file: which rows are in use is one more where persons have some.

    Its length tells the number of persons alone.
    """
    return (*schema.columns, PRESENT) if schema.unit_rows > 1 else schema.columns


def _row_bytes(columns: Sequence[Column]) -> int:
    return sum(dtype_of(column).itemsize for column in columns)


def file_size(columns: Sequence[Column], rows: int) -> int:
    """Size in bytes of a dataset's file."""
    return len(FORMAT) + rows * _row_bytes(columns) + -(-rows // CHUNK_ROWS) * TAG_BYTES


class _Seal:
    """One file's cipher, bound to its dataset and columns."""

    def __init__(self, key: bytes, dataset_id: UUID, columns: Sequence[Column]) -> None:
        self._cipher = AESGCM(key)
        self._subject = FORMAT + dataset_id.bytes + columns_digest(columns)

    def _bound(self, number: int, last: bool) -> bytes:
        return self._subject + struct.pack("<Q?", number, last)

    def lock(self, number: int, last: bool, plain: bytes) -> bytes:
        return self._cipher.encrypt(number.to_bytes(12), plain, self._bound(number, last))

    def unlock(self, number: int, last: bool, hidden: bytes) -> bytes:
        try:
            return self._cipher.decrypt(number.to_bytes(12), hidden, self._bound(number, last))
        except InvalidTag:
            raise DatasetFileError("the dataset's file does not belong to its record") from None


class RowWriter:
    """Takes batches of any length and writes full chunks; the last one is held until the end."""

    def __init__(self, file: Sink, seal: _Seal, columns: Sequence[Column]) -> None:
        self._file, self._seal = file, seal
        self._buffers = [np.empty(CHUNK_ROWS, dtype_of(column)) for column in columns]
        self._filled = self._chunks = 0
        self.rows = 0
        file.write(FORMAT)

    def add(self, batch: Sequence[Values]) -> None:
        """Take one batch: an array per column, all of one length, clamped and coded already."""
        at, length = 0, len(batch[0])
        while at < length:
            if self._filled == CHUNK_ROWS:
                self._flush(last=False)
            take = min(length - at, CHUNK_ROWS - self._filled)
            for buffer, values in zip(self._buffers, batch, strict=True):
                buffer[self._filled : self._filled + take] = values[at : at + take]
            self._filled += take
            at += take
        self.rows += length

    def _flush(self, last: bool) -> None:
        plain = b"".join(buffer[: self._filled].tobytes() for buffer in self._buffers)
        self._file.write(self._seal.lock(self._chunks, last, plain))
        self._chunks, self._filled = self._chunks + 1, 0

    def finish(self) -> None:
        """Write the last chunk."""
        self._flush(last=True)


class DatasetFiles:
    """The encrypted datasets in their store. Hands rows out as Private only.

    All of it raises StoreAwayError where the store cannot be reached.
    """

    def __init__(self, store: Store, master: MasterKey) -> None:
        self._store, self._master = store, master

    def new_key(self, dataset_id: UUID) -> tuple[bytes, bytes]:
        """A random key for a dataset, and the same key wrapped for `DatasetRow.wrapped_key`."""
        key = AESGCM.generate_key(256)
        return key, self._master.wrap(key, dataset_id)

    @contextmanager
    def write(self, dataset_id: UUID, key: bytes, columns: Sequence[Column]) -> Iterator[RowWriter]:
        """Write a dataset's file: once the block is left the store has all of it, or nothing."""
        with self._store.write(name_of(dataset_id)) as file:
            writer = RowWriter(file, _Seal(key, dataset_id, columns), columns)
            yield writer
            writer.finish()

    def opens(self, wrapped_key: bytes, dataset_id: UUID) -> bool:
        """Whether this master key wrapped a dataset's key."""
        try:
            self._master.unwrap(wrapped_key, dataset_id)
        except KeyFileError:
            return False
        return True

    def load(
        self, row: DatasetRow, holders: Sequence[DatasetRow] = (), away: Away = _at_once
    ) -> Private[AnyRows]:
        """Return a dataset's rows: a table of all columns, or, if large, what reads its files.

        Large ones are read anew at each pass, a chunk at a time: only their heads are looked at
        here, and what is wrong with a chunk is raised where it is read. Whoever sums over rows
        has read the last chunk of a pass before any noise is drawn.
        holders: of a pooled dataset, those whose files hold its rows, in their order. away: what to
        do while the store cannot be reached, see Away.
        Raises DatasetFileError (destroyed, missing or tampered with) and KeyFileError.
        """
        schema = schema_of(row)
        if tuple(holder.rows for holder in holders) != schema.holders:
            raise DatasetFileError("these are not the holders of the dataset's rows")
        files = [self._sealed(holder) for holder in holders or (row,)]
        for file in files:
            with self._open(file.row) as opened:
                _check_head(opened, file.schema)
        source = Streamed(schema, partial(self._tables, files, away))
        if file_size(layout_of(schema), schema.rows) > LARGEST_HELD:
            return Private(source, subject=str(row.id))
        names = [column.name for column in schema.columns]
        return Private(source.whole(names), subject=str(row.id))

    def _sealed(self, row: DatasetRow) -> "_SealedFile":
        """Return a dataset's file with its key. Raises DatasetFileError and KeyFileError."""
        if row.wrapped_key is None:
            raise DatasetFileError("the dataset's rows are destroyed")
        schema = schema_of(row)
        seal = _Seal(self._master.unwrap(row.wrapped_key, row.id), row.id, layout_of(schema))
        return _SealedFile(row, schema, seal)

    def _tables(
        self, files: Sequence["_SealedFile"], away: Away, names: Sequence[str]
    ) -> Iterator[Table]:
        """Yield the rows of files in order, in tables of these columns. One pass."""
        for file in files:
            for number, plain in enumerate(self._patiently(file, away)):
                yield _table_of(plain, _rows_of(number, file.schema), file.schema, names)

    def _patiently(self, file: "_SealedFile", away: Away) -> Iterator[bytes]:
        """Yield the plain content of a file's chunks. Goes on where it was once a store is back."""
        done, since = 0, 0.0
        while True:
            try:
                for plain in self._from(file, done):
                    done += 1
                    since = 0.0
                    yield plain
                return
            except StoreAwayError as error:
                since = since or time.monotonic()
                away(error, since)

    def _from(self, file: "_SealedFile", first: int) -> Iterator[bytes]:
        """Yield the plain content of a file's chunks from one of them on."""
        with self._open(file.row, _start_of(first, file.schema) if first else 0) as opened:
            if not first:
                _check_head(opened, file.schema)
            yield from _chunks(opened, file.seal, file.schema, first)

    @contextmanager
    def _open(self, row: DatasetRow, start: int = 0) -> Iterator[Source]:
        """A dataset's file from a byte on. Raises DatasetFileError."""
        try:
            with self._store.read(name_of(row.id), start) as file:
                yield file
        except FileNotFoundError:
            raise DatasetFileError("the dataset's file is missing") from None
        except FileRefusedError:
            raise DatasetFileError("the dataset's file cannot be read") from None

    def examine(self, row: DatasetRow, holders: Sequence[DatasetRow] = ()) -> None:
        """Check whether `load` would succeed, without keeping anything that was read.

        Length, head, first and last seal; every seal of a file that is read in a moment.
        Raises as `load` does.
        """
        for holder in holders or (row,):
            self._examine(self._sealed(holder))

    def _examine(self, sealed: "_SealedFile") -> None:
        row, schema, seal = sealed.row, sealed.schema, sealed.seal
        last = _num_chunks(schema) - 1
        with self._open(row) as file:
            _check_head(file, schema)
            every = last == 0 or file.size <= self._store.cheap_bytes
            chunks = _chunks(file, seal, schema)
            for _ in chunks if every else islice(chunks, 1):
                pass
        if not every:
            with self._open(row, _start_of(last, schema)) as file:
                for _ in _chunks(file, seal, schema, last):
                    pass

    def mark(self, installation: UUID) -> None:
        """Leave a mark in the store by which every process of an installation knows it."""
        try:
            with self._store.write(f"{MARK}{installation}") as file:
                file.write(FORMAT)
        except FileExistsError:
            return

    def is_marked(self, installation: UUID) -> bool:
        """Whether the store is the one in which the installation keeps its rows."""
        try:
            with self._store.read(f"{MARK}{installation}"):
                return True
        except (FileNotFoundError, FileRefusedError):
            return False

    def destroy(self, dataset_id: UUID) -> None:
        """Delete a dataset's file; the caller deletes the wrapped key first. Idempotent.

        Raises VersionsKeptError where the store keeps copies, unreadable without their key.
        """
        self._store.delete(name_of(dataset_id))

    def sweep(self, known: set[UUID], *, older_than: float) -> int:
        """Delete what crashes left: unfinished files, and files whose dataset was never recorded.

        known: ids of all datasets that hold rows. older_than: Unix time; what is younger may still
        be on its way to being recorded. Returns how many were deleted.
        """
        return self._store.sweep({name_of(dataset_id) for dataset_id in known}, SUFFIX, older_than)

    def check(self) -> None:
        """Look, within a few seconds, whether the store can be used."""
        self._store.check()


@dataclass(frozen=True, slots=True)
class _SealedFile:
    """A dataset's file, and its cipher for as long as a job has it."""

    row: DatasetRow
    schema: Schema
    seal: _Seal


def _table_of(plain: bytes, rows: int, schema: Schema, names: Sequence[str]) -> Table:
    """Return these columns of the rows of a chunk, without copying them."""
    columns: dict[str, Any] = {}
    present, offset = None, 0
    for column in layout_of(schema):
        dtype = dtype_of(column)
        if column is PRESENT:
            present = np.frombuffer(plain, dtype, rows, offset) == 1
        elif column.name in names:
            columns[column.name] = np.frombuffer(plain, dtype, rows, offset)
        offset += rows * dtype.itemsize
    return Table(columns, rows, present)


def _start_of(number: int, schema: Schema) -> int:
    """Return where a chunk begins in its file."""
    return len(FORMAT) + number * (CHUNK_ROWS * _row_bytes(layout_of(schema)) + TAG_BYTES)


def _num_chunks(schema: Schema) -> int:
    return -(-schema.rows // CHUNK_ROWS)


def _rows_of(number: int, schema: Schema) -> int:
    """How many rows a chunk holds."""
    return min(CHUNK_ROWS, schema.rows - number * CHUNK_ROWS)


def _check_head(file: Source, schema: Schema) -> None:
    if file.size != file_size(layout_of(schema), schema.rows):
        raise DatasetFileError("the dataset's file is shorter or longer than its record")
    if file.read(len(FORMAT)) != FORMAT:
        raise DatasetFileError("not a dataset file of this version")


def _chunks(file: Source, seal: _Seal, schema: Schema, first: int = 0) -> Iterator[bytes]:
    """The plain content of the chunks from one of them on. Raises DatasetFileError."""
    width, chunks = _row_bytes(layout_of(schema)), _num_chunks(schema)
    for number in range(first, chunks):
        hidden = file.read(_rows_of(number, schema) * width + TAG_BYTES)
        yield seal.unlock(number, number == chunks - 1, hidden)
