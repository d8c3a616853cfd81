"""What a client may expect of any REST API: requests sent twice, addresses, tags, parameters."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.api.openapi import OPERATIONS, PUBLIC
from app.services import idempotency
from tests.api.support import ADMIN, CSV, METADATA, Caller, House, house_in, job_of
from tests.api.test_access import ALLOWED


def with_key(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def made_with_keys(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if any(p["name"] == "Idempotency-Key" for p in operation.get("parameters", []))
    }


def test_what_makes_something_takes_an_idempotency_key_and_nothing_else_does(house: House) -> None:
    takes = made_with_keys(house.http.get("/openapi.json").json())
    assert takes == {
        ("POST", "/v1/datasets"),
        ("POST", "/v1/jobs"),
        ("POST", "/v1/jobs/{id}/inferences"),
        ("POST", "/v1/users"),
        ("POST", "/v1/users/me/keys"),
        ("POST", "/v1/users/{id}/keys"),
        ("POST", "/v1/access-requests"),
        ("POST", "/v1/datasets/snapshots"),
        ("POST", "/v1/datasets/{id}/refresh"),
    }
    callers = {role: house.user(role) for role in ("analyst", "auditor")} | {"admin": house.admin}
    for method, path in set(ALLOWED) - takes:
        caller = callers[min(ALLOWED[method, path])]
        answer = caller.call(method, path.replace("{id}", str(uuid4())), headers=with_key("a"))
        assert answer.status_code == 422, (method, path)
        assert answer.json()["errors"][0]["pointer"] == "/header/idempotency-key"


def test_no_route_takes_a_parameter_that_it_does_not_know(house: House) -> None:
    callers = {role: house.user(role) for role in ("analyst", "auditor")} | {"admin": house.admin}
    for (method, path), allowed in ALLOWED.items():
        address = path.replace("{id}", str(uuid4())).replace("{number}", "0")
        answer = callers[min(allowed)].call(method, address, params={"limmit": 3})
        assert answer.status_code == 422, (method, path)
        assert answer.json()["errors"][0]["pointer"] == "/query/limmit"
    for path in PUBLIC:
        assert house.http.get(path, params={"x": 1}).status_code == 422


def requests_of(house: House) -> dict[str, tuple[str, dict[str, Any]]]:
    """One request for each thing that is made, its address and what is sent."""
    user = house.user("analyst")
    upload = {"file": ("rows.csv", CSV), "metadata": (None, json.dumps(METADATA))}
    return {
        "user": ("/v1/users", {"json": {"name": "twice", "role": "analyst"}}),
        "key": (f"/v1/users/{user.id}/keys", {"json": {"label": "twice"}}),
        "own key": ("/v1/users/me/keys", {"json": {"label": "twice"}}),
        "own key without a body": ("/v1/users/me/keys", {}),
        "dataset": ("/v1/datasets", {"files": upload}),
    }


KINDS = ("user", "key", "own key", "own key without a body", "dataset")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_request_with_the_same_key_makes_one_thing(house: House, kind: str) -> None:
    path, sent = requests_of(house)[kind]
    first, again = (house.admin.post(path, headers=with_key("k"), **sent) for _ in range(2))
    assert first.status_code == again.status_code == 201, again.text
    assert first.json() | {"warnings": []} == again.json() | {"warnings": []}
    assert first.headers["location"] == again.headers["location"]
    found = house.admin.get(first.headers["location"])
    assert found.json()["id"] == first.json()["id"]
    if "key" in first.json():
        assert Caller(house.http, first.json()["key"]).get("/v1/users/me").status_code == 200
    other = house.admin.post(path, headers=with_key("another"), **sent)
    assert other.status_code == (409 if kind == "user" else 201)
    fresh = house.user("admin").post(path, headers=with_key("k"), **sent)
    assert fresh.json().get("id") != first.json()["id"]  # keys are each caller's own


def test_the_same_key_with_another_request_is_refused(house: House) -> None:
    every = requests_of(house)
    changed = {
        "user": {"json": {"name": "other", "role": "analyst"}},
        "own key": {"json": {"label": "other"}},
        "dataset": {
            "files": {
                "file": ("rows.csv", CSV + b"30,Male,<=50K\n"),
                "metadata": (None, json.dumps(METADATA)),
            }
        },
    }
    for kind, (path, sent) in every.items():
        assert (
            house.admin.post(path, headers=with_key(kind.replace(" ", "-")), **sent).status_code
            == 201
        ), kind
    for kind, sent in changed.items():
        answer = house.admin.post(every[kind][0], headers=with_key(kind.replace(" ", "-")), **sent)
        assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused"), kind
    path, sent = every["own key"]
    assert house.admin.post(path, headers=with_key("user"), **sent).status_code == 422


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_is_sent_twice_at_once_makes_one_thing(
    either_house: House, kind: str
) -> None:
    path, sent = requests_of(either_house)[kind]
    with ThreadPoolExecutor(6) as crowd:
        asked = [
            crowd.submit(either_house.admin.post, path, headers=with_key("k"), **sent)
            for _ in range(6)
        ]
        answers = [one.result() for one in asked]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_key_is_shown_again_for_a_day_only(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, sent in (requests_of(house)[kind] for kind in ("user", "own key")):
        assert house.admin.post(path, headers=with_key(path), **sent).status_code == 201
        monkeypatch.setattr(idempotency, "SHOWN_AGAIN", timedelta(0))
        answer = house.admin.post(path, headers=with_key(path), **sent)
        assert (answer.status_code, answer.json()["code"]) == (409, "key_not_shown_again")
        monkeypatch.undo()


def test_everything_that_is_made_has_an_address(house: House) -> None:
    document = house.http.get("/openapi.json").json()
    for item in document["paths"].values():
        for operation in item.values():
            if "201" in operation["responses"]:
                assert "Location" in operation["responses"]["201"]["headers"]
    ada, bob = house.user("analyst"), house.user("analyst")
    own = ada.post("/v1/users/me/keys", json={"label": "laptop"})
    key = ada.get(own.headers["location"]).json()
    assert (key["id"], key["user"], key["label"]) == (own.json()["id"], ada.id, "laptop")
    assert "key" not in key
    assert bob.get(own.headers["location"]).status_code == 404
    assert house.admin.get(own.headers["location"]).json() == key
    user = house.admin.get(f"/v1/users/{ada.id}").json()
    assert user in house.admin.get("/v1/users").json()["items"]
    assert house.admin.get(f"/v1/users/{uuid4()}").status_code == 404


@pytest.fixture
def few_keys(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path, max_keys_of_user=5) as made:
        yield made


def test_a_user_has_so_many_keys_and_revokes_all_of_them_at_once(few_keys: House) -> None:
    ada = few_keys.user("analyst")
    made = [ada.post("/v1/users/me/keys") for _ in range(5)]
    assert [answer.status_code for answer in made] == [201] * 4 + [409]
    assert made[-1].json()["code"] == "too_many_keys"
    assert few_keys.admin.post(f"/v1/users/{ada.id}/keys").status_code == 409
    stolen = Caller(few_keys.http, made[0].json()["key"])
    assert ada.call("DELETE", "/v1/users/me/keys").status_code == 204
    assert ada.call("DELETE", "/v1/users/me/keys").status_code == 204
    assert stolen.get("/v1/users/me").status_code == 401
    assert ada.get("/v1/users/me").status_code == 200
    assert ada.post("/v1/users/me/keys").status_code == 201
    assert few_keys.admin.call("DELETE", f"/v1/users/{ada.id}/keys").status_code == 204
    assert ada.get("/v1/users/me").status_code == 401
    own = few_keys.admin.get("/v1/users/me").json()["id"]
    assert few_keys.admin.call("DELETE", f"/v1/users/{own}/keys").status_code == 204
    assert few_keys.admin.get("/v1/users/me").status_code == 200
    acts = [act["action"] for act in few_keys.admin.get("/v1/audit").json()["items"]]
    assert acts.count("key.revoke") == 6


def test_the_last_admins_keys_are_not_all_revoked(house: House) -> None:
    other = house.user("admin")
    own = other.get("/v1/users/me").json()["id"]
    first = house.admin.get("/v1/users/me").json()["id"]
    assert house.admin.call("DELETE", f"/v1/users/{own}/keys").status_code == 204
    assert Caller(house.http, ADMIN).get(f"/v1/users/{first}").status_code == 200


def test_revoking_and_destroying_twice_are_answered_alike(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    key = ada.post("/v1/users/me/keys").json()["id"]
    for address in (f"/v1/keys/{key}", f"/v1/datasets/{dataset}"):
        answers = [house.admin.call("DELETE", address) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [204] * 3
        assert {answer.content for answer in answers} == {b""}
    acts = [act["action"] for act in house.admin.get("/v1/audit").json()["items"]]
    assert (acts.count("key.revoke"), acts.count("dataset.destroy")) == (1, 1)


def test_what_is_read_as_json_has_a_tag_and_need_not_come_again(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    job = house.submit(ada, dataset)
    for path in (
        *("/openapi.json", "/v1/models", "/v1/samplers", "/v1/datasets", f"/v1/datasets/{dataset}"),
        *("/v1/jobs", f"/v1/jobs/{job}", "/v1/budget"),
    ):
        first = ada.get(path)
        tag = first.headers["etag"]
        assert ada.get(path).headers["etag"] == tag
        for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            again = ada.get(path, headers={"If-None-Match": given})
            assert (again.status_code, again.content) == (304, b""), (path, given)
            assert again.headers["etag"] == tag
        assert ada.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    nobody = house.http.get("/v1/models", headers={"If-None-Match": "*"})
    assert nobody.status_code == 401
    before = ada.get(f"/v1/jobs/{job}").headers["etag"]
    ada.post(f"/v1/jobs/{job}/cancel")
    after = ada.get(f"/v1/jobs/{job}", headers={"If-None-Match": before})
    assert after.status_code == 200
    assert after.headers["etag"] != before


def test_jobs_say_of_which_kind_they_are(house: House) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    job = house.submit(ada, dataset)
    task = {"kind": "summaries", "statistics": [{"kind": "mean", "column": "age"}]}
    body = {"dataset": dataset, "task": task, "privacy": job_of(dataset)["privacy"]}
    other = ada.post("/v1/jobs", json=body).json()
    assert other["kind"] == "task"
    kinds = {one["id"]: one["kind"] for one in ada.get("/v1/jobs").json()["items"]}
    assert kinds == {job: "chain", other["id"]: "task"}


def test_operations_have_names_tags_and_headers_of_one_version(house: House) -> None:
    document = house.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "itemSchema" not in json.dumps(document)  # of 3.2
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    names = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            names.append(operation["operationId"])
            assert operation["operationId"].isidentifier()
            assert set(operation["tags"]) <= set(tags), path
            for status, answer in operation["responses"].items():
                if status == "304":
                    continue
                assert "X-Request-Id" in answer["headers"]
                assert ("RateLimit-Limit" in answer["headers"]) == (
                    path not in PUBLIC and status != "401"
                ), (method, path, status)
                assert ("Retry-After" in answer["headers"]) == (status in ("202", "429", "503"))
    assert sorted(names) == sorted(OPERATIONS.values())
    assert len(set(names)) == len(names)
    from jsonschema import Draft202012Validator

    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
