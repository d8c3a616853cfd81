"""The scale of residuals that a linear release tells: right, or unreliable."""

import math

import numpy as np
import pytest

from dpmcmc import ModelSpec, NumberColumn, Schema, sample
from dpmcmc.inputs.options import (
    DpViOptions,
    NoisyQuadraticOptions,
    SufficientStatisticsOptions,
)
from dpmcmc.releases import scales
from dpmcmc.releases.regression.mixtures import METHODS
from tests.sources import Seeded

ROWS = 4000
ERRORS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "long tails": lambda rng, n: rng.standard_t(5, n) / math.sqrt(5.0 / 3.0),
    "skewed": lambda rng, n: rng.exponential(1.0, n) - 1.0,
}


def fitted(sampler, width, epsilon, seed, kind="normal", rows=ROWS):
    """A fit of residuals with an sd of 1, and the log of the sd that they have."""
    rng = np.random.default_rng(seed)
    a, errors = rng.uniform(-1, 1, rows), ERRORS[kind](rng, rows)
    columns = (
        NumberColumn(name="a", lower=-1.0, upper=1.0),
        NumberColumn(name="y", lower=-width, upper=width),
    )
    fit = sample(
        {"a": a, "y": 0.3 + a + errors},
        schema=Schema(columns=columns, rows=rows),
        model=ModelSpec(family="linear", formula="y ~ a"),
        epsilon=epsilon,
        delta=1e-6,
        sampler=sampler,
        random=Seeded(seed),
    )
    return fit, math.log(errors.std())


def share_held(sampler, width, epsilon, runs, kind="normal"):
    """How many fits are reliable, and the part of their intervals of nine tenths that hold."""
    held = []
    for seed in range(runs):
        fit, truth = fitted(sampler, width, epsilon, seed, kind)
        if fit.verdict.status == "reliable":
            row = fit.summary(mixing=False)["log_sigma"]
            held.append(row.q05 < truth < row.q95)
    return len(held), float(np.mean(held)) if held else 1.0


def sums(method):
    return SufficientStatisticsOptions(method=method, num_steps=500)


@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.parametrize("method", METHODS)
def test_bounds_that_hide_the_residuals_are_unreliable(method):
    """Bounds of 60 residual sds, beside some that tell: .0 of 300 intervals held, reliable."""
    chains = method in ("mcmc_normalx", "mcmc_bs")
    for width in (60.0,) if chains else (30.0, 60.0, 1000.0):
        for seed in range(2 if chains else 12):
            fit, _ = fitted(sums(method), width, 1.0, seed)
            assert fit.verdict.status == "unreliable"
    reason = fit.verdict.sentence
    assert "log_sigma" in reason or "X'X" in reason or "mixed" in reason


@pytest.mark.parametrize("method", ["bayes_fixeds_fast", "adassp"])
@pytest.mark.parametrize(("width", "epsilon"), [(4.0, 1.0), (8.0, 1.0), (30.0, 6.0), (12.0, 0.9)])
def test_reliable_intervals_of_sums_hold_the_scale(method, width, epsilon):
    """30 intervals of nine tenths: 21 or fewer in one of 300."""
    reliable, held = share_held(sums(method), width, epsilon, 30)
    assert held > 0.72 or reliable < 10
    if width <= 8.0:
        assert reliable >= 28


@pytest.mark.slow
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("estimand", ["robust", "model"])
def test_intervals_of_a_noisy_quadratic_hold_the_scale_whatever_the_tails(kind, epsilon, estimand):
    """Squares that were cut at two sds told .1 less, six of the interval's sds."""
    sampler = NoisyQuadraticOptions(estimand=estimand)
    reliable, held = share_held(sampler, 8.0, epsilon, 40, kind)
    assert held > 0.7
    assert reliable >= (40 if estimand == "robust" else 32) or kind == "skewed"


def test_tails_that_a_cut_hides():
    """Of exponential residuals, by simulation; next to none beyond eight sds."""
    rng = np.random.default_rng(1)
    errors = rng.exponential(1.0, 400_000) - 1.0
    for cut in (1.5, 3.0, 5.0):
        mean = float(np.minimum(errors**2, cut * cut).mean())
        assert scales.hidden(cut) == pytest.approx(
            -math.log(scales.solved(mean, cut, 0.0)[0]), abs=0.006
        )
    assert scales.hidden(8.0) < 1e-3
    assert scales.hidden(2.0) > scales.hidden(4.0) > scales.hidden(6.0)


def test_a_faithful_cut_is_wider_where_noise_lets_it():
    for noise, rows in ((0.3, 4000), (0.05, 20_000)):
        assert scales.faithful_cut(noise, rows) >= scales.best_cut(noise)
    assert scales.faithful_cut(1e-3, 1e5) > scales.faithful_cut(0.5, 4000)


@pytest.mark.compiled("thousands of gradients")
def test_variational_fits_that_have_not_arrived_are_unreliable():
    """Bounds of 40 residual sds: steps of the log scale were long, and .62 of intervals held."""
    held = []
    for seed in range(20):
        fit, truth = fitted("dp_vi", 40.0, 4.0, seed)
        if fit.verdict.status == "reliable":
            row = fit.summary(mixing=False)["log_sigma"]
            held.append(abs(row.mean - truth) < 3.0 * row.sd)
    assert all(held)


@pytest.mark.compiled("thousands of gradients")
@pytest.mark.parametrize(
    ("kind", "width", "epsilon"), [("skewed", 8.0, 3.0), ("long tails", 8, 10)]
)
def test_variational_fits_whose_rows_may_be_clipped_are_unreliable(kind, width, epsilon):
    """Long residuals were clipped unseen: .0 and .57 of intervals of log_sigma held, reliable."""
    fit, _ = fitted("dp_vi", width, epsilon, 1, kind)
    assert fit.verdict.status == "unreliable"
    assert "clipped" in fit.verdict.sentence


@pytest.mark.compiled("thousands of gradients")
@pytest.mark.parametrize("kind", ERRORS)
def test_variational_fits_that_clip_no_row_tell_the_scale(kind):
    held = []
    for seed in range(10):
        fit, truth = fitted(DpViOptions(gradient_clip=60.0), 8.0, 10.0, seed, kind, 50_000)
        assert fit.verdict.status == "reliable"
        row = fit.summary(mixing=False)["log_sigma"]
        held.append(row.q05 < truth < row.q95)
    assert sum(held) >= 8  # of these rows' own scale an interval holds more than nine tenths
