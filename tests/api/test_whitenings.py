"""A whitening is paid for once for a dataset and a set of columns, by each analyst."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, update

from app import ledger
from app.storage.rows import JobRow, ReleaseRow
from dpmcmc.privacy.event_json import from_dict
from dpmcmc.privacy.pld import leaves
from tests.api.support import METADATA, Caller, House, as_csv, csv_rows

MODEL = {"family": "logistic", "formula": "income ~ age + sex"}
TURNED = {"family": "linear", "formula": "age ~ sex"}
JOB = {"model": MODEL, "privacy": {"epsilon": 1.0, "delta": 1e-6}}
RELEASE = {"sampler": {"algorithm": "noisy_quadratic"}}


@pytest.fixture
def many(house: House) -> str:
    answer = house.admin.upload(as_csv(csv_rows(4000)), METADATA | {"privacy": PRIVACY})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


PRIVACY = {"neighbouring": "replace_one", "epsilon": 20.0, "delta": 1e-6}


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


def submitted(analyst: Caller, dataset: str, **changes: Any) -> dict[str, Any]:
    answer = analyst.post("/v1/jobs", json={"dataset": dataset, **JOB, **RELEASE, **changes})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def finished(house: House, analyst: Caller, dataset: str, **changes: Any) -> dict[str, Any]:
    job = submitted(analyst, dataset, **changes)
    house.run(job["id"])
    found: dict[str, Any] = analyst.get(f"/v1/jobs/{job['id']}").json()
    assert found["status"] == "succeeded", found
    return found


def used(job: dict[str, Any]) -> str | None:
    whitening: str | None = job["spec"]["sampler"]["whitening"]
    return whitening


def releases(house: House, job: str) -> int:
    """How many Gaussians a job was charged for."""
    with house.services.sessions.read() as session:
        event = from_dict(session.get_one(JobRow, UUID(job)).event)
    return sum((leaves(event) or {}).values())


def plan(analyst: Caller, dataset: str, **changes: Any) -> dict[str, Any]:
    answer = analyst.post("/v1/plans", json={"dataset": dataset, **JOB, **changes})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.usefixtures("known_noise")
def test_the_second_job_on_the_same_columns_pays_for_none(
    house: House, analyst: Caller, many: str
) -> None:
    before = plan(analyst, many, **RELEASE)
    first = finished(house, analyst, many)
    assert used(first) is None
    after = plan(analyst, many, **RELEASE)
    assert any(first["id"] in reason for reason in after["reasons"])
    assert after["expected_width"] < before["expected_width"]
    model = {"family": "logistic", "formula": "income ~ sex + age"}
    second = finished(house, analyst, many, model=model)
    assert used(second) == first["id"]
    assert second["verdict"]["status"] == "reliable"
    assert second["cost"]["epsilon"] <= 1.0
    assert releases(house, first["id"]) - releases(house, second["id"]) == 3
    with house.services.sessions.read() as session:
        assert ledger.verify(session, UUID(many)).ok
        kept = [session.get_one(ReleaseRow, UUID(job["id"])).content for job in (first, second)]
    own, again = (one["whitening"] for one in kept)
    assert [own[k] for k in (0, 2, 1)] == again  # the intercept, then the columns as they stand
    third = finished(house, analyst, many)
    assert used(third) == first["id"]  # the one that was paid for
    assert used(finished(house, analyst, many, model=TURNED)) is None


def test_a_job_may_pay_anew_or_name_the_one_to_use(
    house: House, analyst: Caller, many: str
) -> None:
    first = finished(house, analyst, many)
    fresh = finished(house, analyst, many, sampler=_sampler("new"))
    assert releases(house, fresh["id"]) == releases(house, first["id"])
    named = finished(house, analyst, many, sampler=_sampler(fresh["id"]))
    assert used(named) == fresh["id"]


@pytest.mark.usefixtures("known_noise")
def test_jobs_with_groups_leave_no_whitening_and_use_none(
    house: House, analyst: Caller, many: str
) -> None:
    """Their columns are those of the job without groups, and their releases hold no whitening."""
    grouped = {"family": "logistic", "formula": "income ~ age + (1 | sex)"}
    plain = {"family": "logistic", "formula": "income ~ age"}
    used_by = [
        used(finished(house, analyst, many, model=model, accept_low_quality=True))
        for model in (grouped, plain, grouped, plain)
    ]
    assert used_by[:3] == [None, None, None]
    assert used_by[3] is not None


def _sampler(whitening: str) -> dict[str, Any]:
    return {"algorithm": "noisy_quadratic", "whitening": whitening}


def test_another_analysts_whitening_is_neither_used_nor_known(
    house: House, analyst: Caller, many: str
) -> None:
    first = finished(house, analyst, many)
    other = house.user("analyst")
    assert plan(other, many, **RELEASE)["reasons"] == []
    assert used(submitted(other, many)) is None
    answers = [
        other.post("/v1/plans", json={"dataset": many, **JOB, "sampler": _sampler(name)})
        for name in (first["id"], str(uuid4()))
    ]
    assert [answer.status_code for answer in answers] == [422, 422]
    told, unknown = (answer.json()["errors"] for answer in answers)
    assert told == unknown
    assert told[0]["pointer"] == "/sampler/whitening"
    assert first["id"] not in told[0]["message"]


def test_another_dataset_has_its_own(house: House, analyst: Caller, many: str) -> None:
    finished(house, analyst, many)
    again = house.admin.upload(as_csv(csv_rows(4000, seed=2)), METADATA | {"privacy": PRIVACY})
    assert used(submitted(analyst, again.json()["id"])) is None


def test_a_job_that_showed_nothing_leaves_no_whitening(
    house: House, analyst: Caller, many: str
) -> None:
    job = submitted(analyst, many)["id"]
    assert used(submitted(analyst, many)) is None  # it is only queued
    analyst.post(f"/v1/jobs/{job}/cancel")
    assert used(submitted(analyst, many)) is None


def test_a_whitening_that_is_gone_fails_the_job_before_it_pays(
    house: House, analyst: Caller, many: str
) -> None:
    first = finished(house, analyst, many)
    second = submitted(analyst, many)
    assert used(second) == first["id"]
    with house.services.sessions.write() as session:
        session.execute(delete(ReleaseRow).where(ReleaseRow.job_id == UUID(first["id"])))
    spent = analyst.get(f"/v1/datasets/{many}/budget").json()["spent"]
    house.run(second["id"])
    ended = analyst.get(f"/v1/jobs/{second['id']}").json()
    assert (ended["status"], ended["error"]["code"]) == ("failed", "whitening_gone")
    budget = analyst.get(f"/v1/datasets/{many}/budget").json()
    assert budget["spent"] == spent
    assert budget["reserved"] == {"epsilon": 0.0}
    entries = house.admin.get(f"/v1/datasets/{many}/ledger").json()["items"]
    assert [entry["kind"] for entry in entries][-2:] == ["reserve", "void"]
    assert used(submitted(analyst, many)) is None  # the next one pays again


def test_one_that_is_spoilt_fails_the_job_before_it_pays(
    house: House, analyst: Caller, many: str
) -> None:
    first = finished(house, analyst, many)
    second = submitted(analyst, many)
    with house.services.sessions.write() as session:
        row = session.get_one(ReleaseRow, UUID(first["id"]))
        content = {**row.content, "whitening": [[0.0] * 3] * 3}
        session.execute(
            update(ReleaseRow).where(ReleaseRow.job_id == row.job_id).values(content=content)
        )
    house.run(second["id"])
    ended = analyst.get(f"/v1/jobs/{second['id']}").json()
    assert (ended["status"], ended["error"]["code"]) == ("failed", "whitening_gone")


def test_bounds_refuse_a_whitening_of_a_sampler_without_one(analyst: Caller, many: str) -> None:
    sampler = {"algorithm": "dp_penalty", "whitening": "new"}
    answer = analyst.post("/v1/plans", json={"dataset": many, **JOB, "sampler": sampler})
    assert answer.status_code == 422
