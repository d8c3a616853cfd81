"""Every test of the files runs on a folder and on an S3 server."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from app.storage.files import DatasetFiles
from app.storage.keys import MasterKey
from app.storage.local_store import LocalStore
from app.storage.s3_store import S3Store
from app.storage.store import Store
from tests.object_store import Door, admin_of, bucket_at, s3_server

MASTER = MasterKey(b"m" * 32)


class Place(Protocol):
    """A store as somebody sees it who holds no key: names and bytes."""

    def store(self) -> Store: ...

    def names(self) -> list[str]: ...

    def content(self, name: str) -> bytes: ...

    def put(self, name: str, content: bytes) -> None: ...


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def store(self) -> Store:
        return LocalStore(self.path)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())

    def content(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def put(self, name: str, content: bytes) -> None:
        (self.path / name).write_bytes(content)


class Objects:
    def __init__(self, server: str, **made: Any) -> None:
        self.server, self.bucket = server, f"b{uuid.uuid4().hex}"
        self.admin = admin_of(server)
        self.admin.create_bucket(Bucket=self.bucket, **made)

    def store(self) -> S3Store:
        return S3Store(bucket_at(self.server, self.bucket))

    def names(self) -> list[str]:
        found = self.admin.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return sorted(item["Key"].removeprefix("rows/") for item in found)

    def content(self, name: str) -> bytes:
        body: bytes = self.admin.get_object(Bucket=self.bucket, Key=f"rows/{name}")["Body"].read()
        return body

    def put(self, name: str, content: bytes) -> None:
        self.admin.put_object(Bucket=self.bucket, Key=f"rows/{name}", Body=content)

    def unfinished(self) -> list[Any]:
        found: list[Any] = self.admin.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        return found

    def versions(self) -> list[Any]:
        found = self.admin.list_object_versions(Bucket=self.bucket)
        return [*found.get("Versions", []), *found.get("DeleteMarkers", [])]


class Files(DatasetFiles):
    """The files, and their place."""

    def __init__(self, place: Place, master: MasterKey = MASTER) -> None:
        super().__init__(place.store(), master)
        self.place = place


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def objects(s3: str) -> Objects:
    return Objects(s3)


@pytest.fixture
def door(s3: str) -> Iterator[Door]:
    made = Door(s3)
    yield made
    made.close()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Folder(tmp_path / "datasets")
    made: Objects = request.getfixturevalue("objects")
    return made


@pytest.fixture
def files(place: Place) -> Files:
    return Files(place)
