"""Rounding of a number to a grid, with integer noise."""

from typing import Any

import numpy as np

CLIP_MARGIN = 1.0 - 2.0**-40  # factor of a clip bound: allows for the rounding of clipped values
LARGEST_UNITS = 2.0**51  # grid units within which a rounded quotient is off by less than 3/4


def noised(total: Any, grid: Any, noise: Any) -> Any:
    """Return a number, rounded to the grid and with integer noise. Arithmetic alone: it compiles.

    total, grid, noise: numbers, or arrays of them.
    """
    units = np.rint(np.minimum(np.maximum(total / grid, -LARGEST_UNITS), LARGEST_UNITS))
    return grid * (np.int64(units) + noise)
