"""The public interval of one row's log likelihood ratio, whatever the family.

The planner runs this as plain Python. kernels/compiled/dispatch.py compiles the same source, with
compiled functions in place of the imported ones.
"""

from typing import Any

import numpy as np

from dpmcmc.kernels.arithmetic.families import LINEAR, LOGISTIC, POISSON
from dpmcmc.kernels.arithmetic.intervals.identity import interval as identity_interval
from dpmcmc.kernels.arithmetic.intervals.linear import interval as linear_interval
from dpmcmc.kernels.arithmetic.intervals.logistic import component_interval, vector_interval
from dpmcmc.kernels.arithmetic.intervals.poisson import interval as poisson_interval
from dpmcmc.kernels.arithmetic.intervals.shared import predictor_ranges, widened

Array = Any


def interval(
    public: Any, here: Array, aux_here: Array, there: Array, aux_there: Array, j: int, delta: Array
) -> tuple[float, float]:
    """Return an interval (lo, hi) that contains the log likelihood ratio of every row, in nats.

    here, there, aux_here, aux_there: the ends of the move, as public.describe writes them. A move
    by delta (d,) of all coefficients has j < 0. For logistic rows the interval of a move of
    coefficient j alone is narrower.
    """
    if public.family == LOGISTIC:
        if j >= 0:
            return component_interval(here, j, delta[j], public.lower, public.upper, public.group)
        return vector_interval(here, there - here, public.lower, public.upper, public.group)
    low, high = np.zeros(4), np.zeros(4)
    predictor_ranges(public, here, there, low, high)
    if public.family == POISSON:
        lo, hi = poisson_interval(public, low, high)
    elif public.family == LINEAR:
        lo, hi = linear_interval(public, low, high, aux_here, aux_there)
    else:
        lo, hi = identity_interval(public, low, high, here, there)
    return widened(public, lo, hi)
