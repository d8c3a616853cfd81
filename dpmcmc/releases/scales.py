"""The residual scale, from a noisy mean of clipped squares."""

import math
from functools import lru_cache

import numpy as np

from dpmcmc.families.scores.linear import clipped_square, clipped_square_variance, inner
from dpmcmc.mechanisms.joint_sums import Floats

TRIED_CUTS = np.concatenate((np.linspace(1.2, 5.0, 39), np.geomspace(5.5, 60.0, 25)))
# variance over the least: long tails belong to a scale where noise lets them
VARIANCE_TOLERANCE = 1.02
UNCUT, UNHEARD = 8.0, 0.03  # sds; beyond them only where noise is that part of the scale's own sd
MOST_LOG_CHANGE = math.log(50.0)  # of a log scale in one iterate
LEAST_MEAN, MOST_OF_CUT = 1e-6, 0.995  # of a mean square, and of its cut
BISECTIONS = 60
TAIL_WEIGHT = 0.5  # of what so long a tail hides, in the choice of a cut
# times it, the sd of a log scale for tails: intervals then hold it with noise on top
TAIL_SD = 1.3
TINY_SD = 1e-9  # of a log scale
TAIL_POINTS = 4001  # even probabilities, of residuals with a long tail


def best_cut(noise: float) -> float:
    """Return the largest clip, in sds, with nearly the least error of the log scale.

    noise: sd of the noise of a mean square, over that of the rows' part, for a cut of 1.
    """
    by_rows, by_noise = clipped_square_variance(TRIED_CUTS), (noise * TRIED_CUTS**2) ** 2
    variance = (by_rows + by_noise) / (2.0 * inner(TRIED_CUTS)) ** 2
    good = TRIED_CUTS[variance <= VARIANCE_TOLERANCE * variance.min()].max()
    quiet = TRIED_CUTS[by_noise <= UNHEARD**2 * by_rows]
    return float(max([min(good, UNCUT), *quiet]))


def faithful_cut(noise: float, rows: float) -> float:
    """Return the clip, in sds, with the least error of the log scale for any tails.

    noise: see best_cut. rows: how many there are.
    """
    variance = (clipped_square_variance(TRIED_CUTS) + (noise * TRIED_CUTS**2) ** 2) / (
        2.0 * inner(TRIED_CUTS)
    ) ** 2
    error = variance / rows + np.array(
        [(TAIL_WEIGHT * hidden(float(clip))) ** 2 for clip in TRIED_CUTS]
    )
    return max(best_cut(noise), float(TRIED_CUTS[int(np.argmin(error))]))


def solved(mean: float, clip: float, noise: float) -> tuple[float, float]:
    """Return t with E min((t Z)^2, clip^2) = mean, and the sd of log t due to noise.

    noise: sd of that of the mean.
    """
    mean = min(max(mean, noise, LEAST_MEAN), MOST_OF_CUT * clip * clip)
    low, high = -MOST_LOG_CHANGE, MOST_LOG_CHANGE
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        t = math.exp(middle)
        below = t * t * float(clipped_square(np.array(clip / t))) < mean
        low, high = (middle, high) if below else (low, middle)
    t = math.exp(0.5 * (low + high))
    slope = 2.0 * t * t * float(inner(np.array(clip / t)))
    return t, noise / max(slope, 1e-12)


def variance(t: float, clip: float) -> float:
    """Return the variance of a log scale estimated from one row, without noise."""
    k: Floats = np.array(clip / t)
    return float(clipped_square_variance(k) / np.maximum(2.0 * inner(k), 1e-6) ** 2)


@lru_cache(maxsize=1024)
def hidden(clip: float) -> float:
    """Return the bias of a log scale under long tails, when clipped at `clip` sds.

    Cut squares do not tell whether they have one, and the scale that a model asks for is the root
    of the mean square, tails included. Of exponential residuals about their mean, which are skewed
    as well; those of Student's t with five degrees of freedom are hidden less.
    """
    ends = (np.arange(TAIL_POINTS) + 0.5) / TAIL_POINTS
    squares = (-np.log(ends) - 1.0) ** 2
    squares = squares / squares.mean()
    return max(0.0, -math.log(solved(float(np.minimum(squares, clip * clip).mean()), clip, 0.0)[0]))


def weights(scales: Floats, taus: Floats, tau_sds: Floats) -> Floats:
    """Return weights (k,) of squared scales * taus, by their noise.

    Weights of logs would be larger where noise has made a square larger.
    """
    squares = np.maximum(tau_sds, TINY_SD) * (scales * taus) ** 2
    inverse = (squares / squares.min()) ** -2.0
    return np.asarray(inverse / inverse.sum())
