"""Jobs that an earlier version queued: run as they were paid for, or ended before they pay."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from app.storage.rows import JobRow
from tests.api.support import Caller, House, job_of

OLD = {"share": 0.25, "noise_multiplier": 3.0, "num_scores": 4}


@pytest.fixture
def dataset(house: House) -> str:
    return house.dataset()


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


def queued(house: House, analyst: Caller, dataset: str, **sampler: Any) -> str:
    """A job whose resolved sampler has these options beside its own."""
    answer = analyst.post("/v1/jobs", json=job_of(dataset))
    assert answer.status_code == 202, answer.text
    job = str(answer.json()["id"])
    with house.services.sessions.write() as session:
        row = session.get_one(JobRow, UUID(job))
        told = {**row.resolved, "sampler": {**row.resolved["sampler"], **sampler}}
        session.execute(update(JobRow).where(JobRow.id == row.id).values(resolved=told))
    return job


@pytest.mark.parametrize(
    "sampler", [{"warm_start": OLD}, {"num_steps": "many"}, {"algorithm": "noisy_score"}]
)
def test_what_this_version_does_not_know_fails_before_it_pays(
    house: House, analyst: Caller, dataset: str, sampler: dict[str, Any]
) -> None:
    job = queued(house, analyst, dataset, **sampler)
    house.run(job)
    ended = analyst.get(f"/v1/jobs/{job}").json()
    assert (ended["status"], ended["error"]["code"]) == ("failed", "job_outdated")
    budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
    assert (budget["spent"], budget["reserved"]) == ({"epsilon": 0.0}, {"epsilon": 0.0})
    entries = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [entry["kind"] for entry in entries][-2:] == ["reserve", "void"]


def test_an_option_that_was_not_used_hinders_nothing(
    house: House, analyst: Caller, dataset: str
) -> None:
    job = queued(house, analyst, dataset, warm_start=None)
    house.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
