"""Public interval of one row's log likelihood ratio where rows are N(mean, 1)."""

from typing import Any

Array = Any


def interval(
    public: Any, low: Array, high: Array, here: Array, there: Array
) -> tuple[float, float]:
    """Return an interval (lo, hi) that contains a ratio: it is (there - here) . (x - middle).

    low, high: (4,) of shared.predictor_ranges. here, there: (d,), straightened positions.
    """
    lo, hi = low[3], high[3]
    for k in range(len(public.lower)):
        centre = (there[k] - here[k]) * (0.5 * (here[k] + there[k]))
        lo, hi = lo - centre, hi - centre
    return lo, hi
