"""What thesis B's Tables 6.1, 6.2 and Figures 6.1 to 6.5 share: releases, posteriors, errors.

100 rows of N(0, theta), clamped to [-10, 10], |x|^a of them released; a flat prior of theta on
(0, 20), where the thesis has an improper one. Noise is what replacing a row costs.
"""

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats

from dpmcmc.privacy.accountant import noise_multiplier_for
from dpmcmc.queries.statistics.families import NormalVariance
from dpmcmc.queries.statistics.inference import sampled
from dpmcmc.queries.statistics.inference_targets import simulated, target_of
from dpmcmc.queries.statistics.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    ReleasedStatistic,
    SmoothLaplaceNoise,
    Statistic,
    beta_of,
)
from experiments.regression_methods import Source

ROWS, BOUND, DELTA = 100, 10.0, 1e-4  # delta: 1 / ROWS^2
FAMILY, FLAT = NormalVariance(), stats.uniform(0.0, 20.0)


def power(a):
    """|x|^a within the bounds."""
    return Statistic("absolute_power", a, -BOUND, BOUND)


def gaussian(statistic, epsilon, published=False):
    """Gaussian noise of (epsilon, delta); published: of epsilon-GDP, as the thesis has it."""
    z = 1.0 / epsilon if published else noise_multiplier_for(epsilon, DELTA, 1)
    return GaussianNoise(z * statistic.sensitivity)


def laplace(statistic, epsilon):
    """Laplace noise of epsilon."""
    return LaplaceNoise(statistic.sensitivity / epsilon)


def smooth(rank, epsilon, published=False):
    """Noise of a rank of |x|; published: by the smoothness and the scale that thesis B prints."""
    if published:  # alpha = epsilon: the scale is the smooth sensitivity over epsilon
        return SmoothLaplaceNoise(
            2.0 * epsilon, epsilon / (2.0 * np.log(2.0 / DELTA)), rank, 0.0, BOUND
        )
    return SmoothLaplaceNoise(epsilon, beta_of(epsilon, DELTA), rank, 0.0, BOUND)


def like(noise, statistic, form="batch", rows=ROWS):
    """How a statistic is released; its values are none yet."""
    return ReleasedStatistic(np.zeros(1), noise, statistic, rows, form)


def posteriors(how, theta, runs, algorithm, effort, rng, family=FAMILY, prior=FLAT):
    """Draws (runs, draws) of theta, one chain for each release of rows simulated at theta.

    effort: particles, warm-up, draws.
    """
    particles, warmup, draws = effort
    values = simulated(how, np.full(runs, theta), family, Source(rng))
    target = target_of(how, values, family, approximate=True)
    return sampled(algorithm, target, prior, particles, warmup, draws, Source(rng))


def errors(draws, theta):
    """Mean squared error of posterior means, and its standard error."""
    squares = (draws.mean(axis=1) - theta) ** 2
    return {
        "mse": float(squares.mean()),
        "standard_error": float(squares.std(ddof=1) / np.sqrt(len(squares))),
    }


def times(draws):
    """Integrated autocorrelation time of each chain: draws over ArviZ' ESS of the mean."""
    count = draws.shape[1]
    each = [array_stats.ess(one[None], chain_axis=0, draw_axis=1, method="mean") for one in draws]
    return count / np.array([float(ess) for ess in each])
