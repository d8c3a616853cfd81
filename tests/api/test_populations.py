"""The same people uploaded again: one budget, declared or not, unless an admin says why."""

import json
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.api import support
from tests.api.support import CSV, Caller, House, as_csv, csv_rows, job_of

METADATA = {name: said for name, said in support.METADATA.items() if name != "separate_budget"}
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


APART = {"separate_budget": {"reason": "a trial of the same numbers in another town"}}


def wide(rows: int = 300, seed: int = 1) -> bytes:
    """Rows of which none is there twice."""
    draw = np.random.default_rng(seed)
    columns = draw.integers(20, 80, rows), draw.normal(50, 9, rows).round(3)
    return "\n".join(["age,pay", *(f"{a},{p}" for a, p in zip(*columns, strict=True))]).encode()


WIDE = [
    {"name": "age", "type": "number", "lower": 17, "upper": 90},
    {"name": "pay", "type": "number", "lower": 0, "upper": 100},
]


def ledger_of(house: House, dataset: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()[
        "items"
    ]
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]
    return entries


@pytest.mark.parametrize("ended", ["open", "archived", "destroyed"])
def test_rows_that_come_back_share_the_earlier_ledger(either_house: House, ended: str) -> None:
    """What was spent stays spent, also after the earlier dataset was archived or destroyed."""
    house = either_house
    first, ada = up(house), house.user("analyst")
    assert first["warnings"] == []
    assert "shares_ledger_with" not in first
    house.run(house.submit(ada, first["id"]))
    before = spent(ada, first["id"])
    assert before[0] > 0
    if ended == "archived":
        house.admin.call("PATCH", f"/v1/datasets/{first['id']}", json={"archived": True})
    if ended == "destroyed":
        gone(house, first["id"])
    again = up(house, as_csv(csv_rows()[::-1]), name="others")
    assert again["shares_ledger_with"] == first["id"]
    assert again["status"] == "open"
    (warning,) = again["warnings"]
    assert warning["code"] == "rows_seen_before"
    assert (warning["dataset"], warning["kind"]) == (first["id"], "same_rows")
    assert (warning["shared"], warning["destroyed"]) == (True, ended == "destroyed")
    assert spent(ada, again["id"]) == before
    house.run(house.submit(ada, again["id"]))
    after = spent(ada, again["id"])
    assert after[0] > before[0]
    assert spent(ada, first["id"]) == after
    assert ada.get(f"/v1/datasets/{first['id']}").json()["status"] == ended
    (entry,) = seen(house)
    assert entry["subject"] == again["id"]
    assert entry["details"]["shares_ledger_with"] == first["id"]
    (join,) = [one for one in ledger_of(house, again["id"]) if one["kind"] == "join"]
    assert join["details"]["like"]["dataset"] == first["id"]
    assert join["details"]["dataset"] == again["id"]
    third = up(house)
    assert third["shares_ledger_with"] == first["id"]
    gone(house, again["id"])
    assert ada.get(f"/v1/datasets/{third['id']}").json()["status"] == "open"


def test_a_reason_makes_another_budget_and_is_written_down(either_house: House) -> None:
    house = either_house
    first, ada = up(house), house.user("analyst")
    house.run(house.submit(ada, first["id"]))
    again = up(house, **APART)
    assert "shares_ledger_with" not in again
    assert spent(ada, again["id"]) == pytest.approx((0.0, 4.0))
    (warning,) = again["warnings"]
    assert (warning["dataset"], warning["shared"]) == (first["id"], False)
    (entry,) = seen(house)
    assert entry["details"]["separate_budget"] == APART["separate_budget"]["reason"]
    assert entry["actor"] is not None
    (opened,) = ledger_of(house, again["id"])
    assert opened["details"]["separate"]["reason"] == APART["separate_budget"]["reason"]
    assert opened["details"]["separate"]["like"][0]["dataset"] == first["id"]
    assert opened["actor"] == entry["actor"]
    fresh = up(house, as_csv(csv_rows(seed=8)), **APART)
    (opened,) = ledger_of(house, fresh["id"])
    assert "separate" not in opened["details"], "nothing was seen before"


@pytest.mark.parametrize("reason", [{}, {"reason": ""}, {"reason": "  "}, "because", {"why": "x"}])
def test_a_separate_budget_needs_a_reason(either_house: House, reason: Any) -> None:
    refused = either_house.admin.upload(CSV, METADATA | {"separate_budget": reason})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"].startswith("/metadata/separate_budget")


@pytest.mark.parametrize("earlier", ["copies", "part", "whole"])
def test_copies_parts_and_supersets_share_the_ledger(either_house: House, earlier: str) -> None:
    house, content = either_house, wide()
    head, *rows = content.split(b"\n")
    other = {
        "copies": [line for line in rows for _ in range(2)],
        "part": rows[:250],
        "whole": rows + wide(200, seed=2).split(b"\n")[1:],
    }[earlier]
    first = up(house, b"\n".join([head, *other]), columns=WIDE)
    again = up(house, content, columns=WIDE)
    assert again["shares_ledger_with"] == first["id"], again["warnings"]


def test_a_promise_that_the_shared_ledger_cannot_keep_is_refused(either_house: House) -> None:
    house = either_house
    first = up(house)["id"]
    for name, value in (("epsilon", 1.0), ("delta", 1e-8)):
        privacy = METADATA["privacy"] | {name: value}
        refused = house.admin.upload(CSV, METADATA | {"privacy": privacy})
        assert (refused.status_code, refused.json()["code"]) == (422, "rows_seen_before")
        assert refused.json()["dataset"] == first
        (fault,) = refused.json()["errors"]
        assert fault["pointer"] == f"/metadata/privacy/{name}"
        assert up(house, privacy=privacy, **APART)["privacy"][name] == value
    assert len(list(house.settings.datasets_dir.glob("*.rows"))) == 3
    wider = up(house, privacy=METADATA["privacy"] | {"epsilon": 9.0})
    assert wider["privacy"]["epsilon"] == 4.0, "the ledger's promise, not the larger one"


def test_a_population_takes_the_ledger_of_rows_that_it_comes_back_with(
    either_house: House,
) -> None:
    """Another name for the people is no reason for another budget."""
    house = either_house
    first = up(house)["id"]
    assert up(house, **TOWN)["shares_ledger_with"] == first
    assert up(house, as_csv(csv_rows(seed=3)), **TOWN)["shares_ledger_with"] == first
    other = up(house, as_csv(csv_rows(seed=4)), population="another town")["id"]
    refused = house.admin.upload(CSV, METADATA | {"population": "another town"})
    assert (refused.status_code, refused.json()["code"]) == (422, "rows_seen_before")
    assert refused.json()["errors"][0]["pointer"] == "/metadata/population"
    apart = up(house, population="another town", **APART)
    assert apart["shares_ledger_with"] == other
    joins = [one for one in ledger_of(house, other) if one["kind"] == "join"]
    assert joins[-1]["details"]["separate"]["reason"] == APART["separate_budget"]["reason"]


def test_holders_share_the_ledgers_of_rows_that_they_had_before(either_house: House) -> None:
    house = either_house
    holders = {"holders": {"names": ["north", "south"]}}
    north, south = as_csv(csv_rows(seed=1)), as_csv(csv_rows(seed=2))
    first = up(house, north)["id"]

    def pooled() -> dict[str, str]:
        parts = [("metadata", (None, json.dumps(METADATA | holders)))]
        parts += [("file", ("rows.csv", content)) for content in (north, south)]
        made = house.admin.post("/v1/datasets", files=parts)
        assert made.status_code == 201, made.text
        return {one["name"]: one["dataset"] for one in made.json()["holders"]} | {
            "pool": made.json()["id"]
        }

    pool = pooled()
    shared = {
        name: house.admin.get(f"/v1/datasets/{at}").json().get("shares_ledger_with")
        for name, at in pool.items()
    }
    assert shared == {"north": first, "south": None, "pool": None}
    ada = house.user("analyst")
    house.run(house.submit(ada, pool["pool"]))
    assert spent(ada, first)[0] > 0
    gone(house, pool["pool"])
    assert ada.get(f"/v1/datasets/{first}").json()["status"] == "open"
    assert up(house, south)["shares_ledger_with"] == pool["south"]
    for dataset in (first, *pool.values()):
        ledger_of(house, dataset)


def test_a_ledger_is_shared_with_a_dataset_that_is_named(either_house: House) -> None:
    house = either_house
    first = up(house)["id"]
    other = up(house, as_csv(csv_rows(seed=4)), shares_ledger_with=first)
    assert other["shares_ledger_with"] == first
    assert other["warnings"] == []
    for changes in (APART, TOWN, {"holders": {"names": ["a", "b"], "column": "h"}}):
        refused = house.admin.upload(CSV, METADATA | {"shares_ledger_with": first} | changes)
        assert refused.status_code == 422
    nobody = METADATA | {"shares_ledger_with": "11111111-1111-4111-8111-111111111111"}
    assert house.admin.upload(CSV, nobody).status_code == 422


def test_a_delta_is_told_of_all_rows_of_a_ledger_that_is_named(house: House) -> None:
    """The promise is for those of both; where they are the same ones it is for one of them."""
    privacy = {"neighbouring": "replace_one", "epsilon": 4.0, "delta": 0.016}
    rows = csv_rows(60, seed=9)
    first = up(house, as_csv(rows), privacy=privacy)["id"]
    shared = {"privacy": privacy, "shares_ledger_with": first}
    up(house, as_csv(rows), **shared)
    refused = house.admin.upload(as_csv(csv_rows(55, seed=13)), METADATA | shared)
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["pointer"] == "/metadata/privacy/delta"
    assert "with 175 rows" in fault["message"]


def test_tables_of_two_yes_or_no_columns_are_not_joined_by_accident(either_house: House) -> None:
    columns = METADATA["columns"][1:]
    content = b"sex,income\n" + b"\n".join(f"{sex},{pay}".encode() for _, sex, pay in csv_rows())
    up(either_house, content, columns=columns)
    again = up(either_house, content, columns=columns)
    assert "shares_ledger_with" not in again
    (warning,) = again["warnings"]
    assert warning["shared"] is False
    assert "shares_ledger_with" in warning["detail"]


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
    other, same = up(house, plain), up(house, **APART)
    shared = up(house)

    def told(found: Mapping[str, Any]) -> set[str]:
        dataset = ada.get(f"/v1/datasets/{found['id']}").json()
        assert dataset["warnings"] == []
        return {*dataset, *ada.get(f"/v1/datasets/{found['id']}/budget").json()}

    assert same["warnings"]
    assert shared["warnings"]
    assert told(same) == told(other) == told(first) == told(shared)
    auditor = house.user("auditor").get(f"/v1/datasets/{shared['id']}").json()
    assert auditor["shares_ledger_with"] == first["id"]
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
