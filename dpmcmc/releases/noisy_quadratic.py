"""A noisy quadratic log likelihood of a regression, and the posterior given it.

Released are a whitening of the covariates, and then scores, curvatures and scales at a few values
of the coefficients, the last two of them near the posterior mode (newton_path). The posterior
accounts for the noise of each (quadratic). A job costs mu = 1 / noise_multiplier, for any number of
draws.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families import MODELS
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.linear import unit_of
from dpmcmc.families.scores.base import TINY, Family
from dpmcmc.families.scores.given import Given, heaviest_of, packed, shift_of
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec
from dpmcmc.mechanisms.sums import MOST_COEFFICIENTS, MOST_ROWS
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import LEAST_MULTIPLIER
from dpmcmc.releases import newton_path, quadratic_steps, scales, shares, whitening
from dpmcmc.releases.base import Facts, Release, prior_of
from dpmcmc.releases.categories import has_intercept
from dpmcmc.releases.quadratic import Mixture, Quadratic
from dpmcmc.releases.quadratic_steps import Iterate, weighted
from dpmcmc.releases.quadratic_verdict import (
    MAX_CURVATURE_NOISE,
    Normals,
    least_information,
    verdict,
)
from dpmcmc.releases.whitening import Whitening

# The pooling of the last two iterates of a Newton path into one stored release.
ROWS, LAST = ("rows", "rows_sd"), np.array([0.0, 1.0])
# change of log odds between the near iterates in rows with a rare response, beyond which the first
# one's score is no line up to where the last one is
FAR_APART = 0.3


def pooled(
    iterates: tuple[Iterate, Iterate],
    white: Whitening,
    rows: int,
    tempering: float,
    noise_multiplier: float,
    *,
    additive: bool,
    has_scale: bool,
    fixed: bool,
    heaviest: float = 1.0,
    indicators: Floats | None = None,
    log_shift: float | None = None,
    most: float | None = None,
    odds: bool = False,
    asked: bool = False,
    prior: Normals | None = None,
) -> Quadratic:
    """Return two iterates in the same coordinates pooled, weighted by the inverse noise variance.

    additive: whether a scale is an sd in units of the predictor; what it was taken to be then
    divides all of an iterate, so that both are brought to the last one's. most: largest curvature
    of all rows in any direction, for a scale of 1. prior: of the job, where it decides where the
    posterior lies, and so how far from the places; None where rows alone are taken to.
    """
    own = _scale(iterates, fixed=fixed)
    units = np.array([(iterate.scale / own) ** 2 if additive else 1.0 for iterate in iterates])
    squares = units**2 if asked else units  # of scores, or what the model has for these
    score_sds, curve_sds, noise_sds = (
        unit * np.array([iterate.sums.sds[k] for iterate in iterates])
        for k, unit in enumerate((units, units, squares))
    )
    places, scores, curves, noises = (
        np.array([np.asarray(part) * unit for part, unit in zip(parts, unit_of_each, strict=True)])
        for parts, unit_of_each in (
            ([iterate.place for iterate in iterates], (1.0, 1.0)),
            ([iterate.sums.score for iterate in iterates], units),
            ([iterate.sums.curvature for iterate in iterates], units),
            ([iterate.sums.noise for iterate in iterates], squares),
        )
    )
    alone = odds and _far_apart(iterates, rows, len(white.root))
    by_score, by_curve = (LAST, LAST) if alone else (_weights(score_sds), _weights(curve_sds))
    left_sd = unseen_sd = 0.0
    if asked:
        curve, curve_sd = np.tensordot(by_curve, curves, 1), np.linalg.norm(by_curve * curve_sds)
        lifted = _lifted(curve, float(curve_sd))
        away = _away(iterates, scores[-1], lifted, prior)
        cut = units * [iterate.sums.rows * iterate.cut_curve for iterate in iterates]
        lost = np.linalg.norm(away, axis=1) * np.hypot(curve_sd * 0.5**0.5, cut / len(curve) ** 0.5)
        bent = np.zeros(2) if additive else _bent(lifted, away, iterates[-1].root, white)
        lost = np.hypot(lost, bent)
        if not alone:
            by_score = _weights(np.hypot(score_sds, lost))
        left = units * [iterate.sums.rows * iterate.left for iterate in iterates]
        unseen = units * [iterate.sums.rows * iterate.unseen for iterate in iterates]
        unseen_sd = float(by_score @ unseen)
        hidden = float(np.linalg.norm(by_score @ (cut[:, None] * away))) / len(curve) ** 0.5
        left_sd = math.hypot(float(by_score @ left), hidden, float(by_score @ bent))
    told_rows, rows_sds = (
        np.array([getattr(iterate.sums, part) for iterate in iterates]) for part in ROWS
    )
    gaps = bool(rows_sds.all())
    scaled = has_scale and additive and not fixed
    near = [iterates[0], iterates[1]] if scaled else []
    return Quadratic(
        place=by_score @ places,
        root=iterates[-1].root,
        score=by_score @ scores,
        score_sd=float(np.linalg.norm(by_score * score_sds)),
        curvature=np.tensordot(by_curve, curves, 1),
        curvature_sd=float(np.linalg.norm(by_curve * curve_sds)),
        noise=np.tensordot(by_curve, noises, 1),
        noise_sd=float(np.linalg.norm(by_curve * noise_sds)),
        whitening=white.root,
        whitening_known=white.known,
        whitening_sd=white.sd,
        whitening_held=white.held,
        places=places,
        scores=scores,
        score_sds=score_sds,
        scales=np.array([iterate.scale for iterate in near]),
        taus=np.array([iterate.tau for iterate in near]),
        tau_sds=np.array([iterate.tau_sd for iterate in near]),
        cuts=np.array([iterate.cut for iterate in near]),
        scaled=scaled,
        dispersion=iterates[-1].scale * iterates[-1].tau if has_scale and not additive else 1.0,
        clip=min(
            iterate.clip / (1.0 if additive or asked else max(iterate.scale, 1.0))
            for iterate in iterates
        ),
        rows=round(float(_weights(rows_sds) @ told_rows)) if gaps else rows,
        gaps=gaps,
        tempering=tempering,
        noise_multiplier=noise_multiplier,
        heaviest=heaviest,
        indicators=indicators,
        log_shift=log_shift,
        spreads=_spreads(iterates),
        odds=odds,
        most=None if most is None else most / (own**2 if additive else 1.0),
        robust=not asked,
        left_sd=left_sd,
        unseen_sd=unseen_sd,
        square_spread=iterates[-1].square_spread if scaled else 0.0,
        tail_sd=near[-1].tail_sd * (near[-1].scale * near[-1].tau / own) ** 2 if scaled else 0.0,
    )


def _lifted(curve: Floats, curve_sd: float) -> Floats:
    """Return a curvature (p, p) with eigenvalues of no less than what its noise alone has."""
    values, vectors = np.linalg.eigh(curve)
    safe = np.maximum(values, math.sqrt(2.0 * len(values)) * curve_sd)
    return np.asarray((vectors * safe) @ vectors.T)


def _away(
    iterates: tuple[Iterate, Iterate], score: Floats, whole: Floats, prior: Normals | None
) -> Floats:
    """Return (2, p) the way from each place to the mode, by the last score, in its coordinates.

    whole: (p, p) curvature, positive.
    """
    last, p = iterates[-1], len(score)
    if prior is not None:  # where it rules the likelihood's own mode is far, and does not matter
        mean, precision = (part[:p] for part in prior)
        whole = whole + last.root.T @ (precision[:, None] * last.root)
        score = score + last.root.T @ (precision * (mean - last.place))
    step = np.linalg.solve(whole, score)
    between = np.linalg.solve(last.root, last.place - iterates[0].place)
    return np.array([step + between, step])


def _bent(curve: Floats, away: Floats, root: Floats, white: Whitening) -> Floats:
    """Return (2,) by how much, a coefficient, a tangent misses a score so far away (2, p).

    By half of the change of the log of rows' slopes, which is about that of their predictors.
    """
    own = np.kron(np.eye(len(root) // len(white.root)), white.root)
    sizes = np.linalg.solve(root, own)
    slopes = max(float(np.trace(sizes.T @ curve @ sizes)) / len(root), TINY)
    forces = away @ curve
    squares = np.maximum(np.einsum("kp,kp->k", forces, away), 0.0)
    bent = 0.5 * np.sqrt(squares / slopes) * np.linalg.norm(forces, axis=1) / len(root) ** 0.5
    return np.asarray(bent)


def _far_apart(iterates: tuple[Iterate, Iterate], rows: int, size: int) -> bool:
    """Return whether rows with a rare response look different from the two places."""
    last = iterates[1]
    back = np.linalg.inv(last.root)
    step = (last.place - iterates[0].place).reshape(1, -1, size)
    counted = rows * weighted(last.sums.curvature, last.sums.noise)
    return shares.changes(back.T @ last.sums.curvature @ back, counted, step) > FAR_APART


def _spreads(iterates: tuple[Iterate, Iterate]) -> Floats | None:
    """Return (2, p, p) what slopes are means over, where that decides what scores say."""
    first, last = (iterate.spread for iterate in iterates)
    return None if first is None or last is None else np.stack((first, last))


def _scale(iterates: tuple[Iterate, Iterate], *, fixed: bool) -> float:
    """Return the scale of the residuals, of both iterates, each weighted by its noise."""
    if fixed or not iterates[-1].tau_sd:
        return iterates[-1].scale * (1.0 if fixed else iterates[-1].tau)
    scale, tau, tau_sd = (
        np.array([getattr(iterate, name) for iterate in iterates])
        for name in ("scale", "tau", "tau_sd")
    )
    return math.sqrt(float(scales.weights(scale, tau, tau_sd) @ (scale * tau) ** 2))


def _weights(sds: Floats) -> Floats:
    return np.asarray(sds**-2.0 / (sds**-2.0).sum())


NUM_FAR, MORE_FAR = 4, 6  # more with a pilot, and where several predictors have to move far
# n mu^2 for each coefficient, from which their noise is next to nothing; for predictors far from 0
AND_MORE, GENEROUS = 4, 1e5
LEAST_FAR, MOST_FAR = 3, 12
# scale of the residuals to begin with, where an eighth of the response's range is 1
FIRST_RESIDUAL_SCALE = 2.0
# priors that the path has of its own, around where it starts: the response's declared range, and
# farther than predictors go
LARGEST_PREDICTOR = 50.0
# of the score's share, where noise decides how rows are cut: see experiments
CLIPPED_SCORE_EFFICIENCY = 0.45
# clip of the model's own scores, with all that it leaves out, as real responses have it: the least,
# and that times the root of the noise of a clip of 1
EXPECTED_CLIP, CLIP_BY_NOISE = 2.2, 1.6

# of all models with rows for it, whatever their options
FAMILIES = {
    name: family
    for name, model in MODELS.items()
    if (family := model.rows(ModelOptions())) is not None
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Opened rows and public facts of a regression.

    x: (d, n). y: (n,). counted: see Problem. classes: number of predictors of a row. white:
    released coordinates of these columns, where the job is to use some again. indicators: (d,)
    columns that are declared to hold 0 and 1 alone; none where None. largest_slope: information
    that one row can have about its predictors, in units of the residual precision where there is
    one; None where that is not known. may_stop: whether a hopeless path ends early. ends: declared
    bounds of the response, in the units of y; None where they are not known. box: the same (d,) of
    covariates.
    """

    family: Family
    x: Floats
    y: Floats
    start: Floats
    prior_mean: Floats
    prior: Floats
    tempering: float
    fixed: bool
    counted: Floats | None = None
    classes: int = 1
    white: Whitening | None = None
    indicators: NDArray[np.bool_] | None = None
    largest_slope: float | None = None
    may_stop: bool = False
    unit_rows: int = 1
    intercept: bool = False
    ends: tuple[float, float] | None = None
    box: tuple[Floats, Floats] | None = None


def family_of(model: ModelSpec) -> Family:
    """Return the family of a model. Raises SpecError where it is not released here."""
    family = MODELS[model.family].rows(model.options)
    if family is None:
        raise SpecError("/model/family", f"noisy_quadratic does not release {model.family}")
    return family


def opened(design: Design, spec: JobSpec, table: Table) -> Rows:
    """Return what `publish` reads. Nothing is compiled for it."""
    family, form = family_of(spec.model), MODELS[spec.model.family].form(design, spec)
    x, y = design.build(table)
    counted = np.where(np.isnan(y), 0.0, 1.0) if design.gappy else None
    unit_rows = design.schema.unit_rows
    unit = unit_of(design, spec.model) if family.link == "identity" else 1.0
    family, y = packed(family, design, spec.model, table, np.nan_to_num(y) / unit, unit)
    start = np.zeros(len(form.start))
    if INTERCEPT in design.parameters:
        ends = form.public.response
        ends = np.log(np.maximum(ends, 0.0) + 0.5) if family.link == "log" else ends
        shift = design.middle_offset / unit
        start[design.parameters.index(INTERCEPT)] = ends.mean() - shift
    tempering = spec.model.tempering or 1.0
    fixed, prior = spec.model.options.noise_scale is not None, prior_of(form, len(start))
    arguments = family, x, y, start, *prior, tempering, fixed, counted, form.classes
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
    )


def _largest_slope(family: Family, classes: int, most: float) -> float:
    """Return the information that one row can have about its predictors. most: largest response.

    Fitted counts add up to no more than the counts do.
    """
    heaviest = family.heaviest if isinstance(family, Given) else 1.0
    if family.link == "identity":
        return heaviest
    if family.link == "log":
        return heaviest * (most + 0.5)
    return heaviest * (0.25 if classes == 1 else 0.5)


def event(options: NoisyQuadraticOptions, noise_multiplier: float, rows: int) -> Event:
    """Return all iterates and the whitening. Proof: docs/proofs/noisy_quadratic.md."""
    num_far, asked = options.num_far or NUM_FAR, options.estimand == "model"
    return newton_path.event(noise_multiplier, num_far, paid=options.paid, asked=asked)


def usual_far(family: str) -> int:
    """Return the number of far iterates that a family has where none is asked for."""
    return MORE_FAR if FAMILIES[family].link in ("log", "softmax") else NUM_FAR


def default_estimand(facts: Facts) -> Literal["model", "robust"]:
    """Return what a job answers that does not say.

    The model as it is written, as a fit without privacy does. Counts and several classes are
    answered as by a robust fit: where bounds of counts reach far the model's own answer is seldom
    reliable at small budgets, and that of several classes is not measured (experiments/README.md).
    """
    one_line = FAMILIES[facts.family].link in ("identity", "logit")
    return "model" if one_line or facts.unit_rows > 1 else "robust"


def settle(
    options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float
) -> NoisyQuadraticOptions:
    """Return options with nothing left open but the numbers of draws. Raises SpecError."""
    num_far, estimand = options.num_far, options.estimand or default_estimand(facts)
    if num_far is None:
        each = _by_units(facts).rows / noise_multiplier**2 / len(facts.prior)
        num_far = usual_far(facts.family) + (AND_MORE if each > GENEROUS else 0)
    if type(num_far) is not int or not LEAST_FAR <= num_far <= MOST_FAR:
        raise SpecError(
            "/sampler/num_far", f"must be a whole number between {LEAST_FAR} and {MOST_FAR}"
        )
    if facts.unit_rows > 1 and estimand == "robust":
        message = "must be model where a person has several rows: a robust fit is of single rows"
        raise SpecError("/sampler/estimand", message)
    if facts.assumptions.rows >= MOST_ROWS or len(facts.prior) > MOST_COEFFICIENTS:
        raise SpecError("/sampler/algorithm", "noisy_quadratic is for fewer rows or coefficients")
    return replace(options, num_far=num_far, estimand=estimand)


def _by_units(facts: Facts) -> Assumptions:
    """Return the assumptions for units, each of which adds to the sums as one row does."""
    return replace(facts.assumptions, rows=facts.assumptions.rows // facts.unit_rows)


def sd_inflation(options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """Return (d,) expected sds of the draws over those of the posterior given the rows.

    In coordinates in which the rows have second moments 1 the noise of the score is the same in all
    directions. The score of a row is clipped to norm c sqrt(p), c as on the Newton path.
    """
    assumptions = _by_units(facts)
    p, rows = len(facts.prior), assumptions.rows * assumptions.tempering
    near = _near(options, noise_multiplier)
    each = 2.0 * math.sqrt(p / (assumptions.rows * CLIPPED_SCORE_EFFICIENCY)) * near
    clip = max(newton_path.NEGLIGIBLE_NOISE / each, newton_path.FIRST_CLIP)
    if options.estimand == "model":
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


def poor(options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float) -> bool:
    """Return whether the verdict is expected to be that rows or budget are too few."""
    p, rows = len(facts.prior), _by_units(facts).rows
    least = least_information(asked=options.estimand == "model")
    few = rows / noise_multiplier**2 < least * p
    return few or _blur(_near(options, noise_multiplier), p, rows) > MAX_CURVATURE_NOISE


def _near(options: NoisyQuadraticOptions, noise_multiplier: float) -> float:
    """Return the noise multiplier of both near iterates together."""
    asked = options.estimand == "model"
    parts = newton_path.shares(options.num_far or NUM_FAR, options.paid, asked=asked)
    return noise_multiplier / math.sqrt(sum(parts[-2:]))


def blurred(noise_multiplier: float, d: int, rows: int) -> float:
    """Return the noise of a job's whitening, over what it sees, in round coordinates."""
    z = noise_multiplier * math.sqrt(whitening.ITERATIONS / newton_path.WHITENING_SHARE)
    return math.sqrt(2.0) * whitening.CUT_RATIO * d * z / rows * math.sqrt(2.0 * d)


def _blur(z: float, p: int, rows: float) -> float:
    """Return the noise of the last curvature, over the curvature, in round coordinates."""
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
    """Return what is stored. Privacy: event(options). Never raises on rows.

    white: coordinates of the same columns that were paid for before; what it costs then is
    newton_budget.event(z, num_far, paid=True), all of it spent on the iterates.
    """
    p = len(rows.x) * rows.classes
    mean, precision = _on_the_way(rows, p)
    problem = newton_path.Problem(
        family=rows.family,
        x=rows.x,
        y=rows.y,
        start=rows.start[:p],
        prior_mean=mean,
        prior=precision,
        max_row_norm=max_row_norm,
        scale=FIRST_RESIDUAL_SCALE if rows.family.quadratic and not rows.fixed else 1.0,
        noise_multiplier=z,
        fixed=rows.fixed,
        white=white,
        counted=rows.counted,
        indicators=rows.indicators,
        unit_rows=rows.unit_rows,
        mean_rows=0.5 * (rows.unit_rows + 1),
        intercept=rows.intercept,
        ends=rows.ends,
        box=rows.box,
        asked=options.estimand == "model",
    )

    # the rate of a rare category has the likelihood of a count where rows are independent
    counts = rows.family.link == "log" and rows.unit_rows == 1

    def kept(white: Whitening, iterates: tuple[Iterate, Iterate], stopped: str) -> Quadratic:
        release = pooled(
            iterates,
            white,
            problem.rows,
            rows.tempering,
            z,
            additive=rows.family.link == "identity",
            has_scale=rows.family.has_scale,
            fixed=rows.fixed,
            heaviest=heaviest_of(rows.family),
            indicators=None if rows.indicators is None else rows.indicators.astype(np.float64),
            log_shift=shift_of(rows.family) if counts else None,
            most=None
            if rows.largest_slope is None
            else problem.rows * rows.largest_slope * max_row_norm**2,
            odds=rows.family.link in ("logit", "softmax") and has_intercept(white),
            asked=problem.asked,
            prior=None if rows.family.quadratic else (rows.prior_mean, rows.prior),
        )
        return replace(release, stopped=stopped)

    def hopeless(white: Whitening, iterates: tuple[Iterate, Iterate]) -> str:
        prior = None if rows.family.quadratic else (rows.prior_mean, rows.prior)
        # whether n mu^2 is enough was told by the plan: rows alone decide here
        seen = replace(kept(white, iterates, ""), noise_multiplier=LEAST_MULTIPLIER)
        return verdict(seen, prior).short

    path = replace(problem, hopeless=hopeless) if rows.may_stop else problem
    mode = newton_path.find_mode(path, options.num_far or NUM_FAR, random)
    return kept(mode.white, mode.iterates, mode.stopped)


def _on_the_way(rows: Rows, p: int) -> tuple[Floats, Floats]:
    """Return mean and precision (p,) of the priors that the path goes by.

    Where the likelihood is not quadratic the job's own count: what is released of it holds nearby,
    and a prior may keep the posterior far from where the likelihood is highest.
    """
    start, own = rows.start[:p], rows.prior[:p]
    if rows.family.quadratic:
        return start, np.full(p, newton_path.RANGE**-2)
    wide = LARGEST_PREDICTOR**-2
    precision = own + wide
    return (own * rows.prior_mean[:p] + wide * start) / precision, precision


def publish(
    rows: Rows,
    max_row_norm: float,
    options: NoisyQuadraticOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Mixture:
    """Return the posterior given the release. Privacy: event(options). Never raises on rows.

    Raises ValueError where coordinates are used that the job is not charged without, or not used.
    """
    if options.paid != (rows.white is not None):
        raise ValueError("give the whitening that the job reuses, and none to any other job")
    release = released(rows, max_row_norm, options, noise_multiplier, random, rows.white)
    return release.posterior(rows.prior_mean, rows.prior, random)


def unchanged(model: ModelSpec) -> ModelSpec:
    """Return the model: its own coordinates do."""
    return model


def passes(options: NoisyQuadraticOptions, dimension: int) -> int:
    """Return how often the rows are read: three passes, and two matrix products per iterate."""
    return 3 + 2 * (options.num_far or NUM_FAR) * (1 + dimension // 8)


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
    model=unchanged,
    opened=opened,
    poor=poor,
    read=Quadratic.from_dict,
    judge=verdict,
    stops=True,
    by_units=True,
)
