"""Binary rows with an unknown share of ones. Source: thesis B, Example 6."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpmcmc.queries.statistics.families.base import Floats
from dpmcmc.queries.statistics.mechanisms import Statistic


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """x is 1 with probability theta, else 0."""

    @property
    def name(self) -> str:
        """What theta is called in results."""
        return "share"

    @property
    def range(self) -> tuple[float, float]:
        """Ends between which theta lies."""
        return 0.0, 1.0

    def rows(self, theta: Floats, z: Floats) -> Floats:
        """Return rows made of independent standard normals z."""
        return np.asarray(z > -ndtri(theta), np.float64)

    def moments(self, theta: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
        """Return mean and variance of the statistic of one row."""
        at_zero, at_one = statistic.of(np.array([0.0, 1.0]))
        share = np.asarray(theta, np.float64)
        return at_zero + (at_one - at_zero) * share, (at_one - at_zero) ** 2 * share * (1.0 - share)
