"""Datasets over HTTP: taken in, shown, changed, destroyed."""

import io
from typing import Any

import httpx
import pyarrow
import pyarrow.parquet
import pytest

from tests.api.support import CSV, METADATA, House, csv_rows, job_of


def test_upload_answers_201_with_its_location_and_public_metadata(house: House) -> None:
    answer = house.admin.upload()
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/datasets/{made['id']}"
    assert made["rows"] == 200
    assert made["privacy"] == METADATA["privacy"]
    assert made["columns"][1] == METADATA["columns"][1]
    assert house.admin.get(answer.headers["location"]).json() == made


def test_metadata_may_come_before_or_after_the_file(house: House) -> None:
    import json

    parts = [("metadata", (None, json.dumps(METADATA))), ("file", ("rows.csv", CSV))]
    assert house.admin.post("/v1/datasets", files=parts).status_code == 201


def test_parquet_is_taken_like_csv(house: House) -> None:
    ages, sexes, incomes = zip(*csv_rows(), strict=True)
    table = pyarrow.table({"age": [int(a) for a in ages], "sex": sexes, "income": incomes})
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out)
    assert house.admin.upload(out.getvalue()).json()["rows"] == 200


def test_rows_are_stored_encrypted(house: House) -> None:
    house.dataset()
    (stored,) = house.settings.datasets_dir.glob("*.rows")
    assert b"Male" not in stored.read_bytes()
    assert not [p for p in house.settings.data_dir.rglob("*") if p.suffix in (".csv", ".part")]


def test_a_new_budget_is_untouched(house: House) -> None:
    dataset = house.dataset()
    budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["dataset"] == dataset
    assert budget["spent"] == {"epsilon": 0.0}
    assert budget["reserved"] == {"epsilon": 0.0}
    assert budget["remaining"]["epsilon"] == pytest.approx(4.0)
    assert budget["mu_spent"] == 0.0
    assert budget["jobs"] == 0


def test_a_budget_says_how_many_jobs_of_an_epsilon_it_has_room_for(house: House) -> None:
    """As many as the ledger takes, one after the other: they add up in mu squared."""
    dataset, ada = house.dataset(), house.user("analyst")
    asked = f"/v1/datasets/{dataset}/budget?job_epsilon=1.5"
    assert allot(house, dataset, {ada.id: 2.5}).status_code == 200
    told = ada.get(asked).json()
    assert told["jobs_left"] > told["allotments"][ada.id]["jobs_left"] >= 2
    body = job_of(dataset) | {"privacy": {"epsilon": 1.5, "delta": 1e-6}}
    for left in range(told["allotments"][ada.id]["jobs_left"], 0, -1):
        assert ada.get(asked).json()["allotments"][ada.id]["jobs_left"] == left
        assert ada.post("/v1/jobs", json=body).status_code == 202
    assert ada.get(asked).json()["allotments"][ada.id]["jobs_left"] == 0
    assert ada.post("/v1/jobs", json=body).json()["code"] == "budget_exhausted"
    plain = ada.get(f"/v1/datasets/{dataset}/budget").json()
    assert "jobs_left" not in plain | plain["allotments"][ada.id]
    for wrong in ("0", "-1", "nan", "inf", "1e5", "one"):
        answer = ada.get(f"/v1/datasets/{dataset}/budget?job_epsilon={wrong}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_a_budget_says_what_a_raise_would_do(house: House) -> None:
    """What it says comes true when the budget is raised."""
    dataset, ada = house.dataset(), house.user("analyst")
    house.submit(ada, dataset)
    path = f"/v1/datasets/{dataset}/budget"
    told = house.admin.get(f"{path}?job_epsilon=1&raised_to=25").json()
    assert told["epsilon"] == 4.0
    assert told["raised"]["epsilon"] == 25.0
    assert [one["code"] for one in told["raised"]["warnings"]] == ["weak_promise"]
    assert "raised" not in house.admin.get(path).json()
    assert "jobs_left" not in house.admin.get(f"{path}?raised_to=5").json()["raised"]
    for wrong in ("3", "0", "nan", "1e300", "x"):
        answer = house.admin.get(f"{path}?raised_to={wrong}")
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (
            422,
            "/query/raised_to",
        )
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"privacy": {"epsilon": 25}})
    after = house.admin.get(f"{path}?job_epsilon=1").json()["jobs_left"]
    assert abs(after - told["raised"]["jobs_left"]) <= 1


def test_raising_the_budget_is_a_ledger_entry(house: House) -> None:
    dataset = house.dataset()
    answer = house.admin.call(
        "PATCH", f"/v1/datasets/{dataset}", json={"privacy": {"epsilon": 5.0}}
    )
    assert answer.json()["privacy"]["epsilon"] == 5.0
    kinds = [e["kind"] for e in house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]]
    assert kinds == ["open", "raise_budget"]


def test_ledger_and_audit_say_who_changed_what_from_what_to_what_and_why(house: House) -> None:
    dataset, ada = house.dataset(), house.user("analyst")
    path = f"/v1/datasets/{dataset}"

    def written(**changes: object) -> tuple[dict[str, Any], dict[str, Any]]:
        answer = house.admin.call("PATCH", path, json=changes)
        assert answer.status_code == 200, answer.text
        entry = house.admin.get(f"{path}/ledger").json()["items"][-1]
        act = house.admin.get("/v1/audit?action=dataset.amend").json()["items"][-1]
        assert entry["actor"] == act["actor"] is not None
        assert entry["details"]["reason"] == act["details"]["reason"] == changes["reason"]
        return entry["details"], act["details"]

    entry, act = written(privacy={"epsilon": 30.0}, reason="a second study, approved by the board")
    assert (entry["from"], entry["epsilon"]) == ({"epsilon": 4.0}, 30.0)
    assert act["before"] == {"privacy": {"epsilon": 4.0}}
    assert act["changes"]["privacy"]["epsilon"] == 30.0
    _, act = written(grants=[ada.id], reason="for one team")
    assert (act["before"], act["changes"]) == ({"grants": None}, {"grants": [ada.id]})
    _, act = written(allotments={ada.id: 2.0}, reason="half")
    assert act["before"] == {"allotments": {ada.id: None}}
    _, act = written(archived=True, reason="the study is over")
    assert act["before"] == {"archived": False}
    assert house.admin.call("DELETE", f"{path}?reason=consent%20withdrawn").status_code == 204
    entries = house.admin.get(f"{path}/ledger").json()["items"]
    assert entries[-1]["details"]["reason"] == "consent withdrawn"
    acts = house.admin.get("/v1/audit?action=dataset.destroy").json()["items"]
    assert acts[-1]["details"] == {"reason": "consent withdrawn"}
    assert house.admin.post(f"{path}/ledger/verify").json()["ok"]
    why = {"disabled": True, "reason": "left"}
    assert house.admin.call("PATCH", f"/v1/users/{ada.id}", json=why).status_code == 200
    acts = house.admin.get("/v1/audit?action=user.disable").json()["items"]
    assert acts[-1]["details"]["reason"] == "left"


@pytest.mark.parametrize("wrong", [{"reason": "alone"}, {"archived": True, "reason": " "}])
def test_a_reason_needs_words_and_a_change(house: House, wrong: dict[str, object]) -> None:
    answer = house.admin.call("PATCH", f"/v1/datasets/{house.dataset()}", json=wrong)
    assert answer.status_code == 422


def test_a_budget_is_never_lowered(house: House) -> None:
    dataset = house.dataset()
    answer = house.admin.call(
        "PATCH", f"/v1/datasets/{dataset}", json={"privacy": {"epsilon": 3.0}}
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/privacy/epsilon"


def test_a_patch_that_fails_in_part_changes_nothing(house: House) -> None:
    dataset = house.dataset()
    changes = {"archived": True, "privacy": {"epsilon": 1.0}}
    assert house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=changes).status_code == 422
    assert house.admin.get(f"/v1/datasets/{dataset}").json()["status"] == "open"


def test_archived_datasets_take_no_jobs_until_they_are_opened_again(house: House) -> None:
    dataset, analyst = house.dataset(), house.user("analyst")
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"archived": True})
    refused = analyst.post("/v1/jobs", json=job_of(dataset))
    assert (refused.status_code, refused.json()["code"]) == (409, "dataset_archived")
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"archived": False})
    assert analyst.post("/v1/jobs", json=job_of(dataset)).status_code == 202


def allot(house: House, dataset: str, caps: dict[str, float | None]) -> httpx.Response:
    return house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"allotments": caps})


def test_an_allotment_caps_one_analyst_and_says_so(house: House) -> None:
    ada, bob, dataset = house.user("analyst"), house.user("analyst"), house.dataset()
    house.submit(ada, dataset)
    assert allot(house, dataset, {ada.id: 0.6}).status_code == 200
    offer = ada.post("/v1/plans", json=job_of(dataset)).json()
    assert offer["affordable"] is False
    refused = ada.post("/v1/jobs", json=job_of(dataset))
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (409, "budget_exhausted")
    assert problem["of"] == "allotment"
    assert "allotment" in problem["detail"]
    assert problem["requested"]["epsilon"] == pytest.approx(0.5)
    assert 0 < problem["remaining"]["epsilon"] < 0.5
    house.submit(bob, dataset)
    assert allot(house, dataset, {ada.id: None}).status_code == 200
    house.submit(ada, dataset)
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]


def test_a_job_beyond_the_datasets_budget_says_that_it_is_the_datasets(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    allot(house, dataset, {ada.id: 100.0})
    body = job_of(dataset)
    body["privacy"]["epsilon"] = 5.0
    problem = ada.post("/v1/jobs", json=body).json()
    assert (problem["code"], problem["of"]) == ("budget_exhausted", "dataset")


def test_allotments_are_told_to_overseers_and_to_each_analyst_the_own(house: House) -> None:
    ada, bob, dataset = house.user("analyst"), house.user("analyst"), house.dataset()
    auditor, caps = house.user("auditor"), {ada.id: 1.0, bob.id: 2.0}
    assert "allotments" not in ada.get(f"/v1/datasets/{dataset}/budget").json()
    allot(house, dataset, dict(caps))
    house.submit(ada, dataset)
    for overseer in (house.admin, auditor):
        for found in (
            overseer.get(f"/v1/datasets/{dataset}/budget").json(),
            next(i for i in overseer.get("/v1/budget").json()["items"] if i["dataset"] == dataset),
        ):
            assert {who: own["epsilon"] for who, own in found["allotments"].items()} == caps
    (own,) = ada.get(f"/v1/datasets/{dataset}/budget").json()["allotments"].items()
    assert own[0] == ada.id
    assert own[1]["spent"]["epsilon"] == pytest.approx(0.5, rel=1e-6)
    assert 0.4 < own[1]["remaining"]["epsilon"] < 0.9
    assert list(bob.get(f"/v1/datasets/{dataset}/budget").json()["allotments"]) == [bob.id]
    (listed,) = bob.get("/v1/budget").json()["items"]
    assert list(listed["allotments"]) == [bob.id]
    carol = house.user("analyst")
    assert "allotments" not in carol.get(f"/v1/datasets/{dataset}/budget").json()


def test_every_change_of_an_allotment_is_a_ledger_entry(house: House) -> None:
    ada, bob, dataset = house.user("analyst"), house.user("analyst"), house.dataset()
    for caps in ({ada.id: 1.0, bob.id: 0.0}, {ada.id: 1.0, bob.id: None}, {bob.id: None}):
        assert allot(house, dataset, caps).status_code == 200
    entries = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    changes = [e["details"] for e in entries if e["kind"] == "allot"]
    assert sorted(changes[:2], key=str) == sorted(
        [{"analyst": ada.id, "epsilon": 1.0}, {"analyst": bob.id, "epsilon": 0.0}], key=str
    )
    assert changes[2:] == [{"analyst": bob.id, "epsilon": None}]


def test_allotments_that_cannot_be_are_refused_and_change_nothing(house: House) -> None:
    ada, auditor, dataset = house.user("analyst"), house.user("auditor"), house.dataset()
    nobody = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
    for caps in ({nobody: 1.0}, {ada.id: 1.0, auditor.id: 1.0}, {ada.id: -1.0}, {"ada": 1.0}):
        answer = allot(house, dataset, caps)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"].startswith("/allotments")
    path = f"/v1/datasets/{dataset}"
    assert house.admin.call("PATCH", path, json={"allotments": None}).status_code == 422
    assert ada.call("PATCH", path, json={"allotments": {ada.id: 9.0}}).status_code == 403
    assert len(house.admin.get(f"{path}/ledger").json()["items"]) == 1


def test_grants_hide_a_dataset_from_everybody_else(house: House) -> None:
    ada, bob = house.user("analyst"), house.user("analyst")
    dataset = house.dataset(grants=[ada.id])
    assert ada.get(f"/v1/datasets/{dataset}").status_code == 200
    assert bob.get(f"/v1/datasets/{dataset}").status_code == 404
    assert bob.get("/v1/budget").json()["items"] == []
    assert bob.post("/v1/plans", json=job_of(dataset)).status_code == 404
    assert bob.post("/v1/jobs", json=job_of(dataset)).status_code == 404
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"grants": None})
    assert bob.get(f"/v1/datasets/{dataset}").status_code == 200


def test_grants_name_users_that_exist(house: House) -> None:
    nobody = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
    answer = house.admin.upload(metadata=METADATA | {"grants": [nobody]})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/metadata/grants/0"
    assert list(house.settings.datasets_dir.iterdir()) == []


def test_grants_are_told_to_admins_only(house: House) -> None:
    ada = house.user("analyst")
    dataset = house.dataset(grants=[ada.id])
    assert house.admin.get(f"/v1/datasets/{dataset}").json()["grants"] == [ada.id]
    assert ada.get(f"/v1/datasets/{dataset}").json()["grants"] is None


def test_destroyed_rows_are_gone_and_the_ledger_stays(house: House) -> None:
    dataset, analyst = house.dataset(), house.user("analyst")
    queued = house.submit(analyst, dataset)
    assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 204
    assert list(house.settings.datasets_dir.glob("*.rows")) == []
    assert house.admin.get(f"/v1/datasets/{dataset}").json()["status"] == "destroyed"
    assert analyst.get(f"/v1/jobs/{queued}").json()["status"] == "cancelled"
    assert analyst.post("/v1/jobs", json=job_of(dataset)).json()["code"] == "dataset_destroyed"
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]
    assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 204


def test_lists_come_in_pages(house: House) -> None:
    made = [house.dataset(name=f"d{n}") for n in range(5)]
    seen, cursor = [], None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = house.admin.get("/v1/datasets", params=query).json()
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


def test_ledger_comes_in_pages_oldest_first(house: House) -> None:
    dataset, analyst = house.dataset(), house.user("analyst")
    for _ in range(4):
        house.submit(analyst, dataset)
    first = house.admin.get(f"/v1/datasets/{dataset}/ledger", params={"limit": 3}).json()
    rest = house.admin.get(
        f"/v1/datasets/{dataset}/ledger", params={"limit": 3, "cursor": first["next_cursor"]}
    ).json()
    assert [e["seq"] for e in first["items"] + rest["items"]] == [1, 2, 3, 4, 5]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["x", "%%%", "AAAA", "Zm9vfGJhcg"])
def test_a_foreign_cursor_is_refused(house: House, cursor: str) -> None:
    answer = house.admin.get("/v1/datasets", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/query/cursor"
