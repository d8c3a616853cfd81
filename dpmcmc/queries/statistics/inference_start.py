"""Where chains start and how far they move: a search on the prior's scale. Reads no row."""

from collections.abc import Callable

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.statistics.families.base import Floats
from dpmcmc.queries.statistics.inference_chains import Prior
from dpmcmc.queries.statistics.inference_targets import (
    NormalSum,
    Responses,
    Several,
    Target,
    log_estimate,
)

CELLS, ZOOMS = 48, 3  # of the search; each closer look is at what the one before found likely
LOG_LIKELIHOOD_RANGE = 12.0  # log likelihoods below the best that are left out of a closer look
PROPOSAL_SCALE = 2.4  # proposal's sd over the posterior's, which moves a random walk fastest
LEAST_SD = 1e-12


def searched(
    target: Target | Several, prior: Prior, particles: int, random: RandomSource
) -> tuple[Floats, Floats]:
    """Return places for B chains and sds of their proposals, both on the prior's scale, (B,).

    Places are drawn from the posterior as the last look has it, within a cell uniformly. Raises
    SpecError where the prior allows no theta of the family.
    """
    log_likelihood = _known_or_estimated(target, particles, random)
    low, high = np.zeros(target.chains), np.ones(target.chains)
    for _ in range(ZOOMS):
        grid = low[:, None] + (high - low)[:, None] * (np.arange(CELLS) + 0.5) / CELLS
        found = np.stack([log_likelihood(np.asarray(prior.ppf(u))) for u in grid.T], axis=1)
        found = np.nan_to_num(found, nan=-np.inf)
        if not np.isfinite(found).any(axis=1).all():
            raise SpecError("/prior", "allows nothing that explains what was released")
        width = (high - low) / CELLS
        likely = found > found.max(axis=1, keepdims=True) - LOG_LIKELIHOOD_RANGE
        low = np.where(likely, grid, np.inf).min(axis=1) - 0.5 * width
        high = np.where(likely, grid, -np.inf).max(axis=1) + 0.5 * width
    return _drawn(grid, width, found, random)


def _drawn(
    grid: Floats, width: Floats, found: Floats, random: RandomSource
) -> tuple[Floats, Floats]:
    weights = np.exp(found - found.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * grid).sum(axis=1, keepdims=True)
    sd = np.sqrt((weights * (grid - mean) ** 2).sum(axis=1) + width**2 / 12.0)
    up_to = random.uniforms((len(grid), 1))
    at = (np.cumsum(weights, axis=1) < up_to).sum(axis=1).clip(0, CELLS - 1)
    place = grid[np.arange(len(grid)), at] + width * (random.uniforms((len(grid),)) - 0.5)
    return np.clip(place, 1e-16, 1.0 - 1e-16), np.maximum(PROPOSAL_SCALE * sd, LEAST_SD)


def _known_or_estimated(
    target: Target | Several, particles: int, random: RandomSource
) -> Callable[[Floats], Floats]:
    """Return the log likelihood, or an estimate of it by the same particles everywhere."""
    if isinstance(target, NormalSum | Responses | Several):
        return target.log_likelihood
    z = random.normals((target.chains, particles, *target.shape))
    return lambda theta: log_estimate(target, theta, z)
