"""Acceptance rules of steps, from noisy sums over all rows or over a secret minibatch.

A rule's statistic gets its noise from rounding.noised before the decision.

Arithmetic alone, so that it runs as plain Python on arrays over chains, and compiled on the numbers
of one chain (dpmcmc/kernels/compiled/penalty_steps.py, batches.py).
"""

from typing import Any, NamedTuple

import numpy as np

PENALTY, BARKER = 0, 1
MAX_FILLING_SDS = 6.0  # of the normal that fills Barker's variance up
Number = Any  # a float, or floats over chains


class Rule(NamedTuple):
    """The public constants of a decision.

    kind: PENALTY or BARKER. batch: its number of rows, b. scale: n T / b. part: the share of a
    batch's variance that remains under sampling without replacement. unit, sd: of the integer
    noise, see discrete.Scale; for Barker the unit is absolute, so that unit * sd is the sd of the
    privacy proof. rounding: factor of a sensitivity that allows for float sums. filled: total
    variance of the batch and of Barker's filling normal. most: bound of the batch's variance.
    widest: width of a row's interval, not tempered, above which a move is rejected.
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


def accepts(noisy: Number, s: Number, prior: Number, uniform: Number) -> Number:
    """Return whether a move is accepted, given its noisy log likelihood ratio.

    noisy: the ratio plus Gaussian noise of sd s, `rounding.noised` of the sum over rows. prior: the
    public part of the ratio. Accepted with probability min(1, exp(noisy + prior - s^2 / 2)).
    Privacy: that of noisy. Proof: docs/proofs/dp_penalty.md.
    Source: Ceperley and Dewing 1999; Yıldırım and Ermiş 2019, Proposition 1.
    """
    return np.log(uniform) < noisy + prior - 0.5 * s * s


def penalty(
    rule: Rule, sums: Number, squares: Number, widths: Number, others: Number
) -> tuple[Number, Number]:
    """Return (statistic, size of a grid cell) of a batch: its log ratio less half its variance.

    sums, squares: of the batch's clipped ratios, not tempered, minus the middles of their
    intervals. others: not used.
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
    """Return (statistic, size of a grid cell) of a batch: its log ratio plus filling noise.

    others: first a standard normal, scaled so that the total variance is that of Barker's test.
    Privacy: `rounding.noised` of it is one Gaussian event on the batch, whatever the normal.
    Proof: docs/proofs/dp_barker.md.
    """
    spread = np.maximum(squares - sums * sums / rule.batch, 0.0)
    variances = np.minimum(rule.part * rule.scale**2 * spread, rule.most)
    clamped = np.minimum(np.maximum(others[0], -MAX_FILLING_SDS), MAX_FILLING_SDS)
    filled = np.sqrt(rule.filled - variances) * clamped
    return rule.scale * sums + filled, rule.unit + 0.0 * widths


def barker_accepts(
    rule: Rule, noisy: Number, widths: Number, prior: Number, others: Number
) -> Number:
    """Return whether a move is accepted. others: the filling normal, and the correction.

    The noise (of total variance 2) plus the correction has a logistic distribution. A move whose
    public interval is too wide for the noise is rejected for that alone.
    """
    return (noisy + prior + others[1] > 0.0) & (widths <= rule.widest)
