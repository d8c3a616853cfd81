"""The scale of residuals, from a noisy mean of squares that were cut."""

import math

import numpy as np

from dpmcmc.families.linear import inner, kept, spread
from dpmcmc.releases.joint_sums import Floats

TRIED_CUTS = np.concatenate((np.linspace(1.2, 5.0, 39), np.geomspace(5.5, 60.0, 25)))
# variance over the least: long tails belong to a scale where noise lets them
VARIANCE_TOLERANCE = 1.02
UNCUT, UNHEARD = 8.0, 0.03  # sds; beyond them only where noise is that part of the scale's own sd
MOST_LOG_CHANGE = math.log(50.0)  # of a log scale in one iterate
LEAST_MEAN, MOST_OF_CUT = 1e-6, 0.995  # of a mean square, and of its cut
BISECTIONS = 60


def best_cut(noise: float) -> float:
    """Return the largest cut, in sds, with which a log scale is known about as well as can be.

    noise: sd of the noise of a mean square, over that of the rows' part, for a cut of 1.
    """
    own, others = spread(TRIED_CUTS), (noise * TRIED_CUTS**2) ** 2
    variance = (own + others) / (2.0 * inner(TRIED_CUTS)) ** 2
    good = TRIED_CUTS[variance <= VARIANCE_TOLERANCE * variance.min()].max()
    quiet = TRIED_CUTS[others <= UNHEARD**2 * own]
    return float(max([min(good, UNCUT), *quiet]))


def solved(mean: float, cut: float, noise: float) -> tuple[float, float]:
    """Return t with E min((t Z)^2, cut^2) = mean, and the sd of its log that is due to noise.

    noise: sd of that of the mean.
    """
    mean = min(max(mean, noise, LEAST_MEAN), MOST_OF_CUT * cut * cut)
    low, high = -MOST_LOG_CHANGE, MOST_LOG_CHANGE
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        t = math.exp(middle)
        below = t * t * float(kept(np.array(cut / t))) < mean
        low, high = (middle, high) if below else (low, middle)
    t = math.exp(0.5 * (low + high))
    slope = 2.0 * t * t * float(inner(np.array(cut / t)))
    return t, noise / max(slope, 1e-12)


def variance(t: float, cut: float) -> float:
    """Return the variance of the log scale estimated from one row, without noise."""
    k: Floats = np.array(cut / t)
    return float(spread(k) / np.maximum(2.0 * inner(k), 1e-6) ** 2)
