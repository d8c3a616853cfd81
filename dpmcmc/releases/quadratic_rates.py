"""Rare categories of counts: what a score says of a rate, where a Newton step would go too far.

With a log link the expected count of the rows of a category is the one at the place times exp(b), b
the change of their coefficient. Their score is linear in exp(b), not in b. Where it says that the
rate is half, the coefficient is lower by log 2; where noise leaves open that the rate is 0, it may
be lower by any length, and the prior says how far. Scores are clipped: where they are as large as
can be, the rate may be higher by any length as well. The normal likelihood of such a coefficient is
replaced by the one that leads to the right mean and variance (expectation propagation, one site a
coefficient; Minka 2001).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from dpmcmc.releases.joint_sums import Floats
from dpmcmc.releases.matrices import roots_of, turned

LEAST_SD = 0.05  # of a coefficient, or of its prior: below it exp(b) is a line
POINTS = 161  # of each of two grids: even in the rate, and in its log
RATE_SDS, PRIOR_SDS = 8.0, 6.0  # how far they reach
SMALLEST_RATE, LARGEST_LOG_RATE = 1e-3, 50.0  # over the one at the place
WIDE_SD, WIDEST_SD = 1e2, 1e3  # of a coefficient of which rows tell nothing
LEAST_PRECISION = 1e-4  # of a prior that moments are matched under
REFERENCE_SD = 2.5  # of a prior that moments are matched under, where the own one is not normal
FARTHEST_LOG_RATE = (-8.0, 20.0)  # of a mean count
LEAST_OWN = 0.02  # of the variance of a score, of that at the place
INTERCEPT_ROOM = 0.5  # of the mean square of the first column, noise included
LEAST_VARIANCE = 1e-8
MOST_SHARED = 2.0  # variance of a coefficient over that given all others
LEAST_PART = 1e-4  # of the prior's precision, which a likelihood has in any case


@dataclass(frozen=True, slots=True)
class Rates:
    """Categories (c,). directions: (c, p), directions @ u are changes b of their coefficients.

    alone: (c, p), the u by which one of them changes by 1, and no other coefficient.
    expected: counts of a row at the place. room: by how much more or less a count may be before it
    is clipped. mean, precision: of the normal prior of b; a precision of 0 says that it is not
    normal. ridge: (p, p), a precision that is next to none, where the rows tell nothing at all.
    """

    directions: Floats
    alone: Floats
    expected: Floats
    room: Floats
    mean: Floats
    precision: Floats
    ridge: Floats


class Looked(Protocol):
    """What is read of a stored release: see Quadratic."""

    @property
    def place(self) -> Floats:
        """Coefficients (p,) that the score is of."""

    @property
    def root(self) -> Floats:
        """Coordinates (p, p): coefficients are place + root @ u."""

    @property
    def clip(self) -> float:
        """Largest score of a row that is not clipped, in mean lengths."""

    @property
    def indicators(self) -> Floats | None:
        """1 for columns (d,) that hold 0 and 1 alone."""

    @property
    def log_shift(self) -> float | None:
        """What offsets add to a predictor on average; None without a log link."""

    def moments(self) -> tuple[Floats, float]:
        """Return (mean of x x^T (d, d), sd of its noise)."""


def of(release: Looked, mean: Floats, precision: Floats) -> Rates | None:
    """Return the categories of a release under a normal prior (p,); None where it has none.

    The first column is the intercept where its mean square is about 1. Rows of a category then have
    the mean predictor and its coefficient, and the mean of the other columns; without an intercept
    the coefficient and the column alone.
    """
    if release.log_shift is None or release.indicators is None:
        return None
    which, second = release.indicators > 0.0, release.moments()[0]
    logs, rows = release.place + release.log_shift, np.eye(len(which))
    if abs(second[0, 0] - 1.0) < INTERCEPT_ROOM:
        which[0] = False
        logs += second[0] @ release.place
        rows = second[0] + (1.0 - second[0])[:, None] * rows
    room = release.clip * np.sqrt(len(which)) / np.linalg.norm(rows @ release.root, axis=1)
    return Rates(
        release.root[which],
        np.linalg.inv(release.root).T[which],
        np.exp(np.clip(logs[which], *FARTHEST_LOG_RATE)),
        room[which],
        (mean - release.place)[which],
        precision[which],
        WIDEST_SD**-2 * release.root.T @ release.root,
    )


def matched(
    whole: Floats,
    pulled: Floats,
    noise: Floats,
    rates: Rates,
    power: float,
) -> tuple[Floats, Floats]:
    """Return (whole, pulled) of normal likelihoods with the same moments as those of rates.

    whole: (k, p, p), pulled: (k, p): precisions, and precisions times means, by u. noise:
    (k, p, p), noise @ noise.T is what of the covariance of `pulled` is noise. power: of the
    likelihood.
    """
    whole, pulled = whole + rates.ridge, pulled.copy()
    roots = roots_of(whole)
    inverse = roots @ turned(roots)
    own_rows = np.einsum("cp,kpq,cq->kc", rates.alone, whole, rates.alone)
    by_noise = ((rates.directions @ inverse @ noise) ** 2).sum(axis=2)
    for c, direction in enumerate(rates.directions):
        along, own = inverse @ direction, rates.precision[c]
        variance = along @ direction
        if min(float(np.median(variance)), 1.0 / max(own, LEAST_VARIANCE)) < LEAST_SD**2:
            continue
        if float(np.median(variance * own_rows[:, c])) > MOST_SHARED:
            continue  # what is not known is the rate of others, as of the reference
        part = np.minimum(by_noise[:, c] / variance, 1.0)
        mean, precision = rates.mean[c], max(own, LEAST_PRECISION) if own else REFERENCE_SD**-2
        step = np.einsum("kp,kp->k", along, pulled)
        middle, spread = _moments(
            step, variance, part, (rates.expected[c], rates.room[c]), (mean, precision), power
        )
        told = np.maximum(1.0 / spread - precision, LEAST_PART * precision)
        told = np.where(variance < WIDE_SD**2, told, power / variance)  # the others tell nothing
        change = told / power - 1.0 / variance
        pull = (middle * (told + precision) - precision * mean) / power - step / variance
        pull = np.where(variance < WIDE_SD**2, pull, 0.0)
        whole += change[:, None, None] * np.outer(direction, direction)
        pulled += pull[:, None] * direction
        part_left = told / power * variance  # 1 + change * variance
        inverse -= (change / part_left)[:, None, None] * along[:, :, None] * along[:, None, :]
    return whole, pulled


def _moments(
    step: Floats,
    variance: Floats,
    part: Floats,
    row: tuple[float, float],
    prior: tuple[float, float],
    power: float,
) -> tuple[Floats, Floats]:
    """Return posterior means and variances (k,) of the change b of a coefficient.

    The change of the score over its slope was seen as step with this variance. A part of it is
    noise, the rest is that of counts: as large as they are. row: expected count, and room.
    """
    at = _grid(step, np.sqrt(variance), prior)
    told, own = _told(at, *row)
    own, noise = np.maximum(own, LEAST_OWN), part[:, None]
    spread = variance[:, None] * (noise + (1.0 - noise) * own)
    sd = np.sqrt(variance)
    seen = np.clip(step, told.min(axis=1) - sd, told.max(axis=1) + sd)  # beyond it noise has a part
    logs = -0.5 * power * ((seen[:, None] - told) ** 2 / spread + np.log(spread))
    logs -= 0.5 * prior[1] * (at - prior[0]) ** 2
    gaps = np.diff(at, axis=1, prepend=at[:, :1], append=at[:, -1:])
    weights = np.exp(logs - logs.max(axis=1, keepdims=True)) * (gaps[:, 1:] + gaps[:, :-1])
    weights /= weights.sum(axis=1, keepdims=True)
    middle = (weights * at).sum(axis=1)
    return middle, np.maximum((weights * (at - middle[:, None]) ** 2).sum(axis=1), LEAST_VARIANCE)


def _told(change: Floats, expected: float, room: float) -> tuple[Floats, Floats]:
    """Return how scores change as b does, over their slope at 0, and their variance over that at 0.

    expm1(b) and exp(b) where no count is clipped.
    """
    each = 1e-3
    about, spread = _clipped(np.array([-each, 0.0, each]), expected, room)
    middle, variance = _clipped(change, expected, room)
    slope = 0.5 * (about[2] - about[0]) / each
    return np.asarray((middle - about[1]) / slope), np.asarray(variance / spread[1])


def _clipped(change: Floats, expected: float, room: float) -> tuple[Floats, Floats]:
    """Return mean and variance of a count less `expected`, clipped to -+ room.

    It is expected to be exp(change) times that, and is taken as normal.
    """
    rate = expected * np.exp(np.clip(change, -LARGEST_LOG_RATE, LARGEST_LOG_RATE))
    off, sd = rate - expected, np.sqrt(rate)
    low, high = (-room - off) / sd, (room - off) / sd
    inside, below, above = ndtr(high) - ndtr(low), ndtr(low), ndtr(-high)
    first, last = _density(low), _density(high)
    mean = off * inside - sd * (last - first) + room * (above - below)
    square = (off * off + rate) * inside - 2.0 * off * sd * (last - first)
    square += rate * (low * first - high * last) + room * room * (above + below)
    return np.asarray(mean), np.asarray(np.maximum(square - mean * mean, 0.0))


def _density(at: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * at * at) / np.sqrt(2.0 * np.pi))


def _grid(step: Floats, sd: Floats, prior: tuple[float, float]) -> Floats:
    """Return changes (k, 2 POINTS) in order, where the likelihood or the prior may have weight."""
    most = np.maximum(1.0 + step + RATE_SDS * sd, SMALLEST_RATE)
    least = np.maximum(1.0 + step - RATE_SDS * sd, SMALLEST_RATE * most)
    even = np.log(np.linspace(least, most, POINTS, axis=1))
    reach = PRIOR_SDS / np.sqrt(prior[1])
    logs = np.broadcast_to(np.linspace(prior[0] - reach, prior[0] + reach, POINTS), even.shape)
    return np.sort(np.concatenate((even, logs), axis=1), axis=1)
