"""Variational inference: a normal distribution fitted to the posterior by private gradients.

Each round releases clipped gradients of all rows at the mean of q and at points around it along
its axes, and takes a natural-gradient step with length 1 (Opper and Archambeau 2009; Khan and Rue
2023): the gradient moves the mean, and by Stein's identity the gradients around it are the
precision. The last two rounds share their coordinates and are pooled; what comes out accounts for
the noise of the gradients (variational). A job costs mu = 1 / noise_multiplier, for any number of
draws. Source of the method: Jälkö, Dikmen and Honkela 2017, here with gradients of all rows.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, expit

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.target import Floats, Gradients
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import DpViOptions
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.mechanisms.sums import MOST_COEFFICIENTS, MOST_ROWS, largest_noise, release_sums
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import VARIATIONAL_GRADIENT
from dpmcmc.releases.base import Facts, Judged, Normal, Record, Release, prior_by, prior_of
from dpmcmc.releases.categories import within
from dpmcmc.releases.quadratic_steps import shrunk
from dpmcmc.releases.reach import across
from dpmcmc.releases.whitening import at_least

# The stored release of `dp_vi`: a noisy score and slope, and normal posteriors given them.
#
# All of it is a function of released numbers: nothing here reads a row or costs anything.
SIGNIFICANCE = 0.001  # probability of such a difference of the last looks by noise alone
# part of a slope by which it may change between them, as likelihoods are not quadratic
NONQUADRATIC_CHANGE = 0.05
MAX_LAST_STEP = 0.2  # last step, in sds of one row, beyond which the place was not found
# square of the last step, about the error of a Newton step where a likelihood bends, in sds of the
# posterior
MAX_BEND = 0.5
FIRST_BEND = 4.0  # times that, of the step before, which only the first of two looks is moved by
# slope of a logistic row, p (1 - p) averaged over rows, below which events are too rare for these
# gradients: see experiments/README.md
LEAST_SLOPE = 0.08
MAX_SLOPE_NOISE = 0.5  # noise of the slope over its median, from which on nothing is promised
LARGEST_SQUARE = 1e200  # of a step: beyond it noise is all that there is
SMALLEST_DIVISOR = 1e-200


@dataclass(frozen=True, slots=True)
class Look:
    """Released numbers of a round. place: (d,); positions are place + root @ u; the rest by u.

    score: (d,) of the log likelihood; noise: (d, d), a root of the covariance of its noise. slope:
    (d, d), minus that of the score. slope_sd: of the noise of its diagonal; off it sqrt(2) smaller.
    """

    place: Floats
    root: Floats
    score: Floats
    noise: Floats
    slope: Floats
    slope_sd: float

    @property
    def edge(self) -> float:
        """Return about the largest eigenvalue of the slope's noise."""
        return largest_noise(len(self.score), self.slope_sd)


def raised(matrix: Floats, least: float) -> Floats:
    """Return B with B^T matrix B = I, eigenvalues below `least` raised to it."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(values, max(least, 1e-12 * float(np.abs(values).max()), SMALLEST_DIVISOR))
    return np.asarray(vectors / np.sqrt(values))


def _solved(matrix: Floats, right: Floats) -> Floats:
    """Return x with matrix @ x = right; the least-norm solution where matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right)[0])


def pooled(first: Look, last: Look, weight: float, most: Floats | None = None) -> "Variational":
    """Return the stored release: two rounds with the same coordinates and noise, pooled.

    most: (d,), no slope of all rows by positions is larger than this diagonal; None where that is
    not known. Of few rows noise is, and would pass for what they say.
    """
    slope_sd = math.hypot(first.slope_sd, last.slope_sd) / 2.0
    slope = shrunk(0.5 * (first.slope + last.slope), slope_sd)[0]
    values, vectors = np.linalg.eigh(slope)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    capped = None if most is None else within(positive, last.root, most)
    slope = slope if capped is None else capped
    move = np.linalg.solve(last.root, last.place - first.place)
    expected = first.score - slope @ move
    size = np.abs(move @ slope) * NONQUADRATIC_CHANGE
    unsure = slope_sd**2 * float(move @ move)
    noise = first.noise @ first.noise.T + last.noise @ last.noise.T + unsure * np.eye(len(move))
    apart = last.score - expected
    surprise = float(apart @ _solved(noise + slope + np.diag(size**2), apart))
    width = math.sqrt((1.0 + 0.25 * float(np.trace(noise)) / (len(move) * weight)) / weight)
    bend = float(move @ move) / (FIRST_BEND * MAX_BEND * width)
    return Variational(
        place=last.place,
        root=last.root,
        score=0.5 * (last.score + expected),
        noise=0.25 * noise,
        slope=slope,
        slope_sd=slope_sd,
        weight=weight,
        jump=max(surprise / float(chdtri(len(move), SIGNIFICANCE)), bend),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Variational(Record):
    """A stored release. place, root, score, slope, slope_sd: see Look, of both rounds pooled.

    noise: (d, d), covariance of the score's noise. weight: rows times tempering. jump: difference
    of the looks, squared, over the most that noise explains, or the square of the step between
    them over the most that a line is told by, whichever is larger. longest: gradient that a row may
    have, by declared bounds, over what gradients are clipped to; 0 where that is not judged.
    mean_slope: p (1 - p) of a logistic model, averaged over rows; 1 for other families.
    """

    place: Floats
    root: Floats
    score: Floats
    noise: Floats
    slope: Floats
    slope_sd: float
    weight: float
    jump: float
    longest: float = 0.0
    mean_slope: float = 1.0

    def moments(self) -> None:
        """Return None: no second moments of a design are released."""

    @property
    def edge(self) -> float:
        """About the largest eigenvalue of the slope's noise."""
        return largest_noise(len(self.score), self.slope_sd)

    def posterior(self, mean: Floats, precision: Floats, _: RandomSource) -> Normal:
        """Return the posterior under independent normal priors. mean, precision: (d,)."""
        return self.normal_posterior(mean, precision)

    def normal_posterior(self, mean: Floats, precision: Floats) -> Normal:
        """Return the posterior under normal priors, deterministically. mean, precision: (d,).

        The score is N(slope @ (mode - place), slope + noise) over rows and noise, see the proof.
        """
        values, vectors = np.linalg.eigh(self.slope)
        least = 1e-6 * min(self.weight, max(float(values[-1]), SMALLEST_DIVISOR))
        slope = (vectors * np.maximum(values, least)) @ vectors.T
        prior, pull = prior_by(self.root, self.place, mean, precision)
        step = _solved(slope + prior, self.score + pull)
        with np.errstate(over="ignore"):
            far = min(float(step @ step), LARGEST_SQUARE)
        noise = self.noise + self.slope_sd**2 * far * np.eye(len(step))
        gain = _solved(slope + noise, slope).T
        root = raised(gain @ slope + prior, SMALLEST_DIVISOR)
        mode = root @ (root.T @ (gain @ self.score + pull))
        return Normal(self.place + self.root @ mode, self.root @ root, self)


def judge(release: Variational, _: tuple[Floats, Floats] | None) -> Judged:
    """Return the verdict, from released numbers alone: free of privacy cost."""
    values, vectors = np.linalg.eigh(release.slope)
    safe = np.maximum(values, max(release.edge, SMALLEST_DIVISOR))
    step = (vectors.T @ release.score) / safe
    ratio = np.einsum("dk,de,ek->k", vectors, release.noise, vectors) / safe
    share = float(np.mean(ratio / (1.0 + ratio)))
    away = float(np.linalg.norm(step))
    width = math.sqrt((1.0 + float(np.mean(ratio))) / release.weight)
    if release.jump > 1.0 or away > min(MAX_LAST_STEP, math.sqrt(MAX_BEND * width)):
        sentence = "the last two rounds disagree, or were far apart: it has not converged"
        return Judged(False, share, sentence, "place")
    least = min(MAX_SLOPE_NOISE * float(np.median(values)), float(values[0]))
    if release.edge > least:
        sentence = "with this budget the noise hides the curvature"
        more = release.edge / least if least > 0.0 else None
        return Judged(False, share, sentence, "noise", more)
    if release.longest > 1.0:
        sentence = (
            "within the declared bounds gradients may be so long that they were clipped, which"
            " moves the draws where events are rare or residuals long"
        )
        return Judged(False, share, sentence, "method")
    if release.mean_slope < LEAST_SLOPE:
        sentence = "so rare an event, or one so common, is not found by these gradients"
        return Judged(False, share, sentence, "method")
    return Judged(True, share, "")


NUM_FAR, LEAST_FAR, MOST_FAR = 8, 2, 20
FAR = 0.3  # of mu^2, for all rounds but the last two
AROUND = 0.3  # of a round's, for the gradients around the mean
SAFE = 1.0 - 1e-9  # of mu^2: rounding of the multipliers is paid for
QUIET = 0.2  # noise of a score, in posterior sds, that does not matter: no clip below it
# In typical lengths of a row's gradient: at 2 clipping shifts rare responses unseen (coverage .65).
LEAST_CLIP, MOST_CLIP, WIDEST_CLIP = 4.0, 50.0, 1e6
CLEAR = 0.1  # noise of the slope, over it, that the distance around the mean aims at
LEAST_AROUND, MOST_AROUND = 3.0, 0.5  # that distance: in posterior sds; in sds of one row
MOST_STEP, MOST_MOVE = 1.5, 1.0  # length of a step, in sds of one row; or in units of positions
FLATTEST = 0.02  # least slope that one round stretches to 1
BLUNT, LOST = 1.4, 1.2  # noise over that of whole slopes; that of far slopes: see experiments
RATE, NARROWER = 0.7, 0.7  # of a natural-gradient step of the precision; of the first distance
LEAST_PART = 0.15  # of the guessed slope, that all rounds together do


@dataclass(frozen=True, slots=True)
class Opened:
    """Opened rows with the public facts that `publish` needs.

    precision: (d, d) that is guessed of the posterior. start: (d,) where the fit begins. family:
    none where it is not known. scaled: whether the last position is the log of a residual scale.
    box: bounds of the response (2,) and of covariates, (columns,) each; None where not known.
    """

    target: Gradients
    precision: Floats
    start: Floats
    family: str = ""
    scaled: bool = False
    box: tuple[Floats, tuple[float, ...], tuple[float, ...]] | None = None


def opened(design: Design, spec: JobSpec, table: Table) -> Opened:
    """Return the opened rows and public facts that `publish` reads."""
    model = MODELS[spec.model.family]
    form = model.form(design, spec)
    target = model.target(design, spec, table, 1)
    scaled = len(form.start) > len(design.parameters)
    return Opened(
        target,
        model.guess(design, spec).precision,
        form.start.copy(),
        spec.model.family,
        scaled,
        (form.public.response, design.lower, design.upper),
    )


def _most(rows: Opened, max_row_norm: float, weight: float, position: Floats) -> Floats | None:
    """Return upper bounds (d,) of the slope of all rows, by positions; None if not known.

    Twice what blocks of a linear model are: what is between them vanishes at the mode alone.
    """
    if rows.family == "logistic":
        return np.full(len(position), 0.25 * weight * max_row_norm**2)
    if rows.family != "linear":
        return None
    scale = math.exp(2.0 * float(position[-1])) if rows.scaled else 1.0
    most = np.full(len(position), 2.0 * weight * max_row_norm**2 / scale)
    most[len(position) - rows.scaled :] = 4.0 * weight
    return most


def event(options: DpViOptions, noise_multiplier: float, rows: int) -> Event:
    """Return one Gaussian event for each gradient. Proof: docs/proofs/dp_vi.md."""
    d = _directions(options)
    parts = [_multipliers(z, d) for z in _rounds(options, noise_multiplier)]
    return Compose(
        tuple(each for at, off in parts for each in (Gaussian(at), Repeat(Gaussian(off), 2 * d)))
    )


def _directions(options: DpViOptions) -> int:
    """Return the number of directions around the mean at which gradients are released."""
    if options.num_directions is None:
        raise ValueError("the number of directions must be known")
    return options.num_directions


def _rounds(options: DpViOptions, noise_multiplier: float) -> list[float]:
    """Return the noise multipliers of the rounds, the last two of them near the mode."""
    far = options.num_far or NUM_FAR
    shares = [FAR / far] * far + [0.5 * (1.0 - FAR)] * 2
    return [noise_multiplier / math.sqrt(SAFE * share) for share in shares]


def _multipliers(z: float, directions: int) -> tuple[float, float]:
    """Return a round's noise multipliers: of the gradient at the mean, and of each around it."""
    return z / math.sqrt(1.0 - AROUND), z * math.sqrt(2.0 * directions / AROUND)


def settle(options: DpViOptions, facts: Facts, noise_multiplier: float) -> DpViOptions:
    """Return the options with every field filled in but the numbers of draws. Raises SpecError."""
    d, rows = len(facts.prior), facts.assumptions.rows
    if rows >= MOST_ROWS or d > MOST_COEFFICIENTS:
        raise SpecError("/sampler/algorithm", "dp_vi is for fewer rows or coefficients")
    if options.num_directions not in (None, d):
        raise SpecError("/sampler/num_directions", f"must be {d}, one for each parameter")
    far = NUM_FAR if options.num_far is None else options.num_far
    if type(far) is not int or not LEAST_FAR <= far <= MOST_FAR:
        where = f"between {LEAST_FAR} and {MOST_FAR}"
        raise SpecError("/sampler/num_far", f"must be a whole number {where}")
    filled = replace(options, num_far=far, num_directions=d)
    clip = options.gradient_clip
    if clip is None:
        clip = min(
            max(QUIET / _noise_of_scores(filled, facts, noise_multiplier), LEAST_CLIP), MOST_CLIP
        )
    if not LEAST_CLIP <= clip <= WIDEST_CLIP:
        raise SpecError(
            "/sampler/gradient_clip", f"must be between {LEAST_CLIP:g} and {WIDEST_CLIP:g}"
        )
    return replace(filled, gradient_clip=clip)


def _noise_of_scores(options: DpViOptions, facts: Facts, noise_multiplier: float) -> float:
    """Return the noise of both last scores, in posterior sds, at a clip of one mean length."""
    z = _multipliers(_rounds(options, noise_multiplier)[-1], 1)[0] / math.sqrt(2.0)
    d, known = len(facts.prior), facts.assumptions
    return 2.0 * z * math.sqrt(d * known.tempering / known.rows)


def sd_inflation(options: DpViOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """Return the inflation (d,) of the sd by noise: expected sd of draws over the posterior's."""
    precision = facts.assumptions.guess.precision
    noise = _noise_of_scores(options, facts, noise_multiplier) * (options.gradient_clip or 1.0)
    extra = BLUNT * noise**2
    likelihood = (precision - np.diag(facts.prior)) / (1.0 + extra)
    wide = np.diag(np.linalg.inv(np.diag(facts.prior) + likelihood))
    ratio: Floats = np.sqrt(np.maximum(wide / np.diag(np.linalg.inv(precision)), 1.0))
    return ratio


def poor(options: DpViOptions, facts: Facts, noise_multiplier: float) -> bool:
    """Return whether slopes of far rounds are expected to stay below their noise."""
    d, known = len(facts.prior), facts.assumptions
    off = _multipliers(_rounds(options, noise_multiplier)[0], d)[1]
    each = 2.0 * off * (options.gradient_clip or 1.0) * math.sqrt(d) / known.rows
    return math.sqrt(2.0 * d) * each / (math.sqrt(2.0) * MOST_AROUND) > LOST


def publish(
    rows: Opened,
    max_row_norm: float,
    options: DpViOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Normal:
    """Return the posterior given the gradients. Privacy: event(options). Never raises on rows."""
    d = rows.target.position.shape[1]
    if _directions(options) != d:
        raise ValueError("the directions that are charged must be those that are looked along")
    fit = _Fit(rows, options, random)
    *far, first, last = _rounds(options, noise_multiplier)
    for z in far:
        fit.far(z)
    evaluations = []
    fit.settle()
    for z in (first, last):
        evaluations.append(fit.look(z))
        fit.move(evaluations[-1])
    most = _most(rows, max_row_norm, fit.weight, evaluations[-1].place)
    stored = pooled(evaluations[0], evaluations[1], fit.weight, most)
    stored = replace(
        stored,
        longest=fit.longest(max_row_norm),
        mean_slope=_mean_slope(rows, stored, max_row_norm),
    )
    return stored.posterior(*fit.prior, random)


def _mean_slope(rows: Opened, stored: Variational, max_row_norm: float) -> float:
    """Return the mean of p (1 - p) over rows of a logistic model, from the released slope.

    That of the intercept; without one, what there is at least.
    """
    if rows.family != "logistic":
        return 1.0
    back = np.linalg.inv(stored.root)
    slope = back.T @ stored.slope @ back / stored.weight
    if rows.box is not None and rows.box[1][0] == rows.box[2][0] == 1.0:
        return float(slope[0, 0])
    return float(np.trace(slope)) / max_row_norm**2


class _Fit:
    """The fit N(place, root root^T / weight), decided by released numbers alone."""

    def __init__(self, rows: Opened, options: DpViOptions, random: RandomSource) -> None:
        self._target, self._random = rows.target, random
        self._clip = options.gradient_clip or LEAST_CLIP
        self.weight = rows.target.rows * rows.target.tempering
        self.place, self._d = rows.start, len(rows.precision)
        self.prior = prior_of(rows.target, self._d)
        self._guess = rows.precision / self.weight
        self._root, self._wide = raised(self._guess, 0.0), MOST_MOVE
        self._opened, self._last_clip = rows, math.inf

    def longest(self, max_row_norm: float) -> float:
        """Return the longest possible row gradient here, over the clip of the last round.

        By declared bounds; 0 where they are not known.
        """
        rows = self._opened
        if rows.box is None:
            return 0.0
        (low, high), *ends = rows.box
        columns = len(ends[0])
        lowest, highest = np.sort(np.stack(ends) * self.place[:columns], axis=0).sum(axis=1)
        along = np.asarray(np.linalg.inv(self._back[:columns, :columns]), np.float64)
        box = np.array(ends[0]), np.array(ends[1])
        longest = min(max_row_norm * float(np.linalg.norm(along, 2)), across(along, box))
        if rows.family == "logistic":
            return float(longest * max(expit(highest), expit(-lowest)) / self._last_clip)
        scale = math.exp(-float(self.place[-1])) if rows.scaled else 1.0
        residual = max(high - lowest, highest - low) * scale
        of_scale = max(residual**2 - 1.0, 1.0) if rows.scaled else 0.0
        return math.hypot(longest * residual * scale, of_scale) / self._last_clip

    def far(self, z: float) -> None:
        """Release a round's gradients, step, and change to coordinates in which q is round."""
        evaluation = self.look(z)
        self.move(evaluation)
        edge = max(evaluation.edge / self.weight, FLATTEST)
        least = LEAST_PART * self._root.T @ self._guess @ self._root
        values = at_least(self._precision(evaluation) / self.weight, least)
        self._root, self._wide = self._root @ raised(values, edge), NARROWER * self._wide

    def settle(self) -> None:
        """Use, from now on, the smallest distance around the mean that noise allows."""
        self._wide = 0.0

    def look(self, z: float) -> Look:
        """Release the gradients of one round. Privacy: Gaussian(z)."""
        at, off = _multipliers(z, self._d)
        self._back, factor = self._target.use_coordinates(self._root / math.sqrt(self.weight))
        clip = self._clip * factor * float(np.linalg.norm(np.linalg.inv(self._root)))
        self._last_clip = clip
        loud = 2.0 * clip * self._target.tempering * self._back @ self._root
        score = self._released(self.place[None], clip, at)[0]
        slope_sd = off * float(np.linalg.norm(loud)) / math.sqrt(2.0 * self._d)
        away = math.sqrt(2.0 * self._d) * slope_sd / (CLEAR * self.weight)
        least = min(LEAST_AROUND / math.sqrt(self.weight), MOST_AROUND)
        away = min(max(away, least), MOST_AROUND)
        sizes = np.maximum(away, self._wide / np.linalg.norm(self._root, axis=0))
        moves = np.concatenate((np.diag(sizes), -np.diag(sizes))) @ self._root.T
        up, down = np.split(self._released(self.place + moves, clip, off), 2)
        slope = (down - up) / (2.0 * sizes[:, None])
        slope = 0.5 * (slope + slope.T)
        return Look(self.place, self._root, score, at * loud.T, slope, slope_sd / away)

    def _released(self, positions: Floats, clip: float, z: float) -> Floats:
        """Release scores (k, d) at positions (k, d), by the root. Privacy: Gaussian(z) for each.

        Proof: docs/proofs/gaussian_release.md, sections 1 and 2.
        """
        sums, sensitivity = self._target.gradient(positions, clip)
        noisy, _ = release_sums(self._random, VARIATIONAL_GRADIENT, [sums], sensitivity, z)
        return np.asarray(noisy @ self._back @ self._root)

    def _precision(self, evaluation: Look) -> Floats:
        """Return the precision of q after a step of length RATE, relative to before."""
        slope = shrunk(evaluation.slope, evaluation.slope_sd)[0]
        curvature = slope + self._root.T @ (self.prior[1][:, None] * self._root)
        return np.asarray(RATE * curvature + (1.0 - RATE) * self.weight * np.eye(self._d))

    def move(self, evaluation: Look) -> None:
        """Move the mean of q along its natural gradient."""
        mean, precision = self.prior
        gradient = evaluation.score + self._root.T @ (precision * (mean - self.place))
        values, vectors = np.linalg.eigh(self._precision(evaluation))
        values = np.maximum(values, max(evaluation.edge, FLATTEST * self.weight))
        step = vectors @ ((vectors.T @ gradient) / values)
        move = self._root @ step
        sizes = np.maximum((np.linalg.norm(step), np.linalg.norm(move)), 1e-300)
        part = max(MOST_STEP / sizes[0], 2.0 * self._wide / sizes[1])
        self.place = self.place + min(1.0, part) * move


def passes(options: DpViOptions, dimension: int) -> int:
    """Return the number of passes over the rows: one for each gradient."""
    return ((options.num_far or NUM_FAR) + 2) * (2 * (options.num_directions or dimension) + 1)


RELEASE = Release(
    "dp_vi",
    DpViOptions,
    families=frozenset({"logistic", "linear"}),
    exact=False,
    event=event,
    settle=settle,
    sd_inflation=sd_inflation,
    passes=passes,
    publish=publish,
    opened=opened,
    poor=poor,
    read=Variational.from_dict,
    judge=judge,
    automatic=False,
)
