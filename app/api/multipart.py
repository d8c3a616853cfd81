"""Streaming parser of multipart/form-data: files go to encrypted spools, the rest to memory."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO, cast

from fastapi import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from app.api.endpoints import in_thread
from app.api.problems import of_status
from app.api.spool import Spool
from app.services.errors import Fault, Refusal

MAX_FIELD = 2**20
MAX_HEADER = 2**12
MAX_HEADERS = 20  # of a part
MAX_FILES = 100  # of as many data holders


@dataclass(slots=True)
class _Part:
    """The part of the form that is being read."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    name: str = ""


class Upload:
    """The parts of an upload: one or several `file` parts, and small ones.

    `metadata` as JSON, and `schema`, the columns as a schema file.
    """

    def __init__(self, boundary: bytes, folder: Any) -> None:
        self._folder = folder
        self._files: list[Spool] = []
        self.metadata, self.schema = bytearray(), bytearray()
        self.seen: set[str] = set()
        self._part = _Part()
        self._header = [b"", b""]
        self._waiting: list[bytes] = []
        self._ended = False
        self._digest = sha256()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._head(0, data[start:end]),
                "on_header_value": lambda data, start, end: self._head(1, data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_end": self._end,
            },
        )

    def _begin(self) -> None:
        """Begin a part."""
        self._part = _Part()

    def _head(self, which: int, data: bytes) -> None:
        """Collect bytes of a header's name or value."""
        self._header[which] += data
        if len(self._header[which]) > MAX_HEADER:
            raise _malformed("A part's header is too long.")

    def _header_end(self) -> None:
        """Complete a header."""
        name, value = self._header
        self._part.headers[name.lower()] = value
        if len(self._part.headers) > MAX_HEADERS:
            raise _malformed("A part has too many headers.")
        self._header = [b"", b""]

    def _headers_finished(self) -> None:
        """Choose the part's destination by its headers."""
        _, options = parse_options_header(self._part.headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("latin-1")
        if name not in ("file", "metadata", "schema"):
            raise _malformed("Only the parts `file`, `metadata` and `schema` are known.")
        if name != "file" and name in self.seen:
            raise _malformed("A part was sent twice.")
        self.seen.add(name)
        self._part.name = name
        if name == "file":
            self._flush()
            if len(self._files) == MAX_FILES:
                raise _malformed(f"At most {MAX_FILES} files are taken.")
            self._files.append(Spool(self._folder))
            self._digest.update(b"%d" % self._files[-2].size if len(self._files) > 1 else b"")

    def _data(self, data: bytes, start: int, end: int) -> None:
        """Write bytes of a part."""
        if self._part.name == "file":
            self._waiting.append(data[start:end])
            return
        small = self.metadata if self._part.name == "metadata" else self.schema
        if len(small) + end - start > MAX_FIELD:
            raise of_status(413, f"The {self._part.name} is larger than {MAX_FIELD} bytes.")
        small += data[start:end]

    def _end(self) -> None:
        """Complete a part."""
        self._ended = True

    async def feed(self, chunk: bytes) -> None:
        """Parse the next bytes in a thread."""
        await in_thread(self._parse, chunk)

    def _parse(self, chunk: bytes) -> None:
        """Parse bytes. Raises Refusal."""
        try:
            self._parser.write(chunk)
        except FormParserError:
            raise _malformed("The multipart body is malformed.") from None
        self._flush()

    def _flush(self) -> None:
        """Write the buffered rest of the last file."""
        if self._waiting:
            data, self._waiting = b"".join(self._waiting), []
            self._files[-1].write(data)
            self._digest.update(data)

    @property
    def digest(self) -> str:
        """Return the hash of small parts and files, with the files' boundaries."""
        whole = self._digest.copy()
        whole.update(sha256(self.metadata).digest())
        if "schema" in self.seen:
            whole.update(sha256(self.schema).digest())
        return whole.hexdigest()

    @property
    def sources(self) -> list[BinaryIO]:
        """Return the files in order of arrival."""
        return [cast(BinaryIO, file) for file in self._files]

    def close(self) -> None:
        """Close and delete the files."""
        for file in self._files:
            with suppress(OSError):
                file.close()

    def finish(self, needed: Sequence[str]) -> None:
        """Check that all needed parts are complete. Raises Refusal."""
        missing = [Fault(f"/{name}", "Field required") for name in needed if name not in self.seen]
        if missing:
            raise Refusal(422, "invalid_request", "A part of the upload is missing.", missing)
        if not self._ended:
            raise _malformed("The multipart body ends too early.")


def _malformed(detail: str) -> Refusal:
    """Return Refusal 400."""
    return Refusal(422, "malformed_upload", detail)


async def receive(
    request: Request, folder: Any, needed: Sequence[str] = ("file", "metadata")
) -> Upload:
    """Read a complete upload, which the caller closes."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise of_status(415, "The body must be multipart/form-data.")
    if not options.get(b"boundary"):
        raise _malformed("The Content-Type names no boundary.")
    try:
        upload = Upload(options[b"boundary"], folder)
    except FormParserError:
        raise _malformed("The boundary is not valid.") from None
    try:
        async for chunk in request.stream():
            await upload.feed(chunk)
        upload.finish(needed)
    except BaseException:
        upload.close()
        raise
    return upload
