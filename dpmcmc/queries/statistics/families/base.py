"""The protocol of a family: simulated rows, and moments of a statistic."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpmcmc.queries.statistics.mechanisms import Statistic

Floats = NDArray[np.float64]
FARTHEST = 9.0  # sds of a standard normal: beyond are 1e-19 of its draws
STEP, STEPS = 0.08, 40  # of the tanh-sinh rule on one segment: to about 1e-10


class Family(Protocol):
    """Independent rows with one parameter theta. Both functions are elementwise and broadcast.

    Give `by_quadrature` as moments where none are known in closed form.
    """

    @property
    def name(self) -> str:
        """Name of theta in results."""

    @property
    def range(self) -> tuple[float, float]:
        """Bounds of theta."""

    def rows(self, theta: Floats, z: Floats) -> Floats:
        """Return rows made of independent standard normals z, nondecreasing in z."""

    def moments(self, theta: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
        """Return mean and variance of the statistic of one row, theta's shape."""


class Continuous(Protocol):
    """A family whose rows have a density."""

    def rows(self, theta: Floats, z: Floats) -> Floats:
        """Return rows made of independent standard normals z, nondecreasing in z."""

    def below(self, theta: Floats, x: float) -> Floats:
        """Return the probability that a row is below x."""


def _rule() -> tuple[Floats, Floats]:
    """Return nodes on (0, 1) and weights. Source: Takahasi and Mori 1974."""
    t = STEP * np.arange(-STEPS, STEPS + 1)
    inner = 0.5 * np.pi * np.sinh(t)
    weights = STEP * 0.25 * np.pi * np.cosh(t) / np.cosh(inner) ** 2
    return 1.0 / (1.0 + np.exp(-2.0 * inner)), weights / weights.sum()


NODES, WEIGHTS = _rule()


def by_quadrature(family: Continuous, theta: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
    """Return mean and variance of the statistic of one row, clamped as it is released.

    theta: (...). The range of a row is divided at 0, where |x|^a has a kink, at its median and at
    the bounds.
    """
    theta = np.asarray(theta, np.float64)
    ends = statistic.of(np.array([statistic.lower, statistic.upper]))
    edges = _edges(family, theta, statistic)
    widths = np.diff(edges, axis=0)[..., None]
    z = edges[:-1, ..., None] + widths * NODES
    mass = widths * WEIGHTS * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    s = statistic.of(family.rows(theta[..., None], z))
    outside = ndtr(edges[0]), ndtr(-edges[-1])  # of rows that are clamped
    mean = (mass * s).sum(axis=(0, -1)) + outside[0] * ends[0] + outside[1] * ends[1]
    squares = (mass * (s - mean[..., None]) ** 2).sum(axis=(0, -1))
    squares += outside[0] * (ends[0] - mean) ** 2 + outside[1] * (ends[1] - mean) ** 2
    return mean, squares


def _edges(family: Continuous, theta: Floats, statistic: Statistic) -> Floats:
    """Return the edges of the pieces of the rule, as normal quantiles: (edges, ...), sorted."""
    kinks = {statistic.lower, min(max(0.0, statistic.lower), statistic.upper), statistic.upper}
    normals = np.stack([ndtri(family.below(theta, x)) for x in sorted(kinks)])
    normals = np.clip(normals, -FARTHEST, FARTHEST)
    median = np.clip(0.0, normals[0], normals[-1])
    return np.sort(np.concatenate((normals, median[None])), axis=0)
