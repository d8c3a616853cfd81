"""A budget so large that noise is next to nothing gives the posterior, or a verdict that says no.

Also where covariates tell responses apart, where the prior rules, and where single rows lie far
out.
"""

import numpy as np
import pytest

from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import NormalPrior
from tests.sources import Seeded

EPSILON = 1e6


def parted(others, rows=200):
    """Return a response that a covariate tells, but for so many rows on either side."""
    x = np.linspace(-1.0, 1.0, rows)
    answers, middle = x > 0.0, rows // 2
    answers[middle - 8 : middle - 8 + others] = True
    answers[middle + 8 - others : middle + 8] = False
    return {"x": x, "y": np.where(answers, "yes", "no")}


def exactly(data, prior):
    """Return means and sds of intercept and slope, by sums over a grid."""
    one = np.linspace(-20.0, 8.0, 281) * max(1.0, prior.scale / 2.5)
    other = np.linspace(-5.0, 80.0, 401) * max(1.0, prior.scale / 2.5)
    if prior.scale < 0.5:
        one, other = (prior.loc + prior.scale * np.linspace(-7, 7, 401) for _ in range(2))
    a, b = np.meshgrid(one, other, indexing="ij")
    log = -0.5 * ((a - prior.loc) ** 2 + (b - prior.loc) ** 2) / prior.scale**2
    for x, y in zip(data["x"], data["y"], strict=True):
        eta = a + b * x
        log += eta * (y == "yes") - np.logaddexp(0.0, eta)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    means = np.array([(weight * part).sum() for part in (a, b)])
    squares = np.array([(weight * part**2).sum() for part in (a, b)])
    return means, np.sqrt(squares - means**2)


def fit_of(data, prior, epsilon=EPSILON, estimand=None):
    schema = Schema.from_frame(data, bounds={"x": (-1, 1), "y": ("no", "yes")})
    sampler = NoisyQuadraticOptions(estimand=estimand)
    how = {"sampler": sampler, "random": Seeded(3), "delta": 1e-6}
    return sample("y ~ x", data, schema, prior=prior, epsilon=epsilon, **how)


@pytest.mark.parametrize("estimand", ["robust", "model"])
@pytest.mark.parametrize(
    "prior", [NormalPrior(scale=1.5), NormalPrior(scale=0.1), NormalPrior(scale=0.2, loc=1.0)]
)
def test_a_prior_that_rules_where_the_posterior_lies_is_followed_there(prior, estimand):
    data = parted(4)
    means, sds = exactly(data, prior)
    fit = fit_of(data, prior, estimand=estimand)
    draws = fit.draws.reshape(-1, 2)
    assert np.abs((draws.mean(axis=0) - means) / sds).max() < 0.1
    assert np.abs(draws.std(axis=0) / sds - 1.0).max() < 0.05
    assert fit.verdict.status == "reliable", fit.verdict.sentence


def test_a_posterior_that_is_not_normal_is_called_unreliable():
    """Nothing but a wide prior keeps the slope from infinity."""
    fit = fit_of(parted(0), NormalPrior(scale=100.0))
    assert fit.verdict.status == "unreliable"
    assert "is not normal" in fit.verdict.sentence


@pytest.mark.parametrize("estimand", ["robust", "model"])
def test_a_wider_prior_asked_for_later_is_judged_as_well(estimand):
    fit = fit_of(parted(0), NormalPrior(scale=2.5), estimand=estimand)
    assert fit.release.posterior().verdict.status == "reliable"
    wide = fit.release.posterior(
        {"x": NormalPrior(scale=500.0), "Intercept": NormalPrior(scale=50)}
    )
    assert wide.verdict.status == "unreliable"


@pytest.mark.parametrize("estimand", [None, "model"])
def test_rows_far_out_count_in_full_where_noise_is_next_to_nothing(estimand):
    """One of few rows with a column far out of the others', and off the line of the others."""
    rng = np.random.default_rng(5)
    x = np.append(rng.normal(1.0, 0.1, 149), 9.0)
    y = 2.0 + 0.5 * x + 0.3 * rng.standard_normal(150)
    y[-1] -= 1.5
    schema = Schema.from_frame({"x": x, "y": y}, bounds={"x": (0, 10), "y": (-5, 10)})
    how = {"sampler": NoisyQuadraticOptions(estimand=estimand)} if estimand else {}
    fit = sample("y ~ x", {"x": x, "y": y}, schema, epsilon=EPSILON, random=Seeded(1), **how)
    assert fit.plan.spec.sampler.algorithm == "noisy_quadratic"  # no chain is nearer
    design = np.column_stack([np.ones(150), x])
    found, squares = np.linalg.lstsq(design, y, rcond=None)[:2]
    sds = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * squares[0] / 148)
    draws = fit.on("original").reshape(-1, 3)[:, :2]
    assert np.abs((draws.mean(axis=0) - found) / sds).max() < 0.1
    assert np.abs(draws.std(axis=0) / sds - 1.0).max() < 0.06
