"""Fisher information of a noisy statistic on a parameter, and the statistic with the most.

It follows from public facts and assumed values of the parameter, and costs nothing. The mean of n
values of s is assumed normal where one sum is released. Source: thesis B, section 4.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from dpmcmc.queries.statistics.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    RandomisedResponse,
    Statistic,
)
from dpmcmc.queries.statistics.populations import Moments, Population, breaks_of, moments

Floats = NDArray[np.float64]
Additive = GaussianNoise | LaplaceNoise
_NODES, _STEPS = np.polynomial.legendre.leggauss(40)
NEGLIGIBLE_LAPLACE_SCALE = 1e-3  # sds: smaller Laplace noise is as good as Gaussian noise, to 1e-11
FARTHEST = 40.0  # scales of Laplace noise: beyond lies a probability of e^-40


def information(
    population: Population,
    statistic: Statistic,
    theta: float,
    rows: int,
    noise: Additive | None,
    form: str = "batch",
) -> float:
    """Return the Fisher information on theta of a release with this noise; None: without noise.

    form: batch (one noisy sum, normal without its noise) or sequential (every row with noise, exact
    whatever the law). Raises ValueError for sequential with little noise or none.
    """
    if form == "sequential":
        if noise is None:
            raise ValueError("rows that are shown as they are have no additive noise")
        return rows * information_of_a_row(population, statistic, theta, noise)
    row_moments = moments(population, statistic, theta)
    if isinstance(noise, LaplaceNoise):
        return laplace_information(row_moments, rows, noise.scale)
    return gaussian_information(row_moments, rows, 0.0 if noise is None else noise.sd)


def gaussian_information(row_moments: Moments, rows: int, noise_sd: float) -> float:
    """Return the Fisher information of a sum of `rows` values with Gaussian noise, in closed form.

    noise_sd: of the sum. Source: thesis B, section 4.2.1; Malagò & Pistone 2015.
    """
    variance = rows * row_moments.variance + noise_sd**2
    by_mean = (rows * row_moments.mean_slope) ** 2 / variance
    return by_mean + 0.5 * (rows * row_moments.variance_slope / variance) ** 2


def log_density_of_sum(row_moments: Moments, rows: int, noise: Additive, released: float) -> float:
    """Return the log density of a released sum of `rows` values, normal without its noise."""
    difference, variance = (
        np.array([released - rows * row_moments.mean]),
        rows * row_moments.variance,
    )
    sd = variance**0.5
    if isinstance(noise, GaussianNoise) or noise.scale < NEGLIGIBLE_LAPLACE_SCALE * sd:
        return float(GaussianNoise((variance + noise.sd**2) ** 0.5).log_density(difference)[0])
    log_sides = [_log_side(t, sd, noise.scale) for t in (difference, -difference)]
    return float(np.logaddexp(*log_sides)[0])


def _log_side(d: Floats, sd: float, scale: float) -> Floats:
    """Return the log of A of `laplace_information`."""
    log = 0.5 * (sd / scale) ** 2 - d / scale + log_ndtr(d / sd - sd / scale)
    return np.asarray(log - np.log(2.0 * scale))


def laplace_information(row_moments: Moments, rows: int, scale: float) -> float:
    """Return the Fisher information of a sum of `rows` values with Laplace noise, by quadrature.

    The density is A + B, A = exp(v / 2b^2 - d / b) Phi(d / sd - sd / b) / 2b, B its mirror image.
    By its mean it changes by (A - B) / b, by its variance by (A + B - normal density) / 2b^2.
    """
    sd = (rows * row_moments.variance) ** 0.5
    if scale < NEGLIGIBLE_LAPLACE_SCALE * sd:
        return gaussian_information(row_moments, rows, 2.0**0.5 * scale)
    d, steps = _symmetric(np.array([sd, scale]))
    normal = np.exp(-0.5 * (d / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
    a, b = _one_side(d, sd, scale, normal), _one_side(-d, sd, scale, normal)
    by_mean = (a - b) / scale
    by_variance = (a + b - normal) / (2.0 * scale**2)
    slope = rows * (row_moments.mean_slope * by_mean + row_moments.variance_slope * by_variance)
    return _squares(slope, a + b, steps)


def _one_side(d: Floats, sd: float, scale: float, normal: Floats) -> Floats:
    """Return A of `laplace_information`, by Mills' ratio where that is stable."""
    x = sd / scale - d / sd
    far = x < -5.0
    mills = np.sqrt(0.5 * np.pi) * erfcx(np.where(far, 0.0, x) * 2.0**-0.5)
    by_mills = normal * sd / (2.0 * scale) * mills
    log = np.where(far, _log_side(d, sd, scale), 0.0)
    return np.asarray(np.where(far, np.exp(log), by_mills))


def information_of_a_row(
    population: Population, statistic: Statistic, theta: float, noise: Additive
) -> float:
    """Return the Fisher information of one row with its own noise, by quadrature.

    Its error is below 1e-3, and below 1e-4 where the noise's sd exceeds 1/30 of the range of s.
    Raises ValueError where that sd is below 1/1000 of the range.
    """
    if noise.sd < 1e-3 * statistic.sensitivity:
        raise ValueError("the noise is too small beside the range of the statistic")
    x, weights, slopes = population.nodes(theta, breaks_of(statistic))
    s = statistic.of(x)
    low, high = statistic.range
    y, steps = _about(np.array([low, high]), noise)
    density, slope = np.zeros(len(y)), np.zeros(len(y))
    for first in range(0, len(y), 512):
        block = slice(first, first + 512)
        densities = np.exp(noise.log_density(y[block, None] - s))
        density[block], slope[block] = densities @ weights, densities @ slopes
    return _squares(slope, density, steps)


def response_information(mechanism: RandomisedResponse, theta: float, rows: int) -> float:
    """Return the Fisher information of randomised responses on the share theta of ones, exactly.

    Source: thesis B, Example 6.
    """
    probability = float(mechanism.probability(np.array(theta)))
    slope = 2.0 * mechanism.keep_probability - 1.0
    return rows * slope**2 / (probability * (1.0 - probability))


def best_power(
    population: Population,
    statistic: Statistic,
    guesses: Sequence[float],
    powers: Sequence[float],
    rows: int,
    noise_of: Callable[[Statistic], Additive],
    form: str = "batch",
    weights: Sequence[float] | None = None,
) -> tuple[float, dict[float, float]]:
    """Return the power a with the least mean of 1 / information over the guesses, and all means.

    guesses: values of theta; weights: their prior probabilities, by default equal. statistic: gives
    kind and bounds. noise_of: the noise of a statistic. Raises ValueError without guesses or
    powers. Source: thesis B, section 6.5.
    """
    scores: dict[float, float] = {}
    for a in powers:
        candidate = replace(statistic, a=a)
        noise = noise_of(candidate)
        values = [information(population, candidate, theta, rows, noise, form) for theta in guesses]
        with np.errstate(divide="ignore"):
            scores[a] = float(np.average(1.0 / np.array(values), weights=weights))
    return min(scores, key=scores.__getitem__), scores


def _squares(slope: Floats, density: Floats, steps: Floats) -> float:
    """Return the integral of slope^2 / density."""
    positive = density > 0.0
    return float(steps[positive] @ (slope[positive] ** 2 / density[positive]))


def _symmetric(scales: Floats) -> tuple[Floats, Floats]:
    """Return quadrature nodes and weights (k,) around 0, dense on each of the scales."""
    ends = np.unique(np.outer([0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 25.0], scales))
    far = FARTHEST * scales.max()
    ends = np.concatenate(([0.0], ends[ends < far], [far]))
    return _legendre(np.concatenate((-ends[:0:-1], ends)))


def _about(limits: Floats, noise: Additive) -> tuple[Floats, Floats]:
    """Return quadrature nodes and weights over the range of a row with its noise."""
    scale = noise.sd
    tails = scale * np.array([0.1, 0.3, 0.7, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 30.0])
    low, high = limits
    inner = np.linspace(low, high, 2 + int(np.clip(4.0 * (high - low) / scale, 30, 400)))
    return _legendre(np.concatenate((low - tails[::-1], inner, high + tails)))


def _legendre(ends: Floats) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss-Legendre quadrature between neighbouring ends."""
    half = 0.5 * np.diff(ends)[:, None]
    middle = 0.5 * (ends[1:] + ends[:-1])[:, None]
    return (middle + half * _NODES).ravel(), (half * _STEPS).ravel()
