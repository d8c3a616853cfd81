"""Predictions of new responses from draws of a posterior. Functions of released numbers: free."""

import numpy as np

from dpmcmc.mechanisms.sums import Floats
from dpmcmc.privacy.noise import RandomSource


def means(x: Floats, coefficients: Floats) -> Floats:
    """Return the posterior predictive means (n,) at x (n, d). coefficients: (count, d)."""
    return np.asarray(x @ coefficients.mean(axis=0))


def intervals(
    x: Floats, coefficients: Floats, variances: Floats, level: float, random: RandomSource
) -> tuple[Floats, Floats]:
    """Return central credible intervals (n,), (n,) of responses at x (n, d).

    coefficients: (count, d). variances: (count,), of the residuals. level: between 0 and 1.
    Raises ValueError on another level.
    """
    if not 0.0 < level < 1.0:
        raise ValueError("the level of an interval must lie between 0 and 1")
    errors = np.sqrt(variances) * random.normals((len(x), len(variances)))
    drawn = x @ coefficients.T + errors
    low, high = np.quantile(drawn, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=1)
    return low, high
