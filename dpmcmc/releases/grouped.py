"""Joint Newton steps of coefficients and group effects, for models such as `y ~ x + (1 | ward)`.

A first path finds coefficients and their coordinates without groups. Each joint step then releases
the score and the arrow-shaped curvature of coefficients and groups at one place. The first ones
find the place; the posterior is that given the last. Every decision here is a function of public
facts and of released numbers. Proof: docs/proofs/noisy_quadratic.md, section 7.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpmcmc.families.scores.base import UNCUT, Evaluation, Family, Floats
from dpmcmc.mechanisms.arrow_sums import ArrowBlock, ArrowCaps, ArrowSums, release
from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import newton_path
from dpmcmc.releases.design_rows import DesignRows, HeldRows, block_rows
from dpmcmc.releases.grouped_posterior import Arrow, predictor_variances, unseen_of_nested

# parts of mu^2: of the path without groups, of the joint steps that find the place, of the last
FIRST_SHARE, FAR_SHARE, LAST_SHARE = 0.25, 0.20, 0.55
FEW_STEPS, MANY_STEPS, MOST_STEPS = 2, 5, 12  # joint steps before the last
# sds of groups that plans expect, over what one row tells, by the link of the family
USUAL_SDS = {"identity": 0.5, "logit": 0.25, "log": 0.5}
GENEROUS = 1e5  # n mu^2 for each number, from which their noise is next to nothing
# of a joint step: score, curvature, square, lengths, number of rows where that is private
FAR_PARTS = (0.52, 0.22, 0.08, 0.16, 0.02)
LAST_PARTS = (0.64, 0.26, 0.08, 0.0, 0.02)
OWN = 2.0  # squared length of a cell in a row over that of a covariate, times their number
FAR_CLIP, LEAST_CLIP = 3.0, 2.0  # of scores, in mean lengths
CURVE_CUT = 3.0  # of curvatures, in mean ones
# of residuals, in sds, and what noise of their mean square is made up by a closer cut
LEAST_CUT, MOST_CUT, SQUARE_NOISE = 3.0, 8.0, 0.05
# mean lengths, from which rows are counted
LENGTHS = np.asarray(1.5 * 2.0 ** (0.5 * np.arange(12)), np.float64)
CLEAR = 2.0  # sds of noise, below which a count is taken from the one before
FALLS = 3.0  # a count that noise hides falls with this power of the length
ONE_SIDED, ONE_SIDED_CELL = 0.5, 0.25  # part of what is cut off that points the same way
LARGEST_MOVE = 2.5  # of an effect in one step, where a likelihood is not quadratic
SETTLED = 3  # times that variances of predictors are found again after a step
LEAST_SPREAD, MOST_SPREAD = 1e-9, 1.5  # sd of predictors, that slopes and means are averaged over
LEAST_WEIGHT, MOST_WEIGHT = 0.02, 50.0  # of a row's usual slope, times that at the start


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of opened rows. count: of them. prior_sds: of the sds of their effects, half normal.

    slope: number of the coefficient that differs by group, 0 for none. related: whether both
    effects of a group may hang together. within: number of groups within each outer one, whose sd
    is then the first; 0 without outer ones.
    """

    count: int
    prior_sds: tuple[float, ...]
    slope: int = 0
    related: bool = True
    within: int = 0


@dataclass(frozen=True, slots=True)
class First:
    """The result of the path without groups: coefficients (d,), curvature (d, d), scale, rows."""

    place: Floats
    curvature: Floats
    scale: float
    rows: float


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Opened rows of a grouped model, with their group codes and public facts.

    fixed: whether the scale of residuals is known. prior: mean and precision of coefficients, (d,).
    """

    family: Family
    data: DesignRows
    groups: Groups
    prior: tuple[Floats, Floats]
    fixed: bool
    tempering: float


def usual_steps(cells: int, rows: int, noise_multiplier: float) -> int:
    """Return the number of joint steps before the last, from public facts alone."""
    return MANY_STEPS if rows / noise_multiplier**2 / cells > GENEROUS else FEW_STEPS


def hidden(cells: int, rows: int, z: float, link: str, effects: int, outer: int = 0) -> bool:
    """Return whether groups of usual size are expected not to stand out of the noise.

    z: noise multiplier of all of a job. link: of the family. effects: of each group. outer: number
    of groups of groups, 0 without: many small groups then tell together how much they differ.
    """
    long = math.sqrt((1.0 + OWN) / OWN * effects)
    noise = 2.0 * FAR_CLIP * long * z / math.sqrt(LAST_SHARE * LAST_PARTS[0])
    each, usual = rows / cells, USUAL_SDS[link] ** 2
    known = each**2 / (each + noise**2)
    if not outer:
        return usual * known < 1.0
    variances = np.full(2, usual)
    return bool(unseen_of_nested(np.full(cells, known), variances, cells // outer))


def multipliers(z: float, steps: int) -> tuple[float, float, float]:
    """Return noise multipliers: of the first path, of each earlier step, and of the last."""
    margin = newton_path.ROUNDING_MARGIN
    parts = FIRST_SHARE, FAR_SHARE / steps, LAST_SHARE
    first, far, last = (z / math.sqrt(margin * part) for part in parts)
    return first, far, last


def event(z: float, first: Event, steps: int) -> Event:
    """Return the event of the whole release. first: event of the path at its noise multiplier.

    Proof: docs/proofs/noisy_quadratic.md, section 7.
    """
    _, far, last = multipliers(z, steps)
    return Compose((first, Repeat(Gaussian(far), steps), Gaussian(last)))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a joint step is evaluated, and its coordinates.

    coefficients: (d,). effects: (k, g), of the first k numbers of root^T x times unit, which are 1
    and the covariate t of slopes. root: (d, d): coefficients are moved by root @ u. unit: root of
    the usual slope of a row. scale: of residuals. spread: (g,) posterior sds of the predictor of a
    usual row of each group, over which slopes and means are averaged; 0 where nothing is known.
    earlier_precision: (g,) precisions of these predictors by released numbers, without the prior of
    effects.
    """

    coefficients: Floats
    effects: Floats
    root: Floats
    unit: float
    scale: float
    spread: Floats
    earlier_precision: Floats

    @property
    def own(self) -> float:
        """What a row has in each place of its cell, for each unit of 1 and t."""
        return math.sqrt(OWN * len(self.coefficients) / len(self.effects)) / self.unit

    @property
    def length(self) -> float:
        """Return about the root mean square length of rows' scores."""
        return math.sqrt(len(self.coefficients) * (1.0 + OWN))


def begun(first: First, groups: Groups, slope: float) -> Place:
    """Return where joint steps begin. slope: of a row where nothing is known of it.

    Covariates are measured from their means, weighted by slopes, and made round; the one that has
    slopes by group comes first.
    """
    d, j = len(first.place), groups.slope
    curve = first.curvature / first.rows
    usual = float(np.clip(curve[0, 0], LEAST_WEIGHT * slope, MOST_WEIGHT * slope))
    root = np.zeros((d, d))
    root[0, 0] = usual**-0.5
    if d > 1:
        means = curve[0, 1:] / usual
        apart = curve[1:, 1:] - usual * np.outer(means, means)
        values, vectors = np.linalg.eigh(apart)
        values = np.maximum(values, max(1e-3 * float(values[-1]), 1e-9 * usual))
        half = vectors / np.sqrt(values)
        if j:  # a rotation of round coordinates is round
            way = np.sqrt(values) * vectors[j - 1]
            half = half @ np.linalg.qr(np.column_stack((way, np.eye(d - 1))))[0][:, : d - 1]
            half[:, 0] = np.eye(d - 1)[j - 1] / np.linalg.norm(way)
        root[1:, 1:], root[0, 1:] = half, -means @ half
    effects = np.zeros((2 if j else 1, groups.count))
    nothing = np.zeros(groups.count)
    return Place(first.place, effects, root, usual**0.5, first.scale, nothing, nothing)


def _cut_of(rows: float, z: float) -> float:
    """Return the clip of residuals, in sds. z: noise multiplier of their mean square."""
    square = SQUARE_NOISE * rows / (math.sqrt(2.0) * z)
    return min(max(math.sqrt(square), LEAST_CUT), MOST_CUT)


def _block(family: Family, place: Place, cut: float, rows: HeldRows) -> ArrowBlock:
    """Return one block's statistics for a joint step."""
    x, cells, ones = rows.x, rows.cells, np.ones(rows.rows)
    if cells is None:
        raise ValueError("these rows have no groups")
    counted = ones if rows.counted is None else rows.counted
    group = np.maximum(cells, 0)
    covariates = place.root.T @ x
    of_effects = covariates[: len(place.effects)] * place.unit
    of_effects[0] = 1.0
    eta = place.coefficients @ x + (place.effects[:, group] * of_effects).sum(axis=0)
    evaluation = Evaluation(eta[None], ones, place.spread[group], UNCUT, UNCUT, place.scale, cut)
    terms = family.terms(rows.y, evaluation)
    return ArrowBlock(
        covariates=covariates,
        cells=cells,
        own=place.own * of_effects,
        psi=terms.psi[0],
        slope=terms.root[0, 0] ** 2,
        square=terms.square,
        counted=counted,
    )


def _joint_step(
    rows: GroupedRows,
    place: Place,
    clip: float,
    z: float,
    random: RandomSource,
    *,
    last: bool,
) -> ArrowSums:
    """Return what one joint step releases. Privacy: Gaussian(z)."""
    d, (each, cells) = len(place.coefficients), place.effects.shape
    parts = list(LAST_PARTS if last else FAR_PARTS)
    if not rows.data.gaps:
        parts[4] = 0.0
    if not rows.family.has_scale or (rows.fixed and rows.family.quadratic):
        parts[2] = 0.0
    shares = [part / math.fsum(parts) * newton_path.ROUNDING_MARGIN for part in parts]
    n = rows.data.rows
    cut = _cut_of(n, z / math.sqrt(shares[2])) if shares[2] else MOST_CUT
    caps = ArrowCaps(
        score=clip * place.length,
        curvature=CURVE_CUT * place.length**2,
        square=cut**2,
        lengths=np.zeros(0) if last else LENGTHS * place.length,
        shares=(shares[0], shares[1], shares[2], shares[3], shares[4]),
    )
    blocks = rows.data.blocks(block_rows(rows.data)).map(partial(_block, rows.family, place, cut))
    sums = release(blocks, (d, cells, each), n, caps, z, random)
    if not rows.data.gaps:
        return replace(sums, rows=float(n))
    return replace(sums, rows=min(max(sums.rows, 4.0 * sums.rows_sd, 1.0), float(n)))


def _cut(sums: ArrowSums) -> Floats:
    """Return (k,) what clips at LENGTHS cut off a mean row's score, in mean lengths.

    A count that noise hides is held to how scores' tails usually fall.
    """
    rows, parts = max(sums.rows, 1.0), np.empty(len(LENGTHS))
    before = 1.0
    for k, count in enumerate(sums.longer):
        part = float(count) / rows
        if float(count) < CLEAR * sums.longer_sd:
            fell = 1.0 if k == 0 else (LENGTHS[k - 1] / LENGTHS[k]) ** FALLS
            part = min(max(part, 0.0) + sums.longer_sd / rows, before * fell)
        before = min(part, before)
        parts[k] = before
    cut_off = np.empty(len(LENGTHS))
    cut_off[-1] = 0.5 * parts[-1] * LENGTHS[-1]
    for k in range(len(LENGTHS) - 2, -1, -1):
        longer = 0.5 * (parts[k] + parts[k + 1])
        cut_off[k] = cut_off[k + 1] + longer * (LENGTHS[k + 1] - LENGTHS[k])
    return cut_off


def _chosen(sums: ArrowSums, z: float, d: int) -> tuple[float, float]:
    """Return the clip of the last step, and what it cuts off, in mean lengths.

    It has the least sum of the squares of noise and of what may be lost. z: of its scores.
    """
    cut_off = _cut(sums)
    bias = ONE_SIDED * sums.rows * cut_off / math.sqrt(d + 1.0)
    best = int(np.argmin((2.0 * z * LENGTHS) ** 2 + bias**2 + 1e12 * (LENGTHS < LEAST_CLIP)))
    return float(LENGTHS[best]), float(cut_off[best])


def _stored(
    rows: GroupedRows,
    place: Place,
    sums: ArrowSums,
    cut_off: float,
    z: float,
) -> Arrow:
    """Return the record stored of a step. cut_off: of a mean row's score, in mean lengths."""
    d, own, double = len(place.coefficients), place.own, math.sqrt(2.0)
    curve, scaled = sums.curvature_sd, rows.family.quadratic and not rows.fixed
    sds = (sums.score_sd, sums.score_sd / own, curve, curve / (double * own), curve / own**2)
    lost = cut_off * place.length
    estimated = sums.square_sd > 0.0
    arrow = Arrow(
        place=place.coefficients,
        effects=place.effects.ravel(),
        root=place.root,
        score=sums.score,
        cell_score=sums.cell_score / own,
        curvature=sums.curvature,
        border=sums.border / own,
        cell_curvature=sums.cell_curvature / own**2,
        sds=np.array(sds),
        unit=place.unit,
        left=np.array(
            [
                ONE_SIDED * sums.rows * lost / math.sqrt(d + 1.0),
                ONE_SIDED_CELL * lost / (own * place.unit**2),
            ]
        ),
        rows=sums.rows,
        square=sums.square / sums.rows if estimated else 1.0,
        square_sd=sums.square_sd / sums.rows,
        scale=place.scale,
        scaled=scaled,
        spread=estimated,
        quadratic=rows.family.quadratic,
        prior_sd=rows.groups.prior_sds[-1 if rows.groups.within else 0],
        df=0.0,
        noise_multiplier=z,
        tempering=rows.tempering,
        slope=rows.groups.slope,
        slope_sd=rows.groups.prior_sds[-1],
        related=rows.groups.related,
        within=rows.groups.within,
        outer_sd=rows.groups.prior_sds[0],
        averaged=np.zeros(0) if rows.family.quadratic else place.spread,
        earlier_precision=place.earlier_precision if rows.family.link == "logit" else np.zeros(0),
        link=rows.family.link,
    )
    return arrow if rows.family.quadratic else _settled(rows, arrow)


def _settled(rows: GroupedRows, released: Arrow) -> Arrow:
    """Return the release with means averaged over what it tells of predictors itself.

    Those that an evaluation uses are told by the step before, through more noise.
    """
    released = replace(released, around=released.levels())
    arrow = released
    for _ in range(SETTLED):
        _, part = arrow.usual_part(*rows.prior)
        if released.link == "log":
            arrow = released.tangent(*part.tangents())
            continue
        arrow = released.averaged_over(part.variances(), part.curve.cells[0, 0])
    return arrow


def _moved(rows: GroupedRows, arrow: Arrow, place: Place) -> Place:
    """Return the next expansion point: the posterior mean given this step, prior and noise."""
    d = len(place.coefficients)
    times, part = arrow.usual_part(*rows.prior)
    law = part.middle()
    step, wide = part.moments(law)
    spread = earlier_precision = np.zeros(rows.groups.count)
    if not rows.family.quadratic:
        step[d:] = np.clip(step[d:], -LARGEST_MOVE, LARGEST_MOVE)
        change = float(np.linalg.norm(step[:d])) / place.unit  # of predictors
        step[:d] *= min(1.0, LARGEST_MOVE / max(change, 1e-12))
        # of the error of a step's posterior mean, at which the next one is: what is not linear in
        # it would else move coefficients
        sds = np.sqrt(predictor_variances(wide, arrow.unit))
        spread = np.clip(sds, LEAST_SPREAD, MOST_SPREAD)
        earlier_precision = np.maximum(spread**-2.0 - 1.0 / arrow.level_variance(law), 0.0)
    moved = replace(
        place,
        coefficients=arrow.place + place.root @ step[:d],
        effects=(arrow.effects + step[d:]).reshape(place.effects.shape),
        spread=spread,
        earlier_precision=earlier_precision,
    )
    if not arrow.scaled:
        return moved
    ratio = math.sqrt(times)
    return replace(
        moved, root=ratio * place.root, unit=place.unit / ratio, scale=ratio * place.scale
    )


def released(
    rows: GroupedRows,
    first: First,
    slope: float,
    steps: int,
    z: float,
    random: RandomSource,
) -> Arrow:
    """Return the record stored of all joint steps. Never raises on rows.

    Privacy: that of `event` but the first path, which released `first`. slope: see begun.
    """
    _, far, last = multipliers(z, steps)
    place = begun(first, rows.groups, slope)
    clip, cut_off = FAR_CLIP, 0.0
    for _ in range(steps):
        sums = _joint_step(rows, place, FAR_CLIP, far, random, last=False)
        clip, cut_off = _chosen(sums, last / math.sqrt(LAST_PARTS[0]), len(first.place))
        place = _moved(rows, _stored(rows, place, sums, cut_off, z), place)
    sums = _joint_step(rows, place, clip, last, random, last=True)
    return _stored(rows, place, sums, cut_off, z)
