# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Clipping of the public intervals of a row's ratio."""

import numpy as np

from dpmcmc.kernels.compiled.maths import leaf

LARGEST_END = 1e100  # of an interval's ends
LEAST_WIDTH = 1e-200  # of an interval: a move of nothing has no width


@leaf
def clip_interval(lo, hi, squares, bound, slope, widest=np.inf):
    """Return an interval clipped to +-bound, to +-slope times the length of a move, and to a width.

    squares: of the length. For the width the further end is moved, or both to the same distance
    from 0.
    """
    most = min(bound, LARGEST_END)
    length = slope * np.sqrt(squares)
    most = length if length < most else most
    # what is not a number becomes the bound
    lo = lo if lo > -most else -most
    hi = hi if hi < most else most
    lo = lo if lo < most else most
    hi = hi if hi > -most else -most
    if hi - lo > widest:
        most = max(0.5 * widest, widest - min(-lo, hi))
        lo, hi = max(lo, -most), min(hi, most)
    return lo - 0.5 * LEAST_WIDTH, hi + 0.5 * LEAST_WIDTH
