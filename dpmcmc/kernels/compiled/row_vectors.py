# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Loops over the vectors of rows that stay in the first caches: lengths, whole cells, their sums.

Vectors and whole cells have the same bits as those of NumPy in mechanisms/sums.py: each product and
each sum is rounded. Sums of whole cells are exact, in any order.
"""

import numpy as np

from dpmcmc.kernels.compiled.maths import kernel, leaf, piece, wide

TILE = 256  # rows at a time, whose numbers stay in a cache
GROUP = 3  # vectors whose products are summed in registers: 9 sums of 6 numbers
ANY_ORDER = {"contract", "reassoc"}  # of whole numbers, whose sums are exact


@leaf(fastmath=False)
def _vector(bases, parts, j, start, row):
    """Write entry j of the vectors of the rows from start on."""
    wide()
    p, m, size = bases.shape[1], bases.shape[2], len(row)
    base, part = piece(bases, j * m + start, size), piece(parts, start, size)
    for i in range(size):
        row[i] = base[i] * part[i]
    for c in range(1, len(bases)):
        base, part = piece(bases, (c * p + j) * m + start, size), piece(parts, c * m + start, size)
        for i in range(size):
            row[i] += base[i] * part[i]


@leaf(fastmath=False)
def _cells(bases, parts, scale, j, start, row):
    """Write entry j of these rows times their scale, rounded towards zero; 0 if left out."""
    wide()
    _vector(bases, parts, j, start, row)
    factor = piece(scale, start, len(row))
    for i in range(len(row)):
        rounded = np.trunc(row[i] * factor[i])
        row[i] = rounded if factor[i] > 0.0 else 0.0


@kernel(fastmath=False)
def squares(bases, parts, out):
    """Write the squared lengths (m,) of vectors, see mechanisms.sums.Products."""
    wide()
    buffer, m = np.empty(TILE), len(out)
    for start in range(0, m, TILE):
        size = min(TILE, m - start)
        tile, row = piece(out, start, size), piece(buffer, 0, size)
        tile[:] = 0.0
        for j in range(bases.shape[1]):
            _vector(bases, parts, j, start, row)
            for i in range(size):
                tile[i] += row[i] * row[i]


@leaf(fastmath=ANY_ORDER)
def _sum(row):
    """Return the sum of whole numbers."""
    wide()
    total = 0.0
    for i in range(len(row)):
        total += row[i]
    return total


@kernel(fastmath=False)
def whole_sum(bases, parts, scale, out):
    """Write the sum (p,) of vectors times scale (m,), rounded towards zero."""
    wide()
    buffer, m = np.empty(TILE), len(scale)
    out[:] = 0.0
    for start in range(0, m, TILE):
        row = piece(buffer, 0, min(TILE, m - start))
        for j in range(len(out)):
            _cells(bases, parts, scale, j, start, row)
            out[j] += _sum(row)


@leaf(fastmath=ANY_ORDER)
def _products(cells, i, j, size, out):
    """Add the products of the whole numbers of three rows from i on with three from j on."""
    wide()
    a0, a1, a2 = (
        piece(cells, i * TILE, size),
        piece(cells, (i + 1) * TILE, size),
        piece(cells, (i + 2) * TILE, size),
    )
    b0, b1, b2 = (
        piece(cells, j * TILE, size),
        piece(cells, (j + 1) * TILE, size),
        piece(cells, (j + 2) * TILE, size),
    )
    s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = 0.0
    for k in range(size):
        s00 += a0[k] * b0[k]
        s01 += a0[k] * b1[k]
        s02 += a0[k] * b2[k]
        s10 += a1[k] * b0[k]
        s11 += a1[k] * b1[k]
        s12 += a1[k] * b2[k]
        s20 += a2[k] * b0[k]
        s21 += a2[k] * b1[k]
        s22 += a2[k] * b2[k]
    out[i, j] += s00
    out[i, j + 1] += s01
    out[i, j + 2] += s02
    out[i + 1, j] += s10
    out[i + 1, j + 1] += s11
    out[i + 1, j + 2] += s12
    out[i + 2, j] += s20
    out[i + 2, j + 1] += s21
    out[i + 2, j + 2] += s22


@kernel(fastmath=False)
def whole_squares(bases, parts, scale, out):
    """Write the sum (p, p) of v v^T, v the vectors times scale (m,), rounded towards zero."""
    wide()
    p, m = len(out), len(scale)
    padded = -(-p // GROUP) * GROUP
    cells, sums = np.zeros((padded, TILE)), np.zeros((padded, padded))
    for start in range(0, m, TILE):
        size = min(TILE, m - start)
        for j in range(p):
            _cells(bases, parts, scale, j, start, piece(cells, j * TILE, size))
        for i in range(0, padded, GROUP):
            for j in range(0, i + 1, GROUP):
                _products(cells, i, j, size, sums)
    for i in range(p):
        for j in range(i + 1):
            out[i, j] = out[j, i] = sums[i, j]
