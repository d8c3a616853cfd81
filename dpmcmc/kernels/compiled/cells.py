# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Terms of a sum, clipped and rounded to whole numbers of cells.

A row's clipped term is added as an integer, so that a sum does not depend on the order of rows or
the number of threads.
"""

import numpy as np

from dpmcmc.kernels.compiled.maths import (
    MAGIC_BITS,
    MAGIC_SHORT,
    MAGIC_SHORT_BITS,
    leaf,
    shifted_bits,
)

TERM_BITS = 21  # of a term of a gradient
LARGEST_SINGLE = 1e30  # of a number that becomes a float32
LARGEST_DERIVATIVE = 1e100  # of a row's derivative: its square is finite


@leaf
def cell(ratio, scale, shift, half):
    """Return ratio * scale - shift, clipped to [-half, half], in whole cells, plus MAGIC_BITS."""
    u = ratio * scale - shift
    u = u if u > -half else -half  # what is not a number becomes -half
    return shifted_bits(u if u < half else half)


@leaf
def counted(part, y):
    """Return part, or 0 for a row that is left out, whose y is NaN."""
    return part if y == y else 0.0


@leaf
def clamped(v):
    """Return v clamped to +-LARGEST_DERIVATIVE, NaN as the lower bound: the result is finite."""
    v = v if v > -LARGEST_DERIVATIVE else -LARGEST_DERIVATIVE
    return v if v < LARGEST_DERIVATIVE else LARGEST_DERIVATIVE


@leaf
def small(v):
    """Return v clamped to +-LARGEST_SINGLE, as float32, so that its product with 0 is 0."""
    v = v if v > -LARGEST_SINGLE else -LARGEST_SINGLE
    return np.float32(v if v < LARGEST_SINGLE else LARGEST_SINGLE)


@leaf
def rounded(v):
    """Return v, float32, rounded to an integer of at most 2^TERM_BITS."""
    moved = np.float32(v + MAGIC_SHORT)
    return np.int32(moved.view(np.int32) - MAGIC_SHORT_BITS)


@leaf
def head_cells(factor, head, count):
    """Sum over rows of factor * head, each rounded to an integer."""
    total = 0
    for i in range(count):
        total += shifted_bits(factor[i] * head[i])
    return total - count * MAGIC_BITS
