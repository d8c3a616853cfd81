"""Ingestion: CSV, Parquet or source to an encrypted file, strictly and in bounded memory.

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
from datetime import date
from typing import Any, BinaryIO, Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.storage.arrow_text import texts
from app.storage.columns import MISREAD, UnitColumn
from app.storage.dialect import Reading
from app.storage.errors import IngestError
from app.storage.files import CHUNK_ROWS, PRESENT, DatasetFiles, Values
from app.storage.fingerprint import Sketch
from app.storage.limits import Limits
from app.storage.read_csv import NOTES, csv_batches
from app.storage.read_parquet import parquet_batches, value_type
from app.storage.read_source import Snapshot
from dpmcmc.inputs.schema import (
    DATES,
    NO_DATE,
    BinaryColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    PrivacyUnit,
    are_truth,
    is_date,
    name_of_unit,
)
from dpmcmc.inputs.units import EMPTY, digest_of, in_slots, owners

Format = Literal["csv", "parquet", "source"]
Input = BinaryIO | Snapshot
SPELLED = "spellings of no value, such as NA, are named in format.missing"
NO_NUMBER = (
    f'{SPELLED}, and NaN by "missing": true; take units, currency signs, %, footnotes and brackets'
    " out of the values; lines of units below the header are skip_first_rows"
)
MAY_BE_MISSING = f'declare the column with "missing": true, or {NOTES}'
OWNED = "give each person a name or number, or leave these rows out"
DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
LOOKED_AT = 100  # texts of a batch that are no numbers
WHOLE = r"^([+-]?[0-9]+)[.,]0*$"  # as a number column of whole numbers is written at times
TRUTH = {"true": "true", "1": "true", "false": "false", "0": "false"}
GROUPING_BYTES = 112  # of a row at most, beside its values, while rows are grouped by person
SLOT_BYTES = 9  # of the place of a row
MOST_NAMES = 2**14  # whose digests are kept at hand


@dataclass(frozen=True, slots=True)
class Stored:
    """An encrypted dataset without a record yet. wrapped_key: for its DatasetRow."""

    rows: int
    wrapped_key: bytes


@dataclass(frozen=True, slots=True)
class StoredUnits(Stored):
    """An encrypted dataset of persons with several rows. rows: max_rows slots a person.

    cut_units: persons of whom not all rows are kept, dropped_rows of them together; for the admin.
    """

    cut_units: int = 0
    dropped_rows: int = 0


@dataclass(slots=True)
class _Faults:
    """Counts of invalid values, by column."""

    columns: Sequence[Column | UnitColumn]
    missing: NDArray[np.int64]
    invalid: NDArray[np.int64]
    fractions: NDArray[np.int64]
    dates: NDArray[np.int64]

    def raise_any(self) -> None:
        """Raise IngestError naming every column with invalid values."""
        problems: list[tuple[str, str, str]] = []
        for at, column in enumerate(self.columns):
            pointer = f"/columns/{at}"
            name = repr(column.name)
            if self.missing[at]:
                remedy = OWNED if isinstance(column, UnitColumn) else MAY_BE_MISSING
                count = self.missing[at]
                problems.append(
                    ("missing_value", pointer, f"{count} missing values in {name}: {remedy}")
                )
            if self.invalid[at]:
                numeric, dated = isinstance(column, NumberColumn), isinstance(column, DateColumn)
                code = "not_a_number" if numeric else "undeclared_category"
                what = f"are not finite numbers in {name}: {NO_NUMBER}"
                if self.dates[at]:
                    what = f"are not finite numbers in {name}: they are dates or times, and {DATES}"
                elif dated:
                    code = "not_a_date"
                    what = f"are no dates in {name}: {NO_DATE}; {SPELLED}"
                elif not numeric:
                    what = f"are no declared category in {name}: declare it; {SPELLED}"
                    if not all(map(str.isascii, getattr(column, "categories", ()))):
                        what += f"; {MISREAD}"
                problems.append((code, pointer, f"{self.invalid[at]} values {what}"))
            if self.fractions[at]:
                what = f"are not whole in {name}, which is declared integer: leave that out"
                problems.append(("not_whole", pointer, f"{self.fractions[at]} values {what}"))
        if problems:
            everything = tuple((pointer, message) for _, pointer, message in problems)
            raise IngestError(*problems[0], everything)


def ingest(
    files: DatasetFiles,
    dataset_id: UUID,
    source: Input,
    format: Format,
    columns: Sequence[Column],
    limits: Limits | None = None,
    sketch: Sketch | None = None,
    reading: Reading | None = None,
) -> Stored:
    """Parse, clamp and encrypt an upload under a new key. Leaves no file on errors.

    source: binary stream, read once (CSV) or seekable (Parquet), or a snapshot. columns: parsed
    promises. sketch: is shown the rows before they are clamped.
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
    source: Input,
    format: Format,
    columns: Sequence[Column],
    holder: CategoryColumn,
    limits: Limits,
    sketches: Sequence[Sketch],
    reading: Reading,
) -> list[Stored]:
    """Ingest an upload as one file for each data holder named in a further column.

    dataset_ids, sketches: one for each category of holder, which is not stored. Nothing stays on
    the disk on an error. Raises IngestError, also where a holder has no rows.
    """
    keys = [files.new_key(dataset_id) for dataset_id in dataset_ids]
    with ExitStack() as stack:
        writers = [
            stack.enter_context(files.write(dataset_id, key, columns))
            for dataset_id, (key, _) in zip(dataset_ids, keys, strict=True)
        ]
        for *values, owners in _batches(source, format, [*columns, holder], limits, reading):
            for at, (writer, sketch) in enumerate(zip(writers, sketches, strict=True)):
                values_of_holder = [array[owners == at] for array in values]
                if len(values_of_holder[0]):
                    sketch.add(values_of_holder)
                    writer.add(_clamped(values_of_holder, columns))
        for at, writer in enumerate(writers):
            if not writer.rows:
                raise _no_rows(at)
    return [Stored(writer.rows, key) for writer, (_, key) in zip(writers, keys, strict=True)]


def ingest_by_unit(
    files: DatasetFiles,
    dataset_ids: Sequence[UUID],
    sources: Sequence[tuple[Input, Format]],
    columns: Sequence[Column],
    unit: PrivacyUnit,
    limits: Limits,
    sketches: Sequence[Sketch],
    reading: Reading,
    holder: CategoryColumn | None = None,
) -> list[StoredUnits]:
    """Ingest an upload with rows grouped by unit, at most max_rows of each.

    The unit's column, of words or numbers, is not stored: its digests are kept in the fingerprint.
    Which rows are kept follows from the dataset's key. Whole in memory, as a unit's rows may lie
    anywhere: see limits.unit_bytes. dataset_ids, sketches: of all rows, and then one of the rows of
    each data holder, whom the column `holder` names, or whose file it is. Raises IngestError.
    """
    parts: list[list[Values]] = [[] for _ in columns]
    digests, held_by = list[NDArray[np.uint8]](), list[NDArray[np.int32]]()
    rows, names = 0, dict[str, bytes]()
    in_file = [*columns, UnitColumn(unit.column), *([] if holder is None else [holder])]
    for at, (source, format) in enumerate(sources):
        for batch in _batches(source, format, in_file, limits, reading):
            values, units = batch[: len(columns)], batch[len(columns)]
            sketches[0].add(values)
            if len(dataset_ids) > 1:
                whose = np.full(len(values[0]), at, np.int32) if holder is None else batch[-1]
                held_by.append(whose.astype(np.int32, copy=False))
                for k, sketch in enumerate(sketches[1:]):
                    sketch.add([array[whose == k] for array in values])
            for column, part in zip(parts, _clamped(values, columns), strict=True):
                column.append(part)
            digests.append(_digests(units, names, sketches[0].person_key))
            rows += len(digests[-1])
            _check_room(columns, rows, 0, limits)
    del batch, values, units, names  # of the last batch, and digests that are not needed any more
    all_digests, all_values = _joined(digests), [_joined(column) for column in parts]
    holders = _joined(held_by) if held_by else None
    stored = []
    for at, (dataset_id, sketch) in enumerate(zip(dataset_ids, sketches, strict=True)):
        values, theirs = all_values, all_digests
        if holders is not None and at:
            of_holder = np.flatnonzero(holders == at - 1)
            if not len(of_holder):
                raise _no_rows(at - 1)
            values, theirs = [array[of_holder] for array in all_values], all_digests[of_holder]
        kept = _stored_units(files, dataset_id, columns, unit, limits, sketch, values, theirs)
        stored.append(kept)
    return stored


def _no_rows(holder: int) -> IngestError:
    """Return the error of a holder without rows."""
    return IngestError("no_rows", f"/holders/names/{holder}", "this holder has no rows")


def _stored_units(
    files: DatasetFiles,
    dataset_id: UUID,
    columns: Sequence[Column],
    unit: PrivacyUnit,
    limits: Limits,
    sketch: Sketch,
    whole: Sequence[Values],
    digests: NDArray[np.uint8],
) -> StoredUnits:
    """Encrypt clamped rows grouped by units under a new key. Raises IngestError."""
    own_key, wrapped = files.new_key(dataset_id)
    whose = owners(digests)
    places = len(whose.digests) * unit.max_rows
    if places > limits.rows:
        message = f"{len(whose.digests)} persons of so many rows are more than {limits.rows} rows"
        raise IngestError("too_many_rows", "/privacy_unit/max_rows", f"{message}: declare fewer")
    _check_room(columns, len(digests), places, limits)
    sketch.add_persons(whose.digests)
    groups = whose.grouped(unit.max_rows, own_key)
    del whose
    present = groups.slots != EMPTY
    several = unit.max_rows > 1
    layout = (*columns, PRESENT) if several else tuple(columns)
    with files.write(dataset_id, own_key, layout) as writer:
        for start in range(0, len(groups.slots), CHUNK_ROWS):
            slots = groups.slots[start : start + CHUNK_ROWS]
            used = present[start : start + CHUNK_ROWS]
            batch = in_slots(columns, whole, slots)
            writer.add([*batch, used.astype(np.int32)] if several else batch)
    return StoredUnits(writer.rows, wrapped, groups.cut_units, groups.dropped_rows)


def _check_room(columns: Sequence[Column], rows: int, slots: int, limits: Limits) -> None:
    """Refuse a table over the memory limit, before allocating it. Raises IngestError."""
    values = sum(8 if isinstance(column, NumberColumn) else 4 for column in columns)
    if rows * (values + GROUPING_BYTES) + slots * SLOT_BYTES > limits.unit_bytes:
        message = f"over {limits.unit_bytes} bytes in memory, where rows are grouped by person"
        raise IngestError("file_too_large", "/file", f"{message}: upload fewer columns or rows")


def _joined(parts: list[Any]) -> NDArray[Any]:
    """Return the concatenation, freeing the parts."""
    joined = np.concatenate(parts)
    parts.clear()
    return joined


def _digests(units: pa.Array, names: dict[str, bytes], key: bytes) -> NDArray[np.uint8]:
    """Return digests (rows, 16) of the rows' units. names: cache of known digests."""
    if len(names) > MOST_NAMES:
        names.clear()
    coded = units if pa.types.is_dictionary(units.type) else units.dictionary_encode()
    words = ["" if v is None else name_of_unit(v) for v in coded.dictionary.to_pylist()]
    for word in words:
        if word not in names:
            names[word] = digest_of(word, key)
    table = np.frombuffer(b"".join(names[word] for word in words), np.uint8).reshape(len(words), -1)
    return np.asarray(table[_raw(coded.indices, np.dtype(np.int32))])


def _batches(
    source: Input,
    format: Format,
    columns: Sequence[Column | UnitColumn],
    limits: Limits,
    reading: Reading,
) -> Iterator[list[Values]]:
    """Yield unclamped values by column, until something is invalid. Raises IngestError."""
    if isinstance(source, Snapshot):
        batches = source.batches(columns, limits, reading)
    else:
        read = csv_batches if format == "csv" else parquet_batches
        batches = read(source, columns, limits, reading)
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
    """Return a batch's unclamped values by column; None once something is invalid."""
    values: list[Any] = []
    for at, (column, array) in enumerate(zip(columns, batch.columns, strict=True)):
        if isinstance(column, UnitColumn):
            values.append(array)
            missing, invalid = _nameless(array), 0
        elif isinstance(column, DateColumn):
            days, none, invalid = _days(array, column)
            values.append(column.filled(days, none))
            missing = 0 if column.empty else int(none.sum())
        elif isinstance(column, NumberColumn):
            numbers, none, not_finite = _numbers(array, nan=column.empty)
            numbers = column.filled(column.declared(numbers, value_type(array.type)), none)
            missing, invalid = 0 if column.empty else int(none.sum()), not_finite
            values.append(numbers)
            faults.dates[at] += invalid > 0 and _are_dates(array)
            if column.integer and not missing and not invalid:
                faults.fractions[at] += int((~column.is_whole(numbers)).sum())
        else:
            codes, none, invalid = _codes(array, column)
            missing = 0 if column.missing else int(none.sum())
            values.append(codes)
        faults.missing[at] += missing
        faults.invalid[at] += invalid
    clean = not (faults.missing.any() or faults.invalid.any() or faults.fractions.any())
    return values if clean else None


def _nameless(array: pa.Array) -> int:
    """Return the number of rows without a person's name."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = coded.dictionary.to_pylist()
    blank = [at for at, word in enumerate(words) if not name_of_unit(word)]
    indices, present = coded.indices.drop_null(), len(array) - coded.null_count
    blanks = int(np.isin(_raw(indices, np.dtype(np.int32)), blank).sum()) if present else 0
    return len(array) - len(indices) + blanks


def _clamped(values: Sequence[Values], columns: Sequence[Column]) -> list[Values]:
    """Return the values clamped to the columns' bounds."""
    return [
        column.clamped(numbers.astype(np.float64, copy=False))
        if isinstance(column, NumberColumn)
        else numbers
        for numbers, column in zip(values, columns, strict=True)
    ]


def _numbers(array: pa.Array, *, nan: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Return doubles (n,), which are missing, and the number of invalid ones.

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
        none |= _true_or_null(pc.is_nan(numbers)) & _truths(pc.is_valid(numbers))
    finite = pc.sum(pc.is_finite(numbers)).as_py() or 0
    invalid = len(numbers) - finite - int(none.sum())
    return _raw(numbers, np.dtype(np.float64)), none, invalid


def _days(
    array: pa.Array, column: DateColumn
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Return days (n,) from the origin, which are missing, and the number of invalid ones."""
    if pa.types.is_temporal(array.type):
        none = _truths(pc.is_null(array))
        if pa.types.is_timestamp(array.type) and array.type.tz is not None:
            array = pc.local_timestamp(array)
        since = (date.fromisoformat(column.origin) - date(1970, 1, 1)).days
        days = _raw(array.cast(pa.date32(), safe=False).cast(pa.int32()), np.dtype(np.int32))
        return days.astype(np.float64) - since, none, 0
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = coded.dictionary.cast(pa.string()).to_pylist()
    nothing = ("", "nan", "nat") if column.empty else ("",)
    lacking = np.array([*((word or "").strip().lower() in nothing for word in words), True])
    days = np.array([*map(column.number_of, words), None], np.float64)
    absent = _truths(pc.is_null(coded.indices))
    at = np.where(absent, len(words), _raw(coded.indices, np.dtype(np.int32)))
    return days[at], lacking[at], int((np.isnan(days) & ~lacking)[at].sum())


def _truths(array: pa.Array) -> NDArray[np.bool_]:
    """Return truth values of an array without nulls."""
    return _raw(array.cast(pa.uint8()), np.dtype(np.uint8)).astype(np.bool_)


def _true_or_null(array: pa.Array) -> NDArray[np.bool_]:
    """Return which values are true or null, without importing pandas."""
    return _truths(array) | _truths(pc.is_null(array))


def _are_dates(array: pa.Array) -> bool:
    """Return whether the first texts that are no numbers look like dates or times."""
    if not pa.types.is_string(array.type):
        return False
    words = (word for word in array.to_pylist() if word and not _is_decimal(word))
    return all(map(is_date, itertools.islice(words, LOOKED_AT)))


def _is_decimal(word: str) -> bool:
    """Return whether a text is a decimal number."""
    return re.fullmatch(DECIMAL, word, re.ASCII) is not None


def _raw(array: pa.Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the array's memory, arbitrary at nulls, without importing pandas."""
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _parsed(array: pa.Array) -> pa.Array:
    """Return texts as doubles, null for what is not in strict decimal notation."""
    try:
        return array.cast(pa.float64())
    except pa.ArrowInvalid:
        decimal = pc.match_substring_regex(array, f"^{DECIMAL}$")
        return pc.if_else(decimal, array, pa.nulls(len(array), pa.string())).cast(pa.float64())


NOTHING = texts(["", "nan"])  # of texts, and of numbers that are none
_EMPTY = texts([""])


def _codes(
    array: pa.Array, column: CategoryColumn | BinaryColumn
) -> tuple[NDArray[np.int32], NDArray[np.bool_], int]:
    """Return codes (n,), which are missing, and the number of undeclared ones."""
    categories = column.categories
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = coded.dictionary
    declared = texts(_as_truth(categories) if pa.types.is_boolean(words.type) else categories)
    words = words.cast(pa.string())
    nan = column.missing or pa.types.is_floating(coded.type.value_type)
    nothing = NOTHING if nan else _EMPTY
    bare = pc.replace_substring_regex(pc.utf8_trim_whitespace(words), WHOLE, r"\1")
    codes = pc.coalesce(pc.index_in(words, declared), pc.index_in(bare, declared))
    alike = _composed(declared)
    if pc.count_distinct(alike).as_py() == len(declared):  # else it is open which one is meant
        codes = pc.coalesce(codes, pc.index_in(_composed(bare), alike))
    if are_truth(categories):
        lower = texts([category.lower() for category in categories])
        codes = pc.coalesce(codes, pc.index_in(pc.utf8_lower(bare), lower))
    none = pc.and_(pc.is_in(pc.utf8_lower(bare), nothing), pc.is_null(codes))
    codes, none = codes.take(coded.indices), none.take(coded.indices)
    missing = _true_or_null(none)
    invalid = codes.null_count - int(missing.sum())
    return np.where(missing, len(categories), _raw(codes, np.dtype(np.int32))), missing, invalid


def _composed(words: pa.Array) -> pa.Array:
    """Return texts with composed accents, and with spaces for those that do not break a line."""
    return pc.utf8_normalize(pc.replace_substring_regex(words, "[\u00a0\u202f]", " "), form="NFC")


def _as_truth(categories: Sequence[str]) -> list[str]:
    """Return categories as Arrow's words for truth values, where they mean such."""
    return [TRUTH.get(category.lower(), category) for category in categories]
