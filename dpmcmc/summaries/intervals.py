"""Intervals of summaries from noisy sums. Made of what was released. Proof: docs/proofs/tables.md.

All take the noise's sd in the units of what was released, `target` rows or population, and `reach`,
the normal quantile of the interval's level.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Target = Literal["population", "rows"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval. name: of the statistic and its part."""

    name: str
    estimate: float
    lower: float
    upper: float


def share(count: float, rows: int, sd: float, reach: float, target: Target) -> tuple[float, ...]:
    """Return estimate and interval of a cell's share of the rows, or of the population.

    count: noisy. Source: Wilson 1927, with the noise's variance beside the binomial one.
    """
    c = min(max(count, 0.0), float(rows))
    if target == "rows":
        low, high = (c - reach * sd) / rows, (c + reach * sd) / rows
    else:
        square = reach * reach
        a, b = rows * (rows + square), 2.0 * c * rows + square * rows
        root = math.sqrt(max(b * b - 4.0 * a * (c * c - square * sd * sd), 0.0))
        low, high = (b - root) / (2.0 * a), (b + root) / (2.0 * a)
    return c / rows, max(low, 0.0), min(high, 1.0)


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and sd of standardised numbers from noisy sums, with the variances of their errors."""

    mean: float
    spread: float
    mean_variance: float
    spread_variance: float


def moments(sums: Floats, rows: int, sd: float, missing: bool, target: Target) -> Moments | None:
    """Return moments from noisy sums of (u, u^2, 1), sd the noise's in each; None where too noisy.

    missing: whether the number of complete rows is not public. To first order in the errors; the
    sd's sampling error is that of a normal distribution.
    """
    count = float(sums[2]) if missing else float(rows)
    if count <= 4.0 * sd * missing + 1.0:
        return None
    mean = min(max(float(sums[0]) / count, -1.0), 1.0)
    second = float(sums[1]) / count
    spread2 = max(second - mean * mean, (sd / count) ** 2)
    noise = (sd / count) ** 2
    mean_variance = noise * (1.0 + mean * mean * missing)
    spread2_variance = noise * (1.0 + 4.0 * mean * mean + (second - 2.0 * mean**2) ** 2 * missing)
    if target == "population":
        mean_variance += spread2 / count
        spread2_variance += 2.0 * spread2**2 / count
    return Moments(mean, math.sqrt(spread2), mean_variance, spread2_variance / (4.0 * spread2))


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Noisy counts of a histogram, summed up. edges: (bins + 1,). sd: of one count's noise."""

    edges: Floats
    counts: Floats
    rows: int
    sd: float

    def quantile(self, at: float, reach: float, target: Target) -> tuple[float, float, float]:
        """Return estimate and interval of a quantile: all edges that are not refused (test
        inversion), and the bins on either side."""
        bins = len(self.counts)
        spare = (self.rows - self.counts.sum()) / bins
        below = np.concatenate(([0.0], np.cumsum(self.counts + spare)))
        j = np.arange(bins + 1)
        variance = self.sd**2 * j * (bins - j) / bins
        if target == "population":
            variance = variance + self.rows * at * (1.0 - at)
        off = below - at * self.rows
        kept = np.abs(off) <= reach * np.sqrt(variance)
        middle = self._where(below, at * self.rows)
        first = int(np.searchsorted(self.edges, middle, side="right")) - 1
        inside = np.flatnonzero(kept)
        low = min([*inside.tolist(), first + 1]) - 1
        high = max([*inside.tolist(), first]) + 1
        return middle, float(self.edges[max(low, 0)]), float(self.edges[min(high, bins)])

    def _where(self, below: Floats, wanted: float) -> float:
        """Return where the cumulative counts, made to increase, pass a number of rows."""
        rising = 0.5 * (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1])
        return float(np.interp(wanted, rising, self.edges))
