"""From an uploaded CSV or Parquet stream to an encrypted file, in bounded memory, strictly.

What cannot be taken is refused with counts per declared column, never with a value: a missing
value, a category that was not declared, something that is no number, a wrong, missing or repeated
column, a row with too many or few fields, compressed or binary content, a stream beyond the limits.
A number outside its bounds is clamped in silence, unless it is a declared missing code: how many
there were of either is a fact about the rows.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.storage.arrow_text import texts
from app.storage.columns import UnitColumn
from app.storage.dialect import Reading
from app.storage.errors import IngestError
from app.storage.files import CHUNK_ROWS, PRESENT, DatasetFiles, Values
from app.storage.fingerprint import Sketch
from app.storage.limits import Limits
from app.storage.read_csv import csv_batches
from app.storage.read_parquet import parquet_batches, value_type
from dpmcmc.inputs.schema import (
    DATES,
    CategoryColumn,
    Column,
    NumberColumn,
    PrivacyUnit,
    is_date,
    word_of,
)
from dpmcmc.inputs.units import EMPTY, digest_of, in_slots, owners

Format = Literal["csv", "parquet"]
DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
LOOKED_AT = 100  # texts of a batch that are no numbers
WHOLE = r"^([+-]?[0-9]+)[.,]0*$"  # as a number column of whole numbers is written at times
TRUTH = {"true": "true", "1": "true", "false": "false", "0": "false"}
GROUPING_BYTES = 112  # of a row at most, beside its values, while rows are grouped by person
SLOT_BYTES = 9  # of the place of a row
MOST_NAMES = 2**14  # whose digests are kept at hand


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset encrypted on the disk, not recorded yet. wrapped_key: for its DatasetRow."""

    rows: int
    wrapped_key: bytes


@dataclass(frozen=True, slots=True)
class StoredUnits(Stored):
    """A dataset of persons with several rows. rows: slots, max_rows of each person.

    cut_units: persons of whom not all rows are kept, dropped_rows of them together; for the admin.
    """

    cut_units: int = 0
    dropped_rows: int = 0


@dataclass(slots=True)
class _Faults:
    """Counts per column of what is wrong."""

    columns: Sequence[Column | UnitColumn]
    missing: NDArray[np.int64]
    invalid: NDArray[np.int64]
    fractions: NDArray[np.int64]
    dates: NDArray[np.int64]

    def raise_any(self) -> None:
        """Raise IngestError naming every column that has a fault."""
        found: list[tuple[str, str, str]] = []
        for at, column in enumerate(self.columns):
            pointer = f"/columns/{at}"
            if self.missing[at]:
                found.append(("missing_value", pointer, f"{self.missing[at]} missing values"))
            if self.invalid[at]:
                number = isinstance(column, NumberColumn)
                code = "not_a_number" if number else "undeclared_category"
                what = "are not finite numbers" if number else "are no declared category"
                what += f": they are dates or times, and {DATES}" if self.dates[at] else ""
                found.append((code, pointer, f"{self.invalid[at]} values {what}"))
            if self.fractions[at]:
                what = "are not whole, and the column is declared integer"
                found.append(("not_whole", pointer, f"{self.fractions[at]} values {what}"))
        if found:
            problems = tuple((pointer, message) for _, pointer, message in found)
            raise IngestError(*found[0], problems)


def ingest(
    files: DatasetFiles,
    dataset_id: UUID,
    source: BinaryIO,
    format: Format,
    columns: Sequence[Column],
    limits: Limits | None = None,
    sketch: Sketch | None = None,
    reading: Reading | None = None,
) -> Stored:
    """Parse, clamp and encrypt an upload under a new key. Nothing stays on the disk on an error.

    source: binary stream, read once (CSV) or seekable (Parquet). columns: parsed promises. sketch:
    is shown the rows before they are clamped.
    Raises IngestError.
    """
    key, wrapped = files.new_key(dataset_id)
    with files.write(dataset_id, key, columns) as writer:
        for values in _batches(source, format, columns, limits or Limits(), reading or Reading()):
            if sketch is not None:
                sketch.add(values)
            writer.add(_clamped(values, columns))
    return Stored(writer.rows, wrapped)


def ingest_apart(
    files: DatasetFiles,
    dataset_ids: Sequence[UUID],
    source: BinaryIO,
    format: Format,
    columns: Sequence[Column],
    holder: CategoryColumn,
    limits: Limits,
    sketches: Sequence[Sketch],
    reading: Reading,
) -> list[Stored]:
    """Ingest an upload into one file for each data holder, whom a further column names.

    dataset_ids, sketches: one for each category of holder, which is not stored. Nothing stays on
    the disk on an error. Raises IngestError, also where a holder has no rows.
    """
    keys = [files.new_key(one) for one in dataset_ids]
    with ExitStack() as stack:
        writers = [
            stack.enter_context(files.write(one, key, columns))
            for one, (key, _) in zip(dataset_ids, keys, strict=True)
        ]
        for *values, owners in _batches(source, format, [*columns, holder], limits, reading):
            for at, (writer, sketch) in enumerate(zip(writers, sketches, strict=True)):
                own = [array[owners == at] for array in values]
                if len(own[0]):
                    sketch.add(own)
                    writer.add(_clamped(own, columns))
        for at, writer in enumerate(writers):
            if not writer.rows:
                raise IngestError("no_rows", f"/holders/names/{at}", "this holder has no rows")
    return [Stored(writer.rows, key) for writer, (_, key) in zip(writers, keys, strict=True)]


def ingest_by_unit(
    files: DatasetFiles,
    dataset_id: UUID,
    source: BinaryIO,
    format: Format,
    columns: Sequence[Column],
    unit: PrivacyUnit,
    limits: Limits,
    sketch: Sketch,
    reading: Reading,
) -> StoredUnits:
    """Ingest an upload with the rows of each unit together, at most max_rows of each.

    The unit's column, of words or numbers, is not stored: its digests are kept in the fingerprint.
    Which rows are kept follows from the dataset's key. Whole in memory, as a unit's rows may lie
    anywhere: see limits.unit_bytes. Raises IngestError.
    """
    own_key, wrapped = files.new_key(dataset_id)
    parts: list[list[Values]] = [[] for _ in columns]
    digests: list[NDArray[np.uint8]] = []
    rows, names = 0, dict[str, bytes]()
    layout_in_file = [*columns, UnitColumn(unit.column)]
    for *values, units in _batches(source, format, layout_in_file, limits, reading):
        sketch.add(values)
        for column, part in zip(parts, _clamped(values, columns), strict=True):
            column.append(part)
        digests.append(_digests(units, names, sketch.person_key))
        rows += len(digests[-1])
        _check_room(columns, rows, 0, limits)
    del values, units, names  # of the last batch, and digests that are not needed any more
    whose = owners(_joined(digests))
    places = len(whose.digests) * unit.max_rows
    if places > limits.rows:
        message = f"{len(whose.digests)} persons of so many rows are more than {limits.rows} rows"
        raise IngestError("too_many_rows", "/privacy_unit/max_rows", f"{message}: declare fewer")
    _check_room(columns, rows, places, limits)
    sketch.add_persons(whose.digests)
    groups = whose.grouped(unit.max_rows, own_key)
    del whose
    whole = [_joined(column) for column in parts]
    present = groups.slots != EMPTY
    several = unit.max_rows > 1
    layout = (*columns, PRESENT) if several else tuple(columns)
    with files.write(dataset_id, own_key, layout) as writer:
        for start in range(0, len(groups.slots), CHUNK_ROWS):
            slots = groups.slots[start : start + CHUNK_ROWS]
            used = present[start : start + CHUNK_ROWS]
            batch = [
                in_slots(column, values, slots, used)
                for column, values in zip(columns, whole, strict=True)
            ]
            writer.add([*batch, used.astype(np.int32)] if several else batch)
    return StoredUnits(writer.rows, wrapped, groups.cut_units, groups.dropped_rows)


def _check_room(columns: Sequence[Column], rows: int, slots: int, limits: Limits) -> None:
    """Refuse a table that takes more memory than it may, before it does. Raises IngestError."""
    values = sum(8 if isinstance(column, NumberColumn) else 4 for column in columns)
    if rows * (values + GROUPING_BYTES) + slots * SLOT_BYTES > limits.unit_bytes:
        message = f"over {limits.unit_bytes} bytes in memory, where rows are grouped by person"
        raise IngestError("file_too_large", "/file", f"{message}: upload fewer columns or rows")


def _joined(parts: list[Any]) -> NDArray[Any]:
    """One array of several, which are let go."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _digests(units: pa.Array, names: dict[str, bytes], key: bytes) -> NDArray[np.uint8]:
    """Digests (rows, 16) of the rows' units. names: digests that are known, at most MOST_NAMES and
    those of a batch."""
    if len(names) > MOST_NAMES:
        names.clear()
    coded = units if pa.types.is_dictionary(units.type) else units.dictionary_encode()
    words = ["" if v is None else word_of(v).strip() for v in coded.dictionary.to_pylist()]
    for word in words:
        if word not in names:
            names[word] = digest_of(word, key)
    table = np.frombuffer(b"".join(names[word] for word in words), np.uint8).reshape(len(words), -1)
    return np.asarray(table[_raw(coded.indices, np.dtype(np.int32))])


def _batches(
    source: BinaryIO,
    format: Format,
    columns: Sequence[Column | UnitColumn],
    limits: Limits,
    reading: Reading,
) -> Iterator[list[Values]]:
    """Yield values by column, not clamped, as long as nothing was wrong. Raises IngestError."""
    batches = (csv_batches if format == "csv" else parquet_batches)(
        source, columns, limits, reading
    )
    faults, rows = _Faults(columns, *np.zeros((4, len(columns)), np.int64)), 0
    for batch in batches:
        rows += batch.num_rows
        if rows > limits.rows:
            raise IngestError("too_many_rows", "/file", f"more than {limits.rows} rows")
        values = _convert(batch, columns, faults)
        if values is not None:
            yield values
    faults.raise_any()
    if rows == 0:
        raise IngestError("no_rows", "/file", "the file holds no rows")


def _convert(
    batch: pa.RecordBatch, columns: Sequence[Column | UnitColumn], faults: _Faults
) -> list[Values] | None:
    """The batch's values by column, not clamped, or None once anything was wrong anywhere."""
    values: list[Any] = []
    for at, (column, array) in enumerate(zip(columns, batch.columns, strict=True)):
        if isinstance(column, UnitColumn):
            values.append(array)
            missing, invalid = _nameless(array), 0
        elif isinstance(column, NumberColumn):
            numbers, none, not_finite = _numbers(array, nan=column.empty)
            numbers = column.filled(column.declared(numbers, value_type(array.type)), none)
            missing, invalid = 0 if column.empty else int(none.sum()), not_finite
            values.append(numbers)
            faults.dates[at] += invalid > 0 and _are_dates(array)
            if column.integer and not missing and not invalid:
                faults.fractions[at] += int((~column.is_whole(numbers)).sum())
        else:
            codes, missing, invalid = _codes(array, column.categories)
            values.append(codes)
        faults.missing[at] += missing
        faults.invalid[at] += invalid
    clean = not (faults.missing.any() or faults.invalid.any() or faults.fractions.any())
    return values if clean else None


def _nameless(array: pa.Array) -> int:
    """How many rows do not say whose they are."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    blank = [at for at, word in enumerate(coded.dictionary.to_pylist()) if not str(word).strip()]
    indices, there = coded.indices.drop_null(), len(array) - coded.null_count
    found = int(np.isin(_raw(indices, np.dtype(np.int32)), blank).sum()) if there else 0
    return len(array) - len(indices) + found


def _clamped(values: Sequence[Values], columns: Sequence[Column]) -> list[Values]:
    return [
        column.clamped(found.astype(np.float64, copy=False))
        if isinstance(column, NumberColumn)
        else found
        for found, column in zip(values, columns, strict=True)
    ]


def _numbers(array: pa.Array, *, nan: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """(n,) doubles, which were missing, and how many were no finite number.

    nan: whether what is not a number is missing as well, such as NaN in a float column.
    """
    none = np.zeros(len(array), np.bool_)
    if array.null_count:
        none |= _truths(pc.is_null(array))
    if pa.types.is_string(array.type):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(array)) if nan else array
        none |= _truths(pc.is_in(words, NOTHING if nan else _EMPTY))
        array = _parsed(array)
    if pa.types.is_decimal(array.type):  # Arrow's own way to doubles is not the nearest one
        array = array.cast(pa.string())
    numbers = array.cast(pa.float64(), safe=False)
    if nan:
        none |= _truths(pc.fill_null(pc.is_nan(numbers), fill_value=False))
    finite = pc.sum(pc.is_finite(numbers)).as_py() or 0
    invalid = len(numbers) - finite - int(none.sum())
    return _raw(numbers, np.dtype(np.float64)), none, invalid


def _truths(array: pa.Array) -> NDArray[np.bool_]:
    """Truth values, of which none is null."""
    return _raw(array.cast(pa.uint8()), np.dtype(np.uint8)).astype(np.bool_)


def _are_dates(array: pa.Array) -> bool:
    """Whether the first texts that are no numbers look like dates or times."""
    if not pa.types.is_string(array.type):
        return False
    words = (word for word in array.to_pylist() if word and not _is_decimal(word))
    return all(map(is_date, itertools.islice(words, LOOKED_AT)))


def _is_decimal(word: str) -> bool:
    return re.fullmatch(DECIMAL, word, re.ASCII) is not None


def _raw(array: pa.Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array's memory, anything where it is null. `to_numpy` would import pandas."""
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _parsed(array: pa.Array) -> pa.Array:
    """Text as doubles; what is no number becomes null. Decimal notation only, no white space."""
    try:
        return array.cast(pa.float64())
    except pa.ArrowInvalid:
        decimal = pc.match_substring_regex(array, f"^{DECIMAL}$")
        return pc.if_else(decimal, array, pa.nulls(len(array), pa.string())).cast(pa.float64())


NOTHING = texts(["", "nan"])  # of texts, and of numbers that are none
_EMPTY = texts([""])


def _codes(array: pa.Array, categories: Sequence[str]) -> tuple[NDArray[np.int32], int, int]:
    """(n,) codes, how many were missing (null or empty), and how many were not declared."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = coded.dictionary
    declared = texts(_as_truth(categories) if pa.types.is_boolean(words.type) else categories)
    words = words.cast(pa.string())
    nothing = NOTHING if pa.types.is_floating(coded.type.value_type) else _EMPTY
    bare = pc.replace_substring_regex(pc.utf8_trim_whitespace(words), WHOLE, r"\1")
    codes = pc.coalesce(pc.index_in(words, declared), pc.index_in(bare, declared))
    none = pc.and_(pc.is_in(bare, nothing), pc.is_null(codes))
    codes, none = codes.take(coded.indices), none.take(coded.indices)
    missing = coded.indices.null_count + (pc.sum(none).as_py() or 0)
    return _raw(codes, np.dtype(np.int32)), missing, codes.null_count - missing


def _as_truth(categories: Sequence[str]) -> list[str]:
    """Categories in Arrow's words for truth values, where they are words or numbers for such."""
    return [TRUTH.get(category.lower(), category) for category in categories]
