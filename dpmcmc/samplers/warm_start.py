"""A private way to the mode: noisy scores and curvatures, released before the chain begins.

Sampling starts near the mode and with a mass matrix of the right shape, and what that costs is part
of the job's event.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpmcmc.privacy.discrete import discrete_gaussian, log2_sd, noisy_sums
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Target

FIRST, FAR, SECOND, NEAR = 0.10, 0.25, 0.15, 0.50  # shares of mu^2: curvature, scores, and again
NUM_NEAR = 2
BOLDEST = 8.0  # times a Newton step
LEAST = 1e-9  # prior precision
LONGEST = 1.0  # the most that a far step moves, in prior standard deviations of all coefficients


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """Private scores and curvatures from the prior mean to the mode, before the chain.

    share: of the job's mu^2, where the job gives epsilon. noise_multiplier: of the whole warm
    start, as if it were one release. num_scores: on the way; 2 more refine the mode.
    gradient_clip: largest norm that a row's gradient keeps. curvature_bound: the most that a row's
    information counts. What is None is chosen by the planner.
    """

    share: float = 0.25
    noise_multiplier: float | None = None
    num_scores: int = 10
    gradient_clip: float | None = None
    curvature_bound: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a warm start releases.

    mode: (d,). root: (d, d), root @ root.T is about the posterior's covariance. error: (d, d),
    covariance of the mode's noise.
    """

    mode: Floats
    root: Floats
    error: Floats


def event(options: WarmStart) -> Event:
    """Return all releases of a warm start, mu = 1 / noise_multiplier together.

    Proof: docs/proofs/gaussian_release.md, section 3.
    """
    z = options.noise_multiplier
    if z is None:
        raise ValueError("the warm start's noise must be known")
    first, far, second, near = _multipliers(z, options.num_scores)
    far_scores = Repeat(Gaussian(far), options.num_scores)
    near_scores = Repeat(Gaussian(near), NUM_NEAR)
    return Compose((Gaussian(first), far_scores, Gaussian(second), near_scores))


def _multipliers(z: float, num_scores: int) -> tuple[float, float, float, float]:
    return (
        z / math.sqrt(FIRST),
        z * math.sqrt(num_scores / FAR),
        z / math.sqrt(SECOND),
        z * math.sqrt(NUM_NEAR / NEAR),
    )


def with_event(options: WarmStart | None, chain: Event) -> Event:
    """Return the chain's event with the warm start's before it."""
    return chain if options is None else Compose((event(options), chain))


def begin(target: Target, options: WarmStart | None, random: RandomSource) -> Found | None:
    """Put all chains near the mode. None where no warm start is asked for.

    Each chain starts at a draw from the released approximation of the posterior, noise included.
    Privacy: event(options).
    """
    if options is None:
        return None
    found = find(target, options, random)
    chains, d = target.position.shape
    covariance = found.root @ found.root.T + found.error
    spread = random.normals((chains, d)) @ np.linalg.cholesky(covariance).T
    target.position[:] = found.mode + spread
    return found


def find(target: Target, options: WarmStart, random: RandomSource) -> Found:
    """Return the released mode and covariance. Privacy: event(options). Never raises on rows.

    Damped Newton steps on noisy scores with a noisy curvature. A step is doubled while scores point
    the same way and halved when they turn round: all that is decided from is released.
    """
    first, far, second, near = _multipliers(
        options.noise_multiplier or math.nan, options.num_scores
    )
    d = target.position.shape[1]
    prior = _prior_precision(target, d)
    mode, damp, last = target.position[0].copy(), 1.0, None
    precision = _precision(target, options, mode, prior, first, random)
    for _ in range(options.num_scores):
        score = _score(target, options, mode, far, random)
        damp = damp if last is None else _damped(damp, score, last)
        step = damp * np.linalg.solve(precision, score)
        long = math.sqrt(float(np.mean(step**2 * prior)))
        mode, last = mode + step / max(1.0, long / LONGEST), score
    precision = _precision(target, options, mode, prior, second, random)
    guesses: list[Floats] = []
    for _ in range(NUM_NEAR):
        score = _score(target, options, mode, near, random)
        guesses.append(mode + np.linalg.solve(precision, score))
        mode = np.asarray(np.mean(np.stack(guesses), axis=0), dtype=np.float64)
    inverse = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    sd = near * 2.0 * (options.gradient_clip or math.nan) * target.tempering
    error = inverse @ inverse.T * (sd * sd / NUM_NEAR)
    root = np.asarray(np.linalg.cholesky(0.5 * (inverse + inverse.T)), dtype=np.float64)
    return Found(mode, root, np.asarray(0.5 * (error + error.T), dtype=np.float64))


def _damped(damp: float, score: Floats, last: Floats) -> float:
    """Double the step while scores agree, halve it when they turn round."""
    norms = float(np.linalg.norm(score) * np.linalg.norm(last))
    agree = float(score @ last) / norms if norms > 0.0 else 0.0
    if agree > 0.5:
        return min(2.0 * damp, BOLDEST)
    return 0.5 * damp if agree < -0.2 else damp


def _score(
    target: Target, options: WarmStart, mode: Floats, z: float, random: RandomSource
) -> Floats:
    """Release the gradient of the log posterior at mode (d,). Privacy: one Gaussian(z) event."""
    positions = mode[None]
    sums, sensitivity = target.gradient(positions, options.gradient_clip or math.nan)
    noise = discrete_gaussian(random, log2_sd(z), sums.shape)
    released = noisy_sums(sums, sensitivity, z, noise) + target.log_prior_gradient(positions)
    score: Floats = released[0]
    return score


def _precision(
    target: Target, options: WarmStart, mode: Floats, prior: Floats, z: float, random: RandomSource
) -> Floats:
    """Release the posterior's precision near mode, (d, d). Privacy: one Gaussian(z) event.

    The isometry that doubles the squares above the diagonal, then noise, then eigenvalues below
    the noise's own size are lifted to it. Proof: docs/proofs/gaussian_release.md, section 1.
    """
    d = len(mode)
    sums, sensitivity = target.gram(mode[None], options.curvature_bound or math.nan)
    rows, columns = np.triu_indices(d)
    weights = np.where(rows == columns, 1.0, math.sqrt(2.0))
    noise = discrete_gaussian(random, log2_sd(z), rows.shape)
    noisy = np.empty((d, d))
    noisy[rows, columns] = noisy_sums(sums[0][rows, columns] * weights, sensitivity, z, noise)
    noisy[rows, columns] /= weights
    noisy[columns, rows] = noisy[rows, columns]
    values, vectors = np.linalg.eigh(noisy)
    lifted = np.maximum(values, z * sensitivity * math.sqrt(d))
    precision: Floats = (vectors * lifted) @ vectors.T + np.diag(prior)
    return precision


def _prior_precision(target: Target, d: int) -> Floats:
    """Return (d,) what the prior adds to the precision, read off its gradient, above 0."""
    here, there = np.zeros((1, d)), np.ones((1, d))
    slope: Floats = (target.log_prior_gradient(here) - target.log_prior_gradient(there))[0]
    return np.maximum(slope, LEAST)
