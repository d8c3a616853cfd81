"""Detection of a text file's dialect (separator, decimal mark, encoding, quotes).

What an admin declares counts; the rest is found by rules that leave open what can be read in two
ways. Nothing of it reaches anybody but the admin whose file it is.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Literal, get_args

from app.storage.errors import IngestError

Compression = Literal["none", "gzip", "zip"]
Decimal = Literal[".", ","]
Encoding = Literal[
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "windows-1252", "iso-8859-1",
    "iso-8859-2", "iso-8859-15", "windows-1250", "windows-1251", "mac-roman", "cp437", "cp850",
    "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr",
]  # fmt: skip
Thousands = Literal["", ",", ".", " ", "'"]
DateOrder = Literal["dmy", "mdy"]
DECIMALS, THOUSANDS = get_args(Decimal), get_args(Thousands)

SAMPLE_BYTES = 2**18
SEPARATORS = (",", ";", "\t", "|")
SELDOM = ("^", "~", "\x01", "\x1f")
END_OF_FILE = b"\x1a"  # as DOS wrote it
BLANK = b" \t\r\n,;|" + END_OF_FILE
NUMBER_OF_ROWS = re.compile(  # below a table, as databases print it, or the end of copied data
    rb"\s*(?:\(?[0-9]+ rows?(?:\(s\))?(?: affected| selected)?\)?\.?|\\\.)\s*", re.IGNORECASE
)
TOTALS = re.compile(  # the first value of a line of sums or means below a table
    rb"[\s\"'*]*(?:(?:grand |sub-?)?totals?|sums?|means?|averages?|overall|summen?|insgesamt"
    rb"|gesamt(?:summe|ergebnis)?|mittelwert|somme|totale|totaal|suma)[\s\"':*]*",
    re.IGNORECASE,
)
AS_TEXT = '="'  # what spreadsheets read as text begins so, and ends with a quote
MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip"}
MARKS: tuple[tuple[bytes, Encoding], ...] = (  # byte order marks, the longer ones first
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SPELLINGS = (  # of no value, by spreadsheets, R, SAS, SQL and statistical offices
    "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "\\N", "None", "#N/A", ".", ":", "-", "..",
    "…", "?", "x", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?", "#NULL!",
    *(f".{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"),
)  # fmt: skip
MOST_SPELLINGS, LONGEST_SPELLING = 50, 50  # of a file, and in characters
MONTHS = 12
MOST_RECORDS = 5000  # of a sample
TITLES = 30  # lines above a header at most
SPACES = " \u00a0\u202f\u2009"  # between groups of digits
TWO_WAYS = (
    'numbers such as 1.234 can be read in two ways here: declare the decimal sign, "." or ",",'
    " and the thousands separator if there is one"
)
# a number with its nonzero digits alike: how it is divided depends on no more, and a sample has few
ALIKE = str.maketrans("23456789", "11111111")
DATES_TWO_WAYS = (
    "dates such as 01/02/2020 can be read in two ways here: declare dates, dmy for day, month, year"
    " or mdy for month, day, year"
)
# a date that can be read in two ways, and its time of day if any; for Arrow's expressions as well
SLASHED = r"^\s*([0-9]{1,2})[/-]([0-9]{1,2})[/-]([0-9]{4})([^0-9].*)?$"
MINUS_AFTER = "^([0-9][0-9., \u00a0\u202f\u2009'\u2019]*)[-\u2212]$"  # as ledgers write it
SIGN, POWER = "[+\\-\u2212]?", "(?:[eE][+-]?[0-9]+)?"
NUMERIC = re.compile("[-+]?[0-9.,]+")
LINE_ENDS = re.compile(r"\s*[\r\n]\s*")  # within a name, as forms write them
IMPORT_ID = '{"ImportId"'  # so begins what Qualtrics writes in the second row below its header
RULE = re.compile(r"[-+|:=,;\s]*--[-+|:=,;\s]*")  # a line below a header, as databases print it


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The dialect of a text file. None: to be detected.

    skip_lines: above the header; skip_first_rows: below it, such as units or the wording of
    questions; skip_last_lines: below the rows, blank ones not counted; None: none, unless they may
    end with totals.
    row_names: whether rows have a first field that the header does not name, as R writes it.
    dates: order of day and month where a date is three numbers between slashes or hyphens, the year
    last. missing: spellings of no value besides an empty field.
    """

    separator: str | None = None
    decimal: Decimal | None = None
    thousands: Thousands | None = None
    encoding: Encoding | None = None
    quote: str | None = None
    compression: Compression | None = None
    skip_lines: int | None = None
    row_names: bool | None = None
    skip_first_rows: int | None = None
    skip_last_lines: int | None = None
    dates: DateOrder | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Options for reading a file. skip: columns to leave out.

    skip_undeclared: whether all others that are not declared are left out as well.
    """

    dialect: Dialect = field(default_factory=Dialect)
    skip: tuple[str, ...] = ()
    skip_undeclared: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of a file as read by its dialect. For its admin alone.

    names: of the header, empty where there is none. start: of the first row, in characters of the
    text. records: the first rows.
    """

    dialect: Dialect
    names: tuple[str, ...]
    start: int
    records: tuple[tuple[str, ...], ...]


def compression_of(first: bytes) -> Compression:
    """Return a file's compression, from its first bytes."""
    return next((kind for magic, kind in MAGIC.items() if first.startswith(magic)), "none")


def encoding_of(sample: bytes) -> Encoding:
    """Return a text's encoding, from its byte order mark, zeros, or UTF-8 validity."""
    for mark, encoding in MARKS:
        if sample.startswith(mark):
            return encoding
    even, odd = sample[:4096:2].count(0), sample[1:4096:2].count(0)
    if max(even, odd) > len(sample[:4096]) // 8 and min(even, odd) * 8 < max(even, odd):
        return "utf-16-be" if even > odd else "utf-16-le"
    for encoding in ("utf-8", "windows-1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(sample)
        except UnicodeDecodeError:
            continue
        return encoding
    return "iso-8859-1"


def sample_of(
    text: str,
    declared: Dialect,
    names: Collection[str],
    numbers: Collection[str],
    dates: Collection[str] = (),
    *,
    whole: bool,
) -> Sample:
    """Return the dialect of a text with its first rows; ambiguous fields are None.

    text: the beginning of a file. names: of columns that it must have, empty where none are known;
    numbers, dates: those of them that are such, or all columns where none are known. whole: whether
    the text is all of the file. Raises IngestError where the separator is open, or the first line
    goes on beyond the text.
    """
    if not whole:
        end = text.rfind("\n") + 1
        if not end:
            message = f"the first line is longer than {SAMPLE_BYTES} bytes"
            raise IngestError("line_too_long", "/file", message)
        text = text[:end]
    else:
        notes = declared.skip_last_lines or 0
        text = without_notes(text.encode(), notes, BLANK, several=True).decode()
    named, dialect = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE), declared
    if named:  # written for Excel
        separator = dialect.separator or named[1]
        dialect = replace(dialect, separator=separator, skip_lines=dialect.skip_lines or 1)
    quote = dialect.quote if dialect.quote is not None else _quote(text)
    dialect = replace(dialect, quote=quote)
    seldom = [mark for mark in SELDOM if mark in text]
    choices = [dialect.separator] if dialect.separator else [*SEPARATORS, *seldom, " "]
    if len(choices) > 1 and names:
        naming = [mark for mark in choices if _named(text, mark, quote, dialect.skip_lines, names)]
        choices = naming if len(naming) == 1 else choices  # the header decides: others stay unread
    skips = dialect.skip_lines, dialect.skip_first_rows
    tables = [_Table(text, mark, quote, *skips, names) for mark in choices]
    table = _chosen(tables, names)
    header, rows = table.header, table.rows
    row_names = dialect.row_names
    if row_names is None:
        row_names = _has_row_names(header, rows)
        # between commas a decimal comma divides a value as well: row names are sure in quotes
        if row_names and table.separator == "," and text[table.start] not in ("'", '"'):
            row_names = None
    if row_names and (not rows or len(header) == len(rows[0]) - 1):
        header = ["", *header]
    elif row_names is False and _end_empty(header, rows):
        header = [*header, ""]
    dialect = replace(
        dialect,
        separator=table.separator,
        skip_lines=table.above,
        skip_first_rows=table.below,
        row_names=row_names,
    )
    known = {name: at for at, name in enumerate(header)}
    read = [known[name] for name in numbers if name in known] if names else range(len(header))
    cells = (row[at] for row in rows for at in read if at < len(row))
    dialect = _with_marks(dialect, cells)
    if dialect.dates is None:
        dated = [known[name] for name in dates if name in known] if names else range(len(header))
        dialect = replace(dialect, dates=_date_order(rows, dated))
    return Sample(dialect, tuple(header), table.start, tuple(map(tuple, rows)))


def without_notes(text: bytes, lines: int, blank: bytes, *, several: bool) -> bytes:
    """Return the end of a text without its last lines, and without a number of rows.

    blank: signs of lines that do not count. several: whether rows have several fields: a line such
    as (60 rows) is none of them then.
    """
    kept = text.rstrip(blank).splitlines(keepends=True)
    if not lines and several and kept and NUMBER_OF_ROWS.fullmatch(kept[-1]):
        lines = 1
    if not lines:
        return text.removesuffix(END_OF_FILE)
    for _ in range(lines):
        kept = kept[:-1]
        while kept and not kept[-1].strip(blank):
            kept.pop()
    return b"".join(kept)


def opened(dialect: Dialect) -> list[str]:
    """Return pointers to the dialect's ambiguous fields, which must be declared."""
    unknown = (field.name for field in fields(dialect) if getattr(dialect, field.name) is None)
    return [f"/format/{name}" for name in unknown]


def _quote(text: str) -> str:
    """Return the quote character, or none where quotes are unbalanced."""
    if text.startswith("'"):
        return "'"
    opening = re.compile(r'(?:^|[,;\t|^~\n\x01\x1f" ])=?"', re.MULTILINE)
    return "" if '"' in text and not opening.search(text) else '"'


def _records(
    text: str, separator: str, quote: str, above: int | None
) -> Iterator[tuple[list[str], int, int]]:
    """Yield the first records of a text below `above` lines, each with its end and last line."""
    lines = io.StringIO(text, newline="")
    for _ in range(above or 0):
        lines.readline()
    try:
        reader = csv.reader(
            lines,
            delimiter=separator,
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            skipinitialspace=separator == " ",  # several separate as one does
        )
        for record in islice(reader, MOST_RECORDS):
            cells = [_bare(cell.strip()) for cell in record]
            padded = separator == " " and len(cells) > 1 and not cells[-1]
            yield cells[:-1] if padded else cells, lines.tell(), reader.line_num
    except csv.Error:
        pass  # a field of more than 128 KiB, or an open quote: the rows before are enough


def _bare(cell: str) -> str:
    """Return a cell without the signs that make spreadsheets read it as text."""
    return cell[2:-1] if cell.startswith(AS_TEXT) and cell.endswith('"') else cell


def _in_lines(record: Sequence[str]) -> list[str]:
    """Return names of a header, each in one line."""
    return [LINE_ENDS.sub(" ", cell) for cell in record]


def _named(
    text: str, separator: str, quote: str, above: int | None, names: Collection[str]
) -> bool:
    """Return whether the header, or an early line where it is not known, has all of the names."""
    shown = (record for record, _, _ in _records(text, separator, quote, above) if any(record))
    return any(
        set(names) <= set(_in_lines(record))
        for record in islice(shown, TITLES if above is None else 1)
    )


class _Table:
    """A text as parsed with one separator."""

    def __init__(
        self,
        text: str,
        separator: str,
        quote: str,
        above: int | None,
        below: int | None,
        names: Collection[str],
    ) -> None:
        self.separator = separator
        records, ends, taken = list[list[str]](), list[int](), list[int]()
        for record, end, line in _records(text, separator, quote, above):
            records.append(record)
            ends.append(end)
            taken.append(line)
        shown = [at for at, record in enumerate(records) if any(record)]
        widths = Counter(len(records[at]) for at in shown)
        self.width, _ = max(widths.items(), key=lambda w: (w[1], w[0]), default=(0, 0))
        self.named = False
        first = shown[0] if shown else 0
        if names and above is None:
            places = (at for at in shown[:TITLES] if set(names) <= set(_in_lines(records[at])))
            place = next(places, None)
            self.named = place is not None
            first = first if place is None else place
        elif above is None and self.width > 1:
            wide = (self.width - 1, self.width) if len(shown) > 1 else (self.width,)
            fit = [at for at in shown[:TITLES] if len(records[at]) in wide]
            padded = [len(records[at]) > 1 and not any(records[at][1:]) for at in fit]  # titles
            wordy = [at for at, title in zip(fit, padded, strict=True) if not title]
            bare = [at for at in wordy if not records[at][0].startswith("#")]  # below comments
            if bare and not any(map(NUMERIC.fullmatch, records[bare[0]])):
                wordy = bare
            first = next(iter([*wordy, *fit]), first)
        elif names:
            self.named = bool(shown) and set(names) <= set(_in_lines(records[first]))
        self.above = (above or 0) + (taken[first - 1] if first else 0)
        self.header = _in_lines(records[first]) if records else []
        self.below = _below(records[first + 1 :], separator) if below is None else below
        first = min(first + self.below, max(len(records) - 1, 0))
        self.start = ends[first] if records else 0
        self.rows = [records[at] for at in shown if at > first]
        alike = sum(len(row) == self.width for row in self.rows)
        fits = len(self.header) == self.width or 1 < len(self.header) == self.width - 1
        self.share = (alike + fits) / (len(self.rows) + 1)


def _below(records: Sequence[Sequence[str]], separator: str) -> int:
    """Return how many records below a header are no rows."""
    if any(RULE.fullmatch(separator.join(record)) for record in records[:1]):
        return 1
    return 2 if any(cell.startswith(IMPORT_ID) for row in records[1:2] for cell in row) else 0


def _chosen(tables: Sequence[_Table], names: Collection[str]) -> _Table:
    """Return the table of the right separator. Raises IngestError where it is ambiguous."""
    if len(tables) == 1:
        return tables[0]
    fitting = [table for table in tables if table.named]
    if len(fitting) == 1:
        return fitting[0]
    *usual, spaced = fitting or tables
    usual = usual or [spaced]
    several = [table for table in usual if table.width > 1]
    if not several and spaced.width > 1 and spaced.share == 1:
        return spaced
    best = max(several, key=lambda table: table.share, default=usual[0])
    equal = [table for table in several if table.share == best.share]
    if len(equal) > 1 and not names:
        tabbed = [table for table in equal if table.separator == "\t"]
        if not tabbed:
            message = "the file can be divided into columns in two ways: declare its separator"
            raise IngestError("ambiguous_format", "/format/separator", message)
        return tabbed[0]  # texts hold commas in every line, but hardly tabs
    return best


def _has_row_names(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool | None:
    """Return whether rows begin with unnamed numbers 1, 2, 3, ...; None: unclear."""
    full = [row for row in rows if len(row) == len(header) + 1]
    if not rows or len(full) < len(rows):
        return False
    if _end_empty(header, rows):  # a separator at the end of each row
        return None if [row[0] for row in full] == [str(n + 1) for n in range(len(full))] else False
    return True if [row[0] for row in full] == [str(n + 1) for n in range(len(full))] else None


def _end_empty(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether all rows have one field more than the header, and it is empty."""
    return bool(rows) and all(len(row) == len(header) + 1 and not row[-1] for row in rows)


def _date_order(rows: Sequence[Sequence[str]], columns: Iterable[int]) -> DateOrder | None:
    """Return the order of day and month in columns of dates; None: unclear, or there are none."""
    orders = set[DateOrder]()
    for at in columns:
        matches = [re.match(SLASHED, row[at]) for row in rows if at < len(row) and row[at]]
        if None not in matches:
            orders |= {"dmy" for match in matches if match and int(match[1]) > MONTHS}
            orders |= {"mdy" for match in matches if match and int(match[2]) > MONTHS}
    return orders.pop() if len(orders) == 1 else None


def number_pattern(decimal: str, thousands: str) -> str:
    """Return a regular expression that matches one number with these marks."""
    point = re.escape(decimal)
    group = f"[{SPACES}]" if thousands == " " else f"[{re.escape(thousands)}\u2019]"
    group = group if thousands in (" ", "'") else re.escape(thousands)
    plain = f"(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)"
    if not thousands:
        return f"{SIGN}{plain}{POWER}"
    before = f"(?:{group}[0-9]{{2,3}})*" if thousands == "," else f"(?:{group}[0-9]{{3}})*"  # India
    grouped = f"[1-9][0-9]{{0,2}}{before}{group}[0-9]{{3}}(?:{point}[0-9]*)?"
    return f"{SIGN}(?:{plain}|{grouped}){POWER}"


WAYS: dict[tuple[str, str], re.Pattern[str]] = {
    (decimal, thousands): re.compile(number_pattern(decimal, thousands))
    for decimal in DECIMALS
    for thousands in THOUSANDS
    if thousands != decimal
}


def _with_marks(dialect: Dialect, cells: Iterable[str]) -> Dialect:
    """Return the dialect with its number marks, None where they are ambiguous."""
    if dialect.decimal is not None:  # a thousands separator is declared with it, or there is none
        return replace(dialect, thousands=dialect.thousands or "")
    ways = {way for way in WAYS if dialect.thousands is None or way[1] == dialect.thousands}
    marked = False
    for cell in {re.sub(MINUS_AFTER, r"\1", cell.translate(ALIKE)) for cell in cells}:
        if cell.isdigit() or not re.search(r"[0-9]", cell):
            continue
        fitting = {way for way in WAYS if WAYS[way].fullmatch(cell)}
        if fitting and len(fitting) < len(WAYS):
            ways, marked = ways & fitting, True
    if not ways:
        return dialect  # written in two ways
    decimals = {decimal for decimal, _ in ways}
    separators = {thousands for _, thousands in ways}
    if len(decimals) > 1:
        if len(separators) == 1:  # whole numbers such as 1 234
            return replace(dialect, thousands=min(separators))  # type: ignore[arg-type]
        if dialect.separator != "," or (".", "") not in ways:
            return dialect if marked else replace(dialect, thousands=dialect.thousands or "")
        separators, decimals = {""}, {"."}  # what CSV is between commas
    (decimal,) = decimals
    thousands = "" if "" in separators else min(separators)
    return replace(dialect, decimal=decimal, thousands=thousands)  # type: ignore[arg-type]
