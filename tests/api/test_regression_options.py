"""Averages of rows, sums of each holder and priors of covariates: over REST as in the library."""

import json
from typing import Any

import numpy as np
import pytest

from dpmcmc import JobSpec, ModelOptions, ModelSpec, PrivacySpec, Schema, plan, sample
from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.options import SufficientStatisticsOptions
from tests.api.support import Caller, House

ROWS, SIGMA, TRUTH = 2_000, 0.5, (0.3, 1.0)
BOUNDS = {"x": (-1, 1), "y": (-4, 4)}
EPSILON, DELTA = 8.0, 1e-7


def people() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    x = rng.uniform(-1, 1, ROWS)
    return {"x": x, "y": TRUTH[0] + TRUTH[1] * x + SIGMA * rng.standard_normal(ROWS)}


DATA = people()
PARTS = (1200, 800)
METADATA: dict[str, Any] = {
    "name": "clinics",
    "privacy": {"epsilon": 100.0, "delta": DELTA},
    "columns": [
        {"name": name, "type": "number", "lower": lower, "upper": upper}
        for name, (lower, upper) in BOUNDS.items()
    ],
}


def uploaded(house: House, holders: tuple[int, ...] = ()) -> str:
    lines = [f"{float(x)!r},{float(y)!r}" for x, y in zip(DATA["x"], DATA["y"], strict=True)]
    sizes, metadata = holders or (ROWS,), dict(METADATA)
    if holders:
        metadata["holders"] = {"names": [f"clinic {at}" for at in range(len(holders))]}
    parts: list[Any] = [("metadata", (None, json.dumps(metadata)))]
    ends = np.cumsum(sizes)
    for first, last in zip(ends - sizes, ends, strict=True):
        parts.append(("file", ("rows.csv", "\n".join(["x,y", *lines[first:last], ""]).encode())))
    answer = house.admin.post("/v1/datasets", files=parts)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def job_of(dataset: str, known: bool, **sampler: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": {
            "family": "linear",
            "formula": "y ~ x",
            "options": {"noise_scale": SIGMA} if known else {},
        },
        "sampler": {"algorithm": "sufficient_statistics"} | sampler,
        "privacy": {"epsilon": EPSILON, "delta": DELTA},
        "accept_low_quality": True,
    }


CASES: dict[str, tuple[bool, tuple[int, ...], dict[str, Any]]] = {
    "averages of four rows": (True, (), {"group": 4}),
    "averages of each holder's": (True, PARTS, {"group": 4, "num_holders": 2}),
    "averages of all holders' rows": (True, PARTS, {"group": 8}),
    "averages, another method": (True, (), {"group": 2, "method": "mcmc_fixeds"}),
    "averages, a ridge": (True, (), {"group": 4, "method": "adassp"}),
    "sums of each holder": (False, PARTS, {"num_holders": 2}),
    "a prior of covariates": (
        False,
        (),
        {"method": "mcmc_normalx", "covariance_scale": 3.0, "covariance_degrees": 50.0},
    ),
    "of whole rows": (False, (), {"method": "mcmc_bs", "covariance_scale": 0.01}),
    "of each holder's": (
        False,
        PARTS,
        {"method": "MCMC-normalX", "num_holders": 2, "covariance_degrees": 9.0},
    ),
}


def spec_of(known: bool, **sampler: Any) -> JobSpec:
    options = ModelOptions(noise_scale=SIGMA if known else None)
    return JobSpec(
        model=ModelSpec(family="linear", formula="y ~ x", options=options),
        sampler=SufficientStatisticsOptions(**sampler),
        privacy=PrivacySpec(epsilon=EPSILON, delta=DELTA),
    )


@pytest.mark.longer
@pytest.mark.parametrize("name", CASES)
def test_a_job_with_these_options_is_planned_run_and_read_as_in_the_library(
    house: House, name: str
) -> None:
    known, holders, sampler = CASES[name]
    schema = Schema.from_frame(DATA, BOUNDS, holders=holders)
    expected = plan(schema, spec_of(known, **sampler))
    analyst, dataset = house.user("analyst"), uploaded(house, holders)
    body = job_of(dataset, known, **sampler)
    planned = analyst.post("/v1/plans", json=body)
    assert planned.status_code == 200, planned.text
    assert planned.json()["epsilon"] == pytest.approx(expected.cost.epsilon, rel=1e-9)
    assert planned.json()["expected_width"] == pytest.approx(expected.expected_width, rel=1e-9)
    assert planned.json()["warnings"] == list(expected.warnings)

    job = ran(house, analyst, body)
    stored = analyst.get(f"/v1/jobs/{job}").json()
    for option, value in sampler.items():
        if option != "method":
            assert stored["spec"]["sampler"][option] == value
    assert stored["cost"]["epsilon"] == pytest.approx(expected.cost.epsilon, rel=1e-9)
    told = {one["name"]: one for one in summary(analyst, job)["parameters"]}
    fit = sample(
        DATA,
        schema=schema,
        model=spec_of(known).model,
        sampler=SufficientStatisticsOptions(**sampler),
        epsilon=EPSILON,
        delta=DELTA,
        accept_low_quality=True,
    )
    own = {one.name: one for one in fit.summary(mixing=False)}
    assert list(told) == list(own)
    for place, parameter in enumerate(("Intercept", "x")):
        here, there = told[parameter], own[parameter]
        assert here["sd"] == pytest.approx(there.sd, rel=0.6)  # two releases, two noises
        assert abs(here["mean"] - TRUTH[place]) < 5 * here["sd"]
        assert abs(there.mean - TRUTH[place]) < 5 * there.sd

    free = analyst.post(f"/v1/jobs/{job}/posteriors", json={})
    assert free.status_code == 200, free.text
    spent = analyst.get(f"/v1/datasets/{dataset}/budget").json()["spent"]["epsilon"]
    assert spent == pytest.approx(expected.cost.epsilon, rel=1e-3)


def ran(house: House, analyst: Caller, body: dict[str, Any]) -> str:
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    job = str(answer.json()["id"])
    house.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
    return job


def summary(analyst: Caller, job: str) -> dict[str, Any]:
    found: dict[str, Any] = analyst.get(f"/v1/jobs/{job}/summary").json()
    return found


def test_the_options_of_a_job_reach_its_release(house: House) -> None:
    """Averages are wider than single rows; a prior that is sure of wide covariates is narrow."""
    analyst, dataset = house.user("analyst"), uploaded(house)

    def sd_of(known: bool, epsilon: float, **sampler: Any) -> float:
        body = job_of(dataset, known, **sampler)
        body["privacy"]["epsilon"] = epsilon
        told = summary(analyst, ran(house, analyst, body))["parameters"]
        return float({one["name"]: one["sd"] for one in told}["x"])

    assert sd_of(True, EPSILON, group=8) > 2.0 * sd_of(True, EPSILON)
    sure = {"method": "mcmc_normalx", "covariance_degrees": 1e5}
    near, far = (sd_of(True, 0.05, **sure, covariance_scale=scale) for scale in (1e4, 1e6))
    assert near > 1.5 * far


@pytest.mark.longer
@pytest.mark.parametrize(
    ("known", "sampler", "option"),
    [
        (True, {"group": 3}, "group"),
        (True, {"group": 0}, "group"),
        (True, {"group": -4}, "group"),
        (True, {"group": ROWS * 2}, "group"),
        (True, {"group": 2.5}, "group"),
        (True, {"group": True}, "group"),
        (False, {"group": 4}, "group"),
        (True, {"group": 4, "method": "mcmc_bs"}, "group"),
        (True, {"group": 4, "method": "mcmc_normalx"}, "group"),
        (False, {"covariance_scale": 1.0}, "covariance_scale"),
        (False, {"covariance_scale": 0.0, "method": "mcmc_normalx"}, "covariance_scale"),
        (False, {"covariance_degrees": -1.0, "method": "mcmc_normalx"}, "covariance_degrees"),
        (False, {"covariance_degrees": 1e300, "method": "mcmc_bs"}, "covariance_degrees"),
        (False, {"covariance_degrees": "9", "method": "mcmc_bs"}, "covariance_degrees"),
        (False, {"covariance_degrees": 1.0, "method": "adassp"}, "covariance_degrees"),
        (False, {"num_holders": 2}, "num_holders"),
    ],
)
def test_what_does_not_suit_is_refused_by_its_name_in_both(
    house: House, known: bool, sampler: dict[str, Any], option: str
) -> None:
    schema = Schema.from_frame(DATA, BOUNDS)
    with pytest.raises(SpecError) as found:
        plan(schema, spec_of(known, **sampler))
    assert found.value.pointer == f"/sampler/{option}"
    answer = house.user("analyst").post("/v1/plans", json=job_of(uploaded(house), known, **sampler))
    assert answer.status_code == 422, answer.text
    pointers = [error["pointer"] for error in answer.json()["errors"]]
    assert pointers == [f"/sampler/{option}"]
