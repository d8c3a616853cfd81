"""Gamma regression: the posterior at large budgets, what its rows say, and other responses."""

import numpy as np
import pytest
from scipy import stats

from dpmcmc.base.errors import SpecError
from dpmcmc.families.gamma import Gamma
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from tests.cases import posterior
from tests.sources import Seeded

ROWS, TRUTH = 4000, np.array([6.0, 0.8, -0.5])
ENDS = (1.0, 2e4)


def schema_of(rows=ROWS, **more):
    return Schema(
        columns=(
            NumberColumn(name="a", lower=-1.0, upper=1.0),
            CategoryColumn(name="g", categories=("no", "yes")),
            NumberColumn(name="base", lower=-1.0, upper=1.0),
            NumberColumn(name="many", lower=0.0, upper=3.0),
            NumberColumn(name="zero", lower=0.0, upper=2e4),
            NumberColumn(name="y", lower=ENDS[0], upper=ENDS[1], missing=(0.0,)),
        ),
        rows=rows,
        **more,
    )


def people_of(rng, rows=ROWS, shape=2.0):
    a, g = rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)
    y = np.exp(TRUTH @ np.stack([np.ones(rows), a, g])) * rng.gamma(shape, 1.0 / shape, rows)
    base, many = rng.uniform(-1, 1, rows), rng.integers(1, 4, rows) * 1.0
    columns = {"a": a, "g": np.array(["no", "yes"])[g], "base": base, "many": many, "zero": y}
    return {**columns, "y": np.clip(y, *ENDS)}


@pytest.fixture(scope="module")
def people():
    return people_of(np.random.default_rng(1))


def model_of(formula="y ~ a + g", **more):
    return ModelSpec(family="gamma", formula=formula, **more)


def design_of(data):
    return np.stack([np.ones(len(data["y"])), data["a"], data["g"] == "yes"])


def fitted(x, y, weight=1.0, offset=0.0, unit=None):
    """The maximum likelihood fit, its sandwich sds, and the sd of y over its mean."""
    theta, weight = np.linalg.lstsq(x.T, np.log(y), rcond=None)[0], weight * np.ones(len(y))
    for _ in range(50):
        u = y * np.exp(-theta @ x - offset)
        theta = theta + np.linalg.solve((x * weight) @ x.T, x @ (weight * (u - 1.0)))
    u = y * np.exp(-theta @ x - offset)
    scores = x * np.sqrt(weight) * (u - 1.0)
    if unit is not None:
        together = np.zeros((unit.max() + 1, len(x)))
        np.add.at(together, unit, scores.T)
        scores = together.T
    back = np.linalg.inv((x * weight * u) @ x.T)
    return theta, np.sqrt(np.diag(back @ scores @ scores.T @ back)), (u - 1.0).std()


@pytest.mark.parametrize("case", ["plain", "offset", "weights", "missing", "no intercept"])
def test_without_noise_it_is_the_fit_of_the_model(people, case):
    data, x, more, known = dict(people), design_of(people), {}, {}
    there = np.ones(ROWS, bool)
    if case == "offset":
        data["y"] = np.clip(data["y"] * np.exp(data["base"]), *ENDS)
        more, known = {"formula": "y ~ a + g + offset(base)"}, {"offset": data["base"]}
    elif case == "weights":
        more, known = {"weights": "many"}, {"weight": data["many"]}
    elif case == "missing":
        there = np.random.default_rng(2).random(ROWS) < 0.8
        data["y"] = np.where(there, data["y"], 0.0)
    elif case == "no intercept":
        more = {"formula": "y ~ 0 + g + a"}
        x = np.stack([data["g"] == "no", data["g"] == "yes", data["a"]]) * 1.0
    theta, sds, sigma = fitted(x[:, there], data["y"][there], **known)
    result, draws = posterior(data, schema_of(), model_of(**more), 5)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert result.plan.parameters[-1] == "log_sigma"
    assert np.abs((draws[:, :-1].mean(axis=0) - theta) / sds).max() < 0.15
    assert draws[:, :-1].std(axis=0) / sds == pytest.approx(np.ones(3), abs=0.1)
    assert np.exp(draws[:, -1].mean()) == pytest.approx(sigma, rel=0.03)


@pytest.mark.parametrize("law", ["even", "skewed", "lognormal", "another mean"])
def test_responses_of_other_laws_have_the_fit_that_the_model_has_for_them(people, law):
    rng, x = np.random.default_rng(4), design_of(people)
    factor = {
        "even": rng.gamma(25.0, 1 / 25.0, ROWS),
        "skewed": rng.gamma(0.5, 2.0, ROWS),
        "lognormal": np.exp(0.8 * rng.normal(size=ROWS) - 0.32),
        "another mean": rng.gamma(2.0, 0.5, ROWS) * np.exp(people["a"] ** 2),
    }[law]
    y = np.clip(np.exp(TRUTH @ x) * factor, *ENDS)
    theta, sds, sigma = fitted(x, y)
    result, draws = posterior({**people, "y": y}, schema_of(), model_of(), 5)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert np.abs((draws[:, :-1].mean(axis=0) - theta) / sds).max() < 0.2
    assert draws[:, :-1].std(axis=0) / sds == pytest.approx(np.ones(3), abs=0.12)
    assert np.exp(draws[:, -1].mean()) == pytest.approx(sigma, rel=0.05)


def test_persons_have_the_cluster_robust_width():
    rng = np.random.default_rng(6)
    person = np.repeat(np.arange(2500), rng.integers(1, 5, 2500))
    a = np.clip(rng.normal(0.0, 0.4, 2500), -1, 1)[person]
    shared = rng.gamma(4.0, 0.25, 2500)[person]
    y = np.clip(np.exp(2.0 + a) * shared * rng.gamma(4.0, 0.25, len(person)), 0.01, 500.0)
    rows = {"patient": person, "a": a, "y": y}
    schema = Schema.from_frame(
        rows, bounds={"a": (-1, 1), "y": (0.01, 500.0)}, privacy_unit="patient", max_rows=4
    )
    x = np.stack([np.ones(len(person)), a])
    theta, sds, _ = fitted(x, y, unit=person)
    alone = fitted(x, y)[1]
    result, draws = posterior(rows, schema, model_of("y ~ a"), 7)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert np.abs((draws[:, :-1].mean(axis=0) - theta) / sds).max() < 0.25
    assert draws[:, :-1].std(axis=0) / sds == pytest.approx(np.ones(2), abs=0.12)
    assert (sds > 1.2 * alone).all()


@pytest.mark.longer
@pytest.mark.parametrize("epsilon", [8.0, 16.0])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon):
    held, runs = [], 60
    for seed in range(runs):
        rows = people_of(np.random.default_rng(100 + seed), 20_000)
        rows = {**rows, "y": np.minimum(rows["y"], 6000.0)}
        columns = [NumberColumn(name="y", lower=1.0, upper=6000.0), *schema_of().columns[:2]]
        schema = Schema(columns=tuple(columns), rows=20_000)
        rows = {name: rows[name] for name in ("y", "a", "g")}
        result, draws = posterior(rows, schema, model_of(), 1000 + seed, epsilon)
        if result.verdict.status == "reliable":
            low, high = np.quantile(draws[:, :-1], [0.05, 0.95], axis=0)
            held.append((low < TRUTH) & (high > TRUTH))
    assert len(held) > runs / 3
    # four standard errors of as many times 3 intervals, those of a fit taken for half independent
    assert np.mean(held) == pytest.approx(0.9, abs=4.0 * np.sqrt(0.09 / (1.5 * len(held))))


def evaluation(m, rng, most=UNCUT, curved=UNCUT, scale=1.0):
    eta, length = rng.normal(size=(1, m)), rng.uniform(0.01, 5.0, m)
    return Evaluation(eta, length, np.zeros(m), most, curved, scale, 4.0)


def test_scores_and_slopes_are_the_derivatives_of_the_log_likelihood():
    rng, m, sigma = np.random.default_rng(8), 200, 0.7
    y, at, k = rng.gamma(2.0, 0.5, m), evaluation(m, rng, scale=sigma), sigma**-2.0
    terms = Gamma().terms(y, at)

    def log_likelihood(eta):
        return stats.gamma.logpdf(y, k, scale=np.exp(eta) / k)

    eta, h = at.eta[0], 1e-4
    up, here, down = (log_likelihood(eta + step) for step in (h, 0.0, -h))
    assert terms.psi[0] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)
    assert terms.root[0, 0] ** 2 == pytest.approx(-(up - 2 * here + down) / h**2, rel=1e-4)


@pytest.mark.parametrize("sigma", [0.2, 1.0, 2.0])
def test_clipped_scores_have_mean_zero_and_keep_within_their_caps(sigma):
    rng, m = np.random.default_rng(9), 200_000
    at = Evaluation(
        np.zeros((1, m)), np.full(m, 1.5), np.full(m, 1e-9), 1.2 / sigma, 1.1 / sigma**2, sigma, 4.0
    )
    terms = Gamma().terms(rng.gamma(sigma**-2.0, sigma**2, m), at)
    psi = terms.psi[0]
    assert abs(psi.mean()) < 4.0 * psi.std() / np.sqrt(m)
    assert psi.var() == pytest.approx(terms.noise[0, 0, 0] ** 2, rel=0.02)
    assert np.abs(psi).max() * 1.5 <= 1.2 / sigma * (1 + 1e-9)
    assert (terms.root**2).max() * 1.5**2 <= 1.1 / sigma**2 * (1 + 1e-9)


def test_new_responses_and_ratios_of_means(people):
    result, _ = posterior(people, schema_of(), model_of(), 11)
    free = result.release.posterior(num_draws=40_000, random=Seeded(12))
    setting = {"a": 0.0, "g": "no"}
    new = free.predict([setting], random=Seeded(13))[0]
    mean = np.exp(TRUTH[0])
    law = stats.gamma(2.0, scale=mean / 2.0)
    assert new.expected.mean == pytest.approx(mean, rel=0.05)
    assert new.response.q95 == pytest.approx(law.ppf(0.95), rel=0.08)
    assert new.response.sd == pytest.approx(law.std(), rel=0.08)
    ratio = free.compare({"a": 1.0, "g": "no"}, setting)
    assert ratio.ratio.mean == pytest.approx(np.exp(TRUTH[1]), rel=0.1)
    assert ratio.multiplies == "mean"


@pytest.mark.parametrize("kind", ["constant", "at a bound", "most at a point", "far tail"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_responses_without_a_fit_are_unreliable_and_raise_nothing(people, kind, epsilon):
    rng = np.random.default_rng(19)
    y = {
        "constant": np.full(ROWS, 300.0),
        "at a bound": np.full(ROWS, 2e4),
        "most at a point": np.where(rng.random(ROWS) < 0.98, 1.0, 2e4),
        "far tail": np.clip(np.exp(3.0 * rng.normal(size=ROWS) + 3.0), *ENDS),
    }[kind]
    result, draws = posterior({**people, "y": y}, schema_of(), model_of(), 20, epsilon)
    assert result.verdict.status == "unreliable"
    assert np.isfinite(draws).all()


@pytest.mark.parametrize(
    ("formula", "words"),
    [("zero ~ a", "lower bound of 'zero' is 0"), ("g ~ a", "needs a number"), ("~ a", "response")],
)
def test_responses_that_are_not_above_zero_are_refused(formula, words):
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    with pytest.raises(SpecError, match=words) as error:
        plan(schema_of(), JobSpec(model=model_of(formula), privacy=privacy))
    assert error.value.pointer == "/model/formula"


def test_a_robust_answer_is_refused():
    options = NoisyQuadraticOptions(estimand="robust")
    spec = JobSpec(model=model_of(), sampler=options, privacy=PrivacySpec(epsilon=1.0, delta=1e-6))
    with pytest.raises(SpecError, match="mean of skewed responses"):
        plan(schema_of(), spec)
