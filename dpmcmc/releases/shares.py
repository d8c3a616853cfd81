"""Where the share of a response is far from what it is at the place: intercepts that are moved to it.

A Newton step takes the mean response to be linear in the intercept. From a share of a half to one of
a hundredth it makes seven steps of about 1. The mean residual says the share at once.
"""

import numpy as np

from dpmcmc.families.multinomial import probabilities
from dpmcmc.releases.joint_sums import Floats

FAR = 2.0  # of log odds, that Newton steps find by themselves
LEAST_WEIGHT = 0.1  # of a row in the score
LEAST_SHARE = 1e-9


def found(
    eta: Floats, residual: Floats, sd: Floats, slope: Floats, heaviest: float
) -> tuple[Floats, Floats] | None:
    """Return (changes of log odds (k,), slope of a row there (k, k)); None where the share is near.

    eta: (k,) predictors of the mean row. residual, sd: (k,) mean residuals, weighted, and sds of
    their noise. slope: (k, k), the mean weighted slope. heaviest: largest weight of a row.
    """
    first, q = (part[..., 0] for part in probabilities(eta[:, None]))
    own = np.diag(q) - np.outer(q, q)
    weight = float(np.clip(np.trace(slope) / np.trace(own), LEAST_WEIGHT, heaviest))
    least = np.maximum(sd / weight, LEAST_SHARE)
    shares = np.maximum(q + residual / weight, least)
    rest = max(float(first - residual.sum() / weight), float(least.max()))
    change = np.log(shares / rest) - np.log(q / first)
    if np.abs(change).max() <= FAR:
        return None
    shares = shares / (shares.sum() + rest)
    return change, np.diag(shares) - np.outer(shares, shares)
