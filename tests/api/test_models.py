"""Jobs of every family through the boundary, options and all."""

import math
import random

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
        "accept_low_quality": True,
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


def test_counts_that_vary_more_than_poisson_ones_from_the_plan_to_a_prediction(house):
    analyst, dataset = house.user("analyst"), house.dataset()
    counts = {"family": "negative_binomial", "formula": "age ~ sex"}
    asked = {"dataset": dataset, "model": counts, "privacy": {"epsilon": 0.5, "delta": 1e-6}}
    asked["accept_low_quality"] = True
    asked["model"] = counts | {"options": {"dispersion": 0.0}}
    refused = analyst.post("/v1/jobs", json=asked)
    assert refused.status_code == 422
    assert [e["pointer"] for e in refused.json()["errors"]] == ["/model/options/dispersion"]
    asked["model"] = counts | {"options": {"dispersion": 2.0}}
    job = analyst.post("/v1/jobs", json=asked)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    place = f"/v1/jobs/{job.json()['id']}"
    told = analyst.post(f"{place}/posteriors", json={"given": [{"sex": "Male"}], "num_draws": 500})
    (one,) = told.json()["predictions"]
    assert one["expected"]["mean"] > 0.0
    assert one["response"]["q05"] < one["expected"]["q05"]  # sds are those of single large draws
    asked["model"], asked["privacy"]["epsilon"] = counts, 3.0
    job = analyst.post("/v1/jobs", json=asked)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    place = f"/v1/jobs/{job.json()['id']}"
    rows = analyst.get(f"{place}/summary").json()["parameters"]
    assert [one["name"] for one in rows] == ["Intercept", "sex[Male]", "log_dispersion"]
    question = {
        "given": [{"sex": "Male"}],
        "prior": {"log_dispersion": {"kind": "normal", "loc": 0.0, "scale": 1.0}},
    }
    told = analyst.post(f"{place}/posteriors", json=question)
    assert told.status_code == 200, told.text
    assert told.json()["predictions"][0]["response"]["mean"] > 0.0
    listed = {item["name"]: item for item in analyst.get("/v1/models").json()["items"]}
    assert "mu + mu^2 / k" in listed["negative_binomial"]["description"]


def test_a_number_with_long_tails_from_the_plan_to_a_prediction(house):
    analyst, dataset = house.user("analyst"), house.dataset()
    model = {"family": "student_t", "formula": "age ~ sex", "options": {"degrees_of_freedom": 200}}
    asked = {"dataset": dataset, "model": model, "privacy": {"epsilon": 0.5, "delta": 1e-6}}
    asked["accept_low_quality"] = True
    refused = analyst.post("/v1/jobs", json=asked)
    assert refused.status_code == 422
    pointers = [e["pointer"] for e in refused.json()["errors"]]
    assert pointers == ["/model/options/degrees_of_freedom"]
    asked["model"] = {"family": "student_t", "formula": "age ~ sex"}
    job = analyst.post("/v1/jobs", json=asked)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    place = f"/v1/jobs/{job.json()['id']}"
    names = [item["name"] for item in analyst.get(f"{place}/summary").json()["parameters"]]
    assert names == ["Intercept", "sex[Male]", "log_sigma"]
    told = analyst.post(f"{place}/posteriors", json={"given": [{"sex": "Male"}], "num_draws": 500})
    (one,) = told.json()["predictions"]
    assert one["response"]["q05"] < one["expected"]["q05"]
    listed = {item["name"]: item for item in analyst.get("/v1/models").json()["items"]}
    assert "Student's t" in listed["student_t"]["description"]


@pytest.mark.parametrize(
    ("family", "formula", "most", "multiplies"),
    [
        ("binomial", "age | trials(100) ~ sex", 1.0, "odds"),
        ("binomial", "cbind(age, age) ~ sex", 1.0, "odds"),
        ("exponential", "surv(age, income) ~ sex", 1e9, "hazard"),
        ("weibull", "surv(age, income) ~ sex", 1e300, "hazard"),
    ],
)
def test_responses_of_two_columns_from_the_plan_to_a_ratio(
    house, family, formula, most, multiplies
):
    analyst, dataset = house.user("analyst"), house.dataset()
    asked = {"dataset": dataset, "privacy": {"epsilon": 0.5, "delta": 1e-6}}
    asked["accept_low_quality"] = True
    asked["model"] = {"family": "linear", "formula": formula}
    refused = analyst.post("/v1/jobs", json=asked)
    assert refused.status_code == 422
    assert family in refused.text.split("take ")[1]
    asked["model"]["family"] = family
    job = analyst.post("/v1/jobs", json=asked)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    men, women = {"sex": "Male"}, {"sex": "Female"}
    given = {"given": [men], "comparisons": [{"given": men, "against": women}], "num_draws": 500}
    told = analyst.post(f"/v1/jobs/{job.json()['id']}/posteriors", json=given).json()
    assert 0.0 < told["predictions"][0]["expected"]["mean"] < most
    assert told["comparisons"][0]["multiplies"] == multiplies


@pytest.mark.parametrize(
    ("family", "model", "pointer"),
    [
        ("poisson", {"formula": "age ~ sex", "options": {"dispersion": 1.0}}, None),
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
        "accept_low_quality": True,
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


JOBS = {"name": "job", "type": "category", "categories": ["low", "medium", "high"]}
CHOSEN = {"family": "multinomial", "formula": "job ~ age + sex"}


def with_jobs(house, rows=4000):
    """A dataset whose older people more often have a high job."""
    rng = random.Random(7)
    lines = ["age,sex,income,job"]
    for _ in range(rows):
        age, sex = rng.randint(20, 80), rng.choice(("Female", "Male"))
        word = rng.choices(JOBS["categories"], (1.0, 1.0, math.exp((age - 50) / 20)))[0]
        lines.append(f"{age},{sex},<=50K,{word}")
    metadata = METADATA | {"columns": [*METADATA["columns"], JOBS]}
    answer = house.admin.upload(("\n".join(lines) + "\n").encode(), metadata)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


@pytest.mark.usefixtures("known_noise")
def test_a_response_of_several_categories_from_the_plan_to_free_predictions(house):
    analyst, dataset = house.user("analyst"), with_jobs(house)
    asked = {"dataset": dataset, "model": CHOSEN, "privacy": {"epsilon": 3.0, "delta": 1e-6}}
    planned = analyst.post("/v1/plans", json=asked)
    assert planned.status_code == 200, planned.text
    assert planned.json()["usable"]
    assert planned.json()["expected_width"] < 2.0
    job = analyst.post("/v1/jobs", json=asked)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    place = f"/v1/jobs/{job.json()['id']}"
    assert analyst.get(place).json()["verdict"]["status"] == "reliable"
    columns = ("Intercept", "age", "sex[Male]")
    names = [f"{word}:{column}" for word in ("medium", "high") for column in columns]
    rows = analyst.get(f"{place}/summary").json()["parameters"]
    found = {one["name"]: one for one in rows}
    assert list(found) == names
    assert 0.03 < found["high:age"]["q05"] < found["high:age"]["q95"] < 0.07  # a year: 1 / 20
    question = {
        "prior": {"medium:age": {"kind": "normal", "loc": 0.0, "scale": 1e-4}},
        "given": [{"age": 25, "sex": "Male"}, {"age": 80, "sex": "Male"}],
        "contrasts": [{"high:age": 1.0, "medium:age": -1.0}],
        "null": [{"high:age": 0.0}],
    }
    answer = analyst.post(f"{place}/posteriors?scale=design", json=question)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    young, old = (one["probabilities"] for one in told["predictions"])
    assert list(young) == JOBS["categories"]
    assert young["high"]["q95"] < old["high"]["q05"]
    assert sum(one["mean"] for one in old.values()) == pytest.approx(1.0)
    assert told["predictions"][0]["expected"] is None
    assert told["contrasts"][0]["q05"] > 0.03
    assert told["bayes_factors"][0]["log_bayes_factor"] > 5.0


@pytest.mark.usefixtures("known_noise")
def test_ordered_categories_from_the_plan_to_free_predictions(house):
    analyst, dataset = house.user("analyst"), with_jobs(house)
    asked = {
        "dataset": dataset,
        "model": CHOSEN | {"family": "cumulative"},
        "privacy": {"epsilon": 3.0, "delta": 1e-6},
    }
    planned = analyst.post("/v1/plans", json=asked)
    assert planned.status_code == 200, planned.text
    assert planned.json()["usable"]
    job = analyst.post("/v1/jobs", json=asked)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    place = f"/v1/jobs/{job.json()['id']}"
    done = analyst.get(place).json()
    assert done["spec"]["model"]["family"] == "ordinal"
    assert done["verdict"]["status"] == "reliable"
    rows = analyst.get(f"{place}/summary").json()["parameters"]
    assert [one["name"] for one in rows] == ["low|medium", "medium|high", "age", "sex[Male]"]
    assert 0.03 < rows[2]["q05"] < rows[2]["q95"] < 0.07  # a year: 1 / 20
    question = {
        "prior": {"low|medium": {"kind": "normal", "loc": 0.0, "scale": 1.0}},
        "given": [{"age": 25, "sex": "Male"}, {"age": 80, "sex": "Male"}],
        "contrasts": [{"medium|high": 1.0, "low|medium": -1.0}],
        "null": [{"age": 0.0}],
    }
    answer = analyst.post(f"{place}/posteriors?scale=design", json=question)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    young, old = (one["probabilities"] for one in told["predictions"])
    assert list(young) == JOBS["categories"]
    assert young["high"]["q95"] < old["high"]["q05"]
    assert sum(one["mean"] for one in old.values()) == pytest.approx(1.0)
    assert told["contrasts"][0]["q05"] > 0.3
    assert told["bayes_factors"][0]["log_bayes_factor"] > 5.0


@pytest.mark.usefixtures("known_noise")
def test_counts_with_zeros_of_their_own_from_the_plan_to_free_predictions(house):
    analyst, rng, lines = house.user("analyst"), random.Random(3), ["age,visits"]
    for _ in range(4000):
        age = rng.randint(20, 80)
        none = rng.random() < 1.0 / (1.0 + math.exp((age - 50) / 20))
        lines.append(f"{age},{0 if none else 1 + sum(rng.random() < 0.2 for _ in range(8))}")
    visits = {"name": "visits", "type": "number", "lower": 0, "upper": 20}
    metadata = METADATA | {"columns": [METADATA["columns"][0], visits]}
    uploaded = house.admin.upload(("\n".join(lines) + "\n").encode(), metadata)
    assert uploaded.status_code == 201, uploaded.text
    asked = {
        "dataset": uploaded.json()["id"],
        "model": {"family": "hurdle", "formula": "visits ~ age"},
        "privacy": {"epsilon": 3.0, "delta": 1e-6},
    }
    refused = analyst.post(
        "/v1/plans", json=asked | {"model": asked["model"] | {"family": "zero_inflated_poisson"}}
    )
    assert refused.status_code == 422
    assert "write family hurdle_poisson" in refused.text
    job = analyst.post("/v1/jobs", json=asked)
    assert job.status_code == 202, job.text
    house.run(job.json()["id"])
    place = f"/v1/jobs/{job.json()['id']}"
    done = analyst.get(place).json()
    assert done["spec"]["model"]["family"] == "hurdle_poisson"
    assert done["verdict"]["status"] == "reliable"
    rows = analyst.get(f"{place}/summary").json()["parameters"]
    assert [one["name"] for one in rows] == ["Intercept", "age", "zero_Intercept", "zero_age"]
    given, against = {"age": 70}, {"age": 30}
    question = {"given": [given], "comparisons": [{"given": given, "against": against}]}
    answer = analyst.post(f"{place}/posteriors", json=question)
    assert answer.status_code == 200, answer.text
    (one,), (difference,) = answer.json()["predictions"], answer.json()["comparisons"]
    assert 0.0 < one["probabilities"]["0"]["mean"] < 1.0 < one["expected"]["mean"]
    assert difference["ratio"]["mean"] > 0.0 < difference["odds"]["mean"]
    assert difference["multiplies"] == "mean count"


@pytest.mark.parametrize(
    ("job", "pointer", "word"),
    [
        ({"sampler": {"algorithm": "dp_penalty", "num_steps": 9}}, "/sampler/algorithm", "noisy_"),
        ({"sampler": {"algorithm": "dp_hmc"}}, "/sampler/algorithm", "noisy_quadratic"),
        ({"model": CHOSEN | {"formula": "sex ~ age"}}, "/model/formula", "use logistic"),
        ({"model": CHOSEN | {"formula": "age ~ sex"}}, "/model/formula", "category column"),
    ],
)
def test_what_a_response_of_several_categories_cannot_have_says_what_can(house, job, pointer, word):
    asked = {"model": CHOSEN, "privacy": {"epsilon": 1.0, "delta": 1e-6}} | job
    answer = house.user("analyst").post("/v1/plans", json={"dataset": with_jobs(house, 50)} | asked)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert word in error["message"]


def test_the_models_say_how_coefficients_of_categories_are_named(house):
    listed = house.user("analyst").get("/v1/models").json()["items"]
    (told,) = [one for one in listed if one["name"] == "multinomial"]
    assert "medium:age" in told["description"]
    assert told["options"]["properties"]["family"] == {"const": "multinomial"}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (
            {"formula": "income ~ poly(age, 2) + sex + offset(log(age))"},
            ["Intercept", "poly(age, 2)[1]", "poly(age, 2)[2]", "sex[Male]"],
        ),
        ({"formula": "income ~ sex", "weights": "age"}, ["Intercept", "sex[Male]"]),
    ],
)
def test_computed_columns_offsets_and_weights_are_asked_for_in_a_job(house, model, names):
    analyst = house.user("analyst")
    asked = body(house.dataset(), "logistic", model)
    refused = analyst.post("/v1/plans", json=asked).json()["errors"]
    assert [error["pointer"] for error in refused] == ["/sampler/algorithm"]
    del asked["sampler"]
    answer = analyst.post("/v1/jobs", json=asked)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    summary = analyst.get(f"/v1/jobs/{answer.json()['id']}/summary").json()
    assert [item["name"] for item in summary["parameters"]] == names


def test_a_term_that_bounds_do_not_bound_is_refused_by_name(house):
    model = {"formula": "income ~ log(age) + I(1 / (age - 30))"}
    asked = body(house.dataset(), "logistic", model)
    (error,) = house.user("analyst").post("/v1/plans", json=asked).json()["errors"]
    assert error["pointer"] == "/model/formula"
    assert "I(1 / (age - 30))" in error["message"]
