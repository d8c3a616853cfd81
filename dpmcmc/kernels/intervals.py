# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Public intervals, and what follows from them, for all chains at once. No row is seen here."""

import numpy as np
from numba import njit

from dpmcmc.kernels.maths import NEAR, OPTIONS, kernel, leaf
from dpmcmc.models import logistic_bounds

FAR = 300.0  # of a predictor: its exponential is no state to go on from
WIDEST = 1e100  # of an interval's ends
NARROWEST = 1e-200  # of an interval: a move of nothing has no width

component_interval = njit(**OPTIONS)(logistic_bounds.component_interval)
vector_interval = njit(**OPTIONS)(logistic_bounds.vector_interval)


@kernel
def component_intervals(theta, j, deltas, lower, upper, group):
    """Return (lo, hi), (chain,) each: the public interval of one row's ratio."""
    chains = theta.shape[0]
    lo, hi = np.empty(chains), np.empty(chains)
    for c in range(chains):
        lo[c], hi[c] = component_interval(theta[c], j, deltas[c], lower, upper, group)
    return lo, hi


@kernel
def vector_intervals(theta, deltas, lower, upper, group):
    """Return (lo, hi), (chain,) each, for moves of the whole position."""
    chains = theta.shape[0]
    lo, hi = np.empty(chains), np.empty(chains)
    for c in range(chains):
        lo[c], hi[c] = vector_interval(theta[c], deltas[c], lower, upper, group)
    return lo, hi


@leaf
def cut(lo, hi, squares, bound, slope):
    """Return an interval cut at +-bound and at +-slope times the length of a move, from squares."""
    most = min(bound, WIDEST)
    length = slope * np.sqrt(squares)
    most = length if length < most else most
    # what is not a number becomes the bound
    lo = lo if lo > -most else -most
    hi = hi if hi < most else most
    lo = lo if lo < most else most
    hi = hi if hi > -most else -most
    return lo - 0.5 * NARROWEST, hi + 0.5 * NARROWEST


@kernel
def prepare(interval, deltas, bound, slope, half, reach, low, columns, here, there):
    """Return what a sum of ratios needs: move, cells, (middle, width, cell), and who goes far.

    interval: (lo, hi), (chain,) each, cut here at +-bound and at +-slope times the length of deltas
    (chain, any). half: of the interval, in cells. reach: largest norm of a row. low, columns: which
    weights move. here, there: (weights, aux) of the two ends. See rows.ratio_sums.
    """
    (lo, hi), (before, aux_before), (after, aux_after) = interval, here, there
    chains = lo.shape[0]
    step, lift = np.empty((chains, columns)), np.empty(chains)
    near, far = np.empty(chains, np.bool_), np.empty(chains, np.bool_)
    scale, shift = np.empty(chains), np.empty(chains)
    middle, width, cell = np.empty(chains), np.empty(chains), np.empty(chains)
    for c in range(chains):
        squares = 0.0
        for k in range(deltas.shape[1]):
            squares += deltas[c, k] * deltas[c, k]
        low_end, high_end = cut(lo[c], hi[c], squares, bound, slope)
        middle[c], width[c] = 0.5 * low_end + 0.5 * high_end, high_end - low_end
        cell[c] = width[c] / (2.0 * half)
        scale[c], shift[c] = 1.0 / cell[c], middle[c] / cell[c]
        moved, now, then = 0.0, 0.0, 0.0
        for k in range(columns):
            step[c, k] = after[c, low + k] - before[c, low + k]
            moved += step[c, k] * step[c, k]
        for k in range(before.shape[1]):
            now += before[c, k] * before[c, k]
            then += after[c, k] * after[c, k]
        lift[c] = aux_after[c, 0] - aux_before[c, 0]
        near[c] = reach * np.sqrt(moved) + abs(lift[c]) <= NEAR
        now = reach * np.sqrt(now) + abs(aux_before[c, 0])
        then = reach * np.sqrt(then) + abs(aux_after[c, 0])
        far[c] = not (now <= FAR and then <= FAR)
    return (low, step, lift, near), (scale, shift), (middle, width, cell), far
