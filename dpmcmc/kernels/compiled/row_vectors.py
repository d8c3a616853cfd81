# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Squared lengths and whole cells of the vectors of rows, in one pass over a block.

The same bits as those of NumPy in mechanisms/sums.py: each product and each sum is rounded.
"""

import numpy as np

from dpmcmc.kernels.compiled.maths import kernel, leaf

TILE = 512  # rows at a time, whose numbers stay in the first cache


@leaf(fastmath=False)
def _vector(bases, parts, j, start, row):
    """Write entry j of the vectors of the rows from start on."""
    base, part = bases[0, j, start : start + len(row)], parts[0, start : start + len(row)]
    for i in range(len(row)):
        row[i] = base[i] * part[i]
    for c in range(1, len(bases)):
        base, part = bases[c, j, start : start + len(row)], parts[c, start : start + len(row)]
        for i in range(len(row)):
            row[i] += base[i] * part[i]


@kernel(fastmath=False)
def squares(bases, parts, out):
    """Write the squared lengths (m,) of vectors, see mechanisms.sums.Products."""
    buffer, m = np.empty(TILE), len(out)
    for start in range(0, m, TILE):
        tile = out[start : start + TILE]
        row = buffer[: len(tile)]
        tile[:] = 0.0
        for j in range(bases.shape[1]):
            _vector(bases, parts, j, start, row)
            for i in range(len(row)):
                tile[i] += row[i] * row[i]


@kernel(fastmath=False)
def whole(bases, parts, scale, out):
    """Write vectors (p, m) times scale (m,), rounded towards zero; 0 for a row left out."""
    m = len(scale)
    for start in range(0, m, TILE):
        factor = scale[start : start + TILE]
        for j in range(len(out)):
            cells = out[j, start : start + TILE]
            _vector(bases, parts, j, start, cells)
            for i in range(len(cells)):
                rounded = np.trunc(cells[i] * factor[i])
                cells[i] = rounded if factor[i] > 0.0 else 0.0
