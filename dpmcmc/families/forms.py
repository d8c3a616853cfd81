"""The public part of a model: all that follows from formula, bounds and job, and from no row.

A form maps positions, which samplers move, to what the kernels read: l = f(offset + weights . x; y)
per row. Positions are measured in public units, so that one step size suits all of them.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmcmc.families.priors import Normals
from dpmcmc.formula.design import Design
from dpmcmc.inputs.schema import Table
from dpmcmc.kernels.arithmetic.public import Public, describe, log_prior_gradient

Floats = NDArray[np.float64]


class Form(Protocol):
    """Rows and positions of a model. All arrays are (chain, ...) over positions.

    family: which of kernels/compiled/families. public: what kernels need to know of all this.
    start: (d,) where every chain begins. max_row_norm: the largest norm of a row of x. classes:
    number of linear predictors of a row, each with its own coefficients.
    """

    family: int
    public: Public
    start: Floats
    max_row_norm: float
    classes: int

    def rows(self, table: Table) -> tuple[Floats, Floats]:
        """Return covariates x (columns, n) and responses y (n,), clamped to their public bounds.

        A row that is left out has x = 0; where its likelihood would still count, y is NaN.
        """

    def describe(self, positions: Floats) -> tuple[Floats, Floats]:
        """Return linear weights (chain, columns) and kernel inputs aux (chain, 3) at positions."""

    def information_scale(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """Return the information (chain, d) and gradient size (chain,) here relative to the plan.

        Of a typical row at positions, over what the planner takes a typical row to have near the
        mode. moments: (d, d), mean of x x^T as it was released, if it is known. A guess that clips
        and step sizes hang on, and nothing else.
        """

    def log_prior_ratio(self, here: Floats, there: Floats) -> Floats:
        """Return log prior ratios (chain,) of moves from `here` to `there`."""

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return gradients (chain, d) of the log prior."""


class NormalForm:
    """Independent normal priors, and the public facts that all families share.

    prior_mean, prior_precision: (d,) in the units of positions.
    """

    family: int
    classes = 1
    public: Public
    prior_mean: Floats
    prior_precision: Floats
    design: Design

    def _facts(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        group: ArrayLike,
        response: tuple[float, float] = (0.0, 0.0),
    ) -> Public:
        """Return the public facts of the rows where positions are not transformed."""
        d = len(self.prior_mean)
        return Public(
            family=self.family,
            lower=np.array(lower, np.float64),
            upper=np.array(upper, np.float64),
            group=np.array(group, np.int64),
            response=np.array(response, np.float64),
            prior_mean=self.prior_mean,
            prior_precision=self.prior_precision,
            centre=np.zeros(d),
            unit=np.ones(d),
            bend=np.zeros(3),
            gaps=self.design.gaps,
        )

    def describe(self, positions: Floats) -> tuple[Floats, Floats]:
        """Return linear weights (chain, columns) and kernel inputs aux (chain, 3) at positions."""
        from dpmcmc.kernels.compiled import position_facts

        straight, aux = position_facts.describe_all(self.public, positions)
        return np.ascontiguousarray(straight[:, : len(self.public.lower)]), aux

    def information_scale(self, positions: Floats, _: Floats | None) -> tuple[Floats, Floats]:
        """Return ones (chain, d) and (chain,): the information does not depend on the position."""
        return np.ones(positions.shape), np.ones(len(positions))

    def log_prior_ratio(self, here: Floats, there: Floats) -> Floats:
        """Return (chain,) log prior ratios of moves from here to there (chain, d)."""
        from dpmcmc.kernels.compiled import position_facts

        return np.asarray(position_facts.log_prior_ratios(self.public, here, there))

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return (chain, d) gradients of the log prior at positions (chain, d)."""
        gradients, straight, aux = (
            np.empty(positions.shape),
            np.empty(positions.shape[1]),
            np.empty(3),
        )
        for position, gradient in zip(positions, gradients, strict=True):
            describe(self.public, position, straight, aux)
            log_prior_gradient(self.public, position, straight, gradient)
        return gradients


class DesignForm(NormalForm):
    """A linear predictor x^T theta over a public design, in one unit for all coefficients."""

    def __init__(
        self, design: Design, prior: Normals, response: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        """prior, in units of positions. response: the ends of y."""
        self.design, self.max_row_norm = design, design.max_norm
        self.start = self.prior_mean = prior[0]
        self.prior_precision = prior[1] ** -2.0
        self.public = self._facts(design.lower, design.upper, design.group, response)

    def rows(self, table: Table) -> tuple[Floats, Floats]:
        """Return covariates x (columns, n) and responses y (n,), clamped to their public bounds.

        A row that is left out has x = 0: its likelihood is constant in theta for any response.
        """
        x, y = self.design.build(table)
        return x, np.nan_to_num(y)


class GaussianForm(NormalForm):
    """Rows N(mean, 1) in units of their known sds, from the middle of their bounds."""
