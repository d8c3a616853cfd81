"""What can go wrong between us and an object store, and that nothing is lost or left behind."""

import random
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.storage import s3_store
from app.storage.errors import StoreAwayError, VersionsKeptError
from app.storage.rows import DatasetRow, JobRow
from app.storage.s3_store import S3Store
from tests.api.support import Caller, House, house_in
from tests.object_store import Door, bucket_at, settings_of
from tests.storage.conftest import Objects
from worker import run as running
from worker.lost_jobs import Recovery

SMALL_PART = 5 * 2**20  # the least that S3 takes
CONTENT = random.Random(1).randbytes(2 * SMALL_PART + 12345)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_store, "PART_BYTES", SMALL_PART)


@pytest.fixture
def behind(objects: Objects, door: Door, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """A store behind the door, that does not wait long between its tries."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff._BASE", 0)
    return S3Store(bucket_at(door.address, objects.bucket))


def write(store: S3Store, name: str, content: bytes = CONTENT) -> None:
    with store.write(name) as file:
        for at in range(0, len(content), 2**16):
            file.write(content[at : at + 2**16])


def read(store: S3Store, name: str) -> bytes:
    with store.read(name) as file:
        return b"".join(iter(lambda: file.read(100_000), b""))


@pytest.mark.parametrize("size", [0, 1, SMALL_PART, SMALL_PART + 1, len(CONTENT)])
def test_parts_go_up_and_ranges_come_down_whole(
    objects: Objects, small_parts: None, size: int
) -> None:
    store = objects.store()
    write(store, "x.rows", CONTENT[:size])
    assert objects.content("x.rows") == CONTENT[:size]
    assert read(store, "x.rows") == CONTENT[:size]
    assert objects.unfinished() == []


def test_memory_does_not_grow_with_the_file(objects: Objects, small_parts: None) -> None:
    store, block = objects.store(), CONTENT[: 2**20]
    tracemalloc.start()
    with store.write("x.rows") as file:
        for _ in range(60):
            file.write(block)
    with store.read("x.rows") as source:
        while source.read(2**20):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * SMALL_PART


def test_a_part_that_fails_leaves_no_object_and_nothing_unfinished(
    objects: Objects, small_parts: None
) -> None:
    def half() -> None:
        with objects.store().write("x.rows") as file:
            file.write(CONTENT)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert (objects.names(), objects.unfinished()) == ([], [])


def test_a_store_that_goes_away_in_mid_upload_is_swept_later(
    objects: Objects, behind: S3Store, door: Door, small_parts: None
) -> None:
    def upload() -> None:
        with behind.write("x.rows") as file:
            file.write(CONTENT[: SMALL_PART + 1])
            door.shut = True
            file.write(CONTENT[SMALL_PART + 1 :])

    with pytest.raises(StoreAwayError, match=r"^the object store failed: \w+$"):
        upload()
    assert objects.names() == []
    assert len(objects.unfinished()) == 1
    with pytest.raises(StoreAwayError):
        behind.sweep(set(), ".rows", time.time() + 60)
    door.shut = False
    assert behind.sweep(set(), ".rows", 0.0) == 0
    assert behind.sweep(set(), ".rows", time.time() + 60) == 1
    assert objects.unfinished() == []


@pytest.mark.parametrize("size", [100, len(CONTENT)], ids=["one request", "parts"])
def test_a_lost_answer_to_the_last_request_is_made_good(
    objects: Objects, behind: S3Store, door: Door, small_parts: None, size: int
) -> None:
    with behind.write("x.rows") as file:
        file.write(CONTENT[:size])
        door.swallow = b"PUT" if size == 100 else b"POST"
        if size != 100:  # the upload was begun by a POST: only the last one is to be lost
            assert objects.unfinished()
    assert door.swallowed == 1
    assert objects.content("x.rows") == CONTENT[:size]


def test_a_download_that_breaks_off_goes_on_where_it_was(
    objects: Objects, behind: S3Store, door: Door, small_parts: None
) -> None:
    objects.put("x.rows", CONTENT)
    with behind.read("x.rows") as file:
        got = file.read(1000)
        door.cut_after = SMALL_PART // 2
        while more := file.read(100_000):
            got += more
    assert door.cut_after is None
    assert got == CONTENT


def test_an_object_that_changes_while_it_is_read_is_not_mixed(
    objects: Objects, small_parts: None
) -> None:
    store = objects.store()
    objects.put("x.rows", CONTENT)
    with store.read("x.rows") as file:
        file.read(10)
        objects.put("x.rows", CONTENT[::-1])
        with pytest.raises(StoreAwayError, match="PreconditionFailed"):
            file.read(len(CONTENT))


def test_a_missing_bucket_or_a_closed_door_fails_the_check_soon(
    objects: Objects, behind: S3Store, door: Door
) -> None:
    behind.check()
    with pytest.raises(StoreAwayError, match="refused"):
        S3Store(bucket_at(objects.server, "b" + uuid4().hex)).check()
    door.shut = True
    began = time.monotonic()
    with pytest.raises(StoreAwayError, match="failed"):
        behind.check()
    assert time.monotonic() - began < 5


def test_destroying_deletes_every_version(objects: Objects) -> None:
    objects.admin.put_bucket_versioning(
        Bucket=objects.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    store = objects.store()
    write(store, "x.rows", b"first")
    objects.put("x.rows", b"second")
    objects.put("x.rows2", b"another")
    store.delete("x.rows")
    assert [version["Key"] for version in objects.versions()] == ["rows/x.rows2"]
    store.delete("x.rows")


@pytest.fixture
def locked(s3: str) -> Objects:
    """A bucket that lets nobody delete a version for a day."""
    objects = Objects(s3, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    objects.admin.put_object_lock_configuration(
        Bucket=objects.bucket,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule},
    )
    return objects


def test_a_store_that_keeps_versions_is_said_to(locked: Objects) -> None:
    store = locked.store()
    write(store, "x.rows", b"first")
    with pytest.raises(VersionsKeptError):
        store.delete("x.rows")
    assert locked.names() == []


def test_destroying_says_where_ciphertext_stays_and_forgets_the_key(
    locked: Objects, tmp_path: Path
) -> None:
    with house_in(tmp_path, **settings_of(locked.server, locked.bucket)) as house:
        dataset = house.dataset()
        answer = house.admin.call("DELETE", f"/v1/datasets/{dataset}")
        assert (answer.status_code, answer.json()["code"]) == (503, "versions_kept")
        assert house.admin.get(f"/v1/datasets/{dataset}").json()["status"] == "destroyed"
        with house.services.sessions.read() as session:
            assert session.get_one(DatasetRow, UUID(dataset)).wrapped_key is None
        house.services.close()


def test_nothing_but_ciphertext_and_public_names_leave(objects: Objects, tmp_path: Path) -> None:
    with house_in(tmp_path, **settings_of(objects.server, objects.bucket)) as house:
        dataset = house.dataset()
        mark = f"installation-{house.services.sessions.installation}"
        assert objects.names() == sorted([f"{dataset}.rows", mark])
        found = objects.admin.get_object(Bucket=objects.bucket, Key=f"rows/{dataset}.rows")
        content = found["Body"].read()
        house.services.close()
    assert not any(word in content for word in (b"age", b"Female", b"<=50K"))
    assert set(found["Metadata"]) == {"write"}
    assert not (tmp_path / "datasets").exists()


@pytest.fixture
def house(
    objects: Objects, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    """A service whose rows lie behind the door."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff._BASE", 0)
    with house_in(tmp_path, **settings_of(door.address, objects.bucket)) as made:
        yield made
        made.services.close()


def test_an_upload_to_a_store_that_is_away_is_a_503_and_records_nothing(
    house: House, objects: Objects, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    door.shut = True
    answer = house.admin.upload()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["Retry-After"]
    assert house.http.get("/readyz").json()["checks"]["storage"] == "unavailable"
    door.shut = False
    assert house.http.get("/readyz").json()["checks"]["storage"] == "ok"
    assert house.admin.get("/v1/datasets").json()["items"] == []
    assert objects.names() == []
    assert house.dataset()


def test_destroying_while_the_store_is_away_forgets_the_key_and_can_be_repeated(
    house: House, objects: Objects, door: Door
) -> None:
    dataset = house.dataset()
    door.shut = True
    assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 503
    shown = house.admin.get(f"/v1/datasets/{dataset}").json()
    assert shown["status"] == "destroyed"
    door.shut = False
    assert objects.names()
    assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 204
    assert [name for name in objects.names() if name.endswith(".rows")] == []


def shown(analyst: Caller, job: str) -> dict[str, Any]:
    answer: dict[str, Any] = analyst.get(f"/v1/jobs/{job}").json()
    return answer


def kinds(house: House, job: dict[str, Any]) -> list[str]:
    items = house.admin.get(f"/v1/datasets/{job['dataset']}/ledger").json()["items"]
    return [entry["kind"] for entry in items]


def soon(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def shut_once_paid(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store goes away between the look at the rows, before a job pays, and their reading."""
    real = running.keep

    def keep(*given: Any) -> None:
        if not door.shut and not door.reopened:
            door.shut = True
        real(*given)

    monkeypatch.setattr(running, "keep", keep)


def test_a_job_is_not_taken_while_the_store_is_away(house: House, door: Door) -> None:
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    door.shut = True
    with pytest.raises(StoreAwayError):
        house.run(job)
    waits = shown(analyst, job)
    assert (waits["status"], kinds(house, waits)) == ("queued", ["open", "reserve"])
    assert house.admin.get(f"/v1/datasets/{waits['dataset']}").json()["status"] == "open"
    door.shut = False
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"


def in_thread(house: House, job: str) -> threading.Thread:
    worker = threading.Thread(target=house.run, args=(job,))
    worker.start()
    return worker


def test_a_job_waits_for_a_store_that_comes_back(
    house: House, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    shut_once_paid(door, monkeypatch)
    worker = in_thread(house, job)
    soon(lambda: shown(analyst, job)["status"] == "running")
    time.sleep(0.3)
    door.reopened, door.shut = True, False
    worker.join()
    ended = shown(analyst, job)
    assert ended["status"] == "succeeded"
    assert kinds(house, ended) == ["open", "reserve", "post"]


def test_a_job_that_waits_for_its_store_can_be_cancelled(
    house: House, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    shut_once_paid(door, monkeypatch)
    worker = in_thread(house, job)
    soon(lambda: shown(analyst, job)["status"] == "running")
    analyst.post(f"/v1/jobs/{job}/cancel")
    asked = time.monotonic()
    worker.join()
    assert time.monotonic() - asked < running.PATIENCE_SECONDS / 3
    assert shown(analyst, job)["status"] == "cancelled"


def test_a_job_whose_store_stays_away_is_handed_on_and_paid_once(
    house: House, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    with monkeypatch.context() as patched:
        shut_once_paid(door, patched)
        patched.setattr(running, "PATIENCE_SECONDS", 0.1)
        patched.setattr(running, "RETRY_SECONDS", 0.05)
        house.run(job)
    assert shown(analyst, job)["status"] == "running"
    door.shut = False
    now = 0.0
    recovery = Recovery(house.services, lambda: now)
    recovery.round()
    now += house.settings.lease_seconds + 1
    recovery.round()
    house.run(job)
    ended = shown(analyst, job)
    assert ended["status"] == "succeeded"
    assert kinds(house, ended) == ["open", "reserve", "post"]
    with house.services.sessions.read() as session:
        assert session.get_one(JobRow, UUID(job)).released_attempt == 2
