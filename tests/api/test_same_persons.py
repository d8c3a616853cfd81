"""Persons who are in several datasets: recognised by keyed digests, and on one ledger."""

import json
import threading
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import select

from app import rotate_key
from app.services import presence
from app.storage.rows import FingerprintRow
from dpmcmc.inputs.units import digest_of
from tests.api.support import Caller, House, house_in

TOWN = {"population": "people of the town"}
APART = {"separate_budget": {"reason": "they agreed to a further study"}}
METADATA: dict[str, Any] = {
    "name": "visits",
    "privacy": {"epsilon": 4.0, "delta": 1e-6},
    "columns": [
        {"name": "dose", "type": "number", "lower": 0, "upper": 10},
        {"name": "cured", "type": "binary", "categories": ["no", "yes"]},
    ],
    "privacy_unit": {"column": "patient", "max_rows": 3},
}


def rows_of(persons: range, seed: int) -> bytes:
    """Fresh rows of these persons, one to four each."""
    rng = np.random.default_rng(seed)
    lines = [
        f"p{person:05d},{rng.uniform(0, 10):.5f},{rng.choice(['no', 'yes'])}"
        for person in persons
        for _ in range(rng.integers(1, 5))
    ]
    return "\n".join(["patient,dose,cured", *rng.permutation(lines), ""]).encode()


def send(house: House, persons: range, seed: int, **changes: Any) -> Any:
    metadata = json.dumps(METADATA | changes)
    told = [("metadata", (None, metadata)), ("file", ("rows", rows_of(persons, seed)))]
    return house.admin.post("/v1/datasets", files=told)


def up(house: House, persons: range, seed: int, **changes: Any) -> dict[str, Any]:
    answer = send(house, persons, seed, **changes)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def seen(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in made["warnings"] if one["code"] == "rows_seen_before"]


def ledger_of(house: House, dataset: str, caller: Caller | None = None) -> list[dict[str, Any]]:
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]
    asking = caller or house.admin
    entries: list[dict[str, Any]] = asking.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    return entries


def spent(caller: Caller, dataset: str) -> float:
    return float(caller.get(f"/v1/datasets/{dataset}/budget").json()["spent"]["epsilon"])


def counted(house: House, dataset: str, epsilon: float = 1.0) -> None:
    """A job on the dataset, paid for and run."""
    body = {
        "dataset": dataset,
        "task": {"kind": "summaries", "statistics": [{"kind": "counts", "columns": ["cured"]}]},
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "accept_low_quality": True,
    }
    answer = house.user("analyst").post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])


@pytest.mark.parametrize("ended", ["open", "archived", "destroyed"])
def test_persons_who_come_back_share_the_earlier_ledger(either_house: House, ended: str) -> None:
    """Other rows of some of the same persons, under another name of the table and of columns."""
    house = either_house
    first = up(house, range(300), 1)
    counted(house, first["id"])
    if ended == "archived":
        house.admin.call("PATCH", f"/v1/datasets/{first['id']}", json={"archived": True})
    if ended == "destroyed":
        house.admin.call("DELETE", f"/v1/datasets/{first['id']}")
    again = up(house, range(280, 400), 2, name="a year later")
    assert again["shares_ledger_with"] == first["id"]
    (warning,) = seen(again)
    assert (warning["kind"], warning["persons"], warning["dataset"]) == ("persons", 20, first["id"])
    assert (warning["shared"], warning["destroyed"]) == (True, ended == "destroyed")
    assert warning["detail"].startswith("20 persons are in an earlier dataset as well")
    before = spent(house.admin, first["id"])
    assert spent(house.admin, again["id"]) == before > 0
    counted(house, again["id"])
    assert spent(house.admin, first["id"]) == spent(house.admin, again["id"]) > before


def test_one_person_in_both_is_enough_and_none_is_not(house: House) -> None:
    first = up(house, range(300), 1)
    for persons, seed, common in ((range(299, 500), 2, 1), (range(600, 800), 3, 0)):
        made = up(house, persons, seed)
        assert [one["persons"] for one in seen(made)] == [1] * common
        assert made.get("shares_ledger_with") == (first["id"] if common else None)


def test_ledger_and_trail_say_it_without_counts(house: House) -> None:
    first = up(house, range(300), 1)
    again = up(house, range(280, 400), 2)
    kept = {"dataset": first["id"], "destroyed": False, "kind": "persons", "sure": True}
    auditor = house.user("auditor")
    (join,) = [e for e in ledger_of(house, again["id"], auditor) if e["kind"] == "join"]
    assert join["details"]["like"] == kept
    trail = auditor.get("/v1/audit?limit=200").json()["items"]
    (entry,) = [one for one in trail if one["action"] == "dataset.rows_seen_before"]
    assert entry["details"]["like"] == [kept]
    assert entry["details"]["shares_ledger_with"] == first["id"]
    for caller in (house.admin, auditor, house.user("analyst")):
        assert seen(caller.get(f"/v1/datasets/{again['id']}").json()) == []


def test_a_reason_makes_another_budget_for_persons_too(house: House) -> None:
    first = up(house, range(300), 1)
    apart = up(house, range(280, 400), 2, **APART)
    assert "shares_ledger_with" not in apart
    (warning,) = seen(apart)
    assert (warning["persons"], warning["shared"]) == (20, False)
    (opened,) = ledger_of(house, apart["id"])
    assert opened["details"]["separate"]["reason"] == APART["separate_budget"]["reason"]
    assert opened["details"]["separate"]["like"][0]["dataset"] == first["id"]


def test_persons_of_two_ledgers_are_taken_once_an_admin_decides(house: House) -> None:
    one, two = up(house, range(300), 1)["id"], up(house, range(300, 600), 2)["id"]
    answer = send(house, range(290, 310), 3)
    assert (answer.status_code, answer.json()["code"]) == (422, "rows_seen_before")
    assert answer.json()["errors"][0]["pointer"] == "/metadata/shares_ledger_with"
    assert "datasets of 2 ledgers" in answer.text
    assert len(list(house.settings.datasets_dir.glob("*.rows"))) == 2
    made = up(house, range(290, 310), 3, shares_ledger_with=two)
    assert made["shares_ledger_with"] == two
    assert [(warning["dataset"], warning["persons"]) for warning in seen(made)] == [(one, 10)]
    assert "shares_ledger_with" not in up(house, range(290, 310), 4, **APART)


def test_a_population_does_not_take_persons_of_another_ledger(house: House) -> None:
    up(house, range(300), 1)
    town = up(house, range(300, 600), 2, **TOWN)["id"]
    answer = send(house, range(290, 310), 3, **TOWN)
    assert (answer.status_code, answer.json()["code"]) == (422, "rows_seen_before")
    assert answer.json()["errors"][0]["pointer"] == "/metadata/population"
    assert up(house, range(310, 330), 4, **TOWN)["shares_ledger_with"] == town
    assert up(house, range(290, 310), 5, **TOWN, **APART)["shares_ledger_with"] == town


def test_a_promise_that_the_shared_ledger_cannot_keep_is_refused_for_persons(house: House) -> None:
    first = up(house, range(300), 1)["id"]
    smaller = {"privacy": METADATA["privacy"] | {"epsilon": 1.0}}
    for changes, pointer in (
        (smaller, "/metadata/privacy/epsilon"),
        ({"privacy": METADATA["privacy"] | {"delta": 1e-8}}, "/metadata/privacy/delta"),
    ):
        answer = send(house, range(299, 400), 2, **changes)
        assert (answer.status_code, answer.json()["code"]) == (422, "rows_seen_before")
        assert answer.json()["errors"][0]["pointer"] == pointer
        assert answer.json()["dataset"] == first


def test_a_person_in_every_dataset_of_a_population_is_charged_for_all(house: House) -> None:
    """Also where datasets keep other numbers of rows, and jobs use fewer."""
    first = up(house, range(300), 1, **TOWN)
    unit = {"column": "patient", "max_rows": 5}
    later = up(house, range(300), 2, **TOWN, privacy_unit=unit)
    assert seen(later) == []  # it was declared
    counted(house, first["id"], 1.0)
    alone = spent(house.admin, first["id"])
    counted(house, later["id"], 1.0)
    both = spent(house.admin, first["id"])
    assert alone == pytest.approx(1.0, rel=0.01)
    assert 1.3 < both < 2.0  # two Gaussian events on one filter, composed
    assert both == spent(house.admin, later["id"])
    kinds = [entry["kind"] for entry in ledger_of(house, later["id"])]
    assert kinds == ["open", "join", "reserve", "post", "reserve", "post"]


def test_uploads_of_the_same_persons_at_once_share_a_ledger(either_house: House) -> None:
    answers: list[dict[str, Any]] = []

    def upload(seed: int) -> None:
        answers.append(up(either_house, range(50 * seed, 50 * seed + 100), seed))

    threads = [threading.Thread(target=upload, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared = [made.get("shares_ledger_with") for made in answers]
    assert sorted(map(bool, shared)) == [False, True]


def test_nothing_public_tells_who_is_in_both(house: House) -> None:
    """A population is declared: all that an analyst sees is the same, whoever is in both."""
    ada, found = house.user("analyst"), []
    own = ("id", "created_at", "dataset", "at", "population")
    for at, persons in enumerate((range(300), range(1000, 1300), range(299, 599))):
        town = {"population": f"town {at}"}
        base = 10_000 * at
        first = up(house, range(base, base + 300), 10 + at, **town)
        shifted = range(base + persons.start, base + persons.stop)
        made = up(house, shifted, 20 + at, **town)
        answers = [
            ada.get(f"/v1/datasets/{dataset}{what}").json()
            for dataset in (first["id"], made["id"])
            for what in ("", "/budget")
        ]
        found.append([{k: v for k, v in one.items() if k not in own} for one in answers])
        with house.services.sessions.read() as session:
            its = FingerprintRow.dataset_id == UUID(made["id"])
            found[-1].append(len(session.scalars(select(FingerprintRow.sealed).where(its)).one()))
    assert found[0] == found[1] == found[2]


def test_stored_digests_say_nothing_without_the_key(house: House) -> None:
    made, bare = up(house, range(300), 1), b"p00007"
    with house.services.sessions.read() as session:
        (row,) = session.scalars(select(FingerprintRow))
        sealed = row.sealed
    opened = house.services.vault.fingerprints.open(UUID(made["id"]), sealed)
    assert len(opened.persons) == 300
    key = house.services.vault.fingerprints.start([]).person_key
    known = digest_of("p00007", key)[:8]
    assert known in opened.to_bytes()
    assert known not in sealed
    assert bare not in opened.to_bytes()
    other = digest_of("p00007", bytes(32))[:8]
    assert other not in opened.to_bytes()


def test_persons_are_recognised_under_a_rotated_master_key(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "alive", lambda _: False)  # this process
    with house_in(tmp_path) as house:
        first, settings = up(house, range(300), 1)["id"], house.settings
        house.services.close()
    rotate_key.rotate(settings)
    with house_in(tmp_path) as house:
        again = up(house, range(299, 400), 2)
        assert again["shares_ledger_with"] == first
        house.services.close()
