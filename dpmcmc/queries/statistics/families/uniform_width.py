"""Uniform rows about 0 of unknown half width. Source: thesis B, Example 5."""

from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.special import ndtr

from dpmcmc.queries.statistics.families.base import Floats, by_quadrature
from dpmcmc.queries.statistics.mechanisms import Statistic


@dataclass(frozen=True, slots=True)
class UniformWidth:
    """x ~ Uniform(-theta, theta), theta above 0."""

    @property
    def name(self) -> str:
        """What theta is called in results."""
        return "half_width"

    @property
    def range(self) -> tuple[float, float]:
        """Ends between which theta lies."""
        return 0.0, inf

    def rows(self, theta: Floats, z: Floats) -> Floats:
        """Return rows made of independent standard normals z."""
        return np.asarray(theta * (2.0 * ndtr(z) - 1.0))

    def below(self, theta: Floats, x: float) -> Floats:
        """Return the probability that a row is below x."""
        return np.clip(0.5 + 0.5 * x / theta, 0.0, 1.0)

    def moments(self, theta: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
        """Return mean and variance of the statistic of one row."""
        return by_quadrature(self, theta, statistic)
