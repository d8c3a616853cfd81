# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Sums over rows: clipped log likelihood ratios and clipped gradients, for all chains at once.

Every model is l = f(offset + weights . x; y, curvature) with one of four functions f, `link`; the
map from a position to (weights, aux) is public and lives in dpmcmc/models. Arrays in, arrays out,
no randomness, no objects.

Layout: x (blocks, columns, BLOCK) float32, y (blocks, BLOCK), so that a block of rows stays in the
first cache while all chains pass over it; count rows are real, what pads the last block is never
read. Arithmetic is float64, but for the ratios of short moves, which are those that chains make.

A move adds `step` to the weights of columns low, low + 1, ... and `lift` to the offset. state is
(known, moved), (blocks, chain, BLOCK) each: what a ratio needs to know of a row at the chain's
position, e^-eta (logistic), e^eta (Poisson), y - eta (linear), nothing (identity); and, float32, by
how much a short move that was asked for last moves eta. The next sum after an accepted move brings
the state of a block up to date while it is there.

Sums are exact: each row's clipped term is rounded to a whole number of cells and added as an
integer, so the order of rows and the number of threads change no bit, and one replaced row changes
a ratio sum by at most 2 `half` cells. See docs/proofs/dp_penalty.md, section 3.

A row that is left out for a missing value has covariates of 0, of which logistic and Poisson rows
say nothing. Of the other two links its y is not a number, and `counted` makes its part 0.
"""

import numpy as np

from dpmcmc.kernels.maths import (
    MAGIC_BITS,
    MAGIC_SHORT,
    MAGIC_SHORT_BITS,
    ONE,
    TWO,
    alone,
    atanh_twice_short,
    exp,
    exp_far,
    exp_near_short,
    exp_short,
    fetch,
    kernel,
    leaf,
    log,
    piece,
    row,
    shifted_bits,
    tanh_half,
    tanh_half_short,
    uncounted,
    wide,
)
from dpmcmc.kernels.threads import part_taken
from dpmcmc.models.links import IDENTITY, LINEAR, LOGISTIC, POISSON

BLOCK, LINE, TERM_BITS = 256, 16, 21  # numbers; a line is what memory hands out
NOTHING, MOST = np.float32(0.0), 1e30  # of what a float32 is made of
FURTHEST = 1e100  # of a row's derivative: its square is finite
OFFSET, CURVATURE, CONSTANT = 0, 1, 2  # entries of `aux`; linear: -1 / (2 sd^2), -log sd
KEEP, FOLLOW, FILL = 0, 1, 2  # of a chain's state: it holds, the last move was made, unknown


@leaf
def dot(x, first, weights, offset, count, eta):
    """eta[:count] = offset + weights . x of one block, in few passes: each one moves eta.

    first: of the numbers of x. One product after the other, so that no compiler has a choice of
    which to fuse with an addition: a row's predictor is the same to the bit wherever in the block
    it stands. All is computed in the type of eta, weights (d,) and offset.
    """
    wide()
    d, q = weights.size, 0
    if d < 5:
        for i in range(count):
            eta[i] = offset
    while q + 5 <= d:
        x0, x1 = column(x, first, q), column(x, first, q + 1)
        x2, x3, x4 = column(x, first, q + 2), column(x, first, q + 3), column(x, first, q + 4)
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
        x0, x1, w0, w1 = column(x, first, q), column(x, first, q + 1), weights[q], weights[q + 1]
        for i in range(count):
            eta[i] = eta[i] + w0 * x0[i] + w1 * x1[i]
        q += 2
    if q < d:
        x0, w0 = column(x, first, q), weights[q]
        for i in range(count):
            eta[i] += w0 * x0[i]


@leaf
def column(x, first, q):
    """Column q of a block whose numbers begin at `first`."""
    return piece(x, first + q * BLOCK, BLOCK)


@leaf
def place(x, block, low):
    """Where in x the column `low` of a block begins."""
    return (block * x.shape[1] + low) * BLOCK


@leaf
def short_dot(x, first, step, count, weights, dotted):
    """Write step . x into dotted (BLOCK,) float32, four times as fast. weights: (d,) to write in.

    Where |step . x| <= NEAR for all rows that the bounds allow it is off by less than 1e-7, either
    way, and by the negative of that on the way back.
    """
    for k in range(step.size):
        weights[k] = step[k]
    dot(x, first, piece(weights, 0, step.size), NOTHING, count, dotted)


@leaf
def known(link, eta, y, count, out):
    """Write what a ratio needs to know of each row of a block; eta may be out."""
    wide()
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
def follow(link, v, count, state):
    """Bring the state of a block up to date after a move of its predictors by v."""
    wide()
    if link == LINEAR:
        for i in range(count):
            state[i] -= v[i]
    elif link != IDENTITY:
        sign = -1.0 if link == LOGISTIC else 1.0
        for i in range(count):
            state[i] *= exp(sign * v[i])


@leaf
def follow_near(link, v, count, state):
    """As follow, where v is from short_dot; it is overwritten."""
    wide()
    if link == LINEAR:
        for i in range(count):
            state[i] -= v[i]
    elif link != IDENTITY:
        sign = -ONE if link == LOGISTIC else ONE
        for i in range(count):  # a loop of float32 alone takes twice as many rows at once
            v[i] = exp_near_short(sign * v[i])
        for i in range(count):
            state[i] *= v[i]


@leaf
def cell(ratio, scale, shift, half):
    """ratio scale - shift, held to [-half, half], in whole cells, plus MAGIC_BITS."""
    u = ratio * scale - shift
    u = u if u > -half else -half  # what is not a number becomes -half
    return shifted_bits(u if u < half else half)


@leaf
def logistic_near(v, e):
    """Ratio where e^-m is e, in float32. (1 + e^-m) / (1 + e^-(m + v)) = (1 + s) / (1 - s)."""
    t = tanh_half_short(v)
    return atanh_twice_short(e * t / ((ONE + e) + t))


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
def counted(part, y):
    """What a row says, or 0 where it is left out: its y is then not a number."""
    return part if y == y else 0.0


@leaf
def linear_ratio(v, e, here, there):
    """Ratio where the residual is e."""
    change, constant = there[CURVATURE] - here[CURVATURE], there[CONSTANT] - here[CONSTANT]
    return there[CURVATURE] * (v * (v - 2.0 * e)) + (change * (e * e) + constant)


@leaf
def ratio_cells(link, v, y, state, here, there, scale, shift, half, count):
    """Sum over rows of clipped log likelihood ratios, in cells; v: by how much predictors move.

    here, there: aux of the two ends. v is overwritten.
    """
    wide()
    total = 0
    if link == LOGISTIC:
        for i in range(count):
            v[i] = exp(-v[i])
        for i in range(count):
            total += cell(logistic_far(v[i], state[i]), scale, shift, half)
    elif link == POISSON:
        for i in range(count):
            total += cell(poisson_far(v[i], y[i], state[i]), scale, shift, half)
    elif link == LINEAR:
        for i in range(count):
            ratio = counted(linear_ratio(v[i], state[i], here, there), y[i])
            total += cell(ratio, scale, shift, half)
    else:
        for i in range(count):
            total += cell(counted(v[i], y[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratio_cells_near(link, v, lift, y, state, here, there, scale, shift, half, count, e):
    """As ratio_cells, where predictors move by lift, which only N(mean, 1) rows have, and v.

    v: from short_dot, left as it is. Ratios are float32 as well, off by one part in 10^6 at most. e
    (BLOCK,) float32 is to write in: loops of float32 alone take twice as many rows at once.
    """
    wide()
    total = 0
    if link == LOGISTIC:
        for i in range(count):
            e[i] = state[i] if state[i] < MOST else MOST
        for i in range(count):
            e[i] = logistic_near(v[i], e[i])
        for i in range(count):
            total += cell(np.float64(e[i]), scale, shift, half)
    elif link == POISSON:
        for i in range(count):
            t = tanh_half_short(v[i])
            e[i] = TWO * t / (ONE - t)
        for i in range(count):
            total += cell(y[i] * v[i] - state[i] * e[i], scale, shift, half)
    elif link == LINEAR:
        for i in range(count):
            ratio = counted(linear_ratio(v[i], state[i], here, there), y[i])
            total += cell(ratio, scale, shift, half)
    else:
        for i in range(count):
            total += cell(counted(lift + v[i], y[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ask_for(x, first, columns):
    """Have what is read next fetched from memory while we compute."""
    for line in range(columns * (BLOCK // LINE)):
        fetch(x, first + line * LINE)


@leaf
def used(count, block):
    """Rows of this block."""
    return min(BLOCK, count - block * BLOCK)


@kernel
def ratio_room(columns):
    """Return what ratio_sums writes in."""
    weights, dotted = np.empty(columns, np.float32), np.empty(BLOCK, np.float32)
    return np.empty(BLOCK), weights, dotted, np.empty(BLOCK, np.float32)


@kernel
def ratio_sums(
    x, y, count, link, shared, turn, move, ends, modes, before, state, cells, half, total, room
):
    """Add to total (chain,) int64 each chain's clipped ratio sum over the blocks taken, in cells.

    Returns how many parts these are. shared, turn: see threads.part_taken.
    move, before: (low, step (chain, columns), lift (chain,), near (chain,)), what is asked for and
    the last one. ends: (weights (chain, all columns), aux (chain, 3)) where a move starts and aux
    where it ends. modes (chain,): what the state needs before. cells: (scale, shift), (chain,).
    room: see ratio_room.
    """
    alone()  # with all its parts, as a call takes its time too
    (low, step, lift, near), (low_before, step_before, lift_before, near_before) = move, before
    (weights, here, there), (scale, shift), (v, short, dotted, e) = ends, cells, room
    x, y, total = uncounted(x), uncounted(y), uncounted(total)
    state, moved = uncounted(state[0]), uncounted(state[1])
    v, e, short, dotted = uncounted(v), uncounted(e), uncounted(short), uncounted(dotted)
    modes, scale, shift = uncounted(modes), uncounted(scale), uncounted(shift)
    step, lift, near = uncounted(step), uncounted(lift), uncounted(near)
    step_before, lift_before = uncounted(step_before), uncounted(lift_before)
    near_before, weights = uncounted(near_before), uncounted(weights)
    here, there = uncounted(here), uncounted(there)
    own, blocks = 0, x.shape[0]
    first, last = part_taken(shared, turn, blocks, own)
    while first < blocks:
        for b in range(first, last):
            rows, answers = used(count, b), row(y, b)
            for c in range(step.shape[0]):
                place_here = (b * step.shape[0] + c) * BLOCK
                now = piece(state, place_here, BLOCK)
                by = dotted if link == IDENTITY else piece(moved, place_here, BLOCK)
                if modes[c] == FOLLOW and near_before[c]:
                    follow_near(link, by, rows, now)
                elif modes[c] == FOLLOW:
                    dot(x, place(x, b, low_before), row(step_before, c), lift_before[c], rows, v)
                    follow(link, v, rows, now)
                elif modes[c] == FILL:
                    dot(x, place(x, b, 0), row(weights, c), here[c, OFFSET], rows, v)
                    known(link, v, answers, rows, now)
                if c == 0:
                    ask_for(x, place(x, min(b + 1, last - 1), low), step.shape[1])
                how = answers, now, row(here, c), row(there, c), scale[c], shift[c], half, rows
                if near[c]:
                    short_dot(x, place(x, b, low), row(step, c), rows, short, by)
                    total[c] += ratio_cells_near(link, by, lift[c], *how, e)
                else:
                    dot(x, place(x, b, low), row(step, c), lift[c], rows, v)
                    total[c] += ratio_cells(link, v, *how)
        own += 1
        first, last = part_taken(shared, turn, blocks, own)
    return own


@leaf
def held(v):
    """v within +-FURTHEST, and -FURTHEST for what is not a number: no clip meets an infinity."""
    v = v if v > -FURTHEST else -FURTHEST
    return v if v < FURTHEST else FURTHEST


@leaf
def small(v):
    """v within +-MOST: in float32 no infinity, which a row of zeros would make no number of."""
    v = v if v > -MOST else -MOST
    return np.float32(v if v < MOST else MOST)


@leaf
def factors(link, eta, y, norm, curvature, clip, scale, count, out):
    """Derivative of the log likelihood by the predictor, clipped and in cells, for one block.

    norm: of the rows. Clipped so that factor * norm is at most clip * scale, up to the rounding of
    out, float32.
    """
    wide()
    top = clip * scale
    if link == LOGISTIC:  # 1 / (1 + e^m), no matter how exact
        short_clip, short_top, largest = np.float32(clip), np.float32(top), np.float32(MOST)
        for i in range(count):
            out[i] = eta[i]
        for i in range(count):  # of float32 alone: twice as many rows at once
            most = short_clip * (ONE + exp_short(out[i]))
            found = short_top / (norm[i] if norm[i] > most else most)
            out[i] = found if found < largest else largest
        return
    if link == POISSON:
        for i in range(count):
            eta[i] = held(y[i] - exp(eta[i]))
    else:
        twice = -2.0 * curvature
        for i in range(count):
            eta[i] = counted(held(twice * (y[i] - eta[i])), y[i])
    for i in range(count):
        size = abs(eta[i]) * norm[i]
        out[i] = small(eta[i] * (top / (size if size > clip else clip)))


@leaf
def factors_with_scale(eta, y, norm, curvature, clip, scale, count, out, extra):
    """As factors for the linear model, where extra is the derivative by the log sd, likewise."""
    wide()
    twice, top = -2.0 * curvature, clip * scale
    for i in range(count):
        residual = y[i] - eta[i]
        by_eta = counted(held(twice * residual), y[i])
        by_scale = counted(held(by_eta * residual - 1.0), y[i])
        size = np.sqrt((by_eta * norm[i]) * (by_eta * norm[i]) + by_scale * by_scale)
        shrunk = top / (size if size > clip else clip)
        out[i] = small(by_eta * shrunk)
        extra[i] = by_scale * shrunk


@leaf
def rounded(v):
    """v, float32, rounded to an integer of at most 2^TERM_BITS."""
    moved = np.float32(v + MAGIC_SHORT)
    return np.int32(moved.view(np.int32) - MAGIC_SHORT_BITS)


@leaf
def column_cells(x, first, factor, count, total):
    """Add to total (d,) the sums over rows of factor * x, float32, each rounded to an integer."""
    wide()
    d, q = x.shape[1], 0
    while q + 5 <= d:
        x0, x1 = column(x, first, q), column(x, first, q + 1)
        x2, x3, x4 = column(x, first, q + 2), column(x, first, q + 3), column(x, first, q + 4)
        t0, t1, t2 = np.int32(0), np.int32(0), np.int32(0)  # of a block
        t3, t4 = np.int32(0), np.int32(0)
        for i in range(count):
            t0 = np.int32(t0 + rounded(factor[i] * x0[i]))
            t1 = np.int32(t1 + rounded(factor[i] * x1[i]))
            t2 = np.int32(t2 + rounded(factor[i] * x2[i]))
            t3 = np.int32(t3 + rounded(factor[i] * x3[i]))
            t4 = np.int32(t4 + rounded(factor[i] * x4[i]))
        total[q] += t0
        total[q + 1] += t1
        total[q + 2] += t2
        total[q + 3] += t3
        total[q + 4] += t4
        q += 5
    while q < d:
        x0, t0 = column(x, first, q), np.int32(0)
        for i in range(count):
            t0 = np.int32(t0 + rounded(factor[i] * x0[i]))
        total[q] += t0
        q += 1


@leaf
def head_cells(factor, head, count):
    """Sum over rows of factor * head, each rounded to an integer."""
    total = 0
    for i in range(count):
        total += shifted_bits(factor[i] * head[i])
    return total - count * MAGIC_BITS


@leaf
def _predictor_gradients(
    x, y, count, link, first, last, norm, weights, aux, clip, scale, total, eta, extra, factor
):
    """As score_sums, for rows that a predictor stands for; see _ratio_sums."""
    x, y, norm, weights = uncounted(x), uncounted(y), uncounted(norm), uncounted(weights)
    aux, total, eta = uncounted(aux), uncounted(total), uncounted(eta)
    extra, factor, columns = uncounted(extra), uncounted(factor), x.shape[1]
    for b in range(first, last):
        rows, answers, norms, here = used(count, b), row(y, b), row(norm, b), place(x, b, 0)
        for c in range(weights.shape[0]):
            dot(x, here, row(weights, c), aux[c, OFFSET], rows, eta)
            if c == 0:
                ask_for(x, place(x, min(b + 1, last - 1), 0), columns)
            how = answers, norms, aux[c, CURVATURE], clip, scale, rows, factor
            if total.shape[1] > columns:
                factors_with_scale(eta, *how, extra)
                for i in range(rows):
                    total[c, columns] += shifted_bits(extra[i]) - MAGIC_BITS
            else:
                factors(link, eta, *how)
            column_cells(x, here, factor, rows, row(total, c))


@leaf
def deviation_cells(x, factor, precision, centre, count):
    """Sum over rows of factor * (precision * x - centre), each rounded to an integer."""
    total = 0
    for i in range(count):
        total += shifted_bits(factor[i] * (precision * x[i] - centre))
    return total - count * MAGIC_BITS


@leaf
def _gaussian_gradients(
    x, y, count, first, last, mean, precision, shear, clip, scale, total, head, factor
):
    """As score_sums for N(mean, 1) rows: precision (x - mean), and shear of entry 1 to entry 0."""
    x, y, mean, precision, shear = (
        uncounted(x),
        uncounted(y),
        uncounted(mean),
        uncounted(precision),
        uncounted(shear),
    )
    total, head, factor, d = uncounted(total), uncounted(head), uncounted(factor), x.shape[1]
    for b in range(first, last):
        rows, here, answers = used(count, b), place(x, b, 0), row(y, b)
        for c in range(mean.shape[0]):
            x0, x1 = column(x, here, 0), column(x, here, 1 % d)
            p0, p1 = precision[0], held(shear[c] * precision[1 % d])
            m0 = held(p0 * mean[c, 0] + p1 * mean[c, 1 % d])
            for i in range(rows):
                head[i] = held(p0 * x0[i] + p1 * x1[i] - m0)
                factor[i] = head[i] * head[i]
            for j in range(1, d):
                xj, pj = column(x, here, j), precision[j]
                mj = held(precision[j] * mean[c, j])
                for i in range(rows):
                    g = pj * xj[i] - mj
                    factor[i] += g * g
            if c == 0:
                ask_for(x, place(x, min(b + 1, last - 1), 0), d)
            for i in range(rows):
                size = np.sqrt(factor[i])
                factor[i] = counted(clip * scale / (size if size > clip else clip), answers[i])
            total[c, 0] += head_cells(factor, head, rows)
            for j in range(1, d):
                mj = held(precision[j] * mean[c, j])
                some = column(x, here, j), factor, precision[j], mj, rows
                total[c, j] += deviation_cells(*some)


@kernel
def score_room():
    """Return what score_sums writes in."""
    return np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK, np.float32)


@kernel
def score_sums(x, y, count, link, shared, turn, norm, precision, ends, clip, scale, total, room):
    """Add to total (chain, d) int64 each chain's gradient over the blocks taken, in cells.

    Returns how many parts these are. shared, turn: see threads.part_taken.
    Each row's gradient is clipped to norm `clip`, times `scale` (cells per unit, clip * scale at
    most 2^TERM_BITS), and every entry is off by less than a cell. norm (blocks, BLOCK) float32 of
    the rows of x, or more. ends: weights (chain, columns), aux (chain, 3), shears (chain,). Where d
    is columns + 1, the last entry is the linear model's derivative by its log sd. Rows N(weights,
    1) have precision (d,) for each entry, and shears: 0, or a banana's d straightened_1 / d
    theta_0; they have no norm. room: see score_room.
    """
    alone()
    (weights, aux, shears), (one, two, three) = ends, room
    own, blocks = 0, x.shape[0]
    first, last = part_taken(shared, turn, blocks, own)
    while first < blocks:
        if link == IDENTITY:
            how = clip, scale, total, one, two
            _gaussian_gradients(x, y, count, first, last, weights, precision, shears, *how)
        else:
            told = norm, weights, aux, clip, scale, total, one, two, three
            _predictor_gradients(x, y, count, link, first, last, *told)
        own += 1
        first, last = part_taken(shared, turn, blocks, own)
    return own
