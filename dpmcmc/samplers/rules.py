"""How a step is decided, from sums over rows or over a secret minibatch of them, and noise.

Arithmetic alone, so that it runs on arrays over chains as it stands and compiled on the numbers of
one chain (dpmcmc/kernels/walks.py, batches.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

PENALTY, BARKER = 0, 1
CLAMP = 6.0  # of the normal that fills Barker's variance up
Number = Any  # a float, or floats over chains


class Rule(NamedTuple):
    """The public constants of a decision.

    kind: PENALTY or BARKER. batch: rows of it, b. scale: n T / b. part: of a batch's variance that
    sampling without replacement leaves. noise_multiplier, rounding: of the penalty rule; rounding
    is what float sums may add to a sensitivity, as a factor. fixed, filled: of Barker's noise,
    the variance that privacy rests on and that of both normals. most: of the batch's own variance.
    widest: interval of a row's ratio, not tempered, beyond which a move is rejected.
    """

    kind: int
    batch: int
    scale: float
    part: float
    noise_multiplier: float = 0.0
    rounding: float = 1.0
    fixed: float = 0.0
    filled: float = 0.0
    most: float = np.inf
    widest: float = np.inf


def noisy(
    total: Number,
    sensitivity: Number,
    prior: Number,
    noise_multiplier: Number,
    normal: Number,
    uniform: Number,
) -> Number:
    """Return whether a move is accepted whose log likelihood ratio is seen through noise.

    total: the sum over all rows, of this sensitivity. lambda = total + s N(0, 1) with s = noise
    multiplier * sensitivity; accepted with probability min(1, exp(lambda + prior - s^2 / 2)).
    Privacy: one Gaussian event. Proof: docs/proofs/dp_penalty.md.
    Source: Ceperley and Dewing 1999; Yıldırım and Ermiş 2019, Proposition 1.
    """
    s = noise_multiplier * sensitivity
    return np.log(uniform) < total + s * normal + prior - 0.5 * s * s


def penalty(
    rule: Rule, sums: Number, squares: Number, widths: Number, priors: Number, noise: Number
) -> Number:
    """Return whether a move is accepted. noise: a standard normal and a uniform.

    sums, squares: of the batch's clipped ratios, not tempered. The batch's estimate of the log
    ratio minus half of its estimated variance, noised for its sensitivity; the penalty of the noise
    as in `noisy`. Proof: docs/proofs/dp_penalty_subsampled.md.
    """
    spread = np.maximum(squares - sums * sums / rule.batch, 0.0)
    variances = rule.part * rule.scale**2 * spread
    jumps = 0.5 * rule.part * (rule.scale * widths) ** 2 * (rule.batch - 1.0) / rule.batch
    s = rule.noise_multiplier * rule.rounding * (rule.scale * widths + jumps)
    noisy = rule.scale * sums - 0.5 * variances + s * noise[0]
    return np.log(noise[1]) < noisy + priors - 0.5 * s * s


def barker(
    rule: Rule, sums: Number, squares: Number, widths: Number, priors: Number, noise: Number
) -> Number:
    """Return whether a move is accepted. noise: two standard normals and the correction.

    Total noise variance 2 and the correction make it logistic. A move whose public interval is
    wider than the noise covers is rejected unseen. Proof: docs/proofs/dp_barker.md.
    """
    spread = np.maximum(squares - sums * sums / rule.batch, 0.0)
    variances = np.minimum(rule.part * rule.scale**2 * spread, rule.most)
    clamped = np.minimum(np.maximum(noise[0], -CLAMP), CLAMP)
    filled = np.sqrt(rule.filled - variances) * clamped
    statistics = rule.scale * sums + priors + filled + np.sqrt(rule.fixed) * noise[1] + noise[2]
    return (statistics > 0.0) & (widths <= rule.widest)


RULES: dict[int, Callable[..., Number]] = {PENALTY: penalty, BARKER: barker}
