"""Smooth sensitivity of order statistics. Proof: docs/proofs/smooth_laplace.md."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST_SHARE = 2.0**-20  # of the range of values: a smooth sensitivity is never below
LOG_SCALE_STEP = 2.0**-19  # of log scales: docs/proofs/smooth_laplace.md, section 3


def order_statistic(ordered: Floats, rank: int) -> Floats:
    """Return the value of this rank (1 to n) of values sorted along the last axis."""
    return np.asarray(ordered[..., rank - 1])


def reach(beta: float) -> int:
    """Return the number of replaced rows beyond which nothing exceeds LEAST_SHARE."""
    return math.ceil(-math.log(LEAST_SHARE) / beta)


def smooth_sensitivity(
    ordered: Floats, rank: int, beta: float, lower: float, upper: float, *, simulated: bool = False
) -> Floats:
    """Return a beta-smooth bound of the order statistic's local sensitivity, shape (...).

    simulated: whether the values are nobody's; it then stops where nothing is larger further on.

    ordered: (..., n), values within [lower, upper], sorted along the last axis. It is
    max_k e^(-k beta) max_t (v[rank + t] - v[rank + t - k - 1]), t from 0 to k + 1, values of ranks
    below 1 being lower and above n upper, or LEAST_SHARE of the range where that is more.
    Source: Nissim, Raskhodnikova & Smith 2007, section 3.1; thesis B, section 6.3.
    """
    n = ordered.shape[-1]
    most = min(reach(beta), n)
    shape = ordered.shape[:-1]
    below = np.full((*shape, most + 2), lower)
    above = np.full((*shape, most + 2), upper)
    padded = np.concatenate((below, ordered, above), axis=-1)
    at = most + 1 + rank  # where the order statistic is in padded
    largest = np.full(shape, LEAST_SHARE * (upper - lower))
    for k in range(most + 1):
        if simulated and (math.exp(-k * beta) * (upper - lower) <= largest).all():
            break
        upper_ends = padded[..., at : at + k + 2]
        lower_ends = padded[..., at - k - 1 : at + 1]
        local = (upper_ends - lower_ends).max(axis=-1)
        largest = np.maximum(largest, math.exp(-k * beta) * local)
    return np.asarray(largest)


def beta_of(epsilon: float, delta: float) -> float:
    """Return how fast a sensitivity may change, so that noise of scale 2 / epsilon times it is
    (epsilon, delta)-DP.

    The largest b with b <= epsilon / 2 and ln(1 / delta) (e^b - 1) - b <= epsilon / 2, less what
    rounding takes. epsilon: 1/32 to 32. delta: above 0, at most 1/3. Raises ValueError where
    nothing is left. Proof: docs/proofs/smooth_laplace.md.
    """
    width = math.log(1.0 / delta) + 2.0**-20
    low, high = 0.0, 0.5 * epsilon
    for _ in range(200):
        middle = 0.5 * (low + high)
        fits = width * math.expm1(middle) - middle <= (1.0 - 2.0**-30) * 0.5 * epsilon
        low, high = (middle, high) if fits else (low, middle)
    beta = low - LOG_SCALE_STEP
    if not beta > 0.0:
        raise ValueError("too small an epsilon for this delta")
    return beta
