# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Whole steps of the penalty samplers on all rows: the sum of ratios, the decision, the move.

Two threads may run the same steps on the same arrays. They share out the blocks of rows of each sum
and exchange only which blocks are taken and done. Each thread decides every step itself, from the
same integer sums. So the draws do not depend on which thread summed which block, and a thread that
the operating system delays costs the other at most one block.
"""

import numpy as np
from numba import njit

from dpmcmc.kernels.arithmetic import rounding, rules
from dpmcmc.kernels.compiled.maths import OPTIONS, kernel
from dpmcmc.kernels.compiled.moves import ALL_COEFFICIENTS, prepare
from dpmcmc.kernels.compiled.ratio_sums import FILL, FOLLOW, KEEP, ratio_room, ratio_sums
from dpmcmc.kernels.compiled.threads import all_done, borrowed, borrowed_counters

ROUNDING = 2.0**-50  # bound of the relative error of a float64 sum of a few terms

accepts = njit(**OPTIONS)(rules.accepts)
noised = njit(**OPTIONS)(rounding.noised)


@kernel
def summed(total, count, tempering, interval):
    """Return (public parts, sums, sensitivities), (chain,) each, from totals in cells.

    A row's ratio is the middle of its interval, which is public, plus a difference that is summed.
    interval: (middle, width, cell) of moves.prepare.
    """
    middle, width, cell = interval
    rounding = ROUNDING * count * width
    return tempering * count * middle, tempering * (cell * total), tempering * (width + rounding)


@kernel
def ratio_totals(rows, sum_arguments, shared, turn, totals):
    """Write the ratio sums of all rows, (chain,) int64, into totals.

    sum_arguments: of ratio_sums, after shared and turn. shared, turn: arguments of
    threads.part_taken. Two threads may call it at once, each with its own totals.
    """
    rows, shared, room = borrowed(rows), borrowed_counters(shared), ratio_room(rows[0].shape[1])
    totals[:] = 0
    parts = ratio_sums(*rows, shared, turn, *sum_arguments, totals, room)
    all_done(shared, turn, rows[0].shape[0], parts, totals)


@kernel
def ratios(rows, state, target, public, shared, turn, move_of, state_of_chains, most, totals):
    """Return (move, far, sums, sensitivities, public ratios) of moves of all chains.

    sums, sensitivities: of summed. public ratios: their public parts plus the log prior ratios.

    target: of moves.prepare. move_of: (position, delta (chain, d), j). state_of_chains: (modes,
    before), the update that the state needs first. totals (chain,): scratch memory.
    """
    max_row_norm, tempering, clip, half = target
    (position, delta, j), (modes, before) = move_of, state_of_chains
    move, cells, interval, far, ends, priors = prepare(
        public, max_row_norm, position, delta, j, most, clip, half
    )
    sum_arguments = move, ends, modes, before, state, cells, half
    ratio_totals(rows, sum_arguments, shared, turn, totals)
    middles, sums, sensitivities = summed(totals, rows[2], tempering, interval)
    return move, far, sums, sensitivities, priors + middles


@kernel
def no_move(target, public, position):
    """Return an empty move, as the one before the first."""
    most, delta = np.full(position.shape[0], np.inf), np.zeros(position.shape)
    max_row_norm, _, clip, half = target
    return prepare(public, max_row_norm, position, delta, ALL_COEFFICIENTS, most, clip, half)[0]


@kernel
def penalty_steps(rows, state, target, public, steps, shared, position, signs, draws):
    """Take the steps of every chain; write the positions after each of them into draws.

    rows: (x, y, count, family). target: (max_row_norm, tempering, clip, half) of moves.prepare.
    steps: a target.Steps. signs (chain, m): direction of a guided chain along each vector, reversed
    by a rejection; (0, 0) for none. shared: of threads.part_taken. position (chain, d) and signs
    are changed, and belong to one thread; draws (chain, step, d).
    """
    state = borrowed(state)
    chosen, deltas, alone, noise, uniforms, (unit, sd) = steps
    chains, before = position.shape[0], no_move(target, public, position)
    delta, modes = np.empty(position.shape), np.full(chains, FILL, np.int8)
    most, totals = np.full(chains, np.inf), np.zeros(chains, np.int64)
    guided = signs.size > 0
    for t in range(deltas.shape[0]):
        k = chosen[t]
        for c in range(chains):
            side = signs[c, k] if guided else 1
            for i in range(delta.shape[1]):
                delta[c, i] = side * deltas[t, c, i]
        j = k if alone else ALL_COEFFICIENTS
        move_of, state_of_chains = (position, delta, j), (modes, before)
        before, far, sums, sensitivities, publics = ratios(
            rows, state, target, public, shared, t, move_of, state_of_chains, most, totals
        )
        for c in range(chains):
            grid = unit * sensitivities[c]
            noisy = noised(sums[c], grid, noise[t, c])
            accepted = accepts(noisy, sd * grid, publics[c], uniforms[t, c])
            modes[c] = (FILL if far[c] else FOLLOW) if accepted else KEEP
            for i in range(delta.shape[1]):
                position[c, i] += delta[c, i] if accepted else 0.0
                draws[c, t, i] = position[c, i]
            if guided and not accepted:
                signs[c, k] *= -1
