"""How much the effects of groups differ: sds, and a correlation where a group has two effects.

Sds have half-normal or half-t priors, the correlation that of Lewandowski, Kurowicka and Joe 2009
(LKJ) with shape 2. All is a prior of a prior, and so free after a release. Laws (n, h) are sds, and
behind two of them their correlation where it is estimated. Of groups within groups they are the sd
of outer groups and that of groups within one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.hierarchy import grid_of, log_prior

Floats = NDArray[np.float64]
LKJ = 2.0  # shape: of the density (1 - correlation^2)^(LKJ - 1)
LEAST_SIZE = 1e-12  # of a determinant, over that without correlations
MOST_Z = 2.6  # of the inverse hyperbolic tangent of a correlation: .989
COARSE, FINE = (14, 14, 9), (14, 14, 12)  # numbers of two sds and of correlations that are tried
FINE_NESTED = (24, 24)  # of groups within groups: few outer ones leave a long tail
NEAR = 6.5  # logarithm of a weight over the largest, below which laws are left out


@dataclass(frozen=True, slots=True)
class Prior:
    """A prior of laws. scales, dfs: of the priors of sds, half normal where df is 0. related:
    whether a correlation is estimated; it is 0 where it is not. within: number of groups within
    each outer one, 0 without outer ones."""

    scales: tuple[float, ...]
    dfs: tuple[float, ...]
    related: bool
    within: int = 0

    def precisions(self, laws: Floats) -> Floats:
        """Return (n, k, k) precisions of a group's effects, given those of its outer group."""
        if len(self.scales) == 1 or self.within:
            return laws[:, -1:, None] ** -2.0
        sds, cross = laws[:, :2], laws[:, 2] if self.related else np.zeros(len(laws))
        shape = np.empty((len(laws), 2, 2))
        shape[:, 0, 0] = shape[:, 1, 1] = 1.0 / (1.0 - cross**2)
        shape[:, 0, 1] = shape[:, 1, 0] = -cross / (1.0 - cross**2)
        return np.asarray(shape / sds[:, :, None] / sds[:, None, :])

    def left_of_means(self, laws: Floats) -> Floats:
        """Return (n,), of the precision of groups' effects what is left for their mean over an
        outer group, whose own effect is integrated out."""
        if not self.within:
            return np.ones(len(laws))
        outer, inner = (laws**2).T
        return np.asarray(inner / (inner + self.within * outer))

    def logs(self, laws: Floats) -> Floats:
        """Return log densities (n,) by logs of sds and by the arctanh of the correlation."""
        out = np.log(laws[:, : len(self.scales)]).sum(axis=1)
        for k, (scale, df) in enumerate(zip(self.scales, self.dfs, strict=True)):
            out += log_prior(laws[:, k], scale, df)
        if len(self.scales) < laws.shape[1]:
            out += LKJ * np.log1p(-(laws[:, -1] ** 2))
        return np.asarray(out)


@dataclass(frozen=True, slots=True)
class Laws:
    """Laws that are tried, on a grid. values: (n, h). logs: (n,) of their prior, over even steps.
    steps: (h,) of logs of sds and of the arctanh of a correlation."""

    values: Floats
    logs: Floats
    steps: tuple[float, ...]

    def weighed(self, likelihoods: Floats) -> Floats:
        """Return posterior probabilities (n,), by log likelihoods (n,)."""
        weights = np.exp(likelihoods + self.logs - (likelihoods + self.logs).max())
        return np.asarray(weights / weights.sum())

    def drawn(
        self, weights: Floats, count: int, random: RandomSource
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return numbers (count,) of laws drawn by probabilities (n,), and laws (count, h) anywhere
        within their steps of the grid."""
        ends = np.cumsum(weights)
        uniforms = random.uniforms((count,)) * ends[-1]
        at = np.minimum(np.searchsorted(ends, uniforms), len(ends) - 1)
        away = (random.uniforms((count, len(self.steps))) - 0.5) * np.array(self.steps)
        values = self.values[at]
        out = np.exp(np.log(np.abs(values) + 1e-300) + away)
        if len(self.steps) == 3:
            out[:, 2] = np.tanh(np.arctanh(values[:, 2]) + away[:, 2])
        return at.astype(np.int64), out


@lru_cache(maxsize=16)  # every curvature has the same
def laws_of_one(prior: Prior) -> Laws:
    """Return the laws of one effect of a group."""
    grid = grid_of(prior.scales[0], prior.dfs[0])
    values = grid[:, None]
    first = Prior(prior.scales[:1], prior.dfs[:1], False)
    return Laws(values, first.logs(values), (math.log(grid[1] / grid[0]),))


def laws_near(prior: Prior, likelihoods: Callable[[Floats], Floats]) -> Laws:
    """Return the laws of two sds that are not improbable: a coarse grid tells where they are, and a
    fine one is laid there. likelihoods: their logs (n,), of laws (n, h)."""
    h, fine = 3 if prior.related else 2, FINE_NESTED if prior.within else FINE
    grids = [grid_of(scale, df) for scale, df in zip(prior.scales, prior.dfs, strict=True)]
    ends = [*((math.log(grid[0]), math.log(grid[-1])) for grid in grids), (-MOST_Z, MOST_Z)][:h]
    laws = Laws(np.zeros((0, h)), np.zeros(0), ())
    for counts in (COARSE, COARSE, fine):  # the first one may miss how narrow they are
        axes = [np.linspace(*end, count) for end, count in zip(ends, counts, strict=False)]
        points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        values = np.exp(points)
        values[:, 2:] = np.tanh(points[:, 2:])
        prior_logs = prior.logs(values)
        logs = likelihoods(values) + prior_logs
        near = logs >= logs.max() - NEAR
        steps = tuple(float(axis[1] - axis[0]) for axis in axes)
        laws = Laws(values[near], prior_logs[near], steps)
        kept = points[near]
        ends = [
            (max(low, float(column.min()) - step), min(high, float(column.max()) + step))
            for (low, high), column, step in zip(ends, kept.T, steps, strict=True)
        ]
    return laws


def by_blocks(blocks: Floats, values: Floats) -> Floats:
    """Return matrices of groups (k, k, g) times values (..., k g): the g of each of k together."""
    k, _, g = blocks.shape
    if k == 1:
        return np.asarray(blocks[0, 0] * values)
    apart = values.reshape(*values.shape[:-1], k, g)
    return np.asarray(np.einsum("ijg,...jg->...ig", blocks, apart).reshape(values.shape))


def _size(blocks: Floats) -> Floats:
    """Return determinants (...) of positive matrices (2, 2, ...), above 0 for all rounding."""
    (a, b), (_, c) = blocks
    return np.asarray(np.maximum(a * c - b * b, LEAST_SIZE * a * c))


def inverse(blocks: Floats) -> Floats:
    """Return the inverses of positive matrices (k, k, ...), k at most 2."""
    if len(blocks) == 1:
        return np.asarray(1.0 / blocks)
    (a, b), (_, c) = blocks / _size(blocks)
    return np.array([[c, -b], [-b, a]])


def roots(blocks: Floats) -> Floats:
    """Return lower roots of positive matrices (k, k, ...), k at most 2."""
    if len(blocks) == 1:
        return np.asarray(np.sqrt(blocks))
    (a, b), _ = blocks
    first = np.sqrt(a)
    return np.array([[first, np.zeros(first.shape)], [b / first, np.sqrt(_size(blocks)) / first]])


def log_sizes(blocks: Floats) -> Floats:
    """Return logarithms of determinants (...) of positive matrices (k, k, ...), k at most 2."""
    return np.asarray(np.log(blocks[0, 0] if len(blocks) == 1 else _size(blocks)))
