"""What a Newton path starts from: the opened rows of a job, and its public facts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.scores.base import Family, Floats
from dpmcmc.releases.whitening import CUT_RATIO, Whitening

RARE_CATEGORY_RATIO = 2.0  # times that, from which on a category is not rare


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows and public facts. x: (d, n). y: (n,). start, prior_mean, prior: (k d,) of coefficients.

    max_row_norm: largest norm of a row. scale: first value of that of the residuals.
    noise_multiplier: of all that is released. white: a whitening that has been paid for, or None.
    counted: (n,), see Block; None where no row may be left out. indicators: (d,) columns that are
    declared to hold only 0 and 1; none where None.
    """

    family: Family
    x: Floats
    y: Floats
    start: Floats
    prior_mean: Floats
    prior: Floats
    max_row_norm: float
    scale: float
    noise_multiplier: float
    fixed: bool = False
    white: Whitening | None = None
    counted: Floats | None = None
    indicators: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.start)

    @property
    def classes(self) -> int:
        """Number of predictors of a row."""
        return len(self.start) // len(self.x)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)


def rare_moments(problem: Problem, white: Whitening) -> Floats:
    """Return (p,) what moments of declared categories are not to be stretched below; else 0.

    Their rows have an indicator of 1 however few they are. Stretched to where they are round, few
    rows are long, cut and weighted down, and noise would stretch what it hides ever further. Common
    categories are left: what little they may vary by beside other columns, many rows tell.
    """
    if problem.indicators is None or not problem.family.scaled:
        return np.zeros(problem.size)
    back, least = np.linalg.inv(white.root), 1.0 / (CUT_RATIO * problem.size)
    rare = problem.indicators & ((back**2).sum(axis=0) < RARE_CATEGORY_RATIO * least)
    return np.asarray(rare * least)
