# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Whole steps of the penalty samplers on all rows: the sum of ratios, the decision, the move.

Two threads may run the same walk on the same arrays. Each of them decides every step, from the same
sums of integers, so that all they have to tell each other is which blocks are taken and done: one
that the machine holds up holds nobody up but by the part that it is at, and no bit depends on who
took what.
"""

import numpy as np
from numba import njit

from dpmcmc.kernels.maths import OPTIONS, kernel, uncounted
from dpmcmc.kernels.moves import TOGETHER, prepare
from dpmcmc.kernels.rows import FILL, FOLLOW, KEEP, ratio_sums
from dpmcmc.kernels.threads import all_done, held_counters, held_rows, part_done, part_taken
from dpmcmc.samplers import rules

ROUNDING = 2.0**-50  # of a float64 sum of a few terms, generously

noisy = njit(**OPTIONS)(rules.noisy)


@kernel
def summed(total, count, tempering, interval):
    """Return (sums, sensitivities), (chain,) each, from totals in cells. interval: see prepare."""
    middle, width, cell = interval
    sums = tempering * (count * middle + cell * total)
    rounding = ROUNDING * count * (np.abs(middle) + width)
    return sums, tempering * (width + rounding)


@kernel
def ratio_totals(rows, told, shared, turn, totals):
    """Write the ratio sums of all rows, (chain,) int64, into totals. told: see rows.ratio_sums.

    shared, turn: see threads.part_taken. Two threads may ask at once, each for totals of its own.
    """
    rows, shared = held_rows(rows), held_counters(shared)
    totals[:], own, blocks = 0, 0, rows[0].shape[0]
    first, last = part_taken(shared, turn, blocks, own)
    while first < blocks:
        ratio_sums(*rows, first, last, *told, totals)
        part_done(shared, turn, totals)
        own += 1
        first, last = part_taken(shared, turn, blocks, own)
    all_done(shared, turn, blocks, totals)


@kernel
def walk(rows, state, target, public, steps, shared, position, signs, draws):
    """Take the steps of every chain; write the positions after each of them into draws.

    rows: (x, y, count, link). target: (reach, tempering, clip, half); see moves.prepare. steps:
    (chosen (step,), deltas (step, chain, d), alone, normals, uniforms (step, chain), noise
    multiplier): moves by deltas, of coefficient chosen where it moves alone. signs (chain, m): the
    side on which a guided chain moves along vector chosen, turned by a rejection; (0, 0) for none.
    shared: see threads.part_taken. position (chain, d) and signs are changed, and are each
    thread's own; draws (chain, step, d).
    """
    rows, state, shared = held_rows(rows), uncounted(state), held_counters(shared)
    chosen, deltas, alone, normals, uniforms, multiplier = steps
    reach, tempering, clip, half = target
    chains = position.shape[0]
    delta, modes = np.empty(position.shape), np.full(chains, FILL, np.int8)
    most, totals = np.full(chains, np.inf), np.zeros(chains, np.int64)
    guided = signs.size > 0
    delta[:] = 0.0
    before, _, _, _, _, _ = prepare(public, reach, position, delta, TOGETHER, most, clip, half)
    for t in range(deltas.shape[0]):
        k = chosen[t]
        for c in range(chains):
            side = signs[c, k] if guided else 1
            for i in range(delta.shape[1]):
                delta[c, i] = side * deltas[t, c, i]
        j = k if alone else TOGETHER
        move, cells, interval, far, ends, priors = prepare(
            public, reach, position, delta, j, most, clip, half
        )
        told = move, ends, modes, before, state, cells, half
        ratio_totals(rows, told, shared, t, totals)
        sums, sensitivities = summed(totals, rows[2], tempering, interval)
        before = move
        for c in range(chains):
            accepted = noisy(
                sums[c], sensitivities[c], priors[c], multiplier, normals[t, c], uniforms[t, c]
            )
            modes[c] = (FILL if far[c] else FOLLOW) if accepted else KEEP
            for i in range(delta.shape[1]):
                position[c, i] += delta[c, i] if accepted else 0.0
                draws[c, t, i] = position[c, i]
            if guided and not accepted:
                signs[c, k] *= -1
