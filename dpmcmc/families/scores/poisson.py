"""Poisson regression with a log link. Source of its sums: E[Y; Y <= j] = rate P(Y <= j - 1)."""

import numpy as np
from scipy.special import pdtr

from dpmcmc.families.scores.base import Floats, Place, Terms, nodes_of
from dpmcmc.families.scores.counts import MAX_PREDICTOR, counted


class Poisson:
    """scale: f, residuals vary f times as much as those of a Poisson count."""

    scaled, additive = True, False
    longest, pilot, level = 2.0, True, 1.0
    steepest, weighted = np.inf, True

    def terms(self, y: Floats, place: Place) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        rate = np.zeros_like(y)
        for eta, weight in nodes_of(place):
            rate += weight * np.exp(np.minimum(eta, MAX_PREDICTOR))
        return counted(y, place, rate, rate * rate, lambda j, _: np.asarray(pdtr(j, rate)))
