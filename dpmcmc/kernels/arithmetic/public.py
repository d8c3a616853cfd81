"""Prior, straightened position and interval of a move, from public facts alone.

Scalar code that runs both as plain Python (the planner) and compiled
(dpmcmc/kernels/compiled/position_facts.py). Derivations: docs/proofs/dp_penalty.md, section 2.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.kernels.arithmetic.families import IDENTITY, LINEAR
from dpmcmc.kernels.arithmetic.intervals.dispatch import interval

Array = Any
LARGEST_LOG_SD = 50.0  # of a log sd, in either direction: no exponent overflows


class Public(NamedTuple):
    """The public facts of a form.

    family: which of kernels/compiled/families. lower, upper, group: (columns,) of a row of x, see
    Design. response: (2,) ends of y. prior_mean, prior_precision, centre, unit: (d,); a position is
    straightened by (theta + bend - centre) / unit, and the prior is normal in what comes out. bend:
    (3,) a, b, m; coordinate 1 is lifted by a (theta_0 - m)^2 + b. gaps: whether rows may be left
    out, whose every ratio is 0.
    """

    family: int
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
    """Write what the ratios of rows need of a position: the straightened one and aux.

    straight: (d,), whose first columns are the weights. aux: (3,) the offset; the linear model's
    -1 / (2 sd^2) and -log sd.
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
    if public.family == IDENTITY:
        aux[0] = -0.5 * squares
    elif public.family == LINEAR:
        columns, log_sd = len(public.lower), 0.0
        if len(position) > columns:
            log_sd = min(max(straight[columns], -LARGEST_LOG_SD), LARGEST_LOG_SD)
        aux[1], aux[2] = -0.5 * math.exp(-2.0 * log_sd), -log_sd


def log_prior_ratio(public: Public, here: Array, there: Array) -> float:
    """Return the log prior ratio of a move between straightened positions (d,)."""
    total = 0.0
    for j in range(len(here)):
        middle = 0.5 * (here[j] + there[j]) - public.prior_mean[j]
        total -= (there[j] - here[j]) * middle * public.prior_precision[j]
    return total


def shear(public: Public, position: Array) -> float:
    """Return the derivative of straightened coordinate 1 by coordinate 0, before units."""
    return float(2.0 * public.bend[0] * (position[0] - public.bend[2]))


def log_prior_gradient(public: Public, position: Array, straight: Array, gradient: Array) -> None:
    """Write the gradient (d,) of the log prior at a position (d,), which is straightened too."""
    for j in range(len(position)):
        deviation = straight[j] - public.prior_mean[j]
        gradient[j] = -public.prior_precision[j] * deviation / public.unit[j]
    if len(position) > 1:
        gradient[0] += 2.0 * public.bend[0] * (position[0] - public.bend[2]) * gradient[1]


def interval_of_move(public: Public, position: Array, delta: Array) -> tuple[float, float]:
    """Return the interval of a row's ratio for a move from position by delta (d,), in nats."""
    d = len(position)
    here, there, aux_here, aux_there = np.empty(d), np.empty(d), np.empty(3), np.empty(3)
    describe(public, position, here, aux_here)
    describe(public, position + delta, there, aux_there)
    return interval(public, here, aux_here, there, aux_there, -1, delta)
