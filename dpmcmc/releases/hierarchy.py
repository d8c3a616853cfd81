"""The sd that some effects have in common, the effects integrated out.

Effects are normal with that sd, which has a half-normal or half-t prior: a prior of a prior, and so
free after a release. Source of the marginal posterior of such an sd: Gelman et al. 2013, Bayesian
Data Analysis, section 5.4. Of curves whose coefficients have one: Ruppert, Wand and Carroll 2003.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.noise import RandomSource

Floats = NDArray[np.float64]
GRID = 120  # sds that are tried
LEAST_SD, MOST_SD, MOST_SD_OF_T = 1e-3, 5.0, 60.0  # of them, over the prior's scale
SWEEPS, STEPS = 15, 6  # over several sds in turn: draws of them, and their means


def on_grid(values: Floats, turned: Floats, scale: float, df: float) -> tuple[Floats, Floats]:
    """Return sds (grid,) and their posterior probabilities (k, grid).

    values: (k, m) precisions of effects by the likelihood, in directions in which they are
    independent; turned: (k, m) these times the effects' means. scale, df: of the half t prior, half
    normal where df is 0.
    """
    grid = grid_of(scale, df)
    squares = grid[:, None] ** 2
    wide = 1.0 + squares * values[:, None]
    logs = 0.5 * (squares * turned[:, None] ** 2 / wide - np.log(wide)).sum(axis=2)
    return grid, weighed(grid, logs, scale, df)


def grid_of(scale: float, df: float) -> Floats:
    """Return sds (grid,) that are tried, in even steps of the logarithm."""
    return np.asarray(scale * np.geomspace(LEAST_SD, MOST_SD_OF_T if df else MOST_SD, GRID))


def log_prior(sds: Floats, scale: float, df: float) -> Floats:
    """Return log densities of sds, without a constant: half t, half normal where df is 0."""
    ratio = (sds / scale) ** 2
    return np.asarray(-(0.5 * (df + 1.0) * np.log1p(ratio / df) if df else 0.5 * ratio))


def weighed(grid: Floats, logs: Floats, scale: float, df: float) -> Floats:
    """Return posterior probabilities (k, grid) of sds, by marginal log likelihoods (k, grid)."""
    logs = logs + log_prior(grid, scale, df)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True)) * grid  # even steps of the logarithm
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Curves:
    """Which coefficients have sds in common. number: (p,) of the sd of each, -1 of none. sizes:
    (p,) their sds over that. scales, dfs: (s,) of the priors of the sds."""

    number: NDArray[np.int64]
    sizes: Floats
    scales: Floats
    dfs: Floats

    @property
    def penalised(self) -> NDArray[np.bool_]:
        """Return (p,), which coefficients have an sd in common."""
        return self.number >= 0

    def precisions(self, sds: Floats) -> Floats:
        """Return (k, p) precisions of coefficients given sds (k, s); 0 of those of none."""
        known = np.where(self.penalised, self.sizes * sds[:, np.maximum(self.number, 0)], np.inf)
        return np.asarray(known**-2.0)

    def sds(self, whole: Floats, pulled: Floats, random: RandomSource | None) -> Floats:
        """Return draws (k, s) of the sds, one for each likelihood; means where random is None.

        whole: (k, p, p) precisions of coefficients by the likelihood and the priors of those that
        have no sd in common; pulled: (k, p) these times means. Of one sd they are exact; several
        are drawn in turn, each with its coefficients integrated out.
        """
        count = len(self.scales)
        sds = np.repeat(0.3 * self.scales[None], len(whole), axis=0)
        for _ in range(1 if count == 1 else STEPS if random is None else SWEEPS):
            for s in range(count):
                sds[:, s] = self._given_others(s, sds, whole, pulled, random)
        return sds

    def _given_others(
        self, s: int, sds: Floats, whole: Floats, pulled: Floats, random: RandomSource | None
    ) -> Floats:
        """Return draws or means (k,) of an sd given the others (k, s)."""
        members, others = np.flatnonzero(self.number == s), np.flatnonzero(self.number != s)
        held, sizes = self.precisions(sds), self.sizes[members]
        inner, pull = whole[:, members][:, :, members], pulled[:, members]
        if len(others):
            outer = whole[:, others][:, :, others].copy()
            outer[:, range(len(others)), range(len(others))] += held[:, others]
            across = whole[:, others][:, :, members]
            through = np.linalg.solve(outer, across).swapaxes(1, 2)
            inner = inner - through @ across
            pull = pull - (through @ pulled[:, others, None])[..., 0]
        inner, pull = inner * sizes[:, None] * sizes, pull * sizes
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.swapaxes(1, 2)))
        turned = np.einsum("kmi,km->ki", vectors, pull)
        grid, weights = on_grid(
            np.maximum(values, 0.0), turned, float(self.scales[s]), float(self.dfs[s])
        )
        return np.asarray(weights @ grid) if random is None else drawn(grid, weights, random)


def drawn(grid: Floats, weights: Floats, random: RandomSource) -> Floats:
    """Return draws (k,) of sds on a grid (grid,) of even steps, by probabilities (k, grid)."""
    ends = np.cumsum(weights, axis=1)
    uniforms = random.uniforms((len(weights),)) * ends[:, -1]
    at = np.minimum((ends < uniforms[:, None]).sum(axis=1), len(grid) - 1)
    step = grid[1] / grid[0]
    return np.asarray(grid[at] * step ** (random.uniforms((len(weights),)) - 0.5))
