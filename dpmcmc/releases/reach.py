"""Upper bounds of a row's score, and the bias that clipped rows at that bound can cause.

Few rows at a far declared bound move an answer, and noise hides them from layers of lengths: what
is hidden is then taken to fall as what is seen does. So layers up to the farthest that a score can
be have a part of their event by how wide they are, with which the noise of what they hold together
is least. That is what a clip leaves out of the rows, wherever these lie, and its noise says what
cannot be excluded, of any responses. Proof: docs/proofs/noisy_quadratic.md, section 4.
"""

import math
from dataclasses import dataclass
from itertools import pairwise, product
from typing import cast

import numpy as np
from scipy.special import bdtrik, expit, nbdtrik, pdtrik

from dpmcmc.families.hurdle_poisson import positive_moments
from dpmcmc.families.multinomial import averaged
from dpmcmc.families.ordinal import slopes_of
from dpmcmc.families.scores.base import (
    TINY,
    Family,
    ScaleFamily,
    ShapedFamily,
    SkewedFamily,
    is_apart,
)
from dpmcmc.families.scores.given import Given, most_of, shift_of, usual_of
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases import ordered
from dpmcmc.releases.categories import FARTHEST_LOG_RATE, has_intercept
from dpmcmc.releases.whitening import Whitening

FIRST = 2.1  # mean lengths of a row's score, from which layers have weight by their width
FARTHEST = 400.0  # mean lengths: scores beyond that count as that far
MOST_SPREAD = 4.0  # variance of predictors, by which a mean count is more than that of a mean row
MOST_OF_SCALE = 4.0  # mean lengths of a score of a log scale, that are not clipped
MOST_LOOSE = 10  # columns, of which all corners of their bounds are looked at
# sds of predictors, by which a row's mean is below that of a mean row where its response is far off
# in parts of its mean: wages far above a small mean moved reliable answers by 3 sds
LOW_SDS = 0.8
LEAST_RATE, LEAST_SHARE = 1e-3, 1e-6  # mean count, and share of a response
# residual sd of counts over that of the model, below which their tail is taken for the model's, and
# the probability of what is beyond the largest count then: see experiments/asked.py
CALM, BEYOND = 1.3, 1e-6
# of the event of layers, the most that weights by width have, and the least
MOST_PART, LEAST_PART = 0.5, 0.02
# sds of noise, beyond which more is excluded, and sds that where nothing is hidden what is excluded
# is to lie below what a result may be off by; that, in posterior sds of a coefficient; and the
# posterior sd over the one without privacy, about
EXCLUDED, MARGIN, HARMLESS, USUAL_WIDTH = 3.0, 1.5, 4.0, 1.1


@dataclass(frozen=True, slots=True)
class Reach:
    """Noisy layers of scores without any assumption on what noise hides.

    ends: (k + 1,) of layers. last: how far the score of a mean row can be. part, sd: (k,), how much
    of each layer a mean row fills, and the sd of the noise of that.
    """

    ends: Floats
    last: float
    part: Floats
    sd: Floats

    def cut_off(self, clips: Floats) -> tuple[Floats, Floats]:
        """Return upper bounds (m,) of the mean of max(length - clip, 0), and sds of their noise.

        Longer rows count as those of the last length. A layer that a clip is in is fuller where it
        begins.
        """
        beyond = np.minimum(self.ends[1:, None], self.last) - np.maximum(
            self.ends[:-1, None], clips
        )
        wide = np.maximum(beyond, 0.0)
        return self.part @ wide, np.linalg.norm(self.sd[:, None] * wide, axis=0)

    def most(self, clips: Floats) -> Floats:
        """Return upper bounds (m,) of the mean of max(length - clip, 0), for increasing clips.

        As parts of what there is between a clip and the last length they grow no more with the
        clip, so that each is a bound of those that follow.
        """
        bounds, sds = self.cut_off(clips)
        room = np.maximum(self.last - clips, 0.0)
        part = (np.maximum(bounds, 0.0) + EXCLUDED * sds) / np.maximum(room, TINY)
        return np.asarray(np.minimum.accumulate(part) * room)


def farthest(
    place: Floats, scale: float, white: Whitening, family: Family, ends: tuple[float, float]
) -> float:
    """Return the longest possible score of a row, in mean lengths, from public bounds.

    It is how far the farthest response lies, in sds of that of a mean row, at this place (k d,) and
    scale, both released. A row with longer covariates has a score as much longer.
    """
    if family.log_scale:
        scaled, d = cast("ScaleFamily", family), len(place) - 1
        location, log_scale = scaled.information
        squares = np.array([[d / location], [1.0 / log_scale]])
        return _bounded(float(scaled.longest(squares)[0]) / math.sqrt(d + 1.0))
    if family.link == "cumulative":
        share = float(ordered.shares(place, white).min())
        return _bounded(1.0 / math.sqrt(max(share, LEAST_SHARE)))
    second = white.moments()
    places = place.reshape(-1, len(second))
    mean = places @ second[0]
    mean[: 1 if family.link == "hurdle" else None] += shift_of(family)
    spread = places @ second @ places.T - np.outer(places @ second[0], places @ second[0])
    if family.link == "hurdle":
        return _farthest_count(mean, spread, scale, ends[1])
    weight = most_of(family) / math.sqrt(usual_of(family))
    if family.link in ("logit", "softmax"):
        first, q = (part[..., 0] for part in averaged(mean[:, None], spread[..., None]))
        if isinstance(family, Given) and family.has_scale:
            sd = math.sqrt(family.trials[0] * max(float(first * q[0]), LEAST_SHARE))
            away = _most_cases(float(q[0]), family.trials[1], ends[1], calm=scale < CALM)
            return _bounded(family.heaviest / math.sqrt(family.usual) * away / sd)
        least = min(float(first), float(q.min()))
        return _bounded(weight / math.sqrt(max(least, LEAST_SHARE)))
    if family.link == "identity":
        away = 0.0 if has_intercept(white) else math.sqrt(max(float(spread[0, 0]), 0.0))
        middle = float(mean[0]) if has_intercept(white) else shift_of(family)
        away += max(ends[1] - middle, middle - ends[0])
        return _bounded(weight * away / max(scale, TINY))
    low, high = FARTHEST_LOG_RATE
    half = 0.5 * min(max(float(spread[0, 0]), 0.0), MOST_SPREAD)
    if family.variance.proportional:
        half = -LOW_SDS * math.sqrt(max(float(spread[0, 0]), 0.0))
    rate = max(math.exp(min(max(float(mean[0]) + half, low), high)), LEAST_RATE)
    sd = math.sqrt(rate**family.variance.power * (1.0 + rate / family.variance.size))
    if family.variance.proportional:
        return _bounded(weight * max(ends[1] - rate, rate) / max(sd * scale, TINY))
    most = min(ends[1], _largest_count(rate, family.variance.size)) if scale < CALM else ends[1]
    return _bounded(weight * max(most - rate, rate) / sd)


def _farthest_count(mean: Floats, spread: Floats, scale: float, most: float) -> float:
    """Return the longest possible score of a count up to `most` with zeros of their own kind.

    mean, spread: (2,) and (2, 2), of predictors over rows. scale: see HurdlePoisson. A mean row's
    score has two parts, of which counts above 0 have both.
    """
    half = 0.5 * min(max(float(spread[0, 0]), 0.0), MOST_SPREAD)
    about, variance = positive_moments(np.clip(mean[:1] + half, *FARTHEST_LOG_RATE))
    zero = float(averaged(mean[1:, None], spread[1:, 1:, None])[1][0, 0])
    of_count = max((1.0 - zero) * float(variance[0]), LEAST_SHARE)
    of_zero = max(zero * (1.0 - zero), LEAST_SHARE)
    middle = float(about[0])
    if scale**2 < zero + CALM**2 * (1.0 - zero):
        rate = math.exp(float(np.clip(mean[0] + half, *FARTHEST_LOG_RATE)))
        most = min(most, _largest_count(rate, math.inf))
    count = max(most - middle, middle - 1.0) ** 2 / of_count + zero * zero / of_zero
    return _bounded(math.sqrt(0.5 * max(count, (1.0 - zero) ** 2 / of_zero)))


def _beside_scale(place: Floats, white: Whitening, root: Floats) -> tuple[float, float, Floats]:
    """Return mean and variance of predictors without offsets, and inner products (2, 2).

    These are of the two parts of a mean row's score: about its predictor, and about the log scale.
    white: of covariates alone. root: (d + 1, d + 1), coordinates.
    """
    second = white.moments()
    first = second[0] * has_intercept(white)
    mean, square = float(place[:-1] @ first), float(place[:-1] @ second @ place[:-1])
    part, last = root[:-1], root[-1]
    of_predictor, cross = float(np.trace(part.T @ second @ part)), float(first @ part @ last)
    inner = np.array([[of_predictor, cross], [cross, float(last @ last)]])
    return mean, max(square - mean * mean, 0.0), inner


def farthest_time(
    place: Floats, white: Whitening, family: Family, ends: tuple[float, float], root: Floats
) -> float:
    """Return the longest possible score of a time, which grows exponentially in the log time.

    white, root: see `_beside_scale`.
    """
    (mean, variance, inner), sd = _beside_scale(place, white, root), math.exp(float(place[-1]))
    apart = LOW_SDS * math.sqrt(variance)
    mean += shift_of(family)
    within = (ends[0] - mean - apart) / sd, (ends[1] - mean + apart) / sd
    return _bounded(
        cast("SkewedFamily", family).farthest(inner, within, sd) / math.sqrt(len(place))
    )


def farthest_apart(
    place: Floats, white: Whitening, family: Family, ends: tuple[float, float], root: Floats
) -> float:
    """Return the longest possible score where the family has a shape parameter."""
    mean, variance, inner = _beside_scale(place, white, root)
    half = 0.5 * min(variance, MOST_SPREAD)
    low, high = FARTHEST_LOG_RATE
    half *= family.link == "log"  # by which the mean response is more than that of a mean row
    eta = min(max(mean + shift_of(family) + half, low), high)
    shaped, scale = cast("ShapedFamily", family), math.exp(float(place[-1]))
    mean_response = max(float(shaped.mean_of(np.array([eta]))[0]), LEAST_RATE)
    # hardly any row exceeds what a scale says that was fitted to them
    both = np.clip(ends, *shaped.tails(mean_response, scale, BEYOND))
    psi = shaped.score(both, np.full(2, mean_response), scale)
    lengths = np.sqrt(np.maximum(np.einsum("km,kj,jm->m", psi, inner, psi), 0.0))
    return _bounded(float(lengths.max()) / math.sqrt(len(place)))


def _most_cases(share: float, trials: float, most: float, *, calm: bool) -> float:
    """Return the largest plausible deviation of a number of cases from its mean.

    calm: where they are the model's, which hardly any row exceeds.
    """
    mean = trials * share
    if not calm:
        return max(most * (1.0 - share), mean)
    low, high = (
        float(np.nan_to_num(bdtrik(part, trials, share), nan=end))
        for part, end in ((BEYOND, 0.0), (1.0 - BEYOND, trials))
    )
    return max(min(max(high, 1.0), most) - mean, mean - low)  # a single case is never excluded


def _largest_count(rate: float, size: float) -> float:
    """Return a count that hardly any row exceeds, for the model's counts with this mean."""
    if math.isinf(size):
        return float(np.nan_to_num(pdtrik(1.0 - BEYOND, rate), nan=math.inf))
    return float(np.nan_to_num(nbdtrik(1.0 - BEYOND, size, size / (size + rate)), nan=math.inf))


def _bounded(length: float) -> float:
    """Return a length limited to [0, FARTHEST]."""
    return min(max(length, 0.0), FARTHEST)


def of_scale(root: Floats, family: Family) -> float:
    """Return the least clip, in mean lengths, that does not clip scores of a log scale.

    Such scores all point the same way: clipping would bias the scale, and not only blur it. There
    is room for as much as a usual score beside them.
    """
    squares = np.array([[0.0], [float(root[-1] @ root[-1])]])
    length = float(cast("ScaleFamily", family).longest(squares)[0])
    return min(math.hypot(length / math.sqrt(len(root)), 1.0), MOST_OF_SCALE)


def longest(
    root: Floats,
    place: Floats,
    scale: float,
    family: Family,
    ends: tuple[float, float] | None,
    box: tuple[Floats, Floats] | None,
    largest: tuple[int, float],
) -> float:
    """Return the longest possible score, in mean lengths, by public bounds: see `farthest`.

    root: (k d, p), coordinates. box: bounds (d,) of covariates. largest: d, and the largest norm
    of a row. Infinite where responses or offsets have no bound that is of use.
    """
    if is_apart(family):
        return math.inf
    if family.log_scale:
        size = min(float(np.linalg.norm(root[:-1], 2)) * largest[1], across(root[:-1], box))
        squares = np.array([[size**2 * math.exp(-2.0 * place[-1])], [float(root[-1] @ root[-1])]])
        return float(cast("ScaleFamily", family).longest(squares)[0]) / math.sqrt(len(root))
    if isinstance(family, Given) and (family.link == "identity" and family.moved):
        return math.inf
    if family.link in ("log", "hurdle") or (family.link == "identity" and ends is None):
        return math.inf
    d, max_row_norm = largest
    classes = [root[k : k + d] for k in range(0, len(root), d)]
    if family.link == "cumulative":
        return _longest_ordered(classes, place, largest[1], box) / math.sqrt(root.shape[1])
    ways = [*classes, *(a - b for k, a in enumerate(classes) for b in classes[:k])]
    norms = [float(np.linalg.norm(way, 2)) * max_row_norm for way in ways]
    length = max(min(norm, across(way, box)) for norm, way in zip(norms, ways, strict=True))
    heaviest = most_of(family)
    psi = heaviest
    if family.link == "identity" and ends is not None:
        middle, half = 0.5 * (ends[0] + ends[1]), 0.5 * (ends[1] - ends[0])
        away = np.append(place, middle)[:, None]  # predictors less the middle of the responses
        wide = None if box is None else (np.append(box[0], -1.0), np.append(box[1], -1.0))
        norm = math.hypot(max_row_norm, 1.0)
        away_most = min(float(np.linalg.norm(away)) * norm, across(away, wide))
        psi = math.sqrt(heaviest) * (half + away_most) / scale**2
    return float(length * psi / math.sqrt(root.shape[1]))


def _longest_ordered(
    classes: list[Floats], place: Floats, max_row_norm: float, box: tuple[Floats, Floats] | None
) -> float:
    """Return the longest possible score of an ordered category, at released cut points.

    classes: (d, p) of each cut. Two of them differ in the intercept alone: what pulls the cuts of a
    category apart is the same in all rows, and what else its score has lies between those of both.
    """
    norms = [float(np.linalg.norm(way, 2)) * max_row_norm for way in classes]
    lengths = [min(norm, across(way, box)) for norm, way in zip(norms, classes, strict=True)]
    pulls = slopes_of(place[: len(classes), None])[0][1:, 0] - expit(-place[1 : len(classes)])
    apart = [float(np.linalg.norm(a[0] - b[0])) for a, b in pairwise(classes)]
    between = [
        pull * way + max(ends)
        for pull, way, ends in zip(pulls.tolist(), apart, pairwise(lengths), strict=True)
    ]
    return float(max(*lengths, *between))


def across(root: Floats, box: tuple[Floats, Floats] | None) -> float:
    """Return an upper bound of the length of root.T @ x for x (d,) in a box."""
    if box is None:
        return math.inf
    low, high = box
    loose = np.flatnonzero(high > low)
    if len(loose) > MOST_LOOSE:
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        return float(np.linalg.norm(root.T @ middle) + half @ np.linalg.norm(root, axis=1))
    corners = np.repeat(low[:, None], 2 ** len(loose), axis=1)
    upper = np.array(list(product((False, True), repeat=len(loose)))).T.reshape(
        len(loose), 2 ** len(loose)
    )
    corners[loose] = np.where(upper, high[loose, None], low[loose, None])
    return float(np.linalg.norm(root.T @ corners, axis=0).max())


def part_of(last: float, rows: float, z: float) -> float:
    """Return the part of the layers' event that is spent on their tails.

    last: see `Reach`. z: noise multiplier of the event. 0 where no score reaches the first length.
    """
    if last <= FIRST:
        return 0.0
    need = (EXCLUDED + MARGIN) * z * (last - FIRST) / (HARMLESS * USUAL_WIDTH * math.sqrt(rows))
    return min(max(need * need, LEAST_PART), MOST_PART)
