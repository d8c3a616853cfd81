"""The layout of rows in memory for the kernels, and the grids on which their sums are exact."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.forms import Floats

SMALLEST_SHARE = 2.0**-60  # of a column's largest number: its square is a normal float32
Singles = NDArray[np.float32]


def term_grid(bound: float, rows: int, digits: int) -> float:
    """Return the power of two on which `rows` terms of at most this size add up exactly.

    A term has so many digits, or fewer.
    """
    digits = min(digits, 52 - math.ceil(math.log2(rows + 1.0)))
    return float(2.0 ** (math.ceil(math.log2(bound)) - digits))


def halved(x: Floats) -> Singles:
    """Return x in half of the memory, towards zero, so that no bound of a row is left.

    A fixed map of each row. It moves a coefficient by about one part in 2^24 of the column's range
    over its spread, and a sum is as fast as its rows come from memory.
    """
    with np.errstate(over="ignore"):  # an infinity is too far
        single = x.astype(np.float32)
    too_far = np.abs(single) > np.abs(x)
    single[too_far] = np.nextafter(single[too_far], np.float32(0.0))
    return single


def without_traces(x: Singles, max_row_norm: float) -> Singles:
    """Return x with 0 for what is too small to matter: its products would be subnormal numbers.

    Towards zero, a fixed map of each row, and as fast whatever the rows are. For libraries whose
    threads are not ours; ours flush such numbers, see dpmcmc.kernels.subnormals.
    """
    return np.where(np.abs(x) < np.float32(SMALLEST_SHARE * max_row_norm), np.float32(0.0), x)


def blocked(column: NDArray[Any], size: int) -> NDArray[Any]:
    """Return (blocks, size) from (n,), padded with zeros."""
    return np.pad(column, (0, -len(column) % size)).reshape(-1, size)


def on_lines(rows: int, width: int) -> Singles:
    """Return zeros (rows, width) that begin where a line of memory does."""
    size = 4 * rows * width
    room = np.zeros(size + 64, np.uint8)
    skipped = -room.ctypes.data % 64
    return room[skipped : skipped + size].view(np.float32).reshape(rows, width)
