"""Rare categories: normal likelihoods with the moments of the right ones."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, poisson

from dpmcmc import CategoryColumn, ModelSpec, NumberColumn, Schema, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.releases.categories import Categories, Counts, Residuals, matched
from dpmcmc.releases.quadratic import Quadratic
from tests.sources import Seeded

CHANGES = np.linspace(-16.0, 9.0, 5001)
PRIOR_SD, NO_RIDGE = 2.5, np.zeros((1, 1))


def exactly(seen, each, rows, noise, room, prior_mean):
    """Mean and sd of b given the noisy sum of the clipped counts of rows, each expected once."""
    rate, least = each * np.exp(CHANGES)[:, None], np.arange(2000)
    weights = poisson.pmf(least, rate)
    cut = np.clip(least - each, -room, room)
    beyond = np.maximum(1.0 - weights.sum(axis=1), 0.0)  # counts above those of the table
    mean = weights @ cut + beyond * room
    variance = rows * (weights @ cut**2 + beyond * room**2 - mean**2) + noise**2
    logs = norm.logpdf(seen, rows * mean, np.sqrt(variance))
    logs += norm.logpdf(CHANGES, prior_mean, PRIOR_SD)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    middle = float(weights @ CHANGES)
    return middle, float(np.sqrt(weights @ (CHANGES - middle) ** 2))


@pytest.mark.parametrize(
    ("seen", "each", "rows", "noise", "room", "prior_mean"),
    [
        (-42.0, 1.0, 50, 8.0, 9.0, 0.5),  # a sixth of the rate at the place, or none
        (-20.0, 1.0, 50, 40.0, 9.0, 0.0),  # hardly anything
        (30.0, 5.0, 50, 10.0, 20.0, 0.0),
        (-100.0, 5.0, 40, 12.0, 30.0, 2.0),
        (20.0, 25.0, 40, 12.0, 1.0, 0.0),  # nearly all counts are clipped
        (39.0, 25.0, 40, 6.0, 1.0, 0.0),  # all of them: any higher rate will do
    ],
)
def test_moments_are_those_of_the_rate(seen, each, rows, noise, room, prior_mean):
    """In one dimension, with the slope and the variance that a score has at the place."""
    step, least = 1e-4, np.arange(2000)
    cut = np.clip(least - each, -room, room)
    up, middle, down = (poisson.pmf(least, each * np.exp(b)) @ cut for b in (step, 0.0, -step))
    slope = rows * (up - down) / (2.0 * step)
    own = rows * (poisson.pmf(least, each) @ cut**2 - middle**2)
    unit = np.ones((1, 1, 1))
    precision = slope**2 / (own + noise**2) * unit
    pulled = slope * (seen - rows * middle) / (own + noise**2) * np.ones((1, 1))
    root = slope / (own + noise**2) * noise * unit
    prior = np.array([prior_mean]), np.array([PRIOR_SD**-2])
    kinds = Categories(np.ones((1, 1)), (Counts(each, room),), *prior, NO_RIDGE)
    whole, pull = matched(precision, pulled, root, kinds, 1.0)
    found = float(whole[0, 0, 0]) + PRIOR_SD**-2
    mean = (float(pull[0, 0]) + PRIOR_SD**-2 * prior_mean) / found
    expected, sd = exactly(seen, each, rows, noise, room, prior_mean)
    assert mean == pytest.approx(expected, abs=0.03 * sd)
    assert found**-0.5 == pytest.approx(sd, rel=0.03)


@pytest.mark.parametrize(
    ("seen", "noise", "room", "earlier"),
    [
        (6.0, 3.0, 2.0, None),  # a third of a residual's sd
        (17.0, 4.0, 1.2, None),  # nearly all are cut: any larger effect will do
        (17.0, 4.0, 1.2, (1.0, 0.5)),  # and earlier looks speak against it
        (-30.0, 2.0, 2.0, (4.0, 2.0)),
    ],
)
def test_moments_are_those_of_residuals_that_are_cut(seen, noise, room, earlier):
    """Twenty of them, of sd 1, by integration over their sum and over a draw of each."""
    rows, slope, errors = 20, 0.8, np.linspace(-8.0, 8.0, 2001)
    changes = np.linspace(-16.0, 16.0, 3001)
    density = norm.pdf(errors) / norm.pdf(errors).sum()
    cut = np.clip(errors + changes[:, None], -room, room)
    mean, square = cut @ density, cut**2 @ density
    logs = norm.logpdf(seen, rows * mean, np.sqrt(rows * (square - mean**2) + noise**2))
    logs += norm.logpdf(changes, 0.0, PRIOR_SD)
    if earlier is not None:
        own = float(np.clip(errors, -room, room) ** 2 @ density)
        known = earlier[1] + 9.0 * (rows * own + noise**2) / (rows * slope) ** 2
        logs -= np.log1p((changes - earlier[0]) ** 2 / known)
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    middle = float(weights @ changes)
    sd = float(np.sqrt(weights @ (changes - middle) ** 2))

    own = rows * float(np.clip(errors, -room, room) ** 2 @ density)
    unit, total = np.ones((1, 1, 1)), own + noise**2
    prior = np.zeros(1), np.array([PRIOR_SD**-2])
    told = None if earlier is None else tuple(np.array([part]) for part in earlier)
    kinds = Categories(np.ones((1, 1)), (Residuals(1.0, room, slope),), *prior, NO_RIDGE, told)
    steep = rows * slope
    whole, pull = matched(
        steep**2 / total * unit,
        steep * seen / total * unit[0],
        steep / total * noise * unit,
        kinds,
        1.0,
    )
    found = float(whole[0, 0, 0]) + PRIOR_SD**-2
    assert float(pull[0, 0]) / found == pytest.approx(middle, abs=0.03 * sd)
    assert found**-0.5 == pytest.approx(sd, rel=0.03)


def test_what_is_well_known_and_tight_priors_are_left():
    whole, pulled = np.array([np.diag([1e4, 4.0])]), np.array([[50.0, -4.0]])
    noise = np.zeros((1, 2, 2))

    def found(sd):
        row = Counts(2.0, 9.0)
        prior = np.zeros(2), np.full(2, sd**-2)
        kinds = Categories(np.eye(2), (row, row), *prior, NO_RIDGE)
        return matched(whole, pulled, noise, kinds, 1.0)

    assert [part.tolist() for part in found(1e-3)] == [whole.tolist(), pulled.tolist()]
    other, moved = found(2.5)
    assert other[0, 0, 0] == whole[0, 0, 0]
    assert moved[0, 0] == pulled[0, 0]
    assert moved[0, 1] / other[0, 1, 1] < -1.2  # expm1(-2) is near -1, the step


def test_what_all_share_with_a_rare_reference_is_left_to_it():
    """Two categories, known well but for the reference that both are measured from."""
    root = np.linalg.cholesky(np.full((2, 2), 0.1) + np.diag([0.01, 0.02]))
    whole, pulled = np.linalg.inv(root @ root.T)[None], np.array([[0.5, 0.2]])
    both, ones = np.eye(2), np.ones(2)
    kinds = Categories(both, 2 * (Counts(20.0, 100.0),), np.zeros(2), ones, NO_RIDGE, alone=both)
    found = matched(whole, pulled, np.zeros((1, 2, 2)), kinds, 1.0)
    assert [part.tolist() for part in found] == [whole.tolist(), pulled.tolist()]


def test_a_curvature_of_nothing_leaves_the_prior():
    """Draws of a curvature that is all noise are of any size and sign."""
    own = Quadratic.from_dict(released(1).release.to_dict())
    p = len(own.place)
    prior = np.zeros(p), np.full(p, PRIOR_SD**-2)
    for size in (0.0, 1e-200, 1e-20, 1e20):
        flat = replace(own, curvature=size * np.eye(p), noise=size * np.eye(p), curvature_sd=size)
        means, roots = flat.posterior(*prior, Seeded(3)).parts()
        assert np.isfinite(means).all()
        if size < 1.0:
            sds = np.sqrt((roots**2).sum(axis=2))
            assert sds == pytest.approx(PRIOR_SD, rel=0.05)


def released(seed, *, effect=-2.5, rows=2000, epsilon=4.0, estimand=None):
    rng, few = np.random.default_rng(seed), np.arange(rows) < rows // 50
    x = rng.uniform(-1.0, 1.0, rows)
    counts = rng.poisson(np.exp(1.0 + 0.5 * x + effect * few))
    data = {"x": x, "g": np.where(few, "few", "many"), "t": np.minimum(counts, 200) * 1.0}
    columns = (
        NumberColumn(name="x", lower=-1, upper=1),
        CategoryColumn(name="g", categories=("many", "few")),
        NumberColumn(name="t", lower=0, upper=200),
    )
    model = ModelSpec(family="poisson", formula="t ~ x + g")
    return sample(
        data,
        schema=Schema(columns=columns, rows=rows),
        model=model,
        epsilon=epsilon,
        delta=1e-6,
        sampler=NoisyQuadraticOptions(estimand=estimand),
        random=Seeded(seed),
    )


@pytest.mark.longer
@pytest.mark.parametrize("estimand", ["robust", "model"])
@pytest.mark.parametrize("effect", [-2.5, 1.5])
def test_a_rare_category_of_counts_is_held_by_its_interval(effect, estimand):
    """Forty rows with nine counts in all, or with 490: seeds alone decide what is drawn.

    At epsilon 4 the 490 stand less than five sds out of the noise in 8 of 25 runs, at 5 in 2.
    A robust fit cuts rows that the model's own answer has to count in full: as few as these do not
    stand out of the noise of that, and a result says so.
    """
    held, away, unreliable = 0, [], 0
    epsilon = 5.0 if effect > 0.0 else 4.0
    for seed in range(25):
        result = released(seed, effect=effect, epsilon=epsilon, estimand=estimand)
        row = result.summary(mixing=False)["g[few]"]
        held += row.q05 < effect < row.q95
        away.append(abs(row.mean - effect) / row.sd)
        unreliable += result.verdict.status == "unreliable"
    assert held >= 19  # 22.5 are expected, 1.5 the sd
    assert max(away) < 4.0
    if effect > 0.0 and estimand == "robust":  # nine counts are few, and a result may say so
        assert unreliable <= 2


def test_releases_that_were_stored_before_have_no_rates():
    told = released(1).release.to_dict()
    assert told["log_shift"] == 0.0
    own = Quadratic.from_dict(told)
    del told["log_shift"]
    before = Quadratic.from_dict(told)
    p = len(own.place)
    prior = np.zeros(p), np.full(p, 2.5**-2)
    first, second = (one.posterior(*prior, Seeded(3)).parts() for one in (own, before))
    assert before.log_shift is None
    assert not np.allclose(first[0], second[0])


@pytest.mark.parametrize(("expected", "room"), [(0.2, 0.05), (0.03, 4.0), (2.0, 0.7), (30.0, 6.0)])
def test_moments_of_a_clipped_count_are_those_of_a_count(expected, room):
    """By a sum over counts; a normal law with the same mean has others where few are expected."""
    counts = np.arange(400)
    changes = np.linspace(-6.0, 2.0, 9)
    logs = counts * np.log(expected) - expected - np.array([math.lgamma(k + 1.0) for k in counts])
    cut = np.clip(counts, max(expected - room, 0.0), expected + room)

    def mean(change):
        shifted = logs + counts * change - expected * math.expm1(change)
        return float(np.exp(shifted) @ cut)

    slope = (mean(1e-3) - mean(-1e-3)) / 2e-3
    exact = np.array([(mean(change) - mean(0.0)) / slope for change in changes])
    response = Counts(expected, room)
    score, variance = response.score_moments(changes)
    np.testing.assert_allclose(score, exact, atol=2e-3 * np.abs(exact).max())
    assert (variance >= 0.0).all()
