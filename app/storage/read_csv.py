"""Strict reading of CSV files: ambiguous ones are refused.

A header line, one row per record, fields that a separator divides and quotes enclose. How the file
is written is declared or found from its first bytes (`app.storage.dialect`).
"""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from app.storage.arrow_text import texts
from app.storage.columns import UnitColumn, check_names, holds_numbers
from app.storage.dialect import (
    AS_TEXT,
    DATES_TWO_WAYS,
    END_OF_FILE,
    MINUS_AFTER,
    SAMPLE_BYTES,
    SLASHED,
    TOTALS,
    TWO_WAYS,
    WAYS,
    DateOrder,
    Dialect,
    Reading,
    Sample,
    compression_of,
    encoding_of,
    number_pattern,
    sample_of,
    without_notes,
)
from app.storage.errors import IngestError
from app.storage.limits import Limits
from app.storage.text_stream import BLOCK_BYTES, as_utf8, blocks, refuse_known, with_end
from dpmcmc.inputs.schema import Column, DateColumn, NumberColumn

NOTES = "leave out notes below the table or declare how many lines they are, skip_last_lines"
LOOSE_QUOTE = (
    "{} values that are not enclosed in quotes hold a quote: declare in format the sign that"
    ' encloses values, "" for none; a quote within a value is written twice, and not after \\'
)
TOTAL = (
    "the last line begins with a word such as Total: declare skip_last_lines, 1 to leave the line"
    " out, or 0 where it is a row"
)
ROW_NAMES = (
    "each row has one field more than the header: declare row_names, true where it is the first one"
)


@dataclass(slots=True)
class _Opened:
    """A text file with known dialect. rest: its bytes as UTF-8 from the first row on."""

    sample: Sample
    rest: Iterator[bytes]


def first_rows(source: BinaryIO, declared: Dialect, limits: Limits) -> Sample:
    """Return dialect and first rows of a file, for its admin alone. Raises IngestError."""
    return _open(source, declared, (), (), (), limits).sample


def _open(
    source: BinaryIO,
    declared: Dialect,
    names: Collection[str],
    numbers: Collection[str],
    dates: Collection[str],
    limits: Limits,
) -> _Opened:
    """Return a file with its dialect detected or as declared. Raises IngestError."""
    first = source.read(BLOCK_BYTES)
    if not first:
        raise IngestError("empty_file", "/file", "the file is empty")
    compression = declared.compression or compression_of(first)
    content = blocks(source, first, compression, limits)
    begun = b""
    for block in content:
        begun += block
        if len(begun) >= SAMPLE_BYTES:
            break
    refuse_known(begun)
    if compression != "none" and compression_of(begun) != "none":
        raise IngestError("not_csv", "/file", "an archive in an archive: unpack one, and give CSV")
    encoding = declared.encoding or encoding_of(begun[:SAMPLE_BYTES])
    returns = _only_returns(begun, encoding)
    text = as_utf8(itertools.chain([begun], content), encoding, returns=returns)
    head = b""
    while len(head) < SAMPLE_BYTES and (piece := next(text, None)) is not None:
        head += piece
    more = next(text, b"")
    known = replace(declared, compression=compression, encoding=encoding)
    beginning = head[:SAMPLE_BYTES].decode(errors="ignore")
    whole = not more and len(head) <= SAMPLE_BYTES
    sample = sample_of(beginning, known, names, numbers, dates, whole=whole)
    start = len(beginning[: sample.start].encode())
    return _Opened(sample, itertools.chain([head[start:], more], text))


def _only_returns(begun: bytes, encoding: str) -> bool:
    """Return whether lines end with carriage returns alone."""
    text = begun[:SAMPLE_BYTES].decode(encoding, errors="ignore")
    return "\r" in text and "\n" not in text


class _Records:
    """Splits text into blocks of whole records, checking record lengths and quotes."""

    def __init__(self, dialect: Dialect, fields: int, limits: Limits) -> None:
        self._quote = ord(dialect.quote) if dialect.quote else -1
        self._separator = (dialect.separator or ",").encode()
        before = self._separator[-1:] + b"\n\r=" + (dialect.quote or "").encode()
        self._before = np.frombuffer(before, np.uint8)  # of a quote that encloses a value
        self._blank = b" \t\r\n" + END_OF_FILE + self._separator
        self._limits, self._fields = limits, fields
        self._skip_last_lines = dialect.skip_last_lines
        self._spaced = dialect.separator == " "
        quote = re.escape(dialect.quote or "").encode()
        quoted = b"%b[^%b]*%b|" % (quote, quote, quote) if quote else b""
        self._spaces = re.compile(quoted + rb"^ +| +(?=\r?$)| {2,}", re.MULTILINE)

    def blocks(self, text: Iterator[bytes]) -> Iterator[bytes]:
        """Yield blocks of whole records, without what stands below them. Raises IngestError.

        Of several spaces that separate one is left.
        """
        for block in self._above_notes(text):
            if block:
                yield self._spaces.sub(_single_space, block) if self._spaced else block

    def _above_notes(self, text: Iterator[bytes]) -> Iterator[bytes]:
        """Yield blocks of whole records, the last one without notes. Raises IngestError."""
        block = b""
        for following in self._whole(text):
            yield block
            block = following
        notes, several = self._skip_last_lines or 0, self._fields > 1
        rows = without_notes(block, notes, self._blank, several=several)
        if several and self._skip_last_lines is None:
            last = rows.strip(self._blank).rsplit(b"\n", 1)[-1].lstrip(self._blank)
            if TOTALS.fullmatch(last.split(self._separator)[0]):
                raise IngestError("ambiguous_format", "/format/skip_last_lines", TOTAL)
        yield rows

    def _whole(self, text: Iterator[bytes]) -> Iterator[bytes]:
        """Yield blocks of whole records, without trailing blank lines. Raises IngestError."""
        held, blank = b"", b""
        for block in with_end(text):
            held += block
            if not block and held and not held.endswith(b"\n"):
                held += b"\n"
            end = self._checked(held, last=not block)
            records, held = blank + held[:end], held[end:]
            full = len(records.rstrip(self._blank))
            full = records.find(b"\n", full) + 1 if full else 0
            records, blank = records[:full], records[full:]
            if blank.count(b"\n") > self._limits.rows:
                raise IngestError("too_many_rows", "/file", f"more than {self._limits.rows} rows")
            if records:
                yield records

    def _checked(self, held: bytes, *, last: bool) -> int:
        """Return the end of the last whole record. Raises IngestError."""
        signs = np.frombuffer(held, np.uint8)
        ends = np.flatnonzero(signs == 10)
        quotes = np.flatnonzero(signs == self._quote)
        if len(quotes):
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
            opening = quotes[0::2]
            opening = opening[opening > 0]
            loose = int((~np.isin(signs[opening - 1], self._before)).sum())
            if loose:
                raise IngestError("malformed_csv", "/file", LOOSE_QUOTE.format(loose))
        end = int(ends[-1]) + 1 if len(ends) else 0
        long = np.diff(ends, prepend=-1).max(initial=0) > self._limits.line_bytes
        open_quote = len(quotes) % 2 == 1
        if open_quote and (last or len(held) - end > self._limits.line_bytes):
            raise IngestError("malformed_csv", "/file", "a quoted value does not end")
        if long or len(held) - end > self._limits.line_bytes:
            limit = self._limits.line_bytes
            raise IngestError("line_too_long", "/file", f"a line of over {limit} bytes")
        return end


def csv_batches(
    source: BinaryIO,
    columns: Sequence[Column | UnitColumn],
    limits: Limits,
    reading: Reading,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of text columns in the declared order; null where missing.

    Numbers are written as in English, without separators. Raises IngestError.
    """
    numbers = [column.name for column in columns if holds_numbers(column)]
    dates = [column.name for column in columns if isinstance(column, DateColumn)]
    every = [column.name for column in columns]
    opened = _open(source, reading.dialect, every, numbers, dates, limits)
    names, dialect = opened.sample.names, opened.sample.dialect
    if not names:
        raise IngestError("empty_file", "/file", "the file has no header line")
    check_names(names, columns, reading)
    if dialect.row_names is None:
        raise IngestError("ambiguous_format", "/format/row_names", ROW_NAMES)
    wanted = [str(names.index(column.name)) for column in columns]
    ragged, unclear, unclear_dates = _Ragged(), 0, 0
    for block in _Records(dialect, len(names), limits).blocks(opened.rest):
        try:
            table = _parse(block, len(names), wanted, dialect, ragged)
        except pa.ArrowInvalid:
            raise IngestError("malformed_csv", "/file", "cannot be read as CSV") from None
        for batch in table.to_batches():
            arrays = [
                _present(array, dialect, column)
                for array, column in zip(batch.columns, columns, strict=True)
            ]
            for at, column in enumerate(columns):
                if holds_numbers(column):
                    if dialect.decimal is None:
                        unclear += _marked_numbers(arrays[at])
                    arrays[at] = plain(arrays[at], dialect, negative=_below_zero(column))
                elif isinstance(column, DateColumn):
                    if dialect.dates is None:
                        unclear_dates += _count(pc.match_substring_regex(arrays[at], SLASHED))
                    else:
                        arrays[at] = _with_points(arrays[at], dialect.dates)
            yield pa.RecordBatch.from_arrays(arrays, every)
    if ragged.rows:
        counted = f"{ragged.rows} rows have another number of fields than the header"
        message = f"{counted}: {NOTES}, enclose values that hold a separator in quotes"
        raise IngestError("ragged_rows", "/file", message)
    if unclear:
        raise IngestError("ambiguous_format", "/format/decimal", f"{unclear} values: {TWO_WAYS}")
    if unclear_dates:
        message = f"{unclear_dates} values: {DATES_TWO_WAYS}"
        raise IngestError("ambiguous_format", "/format/dates", message)


def _single_space(match: re.Match[bytes]) -> bytes:
    """Return what stands for spaces or a quoted value: one space, nothing at the ends of a line."""
    found = match[0]
    if found.strip(b" "):
        return found
    start, end = match.span()
    before, after = match.string[max(start - 1, 0) : start], match.string[end : end + 1]
    return b"" if before in (b"", b"\n") or after in (b"", b"\r", b"\n") else b" "


class _Ragged:
    """Counts rows with a wrong number of fields, keeping none of them."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, _: Any) -> str:
        """Count one row, and skip it."""
        self.rows += 1
        return "skip"


def _parse(
    block: bytes, fields: int, wanted: Sequence[str], dialect: Dialect, ragged: _Ragged
) -> pa.Table:
    """Return one block of whole records as a table, parsed in this thread.

    Columns go by their places: names may be empty.
    """
    places = [str(at) for at in range(fields)]
    return arrow_csv.read_csv(
        pa.BufferReader(block),
        read_options=arrow_csv.ReadOptions(
            column_names=places, block_size=len(block) + 1, use_threads=False
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=dialect.separator,
            quote_char=dialect.quote or False,
            newlines_in_values=bool(dialect.quote) and str(dialect.quote).encode() in block,
            ignore_empty_lines=fields > 1,
            invalid_row_handler=ragged,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()),
            include_columns=list(wanted),
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )


def _present(array: pa.Array, dialect: Dialect, column: Column | UnitColumn) -> pa.Array:
    """Return the values, with spellings of missing values as nulls."""
    if pc.any(pc.starts_with(array, AS_TEXT)).as_py():
        array = pc.replace_substring_regex(array, '^="(.*)"$', r"\1")
    categories = getattr(column, "categories", ())
    spellings = [spelling for spelling in dialect.missing if spelling not in categories]
    if not spellings:
        return array
    none = pc.is_in(pc.utf8_trim_whitespace(array), texts(spellings))
    return pc.if_else(none, pa.nulls(len(array), pa.string()), array)


def _marked_numbers(array: pa.Array) -> int:
    """Return how many values are numbers in some dialect and have a point or a comma."""
    marked = pc.match_substring_regex(array, "[0-9][.,]|[.,][0-9]")
    some = "|".join(number_pattern(*way) for way in WAYS)
    numbers = pc.match_substring_regex(pc.utf8_trim_whitespace(array), f"^(?:{some})$")
    return _count(pc.and_(marked, numbers))


def _count(truths: pa.Array) -> int:
    """Return how many are true."""
    return int(pc.sum(truths).as_py() or 0)


def _with_points(array: pa.Array, order: DateOrder) -> pa.Array:
    """Return dates with slashes as dates with points and the day first; others as they are."""
    day_first = r"\1.\2.\3\4" if order == "dmy" else r"\2.\1.\3\4"
    return pc.replace_substring_regex(array, SLASHED, day_first)


def _below_zero(column: Column | UnitColumn) -> bool:
    """Return whether a column of numbers declares some below 0."""
    if not isinstance(column, NumberColumn):
        return False
    return column.lower < 0 or (not column.empty and min(column.missing, default=0) < 0)


def plain(array: pa.Array, dialect: Dialect, *, negative: bool) -> pa.Array:
    """Return values as doubles, or as texts with a decimal point where some are no numbers.

    What is no number in the dialect stays as it is, or becomes what is none. negative: whether a
    hyphen behind a number is a minus; in a column without such, 18- may be 18 or less.
    """
    decimal, thousands = dialect.decimal or ".", dialect.thousands or ""
    usual = array  # most columns have no mark but the decimal sign, and need no pattern
    if decimal == ",":
        pointed = pc.any(pc.match_substring(array, ".")).as_py()
        usual = None if pointed else pc.replace_substring(array, ",", ".")
    if usual is not None:
        with suppress(pa.ArrowInvalid):
            return usual.cast(pa.float64())
    array = pc.utf8_trim_whitespace(array)
    if negative:
        array = pc.replace_substring_regex(array, MINUS_AFTER, r"-\1")
    right = pc.match_substring_regex(array, f"^(?:{number_pattern(decimal, thousands)})$")
    bare = array
    if thousands:
        marks = "[ \u00a0\u202f\u2009]" if thousands == " " else f"[{thousands}\u2019]"
        bare = pc.replace_substring_regex(bare, marks, "")
    bare = pc.replace_substring(pc.replace_substring(bare, ",", "."), "\u2212", "-")
    return pc.if_else(right, bare, _no_number(array))


def _no_number(array: pa.Array) -> pa.Array:
    """Return the texts, marking those that would be numbers in another dialect alone."""
    readable = pc.match_substring_regex(array, f"^(?:{number_pattern('.', '')})$")
    odd = pc.binary_join_element_wise(array, pa.scalar("?", pa.string()), "")
    return pc.if_else(readable, odd, array)
