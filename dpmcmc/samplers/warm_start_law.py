"""What a warm start costs and saves, from public facts: what the planner needs of it."""

import math
from dataclasses import replace

import numpy as np

from dpmcmc.errors import SpecError
from dpmcmc.samplers.base import Floats, Outlook
from dpmcmc.samplers.options import WarmStart
from dpmcmc.samplers.warm_start import NEAR, SECOND

CLIP = 2.5  # least gradient clip over the root mean square norm of a row's gradient,
LARGE_CLIP, NUM_CLIPS = 30.0, 16  # one that is large, and how many are tried up to it,
LARGER_CLIPS = (45.0, 65.0, 100.0, 150.0, 220.0, 300.0)  # and beyond it
LITTLE = 0.05  # noise of the mode, in posterior sds
DIM = 0.01  # noise of a curvature, over what rows are taken to say of a coefficient
SKEW = 0.2  # a guess: of what is cut off on one side, what the other does not make up for
CURVATURE = 1.25  # least bound of a row's information over its typical value,
LARGEST_CURVATURE = 5.0  # and the largest that is chosen
MOST_SCORES, MOST_CLIP = 1000, 1e6
LEAST_NOISE = 1e-4
SHARES = (0.0, 0.1, 0.25)  # of mu^2, that the planner chooses from


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


def error(outlook: Outlook, clip: float, noise_multiplier: float) -> float:
    """Return the mode's error in posterior sds, of noise and of clipping."""
    return math.hypot(clip * _loudness(outlook, noise_multiplier), clip_bias(outlook, clip))


def _loudness(outlook: Outlook, noise_multiplier: float) -> float:
    """Return the mode's noise, in posterior sds, for a clip of 1."""
    sd = 2.0 * outlook.tempering * noise_multiplier / math.sqrt(NEAR)
    return sd * float(outlook.sds.mean())


def settled(warm: WarmStart | None, outlook: Outlook) -> WarmStart | None:
    """Fill what follows from public facts. None where none is asked for.

    Its noise is known where the job's epsilon is. Raises SpecError on impossible numbers.
    """
    if warm is None or (warm.share == 0.0 and warm.noise_multiplier is None):
        return None
    _check(warm)
    z = warm.noise_multiplier
    if z is None and outlook.mu is not None:
        z = max(1.0 / (math.sqrt(warm.share) * outlook.mu), LEAST_NOISE)
    clip = warm.gradient_clip or _best_clip(outlook, z)
    bound = warm.curvature_bound or _best_bound(outlook, z)
    return replace(
        warm,
        noise_multiplier=z,
        gradient_clip=float(f"{clip:.4g}"),
        curvature_bound=float(f"{bound:.4g}"),
    )


def _best_clip(outlook: Outlook, z: float | None) -> float:
    """Return the clip with the least error, bias against noise, or a larger one that costs little.

    For tails may be heavier than they are taken to be.
    """
    if z is None:
        return gradient_clip(outlook)
    tried = clips(outlook).tolist()
    best = min(tried, key=lambda clip: error(outlook, clip, z))
    quiet = [clip for clip in tried if clip * _loudness(outlook, z) < LITTLE]
    return min(float(max([best, *quiet])), MOST_CLIP)


def _best_bound(outlook: Outlook, z: float | None) -> float:
    """Return a bound of rows' information: as much as any has, if what it adds in noise is little.

    For rows may differ in it by more than their mean says, as those of large and small counts do.
    """
    scale, d = outlook.rows * outlook.tempering, len(outlook.sds)
    informed = np.diag(outlook.guess.precision)
    least = CURVATURE * float(informed.max()) / scale
    blur = math.sqrt(2.0 * d) * d * outlook.tempering * (z or math.inf) / math.sqrt(SECOND)
    quiet = min(DIM * float(informed.min()) / blur, LARGEST_CURVATURE * least)
    return min(max(least, quiet), outlook.guess.sharpest)


def arrived(warm: WarmStart, outlook: Outlook) -> Floats:
    """Return (d,) how far from the mode a chain is after a warm start."""
    known = warm.gradient_clip or math.nan, warm.noise_multiplier or math.nan
    away = outlook.sds * error(outlook, *known)
    return np.minimum(away, np.maximum(outlook.guess.distance, outlook.sds))


def _check(warm: WarmStart) -> None:
    pointer = "/sampler/warm_start"
    numbers = (
        ("share", 0.01, 0.99),
        ("noise_multiplier", LEAST_NOISE, 1e9),
        ("gradient_clip", 1e-9, MOST_CLIP),
        ("curvature_bound", 1e-9, 1e6),
    )
    for name, least, most in numbers:
        value = getattr(warm, name)
        if value is not None and not least <= value <= most:
            raise SpecError(f"{pointer}/{name}", f"must be between {least:g} and {most:g}")
    count = warm.num_scores
    if type(count) is not int or not 1 <= count <= MOST_SCORES:
        raise SpecError(f"{pointer}/num_scores", f"must be a whole number up to {MOST_SCORES}")


def chain_mu(warm: WarmStart | None, mu: float) -> float:
    """Return what a budget of mu leaves for the chain. Raises SpecError where that is nothing."""
    if warm is None:
        return mu
    if warm.noise_multiplier is None:
        return mu * math.sqrt(1.0 - warm.share) * (1.0 - 1e-12)
    left = mu**2 - (1.0 + 1e-12) / warm.noise_multiplier**2
    if left <= 0.0:
        raise SpecError("/sampler/warm_start/noise_multiplier", "costs more than the budget")
    return math.sqrt(left)


def finished(warm: WarmStart | None, chain: float) -> WarmStart | None:
    """Give the warm start its share beside a chain whose releases cost mu = chain."""
    if warm is None or warm.noise_multiplier is not None:
        return warm
    mu = chain * math.sqrt(warm.share / (1.0 - warm.share))
    return replace(warm, noise_multiplier=1.0 / mu)
