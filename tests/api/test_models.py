"""Jobs of every family through the boundary, options and all."""

import pytest

from dpmcmc import planner
from tests.api.support import METADATA

MODELS = {
    "linear": ({"formula": "age ~ sex"}, ["Intercept", "sex[Male]", "log_sigma"]),
    "poisson": ({"formula": "age ~ sex"}, ["Intercept", "sex[Male]"]),
    "gaussian_mean": (
        {"formula": "~ age", "options": {"variances": [100.0], "ratio_slope": 3}},
        ["age"],
    ),
}


def body(dataset, family, model):
    return {
        "dataset": dataset,
        "model": {"family": family, **model},
        "sampler": {"algorithm": "dp_penalty", "num_steps": 40, "num_chains": 1},
        "privacy": {"epsilon": 0.5, "delta": 1e-6},
    }


@pytest.mark.parametrize("family", MODELS)
def test_a_job_of_the_family_releases_a_chain_with_its_parameters(house, family):
    model, names = MODELS[family]
    analyst = house.user("analyst")
    answer = analyst.post("/v1/jobs", json=body(house.dataset(), family, model))
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    summary = analyst.get(f"/v1/jobs/{answer.json()['id']}/summary")
    assert [item["name"] for item in summary.json()["parameters"]] == names


@pytest.mark.parametrize(
    ("family", "model", "pointer"),
    [
        ("gaussian_mean", {"formula": "~ age", "options": {"slope": 1.0}}, "/model/options/slope"),
        ("poisson", {"formula": "age ~ sex", "options": {"noise_scale": 1.0}}, None),
        ("banana", {"formula": "~ age", "options": {"coordinates": "polar"}}, None),
    ],
)
def test_options_of_no_use_are_refused(house, family, model, pointer):
    answer = house.user("analyst").post("/v1/plans", json=body(house.dataset(), family, model))
    assert answer.status_code == 422
    pointers = [error["pointer"] for error in answer.json()["errors"]]
    assert pointers
    assert pointer is None or pointers == [pointer]


MINIBATCH = ["dp_penalty_subsampled", "dp_barker"]
SHARED = {"epsilon": 4.0, "delta": 1e-6, "branches": {"gdp": 0.5, "rdp": [[16, 0.5]]}}


def on_minibatches(dataset, algorithm):
    return {
        "dataset": dataset,
        "model": {"family": "logistic", "formula": "income ~ age + sex"},
        "sampler": {"algorithm": algorithm, "num_steps": 40, "num_chains": 1, "batch": 4},
        "privacy": {"noise_multiplier": 60.0, "delta": 1e-6},
    }


@pytest.mark.parametrize("algorithm", MINIBATCH)
def test_a_renyi_branch_pays_for_secret_minibatches(house, algorithm):
    analyst, dataset = house.user("analyst"), house.dataset(privacy=SHARED)
    told = analyst.get(f"/v1/datasets/{dataset}").json()["privacy"]
    assert told["branches"] == SHARED["branches"]
    job = analyst.post("/v1/jobs", json=on_minibatches(dataset, algorithm))
    assert job.status_code == 202, job.text
    assert job.json()["cost"]["mu"] is None
    house.run(job.json()["id"])
    assert analyst.get(f"/v1/jobs/{job.json()['id']}").json()["status"] == "succeeded"
    budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
    assert 0 < budget["spent"]["epsilon"] <= 4.0
    assert budget["mu_spent"] is None


@pytest.mark.parametrize("algorithm", MINIBATCH)
def test_a_gaussian_promise_says_why_it_cannot_pay_for_them(house, algorithm):
    analyst, dataset = house.user("analyst"), house.dataset()
    for path in ("/v1/plans", "/v1/jobs"):
        answer = analyst.post(path, json=on_minibatches(dataset, algorithm))
        assert answer.status_code == 422
        assert [e["pointer"] for e in answer.json()["errors"]] == ["/sampler/algorithm"]


@pytest.mark.parametrize("algorithm", MINIBATCH)
def test_what_cannot_be_paid_for_is_refused_before_it_is_planned(house, algorithm, monkeypatch):
    analyst, dataset = house.user("analyst"), house.dataset()
    monkeypatch.setattr(planner, "plan", lambda *_, **__: pytest.fail("it was planned"))
    body = on_minibatches(dataset, algorithm)
    body |= {"sampler": {"algorithm": algorithm}, "privacy": {"epsilon": 1.0, "delta": 1e-6}}
    for path in ("/v1/plans", "/v1/jobs"):
        answer = analyst.post(path, json=body)
        assert answer.status_code == 422
        assert "privacy.branches" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    "branches",
    [{"gdp": 0.6, "rdp": [[16, 0.5]]}, {"gdp": 0.5, "rdp": [[1, 0.5]]}, {"gdp": -0.1}, {"pld": 1}],
)
def test_shares_that_promise_too_much_are_refused(house, branches):
    answer = house.admin.upload(metadata=METADATA | {"privacy": SHARED | {"branches": branches}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("/metadata/privacy")
