# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Whole steps on secret minibatches: sums over the rows of a batch, the decision, the move.

Sums are exact as in dpmcmc/kernels/rows.py. What a step does depends on its rows only through the
sums and through the decision, which is what is paid for.
"""

import numpy as np
from numba import njit

from dpmcmc.kernels.forms import describe, interval, log_prior_ratio
from dpmcmc.kernels.intervals import cut
from dpmcmc.kernels.maths import MAGIC_BITS, NEAR, OPTIONS, exp, fetch, kernel, leaf
from dpmcmc.kernels.rows import (
    BLOCK,
    OFFSET,
    cell,
    known,
    linear_ratio,
    logistic_far,
    logistic_near,
    poisson_far,
    poisson_near,
)
from dpmcmc.models.links import LINEAR, LOGISTIC, POISSON
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
def ask_for(table, chosen):
    """Have both ends of rows that are read next fetched from memory while we compute."""
    flat, width = table.reshape(-1), table.shape[1]
    for i in range(chosen.size):
        start = np.int64(chosen[i]) * width
        fetch(flat, start)
        fetch(flat, start + width - 1)


@leaf
def predictors(table, chosen, before, offset, step, lift, eta, v):
    """eta = offset + before . x and v = lift + step . x of the chosen rows; see rows.dot.

    Four rows at a time: their sums fill a vector, and their lines of memory come side by side.
    """
    i = 0
    while i + 4 <= chosen.size:
        a, b = table[np.int64(chosen[i])], table[np.int64(chosen[i + 1])]
        c, d = table[np.int64(chosen[i + 2])], table[np.int64(chosen[i + 3])]
        e0 = e1 = e2 = e3 = offset
        v0 = v1 = v2 = v3 = lift
        for j in range(before.size):
            w, u, x0, x1, x2, x3 = before[j], step[j], a[j], b[j], c[j], d[j]
            e0, e1, e2, e3 = e0 + w * x0, e1 + w * x1, e2 + w * x2, e3 + w * x3
            v0, v1, v2, v3 = v0 + u * x0, v1 + u * x1, v2 + u * x2, v3 + u * x3
        eta[i], eta[i + 1], eta[i + 2], eta[i + 3] = e0, e1, e2, e3
        v[i], v[i + 1], v[i + 2], v[i + 3] = v0, v1, v2, v3
        i += 4
    while i < chosen.size:
        a, e0, v0 = table[np.int64(chosen[i])], offset, lift
        for j in range(before.size):
            e0, v0 = e0 + before[j] * a[j], v0 + step[j] * a[j]
        eta[i], v[i] = e0, v0
        i += 1


@kernel
def sums(table, reach, link, chosen, batch, ends, cells, work):
    """Return the sum of clipped ratios over rows chosen[:batch], in cells, and of the squares.

    table (n, columns + 1) by rows, the response last. reach: largest norm of a row that is allowed.
    chosen: row numbers, further ones being those that are read next. ends: (weights, aux) of the
    current position and of the proposed one. cells: (scale, shift). work: (3, BLOCK) to write in.
    """
    (before, aux_here, after, aux_there), (scale, shift) = ends, cells
    columns = table.shape[1] - 1
    eta, v, y = work[0], work[1], work[2]
    step, squares = np.empty(columns), 0.0
    for j in range(columns):
        step[j] = after[j] - before[j]
        squares += step[j] * step[j]
    lift = aux_there[OFFSET] - aux_here[OFFSET]
    near = reach * np.sqrt(squares) + abs(lift) <= NEAR
    total, square = 0, 0
    for start in range(0, batch, BLOCK):
        end = min(start + BLOCK, batch)
        part, count = chosen[start:end], end - start
        ask_for(table, chosen[end : end + BLOCK])
        predictors(table, part, before[:columns], aux_here[OFFSET], step, lift, eta, v)
        if link in (LINEAR, POISSON):
            for i in range(count):
                y[i] = table[np.int64(part[i]), columns]
        known(link, eta, y, count, eta)
        ratios(link, near, v, y, eta, aux_here, aux_there, count)
        added, added_square = cells_and_squares(v, count, scale, shift)
        total, square = total + added, square + added_square
    return total, square


@kernel
def walk(table, reach, public, rule, clip, chosen, deltas, noises, position, draws):
    """Take len(deltas) steps of every chain; write the positions after each of them into draws.

    public: the form's. rule: see dpmcmc/samplers/rules.py. clip: (bound, slope), at which public
    intervals are cut. chosen (step, chain, batch): row numbers; deltas (step, chain, d): moves;
    noises (step, kinds, chain): what the rule adds. position (chain, d) is moved; draws (chain,
    step, d).
    """
    (chains, d), batch, every = position.shape, chosen.shape[2], chosen.reshape(-1)
    here, there, then = np.empty(d), np.empty(d), np.empty(d)
    aux_here, aux_there = np.empty(3), np.empty(3)
    work = np.empty((3, BLOCK))
    bound, slope = clip
    for t in range(deltas.shape[0]):
        for c in range(chains):
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
                *(table, reach, public.link, every[(t * chains + c) * batch :]),
                *(batch, (here, aux_here, there, aux_there)),
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
