"""Inference from released statistics: exact where it can be known, calibrated everywhere."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import integrate, stats
from scipy.special import ndtr

from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.queries.statistics.call import release_statistic
from dpmcmc.queries.statistics.families import Bernoulli, NormalMean, NormalVariance, UniformWidth
from dpmcmc.queries.statistics.inference import infer, sampled
from dpmcmc.queries.statistics.inference_chains import reflected
from dpmcmc.queries.statistics.inference_targets import normal_laplace, simulated, target_of
from dpmcmc.queries.statistics.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    RandomisedResponse,
    ReleasedStatistic,
    SmoothLaplaceNoise,
    Statistic,
)
from tests.sources import Seeded

ABSOLUTE = Statistic("absolute_power", 1.0, -10.0, 10.0)
BATCH = ReleasedStatistic(np.array([113.0]), LaplaceNoise(2.0), ABSOLUTE, 100, "batch")
FLAT = stats.uniform(0.0, 20.0)


def posterior(released, family, prior):
    """Mean, sd and distribution function on a fine grid of the prior's probabilities."""
    u = (np.arange(20_000) + 0.5) / 20_000
    theta, values = prior.ppf(u), np.tile(released.values, (len(u), 1))
    log = target_of(released, values, family, approximate=True).log_likelihood(theta)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2), (theta, np.cumsum(weights))


def assert_drawn_from(found, exact):
    """Mean and the share below two quantiles, within four standard errors by ArviZ' ESS."""
    mean, sd, (theta, below) = exact
    assert abs(found.summary.mean - mean) < 4.0 * sd / np.sqrt(found.summary.ess_bulk)
    for share in (0.1, 0.5, 0.9):
        at = theta[np.searchsorted(below, share)]
        less = (found.draws < at).astype(float)
        ess = float(array_stats.ess(less, chain_axis=0, draw_axis=1, method="mean"))
        assert abs(less.mean() - share) < 4.0 * np.sqrt(share * (1.0 - share) / ess) + 1e-3


@pytest.mark.parametrize("sd", [0.3, 2.0, 9.0])
def test_density_of_a_normal_plus_laplace_noise_is_the_convolution(sd):
    for away in (-7.0, 0.0, 2.5, 30.0):
        span = (away - 60.0, away, 0.0, away + 60.0)
        exact = integrate.quad(
            lambda u, away=away: stats.norm.pdf(u, 0.0, sd) * stats.laplace.pdf(away - u, 0.0, 2.0),
            min(span), max(span), points=sorted({0.0, away}), limit=400,
        )[0]  # fmt: skip
        found = np.exp(normal_laplace(np.array(away), np.array(sd), 2.0))
        assert found == pytest.approx(exact, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mh", "pmmh", "correlated_pmmh", "mhaar", "mhaar_rb"])
@pytest.mark.parametrize("particles", [8])
def test_every_algorithm_draws_from_the_exact_posterior(name, particles):
    found = infer(
        BATCH, NormalVariance(), FLAT,
        algorithm=name, particles=particles, chains=40, draws=1500, warmup=200, random=Seeded(3),
    )  # fmt: skip
    assert found.algorithm == name
    assert_drawn_from(found, posterior(BATCH, NormalVariance(), FLAT))
    assert found.verdict.status == "reliable"


def test_simulated_rows_agree_with_the_normal_sum_where_it_is_exact():
    rows = Statistic("power", 1.0, -50.0, 50.0)
    released = ReleasedStatistic(np.array([21.0]), LaplaceNoise(5.0), rows, 10, "batch")
    prior = stats.norm(0.0, 3.0)
    for name in ("pmmh", "mhaar"):
        found = infer(
            released, NormalMean(2.0), prior, algorithm=name, normal_approximation=False,
            chains=20, draws=1000, warmup=200, random=Seeded(4),
        )  # fmt: skip
        assert_drawn_from(found, posterior(released, NormalMean(2.0), prior))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pmmh", "correlated_pmmh", "mhaar"])
def test_randomised_responses_are_read_as_their_binomial_says(name):
    told = np.repeat([0.0, 1.0], [30, 20])
    identity = Statistic("power", 1.0, 0.0, 1.0)
    released = ReleasedStatistic(told, RandomisedResponse(0.8), identity, 50, "sequential")
    found = infer(
        released, Bernoulli(), stats.beta(1.0, 1.0),
        algorithm=name, chains=20, draws=1000, warmup=200, random=Seeded(5),
    )  # fmt: skip
    assert_drawn_from(found, posterior(released, Bernoulli(), stats.beta(1.0, 1.0)))


def test_sequential_noise_of_gaussian_rows_gives_the_conjugate_posterior():
    """Normal rows with normal noise and a normal prior: all is known in closed form."""
    values = np.array([3.0, -1.0, 4.0, 2.0, 0.5, 1.0])
    rows = Statistic("power", 1.0, -80.0, 80.0)
    released = ReleasedStatistic(values, GaussianNoise(1.5), rows, 6, "sequential")
    precision = 6 / (1.0 + 1.5**2) + 1 / 4.0
    mean, sd = values.sum() / (1.0 + 1.5**2) / precision, precision**-0.5
    at = np.linspace(mean - 6 * sd, mean + 6 * sd, 4001)
    for name in ("pmmh", "correlated_pmmh", "mhaar"):
        found = infer(
            released, NormalMean(1.0), stats.norm(0.0, 2.0),
            algorithm=name, chains=20, draws=1000, warmup=200, random=Seeded(6),
        )  # fmt: skip
        assert_drawn_from(found, (mean, sd, (at, ndtr((at - mean) / sd))))


def test_two_releases_of_separate_rows_are_read_together():
    """Both likelihoods count: as one release whose log likelihood is their sum."""
    rows = Statistic("power", 1.0, -80.0, 80.0)
    first = ReleasedStatistic(np.array([12.0]), GaussianNoise(3.0), rows, 5, "batch")
    second = ReleasedStatistic(np.array([70.0]), GaussianNoise(6.0), rows, 20, "batch")
    parts = [(12.0 / 5, (5 + 9.0) / 25), (70.0 / 20, (20 + 36.0) / 400)]
    precision = sum(1.0 / v for _, v in parts) + 1.0 / 25.0
    mean, sd = sum(m / v for m, v in parts) / precision, precision**-0.5
    found = infer([first, second], NormalMean(1.0), stats.norm(0.0, 5.0), random=Seeded(7))
    at = np.linspace(mean - 6 * sd, mean + 6 * sd, 4001)
    assert found.algorithm == "mh"
    assert_drawn_from(found, (mean, sd, (at, ndtr((at - mean) / sd))))


@dataclass(frozen=True)
class Quick(NormalMean):
    """Moments without the bounds, which no row comes near here."""

    def moments(self, theta, statistic):  # noqa: ARG002
        return np.asarray(theta), np.full(np.shape(theta), self.sd**2)


MEAN = Statistic("power", 1.0, -100.0, 100.0)
SHORT = Statistic("power", 1.0, -30.0, 30.0)
BINARY = Statistic("power", 1.0, 0.0, 1.0)
FAR, NEAR = stats.uniform(-40.0, 80.0), stats.uniform(-25.0, 50.0)
# Settings in which noise is much of the posterior's width, so that 10 % of it can be seen:
# algorithm, noise, statistic, rows, form, family, prior, particles. Algorithm 11 hardly moves
# where noise is far larger than the spread of the sum.
CASES = {
    "mh, gaussian": ("mh", GaussianNoise(30.0), MEAN, 10, "batch", Quick(), FAR, 2),
    "mh, laplace": ("mh", LaplaceNoise(20.0), MEAN, 10, "batch", Quick(), FAR, 2),
    "pmmh": ("pmmh", LaplaceNoise(20.0), MEAN, 10, "batch", Quick(), FAR, 4),
    "correlated": ("correlated_pmmh", LaplaceNoise(20.0), MEAN, 10, "batch", Quick(), FAR, 4),
    "mhaar_rb": ("mhaar_rb", LaplaceNoise(8.0), MEAN, 10, "batch", Quick(2.0), FAR, 8),
    "mhaar, rows": ("mhaar", LaplaceNoise(10.0), MEAN, 4, "batch", Quick(), FAR, 3),
    "mhaar, median": (
        "mhaar", SmoothLaplaceNoise(20.0, 1.0, 2, -30.0, 30.0), SHORT, 3, "median", Quick(0.3),
        NEAR, 3,
    ),
    "mhaar, sequential": ("mhaar", LaplaceNoise(6.0), MEAN, 3, "sequential", Quick(), FAR, 3),
    "mh, randomised response": (
        "mh", RandomisedResponse(0.7), BINARY, 1500, "sequential", Bernoulli(),
        stats.beta(2.0, 2.0), 2,
    ),
}  # fmt: skip
CHAINS, DRAWS, THIN, WARMUP = 6000, 19, 10, 40


def scaled(noise, factor):
    """Noise whose scale, or share of flipped responses, is that many times as large."""
    if isinstance(noise, GaussianNoise):
        return GaussianNoise(noise.sd * factor)
    if isinstance(noise, LaplaceNoise):
        return LaplaceNoise(noise.scale * factor)
    if isinstance(noise, SmoothLaplaceNoise):
        return replace(noise, epsilon=noise.epsilon / factor)
    return RandomisedResponse(1.0 - factor * (1.0 - noise.keep_probability))


@cache
def ranks(case, factor):
    """Ranks 0..19 of thetas of the prior among draws given releases with that much noise."""
    name, noise, statistic, rows, form, family, prior, particles = CASES[case]
    random, believed = Seeded(11), ReleasedStatistic(np.zeros(1), noise, statistic, rows, form)
    theta = prior.ppf(random.uniforms((3 * CHAINS // 4 if form == "median" else CHAINS,)))
    told = replace(believed, noise=scaled(noise, factor))
    values = simulated(told, theta, family, random)
    target = target_of(believed, values, family, approximate="rows" not in case)
    draws = sampled(name, target, prior, particles, WARMUP, DRAWS * THIN, random)[:, ::THIN]
    return (draws < theta[:, None]).sum(axis=1)


def spread(found):
    """Standard errors by which ranks are farther from their middle than uniform ones are."""
    all_ranks = np.arange(DRAWS + 1)
    away = (all_ranks - all_ranks.mean()) ** 2
    mean = ((found - all_ranks.mean()) ** 2).mean()
    return (mean - away.mean()) / (away.std() / np.sqrt(len(found)))


@pytest.mark.slow
@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.parametrize("case", CASES)
def test_ranks_of_true_parameters_are_uniform(case):
    found = ranks(case, 1.0)
    counts = np.bincount(found // 4, minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert abs(spread(found)) < 3.5


@pytest.mark.slow
@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("case", CASES)
def test_noise_that_is_ten_percent_off_is_rejected(case, factor):
    """Ranks lie more in the middle where there is less noise than is believed, or more outside."""
    assert abs(spread(ranks(case, factor))) > 3.5


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "none"},
        {"algorithm": "mhaar_rb", "normal_approximation": False},
        {"algorithm": "mh", "normal_approximation": False},
        {"particles": 1},
        {"chains": 0},
        {"draws": 0},
        {"warmup": -1},
    ],
)
def test_what_does_not_go_together_is_refused(options):
    with pytest.raises(SpecError):
        infer(BATCH, NormalVariance(), FLAT, random=Seeded(1), **options)


def test_releases_that_no_algorithm_reads_are_refused():
    identity = Statistic("power", 1.0, 0.0, 1.0)
    told = ReleasedStatistic(np.ones(5), RandomisedResponse(0.8), identity, 5, "sequential")
    rows = ReleasedStatistic(np.ones(5), LaplaceNoise(1.0), identity, 5, "sequential")
    with pytest.raises(SpecError, match="Bernoulli"):
        infer(told, UniformWidth(), FLAT, random=Seeded(1))
    with pytest.raises(SpecError, match="known likelihoods"):
        infer([rows, rows], NormalMean(), FLAT, random=Seeded(1))
    with pytest.raises(SpecError, match="known likelihoods"):
        infer([], NormalMean(), FLAT, random=Seeded(1))


def test_a_prior_outside_the_family_is_refused():
    with np.errstate(invalid="ignore"), pytest.raises(SpecError, match="prior"):
        infer(BATCH, NormalVariance(), stats.uniform(-3.0, 2.0), random=Seeded(1))


@pytest.mark.parametrize("prior", [stats.invgamma(1e-100), stats.norm(0.0, 1e160)])
def test_a_prior_that_reaches_beyond_numbers_is_refused(prior):
    flat = ReleasedStatistic(np.array([0.0]), LaplaceNoise(1e90), MEAN, 2, "batch")
    with np.errstate(all="ignore"), pytest.raises(SpecError, match="/prior"):
        infer(flat, NormalMean(1.0), prior, draws=50, warmup=0, random=Seeded(1))


def test_a_chain_that_is_too_short_is_called_unreliable():
    found = infer(BATCH, NormalVariance(), FLAT, draws=20, warmup=0, random=Seeded(2))
    assert found.verdict.status == "unreliable"


def test_a_proposal_over_an_edge_is_reflected():
    places = reflected(np.array([-0.2, 0.4, 1.3, 2.6, -3.1]))
    assert np.allclose(places, [0.2, 0.4, 0.7, 0.6, 0.9])


def test_what_a_call_releases_is_read_as_it_is():
    """200 rows, their sum, median and rows each, by the library: each posterior holds the truth."""
    x = 2.0**0.5 * np.random.default_rng(1).standard_normal(200)
    schema = Schema(columns=(NumberColumn(name="x", lower=-10.0, upper=10.0),), rows=200)
    noises = {"batch": "laplace", "median": "smooth_laplace", "sequential": "laplace"}
    for form, noise in noises.items():
        released = release_statistic(
            {"x": x}, "x", schema=schema, epsilon=8.0, delta=1e-5, kind="absolute_power",
            form=form, noise=noise, random=Seeded(2),
        )  # fmt: skip
        found = infer(released, NormalVariance(), FLAT, draws=500, warmup=100, random=Seeded(3))
        assert abs(found.summary.mean - x.var()) < 4.0 * found.summary.sd
        assert found.summary.sd < 1.0
