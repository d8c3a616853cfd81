"""Poisson regression with a log link: counts cut around their mean, and centred again."""

import numpy as np
from scipy.special import pdtr

from dpmcmc.families.base import TINY, Floats, Place, Terms, nodes_of, single

HIGHEST = 30.0  # of a predictor: more is not told apart


def _moments(rate: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance of h(Y), and its covariance with Y, for h(y) = y cut to [low, high].

    Less the rate, which low <= rate <= high. Source: E[Y; Y <= j] = rate P(Y <= j - 1).
    """
    first, last = np.ceil(low), np.floor(high)
    below = [_up_to(first - 1.0 - k, rate) for k in range(3)]
    within = [_up_to(last - k, rate) for k in range(3)]
    mass, one, two = (b - a for a, b in zip(below, within, strict=True))
    one, two = rate * one, rate * rate * two  # E[Y; in], E[Y (Y - 1); in]
    off = one - rate * mass
    square = two + one - 2.0 * rate * one + rate * rate * mass
    under, over = low - rate, high - rate
    left, right = rate * (below[1] - below[0]), rate * (within[0] - within[1])
    mean = off + under * below[0] + over * (1.0 - within[0])
    squared = square + under**2 * below[0] + over**2 * (1.0 - within[0])
    slope = square + under * left + over * right
    return mean, squared - mean * mean, slope


def _secant(psi: Floats, apart: Floats, slope: Floats) -> Floats:
    """Return slopes with which a step goes as far as the logs of counts are apart.

    Far from the mean the tangent is of no use: rows that are cut say the same wherever they are.
    """
    told = psi * apart > 0.0
    return np.where(told, psi / np.where(told, apart, 1.0), slope)


def _up_to(j: Floats, rate: Floats) -> Floats:
    return np.asarray(np.where(j >= 0.0, pdtr(np.maximum(j, 0.0), rate), 0.0))


class Poisson:
    """scale: f, residuals vary f times as much as those of a Poisson count."""

    scaled, additive = True, False
    longest, pilot, level = 2.0, True, 1.0

    def terms(self, y: Floats, place: Place) -> Terms:
        """See Family."""
        rate = np.zeros_like(y)
        for eta, weight in nodes_of(place):
            rate += weight * np.exp(np.minimum(eta, HIGHEST))
        t = place.most / np.maximum(place.reach, TINY)
        low, high = np.maximum(rate - t, 0.0), rate + t
        mean, variance, slope = _moments(rate, low, high)
        slope = np.maximum(slope, 0.0)
        psi = np.clip(y, low, high) - rate - mean
        if not place.spread.any():
            slope = _secant(psi, np.log(y + 0.5) - place.eta[0], slope)
        longest = np.maximum(high - rate - mean, rate + mean - low)
        w = np.minimum(1.0, t / np.maximum(longest, TINY))
        w = np.minimum(w, place.curved / np.maximum(slope * place.reach**2, TINY))
        z = (y - rate) ** 2 / np.maximum(rate * place.scale**2, TINY)
        return single(w * psi, w * slope, w * w * variance, np.minimum(z, place.cut**2))
