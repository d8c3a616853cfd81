"""How the scores of a category's rows change with their coefficient b, where that is no line.

With a log link the expected count is the one at the place times exp(b). Counts and the residuals of
linear models are clipped as well, beyond which a score says nothing more.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from dpmcmc.mechanisms.joint_sums import Floats

LEAST_SD = 0.05  # of a coefficient: below it exp(b) is a line
STRAIGHT = 0.5  # of the residuals' sd: changes below it are on the line of a score
POINTS = 161  # of each grid
RATE_SDS, PRIOR_SDS = 8.0, 6.0  # how far they reach
SMALLEST_RATE, LARGEST_LOG_RATE = 1e-3, 50.0  # over the one at the place


class Response(Protocol):
    """How the score of a category's rows changes with their coefficient."""

    def told(self, change: Floats) -> tuple[Floats, Floats]:
        """Return the score's change over its slope, and its variance over that at the place."""

    def straight(self, off: float) -> bool:
        """Whether the score is a line for changes of this size."""

    def grid(self, step: Floats, sd: Floats, prior: tuple[float, float]) -> Floats:
        """Return changes (k, m) in order, where the likelihood or the prior may have weight."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a log link. expected: count of a row at the place. room: what is added before the clip."""

    expected: float
    room: float

    def told(self, change: Floats) -> tuple[Floats, Floats]:
        """Return expm1(b) and exp(b), where no count is clipped."""
        each = 1e-3
        about, spread = self._clipped(np.array([-each, 0.0, each]))
        middle, variance = self._clipped(change)
        slope = 0.5 * (about[2] - about[0]) / each
        return np.asarray((middle - about[1]) / slope), np.asarray(variance / spread[1])

    def straight(self, off: float) -> bool:
        """Whether exp(b) is a line."""
        return off < LEAST_SD

    def grid(self, step: Floats, sd: Floats, prior: tuple[float, float]) -> Floats:
        """Return changes that are even in the rate, and over the prior."""
        most = np.maximum(1.0 + step + RATE_SDS * sd, SMALLEST_RATE)
        least = np.maximum(1.0 + step - RATE_SDS * sd, SMALLEST_RATE * most)
        return _sorted(np.log(np.linspace(least, most, POINTS, axis=1)), _over(prior))

    def _clipped(self, change: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of a count, taken as normal, less `expected`, clipped."""
        rate = self.expected * np.exp(np.clip(change, -LARGEST_LOG_RATE, LARGEST_LOG_RATE))
        return clipped(rate - self.expected, np.sqrt(rate), self.room)


@dataclass(frozen=True, slots=True)
class Residuals:
    """Of normal errors. sd: of them. room: at which they are cut. slope: that was released."""

    sd: float
    room: float
    slope: float

    def told(self, change: Floats) -> tuple[Floats, Floats]:
        """Return the mean of a cut residual over the slope, and its variance over that at 0."""
        middle, variance = clipped(change, self.sd, self.room)
        return middle / self.slope, variance / clipped(np.zeros(1), self.sd, self.room)[1]

    def straight(self, off: float) -> bool:
        """Whether changes are small beside the residuals."""
        return off < STRAIGHT * self.sd

    def grid(self, step: Floats, sd: Floats, prior: tuple[float, float]) -> Floats:
        """Return changes around the step, where the score bends, and over the prior."""
        off, far = RATE_SDS * sd, RATE_SDS * self.sd + self.room
        near = np.linspace(step - off, step + off, POINTS, axis=1)
        return _sorted(near, np.linspace(-far, far, POINTS), _over(prior))


def clipped(off: Floats, sd: Floats | float, room: float) -> tuple[Floats, Floats]:
    """Return mean and variance of off + sd Z, clipped to -+ room."""
    low, high = (-room - off) / sd, (room - off) / sd
    between, below, above = ndtr(high) - ndtr(low), ndtr(low), ndtr(-high)
    first, last = _density(low), _density(high)
    mean = off * between - sd * (last - first) + room * (above - below)
    square = (off * off + sd * sd) * between - 2.0 * off * sd * (last - first)
    square += sd * sd * (low * first - high * last) + room * room * (above + below)
    return np.asarray(mean), np.asarray(np.maximum(square - mean * mean, 0.0))


def _density(at: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * at * at) / np.sqrt(2.0 * np.pi))


def _over(prior: tuple[float, float]) -> Floats:
    reach = PRIOR_SDS / np.sqrt(prior[1])
    return np.linspace(prior[0] - reach, prior[0] + reach, POINTS)


def _sorted(first: Floats, *others: Floats) -> Floats:
    """Return the union (k, m) of a grid (k, .) and others (.,), in order."""
    return np.sort(
        np.concatenate((first, *(np.broadcast_to(other, first.shape) for other in others)), axis=1),
        axis=1,
    )
