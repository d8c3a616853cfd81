"""Strict reading of Parquet files: flat columns, sizes checked before decoding."""

import io
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from app.storage.columns import UnitColumn, check_names, holds_numbers
from app.storage.dialect import Reading
from app.storage.errors import IngestError
from app.storage.limits import Limits
from dpmcmc.inputs.frames import DecimalType, ValueType
from dpmcmc.inputs.schema import DATES, Column, DateColumn, NumberColumn

Kind = Literal["whole", "number", "date", "text"]
BATCH_ROWS = 16384
BUFFER_BYTES = 2**20
METADATA_BYTES = 2**24
METADATA_ITEMS = 2**18
FOOTER_SECONDS = 60.0
MALFORMED = (pa.ArrowException, OSError, UnicodeDecodeError, subprocess.TimeoutExpired)
ASK_FOR_COLUMNS = "\n".join(
    (
        "import io, sys",
        "from pyarrow import parquet",
        "footer = io.BytesIO(sys.stdin.buffer.read())",
        "metadata = parquet.ParquetFile(footer).metadata",
        "for group in map(metadata.row_group, range(metadata.num_row_groups)):",
        "    for at in range(group.num_columns):",
        "        group.column(at)",
    )
)
TOO_MUCH_TEXT = (
    "the file's texts are too long for declared categories; write it with dictionaries, or with"
    " fewer rows in a row group"
)


def parquet_batches(
    source: BinaryIO, columns: Sequence[Column | UnitColumn], limits: Limits, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield batches in the declared order, texts as dictionaries. Raises IngestError."""
    size = source.seek(0, io.SEEK_END)
    if size == 0:
        raise IngestError("empty_file", "/file", "the file is empty")
    if size > limits.file_bytes:
        raise IngestError("file_too_large", "/file", f"over {limits.file_bytes} bytes")
    try:
        yield from _batches(source, columns, limits, reading)
    except MALFORMED:
        raise _malformed() from None


def _malformed() -> IngestError:
    """Return the error of a file that is not Parquet, or is damaged."""
    return IngestError("malformed_parquet", "/file", "cannot be read as Parquet")


def _batches(
    source: BinaryIO, columns: Sequence[Column | UnitColumn], limits: Limits, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a checked file."""
    with _open(source) as file:
        metadata, schema = file.metadata, file.schema_arrow
    check_names(schema.names, columns, reading)
    check_types(schema, columns)
    words = {field.name for field in schema if _is_text(_value(field.type))}
    text = [c.name for c in columns if not holds_numbers(c) and c.name in words]
    _check_sizes(source, metadata, columns, text, limits)
    names = [column.name for column in columns]
    with _open(source, read_dictionary=text, metadata=metadata) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
            batch = _with_texts(batch)
            batch.validate(full=True)
            yield in_order(batch, columns)


def columns_of_file(source: BinaryIO, limits: Limits) -> list[tuple[str, Kind]]:
    """Return names and kinds of a file's columns, from its footer. Raises IngestError."""
    if source.seek(0, io.SEEK_END) > limits.file_bytes:
        raise IngestError("file_too_large", "/file", f"over {limits.file_bytes} bytes")
    try:
        with _open(source) as file:
            schema = file.schema_arrow
    except MALFORMED:
        raise _malformed() from None
    return [(field.name, _kind(_value(field.type))) for field in schema]


def _kind(type: pa.DataType) -> Kind:
    """Return the kind of a column's type."""
    if pa.types.is_integer(type):
        return "whole"
    if pa.types.is_floating(type) or pa.types.is_decimal(type):
        return "number"
    return "date" if pa.types.is_temporal(type) else "text"


def _with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose bytes are texts: some databases do not say which of the two they are."""
    fields = [
        field.with_type(pa.dictionary(pa.int32(), pa.string()))
        if pa.types.is_binary(_value(field.type))
        else field
        for field in batch.schema
    ]
    return batch.cast(pa.schema(fields))


def in_order(batch: pa.RecordBatch, columns: Sequence[Column | UnitColumn]) -> pa.RecordBatch:
    """Return the declared columns in order, numbers without dictionaries."""
    names = [column.name for column in columns]
    arrays = [
        batch.column(column.name).dictionary_decode()
        if holds_numbers(column) and pa.types.is_dictionary(batch.schema.field(column.name).type)
        else batch.column(column.name)
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names)


def _open(source: BinaryIO, **options: Any) -> parquet.ParquetFile:
    """Return an open Parquet file. Raises IngestError."""
    source.seek(0)
    return parquet.ParquetFile(
        source,
        buffer_size=BUFFER_BYTES,
        pre_buffer=False,
        thrift_string_size_limit=METADATA_BYTES,
        thrift_container_size_limit=METADATA_ITEMS,
        **options,
    )


def check_types(schema: pa.Schema, columns: Sequence[Column | UnitColumn]) -> None:
    """Refuse columns whose types are not the declared ones. Raises IngestError."""
    wrong: list[tuple[str, str]] = []
    for at, column in enumerate(columns):
        arrow_type = _value(schema.field(column.name).type)
        if isinstance(column, DateColumn):
            kinds = pa.types.is_date, pa.types.is_timestamp, _is_text
            fits = any(is_one(arrow_type) for is_one in kinds)
        elif isinstance(column, NumberColumn):
            fits = any(is_one(arrow_type) for is_one in NUMBER_TYPES)
        elif isinstance(column, UnitColumn):
            fits = any(is_one(arrow_type) for is_one in UNIT_TYPES)
        else:
            fits = any(is_one(arrow_type) for is_one in (*NUMBER_TYPES, _is_text))
        if not fits:
            wanted = "numbers" if isinstance(column, NumberColumn) else "text or numbers"
            wanted = "dates or text" if isinstance(column, DateColumn) else wanted
            wanted = "text or whole numbers" if isinstance(column, UnitColumn) else wanted
            message = f"the file's column {column.name!r} is not {wanted}"
            if _is_text(arrow_type):
                message += ": it has texts; convert them before the file is written"
            if pa.types.is_temporal(arrow_type) and not isinstance(column, DateColumn):
                message += f": it has dates or times, and {DATES}"
            if pa.types.is_null(arrow_type):
                message = f"the file's column {column.name!r} has no values: leave it out"
            wrong.append((f"/columns/{at}", message))
        elif isinstance(column, NumberColumn) and not isinstance(column, DateColumn):
            _check_codes(column, at, arrow_type)
    if wrong:
        raise IngestError("wrong_type", *wrong[0], tuple(wrong))


def _value(type: pa.DataType) -> pa.DataType:
    """Return the type of values, of a dictionary those in it."""
    return type.value_type if pa.types.is_dictionary(type) else type


def _is_text(type: pa.DataType) -> bool:
    """Return whether a type is text."""
    kinds = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
    )  # fmt: skip
    return any(is_one(type) for is_one in kinds)


def _check_codes(column: NumberColumn, at: int, type: pa.DataType) -> None:
    """Refuse codes and spikes that the file's type cannot represent. Raises IngestError."""
    for code in column.impossible(value_type(type)):
        missing = code in column.missing
        place = f"missing/{column.missing.index(code)}" if missing else "spikes"
        pointer, what = f"/columns/{at}/{place}", "missing code" if missing else "spike"
        message = (
            f"no value of the file's type {type} can equal the {what} {code:.15g} of"
            f" {column.name!r}: declare the {what} that the file has, or store it as doubles"
        )
        raise IngestError("impossible_code", pointer, message)


NUMBER_TYPES = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
)


UNIT_TYPES = (pa.types.is_integer, _is_text)


def value_type(type: pa.DataType) -> ValueType:
    """Return a numeric type as NumPy's; object for texts."""
    if pa.types.is_decimal(type):
        return DecimalType(type.precision, type.scale)
    text = pa.types.is_string(type)
    return np.dtype(np.float64 if text else type.to_pandas_dtype())


def _is_small(metadata: parquet.FileMetaData, limits: Limits) -> bool:
    """Return whether row groups are so small that no column of them can be too large."""
    groups = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    most = min(limits.text_bytes, limits.chunk_bytes)
    return all(0 <= size <= most for size in groups) and sum(groups) <= limits.decoded_bytes


def _check_footer(source: BinaryIO) -> None:
    """Refuse a footer that ends the process which asks for columns of it. Raises IngestError.

    Arrow 26 aborts where statistics of a column's sizes are wrong.
    """
    end = source.seek(-8, io.SEEK_END)
    length = int.from_bytes(source.read(4), "little")
    if length > min(end, METADATA_BYTES):
        raise _malformed()
    source.seek(end - length)
    footer = b"PAR1" + source.read()
    command = [sys.executable, "-I", "-c", ASK_FOR_COLUMNS]
    done = subprocess.run(  # noqa: S603  a program of ours
        command, input=footer, capture_output=True, timeout=FOOTER_SECONDS, check=False
    )
    if done.returncode:
        raise _malformed()


def _check_sizes(
    source: BinaryIO,
    metadata: parquet.FileMetaData,
    columns: Sequence[Column | UnitColumn],
    text: Sequence[str],
    limits: Limits,
) -> None:
    """Refuse a file over the size limits, by its footer. Raises IngestError.

    Sizes there are of values as they are encoded: run lengths may stand for any number of rows.
    """
    if metadata.num_rows > limits.rows:
        raise IngestError("too_many_rows", "/file", f"more than {limits.rows} rows")
    if metadata.num_rows * (8 * len(columns) - 4 * len(text)) > limits.decoded_bytes:
        raise IngestError("file_too_large", "/file", "decoded, the content is too large")
    if _is_small(metadata, limits):
        return
    _check_footer(source)
    decoded, names = 0, {column.name for column in columns}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for at in range(group.num_columns):
            column = group.column(at)
            if column.path_in_schema not in names:
                continue  # left out, and not read
            chunk = column.total_uncompressed_size
            if column.path_in_schema in text and chunk > limits.text_bytes:
                place = [one.name for one in columns].index(column.path_in_schema)
                raise IngestError("file_too_large", f"/columns/{place}", TOO_MUCH_TEXT)
            decoded += max(chunk, 0)
            if chunk > limits.chunk_bytes or decoded > limits.decoded_bytes:
                raise IngestError("file_too_large", "/file", "decoded, the content is too large")
