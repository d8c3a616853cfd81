"""The common part of the intervals of all families but the logistic."""

import math
from typing import Any

ROUNDING_MARGIN = 2.0**-40  # of an interval, against rounding
Array = Any


def predictor_ranges(public: Any, here: Array, there: Array, low: Array, high: Array) -> None:
    """Add to low and high (4,) the range of x . v over all rows: of the ends, middle and change.

    public: public.Public. here, there: (d,), straightened positions.
    """
    columns = len(public.lower)
    for v in range(4):
        k = 0
        while k < columns:  # of a term with several columns at most one is not zero
            first, least, most = k, math.inf, -math.inf
            while k < columns and public.group[k] == public.group[first]:
                ends = (here[k], there[k], 0.5 * (here[k] + there[k]), there[k] - here[k])
                product_low, product_high = public.lower[k] * ends[v], public.upper[k] * ends[v]
                least, most = (
                    min(least, product_low, product_high),
                    max(most, product_low, product_high),
                )
                k += 1
            if k - first > 1:
                least, most = min(least, 0.0), max(most, 0.0)
            low[v] += least
            high[v] += most


def widened(public: Any, lo: float, hi: float) -> tuple[float, float]:
    """Return an interval that allows for rounding and holds 0 where rows may be left out."""
    if public.gaps:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    slack = ROUNDING_MARGIN * max(abs(lo), abs(hi))  # the same from both sides
    lo, hi = lo - slack, hi + slack
    return (lo, hi) if lo <= hi else (-math.inf, math.inf)  # what is not a number
