"""Public interval of one row's log likelihood ratio in linear regression."""

from typing import Any

Array = Any


def interval(
    public: Any, low: Array, high: Array, aux_here: Array, aux_there: Array
) -> tuple[float, float]:
    """Return an interval (lo, hi) of a ratio. low, high: (4,) of shared.predictor_ranges.

    aux_here, aux_there: (3,) of public.describe, of the two ends.
    """
    least_residual, largest_residual = public.response[0] - high[2], public.response[1] - low[2]
    p, q, r, s = (
        low[3] * least_residual,
        low[3] * largest_residual,
        high[3] * least_residual,
        high[3] * largest_residual,
    )
    lo, hi = min(p, q, r, s), max(p, q, r, s)
    mean = -(aux_here[1] + aux_there[1])
    largest = 0.0
    for v in range(2):
        least_residual, largest_residual = public.response[0] - high[v], public.response[1] - low[v]
        largest += 0.5 * max(least_residual * least_residual, largest_residual * largest_residual)
    change, constant = (aux_there[1] - aux_here[1]) * largest, aux_there[2] - aux_here[2]
    lo = mean * lo + min(change, 0.0) + constant
    hi = mean * hi + max(change, 0.0) + constant
    return lo, hi
