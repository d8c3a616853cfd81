"""Public interval of one row's log likelihood ratio in Poisson regression."""

import math
from typing import Any

LARGEST_EXPONENT = 300.0  # exponent of a rate: products of two such rates stay finite
Array = Any


def interval(public: Any, low: Array, high: Array) -> tuple[float, float]:
    """Return an interval (lo, hi) of a ratio. low, high: (4,) of shared.predictor_ranges."""
    least_residual = public.response[0] - math.exp(min(max(high[0], high[1]), LARGEST_EXPONENT))
    largest_residual = public.response[1] - math.exp(min(min(low[0], low[1]), LARGEST_EXPONENT))
    p, q, r, s = (
        low[3] * least_residual,
        low[3] * largest_residual,
        high[3] * least_residual,
        high[3] * largest_residual,
    )
    return min(p, q, r, s), max(p, q, r, s)
