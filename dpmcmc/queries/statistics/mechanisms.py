"""What is released: statistics of rows within declared bounds, and the noise of what was released.

Everything here is public. Source: thesis B, chapters 3 and 4.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.planner import Cost
from dpmcmc.queries.statistics.smooth import order_statistic, smooth_sensitivity

Floats = NDArray[np.float64]
StatisticKind = Literal["power", "absolute_power"]
Form = Literal["batch", "sequential", "median", "maximum"]
SMALLEST, LARGEST = 1e-100, 1e100  # of the range of a statistic


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Normal noise of mean 0. sd: above 0, in the unit of what was released."""

    sd: float

    def log_density(self, difference: Floats) -> Floats:
        """Return the log density at released minus true statistic, elementwise."""
        scaled = np.asarray(difference, np.float64) / self.sd
        return np.asarray(-0.5 * scaled * scaled - math.log(self.sd * math.sqrt(2.0 * math.pi)))


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Laplace noise of mean 0. scale: above 0, in the unit of what was released."""

    scale: float

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return math.sqrt(2.0) * self.scale

    def log_density(self, difference: Floats) -> Floats:
        """Return the log density at released minus true statistic, elementwise."""
        away = np.abs(np.asarray(difference, np.float64))
        return np.asarray(-away / self.scale - math.log(2.0 * self.scale))


@dataclass(frozen=True, slots=True)
class Statistic:
    """A function s of one row's number: x^a (power) or |x|^a (absolute_power).

    lower, upper: declared bounds of the rows; rows outside are clamped. power needs a whole a
    unless lower >= 0. Raises SpecError where there is no such statistic.
    """

    kind: StatisticKind
    a: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        _check(is_number(self.a), "needs a number a")
        _check(-LARGEST <= self.lower < self.upper <= LARGEST, "needs lower below upper, finite")
        _check(self.kind in ("power", "absolute_power"), "is power or absolute_power")
        _check(0.0 < self.a <= 64.0, "needs a above 0, at most 64")
        whole = float(self.a).is_integer() or self.kind == "absolute_power" or self.lower >= 0.0
        _check(whole, "a power of negative numbers needs a whole a")
        _check(SMALLEST <= self.sensitivity <= LARGEST, "has too small or too large a range")

    @property
    def range(self) -> tuple[float, float]:
        """Least and greatest value of s within the bounds."""
        ends = self._raw(np.array([self.lower, self.upper]))
        low, high = float(ends.min()), float(ends.max())
        folds = self.kind == "absolute_power" or self.a % 2.0 == 0.0
        return (0.0 if folds and self.lower < 0.0 < self.upper else low), high

    @property
    def sensitivity(self) -> float:
        """Largest change of the sum of s over rows when one row is replaced."""
        low, high = self.range
        return high - low

    def of(self, x: Floats) -> Floats:
        """Return s of each number, clamped to the declared bounds first."""
        return self._raw(np.clip(np.asarray(x, np.float64), self.lower, self.upper))

    def _raw(self, x: Floats) -> Floats:
        base = np.abs(x) if self.kind == "absolute_power" else x
        with np.errstate(over="ignore"):  # refused by the check of the range
            return np.asarray(base**self.a)


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """Each binary row is told as it is with probability keep_probability, else flipped.

    Source: Warner 1965; thesis B, Example 6. Raises SpecError unless 1/2 < keep_probability < 1.
    """

    keep_probability: float

    def __post_init__(self) -> None:
        _check(0.5 < self.keep_probability < 1.0, "keep_probability must be above 1/2, below 1")

    @property
    def epsilon(self) -> float:
        """Pure epsilon of the release of all rows, under replace-one."""
        return math.log(self.keep_probability) - math.log1p(-self.keep_probability)

    def probability(self, theta: Floats) -> Floats:
        """Return the probability that a row is told as 1 where the rows' share of 1 is theta."""
        keep = self.keep_probability
        return np.asarray(1.0 - keep + (2.0 * keep - 1.0) * np.asarray(theta, np.float64))


@dataclass(frozen=True, slots=True)
class SmoothLaplaceNoise:
    """Laplace noise whose scale is 2 / epsilon times a beta-smooth sensitivity of the rows.

    rank: of the order statistic among n sorted values (1 to n). lower, upper: range of the
    values. The scale depends on rows, so that it is never shown; an inference that simulates
    rows gets it from them.
    """

    epsilon: float
    beta: float
    rank: int
    lower: float
    upper: float

    def law(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the centre and the scale of what is released of simulated rows; values (..., n):
        s of the rows, in any order."""
        ordered = np.sort(values, axis=-1)
        at = order_statistic(ordered, self.rank)
        limits = self.lower, self.upper
        smooth = smooth_sensitivity(ordered, self.rank, self.beta, *limits, simulated=True)
        return at, np.asarray(2.0 / self.epsilon * smooth)

    def log_density(self, released: float | Floats, values: Floats) -> Floats:
        """Return log p(released | rows); values as in `law`."""
        at, scale = self.law(values)
        return np.asarray(-np.abs(released - at) / scale - np.log(2.0 * scale))


Noise = GaussianNoise | LaplaceNoise | RandomisedResponse | SmoothLaplaceNoise


@dataclass(frozen=True, eq=False)
class Released:
    """What was released, and all that an inference needs to know of how.

    form: batch (one noisy sum of s over rows), sequential (s of each row with noise of its own, in
    an order that says nothing of the rows), median or maximum (of s over rows). values: (1,), or
    (rows,) where form is sequential; a batch is a SUM, not a mean. noise: of values;
    RandomisedResponse gives 0 and 1. cost: what it cost; None where it was simulated.
    """

    values: Floats
    noise: Noise
    statistic: Statistic
    rows: int
    form: Form
    cost: Cost | None = None


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise SpecError("/statistic", message)
