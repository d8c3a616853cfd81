"""Intervals of summaries from released sums. Proof: docs/proofs/tables.md.

All take the noise's sd in the units of the released sums, `target` rows or population, and `reach`,
the normal quantile of the interval's level.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

Floats = NDArray[np.float64]
IntervalTarget = Literal["population", "rows"]
TINY, LARGEST_RATIO = 1e-100, 1e60  # that squares and fourth powers survive


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval. name: of the statistic and its part.

    dates: estimate, lower and upper as dates, where they are days of a column of dates.
    """

    name: str
    estimate: float
    lower: float
    upper: float
    dates: tuple[str, str, str] | None = None

    def __str__(self) -> str:
        estimate, lower, upper = self.dates or (
            f"{number:.4g}" for number in (self.estimate, self.lower, self.upper)
        )
        return f"{self.name}: {estimate}, 90 % from {lower} to {upper}"


def share(
    count: float, rows: float, sd: float, reach: float, target: IntervalTarget
) -> tuple[float, ...]:
    """Return estimate and interval of a cell's share of the rows, or of the population.

    count: noisy. Source: Wilson 1927, with the noise's variance added to the binomial one.
    """
    c = min(max(count, 0.0), float(rows))
    if target == "rows":
        low, high = (c - reach * sd) / rows, (c + reach * sd) / rows
    else:
        square = reach * reach
        a, b = rows * (rows + square), 2.0 * c * rows + square * rows
        root = math.sqrt(max(b * b - 4.0 * a * (c * c - square * sd * sd), 0.0))
        low, high = (b - root) / (2.0 * a), (b + root) / (2.0 * a)
    estimate = c / rows
    return estimate, max(min(low, estimate), 0.0), min(max(high, estimate), 1.0)


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and sd of standardised numbers, each (estimate, lower, upper) within its bounds."""

    mean: tuple[float, float, float]
    sd: tuple[float, float, float]


def moments(
    sums: Floats, rows: float, sd: float, missing: bool, reach: float, target: IntervalTarget
) -> Moments | None:
    """Return moments from noisy sums of (u, u^2, 1), sd the noise's in each; None where too noisy.

    missing: whether the number of complete rows is not public. Errors of the noise are to second
    order. The interval of the mean is Student's t with the effective degrees of freedom (Welch
    1947); that of the sd has all variances that a test does not reject, for rows with the tails of
    `_kurtosis`.
    """
    count = min(float(sums[2]), float(rows)) if missing else float(rows)
    if count <= 4.0 * sd * missing + 1.0:
        return None
    noise, first = (sd / count) ** 2, float(sums[0]) / count
    mean, second = min(max(first, -1.0), 1.0), min(max(float(sums[1]) / count, 0.0), 1.0)
    square = float(sums[1]) / count - first * first + noise
    error = noise * (1.0 + 4.0 * mean**2 + (second - 2.0 * mean**2) ** 2 * missing) + 2.0 * noise**2
    sampled = target == "population"
    variance = min(max(square * (count / (count - 1.0) if sampled else 1.0), 0.0), 1.0)
    spread = (_kurtosis(mean, variance) - 1.0) / (count - 1.0) if sampled else 0.0
    low, high = _variances(variance, error, reach, spread)
    noise_variance, sampling_variance = noise * (1.0 + mean**2 * missing), 0.0
    if sampled:
        sampling_variance = max(variance, math.sqrt(error)) / count
        degrees = (
            (count - 1.0) * ((noise_variance + sampling_variance) / sampling_variance) ** 2
            if sampling_variance
            else math.inf
        )
        reach = float(stdtrit(degrees, ndtr(reach)))
    half_width = reach * math.sqrt(noise_variance + sampling_variance)
    return Moments(
        (mean, max(mean - half_width, -1.0), min(mean + half_width, 1.0)),
        (math.sqrt(variance), math.sqrt(low), math.sqrt(high)),
    )


def _kurtosis(mean: float, variance: float) -> float:
    """Return the kurtosis that numbers in [-1, 1] are taken to have; a normal one's is 3.

    That of lognormal numbers above the nearer bound, as incomes, costs and times are, and no more
    than numbers within the bounds can have.
    """
    farthest = 1.0 + abs(mean)
    most = farthest**2 / max(variance, TINY)
    w = 1.0 + variance / max(1.0 - abs(mean), TINY) ** 2
    lognormal = w**4 + 2.0 * w**3 + 3.0 * w**2 - 3.0 if w < LARGEST_RATIO else math.inf
    return max(min(lognormal, most), 3.0)


def _variances(estimate: float, error: float, reach: float, share: float) -> tuple[float, float]:
    """Return the ends of all v in [0, 1] with (found - v)^2 <= reach^2 (error + share v^2)."""
    times, spared = reach**2 * share, estimate**2 - reach**2 * error
    inner = estimate**2 - (1.0 - times) * spared
    if inner < 0.0:  # of so few rows that none is refused
        return 0.0, 1.0
    root = estimate + math.sqrt(inner)
    low = spared / root if root > 0.0 else 0.0
    high = root / (1.0 - times) if times < 1.0 else 1.0
    return min(max(low, 0.0), estimate), max(min(high, 1.0), estimate)


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Noisy counts of a histogram, for quantiles. edges: (bins + 1,). sd: of one count's noise."""

    edges: Floats
    counts: Floats
    rows: float
    sd: float

    def quantile(
        self, at: float, reach: float, target: IntervalTarget
    ) -> tuple[float, float, float]:
        """Return estimate and interval of a quantile: all bins that a test does not reject.

        A bin is rejected where surely too many rows are below it, or too few up to its end: not
        where both its ends are surely off, as those are of a bin that most rows are in.
        """
        bins, below = len(self.counts), self._below()
        j = np.arange(bins + 1)
        variance = self.sd**2 * j * (bins - j) / bins
        if target == "population":
            variance = variance + self.rows * at * (1.0 - at)
        differences, most = below - at * self.rows, reach * np.sqrt(variance)
        middle = self._where(below, at * self.rows)
        middle_bin = min(int(np.searchsorted(self.edges, middle, side="right")), bins) - 1
        accepted = (differences[:-1] <= most[:-1]) & (differences[1:] >= -most[1:])
        held = [middle_bin, *np.flatnonzero(accepted).tolist()]
        return middle, float(self.edges[min(held)]), float(self.edges[max(held) + 1])

    def increasing(self) -> Floats:
        """Return counts (bins,) adjusted to be nonnegative, with the same total number of rows."""
        below = np.clip(_increasing(self._below()), 0.0, self.rows)
        below[[0, -1]] = 0.0, self.rows
        return np.diff(below)

    def _below(self) -> Floats:
        """Return the noisy counts of rows below each edge (bins + 1,), which end at all rows."""
        spare = (self.rows - self.counts.sum()) / len(self.counts)
        return np.concatenate(([0.0], np.cumsum(self.counts + spare)))

    def _where(self, below: Floats, rows: float) -> float:
        """Return the number at which the cumulative counts, made increasing, reach these rows."""
        return float(np.interp(rows, _increasing(below), self.edges))


def _increasing(below: Floats) -> Floats:
    """Return cumulative counts made nondecreasing (isotonic regression)."""
    highest = np.maximum.accumulate(below)
    return np.asarray(0.5 * (highest + np.minimum.accumulate(below[::-1])[::-1]))
