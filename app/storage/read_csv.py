"""CSV, strictly: UTF-8, a header line, commas, double quotes, one row per line, nothing else."""

import codecs
import csv
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import csv as arrow_csv

from app.storage.columns import UnitColumn, check_names
from app.storage.errors import IngestError
from app.storage.limits import Limits
from dpmcmc.inputs.schema import Column

BLOCK_BYTES = 2**20
COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PAR1")


class _Checked:
    """The upload in blocks of whole lines, checked as it passes.

    Size, UTF-8, no NUL, line length, and quotes closed by the end of their line, so that a line is
    a row and blocks can be parsed one by one.
    """

    def __init__(self, source: BinaryIO, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._taken = self._line = self._quotes = 0
        self._held = b""

    def header(self) -> str:
        """The first line, without its end and a byte order mark. Raises IngestError."""
        while b"\n" not in self._held and self._read():
            pass
        line, _, self._held = self._held.partition(b"\n")
        return line.decode("utf-8-sig").removesuffix("\r")

    def blocks(self) -> Iterator[bytes]:
        """What follows, cut after line ends. Raises IngestError."""
        more = True
        while more:
            more = self._read()
            end = self._held.rfind(b"\n") + 1 if more else len(self._held)
            if end:
                block, self._held = self._held[:end], self._held[end:]
                yield block

    @property
    def empty(self) -> bool:
        """Whether not one byte came."""
        return self._taken == 0

    def _read(self) -> bool:
        block = self._source.read(BLOCK_BYTES)
        self._check(block)
        self._held += block
        return bool(block)

    def _check(self, block: bytes) -> None:
        if self._taken == 0 and block.startswith(COMPRESSED):
            raise IngestError("not_csv", "/file", "the content is compressed or not CSV")
        self._taken += len(block)
        if self._taken > self._limits.file_bytes:
            raise IngestError("file_too_large", "/file", f"over {self._limits.file_bytes} bytes")
        try:
            self._decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            raise IngestError("not_utf8", "/file", "the content is not UTF-8 text") from None
        if b"\0" in block:
            raise IngestError("not_csv", "/file", "the content holds NUL bytes")
        self._check_lines(block)

    def _check_lines(self, block: bytes) -> None:
        for line in block.splitlines(keepends=True):
            self._line += len(line)
            self._quotes += line.count(b'"')
            if self._line > self._limits.line_bytes:
                limit = self._limits.line_bytes
                raise IngestError("line_too_long", "/file", f"a line of over {limit} bytes")
            if line.endswith((b"\n", b"\r")):
                self._end_line()
        if not block:
            self._end_line()

    def _end_line(self) -> None:
        if self._quotes % 2:
            raise IngestError("malformed_csv", "/file", "a quoted value does not end on its line")
        self._line = self._quotes = 0


def csv_batches(
    source: BinaryIO, columns: Sequence[Column | UnitColumn], limits: Limits
) -> Iterator[pa.RecordBatch]:
    """Batches of text columns in the declared order. Raises IngestError."""
    checked = _Checked(source, limits)
    names = _header(checked, columns)
    wanted = [column.name for column in columns]
    ragged = _Ragged()
    for block in checked.blocks():
        try:
            table = _parse(block, names, ragged)
        except pa.ArrowInvalid:
            raise IngestError("malformed_csv", "/file", "cannot be read as CSV") from None
        yield from table.select(wanted).to_batches()
    if ragged.rows:
        found = f"{ragged.rows} rows have another number of fields"
        raise IngestError("ragged_rows", "/file", found)


class _Ragged:
    """Counts rows with another number of fields than the header, and keeps nothing of them."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, _: Any) -> str:
        self.rows += 1
        return "skip"


def _header(checked: _Checked, columns: Sequence[Column | UnitColumn]) -> list[str]:
    """The names in the header line: exactly the declared ones, in any order."""
    line = checked.header()
    if checked.empty:
        raise IngestError("empty_file", "/file", "the file is empty")
    try:
        names = next(csv.reader([line], strict=True), [])
    except csv.Error:
        raise IngestError("malformed_csv", "/file", "the header cannot be read") from None
    check_names(names, columns)
    return names


def _parse(block: bytes, names: list[str], ragged: _Ragged) -> pa.Table:
    """One block of whole lines. In this thread: Arrow's own reader would call back from others."""
    return arrow_csv.read_csv(
        pa.BufferReader(block),
        read_options=arrow_csv.ReadOptions(
            column_names=names, block_size=len(block) + 1, use_threads=False
        ),
        parse_options=arrow_csv.ParseOptions(
            newlines_in_values=False, ignore_empty_lines=False, invalid_row_handler=ragged
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )
