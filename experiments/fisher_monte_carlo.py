"""Fisher information by Monte Carlo: thesis B, Algorithms 6, 7 and 8.

An observation's score is an average over simulated u (or rows), weighted by the likelihood of the
observation given them. The algorithms square it, which adds the variance of the average to the
information. Here the score is estimated twice from independent particles, with the bias of order
1 / particles removed, and the two estimates are multiplied.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource, Shape
from dpmcmc.queries.statistics.fisher import Additive
from dpmcmc.queries.statistics.inference_targets import laplace
from dpmcmc.queries.statistics.mechanisms import GaussianNoise, SmoothLaplaceNoise, Statistic
from dpmcmc.queries.statistics.populations import Moments, Population

Floats = NDArray[np.float64]
PROPOSAL_INFLATION = 1.5  # of the sd of the sum, for the proposal: covers far observations
INDEPENDENT_BLOCKS = 25  # the standard error is from their spread
Scores = Callable[[Floats], Floats]  # of observations


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Effort:
    """Sizes of a Monte Carlo estimate.

    observations: simulated y (N). particles: for each estimate of a score (M), an even number.
    squared: square one plain estimate, as the algorithms are printed.
    """

    observations: int = 20_000
    particles: int = 2_000
    squared: bool = False


def additive_information(
    row_moments: Moments, rows: int, noise: Additive, random: RandomSource, effort: Effort
) -> Estimate:
    """Return the information of one noisy sum of `rows` values, assumed normal. Algorithm 6."""
    mean, variance = rows * row_moments.mean, rows * row_moments.variance

    def away_from_mean(shape: Shape) -> Floats:
        """Return normal deviations of the sum from its mean."""
        return np.asarray(variance**0.5 * random.normals(shape))

    def scores() -> Scores:
        """Return particles' scores with their deviations."""
        deviation = PROPOSAL_INFLATION * away_from_mean((effort.particles,))
        log_ratio = (
            -0.5 * (1.0 - PROPOSAL_INFLATION**-2) * deviation**2 / variance
        )  # of the law to the proposal
        by_variance = 0.5 * (deviation**2 / variance - 1.0) / variance
        score = rows * (
            row_moments.mean_slope * deviation / variance + row_moments.variance_slope * by_variance
        )
        return lambda y: _averaged(
            noise.log_density(y[:, None] - mean - deviation) + log_ratio, score, not effort.squared
        )

    def observed(count: int) -> Floats:
        """Return simulated releases, as deviations from the mean."""
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
    """Return the information of one noisy sum, median or maximum, from simulated rows. Algorithm 7.

    Exact except for Monte Carlo error: nothing is assumed normal. noise: SmoothLaplaceNoise for a
    median or maximum, by its rank.
    """

    def laws(count: int) -> tuple[Floats, Floats, Floats]:
        """Return (count,) each: scores of simulated rows, true statistics, noise scales."""
        x = population.sample(random, theta, (count, rows))
        values = statistic.of(x)
        score = population.score(x, theta).sum(axis=-1)
        if isinstance(noise, SmoothLaplaceNoise):
            return score, *noise.law(values)
        return score, values.sum(axis=-1), np.full(count, noise.sd)

    def density(deviation: Floats, scale: Floats) -> Floats:
        """Return the log density of the noise at a deviation."""
        if isinstance(noise, SmoothLaplaceNoise):
            return np.asarray(-np.abs(deviation) / scale - np.log(2.0 * scale))
        return noise.log_density(deviation)

    def scores() -> Scores:
        """Return particles' scores with their statistics and noise scales."""
        score, centre, scale = laws(effort.particles)
        return lambda y: _averaged(density(y[:, None] - centre, scale), score, not effort.squared)

    def observed(count: int) -> Floats:
        """Return simulated releases."""
        _, centre, scale = laws(count)
        if isinstance(noise, SmoothLaplaceNoise):
            return centre + scale * laplace(random, (count,))
        return centre + drawn(noise, random, (count,))

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
    """Return the information of all rows, each with its own noise. Algorithm 8."""
    row = marginal_information(population, statistic, theta, 1, noise, random, effort)
    return Estimate(rows * row.value, rows * row.standard_error)


def drawn(noise: Additive, random: RandomSource, shape: Shape) -> Floats:
    """Return noise of a simulated release."""
    if isinstance(noise, GaussianNoise):
        return np.asarray(noise.sd * random.normals(shape))
    return noise.scale * laplace(random, shape)


def _averaged(log_weights: Floats, scores: Floats, halves: bool) -> Floats:
    """Return weighted averages of scores, one for each row of log weights.

    halves: remove the bias of order 1 / particles, with averages over halves of the particles
    (Quenouille's jackknife).
    """
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    parts = np.stack((weights * scores, weights)).reshape(2, len(weights), 2, -1).sum(axis=-1)
    numerator, denominator = parts.sum(axis=-1)
    if not halves:
        return np.asarray(numerator / denominator)
    half_averages = parts[0] / np.maximum(parts[1], 1e-300)
    return np.asarray(2.0 * numerator / denominator - half_averages.mean(axis=-1))


def _blocks(
    observed: Callable[[int], Floats], scores: Callable[[], Scores], effort: Effort
) -> Estimate:
    """Return the mean of independent blocks; observations of a block share their particles."""
    count, estimates = max(effort.observations // INDEPENDENT_BLOCKS, 1), []
    for _ in range(INDEPENDENT_BLOCKS):
        y, first = observed(count), scores()
        second = first if effort.squared else scores()
        estimates.append(float(np.mean(first(y) * second(y))))
    spread = float(np.std(estimates, ddof=1))
    return Estimate(float(np.mean(estimates)), spread / INDEPENDENT_BLOCKS**0.5)
