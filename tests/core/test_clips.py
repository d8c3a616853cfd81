"""Clips of the model's own scores: chosen by layers of rows, and counted where they leave out."""

import dataclasses
import math

import numpy as np
import pytest

from dpmcmc.families.linear import MODEL
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.spec import ModelOptions
from dpmcmc.privacy import accountant
from dpmcmc.privacy.pld import leaves
from dpmcmc.releases import clips, whitening
from dpmcmc.releases.noisy_quadratic import Rows, event, released
from dpmcmc.releases.quadratic_verdict import verdict
from tests.sources import Seeded

NONE = np.zeros(0)


def told(lengths, z, seed=1, squares=None):
    """Layers of rows with these lengths, and curvatures of 1."""
    block = lengths, np.ones_like(lengths), NONE if squares is None else squares, None
    scaled = squares is not None
    return clips.layers([block], len(lengths), z, Seeded(seed), scaled=scaled, gaps=False)


@pytest.mark.parametrize("tail", ["normal", "exponential", "lognormal", "spike"])
def test_layers_tell_what_a_clip_leaves_out(tail):
    rng = np.random.default_rng(2)
    lengths = {
        "normal": np.abs(rng.normal(size=40_000)),
        "exponential": rng.exponential(size=40_000),
        "lognormal": rng.lognormal(0.0, 1.0, 40_000),
        "spike": np.where(rng.random(40_000) < 0.002, 30.0, 0.5),
    }[tail]
    found = told(lengths, 1e-3, squares=lengths**2)
    for clip in clips.LENGTHS[:-1]:
        left = float(np.maximum(lengths - clip, 0.0).mean())
        assert float(found.scores.beyond(np.array([clip]))[0]) == pytest.approx(
            left, abs=0.01, rel=0.1
        )
    for clip in clips.SIZES[:-1]:
        left = float(np.maximum(lengths**2 - clip**2, 0.0).mean())
        seen = float(found.squares.beyond(np.array([clip**2]))[0])
        assert seen == pytest.approx(left, abs=0.01, rel=0.1)


def test_noise_does_not_hide_a_tail_from_the_choice():
    rng = np.random.default_rng(3)
    chosen = []
    for tail in (np.abs(rng.normal(size=20_000)), np.abs(rng.standard_t(3, 20_000))):
        some = [clips.choose(told(tail, 20.0, seed), 5, 6.0) for seed in range(20)]
        chosen.append(np.median([clip.length for clip in some]))
    assert chosen[1] > 1.3 * chosen[0]
    left = [clip.left / float(np.maximum(tail - clip.length, 0.0).mean()) for clip in some]
    assert np.median(left) > 0.4  # of the last tail, which clips do reach


def test_a_larger_budget_cuts_less():
    tail = np.abs(np.random.default_rng(4).standard_t(3, 20_000))
    some = [clips.choose(told(tail, 80.0 * z, 1), 5, 20.0 * z) for z in (1.0, 0.3, 0.1, 0.01)]
    assert [c.length for c in some] == sorted(c.length for c in some)
    assert [c.left for c in some] == sorted((c.left for c in some), reverse=True)
    assert some[-1].left * math.sqrt(20_000) < 0.2


def test_no_row_fills_more_of_the_layers_than_is_charged():
    wild = np.array([0.0, 1.0, 1e300, np.inf, -np.inf, np.nan, -5.0, 7.0])
    for ends in (clips.LENGTHS, clips.CURVES, clips.SIZES**2):
        part = clips.filled(wild, ends)
        assert np.isfinite(part).all()
        assert np.abs(part).max() <= 0.5


def test_what_the_model_costs_is_charged_in_all_its_parts():
    for estimand in ("model", "robust", None):
        for paid in (None, "earlier"):
            options = NoisyQuadraticOptions(num_far=5, estimand=estimand, whitening=paid)
            made = event(options, 3.0, 100)
            assert accountant.gdp_mu(made) == pytest.approx(1.0 / 3.0, rel=1e-9)
            assert accountant.gdp_mu(made) <= 1.0 / 3.0
            layers = sum(leaves(made).values()) - 7 - (0 if paid else whitening.ITERATIONS)
            assert layers == (estimand == "model")


def incomes(kind, n, rng):
    """Covariates within [-1, 1] and incomes within [0, 100], skewed and most of them small."""
    employed, children = rng.random(n) < 0.7, rng.integers(0, 4, n)
    x = np.vstack([np.ones(n), employed * 1.0, children / 1.5 - 1.0])
    mean = 8.0 + 8.0 * employed - 1.0 * children
    skewed = {
        "lognormal": lambda: rng.lognormal(-0.5, 1.0, n),
        "gamma": lambda: rng.gamma(0.7, 1.0 / 0.7, n),
        "spike": lambda: (rng.random(n) < 0.6) * rng.gamma(2.0, 0.5 / 0.6, n),
    }[kind]()
    return x, np.clip(mean * skewed, 0.0, 100.0)


def income_fits(kind, epsilon, runs, estimand):
    """Distances (runs, 3) to least squares in sds, and whether each is called reliable."""
    unit, found, good = 100.0 / 8.0, [], []
    for run in range(runs):
        x, y = incomes(kind, 20_000, np.random.default_rng(run))
        exact = np.linalg.lstsq(x.T, y, rcond=None)[0]
        start = np.array([4.0, 0.0, 0.0])
        mean, prior = np.append(start, 0.0), np.array([8.0**-2] * 3 + [1.5**-2])
        family = MODEL.rows(ModelOptions())
        told = Rows(
            family, x, y / unit, start, mean, prior, 1.0, fixed=False, largest_slope=1.0,
            indicators=np.array([False, True, False]),
        )  # fmt: skip
        options = NoisyQuadraticOptions(num_far=4, estimand=estimand)
        mu = accountant.mu_of_epsilon(epsilon, 1e-6)
        release = released(told, math.sqrt(3.0), options, 1.0 / mu, Seeded(100 + run))
        draws = release.posterior(mean, prior, Seeded(run)).draws(1, 1000, Seeded(run + 1))[0]
        off = unit * draws[:, :3].mean(axis=0) - exact
        found.append(off / (unit * draws[:, :3].std(axis=0)))
        good.append(verdict(release).reliable)
    return np.array(found), np.array(good)


@pytest.mark.parametrize("kind", ["lognormal", "gamma", "spike"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_skewed_incomes_are_not_reliably_wrong(kind, epsilon):
    off, good = income_fits(kind, epsilon, 12, "model")
    assert np.abs(off[good]).max(initial=0.0) < 3.0
    assert good.mean() > 0.8
    assert (np.abs(off[good]) < 1.645).mean() > 0.85


def test_a_tail_that_goes_on_as_it_begins_is_told():
    """Of normal lengths hardly anything is hidden; of Pareto ones, more than clips allow for."""
    rng, found = np.random.default_rng(5), []
    for tail in (np.abs(rng.normal(size=20_000)), rng.pareto(1.0, 20_000)):
        some = [clips.choose(told(tail, 20.0, seed), 5, 6.0) for seed in range(10)]
        found.append(np.median([clip.unseen for clip in some]) * math.sqrt(20_000))
    assert found[0] < 5.0 < found[1] / 4.0


@pytest.mark.parametrize("reach", [0.5, 2.0, 9.0, 50.0, math.inf])
def test_no_layer_lies_beyond_what_residuals_can_be(reach):
    square = np.minimum(np.random.default_rng(6).standard_t(2, 5000), reach) ** 2
    block = np.ones(5000), np.ones(5000), square, None
    seen = clips.layers([block], 5000, 1.0, Seeded(1), scaled=True, gaps=False, reach=reach)
    assert seen.squares.ends[-1] <= reach**2
    assert (np.diff(seen.squares.ends) > 0.0).all()
    assert np.isfinite(seen.squares.part).all()


def test_the_robust_answer_is_another_one_and_says_so():
    off, _ = income_fits("lognormal", 1.0, 3, "robust")
    assert np.abs(off).max() > 4.0


def test_a_release_tells_which_question_it_answers():
    x, y = incomes("gamma", 2000, np.random.default_rng(1))
    start = np.array([4.0, 0.0, 0.0])
    mean, prior = np.append(start, 0.0), np.ones(4)
    told = Rows(MODEL.rows(ModelOptions()), x, y / 12.5, start, mean, prior, 1.0, fixed=False)
    for estimand in ("model", "robust", None):
        options = NoisyQuadraticOptions(num_far=4, estimand=estimand)
        found = released(told, math.sqrt(3.0), options, 1.0, Seeded(1))
        assert found.robust == (estimand != "model")
        assert type(found).from_dict(found.to_dict()).robust == found.robust
        before = {k: v for k, v in found.to_dict().items() if k != "robust"}
        assert type(found).from_dict(before).robust  # as it was stored before there was a choice
        wider = dataclasses.replace(found, left_sd=found.left_sd + 100.0)
        sds = [
            each.posterior(mean, prior, Seeded(2)).draws(1, 500, Seeded(3))[0].std(axis=0)
            for each in (found, wider)
        ]
        assert (sds[1][:3] > sds[0][:3]).all()
