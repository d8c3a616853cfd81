# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Sums over rows: clipped log likelihood ratios and clipped gradients, for all chains at once.

Every model is l = f(offset + weights . x; y, curvature) with one of four functions f, `link`; the
map from a position to (weights, aux) is public and lives in dpmcmc/models. Arrays in, arrays out,
no randomness, no objects.

Layout: x (blocks, columns, BLOCK), y (blocks, BLOCK), so that a block of rows stays in the first
cache while all chains pass over it; count rows are real, what pads the last block is never read.

A move adds `step` to the weights of columns low, low + 1, ... and `lift` to the offset. state
(blocks, chain, BLOCK) holds what a ratio needs to know of a row at the chain's position: e^-eta
(logistic), e^eta (Poisson), y - eta (linear), nothing (identity). The next sum after an accepted
move brings the state of a block up to date while it is there.

Sums are exact: each row's clipped term is rounded to a whole number of cells and added as an
integer, so the order of rows and the number of threads change no bit, and one replaced row changes
a ratio sum by at most 2 `half` cells. See docs/proofs/dp_penalty.md, section 3.
"""

import numpy as np

from dpmcmc.kernels.maths import (
    MAGIC_BITS,
    atanh_twice,
    exp,
    exp_far,
    fetch,
    kernel,
    leaf,
    log,
    shifted_bits,
    tanh_half,
)
from dpmcmc.models.links import IDENTITY, LINEAR, LOGISTIC, POISSON

BLOCK, LINE = 256, 8  # numbers; a line is what memory hands out
FURTHEST = 1e100  # of a row's derivative: its square is finite
OFFSET, CURVATURE, CONSTANT = 0, 1, 2  # entries of `aux`; linear: -1 / (2 sd^2), -log sd
KEEP, FOLLOW, FILL = 0, 1, 2  # of a chain's state: it holds, the last move was made, unknown


@leaf
def dot(x, weights, offset, count, eta):
    """eta[:count] = offset + weights . x of one block, in few passes: each one moves eta.

    One product after the other, so that no compiler has a choice of which to fuse with an addition:
    a row's predictor is the same to the bit wherever in the block it stands.
    """
    d, q = x.shape[0], 0
    if d < 5:
        for i in range(count):
            eta[i] = offset
    while q + 5 <= d:
        x0, x1, x2, x3, x4 = x[q], x[q + 1], x[q + 2], x[q + 3], x[q + 4]
        w0, w1, w2 = weights[q], weights[q + 1], weights[q + 2]
        w3, w4 = weights[q + 3], weights[q + 4]
        if q == 0:
            for i in range(count):
                part = offset + w0 * x0[i] + w1 * x1[i]
                eta[i] = part + w2 * x2[i] + w3 * x3[i] + w4 * x4[i]
        else:
            for i in range(count):
                part = eta[i] + w0 * x0[i] + w1 * x1[i]
                eta[i] = part + w2 * x2[i] + w3 * x3[i] + w4 * x4[i]
        q += 5
    while q + 2 <= d:
        x0, x1, w0, w1 = x[q], x[q + 1], weights[q], weights[q + 1]
        for i in range(count):
            eta[i] = eta[i] + w0 * x0[i] + w1 * x1[i]
        q += 2
    if q < d:
        x0, w0 = x[q], weights[q]
        for i in range(count):
            eta[i] += w0 * x0[i]


@leaf
def known(link, eta, y, count, out):
    """Write what a ratio needs to know of each row of a block; eta may be out."""
    if link == LOGISTIC:
        for i in range(count):
            out[i] = exp_far(-eta[i])
    elif link == POISSON:
        for i in range(count):
            out[i] = exp_far(eta[i])
    elif link == LINEAR:
        for i in range(count):
            out[i] = y[i] - eta[i]


@leaf
def follow(link, near, v, count, state):
    """Bring the state of a block up to date after a move of its predictors by v."""
    if link == LINEAR:
        for i in range(count):
            state[i] -= v[i]
    elif link != IDENTITY:
        sign = -1.0 if link == LOGISTIC else 1.0
        if near:
            for i in range(count):
                t = sign * tanh_half(v[i])
                state[i] *= (1.0 + t) / (1.0 - t)
        else:
            for i in range(count):
                state[i] *= exp(sign * v[i])


@leaf
def cell(ratio, scale, shift, half):
    """ratio scale - shift, held to [-half, half], in whole cells, plus MAGIC_BITS."""
    u = ratio * scale - shift
    u = u if u > -half else -half  # what is not a number becomes -half
    return shifted_bits(u if u < half else half)


@leaf
def logistic_near(v, e):
    """Ratio where e^-m is e. (1 + e^-m) / (1 + e^-(m + v)) = (1 + s) / (1 - s)."""
    t = tanh_half(v)
    return atanh_twice(e * t / ((1.0 + e) + t))


@leaf
def logistic_far(moved, e):
    """Ratio where e^-m is e and becomes e * moved."""
    return log((1.0 + e) / (1.0 + e * moved))


@leaf
def poisson_near(v, y, e):
    """Ratio where the rate is e."""
    t = tanh_half(v)
    return y * v - e * (2.0 * t / (1.0 - t))


@leaf
def poisson_far(v, y, e):
    """Ratio where the rate is e."""
    return y * v - e * (exp(v) - 1.0)


@leaf
def linear_ratio(v, e, here, there):
    """Ratio where the residual is e."""
    change, constant = there[CURVATURE] - here[CURVATURE], there[CONSTANT] - here[CONSTANT]
    return there[CURVATURE] * (v * (v - 2.0 * e)) + (change * (e * e) + constant)


@leaf
def ratio_cells(link, near, v, y, state, here, there, scale, shift, half, count):
    """Sum over rows of clipped log likelihood ratios, in cells; v: by how much predictors move.

    near: |v| <= NEAR for all rows that the bounds allow. here, there: aux of the two ends. v is
    overwritten.
    """
    total = 0
    if link == LOGISTIC and near:
        for i in range(count):
            total += cell(logistic_near(v[i], state[i]), scale, shift, half)
    elif link == LOGISTIC:
        for i in range(count):
            v[i] = exp(-v[i])
        for i in range(count):
            total += cell(logistic_far(v[i], state[i]), scale, shift, half)
    elif link == POISSON and near:
        for i in range(count):
            total += cell(poisson_near(v[i], y[i], state[i]), scale, shift, half)
    elif link == POISSON:
        for i in range(count):
            total += cell(poisson_far(v[i], y[i], state[i]), scale, shift, half)
    elif link == LINEAR:
        for i in range(count):
            total += cell(linear_ratio(v[i], state[i], here, there), scale, shift, half)
    else:
        for i in range(count):
            total += cell(v[i], scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ask_for(x):
    """Have what is read next fetched from memory while we compute."""
    flat = x.reshape(-1)
    for line in range(flat.size // LINE):
        fetch(flat, line * LINE)


@leaf
def used(count, block):
    """Rows of this block."""
    return min(BLOCK, count - block * BLOCK)


@kernel
def ratio_sums(
    x, y, count, link, first, last, move, ends, modes, before, state, cells, half, total
):
    """Add to total (chain,) int64 each chain's clipped ratio sum over blocks first..last, in cells.

    move, before: (low, step (chain, columns), lift (chain,), near (chain,)), what is asked for and
    the last one. ends: (weights (chain, all columns), aux (chain, 3)) where a move starts and aux
    where it ends. modes (chain,): what the state needs before. cells: (scale, shift), (chain,).
    """
    v = np.empty(BLOCK)
    (low, step, lift, near), (weights, here, there) = move, ends
    scale, shift = cells
    low_before, step_before, lift_before, near_before = before
    high, high_before = low + step.shape[1], low_before + step_before.shape[1]
    for b in range(first, last):
        rows = used(count, b)
        for c in range(step.shape[0]):
            now = state[b, c]
            if modes[c] == FOLLOW:
                dot(x[b, low_before:high_before], step_before[c], lift_before[c], rows, v)
                follow(link, near_before[c], v, rows, now)
            elif modes[c] == FILL:
                dot(x[b], weights[c], here[c, OFFSET], rows, v)
                known(link, v, y[b], rows, now)
            dot(x[b, low:high], step[c], lift[c], rows, v)
            if c == 0:
                ask_for(x[min(b + 1, last - 1), low:high])
            total[c] += ratio_cells(
                *(link, near[c], v, y[b], now, here[c], there[c]),
                *(scale[c], shift[c], half, rows),
            )


@leaf
def held(v):
    """v within +-FURTHEST, and -FURTHEST for what is not a number: no clip meets an infinity."""
    v = v if v > -FURTHEST else -FURTHEST
    return v if v < FURTHEST else FURTHEST


@leaf
def factors(link, eta, y, norm, curvature, clip, scale, count, out):
    """Derivative of the log likelihood by the predictor, clipped and in cells, for one block.

    norm: of the rows. Clipped so that factor * norm is at most clip * scale.
    """
    top = clip * scale
    if link == LOGISTIC:  # 1 / (1 + e^m)
        for i in range(count):
            most = clip * (1.0 + exp_far(eta[i]))
            out[i] = top / (norm[i] if norm[i] > most else most)
        return
    if link == POISSON:
        for i in range(count):
            out[i] = held(y[i] - exp(eta[i]))
    else:
        twice = -2.0 * curvature
        for i in range(count):
            out[i] = held(twice * (y[i] - eta[i]))
    for i in range(count):
        size = abs(out[i]) * norm[i]
        out[i] = out[i] * (top / (size if size > clip else clip))


@leaf
def factors_with_scale(eta, y, norm, curvature, clip, scale, count, out, extra):
    """As factors for the linear model, where extra is the derivative by the log sd, likewise."""
    twice, top = -2.0 * curvature, clip * scale
    for i in range(count):
        residual = y[i] - eta[i]
        by_eta = held(twice * residual)
        by_scale = held(by_eta * residual - 1.0)
        size = np.sqrt((by_eta * norm[i]) * (by_eta * norm[i]) + by_scale * by_scale)
        shrunk = top / (size if size > clip else clip)
        out[i] = by_eta * shrunk
        extra[i] = by_scale * shrunk


@leaf
def column_cells(x, factor, count):
    """Sum over rows of factor * x, each rounded to an integer below 2^51."""
    total = 0
    for i in range(count):
        total += shifted_bits(factor[i] * x[i])
    return total - count * MAGIC_BITS


@kernel
def gradient_sums(x, y, norm, count, link, first, last, weights, aux, clip, scale, total):
    """Add to total (chain, d) int64 each chain's gradient by the weights, in cells.

    Each row's gradient is clipped to norm `clip`, times `scale` (cells per unit), and every entry
    is rounded. norm (blocks, BLOCK) float32 of the rows of x, or more. Where d is columns + 1, the
    last entry is the linear model's derivative by its log sd. No identity link: see
    gaussian_gradients.
    """
    eta, factor, extra = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    columns = x.shape[1]
    for b in range(first, last):
        rows = used(count, b)
        for c in range(weights.shape[0]):
            dot(x[b], weights[c], aux[c, OFFSET], rows, eta)
            if c == 0:
                ask_for(x[min(b + 1, last - 1)])
            curvature = aux[c, CURVATURE]
            if total.shape[1] > columns:
                factors_with_scale(eta, y[b], norm[b], curvature, clip, scale, rows, factor, extra)
                for i in range(rows):
                    total[c, columns] += shifted_bits(extra[i]) - MAGIC_BITS
            else:
                factors(link, eta, y[b], norm[b], curvature, clip, scale, rows, factor)
            for j in range(columns):
                total[c, j] += column_cells(x[b, j], factor, rows)


@leaf
def deviation_cells(x, factor, precision, centre, count):
    """Sum over rows of factor * (precision * x - centre), each rounded to an integer."""
    total = 0
    for i in range(count):
        total += shifted_bits(factor[i] * (precision * x[i] - centre))
    return total - count * MAGIC_BITS


@kernel
def gaussian_gradients(x, count, first, last, mean, precision, shear, clip, scale, total):
    """As gradient_sums for N(mean, 1) rows: precision (x - mean), and shear of entry 1 to entry 0.

    mean (chain, d); precision (d,); shear (chain,): 0, or a banana's d straightened_1 / d theta_0.
    """
    head, factor = np.empty(BLOCK), np.empty(BLOCK)
    d = x.shape[1]
    for b in range(first, last):
        rows = used(count, b)
        for c in range(mean.shape[0]):
            x0, x1 = x[b, 0], x[b, 1 % d]
            p0, p1 = precision[0], held(shear[c] * precision[1 % d])
            m0 = held(p0 * mean[c, 0] + p1 * mean[c, 1 % d])
            for i in range(rows):
                head[i] = held(p0 * x0[i] + p1 * x1[i] - m0)
                factor[i] = head[i] * head[i]
            for j in range(1, d):
                xj, pj, mj = x[b, j], precision[j], held(precision[j] * mean[c, j])
                for i in range(rows):
                    g = pj * xj[i] - mj
                    factor[i] += g * g
            if c == 0:
                ask_for(x[min(b + 1, last - 1)])
            for i in range(rows):
                size = np.sqrt(factor[i])
                factor[i] = clip * scale / (size if size > clip else clip)
            total[c, 0] += column_cells(head, factor, rows)
            for j in range(1, d):
                mj = held(precision[j] * mean[c, j])
                total[c, j] += deviation_cells(x[b, j], factor, precision[j], mj, rows)
