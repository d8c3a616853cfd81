"""Binomial regression: trials in a formula, the fit without noise, and what rows say."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dpmcmc.base.errors import SpecError
from dpmcmc.families.binomial import Binomial
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from tests.cases import posterior
from tests.sources import Seeded

ROWS, TRUTH = 3000, np.array([-1.0, 0.6, 0.8])
COLUMNS = (
    NumberColumn(name="a", lower=-1.0, upper=1.0),
    CategoryColumn(name="g", categories=("no", "yes")),
    NumberColumn(name="base", lower=-1.0, upper=1.0),
    NumberColumn(name="many", lower=0.0, upper=3.0),
    NumberColumn(name="cases", lower=0.0, upper=40.0),
    NumberColumn(name="others", lower=0.0, upper=40.0),
    NumberColumn(name="n", lower=0.0, upper=40.0, missing=(-1.0,)),
    NumberColumn(name="few", lower=0.0, upper=10.0),
    NumberColumn(name="below", lower=-5.0, upper=40.0),
    BinaryColumn(name="ill", categories=("no", "yes")),
)
SCHEMA = Schema(columns=COLUMNS, rows=ROWS)


def people_of(rng, rows=ROWS, clinic=0.0, most=40):
    """Rows of trials; clinic: sd of log odds that all trials of a row share."""
    a, g, n = rng.uniform(-1, 1, rows), rng.integers(0, 2, rows), rng.integers(0, most + 1, rows)
    base, many = rng.uniform(-1, 1, rows), rng.integers(1, 4, rows) * 1.0
    eta = TRUTH @ np.stack([np.ones(rows), a, g]) + clinic * rng.normal(size=rows)
    cases = rng.binomial(n, expit(eta)) * 1.0
    return {
        "a": a, "g": np.array(["no", "yes"])[g], "base": base, "many": many, "cases": cases,
        "others": n - cases, "n": n * 1.0, "few": np.minimum(n, 10.0), "below": cases,
        "ill": np.where(cases > 0.0, "yes", "no"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def people():
    return people_of(np.random.default_rng(1))


def model_of(formula="cases | trials(n) ~ a + g", **more):
    return ModelSpec(family="binomial", formula=formula, **more)


def design_of(data):
    return np.stack([np.ones(len(data["n"])), data["a"], data["g"] == "yes"])


def fitted(x, cases, n, weight=1.0, offset=0.0):
    """The maximum likelihood fit and its sandwich sds."""
    theta = np.zeros(len(x))
    for _ in range(30):
        p = expit(theta @ x + offset)
        back = np.linalg.inv((x * weight * n * p * (1.0 - p)) @ x.T)
        theta = theta + back @ (x @ (weight * (cases - n * p)))
    scores = x * np.sqrt(weight) * (cases - n * p)
    return theta, np.sqrt(np.diag(back @ scores @ scores.T @ back))


@pytest.mark.parametrize(
    "case", ["plain", "R", "offset", "weights", "missing", "alike", "clinics", "one each"]
)
def test_without_noise_it_is_the_fit_of_the_model(people, case):
    data, x, more, known, there = dict(people), design_of(people), {}, {}, np.ones(ROWS, bool)
    n = data["n"]
    if case == "R":
        more = {"formula": "cbind(cases, others) ~ a + g"}
    elif case == "offset":
        more, known = (
            {"formula": "cases | trials(n) ~ a + g + offset(base)"},
            {"offset": data["base"]},
        )
    elif case == "weights":
        more, known = {"weights": "many"}, {"weight": data["many"]}
    elif case == "missing":
        there = np.random.default_rng(2).random(ROWS) < 0.8
        data["n"] = np.where(there, n, -1.0)
    elif case == "alike":
        n, more = np.full(ROWS, 40.0), {"formula": "cases | trials(40) ~ a + g"}
    elif case == "clinics":
        data = people_of(np.random.default_rng(3), clinic=0.7)
        x, n = design_of(data), data["n"]
    elif case == "one each":
        n, data["cases"] = np.ones(ROWS), np.minimum(data["cases"], 1.0)
        more = {"formula": "cases | trials(n) ~ a + g"}
        data["n"] = n
    theta, sds = fitted(x[:, there], data["cases"][there], n[there], **known)
    result, draws = posterior(data, SCHEMA, model_of(**more), 3)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert result.plan.spec.model.family == "binomial"
    assert np.abs((draws.mean(axis=0) - theta) / sds).max() < 0.15
    assert draws.std(axis=0) / sds == pytest.approx(np.ones(3), abs=0.1)


def test_more_cases_than_trials_are_trials_that_were_all_cases(people):
    data = {**people, "n": np.minimum(people["n"], 5.0)}
    theta, sds = fitted(design_of(data), np.minimum(data["cases"], data["n"]), data["n"])
    draws = posterior(data, SCHEMA, model_of(), 5)[1]
    assert np.abs((draws.mean(axis=0) - theta) / sds).max() < 0.15


@pytest.mark.longer
@pytest.mark.parametrize(("epsilon", "rows"), [(1.0, 20_000), (4.0, 2000)])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon, rows):
    held, runs = [], 40
    schema = Schema(
        columns=tuple(c for c in COLUMNS if c.name in ("a", "g", "cases", "n")), rows=rows
    )
    for seed in range(runs):
        data = people_of(np.random.default_rng(100 + seed), rows)
        data = {name: data[name] for name in ("a", "g", "cases", "n")}
        result, draws = posterior(data, schema, model_of(), 1000 + seed, epsilon)
        if result.verdict.status == "reliable":
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            held.append((low < TRUTH) & (high > TRUTH))
    assert len(held) > runs / 2
    # four standard errors of as many times 3 intervals, those of a fit taken for half independent
    assert np.mean(held) == pytest.approx(0.9, abs=4.0 * np.sqrt(0.09 / (1.5 * len(held))))


def evaluation(m, rng, most=UNCUT, curved=UNCUT, scale=1.0):
    eta, length = rng.normal(size=(1, m)), rng.uniform(0.01, 5.0, m)
    return Evaluation(eta, length, np.zeros(m), most, curved, scale, 4.0)


def test_scores_and_slopes_are_the_derivatives_of_the_log_likelihood():
    rng, m = np.random.default_rng(8), 200
    n = rng.integers(1, 30, m) * 1.0
    y, at, h = rng.binomial(n.astype(int), 0.4) * 1.0, evaluation(m, rng), 1e-4
    terms = Binomial().terms(np.stack((y, n), axis=1), at)
    up, here, down = (stats.binom.logpmf(y, n, expit(at.eta[0] + step)) for step in (h, 0.0, -h))
    assert terms.psi[0] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)
    assert terms.root[0, 0] ** 2 == pytest.approx(-(up - 2 * here + down) / h**2, rel=1e-4)


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (2, 0.9), (12, 0.05), (400, 0.4)])
def test_clipped_scores_have_mean_zero_and_keep_within_their_caps(n, p):
    rng, m = np.random.default_rng(9), 200_000
    sd, eta = np.sqrt(n * p * (1 - p)), np.log(p / (1 - p))
    at = Evaluation(
        np.full((1, m), eta), np.full(m, 1.5), np.full(m, 1e-9), 1.2 * sd, 1.1 * sd * sd, 1.0, 4.0
    )
    y = np.stack((rng.binomial(n, p, m), np.full(m, n)), axis=1) * 1.0
    terms = Binomial().terms(y, at)
    psi = terms.psi[0]
    assert abs(psi.mean()) < 4.0 * psi.std() / np.sqrt(m)
    assert psi.var() == pytest.approx(terms.noise[0, 0, 0] ** 2, rel=0.02)
    assert np.abs(psi).max() * 1.5 <= 1.2 * sd * (1 + 1e-9)
    assert (terms.root**2).max() * 1.5**2 <= 1.1 * sd * sd * (1 + 1e-9)


def test_the_mode_is_found_from_far_and_among_many_trials():
    rng, rows = np.random.default_rng(10), 4000
    n, a = rng.integers(200, 1001, rows) * 1.0, rng.uniform(-1, 1, rows)
    p = expit(-4.5 + 1.0 * a)
    cases = rng.binomial(n.astype(int), p) * 1.0
    columns = (
        COLUMNS[0],
        NumberColumn(name="cases", lower=0, upper=1000),
        NumberColumn(name="n", lower=1, upper=1000),
    )
    schema = Schema(columns=columns, rows=rows)
    result, draws = posterior(
        {"a": a, "cases": cases, "n": n}, schema, model_of("cases | trials(n) ~ a"), 11, 2.0
    )
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert np.abs((draws.mean(axis=0) - [-4.5, 1.0]) / draws.std(axis=0)).max() < 3.5


def test_odds_ratios_are_told_in_words_and_predictions_are_shares(people):
    result, _ = posterior(people, SCHEMA, model_of(), 11)
    assert "the odds of cases in a trial are multiplied by" in result.explain()
    free = result.release.posterior(num_draws=4000, random=Seeded(12))
    setting = {"a": 0.0, "g": "no"}
    new = free.predict([setting], random=Seeded(13))[0]
    assert new.expected.mean == pytest.approx(expit(TRUTH[0]), rel=0.05)
    ratio = free.compare({"a": 1.0, "g": "no"}, setting)
    assert ratio.ratio.mean == pytest.approx(np.exp(TRUTH[1]), rel=0.1)
    assert ratio.multiplies == "odds"


def planned(family, formula):
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    return plan(SCHEMA, JobSpec(model=ModelSpec(family=family, formula=formula), privacy=privacy))


@pytest.mark.parametrize(
    ("family", "formula", "words"),
    [
        ("binomial", "cases | trials(few) ~ a", "allow 40 of 'cases' among at most 10 of 'few'"),
        ("binomial", "cases | trials(10) ~ a", "allow 40 of 'cases' among at most 10 of '10'"),
        ("binomial", "below | trials(n) ~ a", "lower bounds of 0 or more"),
        ("binomial", "cases | trials(ill) ~ a", "of a number"),
        ("binomial", "ill | trials(n) ~ a", "needs a number"),
        ("binomial", "cases | rate(n) ~ a", r"offset\(log\(n\)\)"),
        ("binomial", "cases | cens(n) ~ a", r"write surv\(time, event\)"),
        ("binomial", "cases | n ~ a", "cannot be parsed|write arithmetic"),
        ("binomial", "cases | trials(n) | trials(n) ~ a", "left side"),
        ("binomial", "cases ~ trials(n)", "stands on the left side"),
        ("binomial", "cbind(cases, I(n - few)) ~ a", "give two columns"),
        ("binomial", "cases | trials(n) ~ cases", "cannot be a covariate"),
        ("logistic", "cases | trials(n) ~ a", "take binomial"),
        ("poisson", "cases | trials(n) ~ a", "take binomial"),
    ],
)
def test_what_cannot_be_cases_among_trials_is_refused_with_what_to_write(family, formula, words):
    with pytest.raises(SpecError, match=words) as error:
        planned(family, formula)
    assert error.value.pointer == "/model/formula"


def test_the_name_means_single_trials_where_a_formula_has_none():
    assert ModelSpec(family="binomial", formula="ill ~ a").family == "logistic"
    assert planned("Binomial", "cases | trials(n) ~ a").spec.model.family == "binomial"
    assert planned("binomial", "ill ~ a").spec.model.family == "logistic"


def test_trials_are_read_beside_the_cases_and_may_be_a_covariate():
    design = make_design(SCHEMA, "cases | trials(n + few) ~ a + n")
    assert (design.kind, design.usual_trials, design.most_trials) == ("trials", 25.0, 50.0)
    assert design.read == ("a", "n", "cases", "few")
    dot = make_design(Schema(columns=COLUMNS[4:8], rows=10), "cases | trials(n) ~ .")
    assert dot.covariates == ("others", "few")
