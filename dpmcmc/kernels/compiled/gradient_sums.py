# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Sums over rows of clipped gradients of the log likelihood, for all chains at once.

Exact as the sums of kernels/compiled/ratio_sums.py: whole numbers of cells, added as integers.
"""

import numpy as np

from dpmcmc.kernels.compiled.blocks import (
    BLOCK,
    CURVATURE,
    OFFSET,
    column,
    column_start,
    dot,
    prefetch_columns,
    rows_of_block,
)
from dpmcmc.kernels.compiled.cells import rounded
from dpmcmc.kernels.compiled.dispatch import factors, has_predictor
from dpmcmc.kernels.compiled.families.identity import gaussian_gradients
from dpmcmc.kernels.compiled.families.linear import factors_with_scale
from dpmcmc.kernels.compiled.maths import (
    MAGIC_BITS,
    alone,
    kernel,
    leaf,
    row,
    shifted_bits,
    uncounted,
    wide,
)
from dpmcmc.kernels.compiled.threads import part_taken


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
def _predictor_gradients(
    x, y, count, family, first, last, norm, weights, aux, clip, scale, total, eta, extra, factor
):
    """Add the gradients of families with a linear predictor, over blocks first to last."""
    x, y, norm, weights = uncounted(x), uncounted(y), uncounted(norm), uncounted(weights)
    aux, total, eta = uncounted(aux), uncounted(total), uncounted(eta)
    extra, factor, columns = uncounted(extra), uncounted(factor), x.shape[1]
    for b in range(first, last):
        rows, responses, norms, first_number = (
            rows_of_block(count, b),
            row(y, b),
            row(norm, b),
            column_start(x, b, 0),
        )
        for c in range(weights.shape[0]):
            dot(x, first_number, row(weights, c), aux[c, OFFSET], rows, eta)
            if c == 0:
                prefetch_columns(x, column_start(x, min(b + 1, last - 1), 0), columns)
            arguments = responses, norms, aux[c, CURVATURE], clip, scale, rows, factor
            if total.shape[1] > columns:
                factors_with_scale(eta, *arguments, extra)
                for i in range(rows):
                    total[c, columns] += shifted_bits(extra[i]) - MAGIC_BITS
            else:
                factors(family, eta, *arguments)
            column_cells(x, first_number, factor, rows, row(total, c))


@kernel
def gradient_room():
    """Return scratch memory for gradient_sums."""
    return np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK, np.float32)


@kernel
def gradient_sums(
    x, y, count, family, shared, turn, norm, precision, ends, clip, scale, total, room
):
    """Add to total (chain, d) int64 each chain's gradient over the blocks of this thread, in cells.

    Returns the number of parts. shared, turn: arguments of threads.part_taken.
    Each row's gradient is clipped to norm `clip`, times `scale` (cells per unit, clip * scale at
    most 2^TERM_BITS), and every entry is off by less than a cell. norm (blocks, BLOCK) float32 of
    the rows of x, or more. ends: weights (chain, columns), aux (chain, 3), shears (chain,). Where d
    is columns + 1, the last entry is the linear model's derivative by its log sd. Rows N(weights,
    1) have precision (d,) for each entry, and shears: 0, or a banana's d straightened_1 / d
    theta_0; they have no norm. room: of gradient_room.
    """
    alone()
    (weights, aux, shears), (eta, extra, factor) = ends, room
    parts, blocks = 0, x.shape[0]
    first, last = part_taken(shared, turn, blocks, parts)
    while first < blocks:
        if not has_predictor(family):
            scratch = clip, scale, total, eta, extra
            gaussian_gradients(x, y, count, first, last, weights, precision, shears, *scratch)
        else:
            arguments = norm, weights, aux, clip, scale, total, eta, extra, factor
            _predictor_gradients(x, y, count, family, first, last, *arguments)
        parts += 1
        first, last = part_taken(shared, turn, blocks, parts)
    return parts
