"""A grant withdrawn, a dataset archived, a key revoked: what waits does not run, and says why."""

import math
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from app.storage.rows import DatasetRow, GrantRow, JobRow, KeyRow
from app.storage.types import utc_now
from tests.api.support import Caller, House, draw_with
from tests.worker.test_outages import blocks_around
from worker.run import run

Act = Callable[[House, Caller, str], Any]


def patched(house: House, dataset: str, **changes: Any) -> None:
    answer = house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=changes)
    assert answer.status_code == 200, answer.text


def key_of(house: House, ada: Caller) -> str:
    return str(ada.get("/v1/users/me").json()["keys"][0]["id"])


ACTS: dict[str, Act] = {
    "grant_withdrawn": lambda house, _, dataset: patched(house, dataset, grants=[]),
    "dataset_archived": lambda house, _, dataset: patched(house, dataset, archived=True),
    "key_revoked": lambda house, ada, _: house.admin.call(
        "DELETE", f"/v1/keys/{key_of(house, ada)}"
    ),
    "dataset_destroyed": lambda house, _, dataset: house.admin.call(
        "DELETE", f"/v1/datasets/{dataset}"
    ),
}


def kinds(house: House, dataset: str) -> list[str]:
    entries = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    return [entry["kind"] for entry in entries if entry["kind"] in ("reserve", "post", "void")]


def another_key(house: House, ada: Caller) -> Caller:
    answer = house.admin.post(f"/v1/users/{ada.id}/keys", json={})
    return Caller(house.http, answer.json()["key"], ada.id)


@pytest.mark.parametrize("code", ACTS)
def test_what_waits_is_given_back_and_told(house: House, code: str) -> None:
    ada, other = house.user("analyst"), house.user("analyst")
    dataset = house.dataset(grants=[ada.id, other.id])
    also_ada = another_key(house, ada)
    job = house.submit(ada, dataset)
    with_other_key = house.submit(also_ada, dataset)
    ACTS[code](house, ada, dataset)
    ended = also_ada.get(f"/v1/jobs/{job}").json()
    assert (ended["status"], ended["error"]["code"]) == ("cancelled", code)
    assert "not charged" in ended["error"]["detail"]
    assert run(house.services, UUID(job)) is False
    spared = code == "key_revoked"  # of the same analyst, who came with another key
    assert kinds(house, dataset) == ["reserve", "reserve", "void"] + ["void"] * (not spared)
    status = also_ada.get(f"/v1/jobs/{with_other_key}").json()["status"]
    assert status == ("queued" if spared else "cancelled")
    reserved = house.admin.get(f"/v1/datasets/{dataset}/budget").json()["reserved"]["epsilon"]
    assert (reserved > 0) == spared
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]
    if code in ("grant_withdrawn", "dataset_archived"):
        (entry,) = house.admin.get("/v1/audit?action=dataset.amend").json()["items"]
        assert entry["details"]["jobs_stopped"] == 2


def test_a_grant_that_stays_keeps_its_jobs(house: House) -> None:
    ada, other = house.user("analyst"), house.user("analyst")
    dataset = house.dataset()
    mine, theirs = house.submit(ada, dataset), house.submit(other, dataset)
    patched(house, dataset, grants=[ada.id])
    assert ada.get(f"/v1/jobs/{mine}").json()["status"] == "queued"
    assert other.get(f"/v1/jobs/{theirs}").json()["error"]["code"] == "grant_withdrawn"
    patched(house, dataset, grants=None)
    house.run(mine)
    assert ada.get(f"/v1/jobs/{mine}").json()["status"] == "succeeded"


@pytest.mark.longer
@pytest.mark.parametrize("code", ACTS)
def test_what_runs_stops_stays_paid_and_says_why(
    house: House, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = house.user("analyst")
    dataset = house.dataset(grants=[ada.id])
    also_ada = another_key(house, ada)
    draw_with(monkeypatch, blocks_around(lambda: ACTS[code](house, ada, dataset)))
    job = house.submit(ada, dataset, num_steps=60_000)
    house.run(job)
    ended = also_ada.get(f"/v1/jobs/{job}").json()
    assert (ended["status"], ended["error"]["code"]) == ("cancelled", code)
    assert kinds(house, dataset) == ["reserve", "post"]


@pytest.mark.parametrize("code", ["grant_withdrawn", "dataset_archived", "key_revoked"])
def test_a_job_that_was_taken_in_at_that_very_moment_does_not_run(house: House, code: str) -> None:
    """Behind everybody's back: the change did not see the job."""
    ada = house.user("analyst")
    dataset = house.dataset(grants=[ada.id])
    job = house.submit(ada, dataset)
    with house.services.sessions.write() as session:
        if code == "grant_withdrawn":
            session.query(GrantRow).delete()
        elif code == "dataset_archived":
            session.execute(update(DatasetRow).values(archived_at=utc_now()))
        else:
            mine = KeyRow.user_id == UUID(ada.id)
            session.execute(update(KeyRow).where(mine).values(revoked_at=utc_now()))
    assert run(house.services, UUID(job)) is False
    with house.services.sessions.read() as session:
        row = session.get_one(JobRow, UUID(job))
        assert (row.status, row.error_code) == ("failed", code)
    assert kinds(house, dataset) == ["reserve", "void"]
    assert math.isclose(
        house.admin.get(f"/v1/datasets/{dataset}/budget").json()["reserved"]["epsilon"], 0.0
    )
