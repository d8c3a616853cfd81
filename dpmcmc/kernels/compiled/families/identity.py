# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Rows N(mean, 1): l = offset + weights . x, up to a constant in the mean. No state."""

import numpy as np

from dpmcmc.kernels.compiled.blocks import column, column_start, prefetch_columns, rows_of_block
from dpmcmc.kernels.compiled.cells import cell, clamped, counted, head_cells
from dpmcmc.kernels.compiled.maths import MAGIC_BITS, leaf, row, shifted_bits, uncounted, wide


@leaf
def ratio_cells(v, y, scale, shift, half, count):
    """Return the sum over rows of clipped ratios, in cells, where predictors change by v."""
    wide()
    total = 0
    for i in range(count):
        total += cell(counted(v[i], y[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratio_cells_near(v, lift, y, scale, shift, half, count):
    """Return ratio_cells where predictors change by lift, and by v from short_dot."""
    wide()
    total = 0
    for i in range(count):
        total += cell(counted(lift + v[i], y[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratios(v, y, count):
    """Overwrite v with each row's log likelihood ratio."""
    for i in range(count):
        v[i] = counted(v[i], y[i])


@leaf
def deviation_cells(x, factor, precision, centre, count):
    """Return the sum over rows of factor * (precision * x - centre), rounded to cells."""
    total = 0
    for i in range(count):
        total += shifted_bits(factor[i] * (precision * x[i] - centre))
    return total - count * MAGIC_BITS


@leaf
def gaussian_gradients(
    x, y, count, first, last, mean, precision, shear, clip, scale, total, head, factor
):
    """Add the gradients of N(mean, 1) rows, precision (x - mean), as gradient_sums does."""
    x, y, mean, precision, shear = (
        uncounted(x),
        uncounted(y),
        uncounted(mean),
        uncounted(precision),
        uncounted(shear),
    )
    total, head, factor, d = uncounted(total), uncounted(head), uncounted(factor), x.shape[1]
    for b in range(first, last):
        rows, first_number, responses = rows_of_block(count, b), column_start(x, b, 0), row(y, b)
        for c in range(mean.shape[0]):
            x0, x1 = column(x, first_number, 0), column(x, first_number, 1 % d)
            p0, p1 = precision[0], clamped(shear[c] * precision[1 % d])
            m0 = clamped(p0 * mean[c, 0] + p1 * mean[c, 1 % d])
            for i in range(rows):
                head[i] = clamped(p0 * x0[i] + p1 * x1[i] - m0)
                factor[i] = head[i] * head[i]
            for j in range(1, d):
                xj, pj = column(x, first_number, j), precision[j]
                mj = clamped(precision[j] * mean[c, j])
                for i in range(rows):
                    g = pj * xj[i] - mj
                    factor[i] += g * g
            if c == 0:
                prefetch_columns(x, column_start(x, min(b + 1, last - 1), 0), d)
            for i in range(rows):
                size = np.sqrt(factor[i])
                factor[i] = counted(clip * scale / (size if size > clip else clip), responses[i])
            total[c, 0] += head_cells(factor, head, rows)
            for j in range(1, d):
                mj = clamped(precision[j] * mean[c, j])
                arguments = column(x, first_number, j), factor, precision[j], mj, rows
                total[c, j] += deviation_cells(*arguments)
