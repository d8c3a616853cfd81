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
from dpmcmc.kernels.compiled.threads import all_done, held, held_counters

ROUNDING = 2.0**-50  # of a float64 sum of a few terms, generously

accepts = njit(**OPTIONS)(rules.accepts)
noised = njit(**OPTIONS)(rounding.noised)


@kernel
def summed(total, count, tempering, interval):
    """Return (public parts, sums, sensitivities), (chain,) each, from totals in cells.

    A row's ratio is the middle of its interval, which is public, and what it is off by, which is
    summed. interval: (middle, width, cell) of moves.prepare.
    """
    middle, width, cell = interval
    rounding = ROUNDING * count * width
    return tempering * count * middle, tempering * (cell * total), tempering * (width + rounding)


@kernel
def ratio_totals(rows, told, shared, turn, totals):
    """Write the ratio sums of all rows, (chain,) int64, into totals.

    told: what ratio_sums takes after shared and turn. shared, turn: what threads.part_taken takes.
    Two threads may ask at once, each for totals of its own.
    """
    rows, shared, room = held(rows), held_counters(shared), ratio_room(rows[0].shape[1])
    totals[:] = 0
    own = ratio_sums(*rows, shared, turn, *told, totals, room)
    all_done(shared, turn, rows[0].shape[0], own, totals)


@kernel
def ratios(rows, state, target, public, shared, turn, place, known, most, totals):
    """Return (move, far, sums, sensitivities, known) of moves of all chains.

    sums, sensitivities: of summed. known: their public parts and the log prior ratios.

    target, position, delta, j: what moves.prepare takes. place: (position, delta (chain, d), j).
    known: (modes, before), what the state needs first. totals (chain,): to write in.
    """
    max_row_norm, tempering, clip, half = target
    (position, delta, j), (modes, before) = place, known
    move, cells, interval, far, ends, priors = prepare(
        public, max_row_norm, position, delta, j, most, clip, half
    )
    told = move, ends, modes, before, state, cells, half
    ratio_totals(rows, told, shared, turn, totals)
    middles, sums, sensitivities = summed(totals, rows[2], tempering, interval)
    return move, far, sums, sensitivities, priors + middles


@kernel
def nowhere(target, public, position):
    """Return the move that stands before the first one: of no chain, by nothing."""
    most, delta = np.full(position.shape[0], np.inf), np.zeros(position.shape)
    max_row_norm, _, clip, half = target
    return prepare(public, max_row_norm, position, delta, ALL_COEFFICIENTS, most, clip, half)[0]


@kernel
def penalty_steps(rows, state, target, public, steps, shared, position, signs, draws):
    """Take the steps of every chain; write the positions after each of them into draws.

    rows: (x, y, count, family). target: (max_row_norm, tempering, clip, half), which moves.prepare
    takes. steps: a target.Steps. signs (chain, m): the side on which a guided chain moves along
    vector chosen, turned by a rejection; (0, 0) for none. shared: what threads.part_taken takes.
    position (chain, d) and signs are changed, and are each thread's own; draws (chain, step, d).
    """
    state = held(state)
    chosen, deltas, alone, noise, uniforms, (unit, sd) = steps
    chains, before = position.shape[0], nowhere(target, public, position)
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
        place, known = (position, delta, j), (modes, before)
        before, far, sums, sensitivities, publics = ratios(
            rows, state, target, public, shared, t, place, known, most, totals
        )
        for c in range(chains):
            grid = unit * sensitivities[c]
            seen = noised(sums[c], grid, noise[t, c])
            accepted = accepts(seen, sd * grid, publics[c], uniforms[t, c])
            modes[c] = (FILL if far[c] else FOLLOW) if accepted else KEEP
            for i in range(delta.shape[1]):
                position[c, i] += delta[c, i] if accepted else 0.0
                draws[c, t, i] = position[c, i]
            if guided and not accepted:
                signs[c, k] *= -1
