# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""What is public of one move of every chain, as the sums over rows need it. No row is seen here."""

import numpy as np

from dpmcmc.kernels.compiled.dispatch import interval
from dpmcmc.kernels.compiled.intervals import cut
from dpmcmc.kernels.compiled.maths import NEAR, kernel, leaf
from dpmcmc.kernels.compiled.position_facts import describe, log_prior_ratio

LARGEST_PREDICTOR = 300.0  # of a predictor: its exponential is no state to go on from
ALL_COEFFICIENTS = -1  # in place of a coefficient: all of them move


@leaf
def moved_weights(public, j):
    """Return (first, how many) weights a move of coefficient j, or of ALL_COEFFICIENTS, changes."""
    columns = public.lower.size
    bent = j == 0 and (public.bend[0] != 0.0 or public.bend[1] != 0.0)
    if j == ALL_COEFFICIENTS or bent:
        return 0, columns
    return (j if j < columns else 0), 1  # a log sd changes none, which costs one column


@kernel
def prepare(public, max_row_norm, positions, deltas, j, most, clip, half):
    """Return (move, cells, (middle, width, cell), far, ends, prior) of moves by deltas (chain, d).

    j: the one coefficient that moves, or ALL_COEFFICIENTS. most (chain,): width that the interval
    of a row's ratio is cut to; clip: (bound, slope, width) of intervals.cut. half: of the interval,
    in cells. max_row_norm: largest norm of a row.
    move: (low, step (chain, columns), lift, near (chain,)); cells: (scale, shift); ends: (weights
    (chain, columns) and aux of the start, aux of the end); for ratio_sums. middle, width, cell: of
    the public interval. far: whose state is no good after the move. prior: log ratio.
    """
    (chains, d), columns, (bound, slope, widest) = positions.shape, public.lower.size, clip
    low, number = moved_weights(public, j)
    step, lift = np.empty((chains, number)), np.empty(chains)
    near, far = np.empty(chains, np.bool_), np.empty(chains, np.bool_)
    scale, shift, prior = np.empty(chains), np.empty(chains), np.empty(chains)
    middle, width, cell = np.empty(chains), np.empty(chains), np.empty(chains)
    weights, then = np.empty((chains, columns)), np.empty(d)
    aux_here, aux_there = np.empty((chains, 3)), np.empty((chains, 3))
    here, there = np.empty(d), np.empty(d)
    for c in range(chains):
        squares = 0.0
        for k in range(d):
            then[k] = positions[c, k] + deltas[c, k]
            squares += deltas[c, k] * deltas[c, k]
        describe(public, positions[c], here, aux_here[c])
        describe(public, then, there, aux_there[c])
        lo, hi = interval(public, here, aux_here[c], there, aux_there[c], j, deltas[c])
        lo, hi = cut(lo, hi, squares, bound, slope, min(widest, most[c]))
        middle[c], width[c] = 0.5 * lo + 0.5 * hi, hi - lo
        cell[c] = width[c] / (2.0 * half)
        scale[c], shift[c] = 1.0 / cell[c], middle[c] / cell[c]
        gone, now, after = 0.0, 0.0, 0.0
        for k in range(number):
            step[c, k] = there[low + k] - here[low + k]
            gone += step[c, k] * step[c, k]
        for k in range(columns):
            weights[c, k] = here[k]
            now += here[k] * here[k]
            after += there[k] * there[k]
        lift[c] = aux_there[c, 0] - aux_here[c, 0]
        near[c] = max_row_norm * np.sqrt(gone) + abs(lift[c]) <= NEAR
        now = max_row_norm * np.sqrt(now) + abs(aux_here[c, 0])
        after = max_row_norm * np.sqrt(after) + abs(aux_there[c, 0])
        far[c] = not (now <= LARGEST_PREDICTOR and after <= LARGEST_PREDICTOR)
        prior[c] = log_prior_ratio(public, here, there)
    move, ends = (low, step, lift, near), (weights, aux_here, aux_there)
    return move, (scale, shift), (middle, width, cell), far, ends, prior
