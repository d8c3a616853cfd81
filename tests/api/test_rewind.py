"""A database that was put back gives no budget back: it is found, and going on books the worst."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import psycopg
import pytest
from sqlalchemy.orm import Session

from app import ledger
from app.ledger.ends import End
from app.services.budgets import rewind
from app.services.budgets.rewind import Exporter
from tests.api.support import METADATA, Caller, House, house_in
from tests.api.test_logs import lines  # noqa: F401 - a fixture
from tests.peers import QuietHandler, served


class Database:
    """A service's database that is put away and put back, as an operator would."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    def backup(self, name: str = "backup") -> None:
        if self.url:
            here = urlsplit(self.url).path[1:]
            self._administer(f"CREATE DATABASE {here}_{name} TEMPLATE {here}")
            return
        with (
            sqlite3.connect(self.folder / "dpmcmc.sqlite3") as source,
            sqlite3.connect(self.folder / name) as copy,
        ):
            source.backup(copy)
        source.close()
        copy.close()

    def restore(self, name: str = "backup") -> None:
        if self.url:
            here = urlsplit(self.url).path[1:]
            self._administer(
                f"DROP DATABASE {here} WITH (FORCE)",
                f"CREATE DATABASE {here} TEMPLATE {here}_{name}",
            )
            return
        for end in ("", "-wal", "-shm"):
            (self.folder / f"dpmcmc.sqlite3{end}").unlink(missing_ok=True)
        shutil.copy(self.folder / name, self.folder / "dpmcmc.sqlite3")

    def drop(self) -> None:
        if self.url:
            here = urlsplit(self.url).path[1:]
            names = ("backup", "empty")
            self._administer(*(f"DROP DATABASE IF EXISTS {here}_{name}" for name in names))

    def _administer(self, *statements: str) -> None:
        parts = urlsplit(self.url)._replace(scheme="postgresql", path="/postgres")
        with psycopg.connect(urlunsplit(parts), autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement)  # type: ignore[arg-type]

    @contextmanager
    def house(self, **values: Any) -> Iterator[House]:
        with house_in(self.folder, database_url=self.url, **values) as made:
            yield made
            made.services.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    url = "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    made = Database(tmp_path, url)
    yield made
    made.drop()


def budget(caller: Caller, dataset: str) -> dict[str, float]:
    found = caller.get(f"/v1/datasets/{dataset}/budget").json()
    return {name: found[name]["epsilon"] for name in ("spent", "reserved", "remaining")}


def ready(house: House) -> str:
    return str(house.http.get("/readyz").json()["checks"]["ledger"])


def spend(house: House, analyst: Caller, dataset: str) -> str:
    job = house.submit(analyst, dataset)
    house.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
    return job


def accept(house: House) -> Any:
    return house.admin.post("/v1/restore", json={"accept": True, "reason": "a disk died"})


@pytest.mark.longer
@pytest.mark.parametrize("population", [None, "people of the town"])
def test_an_older_database_is_found_and_gives_no_budget_back(
    database: Database, population: str | None
) -> None:
    named = {"population": population} if population else {}
    with database.house() as house:
        ada, dataset = house.user("analyst"), house.dataset(**named)
        spend(house, ada, dataset)
        waiting = house.submit(ada, dataset)
        assert ready(house) == "ok"
        assert house.admin.get("/v1/restore").json()["rewound"] == []
        assert accept(house).json()["code"] == "nothing_rewound"
    database.backup()
    with database.house() as house:
        house.run(waiting)  # released once
        spend(house, ada_in(house, ada), dataset)
        before = budget(ada_in(house, ada), dataset)
    database.restore()
    with database.house() as house:
        ada = ada_in(house, ada)
        assert budget(ada, dataset)["spent"] < before["spent"], "the older database forgot"
        assert ready(house) == "unavailable"
        assert house.http.get("/readyz").status_code == 503
        refused = ada.post("/v1/jobs", json={**job_body(dataset)})
        assert (refused.status_code, refused.json()["code"]) == (503, "ledger_rewound")
        raised = {"privacy": {"epsilon": 9.0}}
        assert house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=raised).status_code == 503
        house.run(waiting)
        assert ada.get(f"/v1/jobs/{waiting}").json()["status"] == "queued", "no second release"
        (found,) = house.user("auditor").get("/v1/restore").json()["rewound"]
        assert (found["ledger"], found["datasets"]) == (dataset, [dataset])
        assert found["found"]["rows"] < found["anchor"]["rows"]
        assert accept(house).status_code == 200
        assert ready(house) == "ok"
        after = budget(ada, dataset)
        assert after["spent"] == pytest.approx(before["spent"], rel=1e-12)
        assert after["remaining"] <= before["remaining"]
        assert ada.get(f"/v1/jobs/{waiting}").json()["status"] == "cancelled"
        spend(house, ada, dataset)
        told = house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()
        assert told["ok"], told
        kinds = [
            e["kind"] for e in house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
        ]
        assert kinds.count("restore") == 1
        acts = house.admin.get("/v1/audit?limit=200").json()["items"]
        (act,) = [entry for entry in acts if entry["action"] == "restore.accept"]
        assert act["details"]["reason"] == "a disk died"
        assert act["details"]["ledgers"][0]["ledger"] == dataset
    with database.house() as house:
        assert ready(house) == "ok"


def ada_in(house: House, ada: Caller) -> Caller:
    return Caller(house.http, ada.key, ada.id)


def job_body(dataset: str) -> dict[str, Any]:
    from tests.api.support import job_of

    return job_of(dataset)


def test_a_rewound_ledger_that_went_on_past_its_anchor_is_still_found(database: Database) -> None:
    with database.house() as house:
        ada, dataset = house.user("analyst"), house.dataset()
    database.backup()
    with database.house() as house:
        spend(house, ada_in(house, ada), dataset)
    database.restore()
    anchors, aside = database.folder / "anchors.jsonl", database.folder / "aside"
    anchors.rename(aside)
    with database.house() as house:  # without its anchors the service cannot know
        for _ in range(4):
            spend(house, ada_in(house, ada), dataset)
    aside.replace(anchors)
    with database.house() as house:
        assert ready(house) == "unavailable"


def test_a_dataset_that_the_older_database_does_not_know_is_found(database: Database) -> None:
    with database.house():
        pass
    database.backup("empty")
    with database.house() as house:
        ada, dataset = house.user("analyst"), house.dataset()
        spend(house, ada, dataset)
    database.restore("empty")
    with database.house() as house:
        assert ready(house) == "unavailable"
        (found,) = house.admin.get("/v1/restore").json()["rewound"]
        assert (found["ledger"], found["datasets"], found["found"]) == (dataset, [], None)
        assert accept(house).status_code == 200
        assert ready(house) == "ok"


def test_a_destroyed_dataset_does_not_come_back(database: Database) -> None:
    with database.house() as house:
        dataset = house.dataset()
    database.backup()
    with database.house() as house:
        house.admin.call("DELETE", f"/v1/datasets/{dataset}")
        Exporter(house.services).export()
    database.restore()
    with database.house() as house:
        assert house.admin.get(f"/v1/datasets/{dataset}").json()["status"] == "open"
        assert ready(house) == "unavailable"
        accept(house)
        assert house.admin.get(f"/v1/datasets/{dataset}").json()["status"] == "destroyed"


def test_what_was_destroyed_before_the_backup_can_be_accepted_too(database: Database) -> None:
    with database.house() as house:
        ada, dataset = house.user("analyst"), house.dataset()
        job = house.submit(ada, dataset)
        with house.services.sessions.write() as session:
            ledger.amend(session, UUID(dataset), "destroy", {}, None)
    database.backup()
    with database.house() as house:
        ada_in(house, ada).post(f"/v1/jobs/{job}/cancel")
        Exporter(house.services).export()
    database.restore()
    with database.house() as house:
        assert ready(house) == "unavailable"
        assert accept(house).status_code == 200
        assert ready(house) == "ok"
        assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]


def test_an_older_audit_trail_is_found(database: Database) -> None:
    with database.house():
        pass
    database.backup()
    with database.house() as house:
        house.user("analyst")
        Exporter(house.services).export()
    database.restore()
    with database.house() as house:
        assert ready(house) == "unavailable"
        (found,) = house.admin.get("/v1/restore").json()["rewound"]
        assert found["ledger"] is None
        accept(house)
        assert ready(house) == "ok"


def test_a_verification_takes_an_anchor_and_gives_a_signed_one(either_house: House) -> None:
    house = either_house
    ada, dataset = house.user("analyst"), house.dataset()
    path = f"/v1/datasets/{dataset}/ledger/verify"

    def verify(**body: Any) -> dict[str, Any]:
        found: dict[str, Any] = house.admin.post(path, **body).json()
        return found

    anchor = verify()["anchor"]
    kept = {name: anchor[name] for name in ("rows", "head", "signature")}
    assert anchor["ledger"] == dataset
    spend(house, ada, dataset)
    assert verify(json={"anchor": kept})["ok"]
    assert verify(json={"anchor": {"rows": 1, "head": kept["head"]}})["ok"]
    other = verify(json={"anchor": {"rows": 1, "head": "0" * 64}})
    assert (other["ok"], other["problem"]) == (False, "entry 1: not the one that was anchored")
    later = verify(json={"anchor": {"rows": 99, "head": "0" * 64}})
    assert (later["ok"], later["anchor"]) == (False, None)
    forged = verify(json={"anchor": kept | {"signature": "0" * 64}})
    assert "not signed" in forged["problem"]
    trail = house.admin.post("/v1/audit/verify").json()["anchor"]
    assert trail["ledger"] is None
    crossed = {**kept, "signature": trail["signature"]}
    assert not verify(json={"anchor": crossed})["ok"]


def test_rows_are_opened_only_once_the_debit_is_anchored(
    either_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = either_house
    ada, dataset = house.user("analyst"), house.dataset()
    job = house.submit(ada, dataset)
    seen: list[int] = []
    files = type(house.services.vault.files)
    load = files.load

    def watched(self: Any, *given: Any) -> Any:
        (anchor,) = house.services.vault.anchors.latest().values()
        seen.append(anchor.seq)
        return load(self, *given)

    monkeypatch.setattr(files, "load", watched)
    house.run(job)
    entries = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert seen == [entry["seq"] for entry in entries if entry["kind"] == "post"]


def test_what_is_paid_and_anchored_while_a_submission_looks_is_no_rewind(
    either_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = either_house
    ada, dataset = house.user("analyst"), house.dataset()
    waiting, look = house.submit(ada, dataset), rewind.ends_of

    def meanwhile(session: Session, dataset_id: UUID) -> list[End]:
        found = look(session, dataset_id)
        monkeypatch.setattr(rewind, "ends_of", look)
        house.run(waiting)
        return found

    monkeypatch.setattr(rewind, "ends_of", meanwhile)
    second = house.submit(ada, dataset)
    assert ada.get(f"/v1/jobs/{waiting}").json()["status"] == "succeeded"
    spend(house, ada, dataset)
    assert ada.get(f"/v1/jobs/{second}").json()["status"] == "queued"


def test_anchors_that_somebody_else_wrote_are_not_believed(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    spend(house, ada, dataset)
    path = house.settings.anchor_path
    fields = json.loads(path.read_text().splitlines()[-1])
    path.write_text(json.dumps(fields | {"seq": 1}) + "\n")
    assert ready(house) == "unavailable"
    assert house.admin.get("/v1/restore").json()["code"] == "anchors_unreadable"
    assert ada.post("/v1/jobs", json=job_body(dataset)).status_code == 503


def test_a_line_that_a_crash_tore_is_passed_over(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    spend(house, ada, dataset)
    path = house.settings.anchor_path
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(whole[: len(whole) // 2])
    assert ready(house) == "ok"
    spend(house, ada, dataset)
    assert ready(house) == "ok"
    assert house.services.vault.anchors.latest().popitem()[1].seq == 5


def test_what_moved_is_exported_once_to_file_log_and_webhook(
    tmp_path: Path,
    lines: Any,  # noqa: F811
) -> None:
    with listener() as (address, received), house_in(tmp_path, anchor_webhook=address) as house:
        dataset = house.dataset()
        exporter = Exporter(house.services)
        exporter.export()
        exporter.export()
        (sent,) = received
        assert {line["ledger"] for line in sent["anchors"]} == {
            dataset,
            "00000000-0000-0000-0000-000000000000",
        }
        written = [json.loads(line) for line in house.settings.anchor_path.read_text().splitlines()]
        assert written == sent["anchors"]
        said = [json.loads(line) for line in lines.getvalue().splitlines()]
        told = [line for line in said if line["event"] == "ledger_anchored"]
        assert {line["signature"] for line in told} == {line["signature"] for line in written}
        assert (house.settings.anchor_path.stat().st_mode & 0o777) == 0o600


def test_log_and_webhook_are_told_of_what_workers_paid(
    tmp_path: Path,
    lines: Any,  # noqa: F811
) -> None:
    """Though it is the worker that anchors it, and whoever sent before was killed."""
    with listener() as (address, received), house_in(tmp_path, anchor_webhook=address) as house:
        ada, dataset = house.user("analyst"), house.dataset()
        exporter = Exporter(house.services)
        spend(house, ada, dataset)
        exporter.export()
        exporter.export()
        Exporter(house.services).export()
        end = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"][-1]
        for sent in received:
            assert {a["ledger"]: a["head"] for a in sent["anchors"]}[dataset] == end["hash"]
        assert len(received) == 2
        said = [json.loads(line) for line in lines.getvalue().splitlines()]
        told = [line for line in said if line["event"] == "ledger_anchored"]
        assert end["hash"] in {line["head"] for line in told}


def test_a_webhook_that_is_away_is_sent_the_lines_later(tmp_path: Path) -> None:
    with (
        listener(fail=1) as (address, received),
        house_in(tmp_path, anchor_webhook=address) as house,
    ):
        house.dataset()
        now = 0.0
        exporter = Exporter(house.services, clock=lambda: now)
        exporter.round()
        assert received == []
        now += 30
        exporter.round()
        assert received == [], "the recovery process is not to wait for it all the time"
        now += 60
        exporter.round()
        assert len(received[0]["anchors"]) == 2


@contextmanager
def listener(fail: int = 0) -> Iterator[tuple[str, list[Any]]]:
    """Somebody who keeps anchors. fail: how many requests are answered with 500 first."""
    received: list[Any] = []
    left = [fail]

    class Keeper(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            left[0] -= 1
            if left[0] < 0:
                received.append(body)
            self.send_response(500 if left[0] >= 0 else 204)
            self.end_headers()

    with served(Keeper) as address:
        yield address, received


def test_no_anchor_holds_a_private_fact(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset(**METADATA)
    spend(house, ada, dataset)
    Exporter(house.services).export()
    for line in house.settings.anchor_path.read_text().splitlines():
        assert set(json.loads(line)) == {
            "ledger", "epoch", "seq", "head", "held", "status", "signature",
        }  # fmt: skip
