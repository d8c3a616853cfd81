"""The posterior of a family's parameter given released statistics: post-processing, no cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Released
from dpmcmc.posterior.diagnostics import ParameterSummary, summarise
from dpmcmc.posterior.verdicts import Verdict, of_chain
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.statistics.families.base import Family, Floats
from dpmcmc.queries.statistics.inference_chains import (
    AveragedRatios,
    Chains,
    MetropolisHastings,
    PriorDistribution,
    PseudoMarginal,
    RaoBlackwellised,
    walk,
)
from dpmcmc.queries.statistics.inference_targets import (
    AnyTarget,
    NormalSum,
    ParticleTarget,
    Responses,
    Several,
    log_estimate,
    target_of,
)
from dpmcmc.queries.statistics.mechanisms import ReleasedStatistic

# Where chains start and how far they move: a search on the prior's scale. Reads no row.
CELLS, ZOOMS = 48, 3  # of the grid search; each zoom covers the likely cells of the grid before
LOG_LIKELIHOOD_RANGE = 12.0  # cells further below the best are left out of the next grid
PROPOSAL_SCALE = 2.4  # proposal's sd over the posterior's, which moves a random walk fastest
LEAST_SD = 1e-12


def searched(
    target: ParticleTarget | Several, prior: PriorDistribution, particles: int, random: RandomSource
) -> tuple[Floats, Floats]:
    """Return starting positions of B chains and sds of their proposals, (B,), on the prior's scale.

    Positions are drawn from the posterior on the last grid, uniformly within a cell. Raises
    SpecError where no theta of the prior has a likelihood above 0.
    """
    log_likelihood = _known_or_estimated(target, particles, random)
    low, high = np.zeros(target.chains), np.ones(target.chains)
    for _ in range(ZOOMS):
        grid = low[:, None] + (high - low)[:, None] * (np.arange(CELLS) + 0.5) / CELLS
        log_likelihoods = np.stack(
            [log_likelihood(np.asarray(prior.ppf(u))) for u in grid.T], axis=1
        )
        log_likelihoods = np.nan_to_num(log_likelihoods, nan=-np.inf)
        if not np.isfinite(log_likelihoods).any(axis=1).all():
            raise SpecError("/prior", "has no value with a likelihood above 0: widen it")
        width = (high - low) / CELLS
        likely = log_likelihoods > log_likelihoods.max(axis=1, keepdims=True) - LOG_LIKELIHOOD_RANGE
        low = np.where(likely, grid, np.inf).min(axis=1) - 0.5 * width
        high = np.where(likely, grid, -np.inf).max(axis=1) + 0.5 * width
    return _drawn(grid, width, log_likelihoods, random)


def _drawn(
    grid: Floats, width: Floats, log_likelihoods: Floats, random: RandomSource
) -> tuple[Floats, Floats]:
    """Return starting positions and proposal sds, by log likelihoods on a grid."""
    weights = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * grid).sum(axis=1, keepdims=True)
    sd = np.sqrt((weights * (grid - mean) ** 2).sum(axis=1) + width**2 / 12.0)
    threshold = random.uniforms((len(grid), 1))
    cell = (np.cumsum(weights, axis=1) < threshold).sum(axis=1).clip(0, CELLS - 1)
    position = grid[np.arange(len(grid)), cell] + width * (random.uniforms((len(grid),)) - 0.5)
    return np.clip(position, 1e-16, 1.0 - 1e-16), np.maximum(PROPOSAL_SCALE * sd, LEAST_SD)


def _known_or_estimated(
    target: ParticleTarget | Several, particles: int, random: RandomSource
) -> Callable[[Floats], Floats]:
    """Return the log likelihood, or an estimate of it with the same particles at every theta."""
    if isinstance(target, NormalSum | Responses | Several):
        return target.log_likelihood
    z = random.normals((target.chains, particles, *target.shape))
    return lambda theta: log_estimate(target, theta, z)


AlgorithmName = Literal["mh", "pmmh", "correlated_pmmh", "mhaar", "mhaar_rb"]
CORRELATION = 0.9  # of a particle with its next one
PARTICLES = 32
FARTHEST = 1e150  # of theta: its square is a number


@dataclass(frozen=True)
class ThetaPosterior:
    """Draws of theta, (chain, draw), with their summary, verdict and the algorithm's name.

    summary: mean, sd and quantiles, R-hat and ESS as ArviZ defines them. verdict: whether the
    chains have mixed; it cannot detect a family that does not fit the rows.
    """

    draws: Floats
    summary: ParameterSummary
    verdict: Verdict
    algorithm: AlgorithmName


def infer(
    released: ReleasedStatistic | Sequence[ReleasedStatistic],
    family: Family,
    prior: PriorDistribution,
    *,
    algorithm: AlgorithmName | None = None,
    normal_approximation: bool = True,
    particles: int = PARTICLES,
    chains: int = 4,
    draws: int = 2000,
    warmup: int = 500,
    random: RandomSource | None = None,
) -> ThetaPosterior:
    """Return posterior draws of a family's parameter theta given released statistics.

    Privacy: post-processing. It reads released values only, costs nothing, and may be repeated with
    other priors, families and algorithms. Source: thesis B, section 5.1.

    Parameters
    ----------
    released
        One release, or several of separate rows, each with a known likelihood.
    family
        Of dpmcmc.queries.statistics.families, or your own.
    prior
        A frozen continuous distribution of scipy.stats within theta's range.
    algorithm
        mh (where the likelihood is known), pmmh, correlated_pmmh, mhaar (any release) or mhaar_rb
        (batches; mixes slowly where the noise is far larger than the sum's own sd). By default mh
        where possible, else mhaar.
    normal_approximation
        Whether the sum over the rows of a batch is assumed normal; otherwise rows are simulated,
        which mh and mhaar_rb do not support.
    particles
        Simulated sums, rows or data sets in each step, at least 2.
    chains, draws, warmup
        Number of chains; steps of each that are kept, and steps before them.
    random
        For tests only.

    Returns
    -------
    ThetaPosterior
        Draws (chain, draw), summary and verdict.

    Raises
    ------
    SpecError
        If the arguments do not fit together; the message names the field and the remedy.

    Examples
    --------
    >>> from scipy import stats
    >>> from dpmcmc.queries.statistics.families import NormalMean
    >>> infer(released, NormalMean(sd=1.0), stats.norm(0, 10)).summary
    """
    if not (particles >= 2 and chains >= 1 and draws >= 1 and warmup >= 0):
        raise SpecError("/inference", "needs particles >= 2, chains >= 1, draws >= 1, warmup >= 0")
    releases = [released] if isinstance(released, ReleasedStatistic) else list(released)
    _check_prior(prior, family)
    target = _target(releases, family, chains, approximate=normal_approximation)
    name = _suited(target, algorithm)
    source = random or SystemRandom()
    thetas = sampled(name, target, prior, particles, warmup, draws, source)
    if not (np.abs(thetas) <= FARTHEST).all():
        raise SpecError("/prior", "has tails that overflow: choose one with shorter tails")
    return judged(thetas, family, name)


RELEASED_KINDS = (NormalSum, Responses, Several)


def algorithm_for(
    released: Sequence[ReleasedStatistic],
    family: Family,
    prior: PriorDistribution,
    algorithm: AlgorithmName | None,
    *,
    approximate: bool,
) -> AlgorithmName:
    """Return the algorithm that `infer` would use, without running it. Raises SpecError."""
    _check_prior(prior, family)
    return _suited(_target(list(released), family, 1, approximate=approximate), algorithm)


def _suited(target: AnyTarget | Several, algorithm: AlgorithmName | None) -> AlgorithmName:
    """Return the named algorithm, or the default one. Raises SpecError where it does not fit."""
    name = algorithm or ("mh" if isinstance(target, RELEASED_KINDS) else "mhaar")
    if name not in get_args(AlgorithmName):
        raise SpecError("/algorithm", f"must be one of {', '.join(get_args(AlgorithmName))}")
    suitable = {
        "mh": isinstance(target, RELEASED_KINDS),
        "mhaar_rb": isinstance(target, NormalSum),
    }.get(name, not isinstance(target, Several))
    if not suitable:
        raise SpecError("/algorithm", f"{name} does not suit what was released")
    return name


def sampled(
    name: AlgorithmName,
    target: AnyTarget | Several,
    prior: PriorDistribution,
    particles: int,
    warmup: int,
    draws: int,
    random: RandomSource,
) -> Floats:
    """Return theta, (B, draws): one chain for each of the target's B sets of released values."""
    position, sd = searched(target, prior, max(particles, PARTICLES), random)
    return walk(_chains(name, target, prior, sd, random, particles), position, warmup, draws)


def _check_prior(prior: PriorDistribution, family: Family) -> None:
    """Refuse a prior that is no continuous distribution within the family's range."""
    low, high = prior.ppf(np.array([0.0, 1.0]))
    least, most = family.range
    if not least <= low < high <= most:
        message = f"must lie within {least:g} and {most:g}, where the {family.name} is"
        raise SpecError("/prior", message)


def _target(
    releases: list[ReleasedStatistic], family: Family, chains: int, *, approximate: bool
) -> AnyTarget | Several:
    """Return the likelihood of one or several releases."""
    targets = [
        target_of(release, np.tile(release.values, (chains, 1)), family, approximate=approximate)
        for release in releases
    ]
    if len(targets) == 1:
        return targets[0]
    parts = tuple(release for release in targets if isinstance(release, NormalSum | Responses))
    if not parts or len(parts) != len(targets):
        raise SpecError("/released", "several releases need known likelihoods")
    return Several(parts)


def _chains(
    name: AlgorithmName,
    target: AnyTarget | Several,
    prior: PriorDistribution,
    sd: Floats,
    random: RandomSource,
    particles: int,
) -> Chains:
    """Return the algorithm of this name, for the target."""
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


def judged(draws: Floats, family: Family, name: AlgorithmName) -> ThetaPosterior:
    """Return draws (chain, draw) of a family's parameter with their summary and verdict."""
    values = draws[..., None]
    (summary,) = summarise(Released(values), [family.name])
    return ThetaPosterior(draws, summary, of_chain(values, 0, [summary], started=False), name)
