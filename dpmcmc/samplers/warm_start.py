"""A private way to the mode: noisy scores and curvatures, released before the chain begins.

Sampling starts near the mode and with a mass matrix of the right shape, and what that costs is part
of the job's event.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.discrete import discrete_gaussian, log2_sd, noisy_sums
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Target
from dpmcmc.samplers.options import WarmStart

FIRST, FAR = 0.06, 0.20  # shares of mu^2: of the curvature at the start, of the scores on the way,
SECOND, MIDDLE, NEAR = 0.14, 0.10, 0.50  # of the curvature near the mode, and of the scores there
NUM_MIDDLE = 2
BOLDEST = 32.0  # times a Newton step
AGREED, TURNED = 0.5, -0.2  # cosines of consecutive scores
CLEAR = 4.0  # of a squared score over what noise alone gives
LEAST = 1e-9  # prior precision
LONGEST = 1.0  # the most that a far step moves, in prior standard deviations of all coefficients


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
    paid = _multipliers(z, options.num_scores)
    far_scores = Repeat(Gaussian(paid.far), options.num_scores)
    middle = Repeat(Gaussian(paid.middle), NUM_MIDDLE)
    last = Gaussian(paid.near)
    return Compose((Gaussian(paid.first), far_scores, Gaussian(paid.second), middle, last))


@dataclass(frozen=True, slots=True)
class _Multipliers:
    """Of each release: curvature and scores far from the mode, then near it."""

    first: float
    far: float
    second: float
    middle: float
    near: float


def _multipliers(z: float, num_scores: int) -> _Multipliers:
    return _Multipliers(
        z / math.sqrt(FIRST),
        z * math.sqrt(num_scores / FAR),
        z / math.sqrt(SECOND),
        z * math.sqrt(NUM_MIDDLE / MIDDLE),
        z / math.sqrt(NEAR),
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

    Newton steps on noisy scores with a noisy curvature: the way, two steps from a curvature taken
    at its end, and a last one whose score has most of the budget.
    """
    paid = _multipliers(options.noise_multiplier or math.nan, options.num_scores)
    prior = _prior_precision(target, target.position.shape[1])
    mode = _way(target, options, prior, paid, random)
    precision = _precision(target, options, mode, prior, paid.second, random)
    for z in (paid.middle,) * NUM_MIDDLE + (paid.near,):
        score = _score(target, options, mode, z, random)
        mode = _moved(mode, np.linalg.solve(precision, score), prior)
    inverse = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    error = inverse @ inverse.T * _score_sd(target, options, paid.near) ** 2
    root = np.asarray(np.linalg.cholesky(0.5 * (inverse + inverse.T)), dtype=np.float64)
    return Found(mode, root, np.asarray(0.5 * (error + error.T), dtype=np.float64))


def _way(
    target: Target, options: WarmStart, prior: Floats, paid: _Multipliers, random: RandomSource
) -> Floats:
    """Return a point (d,) near the mode, from the start of the first chain.

    Clipped scores say where to go and not how far. So a step is doubled while scores agree that are
    larger than their noise; the first that turns round or is not ends that, and from then on steps
    are at most Newton's. All that is decided from is released.
    """
    mode: Floats = target.position[0].copy()
    last = np.zeros(len(mode))
    precision = _precision(target, options, mode, prior, paid.first, random)
    noise = len(mode) * _score_sd(target, options, paid.far) ** 2
    damp, most = 1.0, BOLDEST
    for _ in range(options.num_scores):
        score = _score(target, options, mode, paid.far, random)
        norms = float(np.linalg.norm(score) * np.linalg.norm(last))
        agree = float(score @ last) / norms if norms > 0.0 else 0.0
        if agree < TURNED:
            damp, most = 0.5 * min(damp, 2.0), 1.0
        elif float(score @ score) < CLEAR * noise:
            damp, most = min(damp, 1.0), 1.0
        elif agree > AGREED:
            damp = min(2.0 * damp, most)
        mode, last = _moved(mode, damp * np.linalg.solve(precision, score), prior), score
    return mode


def _score_sd(target: Target, options: WarmStart, z: float) -> float:
    """Return the sd of a released score's noise."""
    return z * 2.0 * (options.gradient_clip or math.nan) * target.tempering


def _moved(mode: Floats, step: NDArray[np.floating[Any]], prior: Floats) -> Floats:
    """Return mode (d,) after a step, shortened where it is longer than LONGEST."""
    long = math.sqrt(float(np.mean(step**2 * prior))) / LONGEST
    moved: Floats = mode + np.asarray(step, dtype=np.float64) / max(1.0, long)
    return moved


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
