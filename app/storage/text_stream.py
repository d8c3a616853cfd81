"""Text files of any encoding and compression as UTF-8, in bounded memory."""

import codecs
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from app.storage.dialect import Compression, Encoding
from app.storage.errors import IngestError
from app.storage.limits import Limits

BLOCK_BYTES = 2**20
NO_TEXT: tuple[tuple[bytes, str], ...] = (  # what files begin with that are no text or no table
    (b"PAR1", "a Parquet file that is damaged or packed"),
    (b"BZh", "a bzip2 file"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"7z\xbc\xaf", "a 7z file"),
    (b"Rar!", "a rar file"),
    (b"\xd0\xcf\x11\xe0", "an older office document"),
    (b"<stata_dta>", "a file of Stata"),
    (b"$FL", "a file of SPSS"),
    (b"HEADER RECORD*******", "a file of SAS"),
    (b"\0\0\0\0\0\0\0\0\0\0\0\0\xc2\xea", "a file of SAS"),
    (b"RDX", "a file of R"),
    (b"X\n\0\0", "a file of R"),
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xff\xff\xff", "an Arrow stream"),
    (b"SQLite format 3", "a database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"%PDF", "a PDF"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"\x93NUMPY", "a file of NumPy"),
    (b"\x80\x04\x95", "a pickled object"),
    (b"\x80\x05\x95", "a pickled object"),
)
MARKUP: tuple[tuple[str, str], ...] = (  # the same of text
    (r"[\[{]\s*[\[{\"]", "JSON"),
    (r"(?i)<(?:!doctype|html|\?xml|table)\b", "HTML or XML"),
    (r"-- |--\n|/\*|(?i:create table|insert into|copy [\w.]+ \(|set \w+ ?=)", "an SQL dump"),
    (r"(?i)(?:%[^\n]*\n\s*)*@relation\b", "a file of Weka"),
)
TABLES = (".csv", ".tsv", ".tab")  # names of files in an archive that hold rows
END_OF_ZIP, DIRECTORY_BYTES = b"PK\x05\x06", 2**20
DAMAGED = (  # what the parser of a damaged archive raises
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, LookupError,
    ArithmeticError, RuntimeError,
)  # fmt: skip
SAVE_AS_CSV = "an office document: save the sheet as CSV"


def blocks(
    source: BinaryIO, first: bytes, compression: Compression, limits: Limits
) -> Iterator[bytes]:
    """Yield decompressed bytes. first: bytes read before. Raises IngestError."""
    refuse_known(first)
    raw = _within(_raw(source, first), limits.file_bytes, "")
    kinds: dict[Compression, Callable[[], Iterator[bytes]]] = {
        "none": lambda: raw,
        "gzip": lambda: _gunzipped(raw),
        "zip": lambda: _unzipped(source),
    }
    if compression == "none":
        return raw
    return _within(kinds[compression](), limits.file_bytes, "decompressed, the content is ")


def refuse_known(first: bytes) -> None:
    """Refuse what is known by its first bytes to be something else than a table as text."""
    kind = next((kind for magic, kind in NO_TEXT if first.startswith(magic)), "")
    if first[257:262] == b"ustar":
        kind = "a tar archive"
    begun = first[:200].decode("latin-1").removeprefix("\xef\xbb\xbf").lstrip()
    kind = kind or next((kind for pattern, kind in MARKUP if re.match(pattern, begun)), "")
    if kind:
        message = f"the content is {kind}: give CSV, alone or in a gzip or zip file, or Parquet"
        raise IngestError("not_csv", "/file", message)


def _raw(source: BinaryIO, first: bytes) -> Iterator[bytes]:
    """Yield the bytes of a file, `first` included."""
    yield first
    while block := source.read(BLOCK_BYTES):
        yield block


def _within(blocks: Iterator[bytes], most: int, what: str) -> Iterator[bytes]:
    """Yield blocks, raising IngestError beyond `most` bytes."""
    taken = 0
    for block in blocks:
        taken += len(block)
        if taken > most:
            raise IngestError("file_too_large", "/file", f"{what}over {most} bytes")
        yield block


def _refused(why: str) -> IngestError:
    """Return the error of a file that cannot be accepted."""
    return IngestError("malformed_archive", "/file", f"the {why}")


def _broken(what: str) -> IngestError:
    """Return the error of a damaged archive."""
    return _refused(f"{what} file is damaged or cut: pack it anew")


def _gunzipped(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the decompressed members of a gzip file."""
    member = zlib.decompressobj(wbits=31)
    try:
        for block in raw:
            unread = block
            while unread:
                if member.eof:
                    unread = unread.lstrip(b"\0")  # padding
                    member = zlib.decompressobj(wbits=31) if unread else member
                yield member.decompress(unread, BLOCK_BYTES)
                unread = member.unused_data if member.eof else member.unconsumed_tail
    except zlib.error:
        raise _broken("gzip") from None
    if not member.eof:
        raise _broken("gzip")


def _unzipped(source: BinaryIO) -> Iterator[bytes]:
    """Yield the content of the single file in a zip archive."""
    size = source.seek(0, io.SEEK_END)
    source.seek(max(0, size - 2**16 - 22))
    tail = source.read()
    at = tail.rfind(END_OF_ZIP)
    if at < 0 or len(tail) < at + 16:
        raise _broken("zip")
    if struct.unpack_from("<I", tail, at + 12)[0] > DIRECTORY_BYTES:
        raise IngestError("several_files", "/file", "the zip file holds too many files: pack one")
    try:
        with zipfile.ZipFile(source) as archive, archive.open(_only(archive)) as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except IngestError:
        raise
    except DAMAGED:
        raise _broken("zip") from None


def _only(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return the only file of an archive. Raises IngestError."""
    names = [member for member in archive.infolist() if not member.is_dir()]
    if any(
        member.filename == "[Content_Types].xml" or member.filename == "content.xml"
        for member in names
    ):
        raise IngestError("not_csv", "/file", f"the content is {SAVE_AS_CSV}")
    files = [member for member in names if not member.filename.startswith("__MACOSX/")]
    tables = [member for member in files if member.filename.lower().endswith(TABLES)]
    files = tables if len(tables) == 1 else files  # beside what explains it
    if len(files) != 1:
        message = f"the zip file holds {len(files)} files, {len(tables)} of them CSV: pack one"
        raise IngestError("several_files", "/file", message)
    if files[0].flag_bits & 1:
        raise _refused("zip file has a password: pack it without")
    if files[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _refused("zip file is packed in an unusual way: pack it by deflate, or give gzip")
    return files[0]


def as_utf8(blocks: Iterator[bytes], encoding: Encoding, *, returns: bool) -> Iterator[bytes]:
    """Yield the text as UTF-8, without byte order mark. Raises IngestError.

    returns: whether lines end with carriage returns alone.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
    for block in with_end(blocks):
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeError:
            message = (
                f"the content is not text in {encoding.upper()}: declare its encoding in format"
            )
            if encoding == "utf-8":
                raise IngestError("not_utf8", "/file", message) from None
            raise IngestError("wrong_encoding", "/file", message) from None
        if "\0" in text:
            raise IngestError("not_csv", "/file", "the content holds NUL bytes: it is no text")
        yield (text.replace("\r", "\n") if returns else text).encode()


def with_end(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield nonempty blocks, and one empty block at the end."""
    yield from (block for block in blocks if block)
    yield b""
