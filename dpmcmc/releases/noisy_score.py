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
SLACK = 1.001  # for rounding


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
    noise = np.eye(len(prior)) * (clip * noise_multiplier) ** 2 / NEAR
    blur = _blur(options, facts.reach, outlook.tempering, noise_multiplier, len(prior))
    known = np.diag(prior) + _information(precision - np.diag(prior), noise, blur)
    wide, exact = _inverse(known), _inverse(precision)
    found: Floats = np.sqrt(np.maximum(np.diag(wide) / np.diag(exact), 1.0))
    return found


def publish(
    target: Target,
    reach: float,
    options: NoisyScoreOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Normal:
    """Find the mode and return the normal approximation given its noise.

    Privacy: event(options). Never raises on rows. Proof: docs/proofs/noisy_score.md.
    """
    found = warm_start.find(target, _way(options, noise_multiplier), random)
    d = len(found.mode)
    blur = _blur(options, reach, target.tempering, noise_multiplier, d)
    prior_mean, prior = prior_of(target, d)
    normal = posterior(found, prior_mean, prior, blur)
    covariance = normal.root @ normal.root.T
    skew = target.skew(_inverse(covariance) - np.diag(prior), covariance)
    return Normal(normal.mean + skew, normal.root)


def posterior(found: warm_start.Found, prior_mean: Floats, prior: Floats, blur: float) -> Normal:
    """Return the posterior given a noisy Newton step near the mode, never wider than the prior.

    blur: size of the noise of the curvature. With P the precision, H = P - prior and S the noise of
    the score, P mode - prior prior_mean = H theta_hat + N(0, S), theta_hat ~ N(theta, H^-1).
    """
    precision = _inverse(found.root @ found.root.T)
    rows = _symmetric(precision - np.diag(prior))
    known = _information(rows, _symmetric(precision @ found.error @ precision), blur)
    peak = np.linalg.lstsq(rows, precision @ found.mode - prior * prior_mean, rcond=None)[0]
    given = np.diag(prior) + known
    mean = np.linalg.solve(given, prior * prior_mean + known @ peak)
    values, vectors = np.linalg.eigh(_inverse(given))
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return Normal(np.asarray(mean, dtype=np.float64), root)


def _information(rows: Floats, noise: Floats, blur: float) -> Floats:
    """Return H (H + S)^-1 H, H being the curvature less the most that its noise may have added."""
    values, vectors = np.linalg.eigh(rows)
    least = (vectors * np.maximum(values - blur, 0.0)) @ vectors.T
    return _symmetric(least @ np.linalg.lstsq(least + noise, least, rcond=None)[0])


def _blur(
    options: NoisyScoreOptions, reach: float, tempering: float, noise_multiplier: float, d: int
) -> float:
    """Return the size of the noise of the last curvature, to which small eigenvalues are lifted.

    Its sensitivity: docs/proofs/gaussian_release.md, section 1.
    """
    sensitivity = math.sqrt(2.0) * tempering * (options.curvature_bound or math.nan) * reach**2
    return noise_multiplier / math.sqrt(CURVATURE) * sensitivity * math.sqrt(d) * SLACK


def _inverse(matrix: Floats) -> Floats:
    return _symmetric(np.asarray(np.linalg.inv(matrix), dtype=np.float64))


def _symmetric(matrix: Floats) -> Floats:
    found: Floats = 0.5 * (matrix + matrix.T)
    return found


def unchanged(model: "ModelSpec") -> "ModelSpec":
    """Return the model: its own coordinates do."""
    return model


def passes(options: NoisyScoreOptions) -> int:
    """See Release."""
    return options.num_scores + 4


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
