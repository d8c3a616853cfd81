"""Checks of a finished regression against the rows: whose, of what, and what is said."""

import re
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from pydantic import TypeAdapter
from sqlalchemy import delete, update

from app.api.schemas import TaskOut
from app.storage.rows import ChainBlockRow, JobRow
from dpmcmc.client.released import PredictiveCheck, task_of
from tests.api.support import Caller, House

DELTA, ROWS = 1e-6, 6000
METADATA = {
    "name": "visits",
    "privacy": {"neighbouring": "replace_one", "epsilon": 30.0, "delta": DELTA},
    "columns": [
        {"name": "age", "type": "number", "lower": 20, "upper": 80},
        {"name": "visits", "type": "number", "lower": 0, "upper": 60},
        {"name": "ill", "type": "binary", "categories": ["no", "yes"]},
    ],
}
POISSON = {"family": "poisson", "formula": "visits ~ age"}


def uploaded(house: House) -> str:
    rng = np.random.default_rng(1)
    age = rng.uniform(20, 80, ROWS)
    mean = np.exp(0.2 + 0.02 * (age - 50))
    visits = np.minimum(rng.negative_binomial(1.0, 1.0 / (1.0 + mean)), 60)
    ill = np.where(rng.random(ROWS) < 1.0 / (1.0 + np.exp(-0.05 * (age - 50))), "yes", "no")
    lines = ["age,visits,ill", *(f"{a},{v},{i}" for a, v, i in zip(age, visits, ill, strict=True))]
    answer = house.admin.upload("\n".join(lines).encode(), METADATA)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.fixture
def dataset(house: House) -> str:
    return uploaded(house)


def fitted(house: House, analyst: Caller, dataset: str, **changes: Any) -> str:
    body = {"dataset": dataset, "model": POISSON, "privacy": {"epsilon": 1.0, "delta": DELTA}}
    answer = analyst.post("/v1/jobs", json=body | {"accept_low_quality": True} | changes)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    return str(answer.json()["id"])


def asked(dataset: str, job: str, **task: Any) -> dict[str, Any]:
    made = {"kind": "predictive_check", "job": job, **task}
    return {"dataset": dataset, "task": made, "privacy": {"epsilon": 0.5, "delta": DELTA}}


def refused(analyst: Caller, body: dict[str, Any], words: str, pointer: str = "/task/job") -> None:
    for place in ("/v1/plans", "/v1/jobs"):
        answer = analyst.post(place, json=body)
        assert answer.status_code == 422, answer.text
        (error,) = answer.json()["errors"]
        assert error["pointer"] == pointer
        assert words in error["message"]


def spent(house: House, dataset: str) -> float:
    budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]
    return float(budget["spent"]["epsilon"])


def test_a_regression_is_checked_paid_for_and_told_in_words(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    job = fitted(house, analyst, dataset)
    before = spent(house, dataset)
    body = asked(dataset, job)
    plan = analyst.post("/v1/plans", json=body).json()
    assert (plan["algorithm"], plan["usable"]) == ("predictive_check", True)
    assert re.search(r"a misfit of [\d.]+ % of all rows in one bin would show", plan["reasons"][0])
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    place = f"/v1/jobs/{answer.json()['id']}"
    shown = analyst.get(place).json()
    assert shown["status"] == "succeeded", shown
    assert shown["spec"]["task"]["model"]["formula"] == "visits ~ age"
    assert shown["submitted"]["task"].get("model") is None
    assert spent(house, dataset) > before
    told = analyst.get(f"{place}/result")
    assert TypeAdapter(TaskOut).validate_json(told.content)
    found = told.json()
    assert (found["family"], found["by"], found["misfit"]) == ("poisson", "distribution", True)
    assert len(found["bins"]) == 10
    assert "negative_binomial" in found["sentences"][-1]
    typed = task_of(shown, found)
    assert isinstance(typed, PredictiveCheck)
    assert typed.bins[0].share == found["bins"][0]["share"]
    assert "negative_binomial" in str(typed)
    assert analyst.get(f"{place}/summary").status_code == 409
    for text, count in (("predictive check", 1), ("VISITS ~ age", 2), ("ill ~", 0)):
        assert len(analyst.get("/v1/jobs", params={"text": text}).json()["items"]) == count


def test_fitted_probabilities_are_checked(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    model = {"family": "logistic", "formula": "ill ~ age"}
    job = fitted(house, analyst, dataset, model=model)
    for epsilon, told in ((2.0, True), (0.005, False)):  # of which noise hides most bins
        privacy = {"epsilon": epsilon, "delta": DELTA}
        answer = analyst.post("/v1/jobs", json=asked(dataset, job, bins=8) | {"privacy": privacy})
        house.run(answer.json()["id"])
        found = analyst.get(f"/v1/jobs/{answer.json()['id']}/result").json()
        assert (found["by"], len(found["bins"])) == ("probability", 8)
        assert all(one["share"] is not None for one in found["bins"]) == told
        shown = analyst.get(f"/v1/jobs/{answer.json()['id']}").json()
        assert ("too few rows" in str(task_of(shown, found))) != told
        assert shown["verdict"]["status"] == ("reliable" if told else "unreliable")


def test_chains_are_checked_too(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    sampler = {"algorithm": "dp_penalty", "num_steps": 60, "num_chains": 2, "num_warmup": 20}
    job = fitted(house, analyst, dataset, sampler=sampler)
    answer = analyst.post("/v1/jobs", json=asked(dataset, job))
    house.run(answer.json()["id"])
    assert analyst.get(f"/v1/jobs/{answer.json()['id']}").json()["status"] == "succeeded"


def test_what_is_no_regression_of_ones_own_is_refused(house: House, dataset: str) -> None:
    analyst, other = house.user("analyst"), house.user("analyst")
    job = fitted(house, analyst, dataset)
    refused(other, asked(dataset, job), "is no job of yours")
    refused(other, asked(dataset, str(uuid4())), "is no job of yours")
    refused(analyst, asked(dataset, "x" * 50), "is no job of yours")
    refused(analyst, asked(uploaded(house), job), "of another dataset")
    dry = fitted(house, analyst, dataset, dry_run=True)
    refused(analyst, asked(dataset, dry), "dry run")
    check = analyst.post("/v1/jobs", json=asked(dataset, job)).json()["id"]
    refused(analyst, asked(dataset, check), "has not finished")
    house.run(check)
    refused(analyst, asked(dataset, check), "no regression")
    body = {"dataset": dataset, "model": POISSON, "privacy": {"epsilon": 1.0, "delta": DELTA}}
    queued = analyst.post("/v1/jobs", json=body).json()["id"]
    assert analyst.post(f"/v1/jobs/{queued}/cancel").status_code in (200, 202)
    refused(analyst, asked(dataset, queued), "cancelled")
    mean = {"family": "gaussian_mean", "formula": "~ age", "options": {"variances": [100.0]}}
    mean_job = fitted(house, analyst, dataset, model=mean)
    refused(analyst, asked(dataset, mean_job), "fit a regression")
    refused(analyst, asked(dataset, job, bins=3), "from 4 to 20", "/task/bins")
    model = {"family": "poisson", "formula": "visits ~ age"}
    refused(analyst, asked(dataset, job, model=model), "leave it out", "/task/model")
    assert house.user("analyst").post("/v1/plans", json=asked(dataset, job)).status_code == 422


@pytest.mark.parametrize("gone", ["expired", "deleted"])
def test_a_fit_that_is_deleted_meanwhile_costs_nothing(
    house: House, dataset: str, gone: str
) -> None:
    analyst = house.user("analyst")
    job = fitted(house, analyst, dataset)
    before = spent(house, dataset)
    check = analyst.post("/v1/jobs", json=asked(dataset, job)).json()["id"]
    with house.services.sessions.write() as session:
        session.execute(delete(ChainBlockRow).where(ChainBlockRow.job_id == UUID(job)))
        if gone == "expired":
            now = session.get_one(JobRow, UUID(job)).finished_at
            session.execute(update(JobRow).where(JobRow.id == UUID(job)).values(expired_at=now))
    house.run(check)
    found = analyst.get(f"/v1/jobs/{check}").json()
    assert (found["status"], found["error"]["code"]) == ("failed", "release_gone")
    assert spent(house, dataset) == before
    if gone == "expired":
        refused(analyst, asked(dataset, job), "run it again")
