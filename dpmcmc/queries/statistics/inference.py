"""The posterior of one number given released statistics: post-processing, free of charge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Released as Shown
from dpmcmc.posterior.diagnostics import ParameterSummary, summarise
from dpmcmc.posterior.verdicts import Verdict, of_chain
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.statistics.families.base import Family, Floats
from dpmcmc.queries.statistics.inference_chains import (
    AveragedRatios,
    Chains,
    MetropolisHastings,
    Prior,
    PseudoMarginal,
    RaoBlackwellised,
    walk,
)
from dpmcmc.queries.statistics.inference_targets import (
    AnyTarget,
    NormalSum,
    Responses,
    Several,
    Target,
    log_estimate,
    target_of,
)
from dpmcmc.queries.statistics.mechanisms import Released

# Where chains start and how far they move: a search on the prior's scale. Reads no row.
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


AlgorithmName = Literal["mh", "pmmh", "correlated_pmmh", "mhaar", "mhaar_rb"]
CORRELATION = 0.9  # of a particle with its next one
PARTICLES = 32
FARTHEST = 1e150  # of theta: its square is a number


@dataclass(frozen=True)
class Posterior:
    """Draws of theta, (chain, draw), what they say of themselves, and the algorithm's name.

    summary: mean, sd and quantiles of draws, R-hat and ESS as ArviZ defines them. verdict: whether
    the chains have mixed; it cannot see a family that does not suit the rows.
    """

    draws: Floats
    summary: ParameterSummary
    verdict: Verdict
    algorithm: AlgorithmName


def infer(
    released: Released | Sequence[Released],
    family: Family,
    prior: Prior,
    *,
    algorithm: AlgorithmName | None = None,
    normal_approximation: bool = True,
    particles: int = PARTICLES,
    chains: int = 4,
    draws: int = 2000,
    warmup: int = 500,
    random: RandomSource | None = None,
) -> Posterior:
    """Return draws of the family's theta given what was released.

    Privacy: reads released values only, so that it costs nothing and may be repeated with other
    priors, families and algorithms. family: one of dpmcmc.queries.statistics.families, or your own.
    prior: a frozen continuous distribution of scipy.stats within theta's range. Several releases
    must be of separate rows (or each row's own noise), and each of a known likelihood.
    algorithm: mh (wherever the likelihood is known), pmmh, correlated_pmmh, mhaar (any release) or
    mhaar_rb (batches; it hardly moves where noise is far wider than the sum's own spread); by
    default mh where it can be, else mhaar. normal_approximation: the sum
    over the rows of a batch is taken to be normal; False simulates rows, for any but mh and
    mhaar_rb. particles: simulated sums, rows or data sets in each step, at least 2.
    Raises SpecError where these do not go together. Source: thesis B, section 5.1.
    """
    if not (particles >= 2 and chains >= 1 and draws >= 1 and warmup >= 0):
        raise SpecError("/inference", "needs particles >= 2, chains >= 1, draws >= 1, warmup >= 0")
    given = [released] if isinstance(released, Released) else list(released)
    _check_prior(prior, family)
    target = _target(given, family, chains, approximate=normal_approximation)
    name = _suited(target, algorithm)
    source = random or SystemRandom()
    found = sampled(name, target, prior, particles, warmup, draws, source)
    if not (np.abs(found) <= FARTHEST).all():
        raise SpecError("/prior", "reaches numbers that cannot be computed with: shorten its tails")
    return judged(found, family, name)


RELEASED_KINDS = (NormalSum, Responses, Several)


def algorithm_for(
    released: Sequence[Released],
    family: Family,
    prior: Prior,
    algorithm: AlgorithmName | None,
    *,
    approximate: bool,
) -> AlgorithmName:
    """Return the algorithm that `infer` would use, without running it. Raises SpecError."""
    _check_prior(prior, family)
    return _suited(_target(list(released), family, 1, approximate=approximate), algorithm)


def _suited(target: AnyTarget | Several, algorithm: AlgorithmName | None) -> AlgorithmName:
    """Return the algorithm that was named, or the usual one. Raises SpecError."""
    name = algorithm or ("mh" if isinstance(target, RELEASED_KINDS) else "mhaar")
    if name not in get_args(AlgorithmName):
        raise SpecError("/algorithm", f"must be one of {', '.join(get_args(AlgorithmName))}")
    suits = {
        "mh": isinstance(target, RELEASED_KINDS),
        "mhaar_rb": isinstance(target, NormalSum),
    }.get(name, not isinstance(target, Several))
    if not suits:
        raise SpecError("/algorithm", f"{name} does not suit what was released")
    return name


def sampled(
    name: AlgorithmName,
    target: AnyTarget | Several,
    prior: Prior,
    particles: int,
    warmup: int,
    draws: int,
    random: RandomSource,
) -> Floats:
    """Return theta, (B, draws): one chain for each set of values that the target holds."""
    place, sd = searched(target, prior, max(particles, PARTICLES), random)
    return walk(_chains(name, target, prior, sd, random, particles), place, warmup, draws)


def _check_prior(prior: Prior, family: Family) -> None:
    low, high = prior.ppf(np.array([0.0, 1.0]))
    least, most = family.range
    if not least <= low < high <= most:
        message = f"must lie within {least:g} and {most:g}, where the {family.name} is"
        raise SpecError("/prior", message)


def _target(
    given: list[Released], family: Family, chains: int, *, approximate: bool
) -> AnyTarget | Several:
    found = [
        target_of(one, np.tile(one.values, (chains, 1)), family, approximate=approximate)
        for one in given
    ]
    if len(found) == 1:
        return found[0]
    parts = tuple(one for one in found if isinstance(one, NormalSum | Responses))
    if not parts or len(parts) != len(found):
        raise SpecError("/released", "several releases need known likelihoods")
    return Several(parts)


def _chains(
    name: AlgorithmName,
    target: AnyTarget | Several,
    prior: Prior,
    sd: Floats,
    random: RandomSource,
    particles: int,
) -> Chains:
    shared = prior, sd, random, particles
    if name == "mh" and isinstance(target, RELEASED_KINDS):
        return MetropolisHastings(*shared, target)
    if name == "mhaar_rb" and isinstance(target, NormalSum):
        return RaoBlackwellised(*shared, target)
    if isinstance(target, Several) or name in ("mh", "mhaar_rb"):
        raise SpecError("/algorithm", f"{name} does not suit what was released")
    if name == "mhaar":
        return AveragedRatios(*shared, target)
    return PseudoMarginal(*shared, target, CORRELATION if name == "correlated_pmmh" else 0.0)


def judged(draws: Floats, family: Family, name: AlgorithmName) -> Posterior:
    """Return draws (chain, draw) of a family's number with their summary and verdict."""
    values = draws[..., None]
    (summary,) = summarise(Shown(values), [family.name])
    return Posterior(draws, summary, of_chain(values, 0, [summary], started=False), name)
