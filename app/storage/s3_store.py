"""A store of encrypted files in S3-compatible object storage, through botocore.

Bodies go up in parts and come down in ranges of PART_BYTES, so memory does not grow with a file.
The library retries each request; a range that breaks off is fetched again. An object appears with
the request that completes it, and only if its name is free.
"""

import base64
import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import uuid4

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from app.storage.errors import FileRefusedError, StoreAwayError, VersionsKeptError
from app.storage.store import Sink, Source

PART_BYTES = 2**24  # 10,000 parts are the most that S3 takes: 156 GiB
ATTEMPTS = 3
CONNECT_SECONDS, READ_SECONDS, CHECK_SECONDS = 5, 60, 2
WRITE_MARK = "write"
ABSENT = frozenset({"NoSuchKey", "404"})
OF_ONE_FILE = frozenset({"AccessDenied", "403", "InvalidObjectState"})
EMPTY = frozenset({"InvalidRange", "416"})
TAKEN = frozenset({"PreconditionFailed", "412"})
WITHOUT_VERSIONS = frozenset({"NotImplemented", "MethodNotAllowed", "501", "405"})


@dataclass(frozen=True, slots=True)
class Bucket:
    """The bucket. credentials: botocore's arguments; None: botocore's default chain."""

    name: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    credentials: Mapping[str, str] | None = None

    def client(self, attempts: int, connect: float, read: float) -> Any:
        """Return a client, which threads may share and processes may not."""
        config = Config(
            connect_timeout=connect,
            read_timeout=read,
            retries={"mode": "standard", "total_max_attempts": attempts},
            s3={"addressing_style": "path" if self.endpoint else "auto"},
            request_checksum_calculation="when_required",  # Content-MD5 is known everywhere
            response_checksum_validation="when_required",
        )
        return _session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            config=config,
            **{f"aws_{name}": value for name, value in (self.credentials or {}).items()},
        )


@lru_cache
def _session() -> Any:
    """Return botocore's session, cached as it loads slowly."""
    return botocore.session.get_session()


def _code(error: ClientError) -> str:
    """Return the error code of a response."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))


@contextmanager
def _reached() -> Iterator[None]:
    """Translate botocore's errors by code or type alone."""
    try:
        yield
    except ClientError as error:
        raise StoreAwayError(f"the object store refused: {_code(error)}") from None
    except BotoCoreError as error:
        raise StoreAwayError(f"the object store failed: {type(error).__name__}") from None


def _md5(data: bytes) -> str:
    """Return the base64 MD5 of data."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


class _Upload:
    """A multipart upload. A random mark identifies it when a response was lost."""

    def __init__(self, client: Any, address: dict[str, str]) -> None:
        self._client, self._place = client, address
        self._mark = uuid4().hex
        self._held = bytearray()
        self._id = ""
        self._parts: list[dict[str, Any]] = []

    def write(self, data: bytes, /) -> int:
        """Append data; full parts are sent."""
        self._held += data
        while len(self._held) > PART_BYTES:
            self._send(bytes(self._held[:PART_BYTES]))
            del self._held[:PART_BYTES]
        return len(data)

    def _send(self, part: bytes) -> None:
        """Send one part."""
        with _reached():
            if not self._id:
                created = self._client.create_multipart_upload(
                    **self._place, Metadata={WRITE_MARK: self._mark}
                )
                self._id = created["UploadId"]
            number = len(self._parts) + 1
            sent = self._client.upload_part(
                **self._place,
                UploadId=self._id,
                PartNumber=number,
                Body=part,
                ContentMD5=_md5(part),
            )
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})

    def finish(self) -> None:
        """Publish the object. Raises FileExistsError where the name is taken.

        A store may need long to put many parts together, and lose patience or its answer.
        """
        with _reached():
            try:
                self._publish()
            except (ClientError, BotoCoreError) as error:
                if self._is_ours():
                    return
                if isinstance(error, ClientError) and _code(error) in TAKEN:
                    raise FileExistsError(self._place["Key"]) from None
                raise

    def _publish(self) -> None:
        """Complete the upload, only if the name is free."""
        rest = bytes(self._held)
        if not self._id:
            self._client.put_object(
                **self._place,
                Body=rest,
                ContentMD5=_md5(rest),
                IfNoneMatch="*",
                Metadata={WRITE_MARK: self._mark},
            )
            return
        self._send(rest)
        self._client.complete_multipart_upload(
            **self._place,
            UploadId=self._id,
            IfNoneMatch="*",
            MultipartUpload={"Parts": self._parts},
        )

    def _is_ours(self) -> bool:
        """Return whether the published object is ours, so that only the response was lost."""
        try:
            head = self._client.head_object(**self._place)
        except ClientError as error:
            if _code(error) in ABSENT:
                return False
            raise
        return bool(head["Metadata"].get(WRITE_MARK) == self._mark)

    def abandon(self) -> None:
        """Abort the upload; if that fails, `sweep` does so later."""
        if self._id:
            with contextlib.suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(**self._place, UploadId=self._id)


class _Download:
    """The content of one object from a byte on, fetched by ranges."""

    def __init__(self, client: Any, address: dict[str, str], start: int) -> None:
        self._client, self._place = client, address
        self._held = bytearray()
        self._at, self.size = start, start + 1
        self._same: dict[str, str] = {}
        self._fetch()

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes, fewer only at the end."""
        while len(self._held) < size and self._at < self.size:
            self._fetch()
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def skip(self, size: int, /) -> None:
        """Leave out the next `size` bytes, which are not fetched if they have not been yet."""
        held = min(size, len(self._held))
        del self._held[:held]
        self._at += size - held

    def _fetch(self) -> None:
        """Fetch the next range."""
        for further in reversed(range(ATTEMPTS)):
            try:
                self._held += self._range()
            except ClientError as error:
                if _code(error) in ABSENT:
                    raise FileNotFoundError(self._place["Key"]) from None
                if _code(error) in EMPTY:
                    self.size = self._at
                    return
                if _code(error) in OF_ONE_FILE:
                    raise FileRefusedError(f"an object was refused: {_code(error)}") from None
                with _reached():
                    raise
            except BotoCoreError:  # it broke off in the middle, where the library does not retry
                if not further:
                    with _reached():
                        raise
            else:
                return

    def _range(self) -> bytes:
        """Return the bytes of one range request."""
        got = self._client.get_object(
            **self._place, **self._same, Range=f"bytes={self._at}-{self._at + PART_BYTES - 1}"
        )
        with contextlib.closing(got["Body"]) as body:
            content: bytes = body.read()
        self._same = {"IfMatch": got["ETag"]}
        self.size = int(got["ContentRange"].rsplit("/", 1)[1])
        self._at += len(content)
        return content


class S3Store:
    """A bucket, or a prefix in it."""

    cheap_bytes = PART_BYTES  # one request

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket.name
        self._prefix = f"{bucket.prefix.strip('/')}/".removeprefix("/")
        self._client = bucket.client(ATTEMPTS, CONNECT_SECONDS, READ_SECONDS)
        self._quick = bucket.client(1, CHECK_SECONDS, CHECK_SECONDS)

    def _place(self, name: str) -> dict[str, str]:
        """Return the bucket and key of a name."""
        return {"Bucket": self._bucket, "Key": self._prefix + name}

    @contextmanager
    def write(self, name: str) -> Iterator[Sink]:
        """Upload a new object in parts; abort on errors."""
        upload = _Upload(self._client, self._place(name))
        try:
            yield upload
            upload.finish()
        except BaseException:
            upload.abandon()
            raise

    @contextmanager
    def read(self, name: str, start: int = 0) -> Iterator[Source]:
        """Download an object from a byte on."""
        yield _Download(self._client, self._place(name), start)

    def delete(self, name: str) -> None:
        """Delete an object and all its versions."""
        address = self._place(name)
        with _reached():
            self._client.delete_object(**address)
            try:
                self._delete_versions(address)
            except ClientError as error:
                if _code(error) in WITHOUT_VERSIONS:
                    return
                raise VersionsKeptError(
                    f"the object store does not let us delete all versions: {_code(error)}"
                ) from None

    def _delete_versions(self, address: dict[str, str]) -> None:
        """Delete all versions of an object."""
        pages = self._client.get_paginator("list_object_versions").paginate(
            Bucket=address["Bucket"], Prefix=address["Key"]
        )
        for page in pages:
            for version in [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]:
                if version["Key"] == address["Key"]:
                    self._client.delete_object(**address, VersionId=version["VersionId"])

    def sweep(self, wanted: set[str], suffix: str, older_than: float) -> int:
        """Delete old objects that are not in `wanted`, and unfinished uploads."""
        everything = {"Bucket": self._bucket, "Prefix": self._prefix}
        deleted = 0
        with _reached():
            for page in self._client.get_paginator("list_objects_v2").paginate(**everything):
                for item in page.get("Contents", ()):
                    name = item["Key"].removeprefix(self._prefix)
                    old = item["LastModified"].timestamp() < older_than
                    if name.endswith(suffix) and name not in wanted and old:
                        self.delete(name)
                        deleted += 1
            for page in self._client.get_paginator("list_multipart_uploads").paginate(**everything):
                for begun in page.get("Uploads", ()):
                    ours = begun["Key"].endswith(suffix)
                    if ours and begun["Initiated"].timestamp() < older_than:
                        self._client.abort_multipart_upload(
                            Bucket=self._bucket, Key=begun["Key"], UploadId=begun["UploadId"]
                        )
                        deleted += 1
        return deleted

    def check(self) -> None:
        """Check within seconds that the bucket is accessible."""
        with _reached():
            self._quick.head_bucket(Bucket=self._bucket)
