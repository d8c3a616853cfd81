"""Negative binomial regression: the posterior at large budgets, and what its rows say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import nbinom

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.scores.base import Evaluation
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan

K, TRUTH, PRIOR = 1.5, np.array([1.0, 0.8, -0.6]), 3.0
ROWS, OFFSET = 4000, "visits ~ a + g + offset(log(years))"
SCHEMA = Schema(
    columns=(
        NumberColumn(name="a", lower=-1.0, upper=1.0),
        CategoryColumn(name="g", categories=("no", "yes")),
        NumberColumn(name="years", lower=0.5, upper=2.0),
        NumberColumn(name="copies", lower=0.0, upper=2.0),
        NumberColumn(name="visits", lower=0.0, upper=400.0, missing=(999.0,)),
    ),
    rows=ROWS,
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    a, group = rng.uniform(-1, 1, ROWS), rng.integers(0, 2, ROWS)
    years, copies = rng.uniform(0.5, 2.0, ROWS), rng.integers(0, 3, ROWS)
    mean = years * np.exp(TRUTH @ np.stack([np.ones(ROWS), a, group]))
    visits = np.minimum(rng.poisson(mean * rng.gamma(K, 1.0 / K, ROWS)), 400).astype(float)
    words = np.array(["no", "yes"])
    return {"a": a, "g": words[group], "years": years, "copies": copies * 1.0, "visits": visits}


def model_of(formula="visits ~ a + g", k=K, **told):
    prior, options = NormalPrior(scale=PRIOR), ModelOptions(dispersion=k)
    return ModelSpec(
        family="negative_binomial", formula=formula, prior=prior, options=options, **told
    )


def log_posterior(theta, x, y, offset, weight):
    """Log density at theta (s, 3), up to a constant."""
    eta = theta @ x + offset
    likelihood = y * eta - (K + y) * np.logaddexp(np.log(K), eta)
    return (weight * likelihood).sum(axis=1) - 0.5 * ((theta / PRIOR) ** 2).sum(axis=1)


def exactly(data, offset, weight):
    """Mean and sds of the posterior without privacy: importance sampling around its mode."""
    there = data["visits"] < 999.0
    x = np.stack([np.ones(ROWS), data["a"], (data["g"] == "yes") * 1.0])[:, there]
    y, offset, weight = data["visits"][there], offset[there], weight[there]
    theta = np.array([1.0, 0.0, 0.0])
    for _ in range(50):
        mean = np.exp(theta @ x + offset)
        precision = (x * (weight * K * mean / (K + mean))) @ x.T + np.eye(3) / PRIOR**2
        score = x @ (weight * K * (y - mean) / (K + mean)) - theta / PRIOR**2
        theta = theta + np.linalg.solve(precision, score)
    rng = np.random.default_rng(2)
    z = rng.standard_normal((4000, 3)) * 1.1
    draws = theta + z @ np.linalg.cholesky(np.linalg.inv(precision)).T
    log = log_posterior(draws, x, y, offset, weight) + 0.5 * ((z / 1.1) ** 2).sum(axis=1)
    shares = np.exp(log - log.max())
    shares /= shares.sum()
    assert 1.0 / (shares**2).sum() > 3000.0
    found = shares @ draws
    return found, np.sqrt(shares @ (draws - found) ** 2)


NOTHING, ONES = np.zeros(ROWS), np.ones(ROWS)
GIVEN = {
    "plain": {},
    "offset": {"formula": OFFSET},
    "weights": {"weights": "copies"},
    "missing": {},
}


# sds of a robust fit are as the model has them, and of the model's own as the rows' scores vary
@pytest.mark.longer
@pytest.mark.parametrize(("estimand", "apart"), [("robust", 0.05), ("model", 0.1)])
@pytest.mark.parametrize("case", GIVEN)
def test_with_all_the_budget_it_is_the_exact_posterior(case, estimand, apart, people, seeded):
    data = dict(people)
    if case == "missing":
        data["visits"] = np.where(np.arange(ROWS) % 5 == 0, 999.0, data["visits"])
    offset = np.log(data["years"]) if case == "offset" else NOTHING
    weight = data["copies"] if case == "weights" else ONES
    result = sample(
        data, schema=SCHEMA, model=model_of(**GIVEN[case]), epsilon=1e6, delta=1e-6,
        random=seeded(3), sampler=NoisyQuadraticOptions(estimand=estimand),
    )  # fmt: skip
    assert result.plan.spec.sampler.algorithm == "noisy_quadratic"
    assert result.verdict.status == "reliable"
    means, sds = exactly(data, offset, weight)
    draws = result.draws.reshape(-1, 3)
    assert np.abs((draws.mean(axis=0) - means) / sds).max() < 0.1
    assert np.abs(draws.std(axis=0) / sds - 1.0).max() < apart


def logs_of_both(theta, x, y, offset, weight):
    """Log density at theta (s, 4), log k last, up to a constant."""
    eta, k = theta[:, :3] @ x + offset, np.exp(theta[:, 3:])
    logs = gammaln(y + k) - gammaln(k) + k * theta[:, 3:] - (k + y) * np.log(k + np.exp(eta))
    prior = 0.5 * ((theta[:, :3] / PRIOR) ** 2).sum(axis=1) + 0.5 * (theta[:, 3] / 2.0) ** 2
    return (weight * (logs + y * eta)).sum(axis=1) - prior


def exactly_both(data, offset, weight):
    """Mean and sds of the posterior of coefficients and log k: importance sampling."""
    there = data["visits"] < 999.0
    x = np.stack([np.ones(ROWS), data["a"], (data["g"] == "yes") * 1.0])[:, there]
    told = x, data["visits"][there], offset[there], weight[there]
    mode = minimize(lambda t: -logs_of_both(t[None], *told)[0], np.append(TRUTH, np.log(K)))
    rng = np.random.default_rng(2)
    z = rng.standard_normal((4000, 4)) * 1.1
    each, ways = 0.01, [(i, j) for i in range(4) for j in range(4)]
    unit = each * np.eye(4)
    at = [mode.x + a * unit[i] + b * unit[j] for i, j in ways for a in (1, -1) for b in (1, -1)]
    bent = logs_of_both(np.array(at), *told).reshape(4, 4, 4) @ [-1.0, 1.0, 1.0, -1.0]
    draws = mode.x + z @ np.linalg.cholesky(np.linalg.inv(0.25 * bent / each**2)).T
    log = logs_of_both(draws, *told) + 0.5 * ((z / 1.1) ** 2).sum(axis=1)
    shares = np.exp(log - log.max())
    shares /= shares.sum()
    assert 1.0 / (shares**2).sum() > 2000.0
    found = shares @ draws
    return found, np.sqrt(shares @ (draws - found) ** 2)


@pytest.mark.longer
@pytest.mark.parametrize("case", GIVEN)
def test_a_dispersion_is_estimated_with_its_coefficients(case, people, seeded):
    data = dict(people)
    if case == "missing":
        data["visits"] = np.where(np.arange(ROWS) % 5 == 0, 999.0, data["visits"])
    offset = np.log(data["years"]) if case == "offset" else NOTHING
    weight = data["copies"] if case == "weights" else ONES
    result = sample(
        data, schema=SCHEMA, model=model_of(k=None, **GIVEN[case]), epsilon=1e6, delta=1e-6,
        random=seeded(3),
    )  # fmt: skip
    assert result.plan.parameters == ("Intercept", "a", "g[yes]", "log_dispersion")
    assert result.verdict.status == "reliable"
    means, sds = exactly_both(data, offset, weight)
    draws = result.draws.reshape(-1, 4)
    assert np.abs((draws.mean(axis=0) - means) / sds).max() < 0.15
    assert np.abs(draws.std(axis=0) / sds - 1.0).max() < 0.15


def test_where_counts_are_nearly_poisson_no_dispersion_is_claimed(seeded):
    rng = np.random.default_rng(5)
    data = {"a": rng.uniform(-1, 1, ROWS)}
    data["visits"] = rng.poisson(np.exp(1.0 + 0.8 * data["a"])) * 1.0
    schema = replace(SCHEMA, columns=(SCHEMA.columns[0], SCHEMA.columns[-1]))
    result = sample(
        data, schema=schema, model=model_of("visits ~ a", None), epsilon=4.0, delta=1e-6,
        random=seeded(6),
    )  # fmt: skip
    draws = result.draws.reshape(-1, 3)
    assert result.verdict.status != "reliable" or np.quantile(draws[:, 2], 0.95) > np.log(20.0)


@pytest.mark.parametrize("k", [0.1, 2.0, 60.0])
@pytest.mark.parametrize("eta", [-3.0, 0.5, 4.0])
def test_a_count_says_the_gradient_of_its_log_likelihood_and_what_it_tells(k, eta):
    mean, step, family = np.exp(eta), 1e-5, rows_of(None)
    y = np.arange(0.0, nbinom.ppf(1 - 1e-13, k, k / (k + mean)) + 2.0)
    one, law = np.ones(len(y)), nbinom.pmf(y, k, k / (k + mean))

    def log(eta, k):
        return nbinom.logpmf(y, k, k / (k + np.exp(eta)))

    psi = family.score(y, mean * one, k)
    along = log(eta + step, k) - log(eta - step, k)
    in_k = log(eta, k * np.exp(step)) - log(eta, k * np.exp(-step))
    np.testing.assert_allclose(psi, np.stack((along, in_k)) / 2.0 / step, rtol=1e-4, atol=1e-5)
    told = family.expected(mean * one, k)[:, 0]
    np.testing.assert_allclose((psi * psi) @ law, told, rtol=2e-2)
    assert (psi[0] * psi[1]) @ law == pytest.approx(0.0, abs=1e-6 * np.sqrt(told.prod()))
    place = Evaluation(
        np.stack((eta * one, np.log(k) * one)), one, 0.0 * one, 1e13, 1e13, 1.0, 1.0,
        inner=np.ones((2, 2, len(y))),
    )  # fmt: skip
    whole = family.terms(y, place)
    slopes = np.einsum("cem,dem->cdm", whole.root, whole.root)
    moved = [family.score(y, np.exp(eta + s) * one, k)[0] for s in (-step, step)]
    np.testing.assert_allclose(
        slopes[0, 0], (moved[0] - moved[1]) / 2.0 / step, rtol=1e-4, atol=1e-6
    )
    assert slopes[1, 1] == pytest.approx(told[1])
    np.testing.assert_allclose(whole.psi, psi)


def rows_of(k):
    return MODELS["negative_binomial"].rows(ModelOptions(dispersion=k))


@pytest.mark.parametrize("k", [0.3, 2.0, 40.0, 1e6])
@pytest.mark.parametrize("eta", [-2.0, 0.5, 3.0])
@pytest.mark.parametrize("most", [0.2, 1.0, 30.0])
def test_cut_scores_have_mean_0_and_the_slope_and_variance_that_they_say(k, eta, most):
    mean = np.exp(eta)
    y = np.arange(0.0, nbinom.ppf(1 - 1e-14, k, k / (k + mean)) + 2.0)
    one, family = np.ones(len(y)), rows_of(k)
    place = Evaluation(eta * one[None], one, 1e-5 * one, most, 1e9, 1.3, 4.0)
    told, p = family.terms(y, place), nbinom.pmf(y, k, k / (k + mean))
    psi = told.psi[0]
    assert p @ psi == pytest.approx(0.0, abs=1e-7)
    assert p @ psi**2 == pytest.approx(p @ told.noise[0, 0] ** 2, rel=1e-6)
    other = np.exp(eta + 1e-4)
    moved = nbinom.pmf(y, k, k / (k + other)) @ psi / 1e-4
    assert moved == pytest.approx(p @ told.root[0, 0] ** 2, rel=2e-3)
    assert np.abs(psi).max() <= most * (1 + 1e-9)
    assert (told.square <= 16.0).all()


def test_the_curvature_near_the_mode_is_that_of_the_counts_that_were_seen():
    """Where a mean is wrong, the posterior's width is not what the model expects."""
    y, one, k, mean = np.array([0.0, 3.0, 90.0]), np.ones(3), 2.0, np.exp(1.2)
    place = Evaluation(1.2 * one[None], one, 1e-6 * one, 1e9, 1e9, 1.0, 4.0)
    told = rows_of(k).terms(y, place)
    observed = k * mean * (k + y) / (k + mean) ** 2
    np.testing.assert_allclose(told.root[0, 0] ** 2, observed, rtol=1e-6)
    np.testing.assert_allclose(told.noise[0, 0] ** 2, observed, rtol=1e-6)


def test_so_large_a_dispersion_is_poisson_regression():
    rng = np.random.default_rng(3)
    y, one = rng.poisson(3.0, 500) * 1.0, np.ones(500)
    place = Evaluation(rng.normal(1, 0.5, (1, 500)), one, 0.05 * one, 1.5, 3.0, 1.2, 3.0)
    poisson = MODELS["poisson"].rows(ModelOptions())
    ours, known = rows_of(1e6).terms(y, place), poisson.terms(y, place)
    for part in ("psi", "root", "noise", "square"):
        np.testing.assert_allclose(getattr(ours, part), getattr(known, part), rtol=3e-4, atol=1e-5)


def test_a_dispersion_that_says_too_little_is_told(people, seeded):
    """Coefficients are right all the same, where no row is cut."""
    for k, epsilon, reliable, narrow in (
        (K, 2.0, True, False),
        (K, 1e6, True, False),
        (50.0, 2.0, False, True),
        (50.0, 1e6, True, True),
    ):
        result = sample(
            people, schema=SCHEMA, model=model_of(OFFSET, k), epsilon=epsilon, delta=1e-6,
            random=seeded(4),
        )  # fmt: skip
        told = result.verdict
        assert (told.status == "reliable") is reliable, told.sentence
        assert ("times as much as the model says" in told.sentence) is narrow
        if reliable:
            found = result.draws.reshape(-1, 3).mean(axis=0)
            assert found == pytest.approx(TRUTH, abs=0.2)


@pytest.mark.parametrize("k", [K, None])
def test_new_counts_vary_as_the_dispersion_says(k, people, seeded):
    result = sample(
        people, schema=SCHEMA, model=model_of(OFFSET, k), epsilon=1e6, delta=1e-6, random=seeded(5)
    )
    found = result.release.posterior(None, 20_000, random=seeded(6))
    (one,) = found.predict([{"a": 0.5, "g": "no", "years": 1.0}], random=seeded(7))
    mean = float(np.exp(TRUTH[0] + 0.5 * TRUTH[1]))
    assert one.expected.mean == pytest.approx(mean, rel=0.1)
    assert one.response.mean == pytest.approx(one.expected.mean, rel=0.03)
    assert one.response.sd == pytest.approx(np.sqrt(mean + mean**2 / K), rel=0.12)
    effect = found.compare({"a": 1.0, "g": "no", "years": 1.0}, {"a": 0.0, "g": "no", "years": 1.0})
    assert effect.multiplies == "mean count"
    assert effect.ratio.mean == pytest.approx(np.exp(TRUTH[1]), rel=0.1)


@pytest.mark.parametrize(
    ("formula", "k", "sampler", "pointer"),
    [
        ("visits ~ a", None, "robust", "/sampler/estimand"),
        ("visits ~ a", 0.0, "auto", "/model/options/dispersion"),
        ("visits ~ a", float("nan"), "auto", "/model/options/dispersion"),
        ("a ~ g", 1.0, "auto", "/model/formula"),
        ("g ~ a", 1.0, "auto", "/model/formula"),
        ("visits ~ a", 1.0, "dp_penalty", "/sampler/algorithm"),
    ],
)
def test_what_it_cannot_be_asked_for_is_refused(formula, k, sampler, pointer):
    from dpmcmc.inputs.options import AutoOptions
    from dpmcmc.samplers.algorithms import ALGORITHMS

    options = AutoOptions() if sampler == "auto" else NoisyQuadraticOptions(estimand="robust")
    if sampler in ALGORITHMS:
        options = ALGORITHMS[sampler].options()
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    spec = JobSpec(model=model_of(formula, k), sampler=options, privacy=privacy)
    with pytest.raises(SpecError) as caught:
        plan(SCHEMA, spec)
    assert caught.value.pointer == pointer
