"""Statistics of rows within declared bounds, and the distributions of their noise.

Everything here is public. Source: thesis B, chapters 3 and 4.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.planner import Cost
from dpmcmc.posterior.verdicts import Verdict

# Smooth sensitivity of order statistics. Proof: docs/proofs/smooth_laplace.md.
Floats = NDArray[np.float64]
LEAST_SHARE = 2.0**-20  # of the range of values: a smooth sensitivity is never below
LOG_SCALE_STEP = 2.0**-19  # of log scales: docs/proofs/smooth_laplace.md, section 3


def order_statistic(ordered: Floats, rank: int) -> Floats:
    """Return the value of this rank (1 to n) of values sorted along the last axis."""
    return np.asarray(ordered[..., rank - 1])


def reach(beta: float) -> int:
    """Return the number of replaced rows beyond which nothing exceeds LEAST_SHARE."""
    return math.ceil(-math.log(LEAST_SHARE) / beta)


def smooth_sensitivity(
    ordered: Floats, rank: int, beta: float, lower: float, upper: float, *, simulated: bool = False
) -> Floats:
    """Return a beta-smooth bound of the order statistic's local sensitivity, shape (...).

    simulated: whether the values are simulated, not private; the loop then stops early.

    ordered: (..., n), values within [lower, upper], sorted along the last axis. It is
    max_k e^(-k beta) max_t (v[rank + t] - v[rank + t - k - 1]), t from 0 to k + 1, values of ranks
    below 1 being lower and above n upper, or LEAST_SHARE of the range where that is more.
    Source: Nissim, Raskhodnikova & Smith 2007, section 3.1; thesis B, section 6.3.
    """
    n = ordered.shape[-1]
    most = min(reach(beta), n)
    shape = ordered.shape[:-1]
    below = np.full((*shape, most + 2), lower)
    above = np.full((*shape, most + 2), upper)
    padded = np.concatenate((below, ordered, above), axis=-1)
    position = most + 1 + rank  # where the order statistic is in padded
    largest = np.full(shape, LEAST_SHARE * (upper - lower))
    for k in range(most + 1):
        if simulated and (math.exp(-k * beta) * (upper - lower) <= largest).all():
            break
        upper_ends = padded[..., position : position + k + 2]
        lower_ends = padded[..., position - k - 1 : position + 1]
        local = (upper_ends - lower_ends).max(axis=-1)
        largest = np.maximum(largest, math.exp(-k * beta) * local)
    return np.asarray(largest)


def beta_of(epsilon: float, delta: float) -> float:
    """Return the largest beta so that noise of 2 / epsilon times a beta-smooth sensitivity is
    (epsilon, delta)-DP.

    The largest b with b <= epsilon / 2 and ln(1 / delta) (e^b - 1) - b <= epsilon / 2, less what
    rounding takes. epsilon: 1/32 to 32. delta: above 0, at most 1/3. Raises ValueError where
    nothing is left. Proof: docs/proofs/smooth_laplace.md.
    """
    width = math.log(1.0 / delta) + 2.0**-20
    low, high = 0.0, 0.5 * epsilon
    for _ in range(200):
        middle = 0.5 * (low + high)
        fits = width * math.expm1(middle) - middle <= (1.0 - 2.0**-30) * 0.5 * epsilon
        low, high = (middle, high) if fits else (low, middle)
    beta = low - LOG_SCALE_STEP
    if not beta > 0.0:
        raise ValueError("too small an epsilon for this delta")
    return beta


StatisticKind = Literal["power", "absolute_power"]
ReleaseForm = Literal["batch", "sequential", "median", "maximum"]
SMALLEST, LARGEST = 1e-100, 1e100  # of the range of a statistic


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Normal noise of mean 0. sd: above 0, in the unit of the released value."""

    sd: float

    def log_density(self, difference: Floats) -> Floats:
        """Return the log density at released minus true statistic, elementwise."""
        scaled = np.asarray(difference, np.float64) / self.sd
        return np.asarray(-0.5 * scaled * scaled - math.log(self.sd * math.sqrt(2.0 * math.pi)))


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Laplace noise of mean 0. scale: above 0, in the unit of the released value."""

    scale: float

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return math.sqrt(2.0) * self.scale

    def log_density(self, difference: Floats) -> Floats:
        """Return the log density at released minus true statistic, elementwise."""
        distance = np.abs(np.asarray(difference, np.float64))
        return np.asarray(-distance / self.scale - math.log(2.0 * self.scale))


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
        known = isinstance(self.kind, str) and self.kind in get_args(StatisticKind)
        _check(known, "is power or absolute_power")
        _check(0.0 < self.a <= 64.0, "needs a above 0, at most 64")
        defined = float(self.a).is_integer() or self.kind == "absolute_power" or self.lower >= 0.0
        _check(defined, "a power of negative numbers needs a whole a")
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
        """Return s of values that are within the bounds."""
        base = np.abs(x) if self.kind == "absolute_power" else x
        with np.errstate(over="ignore"):  # refused by the check of the range
            return np.asarray(base**self.a)


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """Each binary row is released unchanged with probability keep_probability, else flipped.

    Source: Warner 1965; thesis B, Example 6. Raises SpecError unless 1/2 < keep_probability < 1.
    """

    keep_probability: float

    def __post_init__(self) -> None:
        _check(
            0.5 < self.keep_probability < 1.0,
            "keep_probability must be more than 1/2 and less than 1",
        )

    @property
    def epsilon(self) -> float:
        """Pure epsilon of the release of all rows, under replace-one."""
        return math.log(self.keep_probability) - math.log1p(-self.keep_probability)

    def probability(self, theta: Floats) -> Floats:
        """Return the probability that a response is 1 where the share of ones is theta."""
        keep = self.keep_probability
        return np.asarray(1.0 - keep + (2.0 * keep - 1.0) * np.asarray(theta, np.float64))


@dataclass(frozen=True, slots=True)
class SmoothLaplaceNoise:
    """Laplace noise whose scale is 2 / epsilon times a beta-smooth sensitivity of the rows.

    rank: of the order statistic among n sorted values (1 to n). lower, upper: range of the
    values. The scale depends on the rows and is not released; an inference computes it from
    simulated rows.
    """

    epsilon: float
    beta: float
    rank: int
    lower: float
    upper: float

    def law(self, values: Floats) -> tuple[Floats, Floats]:
        """Return centre and scale of a release of simulated rows. values: (..., n) of s."""
        ordered = np.sort(values, axis=-1)
        centre = order_statistic(ordered, self.rank)
        limits = self.lower, self.upper
        smooth = smooth_sensitivity(ordered, self.rank, self.beta, *limits, simulated=True)
        return centre, np.asarray(2.0 / self.epsilon * smooth)

    def log_density(self, released: float | Floats, values: Floats) -> Floats:
        """Return log p(released | rows); values as in `law`."""
        centre, scale = self.law(values)
        return np.asarray(-np.abs(released - centre) / scale - np.log(2.0 * scale))


Noise = GaussianNoise | LaplaceNoise | RandomisedResponse | SmoothLaplaceNoise


@dataclass(frozen=True, eq=False)
class ReleasedStatistic:
    """A released statistic, with all that an inference needs.

    form: batch (one noisy sum of s over rows), sequential (s of each row with its own noise, in a
    random order), median or maximum (of s over rows). values: (1,), or (rows,) where form is
    sequential; a batch is a SUM, not a mean. noise: of values; RandomisedResponse gives 0 and 1.
    cost, verdict: None where it was simulated.
    """

    values: Floats
    noise: Noise
    statistic: Statistic
    rows: int
    form: ReleaseForm
    cost: Cost | None = None
    verdict: Verdict | None = None


def _check(condition: bool, message: str) -> None:
    """Raise SpecError with this message unless the condition holds."""
    if not condition:
        raise SpecError("/statistic", message)
