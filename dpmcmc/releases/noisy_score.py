"""A private way to the mode, and a normal approximation of the posterior that knows its noise.

For regressions: clipped scores and curvatures are released on the way to the mode, the last of them
say how far it is and how sharp. The draws are independent and cost nothing: a job costs
mu = 1 / noise_multiplier whatever their number. They are from a **normal approximation**: near the
posterior where many rows stand behind every coefficient, and never nearer with more draws. Rare
categories, few rows or a strong skew are cases for a chain.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpmcmc.errors import SpecError
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import Facts, Normal, Release, prior_of
from dpmcmc.samplers import WarmStart, warm_start, warm_start_law
from dpmcmc.samplers.base import Floats, Target

if TYPE_CHECKING:
    from dpmcmc.spec import ModelSpec

NEAR = warm_start.NEAR  # of mu^2, spent on the last score, which decides the mode's error
CURVATURE = warm_start.SECOND  # of mu^2, spent on the last curvature


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyScoreOptions:
    """What is None is chosen by the planner. num_steps: independent draws of each chain.

    num_scores: releases on the way to the mode. clip_bound: largest norm that a row's gradient
    keeps. curvature_bound: the most that a row's information counts.
    """

    algorithm: Literal["noisy_score"] = "noisy_score"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    num_scores: int = 20
    clip_bound: float | None = None
    curvature_bound: float | None = None


def _way(options: NoisyScoreOptions, noise_multiplier: float | None) -> WarmStart:
    return WarmStart(
        noise_multiplier=noise_multiplier,
        num_scores=options.num_scores,
        gradient_clip=options.clip_bound,
        curvature_bound=options.curvature_bound,
    )


def event(options: NoisyScoreOptions, noise_multiplier: float, rows: int) -> Event:
    """Return all releases on the way. Proof: docs/proofs/noisy_score.md."""
    return warm_start.event(_way(options, noise_multiplier))


def settle(options: NoisyScoreOptions, facts: Facts, noise_multiplier: float) -> NoisyScoreOptions:
    """See Release."""
    try:
        way = warm_start_law.settled(_way(options, noise_multiplier), facts.outlook)
    except SpecError as error:
        where = error.pointer.replace("/warm_start/gradient_clip", "/clip_bound")
        raise SpecError(where.replace("/warm_start", ""), error.message) from None
    if way is None:
        raise ValueError("a way to the mode is needed")
    return replace(options, clip_bound=way.gradient_clip, curvature_bound=way.curvature_bound)


def widening(options: NoisyScoreOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """See Release. All coefficients have about the noise of one score."""
    outlook = facts.outlook
    precision, prior = outlook.guess.precision, facts.prior
    clip = 2.0 * (options.clip_bound or math.nan) * outlook.tempering
    noise = precision * ((clip * noise_multiplier) ** 2 / NEAR * len(prior) / np.trace(precision))
    blur = _blur(options, facts, noise_multiplier)
    known = np.diag(prior) + _information(precision - np.diag(prior), noise, blur)
    wide, exact = warm_start.inverse(known), warm_start.inverse(precision)
    found: Floats = np.sqrt(np.maximum(np.diag(wide) / np.diag(exact), 1.0))
    return found


def publish(
    target: Target,
    reach: float,
    options: NoisyScoreOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Normal:
    """Find the mean and return the normal approximation given its noise.

    Privacy: event(options). Never raises on rows. Proof: docs/proofs/noisy_score.md.
    """
    found = warm_start.find(target, _way(options, noise_multiplier), random, mean=True)
    return posterior(found, *prior_of(target, len(found.mode)))


def posterior(found: warm_start.Found, prior_mean: Floats, prior: Floats) -> Normal:
    """Return the posterior given a noisy Newton step near the mode, never wider than the prior.

    With P the precision, H = P - prior and S the noise of the score, P mode - prior prior_mean
    = H theta_hat + N(0, S), theta_hat ~ N(theta, H^-1).
    """
    precision = warm_start.inverse(found.root @ found.root.T)
    rows = _symmetric(precision - np.diag(prior))
    known = _information(rows, _symmetric(precision @ found.error @ precision), found.blur)
    peak = np.linalg.lstsq(rows, precision @ found.mode - prior * prior_mean, rcond=None)[0]
    given = np.diag(prior) + known
    mean = np.linalg.solve(given, prior * prior_mean + known @ peak)
    values, vectors = np.linalg.eigh(warm_start.inverse(given))
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return Normal(np.asarray(mean, dtype=np.float64), root)


def _information(rows: Floats, noise: Floats, blur: Floats) -> Floats:
    """Return H (H + S)^-1 H, H being the curvature less the most that its noise may have added."""
    root = np.linalg.cholesky(blur)
    straight = np.linalg.solve(root, np.linalg.solve(root, rows).T)
    values, vectors = np.linalg.eigh(_symmetric(straight))
    ways = root @ vectors
    least = (ways * np.maximum(values - 1.0, 0.0)) @ ways.T
    return _symmetric(least @ np.linalg.lstsq(least + noise, least, rcond=None)[0])


def _blur(options: NoisyScoreOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """Return what to expect of the noise of the last curvature: see warm_start.Finder.look."""
    z, precision = noise_multiplier / math.sqrt(CURVATURE), facts.outlook.guess.precision
    relative = warm_start.leverage_of(z, facts.outlook.rows, len(precision))[1]
    if relative < warm_start.CLOSE:
        return np.asarray(relative * precision)
    most = facts.outlook.tempering * (options.curvature_bound or math.nan) * facts.reach**2
    return np.asarray(z * math.sqrt(2.0 * len(precision)) * most * np.eye(len(precision)))


def _symmetric(matrix: Floats) -> Floats:
    found: Floats = 0.5 * (matrix + matrix.T)
    return found


def unchanged(model: "ModelSpec") -> "ModelSpec":
    """Return the model: its own coordinates do."""
    return model


def passes(options: NoisyScoreOptions, dimension: int) -> int:
    """See Release. Two curvatures, and the last scores at many points."""
    pairs = min(dimension, warm_start.MOST_PAIRS)
    return options.num_scores + 2 + 2 * pairs * (warm_start.NUM_MIDDLE + 1)


RELEASE = Release(
    "noisy_score",
    NoisyScoreOptions,
    families=frozenset({"logistic", "linear", "poisson"}),
    exact=False,
    event=event,
    settle=settle,
    widening=widening,
    passes=passes,
    publish=publish,
    model=unchanged,
)
