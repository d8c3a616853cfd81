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
RARELY = 3.0  # sds beyond the length of a score's noise
OTHERWISE = 1.5  # times the change of a score that was expected
SHRUNK = 0.5  # of a squared score, in posterior sds, after a step that was not too long
CUT = 0.25  # of the largest sum of clipped gradients: from there on most rows are cut
LEAST = 1e-9  # prior precision
SURE = 0.02  # of a mean of x x^T: its noise
FURTHEST, HALVINGS = 3.0, 60  # log of the information at the end of a step over that at its start
CLOSE = 0.25  # noise of a curvature in round coordinates, over the curvature, that is no harm
BARELY, LEAST_LEVERAGE, MOST_LEVERAGE = 0.05, 5.0, 100.0  # such noise that is nothing; see there
SLACK = 1.001  # for rounding
MOST_PAIRS = 32  # of points that a score is averaged over
LONGEST = 1.0  # the most that a far step moves, in prior standard deviations of all coefficients


@dataclass(frozen=True, slots=True)
class Found:
    """What a warm start releases.

    mode: (d,). root: (d, d), root @ root.T is about the posterior's covariance. error: (d, d),
    covariance of the mode's noise. blur: (d, d), what noise may have added to the precision.
    growth: of a row's gradient there, over what was planned.
    """

    mode: Floats
    root: Floats
    error: Floats
    blur: Floats
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


def find(target: Target, options: WarmStart, random: RandomSource, *, mean: bool = False) -> Found:
    """Return the released mode and covariance. Privacy: event(options). Never raises on rows.

    Newton steps on noisy scores with a noisy curvature: the way, two steps from a curvature taken
    at its end, and a last one whose score has most of the budget; after the way, on scores that are
    clipped in coordinates in which the posterior is round.
    mean: whether to look for the mean in place of the mode. Near a normal posterior's mean scores
    average to 0 over its draws, so each of the last scores is an average over a cubature of it.
    """
    finder = Finder(target, options, random)
    mode = finder.way(target.position[0].copy())
    finder.look(mode, finder.paid.second, again=True)
    if not target.bounded:  # where no gradient is longer than the clip, none is to be cut
        finder.spread(mode)
    way = last = np.zeros(len(mode))
    for near in (finder.paid.middle,) * NUM_MIDDLE + (finder.paid.near,):
        here, score = mode, finder.score(mode, near, finder.around(mode) if mean else 0.0)
        finder.compare(here, way, last - score, finder.paid.middle)
        mode = finder.moved(here, np.linalg.solve(finder.precision(here), score))
        way, last = mode - here, score
    target.spread(None)
    noise = inverse(finder.precision(here)) @ finder.score_root(here, finder.paid.near)
    error = noise @ noise.T
    error = np.asarray(0.5 * (error + error.T), dtype=np.float64)
    return Found(mode, finder.root(here), error, finder.blur(here), finder.growth(mode)[1])


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
        self._back, self._longer = np.eye(target.position.shape[1]), 1.0
        self._rows, self._there = np.diag(self._prior), self._prior
        self._blur = np.diag(self._prior)

    def way(self, mode: Floats) -> Floats:
        """Return a point (d,) near the mode.

        Clipped scores say where to go and not how far. So where most rows are cut a step is doubled
        while scores agree that are larger than their noise; where few are, a step is Newton's, and
        half as long after one that turned the score round without making it smaller.
        """
        self._learn(self.look(mode, self.paid.first), mode)
        last, before, damp, most = np.zeros(len(mode)), math.inf, 1.0, BOLDEST
        way = np.zeros(len(mode))
        for _ in range(self._options.num_scores):
            score = self.score(mode, self.paid.far)
            self.compare(mode, way, last - score, self.paid.far)
            newton = np.linalg.solve(self._steady(mode), score)
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
            here, last, before = mode, score, size
            mode = self.moved(here, damp * newton)
            way = mode - here
        return mode

    def _steady(self, mode: Floats) -> Floats:
        """Return the precision at mode, no direction below what a score's noise amounts to.

        There a Newton step would go further on noise alone than the posterior reaches.
        """
        values, vectors = np.linalg.eigh(self.precision(mode))
        least = self.score_sd(mode, self.paid.far) ** 2
        return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)

    def compare(self, mode: Floats, way: Floats, turned: Floats, z: float) -> None:
        """Correct the curvature along the last step, where scores turned out to change otherwise.

        way: (d,) to mode (d,). turned: (d,) what the score lost on it; z: of both scores. Where
        that is clear of noise, and not about what was known: the update of Broyden, Fletcher,
        Goldfarb and Shanno. A step that followed mere noise finds twice the change that it expects.
        """
        if self._target.even:
            return
        known = self._moved_to(mode, self._rows)
        turned = turned - self._prior * way
        change, expected = float(turned @ way), float(way @ known @ way)
        noise = float(np.linalg.norm(self.score_root(mode, z).T @ way))
        clear = change > math.sqrt(2.0 * CLEAR) * noise > 0.0
        clear &= abs(change - expected) > (math.sqrt(len(mode)) + RARELY) * noise
        if not clear or 1.0 / OTHERWISE < change / max(expected, LEAST) < OTHERWISE:
            return
        pushed = known @ way
        self._rows = known + np.outer(turned, turned) / change
        self._rows -= np.outer(pushed, pushed) / max(expected, LEAST)
        self._there = self.growth(mode)[0]

    def around(self, mode: Floats) -> Floats:
        """Return (point, d) ways from mode (d,), of the mean and covariance of the posterior.

        Averages over them are those over a normal posterior for polynomials up to the third degree
        (up to MOST_PAIRS coefficients, and on average beyond).
        """
        d = len(mode)
        turned = np.linalg.qr(self._random.normals((d, d)))[0][:MOST_PAIRS]
        ways = math.sqrt(d) * turned @ self.root(mode).T
        return np.concatenate((ways, -ways))

    def score(self, mode: Floats, z: float, around: Floats | float = 0.0) -> Floats:
        """Release the gradient of the log posterior at mode (d,). Privacy: a Gaussian(z) event.

        around: (point, d), what is added to mode where it is to be the average over such points.
        Proof: docs/proofs/gaussian_release.md, section 3.
        """
        positions = np.atleast_2d(mode + around)
        sums, sensitivity = self._target.gradient(positions, self._clip(mode))
        noise = discrete_gaussian(self._random, log2_sd(z), mode.shape)
        count = len(positions)
        released = noisy_sums(sums.sum(axis=0), count * sensitivity, z, noise) / count
        prior = self._target.log_prior_gradient(positions).mean(axis=0)
        return np.asarray(released @ self._back + prior)

    def score_sd(self, mode: Floats, z: float) -> float:
        """Return the sd of the noise of a score that is released at mode, where it is clipped."""
        return z * 2.0 * self._clip(mode) * self._target.tempering

    def score_root(self, mode: Floats, z: float) -> Floats:
        """Return a root (d, d) of the covariance of that noise."""
        return np.asarray(self.score_sd(mode, z) * self._back.T)

    def spread(self, mode: Floats) -> None:
        """From now on clip scores where the posterior, as known at mode (d,), is round.

        Where it is long and narrow their noise is less. See Target.spread.
        """
        self._back, self._longer = self._target.spread(self.root(mode))

    def look(self, mode: Floats, z: float, *, again: bool = False) -> float:
        """Release what the rows add to the precision near mode. Privacy: one Gaussian(z) event.

        again: in coordinates in which the posterior, as known so far, is round, if there the noise
        is small: it is about the same part of the precision in every direction then.
        The isometry that doubles the squares above the diagonal, then noise, then eigenvalues below
        the noise's own size, which is returned, are lifted to it. Proof:
        docs/proofs/gaussian_release.md, section 1.
        """
        d, growth, target = len(mode), self.growth(mode)[0], self._target
        bound = (self._options.curvature_bound or math.nan) * float(growth.max())
        leverage, relative = leverage_of(z, target.rows, d)
        if again and relative < CLOSE:
            root = self.root(mode)
            sums, sensitivity = target.gram(mode[None], bound, root, leverage * d / target.rows)
        else:
            root = np.eye(d)
            sums, sensitivity = target.gram(mode[None], bound)
        rows, columns = np.triu_indices(d)
        weights = np.where(rows == columns, 1.0, math.sqrt(2.0))
        noise = discrete_gaussian(self._random, log2_sd(z), rows.shape)
        noisy = np.empty((d, d))
        noisy[rows, columns] = noisy_sums(sums[0][rows, columns] * weights, sensitivity, z, noise)
        noisy[rows, columns] /= weights
        noisy[columns, rows] = noisy[rows, columns]
        values, vectors = np.linalg.eigh(noisy)
        blur, back = z * sensitivity * math.sqrt(d), np.linalg.inv(root)
        self._rows = back.T @ ((vectors * np.maximum(values, blur)) @ vectors.T) @ back
        self._blur, self._there = blur * back.T @ back, growth
        return float(blur)

    def blur(self, mode: Floats) -> Floats:
        """Return (d, d), the most that noise may have added to the precision at mode (d,)."""
        return SLACK * self._moved_to(mode, self._blur)

    def precision(self, mode: Floats) -> Floats:
        """Return the posterior's, (d, d), at mode (d,), from where it was released last."""
        return self._moved_to(mode, self._rows) + np.diag(self._prior)

    def root(self, mode: Floats) -> Floats:
        """Return (d, d), root @ root.T is the covariance that belongs to it."""
        return np.asarray(np.linalg.cholesky(inverse(self.precision(mode))), dtype=np.float64)

    def _moved_to(self, mode: Floats, curvature: Floats) -> Floats:
        """Return a curvature (d, d) of rows, as it was released last, as it is at mode (d,)."""
        scale = np.sqrt(self.growth(mode)[0] / self._there)
        return np.asarray(curvature * np.outer(scale, scale))

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
        return (self._options.gradient_clip or math.nan) * self.growth(mode)[1] * self._longer


def leverage_of(z: float, rows: int, d: int) -> tuple[float, float]:
    """Return where a row's part of a curvature is cut in round coordinates, and the noise there.

    The first over the mean part of a row; the second over the curvature, which is 1 there.
    """
    noise = math.sqrt(2.0) * z * d * math.sqrt(d) / rows
    leverage = min(max(BARELY / noise, LEAST_LEVERAGE), MOST_LEVERAGE)
    return leverage, leverage * noise


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric matrix, symmetric to the bit."""
    found = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    return 0.5 * (found + found.T)


def prior_precision(target: Target, d: int) -> Floats:
    """Return (d,) what the prior adds to the precision, read off its gradient, above 0."""
    here, there = np.zeros((1, d)), np.ones((1, d))
    slope: Floats = (target.log_prior_gradient(here) - target.log_prior_gradient(there))[0]
    return np.maximum(slope, LEAST)
