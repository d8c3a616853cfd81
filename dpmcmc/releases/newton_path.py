"""The Newton path: a fixed number of noisy Newton steps towards the posterior mode.

Each iterate is one Gaussian event. It releases, at one value of the coefficients, the score, the
curvature, the variance of the score and the scale of the residuals. Far iterates find the mode and
the coordinates. The last two, the near ones, share their coordinates, so that they can be pooled.
Every decision here is a function of public facts and of released numbers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmcmc.families.scores.base import (
    NODES,
    NONE,
    TINY,
    UNCUT,
    WEIGHTS,
    Evaluation,
    Family,
    Floats,
    ScaleFamily,
    ShapedFamily,
    Terms,
    is_additive,
    is_apart,
    is_measured,
    is_skewed,
)
from dpmcmc.families.scores.given import (
    MIN_WEIGHT,
    copies_of,
    first_slope,
    heaviest_of,
    linear_of,
    pilot,
    shift_of,
    slope_of,
)
from dpmcmc.formula import cuts
from dpmcmc.inputs.blocks import Blocks
from dpmcmc.mechanisms.joint_sums import Block, Caps, Sums, release
from dpmcmc.mechanisms.sums import (
    Loops,
    Products,
    Vectors,
    array_of,
    largest_noise,
    loops_for,
    sum_of_squares,
)
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import categories, hurdles, ordered, reach, scales, whitening
from dpmcmc.releases import shares as response_shares
from dpmcmc.releases.base import prior_by
from dpmcmc.releases.categories import FARTHEST_LOG_RATE
from dpmcmc.releases.clips import Clips, RowSizes, choose, layers
from dpmcmc.releases.design_rows import DesignRows, HeldRows, block_rows
from dpmcmc.releases.quadratic_steps import (
    MIN_WEIGHT_CUT,
    Iterate,
    downweighted,
    newton_step,
    rescaled,
    trace,
    weighted,
)
from dpmcmc.releases.whitening import (
    CUT_RATIO,
    Whitening,
    at_least,
    beside,
    by_unit,
    inverse_root,
    limited,
    rounder,
)

# Rows with several linear predictors, one for each class, in the coordinates of a release.
#
# Coefficients are ordered by class: (k, d). With one class the products here are products with a
# number.
MIN_RELATIVE_SLOPE = 1e-3  # of what was known of a class: slopes below it are taken for so much
LEAST_SLOPE = 1e-30


def at_rest(family: Family, classes: int) -> Floats:
    """Return (k, k), the information of a row whose predictors are all 0: public."""
    none = np.zeros(1)
    at = Evaluation(
        *(np.zeros((classes, 1)), none, none, math.inf, math.inf, 1.0, 1.0),
        inner=np.zeros((classes, classes, 1)),
    )
    root = family.terms(none, at).root[:, :, 0]
    return np.asarray(root @ root.T)


def jacobians_of(x: Floats, root: Floats, *, log_scale: bool = False) -> Floats:
    """Return (k, p, m), for each class the derivative of its predictor by u, for each row.

    x: (d, m). root: (k d, p), score in these coordinates is root.T @ score. log_scale: whether the
    last of x is that of a scale, whose predictor is one of its own.
    """
    d = len(x)
    if log_scale:
        return np.stack((root[:-1].T @ x[:-1], root[-1:].T * x[-1]))
    out = np.empty((len(root) // d, root.shape[1], x.shape[1]))
    for k, part in enumerate(out):
        np.matmul(root[k * d : (k + 1) * d].T, x, out=part)
    return out


def inner(jacobians: Sequence[Floats] | Floats) -> Floats:
    """Return (k, k, m), inner products of the classes' Jacobians."""
    products = np.empty((len(jacobians), len(jacobians), jacobians[0].shape[1]))
    for c, first in enumerate(jacobians):
        for e, other in enumerate(jacobians[: c + 1]):
            products[c, e] = products[e, c] = np.einsum("pm,pm->m", first, other)
    return products


def mean_slopes(curve: Floats, root: Floats, white: Floats, sd: float) -> Floats:
    """Return (k, k), the mean slope of a row, with eigenvalues raised to the noise level.

    curve: (p, p), over n, in the coordinates of root (p, p), with noise of this sd. white: (d, d),
    in whose coordinates the mean of x x^T is taken to be the identity: a block of the curvature is
    then a slope times the identity.
    """
    d, back = len(white), np.linalg.inv(root)
    blocks = (back.T @ curve @ back).reshape(len(root) // d, d, -1, d)
    slopes = np.einsum("ab,caeb->ce", white @ white.T, blocks) / d
    values, vectors = np.linalg.eigh(0.5 * (slopes + slopes.T))
    least = max(MIN_RELATIVE_SLOPE, 2.0 * sd / math.sqrt(d)) * max(float(values[-1]), LEAST_SLOPE)
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def weakened(known: Floats, slopes: Floats, white: Floats) -> Floats:
    """Return a known curvature (p, p), reduced to match smaller slopes (k, k)."""
    before = mean_slopes(known, np.eye(len(known)), white, 0.0)
    values, vectors = np.linalg.eigh(before)
    half, back = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    least, jacobians = np.linalg.eigh(back @ slopes @ back.T)
    change = half @ (jacobians * np.sqrt(np.clip(least, 0.0, 1.0))) @ jacobians.T @ back
    expanded = np.kron(change, np.eye(len(white)))
    return np.asarray(expanded @ known @ expanded.T)


# How rows are cut at an iterate of the Newton path, by public and by released numbers alone.
NOISE = 0.05  # part of an iterate that the score's variance has
LEAST_CURVE, MOST_CURVE = 0.11, 0.4  # the same of the curvature,
TARGET_CURVATURE_NOISE = 0.08  # the larger, the more its noise is above this part of it
# times a mean slope * length^2, beyond which rows are weighted down at any noise, but such a part
# of the curvature; noise of a score, in posterior sds, for which no row is cut
MAX_WEIGHT_CUT, UNHEARD_CURVATURE, UNHEARD_SCORE = 20.0, 0.005, 0.01
# noise of a score, in posterior sds, that does not matter: no clip below it. The second where
# residuals are wider than the model's, since clipping then adds bias
NEGLIGIBLE_NOISE, NEGLIGIBLE_NOISE_WIDE = 0.2, 1.0
# residual scale over that of the model, from which residuals count as wider
WIDE_RESIDUAL_SCALE = 1.3
FIRST_CLIP, LEAST_CLIP, MOST_CLIP, WIDEST_CLIP = 1.5, 0.7, 10.0, 50.0
# what is left of the score's variance where noise decides how rows are cut
TARGET_KEPT_VARIANCE = 0.8
# least clip on the way to the model's own answer: closer ones lead to a robust fit's
MODEL_CLIP = 2.0
APART_CLIP = 4.0  # the same of scores that are clipped without being centred again
TIGHT_CLIP_RATIO = 1.5  # times a clip that is that tight


class Cuts:
    """The clip of scores, adapted to the part of their variance that earlier clips kept.

    size: number of coefficients. scaled: whether residuals have a scale. least: clip.
    """

    def __init__(self, size: int, *, scaled: bool, least: float = LEAST_CLIP) -> None:
        self._size, self._scaled, self._least = size, scaled, least
        self._clip = max(FIRST_CLIP, least)

    def caps(
        self,
        rows: float,
        z: float,
        pooled: float,
        square: float,
        rough: float,
        *,
        faithful: bool = False,
    ) -> tuple[Caps, float, float]:
        """Return the caps of an iterate, the clip of its score and that of squared residuals.

        z, pooled: noise multipliers, of it and of all of its kind together. square: part of the
        iterate that the scale has. rough: scale of the residuals over that of the model, at least
        1: a clip made for those of the model would clip nearly all of them, and move their mean.
        faithful: whether the scale is released for its own sake, and not only to find places: its
        clip then hides few of the tails that residuals may have.
        """
        p, square = self._size, square if self._scaled else 0.0
        blur = math.sqrt(2.0 / LEAST_CURVE) * MIN_WEIGHT_CUT * p * z / rows * math.sqrt(2.0 * p)
        curve = min(max(LEAST_CURVE * blur / TARGET_CURVATURE_NOISE, LEAST_CURVE), MOST_CURVE)
        parts = (1.0 - NOISE - square - curve, curve, NOISE, square)
        # noise in posterior sds for a clip of 1
        each = 2.0 * math.sqrt(p / (rows * parts[0])) * pooled
        quiet = NEGLIGIBLE_NOISE if rough < WIDE_RESIDUAL_SCALE else NEGLIGIBLE_NOISE_WIDE
        clip = min(max(quiet / each, self._clip), max(WIDEST_CLIP, UNHEARD_SCORE / each)) * rough
        blur = blur * math.sqrt(LEAST_CURVE / curve) / MIN_WEIGHT_CUT
        most = max(TARGET_CURVATURE_NOISE / blur, MIN_WEIGHT_CUT) * p
        most = min(most, max(MAX_WEIGHT_CUT, UNHEARD_CURVATURE / blur) * p)
        cut = 1.0
        if square:
            noise = math.sqrt(2.0 / square) / math.sqrt(rows)
            cut = scales.best_cut(noise * z)
            if faithful:
                cut = scales.faithful_cut(noise * pooled, rows)
        return Caps(clip * math.sqrt(p), most, most, cut * cut, parts), clip, cut

    def follow(self, sums: Sums, clip: float, rough: float) -> None:
        """Adapt the clip to the part of the score's variance that the last one kept."""
        trace = float(np.trace(sums.curvature))
        clear = trace > 4.0 * (sums.sds[1] + sums.sds[2]) * math.sqrt(self._size)
        clip /= rough
        if clear and clip <= TIGHT_CLIP_RATIO * self._clip:
            kept = min(max(float(np.trace(sums.noise)) / trace, 0.05), 1.0)
            self._clip = min(max(clip * TARGET_KEPT_VARIANCE / kept, self._least), MOST_CLIP)


# What `noisy_quadratic` charges: how its budget is shared, and the event of all that it does.
ROUNDING_MARGIN = 1.0 - 2.0**-40  # of mu^2: rounding of what follows costs nothing
WHITENING_SHARE = 0.05  # share of mu^2;
NEAR_SHARES = (0.38, 0.42)  # of the near iterates. The far ones share what is left
# of the model's own answer: of the near iterates, and of each far one; the layers by which near
# scores are clipped have what is left. What they leave unseen puts clips farther out: see
# experiments/README.md, "How a budget is shared"
MODEL_SHARES, MODEL_FAR_SHARE, LEAST_LAYERS_SHARE = (0.17, 0.50), 0.02, 0.10
# of the near iterates of later rounds, for which the mode is found already, after their layers
LATER_SHARES, LATER_MODEL_SHARES = (0.40, 0.60), (0.16, 0.28, 0.56)


def shares(num_far: int, paid: bool = False, *, of_model: bool = False) -> tuple[float, ...]:
    """Return each iterate's part of mu^2, far iterates first.

    paid: whether the whitening was paid for before. of_model: whether the answer is the model's
    own, which has layers of rows before the near iterates.
    """
    near: tuple[float, ...] = NEAR_SHARES
    if of_model:
        layers_share = 1.0 - WHITENING_SHARE - sum(MODEL_SHARES) - MODEL_FAR_SHARE * num_far
        near = (max(layers_share, LEAST_LAYERS_SHARE), *MODEL_SHARES)
    rest = 1.0 - sum(near) - WHITENING_SHARE
    scale = ROUNDING_MARGIN / (1.0 - WHITENING_SHARE) if paid else ROUNDING_MARGIN
    return tuple(scale * share for share in (*(rest / num_far,) * num_far, *near))


def event(
    z: float, num_far: int, paid: bool = False, *, of_model: bool = False, rounds: int = 1
) -> Event:
    """Return the event of `in_rounds`. Proof: docs/proofs/noisy_quadratic.md.

    paid: whether the coordinates come from a whitening that was charged elsewhere. rounds: of a
    path that may go on, see `round_multipliers`; one round is `find_mode`.
    """
    z, *more = round_multipliers(z, rounds)
    parts = shares(num_far, paid, of_model=of_model)
    iterates: tuple[Event, ...] = (
        Repeat(Gaussian(z / math.sqrt(parts[0])), num_far),
        *(Gaussian(z / math.sqrt(part)) for part in parts[num_far:]),
        *(Gaussian(z_look) for z_round in more for z_look in look_multipliers(z_round, of_model)),
    )
    if paid:
        return Compose(iterates)
    return Compose((whitening.event(z / math.sqrt(ROUNDING_MARGIN * WHITENING_SHARE)), *iterates))


def round_multipliers(z: float, rounds: int) -> tuple[float, ...]:
    """Return the noise multipliers of rounds that cost mu = 1 / z together.

    The second costs as much mu^2 as the first, and each further one as much as all before it.
    """
    return tuple(z * 2.0 ** (0.5 * (rounds - max(k, 1))) for k in range(rounds))


def look_multipliers(z: float, of_model: bool) -> tuple[float, ...]:
    """Return the noise multipliers of a later round's iterates, all of them near the mode."""
    parts = LATER_MODEL_SHARES if of_model else LATER_SHARES
    return tuple(z / math.sqrt(ROUNDING_MARGIN * part) for part in parts)


# What a Newton path starts from: the opened rows of a job, and its public facts.
RARE_CATEGORY_RATIO = 2.0  # times that, from which on a category is not rare


@dataclass(frozen=True, slots=True)
class Problem:
    """Opened rows and public facts of a path. start, prior_mean, prior: (k d,).

    max_row_norm: largest norm of a row. scale: first value of that of the residuals.
    noise_multiplier: of all that is released. white: a whitening that has been paid for, or None.
    unit_rows: most rows of a unit of privacy, which lie together; mean_rows: what sums over a unit
    are divided by, about how many it has on average. intercept: whether the first covariate is 1 in
    all rows. indicators: (d,) columns that are declared to hold only 0 and 1; none where None.
    of_model: whether the answer is to be the model's own, and not that of a fit which weights rows
    down. ends: public bounds of the response; None where they are not known. box: the same (d,) of
    covariates. hopeless: (a near iterate twice, see `twice`) -> why no reliable answer will come,
    or an empty text; None where the path goes on whatever its released numbers show.
    """

    family: Family
    data: DesignRows
    start: Floats
    prior_mean: Floats
    prior: Floats
    max_row_norm: float
    scale: float
    noise_multiplier: float
    fixed: bool = False
    of_model: bool = False
    ends: tuple[float, float] | None = None
    box: tuple[Floats, Floats] | None = None
    white: Whitening | None = None
    unit_rows: int = 1
    mean_rows: float = 1.0
    intercept: bool = False
    indicators: NDArray[np.bool_] | None = None
    hopeless: Callable[[Whitening, tuple[Iterate, Iterate]], str] | None = None

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.start)

    @property
    def classes(self) -> int:
        """Number of predictors of a row that have coefficients of all covariates."""
        if self.ordered:
            return len(self.start) - self.width + 1
        return len(self.start) // self.width

    @property
    def ordered(self) -> bool:
        """Whether coefficients are cut points and slopes, see formula/cuts.py."""
        return self.family.link == "cumulative"

    @property
    def hurdle(self) -> bool:
        """Whether coefficients are of counts above 0, and of log odds of a zero."""
        return self.family.link == "hurdle"

    @property
    def width(self) -> int:
        """Number of covariates, that of a log scale included."""
        return self.data.width + self.family.log_scale

    @property
    def rows(self) -> int:
        """Number of units; each adds to a sum as much as one row does: see `joined`."""
        return self.data.rows // self.unit_rows


def rare_moments(problem: Problem, white: Whitening) -> Floats:
    """Return least moments (p,) of rare declared categories, which limit stretching; else 0.

    Such a category has few rows, with an indicator of 1. Where its column is stretched until it is
    round these rows are long, so that they are clipped and weighted down, and noise would stretch
    the column ever further. Common categories need no limit: many rows tell how little they vary
    beside other columns.
    """
    if problem.indicators is None or not problem.family.has_scale:
        return np.zeros(problem.size)
    back, least = np.linalg.inv(white.root), 1.0 / (CUT_RATIO * problem.size)
    rare = problem.indicators & ((back**2).sum(axis=0) < RARE_CATEGORY_RATIO * least)
    return np.asarray(rare * least)


PILOT_SCALE = 2.0  # sd of the residuals of logs, to begin with
PILOT_ITERATES = 2  # of the far ones, at the log of a count
# of the far ones, behind those of a linear regression that tells a scale; and where residuals are
# not symmetric, so that predictors and scale are found together, or censored
SCALE_ITERATES, SKEWED_ITERATES = 2, 5
# change of the log of a mean hazard, from which on the intercept alone is moved; and the least that
# is left of it
FAR_HAZARD, LEAST_HAZARD_LEFT = 0.4, 0.02
# of a rare category's coefficient, on the log of a count and in eighths of a linear response's
# range: noise must not carry it to where scores are cut and steps are short
RARE_PRIOR_SD = 1.0
SQUARE_FAR, SQUARE_NEAR = 0.15, 0.10  # parts of an iterate that the scale has
MOST_GROWTH, LEAST_LEFT = 6.0, 0.1  # of a scale in one iterate, and of its square in one step
FARTHEST_EFFECT, UNEQUAL = (-6.0, 3.0), 0.3  # of a category on a log count; part that is held
RIDGE = 1e-9  # of the mean precision of where the mode is
# of a linear response, from one declared end to the other, where an eighth of it is 1
RANGE = 8.0
# scale of the residuals to begin with, where an eighth of the response's range is 1
FIRST_RESIDUAL_SCALE = 2.0
LONGEST_CHANGE = 2.0  # of a predictor in one step, where a likelihood is not quadratic
# noise of the last far curvature over it, in the median direction, beyond which near looks are not
# reliable; and to which part of the noise of both near looks the first one must be unreliable: see
# experiments/early_stop.py
MAX_FAR_NOISE, BETTER_THAN_EXPECTED = 3.0, 0.35
UNSEEN = (
    "after the first Newton steps the rows did not stand out from the noise in half of all"
    " directions, so the run ended there"
)
LEAST_TOLD, MOST_SPREAD = 1e-4, 4.0  # by a mean row; variance of predictors within rows


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a path. iterates: the two near ones. stopped: why it ended early, or "".

    Of one that ended early they are its last iterate twice, each with twice the noise's variance.
    """

    white: Whitening
    iterates: tuple[Iterate, Iterate]
    stopped: str = ""


def find_mode(problem: Problem, num_far: int, random: RandomSource) -> Found:
    """Return the whitening and the two near iterates. Never raises on the rows.

    Privacy: `event`, or its first events where the path stops early. Released numbers alone decide
    that, so that the events are composed adaptively (docs/proofs/filter.md, section 6).
    """
    path, white, near = _begun(problem, num_far, problem.noise_multiplier, random)
    if path.unseen():
        return Found(white, twice(path.last), UNSEEN)
    iterates = path.near_of_model(*near) if problem.of_model else path.near(*near)
    return Found(white, iterates, path.stopped)


def in_rounds(
    problem: Problem, num_far: int, rounds: int, random: RandomSource
) -> Iterator[tuple[Whitening, list[Iterate]]]:
    """Yield, after each round, the whitening and all near iterates so far.

    The first round finds the mode, the others look there again, in the same coordinates. Privacy:
    `event` of so many rounds, or its first events where the caller stops earlier. Never raises on
    the rows.
    """
    first, *more = round_multipliers(problem.noise_multiplier, rounds)
    path, white, looks = _begun(problem, num_far, first, random)
    iterates: list[Iterate] = []
    known = 0.0  # precision of the near iterates' noise
    for z in (None, *more):
        if z is not None:
            looks = list(look_multipliers(z, problem.of_model))
        iterates += (path.near_of_model if problem.of_model else path.near)(*looks, known=known)
        known += sum(look**-2.0 for look in looks[-2:])
        yield white, list(iterates)


def _begun(
    problem: Problem, num_far: int, z: float, random: RandomSource
) -> tuple["_Path", Whitening, list[float]]:
    """Return a path after its far iterates, the whitening, and the multipliers still to spend."""
    white, paid = problem.white, problem.white is not None
    if white is None:
        z_white = z / math.sqrt(ROUNDING_MARGIN * WHITENING_SHARE)
        white = whitening.whiten(
            problem.data,
            problem.max_row_norm,
            z_white,
            random,
            problem.unit_rows,
            problem.mean_rows,
        )
        problem, white = _by_mean_rows(problem, white)
    parts = [z / math.sqrt(share) for share in shares(num_far, paid, of_model=problem.of_model)]
    far, near = parts[:num_far], parts[num_far:]
    if problem.family.log_scale:
        count = SKEWED_ITERATES if is_skewed(problem.family) else SCALE_ITERATES
        begun = _by_linear if is_measured(problem.family) else _by_known
        problem = begun(problem, white, far[:-count], random)
        far = far[-count:]
    if problem.hurdle:
        problem, far = _by_positive(problem, white, far, random), far[PILOT_ITERATES:]
    path = _Path(problem, white, random)
    if problem.family.link == "log" and not problem.family.log_scale:
        path.begin_by_logs(far[:PILOT_ITERATES])
        far = far[PILOT_ITERATES:]
    for part in far:
        path.far(part)
    return path, white, near


def _of_coefficients(problem: Problem, family: Family, **others: Any) -> Problem:
    """Return a problem of the first predictor's coefficients alone, for another family."""
    first = slice(0, problem.data.width)
    return replace(
        problem,
        family=family,
        start=problem.start[first],
        prior_mean=problem.prior_mean[first],
        prior=problem.prior[first],
        hopeless=None,
        **others,
    )


def _of_logs(problem: Problem, linear: Family, logs: Callable[[Floats], Floats]) -> Problem:
    """Return the problem of a linear regression of what `logs` makes of responses."""
    answers = problem.data.answering(logs)
    return _of_coefficients(problem, linear, data=answers, scale=PILOT_SCALE)


def _by_linear(
    problem: Problem, white: Whitening, parts: list[float], random: RandomSource
) -> Problem:
    """Return the problem, started where far iterates of a linear regression lead."""
    linear = _of_coefficients(problem, linear_of(problem.family), scale=FIRST_RESIDUAL_SCALE)
    path = _Path(linear, white, random)
    for part in parts:
        path.far(part)
    start = path.end
    start[-1] -= math.log(cast("ScaleFamily", problem.family).normal_scale)
    return replace(problem, start=start)


def _by_known(
    problem: Problem, white: Whitening, parts: list[float], random: RandomSource
) -> Problem:
    """Return the problem, started where far iterates of the family with fixed scale lead."""
    family = cast("ShapedFamily", problem.family)
    known = family.known()
    path = _Path(
        _of_logs(problem, *pilot(problem.family))
        if known is None
        else _of_coefficients(problem, known),
        white,
        random,
    )
    if known is not None and known.link == "log":
        path.begin_by_logs(parts[:PILOT_ITERATES])
        parts = parts[PILOT_ITERATES:]
    for part in parts:
        path.far(part)
    mean = float(family.mean_of(np.array([path.middle]))[0])
    scale = family.scale_of(mean, math.exp(path.end[-1]))
    return replace(problem, start=np.append(path.end[:-1], math.log(scale)))


def _by_positive(
    problem: Problem, white: Whitening, parts: list[float], random: RandomSource
) -> Problem:
    """Return the problem, started where a linear regression of logs of counts above 0 leads."""
    path = _Path(_of_logs(problem, *hurdles.pilot(problem.family)), white, random)
    for part in parts[:PILOT_ITERATES]:
        path.far(part)
    return replace(problem, start=hurdles.start(path.end[:-1], white, shift_of(problem.family)))


def _by_mean_rows(problem: Problem, white: Whitening) -> tuple[Problem, Whitening]:
    """Return both for the mean number of rows in a unit, by the intercept's moment."""
    if problem.unit_rows == 1 or not problem.intercept:
        return problem, white
    back, guess = np.linalg.inv(white.root), problem.mean_rows
    mean_square = float(back[:, 0] @ back[:, 0])
    times = min(max(mean_square, 1.0 / guess), problem.unit_rows / guess)
    white = Whitening(
        white.root * math.sqrt(times), white.known / times, white.sd / times, white.held / times
    )
    return replace(problem, mean_rows=guess * times), white


def twice(iterate: Iterate, noise: float = 1.0) -> tuple[Iterate, Iterate]:
    """Return one iterate as two that pool to it, with its noise times `noise`."""
    each = noise * math.sqrt(2.0)
    score, curve, variance, square = iterate.sums.sds
    sds = (each * score, each * curve, each * variance, each * square)
    sums = replace(iterate.sums, sds=sds, rows_sd=each * iterate.sums.rows_sd)
    each_of_two = replace(iterate, sums=sums, tau_sd=each * iterate.tau_sd)
    return each_of_two, each_of_two


class _Path:
    """The state of a path. known: released curvature over n, in directions above its noise."""

    def __init__(self, problem: Problem, white: Whitening, random: RandomSource) -> None:
        self._rare, self._released = rare_moments(problem, white), white
        root = limited(white.root, np.diag(self._rare)) if self._rare.any() else white.root
        # as sums of persons' rows are over their mean number, so is what a prior adds to them
        problem = replace(problem, prior=problem.prior / problem.mean_rows)
        self._problem, self._white, self._random = problem, replace(white, root=root), random
        if problem.family.log_scale:
            unit = math.exp(problem.start[-1]) if is_measured(problem.family) else 1.0
            self._white = beside(self._white, unit)
        self.stopped = ""
        self._family = problem.family
        self._place, self._scale = problem.start.copy(), problem.scale
        if self._bends:
            self._problem = replace(problem, prior=self._holding(problem.prior))
        self._rows = float(problem.rows)  # that are not left out
        least = MODEL_CLIP * self._usual**0.5 if problem.of_model else LEAST_CLIP
        if is_apart(problem.family) or problem.hurdle:
            least = APART_CLIP
        self._cuts = Cuts(problem.size, scaled=problem.family.has_scale, least=least)
        level = first_slope(problem.family)
        classes = problem.classes
        self._looking_for_cuts, self._looking_for_zeros = problem.ordered, problem.hurdle
        self._predictors: Floats | None = None  # takes coefficients to those of each predictor
        if problem.ordered:
            self._predictors = cuts.spread_out(classes, problem.data.width)
            self._round_ordered()
        elif problem.hurdle:
            self._root = hurdles.coordinates(self._place, self._white, shift_of(self._family))
        elif is_apart(problem.family):
            self._round_apart()
        else:
            self._stretch(at_rest(self._family, classes) if classes > 1 else [[level]])
        self._forget()

    @property
    def end(self) -> Floats:
        """Coefficients, followed by the log scale where it is released separately."""
        return np.append(self._place, math.log(self._scale))

    @property
    def middle(self) -> float:
        """The predictor whose response is about the mean one, predictors being normal."""
        if self._family.link == "log":
            return math.log(self._rate())
        return self._predictor_moments()[0]

    @property
    def _bends(self) -> bool:
        """Whether residuals of rows in a rare category may lie where they are clipped."""
        return self._family.link == "identity" and bool(self._rare.any())

    @property
    def _odds(self) -> bool:
        """Whether predictors are log odds of single rows, and there is an intercept."""
        scaled = self._family.has_scale or self._family.log_scale
        log_odds = self._family.link in ("logit", "softmax") and not scaled
        return log_odds and categories.has_intercept(self._white)

    def _forget(self) -> None:
        """Discard the estimate of the mode and its precision."""
        self._mean, size = self._place.copy(), self._problem.size
        self._precision = np.zeros((size, size))

    def _stretch(self, slopes: ArrayLike) -> None:
        """Start with coordinates in which rows of this slope (k, k) have unit information."""
        slopes = np.asarray(slopes) / (self._scale**2 if is_additive(self._family) else 1.0)
        self._root = np.asarray(np.kron(inverse_root(slopes, 0.0), self._white.root), np.float64)
        self._known = np.asarray(np.kron(slopes, self._white.known), np.float64)
        self._held = self._white.held

    def _told_of_scale(self) -> float:
        """Return the expected information of a row about the log scale, at the current point."""
        if is_measured(self._family):
            return cast("ScaleFamily", self._family).information[1]
        return max(float(self._expected()[1]), LEAST_TOLD)

    def _expected(self) -> Floats:
        """Return (2,) expected information of a row about its predictor and a shape parameter."""
        mean, variance = self._predictor_moments()
        eta = np.clip(mean + math.sqrt(variance) * NODES, *FARTHEST_LOG_RATE)
        family, scale = cast("ShapedFamily", self._family), math.exp(self._place[-1])
        return np.asarray(family.expected(family.mean_of(eta), scale) @ WEIGHTS)

    def _round_apart(self) -> None:
        """Start with coordinates of unit information, for a family with a shape parameter."""
        information = self._expected()
        of_predictor, of_scale = max(float(information[0]), LEAST_TOLD), self._told_of_scale()
        each = np.full(self._problem.size, of_predictor)
        each[-1] = of_scale
        self._root = np.asarray(self._white.root / np.sqrt(each))
        self._known = np.asarray(self._white.known * each)
        self._held = self._white.held

    def begin_by_logs(self, parts: list[float]) -> None:
        """Move to the fit of a linear regression of the log response."""
        problem, family, scale = self._problem, self._family, self._scale
        self._family, logs = pilot(family)
        held = self._holding(problem.prior)
        self._problem = replace(problem, data=problem.data.answering(logs), prior=held)
        self._scale = PILOT_SCALE
        self._stretch([[1.0]])
        for part in parts:
            self.far(part)
        self._problem, self._family, self._scale = problem, family, scale
        self._stretch([[slope_of(family, self._rate())]])
        self._forget()

    def _holding(self, prior: Floats) -> Floats:
        """Return the prior precisions (p,) used on the path, higher for rare categories."""
        return np.where(self._rare > 0.0, RARE_PRIOR_SD**-2, prior)

    def _rate(self) -> float:
        """Return the mean count at the current point, predictors being normal."""
        (mean, variance), (low, high) = self._predictor_moments(), FARTHEST_LOG_RATE
        return math.exp(min(max(mean + 0.5 * variance, low), high))

    def _predictor_moments(self) -> tuple[float, float]:
        """Return mean and variance of rows' first predictor at the current point.

        By the released moments of covariates, the first of which is the intercept. No variance is
        taken to be above MOST_SPREAD.
        """
        second = self._released.moments()
        place = self._place[: len(second)]
        mean = float(second[0] @ place)
        variance = float(place @ second @ place) - mean * mean
        return mean + shift_of(self._family), min(max(variance, 0.0), MOST_SPREAD)

    def far(self, z: float) -> None:
        """Release at a far iterate and take a Newton step. Privacy: Gaussian(z)."""
        iterate = self.last = self._query(z, z, SQUARE_FAR)
        if self._odds and not self._precision.any() and self._found_shares(iterate):
            return
        if self._found_hazard(iterate) or self._found_cuts(iterate) or self._found_zeros(iterate):
            return
        step, curve = self._step(iterate)
        self._place = self._moved(step)
        factor = self._scale_left(iterate, float(step @ curve @ step))
        apart = self._family.log_scale and not is_skewed(self._family)
        if apart:
            iterate, curve = _scale_apart(iterate), _corner_alone(curve)
        if self._problem.ordered:
            self._round_ordered()
        elif self._problem.hurdle:
            self._root = hurdles.coordinates(self._place, self._white, shift_of(self._family))
        elif not self._round_by_shares():
            rounded = self._round_classes if self._problem.classes > 1 else self._round
            rounded(iterate, curve)
        if apart:  # what a row says of its scale is known: no noise is to stretch it
            self._root[-1] = 0.0
            self._root[-1, -1] = self._told_of_scale() ** -0.5
        if is_additive(self._family):
            self._root = np.asarray(self._root * factor)
            self._known = np.asarray(self._known / factor**2)
        self._scale *= factor

    def _found_shares(self, iterate: Iterate) -> bool:
        """Move intercepts to the log odds of the shares, if far. Return whether moved."""
        moved = response_shares.moved(iterate, self._white, self._family, self._rows)
        if moved is None:
            return False
        self._place = self._place + moved[0]
        self._stretch(moved[1])
        self._round_by_shares()
        self._forget()
        return True

    def _found_hazard(self, iterate: Iterate) -> bool:
        """Move the intercept to the mean log hazard of times, if far. Return whether moved.

        Where hazards are far too large a Newton step divides them by e at most. Along an intercept
        the slope is the sum of hazards, and the score that sum less the number of events.
        """
        family, problem = self._family, self._problem
        if not (is_measured(family) and is_skewed(family) and problem.intercept):
            return False
        back, sigma = np.linalg.inv(iterate.root), math.exp(float(self._place[-1]))
        first, sums = back[:, 0], iterate.sums
        hazard = max(float(first @ sums.curvature @ first), TINY) * sigma
        noise = sums.sds[1] * float(first @ first) * sigma
        events = hazard - float(first @ sums.score)
        change = math.log(max(events / max(hazard, noise), LEAST_HAZARD_LEFT))
        if abs(change) < FAR_HAZARD:
            return False
        self._place[0] -= sigma * change
        self._forget()
        return True

    def _found_cuts(self, iterate: Iterate) -> bool:
        """Move the cut points of the first iterate to the shares. Return whether moved."""
        if not self._looking_for_cuts:
            return False
        self._looking_for_cuts = False
        self._place = self._place.copy()
        self._place[: self._problem.classes] = ordered.first_cuts(
            iterate, self._rows, self._problem.classes
        )
        self._round_ordered()
        self._forget()
        return True

    def _found_zeros(self, iterate: Iterate) -> bool:
        """Move the intercept of the first log odds of a zero to their share, if far.

        Return whether moved.
        """
        looking, self._looking_for_zeros = self._looking_for_zeros, False
        if not looking or not categories.has_intercept(self._white):
            return False
        moved = response_shares.moved(iterate, self._white, self._family, self._rows, first=1)
        if moved is None:
            return False
        self._place = self._place + moved[0]
        self._root = hurdles.coordinates(self._place, self._white, shift_of(self._family))
        self._forget()
        return True

    def _round_ordered(self) -> None:
        """Change to coordinates of unit information for ordered categories."""
        self._root = ordered.coordinates(self._place, self._white)

    def _moved(self, step: Floats) -> Floats:
        """Return the coefficients after a step (p,), cut points kept in order."""
        place = np.asarray(self._place + self._root @ step)
        if not self._problem.ordered:
            return place
        return ordered.in_order(self._place, place, self._problem.classes)

    def _of_predictors(self, coefficients: Floats) -> Floats:
        """Return coefficients (p, ...) expanded to (k d, ...), predictor by predictor."""
        return coefficients if self._predictors is None else self._predictors @ coefficients

    def _round_by_shares(self) -> bool:
        """Change to coordinates of unit expected information, if a response is rare."""
        odds, white = self._odds, self._white
        curve = response_shares.expected(self._place, white, self._family) if odds else None
        if curve is None:
            return False
        root = np.kron(np.eye(self._problem.classes), white.root)
        self._root = np.asarray(root @ inverse_root(root.T @ curve @ root, 0.0), np.float64)
        self._known, self._held = curve, white.held
        return True

    def _round(self, iterate: Iterate, curve: Floats) -> None:
        """Change to coordinates in which this iterate's curvature is the identity."""
        n, back = self._rows, np.linalg.inv(self._root)
        noise, usual = iterate.sums.noise / n, weighted(curve, iterate.sums.noise / n)
        before = self._root.T @ self._known @ self._root
        if not self._family.quadratic:
            before = before * min(1.0, trace(curve) / usual / trace(before))
        sds = iterate.sums.sds[1] / n, iterate.sums.sds[2] / n
        stretch, sure, close = rescaled(curve, noise / usual, before, sds[0], sds[1] / usual)
        self._known = np.asarray(back.T @ sure @ back)
        level = self._level(curve) / usual
        self._held = at_least(self._held, np.asarray(back.T @ close @ back / level, np.float64))
        held = at_least(np.asarray(self._held * level), self._categories(level))
        self._root = limited(np.asarray(self._root @ stretch), held)

    def _categories(self, level: float) -> Floats:
        """Return the limit (p, p) of stretching of rare categories, for slopes with this mean."""
        effect = np.ones(self._problem.size)
        if not is_additive(self._family):
            effect = UNEQUAL * np.exp(np.clip(self._place, *FARTHEST_EFFECT))
        return np.asarray(np.diag(self._rare * effect * level))

    def _level(self, curve: Floats) -> float:
        """Return a row's mean slope, given the curvature over n in these coordinates."""
        return trace(curve) / trace(self._root.T @ self._white.moments() @ self._root)

    def _round_classes(self, iterate: Iterate, curve: Floats) -> None:
        """Change coordinates as `_round` does, for several predictors a row."""
        n, white = self._rows, self._white.root
        sd = iterate.sums.sds[1] / n
        slopes = mean_slopes(iterate.sums.curvature / n, self._root, white, sd)
        self._known = weakened(self._known, slopes, white)
        held = np.asarray(np.kron(slopes, self._white.held), np.float64)
        self._root, self._known = rounder(self._root, self._known, curve, sd)
        self._root = limited(self._root, held)

    def near(self, first: float, last: float, *, known: float = 0.0) -> tuple[Iterate, Iterate]:
        """Return two more iterates, released in the same coordinates.

        known: precision of the noise of near iterates before these.
        """
        pooled = 1.0 / math.sqrt(first**-2.0 + last**-2.0 + known)
        iterates = []
        for z in (first, last):
            iterate = self._query(z, pooled, SQUARE_NEAR, mean=True)
            self._place = self._moved(self._step(iterate)[0])
            if self._family.has_scale and not self._problem.fixed:
                additive = is_additive(self._family)
                self._scale *= iterate.tau
                self._scale = self._scale if additive else max(self._scale, 1.0)
            iterates.append(iterate)
            if self._hopeless(iterates, pooled / z):
                return twice(iterate)
        return iterates[0], iterates[1]

    def near_of_model(
        self, layer_noise: float, first: float, last: float, *, known: float = 0.0
    ) -> tuple[Iterate, Iterate]:
        """Return two more iterates of the model's own, unclipped score.

        layer_noise, first, last: noise multipliers, the first of the layers by which rows are
        clipped. known: see `near`.
        """
        pooled = 1.0 / math.sqrt(first**-2.0 + last**-2.0 + known)
        clips = self._clips(layer_noise, pooled)
        self._forget()  # places before are those of a fit that weights rows down
        iterates: list[Iterate] = []
        for z in (first, last):
            iterate = self._query_model(z, clips)
            self._place = self._moved(self._step(iterate)[0])
            if is_additive(self._family) and not self._problem.fixed:
                clips = clips.rescaled(iterate.tau)  # the same residuals are clipped
                self._scale *= iterate.tau
            iterates.append(iterate)
            if self._hopeless(iterates, pooled / z):
                return twice(iterate)
        return iterates[0], iterates[1]

    def unseen(self) -> bool:
        """Return whether the last far iterate's likelihood is below its noise, ending the path.

        By the median of the curvature's eigenvalues.
        """
        sums = self.last.sums
        edge = largest_noise(len(sums.score), sums.sds[1])
        middle = float(np.median(np.linalg.eigvalsh(sums.curvature)))
        return self._problem.hopeless is not None and edge > MAX_FAR_NOISE * middle

    def _hopeless(self, iterates: list[Iterate], ratio: float) -> bool:
        """Return whether the path ends after its first near iterate; `stopped` says why.

        ratio: noise of both iterates together, over that of the first one. Bias is measured in sds
        that include the noise, so that less noise may reveal it: the verdict is asked at this noise
        and at less.
        """
        ask = self._problem.hopeless
        if ask is not None and len(iterates) == 1:
            few = ask(self._released, twice(iterates[0], ratio * BETTER_THAN_EXPECTED))
            usual = ask(self._released, twice(iterates[0], ratio)) if few else ""
            self.stopped = few if usual else ""
        return bool(self.stopped)

    def _clips(self, z: float, pooled: float) -> Clips:
        """Release layers of rows here and choose clips. Privacy: one Gaussian(z) event."""
        problem, p = self._problem, self._problem.size
        spread = self._covering()
        usual, numbers = self._usual, problem.data.rows * p
        sizes = partial(_row_sizes, p, usual, loops_for(numbers))
        parts = self._unclipped(spread).map(sizes)
        persons = problem.unit_rows > 1
        squares = self._family.has_scale and not (self._family.link == "identity" and problem.fixed)
        gaps = problem.data.gaps
        longest = math.inf
        if self._family.link == "identity":
            longest = RANGE * math.sqrt(heaviest_of(self._family)) / self._scale
        longest_score = self._longest() / usual
        layers_of_rows = layers(
            parts,
            problem.rows,
            z,
            self._random,
            scaled=squares,
            gaps=gaps,
            reach=longest,
            last=self._farthest(z, longest_score),
            longest=longest_score,
            persons=persons,
        )
        self._rows = layers_of_rows.rows
        measured, skewed = is_measured(self._family), is_skewed(self._family)
        clips = choose(
            layers_of_rows,
            p,
            pooled,
            quadratic=self._family.quadratic,
            minus=measured and not skewed,
            least=reach.of_scale(self._root, self._family) / usual if measured else 0.0,
            alike=skewed or is_apart(self._family),
            persons=persons,
        )
        return clips.in_lengths_of(usual)

    def _farthest(self, z: float, longest: float) -> float:
        """Return the length, in usual ones, from which scores count as equal; 0 if unknown.

        The longest possible one, where the noise of this z is small enough to exclude such scores.
        """
        problem = self._problem
        if reach.part_of(longest, problem.rows, z) < reach.MOST_PART:
            return longest
        if problem.ends is None:
            return 0.0
        # all rows of a unit lie there, of which it has more than on average, and not the most
        many = math.sqrt(self._most_of_rows)
        if is_skewed(self._family) or is_apart(self._family):
            farthest = reach.farthest_time if is_measured(self._family) else reach.farthest_apart
            length = farthest(self._place, self._released, self._family, problem.ends, self._root)
        else:
            length = reach.farthest(
                self._place, self._scale, self._white, self._family, problem.ends
            )
        return min(length * many / self._usual, longest)

    @property
    def _usual(self) -> float:
        """Rms length, in mean lengths of a row's score, of a unit whose rows are independent."""
        return float(self._problem.mean_rows**-0.5)

    @property
    def _most_of_rows(self) -> float:
        """How many times as long the score of a unit of privacy can be as that of its rows."""
        return self._problem.unit_rows / self._problem.mean_rows

    def _longest(self) -> float:
        """Return the longest possible score, in mean lengths, by public bounds."""
        problem = self._problem
        root, largest = self._of_predictors(self._root), (problem.data.width, problem.max_row_norm)
        longest = reach.longest(
            root, self._place, self._scale, self._family, problem.ends, problem.box, largest
        )
        return longest * self._most_of_rows

    def _unclipped(self, spread: Floats) -> Blocks[Block]:
        """Return the model's own statistics of each block, without weights or clips: see Look."""
        return self._blocks(Look.unclipped, self._look(UNCUT, UNCUT, UNCUT, spread))

    def _query_model(self, z: float, clips: Clips) -> Iterate:
        """Release the model's own sums at the current point. Privacy: one Gaussian(z) event."""
        problem, p = self._problem, self._problem.size
        spread = self._covering()
        gaps = problem.data.gaps
        caps, blocks = clips.caps(), self._unclipped(spread)
        if is_measured(self._family) and not is_skewed(self._family):
            blocks = blocks.map(partial(_scale_kept, caps.score))
        sums = release(blocks, p, problem.rows, caps, z, self._random, gaps=gaps)
        self._rows, (tau, tau_sd, tail_sd) = sums.rows, clips.scale(sums)
        return Iterate(
            self._place,
            self._root,
            clips.completed(sums),
            self._scale,
            clips.length,
            clips.cut,
            tau,
            tau_sd,
            spread if self._bends else None,
            clips.left,
            clips.curve,
            clips.spread(tau),
            tail_sd,
            clips.unseen,
        )

    def _scale_left(self, iterate: Iterate, gained: float) -> float:
        """Return the residual scale after a step, over that before it."""
        additive = is_additive(self._family)
        if not self._family.has_scale or (self._problem.fixed and additive):
            return 1.0
        tau = min(iterate.tau, MOST_GROWTH)
        if not additive:
            return max(1.0 / self._scale, tau)
        return math.sqrt(max(tau * tau - gained, LEAST_LEFT * tau * tau))

    def _query(self, z: float, pooled: float, square: float, mean: bool = False) -> Iterate:
        """Release the sums at the current point. Privacy: one Gaussian(z) event.

        pooled: noise multiplier of all iterates of this kind together.
        """
        problem, p = self._problem, self._problem.size
        rough = self._rough()
        faithful = mean and self._family.quadratic and not self._problem.fixed
        caps, clip, cut = self._cuts.caps(self._rows, z, pooled, square, rough, faithful=faithful)
        spread = self._spread(mean=mean)
        blocks = self._blocks(Look.clipped, self._look(caps.score, caps.curvature, cut, spread))
        gaps = problem.data.gaps
        sums = release(blocks, p, problem.rows, caps, z, self._random, gaps=gaps)
        self._rows = sums.rows
        tau, tau_sd = 1.0, 0.0
        if self._family.has_scale:
            noise = sums.sds[3] / self._rows
            tau, tau_sd = scales.solved(sums.square / self._rows, cut, noise)
        self._cuts.follow(sums, clip, rough)
        bent = spread if self._bends else None
        return Iterate(self._place, self._root, sums, self._scale, clip, cut, tau, tau_sd, bent)

    def _rough(self) -> float:
        """Return the released residual scale over the model's, at least 1."""
        apart = self._family.has_scale and not is_additive(self._family)
        return max(self._scale, 1.0) if apart else 1.0

    def _spread(self, *, mean: bool) -> Floats | None:
        """Return a root (p, p) of the covariance over which scores are averaged, or None.

        It is that of the place, as far as iterates estimate it, where the few rows of a category
        may be clipped: there the score is not linear, and a Newton step is too short.
        """
        if not self._bends:
            return self._posterior_root() if mean else None
        if not self._precision.any():
            return None
        known = self._root.T @ (self._precision + np.diag(self._problem.prior)) @ self._root
        values, vectors = np.linalg.eigh(0.5 * (known + known.T))
        return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-9 * values[-1])))

    def _covering(self) -> Floats:
        """Return a root (p, p) of the covariance over which the model's own scores are averaged."""
        spread = self._spread(mean=True)
        return self._posterior_root() if spread is None else spread

    def _posterior_root(self) -> Floats:
        """Return a root (p, p) of the estimated posterior covariance, in these coordinates."""
        prior = self._root.T @ (self._problem.prior[:, None] * self._root)
        values, vectors = np.linalg.eigh(0.5 * (prior + prior.T))
        values = self._rows + np.maximum(values, 0.0)  # where columns agree they are many powers
        return np.asarray(vectors / np.sqrt(values))

    def _blocks(
        self, statistics: Callable[["Look", HeldRows], Block], look: "Look"
    ) -> Blocks[Block]:
        """Return the statistics of each block of rows."""
        problem = self._problem
        size = block_rows(problem.data, problem.unit_rows, problem.classes)
        return problem.data.blocks(size).map(partial(statistics, look))

    def _look(self, score: float, curvature: float, cut: float, spread: Floats | None) -> "Look":
        """Return the Look (evaluation settings) here. score, curvature, cut: clips."""
        return Look(
            family=self._family,
            place=self._of_predictors(self._place),
            root=self._of_predictors(self._root),
            limits=(score, curvature, self._scale, cut),
            spread=spread,
            unit_rows=self._problem.unit_rows,
            mean_rows=self._problem.mean_rows,
        )

    def _step(self, iterate: Iterate) -> tuple[Floats, Floats]:
        """Return step (p,) and curvature over n (p, p), in the iterate's coordinates.

        The step is to the mean given this iterate, earlier ones as far as they agree with it, and
        the prior, but no longer than the family allows.
        """
        problem = self._problem
        move, known, steep, curve = newton_step(iterate, iterate.sums.rows)
        before = iterate.root.T @ self._precision @ iterate.root
        apart = np.linalg.solve(iterate.root, self._mean - iterate.place)
        before = downweighted(known, before, apart - move)
        total = known + before
        ridge = RIDGE * trace(total) / len(move) * np.eye(len(move))  # rows may tell no direction
        mode = move + np.linalg.solve(total + ridge, before @ (apart - move))
        both = steep @ np.linalg.solve(steep + total, total)
        prior, pull = prior_by(iterate.root, iterate.place, problem.prior_mean, problem.prior)
        step = np.linalg.solve(prior + both, both @ mode + pull)
        back = np.linalg.inv(iterate.root)
        self._mean = iterate.place + iterate.root @ mode
        self._precision = back.T @ total @ back
        moves = np.linalg.solve(
            self._white.root,
            self._of_predictors(iterate.root @ step).reshape(-1, problem.width).T,
        )
        size = math.sqrt(float((moves**2).sum(axis=0).max()))
        longest = math.inf if self._family.quadratic else LONGEST_CHANGE
        return np.asarray(step * min(1.0, longest / max(size, TINY))), curve


@dataclass(frozen=True, slots=True)
class Look:
    """How rows are evaluated: public numbers that are sent to where the rows are stored.

    place, root: coefficients (k d,) of the predictors, and their coordinates (k d, p). limits: most
    of a score and of a curvature, the scale, and the clip of its statistic, see Evaluation. spread:
    (p, p) root of what scores are averaged over, or None. unit_rows, mean_rows: see Problem.
    """

    family: Family
    place: Floats
    root: Floats
    limits: tuple[float, float, float, float]
    spread: Floats | None
    unit_rows: int
    mean_rows: float

    def unclipped(self, rows: HeldRows) -> Block:
        """Return the model's own statistics of rows, unclipped and unweighted.

        Their noise is the variance of the score itself, whatever the model says. A row that stands
        for several equal ones counts as so many independent rows, a unit of privacy as one, however
        its rows depend on each other.
        """
        x, jacobians, terms = self._terms(rows)
        roots, minus = _products(jacobians, terms.root), _products(jacobians, terms.minus)
        score, copies = Products(jacobians, terms.psi), copies_of(self.family, rows.y)
        if self.unit_rows > 1:
            of_rows = Block(score, roots, (), terms.square, rows.counted, minus)
            block = by_unit(of_rows, x, self.unit_rows, self.mean_rows)
            return replace(block, noise=(block.vectors,))
        each: Vectors = score
        if copies is not None:
            each = score.array() / np.sqrt(np.maximum(copies, MIN_WEIGHT))
        return Block(score, roots, (each,), terms.square, rows.counted, minus)

    def clipped(self, rows: HeldRows) -> Block:
        """Return the clipped and weighted statistics of rows."""
        x, jacobians, terms = self._terms(rows)
        block = Block(
            Products(jacobians, terms.psi),
            _products(jacobians, terms.root),
            _products(jacobians, terms.noise),
            terms.square,
            rows.counted,
        )
        return by_unit(block, x, self.unit_rows, self.mean_rows)

    def _terms(self, rows: HeldRows) -> tuple[Floats, Floats, Terms]:
        """Return covariates (d, m), Jacobians of each predictor, and the rows' statistics.

        Where a log scale has a predictor, its covariate follows the others: 1 for rows that count.
        """
        x = rows.x
        if self.family.log_scale:
            used = np.ones(x.shape[1]) if rows.counted is None else rows.counted
            if self.unit_rows > 1:
                used = used * x.any(axis=0)
            x = np.vstack((x, used))
        jacobians = jacobians_of(x, self.root, log_scale=self.family.log_scale)
        with np.errstate(all="ignore"):
            return x, jacobians, self.family.terms(rows.y, self._where(x, jacobians))

    def _where(self, x: Floats, jacobians: Floats) -> Evaluation:
        """Return the evaluation point and clips of the rows x (d, m) of a block."""
        if self.family.log_scale:
            eta = np.stack((self.place[:-1] @ x[:-1], self.place[-1] * x[-1]))
        else:
            eta = self.place.reshape(-1, len(x)) @ x
        spread = [] if self.spread is None else [self.spread.T @ part for part in jacobians]
        none = np.zeros(x.shape[1])
        if len(jacobians) == 1:
            sizes = _lengths(jacobians[0]), _lengths(spread[0]) if spread else none
            return Evaluation(eta, *sizes, *self.limits)
        cover = inner(spread) if spread else NONE
        return Evaluation(eta, none, none, *self.limits, inner=inner(jacobians), cover=cover)


def _products(jacobians: Floats, roots: Floats) -> tuple[Products, ...]:
    """Return the vectors of roots (k, k, m) of a row, one of each column."""
    return tuple(Products(jacobians, part) for part in roots.swapaxes(0, 1))


def _row_sizes(p: int, usual: float, loops: Loops, block: Block) -> RowSizes:
    """Return lengths of scores (p,) over the usual one, curvatures and squares: see `layers`."""
    roots = (*block.curvature, *block.minus)
    curvatures = sum_of_squares(roots, block.each(roots), loops)
    lengths = np.sqrt(loops.squares(block.vectors) / p) / usual
    return lengths, np.asarray(curvatures / p), block.square, block.counted


def _scale_kept(most: float, block: Block) -> Block:
    """Return a block whose scores, except their last entry, are clipped to length `most`.

    The last entry is the score of the log of a scale, which points the same way wherever it is
    long.
    """
    vectors = array_of(block.vectors)
    first, last = vectors[:-1], vectors[-1:]
    with np.errstate(all="ignore"):
        room = np.sqrt(np.maximum(most * most - last[0] ** 2, 0.0))
        part = np.minimum(1.0, room / np.maximum(_lengths(first), TINY))
    return replace(block, vectors=np.concatenate((part * first, last)))


def _scale_apart(iterate: Iterate) -> Iterate:
    """Return an iterate without correlation of coefficients and the log scale behind them.

    There is none where residuals are symmetric, and coordinates are not to follow its noise.
    """
    sums = iterate.sums
    curve, noise = _corner_alone(sums.curvature), _corner_alone(sums.noise)
    return replace(iterate, sums=replace(sums, curvature=curve, noise=noise))


def _corner_alone(matrix: Floats) -> Floats:
    """Return a matrix (p, p) with zeros in its last row and column off the diagonal."""
    alone = matrix.copy()
    alone[-1, :-1] = alone[:-1, -1] = 0.0
    return alone


def _lengths(vectors: Floats) -> Floats:
    """Return the lengths (m,) of vectors (p, m)."""
    return np.asarray(np.sqrt(np.einsum("pm,pm->m", vectors, vectors)))
