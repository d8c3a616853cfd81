"""The public half of a model: what follows from a formula, bounds and a job, and never from a row.

A form maps positions, which samplers move, to what the kernels read: l = f(offset + weights . x; y)
per row. Positions are measured in public units, so that one step size suits all of them.
"""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.design import Design
from dpmcmc.schema import Table

Floats = NDArray[np.float64]
FURTHEST = 1e100  # of a derivative: its square is finite
WIDEN = 2.0**-40  # of an interval, against rounding


class Form(Protocol):
    """What a family says about rows and positions. All arrays are (chain, ...) over positions.

    link: which f of dpmcmc/kernels/rows.py. start: (d,) where every chain begins. reach: the
    largest norm of a row of x.
    """

    link: int
    start: Floats
    reach: float

    def rows(self, table: Table) -> tuple[Floats, Floats]:
        """Return (x (columns, n), y (n,)), forced into their public bounds."""

    def describe(self, positions: Floats) -> tuple[Floats, Floats]:
        """Return (weights (chain, columns), aux (chain, 3)) at positions (chain, d)."""

    def column(self, j: int) -> int | None:
        """Return the one weight that coefficient j moves; None where it moves several."""

    def interval(self, here: Floats, there: Floats) -> tuple[Floats, Floats]:
        """Return (lo, hi), (chain,) each: every row's log likelihood ratio lies in between.

        For all rows within the declared bounds. The move back has (-hi, -lo).
        """

    def component_interval(self, here: Floats, j: int, deltas: Floats) -> tuple[Floats, Floats]:
        """As interval, where coefficient j of each chain moves by deltas (chain,)."""

    def growth(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """Return (information (chain, d), gradients (chain,)): how much larger than planned.

        Of a typical row at positions, over what the planner takes a typical row to have near the
        mode. moments: (d, d), mean of x x^T as it was released, if it is known. A guess that clips
        and step sizes hang on, and nothing else.
        """

    def log_prior_ratio(self, here: Floats, there: Floats) -> Floats:
        """Return (chain,) log prior ratios."""

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return (chain, d)."""


class NormalForm(ABC):
    """Independent normal priors, and intervals that need no more than the two ends of a move.

    prior_mean, prior_precision: (d,) in the units of positions.
    """

    prior_mean: Floats
    prior_precision: Floats

    def column(self, j: int) -> int | None:
        """See Form."""
        return j

    @abstractmethod
    def interval(self, here: Floats, there: Floats) -> tuple[Floats, Floats]:
        """See Form."""

    def component_interval(self, here: Floats, j: int, deltas: Floats) -> tuple[Floats, Floats]:
        """See Form."""
        there = here.copy()
        there[:, j] += deltas
        return self.interval(here, there)

    def growth(self, positions: Floats, _: Floats | None) -> tuple[Floats, Floats]:
        """See Form."""
        return np.ones(positions.shape), np.ones(len(positions))

    def log_prior_ratio(self, here: Floats, there: Floats) -> Floats:
        """See Form."""
        middle = 0.5 * (here + there) - self.prior_mean
        return np.asarray(((here - there) * middle * self.prior_precision).sum(axis=1))

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """See Form."""
        return np.asarray(-self.prior_precision * (positions - self.prior_mean))


class DesignForm(NormalForm):
    """A linear predictor x^T theta over a public design; one unit of position for all of theta."""

    def __init__(self, design: Design, scale: float) -> None:
        """scale: sd of the prior, in units of positions."""
        d = len(design.parameters)
        self.design, self.reach, self.hull = design, design.max_norm, Hull(design)
        self.start = self.prior_mean = np.zeros(d)
        self.prior_precision = np.full(d, scale**-2)

    def rows(self, table: Table) -> tuple[Floats, Floats]:
        """See Form."""
        return self.design.build(table)

    def describe(self, positions: Floats) -> tuple[Floats, Floats]:
        """See Form."""
        return np.ascontiguousarray(positions), np.zeros((len(positions), 3))


class GaussianForm(NormalForm):
    """Rows N(mean, 1) in units of their known sds, from the middle of their bounds."""

    @abstractmethod
    def moments(self, positions: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (mean (chain, d), precision (d,), shear (chain,)); see gaussian_gradients."""

    def information(self, positions: Floats) -> Floats:
        """Return (chain, d, d), what one row tells of positions: public and the same for all."""
        _, precision, shear = self.moments(positions)
        jacobian = np.tile(np.diag(precision), (len(positions), 1, 1))
        bent = shear * precision[1 % len(precision)]
        jacobian[:, 1 % len(precision), 0] += np.clip(bent, -FURTHEST, FURTHEST)
        return np.asarray(jacobian.transpose(0, 2, 1) @ jacobian)


class Hull:
    """Ranges of x^T v over all rows that a public design allows."""

    def __init__(self, design: Design) -> None:
        self._lower, self._upper = np.array(design.lower), np.array(design.upper)
        group = np.array(design.group)
        self._starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        self._several = np.diff(np.r_[self._starts, len(group)]) > 1

    def __call__(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return (low, high), (chain,) each, for vectors (chain, d).

        Interval arithmetic over terms; of a term with several columns at most one is not zero.
        """
        first, second = vectors * self._lower, vectors * self._upper
        low = np.minimum.reduceat(np.minimum(first, second), self._starts, axis=1)
        high = np.maximum.reduceat(np.maximum(first, second), self._starts, axis=1)
        low = np.where(self._several, np.minimum(low, 0.0), low)
        high = np.where(self._several, np.maximum(high, 0.0), high)
        return low.sum(axis=1), high.sum(axis=1)


def product_range(a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the ends of {u v : u in a, v in b}."""
    corners = np.stack([u * v for u in a for v in b])
    return corners.min(axis=0), corners.max(axis=0)


def widened(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the interval a little wider, the same from both sides."""
    slack = WIDEN * np.maximum(np.abs(low), np.abs(high))
    return low - slack, high + slack
