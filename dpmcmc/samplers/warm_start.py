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
SHRUNK = 0.5  # of a squared score, in posterior sds, after a step that was not too long
CUT = 0.25  # of the largest sum of clipped gradients: from there on most rows are cut
LEAST = 1e-9  # prior precision
SURE = 0.02  # of a mean of x x^T: its noise
FURTHEST, HALVINGS = 3.0, 60  # log of the information at the end of a step over that at its start
LONGEST = 1.0  # the most that a far step moves, in prior standard deviations of all coefficients


@dataclass(frozen=True, slots=True)
class Found:
    """What a warm start releases.

    mode: (d,). root: (d, d), root @ root.T is about the posterior's covariance. error: (d, d),
    covariance of the mode's noise. growth: of a row's gradient there, over what was planned.
    """

    mode: Floats
    root: Floats
    error: Floats
    growth: float = 1.0


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
    finder = Finder(target, options, random)
    mode = finder.way(target.position[0].copy())
    finder.look(mode, finder.paid.second)
    for near in (finder.paid.middle,) * NUM_MIDDLE + (finder.paid.near,):
        here, score = mode, finder.score(mode, near)
        mode = finder.moved(here, np.linalg.solve(finder.precision(here), score))
    inverse = np.asarray(np.linalg.inv(finder.precision(here)), dtype=np.float64)
    error = inverse @ inverse.T * finder.score_sd(here, finder.paid.near) ** 2
    root = np.asarray(np.linalg.cholesky(0.5 * (inverse + inverse.T)), dtype=np.float64)
    error = np.asarray(0.5 * (error + error.T), dtype=np.float64)
    return Found(mode, root, error, finder.growth(mode)[1])


class Finder:
    """What has been released on the way to the mode, and what follows from it.

    Every decision is a function of released numbers: of scores, each released by `score`, and
    curvatures, each released by `look`.
    """

    def __init__(self, target: Target, options: WarmStart, random: RandomSource) -> None:
        self._target, self._options, self._random = target, options, random
        self.paid = _multipliers(options.noise_multiplier or math.nan, options.num_scores)
        self._prior = prior_precision(target, target.position.shape[1])
        self._moments: Floats | None = None
        self._rows, self._there = np.diag(self._prior), self._prior

    def way(self, mode: Floats) -> Floats:
        """Return a point (d,) near the mode.

        Clipped scores say where to go and not how far. So where most rows are cut a step is doubled
        while scores agree that are larger than their noise; where few are, a step is Newton's, and
        half as long after one that turned the score round without making it smaller.
        """
        self._learn(self.look(mode, self.paid.first), mode)
        last, before, damp, most = np.zeros(len(mode)), math.inf, 1.0, BOLDEST
        for _ in range(self._options.num_scores):
            score = self.score(mode, self.paid.far)
            newton = np.linalg.solve(self.precision(mode), score)
            size, length = float(score @ newton), float(np.linalg.norm(score))
            norms = length * float(np.linalg.norm(last))
            agree = float(score @ last) / norms if norms > 0.0 else 0.0
            if length < math.sqrt(CLEAR * len(mode)) * self.score_sd(mode, self.paid.far):
                damp, most = min(damp, 1.0), 1.0
            elif agree < TURNED and size > SHRUNK * before:
                damp, most = 0.5 * min(damp, 2.0), 1.0
            elif length < CUT * self._clip(mode) * self._target.tempering * self._target.rows:
                damp = min(2.0 * damp, 1.0)
            elif agree > AGREED:
                damp = min(2.0 * damp, most)
            mode, last, before = self.moved(mode, damp * newton), score, size
        return mode

    def score(self, mode: Floats, z: float) -> Floats:
        """Release the gradient of the log posterior at mode (d,). Privacy: a Gaussian(z) event."""
        positions = mode[None]
        sums, sensitivity = self._target.gradient(positions, self._clip(mode))
        noise = discrete_gaussian(self._random, log2_sd(z), sums.shape)
        released = noisy_sums(sums, sensitivity, z, noise)
        score: Floats = (released + self._target.log_prior_gradient(positions))[0]
        return score

    def score_sd(self, mode: Floats, z: float) -> float:
        """Return the sd of the noise of a score that is released at mode."""
        return z * 2.0 * self._clip(mode) * self._target.tempering

    def look(self, mode: Floats, z: float) -> float:
        """Release what the rows add to the precision near mode. Privacy: one Gaussian(z) event.

        The isometry that doubles the squares above the diagonal, then noise, then eigenvalues below
        the noise's own size, which is returned, are lifted to it. Proof:
        docs/proofs/gaussian_release.md, section 1.
        """
        d, growth = len(mode), self.growth(mode)[0]
        bound = (self._options.curvature_bound or math.nan) * float(growth.max())
        sums, sensitivity = self._target.gram(mode[None], bound)
        rows, columns = np.triu_indices(d)
        weights = np.where(rows == columns, 1.0, math.sqrt(2.0))
        noise = discrete_gaussian(self._random, log2_sd(z), rows.shape)
        noisy = np.empty((d, d))
        noisy[rows, columns] = noisy_sums(sums[0][rows, columns] * weights, sensitivity, z, noise)
        noisy[rows, columns] /= weights
        noisy[columns, rows] = noisy[rows, columns]
        values, vectors = np.linalg.eigh(noisy)
        blur = z * sensitivity * math.sqrt(d)
        self._rows = (vectors * np.maximum(values, blur)) @ vectors.T
        self._there = growth
        return blur

    def precision(self, mode: Floats) -> Floats:
        """Return the posterior's, (d, d), at mode (d,), from where it was released last."""
        scale = np.sqrt(self.growth(mode)[0] / self._there)
        return np.asarray(self._rows * np.outer(scale, scale) + np.diag(self._prior))

    def moved(self, mode: Floats, step: NDArray[np.floating[Any]]) -> Floats:
        """Return mode (d,) after a step, shortened where it is longer than what is known of it.

        That is LONGEST in prior sds, and where information would change by more than FURTHEST.
        """
        long = math.sqrt(float(np.mean(step**2 * self._prior))) / LONGEST
        step = np.asarray(step, dtype=np.float64) / max(1.0, long)
        here = np.log(self.growth(mode)[0])
        for _ in range(HALVINGS):
            if np.abs(np.log(self.growth(mode + step)[0]) - here).max() <= FURTHEST:
                break
            step = 0.5 * step
        return np.asarray(mode + step)

    def _learn(self, blur: float, start: Floats) -> None:
        """Take the mean of x x^T from the curvature at the start, where it is clear of its noise.

        There all rows have the same information.
        """
        whole = self._target.tempering * self._target.rows
        if blur < SURE * whole:
            self._moments = self._rows / whole
            self._there = self.growth(start)[0]

    def growth(self, mode: Floats) -> tuple[Floats, float]:
        """Return (information (d,), gradients) of a typical row at mode, over what was planned."""
        information, gradients = self._target.growth(mode[None], self._moments)
        return information[0], float(gradients[0])

    def _clip(self, mode: Floats) -> float:
        """Return the norm that a row's gradient keeps at mode (d,): as planned, for its growth."""
        return (self._options.gradient_clip or math.nan) * self.growth(mode)[1]


def prior_precision(target: Target, d: int) -> Floats:
    """Return (d,) what the prior adds to the precision, read off its gradient, above 0."""
    here, there = np.zeros((1, d)), np.ones((1, d))
    slope: Floats = (target.log_prior_gradient(here) - target.log_prior_gradient(there))[0]
    return np.maximum(slope, LEAST)
