"""An analyst asks for a dataset or for budget; an admin grants or refuses."""

from typing import Any

import pytest

from app.services.accounts.requests import MOST_OPEN
from tests.api.support import ADMIN, Caller, House, job_of, signed_in

WHY = "the yearly report"


def ask(analyst: Caller, **body: Any) -> Any:
    return analyst.post("/v1/access-requests", json={"reason": WHY, **body})


def answer(caller: Caller, request: Any, **body: Any) -> Any:
    return caller.call("PATCH", f"/v1/access-requests/{request['id']}", json=body)


def acts(house: House) -> list[str]:
    entries = house.admin.get("/v1/audit", params={"limit": 500}).json()["items"]
    return [entry["action"] for entry in entries]


def test_a_dataset_asked_for_by_name_is_opened_by_a_grant(house: House) -> None:
    ada = house.user("analyst")
    dataset = house.dataset(grants=[])
    assert ada.get(f"/v1/datasets/{dataset}").status_code == 404
    asked = ask(ada, dataset_name="the visits of 2023")
    assert asked.status_code == 201
    request = asked.json()
    assert asked.headers["location"] == f"/v1/access-requests/{request['id']}"
    assert request["status"] == "open"
    assert request["dataset"] is None
    unnamed = answer(house.admin, request, status="granted")
    assert unnamed.status_code == 422
    assert unnamed.json()["errors"][0]["pointer"] == "/dataset"
    granted = answer(house.admin, request, status="granted", dataset=dataset, allotment=1.5)
    assert granted.status_code == 200, granted.text
    changed = {"dataset": dataset, "access": True, "allotment": 1.5, "epsilon": None}
    assert granted.json()["granted"] == changed
    assert ada.get(f"/v1/datasets/{dataset}").status_code == 200
    budget = ada.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["allotments"][ada.id]["epsilon"] == 1.5
    seen = ada.get(f"/v1/access-requests/{request['id']}").json()
    assert seen["status"] == "granted"
    assert seen["decided_by"] == house.admin.get("/v1/users/me").json()["id"]
    assert {"request.create", "dataset.amend", "request.grant"} <= set(acts(house))
    entries = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    reasons = [entry["details"].get("reason", "") for entry in entries]
    assert sum(WHY in reason and request["id"] in reason for reason in reasons) == 2
    assert ada.get("/v1/users/me").json()["acts"][0]["action"] == "request.grant"


def test_nothing_says_whether_a_dataset_is_there(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset(grants=[])
    name = house.admin.get(f"/v1/datasets/{dataset}").json()["name"]
    here, gone = ask(ada, dataset_name=name), ask(ada, dataset_name="no such thing")
    assert here.status_code == gone.status_code == 201
    differ = {key for key in here.json() if here.json()[key] != gone.json()[key]}
    assert differ == {"id", "created_at", "dataset_name"}
    assert ask(ada, dataset=dataset).status_code == 404


def test_a_budget_is_raised_so_that_the_job_fits(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    caps = {"allotments": {ada.id: 0.1}}
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=caps)
    job = job_of(dataset)
    assert ada.post("/v1/jobs", json=job).json()["code"] == "budget_exhausted"
    wanted = {name: value for name, value in job.items() if name != "dataset"}
    request = ask(ada, dataset=dataset, epsilon=0.5, job=wanted).json()
    assert request["job"]["model"]["formula"] == "income ~ age + sex"
    assert (
        answer(house.admin, request, status="granted", allotment=0.6, epsilon=6.0).status_code
        == 200
    )
    assert ada.post("/v1/jobs", json=job).status_code == 202
    assert house.admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"] == 6.0


def test_a_grant_that_the_ledger_refuses_changes_nothing(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset(grants=[])
    request = ask(ada, dataset_name="people").json()
    lower = answer(
        house.admin, request, status="granted", dataset=dataset, epsilon=0.5, allotment=0.2
    )
    assert lower.status_code == 422
    assert lower.json()["errors"][0]["pointer"] == "/privacy/epsilon"
    assert house.admin.get(f"/v1/access-requests/{request['id']}").json()["status"] == "open"
    assert ada.get(f"/v1/datasets/{dataset}").status_code == 404


def test_decided_once(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    request = ask(ada, dataset=dataset).json()
    assert answer(house.admin, request, status="refused", answer="not now").status_code == 200
    again = answer(house.admin, request, status="refused", answer="never")
    assert again.status_code == 200
    assert again.json()["answer"] == "not now"
    late = answer(house.admin, request, status="granted", allotment=1.0)
    assert late.status_code == 409
    assert late.json()["code"] == "request_decided"
    assert answer(ada, request, status="withdrawn").status_code == 409
    own = ask(ada, dataset=dataset).json()
    assert answer(ada, own, status="withdrawn").json()["status"] == "withdrawn"
    assert acts(house).count("request.refuse") == 1


def test_an_analyst_answers_no_request_and_sees_no_others(house: House) -> None:
    ada, bob, dataset = house.user("analyst"), house.user("analyst"), house.dataset()
    request = ask(ada, dataset=dataset).json()
    assert answer(ada, request, status="granted", allotment=4.0).status_code == 403
    assert answer(bob, request, status="withdrawn").status_code == 404
    assert bob.get(f"/v1/access-requests/{request['id']}").status_code == 404
    assert bob.get("/v1/access-requests").json()["items"] == []
    listed = house.admin.get("/v1/access-requests", params={"status": "open"}).json()["items"]
    assert [item["id"] for item in listed] == [request["id"]]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"dataset_name": "x", "dataset": "00000000-0000-4000-8000-000000000000"},
        {"dataset_name": "x", "epsilon": 0.0},
        {"dataset_name": "x", "job": {}},
        {"dataset_name": "x", "reason": " "},
        {"dataset_name": ""},
    ],
)
def test_what_is_no_request_is_refused(house: House, body: dict[str, Any]) -> None:
    assert ask(house.user("analyst"), **body).status_code == 422


def test_a_job_that_cannot_be_planned_is_named(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    answered = ask(ada, dataset=dataset, job={"model": {"family": "cubic", "formula": "y ~ x"}})
    pointers = {error["pointer"] for error in answered.json()["errors"]}
    assert answered.status_code == 422
    assert all(one.startswith("/job/") for one in pointers)


def test_sent_twice_with_one_key_asks_once(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    headers = {"Idempotency-Key": "a"}
    body = {"dataset": dataset, "reason": WHY}
    first, second = (
        ada.post("/v1/access-requests", json=body, headers=headers).json() for _ in range(2)
    )
    assert first["id"] == second["id"]
    other = ada.post("/v1/access-requests", json={**body, "epsilon": 1.0}, headers=headers)
    assert other.status_code == 422
    assert other.json()["code"] == "idempotency_key_reused"


def test_only_so_many_wait(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    asked = [ask(ada, dataset=dataset) for _ in range(MOST_OPEN + 1)]
    assert [one.status_code for one in asked] == [201] * MOST_OPEN + [429]
    assert asked[-1].json()["code"] == "too_many_requests_open"
    answer(ada, asked[0].json(), status="withdrawn")
    assert ask(ada, dataset=dataset).status_code == 201


def test_pages_ask_and_grant(house: House) -> None:
    ada, dataset = house.user("analyst", "Ada"), house.dataset()
    csrf = signed_in(house, ada.key)
    job = {"csrf": csrf, "dataset": dataset, "formula": "income ~ age", "epsilon": "9"}
    plan = house.http.post("/jobs/plan", data=job)
    assert 'formaction="/requests/new"' in plan.text
    form = house.http.post("/requests/new", data=job)
    assert form.status_code == 200
    assert "income ~ age" in form.text
    sent = {"csrf": csrf, "again": "one", "dataset": dataset, "epsilon": "9"}
    sent |= {"job": '{"model": {"formula": "income ~ age"}, "privacy": {"epsilon": 9}}'}
    silent = house.http.post("/requests", data=sent)
    assert silent.status_code == 422
    assert "/reason" in silent.text
    body = sent | {"job": "", "reason": "the <b>report</b>"}
    asked = house.http.post("/requests", data=body, follow_redirects=False)
    assert asked.status_code == 303
    page = house.http.get("/requests").text
    assert "the &lt;b&gt;report" in page
    assert "Withdraw" in page
    (request,) = ada.get("/v1/access-requests").json()["items"]
    house.http.cookies.clear()
    csrf = signed_in(house, ADMIN)
    page = house.http.get("/requests").text
    assert "Ada" in page
    assert "this analyst has no cap" in page
    address = f"/requests/{request['id']}"
    given = {"csrf": csrf, "status": "granted", "epsilon": "12", "answer": ""}
    lower = house.http.post(address, data=given | {"epsilon": "1"})
    assert lower.status_code == 422
    assert "never lowered" in lower.text
    shown = house.http.post(address, data=given, follow_redirects=False)
    assert "from epsilon 4 to 12" in shown.text
    assert house.admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"] == 4.0
    house.http.post(address, data=given | {"reason": "for once"}, follow_redirects=False)
    assert house.admin.get(f"/v1/datasets/{dataset}/budget").json()["epsilon"] == 12.0
    assert "for once" in house.http.get("/requests").text
