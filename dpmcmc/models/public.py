"""What follows from public facts about one position or move: never from a row.

Scalar code without calls between the functions, so that it runs both as it stands (the planner) and
compiled (dpmcmc/kernels/forms.py). Derivations: docs/proofs/dp_penalty.md, section 2.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.models.links import IDENTITY, LINEAR, POISSON

Array = Any
FURTHEST = 50.0  # of a log sd, in either direction: no exponent overflows
LARGEST = 300.0  # exponent of a rate: products of two such rates stay finite
WIDEN = 2.0**-40  # of an interval, against rounding


class Public(NamedTuple):
    """The public facts of a form.

    link: which f of dpmcmc/kernels/rows.py. lower, upper, group: (columns,) of a row of x, see
    Design. response: (2,) ends of y. prior_mean, prior_precision, centre, unit: (d,); a position is
    straightened by (theta + bend - centre) / unit, and the prior is normal in what comes out. bend:
    (3,) a, b, m; coordinate 1 is lifted by a (theta_0 - m)^2 + b. gaps: whether rows may be left
    out, whose every ratio is 0.
    """

    link: int
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    group: NDArray[np.int64]
    response: NDArray[np.float64]
    prior_mean: NDArray[np.float64]
    prior_precision: NDArray[np.float64]
    centre: NDArray[np.float64]
    unit: NDArray[np.float64]
    bend: NDArray[np.float64]
    gaps: bool


def describe(public: Public, position: Array, straight: Array, aux: Array) -> None:
    """Write the straightened position (d,), whose first columns are the weights, and aux (3,).

    aux: the offset; the linear model's -1 / (2 sd^2) and -log sd.
    """
    a, b, m = public.bend[0], public.bend[1], public.bend[2]
    squares = 0.0
    for j in range(len(position)):
        lifted = position[j]
        if j == 1 and (a != 0.0 or b != 0.0):
            lifted += a * (position[0] - m) ** 2 + b
        straight[j] = (lifted - public.centre[j]) / public.unit[j]
        squares += straight[j] * straight[j]
    aux[0], aux[1], aux[2] = 0.0, 0.0, 0.0
    if public.link == IDENTITY:
        aux[0] = -0.5 * squares
    elif public.link == LINEAR:
        columns, log_sd = len(public.lower), 0.0
        if len(position) > columns:
            log_sd = min(max(straight[columns], -FURTHEST), FURTHEST)
        aux[1], aux[2] = -0.5 * math.exp(-2.0 * log_sd), -log_sd


def interval(
    public: Public, here: Array, aux_here: Array, there: Array, aux_there: Array
) -> tuple[float, float]:
    """Return (lo, hi): every row's log likelihood ratio lies in between. Not for logistic rows.

    here, there: as described. The move back has (-hi, -lo). Never raises. (Logistic intervals hold
    0 as they are, for rows that are left out.)
    """
    columns = len(public.lower)
    low, high = np.zeros(4), np.zeros(4)  # of x . v over all rows: of the ends, middle and change
    for v in range(4):
        k = 0
        while k < columns:  # of a term with several columns at most one is not zero
            first, least, most = k, math.inf, -math.inf
            while k < columns and public.group[k] == public.group[first]:
                ends = (here[k], there[k], 0.5 * (here[k] + there[k]), there[k] - here[k])
                one, other = public.lower[k] * ends[v], public.upper[k] * ends[v]
                least, most = min(least, one, other), max(most, one, other)
                k += 1
            if k - first > 1:
                least, most = min(least, 0.0), max(most, 0.0)
            low[v] += least
            high[v] += most
    if public.link == IDENTITY:  # a ratio is (there - here) . (x - middle)
        lo, hi = low[3], high[3]
        for k in range(columns):
            centre = (there[k] - here[k]) * (0.5 * (here[k] + there[k]))
            lo, hi = lo - centre, hi - centre
    else:
        if public.link == POISSON:
            one = public.response[0] - math.exp(min(max(high[0], high[1]), LARGEST))
            other = public.response[1] - math.exp(min(min(low[0], low[1]), LARGEST))
        else:
            one, other = public.response[0] - high[2], public.response[1] - low[2]
        p, q, r, s = low[3] * one, low[3] * other, high[3] * one, high[3] * other
        lo, hi = min(p, q, r, s), max(p, q, r, s)
    if public.link == LINEAR:
        mean = -(aux_here[1] + aux_there[1])
        largest = 0.0
        for v in range(2):
            one, other = public.response[0] - high[v], public.response[1] - low[v]
            largest += 0.5 * max(one * one, other * other)
        change, constant = (aux_there[1] - aux_here[1]) * largest, aux_there[2] - aux_here[2]
        lo = mean * lo + min(change, 0.0) + constant
        hi = mean * hi + max(change, 0.0) + constant
    if public.gaps:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    slack = WIDEN * max(abs(lo), abs(hi))  # the same from both sides
    lo, hi = lo - slack, hi + slack
    return (lo, hi) if lo <= hi else (-math.inf, math.inf)  # what is not a number


def log_prior_ratio(public: Public, here: Array, there: Array) -> float:
    """Return the log prior ratio of a move between straightened positions (d,)."""
    total = 0.0
    for j in range(len(here)):
        middle = 0.5 * (here[j] + there[j]) - public.prior_mean[j]
        total -= (there[j] - here[j]) * middle * public.prior_precision[j]
    return total


def shear(public: Public, position: Array) -> float:
    """Return the derivative of coordinate 1 without its unit, straightened, by coordinate 0."""
    return float(2.0 * public.bend[0] * (position[0] - public.bend[2]))


def log_prior_gradient(public: Public, position: Array, straight: Array, gradient: Array) -> None:
    """Write the gradient (d,) of the log prior at a position (d,), which is straightened too."""
    for j in range(len(position)):
        off = straight[j] - public.prior_mean[j]
        gradient[j] = -public.prior_precision[j] * off / public.unit[j]
    if len(position) > 1:
        gradient[0] += 2.0 * public.bend[0] * (position[0] - public.bend[2]) * gradient[1]


def interval_of_move(public: Public, position: Array, delta: Array) -> tuple[float, float]:
    """Return the interval of moving by delta (d,), for the planner. Not for logistic rows."""
    d = len(position)
    here, there, aux_here, aux_there = np.empty(d), np.empty(d), np.empty(3), np.empty(3)
    describe(public, position, here, aux_here)
    describe(public, position + delta, there, aux_there)
    return interval(public, here, aux_here, there, aux_there)
