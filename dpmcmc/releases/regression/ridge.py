"""adaSSP: a ridge estimate from noisy sums of squares. A function of released numbers: free.

Source: Wang 2018; several holders: thesis B, 7.1.1. The source pays for a release of the
least eigenvalue; here it is read off the noisy matrix, which costs nothing, or handed in.
"""

import math

import numpy as np

from dpmcmc.releases.regression.statistics import Floats, Noisy

FAILURE_PROBABILITY = 0.05  # probability that the noise is larger than what the ridge is meant for


def ridges(
    noisy: Noisy, least: Floats | None = None, failure: float = FAILURE_PROBABILITY
) -> Floats:
    """Return a ridge for each holder (..., J): the noise's size less a safe least eigenvalue.

    least: (..., J) lower bounds of X'X' eigenvalues that were released; else of the noisy matrix,
    less what noise adds at most but for the failure probability.
    """
    d = noisy.gram.shape[-1]
    size = noisy.sds[0] * math.sqrt(d * math.log(2.0 * d * d / failure))
    known = np.linalg.eigvalsh(noisy.gram)[..., 0] - size if least is None else least
    return np.asarray(np.maximum(0.0, size - np.maximum(known, 0.0)))


def adassp(
    noisy: Noisy, least: Floats | None = None, failure: float = FAILURE_PROBABILITY
) -> Floats:
    """Return the estimates (..., d): all sums and all ridges added up. See ridges."""
    d = noisy.gram.shape[-1]
    ridge = ridges(noisy, least, failure).sum(axis=-1)
    whole = noisy.gram.sum(axis=-3) + ridge[..., None, None] * np.eye(d)
    return np.asarray(np.linalg.solve(whole, noisy.moments.sum(axis=-2)[..., None])[..., 0])
