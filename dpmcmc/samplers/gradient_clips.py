"""The expected norms of rows' gradients, from public facts, and the clips that are tried."""

import math

import numpy as np

from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.target import Floats

MIN_CLIP_RATIO = 2.5  # least gradient clip over the root mean square norm of a row's gradient,
LARGE_CLIP, NUM_CLIPS = 30.0, 16  # one that is large, and how many are tried up to it,
CLIP_RATIOS = (45.0, 65.0, 100.0, 150.0, 220.0, 300.0)  # and beyond it
CLIPPING_SKEW = 0.2  # a guess: of what is cut off on one side, what the other does not make up for


def typical_gradient(assumptions: Assumptions) -> float:
    """Return the root mean square norm of a row's gradient near the mode."""
    scale = assumptions.rows * assumptions.tempering
    return math.sqrt(float(np.trace(assumptions.guess.precision)) / scale)


def gradient_clip(assumptions: Assumptions) -> float:
    """Return a norm that few rows' gradients exceed."""
    return float(f"{MIN_CLIP_RATIO * typical_gradient(assumptions):.4g}")


def clips(assumptions: Assumptions) -> Floats:
    """Return norms to clip gradients at, from one that few exceed to one that none may exceed."""
    typical, steepest = typical_gradient(assumptions), assumptions.guess.steepest
    tried = typical * np.array([*np.geomspace(MIN_CLIP_RATIO, LARGE_CLIP, NUM_CLIPS), *CLIP_RATIOS])
    return np.asarray([*tried[tried < steepest], *([steepest] if steepest < tried[-1] else [])])


def clip_bias(assumptions: Assumptions, clip: float) -> float:
    """Return about how far clipping shifts the mode, in posterior sds.

    Norms are taken to have exponential tails, as those of counts or squares have.
    """
    if clip >= assumptions.guess.steepest:
        return 0.0
    cut = math.exp(-math.sqrt(2.0) * clip / typical_gradient(assumptions)) / math.sqrt(2.0)
    return CLIPPING_SKEW * cut * math.sqrt(assumptions.rows * assumptions.tempering)
