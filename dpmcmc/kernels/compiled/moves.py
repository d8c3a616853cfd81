# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Public facts of one move of every chain, for the sums over rows."""

import numpy as np

from dpmcmc.kernels.compiled.dispatch import interval
from dpmcmc.kernels.compiled.intervals import clip_interval
from dpmcmc.kernels.compiled.maths import NEAR, kernel, leaf
from dpmcmc.kernels.compiled.position_facts import describe, log_prior_ratio

LARGEST_PREDICTOR = 300.0  # beyond it the exponential of a predictor cannot be updated
ALL_COEFFICIENTS = -1  # in place of a coefficient: all of them move


@leaf
def moved_weights(public, j):
    """Return (first, number) of the weights that a move of coefficient j, or of all, changes."""
    columns = public.lower.size
    bent = j == 0 and (public.bend[0] != 0.0 or public.bend[1] != 0.0)
    if j == ALL_COEFFICIENTS or bent:
        return 0, columns
    return (j if j < columns else 0), 1  # a log sd changes none, which costs one column


@kernel
def prepare(public, max_row_norm, positions, deltas, j, most, clip, half):
    """Return (move, cells, (middle, width, cell), far, ends, prior) of moves by deltas (chain, d).

    j: the only coefficient that moves, or ALL_COEFFICIENTS. most (chain,): width to which the
    interval of a row's ratio is clipped; clip: (bound, slope, width) of intervals.clip_interval.
    half: of the interval, in cells. max_row_norm: largest norm of a row.
    move: (low, step (chain, columns), lift, near (chain,)); cells: (scale, shift); ends: (weights
    (chain, columns) and aux of the start, aux of the end); for ratio_sums. middle, width, cell: of
    the public interval. far: whether the state must be computed anew after the move. prior: log
    ratio.
    """
    (chains, d), columns, (bound, slope, widest) = positions.shape, public.lower.size, clip
    low, number = moved_weights(public, j)
    step, lift = np.empty((chains, number)), np.empty(chains)
    near, far = np.empty(chains, np.bool_), np.empty(chains, np.bool_)
    scale, shift, prior = np.empty(chains), np.empty(chains), np.empty(chains)
    middle, width, cell = np.empty(chains), np.empty(chains), np.empty(chains)
    weights, proposed = np.empty((chains, columns)), np.empty(d)
    aux_here, aux_there = np.empty((chains, 3)), np.empty((chains, 3))
    here, there = np.empty(d), np.empty(d)
    for c in range(chains):
        squares = 0.0
        for k in range(d):
            proposed[k] = positions[c, k] + deltas[c, k]
            squares += deltas[c, k] * deltas[c, k]
        describe(public, positions[c], here, aux_here[c])
        describe(public, proposed, there, aux_there[c])
        lo, hi = interval(public, here, aux_here[c], there, aux_there[c], j, deltas[c])
        lo, hi = clip_interval(lo, hi, squares, bound, slope, min(widest, most[c]))
        middle[c], width[c] = 0.5 * lo + 0.5 * hi, hi - lo
        cell[c] = width[c] / (2.0 * half)
        scale[c], shift[c] = 1.0 / cell[c], middle[c] / cell[c]
        step_squares, squares_here, squares_there = 0.0, 0.0, 0.0
        for k in range(number):
            step[c, k] = there[low + k] - here[low + k]
            step_squares += step[c, k] * step[c, k]
        for k in range(columns):
            weights[c, k] = here[k]
            squares_here += here[k] * here[k]
            squares_there += there[k] * there[k]
        lift[c] = aux_there[c, 0] - aux_here[c, 0]
        near[c] = max_row_norm * np.sqrt(step_squares) + abs(lift[c]) <= NEAR
        squares_here = max_row_norm * np.sqrt(squares_here) + abs(aux_here[c, 0])
        squares_there = max_row_norm * np.sqrt(squares_there) + abs(aux_there[c, 0])
        far[c] = not (squares_here <= LARGEST_PREDICTOR and squares_there <= LARGEST_PREDICTOR)
        prior[c] = log_prior_ratio(public, here, there)
    move, ends = (low, step, lift, near), (weights, aux_here, aux_there)
    return move, (scale, shift), (middle, width, cell), far, ends, prior
