"""Every operation of the OpenAPI document, asked by everybody: who gets what.

The document is walked, so a new operation without a line in EXPECTED fails.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from app.api.examples import EXAMPLES
from dpmcmc.base.private import Released
from tests.api.support import CSV, METADATA, Caller, House, draw_with, job_of

CALLERS = ("anonymous", "revoked", "owner", "other", "ungranted", "auditor", "admin")
ADMIN_ONLY = "401 401 403 403 403 403"
OVERSEERS = "401 401 403 403 403 200 200"
EVERYBODY = "401 401 200 200 200 200 200"
WITH_GRANT = "401 401 200 200 404 200 200"
OWN_JOB = "401 401 200 404 404 403 403"
PUBLIC = "200 200 200 200 200 200 200"
EXPECTED = {  # statuses in the order of CALLERS
    "GET /healthz": PUBLIC,
    "GET /readyz": PUBLIC,
    "GET /metrics": OVERSEERS,
    "POST /v1/datasets": f"{ADMIN_ONLY} 201",
    "POST /v1/datasets/inspect": f"{ADMIN_ONLY} 200",
    "POST /v1/datasets/schema": f"{ADMIN_ONLY} 200",
    "POST /v1/datasets/snapshots": f"{ADMIN_ONLY} 422",  # there is no such source
    "POST /v1/datasets/{id}/refresh": f"{ADMIN_ONLY} 409",  # it was uploaded
    "GET /v1/sources": f"{ADMIN_ONLY} 200",
    "GET /v1/datasets": EVERYBODY,
    "GET /v1/datasets/{id}": WITH_GRANT,
    "PATCH /v1/datasets/{id}": f"{ADMIN_ONLY} 200",
    "DELETE /v1/datasets/{id}": f"{ADMIN_ONLY} 204",
    "GET /v1/datasets/{id}/dummy": WITH_GRANT,
    "GET /v1/datasets/{id}/budget": WITH_GRANT,
    "GET /v1/datasets/{id}/ledger": OVERSEERS,
    "POST /v1/datasets/{id}/ledger/verify": OVERSEERS,
    "GET /v1/budget": EVERYBODY,
    "POST /v1/plans": "401 401 200 200 404 403 403",
    "POST /v1/jobs": "401 401 202 202 404 403 403",
    "GET /v1/jobs": "401 401 200 200 200 403 403",
    "GET /v1/jobs/{id}": OWN_JOB,
    "PATCH /v1/jobs/{id}": OWN_JOB,
    "GET /v1/jobs/events": OWN_JOB,
    "GET /v1/jobs/{id}/events": OWN_JOB,
    "GET /v1/jobs/{id}/chain": OWN_JOB,
    "GET /v1/jobs/{id}/summary": OWN_JOB,
    "POST /v1/jobs/{id}/posteriors": "401 401 409 404 404 403 403",  # it ran a chain
    "GET /v1/jobs/{id}/result": "401 401 409 404 404 403 403",  # and is no task
    "GET /v1/jobs/{id}/tables/{number}": "401 401 409 404 404 403 403",
    "POST /v1/jobs/{id}/inferences": "401 401 409 404 404 403 403",
    "POST /v1/jobs/{id}/cancel": "401 401 200 404 404 403 200",
    "POST /v1/users": f"{ADMIN_ONLY} 201",
    "GET /v1/users": f"{ADMIN_ONLY} 200",
    "GET /v1/users/me": EVERYBODY,
    "PATCH /v1/users/me": EVERYBODY,
    "GET /v1/users/{id}": f"{ADMIN_ONLY} 200",
    "PATCH /v1/users/{id}": f"{ADMIN_ONLY} 200",
    "DELETE /v1/users/me/keys": "401 401 204 204 204 204 204",
    "DELETE /v1/users/{id}/keys": f"{ADMIN_ONLY} 204",
    "GET /v1/keys/{id}": "401 401 200 404 404 404 200",
    "POST /v1/users/me/keys": "401 401 201 201 201 201 201",
    "POST /v1/users/{id}/keys": f"{ADMIN_ONLY} 201",
    "DELETE /v1/keys/{id}": "401 401 204 404 404 404 204",
    "POST /v1/access-requests": "401 401 201 201 404 403 403",
    "GET /v1/access-requests": EVERYBODY,
    "GET /v1/access-requests/{id}": "401 401 200 404 404 200 200",
    "PATCH /v1/access-requests/{id}": "401 401 403 403 403 403 200",  # only admins refuse
    "GET /v1/sign-in": PUBLIC,
    "GET /v1/audit": OVERSEERS,
    "POST /v1/audit/verify": OVERSEERS,
    "GET /v1/restore": OVERSEERS,
    "POST /v1/restore": f"{ADMIN_ONLY} 409",  # there is nothing to accept
    "GET /v1/models": EVERYBODY,
    "GET /v1/samplers": EVERYBODY,
    "POST /v1/accounting/compose": EVERYBODY,
    "POST /v1/accounting/noise": EVERYBODY,
    "POST /v1/accounting/steps": EVERYBODY,
    "POST /v1/accounting/statistic": "401 401 200 200 404 403 403",
}
GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 5.0}


class World:
    """A dataset that two analysts may use, a job that one of them ran, and everybody who asks."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.users = {name: house.user("analyst", name) for name in ("owner", "other", "ungranted")}
        self.users["auditor"], self.users["admin"] = house.user("auditor"), house.admin
        revoked = house.user("analyst", "revoked")
        (key,) = revoked.get("/v1/users/me").json()["keys"]
        house.admin.call("DELETE", f"/v1/keys/{key['id']}")
        self.users["revoked"] = revoked
        granted = [self.users[name].id for name in ("owner", "other", "revoked")]
        self.dataset = house.dataset(grants=granted)
        self.job = house.submit(self.users["owner"], self.dataset)
        house.run(self.job)

    def ask(self, who: str, method: str, path: str, **request: Any) -> int:
        if who == "anonymous":
            return int(self.house.http.request(method, path, **request).status_code)
        return self.users[who].call(method, path, **request).status_code

    def request(self, operation: str) -> tuple[str, dict[str, Any]]:
        """A valid request: its address, and what comes with it. What it uses up is made anew."""
        path = operation.split()[1]
        if path == "/v1/jobs/events":
            return f"{path}?job={self.job}", {}
        made: dict[str, Callable[[], str]] = {
            "DELETE /v1/datasets/{id}": self.house.dataset,
            "POST /v1/jobs/{id}/cancel": self._waiting,
            "GET /v1/users/{id}": lambda: self.users["owner"].id,
            "PATCH /v1/users/{id}": lambda: self.house.user("analyst").id,
            "DELETE /v1/users/{id}/keys": lambda: self.house.user("analyst").id,
            "GET /v1/keys/{id}": self._key,
            "POST /v1/users/{id}/keys": lambda: self.users["owner"].id,
            "DELETE /v1/keys/{id}": self._key,
            "GET /v1/access-requests/{id}": self._asked,
            "PATCH /v1/access-requests/{id}": self._asked,
        }
        usual = self.dataset if "datasets" in path else self.job
        identifier = made.get(operation, lambda: usual)()
        return path.replace("{id}", identifier).replace("{number}", "0"), self._body(operation)

    def _waiting(self) -> str:
        return self.house.submit(self.users["owner"], self.dataset, num_steps=5, num_chains=1)

    def _key(self) -> str:
        made = self.house.admin.post(f"/v1/users/{self.users['owner'].id}/keys")
        return str(made.json()["id"])

    def _asked(self) -> str:
        body = {"dataset": self.dataset, "reason": "a test"}
        made = self.users["owner"].post("/v1/access-requests", json=body)
        return str(made.json()["id"])

    def _body(self, operation: str) -> dict[str, Any]:
        job = job_of(self.dataset, num_steps=5, num_chains=1)
        bodies: dict[str, Any] = {
            "PATCH /v1/datasets/{id}": {"archived": False},
            "POST /v1/datasets/snapshots": EXAMPLES["SnapshotIn"],
            "POST /v1/plans": job,
            "POST /v1/jobs": job | {"privacy": {"noise_multiplier": 200.0, "delta": 1e-6}},
            "PATCH /v1/jobs/{id}": EXAMPLES["JobPatch"],
            "POST /v1/jobs/{id}/posteriors": {},
            "POST /v1/jobs/{id}/inferences": EXAMPLES["InferenceIn"],
            "POST /v1/users": {"name": f"new {len(self.house.sent)}", "role": "analyst"},
            "PATCH /v1/users/{id}": {"disabled": True},
            "PATCH /v1/users/me": EXAMPLES["MePatch"],
            "POST /v1/restore": {"accept": True, "reason": "a test"},
            "POST /v1/access-requests": {"dataset": self.dataset, "reason": "a test"},
            "PATCH /v1/access-requests/{id}": {"status": "refused"},
            "POST /v1/accounting/compose": {"events": [GAUSSIAN], "delta": 1e-6},
            "POST /v1/accounting/noise": EXAMPLES["NoiseIn"],
            "POST /v1/accounting/steps": EXAMPLES["StepsIn"],
            "POST /v1/accounting/statistic": EXAMPLES["StatisticChoiceIn"]
            | {"dataset": self.dataset},
        }
        if operation == "POST /v1/datasets":
            return {"files": {"file": ("rows.csv", CSV), "metadata": (None, json.dumps(METADATA))}}
        if operation == "POST /v1/datasets/inspect":
            return {"files": {"file": ("rows.csv", CSV)}}
        if operation == "POST /v1/datasets/schema":
            return {"files": {"schema": ("schema.csv", b"name,type,lower,upper\nage,,0,120\n")}}
        return {"json": bodies[operation]} if operation in bodies else {}


@pytest.fixture
def world(house: House, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    def draws(*_: Any) -> Iterator[Released[Any]]:
        yield Released(np.random.default_rng(1).normal(size=(2, 60, 3)))

    draw_with(monkeypatch, draws)
    monkeypatch.setattr(
        "app.services.queue.messages.ping", lambda: None
    )  # there is no broker in here
    return World(house)


def operations(house: House) -> list[str]:
    paths = house.http.get("/openapi.json").json()["paths"]
    return [f"{method.upper()} {path}" for path, item in paths.items() for method in item]


@pytest.mark.longer
def test_every_operation_answers_everybody_as_is_written_down(world: World) -> None:
    found = operations(world.house)
    assert set(found) == set(EXPECTED), "an operation without a line, or a line without one"
    wrong = []
    for operation in found:
        for who, expected in zip(CALLERS, EXPECTED[operation].split(), strict=True):
            path, body = world.request(operation)
            status = world.ask(who, operation.split()[0], path, **body)
            if status != int(expected):
                wrong.append(f"{operation} by {who}: {status}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_a_new_operation_needs_a_line(house: House) -> None:
    house.http.app.get("/v1/new")(lambda: {})  # type: ignore[attr-defined]
    house.http.app.openapi_schema = None  # type: ignore[attr-defined]
    assert set(operations(house)) - set(EXPECTED) == {"GET /v1/new"}


@pytest.mark.longer
def test_head_is_refused_where_get_is(world: World) -> None:
    for operation in (o for o in EXPECTED if o.startswith("GET")):
        for who, expected in zip(CALLERS, EXPECTED[operation].split(), strict=True):
            path, _ = world.request(operation)
            assert world.ask(who, "HEAD", path) == int(expected), (operation, who)


def test_the_revoked_key_worked_before(house: House) -> None:
    ada: Caller = house.user("analyst")
    assert ada.get("/v1/users/me").status_code == 200
