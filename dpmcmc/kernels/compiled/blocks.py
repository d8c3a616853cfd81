# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Blocks of rows, and the linear predictors of the rows of one block.

Layout: x (blocks, columns, BLOCK) float32, y (blocks, BLOCK), so that a block of rows stays in the
first-level cache while all chains use it. The last block of `count` rows is padded; the padding is
never read.
"""

import numpy as np

from dpmcmc.kernels.compiled.maths import fetch, leaf, piece, wide

BLOCK, LINE = 256, 16  # numbers in a block, and in a cache line
ZERO = np.float32(0.0)
OFFSET, CURVATURE, CONSTANT = 0, 1, 2  # entries of `aux`; linear: -1 / (2 sd^2), -log sd


@leaf
def dot(x, first, weights, offset, count, eta):
    """Write offset + weights . x of one block into eta[:count].

    first: number in x at which the block begins. The order of products is fixed, so that no
    compiler can choose which to fuse with an addition: a row's predictor has the same bits at every
    position in the block. All is computed in the type of eta, weights (d,) and offset.
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
    """Return column q of a block whose numbers begin at `first`."""
    return piece(x, first + q * BLOCK, BLOCK)


@leaf
def column_start(x, block, low):
    """Return the position in x at which column `low` of a block begins."""
    return (block * x.shape[1] + low) * BLOCK


@leaf
def short_dot(x, first, step, count, weights, dotted):
    """Write step . x into dotted (BLOCK,) float32, four times as fast. weights: (d,), scratch.

    If |step . x| <= NEAR for all rows within the bounds, the error is below 1e-7, and that of the
    reverse move is its negative.
    """
    for k in range(step.size):
        weights[k] = step[k]
    dot(x, first, piece(weights, 0, step.size), ZERO, count, dotted)


@leaf
def prefetch_columns(x, first, columns):
    """Prefetch the columns that are read next."""
    for line in range(columns * (BLOCK // LINE)):
        fetch(x, first + line * LINE)


@leaf
def rows_of_block(count, block):
    """Return the number of rows in this block."""
    return min(BLOCK, count - block * BLOCK)
