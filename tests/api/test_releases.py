"""Releases and the planner's own choice through the boundary."""

import math

import pytest

from tests.api.support import House

LOGISTIC = {"family": "logistic", "formula": "income ~ age + sex"}
MEAN = {"family": "gaussian_mean", "formula": "~ age"}
PRIVACY = {"epsilon": 0.5, "delta": 1e-6}


def body(dataset, model, sampler=None, privacy=None):
    made = {"dataset": dataset, "model": model, "privacy": privacy or PRIVACY}
    made["accept_low_quality"] = True  # of 200 rows
    return made if sampler is None else made | {"sampler": sampler}


def finished(house: House, analyst, job):
    answer = analyst.post("/v1/jobs", json=job)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    found = analyst.get(f"/v1/jobs/{answer.json()['id']}").json()
    assert found["status"] == "succeeded"
    return found


@pytest.mark.parametrize(
    ("algorithm", "model"),
    [("noisy_mean", MEAN), ("noisy_quadratic", LOGISTIC)],
)
def test_a_release_is_a_job_like_any_other(house, algorithm, model):
    analyst, dataset = house.user("analyst"), house.dataset()
    job = body(dataset, model, {"algorithm": algorithm, "num_steps": 300, "num_chains": 3})
    plan = analyst.post("/v1/plans", json=job).json()
    assert plan["algorithm"] == algorithm
    assert plan["expected_ess"] == 900
    assert plan["mu"] == pytest.approx(1 / plan["noise_multiplier"])
    assert plan["reasons"] == []
    found = finished(house, analyst, job)
    assert 0.499 < found["reserved"]["epsilon"] <= 0.5
    assert found["progress"] == {"step": 300, "of": 300}
    chain = analyst.get(f"/v1/jobs/{found['id']}/chain").json()
    assert chain["num_chains"] == 3
    assert chain["num_draws"] == 300
    assert all(math.isfinite(x) for c in chain["draws"] for draw in c for x in draw)


def test_draws_beyond_the_release_cost_nothing(house):
    analyst, dataset = house.user("analyst"), house.dataset()
    costs = []
    for steps in (10, 5000):
        sampler = {"algorithm": "noisy_mean", "num_steps": steps}
        job = body(dataset, MEAN, sampler, {"noise_multiplier": 20.0, "delta": 1e-6})
        costs.append(analyst.post("/v1/plans", json=job).json()["mu"])
    assert costs[0] == costs[1] == pytest.approx(1 / 20.0)


@pytest.mark.parametrize(
    ("algorithm", "model"), [("noisy_mean", LOGISTIC), ("noisy_quadratic", MEAN)]
)
def test_a_release_for_another_family_is_refused_at_its_name(house, algorithm, model):
    analyst, dataset = house.user("analyst"), house.dataset()
    for path in ("/v1/plans", "/v1/jobs"):
        answer = analyst.post(path, json=body(dataset, model, {"algorithm": algorithm}))
        assert answer.status_code == 422
        assert [e["pointer"] for e in answer.json()["errors"]] == ["/sampler/algorithm"]


def test_priors_by_name_are_planned_and_kept_with_the_job(house):
    analyst, dataset = house.user("analyst"), house.dataset()
    model = LOGISTIC | {"prior": {"age": {"kind": "normal", "loc": 0.5, "scale": 1.0}}}
    found = finished(house, analyst, body(dataset, model))
    kept = found["spec"]["model"]["prior"]
    assert kept["age"] == {"kind": "normal", "loc": 0.5, "scale": 1.0}
    told = analyst.get(f"/v1/jobs/{found['id']}").json()
    assert told["spec"]["model"]["prior"] == kept


@pytest.mark.parametrize(
    ("pointers", "prior"),
    [
        (["/model/prior/weight"], {"weight": {"kind": "normal", "scale": 1.0}}),
        (["/model/prior/age/scale"], {"age": {"kind": "normal", "scale": "wide"}}),
        (["/model/prior/age/scale"], {"age": {"kind": "normal", "scale": 0.0}}),
        (["/model/prior/age/kind"], {"age": {"kind": "cauchy", "scale": 1.0}}),
        (["/model/prior/scale"], {"kind": "normal", "scale": "wide"}),
        (["/model/prior/scale"], {"kind": "normal", "scale": -1.0}),
        (["/model/prior/width"], {"width": 1.0}),
        (["/model/prior"], 2.5),
    ],
)
def test_an_impossible_prior_is_one_fault_at_its_field(house, pointers, prior):
    model = LOGISTIC | {"prior": prior}
    answer = house.user("analyst").post("/v1/plans", json=body(house.dataset(), model))
    assert answer.status_code == 422
    assert [e["pointer"] for e in answer.json()["errors"]] == pointers


@pytest.mark.parametrize("sampler", [None, {"algorithm": "auto"}])
@pytest.mark.parametrize(
    ("algorithm", "model"), [("noisy_mean", MEAN), ("noisy_quadratic", LOGISTIC)]
)
def test_without_a_sampler_the_planner_chooses_and_says_why(house, sampler, algorithm, model):
    analyst, dataset = house.user("analyst"), house.dataset()
    plan = analyst.post("/v1/plans", json=body(dataset, model, sampler)).json()
    assert plan["algorithm"] == algorithm
    assert any(algorithm in reason for reason in plan["reasons"])
    found = finished(house, analyst, body(dataset, model, sampler))
    assert found["spec"]["sampler"]["algorithm"] == found["algorithm"] == algorithm
    assert found["reasons"] == plan["reasons"]
    assert found["reserved"]["epsilon"] == plan["epsilon"]


def test_the_planner_keeps_what_the_caller_fixed(house):
    analyst, dataset = house.user("analyst"), house.dataset()
    sampler = {"algorithm": "auto", "num_steps": 70, "num_chains": 4, "num_warmup": 10}
    plan = analyst.post("/v1/plans", json=body(dataset, MEAN, sampler)).json()
    assert (plan["num_steps"], plan["num_chains"], plan["num_warmup"]) == (70, 4, 10)
    assert plan["expected_ess"] == 240


def test_a_choice_needs_an_epsilon(house):
    analyst, dataset = house.user("analyst"), house.dataset()
    job = body(dataset, MEAN, None, {"noise_multiplier": 20.0, "delta": 1e-6})
    answer = analyst.post("/v1/plans", json=job)
    assert answer.status_code == 422
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/sampler/algorithm"]


@pytest.mark.parametrize(
    ("pointer", "sampler"),
    [
        ("/sampler/shares", {"algorithm": "noisy_mean", "shares": [0.9, 0.9]}),
        ("/sampler/shares", {"algorithm": "noisy_mean", "shares": []}),
        ("/sampler/clip_bounds", {"algorithm": "noisy_mean", "clip_bounds": [1.0]}),
        ("/sampler/start", {"algorithm": "noisy_mean", "start": None}),
        ("/sampler/clip_bound", {"algorithm": "auto", "clip_bound": 1.0}),
        ("/sampler/num_far", {"algorithm": "noisy_quadratic", "num_far": 0}),
    ],
)
def test_impossible_options_name_their_field(house, pointer, sampler):
    model = LOGISTIC if sampler["algorithm"] == "noisy_quadratic" else MEAN
    answer = house.user("analyst").post("/v1/plans", json=body(house.dataset(), model, sampler))
    assert answer.status_code == 422
    assert [e["pointer"] for e in answer.json()["errors"]] == [pointer]
