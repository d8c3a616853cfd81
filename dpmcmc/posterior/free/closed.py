"""Posteriors under normal priors: an even mixture of normals, in closed form."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dpmcmc.posterior.free.priors import CoefficientPrior, Floats
from dpmcmc.releases.base import Posterior

MIN_RELATIVE_WIDTH = 1e-12  # of the widest direction of a normal: none is narrower


@dataclass(frozen=True, slots=True)
class Closed:
    """A mixture posterior under normal priors. normals: their mean and precision (d,)."""

    posterior: Posterior
    normals: tuple[Floats, Floats]

    @property
    def others(self) -> dict[int, CoefficientPrior]:
        """Priors that are not normal, by coefficient: none here."""
        return {}

    def bayes_factor(self, weights: Floats, values: Floats) -> tuple[float, float]:
        """Return ln of the Bayes factor against weights @ coefficients = values, and its error.

        weights: (k, p). The error is from the finite number of curvatures in the mixture.
        """
        means, roots = self.posterior.parts()
        mean, precision = (part[: means.shape[1]] for part in self.normals)
        lengths = np.linalg.norm(weights, axis=1)  # no unit of a column decides what is narrow
        weights, values = weights / lengths[:, None], values / lengths
        before = _log_normal(values - weights @ mean, weights / np.sqrt(precision))
        logs = np.array(
            [
                _log_normal(values - weights @ middle, weights @ root)
                for middle, root in zip(means, roots, strict=True)
            ]
        )
        after = float(logsumexp(logs)) - math.log(len(logs))
        error = float(np.exp(logs - after).std()) / math.sqrt(len(logs))
        return before - after, error


def _log_normal(difference: Floats, root: Floats) -> float:
    """Return the log density of a normal with covariance root @ root.T at mean + difference."""
    values, vectors = np.linalg.eigh(root @ root.T)
    values = np.maximum(values, max(MIN_RELATIVE_WIDTH * float(values.max()), 1e-300))
    return -0.5 * float(
        np.sum(np.log(2 * math.pi * values) + (vectors.T @ difference) ** 2 / values)
    )
