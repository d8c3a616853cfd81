"""Verdicts, plans that are of no use, and what follows from a stored release for free."""

import math
from typing import Any

import numpy as np
import pytest

from app.api.questions import PosteriorOut
from tests.api.support import Caller, House, as_csv, csv_rows, job_of, signed_in

ROWS = 4000
MODEL = {"family": "logistic", "formula": "income ~ age + sex"}
PRIVACY = {"epsilon": 2.0, "delta": 1e-6}
MEN = {"age": 50, "sex": "Male"}
FLAT = {"prior": {"age": {"kind": "uniform", "lower": 0.0}}}
HALF = {"prior": {"age": {"kind": "laplace", "scale": 1.0, "lower": 0.0}}}


def ask(dataset: str, **changes: Any) -> dict[str, Any]:
    return {"dataset": dataset, "model": MODEL, "privacy": PRIVACY} | changes


def finished(house: House, analyst: Caller, job: dict[str, Any]) -> dict[str, Any]:
    answer = analyst.post("/v1/jobs", json=job)
    assert answer.status_code == 202, answer.text
    assert answer.json()["verdict"] is None
    house.run(answer.json()["id"])
    found: dict[str, Any] = analyst.get(f"/v1/jobs/{answer.json()['id']}").json()
    assert found["status"] == "succeeded"
    return found


@pytest.fixture
def many(house: House) -> str:
    answer = house.admin.upload(as_csv(csv_rows(ROWS)))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


@pytest.fixture
def released(house: House, analyst: Caller, many: str, known_noise: None) -> dict[str, Any]:
    return finished(house, analyst, ask(many))


def test_a_release_is_judged_and_answers_for_free(
    house: House,
    analyst: Caller,
    many: str,
    released: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert released["verdict"]["status"] == "reliable"
    assert 0.0 < released["verdict"]["width_from_privacy"] < 0.5
    assert released["verdict"]["reasons"] == []
    job = f"/v1/jobs/{released['id']}"
    assert analyst.get(f"{job}/summary").json()["verdict"] == released["verdict"]
    ledger = house.admin.get(f"/v1/datasets/{many}/ledger").json()
    budget = analyst.get(f"/v1/datasets/{many}/budget").json()

    def refuse(*_: object) -> None:
        raise AssertionError("the rows are not to be opened")

    monkeypatch.setattr(type(house.services.vault.files), "load", refuse)
    question = {
        "prior": {"age": {"kind": "normal", "loc": 1.5, "scale": 1e-4}},
        "num_draws": 300,
        "given": [{"age": 30, "sex": "Male"}, {"age": 80, "sex": "Female"}],
        "contrasts": [{"age": 2.0}, {"age": 1, "sex[Male]": -1}],
        "comparisons": [
            {"given": {"age": 30, "sex": "Male"}, "against": {"age": 30, "sex": "Female"}}
        ],
        "effects": [{"covariate": "age", "given": [{"age": 30, "sex": "Male"}]}],
        "null": [{"sex[Male]": 0}, {"age": 0.0, "sex[Male]": 0.0}],
    }
    answer = analyst.post(f"{job}/posteriors?scale=design", json=question)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert PosteriorOut.model_validate(told).model_dump(mode="json") == told  # as documented
    assert told["scale"] == "design"
    assert told["cost"] == {"epsilon": 0}
    assert "Nothing is charged" in told["note"]
    assert told["verdict"] == released["verdict"]
    assert [len(told["draws"]), len(told["draws"][0])] == [300, len(told["parameters"])]
    age = next(one for one in told["summary"] if one["name"] == "age")
    assert age["mean"] == pytest.approx(1.5, abs=1e-4)
    assert told["contrasts"][0]["mean"] == pytest.approx(3.0, abs=2e-4)
    young, old = (one["expected"] for one in told["predictions"])
    assert 0.0 < young["q05"] < young["q95"] < old["q05"] < old["q95"] < 1.0
    assert [one["null"] for one in told["bayes_factors"]] == question["null"]
    assert all(math.isfinite(one["log_bayes_factor"]) for one in told["bayes_factors"])
    again = analyst.post(f"{job}/posteriors", json=question).json()
    assert again["draws"] != told["draws"]  # as many as anybody wants
    assert house.admin.get(f"/v1/datasets/{many}/ledger").json() == ledger
    assert analyst.get(f"/v1/datasets/{many}/budget").json() == budget


def test_all_that_is_told_of_a_job_is_in_the_units_of_its_columns(
    analyst: Caller, released: dict[str, Any]
) -> None:
    job, middle, half = f"/v1/jobs/{released['id']}", 53.5, 36.5  # of age's bounds, 17 and 90
    raw, design = (analyst.get(f"{job}/chain?scale={s}").json() for s in ("original", "design"))
    assert analyst.get(f"{job}/chain").json() == raw
    at = {name: k for k, name in enumerate(raw["parameters"])}
    own, standard = (np.array(one["draws"]).reshape(-1, len(at)) for one in (raw, design))
    age, intercept, sex = (at[name] for name in ("age", "Intercept", "sex[Male]"))
    assert np.allclose(own[:, age], standard[:, age] / half)
    assert np.allclose(own[:, intercept], standard[:, intercept] - middle / half * standard[:, age])
    assert np.array_equal(own[:, sex], standard[:, sex])
    table = analyst.get(f"{job}/chain", headers={"Accept": "text/csv"}).text.splitlines()
    assert float(table[1].split(",")[3 + age]) == own[0, age]
    for scale, draws in (("original", own), ("design", standard)):
        told = analyst.get(f"{job}/summary?scale={scale}").json()
        assert told["scale"] == scale
        for name, k in at.items():
            row = next(one for one in told["parameters"] if one["name"] == name)
            assert row["mean"] == pytest.approx(draws[:, k].mean())
            assert row["sd"] == pytest.approx(draws[:, k].std(ddof=1))
    assert analyst.get(f"{job}/summary").json()["scale"] == "original"
    assert analyst.get(f"{job}/summary?scale=other").status_code == 422
    question = {"num_draws": 2000, "null": [{"age": 0}, {"Intercept": 0}]}
    told, same = (
        analyst.post(f"{job}/posteriors?scale={s}", json=question).json()
        for s in ("original", "design")
    )
    rows = [next(r for r in one["summary"] if r["name"] == "age") for one in (told, same)]
    assert rows[0]["sd"] == pytest.approx(rows[1]["sd"] / half, rel=0.25)
    factors = [[b["log_bayes_factor"] for b in one["bayes_factors"]] for one in (told, same)]
    assert factors[0][0] == pytest.approx(factors[1][0], rel=0.05)
    assert abs(factors[0][1] - factors[1][1]) > 1.0  # the intercept is another question


def test_a_column_that_matters_is_favoured_and_one_that_does_not_is_not(
    analyst: Caller, released: dict[str, Any]
) -> None:
    question = {"null": [{"age": 0}, {"sex[Male]": 0}], "num_draws": 1}
    answer = analyst.post(f"/v1/jobs/{released['id']}/posteriors", json=question).json()
    matters, does_not = (one["log_bayes_factor"] for one in answer["bayes_factors"])
    assert matters > 10.0
    assert does_not < 0.0


@pytest.mark.longer
@pytest.mark.parametrize(
    ("question", "pointer"),
    [
        ({"prior": {"wealth": {"scale": 1.0}}}, "/prior/wealth"),
        ({"prior": {"age": {"scale": 0.0}}}, "/prior/age/scale"),
        ({"prior": {"age": {"scale": 1e9}}}, "/prior/age/scale"),
        ({"prior": {"age": {"loc": 1e40, "scale": 1.0}}}, "/prior/age/loc"),
        ({"prior": {"age": {"kind": "gamma", "scale": 1.0}}}, "/prior/age/kind"),
        ({"prior": {"age": {"kind": "cauchy"}}}, "/prior/age/scale"),
        ({"prior": {"age": {"kind": "student_t", "scale": 1.0}}}, "/prior/age/df"),
        ({"prior": {"age": {"kind": "uniform", "lower": 2, "upper": 1}}}, "/prior/age/upper"),
        ({"prior": {"age": {"scale": 1, "lower": 1e40}}}, "/prior/age/lower"),
        ({"given": [{"age": 30}]}, "/given/0/sex"),
        ({"given": [{"age": 30, "sex": "Male", "income": ">50K"}]}, "/given/0/income"),
        ({"given": [{"age": 30, "sex": "Other"}]}, "/given/0/sex"),
        ({"given": [{"age": 500, "sex": "Male"}]}, "/given/0/age"),
        ({"given": [{"age": "30", "sex": "Male"}]}, "/given/0/age"),
        ({"contrasts": [{"age": 1}, {"wealth": 1}]}, "/contrasts/1/wealth"),
        ({"contrasts": [{}]}, "/contrasts/0"),
        ({"null": [{"wealth": 0}]}, "/null/0/wealth"),
        ({"null": [{}]}, "/null/0"),
        (FLAT | {"null": [{"age": 1.0}]}, "/null/0/age"),
        (HALF | {"null": [{"sex[Male]": 0.0}, {"age": -1.0}]}, "/null/1/age"),
        ({"comparisons": [{"given": MEN, "against": {"age": 30}}]}, "/comparisons/0/against/0/sex"),
        ({"comparisons": [{"given": MEN}]}, "/comparisons/0/against"),
        ({"effects": [{"covariate": "wealth", "given": [MEN]}]}, "/effects/0/covariate"),
        ({"effects": [{"covariate": "age", "given": []}]}, "/effects/0/given"),
        ({"effects": [{"covariate": "age", "given": [{"sex": "Male"}]}]}, "/effects/0/given/0/age"),
        (
            {"effects": [{"covariate": "age", "given": [MEN], "value": 40}]},
            "/effects/0/against",
        ),
        (
            {"effects": [{"covariate": "sex", "given": [MEN], "value": "Other"}]},
            "/effects/0/value",
        ),
        ({"num_draws": 0}, "/num_draws"),
        ({"num_draws": 10**6}, "/num_draws"),
        ({"draws": 5}, "/draws"),
    ],
)
def test_what_cannot_be_asked_names_its_place(
    analyst: Caller, released: dict[str, Any], question: dict[str, Any], pointer: str
) -> None:
    answer = analyst.post(f"/v1/jobs/{released['id']}/posteriors", json=question)
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_priors_that_are_not_normal_cost_nothing_and_move_no_ledger(
    house: House, analyst: Caller, many: str, released: dict[str, Any]
) -> None:
    ledger = house.admin.get(f"/v1/datasets/{many}/ledger").json()
    question = {
        "prior": {
            "age": {"kind": "uniform", "lower": 1.0, "upper": 1.2},
            "sex[Male]": {"kind": "student_t", "scale": 1e-3, "df": 30},
        },
        "num_draws": 500,
        "comparisons": [{"given": MEN, "against": MEN | {"sex": "Female"}}],
        "effects": [
            {"covariate": "sex", "given": [MEN, MEN | {"age": 70}]},
            {"covariate": "age", "given": [MEN]},
            {"covariate": "age", "given": [{"sex": "Male"}], "value": 60, "against": 40},
        ],
        "null": [{"sex[Male]": 0.0}, {"age": 1.1}],
    }
    path = f"/v1/jobs/{released['id']}/posteriors?scale=design"
    answer = analyst.post(path, json=question)
    assert answer.status_code == 200, answer.text[:500]
    told = answer.json()
    assert told["cost"] == {"epsilon": 0}
    age = next(one for one in told["summary"] if one["name"] == "age")
    assert 1.0 <= age["q05"] <= age["q95"] <= 1.2
    applied = {one["name"]: one for one in told["priors"]}
    assert (applied["age"]["kind"], applied["age"]["upper"]) == ("uniform", 1.2)
    assert (applied["Intercept"]["kind"], applied["Intercept"]["scale"]) == ("normal", 2.5)
    ratio = told["comparisons"][0]
    assert ratio["multiplies"] == "odds"
    assert ratio["ratio"]["mean"] == pytest.approx(1.0, abs=0.01)
    sexes, slope, step = told["effects"]
    assert (sexes["value"], sexes["against"], slope["value"]) == ("Male", "Female", None)
    assert abs(sexes["expected"]["mean"]) < 0.01
    assert step["expected"]["mean"] == pytest.approx(20 * slope["expected"]["mean"], rel=0.1)
    assert all(math.isfinite(one["log_bayes_factor"]) for one in told["bayes_factors"])
    assert house.admin.get(f"/v1/datasets/{many}/ledger").json() == ledger


def test_a_prior_far_from_where_the_rows_were_looked_at_is_not_believed(
    analyst: Caller, released: dict[str, Any]
) -> None:
    assert released["verdict"]["status"] == "reliable"
    question = {"prior": {"age": {"loc": 30.0, "scale": 1e-3}}, "num_draws": 100}
    answer = analyst.post(f"/v1/jobs/{released['id']}/posteriors", json=question).json()
    assert answer["verdict"]["status"] == "unreliable"
    assert any("last Newton step" in reason for reason in answer["verdict"]["reasons"])
    again = analyst.get(f"/v1/jobs/{released['id']}").json()
    assert again["verdict"] == released["verdict"]


@pytest.mark.parametrize(
    ("kind", "begins"),
    [
        ("text/csv", b"chain,draw,warmup,Intercept,age"),
        ("application/vnd.apache.parquet", b"PAR1"),
        ("application/x-netcdf", b"\x89HDF"),
    ],
)
def test_draws_come_in_the_formats_of_a_chain(
    analyst: Caller, released: dict[str, Any], kind: str, begins: bytes
) -> None:
    path = f"/v1/jobs/{released['id']}/posteriors"
    answer = analyst.post(path, json={"num_draws": 7}, headers={"Accept": kind})
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, kind)
    assert answer.content.startswith(begins)
    if kind == "text/csv":
        assert len(answer.text.strip().splitlines()) == 8
    refused = analyst.post(path, json={}, headers={"Accept": "image/png"})
    assert refused.status_code == 406


def test_what_has_no_release_has_no_posterior(house: House, analyst: Caller) -> None:
    dataset = house.dataset()
    job = house.submit(analyst, dataset)
    waiting = analyst.post(f"/v1/jobs/{job}/posteriors", json={})
    assert (waiting.status_code, waiting.json()["code"]) == (409, "job_not_finished")
    house.run(job)
    chain = analyst.post(f"/v1/jobs/{job}/posteriors", json={})
    assert (chain.status_code, chain.json()["code"]) == (409, "no_release")
    verdict = analyst.get(f"/v1/jobs/{job}").json()["verdict"]
    assert verdict["status"] == "unreliable"
    assert any("effective sample size" in reason for reason in verdict["reasons"])


@pytest.mark.parametrize("algorithm", ["dp_penalty", "noisy_quadratic"])
def test_a_plan_of_no_use_is_refused_with_an_epsilon_that_would_do(
    analyst: Caller, many: str, algorithm: str
) -> None:
    job = ask(many, sampler={"algorithm": algorithm}, privacy={"epsilon": 0.05, "delta": 1e-6})
    assert analyst.post("/v1/plans", json=job).json()["usable"] is False
    before = analyst.get(f"/v1/datasets/{many}/budget").json()
    answer = analyst.post("/v1/jobs", json=job)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["code"] == "low_quality_plan"
    assert [error["pointer"] for error in problem["errors"]] == ["/privacy/epsilon"]
    better = problem["usable_at"]["epsilon"]
    for factor, usable in ((1.0, True), (0.97, False)):
        other = job | {"privacy": {"epsilon": factor * better, "delta": 1e-6}}
        assert analyst.post("/v1/plans", json=other).json()["usable"] is usable
    assert analyst.get(f"/v1/datasets/{many}/budget").json() == before
    taken = analyst.post("/v1/jobs", json=job | {"accept_low_quality": True})
    assert taken.status_code == 202, taken.text


def test_no_budget_helps_a_chain_of_a_few_steps(house: House, analyst: Caller) -> None:
    job = job_of(house.dataset()) | {"accept_low_quality": False}
    answer = analyst.post("/v1/jobs", json=job)
    assert (answer.status_code, answer.json()["code"]) == (422, "low_quality_plan")
    assert answer.json()["usable_at"] == {"epsilon": None}


@pytest.mark.parametrize("algorithm", ["dp_penalty", "dp_hmc"])
def test_chains_over_few_rows_are_refused_whatever_is_accepted(
    house: House, analyst: Caller, algorithm: str
) -> None:
    """As in the library: before anything is paid, at the dataset, and the plan says so."""
    answer = house.admin.upload(as_csv(csv_rows(5)))
    assert answer.status_code == 201, answer.text
    dataset = answer.json()["id"]
    job = job_of(dataset, algorithm=algorithm)
    plan = analyst.post("/v1/plans", json=job).json()
    assert plan["usable"] is False
    assert any("fewer than 20 rows" in warning for warning in plan["warnings"])
    before = analyst.get(f"/v1/datasets/{dataset}/budget").json()
    refused = analyst.post("/v1/jobs", json=job)
    assert refused.status_code == 422, refused.text
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/dataset"]
    assert algorithm in refused.json()["errors"][0]["message"]
    assert analyst.get(f"/v1/datasets/{dataset}/budget").json() == before
    taken = analyst.post("/v1/jobs", json=job | {"sampler": {"algorithm": "noisy_quadratic"}})
    assert taken.status_code == 202, taken.text


def test_the_same_key_with_another_word_on_quality_is_another_body(
    analyst: Caller, many: str
) -> None:
    key = {"Idempotency-Key": "k"}
    first = analyst.post("/v1/jobs", json=ask(many), headers=key)
    same = analyst.post("/v1/jobs", json=ask(many, accept_low_quality=False), headers=key)
    assert first.json()["id"] == same.json()["id"]
    other = analyst.post("/v1/jobs", json=ask(many, accept_low_quality=True), headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_a_plan_says_how_wide_its_result_will_be(analyst: Caller, many: str) -> None:
    widths = [
        analyst.post(
            "/v1/plans", json=ask(many, privacy={"epsilon": epsilon, "delta": 1e-6})
        ).json()["expected_width"]
        for epsilon in (1.0, 2.0, 4.0)
    ]
    assert sorted(widths, reverse=True) == widths
    assert 1.0 < widths[-1] < widths[0] < 5.0


def test_priors_that_select_and_smaller_models_are_free(
    analyst: Caller, released: dict[str, Any]
) -> None:
    path = f"/v1/jobs/{released['id']}/posteriors"
    question = {"prior": "spike_and_slab()", "num_draws": 100}
    answer = analyst.post(path, json=question)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert PosteriorOut.model_validate(told).model_dump(mode="json") == told
    inclusion = {one["name"]: one["inclusion"] for one in told["summary"]}
    assert inclusion["Intercept"] is None
    assert all(0.0 <= inclusion[name] <= 1.0 for name in ("age", "sex[Male]"))
    assert told["models"] == []
    kinds = {one["name"]: one["kind"] for one in told["priors"]}
    assert kinds == {"Intercept": "normal", "age": "spike_and_slab", "sex[Male]": "spike_and_slab"}
    one = {"kind": "horseshoe", "scale": 0.1}
    for prior in (one, {"age": one}, {"age": "horseshoe(0.1)", "sex[Male]": "normal(0, 1)"}):
        assert analyst.post(path, json={"prior": prior, "num_draws": 10}).status_code == 200
    one = {"kind": "r2d2", "mean_r2": 0.2, "prec_r2": 5, "cons_d2": 1}
    for prior in (one, "R2D2(0.2, 5, cons_D2=1)", {"age": "R2D2()"}):
        told = analyst.post(path, json={"prior": prior, "num_draws": 10})
        assert told.status_code == 200, told.text
        assert "r2d2" in {own["kind"] for own in told.json()["priors"]}
    models = {"models": ["income ~ age", "income ~ 1"], "num_draws": 10, "prior": {}}
    told = analyst.post(path, json=models).json()
    assert [one["formula"] for one in told["models"]] == [MODEL["formula"], *models["models"]]
    assert sum(one["probability"] for one in told["models"]) == pytest.approx(1.0)
    for wrong, pointer in (
        ({"models": ["income ~ hours"]}, "/models/0"),
        ({"prior": "normal(0, 1)"}, "/prior"),
        ({"prior": {"age": "normal(0)"}}, "/prior/age"),
        ({"prior": {"kind": "horseshoe", "lower": 0.0}}, "/prior/age/lower"),
        ({"prior": {"Intercept": "normal(0, 1)"}}, "/prior/Intercept"),
    ):
        refused = analyst.post(path, json=wrong)
        assert refused.status_code == 422, wrong
        assert [one["pointer"] for one in refused.json()["errors"]] == [pointer]


def test_a_job_takes_a_written_prior_in_the_units_of_its_column(analyst: Caller, many: str) -> None:
    model = {**MODEL, "prior": {"age": "normal(0, 0.02)"}}
    job = analyst.post("/v1/jobs", json=ask(many, model=model))
    assert job.status_code == 202, job.text
    prior = job.json()["spec"]["model"]["prior"]["age"]
    assert prior == {"kind": "normal", "loc": 0.0, "scale": pytest.approx(0.02 * 36.5)}
    model = {**MODEL, "prior": {"age": "horseshoe()"}}
    refused = analyst.post("/v1/plans", json=ask(many, model=model))
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/model/prior/age"


def test_the_page_asks_for_selection_and_smaller_models(
    house: House, analyst: Caller, released: dict[str, Any]
) -> None:
    csrf = signed_in(house, analyst.key)
    assert "spike_and_slab()" in house.http.get(f"/jobs/{released['id']}").text
    form = {"csrf": csrf, "selecting": "spike_and_slab()"}
    answer = house.http.post(f"/jobs/{released['id']}/posterior", data=form)
    assert "Probability to act" in answer.text
    form = {"csrf": csrf, "models": "income ~ age\n\nincome ~ 1"}
    answer = house.http.post(f"/jobs/{released['id']}/posterior", data=form)
    assert "Models compared" in answer.text
    assert "Probability to act" not in answer.text
    form = {"csrf": csrf, "selecting": "horseshoe()", "scale.age": "1"}
    answer = house.http.post(f"/jobs/{released['id']}/posterior", data=form)
    assert "leave the sds of single ones out" in answer.text
