"""Logistic regression of a binary response, 0 or 1."""

import numpy as np
from scipy.special import expit

from dpmcmc.families.scores.base import TINY, Floats, Place, Terms, nodes_of, single


def yes(y: Floats) -> Floats:
    """Return 1 where a response is a half or more, else 0: a number may lie between them."""
    return (y >= 0.5).astype(np.float64)


class Logistic:
    """A centred function of a binary response is a multiple of y - p: rows have weights alone."""

    scaled, additive = False, False
    longest, pilot, level = 2.0, False, 0.2
    steepest, weighted = np.inf, True

    def terms(self, y: Floats, place: Place) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        y, p, slope = yes(y), np.zeros_like(y), np.zeros_like(y)
        for eta, weight in nodes_of(place):
            there = expit(eta)
            p += weight * there
            slope += weight * there * (1.0 - there)
        longest = np.maximum(p, 1.0 - p) * place.row_norm
        w = np.minimum(1.0, place.most / np.maximum(longest, TINY))
        w = np.minimum(w, place.curved / np.maximum(slope * place.row_norm**2, TINY))
        return single(w * (y - p), w * slope, w * w * slope)
