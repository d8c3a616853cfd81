"""Mean, sd and quantiles of a quantity over draws."""

from dataclasses import dataclass

import numpy as np

from dpmcmc.posterior.diagnostics import QUANTILES
from dpmcmc.posterior.free.priors import Floats
from dpmcmc.posterior.summary_table import rounded


@dataclass(frozen=True, slots=True)
class Spread:
    """How a quantity is spread over the draws: its 90 % interval is from q05 to q95."""

    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float

    def __str__(self) -> str:
        """Return the mean and the 90 % interval."""
        mean, low, high = (rounded(one, self.sd) for one in (self.mean, self.q05, self.q95))
        return f"{mean}, 90 % from {low} to {high}"


def spread(values: Floats) -> Spread:
    """Return how values (draw,) are spread."""
    sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Spread(float(values.mean()), sd, *(float(q) for q in np.quantile(values, QUANTILES)))
