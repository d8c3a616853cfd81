# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Whole steps on secret minibatches: sums over the rows of a batch, the decision, the move.

Sums are exact as in dpmcmc/kernels/rows.py. What a step does depends on its rows only through the
sums and through the decision, which is what is paid for.
"""

import numpy as np
from numba import njit

from dpmcmc.kernels.forms import describe, interval, log_prior_ratio
from dpmcmc.kernels.intervals import cut
from dpmcmc.kernels.maths import MAGIC_BITS, NEAR, OPTIONS, exp, kernel, leaf
from dpmcmc.kernels.rows import (
    BLOCK,
    OFFSET,
    cell,
    dot,
    known,
    linear_ratio,
    logistic_far,
    logistic_near,
    poisson_far,
    poisson_near,
)
from dpmcmc.models.links import IDENTITY, LINEAR, LOGISTIC, POISSON
from dpmcmc.samplers import rules

CELLS = 2.0**18  # half an interval, in cells: squares of a batch add up in 64 bits

penalty = njit(**OPTIONS)(rules.penalty)
barker = njit(**OPTIONS)(rules.barker)


@leaf
def ratios(link, near, v, y, state, here, there, count):
    """Put each row's log likelihood ratio in the place of v; see rows.ratio_cells."""
    if link == LOGISTIC and near:
        for i in range(count):
            v[i] = logistic_near(v[i], state[i])
    elif link == LOGISTIC:
        for i in range(count):
            v[i] = exp(-v[i])
        for i in range(count):
            v[i] = logistic_far(v[i], state[i])
    elif link == POISSON and near:
        for i in range(count):
            v[i] = poisson_near(v[i], y[i], state[i])
    elif link == POISSON:
        for i in range(count):
            v[i] = poisson_far(v[i], y[i], state[i])
    elif link == LINEAR:
        for i in range(count):
            v[i] = linear_ratio(v[i], state[i], here, there)


@leaf
def cells_and_squares(ratio, count, scale, shift):
    """Sum over rows of clipped ratios, in whole cells, and of their squares."""
    total, squares = np.int64(0), np.int64(0)
    for i in range(count):
        v = np.int64(np.int32(cell(ratio[i], scale, shift, CELLS) - MAGIC_BITS))
        total += v
        squares += v * v
    return total, squares


@leaf
def gather(table, chosen, count, x, y):
    """Write the chosen rows of table (n, columns + 1) into x (columns, BLOCK) and y (BLOCK,)."""
    columns = x.shape[0]
    for i in range(count):
        row = np.int64(chosen[i])
        for j in range(columns):
            x[j, i] = table[row, j]
        y[i] = table[row, columns]


@kernel
def sums(table, reach, link, chosen, ends, cells, work):
    """Return the sum of clipped ratios over rows `chosen` of table, in cells, and of the squares.

    table (n, columns + 1) by rows, the response last. reach: largest norm of a row that is allowed.
    ends: (weights, aux) of the current position and of the proposed one. cells: (scale, shift).
    work: (columns + 3, BLOCK) to write in.
    """
    (before, aux_here, after, aux_there), (scale, shift) = ends, cells
    columns = table.shape[1] - 1
    x, y, eta, v = work[:columns], work[columns], work[columns + 1], work[columns + 2]
    step, squares = np.empty(columns), 0.0
    for j in range(columns):
        step[j] = after[j] - before[j]
        squares += step[j] * step[j]
    lift = aux_there[OFFSET] - aux_here[OFFSET]
    near = reach * np.sqrt(squares) + abs(lift) <= NEAR
    total, square = 0, 0
    for start in range(0, chosen.size, BLOCK):
        count = min(BLOCK, chosen.size - start)
        gather(table, chosen[start:], count, x, y)
        if link != IDENTITY:
            dot(x, before, aux_here[OFFSET], count, eta)
            known(link, eta, y, count, eta)
        dot(x, step, lift, count, v)
        ratios(link, near, v, y, eta, aux_here, aux_there, count)
        part, part_square = cells_and_squares(v, count, scale, shift)
        total, square = total + part, square + part_square
    return total, square


@kernel
def walk(table, reach, public, rule, clip, chosen, deltas, noises, position, draws):
    """Take len(deltas) steps of every chain; write the positions after each of them into draws.

    public: the form's. rule: see dpmcmc/samplers/rules.py. clip: (bound, slope), at which public
    intervals are cut. chosen (step, chain, batch): row numbers; deltas (step, chain, d): moves;
    noises (step, kinds, chain): what the rule adds. position (chain, d) is moved; draws (chain,
    step, d).
    """
    d, columns = position.shape[1], table.shape[1] - 1
    here, there, then = np.empty(d), np.empty(d), np.empty(d)
    aux_here, aux_there = np.empty(3), np.empty(3)
    work = np.empty((columns + 3, BLOCK))
    bound, slope = clip
    for t in range(deltas.shape[0]):
        for c in range(deltas.shape[1]):
            squares = 0.0
            for j in range(d):
                then[j] = position[c, j] + deltas[t, c, j]
                squares += deltas[t, c, j] * deltas[t, c, j]
            describe(public, position[c], here, aux_here)
            describe(public, then, there, aux_there)
            lo, hi = interval(public, here, aux_here, there, aux_there)
            lo, hi = cut(lo, hi, squares, bound, slope)
            middle, width = 0.5 * lo + 0.5 * hi, hi - lo
            unit = width / (2.0 * CELLS)
            total, square = sums(
                *(table, reach, public.link, chosen[t, c], (here, aux_here, there, aux_there)),
                *((1.0 / unit, middle / unit), work),
            )
            first, second, b = unit * total, unit * unit * square, rule.batch
            summed = b * middle + first
            squared = b * middle * middle + 2.0 * middle * first + second
            prior = log_prior_ratio(public, here, there)
            noise = noises[t, :, c]
            if rule.kind == rules.PENALTY:
                accepted = penalty(rule, summed, squared, width, prior, noise)
            else:
                accepted = barker(rule, summed, squared, width, prior, noise)
            if accepted:
                position[c] = then
            draws[c, t] = position[c]
