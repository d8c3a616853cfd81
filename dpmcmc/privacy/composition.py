"""Composition of (epsilon, delta) guarantees: basic, advanced and optimal.

All hold for mechanisms chosen adaptively with parameters fixed in advance; looser than composing
the mechanisms' own profiles. "The blog" is Pei's; claims as numbered there.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.gaussian import boundary, check_delta, check_epsilon

FloatArray = NDArray[np.float64]
_PAD = 2.0**-48
LARGEST_COUNT = 100_000
LARGEST_EPSILON = 1e130  # whose square, times any count, is a number


def _check_count(count: int) -> None:
    """Refuse a count that is not a positive whole number."""
    if count < 1:
        raise ValueError("count must be 1 or larger")


def advanced_epsilon_blog(entries: Sequence[tuple[float, int]], beta: float) -> float:
    """Return epsilon at delta = beta of (epsilon, count) pure mechanisms (blog, Claim 16; loose).

    For one pair k a + sqrt(2 k ln(1/beta)) (epsilon + a), a = epsilon (e^epsilon - 1) up to ln 2,
    else epsilon; for several Azuma's inequality with their own increments.
    """
    _check_entries(entries, beta)
    if any(e > LARGEST_EPSILON for e, _ in entries):
        return math.inf
    means = [e * math.expm1(e) if e <= math.log(2) else e for e, _ in entries]
    pairs = list(zip(entries, means, strict=True))
    squares = math.fsum(count * (e + mean) ** 2 for (e, count), mean in pairs)
    total = math.fsum(count * mean for (_, count), mean in pairs)
    return (total + math.sqrt(-2 * squares * math.log(beta))) * (1 + _PAD)


def advanced_epsilon(entries: Sequence[tuple[float, int]], beta: float) -> float:
    """Return epsilon at delta = beta of (epsilon, count) pure mechanisms (Dwork et al. 2010).

    For one pair k epsilon (e^epsilon - 1) + epsilon sqrt(2 k ln(1/beta)).
    """
    _check_entries(entries, beta)
    if any(e > 700 for e, _ in entries):
        return math.inf
    squares = math.fsum(count * e * e for e, count in entries)
    total = math.fsum(count * e * math.expm1(e) for e, count in entries)
    return (total + math.sqrt(-2 * squares * math.log(beta))) * (1 + _PAD)


def _check_entries(entries: Sequence[tuple[float, int]], beta: float) -> None:
    """Refuse epsilons, counts or a beta out of range."""
    check_delta(beta)
    for epsilon, count in entries:
        check_epsilon(epsilon)
        _check_count(count)


def optimal_delta(epsilon: float, delta: float, count: int, at_epsilon: float) -> float:
    """Return the smallest delta at at_epsilon of `count` (epsilon, delta) mechanisms, rounded up.

    Attained by randomised response. Source: Kairouz, Oh & Viswanath 2015, Theorem 3.3.
    """
    check_epsilon(epsilon)
    check_epsilon(at_epsilon)
    _check_count(count)
    if not 0 <= delta <= 1:
        raise ValueError("delta must lie between 0 and 1")
    if delta == 1:
        return 1.0
    held = min(_response_delta(epsilon, count, at_epsilon), 1.0)
    if held == 1:
        return 1.0
    return min(1.0, -math.expm1(count * math.log1p(-delta) + math.log1p(-held)) * (1 + 2e-12))


def _response_delta(epsilon: float, count: int, at_epsilon: float) -> float:
    """Return delta of `count` randomised responses: the sum over i false answers."""
    if epsilon == 0:
        return 0.0
    # lowered by its rounding error, so that no term that counts is lost just above the threshold
    at_epsilon -= 2.0**-50 * (at_epsilon + count * epsilon)
    most = math.ceil((count - at_epsilon / epsilon) / 2)
    lies = np.arange(0, max(0, min(count + 1, most)), dtype=float)
    if lies.size == 0:
        return 0.0
    gain = -np.expm1(np.minimum(0.0, at_epsilon - (count - 2 * lies) * epsilon))
    return math.fsum(np.exp(_log_binomial(count, epsilon)[: lies.size]) * gain)


@lru_cache(maxsize=4)
def _log_binomial(count: int, epsilon: float) -> FloatArray:
    """Return log binomial masses of 0, ..., count false answers at 1 / (1 + e^epsilon), cached.

    Loader's saddle point.
    """
    lies = np.arange(count + 1, dtype=float)
    log_truth = -math.log1p(math.exp(-epsilon))
    log_lie = log_truth - epsilon
    inner = lies[(lies > 0) & (lies < count)]
    mass = np.where(lies == 0, count * log_truth, count * log_lie)
    correction = (
        _stirling(np.array([float(count)]))[0] - _stirling(inner) - _stirling(count - inner)
    )
    deviance = _deviance(inner, count * math.exp(log_lie)) + _deviance(
        count - inner, count * math.exp(log_truth)
    )
    shape = 0.5 * np.log(count / (2 * np.pi * inner * (count - inner)))
    mass[(lies > 0) & (lies < count)] = correction - deviance + shape
    return mass


def _stirling(x: FloatArray) -> FloatArray:
    """Return ln x! - (x + 1/2) ln x + x - ln(2 pi)/2 for whole x >= 1."""
    small = np.array([math.lgamma(n + 1) for n in range(17)])
    index = np.minimum(x, 16).astype(int)
    exact = small[index] - (x + 0.5) * np.log(x) + x - 0.5 * math.log(2 * math.pi)
    y = 1 / (x * x)
    series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x
    chosen: FloatArray = np.where(x <= 16, exact, series)
    return chosen


def _deviance(x: FloatArray, mean: float) -> FloatArray:
    """Return x ln(x / mean) + mean - x, without cancellation where x is close to mean."""
    with np.errstate(divide="ignore"):
        u = (x - mean) / mean
    near = np.abs(u) < 0.1
    v = np.where(near, u, 0.0)
    series = sum((-v) ** k / (k * (k - 1)) for k in range(2, 18))
    with np.errstate(divide="ignore"):
        plain = x * np.log(x / mean) + mean - x
    chosen: FloatArray = np.where(near, mean * series, plain)
    return chosen


def optimal_epsilon(epsilon: float, delta: float, count: int, at_delta: float) -> float:
    """Return the smallest epsilon at at_delta of `count` mechanisms, rounded up."""
    check_delta(at_delta)
    total = count * epsilon
    if -math.expm1(count * math.log1p(-delta)) > at_delta:
        return math.inf
    if optimal_delta(epsilon, delta, count, 0.0) <= at_delta:
        return 0.0
    return boundary(
        lambda at: optimal_delta(epsilon, delta, count, at) <= at_delta, total * (1 + 1e-12), 0.0
    )
