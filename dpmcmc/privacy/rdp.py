"""Rényi divergences of single mechanisms at one order, rounded up.

Every formula is arranged as ln(1 + A) / (order - 1) with A a sum of positive terms, so that tiny
divergences keep their relative accuracy; A is held as its logarithm, so that huge ones do not
overflow.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfinv, logsumexp, ndtri_exp

from dpmcmc.privacy.conversions import check_order

FloatArray = NDArray[np.float64]
RELATIVE_ERROR = 1e-11
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def _log1p_exp(log: float) -> float:
    """Return ln(1 + e^log) without overflow."""
    return log + math.log1p(math.exp(-log)) if log > 0 else math.log1p(math.exp(log))


def _divergence(log_excess: float, order: float) -> float:
    """Return ln(1 + A) / (order - 1), A given as its logarithm, rounded up."""
    if log_excess == -math.inf:
        return 0.0
    return _log1p_exp(log_excess) / (order - 1) * (1 + RELATIVE_ERROR)


def _log_expm1(x: float) -> float:
    """Return ln(e^x - 1)."""
    return x + math.log1p(-math.exp(-x)) if x > 1 else math.log(math.expm1(x))


def rdp_gaussian(noise_multiplier: float, order: float) -> float:
    """Return order / (2 z^2), exact at any order above 1."""
    check_order(order)
    return order / (2 * noise_multiplier**2) * (1 + 2.0**-50)


def rdp_pure(epsilon: float, order: float) -> float:
    """Return the largest Rényi divergence of an epsilon-DP mechanism (randomised response).

    A = (1 - e^(-(a-1) eps)) (e^(a eps) - 1) / (1 + e^eps). Never above min(eps, a eps^2 / 2).
    """
    check_order(order)
    falling = math.log(-math.expm1(-(order - 1) * epsilon))
    log = falling + _log_expm1(order * epsilon) - epsilon - math.log1p(math.exp(-epsilon))
    return min(_divergence(log, order), epsilon)


def rdp_laplace(epsilon: float, order: float) -> float:
    """Return the exact Rényi divergence of the Laplace mechanism with epsilon = Delta / b.

    ln(a/(2a-1) e^((a-1) eps) + (a-1)/(2a-1) e^(-a eps))/(a-1) (Mironov 2017, Proposition 6). The
    terms of first order in eps cancel and are left out by hand.
    """
    check_order(order)
    up, down = math.log(order / (2 * order - 1)), math.log((order - 1) / (2 * order - 1))
    log = np.logaddexp(
        up + _log_exp_remainder((order - 1) * epsilon), down + _log_exp_remainder(-order * epsilon)
    )
    return min(_divergence(float(log), order), epsilon)


def _log_exp_remainder(x: float) -> float:
    """Return ln(e^x - 1 - x)."""
    if abs(x) < 0.5:
        series = math.fsum(x**k / math.factorial(k + 2) for k in range(16))
        return 2 * math.log(abs(x)) + math.log(series)
    if x > 40:
        return x + math.log1p(-(1 + x) * math.exp(-x))
    return math.log(math.expm1(x) - x)


def pure_mu(epsilon: float) -> float:
    """Return mu of an epsilon-DP mechanism's GDP bound, 2 Phi^-1(e^eps / (1 + e^eps))."""
    if epsilon < 1:
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return mu * (1 + 1e-14)


def pure_rho(epsilon: float) -> float:
    """Return rho = epsilon^2 / 2 of an epsilon-DP mechanism (Bun & Steinke 2016, Prop. 1.4)."""
    return 0.5 * epsilon * epsilon * (1 + 2.0**-50)


def gaussian_panels(mu: float, rate: float, order: float, start: float) -> tuple[FloatArray, ...]:
    """Return quadrature nodes and log weights of E[f(x) 1{x > start}], x standard normal.

    Fine panels where 1 - q + q e^(mu x - mu^2/2) turns from flat to exponential, coarse ones before
    and after. Past 40 the normal density is nothing, but where f grows.
    """
    rise, turn = mu / 2 - 40 / mu, mu / 2 + (math.log(1 / rate) + 40) / mu
    peak = order * mu
    end = max(peak, mu / 2) + 40
    width = min(1.0, 2 / mu)
    parts = [
        (start, min(rise, 40.0), 1.0),
        (max(start, rise), min(turn, end), width),
        (max(turn, peak - 40), end, 1.0),
    ]
    low, high = np.concatenate([_panels(*part) for part in parts if part[0] < part[1]], axis=1)
    half = 0.5 * (high - low)
    x = (half[:, None] * (_NODES + 1) + low[:, None]).ravel()
    log_weights = np.log((half[:, None] * _WEIGHTS).ravel()) - 0.5 * x * x
    return x, log_weights - 0.5 * math.log(2 * math.pi)


def _panels(start: float, end: float, width: float) -> FloatArray:
    """Return (2, panels), the ends of panels no wider than `width`."""
    edges = np.linspace(start, end, max(2, math.ceil((end - start) / width) + 1))
    return np.stack([edges[:-1], edges[1:]])


def log_mixture_ratio(x: FloatArray, mu: float, rate: float) -> FloatArray:
    """Return ln(1 - q + q e^(mu x - mu^2/2)), accurate near 0 and for huge exponents."""
    exponent = mu * x - 0.5 * mu * mu
    small = np.log1p(rate * np.expm1(np.minimum(exponent, 30.0)))
    large = exponent + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-exponent.clip(30.0)))
    return np.where(exponent < 30, small, large)


def log_expm1_array(x: FloatArray) -> FloatArray:
    """Return ln(e^x - 1) for x > 0."""
    with np.errstate(divide="ignore"):
        return np.where(
            x > 1, x + np.log1p(-np.exp(-np.maximum(x, 1))), np.log(np.expm1(np.minimum(x, 1)))
        )


def expect(log_values: FloatArray, log_weights: FloatArray) -> float:
    """Return the logarithm of the weighted sum."""
    return float(logsumexp(log_values + log_weights))


def interpolated(curve: Callable[[int], float], order: float) -> float:
    """Return a bound at a real order, interpolated: (a - 1) eps(a) is convex and 0 at 1."""
    check_order(order)
    low = math.floor(order)
    share = order - low
    below = (low - 1) * curve(low) if low > 1 else 0.0
    if share == 0:
        return below / (order - 1)
    return ((1 - share) * below + share * low * curve(low + 1)) / (order - 1) * (1 + 2.0**-50)
