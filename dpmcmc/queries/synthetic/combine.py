"""Rubin's rules for fully synthetic tables.

Each table is as a fresh sample of rows: what estimates vary by between tables is their posterior's
variance and, once more, the variance within a table, which is therefore taken off. Source:
Raghunathan, Reiter & Rubin 2003; Reiter 2002 for variances that would be negative.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Combined:
    """Estimates, one of each quantity, (quantities,). sd: standard errors, of rows and of noise.

    freedom: degrees of freedom of the t distribution of an error over its sd.
    """

    estimate: Floats
    sd: Floats
    freedom: Floats

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of intervals of this level. Raises ValueError unless 0 < level < 1."""
        if not 0.0 < level < 1.0:
            raise ValueError("level must lie between 0 and 1")
        reach = stdtrit(self.freedom, 0.5 + 0.5 * level) * self.sd
        return self.estimate - reach, self.estimate + reach


def combine(estimates: ArrayLike, variances: ArrayLike, share: float = 1.0) -> Combined:
    """Combine the same analysis of m synthetic tables.

    estimates, variances: (m,) or (m, quantities), the latter squared standard errors as the
    analysis gives them for a table that it takes for real. share: rows of a synthetic table over
    the real number of rows. The variance is (1 + 1/m) b - v for b the estimates' variance between
    tables and v the mean of the variances, and share * v where that is not positive.
    Raises ValueError with fewer than two tables, or shapes that differ.
    """
    q, v = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if q.shape != v.shape or q.ndim not in (1, 2) or len(q) < 2:
        raise ValueError("estimates and variances must be of the same two or more tables")
    q, v = q.reshape(len(q), -1), v.reshape(len(v), -1)
    between, inside = (1.0 + 1.0 / len(q)) * q.var(axis=0, ddof=1), v.mean(axis=0)
    total = between - inside
    positive = total > 0.0
    ratio = np.divide(total, between, out=np.ones_like(total), where=positive)
    freedom = np.where(positive, (len(q) - 1) * ratio**2, len(q) - 1.0)
    sd = np.sqrt(np.where(positive, total, share * inside))
    return Combined(q.mean(axis=0), sd, np.maximum(freedom, 1.0))
