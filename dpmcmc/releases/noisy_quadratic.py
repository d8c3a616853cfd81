"""A noisy quadratic log likelihood of a regression, and the posterior given it.

Released are a whitening of the covariates, and then scores, curvatures and scales at a few values
of the coefficients, the last two of them near the posterior mode (newton_path). The posterior
accounts for the noise of each (quadratic). A job costs mu = 1 / noise_multiplier, for any number of
draws.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families import MODELS
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.scores.base import (
    SEVERAL,
    TINY,
    Family,
    ScaleFamily,
    ShapedFamily,
    is_additive,
    is_apart,
    is_measured,
    is_skewed,
)
from dpmcmc.families.scores.given import (
    first_slope,
    heaviest_of,
    logs_of,
    most_of,
    packing,
    shift_of,
)
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.mechanisms.arrow_sums import MOST_CELLS
from dpmcmc.mechanisms.sums import MOST_COEFFICIENTS, MOST_ROWS, largest_noise
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import LEAST_MULTIPLIER
from dpmcmc.releases import (
    grouped,
    grouped_posterior,
    hurdles,
    newton_path,
    quadratic_steps,
    scales,
    shares,
    whitening,
)
from dpmcmc.releases import ordered as ordered_cuts
from dpmcmc.releases.base import Facts, Judgement, Release, columns_read, prior_by, prior_of
from dpmcmc.releases.categories import has_intercept
from dpmcmc.releases.design_rows import DesignRows, HeldRows, PassedRows, is_held
from dpmcmc.releases.grouped_posterior import Arrow, GroupedMixture
from dpmcmc.releases.quadratic import Mixture, Quadratic
from dpmcmc.releases.quadratic_steps import Iterate, weighted
from dpmcmc.releases.quadratic_verdict import (
    MAX_CURVATURE_NOISE,
    Normals,
    least_information,
    quieter,
    verdict,
)
from dpmcmc.releases.whitening import Whitening, beside

# The pooling of the near iterates of a Newton path, two or more, into one stored release.
ROWS = ("rows", "rows_sd")
# rows, below which a posterior is not narrower than all rows could make it; degrees of freedom, up
# to which a scale leaves coefficients without a variance
FEW_ROWS, LEAST_DEGREES = 100, 2
NOISE_SDS = 2.0  # of the noise of a curvature or a square, that is taken off what few rows say
CLEAR_SDS = 2.0  # of noise, by which counts are to vary more than the model's before it is said
# change of log odds between the near iterates in rows with a rare response, beyond which the first
# one's score is no line up to where the last one is
FAR_APART = 0.3
# the same, change of the log of a scale that is a parameter; and where residuals are skewed, whose
# scores bend more in it
SCALES_APART, SKEWED_APART = 0.2, 0.1


def pooled(
    iterates: Sequence[Iterate],
    white: Whitening,
    rows: int,
    tempering: float,
    noise_multiplier: float,
    *,
    additive: bool,
    has_scale: bool,
    fixed: bool,
    log_scale: bool = False,
    skewed: bool = False,
    apart: bool = False,
    heaviest: float = 1.0,
    indicators: Floats | None = None,
    log_shift: float | None = None,
    by_counts: bool = False,
    several_rows: bool = False,
    most: Floats | float | None = None,
    odds: bool = False,
    ordered: bool = False,
    hurdle: bool = False,
    of_model: bool = False,
    prior: Normals | None = None,
) -> Quadratic:
    """Return the quadratic of iterates in the same coordinates, pooled by inverse noise variance.

    Of more than two iterates all but the last are stored as one look, pooled. additive: whether the
    scale is an sd in units of the predictor: what an iterate assumed it to be then divides all of
    that iterate, so that all are brought to the pooled scale. log_scale: whether the last
    coefficient is the log of a scale; skewed: whether it hangs together with the others; apart:
    whether it is no unit of predictors. most: largest curvature of all rows in any direction, or
    (p,) of each coefficient, for a scale of 1. prior: of the job, where it has a part in where the
    posterior lies, and so in how far that is from the places; None where rows alone decide.
    """
    scale = _scale(iterates, fixed=fixed)
    units = np.array([(iterate.scale / scale) ** 2 if additive else 1.0 for iterate in iterates])
    squares = units**2 if of_model else units  # of scores, or what the model has for these
    stack, ones = _stacked(iterates, units, squares), np.ones(len(iterates))
    used = ones
    if ordered:
        last = iterates[-1].place
        steps = [(iterate.place - last)[None] for iterate in iterates]
        used = np.array([ordered_cuts.changes(last, white, step) <= FAR_APART for step in steps])
        used = used * 1.0
    if odds:
        d = len(white.root)
        used = np.array([not _far_apart(i, iterates[-1], rows, d, d * hurdle) for i in iterates])
    if log_scale:
        far = SKEWED_APART if skewed or apart else SCALES_APART
        used = (np.abs(stack.places[:, -1] - stack.places[-1, -1]) <= far) * 1.0
    by_score, by_curve = _weights(stack.score_sds, used), _weights(stack.curve_sds, used)
    left_sd = unseen_sd = 0.0
    if of_model:
        unit = math.exp(iterates[-1].place[-1]) if log_scale and not apart else 1.0
        own_white = beside(white, unit) if log_scale else white
        moves = None if additive else _units(iterates[-1], own_white, ordered=ordered)
        by_score, left_sd, unseen_sd = _with_bias(iterates, stack, by_curve, used, prior, moves)
    measured = iterates[-1].place if log_scale and not apart else None
    counts, rows_sds = (
        np.array([getattr(iterate.sums, part) for iterate in iterates]) for part in ROWS
    )
    gaps = bool(rows_sds.all())
    scaled = has_scale and additive and not fixed
    # all looks but the last as one; where none of them counts, that before the last
    first = by_score[:-1] if by_score[:-1].any() else np.eye(len(iterates) - 1)[-1]
    as_two = np.zeros((2, len(iterates)))
    as_two[0, :-1], as_two[1, -1] = first / first.sum(), 1.0
    near = [_joined_scale(iterates[:-1], as_two[0, :-1]), iterates[-1]] if scaled else []
    dispersion = 1.0
    if hurdle:
        noise_weights = _weights(np.array([iterate.sums.sds[2] for iterate in iterates]), ones)
        dispersion = hurdles.dispersion(iterates, noise_weights, white)
    elif has_scale and not additive:
        dispersion = _dispersion(iterates, of_model=of_model)
    return Quadratic(
        place=by_score @ stack.places,
        root=iterates[-1].root,
        score=by_score @ stack.scores,
        score_sd=float(np.linalg.norm(by_score * stack.score_sds)),
        curvature=np.tensordot(by_curve, stack.curves, 1),
        curvature_sd=float(np.linalg.norm(by_curve * stack.curve_sds)),
        noise=np.tensordot(by_curve, stack.noises, 1),
        noise_sd=float(np.linalg.norm(by_curve * stack.noise_sds)),
        whitening=white.root,
        whitening_known=white.known,
        whitening_sd=white.sd,
        whitening_held=white.held,
        places=as_two @ stack.places,
        scores=as_two @ stack.scores,
        score_sds=np.sqrt(as_two**2 @ stack.score_sds**2),
        scales=np.array([iterate.scale for iterate in near]),
        taus=np.array([iterate.tau for iterate in near]),
        tau_sds=np.array([iterate.tau_sd for iterate in near]),
        cuts=np.array([iterate.cut for iterate in near]),
        scaled=scaled,
        log_scale=log_scale,
        skewed=skewed,
        apart=apart,
        dispersion=dispersion,
        clip=min(
            iterate.clip / (1.0 if additive or of_model else max(iterate.scale, 1.0))
            for iterate in iterates
        ),
        rows=round(float(_weights(rows_sds, ones) @ counts)) if gaps else rows,
        gaps=gaps,
        tempering=tempering,
        noise_multiplier=noise_multiplier,
        heaviest=heaviest,
        indicators=indicators,
        log_shift=log_shift,
        by_counts=by_counts,
        several_rows=several_rows,
        spreads=_spreads(iterates),
        first_place=iterates[0].place if len(iterates) > 2 else None,
        odds=odds,
        ordered=ordered,
        hurdle=hurdle,
        most=_most(most, scale if additive else 1.0, measured),
        robust=not of_model,
        by_columns=of_model,
        left_sd=left_sd,
        unseen_sd=unseen_sd,
        square_spread=iterates[-1].square_spread if scaled else 0.0,
        tail_sd=near[-1].tail_sd * (near[-1].scale * near[-1].tau / scale) ** 2 if scaled else 0.0,
    )


@dataclass(frozen=True, slots=True)
class _Stack:
    """What k iterates released, side by side, times units (k,). places: (k, p)."""

    units: Floats
    places: Floats
    scores: Floats
    score_sds: Floats
    curves: Floats
    curve_sds: Floats
    noises: Floats
    noise_sds: Floats


def _stacked(iterates: Sequence[Iterate], units: Floats, squares: Floats) -> _Stack:
    """Return iterates side by side. squares: (k,), units of the variances of scores."""
    score_sds, curve_sds, noise_sds = (
        unit * np.array([iterate.sums.sds[k] for iterate in iterates])
        for k, unit in enumerate((units, units, squares))
    )
    places, scores, curves, noises = (
        np.array([np.asarray(part) * unit for part, unit in zip(parts, unit_of_each, strict=True)])
        for parts, unit_of_each in (
            ([iterate.place for iterate in iterates], np.ones(len(iterates))),
            ([iterate.sums.score for iterate in iterates], units),
            ([iterate.sums.curvature for iterate in iterates], units),
            ([iterate.sums.noise for iterate in iterates], squares),
        )
    )
    return _Stack(units, places, scores, score_sds, curves, curve_sds, noises, noise_sds)


def _with_bias(
    iterates: Sequence[Iterate],
    stack: _Stack,
    by_curve: Floats,
    used: Floats,
    prior: Normals | None,
    moves: Floats | None,
) -> tuple[Floats, float, float]:
    """Return weights of scores (k,), and sds of what clips left out and of what they may have.

    A score counts less the farther the mode is from its place: by the noise of the curvature, by
    what clips cut off it, and by how much it bends. moves: see `_bent`; None where no score does.
    by_curve: (k,), weights of curvatures. used: see `_weights`.
    """
    curve = np.tensordot(by_curve, stack.curves, 1)
    curve_sd = np.linalg.norm(by_curve * stack.curve_sds)
    lifted = _raised_to_noise(curve, float(curve_sd))
    away = _away(iterates, stack.scores[-1], lifted, prior)
    cut = stack.units * [iterate.sums.rows * iterate.cut_curve for iterate in iterates]
    lost = np.linalg.norm(away, axis=1) * np.hypot(curve_sd * 0.5**0.5, cut / len(curve) ** 0.5)
    bent = 0.0 * used if moves is None else _bent(lifted, away, iterates[-1].root, moves)
    by_score = _weights(np.hypot(stack.score_sds, np.hypot(lost, bent)), used)
    left = stack.units * [iterate.sums.rows * iterate.left for iterate in iterates]
    unseen = stack.units * [iterate.sums.rows * iterate.unseen for iterate in iterates]
    hidden = float(np.linalg.norm(by_score @ (cut[:, None] * away))) / len(curve) ** 0.5
    left_sd = math.hypot(float(by_score @ left), hidden, float(by_score @ bent))
    return by_score, left_sd, float(by_score @ unseen)


def _most(most: Floats | float | None, scale: float, place: Floats | None) -> Floats | float | None:
    """Return the largest curvature at this scale. place: holds the log scale last, if estimated."""
    if most is None or place is None:
        return None if most is None else most / scale**2
    each = np.full(len(place), most) * math.exp(-2.0 * place[-1])
    each[-1] = np.asarray(most).reshape(-1)[-1]
    return each


def _raised_to_noise(curve: Floats, curve_sd: float) -> Floats:
    """Return a curvature (p, p) with eigenvalues raised to those of its noise alone."""
    values, vectors = np.linalg.eigh(curve)
    safe = np.maximum(values, largest_noise(len(values), curve_sd))
    return np.asarray((vectors * safe) @ vectors.T)


def _joined_scale(iterates: Sequence[Iterate], weights: Floats) -> Iterate:
    """Return the first iterate with the residual scale pooled over all of them.

    weights: (k,), of their places. A mean square at one place is the squared scale plus the squared
    distance from there to the mean: what distances from the joint place add on average is taken
    off. Nothing else of the iterate is joined.
    """
    last = iterates[-1]
    if len(iterates) == 1:
        return last
    scale, tau, tau_sd = (
        np.array([getattr(iterate, name) for iterate in iterates])
        for name in ("scale", "tau", "tau_sd")
    )
    squares, by_noise = (scale * tau) ** 2, scales.weights(scale, tau, tau_sd)
    places = np.array([iterate.place for iterate in iterates])
    off = np.linalg.solve(last.root, (places - weights @ places).T)
    curve = last.sums.curvature / last.sums.rows * last.scale**2
    apart = np.maximum(np.einsum("pk,pq,qk->k", off, curve, off), 0.0)
    square = max(float(by_noise @ (squares - apart)), scales.LEAST_MEAN * float(squares.min()))
    noise = float(np.linalg.norm(by_noise * tau_sd * squares))
    return replace(last, tau=math.sqrt(square) / last.scale, tau_sd=noise / square)


def _away(
    iterates: Sequence[Iterate], score: Floats, curve: Floats, prior: Normals | None
) -> Floats:
    """Return (k, p), the distance from each expansion point to the mode by the last score.

    curve: (p, p), positive.
    """
    last, p = iterates[-1], len(score)
    if prior is not None:  # where it rules the likelihood's own mode is far, and does not matter
        mean, precision = (part[:p] for part in prior)
        held, pull = prior_by(last.root, last.place, mean, precision)
        curve, score = curve + held, score + pull
    step = np.linalg.solve(curve, score)
    places = np.array([iterate.place for iterate in iterates])
    return np.asarray(step + np.linalg.solve(last.root, (last.place - places).T).T)


def _units(last: Iterate, white: Whitening, *, ordered: bool) -> Floats:
    """Return (p, p) moves of coefficients that change predictors by about 1.

    Of ordered categories they change the log of the gap of the rarest one by no more than that.
    """
    if not ordered:
        moves = np.kron(np.eye(len(last.root) // len(white.root)), white.root)
        return np.asarray(moves, np.float64)
    rarest = float(ordered_cuts.shares(last.place, white).min())
    return np.asarray(ordered_cuts.coordinates(last.place, white) * math.sqrt(rarest))


def _bent(curve: Floats, away: Floats, root: Floats, moves: Floats) -> Floats:
    """Return (k,) the relative error of linearising the score over distances (k, p).

    It is half of the change of the log of rows' slopes, which is about that of their predictors.
    moves: (p, p), that change these by about 1.
    """
    sizes = np.linalg.solve(root, moves)
    slopes = max(float(np.trace(sizes.T @ curve @ sizes)) / len(root), TINY)
    forces = away @ curve
    squares = np.maximum(np.einsum("kp,kp->k", forces, away), 0.0)
    bent = 0.5 * np.sqrt(squares / slopes) * np.linalg.norm(forces, axis=1) / len(root) ** 0.5
    return np.asarray(bent)


def _far_apart(iterate: Iterate, last: Iterate, rows: int, size: int, first: int = 0) -> bool:
    """Return whether rows with a rare response differ between the two expansion points.

    first: of coefficients, from which on they are of log odds.
    """
    back = np.linalg.inv(last.root)
    step = (last.place - iterate.place)[first:].reshape(1, -1, size)
    counted = rows * weighted(last.sums.curvature, last.sums.noise)
    curve = (back.T @ last.sums.curvature @ back)[first:, first:]
    return shares.changes(curve, counted, step) > FAR_APART


def _spreads(iterates: Sequence[Iterate]) -> Floats | None:
    """Return (2, p, p) covariances over which slopes are averaged, where scores depend on them.

    They are those of the first look and of the last.
    """
    first, last = (iterates[k].spread for k in (0, -1))
    return None if first is None or last is None else np.stack((first, last))


def _scale(iterates: Sequence[Iterate], *, fixed: bool) -> float:
    """Return the residual scale, pooled over iterates by inverse noise variance."""
    if fixed or not iterates[-1].tau_sd:
        return iterates[-1].scale * (1.0 if fixed else iterates[-1].tau)
    scale, tau, tau_sd = (
        np.array([getattr(iterate, name) for iterate in iterates])
        for name in ("scale", "tau", "tau_sd")
    )
    return math.sqrt(float(scales.weights(scale, tau, tau_sd) @ (scale * tau) ** 2))


def _dispersion(iterates: Sequence[Iterate], *, of_model: bool) -> float:
    """Return the dispersion: residual sd over that of the model's counts.

    Of the model's own answer it follows from the variance of scores. Where noise hides that it is
    the one by clipped squares on the way to the mode.
    """
    first, last = iterates[0], iterates[-1]
    if not of_model:
        return last.scale * last.tau
    sds = np.array([iterate.sums.sds[2] for iterate in iterates])
    weights = _weights(sds, np.ones(len(iterates)))
    noise, curve = (
        float(weights @ [np.trace(getattr(iterate.sums, part)) for iterate in iterates])
        for part in ("noise", "curvature")
    )
    sd = float(np.linalg.norm(weights * sds))
    clear = noise - CLEAR_SDS * sd * len(first.root) ** 0.5 > max(curve, 0.0)
    return math.sqrt(noise / curve) if clear and curve > TINY else first.scale


def _weights(sds: Floats, used: Floats) -> Floats:
    """Return inverse-variance weights. used: 0 excludes an iterate, 1 includes it."""
    inverse = used * sds**-2.0
    return np.asarray(inverse / inverse.sum())


# what a job answers that does not say: the model as it is written, as a fit without privacy does.
# Robust results that call themselves reliable are often off on real data (experiments/asked.py)
DEFAULT_ESTIMAND: Literal["model", "robust"] = "model"
# more with a pilot, and where several predictors have to move far; and where that is with a scale
NUM_FAR, MORE_FAR, MOST_USUAL_FAR = 4, 6, 8
# n mu^2 for each coefficient, from which their noise is next to nothing; for predictors far from 0
AND_MORE, GENEROUS = 4, 1e5
LEAST_FAR, MOST_FAR = 3, 12
# priors that the path has of its own, around where it starts: the response's declared range, and
# farther than predictors go
LARGEST_PREDICTOR = 50.0
# of the score's share, where noise decides how rows are cut: see experiments
CLIPPED_SCORE_EFFICIENCY = 0.45
# the same where scores are bounded and clips hardly follow the rows, as real responses have it
BOUNDED_SCORE_EFFICIENCY = 0.6
MODEL_SCORE = 0.9  # the same of the model's own answer, which weights no row down
# clip of the model's own scores, with all that it leaves out, where responses follow the model: the
# least, and that times the root of the noise of a clip of 1
EXPECTED_CLIP, CLIP_BY_NOISE = 2.2, 1.6
# the same by the link of the family, where they are as real ones (experiments/asked.py)
REAL_CLIPS = {
    "identity": (6.0, 2.5),
    "logit": (5.0, 1.5),
    "log": (10.0, 3.0),
    "softmax": (5.0, 1.5),
    "cumulative": (5.0, 1.5),
    "hurdle": (10.0, 3.0),
}
# the same of sums over persons, whose clips follow the noise alone (experiments/persons.py)
PERSONS_CLIPS = {
    "identity": (0.0, 2.4),
    "logit": (0.0, 1.8),
    "log": (0.0, 4.2),
    "softmax": (0.0, 2.0),
    "cumulative": (0.0, 2.0),
    "hurdle": (0.0, 4.2),
}
# n mu^2 for each coefficient over the least, from which on nine of ten such results are reliable
PLANNED_INFORMATION = {
    "identity": 1.6,
    "logit": 2.0,
    "log": 5.0,
    "softmax": 6.6,
    "cumulative": 3.0,
    "hurdle": 10.0,
}
# where a scale hangs together with the intercept, as of Weibull times (experiments/glms.py)
PLANNED_TIMES = 9.0
NOISE_OF_GROUPED = 1.3  # over that of the same rows without groups: scores are longer by cells
LESS_OF_PERSONS = 1.5  # of what rows ask for, sums over persons ask for that much less
# where the sd is in proportion to the mean: few responses far above it may move the answer
PLANNED_PROPORTIONAL = 200.0
# and residuals of real counts over those of Poisson ones
USUAL_DISPERSION = 2.2

# of a job that goes on until its result is reliable; and the planner's own choice of them
MOST_ROUNDS, ANY_ROUNDS = 5, 0

# of all models with rows for it, whatever their options
FAMILIES = {
    name: family
    for name, model in MODELS.items()
    if (family := model.rows(ModelOptions())) is not None
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Opened rows and public facts of a regression.

    data: covariates and responses. classes: number of predictors of a row. white:
    released coordinates of these columns, where the job is to use some again. indicators: (d,)
    columns that are declared to hold 0 and 1 alone; none where None. largest_slope: information
    that one row can have about its predictors, in units of the residual precision where there is
    one; None where that is not known. may_stop: whether a hopeless path ends early. ends: declared
    bounds of the response, in the units of y; None where they are not known. box: the same (d,) of
    covariates. groups: of a model that has some. smooths: as Quadratic has them.
    """

    family: Family
    data: DesignRows
    start: Floats
    prior_mean: Floats
    prior: Floats
    tempering: float
    fixed: bool
    classes: int = 1
    white: Whitening | None = None
    indicators: NDArray[np.bool_] | None = None
    largest_slope: float | tuple[float, float] | None = None
    may_stop: bool = False
    unit_rows: int = 1
    intercept: bool = False
    ends: tuple[float, float] | None = None
    box: tuple[Floats, Floats] | None = None
    groups: grouped.Groups | None = None
    smooths: tuple[Floats, Floats] | None = None


def family_of(model: ModelSpec) -> Family:
    """Return a model's family of scores. Raises SpecError where noisy_quadratic has none."""
    family = MODELS[model.family].rows(model.options)
    if family is None:
        raise SpecError("/model/family", f"noisy_quadratic does not release {model.family}")
    return family


def opened(design: Design, spec: JobSpec, source: AnyRows) -> Rows:
    """Return the opened rows that `publish` reads. Nothing is compiled for it."""
    family, form = family_of(spec.model), MODELS[spec.model.family].form(design, spec)
    unit_rows = design.schema.unit_rows
    unit = MODELS[spec.model.family].unit(design, spec.model)
    family, responses = packing(family, design, spec.model, unit)

    def build(table: Table) -> HeldRows:
        """Return the rows of a table, as covariates and responses."""
        x, y = design.build(table)
        counted = np.where(np.isnan(y), 0.0, 1.0) if design.gappy else None
        cells = None if design.grouping is None else design.grouping.codes(table)
        y = np.nan_to_num(y) if design.gaps else y
        return HeldRows(x, responses(table, y), counted, cells)

    names, width = columns_read(design, spec.model), len(design.parameters)
    data: DesignRows
    if is_held(source.rows, width, in_memory=isinstance(source, Table)):
        data = build(source.whole(names))
    else:
        data = PassedRows(source, names, build, width, bool(design.gappy))
    start = np.zeros(len(form.start))
    if family.link == "cumulative":
        start = form.start.copy()
    elif INTERCEPT in design.parameters:
        ends = form.public.response
        ends = logs_of(family, np.asarray(ends)) if family.link in ("log", "hurdle") else ends
        middle = 0.0 if family.link == "logit" else float(np.mean(ends))
        start[design.parameters.index(INTERCEPT)] = middle - design.middle_offset / unit
    tempering = spec.model.tempering or 1.0
    fixed, prior = spec.model.options.noise_scale is not None, prior_of(form, len(start))
    arguments = family, data, start, *prior, tempering, fixed, form.classes
    largest = _largest_slope(family, form.classes, float(form.public.response[1]))
    stop = spec.spend != "all"
    return Rows(
        *arguments,
        indicators=design.indicators,
        largest_slope=largest,
        may_stop=stop,
        unit_rows=unit_rows,
        intercept=design.parameters[0] == INTERCEPT,
        ends=(float(form.public.response[0]), float(form.public.response[1])),
        box=(np.array(design.lower), np.array(design.upper)),
        groups=_groups(design, spec, unit),
        smooths=_smooths(design, spec, unit, len(start)),
    )


def _smooths(design: Design, spec: JobSpec, unit: float, size: int) -> tuple[Floats, Floats] | None:
    """Return what is stored of smooths, or None. size: unit of a position.

    unit: of positions.
    """
    if not design.smooths:
        return None
    family = MODELS[spec.model.family].rows(spec.model.options)
    p = len(design.parameters) if family is None or not family.log_scale else size
    columns = np.zeros((2, p))
    for k, smooth in enumerate(design.smooths):
        columns[0, list(smooth.penalised)], columns[1, list(smooth.penalised)] = k + 1, smooth.sizes
    sds = MODELS[spec.model.family].prior(design, spec.model)[1][-len(design.smooths) :]
    return columns, np.stack((sds / unit, np.zeros(len(sds))))


def _groups(design: Design, spec: JobSpec, unit: float) -> grouped.Groups | None:
    """Return the groups of a model, or None. unit: of positions."""
    if design.grouping is None:
        return None
    groups, sds = design.grouping, MODELS[spec.model.family].prior(design, spec.model)[1]
    scales = tuple((sds[-len(groups.sds) :] / unit).tolist())
    return grouped.Groups(groups.count, scales, design.slope, groups.related, groups.within)


def _largest_slope(family: Family, classes: int, most: float) -> float | tuple[float, float] | None:
    """Return the largest information of one row about its predictors. most: largest response.

    A second number is about the log of its scale, where that is apart, or about the log odds of a
    zero. Fitted counts add up to no more than the counts do. None of ordered categories, whose cuts
    may be as close together as they like.
    """
    heaviest = most_of(family)
    if family.link == "cumulative":
        return None
    if is_apart(family):
        of_predictor, of_scale = cast("ShapedFamily", family).largest_information(most)
        return heaviest * of_predictor, heaviest * of_scale
    if family.log_scale:
        return heaviest * cast("ScaleFamily", family).sharpest
    if family.link == "identity":
        return heaviest
    if family.link == "hurdle":
        return heaviest * (most + 0.5), heaviest * 0.25
    if family.link == "log":  # where the score is 0, slopes y / mu add up to the rows
        return heaviest * (1.0 if family.variance.proportional else most + 0.5)
    return heaviest * (0.25 if classes == 1 else 0.5)


def event(options: NoisyQuadraticOptions, noise_multiplier: float, rows: int) -> Event:
    """Return the event of all iterates and the whitening. Proof: docs/proofs/noisy_quadratic.md."""
    num_far, of_model = options.num_far or NUM_FAR, options.estimand == "model"
    steps, z = options.num_joint, noise_multiplier
    first = z if steps is None else grouped.multipliers(z, steps)[0]
    path = newton_path.event(
        first, num_far, paid=options.paid, of_model=of_model, rounds=options.rounds or 1
    )
    return path if steps is None else grouped.event(z, path, steps)


def usual_far(family: str, *, known_scale: bool = False) -> int:
    """Return a family's default number of far iterates."""
    known = FAMILIES[family]
    several = known.link in ("log", *SEVERAL) or known.log_scale
    trials = known.link == "logit" and known.has_scale
    if is_skewed(known) or (is_apart(known) and not known_scale):
        return MOST_USUAL_FAR
    return MORE_FAR if several or trials else NUM_FAR


def settle(
    options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float
) -> NoisyQuadraticOptions:
    """Return the options with every field filled in but the numbers of draws. Raises SpecError."""
    num_far, estimand = options.num_far, options.estimand or DEFAULT_ESTIMAND
    options = replace(options, estimand=estimand)
    options = replace(options, num_joint=_joint_steps(options, facts, noise_multiplier))
    options = replace(options, rounds=_rounds(options, facts, noise_multiplier))
    first = newton_path.round_multipliers(noise_multiplier, options.rounds or 1)[0]
    if num_far is None:
        each = _by_units(facts).rows / first**2 / len(facts.prior)
        usual = usual_far(facts.family, known_scale=facts.known_scale)
        num_far = usual + (AND_MORE if each > GENEROUS else 0)
    if type(num_far) is not int or not LEAST_FAR <= num_far <= MOST_FAR:
        raise SpecError(
            "/sampler/num_far", f"must be a whole number between {LEAST_FAR} and {MOST_FAR}"
        )
    if FAMILIES[facts.family].variance.proportional and estimand == "robust":
        message = (
            f"must be model for {facts.family}: a robust fit is of no mean of skewed responses"
        )
        raise SpecError("/sampler/estimand", message)
    if is_apart(FAMILIES[facts.family]) and not facts.known_scale and estimand == "robust":
        message = f"must be model for {facts.family} whose scale is estimated"
        raise SpecError("/sampler/estimand", message)
    if is_measured(FAMILIES[facts.family]) and estimand == "robust":
        message = f"must be model for {facts.family}, which is a robust regression by itself"
        raise SpecError("/sampler/estimand", message)
    if FAMILIES[facts.family].link == "hurdle" and estimand == "robust":
        message = f"must be model for {facts.family}: weighted rows have other shares of zeros"
        raise SpecError("/sampler/estimand", message)
    if FAMILIES[facts.family].link == "cumulative" and estimand == "robust":
        message = f"must be model for {facts.family}: its cuts are not those of weighted rows"
        raise SpecError("/sampler/estimand", message)
    if facts.unit_rows > 1 and estimand == "robust":
        message = "must be model where a person has several rows: a robust fit is of single rows"
        raise SpecError("/sampler/estimand", message)
    if facts.assumptions.rows >= MOST_ROWS or len(facts.prior) > MOST_COEFFICIENTS:
        raise SpecError("/sampler/algorithm", "noisy_quadratic is for fewer rows or coefficients")
    return replace(options, num_far=num_far)


def _joint_steps(
    options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float
) -> int | None:
    """Return the number of joint steps before the last; None without groups.

    Raises SpecError on what models with groups cannot have.
    """
    steps, field = options.num_joint, "/sampler/num_joint"
    if not facts.groups:
        if steps is not None:
            raise SpecError(field, "is of models with groups, such as (1 | ward): leave it out")
        return None
    if options.rounds is not None:
        message = "a model with groups is released at once: give epsilon as a number"
        raise SpecError("/privacy/epsilon", message)
    if options.paid:
        message = "a model with groups pays for a whitening of its own: leave it out"
        raise SpecError("/sampler/whitening", message)
    if options.estimand == "robust":
        raise SpecError("/sampler/estimand", "must be model for a model with groups")
    if facts.unit_rows > 1:
        message = "must be 1 for a model with groups, which takes rows as independent"
        raise SpecError("/privacy/max_rows", message)
    effects = facts.groups * facts.effects
    if effects > MOST_CELLS:
        message = f"{effects} effects of groups; at most {MOST_CELLS} are released: take fewer"
        raise SpecError("/model/formula", message)
    if steps is None:
        cells = effects + len(facts.prior)
        steps = grouped.usual_steps(cells, facts.assumptions.rows, noise_multiplier)
    if type(steps) is not int or not 1 <= steps <= grouped.MOST_STEPS:
        raise SpecError(field, f"must be a whole number between 1 and {grouped.MOST_STEPS}")
    return steps


def _rounds(options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float) -> int | None:
    """Return the number of rounds, or None. Raises SpecError where it is out of range.

    Where it is left to the planner it is the largest number whose first round has a budget with
    which a reliable result may be expected, by public facts.
    """
    rounds = options.rounds
    if rounds is None or 1 <= rounds <= MOST_ROUNDS:
        return rounds
    if rounds != ANY_ROUNDS:
        message = f"must be a whole number between 1 and {MOST_ROUNDS}"
        raise SpecError("/sampler/rounds", message)
    alone = replace(options, rounds=1)
    for count in range(MOST_ROUNDS, 1, -1):
        first = newton_path.round_multipliers(noise_multiplier, count)[0]
        if not _hidden(alone, facts, first):
            return count
    return 1


def _by_units(facts: Facts) -> Assumptions:
    """Return the assumptions with units in place of rows."""
    return replace(facts.assumptions, rows=facts.assumptions.rows // facts.unit_rows)


def sd_inflation(options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """Return the inflation (d,) of the sd by noise: expected sd of draws over the posterior's.

    In coordinates in which the rows have second moments 1 the noise of the score is the same in all
    directions. The score of a row is clipped to norm c sqrt(p), c as on the Newton path.
    """
    assumptions = _by_units(facts)
    p, rows = len(facts.prior), assumptions.rows * assumptions.tempering
    near = _near(options, noise_multiplier)
    bounded = assumptions.guess.longest
    efficiency = BOUNDED_SCORE_EFFICIENCY if bounded else CLIPPED_SCORE_EFFICIENCY
    each = 2.0 * math.sqrt(p / (assumptions.rows * efficiency)) * near
    clip = max(newton_path.NEGLIGIBLE_NOISE / each, newton_path.FIRST_CLIP)
    if bounded:
        clip = max(newton_path.FIRST_CLIP, bounded)
    elif options.estimand == "model":
        clip = max(clip, EXPECTED_CLIP, CLIP_BY_NOISE / math.sqrt(each))
    clip = min(clip, newton_path.WIDEST_CLIP)
    extra = (clip * each) ** 2 * assumptions.tempering
    precision = assumptions.guess.precision
    rows_own = precision - np.diag(facts.prior)
    blur = _blur(near, p, rows)
    likelihood = rows_own / (1.0 + extra) * max(0.0, 1.0 - blur) ** 2
    wide = np.diag(np.linalg.inv(np.diag(facts.prior) + likelihood))
    ratio: Floats = np.sqrt(np.maximum(wide / np.diag(np.linalg.inv(precision)), 1.0))
    return ratio


def misfit(
    options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float
) -> tuple[float, float]:
    """Return the inflation of the sd where responses deviate from the model as real ones do."""
    if options.estimand != "model" or facts.assumptions.guess.longest:
        return 1.0, 1.0  # bounded scores are planned by real responses as they are
    near = _near(options, noise_multiplier)
    each = 2.0 * math.sqrt(len(facts.prior) / (_by_units(facts).rows * MODEL_SCORE)) * near
    each *= NOISE_OF_GROUPED if facts.groups else 1.0
    clips = PERSONS_CLIPS if facts.unit_rows > 1 else REAL_CLIPS
    least, by_noise = clips[FAMILIES[facts.family].link]
    wide = math.hypot(1.0, max(least, by_noise / math.sqrt(each)) * each)
    usual = float(np.median(sd_inflation(options, facts, noise_multiplier)))
    return max(wide / usual, 1.0), USUAL_DISPERSION if facts.family == "poisson" else 1.0


def poor(options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float) -> bool:
    """Return whether fewer than nine in ten jobs are expected to be reliable."""
    of_model = options.estimand == "model"
    real = of_model and not facts.assumptions.guess.longest
    family = FAMILIES[facts.family]
    more = PLANNED_INFORMATION[family.link]
    if family.variance.proportional:
        more = PLANNED_PROPORTIONAL
    elif is_measured(family) and is_skewed(family):
        more = PLANNED_TIMES
    more = more if real else 1.0
    if facts.unit_rows > 1:
        more = max(more / LESS_OF_PERSONS, 1.0)
    if facts.groups:
        link, rows = FAMILIES[facts.family].link, facts.assumptions.rows
        each, outer = facts.effects, facts.outer_groups
        if grouped.hidden(facts.groups, rows, noise_multiplier, link, each, outer):
            return True
    return _hidden(options, facts, noise_multiplier, more)


def _hidden(
    options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float, more: float = 1.0
) -> bool:
    """Return whether rows or budget are too few for a reliable verdict.

    more: times the least that there has to be.
    """
    p, rows = len(facts.prior), _by_units(facts).rows
    least = more * least_information(of_model=options.estimand == "model")
    few = rows / noise_multiplier**2 < least * p
    return few or _blur(_near(options, noise_multiplier), p, rows) > MAX_CURVATURE_NOISE


def _near(options: NoisyQuadraticOptions, noise_multiplier: float) -> float:
    """Return the noise multiplier of all near iterates together."""
    of_model = options.estimand == "model"
    if options.num_joint is not None:
        return grouped.multipliers(noise_multiplier, options.num_joint)[2]
    parts = newton_path.shares(options.num_far or NUM_FAR, options.paid, of_model=of_model)
    first, *more = newton_path.round_multipliers(1.0, options.rounds or 1)
    looks = [first / math.sqrt(part) for part in parts[-2:]]
    looks += [look for z in more for look in newton_path.look_multipliers(z, of_model)[-2:]]
    return noise_multiplier / math.hypot(*(1.0 / look for look in looks))


def blurred(noise_multiplier: float, d: int, rows: int) -> float:
    """Return the whitening's noise relative to the moments, in whitened coordinates."""
    z = noise_multiplier * math.sqrt(whitening.ITERATIONS / newton_path.WHITENING_SHARE)
    return math.sqrt(2.0) * whitening.CUT_RATIO * d * z / rows * math.sqrt(2.0 * d)


def _blur(z: float, p: int, rows: float) -> float:
    """Return the last curvature's noise relative to it, in whitened coordinates."""
    return (
        math.sqrt(2.0 / newton_path.MOST_CURVE)
        * quadratic_steps.MIN_WEIGHT_CUT
        * p
        * z
        / rows
        * math.sqrt(2.0 * p)
    )


def released(
    rows: Rows,
    max_row_norm: float,
    options: NoisyQuadraticOptions,
    z: float,
    random: RandomSource,
    white: Whitening | None = None,
) -> Quadratic:
    """Return the stored release. Privacy: event(options). Never raises on rows.

    white: coordinates of the same columns that were paid for before: all of the event is then spent
    on the iterates.
    """
    problem = _problem(rows, max_row_norm, options, z, white)

    def hopeless(white: Whitening, iterates: tuple[Iterate, Iterate]) -> str:
        """Return why the path is hopeless, by the verdict on these iterates; else ""."""
        # whether n mu^2 is enough was told by the plan: rows alone decide here
        return verdict(
            _stored(rows, problem, white, iterates, LEAST_MULTIPLIER), _judged(rows)
        ).short

    path = replace(problem, hopeless=hopeless) if rows.may_stop else problem
    mode = newton_path.find_mode(path, options.num_far or NUM_FAR, random)
    release = replace(_stored(rows, problem, mode.white, mode.iterates, z), stopped=mode.stopped)
    return replace(release, part=counted_part(release, _judged(rows)))


def in_rounds(
    rows: Rows,
    max_row_norm: float,
    options: NoisyQuadraticOptions,
    z: float,
    random: RandomSource,
) -> Iterator[Quadratic]:
    """Yield the stored release after each round, pooled over all rounds so far.

    Where the pooled one is unreliable and that of the last round alone is reliable, as after rounds
    that had to clip more or looked from far away, it is the latter. Privacy: event(options), or its
    first events where the caller stops earlier, by what was yielded alone. Never raises on rows.
    """
    problem, spent = _problem(rows, max_row_norm, options, z, rows.white), 0.0
    multipliers = newton_path.round_multipliers(z, options.rounds or 1)
    taken = newton_path.in_rounds(problem, options.num_far or NUM_FAR, len(multipliers), random)
    for k, (z_round, (white, iterates)) in enumerate(zip(multipliers, taken, strict=True)):
        spent += z_round**-2.0
        together = _stored(rows, problem, white, iterates, 1.0 / math.sqrt(spent))
        if k and not verdict(together, _judged(rows)).reliable:
            alone = _stored(rows, problem, white, iterates[-2:], z_round)
            together = alone if verdict(alone, _judged(rows)).reliable else together
        yield replace(together, rounds=k + 1, part=counted_part(together, _judged(rows)))


def no_hope(release: Quadratic, noise_multiplier: float, prior: Normals | None) -> str:
    """Return why later rounds cannot make an unreliable release reliable; else "".

    There is no hope where noise hides the rows at the noise of all rounds together, and at less
    than that, as on a Newton path. noise_multiplier: of all rounds together. prior: as in
    `verdict`.
    """
    noise = noise_multiplier / release.noise_multiplier
    few, usual = (
        verdict(replace(quieter(release, 1.0 / part), noise_multiplier=LEAST_MULTIPLIER), prior)
        for part in (noise * newton_path.BETTER_THAN_EXPECTED, noise)
    )
    # what else is wrong may be mended by the places and clips of later rounds
    return few.short if few.lasting == usual.lasting == "noise" else ""


def _problem(
    rows: Rows,
    max_row_norm: float,
    options: NoisyQuadraticOptions,
    z: float,
    white: Whitening | None,
) -> newton_path.Problem:
    """Return the Newton path's problem: rows, clips and public facts."""
    p = rows.data.width * rows.classes + rows.family.log_scale
    p = len(rows.start) if rows.family.link == "cumulative" else p
    mean, precision = _on_the_way(rows, p)
    return newton_path.Problem(
        family=rows.family,
        data=rows.data,
        start=rows.start[:p],
        prior_mean=mean,
        prior=precision,
        max_row_norm=max_row_norm,
        scale=newton_path.FIRST_RESIDUAL_SCALE if rows.family.quadratic and not rows.fixed else 1.0,
        noise_multiplier=z,
        fixed=rows.fixed,
        white=white,
        indicators=rows.indicators,
        unit_rows=rows.unit_rows,
        mean_rows=0.5 * (rows.unit_rows + 1),
        intercept=rows.intercept,
        ends=rows.ends,
        box=rows.box,
        of_model=options.estimand == "model",
    )


def _stored(
    rows: Rows,
    problem: newton_path.Problem,
    white: Whitening,
    iterates: Sequence[Iterate],
    z: float,
) -> Quadratic:
    """Return the stored release of near iterates. z: noise multiplier of the whole release."""
    # the rate of a rare category has the likelihood of a count where rows are independent
    family = rows.family
    counts = family.link == "log" and not is_additive(family) and rows.unit_rows == 1
    counts = counts and not family.log_scale
    release = pooled(
        iterates,
        white,
        problem.rows,
        rows.tempering,
        z,
        additive=is_additive(family) and not family.log_scale,
        has_scale=family.has_scale,
        fixed=rows.fixed,
        log_scale=family.log_scale,
        skewed=is_skewed(family) and is_measured(family),
        apart=is_apart(family),
        heaviest=heaviest_of(family),
        indicators=None if rows.indicators is None else rows.indicators.astype(np.float64),
        log_shift=shift_of(rows.family) if counts else None,
        by_counts=counts and problem.of_model and bool(np.isfinite(family.variance.size)),
        several_rows=rows.unit_rows > 1,
        most=_largest(rows, problem),
        odds=rows.family.link in ("logit", "softmax", "hurdle")
        and not rows.family.log_scale
        and has_intercept(white),
        ordered=rows.family.link == "cumulative",
        hurdle=rows.family.link == "hurdle",
        of_model=problem.of_model,
        prior=_judged(rows),
    )
    if rows.smooths is None:
        return release
    return replace(release, smooth=rows.smooths[0], smooth_priors=rows.smooths[1])


def _judged(rows: Rows) -> Normals | None:
    """Return the prior that the verdict uses; None where the likelihood is quadratic."""
    return None if rows.family.quadratic else (rows.prior_mean, rows.prior)


def _largest(rows: Rows, problem: newton_path.Problem) -> Floats | float | None:
    """Return the largest curvature of all rows together, at scale 1: see pooled."""
    if rows.largest_slope is None:
        return None
    each = rows.largest_slope
    slope, of_scale = each if isinstance(each, tuple) else (each, each)
    most = problem.rows * slope * problem.max_row_norm**2
    if rows.family.link == "hurdle":
        return np.repeat([most, of_scale / slope * most], rows.data.width)
    if not rows.family.log_scale:
        return most
    return np.append(np.full(problem.size - 1, most), problem.rows * of_scale)


def counted_part(release: Quadratic, prior: Normals | None) -> float:
    """Return the power of the likelihood that counts: below 1 for few rows.

    The posterior of so few is wider than a normal one, and noise may pass for a curvature, or for a
    small scale, that they do not have. Where the result is unreliable the prior alone is left.
    prior: as in verdict. Proof that it is post-processing: docs/proofs/noisy_quadratic.md, section
    4.
    """
    p, rows = len(release.place), max(release.rows, 1)
    if rows >= FEW_ROWS:
        return 1.0
    judged = verdict(release, prior)
    if not judged.reliable:
        return 0.0
    noise, bent = judged.blur, (p + LEAST_DEGREES) / rows
    if release.scaled:
        noise = math.hypot(noise, 2.0 * float(release.tau_sds[-1] / release.taus[-1]))
        bent = float(rows <= p + LEAST_DEGREES)  # more have degrees of freedom of their own
    return max(1.0 - bent, 0.0) * max(1.0 - NOISE_SDS * noise, 0.0)


def _on_the_way(rows: Rows, p: int) -> tuple[Floats, Floats]:
    """Return mean and precision (p,) of the priors used on the path.

    The job's own priors count where the likelihood is not quadratic: what is released of it then
    holds nearby alone, and a prior may keep the posterior far from where the likelihood is highest.
    """
    start, prior = rows.start[:p], rows.prior[:p]
    if rows.family.quadratic:
        return start, np.full(p, newton_path.RANGE**-2)
    wide = LARGEST_PREDICTOR**-2
    precision = prior + wide
    return (prior * rows.prior_mean[:p] + wide * start) / precision, precision


def publish(
    rows: Rows,
    max_row_norm: float,
    options: NoisyQuadraticOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Mixture | GroupedMixture:
    """Return the posterior given the release. Privacy: event(options). Never raises on rows.

    Raises ValueError where rows do not suit what the job is charged for: a whitening, rounds,
    groups.
    """
    if (options.rounds or 1) > 1:
        raise ValueError("a job of several rounds is released round by round")
    if options.paid != (rows.white is not None):
        raise ValueError("give the whitening that the job reuses, and none to any other job")
    if (options.num_joint is None) != (rows.groups is None):
        raise ValueError("a job that is charged for looks at groups has some, and no other job")
    if rows.groups is not None:
        return _grouped(rows, rows.groups, max_row_norm, options, noise_multiplier, random)
    release = released(rows, max_row_norm, options, noise_multiplier, random, rows.white)
    return release.posterior(rows.prior_mean, rows.prior, random)


def _grouped(
    rows: Rows,
    groups: grouped.Groups,
    max_row_norm: float,
    options: NoisyQuadraticOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> GroupedMixture:
    """Return the posterior of a model with groups: a path without them, then joint steps."""
    steps, d = options.num_joint or 1, rows.data.width
    first_multiplier = grouped.multipliers(noise_multiplier, steps)[0]
    alone = replace(rows, may_stop=False, groups=None)
    quadratic = released(alone, max_row_norm, options, first_multiplier, random)
    prior = rows.prior_mean[:d], rows.prior[:d]
    means = quadratic.posterior(rows.prior_mean, rows.prior, random).parts()[0]
    back = np.linalg.inv(quadratic.root)
    scale = quadratic.residual_sd
    curve = _raised_to_noise(quadratic.curvature, quadratic.curvature_sd)
    first = grouped.First(means.mean(axis=0), back.T @ curve @ back, scale, float(quadratic.rows))
    opened_rows = grouped.GroupedRows(
        rows.family, rows.data, groups, prior, rows.fixed, rows.tempering
    )
    slope = first_slope(rows.family) / scale**2
    arrow = grouped.released(opened_rows, first, slope, steps, noise_multiplier, random)
    return arrow.posterior(rows.prior_mean, rows.prior, random)


def read(stored: dict[str, Any]) -> Any:
    """Return the stored release of a model, with groups or without."""
    return Arrow.from_dict(stored) if "effects" in stored else Quadratic.from_dict(stored)


def judge(stored: Any, prior: Normals | None) -> Judgement:
    """Return the verdict on a stored release. prior: as in `verdict`."""
    return (
        grouped_posterior.judge(stored, prior)
        if isinstance(stored, Arrow)
        else verdict(stored, prior)
    )


def passes(options: NoisyQuadraticOptions, dimension: int) -> int:
    """Return the number of passes: three for the whitening, and two products per iterate."""
    looks = (options.num_far or NUM_FAR) + 2 * ((options.rounds or 1) - 1)
    looks += 0 if options.num_joint is None else options.num_joint + 1
    return 3 + 2 * looks * (1 + dimension // 8)


RELEASE = Release(
    "noisy_quadratic",
    NoisyQuadraticOptions,
    families=frozenset(FAMILIES),
    exact=False,
    event=event,
    settle=settle,
    sd_inflation=sd_inflation,
    passes=passes,
    publish=publish,
    opened=opened,
    streams=True,
    poor=poor,
    misfit=misfit,
    read=read,
    judge=judge,
    stops=True,
    in_rounds=in_rounds,
    no_hope=no_hope,
    by_units=True,
    few_rows=True,
)
