# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Whole steps on secret minibatches: sums over the rows of a batch, the decision, the move.

Sums are exact as in kernels/compiled/ratio_sums.py. A step depends on its rows only through the
noisy sums, which are charged.
"""

import numpy as np
from numba import njit

from dpmcmc.kernels.arithmetic import rules
from dpmcmc.kernels.compiled.blocks import BLOCK, LINE, OFFSET
from dpmcmc.kernels.compiled.cells import cell
from dpmcmc.kernels.compiled.dispatch import has_response, interval, ratios
from dpmcmc.kernels.compiled.intervals import clip_interval
from dpmcmc.kernels.compiled.maths import MAGIC_BITS, NEAR, OPTIONS, fetch, kernel, leaf
from dpmcmc.kernels.compiled.moves import ALL_COEFFICIENTS
from dpmcmc.kernels.compiled.penalty_steps import accepts, noised
from dpmcmc.kernels.compiled.position_facts import describe, log_prior_ratio
from dpmcmc.kernels.compiled.scattered import LANES, ROWS, dots

HALF_INTERVAL_CELLS = 2.0**18  # half an interval, in cells: squares of a batch add up in 64 bits

penalty = njit(**OPTIONS)(rules.penalty)
barker = njit(**OPTIONS)(rules.barker)
barker_accepts = njit(**OPTIONS)(rules.barker_accepts)


@leaf
def cells_and_squares(ratio, count, scale, shift):
    """Return the sums over rows of clipped ratios, in whole cells, and of their squares."""
    total, squares = np.int64(0), np.int64(0)
    for i in range(count):
        v = np.int64(np.int32(cell(ratio[i], scale, shift, HALF_INTERVAL_CELLS) - MAGIC_BITS))
        total += v
        squares += v * v
    return total, squares


@leaf
def prefetch_rows(flat, starts, at, width):
    """Prefetch the rows that are read next."""
    for i in range(at, at + ROWS):
        for k in range(0, width, LINE):
            fetch(flat, starts[i] + k)


@leaf
def row_starts(chosen, width, starts):
    """Write the offsets of chosen rows, padded with those of row 0 to a multiple of four."""
    for i in range(chosen.size):
        starts[i] = np.int64(chosen[i]) * width
    for i in range(chosen.size, starts.size):
        starts[i] = 0


@kernel
def sums(table, columns, max_row_norm, family, chosen, batch, ends, cells, work):
    """Return the sum of clipped ratios over rows chosen[:batch], in cells, and of the squares.

    table (n, width) float32 by rows; after the columns the response in two parts, if there is one
    or rows may be left out, and zeros. max_row_norm: bound of a row's norm. chosen: row numbers of
    this batch, then those that are read next. ends: (weights, aux) of the current position and of
    the proposed one. cells: (scale, shift). work: (4, BLOCK), scratch memory.
    """
    (before, aux_here, after, aux_there), (scale, shift) = ends, cells
    eta, v, y, state = work[0], work[1], work[2], work[3]
    flat, width = table.reshape(-1), table.shape[1]
    weights, squares = np.zeros((2, -(-columns // LANES) * LANES)), 0.0
    for j in range(columns):
        weights[0, j], weights[1, j] = before[j], after[j] - before[j]
        squares += weights[1, j] * weights[1, j]
    offset, lift = aux_here[OFFSET], aux_there[OFFSET] - aux_here[OFFSET]
    near = max_row_norm * np.sqrt(squares) + abs(lift) <= NEAR
    starts, next_starts = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    short, reads_response = (
        np.empty((2, BLOCK), np.float32),
        has_response(family) and columns + 2 <= width,
    )
    y[:] = 0.0
    total, square = 0, 0
    row_starts(chosen[: min(BLOCK, batch)], width, starts)
    for start in range(0, batch, BLOCK):
        end = min(start + BLOCK, batch)
        part, count = chosen[start:end], end - start
        row_starts(chosen[end : end + BLOCK], width, next_starts)
        for i in range(0, count, ROWS):
            prefetch_rows(flat, next_starts, i, width)
            dots(flat, starts, i, weights, eta, v)
        for i in range(count):
            eta[i] += offset
            v[i] += lift
        if reads_response:
            for i in range(count):
                row = table[np.int64(part[i])]
                y[i] = np.float64(row[columns]) + np.float64(row[columns + 1])
        ratios(family, near, eta, v, y, state, short, aux_here, aux_there, count)
        added, added_square = cells_and_squares(v, count, scale, shift)
        total, square = total + added, square + added_square
        starts, next_starts = next_starts, starts
    return total, square


@leaf
def lone_coefficient(delta):
    """Return the only coefficient that a move (d,) changes, or ALL_COEFFICIENTS.

    The reverse move changes the same coefficients, so that both have the same interval. That of one
    coefficient is narrower.
    """
    coefficient = ALL_COEFFICIENTS
    for j in range(delta.size):
        if delta[j] != 0.0:
            if coefficient != ALL_COEFFICIENTS:
                return ALL_COEFFICIENTS
            coefficient = j
    return coefficient


@kernel
def minibatch_steps(
    table, max_row_norm, public, rule, clip, chosen, deltas, noise, others, position, draws
):
    """Take len(deltas) steps of every chain; write the positions after each of them into draws.

    public: of the form. rule: a rules.Rule. clip: (bound, slope, width) of intervals.clip_interval.
    chosen (step, chain, batch): row numbers; deltas (step, chain, d): moves;
    noise (step, chain): integers that are added; others (step, kinds, chain): uniforms or normals
    of the rule. position (chain, d) is changed; draws (chain, step, d).

    The interval's middle is public, so sums and squares are of the differences of ratios from it:
    adding it to the squares and subtracting it again would lose a row's part to rounding.
    """
    (chains, d), batch, all_chosen = position.shape, chosen.shape[2], chosen.reshape(-1)
    columns = len(public.lower)
    here, there, proposed = np.empty(d), np.empty(d), np.empty(d)
    aux_here, aux_there = np.empty(3), np.empty(3)
    work = np.empty((4, BLOCK))
    for t in range(deltas.shape[0]):
        for c in range(chains):
            squares = 0.0
            for j in range(d):
                proposed[j] = position[c, j] + deltas[t, c, j]
                squares += deltas[t, c, j] * deltas[t, c, j]
            describe(public, position[c], here, aux_here)
            describe(public, proposed, there, aux_there)
            j = lone_coefficient(deltas[t, c])
            lo, hi = interval(public, here, aux_here, there, aux_there, j, deltas[t, c])
            lo, hi = clip_interval(lo, hi, squares, *clip)
            middle, width = 0.5 * lo + 0.5 * hi, hi - lo
            unit = width / (2.0 * HALF_INTERVAL_CELLS)
            total, square = sums(
                *(
                    table,
                    columns,
                    max_row_norm,
                    public.family,
                    all_chosen[(t * chains + c) * batch :],
                ),
                *(batch, (here, aux_here, there, aux_there)),
                *((1.0 / unit, middle / unit), work),
            )
            summed, squared, auxiliary = unit * total, unit * unit * square, others[t, :, c]
            public_ratio = log_prior_ratio(public, here, there) + rule.scale * (rule.batch * middle)
            if rule.kind == rules.PENALTY:
                statistic, grid = penalty(rule, summed, squared, width, auxiliary)
                noisy = noised(statistic, grid, noise[t, c])
                accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])
            else:
                statistic, grid = barker(rule, summed, squared, width, auxiliary)
                noisy = noised(statistic, grid, noise[t, c])
                accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)
            if accepted:
                position[c] = proposed
            draws[c, t] = position[c]
