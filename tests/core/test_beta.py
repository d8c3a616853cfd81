"""Beta regression of shares: the posterior at large budgets, and what its rows say."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import beta

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.beta import Beta
from dpmcmc.families.scores.base import Evaluation
from dpmcmc.fit.local import sample
from dpmcmc.inputs.schema import CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec, NormalPrior

ROWS, TRUTH, PHI, PRIOR = 4000, np.array([-0.5, 0.8, -0.6]), 6.0, 3.0
SCHEMA = Schema(
    columns=(
        NumberColumn(name="a", lower=-1.0, upper=1.0),
        CategoryColumn(name="g", categories=("no", "yes")),
        NumberColumn(name="o", lower=-0.5, upper=0.5),
        NumberColumn(name="share", lower=0.001, upper=0.999, missing=(9.0,)),
    ),
    rows=ROWS,
)


@pytest.fixture(scope="module")
def homes():
    rng = np.random.default_rng(1)
    a, group, o = rng.uniform(-1, 1, ROWS), rng.integers(0, 2, ROWS), rng.uniform(-0.5, 0.5, ROWS)
    mean = expit(TRUTH @ np.stack([np.ones(ROWS), a, group]) + o)
    share = np.clip(rng.beta(mean * PHI, (1.0 - mean) * PHI), 0.001, 0.999)
    return {"a": a, "g": np.array(["no", "yes"])[group], "o": o, "share": share}


def model_of(formula="share ~ a + g + offset(o)", **told):
    return ModelSpec(family="beta", formula=formula, prior=NormalPrior(scale=PRIOR), **told)


def log_density(theta, x, y, offset):
    """Of the posterior at theta (s, 4), log phi last, up to a constant."""
    mean, phi = expit(theta[:, :3] @ x + offset), np.exp(theta[:, 3:])
    logs = beta.logpdf(y, mean * phi, (1.0 - mean) * phi).sum(axis=1)
    return logs - 0.5 * ((theta[:, :3] / PRIOR) ** 2).sum(axis=1) - (theta[:, 3] - 2.0) ** 2 / 8.0


@pytest.mark.parametrize("case", ["offset", "missing"])
def test_with_all_the_budget_it_is_the_exact_posterior(case, homes, seeded):
    data, there = dict(homes), np.full(ROWS, True)
    if case == "missing":
        there = np.arange(ROWS) % 5 > 0
        data["share"] = np.where(there, data["share"], 9.0)
    result = sample(
        data, schema=SCHEMA, model=model_of(), epsilon=1e6, delta=1e-6, random=seeded(3)
    )
    assert result.plan.parameters == ("Intercept", "a", "g[yes]", "log_dispersion")
    assert result.verdict.status == "reliable"
    x = np.stack([np.ones(ROWS), data["a"], (data["g"] == "yes") * 1.0])[:, there]
    told = x, data["share"][there], data["o"][there]
    start = np.append(TRUTH, np.log(PHI))
    mode = minimize(lambda t: -log_density(t[None], *told)[0], start, tol=1e-6).x
    each, pairs = 0.01 * np.eye(4), [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    at = [mode + s * each[i] + t * each[j] for i in range(4) for j in range(4) for s, t in pairs]
    bent = log_density(np.array(at), *told).reshape(4, 4, 4) @ [-1.0, 1.0, 1.0, -1.0]
    root = np.linalg.cholesky(np.linalg.inv(bent / 4e-4))
    z = 1.1 * np.random.default_rng(2).standard_normal((2000, 4))
    draws = mode + z @ root.T
    log = log_density(draws, *told) + 0.5 * ((z / 1.1) ** 2).sum(axis=1)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    assert 1.0 / (weights**2).sum() > 1000.0
    mean = weights @ draws
    sds = np.sqrt(weights @ (draws - mean) ** 2)
    found = result.draws.reshape(-1, 4)
    assert np.abs((found.mean(axis=0) - mean) / sds).max() < 0.15
    assert np.abs(found.std(axis=0) / sds - 1.0).max() < 0.15


@pytest.mark.longer
@pytest.mark.parametrize("phi", [2.0, 6.0, 300.0])
@pytest.mark.parametrize("eta", [-2.5, 0.0, 1.0])
def test_a_share_says_the_gradient_of_its_log_likelihood_and_what_it_tells(phi, eta):
    family, mean, step, m = Beta(), float(expit(eta)), 1e-5, 200_001
    at = (np.arange(m) + 0.5) / m
    y = np.clip(beta.ppf(at, mean * phi, (1.0 - mean) * phi), 1e-290, 1.0 - 1e-16)
    one = np.ones(m)

    def log(eta, phi):
        there = expit(eta)
        return beta.logpdf(y, there * phi, (1.0 - there) * phi)

    psi = family.score(y, mean * one, phi)
    along = log(eta + step, phi) - log(eta - step, phi)
    in_phi = log(eta, phi * np.exp(step)) - log(eta, phi * np.exp(-step))
    np.testing.assert_allclose(psi, np.stack((along, in_phi)) / 2.0 / step, rtol=1e-3, atol=1e-3)
    place = Evaluation(
        np.stack((eta * one, np.log(phi) * one)), one, 0.0 * one, 1e13, 1e13, 1.0, 1.0,
        inner=np.ones((2, 2, m)),
    )  # fmt: skip
    whole = family.terms(y, place)
    told = np.einsum("cem,dem->cdm", whole.root, whole.root)[..., 0]
    np.testing.assert_allclose(psi @ psi.T / m, told, rtol=0.03, atol=2e-3 * told.max())
    np.testing.assert_allclose(told.diagonal(), family.expected(mean * one[:1], phi)[:, 0])
    np.testing.assert_allclose(whole.psi, psi)


def test_new_shares_vary_as_the_dispersion_says(homes, seeded):
    result = sample(
        homes, schema=SCHEMA, model=model_of(), epsilon=1e6, delta=1e-6, random=seeded(5)
    )
    found = result.release.posterior(None, 20_000, random=seeded(6))
    (one,) = found.predict([{"a": 0.5, "g": "no", "o": 0.0}], random=seeded(7))
    mean = float(expit(TRUTH[0] + 0.5 * TRUTH[1]))
    assert one.expected.mean == pytest.approx(mean, abs=0.02)
    assert one.response.mean == pytest.approx(one.expected.mean, abs=0.01)
    assert one.response.sd == pytest.approx(np.sqrt(mean * (1.0 - mean) / (1.0 + PHI)), rel=0.1)
    effect = found.compare({"a": 1.0, "g": "no", "o": 0.0}, {"a": 0.0, "g": "no", "o": 0.0})
    assert effect.multiplies == "odds of the mean"
    assert effect.ratio.mean == pytest.approx(np.exp(TRUTH[1]), rel=0.1)
    assert "the odds of the mean of share" in result.explain()


def test_intervals_of_reliable_results_hold_the_truth():
    held, reliable = [], 0
    for run in range(20):
        rng = np.random.default_rng([7, run])
        a, group = rng.uniform(-1, 1, ROWS), rng.integers(0, 2, ROWS)
        mean = expit(TRUTH @ np.stack([np.ones(ROWS), a, group]))
        share = np.clip(rng.beta(mean * PHI, (1.0 - mean) * PHI), 0.001, 0.999)
        data = {"a": a, "g": np.array(["no", "yes"])[group], "o": 0.0 * a, "share": share}
        result = sample(
            data, schema=SCHEMA, model=model_of("share ~ a + g"), epsilon=2.0, delta=1e-6
        )
        if result.verdict.status == "reliable":
            low, high = np.quantile(result.draws.reshape(-1, 4), (0.05, 0.95), axis=0)
            truth, reliable = np.append(TRUTH, np.log(PHI)), reliable + 1
            held.append((low < truth) & (truth < high))
    assert reliable >= 12
    assert 0.75 <= np.mean(held) <= 1.0


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 0.9), (0.1, 1.0), (-1.0, 0.5)])
def test_bounds_that_a_share_cannot_have_are_refused_with_the_remedy(lower, upper):
    columns = (SCHEMA.columns[0], NumberColumn(name="share", lower=lower, upper=upper))
    model = model_of("share ~ a")
    schema = Schema(columns=columns, rows=10)
    data = {"a": np.zeros(10), "share": np.full(10, 0.3)}
    with pytest.raises(SpecError, match=r"'share' has bounds .* such as 0\.001 and 0\.999"):
        sample(data, schema=schema, model=model, epsilon=1.0, delta=1e-6)
    assert "beta" in MODELS
