"""The cost of an event on a secret random part of the rows.

Without replacement, replace-one: the whole profile of a Gaussian base (Balle, Barthe & Gaboardi
2018; proof: docs/proofs/without_replacement.md), or Wang, Balle & Kasiviswanathan 2019 (WBK19)
where only a Rényi bound of the base is known. Poisson sampling, add/remove: Mironov, Talwar & Zhang
2019. Everything rounds up. q: batch / rows, or the Poisson rate.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from dpmcmc.privacy.conversions import check_order
from dpmcmc.privacy.rdp import (
    RELATIVE_ERROR,
    expect,
    gaussian_panels,
    interpolated,
    log_expm1_array,
    log_mixture_ratio,
    rdp_gaussian,
)

LARGEST_WHOLE_ORDER = 4096
SMALLEST_MULTIPLIER = 1e-6  # below it sampling saves nothing that counts, and quadrature has no x


def _check_rate(rate: float) -> None:
    """Refuse a sampling rate outside (0, 1]."""
    if not 0 < rate <= 1:
        raise ValueError("the sampling rate must be above 0 and at most 1")


def _divergence(log_excess: float, order: float) -> float:
    """Return ln(1 + A) / (order - 1), A given as its logarithm, rounded up."""
    return (
        float(np.logaddexp(0.0, log_excess)) / (order - 1)
        if log_excess > -30
        else (math.log1p(math.exp(log_excess)) / (order - 1))
    )


def _up(value: float) -> float:
    """Return the value rounded up by the error of its computation."""
    return value * (1 + RELATIVE_ERROR)


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Return ln(1 + q (e^eps - 1)); delta becomes q delta (blog, Claim 19), rounded up."""
    _check_rate(rate)
    if epsilon < 30:
        return math.log1p(rate * math.expm1(epsilon)) * (1 + 2.0**-49)
    return (epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))) * (1 + 2.0**-49)


def wor_rdp_gaussian(noise_multiplier: float, rate: float, order: float) -> float:
    """Return the Rényi divergence of a Gaussian release on a subset without replacement.

    A = E_{x ~ N(0,1)}[(r^a - 1)(1 - r^(1-a)) 1{r > 1}], r = 1 - q + q e^(mu x - mu^2/2), mu = 1/z.
    """
    check_order(order)
    _check_rate(rate)
    if noise_multiplier < SMALLEST_MULTIPLIER:
        return rdp_gaussian(noise_multiplier, order)
    mu = 1 / noise_multiplier
    x, log_weights = gaussian_panels(mu, rate, order, mu / 2)
    log_ratio = log_mixture_ratio(x, mu, rate)
    # (r^a - 1)(1 - r^(1-a)) = (e^(aL) - 1)(e^((a-1)L) - 1) e^(-(a-1)L)
    values = (
        log_expm1_array(order * log_ratio)
        + log_expm1_array((order - 1) * log_ratio)
        - (order - 1) * log_ratio
    )
    return _up(_divergence(expect(values, log_weights), order))


def wor_rdp(base: Callable[[int], float], rate: float, order: int) -> float:
    """Return the Rényi divergence at a whole order >= 2 (WBK19, Theorem 9).

    ln(1 + q^2 C(a,2) min{4 (e^b(2) - 1), 2 e^b(2)} + 2 sum_{j=3..a} q^j C(a,j) e^((j-1) b(j)))
    divided by a - 1.
    """
    _check_whole(order)
    _check_rate(rate)
    logs = [
        j * math.log(rate) + math.log(math.comb(order, j)) + _largest_term(base, j)
        for j in range(2, order + 1)
    ]
    return _up(_divergence(float(logsumexp(logs)), order))


def _check_whole(order: int) -> None:
    """Refuse an order that is not a whole number of at least 2."""
    if order != int(order) or not 2 <= order <= LARGEST_WHOLE_ORDER:
        raise ValueError(f"this bound needs a whole order from 2 to {LARGEST_WHOLE_ORDER}")


def _largest_term(base: Callable[[int], float], j: int) -> float:
    """Return the logarithm of the smallest bound of term j of Theorem 9."""
    value = base(j)
    plain = math.log(2) + (j - 1) * value
    if j > 2 or value > 1:
        return plain
    return min(plain, math.log(4) + math.log(math.expm1(value))) if value > 0 else -math.inf


def poisson_rdp_gaussian(noise_multiplier: float, rate: float, order: float) -> float:
    """Return the exact Rényi divergence of the Poisson-subsampled Gaussian, add/remove.

    Whole orders: A = sum_{j>=2} C(a,j) q^j (1-q)^(a-j) (e^(j(j-1)/(2 z^2)) - 1) (Abadi et al.
    2016); others: the same expectation by quadrature.
    """
    check_order(order)
    _check_rate(rate)
    if rate == 1 or noise_multiplier < SMALLEST_MULTIPLIER:
        return rdp_gaussian(noise_multiplier, order)
    if order == int(order) and order <= LARGEST_WHOLE_ORDER:
        return _up(_poisson_whole(noise_multiplier, rate, int(order)))
    return _up(_poisson_real(noise_multiplier, rate, order))


def _poisson_whole(noise_multiplier: float, rate: float, order: int) -> float:
    """Return the Poisson-subsampled Rényi divergence at a whole order."""
    j = np.arange(2, order + 1, dtype=float)
    log_comb = np.array([math.log(math.comb(order, int(i))) for i in j])
    weights = log_comb + j * math.log(rate) + (order - j) * math.log1p(-rate)
    growth = log_expm1_array(j * (j - 1) / (2 * noise_multiplier**2))
    return _divergence(float(logsumexp(weights + growth)), order)


def _poisson_real(noise_multiplier: float, rate: float, order: float) -> float:
    """Return A = E[r^a - 1 - a (r - 1)] over x ~ N(0, 1), by quadrature."""
    mu = 1 / noise_multiplier
    x, log_weights = gaussian_panels(mu, rate, order, -40.0)
    log_ratio = log_mixture_ratio(x, mu, rate)
    with np.errstate(over="ignore", divide="ignore"):
        small = np.minimum(log_ratio, 50 / order)
        ratio = np.expm1(small)
        bend = np.expm1(order * small) - order * ratio
        tiny = np.abs(order * ratio) < 1e-3
        series = _binomial_remainder(np.where(tiny, ratio, 0.0), order)
        near = np.log(np.where(tiny, series, np.maximum(bend, 0.0)))
        far = order * log_ratio
    values = np.where(order * log_ratio < 50, near, far)
    return _divergence(expect(values, log_weights), order)


def _binomial_remainder(u: np.ndarray, order: float) -> np.ndarray:
    """Return (1 + u)^a - 1 - a u for small a u."""
    term = np.ones_like(u) * order * u
    total = np.zeros_like(u)
    for k in range(2, 9):
        term = term * u * (order - k + 1) / k
        total = total + term
    return total


def barker_base_rdp(batch: int, order: float) -> float:
    """Return the Rényi divergence of a Barker decision's noisy sum given its batch, order >= 2.

    D = 4(b-1)/b^2 bounds the change of the batch variance; -ln(1+D)/2 - ln(1-(a-1)D)/(2(a-1))
    + (2a/b)/(1-(a-1)D), infinite where (a-1) D >= 1. Proof: docs/proofs/barker.md.
    """
    if order < 2:
        raise ValueError("this bound needs an order of at least 2")
    change = 4 * (batch - 1) / batch**2
    used = (order - 1) * change
    if used >= 1:
        return math.inf
    # both logarithms are of first order in `change` and cancel to second order
    spread = -0.5 * math.log1p(change) - math.log1p(-used) / (2 * (order - 1))
    error = 2.0**-51 * change
    return (spread + (2 * order / batch) / (1 - used) + error) * (1 + 2.0**-49)


def barker_rdp(batch: int, rows: int, order: float) -> float:
    """Return the Rényi divergence of a DP Barker step on `batch` of `rows` rows (WBK19)."""
    return interpolated(
        lambda a: wor_rdp(lambda j: barker_base_rdp(batch, j), batch / rows, a), order
    )
