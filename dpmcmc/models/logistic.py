"""Logistic regression of a binary column over a public design."""

import math

import numpy as np
from numpy.typing import NDArray

from dpmcmc.design import POINTER, Design, Factor, column_of
from dpmcmc.errors import SpecError
from dpmcmc.models.base import Floats, Guess, Model
from dpmcmc.models.logistic_bounds import component_interval, vector_interval
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema, Table
from dpmcmc.spec import JobSpec

TYPICAL = 0.75  # standard deviation of a coefficient that the planner thinks plausible
OFF, FILL = 0.1, 0.42  # mean and sd of a number within [-1, 1], as columns lie in good bounds
NUDGE = 1e-3  # the move at which widths are read
SLACK = 2.0**-40  # nats that float rounding can add to one row's share of a sum, generously
SHRINK = 1.0 - 2.0**-40  # swallows the rounding of a clip


def term_grid(bound: float, rows: int) -> float:
    """Return the power of two on which `rows` terms of at most this size add up exactly."""
    digits = min(30, 52 - math.ceil(math.log2(rows + 1.0)))
    return float(2.0 ** (math.ceil(math.log2(bound)) - digits))


def check(schema: Schema, design: Design) -> None:
    """Refuse a response that is not a binary column."""
    if not isinstance(column_of(schema, design.response), BinaryColumn):
        raise SpecError(POINTER, "logistic regression needs a binary column as its response")


class LogisticTarget:
    """Rows, positions and cached odds of all chains. Prior: independent Normal(0, scale^2).

    Implements `dpmcmc.samplers.base.Target`; sensitivities are derived in
    docs/proofs/dp_penalty.md.
    """

    def __init__(self, design: Design, spec: JobSpec, table: Table, chains: int) -> None:
        from dpmcmc.kernels import logistic as kernels

        self._kernels = kernels
        x, y = design.build(table)
        self._sx = np.ascontiguousarray(x * (2.0 * y - 1.0))
        self._norms = np.sqrt((self._sx**2).sum(axis=0))
        self._reach = design.max_norm
        self._lower = np.array(design.lower)
        self._upper = np.array(design.upper)
        self._group = np.array(design.group)
        self._bound = spec.sampler.clip_bound or math.inf
        self.rows = table.rows
        self.tempering = spec.model.tempering or 1.0
        self._precision = spec.model.prior.scale**-2
        self.position: Floats = np.zeros((chains, x.shape[0]))
        self._odds = np.empty((chains, table.rows))

    def refresh(self) -> None:
        """Recompute the odds of every row and chain."""
        self._kernels.refresh(self._sx, self.position, self._odds)

    def component_ratios(self, j: int, deltas: Floats) -> tuple[Floats, Floats, Floats]:
        """See Target."""
        lo, hi = self._kernels.component_intervals(
            self.position, j, deltas, self._lower, self._upper, self._group, self._bound
        )
        sums = self._kernels.component_ratios(self._sx, self._odds, j, deltas, lo, hi)
        prior = -self._precision * deltas * (self.position[:, j] + 0.5 * deltas)
        return self.tempering * sums, self._sensitivity(lo, hi), prior

    def component_commit(self, j: int, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """See Target."""
        self._kernels.component_commit(self._sx, self._odds, j, deltas, accepted)
        self.position[accepted, j] += deltas[accepted]

    def vector_ratios(self, deltas: Floats) -> tuple[Floats, Floats, Floats]:
        """See Target."""
        lo, hi = self._kernels.vector_intervals(
            self.position, deltas, self._lower, self._upper, self._group, self._bound
        )
        sums = self._kernels.vector_ratios(self._sx, self._odds, deltas, lo, hi)
        return self.tempering * sums, self._sensitivity(lo, hi), self.log_prior_ratio(deltas)

    def vector_commit(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """See Target."""
        self.position[accepted] += deltas[accepted]
        self._kernels.vector_commit(self._sx, self._odds, deltas, accepted)

    def move(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """See Target."""
        self.position[accepted] += deltas[accepted]

    def gradient(self, positions: Floats, clip: float) -> tuple[Floats, float]:
        """See Target. Proof: docs/proofs/gaussian_release.md, sections 1 and 2."""
        bound = self.tempering * clip
        grid = term_grid(bound, self.rows)
        slopes = 1.0 / (1.0 + np.exp(np.clip(positions @ self._sx, -700.0, 700.0)))
        shrink = clip / np.maximum(slopes * self._norms, clip)
        factors = slopes * shrink * (self.tempering * SHRINK / grid)
        sums = [np.trunc(f * self._sx).sum(axis=1) for f in factors]
        return grid * np.array(sums), 2.0 * bound

    def gram(self, positions: Floats, bound: float) -> tuple[Floats, float]:
        """See Target. Proof: docs/proofs/gaussian_release.md, section 1."""
        largest = self.tempering * bound * self._reach**2
        grid = term_grid(largest, self.rows)
        odds = np.exp(np.clip(positions @ self._sx, -350.0, 350.0))
        weights = np.minimum(odds / (1.0 + odds) ** 2, bound) * (self.tempering * SHRINK / grid)
        d = len(self._sx)
        sums = np.empty((len(weights), d, d))
        for c, weight in enumerate(weights):
            for j in range(d):
                sums[c, j] = np.trunc(weight * self._sx[j] * self._sx).sum(axis=1)
        return grid * sums, math.sqrt(2.0) * largest + 2.0 * grid * d

    def batch_ratios(
        self, deltas: Floats, indices: NDArray[np.int64]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """See Target."""
        lo, hi = self._kernels.vector_intervals(
            self.position, deltas, self._lower, self._upper, self._group, self._bound
        )
        sums, squares = np.empty(len(lo)), np.empty(len(lo))
        for c, batch in enumerate(indices):
            margins = self.position[c] @ self._sx[:, batch]
            moved = margins + deltas[c] @ self._sx[:, batch]
            ratios = np.logaddexp(0.0, -margins) - np.logaddexp(0.0, -moved)
            ratios = np.clip(ratios, lo[c], hi[c])
            sums[c], squares[c] = ratios.sum(), (ratios * ratios).sum()
        return sums, squares, lo, hi

    def log_prior_ratio(self, deltas: Floats) -> Floats:
        """See Target."""
        ratios: Floats = -self._precision * (deltas * (self.position + 0.5 * deltas)).sum(axis=1)
        return ratios

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """See Target."""
        return -self._precision * positions

    def _sensitivity(self, lo: Floats, hi: Floats) -> Floats:
        """One row replaced: its clipped ratio moves by hi - lo, rounding by two grid steps more."""
        grid = self._kernels.grids(lo, hi, self._odds.shape[1])
        width: Floats = self.tempering * (hi - lo + 2.0 * grid + SLACK)
        return width


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return what to expect of rows that fill their declared domain as real ones do.

    Coefficients are taken as Normal(0, typical^2), typical = min(prior scale, TYPICAL): the
    variance of a response is averaged over them, widths are taken where all have that size.
    """
    tempering = spec.model.tempering or 1.0
    typical = min(spec.model.prior.scale, TYPICAL)
    moments = _second_moments(design)
    spread = typical**2 * float(np.trace(moments))
    variance = 0.25 / math.sqrt(1.0 + math.pi * spread / 8.0)
    d = len(design.parameters)
    theta = np.full(d, typical)
    bounds = (design.lower, design.upper, design.group)
    single = [component_interval(theta, j, NUDGE, *bounds) for j in range(d)]
    joint = vector_interval(theta, np.full(d, NUDGE), *bounds)
    return Guess(
        precision=design.schema.rows * tempering * variance * moments
        + np.eye(d) * spec.model.prior.scale**-2,
        width=tempering * np.array([hi - lo for lo, hi in single]) / NUDGE,
        joint_width=tempering * (joint[1] - joint[0]) / NUDGE,
        distance=theta,
    )


def _second_moments(design: Design) -> Floats:
    """E x x^T for rows that fill their declared domain as real ones do: see _mean_product."""
    d = len(design.terms)
    moments = np.empty((d, d))
    for i, left in enumerate(design.terms):
        for j, right in enumerate(design.terms):
            moments[i, j] = _mean_product(design.schema, left + right)
    return moments


def _mean_product(schema: Schema, factors: tuple[Factor, ...]) -> float:
    """Mean of a product of factors, columns independent.

    A number is OFF + FILL or OFF - FILL; of K categories each but the first has probability
    1 / (K + 1), since rare ones are the rule.
    """
    mean = 1.0
    for name in {factor.column for factor in factors}:
        codes = [factor.code for factor in factors if factor.column == name]
        column = column_of(schema, name)
        if isinstance(column, NumberColumn):
            mean *= 0.5 * ((OFF + FILL) ** len(codes) + (OFF - FILL) ** len(codes))
        else:
            mean *= 1.0 / (len(column.categories) + 1) if len(set(codes)) == 1 else 0.0
    return mean


def target(design: Design, spec: JobSpec, table: Table, chains: int) -> LogisticTarget:
    """Open a table, all chains at the prior mean."""
    return LogisticTarget(design, spec, table, chains)


MODEL = Model("logistic", check=check, guess=guess, target=target)
