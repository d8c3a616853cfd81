"""What a job gives and leaves open: POST /v1/plans, POST /v1/jobs and the library say the same."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.releases import RELEASES
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.api.support import ROWS, House

DELTA = 1e-6
PATHS = ("plans", "jobs")
PROMISE = {"epsilon": 1000.0, "delta": DELTA, "branches": {"gdp": 0.5, "rdp": [[2, 0.5]]}}
PRIVACY = tuple(itertools.product((None, 1.0), (None, 30.0)))
MODELS: dict[str, dict[str, Any]] = {
    "linear": {"family": "linear", "formula": "age ~ sex"},
    "logistic": {"family": "logistic", "formula": "income ~ age + sex"},
    "gaussian_mean": {
        "family": "gaussian_mean",
        "formula": "~ age",
        "options": {"variances": (100.0,)},
    },
}
SCHEMA = Schema(
    columns=(
        NumberColumn(name="age", lower=17, upper=90),
        CategoryColumn(name="sex", categories=("Female", "Male")),
        BinaryColumn(name="income", categories=("<=50K", ">50K")),
    ),
    rows=ROWS,
)


def asked(name: str) -> Iterator[tuple[dict[str, Any], JobSpec]]:
    """Every job of an algorithm as the service and as the library take it, without a dataset."""
    families = RELEASES[name].families if name in RELEASES else MODELS
    model = next(model for family, model in MODELS.items() if family in families)
    gradients = (None, 30.0) if name in ("dp_hmc", "dp_mala") else (None,)
    for steps, chains, noise in itertools.product((None, 50), (None, 2), gradients):
        given = {"num_steps": steps, "num_chains": chains, "gradient_noise_multiplier": noise}
        given = {option: value for option, value in given.items() if value is not None}
        for epsilon, z in PRIVACY:
            privacy = {"delta": DELTA, "epsilon": epsilon, "noise_multiplier": z}
            privacy = {option: value for option, value in privacy.items() if value is not None}
            body = {"model": model, "privacy": privacy, "accept_low_quality": True}
            spec = JobSpec(
                model=ModelSpec(**model | {"options": ModelOptions(**model.get("options", {}))}),
                sampler=ALGORITHMS[name].options(**given),
                privacy=PrivacySpec(**privacy),
            )
            yield body | {"sampler": {"algorithm": name, **given}}, spec


def in_the_library(spec: JobSpec) -> float | tuple[str, str]:
    """What the plan of a job costs, or where and why there is none."""
    try:
        return plan(SCHEMA, spec, advise=False).cost.epsilon
    except SpecError as error:
        return error.pointer, error.message


@pytest.mark.longer
@pytest.mark.parametrize("name", ALGORITHMS)
def test_plans_jobs_and_the_library_agree(house: House, name: str) -> None:
    analyst, dataset = house.user("analyst"), house.dataset(privacy=PROMISE)
    planned = 0
    for body, spec in asked(name):
        answers = [analyst.post(f"/v1/{path}", json=body | {"dataset": dataset}) for path in PATHS]
        expected = in_the_library(spec)
        if isinstance(expected, tuple):
            for answer in answers:
                assert answer.status_code == 422, (body, answer.text)
                errors = [(e["pointer"], e["message"]) for e in answer.json()["errors"]]
                assert errors == [expected], body
            continue
        plans, jobs = answers
        assert plans.status_code == 200, (body, plans.text)
        assert jobs.status_code == (202 if plans.json()["affordable"] else 409), (body, jobs.text)
        assert plans.json()["epsilon"] == pytest.approx(expected), body
        if jobs.status_code == 202:
            assert jobs.json()["cost"]["epsilon"] == pytest.approx(expected), body
            analyst.post(f"/v1/jobs/{jobs.json()['id']}/cancel")
        planned += 1
    assert planned
