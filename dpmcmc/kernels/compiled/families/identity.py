# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Rows N(mean, 1): l = offset + weights . x, but for what does not depend on the mean. No state."""

import numpy as np

from dpmcmc.kernels.compiled.blocks import ask_for, column, place, used
from dpmcmc.kernels.compiled.cells import cell, counted, head_cells, held
from dpmcmc.kernels.compiled.maths import MAGIC_BITS, leaf, row, shifted_bits, uncounted, wide


@leaf
def ratio_cells(v, y, scale, shift, half, count):
    """Sum over rows of clipped ratios, in cells, where predictors move by v."""
    wide()
    total = 0
    for i in range(count):
        total += cell(counted(v[i], y[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratio_cells_near(v, lift, y, scale, shift, half, count):
    """Do as ratio_cells, where predictors move by lift and by v from short_dot."""
    wide()
    total = 0
    for i in range(count):
        total += cell(counted(lift + v[i], y[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratios(v, y, count):
    """Put each row's ratio in the place of v."""
    for i in range(count):
        v[i] = counted(v[i], y[i])


@leaf
def deviation_cells(x, factor, precision, centre, count):
    """Sum over rows of factor * (precision * x - centre), each rounded to an integer."""
    total = 0
    for i in range(count):
        total += shifted_bits(factor[i] * (precision * x[i] - centre))
    return total - count * MAGIC_BITS


@leaf
def gaussian_gradients(
    x, y, count, first, last, mean, precision, shear, clip, scale, total, head, factor
):
    """Do as gradient_sums: precision (x - mean), and shear of entry 1 to entry 0."""
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
