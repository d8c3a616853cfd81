"""Rows that cannot be opened are found before a job pays, and their dataset is set aside."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from app.services.context import open_services
from app.services.datasets.stored_rows import mark_store
from app.storage import local_store
from app.storage.errors import DatasetFileError, FileRefusedError, StoreAwayError
from app.storage.files import CHUNK_ROWS, DatasetFiles, name_of
from app.storage.rows import DatasetRow
from tests.api.support import Caller, House, house_in
from tests.object_store import settings_of
from tests.storage.conftest import Files, Folder, Objects, Place
from tests.storage.test_files import content_of, stored
from tests.storage.test_files import replace as put
from worker import scheduler
from worker.run import run
from worker.scheduler import run_next

CHUNK = CHUNK_ROWS * 8 + 16


@pytest.fixture(params=["folder", "s3"])
def lived_in(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[House, Place]]:
    """A service, and the place of its rows."""
    place: Any = Folder(tmp_path / "datasets")
    values: dict[str, str] = {}
    if request.param == "s3":
        place = request.getfixturevalue("objects")
        values = settings_of(place.server, place.bucket)
    with house_in(tmp_path, **values) as house:
        yield house, place
        house.services.close()


def remove(place: Place, name: str) -> None:
    if isinstance(place, Folder):
        (place.path / name).unlink()
    elif isinstance(place, Objects):
        place.admin.delete_object(Bucket=place.bucket, Key=f"rows/{name}")


def kinds(house: House, dataset: str) -> list[str]:
    entries = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    return [entry["kind"] for entry in entries]


def job_of(analyst: Caller, job: str) -> dict[str, Any]:
    found: dict[str, Any] = analyst.get(f"/v1/jobs/{job}").json()
    return found


def shown(house: House, dataset: str) -> dict[str, Any]:
    found: dict[str, Any] = house.admin.get(f"/v1/datasets/{dataset}").json()
    return found


Damage = Callable[[bytes, bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "empty": lambda _, __: b"",
    "cut": lambda own, _: own[:-1],
    "longer": lambda own, _: own + b"x",
    "head": lambda own, _: b"X" + own[1:],
    "flipped": lambda own, _: own[:100] + bytes([own[100] ^ 1]) + own[101:],
    "last byte flipped": lambda own, _: own[:-1] + bytes([own[-1] ^ 1]),
    "zeros of its length": lambda own, _: bytes(len(own)),
    "another dataset's": lambda _, other: other,
}


@pytest.mark.longer
@pytest.mark.parametrize("damage", [*DAMAGES, "absent"])
def test_nothing_is_paid_for_rows_that_cannot_be_opened(
    lived_in: tuple[House, Place], damage: str
) -> None:
    house, place = lived_in
    dataset, other, ada = house.dataset(), house.dataset(name="other"), house.user("analyst")
    whole = place.content(f"{dataset}.rows")
    jobs = [house.submit(ada, dataset) for _ in range(2)]
    if damage == "absent":
        remove(place, f"{dataset}.rows")
    else:
        place.put(f"{dataset}.rows", DAMAGES[damage](whole, place.content(f"{other}.rows")))
    assert run(house.services, UUID(jobs[1])) is False
    for job in jobs:
        ended = job_of(ada, job)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "dataset_unavailable")
        assert ended["started_at"] is None
    assert kinds(house, dataset) == ["open", "reserve", "reserve", "void", "void"]
    budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    assert (budget["spent"]["epsilon"], budget["reserved"]["epsilon"]) == (0, 0)

    told = shown(house, dataset)
    assert told["status"] == "unavailable"
    assert told["unavailable"]["reason"]
    assert "unavailable" not in ada.get(f"/v1/datasets/{dataset}").json()
    trail = house.admin.get("/v1/audit?action=dataset.set_aside").json()["items"]
    assert [entry["subject"] for entry in trail] == [dataset]
    assert trail[0]["details"]["jobs_ended"] == 2
    body = {"dataset": dataset, **_job()}
    assert ada.post("/v1/jobs", json=body).json()["code"] == "dataset_unavailable"
    assert ada.post("/v1/plans", json=body).json()["code"] == "dataset_unavailable"
    assert shown(house, other)["status"] == "open"

    put_back = house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"available": True})
    assert (put_back.status_code, put_back.json()["code"]) == (409, "dataset_unavailable")
    place.put(f"{dataset}.rows", whole)
    put_back = house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"available": True})
    assert (put_back.status_code, put_back.json()["status"]) == (200, "open")
    job = house.submit(ada, dataset)
    house.run(job)
    assert job_of(ada, job)["status"] == "succeeded"
    assert house.admin.get("/v1/audit?action=dataset.put_back").json()["items"]


def _job() -> dict[str, Any]:
    return {
        "model": {"family": "logistic", "formula": "income ~ age + sex"},
        "sampler": {"algorithm": "dp_penalty", "num_steps": 60, "num_chains": 2},
        "privacy": {"epsilon": 0.5, "delta": 1e-6},
        "accept_low_quality": True,
    }


def test_a_file_that_is_closed_to_us_sets_its_dataset_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything, so the kernel's refusal is made up."""
    with house_in(tmp_path) as house:
        dataset, ada = house.dataset(), house.user("analyst")
        job = house.submit(ada, dataset)
        real = local_store._without_waiting

        def closed(path: str, flags: int) -> int:
            if str(path).endswith(f"{dataset}.rows"):
                raise PermissionError(13, "no")
            return real(path, flags)

        monkeypatch.setattr(local_store, "_without_waiting", closed)
        assert run(house.services, UUID(job)) is False
        assert job_of(ada, job)["error"]["code"] == "dataset_unavailable"
        assert shown(house, dataset)["unavailable"]["reason"] == "the dataset's file cannot be read"
        house.services.close()


def test_a_folder_in_a_files_place_sets_the_dataset_aside(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        dataset, ada = house.dataset(), house.user("analyst")
        job = house.submit(ada, dataset)
        (tmp_path / "datasets" / f"{dataset}.rows").unlink()
        (tmp_path / "datasets" / f"{dataset}.rows").mkdir()
        assert run(house.services, UUID(job)) is False
        assert shown(house, dataset)["status"] == "unavailable"
        house.services.close()


def test_a_key_that_is_damaged_in_the_database_sets_its_dataset_aside(tmp_path: Path) -> None:
    """Another dataset's key opens: it is not the master key that is wrong."""
    with house_in(tmp_path) as house:
        dataset, _, ada = house.dataset(), house.dataset(name="other"), house.user("analyst")
        job = house.submit(ada, dataset)
        with house.services.sessions.write() as session:
            its = update(DatasetRow).where(DatasetRow.id == UUID(dataset))
            session.execute(its.values(wrapped_key=b"x" * 60))
        assert run(house.services, UUID(job)) is False
        assert job_of(ada, job)["error"]["code"] == "dataset_unavailable"
        assert kinds(house, dataset) == ["open", "reserve", "void"]
        house.services.close()


@pytest.mark.parametrize("how", ["elsewhere", "emptied", "gone"])
def test_a_worker_without_the_shared_folder_takes_no_job(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "AWAY_SECONDS", 0.0)
    with house_in(tmp_path / "data") as house:
        dataset, ada = house.dataset(), house.user("analyst")
        job = house.submit(ada, dataset)
        folder, aside = tmp_path / "data" / "datasets", tmp_path / "aside"
        services = house.services
        if how == "elsewhere":
            using = house.settings.model_copy(
                update={
                    "data_dir": tmp_path / "elsewhere",
                    "database_url": house.settings.database,
                    "master_key_file": house.settings.master_key_path,
                    "anchor_file": house.settings.anchor_path,
                }
            )
            services = replace(open_services(using), publish=house.sent.append)
        else:
            folder.rename(aside)
            if how == "emptied":
                folder.mkdir()
        house.sent.clear()
        with pytest.raises(StoreAwayError):
            run(services, UUID(job))
        assert run_next(services, UUID(job)) is None
        assert house.sent == [UUID(job)]  # another worker is told
        assert job_of(ada, job)["status"] == "queued"
        assert kinds(house, dataset) == ["open", "reserve"]
        assert shown(house, dataset)["status"] == "open"
        if how == "elsewhere":
            services.close()
        else:
            assert house.http.get("/readyz").json()["checks"]["storage"] == "unavailable"
            assert house.admin.upload().status_code == 503
            if folder.exists():
                folder.rmdir()
            aside.rename(folder)
        assert str(run_next(house.services, UUID(job))) == job
        assert job_of(ada, job)["status"] == "succeeded"
        house.services.close()


def test_a_worker_with_an_empty_bucket_takes_no_job(objects: Objects, tmp_path: Path) -> None:
    with house_in(tmp_path, **settings_of(objects.server, objects.bucket)) as house:
        dataset, ada = house.dataset(), house.user("analyst")
        job = house.submit(ada, dataset)
        other = Objects(objects.server)
        services = open_services(house.settings.model_copy(update={"s3_bucket": other.bucket}))
        with pytest.raises(StoreAwayError):
            run(services, UUID(job))
        services.close()
        assert job_of(ada, job)["status"] == "queued"
        house.run(job)
        assert job_of(ada, job)["status"] == "succeeded"
        house.services.close()


def test_rows_that_were_moved_to_another_store_are_known_by_their_files(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        dataset = house.dataset()
        folder = tmp_path / "datasets"
        for path in folder.iterdir():
            if path.suffix != ".rows":
                path.unlink()
        assert house.http.get("/readyz").json()["checks"]["storage"] == "ok"
        mark_store(house.services)
        assert sorted(path.suffix == ".rows" for path in folder.iterdir()) == [False, True]
        assert (folder / f"{dataset}.rows").exists()
        house.services.close()


def test_a_pooled_dataset_goes_with_the_holder_whose_file_is_broken(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        ada = house.user("analyst")
        holders = {"names": ["Female", "Male"], "column": "sex"}
        columns = [{"name": "age", "type": "number", "lower": 17, "upper": 90}]
        columns += [{"name": "income", "type": "binary", "categories": ["<=50K", ">50K"]}]
        pool = house.dataset(columns=columns, holders=holders)
        one, two = (each["dataset"] for each in shown(house, pool)["holders"])
        body = {"dataset": pool, **_job()}
        body["model"] = {"family": "logistic", "formula": "income ~ age"}
        answer = ada.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        path = tmp_path / "datasets" / f"{two}.rows"
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        assert run(house.services, UUID(answer.json()["id"])) is False
        assert job_of(ada, answer.json()["id"])["error"]["code"] == "dataset_unavailable"
        statuses = [shown(house, each)["status"] for each in (pool, one, two)]
        assert statuses == ["unavailable", "open", "unavailable"]
        for each in (pool, one, two):
            assert "post" not in kinds(house, each)
            assert house.admin.post(f"/v1/datasets/{each}/ledger/verify").json()["ok"]
        path.write_bytes(content)
        again = house.admin.call("PATCH", f"/v1/datasets/{two}", json={"available": True})
        assert again.json()["status"] == "open"
        assert shown(house, pool)["status"] == "open"
        house.services.close()


def test_a_file_that_is_damaged_while_its_job_runs_sets_the_dataset_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paid for by then. What waits is not."""
    with house_in(tmp_path) as house:
        dataset, ada = house.dataset(), house.user("analyst")
        first, second = house.submit(ada, dataset), house.submit(ada, dataset)
        path, real = tmp_path / "datasets" / f"{dataset}.rows", DatasetFiles.load

        def late(*given: Any) -> Any:
            path.write_bytes(b"")
            return real(*given)

        monkeypatch.setattr(DatasetFiles, "load", late)
        house.run(first)
        for job in (first, second):
            assert job_of(ada, job)["error"]["code"] == "dataset_unavailable"
        assert kinds(house, dataset) == ["open", "reserve", "reserve", "post", "void"]
        assert shown(house, dataset)["status"] == "unavailable"
        house.services.close()


@pytest.mark.longer
@pytest.mark.parametrize("cheap", [True, False])
@pytest.mark.parametrize("at", [0, 50, 8 + CHUNK + 50, 8 + 2 * CHUNK + 3, -1])
def test_seals_are_examined_all_of_them_where_that_is_cheap(
    files: Files, cheap: bool, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = stored(files)
    if not cheap:
        monkeypatch.setattr(type(files._store), "cheap_bytes", 1000)
    files.examine(row)
    content = bytearray(content_of(files, row))
    content[at] ^= 1
    put(files, row, bytes(content))
    in_the_middle = CHUNK < at < 2 * CHUNK
    if in_the_middle and not cheap:
        files.examine(row)
        return
    with pytest.raises(DatasetFileError):
        files.examine(row)


def test_an_object_that_is_refused_is_the_datasets_fault_and_no_outage(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(objects)
    row = stored(files)
    real = files._store._client.get_object  # type: ignore[attr-defined]

    def refused(**named: Any) -> Any:
        if named["Key"].endswith(name_of(row.id)):
            raise files._store._client.exceptions.ClientError(  # type: ignore[attr-defined]
                {"Error": {"Code": "AccessDenied"}}, "GetObject"
            )
        return real(**named)

    monkeypatch.setattr(files._store._client, "get_object", refused)  # type: ignore[attr-defined]
    with pytest.raises(FileRefusedError), files._store.read(name_of(row.id)):
        pass
    with pytest.raises(DatasetFileError, match="cannot be read"):
        files.examine(row)
