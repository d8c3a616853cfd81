"""How a step is decided, from sums over rows or over a secret minibatch of them, and noise.

A rule's statistic gets its noise from rounding.noised before it is decided on.

Arithmetic alone, so that it runs on arrays over chains as it stands and compiled on the numbers of
one chain (dpmcmc/kernels/compiled/penalty_steps.py, batches.py).
"""

from typing import Any, NamedTuple

import numpy as np

PENALTY, BARKER = 0, 1
MAX_FILLING_SDS = 6.0  # of the normal that fills Barker's variance up
Number = Any  # a float, or floats over chains


class Rule(NamedTuple):
    """The public constants of a decision.

    kind: PENALTY or BARKER. batch: rows of it, b. scale: n T / b. part: of a batch's variance that
    sampling without replacement leaves. unit, sd: of the integer noise, see discrete.Scale; of
    Barker's the unit is absolute, so that unit * sd is the sd that privacy rests on. rounding: what
    float sums may add to a sensitivity, as a factor. filled: variance of Barker's other normal and
    of the batch together. most: of the batch's own variance. widest: interval of a row's ratio, not
    tempered, beyond which a move is rejected.
    """

    kind: int
    batch: int
    scale: float
    part: float
    unit: float
    sd: float
    rounding: float = 1.0
    filled: float = 0.0
    most: float = np.inf
    widest: float = np.inf


def accepts(seen: Number, s: Number, prior: Number, uniform: Number) -> Number:
    """Return whether a move is accepted whose log likelihood ratio is seen through noise.

    seen: the ratio plus Gaussian noise of sd s, `rounding.noised` of the sum over rows. prior: what
    is known without rows. Accepted with probability min(1, exp(seen + prior - s^2 / 2)).
    Privacy: that of seen. Proof: docs/proofs/dp_penalty.md.
    Source: Ceperley and Dewing 1999; Yıldırım and Ermiş 2019, Proposition 1.
    """
    return np.log(uniform) < seen + prior - 0.5 * s * s


def penalty(
    rule: Rule, sums: Number, squares: Number, widths: Number, others: Number
) -> tuple[Number, Number]:
    """Return (statistic, size of a grid cell) of a batch: its log ratio less half its variance.

    sums, squares: of the batch's clipped ratios, not tempered, less the middles of their intervals,
    which the variance does not know of. others: not used.
    Privacy: `rounding.noised` of it is one Gaussian event on the batch.
    Proof: docs/proofs/dp_penalty_subsampled.md.
    """
    spread = np.maximum(squares - sums * sums / rule.batch, 0.0)
    variances = rule.part * rule.scale**2 * spread
    jumps = 0.5 * rule.part * (rule.scale * widths) ** 2 * (rule.batch - 1.0) / rule.batch
    cells = rule.unit * rule.rounding * (rule.scale * widths + jumps)
    return rule.scale * sums - 0.5 * variances, cells


def barker(
    rule: Rule, sums: Number, squares: Number, widths: Number, others: Number
) -> tuple[Number, Number]:
    """Return (statistic, size of a grid cell) of a batch: its log ratio, and noise that fills up.

    others: a standard normal first, which fills the variance up to what Barker's test needs.
    Privacy: `rounding.noised` of it is one Gaussian event on the batch, whatever the normal was.
    Proof: docs/proofs/dp_barker.md.
    """
    spread = np.maximum(squares - sums * sums / rule.batch, 0.0)
    variances = np.minimum(rule.part * rule.scale**2 * spread, rule.most)
    clamped = np.minimum(np.maximum(others[0], -MAX_FILLING_SDS), MAX_FILLING_SDS)
    filled = np.sqrt(rule.filled - variances) * clamped
    return rule.scale * sums + filled, rule.unit + 0.0 * widths


def barker_accepts(
    rule: Rule, seen: Number, widths: Number, prior: Number, others: Number
) -> Number:
    """Return whether a move is accepted. others: a normal that was used up, and the correction.

    Total noise variance 2 and the correction make it logistic. A move whose public interval is
    wider than the noise covers is rejected unseen.
    """
    return (seen + prior + others[1] > 0.0) & (widths <= rule.widest)
