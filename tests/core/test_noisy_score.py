"""Noisy scores: the normal approximation is where the posterior is, and knows its noise."""

import numpy as np
import pytest

from dpmcmc.design import make_design
from dpmcmc.models import MODELS
from dpmcmc.planner import plan
from dpmcmc.releases import NoisyScoreOptions, noisy_score
from dpmcmc.run import sample, table_of
from dpmcmc.samplers.warm_start import Found
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from experiments.posteriors import POSTERIORS

FORMULA = "ill ~ age + `body mass` + group"


def job(epsilon, scale=1.0):
    return JobSpec(
        model=ModelSpec(family="logistic", formula=FORMULA, prior=NormalPrior(scale=scale)),
        sampler=NoisyScoreOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=epsilon),
    )


def people(rows, theta, rng):
    age, mass = rng.uniform(20, 80, rows), rng.uniform(10, 50, rows)
    group = rng.choice(3, rows)
    x = np.stack([np.ones(rows), (age - 50) / 30, (mass - 30) / 20, group == 1, group == 2], axis=1)
    ill = np.where(rng.random(rows) < 1 / (1 + np.exp(-x @ theta)), "yes", "no")
    return x, {"age": age, "body mass": mass, "group": np.array(list("abc"))[group], "ill": ill}


def laplace(x, ill, scale):
    """Mode and covariance of the posterior, by Newton's method on the rows."""
    theta, y = np.zeros(x.shape[1]), ill == "yes"
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ theta))
        precision = x.T @ (x * (p * (1 - p))[:, None]) + np.eye(len(theta)) / scale**2
        theta = theta + np.linalg.solve(precision, x.T @ (y - p) - theta / scale**2)
    return theta, np.linalg.inv(precision)


def test_with_all_the_budget_it_is_the_normal_approximation(schema_of):
    rows, rng = 4000, np.random.default_rng(1)
    x, data = people(rows, np.array([-0.5, 0.8, -0.3, 0.5, 0.2]), rng)
    spec = job(1e6)
    found = sample(
        data,
        schema=schema_of(rows),
        model=spec.model,
        delta=spec.privacy.delta,
        epsilon=spec.privacy.epsilon,
        sampler=NoisyScoreOptions(num_steps=20_000, num_chains=1),
    )
    mode, covariance = laplace(x, data["ill"], 1.0)
    sds = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(found.draws[0].mean(axis=0) - mode) < 0.15 * sds)
    assert found.draws[0].std(axis=0) == pytest.approx(sds, rel=0.1)
    assert np.corrcoef(found.draws[0].T) == pytest.approx(covariance / np.outer(sds, sds), abs=0.07)


def test_the_mean_of_a_log_sd_is_not_its_mode():
    """The fewer rows, the further above it: 0.4 posterior sd with 46 rows and 3 columns.

    The mean of three runs, as each has a few hundredths of noise.
    """
    for name in ("linear-small/tight", "linear/wide"):
        made = POSTERIORS[name]()
        means = [
            sample(
                made.columns,
                schema=made.schema,
                model=made.model,
                delta=1e-6,
                epsilon=1e6,
                sampler=NoisyScoreOptions(num_steps=10_000),
            ).draws.mean(axis=(0, 1))
            for _ in range(3)
        ]
        off = (np.mean(means, axis=0) - made.means) / made.sds
        assert np.abs(off).max() < 0.1


def test_the_mean_of_a_rare_response_is_not_its_mode():
    """Exact by a grid over both coefficients: the mode is .3 and .2 posterior sds off."""
    rng, rows = np.random.default_rng(8), 300
    age = rng.uniform(20, 80, rows)
    x = np.stack([np.ones(rows), (age - 50) / 30])
    ill = rng.random(rows) < 1 / (1 + np.exp(4.0 - x[1]))
    grid = np.stack(np.meshgrid(np.linspace(-9, -1, 400), np.linspace(-4, 8, 400), indexing="ij"))
    eta = np.tensordot(grid, x, axes=(0, 0))
    log = np.where(ill, eta, 0.0).sum(axis=2) - np.logaddexp(0.0, eta).sum(axis=2)
    log -= (grid**2).sum(axis=0) / (2 * 5.0**2)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = (grid * weight).sum(axis=(1, 2))
    sds = np.sqrt((grid**2 * weight).sum(axis=(1, 2)) - mean**2)
    mode, _ = laplace(x.T, np.where(ill, "yes", "no"), 5.0)
    assert np.abs((mode - mean) / sds).max() > 0.2
    columns = (
        NumberColumn(name="age", lower=20, upper=80),
        BinaryColumn(name="ill", categories=("no", "yes")),
    )
    found = sample(
        {"age": age, "ill": np.where(ill, "yes", "no")},
        schema=Schema(columns=columns, rows=rows),
        model=ModelSpec(family="logistic", formula="ill ~ age", prior=NormalPrior(scale=5.0)),
        delta=1e-6,
        epsilon=1e6,
        sampler=NoisyScoreOptions(num_steps=20_000, num_chains=1),
    )
    off = (found.draws[0].mean(axis=0) - mean) / sds
    assert np.abs(off).max() < 0.1


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_its_intervals_cover_as_often_as_they_say(schema_of, seeded, epsilon):
    rows, scale, runs = 2000, 0.5, 120
    rng, source = np.random.default_rng(2), seeded(3)
    schema, spec = schema_of(rows), plan(schema_of(rows), job(epsilon, scale)).spec
    design, model = make_design(schema, FORMULA), MODELS["logistic"]
    reach, z = model.form(design, spec).reach, spec.privacy.noise_multiplier
    found = np.empty((runs, 5))
    for run in range(runs):
        theta = rng.normal(0.0, scale, 5)
        _, data = people(rows, theta, rng)
        target = model.target(design, spec, table_of(schema, data), 1)
        posterior = noisy_score.publish(target, reach, spec.sampler, z, source)
        sds = np.sqrt(np.diag(posterior.root @ posterior.root.T))
        assert np.all(sds < scale * 1.0001)
        found[run] = (posterior.mean - theta) / sds
    assert 0.83 < np.mean(np.abs(found) < 1.645) < 0.98
    assert 0.40 < np.mean(np.abs(found) < 0.674) < 0.68


def test_a_mode_that_says_nothing_leaves_the_prior():
    prior_mean, prior = np.array([1.0, -2.0]), np.array([4.0, 0.25])
    precision = np.diag(prior) + np.diag([1e-6, 1e-6])
    inverse = np.linalg.inv(precision)
    root = np.linalg.cholesky(inverse)
    found = Found(np.array([500.0, -800.0]), root, 1e6 * inverse @ inverse, 1e-12 * np.eye(2))
    posterior = noisy_score.posterior(found, prior_mean, prior)
    assert posterior.mean == pytest.approx(prior_mean, abs=1e-4)
    assert posterior.root @ posterior.root.T == pytest.approx(np.diag(1 / prior), rel=1e-4)


def test_an_exact_mode_is_kept():
    prior_mean, prior = np.zeros(2), np.array([1.0, 2.0])
    rows = np.array([[50.0, 20.0], [20.0, 30.0]])
    inverse = np.linalg.inv(rows + np.diag(prior))
    mode = np.array([0.4, -0.7])
    found = Found(mode, np.linalg.cholesky(inverse), np.zeros((2, 2)), 1e-12 * np.eye(2))
    posterior = noisy_score.posterior(found, prior_mean, prior)
    assert posterior.mean == pytest.approx(mode)
    assert posterior.root @ posterior.root.T == pytest.approx(inverse)


def test_a_direction_whose_curvature_drowns_in_noise_says_nothing():
    """One eigenvalue stands out of the noise and counts for less by its size; one does not."""
    prior_mean, prior = np.zeros(2), np.array([0.01, 0.01])
    inverse = np.linalg.inv(np.diag([100.0, 10.0]) + np.diag(prior))
    blur = np.array([[10.0, 0.0], [0.0, 10.0]])
    found = Found(np.array([0.4, 30.0]), np.linalg.cholesky(inverse), np.zeros((2, 2)), blur)
    posterior = noisy_score.posterior(found, prior_mean, prior)
    covariance = posterior.root @ posterior.root.T
    assert np.diag(covariance) == pytest.approx([1 / 90.01, 100.0], rel=1e-6)
    assert posterior.mean == pytest.approx([0.4, 0.0], abs=1e-3)


def test_the_plan_says_that_it_is_an_approximation(schema_of):
    warnings = plan(schema_of(2000), job(1.0)).warnings
    assert any("normal approximation" in warning for warning in warnings)
    assert any("times as wide" in warning and "at epsilon" in warning for warning in warnings)


@pytest.mark.parametrize("most", [1e3, 1e9])
def test_what_is_planned_can_be_run_however_wide_a_response_is(most):
    columns = (
        NumberColumn(name="x", lower=0.0, upper=1.0),
        NumberColumn(name="y", lower=-most, upper=most),
    )
    spec = JobSpec(
        model=ModelSpec(family="linear", formula="y ~ x"),
        sampler=NoisyScoreOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1e6),
    )
    resolved = plan(Schema(columns=columns, rows=300), spec).spec
    assert plan(Schema(columns=columns, rows=300), resolved).spec == resolved
