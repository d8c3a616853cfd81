"""Everything that goes wrong is a problem detail, and tells nothing that it should not."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from app.services.accounts import keys
from app.services.datasets import records
from tests.api.support import CSV, METADATA, House, house_in, job_of

SECRET = "row of Alice"


def checked(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"]
    problem: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    assert (problem["status"], problem["code"]) == (status, code)
    return problem


def test_an_unknown_address_is_404(house: House) -> None:
    checked(house.http.get("/v1/nowhere"), 404, "not_found")
    checked(house.http.get("/v1/datasets/"), 404, "not_found")


def test_an_unknown_method_is_405_and_names_those_that_there_are(house: House) -> None:
    answer = house.admin.call("PUT", "/v1/datasets")
    checked(answer, 405, "method_not_allowed")
    assert {m.strip() for m in answer.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", ""])
def test_another_media_type_is_415(house: House, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = house.admin.post("/v1/users", content=b"{}", headers=headers)
    checked(answer, 415, "unsupported_media_type")
    checked(house.admin.post("/v1/datasets", json={}), 415, "unsupported_media_type")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_422(house: House, body: bytes) -> None:
    kind = {"Content-Type": "application/json"}
    problem = checked(
        house.admin.post("/v1/users", content=body, headers=kind), 422, "invalid_request"
    )
    assert problem["errors"][0]["pointer"] == ""


def test_an_unknown_field_is_told_in_plain_words(house: House) -> None:
    body = job_of(house.dataset(), num_leapfrog=3) | {"sead": 1}
    faults = house.user("analyst").post("/v1/plans", json=body).json()["errors"]
    assert {fault["pointer"]: fault["message"] for fault in faults} == {
        "/sampler/num_leapfrog": "There is no such field here.",
        "/sead": "There is no such field here.",
    }


def test_a_query_that_is_out_of_range_is_422(house: House) -> None:
    answer = house.admin.get("/v1/datasets", params={"limit": 0})
    assert checked(answer, 422, "invalid_request")["errors"][0]["pointer"] == "/query/limit"


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_above_the_limit_is_413(tmp_path: Path, declared: bool) -> None:
    body = json.dumps({"name": "x" * 5000, "role": "analyst"}).encode()
    with house_in(tmp_path, max_body_bytes=2048) as house:
        kind = {"Content-Type": "application/json"}
        content = body if declared else iter([body[:1000], body[1000:]])
        answer = house.admin.post("/v1/users", content=content, headers=kind)
        checked(answer, 413, "body_too_large")


def test_an_unforeseen_error_tells_its_type_to_the_log_and_nothing_to_the_caller(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr(records, "dataset", broken)
    answer = house.admin.get("/v1/datasets/6f9619ff-8b86-4011-b42d-00c04fc964ff")
    checked(answer, 500, "internal_error")
    assert SECRET not in answer.text + caplog.text
    assert "KeyError" in caplog.text


def test_a_database_that_is_away_is_503(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("SELECT", {}, Exception(SECRET))

    monkeypatch.setattr(keys, "authenticate", away)
    answer = house.admin.get("/v1/datasets")
    checked(answer, 503, "unavailable")
    assert SECRET not in answer.text + caplog.text


@pytest.mark.parametrize("given", ["abc-123", "x" * 65, "a b", "ä"])
def test_a_request_id_is_taken_over_where_it_is_plain(house: House, given: str) -> None:
    told = house.http.get("/healthz", headers={"X-Request-ID": given.encode()}).headers
    assert (told["x-request-id"] == given) == (given == "abc-123")


def test_readiness_says_what_is_missing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.services.queue import messages

    assert house.http.get("/readyz").status_code == 200

    def away() -> None:
        raise ConnectionError("amqp://user:password@host")

    monkeypatch.setattr(messages, "ping", away)
    answer = house.http.get("/readyz")
    assert answer.status_code == 503
    working = ("database", "storage", "disk", "ledger", "worker")
    checks = {**dict.fromkeys(working, "ok"), "broker": "unavailable"}
    assert answer.json()["checks"] == checks


def test_metrics_name_no_dataset_user_or_job(house: House) -> None:
    ada = house.user("analyst")
    dataset = house.dataset()
    job = house.submit(ada, dataset)
    ada.get(f"/v1/jobs/{job}")
    ada.post("/v1/plans", json=job_of(dataset))
    text = house.admin.get("/metrics").text
    assert 'route="/v1/jobs/{id}"' in text
    assert 'dpmcmc_jobs{status="queued"} 1.0' in text
    assert not [word for word in (dataset, job, ada.id, "process_", "python_") if word in text]
    assert 'request_seconds_count{method="POST",route="/v1/datasets"' not in text


def unknown_kinds(count: int) -> dict[str, Any]:
    return {f"a{n}": {"kind": "x"} for n in range(count)}


def test_few_faults_are_all_told_and_many_are_counted(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()

    def refused(prior: Any) -> dict[str, Any]:
        body = job_of(dataset)
        body["model"]["prior"] = prior
        return checked(ada.post("/v1/plans", json=body), 422, "invalid_request")

    few = refused(unknown_kinds(3))
    assert [e["pointer"] for e in few["errors"]] == [f"/model/prior/a{n}/kind" for n in range(3)]
    some = refused(unknown_kinds(100))
    assert [e["pointer"] for e in some["errors"]] == [f"/model/prior/a{n}/kind" for n in range(20)]
    assert some["error_count"] == 100
    assert "100 faults" in some["detail"]
    many = refused(unknown_kinds(2000))
    assert [e["pointer"] for e in many["errors"]] == [f"/model/prior/a{n}/kind" for n in range(20)]
    assert many["error_count"] >= 2000
    most = refused(unknown_kinds(40_000))
    assert most["errors"][0]["message"].startswith("More than 5,000 values")


@pytest.mark.parametrize(
    ("prior", "pointer"),
    [
        ({"age": {"kind": "cauchy"}}, "/model/prior/age/kind"),
        ({"age": "normal(0)"}, "/model/prior/age"),
        ({"age": "normal(0, 1)", "sex[Male]": {"kind": "x"}}, "/model/prior/sex[Male]/kind"),
        ({"kind": "cauchy"}, "/model/prior/kind"),
        ("spike_and_slab()", "/model/prior"),
        (3, "/model/prior"),
        ({"kind": "normal", "scale": -1.0}, "/model/prior/scale"),
    ],
)
def test_a_prior_is_faulted_where_it_is_wrong(house: House, prior: Any, pointer: str) -> None:
    ada, body = house.user("analyst"), job_of(house.dataset())
    body["model"]["prior"] = prior
    refused = checked(ada.post("/v1/plans", json=body), 422, "invalid_request")
    assert [fault["pointer"] for fault in refused["errors"]] == [pointer]


def test_faults_behind_very_many_values_that_are_sound_are_counted(house: House) -> None:
    """Also where none is among the first, and what the first part lacks is not called missing."""
    columns = [{"name": f"c{n}", "type": "number", "lower": 0, "upper": 1} for n in range(500)]
    wrong = [{**one, "lower": "x", "upper": [], "z": 1, "y": 2, "x": 3} for one in columns]
    metadata = {f"unknown {n}": 1 for n in range(30)} | METADATA | {"columns": columns + wrong}
    answer = house.admin.upload(CSV, metadata)
    problem = checked(answer, 422, "invalid_request")
    assert problem["error_count"] > 2000
    assert all(e["pointer"].startswith("/metadata/unknown") for e in problem["errors"])
    answer = house.admin.upload(CSV, METADATA | {"columns": columns + wrong})
    assert "values are not valid" in checked(answer, 422, "invalid_request")["errors"][0]["message"]


def test_parameters_that_are_many_or_unknown_are_told_in_few_words(house: House) -> None:
    ada = house.user("analyst")
    query = "&".join(f"job=x{n}" for n in range(150))
    problem = checked(ada.get(f"/v1/jobs/events?{query}"), 422, "invalid_request")
    assert len(problem["errors"]) <= 20
    problem = checked(ada.get("/v1/jobs?" + "limit=1&" * 300), 422, "invalid_request")
    assert problem["errors"][0]["pointer"] == "/query"
