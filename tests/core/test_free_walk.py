"""Draws and Bayes factors under priors that are not normal, against integrals on a grid."""

import math

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.posterior.free.closed import Closed
from dpmcmc.posterior.free.priors import CoefficientPrior, checked
from dpmcmc.posterior.free.walk import between, walked
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.releases.base import Normal

NONE = (np.zeros(1), np.zeros(1))
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
AWAY = 0.035  # six sds of a share of 8000 draws of chains that hardly remember


def prior(kind, **numbers):
    return CoefficientPrior(kind=kind, **numbers)


def density(one, x):
    """Unnormalised but for its bounds, on a grid: the laws as textbooks have them."""
    z = (x - one.loc) / (one.scale or 1.0)
    shapes = {
        "normal": lambda: np.exp(-0.5 * z * z),
        "laplace": lambda: np.exp(-np.abs(z)),
        "student_t": lambda: (1 + z * z / (one.df or 1.0)) ** (-0.5 * ((one.df or 1.0) + 1)),
        "cauchy": lambda: 1.0 / (1.0 + z * z),
        "uniform": lambda: np.ones_like(z),
    }
    return np.where((x >= one.low) & (x <= one.high), shapes[one.kind](), 0.0)


CASES = [
    (prior("laplace", scale=0.5), 1.0, 0.7),
    (prior("laplace", scale=0.01), 0.3, 0.5),
    (prior("cauchy", scale=0.1), 5.0, 0.3),
    (prior("cauchy", scale=0.1), 1.0, 0.3),
    (prior("student_t", scale=1.0, df=4.0, loc=2.0), -1.0, 0.8),
    (prior("normal", scale=1.0, lower=0.0), -2.0, 0.5),
    (prior("normal", scale=1.0, upper=-3.0), 1.0, 0.5),
    (prior("uniform", lower=0.0, upper=1.0), 3.0, 0.5),
    (prior("uniform", lower=0.0), -0.2, 0.5),
    (prior("cauchy", scale=1.0, lower=0.0), 0.1, 0.3),
    (prior("laplace", scale=1.0, lower=2.0, upper=2.1), 0.0, 0.3),
]


@pytest.mark.parametrize(("one", "mean", "sd"), CASES)
def test_draws_are_from_likelihood_times_prior(one, mean, sd):
    walk = walked(np.array([[mean]]), np.array([[[sd**2]]]), {0: one}, NONE, 8000, SystemRandom())
    x = np.linspace(max(one.low, mean - 12 * sd), min(one.high, mean + 12 * sd), 400_001)
    weight = np.exp(-0.5 * ((x - mean) / sd) ** 2) * density(one, x)
    below = np.cumsum(weight) / weight.sum()
    draws, _ = walk.coefficients(8000, SystemRandom())
    for level in LEVELS:
        place = x[np.searchsorted(below, level)]
        assert (draws < place).mean() == pytest.approx(level, abs=AWAY)
    assert walk.r_hat < 1.01


@pytest.mark.longer
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("size", [3, 50])
def test_correlated_normals_come_out_as_in_closed_form(size, bounded):
    """A normal with bounds that are far off, and a t with many degrees, are normals."""
    rng = np.random.default_rng(2)
    half = rng.standard_normal((size, size)) / math.sqrt(size)
    covariance = half @ half.T + 0.02 * np.eye(size)
    mean = rng.standard_normal(size)
    loc, scale = 0.5, 0.4
    far = {"lower": -1e3, "upper": 1e3}
    one = (
        prior("normal", loc=loc, scale=scale, **far)
        if bounded
        else prior("student_t", loc=loc, scale=scale, df=1e4)
    )
    given = dict.fromkeys(range(size), one)
    walk = walked(mean[None], covariance[None], given, NONE, 8000, SystemRandom())
    precision = np.linalg.inv(covariance) + np.eye(size) / scale**2
    exact = np.linalg.inv(precision)
    middle = exact @ (np.linalg.solve(covariance, mean) + loc / scale**2)
    draws, _ = walk.coefficients(8000, SystemRandom())
    sds = np.sqrt(np.diag(exact))
    assert np.abs((draws.mean(axis=0) - middle) / sds).max() < 0.12
    assert np.abs(draws.std(axis=0) / sds - 1.0).max() < 0.08
    assert walk.r_hat < 1.01


def plane(first, second, mean, covariance):
    """A grid over two coefficients, and likelihood times priors on it."""
    ends = [
        (max(one.low, m - 9 * s), min(one.high, m + 9 * s))
        for one, m, s in zip((first, second), mean, np.sqrt(np.diag(covariance)), strict=True)
    ]
    x, y = (np.linspace(*end, 1501) for end in ends)
    away = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1) - mean
    square = np.einsum("abi,ij,abj->ab", away, np.linalg.inv(covariance), away)
    return x, y, np.exp(-0.5 * square) * density(first, x)[:, None] * density(second, y)


def test_bounds_and_correlation_together():
    mean, covariance = np.array([-0.3, 0.4]), np.array([[1.0, 0.95], [0.95, 1.0]])
    first, second = prior("normal", scale=3.0, lower=0.0), prior("laplace", scale=0.5, upper=0.5)
    given = {0: first, 2: second}
    whole = np.array([mean[0], 7.0, mean[1]])
    big = np.eye(3)
    big[np.ix_([0, 2], [0, 2])] = covariance
    big[0, 1] = big[1, 0] = 0.5
    big[1, 2] = big[2, 1] = 0.45
    walk = walked(whole[None], big[None], given, NONE, 8000, SystemRandom())
    x, y, weight = plane(first, second, mean, covariance)
    draws, _ = walk.coefficients(8000, SystemRandom())
    for at, grid, axis in ((0, x, 1), (2, y, 0)):
        below = np.cumsum(weight.sum(axis=axis)) / weight.sum()
        for level in LEVELS:
            place = grid[np.searchsorted(below, level)]
            assert (draws[:, at] < place).mean() == pytest.approx(level, abs=AWAY)
    kept = 1.0 - 0.25  # what of the middle one's variance the first does not tell
    left = draws[:, 1] - 7.0 - 0.5 * (draws[:, 0] - mean[0])
    assert left.mean() == pytest.approx(_told(draws, mean, big).mean(), abs=0.06)
    assert left.var() <= kept * 1.1
    assert (draws[:, 0] >= 0.0).all()
    assert (draws[:, 2] <= 0.5).all()


def _told(draws, mean, big):
    """What the two outer coefficients say of the middle one, less what the first alone does."""
    outer = [0, 2]
    gain = np.linalg.solve(big[np.ix_(outer, outer)], big[outer, 1])
    away = draws[:, outer] - mean
    return away @ gain - 0.5 * away[:, 0]


TESTED = [
    (prior("laplace", scale=0.5), 1.0, 0.7, 0.0),
    (prior("cauchy", scale=0.3), 1.5, 0.5, 0.0),
    (prior("student_t", scale=1.0, df=4.0, loc=0.2), -1.0, 0.8, 0.1),
    (prior("cauchy", scale=1.0, lower=0.0), 0.4, 0.3, 0.0),
    (prior("uniform", lower=-1.0, upper=2.0), 0.4, 0.3, 0.0),
    (prior("normal", scale=1.0, lower=0.0), -0.5, 0.5, 0.0),
]


@pytest.mark.parametrize(("one", "mean", "sd", "null"), TESTED)
def test_bayes_factors_are_ratios_of_integrals(one, mean, sd, null):
    walk = walked(np.array([[mean]]), np.array([[[sd**2]]]), {0: one}, NONE, 8000, SystemRandom())
    x = np.linspace(max(one.low, one.loc - 400), min(one.high, one.loc + 400), 4_000_001)
    shape = density(one, x)
    likelihood = np.exp(-0.5 * ((x - mean) / sd) ** 2)
    wanted = math.log((shape * likelihood).sum() / shape.sum())
    wanted += 0.5 * ((null - mean) / sd) ** 2
    found, error = walk.bayes_factor(np.eye(1), np.array([null]))
    assert 0.0 <= error < 0.1  # 0 where nothing is drawn but what is tested
    assert found == pytest.approx(wanted, abs=8 * error + 0.01)


def test_two_coefficients_are_tested_jointly():
    mean, covariance = np.array([0.5, -0.2]), np.array([[0.2, 0.12], [0.12, 0.1]])
    first, second = prior("laplace", scale=0.5), prior("cauchy", scale=0.7, lower=-0.5)
    walk = walked(mean[None], covariance[None], {0: first, 1: second}, NONE, 8000, SystemRandom())
    x, y, weight = plane(first, second, mean, covariance)
    wide = np.linspace(-300, 300, 2_000_001)
    cell = (x[1] - x[0]) * (y[1] - y[0])
    total = weight.sum() * cell
    for one in (first, second):
        total /= density(one, wide).sum() * (wide[1] - wide[0])
    away = np.zeros(2) - mean
    wanted = math.log(total) + 0.5 * away @ np.linalg.solve(covariance, away)
    found, error = walk.bayes_factor(np.eye(2), np.zeros(2))
    assert 0.0 < error < 0.1
    assert found == pytest.approx(wanted, abs=8 * error + 0.01)


def test_a_plain_normal_is_tested_as_in_closed_form():
    covariance = np.array([[0.2, 0.12], [0.12, 0.1]])
    mean, scale = np.array([0.5, -0.2]), 0.8
    normals = (np.array([0.0, 0.1]), np.array([0.0, 4.0]))
    joined = np.linalg.inv(np.linalg.inv(covariance) + np.diag([0.0, 4.0]))
    middle = joined @ (np.linalg.solve(covariance, mean) + np.array([0.0, 0.4]))
    one = prior("student_t", scale=scale, df=1e4)
    walk = walked(middle[None], joined[None], {0: one}, normals, 8000, SystemRandom())
    whole = np.linalg.inv(np.linalg.inv(joined) + np.diag([scale**-2, 0.0]))
    centre = whole @ np.linalg.solve(joined, middle)
    closed = Closed(
        Normal(centre, np.linalg.cholesky(whole)), (normals[0], np.array([scale**-2, 4.0]))
    )
    for places in ([0], [1], [0, 1]):
        values = np.array([0.1, 0.0])[: len(places)]
        told = 3.0 * np.eye(2)[places]  # in another unit
        wanted, error = closed.bayes_factor(told, 3.0 * values)
        assert error == 0.0
        assert walk.bayes_factor(told, 3.0 * values)[0] == pytest.approx(wanted, abs=0.05)


def test_chains_that_remember_their_start_say_so():
    """Half of the mass is a spike at the prior and half at the estimate: nothing goes between."""
    one = prior("cauchy", scale=1e-4)
    walk = walked(np.array([[5.0]]), np.array([[[1.0]]]), {0: one}, NONE, 1000, SystemRandom())
    assert walk.r_hat > 1.5


def test_components_weigh_the_same_whatever_a_prior_thinks_of_them():
    one = prior("normal", loc=0.0, scale=0.5, lower=-50.0)
    means, variance = np.array([[-2.0], [2.0], [6.0]]), np.full((3, 1, 1), 0.01)
    walk = walked(means, variance, {0: one}, NONE, 6000, SystemRandom())
    draws, which = walk.coefficients(6000, SystemRandom())
    for k in range(3):
        assert (which == k).mean() == pytest.approx(1 / 3, abs=0.04)
        assert draws[which == k].mean() == pytest.approx(means[k, 0] / 1.04, abs=0.02)


def test_tails_of_intervals_are_reached():
    uniforms = SystemRandom().uniforms((20_000,))
    ones = np.ones(20_000)
    far = between(0.0 * ones, ones, 12.0 * ones, np.inf * ones, uniforms)
    assert far.min() >= 12.0
    assert far.mean() == pytest.approx(12.0 + 1 / 12.17, abs=0.01)
    low = between(0.0 * ones, ones, -np.inf * ones, -30.0 * ones, uniforms)
    assert low.max() <= -30.0
    assert np.isfinite(low).all()


@pytest.mark.parametrize(
    ("one", "field"),
    [
        (prior("gamma", scale=1.0), "kind"),
        (prior("laplace"), "scale"),
        (prior("laplace", scale=0.0), "scale"),
        (prior("cauchy", scale=math.nan), "scale"),
        (prior("cauchy", scale=1.0, loc=math.inf), "loc"),
        (prior("student_t", scale=1.0), "df"),
        (prior("student_t", scale=1.0, df=0.1), "df"),
        (prior("normal", scale=1.0, df=3.0), "df"),
        (prior("uniform", scale=1.0), "scale"),
        (prior("uniform", loc=1.0), "loc"),
        (prior("uniform", lower=1.0, upper=1.0), "upper"),
        (prior("normal", scale=1.0, lower=math.nan), "lower"),
        (prior("normal", scale=1.0, lower=60.0), "lower"),
    ],
)
def test_priors_that_make_no_sense_are_refused_at_their_field(one, field):
    with pytest.raises(SpecError) as caught:
        checked(one, "/prior/x")
    assert caught.value.pointer == f"/prior/x/{field}"


@pytest.mark.longer
@pytest.mark.parametrize("one", [case[0] for case in CASES])
def test_densities_of_priors_add_up_to_one(one):
    if not one.proper:
        return
    reach = 2e3 * (one.scale or 1.0)
    low, high = max(one.low, one.loc - reach), min(one.high, one.loc + reach)
    x = np.linspace(low, high, 200_001)
    total = np.trapezoid(np.exp([one.log_density(float(v)) for v in x]), x)
    assert total == pytest.approx(1.0, abs=6e-3)
