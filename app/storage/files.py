"""Encrypted dataset files: AES-256-GCM in chunks of rows, one random key per file.

Layout: 8 bytes of format name, then the chunks. A chunk holds up to CHUNK_ROWS rows, column after
column, each encrypted by itself under nonce = numbers of chunk and column, and bound to the
dataset, its columns (bounds and categories), these numbers and whether the chunk is the last:
cutting, reordering, swapping files or editing the declared bounds is found. Columns that are not
asked for are not read. Values are as narrow as the declared column allows: see `stored_type`. Every
chunk but the last is full, so a file's size follows from the schema and the number of rows alone.

Files of the first format have their columns encrypted together, as float64 and int32; they are read
as well.
"""

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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

FORMAT, FIRST_FORMAT = b"DPMCMC02", b"DPMCMC01"
CHUNK_ROWS = 16384
TAG_BYTES = 16
SUFFIX = ".rows"
MARK = "installation-"

LARGEST_HELD = 2**26  # bytes of a dataset that are read into memory at once
NARROW = tuple(map(np.dtype, ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4")))

Values = NDArray[np.float64] | NDArray[np.int32]
Type = np.dtype[np.generic]
# called with the error and when the store was first away, by the monotonic clock: returns for
# another try, or raises
Away = Callable[[StoreAwayError, float], None]


def at_once(error: StoreAwayError, _: float) -> None:
    """Raise the error of an unavailable store."""
    raise error


def name_of(dataset_id: UUID) -> str:
    """Return a dataset's file name in the store."""
    return f"{dataset_id}{SUFFIX}"


def held_type(column: Column) -> np.dtype[np.float64] | np.dtype[np.int32]:
    """Return the array type of a column in memory."""
    return np.dtype("<f8") if isinstance(column, NumberColumn) else np.dtype("<i4")


def stored_type(column: Column) -> Type:
    """Return the narrowest type that holds whatever a column can have: a declared, public fact."""
    if not isinstance(column, NumberColumn):
        ends: tuple[float, ...] = (0, len(column.categories))  # the last means a missing value
    elif column.integer and all(float(code).is_integer() for code in column.missing):
        ends = (column.lower, column.upper, *column.missing)
    else:
        return held_type(column)
    kinds = [
        kind
        for kind in NARROW
        if np.iinfo(kind).min <= min(ends) and max(ends) <= np.iinfo(kind).max
    ]
    return min(kinds, key=lambda kind: kind.itemsize, default=held_type(column))


PRESENT = BinaryColumn(name="in use", categories=("no", "yes"))  # of a person's rows: not a column


def layout_of(schema: Schema) -> tuple[Column, ...]:
    """Return the stored columns; with persons, also which rows are in use.

    Its length tells the number of persons alone.
    """
    return (*schema.columns, PRESENT) if schema.unit_rows > 1 else schema.columns


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of a file lie. columns: those that are stored, in their order."""

    columns: tuple[Column, ...]
    rows: int
    format: bytes = FORMAT

    @property
    def blocks(self) -> tuple[tuple[Column, ...], ...]:
        """The columns of a chunk that are encrypted together."""
        first = self.format == FIRST_FORMAT
        return (self.columns,) if first else tuple((column,) for column in self.columns)

    def type_of(self, column: Column) -> Type:
        """Return the type of a column in the file."""
        return held_type(column) if self.format == FIRST_FORMAT else stored_type(column)

    def row_bytes(self, columns: Sequence[Column]) -> int:
        """Return the bytes of one row of these columns."""
        return sum(self.type_of(column).itemsize for column in columns)

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.rows // CHUNK_ROWS)

    def rows_of(self, number: int) -> int:
        """Return the number of rows in a chunk."""
        return min(CHUNK_ROWS, self.rows - number * CHUNK_ROWS)

    def start_of(self, number: int) -> int:
        """Return a chunk's byte offset in the file."""
        return len(self.format) + self._bytes_of(number * CHUNK_ROWS, number)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.format) + self._bytes_of(self.rows, self.chunks)

    def _bytes_of(self, rows: int, chunks: int) -> int:
        """Return the bytes of so many rows in so many chunks."""
        return rows * self.row_bytes(self.columns) + chunks * len(self.blocks) * TAG_BYTES


def file_size(columns: Sequence[Column], rows: int) -> int:
    """Return the size of a dataset's file in bytes."""
    return Layout(tuple(columns), rows).size


class _Seal:
    """The cipher of one file, bound to its dataset and columns."""

    def __init__(self, key: bytes, dataset_id: UUID, layout: Layout) -> None:
        self._cipher, self._first = AESGCM(key), layout.format == FIRST_FORMAT
        self._subject = layout.format + dataset_id.bytes + columns_digest(layout.columns)

    def _place(self, number: int, block: int, last: bool) -> tuple[bytes, bytes]:
        """Return nonce and associated data of a block of columns of a chunk."""
        if self._first:
            return number.to_bytes(12), self._subject + struct.pack("<Q?", number, last)
        nonce = number.to_bytes(8) + block.to_bytes(4)
        return nonce, self._subject + struct.pack("<QI?", number, block, last)

    def lock(self, number: int, block: int, last: bool, plain: bytes) -> bytes:
        """Return an encrypted block."""
        nonce, bound = self._place(number, block, last)
        return self._cipher.encrypt(nonce, plain, bound)

    def unlock(self, number: int, block: int, last: bool, hidden: bytes) -> bytes:
        """Return a decrypted block. Raises DatasetFileError."""
        nonce, bound = self._place(number, block, last)
        try:
            return self._cipher.decrypt(nonce, hidden, bound)
        except InvalidTag:
            raise DatasetFileError("the dataset's file does not belong to its record") from None


class RowWriter:
    """Writes batches of any length as full chunks; the last one in `finish`."""

    def __init__(self, file: Sink, seal: _Seal, layout: Layout) -> None:
        self._file, self._seal = file, seal
        self._buffers = [np.empty(CHUNK_ROWS, layout.type_of(c)) for c in layout.columns]
        self._filled = self._chunks = 0
        self.rows = 0
        file.write(FORMAT)

    def add(self, batch: Sequence[Values]) -> None:
        """Add a batch: an array for each column, of equal length, clamped and coded.

        Raises ValueError for a value that its column cannot have.
        """
        at, length = 0, len(batch[0])
        while at < length:
            if self._filled == CHUNK_ROWS:
                self._flush(last=False)
            take = min(length - at, CHUNK_ROWS - self._filled)
            for buffer, values in zip(self._buffers, batch, strict=True):
                given, kept = values[at : at + take], buffer[self._filled : self._filled + take]
                kept[:] = given
                if kept.dtype.kind != "f" and not np.array_equal(kept, given):
                    raise ValueError("a value is none that its column was declared to have")
            self._filled += take
            at += take
        self.rows += length

    def _flush(self, last: bool) -> None:
        """Write full chunks, and the rest if `last`."""
        for block, buffer in enumerate(self._buffers):
            plain = buffer[: self._filled].tobytes()
            self._file.write(self._seal.lock(self._chunks, block, last, plain))
        self._chunks, self._filled = self._chunks + 1, 0

    def finish(self) -> None:
        """Write the last chunk."""
        self._flush(last=True)


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A dataset's file with its key, for the duration of a job. format: as its head says."""

    dataset_id: UUID
    schema: Schema
    key: bytes = field(repr=False)
    format: bytes = FORMAT

    @property
    def layout(self) -> Layout:
        """Where its rows lie."""
        return Layout(layout_of(self.schema), self.schema.rows, self.format)

    @property
    def seal(self) -> _Seal:
        """Return its cipher."""
        return _Seal(self.key, self.dataset_id, self.layout)

    def opened_at(self, head: Source) -> "SealedFile":
        """Return the file in the format of its head, with which its length has to agree.

        Raises DatasetFileError.
        """
        format = head.read(len(FORMAT))
        if format not in (FORMAT, FIRST_FORMAT):
            raise DatasetFileError("not a dataset file of this version")
        sealed = replace(self, format=format)
        if head.size != sealed.layout.size:
            raise DatasetFileError("the dataset's file is shorter or longer than its record")
        return sealed


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
        tables = self._patiently(file, away, names, chunks)
        for number, table in zip(chunks, tables, strict=True):
            at = number * CHUNK_ROWS
            low, high = max(first - at, 0), min(stop - at, table.rows)
            yield table if high - low == table.rows else table.between(low, high)

    def _patiently(
        self, file: SealedFile, away: Away, names: Sequence[str], chunks: range
    ) -> Iterator[Table]:
        """Yield chunks, resuming once an unavailable store is back."""
        done, since = 0, 0.0
        while True:
            try:
                for table in self._from(file, names, chunks[done:]):
                    done += 1
                    since = 0.0
                    yield table
                return
            except StoreAwayError as error:
                since = since or time.monotonic()
                away(error, since)

    def _from(self, file: SealedFile, names: Sequence[str], chunks: range) -> Iterator[Table]:
        """Yield chunks of a file."""
        first = chunks.start
        with self.open(file.dataset_id, file.layout.start_of(first) if first else 0) as opened:
            file = file if first else file.opened_at(opened)
            yield from islice(_chunks(opened, file, first, names), len(chunks))

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
        layout = Layout(tuple(columns), 0)
        with self._store.write(name_of(dataset_id)) as file:
            writer = RowWriter(file, _Seal(key, dataset_id, layout), layout)
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
        files = []
        for sealed in [self._sealed(holder) for holder in holders or (row,)]:
            with self._reader.open(sealed.dataset_id) as opened:
                files.append(sealed.opened_at(opened))
        read = partial(self._reader.tables, files, away)
        held = sum(held_type(column).itemsize for column in layout_of(schema))
        if schema.rows * held > LARGEST_HELD:
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
        last = sealed.layout.chunks - 1
        with self._reader.open(sealed.dataset_id) as file:
            sealed = sealed.opened_at(file)
            every = last == 0 or file.size <= self._store.cheap_bytes
            chunks = _chunks(file, sealed)
            for _ in chunks if every else islice(chunks, 1):
                pass
        if not every:
            with self._reader.open(sealed.dataset_id, sealed.layout.start_of(last)) as file:
                for _ in _chunks(file, sealed, last):
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


def _chunks(
    file: Source, sealed: SealedFile, first: int = 0, names: Sequence[str] | None = None
) -> Iterator[Table]:
    """Yield chunks from number `first` on, of these columns or of all. Raises DatasetFileError."""
    layout, seal = sealed.layout, sealed.seal
    wanted = {c for c in layout.columns if names is None or c is PRESENT or c.name in names}
    for number in range(first, layout.chunks):
        yield _chunk(file, seal, layout, number, wanted)


def _chunk(file: Source, seal: _Seal, layout: Layout, number: int, wanted: set[Column]) -> Table:
    """Return the wanted columns of the next chunk."""
    rows, last = layout.rows_of(number), number == layout.chunks - 1
    columns: dict[str, Any] = {}
    present = None
    for block, together in enumerate(layout.blocks):
        size = rows * layout.row_bytes(together) + TAG_BYTES
        if wanted.isdisjoint(together):
            file.skip(size)
            continue
        plain, offset = seal.unlock(number, block, last, file.read(size)), 0
        for column in together:
            kind = layout.type_of(column)
            values = np.frombuffer(plain, kind, rows, offset)
            offset += rows * kind.itemsize
            if column is PRESENT:
                present = values == 1
            elif column in wanted:
                columns[column.name] = values.astype(held_type(column), copy=False)
    return Table(columns, rows, present)
