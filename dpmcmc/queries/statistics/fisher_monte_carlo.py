"""Fisher information by Monte Carlo: thesis B, Algorithms 6, 7 and 8.

An observation's score is an average over simulated u (or rows) weighted by how well these explain
it. The algorithms square it, which adds the variance of the average to the information. Here
it is estimated twice from independent particles, each time without the bias of order 1 / particles
that such averages have, and the two are multiplied.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource, Shape
from dpmcmc.queries.statistics.fisher import Additive
from dpmcmc.queries.statistics.mechanisms import GaussianNoise, SmoothLaplaceNoise, Statistic
from dpmcmc.queries.statistics.populations import Moments, Population

Floats = NDArray[np.float64]
# than the law of the sum: its proposal, so that far observations are explained too
PROPOSAL_WIDENING = 1.5
INDEPENDENT_BLOCKS = 25  # independent ones, whose spread is the standard error
Scores = Callable[[Floats], Floats]  # of observations


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Effort:
    """observations: simulated y (N). particles: for each estimate of a score (M), an even number.
    squared: square one plain estimate, as the algorithms are printed."""

    observations: int = 20_000
    particles: int = 2_000
    squared: bool = False


def additive_information(
    known: Moments, rows: int, noise: Additive, random: RandomSource, effort: Effort
) -> Estimate:
    """Return that of one noisy sum of `rows` values, normal without noise. Algorithm 6."""
    mean, variance = rows * known.mean, rows * known.variance

    def away_from_mean(shape: Shape) -> Floats:
        return np.asarray(variance**0.5 * random.normals(shape))

    def scores() -> Scores:
        away = PROPOSAL_WIDENING * away_from_mean((effort.particles,))
        log_ratio = (
            -0.5 * (1.0 - PROPOSAL_WIDENING**-2) * away**2 / variance
        )  # of the law to the proposal
        by_variance = 0.5 * (away**2 / variance - 1.0) / variance
        score = rows * (known.mean_slope * away / variance + known.variance_slope * by_variance)
        return lambda y: _averaged(
            noise.log_density(y[:, None] - mean - away) + log_ratio, score, not effort.squared
        )

    def observed(count: int) -> Floats:
        return mean + away_from_mean((count,)) + drawn(noise, random, (count,))

    return _blocks(observed, scores, effort)


def marginal_information(
    population: Population,
    statistic: Statistic,
    theta: float,
    rows: int,
    noise: Additive | SmoothLaplaceNoise,
    random: RandomSource,
    effort: Effort,
) -> Estimate:
    """Return that of one noisy sum, median or maximum, from simulated rows. Algorithm 7.

    Exact but for Monte Carlo error: nothing is taken to be normal. noise: SmoothLaplaceNoise is
    that of the median or maximum, by its rank.
    """

    def laws(count: int) -> tuple[Floats, Floats, Floats]:
        """Scores of simulated data sets, and centres and scales of what they release."""
        x = population.sample(random, theta, (count, rows))
        values = statistic.of(x)
        score = population.score(x, theta).sum(axis=-1)
        if isinstance(noise, SmoothLaplaceNoise):
            return score, *noise.law(values)
        return score, values.sum(axis=-1), np.full(count, noise.sd)

    def density(away: Floats, scale: Floats) -> Floats:
        if isinstance(noise, SmoothLaplaceNoise):
            return np.asarray(-np.abs(away) / scale - np.log(2.0 * scale))
        return noise.log_density(away)

    def scores() -> Scores:
        score, at, scale = laws(effort.particles)
        return lambda y: _averaged(density(y[:, None] - at, scale), score, not effort.squared)

    def observed(count: int) -> Floats:
        _, at, scale = laws(count)
        if isinstance(noise, SmoothLaplaceNoise):
            return at + scale * _unit_laplace(random, (count,))
        return at + drawn(noise, random, (count,))

    return _blocks(observed, scores, effort)


def sequential_information(
    population: Population,
    statistic: Statistic,
    theta: float,
    rows: int,
    noise: Additive,
    random: RandomSource,
    effort: Effort,
) -> Estimate:
    """Return that of all rows, each with noise of its own. Algorithm 8, rows from their law."""
    one = marginal_information(population, statistic, theta, 1, noise, random, effort)
    return Estimate(rows * one.value, rows * one.standard_error)


def drawn(noise: Additive, random: RandomSource, shape: Shape) -> Floats:
    """Return noise of a simulated release."""
    if isinstance(noise, GaussianNoise):
        return np.asarray(noise.sd * random.normals(shape))
    return noise.scale * _unit_laplace(random, shape)


def _unit_laplace(random: RandomSource, shape: Shape) -> Floats:
    return np.asarray(np.log(random.uniforms(shape)) - np.log(random.uniforms(shape)))


def _averaged(log_weights: Floats, scores: Floats, halves: bool) -> Floats:
    """Return weighted averages of scores, one for each row of log weights.

    halves: take the bias of order 1 / particles off, by what it is in half of them (Quenouille's
    jackknife).
    """
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    parts = np.stack((weights * scores, weights)).reshape(2, len(weights), 2, -1).sum(axis=-1)
    top, bottom = parts.sum(axis=-1)
    if not halves:
        return np.asarray(top / bottom)
    each = parts[0] / np.maximum(parts[1], 1e-300)
    return np.asarray(2.0 * top / bottom - each.mean(axis=-1))


def _blocks(
    observed: Callable[[int], Floats], scores: Callable[[], Scores], effort: Effort
) -> Estimate:
    """Return the mean of blocks that share nothing; observations of one share their particles."""
    count, found = max(effort.observations // INDEPENDENT_BLOCKS, 1), []
    for _ in range(INDEPENDENT_BLOCKS):
        y, first = observed(count), scores()
        second = first if effort.squared else scores()
        found.append(float(np.mean(first(y) * second(y))))
    spread = float(np.std(found, ddof=1))
    return Estimate(float(np.mean(found)), spread / INDEPENDENT_BLOCKS**0.5)
