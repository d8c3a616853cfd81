"""The same people uploaded again: one budget for a declared population, a warning elsewhere."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.support import CSV, METADATA, Caller, House, as_csv, csv_rows, job_of

TOWN = {"population": "people of the town"}


def up(house: House, content: bytes = CSV, **changes: Any) -> dict[str, Any]:
    answer = house.admin.upload(content, METADATA | changes)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def spent(caller: Caller, dataset: str) -> tuple[float, float]:
    found = caller.get(f"/v1/datasets/{dataset}/budget").json()
    return found["spent"]["epsilon"], found["remaining"]["epsilon"]


def gone(house: House, dataset: str) -> None:
    assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 204


def seen(house: House) -> list[dict[str, Any]]:
    items = house.admin.get("/v1/audit?limit=200").json()["items"]
    return [entry for entry in items if entry["action"] == "dataset.rows_seen_before"]


def test_rows_that_come_back_are_told_to_their_admin_and_written_down(either_house: House) -> None:
    house = either_house
    first = up(house)
    assert first["warnings"] == []
    gone(house, first["id"])
    shuffled = as_csv(csv_rows()[::-1])
    again = up(house, shuffled, name="others")
    (warning,) = again["warnings"]
    assert warning["code"] == "rows_seen_before"
    assert (warning["dataset"], warning["kind"]) == (first["id"], "same_rows")
    assert warning["destroyed"]
    (entry,) = seen(house)
    assert entry["subject"] == again["id"]
    assert entry["details"]["like"][0]["dataset"] == first["id"]


def test_near_copies_and_renamed_columns_are_told_too(either_house: House) -> None:
    house = either_house
    first = up(house)["id"]
    rows = csv_rows()
    changed = as_csv([*rows[:180], *csv_rows(20, seed=9)])
    (near,) = up(house, changed)["warnings"]
    assert (near["dataset"], near["kind"]) == (first, "rows")
    assert near["share"] >= 0.9
    columns = [dict(column) for column in METADATA["columns"]]
    columns[0]["name"] = "years"
    renamed = CSV.replace(b"age", b"years", 1)
    found = {w["dataset"]: w["kind"] for w in up(house, renamed, columns=columns)["warnings"]}
    assert found[first] == "same_rows"


def test_other_people_are_no_reason_to_warn(either_house: House) -> None:
    for seed in range(5):
        assert up(either_house, as_csv(csv_rows(seed=seed)))["warnings"] == []
    assert seen(either_house) == []


def test_nobody_but_the_admin_who_uploads_sees_a_warning(either_house: House) -> None:
    house = either_house
    first, ada = up(house), house.user("analyst")
    plain = as_csv(csv_rows(seed=5))
    other, same = up(house, plain), up(house)

    def told(found: Mapping[str, Any]) -> set[str]:
        dataset = ada.get(f"/v1/datasets/{found['id']}").json()
        assert dataset["warnings"] == []
        return {*dataset, *ada.get(f"/v1/datasets/{found['id']}/budget").json()}

    assert same["warnings"]
    assert told(same) == told(other) == told(first)
    assert ada.get("/v1/audit").status_code == 403


def test_datasets_of_one_population_share_one_budget(either_house: House) -> None:
    """The same people, uploaded, spent and destroyed three times, have one budget."""
    house = either_house
    ada, remaining = house.user("analyst"), [4.0]
    before = ""
    for _ in range(3):
        found = up(house, **TOWN)
        assert found["warnings"] == []
        assert found["population"] == TOWN["population"]
        if before:
            assert spent(ada, found["id"]) == spent(ada, before)
        job = house.submit(ada, found["id"])
        house.run(job)
        assert ada.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
        remaining.append(spent(ada, found["id"])[1])
        gone(house, found["id"])
        before = found["id"]
    assert sorted(remaining, reverse=True) == remaining
    assert len(set(remaining)) == 4
    last = up(house, **TOWN)["id"]
    body = job_of(last) | {"privacy": {"epsilon": remaining[-1] + 0.1, "delta": 1e-6}}
    refused = ada.post("/v1/jobs", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exhausted")
    verified = house.admin.post(f"/v1/datasets/{last}/ledger/verify").json()
    assert verified["ok"], verified
    kinds = [e["kind"] for e in house.admin.get(f"/v1/datasets/{last}/ledger").json()["items"]]
    assert kinds.count("open") == 1
    assert kinds.count("join") == 3
    assert kinds.count("post") == 3


def test_a_population_goes_on_where_one_of_its_datasets_ends(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    one, two = up(house, **TOWN)["id"], up(house, as_csv(csv_rows(seed=3)), **TOWN)["id"]
    waiting, early = house.submit(ada, one), house.submit(ada, two)
    for archived in (False, True, False):
        done = house.admin.call("PATCH", f"/v1/datasets/{two}", json={"archived": archived})
        assert done.json()["status"] == ("archived" if archived else "open")
        if archived:
            refused = ada.post("/v1/jobs", json=job_of(two))
            assert refused.json()["code"] == "dataset_archived"
    assert ada.get(f"/v1/jobs/{early}").json()["status"] == "cancelled"
    other = house.submit(ada, two)
    gone(house, one)
    assert ada.get(f"/v1/jobs/{waiting}").json()["status"] == "cancelled"
    statuses = {d["id"]: d["status"] for d in ada.get("/v1/datasets").json()["items"]}
    assert statuses == {one: "destroyed", two: "open"}
    house.run(other)
    assert ada.get(f"/v1/jobs/{other}").json()["status"] == "succeeded"
    for dataset in (one, two):
        assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]


def test_a_raised_budget_and_a_cap_hold_for_the_whole_population(either_house: House) -> None:
    house = either_house
    ada = house.user("analyst")
    one, two = up(house, **TOWN)["id"], up(house, as_csv(csv_rows(seed=3)), **TOWN)["id"]
    raised = {"privacy": {"epsilon": 6.0}, "allotments": {ada.id: 1.0}}
    assert house.admin.call("PATCH", f"/v1/datasets/{two}", json=raised).is_success
    found = ada.get(f"/v1/datasets/{one}/budget").json()
    assert (found["dataset"], found["epsilon"]) == (one, 6.0)
    assert found["allotments"][ada.id]["epsilon"] == 1.0
    assert {item["dataset"] for item in ada.get("/v1/budget").json()["items"]} == {one, two}


@pytest.mark.parametrize(
    ("privacy", "pointer"),
    [
        ({"epsilon": 5.0}, "/metadata/privacy/epsilon"),
        ({"delta": 1e-7}, "/metadata/privacy/delta"),
        ({"branches": {"gdp": 0.5, "rdp": [[8, 0.5]]}}, "/metadata/privacy"),
    ],
)
def test_a_population_has_one_promise(
    either_house: House, privacy: dict[str, Any], pointer: str
) -> None:
    up(either_house, **TOWN)
    other = METADATA | TOWN | {"privacy": METADATA["privacy"] | privacy}
    refused = either_house.admin.upload(CSV, other)
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["pointer"] == pointer
    assert "share one budget" in fault["message"]
    assert len(list(either_house.settings.datasets_dir.glob("*.rows"))) == 1


def test_the_first_two_datasets_of_a_population_at_once_share_a_ledger(
    either_house: House,
) -> None:
    answers: list[dict[str, Any]] = []

    def upload(seed: int) -> None:
        answers.append(up(either_house, as_csv(csv_rows(seed=seed)), **TOWN))

    threads = [threading.Thread(target=upload, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    heads = {
        either_house.admin.post(f"/v1/datasets/{found['id']}/ledger/verify").json()["head"]
        for found in answers
    }
    assert len(heads) == 1
