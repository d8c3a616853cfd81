"""What a warm start costs and saves, from public facts: what the planner needs of it."""

import math
from dataclasses import replace

import numpy as np

from dpmcmc.errors import SpecError
from dpmcmc.samplers.base import Outlook
from dpmcmc.samplers.warm_start import WarmStart

CLIP = 2.5  # gradient clip over the root mean square norm of a row's gradient: less biases scores
CURVATURE = 1.25  # bound of a row's information over its typical value
MOST_SCORES = 1000


def gradient_clip(outlook: Outlook) -> float:
    """Return a norm that few rows' gradients exceed."""
    scale = outlook.rows * outlook.tempering
    return float(f"{CLIP * math.sqrt(float(np.trace(outlook.guess.precision)) / scale):.4g}")


def settled(warm: WarmStart | None, outlook: Outlook) -> WarmStart | None:
    """Fill what does not depend on the budget. Raises SpecError on impossible numbers."""
    if warm is None:
        return None
    _check(warm)
    scale = outlook.rows * outlook.tempering
    clip = warm.gradient_clip or gradient_clip(outlook)
    bound = (
        warm.curvature_bound or CURVATURE * float(np.diag(outlook.guess.precision).max()) / scale
    )
    return replace(warm, gradient_clip=float(f"{clip:.4g}"), curvature_bound=float(f"{bound:.4g}"))


def _check(warm: WarmStart) -> None:
    pointer = "/sampler/warm_start"
    numbers = (
        ("share", 0.01, 0.99),
        ("noise_multiplier", 1e-4, 1e9),
        ("gradient_clip", 1e-9, 1e6),
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


def walked(draws: float) -> int:
    """Return the steps that a chain needs from where a warm start leaves it."""
    return math.ceil(1.0 / draws)
