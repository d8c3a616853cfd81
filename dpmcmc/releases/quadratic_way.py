"""The way to the posterior: looks at public numbers of places, from what they released.

A look is one event: score, curvature, the score's variance and the scale of the residuals at one
place. Far looks find the place and the coordinates; near ones share their coordinates, so that
they can be pooled. Every decision here is a function of public facts and of released numbers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpmcmc.families.base import NONE, Family, Floats, Place
from dpmcmc.families.given import pilot, shift_of, usual_of
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import classwise, scales, whitening
from dpmcmc.releases.joint_sums import Block, Caps, Sums, release
from dpmcmc.releases.quadratic_steps import TINY, Look, agreeing, rounded, told, trace, weighted
from dpmcmc.releases.whitening import BLOCK, Whitening, at_least, kept, lifted, rounder

SAFE = 1.0 - 2.0**-40  # of mu^2: rounding of what follows costs nothing
WHITENING = 0.05  # share of mu^2;
NEAR = (0.38, 0.42)  # of the near looks. The far ones share what is left
PILOTS = 2  # of the far ones, at the log of a count
NOISE, SQUARE_FAR, SQUARE_NEAR = 0.05, 0.15, 0.10  # parts of a look: variance, scale
LEAST_CURVE, MOST_CURVE = 0.11, 0.4  # the same of the curvature,
LOUD = 0.08  # the larger, the more its noise is above this part of it
TIGHT, WIDE = 1.3, 20.0  # mean slope * length^2, beyond which rows count less
QUIET = 0.2  # noise of a score, in posterior sds, that nobody minds: rows are not cut for less
SKEWED = 1.0  # the same where responses are not as the model says: what is cut of them shifts it
ROUGH = 1.3  # residuals over those of the model, from which on they are not
FIRST_CLIP, LEAST_CLIP, MOST_CLIP, WIDEST_CLIP = 1.5, 0.7, 10.0, 50.0
AIM = 0.8  # what is left of the score's variance where noise decides how rows are cut
CLOSE = 1.5  # times a clip that is that tight
MOST_GROWTH, LEAST_LEFT = 6.0, 0.1  # of a scale in one look, and of its square in one step
FARTHEST_RATE = (-8.0, 20.0)  # log of a mean count
RIDGE = 1e-9  # of the mean precision of where the mode is
LEAST_BLOCK = 512  # rows at a time, where they have several predictors


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows and public facts. x: (d, n). y: (n,). start, prior_mean, prior: (k d,) of coefficients.

    reach: largest norm of a row. scale: of the residuals, to begin with. noise_multiplier: of
    everything that is done. white: coordinates that have been paid for, or None. counted: (n,), see
    Block; None where no row may be left out.
    """

    family: Family
    x: Floats
    y: Floats
    start: Floats
    prior_mean: Floats
    prior: Floats
    reach: float
    scale: float
    noise_multiplier: float
    fixed: bool = False
    white: Whitening | None = None
    counted: Floats | None = None

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.start)

    @property
    def classes(self) -> int:
        """Number of predictors of a row."""
        return len(self.start) // len(self.x)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)


def shares(num_far: int, paid: bool = False) -> tuple[float, ...]:
    """Return the parts of mu^2 of all looks, far ones first. paid: for the whitening, before."""
    left = 1.0 - sum(NEAR) - WHITENING
    scale = SAFE / (1.0 - WHITENING) if paid else SAFE
    return tuple(scale * share for share in (*(left / num_far,) * num_far, *NEAR))


def event(z: float, num_far: int, paid: bool = False) -> Event:
    """Return everything that `travel` does to the rows. Proof: docs/proofs/noisy_quadratic.md.

    paid: whether the coordinates come from a whitening that was charged elsewhere.
    """
    *far, first, last = shares(num_far, paid)
    looks = (
        Repeat(Gaussian(z / math.sqrt(far[0])), len(far)),
        Gaussian(z / math.sqrt(first)),
        Gaussian(z / math.sqrt(last)),
    )
    if paid:
        return Compose(looks)
    return Compose((whitening.event(z / math.sqrt(SAFE * WHITENING)), *looks))


def travel(
    problem: Problem, num_far: int, random: RandomSource
) -> tuple[Whitening, tuple[Look, Look]]:
    """Return the coordinates and the two near looks. Privacy: event(...). Never raises on rows."""
    z, paid = problem.noise_multiplier, problem.white is not None
    white = problem.white
    if white is None:
        z_white = z / math.sqrt(SAFE * WHITENING)
        white = whitening.whiten(problem.x, problem.reach, z_white, random, problem.counted)
    traveller = _Traveller(problem, white, random)
    parts = [z / math.sqrt(share) for share in shares(num_far, paid)]
    if problem.family.pilot:
        traveller.begin_by_logs(parts[:PILOTS])
        parts = parts[PILOTS:]
    for part in parts[:-2]:
        traveller.far(part)
    return white, traveller.near(parts[-2], parts[-1])


class _Traveller:
    """Where the way has got to. known: the curvature over n as far as it stood out of noise."""

    def __init__(self, problem: Problem, white: Whitening, random: RandomSource) -> None:
        self._problem, self._white, self._random = problem, white, random
        self._family = problem.family
        self._place, self._scale = problem.start.copy(), problem.scale
        self._clip, self._rows = FIRST_CLIP, float(problem.rows)  # that are not left out
        self._stretch(problem.family.level)
        self._forget()

    def _forget(self) -> None:
        """Know nothing of the place."""
        self._mean, size = self._place.copy(), self._problem.size
        self._precision = np.zeros((size, size))

    def _stretch(self, level: float) -> None:
        """Begin with coordinates in which rows with this slope are round."""
        level = level / self._scale**2 if self._family.additive else level
        slopes = np.array([[level]])
        if self._problem.classes > 1:
            slopes = classwise.at_rest(self._family, self._problem.classes)
        self._root = np.asarray(np.kron(lifted(slopes, 0.0), self._white.root), np.float64)
        self._known = np.asarray(np.kron(slopes, self._white.known), np.float64)
        self._held = self._white.held

    def begin_by_logs(self, parts: list[float]) -> None:
        """Go to where a linear regression of the log of the response is."""
        problem, family, scale = self._problem, self._family, self._scale
        self._family, logs = pilot(family, problem.y)
        self._problem, self._scale = replace(problem, y=logs), 2.0
        self._stretch(1.0)
        for part in parts:
            self.far(part)
        self._problem, self._family, self._scale = problem, family, scale
        self._stretch(usual_of(family) * self._rate())
        self._forget()

    def _rate(self) -> float:
        """Return the mean count here, of normal predictors. The first column is the intercept."""
        back = np.linalg.inv(self._white.root)
        second = back.T @ back
        mean = float(second[0] @ self._place)
        spread = float(self._place @ second @ self._place) - mean * mean
        mean += shift_of(self._family)
        low, high = FARTHEST_RATE
        return math.exp(min(max(mean + 0.5 * min(max(spread, 0.0), 4.0), low), high))

    def far(self, z: float) -> None:
        """Look, and go on."""
        look = self._look(z, z, SQUARE_FAR)
        step, curve = self._step(look)
        self._place = np.asarray(self._place + self._root @ step)
        left = self._scale_left(look, float(step @ curve @ step))
        if self._problem.classes > 1:
            self._round_classes(look, curve)
        else:
            self._round(look, curve)
        if self._family.additive:
            self._root = np.asarray(self._root * left)
            self._known = np.asarray(self._known / left**2)
        self._scale *= left

    def _round(self, look: Look, curve: Floats) -> None:
        """Go to coordinates in which rows are round, as far as this look tells."""
        n, back = self._rows, np.linalg.inv(self._root)
        noise, usual = look.sums.noise / n, weighted(curve, look.sums.noise / n)
        before = self._root.T @ self._known @ self._root
        if not self._family.additive:
            before = before * min(1.0, trace(curve) / usual / trace(before))
        sds = look.sums.sds[1] / n, look.sums.sds[2] / n
        stretch, sure, close = rounded(curve, noise / usual, before, sds[0], sds[1] / usual)
        self._known = np.asarray(back.T @ sure @ back)
        level = self._level(curve) / usual
        self._held = at_least(self._held, np.asarray(back.T @ close @ back / level, np.float64))
        self._root = kept(np.asarray(self._root @ stretch), np.asarray(self._held * level))

    def _level(self, curve: Floats) -> float:
        """Return the mean slope of a row, given the curvature over n in these coordinates."""
        back = np.linalg.inv(self._white.root)
        return trace(curve) / trace(self._root.T @ (back.T @ back) @ self._root)

    def _round_classes(self, look: Look, curve: Floats) -> None:
        """Do the same where rows have several predictors."""
        n, white = self._rows, self._white.root
        sd = look.sums.sds[1] / n
        slopes = classwise.mean_slopes(look.sums.curvature / n, self._root, white, sd)
        self._known = classwise.weakened(self._known, slopes, white)
        held = np.asarray(np.kron(slopes, self._white.held), np.float64)
        self._root, self._known = rounder(self._root, self._known, curve, sd)
        self._root = kept(self._root, held)

    def near(self, first: float, last: float) -> tuple[Look, Look]:
        """Look twice, in the same coordinates."""
        pooled = 1.0 / math.hypot(1.0 / first, 1.0 / last)
        looks = []
        for z in (first, last):
            look = self._look(z, pooled, SQUARE_NEAR, mean=True)
            self._place = self._place + self._root @ self._step(look)[0]
            if self._family.scaled and not self._problem.fixed:
                self._scale *= look.tau
                self._scale = self._scale if self._family.additive else max(self._scale, 1.0)
            looks.append(look)
        return looks[0], looks[1]

    def _scale_left(self, look: Look, gained: float) -> float:
        """Return the scale of the residuals after a step over that before it."""
        if not self._family.scaled or (self._problem.fixed and self._family.additive):
            return 1.0
        tau = min(look.tau, MOST_GROWTH)
        if not self._family.additive:
            return max(1.0 / self._scale, tau)
        return math.sqrt(max(tau * tau - gained, LEAST_LEFT * tau * tau))

    def _look(self, z: float, pooled: float, square: float, mean: bool = False) -> Look:
        """Release what rows say here. One Gaussian(z) event. pooled: of the looks of its kind."""
        problem, p = self._problem, self._problem.size
        caps, clip, cut = self._caps(z, pooled, square)
        spread = self._posterior_root() if mean else None
        blocks = self._blocks(caps, cut, spread)
        gaps = problem.counted is not None
        sums = release(blocks, p, problem.rows, caps, z, self._random, gaps=gaps)
        self._rows = sums.rows
        tau, tau_sd = 1.0, 0.0
        if self._family.scaled:
            noise = sums.sds[3] / self._rows
            tau, tau_sd = scales.solved(sums.square / self._rows, cut, noise)
        self._follow(sums, clip)
        return Look(self._place, self._root, sums, self._scale, clip, cut, tau, tau_sd)

    def _caps(self, z: float, pooled: float, square: float) -> tuple[Caps, float, float]:
        """Return the caps of a look, the clip of its score and the cut of squares."""
        p, n = self._problem.size, self._rows
        square = square if self._family.scaled else 0.0
        blur = math.sqrt(2.0 / LEAST_CURVE) * TIGHT * p * z / n * math.sqrt(2.0 * p)
        curve = min(max(LEAST_CURVE * blur / LOUD, LEAST_CURVE), MOST_CURVE)
        parts = (1.0 - NOISE - square - curve, curve, NOISE, square)
        each = (
            2.0 * math.sqrt(p / (n * parts[0])) * pooled
        )  # noise in posterior sds for a clip of 1
        quiet = QUIET if self._rough() < ROUGH else SKEWED
        clip = min(max(quiet / each, self._clip), WIDEST_CLIP) * self._rough()
        blur = blur * math.sqrt(LEAST_CURVE / curve) / TIGHT
        most = min(max(LOUD / blur, TIGHT), WIDE) * p
        cut = scales.best_cut(math.sqrt(2.0 / square) * z / math.sqrt(n)) if square else 1.0
        return Caps(clip * math.sqrt(p), most, most, cut * cut, parts), clip, cut

    def _follow(self, sums: Sums, clip: float) -> None:
        """Fit the clip to how much of the score's variance the last one left."""
        p, trace = self._problem.size, float(np.trace(sums.curvature))
        clear = trace > 4.0 * (sums.sds[1] + sums.sds[2]) * math.sqrt(p)
        clip /= self._rough()
        if clear and clip <= CLOSE * self._clip:
            kept = min(max(float(np.trace(sums.noise)) / trace, 0.05), 1.0)
            self._clip = min(max(clip * AIM / kept, LEAST_CLIP), MOST_CLIP)

    def _rough(self) -> float:
        """Return how much further than the model says responses lie, as far as was released.

        Cut as close as those of the model they would be cut nearly all, and the cut ones are not
        the mean's any more.
        """
        apart = self._family.scaled and not self._family.additive
        return max(self._scale, 1.0) if apart else 1.0

    def _posterior_root(self) -> Floats:
        """Return a root (p, p) of the posterior's covariance, as known, in these coordinates."""
        prior = self._root.T @ (self._problem.prior[:, None] * self._root)
        values, vectors = np.linalg.eigh(0.5 * (prior + prior.T))
        values = self._rows + np.maximum(values, 0.0)  # where columns agree they are many powers
        return np.asarray(vectors / np.sqrt(values))

    def _blocks(self, caps: Caps, cut: float, root: Floats | None) -> Iterator[Block]:
        """Yield what rows say, a few at a time."""
        size, there = max(BLOCK // self._problem.classes, LEAST_BLOCK), self._problem.counted
        for start in range(0, self._problem.rows, size):
            x = self._problem.x[:, start : start + size]
            ways = classwise.ways_of(x, self._root)
            place = self._asked(x, ways, caps, cut, root)
            with np.errstate(all="ignore"):
                terms = self._family.terms(self._problem.y[start : start + size], place)
            yield Block(
                classwise.products(terms.psi, ways),
                tuple(classwise.products(part, ways) for part in terms.root.swapaxes(0, 1)),
                tuple(classwise.products(part, ways) for part in terms.noise.swapaxes(0, 1)),
                terms.square,
                None if there is None else there[start : start + size],
            )

    def _asked(
        self, x: Floats, ways: list[Floats], caps: Caps, cut: float, root: Floats | None
    ) -> Place:
        """Return where and how some rows x (d, m) are asked."""
        eta = self._place.reshape(-1, len(x)) @ x
        spread = [] if root is None else [root.T @ way for way in ways]
        limits = caps.score, caps.curvature, self._scale, cut
        none = np.zeros(x.shape[1])
        if len(ways) == 1:
            return Place(eta, _lengths(ways[0]), _lengths(spread[0]) if spread else none, *limits)
        cover = classwise.inner(spread) if spread else NONE
        return Place(eta, none, none, *limits, inner=classwise.inner(ways), cover=cover)

    def _step(self, look: Look) -> tuple[Floats, Floats]:
        """Return (step (p,), curvature over n (p, p)), in the coordinates of the look.

        The mean given this look, those before it as far as they agree, and the prior. None goes
        further than the family's longest step.
        """
        problem = self._problem
        move, known, steep, curve = told(look, look.sums.rows)
        before = look.root.T @ self._precision @ look.root
        apart = np.linalg.solve(look.root, self._mean - look.place)
        before = agreeing(known, before, apart - move)
        whole = known + before
        ridge = RIDGE * trace(whole) / len(move) * np.eye(len(move))  # rows may tell no direction
        mode = move + np.linalg.solve(whole + ridge, before @ (apart - move))
        both = steep @ np.linalg.solve(steep + whole, whole)
        prior = look.root.T @ (problem.prior[:, None] * look.root)
        pull = look.root.T @ (problem.prior * (problem.prior_mean - look.place))
        step = np.linalg.solve(prior + both, both @ mode + pull)
        back = np.linalg.inv(look.root)
        self._mean = look.place + look.root @ mode
        self._precision = back.T @ whole @ back
        moves = np.linalg.solve(self._white.root, (look.root @ step).reshape(-1, len(problem.x)).T)
        size = math.sqrt(float((moves**2).sum(axis=0).max()))
        return np.asarray(step * min(1.0, self._family.longest / max(size, TINY))), curve


def _lengths(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("pm,pm->m", vectors, vectors)))
