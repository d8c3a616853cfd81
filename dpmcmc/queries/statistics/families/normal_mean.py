"""Normal rows of unknown mean and known standard deviation."""

from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.special import ndtr

from dpmcmc.base.errors import SpecError
from dpmcmc.queries.statistics.families.base import Floats, by_quadrature
from dpmcmc.queries.statistics.mechanisms import Statistic


@dataclass(frozen=True, slots=True)
class NormalMean:
    """x ~ N(theta, sd^2). sd: known, above 0. Raises SpecError."""

    sd: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.sd < float("inf"):
            raise SpecError("/family/sd", "must be above 0, finite")

    @property
    def name(self) -> str:
        """What theta is called in results."""
        return "mean"

    @property
    def range(self) -> tuple[float, float]:
        """Ends between which theta lies."""
        return -inf, inf

    def rows(self, theta: Floats, z: Floats) -> Floats:
        """Return rows made of independent standard normals z."""
        return np.asarray(theta + self.sd * z)

    def below(self, theta: Floats, x: float) -> Floats:
        """Return the probability that a row is below x."""
        return np.asarray(ndtr((x - theta) / self.sd))

    def moments(self, theta: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
        """Return mean and variance of the statistic of one row."""
        return by_quadrature(self, theta, statistic)
