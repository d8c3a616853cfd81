"""Noisy means of the columns, and the exact posterior given them.

For models whose rows are N(mean, known variances) in public coordinates (gaussian_mean, banana):
there the posterior follows from the means of the columns, so that releasing those once is worth
more than any chain. A first, cheap release finds where the rows lie; the last one clips them
closely around that place. A small clip needs little noise but loses some of the rows' tails: the
planner weighs the two. Draws are independent and cost nothing: a job costs
mu = 1 / noise_multiplier whatever their number.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpmcmc.privacy.discrete import discrete_gaussian, log2_sd, noisy_sums
from dpmcmc.privacy.events import Compose, Event, Gaussian
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import noisy_mean_law as law
from dpmcmc.releases.base import Facts, Normal, Release, prior_of
from dpmcmc.samplers.base import Floats, Target

if TYPE_CHECKING:
    from dpmcmc.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMeanOptions:
    """What is None is chosen by the planner. num_steps: independent draws of each chain.

    shares: of the job's mu^2 for each release, the last one the closest; together at most 1.
    clip_bounds: for each release the largest distance from its centre that a row counts with, in
    known sds of the columns. clip_bound: of the last one, where the others are left open.
    """

    algorithm: Literal["noisy_mean"] = "noisy_mean"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    clip_bound: float | None = None
    shares: tuple[float, ...] | None = None
    clip_bounds: tuple[float, ...] | None = None


def event(options: NoisyMeanOptions, noise_multiplier: float, rows: int) -> Event:
    """Return one Gaussian event for each release. Proof: docs/proofs/noisy_mean.md."""
    return Compose(tuple(Gaussian(z) for z in _multipliers(options, noise_multiplier)))


def _multipliers(options: NoisyMeanOptions, noise_multiplier: float) -> list[float]:
    if options.shares is None:
        raise ValueError("the shares of the releases must be known")
    return [noise_multiplier / math.sqrt(share) for share in options.shares]


def settle(options: NoisyMeanOptions, facts: Facts, noise_multiplier: float) -> NoisyMeanOptions:
    """See Release."""
    law.check(options.shares, options.clip_bounds)
    if options.shares is not None and options.clip_bounds is not None:
        return options
    best = law.best(facts, noise_multiplier, options.clip_bound, options.shares)
    return replace(options, shares=best.shares, clip_bounds=best.clip_bounds)


def widening(options: NoisyMeanOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """See Release."""
    if options.shares is None or options.clip_bounds is None:
        raise ValueError("the releases must be settled")
    variance = law.variance(facts, noise_multiplier, options.shares, options.clip_bounds)
    outlook = facts.outlook
    weight = outlook.rows * outlook.tempering
    found: Floats = np.sqrt(
        (weight + facts.prior) / (1.0 / (1.0 / weight + variance) + facts.prior)
    )
    return found


def publish(
    target: Target,
    reach: float,
    options: NoisyMeanOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Normal:
    """Release the means of the rows and return the posterior given them.

    target: of rows N(position, I). Privacy: event(options). Never raises on rows.
    Proof: docs/proofs/noisy_mean.md.
    """
    if options.clip_bounds is None:
        raise ValueError("the clips must be known")
    n, d = target.rows, target.position.shape[1]
    start = target.position[0]
    found, information = start.copy(), 0.0
    for clip, z in zip(options.clip_bounds, _multipliers(options, noise_multiplier), strict=True):
        slope, excess = law.moments(clip, d, reach, information == 0.0)
        centre = _within(found, start, reach)
        mean = centre + _release(target, centre, clip, z, random) / (n * slope)
        precision = 1.0 / law.noise_variance(slope, excess, clip, z, n)
        information += precision
        found = found + (mean - found) * (precision / information)
    return posterior(target, found, 1.0 / information)


def _within(point: Floats, middle: Floats, reach: float) -> Floats:
    """Return point, drawn towards the middle of the declared bounds if it is further than any row.

    A released point, so that this is free.
    """
    away = float(np.linalg.norm(point - middle))
    found: Floats = middle + (point - middle) * min(1.0, reach / away if away > 0.0 else 1.0)
    return found


def _release(target: Target, centre: Floats, clip: float, z: float, random: RandomSource) -> Floats:
    """Release the sum of the rows less centre, each cut to length clip. One Gaussian(z) event."""
    sums, sensitivity = target.gradient(centre[None], clip)
    noise = discrete_gaussian(random, log2_sd(z), sums.shape)
    found: Floats = noisy_sums(sums, sensitivity, z, noise)[0] / target.tempering
    return found


def posterior(target: Target, mean: Floats, variance: float) -> Normal:
    """Return the posterior given a mean (d,) that is off the rows' by a normal error.

    variance: of that error, each coordinate. The likelihood of n rows to the power T is
    N(mean of rows; theta, 1 / (nT)), so that of the noisy mean is wider by the error's variance.
    """
    prior_mean, prior = prior_of(target, len(mean))
    weight = 1.0 / (1.0 / (target.rows * target.tempering) + variance)
    precision = weight + prior
    return Normal((weight * mean + prior * prior_mean) / precision, np.diag(precision**-0.5))


def straightened(model: "ModelSpec") -> "ModelSpec":
    """Return the model in the coordinates in which its rows are normal."""
    return replace(model, options=replace(model.options, coordinates=None))


def passes(options: NoisyMeanOptions, dimension: int) -> int:
    """See Release."""
    return len(options.shares or ())


RELEASE = Release(
    "noisy_mean",
    NoisyMeanOptions,
    families=frozenset({"gaussian_mean", "banana"}),
    exact=True,
    event=event,
    settle=settle,
    widening=widening,
    passes=passes,
    publish=publish,
    model=straightened,
)
