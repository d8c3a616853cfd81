"""Rare categories: the likelihood of a coefficient beyond the range of a Newton step.

Where a score says that the rate of counts is half, their coefficient is lower by log 2. Where noise
leaves open that the rate is 0, or that the score is as large as clipped rows make it, the
coefficient may be of any size, and the prior says how far. The normal likelihood of such a
coefficient is replaced by the one that leads to the right mean and variance (expectation
propagation, one site a coefficient; Minka 2001).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, pdtr

from dpmcmc.families.poisson import moments
from dpmcmc.families.scores.base import TINY
from dpmcmc.families.scores.linear import WIDEST_CLIP, inside
from dpmcmc.inputs.blocks import shared_out
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases.whitening import Whitening

# Stacks of symmetric matrices.
MANY_NUMBERS = 2**15  # in a stack, from which on threads take less time than it takes to start them


def turned(matrices: Any) -> Floats:
    """Return the matrices (..., q, p) transposed to (..., p, q)."""
    return np.asarray(matrices.swapaxes(-1, -2), dtype=np.float64)


def even(matrices: Any) -> Floats:
    """Return matrices (..., p, p), made symmetric."""
    return np.asarray(0.5 * (matrices + turned(matrices)), dtype=np.float64)


def eigen(matrices: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues (..., p) and vectors (..., p, p) of symmetric matrices (..., p, p)."""
    if matrices.ndim < 3 or matrices.size < MANY_NUMBERS:
        values, vectors = np.linalg.eigh(matrices)
    else:
        values, vectors = shared_out(np.linalg.eigh, matrices)
    return values, vectors


def roots_of(precisions: Floats) -> Floats:
    """Return roots (k, p, p) of the inverses of precisions (k, p, p), which may be singular.

    A direction that neither rows nor the prior tell in floating point is as wide as that allows.
    """
    sizes = np.sqrt(np.maximum(np.diagonal(precisions, axis1=1, axis2=2), TINY))
    values, vectors = eigen(even(precisions / sizes[:, :, None] / sizes[:, None]))
    values = np.maximum(values, values[:, -1:] * np.finfo(float).eps)
    return np.asarray(vectors / np.sqrt(values)[:, None] / sizes[:, :, None])


def within(matrices: Floats, root: Floats, most: Floats | float) -> Floats | None:
    """Return matrices (..., p, p) by u, limited to diag(most) by root @ u; None if none exceeds it.

    Larger eigenvalues are cut. Matrices are positive.
    """
    back = np.linalg.inv(root) / np.sqrt(np.asarray(most)).reshape(1, -1)
    relative = even(back.T @ matrices @ back)
    if not np.isfinite(relative).all():
        return None  # whoever asked looks at what follows from it
    with np.errstate(over="ignore"):  # what is larger than a square can be is cut as well
        sizes = np.linalg.norm(relative, axis=(-2, -1))
    if (sizes <= 1.0).all():
        return None
    values, vectors = eigen(relative)
    half = np.linalg.solve(back.T, vectors * np.sqrt(np.clip(values, 0.0, 1.0))[..., None, :])
    return even(half @ turned(half))


# How the scores of a category's rows change with their coefficient b, where that is no line.
#
# With a log link the expected count is the one at the place times exp(b). Counts and the residuals
# of linear models are clipped as well, beyond which a score says nothing more.
LEAST_SD = 0.05  # of a coefficient: below it exp(b) is a line
STRAIGHT = 0.5  # of the residuals' sd: changes below it are on the line of a score
POINTS = 161  # of each grid
KNOTS = 4001  # at most, between which moments of clipped counts are interpolated
MANY = 1e5  # counts, which are as good as normal
RATE_SDS, PRIOR_SDS = 8.0, 6.0  # how far they reach
SMALLEST_RATE, LARGEST_LOG_RATE = 1e-3, 50.0  # over the one at the place


class Response(Protocol):
    """How the score of a category's rows depends on their coefficient."""

    def score_moments(self, change: Floats) -> tuple[Floats, Floats]:
        """Return the score's mean over its slope, and its variance over that at the start."""

    def straight(self, off: float) -> bool:
        """Return whether the score is linear over changes of this size."""

    def grid(self, step: Floats, sd: Floats, prior: tuple[float, float]) -> Floats:
        """Return increasing changes (k, m) that cover the likelihood and the prior."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Log link. expected: mean count of a row at the expansion point. room: clip around it."""

    expected: float
    room: float

    def score_moments(self, change: Floats) -> tuple[Floats, Floats]:
        """Return expm1(b) and exp(b): mean and variance of an unclipped count, relative."""
        each = 1e-3
        about, spread = self._clipped(np.array([-each, 0.0, each]))
        slope = max(0.5 * float(about[2] - about[0]) / each, TINY)
        known = np.unique(np.quantile(change, np.linspace(0.0, 1.0, KNOTS)))  # dense as changes
        middles, variances = self._clipped(known)
        middle, variance = np.interp(change, known, middles), np.interp(change, known, variances)
        return np.asarray((middle - about[1]) / slope), np.asarray(
            variance / max(float(spread[1]), TINY)
        )

    def straight(self, off: float) -> bool:
        """Return whether exp(b) is linear over changes of this size."""
        return off < LEAST_SD

    def grid(self, step: Floats, sd: Floats, prior: tuple[float, float]) -> Floats:
        """Return changes (k, m) with even steps in the rate, and over the prior."""
        most = np.maximum(1.0 + step + RATE_SDS * sd, SMALLEST_RATE)
        least = np.maximum(1.0 + step - RATE_SDS * sd, SMALLEST_RATE * most)
        return _sorted(np.log(np.linspace(least, most, POINTS, axis=1)), _over(prior))

    def _clipped(self, change: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of a count minus `expected`, clipped to [-room, room].

        Of Poisson counts, unless they are large: where few are expected a clip that is narrower
        than 1 tells them from 0 alone, which no normal law with this mean describes.
        """
        rate = self.expected * np.exp(np.clip(change, -LARGEST_LOG_RATE, LARGEST_LOG_RATE))
        low, high = max(self.expected - self.room, 0.0), self.expected + self.room
        if high > MANY:
            return clipped(rate - self.expected, np.sqrt(rate), self.room)
        ends = np.full_like(rate, low), np.full_like(rate, high)
        off, variance, _ = moments(rate, *ends, lambda j: np.asarray(pdtr(j, rate)))
        return off + rate - self.expected, np.maximum(variance, 0.0)


@dataclass(frozen=True, slots=True)
class Residuals:
    """Normal errors. sd: of them. room: where they are clipped. slope: the released one."""

    sd: float
    room: float
    slope: float

    def score_moments(self, change: Floats) -> tuple[Floats, Floats]:
        """Return the mean of a clipped residual over the slope, and its relative variance."""
        middle, variance = clipped(change, self.sd, self.room)
        return middle / self.slope, variance / clipped(np.zeros(1), self.sd, self.room)[1]

    def straight(self, off: float) -> bool:
        """Return whether changes are small relative to the residual sd."""
        return off < STRAIGHT * self.sd

    def grid(self, step: Floats, sd: Floats, prior: tuple[float, float]) -> Floats:
        """Return changes (k, m) around the step, where clipping sets in, and over the prior."""
        off, far = RATE_SDS * sd, RATE_SDS * self.sd + self.room
        near = np.linspace(step - off, step + off, POINTS, axis=1)
        return _sorted(near, np.linspace(-far, far, POINTS), _over(prior))


def clipped(off: Floats, sd: Floats | float, room: float) -> tuple[Floats, Floats]:
    """Return mean and variance of off + sd Z clipped to [-room, room], Z standard normal."""
    low, high = (-room - off) / sd, (room - off) / sd
    between, below, above = ndtr(high) - ndtr(low), ndtr(low), ndtr(-high)
    first, last = _density(low), _density(high)
    mean = off * between - sd * (last - first) + room * (above - below)
    square = (off * off + sd * sd) * between - 2.0 * off * sd * (last - first)
    square += sd * sd * (low * first - high * last) + room * room * (above + below)
    return np.asarray(mean), np.asarray(np.maximum(square - mean * mean, 0.0))


def _density(at: Floats) -> Floats:
    """Return the standard normal density."""
    return np.asarray(np.exp(-0.5 * at * at) / np.sqrt(2.0 * np.pi))


def _over(prior: tuple[float, float]) -> Floats:
    """Return grid points over the range of a normal prior (mean, precision)."""
    reach = PRIOR_SDS / np.sqrt(prior[1])
    return np.linspace(prior[0] - reach, prior[0] + reach, POINTS)


def _sorted(first: Floats, *others: Floats) -> Floats:
    """Return the sorted union (k, m) of a grid (k, .) and other points (.,)."""
    return np.sort(
        np.concatenate((first, *(np.broadcast_to(other, first.shape) for other in others)), axis=1),
        axis=1,
    )


WIDE_SD, WIDEST_SD = 1e2, 1e3  # of a coefficient of which rows tell nothing
LEAST_PRECISION = 1e-4  # of a prior that moments are matched under
REFERENCE_SD = 2.5  # of a prior that moments are matched under, where the own one is not normal
FARTHEST_LOG_RATE = (-8.0, 20.0)  # of a mean count
LEAST_OWN = 0.02  # of the variance of a score, of that at the place
INTERCEPT_ROOM = 0.5  # of the mean square of the first column, noise included
LEAST_VARIANCE = 1e-8
MOST_SHARED = 1.5  # variance of a coefficient over that given all others
LEAST_PART = 1e-4  # of the prior's precision, which a likelihood has in any case
# variances of the last look, added to those of earlier ones: they are of the same rows, and count
# next to nothing where the last one knows better
EARLIER_ROOM = 9.0


@dataclass(frozen=True, slots=True)
class Categories:
    """Categories (c,). directions: (c, p); directions @ u are changes b of their coefficients.

    mean, precision: of the normal prior of b; a precision of 0 says that it is not normal.
    ridge: (p, p), a precision that is next to none, where the rows tell nothing at all.
    earlier: places (c,) and variances (c,) of b by earlier looks, which may be far off where scores
    were cut: their likelihood is a Cauchy law's.
    alone: (c, p), of counts, the u by which one of them changes by 1, and no other coefficient.
    """

    directions: Floats
    responses: tuple[Response, ...]
    mean: Floats
    precision: Floats
    ridge: Floats
    earlier: tuple[Floats, Floats] | None = None
    alone: Floats | None = None


class Release(Protocol):
    """The fields of a stored release (see Quadratic) that this file reads."""

    @property
    def place(self) -> Floats:
        """The expansion point (p,): coefficients at which the score was released."""

    @property
    def root(self) -> Floats:
        """Coordinates (p, p): coefficients are place + root @ u."""

    @property
    def clip(self) -> float:
        """The clip of a row's score, in units of the mean row's length."""

    @property
    def indicators(self) -> Floats | None:
        """1 for columns (d,) that hold 0 and 1 alone."""

    @property
    def log_shift(self) -> float | None:
        """Mean offset of the predictor; None without a log link."""

    @property
    def by_counts(self) -> bool:
        """Whether a category's score is nonlinear in its rate."""

    @property
    def residual_sd(self) -> float:
        """Residual sd of a linear model."""

    @property
    def places(self) -> Floats:
        """The expansion points (2, p) of the last two iterates."""

    @property
    def first_place(self) -> Floats | None:
        """The expansion point (p,) of the first of more than two iterates; else None."""

    @property
    def spreads(self) -> Floats | None:
        """Their spreads (2, p, p), see Iterate; None but in linear models with rare categories."""

    @property
    def score_sds(self) -> Floats:
        """Sds (2,) of the noise of their scores."""

    @property
    def robust(self) -> bool:
        """Whether rows are weighted down."""

    def moments(self) -> tuple[Floats, float]:
        """Return (mean of x x^T (d, d), sd of its noise)."""


def of(release: Release, mean: Floats, precision: Floats) -> Categories | None:
    """Return the rare categories of a release under a normal prior (p,); None without any."""
    rates = release.log_shift is not None and not release.by_counts
    if release.indicators is None or not (rates or release.spreads is not None):
        return None
    which, second = release.indicators > 0.0, release.moments()[0]
    rows, intercept = typical(second)
    which[0] &= not intercept
    responses: Sequence[Response]
    before = alone = None
    if release.spreads is None:
        responses = counts(release, rows, second[0] * intercept)
        alone = np.asarray(np.linalg.inv(release.root).T[which], np.float64)
    else:
        responses = residuals(release, rows, release.spreads)
        before = earlier(release, which, release.spreads[0])
    return Categories(
        release.root[which],
        tuple(responses[j] for j in np.flatnonzero(which)),
        (mean - release.place)[which],
        precision[which],
        WIDEST_SD**-2 * release.root.T @ release.root,
        before,
        alone,
    )


def typical(second: Floats) -> tuple[Floats, bool]:
    """Return the mean rows (d, d) of each column's category, and whether there is an intercept.

    second: (d, d), mean of x x^T. The first column is the intercept where its mean square is about
    1; rows of a category then have the mean of the other columns, and else none of them.
    """
    if abs(second[0, 0] - 1.0) < INTERCEPT_ROOM:
        return second[0] + (1.0 - second[0])[:, None] * np.eye(len(second)), True
    return np.eye(len(second)), False


def has_intercept(white: Whitening) -> bool:
    """Return whether the first column is the intercept, judged by the released whitening."""
    return typical(white.moments())[1]


def counts(release: Release, rows: Floats, mean: Floats) -> list[Counts]:
    """Return the Counts response of each row (d, p). mean: (p,) mean row, or 0."""
    logs = release.place + (release.log_shift or 0.0) + mean @ release.place
    room = release.clip * np.sqrt(len(rows)) / np.linalg.norm(rows @ release.root, axis=1)
    return [
        Counts(*pair) for pair in zip(np.exp(np.clip(logs, *FARTHEST_LOG_RATE)), room, strict=True)
    ]


def residuals(release: Release, rows: Floats, spreads: Floats) -> list[Residuals]:
    """Return the Residuals response of each row (d, p). spreads: see Release."""
    sd, by_u = release.residual_sd, rows @ release.root
    cut = release.clip * np.sqrt(len(rows)) * sd / np.linalg.norm(by_u, axis=1)
    if not release.robust:  # the slope is that of residuals that are not cut
        return [Residuals(sd, k * sd, 1.0) for k in cut]
    cut, weights = np.minimum(cut, WIDEST_CLIP), release.score_sds**-2.0
    slopes = np.zeros(len(rows))
    for weight, spread in zip(weights / weights.sum(), spreads, strict=True):
        moved = np.linalg.norm(by_u @ spread, axis=1) / sd
        slopes += weight * inside(cut / np.sqrt(1.0 + moved**2))
    return [Residuals(sd, k * sd, slope) for k, slope in zip(cut, slopes, strict=True)]


def earlier(release: Release, which: NDArray[np.bool_], spread: Floats) -> tuple[Floats, Floats]:
    """Return coefficients by the looks before the last two iterates, and their variances.

    spread: (p, p), see Release, of the first of the two.
    """
    half = release.root[which] @ spread
    first = release.places[0] if release.first_place is None else release.first_place
    return (first - release.place)[which], (half**2).sum(axis=1)


def matched(
    whole: Floats,
    pulled: Floats,
    noise: Floats,
    categories: Categories,
    power: float,
) -> tuple[Floats, Floats]:
    """Return (whole, pulled): normal likelihoods that match the categories' moments.

    whole: (k, p, p), precisions by u; pulled: (k, p), precisions times means. noise: (k, p, p),
    noise @ noise.T is the part of the covariance of `pulled` that is noise. power: of the
    likelihood.
    """
    whole, pulled = whole + categories.ridge, pulled.copy()
    roots = roots_of(whole)
    inverse = roots @ turned(roots)
    shared = _shared(categories, whole, inverse)
    by_noise = ((categories.directions @ inverse @ noise) ** 2).sum(axis=2)
    for c, direction in enumerate(categories.directions):
        along, response = inverse @ direction, categories.responses[c]
        held = categories.precision[c]
        variance, step = along @ direction, np.einsum("kp,kp->k", along, pulled)
        sd, prior_sd = float(np.median(variance)) ** 0.5, max(held, LEAST_VARIANCE) ** -0.5
        if shared[c]:
            continue
        off = abs(float(np.median(step)))
        off = max(off, sd) if isinstance(response, Counts) else off + 2.0 * sd
        if response.straight(min(off, prior_sd)):
            continue
        part = np.minimum(by_noise[:, c] / variance, 1.0)
        mean = categories.mean[c]
        precision = max(held, LEAST_PRECISION) if held else REFERENCE_SD**-2
        earlier = None
        if categories.earlier is not None:
            earlier = categories.earlier[0][c], categories.earlier[1][c] + EARLIER_ROOM * sd * sd
        middle, spread = _moments(step, variance, part, response, (mean, precision), earlier, power)
        precisions = np.maximum(1.0 / spread - precision, LEAST_PART * precision)
        precisions = np.where(
            variance < WIDE_SD**2, precisions, power / variance
        )  # the others tell nothing
        change = precisions / power - 1.0 / variance
        pull = (middle * (precisions + precision) - precision * mean) / power - step / variance
        pull = np.where(variance < WIDE_SD**2, pull, 0.0)
        whole += change[:, None, None] * np.outer(direction, direction)
        pulled += pull[:, None] * direction
        part_left = precisions / power * variance  # 1 + change * variance
        inverse -= (change / part_left)[:, None, None] * along[:, :, None] * along[:, None, :]
    return whole, pulled


def _shared(categories: Categories, whole: Floats, inverse: Floats) -> NDArray[np.bool_]:
    """Return (c,) whether the unknown is the rate of the other rows, as with a rare reference.

    whole: (k, p, p) precisions by u. inverse: of them.
    """
    if categories.alone is None:
        return np.zeros(len(categories.directions), np.bool_)
    known = np.einsum("cp,kpq,cq->kc", categories.alone, whole, categories.alone)
    variance = np.einsum("cp,kpq,cq->kc", categories.directions, inverse, categories.directions)
    return np.asarray(np.median(variance * known, axis=0) > MOST_SHARED)


def _moments(
    step: Floats,
    variance: Floats,
    part: Floats,
    response: Response,
    prior: tuple[float, float],
    earlier: tuple[float, float] | None,
    power: float,
) -> tuple[Floats, Floats]:
    """Return posterior means and variances (k,) of the change b of a coefficient.

    step, variance: (k,), the released change of the score over its slope, and its variance, of
    which a part is noise and the rest is that of rows.
    """
    at = response.grid(step, np.sqrt(variance), prior)
    score, relative = response.score_moments(at)
    relative, noise = np.maximum(relative, LEAST_OWN), part[:, None]
    spread = variance[:, None] * (noise + (1.0 - noise) * relative)
    sd = np.sqrt(variance)
    nearest = np.clip(
        step, score.min(axis=1) - sd, score.max(axis=1) + sd
    )  # beyond it noise has a part
    logs = -0.5 * power * ((nearest[:, None] - score) ** 2 / spread + np.log(spread))
    logs -= 0.5 * prior[1] * (at - prior[0]) ** 2
    if earlier is not None:
        logs -= np.log1p((at - earlier[0]) ** 2 / earlier[1])
    gaps = np.diff(at, axis=1, prepend=at[:, :1], append=at[:, -1:])
    weights = np.exp(logs - logs.max(axis=1, keepdims=True)) * (gaps[:, 1:] + gaps[:, :-1])
    weights /= weights.sum(axis=1, keepdims=True)
    middle = (weights * at).sum(axis=1)
    return middle, np.maximum((weights * (at - middle[:, None]) ** 2).sum(axis=1), LEAST_VARIANCE)
