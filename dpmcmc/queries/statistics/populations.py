"""Distributions of rows with one unknown parameter: moments of statistics, and simulation.

Rows are clamped to the declared bounds of a statistic as the release clamps them. Source: thesis B,
Examples 3 to 6.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource, Shape
from dpmcmc.queries.statistics.mechanisms import Statistic

Floats = NDArray[np.float64]
FARTHEST = 14.0  # sds: beyond lies a probability below 1e-43
_T = np.linspace(-4.0, 4.0, 257)  # of tanh-sinh quadrature; its error is below 1e-14
ROUNDING = 1e-14  # relative to a mean: smaller deviations from it count as 0


class Nodes(NamedTuple):
    """Points x, their probabilities, and the derivatives of these by the parameter."""

    x: Floats
    weights: Floats
    slopes: Floats


class Moments(NamedTuple):
    """Mean and variance of s of one row, and their derivatives by the parameter."""

    mean: float
    variance: float
    mean_slope: float
    variance_slope: float


class Population(Protocol):
    """A distribution of rows. theta: its parameter, between the ends of range."""

    range: ClassVar[tuple[float, float]]

    def nodes(self, theta: float, breaks: tuple[float, ...]) -> Nodes:
        """Return points that integrate functions which are smooth between the breaks."""

    def sample(self, random: RandomSource, theta: float, shape: Shape) -> Floats:
        """Return independent rows."""

    def score(self, x: Floats, theta: float) -> Floats:
        """Return the derivative of the log density by theta. Raises ValueError where the support
        depends on theta: Fisher's identity does not hold then."""


def moments(population: Population, statistic: Statistic, theta: float) -> Moments:
    """Return moments of s of one row, by quadrature: clamping to the bounds included."""
    x, weights, slopes = population.nodes(theta, breaks_of(statistic))
    s = statistic.of(x)
    mean = float(weights @ s)
    deviations = s - mean
    squares = np.where(np.abs(deviations) > ROUNDING * abs(mean), deviations, 0.0) ** 2
    return Moments(mean, float(weights @ squares), float(slopes @ s), float(slopes @ squares))


def breaks_of(statistic: Statistic) -> tuple[float, ...]:
    """Return the points at which s is not smooth."""
    return (statistic.lower, 0.0, statistic.upper)


@dataclass(frozen=True, slots=True)
class NormalMean:
    """N(theta, sd^2), sd known."""

    range: ClassVar = (-math.inf, math.inf)
    sd: float = 1.0

    def nodes(self, theta: float, breaks: tuple[float, ...]) -> Nodes:
        """Return points that integrate functions which are smooth between the breaks."""
        reach = FARTHEST * self.sd
        x, steps = _pieces(theta - reach, theta + reach, (*breaks, theta))
        weights = steps * _normal((x - theta) / self.sd) / self.sd
        return Nodes(x, weights, weights * self.score(x, theta))

    def sample(self, random: RandomSource, theta: float, shape: Shape) -> Floats:
        """Return independent rows."""
        return theta + self.sd * random.normals(shape)

    def score(self, x: Floats, theta: float) -> Floats:
        """Return the derivative of the log density by theta."""
        return np.asarray((x - theta) / self.sd**2)


@dataclass(frozen=True, slots=True)
class NormalVariance:
    """N(0, theta), theta > 0 its variance."""

    range: ClassVar = (0.0, math.inf)

    def nodes(self, theta: float, breaks: tuple[float, ...]) -> Nodes:
        """Return points that integrate functions which are smooth between the breaks."""
        sd = math.sqrt(theta)
        x, steps = _pieces(-FARTHEST * sd, FARTHEST * sd, (*breaks, 0.0))
        weights = steps * _normal(x / sd) / sd
        return Nodes(x, weights, weights * self.score(x, theta))

    def sample(self, random: RandomSource, theta: float, shape: Shape) -> Floats:
        """Return independent rows."""
        return math.sqrt(theta) * random.normals(shape)

    def score(self, x: Floats, theta: float) -> Floats:
        """Return the derivative of the log density by theta."""
        return np.asarray((x * x / theta - 1.0) / (2.0 * theta))


@dataclass(frozen=True, slots=True)
class UniformWidth:
    """Uniform on (-theta, theta), theta > 0."""

    range: ClassVar = (0.0, math.inf)

    def nodes(self, theta: float, breaks: tuple[float, ...]) -> Nodes:
        """Return points that integrate functions which are smooth between the breaks; the ends of
        the support have a derivative of their own."""
        x, steps = _pieces(-theta, theta, (*breaks, 0.0))
        inside, ends = steps / (2.0 * theta), np.array([-theta, theta])
        slopes = np.concatenate((-inside / theta, np.full(2, 0.5 / theta)))
        return Nodes(np.append(x, ends), np.append(inside, np.zeros(2)), slopes)

    def sample(self, random: RandomSource, theta: float, shape: Shape) -> Floats:
        """Return independent rows."""
        return theta * (2.0 * random.uniforms(shape) - 1.0)

    def score(self, x: Floats, theta: float) -> Floats:  # noqa: ARG002
        """Raise ValueError: the support depends on theta."""
        raise ValueError("the support of a uniform law depends on its width")


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """1 with probability theta, else 0."""

    range: ClassVar = (0.0, 1.0)

    def nodes(self, theta: float, breaks: tuple[float, ...]) -> Nodes:  # noqa: ARG002
        """Return both points."""
        weights = np.array([1.0 - theta, theta])
        return Nodes(np.array([0.0, 1.0]), weights, np.array([-1.0, 1.0]))

    def sample(self, random: RandomSource, theta: float, shape: Shape) -> Floats:
        """Return independent rows."""
        return (random.uniforms(shape) < theta).astype(np.float64)

    def score(self, x: Floats, theta: float) -> Floats:
        """Return the derivative of the log probability by theta."""
        return np.asarray(np.where(x == 1.0, 1.0 / theta, -1.0 / (1.0 - theta)))


POPULATIONS: dict[str, type[Population]] = {
    "bernoulli": Bernoulli,
    "normal_mean": NormalMean,
    "normal_variance": NormalVariance,
    "uniform_width": UniformWidth,
}


def _normal(z: Floats) -> Floats:
    """Return the standard normal density."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi))


def _pieces(low: float, high: float, breaks: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return nodes and steps of tanh-sinh quadrature between all breaks within (low, high).

    Functions may be singular at breaks. Source: Takahasi & Mori 1974.
    """
    inner = sorted({b for b in breaks if low < b < high})
    ends = np.array([low, *inner, high])
    a, b = ends[:-1, None], ends[1:, None]
    y = 0.5 * math.pi * np.sinh(_T)
    near = (b - a) / (1.0 + np.exp(2.0 * np.abs(y)))  # distance to the nearer end
    x = np.where(y < 0.0, a + near, b - near)
    rate = 0.5 * math.pi * np.cosh(_T) / np.cosh(y) ** 2
    return x.ravel(), (0.5 * (b - a) * rate * (_T[1] - _T[0])).ravel()
