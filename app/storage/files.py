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
from dataclasses import dataclass, field
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
from dpmcmc.inputs.streamed import AnyRows, Elsewhere, Names, Streamed

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


def at_once(error: StoreAwayError, _: float) -> None:
    """Raise the error of an unavailable store."""
    raise error


def name_of(dataset_id: UUID) -> str:
    """Return a dataset's file name in the store."""
    return f"{dataset_id}{SUFFIX}"


def dtype_of(column: Column) -> np.dtype[np.float64] | np.dtype[np.int32]:
    """Return the array type in which a column is stored."""
    return np.dtype("<f8") if isinstance(column, NumberColumn) else np.dtype("<i4")


PRESENT = BinaryColumn(name="in use", categories=("no", "yes"))  # of a person's rows: not a column


def layout_of(schema: Schema) -> tuple[Column, ...]:
    """Return the stored columns; with persons, also which rows are in use.

    Its length tells the number of persons alone.
    """
    return (*schema.columns, PRESENT) if schema.unit_rows > 1 else schema.columns


def _row_bytes(columns: Sequence[Column]) -> int:
    """Return the bytes of one row."""
    return sum(dtype_of(column).itemsize for column in columns)


def file_size(columns: Sequence[Column], rows: int) -> int:
    """Return the size of a dataset's file in bytes."""
    return len(FORMAT) + rows * _row_bytes(columns) + -(-rows // CHUNK_ROWS) * TAG_BYTES


class _Seal:
    """The cipher of one file, bound to its dataset and columns."""

    def __init__(self, key: bytes, dataset_id: UUID, columns: Sequence[Column]) -> None:
        self._cipher = AESGCM(key)
        self._subject = FORMAT + dataset_id.bytes + columns_digest(columns)

    def _bound(self, number: int, last: bool) -> bytes:
        """Return the associated data of a chunk."""
        return self._subject + struct.pack("<Q?", number, last)

    def lock(self, number: int, last: bool, plain: bytes) -> bytes:
        """Return an encrypted chunk."""
        return self._cipher.encrypt(number.to_bytes(12), plain, self._bound(number, last))

    def unlock(self, number: int, last: bool, hidden: bytes) -> bytes:
        """Return a decrypted chunk. Raises DatasetFileError."""
        try:
            return self._cipher.decrypt(number.to_bytes(12), hidden, self._bound(number, last))
        except InvalidTag:
            raise DatasetFileError("the dataset's file does not belong to its record") from None


class RowWriter:
    """Writes batches of any length as full chunks; the last one in `finish`."""

    def __init__(self, file: Sink, seal: _Seal, columns: Sequence[Column]) -> None:
        self._file, self._seal = file, seal
        self._buffers = [np.empty(CHUNK_ROWS, dtype_of(column)) for column in columns]
        self._filled = self._chunks = 0
        self.rows = 0
        file.write(FORMAT)

    def add(self, batch: Sequence[Values]) -> None:
        """Add a batch: an array for each column, of equal length, clamped and coded."""
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
        """Write full chunks, and the rest if `last`."""
        plain = b"".join(buffer[: self._filled].tobytes() for buffer in self._buffers)
        self._file.write(self._seal.lock(self._chunks, last, plain))
        self._chunks, self._filled = self._chunks + 1, 0

    def finish(self) -> None:
        """Write the last chunk."""
        self._flush(last=True)


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A dataset's file with its key, for the duration of a job."""

    dataset_id: UUID
    schema: Schema
    key: bytes = field(repr=False)

    @property
    def seal(self) -> _Seal:
        """Return its cipher."""
        return _Seal(self.key, self.dataset_id, layout_of(self.schema))


class RowReader:
    """Reads encrypted files of a store, given their keys."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def tables(
        self,
        files: Sequence[SealedFile],
        away: Away,
        names: Sequence[str],
        first: int = 0,
        stop: int | None = None,
    ) -> Iterator[Table]:
        """Yield rows of files in order, as tables of these columns. One pass.

        first, stop: of all of their rows, those that are read; all of them without.
        """
        for file in files:
            rows = file.schema.rows
            low, high = max(first, 0), rows if stop is None else min(stop, rows)
            if low < high:
                yield from self._between(file, away, names, low, high)
            first, stop = first - rows, None if stop is None else stop - rows

    def _between(
        self, file: SealedFile, away: Away, names: Sequence[str], first: int, stop: int
    ) -> Iterator[Table]:
        """Yield rows of a file, chunk by chunk."""
        chunks = range(first // CHUNK_ROWS, -(-stop // CHUNK_ROWS))
        for number, plain in zip(chunks, self._patiently(file, away, chunks), strict=True):
            rows, at = _rows_of(number, file.schema), number * CHUNK_ROWS
            table = _table_of(plain, rows, file.schema, names)
            low, high = max(first - at, 0), min(stop - at, rows)
            yield table if high - low == rows else table.between(low, high)

    def _patiently(self, file: SealedFile, away: Away, chunks: range) -> Iterator[bytes]:
        """Yield decrypted chunks, resuming once an unavailable store is back."""
        done, since = 0, 0.0
        while True:
            try:
                for plain in self._from(file, chunks[done:]):
                    done += 1
                    since = 0.0
                    yield plain
                return
            except StoreAwayError as error:
                since = since or time.monotonic()
                away(error, since)

    def _from(self, file: SealedFile, chunks: range) -> Iterator[bytes]:
        """Yield decrypted chunks of a file."""
        first = chunks.start
        with self.open(file.dataset_id, _start_of(first, file.schema) if first else 0) as opened:
            if not first:
                check_head(opened, file.schema)
            yield from islice(_chunks(opened, file.seal, file.schema, first), len(chunks))

    @contextmanager
    def open(self, dataset_id: UUID, start: int = 0) -> Iterator[Source]:
        """Open a dataset's file at a byte offset. Raises DatasetFileError."""
        try:
            with self._store.read(name_of(dataset_id), start) as file:
                yield file
        except FileNotFoundError:
            raise DatasetFileError("the dataset's file is missing") from None
        except FileRefusedError:
            raise DatasetFileError("the dataset's file cannot be read") from None


# (files, what reads their rows from one up to another) -> what sums elsewhere
Spread = Callable[[Sequence[SealedFile], Callable[[Names, int, int], Iterator[Table]]], Elsewhere]


class DatasetFiles:
    """The encrypted datasets in their store. Rows are returned as Private only.

    All of it raises StoreAwayError where the store cannot be reached.
    """

    def __init__(self, store: Store, master: MasterKey) -> None:
        self._store, self._master, self._reader = store, master, RowReader(store)

    def new_key(self, dataset_id: UUID) -> tuple[bytes, bytes]:
        """Return a random key for a dataset, plain and wrapped by the master key."""
        key = AESGCM.generate_key(256)
        return key, self._master.wrap(key, dataset_id)

    @contextmanager
    def write(self, dataset_id: UUID, key: bytes, columns: Sequence[Column]) -> Iterator[RowWriter]:
        """Write a dataset's file, complete at the end of the block or absent."""
        with self._store.write(name_of(dataset_id)) as file:
            writer = RowWriter(file, _Seal(key, dataset_id, columns), columns)
            yield writer
            writer.finish()

    def opens(self, wrapped_key: bytes, dataset_id: UUID) -> bool:
        """Return whether this master key wrapped a dataset's key."""
        try:
            self._master.unwrap(wrapped_key, dataset_id)
        except KeyFileError:
            return False
        return True

    def load(
        self,
        row: DatasetRow,
        holders: Sequence[DatasetRow] = (),
        away: Away = at_once,
        spread: Spread | None = None,
    ) -> Private[AnyRows]:
        """Return a dataset's rows: as a table, or as a stream of its files if large.

        Large ones are read anew at each pass, a chunk at a time: only their heads are looked at
        here, and what is wrong with a chunk is raised where it is read. Whoever sums over rows
        has read the last chunk of a pass before any noise is drawn.
        holders: of a pooled dataset, those whose files hold its rows, in their order. away: what to
        do while the store cannot be reached, see Away. spread: what sums large ones elsewhere, for
        the event that is paid for; None: this process does.
        Raises DatasetFileError (destroyed, missing or tampered with) and KeyFileError.
        """
        schema = schema_of(row)
        if tuple(holder.rows for holder in holders) != schema.holders:
            raise DatasetFileError("these are not the holders of the dataset's rows")
        files = [self._sealed(holder) for holder in holders or (row,)]
        for file in files:
            with self._reader.open(file.dataset_id) as opened:
                check_head(opened, file.schema)
        read = partial(self._reader.tables, files, away)
        if file_size(layout_of(schema), schema.rows) > LARGEST_HELD:
            elsewhere = None if spread is None else spread(files, read)
            return Private(Streamed(schema, read, elsewhere), subject=str(row.id))
        source = Streamed(schema, read)
        names = [column.name for column in schema.columns]
        return Private(source.whole(names), subject=str(row.id))

    def _sealed(self, row: DatasetRow) -> SealedFile:
        """Return a dataset's file with its key. Raises DatasetFileError and KeyFileError."""
        if row.wrapped_key is None:
            raise DatasetFileError("the dataset's rows are destroyed")
        key = self._master.unwrap(row.wrapped_key, row.id)
        return SealedFile(row.id, schema_of(row), key)

    def examine(self, row: DatasetRow, holders: Sequence[DatasetRow] = ()) -> None:
        """Check that `load` would succeed, without keeping any rows.

        Length, head, first and last seal; every seal of a file that is read in a moment.
        Raises as `load` does.
        """
        for holder in holders or (row,):
            self._examine(self._sealed(holder))

    def _examine(self, sealed: SealedFile) -> None:
        """Check that every chunk of a file decrypts."""
        dataset_id, schema, seal = sealed.dataset_id, sealed.schema, sealed.seal
        last = _num_chunks(schema) - 1
        with self._reader.open(dataset_id) as file:
            check_head(file, schema)
            every = last == 0 or file.size <= self._store.cheap_bytes
            chunks = _chunks(file, seal, schema)
            for _ in chunks if every else islice(chunks, 1):
                pass
        if not every:
            with self._reader.open(dataset_id, _start_of(last, schema)) as file:
                for _ in _chunks(file, seal, schema, last):
                    pass

    def mark(self, installation: UUID) -> None:
        """Write a marker of the installation into the store."""
        try:
            with self._store.write(f"{MARK}{installation}") as file:
                file.write(FORMAT)
        except FileExistsError:
            return

    def is_marked(self, installation: UUID) -> bool:
        """Return whether the store has the installation's marker."""
        try:
            with self._store.read(f"{MARK}{installation}"):
                return True
        except (FileNotFoundError, FileRefusedError):
            return False

    def destroy(self, dataset_id: UUID) -> None:
        """Delete a dataset's file, after its wrapped key. Idempotent.

        Raises VersionsKeptError where the store keeps copies, unreadable without their key.
        """
        self._store.delete(name_of(dataset_id))

    def sweep(self, known: set[UUID], *, older_than: float) -> int:
        """Delete unfinished files and files of unknown datasets; return their number.

        known: ids of all datasets that hold rows. older_than: Unix time; what is younger may still
        be on its way to being recorded. Returns how many were deleted.
        """
        return self._store.sweep({name_of(dataset_id) for dataset_id in known}, SUFFIX, older_than)

    def check(self) -> None:
        """Check within seconds that the store is usable."""
        self._store.check()


def _table_of(plain: bytes, rows: int, schema: Schema, names: Sequence[str]) -> Table:
    """Return these columns of a decrypted chunk, without copying."""
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
    """Return a chunk's byte offset in its file."""
    return len(FORMAT) + number * (CHUNK_ROWS * _row_bytes(layout_of(schema)) + TAG_BYTES)


def _num_chunks(schema: Schema) -> int:
    """Return the number of chunks of a dataset."""
    return -(-schema.rows // CHUNK_ROWS)


def _rows_of(number: int, schema: Schema) -> int:
    """Return the number of rows in a chunk."""
    return min(CHUNK_ROWS, schema.rows - number * CHUNK_ROWS)


def check_head(file: Source, schema: Schema) -> None:
    """Raise DatasetFileError where a file's length or header does not fit the schema."""
    if file.size != file_size(layout_of(schema), schema.rows):
        raise DatasetFileError("the dataset's file is shorter or longer than its record")
    if file.read(len(FORMAT)) != FORMAT:
        raise DatasetFileError("not a dataset file of this version")


def _chunks(file: Source, seal: _Seal, schema: Schema, first: int = 0) -> Iterator[bytes]:
    """Yield decrypted chunks from number `first` on. Raises DatasetFileError."""
    width, chunks = _row_bytes(layout_of(schema)), _num_chunks(schema)
    for number in range(first, chunks):
        hidden = file.read(_rows_of(number, schema) * width + TAG_BYTES)
        yield seal.unlock(number, number == chunks - 1, hidden)
