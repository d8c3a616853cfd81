"""How long gradients of rows are, from public facts, and where they may be clipped."""

import math

import numpy as np

from dpmcmc.samplers.base import Floats, Outlook

CLIP = 2.5  # least gradient clip over the root mean square norm of a row's gradient,
LARGE_CLIP, NUM_CLIPS = 30.0, 16  # one that is large, and how many are tried up to it,
LARGER_CLIPS = (45.0, 65.0, 100.0, 150.0, 220.0, 300.0)  # and beyond it
SKEW = 0.2  # a guess: of what is cut off on one side, what the other does not make up for


def typical_gradient(outlook: Outlook) -> float:
    """Return the root mean square norm of a row's gradient near the mode."""
    scale = outlook.rows * outlook.tempering
    return math.sqrt(float(np.trace(outlook.guess.precision)) / scale)


def gradient_clip(outlook: Outlook) -> float:
    """Return a norm that few rows' gradients exceed."""
    return float(f"{CLIP * typical_gradient(outlook):.4g}")


def clips(outlook: Outlook) -> Floats:
    """Return norms to clip gradients at, from one that few exceed to one that none may exceed."""
    typical, steepest = typical_gradient(outlook), outlook.guess.steepest
    tried = typical * np.array([*np.geomspace(CLIP, LARGE_CLIP, NUM_CLIPS), *LARGER_CLIPS])
    return np.asarray([*tried[tried < steepest], *([steepest] if steepest < tried[-1] else [])])


def clip_bias(outlook: Outlook, clip: float) -> float:
    """Return about how far clipping shifts the mode, in posterior sds.

    Norms are taken to have exponential tails, as those of counts or squares have.
    """
    if clip >= outlook.guess.steepest:
        return 0.0
    cut = math.exp(-math.sqrt(2.0) * clip / typical_gradient(outlook)) / math.sqrt(2.0)
    return SKEW * cut * math.sqrt(outlook.rows * outlook.tempering)
