"""Normal rows about 0 of unknown variance. Source: thesis B, Example 4."""

from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.special import ndtr

from dpmcmc.queries.statistics.families.base import Floats, by_quadrature
from dpmcmc.queries.statistics.mechanisms import Statistic


@dataclass(frozen=True, slots=True)
class NormalVariance:
    """x ~ N(0, theta), theta above 0."""

    @property
    def name(self) -> str:
        """What theta is called in results."""
        return "variance"

    @property
    def range(self) -> tuple[float, float]:
        """Ends between which theta lies."""
        return 0.0, inf

    def rows(self, theta: Floats, z: Floats) -> Floats:
        """Return rows made of independent standard normals z."""
        return np.asarray(np.sqrt(theta) * z)

    def below(self, theta: Floats, x: float) -> Floats:
        """Return the probability that a row is below x."""
        return np.asarray(ndtr(x / np.sqrt(theta)))

    def moments(self, theta: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
        """Return mean and variance of the statistic of one row."""
        return by_quadrature(self, theta, statistic)
