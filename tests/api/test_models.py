"""Jobs of every family through the boundary, options and all."""

import pytest

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
