"""Counts with a log link: scores are clipped around their mean, and centred again.

The distribution of a count is given by its truncated moments. of(j, k): P(Y_k <= j), where Y_0 is
the count, E[Y; Y <= j] = E[Y] of(j - 1, 1), E[Y (Y - 1); Y <= j] = E[Y (Y - 1)] of(j - 2, 2).
"""

from collections.abc import Callable

import numpy as np

from dpmcmc.families.scores.base import TINY, Floats, Place, Terms, single

MAX_PREDICTOR = 30.0  # of a predictor: more is not told apart
HARDLY_CUT = 0.99  # of a slope that cutting leaves
UpTo = Callable[[Floats, int], Floats]


def moments(
    rate: Floats, second: Floats, low: Floats, high: Floats, of: UpTo
) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance of h(Y), and its covariance with Y, for h(y) = y cut to [low, high].

    Less the rate, which low <= rate <= high. second: E[Y (Y - 1)].
    """
    first, last = np.ceil(low), np.floor(high)
    below = [_there(of, first - 1.0 - k, k) for k in range(3)]
    within = [_there(of, last - k, k) for k in range(3)]
    mass, one, two = (b - a for a, b in zip(below, within, strict=True))
    one, two = rate * one, second * two  # E[Y; in], E[Y (Y - 1); in]
    off = one - rate * mass
    square = two + one - 2.0 * rate * one + rate * rate * mass
    under, over = low - rate, high - rate
    left, right = rate * (below[1] - below[0]), rate * (within[0] - within[1])
    mean = off + under * below[0] + over * (1.0 - within[0])
    squared = square + under**2 * below[0] + over**2 * (1.0 - within[0])
    slope = square + under * left + over * right
    return mean, squared - mean * mean, slope


def counted(
    y: Floats, place: Place, rate: Floats, second: Floats, of: UpTo, gain: Floats | float = 1.0
) -> Terms:
    """Return the terms of counts y (m,) with these means and E[Y (Y - 1)], see moments.

    gain: a score is this times the count less its mean. A squared residual is over the variance
    that the model has, times place.scale^2.
    """
    t = place.most / np.maximum(place.row_norm, TINY)
    room = t / gain
    low, high = np.maximum(rate - room, 0.0), rate + room
    mean, variance, slope = moments(rate, second, low, high, of)
    slope = gain * gain * np.maximum(slope, 0.0)
    psi = gain * (np.clip(y, low, high) - rate - mean)
    if not place.spread.any():
        steepest = gain * np.maximum(rate, y + 0.5)
        slope = _secant(psi, np.log(y + 0.5) - place.eta[0], slope, steepest)
    longest = gain * np.maximum(high - rate - mean, rate + mean - low)
    w = np.minimum(1.0, t / np.maximum(longest, TINY))
    w = np.minimum(w, place.curved / np.maximum(slope * place.row_norm**2, TINY))
    seen = _observed(psi, slope, rate, gain) if place.spread.any() else 1.0
    z = (y - rate) ** 2 / np.maximum(rate / gain * place.scale**2, TINY)
    told = np.minimum(z, place.cut**2)
    return single(w * psi, w * slope * seen, w * w * gain * gain * variance * seen, told)


def _observed(psi: Floats, slope: Floats, rate: Floats, gain: Floats | float) -> Floats:
    """Return observed slopes over the expected ones: a gain falls with the predictor as well.

    By 1 - gain of itself. Their mean is 1 under the model; where it is wrong, what a posterior has
    for its width are the observed ones. Of rows whose counts are hardly ever cut: of others it
    would be noise, and might be negative.
    """
    whole = slope >= HARDLY_CUT * gain * rate
    more = np.where(whole, (1.0 - gain) * psi / np.maximum(slope, TINY), 0.0)
    return np.asarray(np.maximum(1.0 + more, 0.0))


def _secant(psi: Floats, apart: Floats, slope: Floats, steepest: Floats) -> Floats:
    """Return secant slopes: a step with them changes the predictor by the difference of the logs.

    Far from the mean the tangent is no use: the score of a clipped row is constant there. None is
    steeper than the tangent at the count or at its mean, between which a secant lies: where their
    logs nearly agree the half that is added to a count leaves any quotient.
    """
    told = psi * apart > 0.0
    return np.where(told, np.minimum(psi / np.where(told, apart, 1.0), steepest), slope)


def _there(of: UpTo, j: Floats, k: int) -> Floats:
    return np.asarray(np.where(j >= 0.0, of(np.maximum(j, 0.0), k), 0.0))
