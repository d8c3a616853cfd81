"""The stored release of a grouped model: an arrow-shaped noisy quadratic, and its posteriors.

A prior of groups' effects with a common sd is a prior: everything here follows from released
numbers and public facts, at no cost. Source of the shrunken effects given that sd: Gelman et al.
2013, Bayesian Data Analysis, section 5.4.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from dpmcmc.mechanisms.sums import largest_noise
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import Fault, Judged, Record, prior_by
from dpmcmc.releases.laws import (
    Laws,
    Prior,
    by_blocks,
    inverse,
    laws_near,
    laws_of_one,
    log_sizes,
    roots,
)

Floats = NDArray[np.float64]
# curvatures that draws are mixed over: of few coefficients, and at least
MIXTURE, LEAST_MIXTURE, MANY = 400, 40, 20
LEAST_KEPT = 1e-9  # of a precision, for what rounding makes less
FLAT, LEAST_NOISE = 1e-4, 1e-3  # part of the rows' curvature; variance of a score's noise
PARTS = 200  # of the mixture of coefficients
LEAST_LEFT = 0.05  # of a mean square, what is left when distances are taken off
MANY_HIDDEN = 0.25  # of groups: noise then says which part of a coefficient is within them
# where a likelihood is not quadratic, changes of a predictor in the last step, root mean square
MAX_LAST_STEP = 0.5
MAX_CURVATURE_NOISE = 0.5  # of covariates, over the curvature
MAX_LEFT = 1.5  # sds of a coefficient that clips may have moved it by
# of a group's curvature: rows, and sds of noise, that it has at least; sds, from which on noise
# hides nothing of it; numbers on a grid
# variance of logarithms of sizes, at least, and times what is seen of it
LEAST_WIDE, WIDER = 0.1, 1.7
LEAST_ROWS, LEAST_SDS, HIDDEN_SDS, SIZES = 0.3, 0.05, 6.0, 200
CLEAR = 2.0  # sds of noise, by which a group's rows are seen
LEAST_SEEN = 3  # groups that stand out, or nothing is told of how much groups differ
# of groups within groups, of which many small ones tell together what each hides: half of what one
# that just stands out tells of the logarithm of their sd
OF_ONE_SEEN = 0.25
# of a slope's covariate, variance within groups over that of all: at least, at most, and of a group
LEAST_SPREAD, MOST_SPREAD, LEAST_WITHIN = 0.05, 20.0, 0.1
NO_LIKELIHOOD = -1e300  # its logarithm, so that the prior decides where there is none at all
# the mean of a logistic function of a normal with variance v is nearly that function of its mean
# times (1 + .346 v)^-.5: Zeger, Liang and Albert 1988
LOGISTIC_NORMAL = (16.0 * math.sqrt(3.0) / (15.0 * math.pi)) ** 2
LEAST_STEP = -0.9  # of a predictor with a log link
MOST_TANGENT = 8.0  # times that a mean may be what was evaluated, where it is made linear
# variance of predictors that means are averaged over, at most
MOST_AVERAGED = {"logit": 25.0, "log": 2.25}
LAWS = 5  # of effects, that variances of predictors are averaged over
AT_ONCE = 4_000_000  # numbers that are held of several laws of effects


@dataclass(frozen=True, slots=True)
class Arrow(Record):
    """A stored release with d coefficients and g groups, of an arrow-shaped curvature.

    A group has one effect, or k = 2 where a slope differs as well: effects of rows whose (1, t) is
    the first k of root^T x times unit, t a covariate. All that have these are (k g,), first the g
    effects of 1. place: (d,) coefficients, effects: (k g,): where rows were evaluated. root: (d,
    d), coefficients are place + root @ u. score, cell_score: (d,) by u, (k g,). curvature: (d, d),
    border: (d, k g), cell_curvature: (g,), or (3 g,) of pairs of effects. sds: of the noise of
    these five, in this order. unit: of the first u, as
    the intercept is that times it. left: sds of what clips leave out of a number of score and of
    cell_score, the latter for one unit of cell_curvature. rows: how many. square, square_sd: mean
    squared residual over what is expected, which is 1 at `scale`. scaled: whether log_sigma is a
    parameter. spread: whether the square tells by how much scores vary more than expected.
    quadratic: whether the likelihood is. prior_sd: scale of the prior of the sd of effects; df:
    degrees of freedom of the half t that it is, 0 for a half normal. slope: number of the
    coefficient that differs by group, 0 for none; slope_sd, slope_df: of the prior of the sd of its
    effects. related: whether both effects of a group may hang together. within: number of groups
    within each outer one, of which one lies behind the other; 0 without outer ones. outer_sd,
    outer_df: of the prior of the sd of outer groups' effects. averaged: (g,) sds of normal
    predictors that answers and slopes are averaged over, none of a quadratic likelihood; around:
    (g,), their means. earlier_precision: (g,), of a logit link's predictors about these by earlier
    releases, none for 0. times: (g,), what multiplies curvatures of groups, none for 1: see
    tangent. link: of the family.
    """

    place: Floats
    effects: Floats
    root: Floats
    score: Floats
    cell_score: Floats
    curvature: Floats
    border: Floats
    cell_curvature: Floats
    sds: Floats
    unit: float
    left: Floats
    rows: float
    square: float
    square_sd: float
    scale: float
    scaled: bool
    spread: bool
    quadratic: bool
    prior_sd: float
    df: float
    noise_multiplier: float
    tempering: float = 1.0
    slope: int = 0
    slope_sd: float = 0.0
    slope_df: float = 0.0
    related: bool = True
    within: int = 0
    outer_sd: float = 0.0
    outer_df: float = 0.0
    averaged: Floats = field(default_factory=lambda: np.zeros(0))
    around: Floats = field(default_factory=lambda: np.zeros(0))
    earlier_precision: Floats = field(default_factory=lambda: np.zeros(0))
    times: Floats = field(default_factory=lambda: np.zeros(0))
    link: str = "identity"

    def moments(self) -> None:
        """Return None: moments of the covariates alone are not released."""
        return

    def levels(self) -> Floats:
        """Return (g,) predictors of a usual row of each group, where rows were evaluated."""
        return np.asarray(self.place @ self._usual() + self.effects[: self.size[1]])

    def _usual(self) -> Floats:
        """Return (d,), the covariates of a usual row."""
        means = -np.linalg.solve(self.root[1:, 1:].T, self.root[0, 1:])
        return np.concatenate((np.ones(1), np.asarray(means, np.float64)))

    def moves_for(self, variances: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Return moves of coefficients (d,) and effects (k g,), given other variances (g,).

        After them means of the response, averaged over predictors with these variances, are what
        they were. rows: (g,), curvatures. With a log link half the variance more stands for a
        predictor so much larger; with a logit link a predictor counts (1 + .346 v)^-.5 times.
        """
        coefficients, effects = (
            np.zeros(len(self.place)),
            np.zeros((self.per_group, len(variances))),
        )
        if self.link == "log":
            effects[0] = 0.5 * (self.averaged**2 - variances)
            return coefficients, effects.ravel()
        more = self._stretch(variances) - 1.0
        effects[:] = self.effects.reshape(effects.shape)
        effects[0] = self.levels()
        coefficients[1:] = float(more @ rows / rows.sum()) * self.place[1:]
        coefficients[0] = -self._usual()[1:] @ coefficients[1:]  # a usual row's is in its effect
        return coefficients, (more * effects).ravel()

    def _stretch(self, variances: Floats) -> Floats:
        """Return (g,), what multiplies predictors of a logit link for means to stay."""
        sizes = 1.0 + LOGISTIC_NORMAL * np.array([self.averaged**2, variances])
        return np.asarray(np.sqrt(sizes[1] / sizes[0]))

    def averaged_over(self, variances: Floats, rows: Floats) -> "Arrow":
        """Return the release as if means had been averaged over predictors of other variances (g,).

        rows: (g,), curvatures.
        """
        coefficients, effects = self.moves_for(variances, rows)
        moved = replace(
            self,
            place=self.place + coefficients,
            effects=self.effects + effects,
            averaged=np.sqrt(variances),
        )
        if self.link == "log":
            return moved
        less = 1.0 / self._stretch(variances)
        mean = float(less @ rows / rows.sum())
        return replace(
            moved,
            curvature=mean * self.curvature,
            border=np.tile(less, self.per_group) * self.border,
            cell_curvature=np.tile(less, len(self.cell_curvature) // len(less))
            * self.cell_curvature,
            sds=self.sds * np.array([1.0, 1.0, mean, mean, mean]),
        )

    def tangent(self, variances: Floats, times: Floats) -> "Arrow":
        """Return the release of a log link with means linear where groups are found to be.

        There a mean is times (g,) the one that was evaluated, is averaged over predictors of other
        variances (g,), and grows that much faster with its logarithm. The scores stay.
        """
        times = np.clip(times, 1.0 / MOST_TANGENT, MOST_TANGENT)
        at = np.log(times) + 0.5 * (self.averaged**2 - variances)
        effects = self.effects.reshape(self.per_group, -1).copy()
        effects[0] += at - 1.0 + 1.0 / times
        return replace(
            self,
            effects=effects.ravel(),
            around=self.levels() + at,
            averaged=np.sqrt(variances),
            times=times,
        )

    def squared(self, curve: "Curve", moves: Floats) -> float:
        """Return the quadratic form of moves (d + k g,) from where rows were evaluated.

        curve: of the release. With tangents a mean is 1 + step times the evaluated one.
        """
        if not len(self.times):
            return float(curve.of(moves))
        d, g = self.size
        usual = float(moves[0]) / self.unit
        steps = self.levels() + moves[d : d + g] + usual - self.around
        moves = moves.copy()
        moves[d : d + g] = self.times * (1.0 + steps) - 1.0 - usual
        return float(replace(self, times=np.zeros(0)).curvatures(1, None)[0].of(moves))

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of coefficients and of groups."""
        return len(self.place), len(self.effects) // self.per_group

    @property
    def per_group(self) -> int:
        """Number of effects of a group."""
        return 2 if self.slope else 1

    @property
    def turn(self) -> Floats:
        """Return (k, k): effects by the columns of the design are this times those by (1, t)."""
        kept = [0, self.slope][: self.per_group]
        return np.asarray(self.unit * self.root[kept][:, : self.per_group])

    @property
    def prior(self) -> Prior:
        """The prior of how much effects differ."""
        if self.within:
            sds, dfs = (self.outer_sd, self.prior_sd), (self.outer_df, self.df)
            return Prior(sds, dfs, False, self.within)
        scales = (self.prior_sd, self.slope_sd)[: self.per_group]
        return Prior(scales, (self.df, self.slope_df)[: self.per_group], self.related)

    def level_variance(self, law: Floats) -> float:
        """Return the variance of groups' effects on the level of a predictor, by their law (h,).

        Of groups within groups it is that within one, which other groups tell the mean of.
        """
        turn = np.linalg.inv(self.turn)
        return float((turn @ np.linalg.inv(self.prior.precisions(law[None])[0]) @ turn.T)[0, 0])

    def with_prior_of(self, number: int, scale: float, df: float) -> "Arrow":
        """Return the release with another half-t prior of an sd; half normal where df is 0.

        number: of the sd in the law of effects.
        """
        if self.within and number == 0:
            return replace(self, outer_sd=scale, outer_df=df)
        if self.slope and number == 1:
            return replace(self, slope_sd=scale, slope_df=df)
        return replace(self, prior_sd=scale, df=df)

    def seen_cells(self, i: int = 0, j: int = 0) -> tuple[Floats, float]:
        """Return an entry (g,) of groups' curvatures, pooled over what was released, and its sd.

        i, j: of effects, i <= j. The first k covariates have curvatures of groups as their border.
        """
        d, g = self.size
        of_groups = self.cell_curvature.reshape(-1, g)[i + j]  # of pairs (0, 0), (0, 1), (1, 1)
        border = self.border.reshape(d, self.per_group, g) * self.unit
        by_border = float(self.sds[3]) * self.unit
        numbers, sds = [of_groups, border[i, j]], [float(self.sds[4]), by_border]
        if i != j:
            numbers.append(border[j, i])
            sds = [sds[0] / math.sqrt(2.0), by_border, by_border]
        known = np.array(sds) ** -2.0
        return known / known.sum() @ np.array(numbers), float(known.sum() ** -0.5)

    def curvatures(self, count: int, random: RandomSource | None) -> "list[Curve]":
        """Return curvatures that the released numbers may come from.

        Where random is None they are about the mean of these.
        """
        d, k, g = len(self.place), self.per_group, self.size[1]
        times = self.times if len(self.times) else np.ones(g)
        drawn = self._cells(count, random)
        cells = times * drawn
        borders = np.empty((count, d, k, g))
        corners = np.zeros((count, d, d))
        borders[:, :k] = cells / self.unit
        corners[:, :k, :k] = cells.sum(axis=3) / self.unit**2
        if d > k:
            self._fill_others(corners, borders, drawn, times, random)
        return [
            Curve(*each)
            for each in zip(corners, borders.reshape(count, d, k * g), cells, strict=True)
        ]

    def _cells(self, count: int, random: RandomSource | None) -> Floats:
        """Return curvatures of groups (count, k, k, g), of which each is positive.

        Means of t within groups, and its variances there, are shrunk to those of all groups by how
        much they are seen to differ.
        """
        sizes = self._sizes(count, random)
        if self.per_group == 1:
            return sizes[:, None, None, :]
        shape, rows = sizes.shape, self.seen_cells()[0]
        known = max(float((rows**2).sum()), 1e-300)
        across, noise = self.seen_cells(0, 1)
        of_means = max(float((across**2).sum()) - len(across) * noise**2, 0.0) / known
        kept = _shrinkage(sizes**2 * of_means, noise)
        across = kept * across
        if random is not None:
            across = across + np.sqrt(kept) * noise * random.normals(shape)
        square, noise = self.seen_cells(1, 1)
        of_means = min(of_means, MOST_SPREAD)
        usual = float(square.sum() / sizes.mean(axis=0).sum()) - of_means
        usual = min(max(usual, LEAST_SPREAD), MOST_SPREAD)
        by_means = across**2 / sizes
        deviations = square - by_means - usual * sizes
        observed = square - across.mean(axis=0) ** 2 / sizes.mean(axis=0) - usual * rows
        variance = max(float((observed**2).sum()) - len(observed) * noise**2, 0.0) / known
        kept = _shrinkage(sizes**2 * variance, noise)
        within = usual * sizes + kept * deviations
        if random is not None:
            within = within + np.sqrt(kept) * noise * random.normals(shape)
        within = np.maximum(within, LEAST_WITHIN * usual * sizes)
        return np.array([[sizes, across], [across, within + by_means]]).transpose(2, 0, 1, 3)

    def _sizes(self, count: int, random: RandomSource | None) -> Floats:
        """Return (count, g) curvatures of groups: about their medians where random is None.

        Sizes have a log normal prior with their own mean and variance, as far as noise lets see it:
        it decides where noise hides a group.
        """
        noisy, noise = self.seen_cells()
        usual = max(float(self.curvature[0, 0]) * self.unit**2, noise) / len(noisy)
        variance = max(float(np.mean((noisy - usual) ** 2)) - noise * noise, 0.0)
        log_variance = WIDER * max(math.log1p(variance / usual**2), LEAST_WIDE)
        shape = (count, len(noisy))
        uniforms = np.full(shape, 0.5) if random is None else random.uniforms(shape)
        cells = noisy + noise * np.asarray(ndtri(np.clip(uniforms, 1e-12, 1.0 - 1e-12)))
        least = min(LEAST_ROWS * self.unit**2, LEAST_SDS * noise)
        grid = np.geomspace(least, 2.0 * HIDDEN_SDS * noise, SIZES)
        prior = -0.5 * (np.log(grid / usual) + 0.5 * log_variance) ** 2 / log_variance
        for k in np.flatnonzero(noisy < HIDDEN_SDS * noise):
            logs = -0.5 * ((grid - noisy[k]) / noise) ** 2 + prior
            ends = np.cumsum(np.exp(logs - logs.max()))
            at = np.searchsorted(ends, uniforms[:, k] * ends[-1])
            cells[:, k] = grid[np.minimum(at, SIZES - 1)]
        return cells

    def _fill_others(
        self,
        corner: Floats,
        borders: Floats,
        cells: Floats,
        times: Floats,
        random: RandomSource | None,
    ) -> None:
        """Fill in what corners and borders have of covariates beside the first k.

        Covariates of rows of a group have a line of their own in (1, t), so that no group's part is
        more than its rows can have, and what is left within groups is positive. cells: before
        times (g,) multiply them.
        """
        d, k, count, noise = len(self.place), self.per_group, len(corner), float(self.sds[3])
        border = self.border.reshape(d, k, -1)[k:]
        within = np.repeat(self.curvature[None, k:, k:], count, axis=0)
        if random is not None:
            blurred = random.normals(within.shape) * float(self.sds[2])
            within = within + 0.5 * (blurred + blurred.swapaxes(1, 2))
        alone, between = np.zeros(within.shape), np.zeros(within.shape)
        lean = cells[:, 0, -1] / cells[:, 0, 0]  # t beside 1, of each group; not used where k is 1
        for j in range(k):
            noisy, sizes, noises = border[:, j][None], cells[:, 0, 0], np.full(1, noise)
            if j:
                noisy = noisy - lean[:, None] * borders[:, k:, 0] / times
                noises = noise * np.hypot(1.0, lean)
                sizes = cells[:, 1, 1] - lean * cells[:, 0, 1]
            noises = np.broadcast_to(noises, sizes.shape)[:, None]
            squares = np.maximum((noisy**2 - noises**2).mean(axis=0).sum(axis=1), 0.0)
            apart = squares / max(float((sizes**2).mean(axis=0).sum()), 1e-300)
            kept = _shrinkage(sizes[:, None] ** 2 * apart[:, None], noises)
            drawn = kept * noisy
            if random is not None:
                drawn = drawn + np.sqrt(kept) * noises * random.normals(drawn.shape)
            alone = alone + np.einsum("cjg,cig,cg->cji", drawn, drawn, 1.0 / sizes)
            between = between + np.einsum("cjg,cig,cg->cji", drawn, drawn, times / sizes)
            borders[:, k:, j] = times * drawn + (lean[:, None] * borders[:, k:, 0] if j else 0.0)
        within = within - alone
        values, vectors = np.linalg.eigh(0.5 * (within + within.swapaxes(1, 2)))
        mean = (times * cells[:, 0, 0]).sum(axis=1) / cells[:, 0, 0].sum(axis=1)
        values = mean[:, None] * np.maximum(values, FLAT * self.rows)
        corner[:, k:, k:] = between + (vectors * values[:, None]) @ vectors.swapaxes(1, 2)
        across = borders[:, k:].sum(axis=3) / self.unit
        corner[:, k:, :k], corner[:, :k, k:] = across, across.swapaxes(1, 2)

    def noise(self, cells: Floats) -> Floats:
        """Return variances (d + k g,) of scores beyond the rows' own. cells: (k, k, g)."""
        first = np.full(len(self.place), self.sds[0] ** 2 + self.left[0] ** 2)
        second = self.sds[1] ** 2 + (self.left[1] * diagonal_of(cells)) ** 2
        return np.asarray(np.maximum(np.concatenate((first, second)), LEAST_NOISE))

    def usual_part(self, mean: Floats, precision: Floats) -> tuple[float, "Part"]:
        """Return the dispersion and the posterior given it and about the mean curvature.

        mean, precision: (d,) of the prior of coefficients. The dispersion is at least 1 where the
        scale of residuals is none of the parameters.
        """
        curve = self.curvatures(1, None)[0]
        part = Part.of(self, curve, 1.0, mean, precision)
        times = self._dispersion(part) if self.spread else 1.0
        times = times if self.scaled else max(times, 1.0)
        return times, part if times == 1.0 else Part.of(self, curve, times, mean, precision)

    def _dispersion(self, part: "Part") -> float:
        """Return observed over expected variance of scores. part: at a dispersion of 1."""
        moved, spread = part.moments(part.middle())
        explained = self.squared(part.curve, moved) + part.curve.against(spread)
        residual, noise = self.square - explained / self.rows, max(self.square_sd, 1e-12)
        # the mean of what is positive and was seen through noise
        away = residual / noise
        hazard = math.exp(-0.5 * away * away - float(log_ndtr(away))) / math.sqrt(2.0 * math.pi)
        return max(residual + noise * hazard, LEAST_LEFT * self.square, 1e-12)

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource) -> "GroupedMixture":
        """Return the posterior under normal priors of coefficients, (d,), or (d + 1,) with that of
        the log scale."""
        d, effects = len(self.place), len(self.effects)
        count = int(min(max(MIXTURE * (MANY / (d + effects)) ** 1.5, LEAST_MIXTURE), MIXTURE))
        prior = mean[:d], precision[:d]
        times, usual = self.usual_part(*prior)
        parts = tuple(
            Part.of(self, curve, times, *prior, usual.laws)
            for curve in self.curvatures(count, random)
        )
        last = (float(mean[d]), float(precision[d])) if self.scaled else None
        return GroupedMixture(self, parts, last, random)


def _shrinkage(spread: Floats, noise: Any) -> Floats:
    """Return what is kept of numbers that noise hides. spread: their variances without it."""
    return np.asarray(spread / (spread + noise**2))


def diagonal_of(cells: Floats) -> Floats:
    """Return (k g,) of blocks (k, k, g)."""
    return np.asarray(np.einsum("iig->ig", cells).ravel())


@dataclass(frozen=True, slots=True)
class Curve:
    """An arrow-shaped matrix: of a curvature all entries, of a covariance those that are read.

    corner: (d, d) of coefficients. border: (d, k g) of these and effects. cells: (k, k, g) of those
    of each group.
    """

    corner: Floats
    border: Floats
    cells: Floats

    @property
    def diagonal(self) -> Floats:
        """Return (d + k g,)."""
        return np.concatenate((np.diag(self.corner), diagonal_of(self.cells)))

    def of(self, moves: Floats) -> Any:
        """Return (...,) what a quadratic with this curvature is at moves (..., d + k g)."""
        d = len(self.corner)
        first, last = moves[..., :d], moves[..., d:]
        across = ((first @ self.border) * last).sum(axis=-1)
        alone = ((first @ self.corner) * first).sum(axis=-1)
        return alone + 2.0 * across + (by_blocks(self.cells, last) * last).sum(axis=-1)

    def against(self, covariance: "Curve") -> float:
        """Return the expected quadratic form over moves with this covariance."""
        squares, border = (self.corner * covariance.corner).sum(), self.border * covariance.border
        return float(squares + 2.0 * border.sum() + (self.cells * covariance.cells).sum())


def predictor_variances(covariance: Curve, unit: float) -> Floats:
    """Return posterior variances (g,) of the predictor of a usual row of each group. unit: of the
    first u."""
    k, _, g = covariance.cells.shape
    variances = np.zeros(g)
    for j in range(k):  # 1 and t, whose mean is 0 and whose mean square is 1
        variances += covariance.cells[j, j] + covariance.corner[j, j] / unit**2
        variances += 2.0 * covariance.border[j, j * g : (j + 1) * g] / unit
    return np.asarray(np.maximum(variances, 0.0))


class Effects:
    """Normals of effects (k g,) whose precision is diagonal by groups but for a few directions.

    It is q + rows^T core rows, q (k, k, g), rows (r, k g), core (r, r) symmetric: a positive
    matrix, though core need not be one. Of groups within groups (k is 1), whose outer groups'
    effects are integrated out, it is that less a part along the mean of each outer group. left:
    (outer,), what that leaves of 1 along it, q scaled to 1.
    """

    def __init__(self, q: Floats, rows: Floats, core: Floats, left: Floats | None = None) -> None:
        self._roots = roots(inverse(q))
        self._means, self._more = np.zeros((0, 0)), np.zeros(0)
        if left is not None:
            means = self._roots.reshape(len(left), -1)
            self._means = means / np.linalg.norm(means, axis=1, keepdims=True)
            self._more = left**-0.5 - 1.0
        ways, sizes = np.linalg.qr(self._back(rows).T)
        values, turned = np.linalg.eigh(sizes @ core @ sizes.T)
        self._ways = ways @ turned
        self._kept = 1.0 / np.maximum(1.0 + values, LEAST_KEPT)

    def _back(self, values: Floats) -> Floats:
        """Return the transposed roots times values (..., k g)."""
        return self._with_means(by_blocks(self._roots.swapaxes(0, 1), values))

    def _front(self, values: Floats) -> Floats:
        """Return the roots times values (..., k g)."""
        return by_blocks(self._roots, self._with_means(values))

    def _with_means(self, values: Floats) -> Floats:
        """Return values (..., k g), stretched along the mean of each outer group."""
        if not len(self._more):
            return values
        apart = values.reshape(*values.shape[:-1], *self._means.shape)
        along = self._more * (apart * self._means).sum(axis=-1)
        return np.asarray((apart + along[..., None] * self._means).reshape(values.shape))

    def solved(self, pulled: Floats) -> Floats:
        """Return (..., k g): covariance times pulled (..., k g)."""
        whitened = self._back(pulled)
        along = (whitened @ self._ways) * (self._kept - 1.0)
        return self._front(whitened + along @ self._ways.T)

    def drawn(self, normals: Floats) -> Floats:
        """Return draws (..., k g) around 0, of standard normals (..., k g)."""
        along = (normals @ self._ways) * (np.sqrt(self._kept) - 1.0)
        return self._front(normals + along @ self._ways.T)

    @property
    def covariances(self) -> Floats:
        """Return (k, k, g), of the effects of each group."""
        k, _, g = self._roots.shape
        if len(self._more):
            alone = self._roots.ravel() ** 2
            stretched = 1.0 + ((2.0 + self._more) * self._more)[:, None] * self._means**2
            low = (self._kept - 1.0) @ self._front(self._ways.T) ** 2
            return np.maximum(alone * stretched.ravel() + low, LEAST_KEPT * alone)[None, None]
        ways = self._ways.reshape(k, g, -1)
        inner = np.einsum("igr,jgr,r->ijg", ways, ways, self._kept - 1.0)
        inner = inner + np.eye(k)[:, :, None]
        if k == 1:
            inner = np.maximum(inner, LEAST_KEPT)
        return np.asarray(np.einsum("iag,abg,jbg->ijg", self._roots, inner, self._roots))


@dataclass(frozen=True, slots=True)
class Part:
    """The posterior given one curvature, stored in g d^2 numbers.

    Coefficients u and effects have the precision J (t J + S)^-1 J by the likelihood, J the
    curvature, an arrow, and S diagonal: an arrow as well but for d directions. curve: J. first:
    (d, d) and across: (d, k g) of it; inner: the former with the prior of coefficients. own: (k, k,
    g) of effects but for tilted^T known tilted, (d, k g) and (d, d). pulled: (d,) and (k g,),
    precision times means, of u and moves of effects. turned: (k g,), what is left of it where
    coefficients are integrated out, for effects. laws, weights: of effects, by their sds, and their
    probabilities.
    """

    arrow: Arrow
    curve: Curve
    first: Floats
    across: Floats
    inner: Floats
    own: Floats
    tilted: Floats
    known: Floats
    pulled: Floats
    turned: Floats
    laws: Laws
    weights: Floats

    @classmethod
    def of(
        cls,
        arrow: Arrow,
        curve: Curve,
        times: float,
        mean: Floats,
        precision: Floats,
        laws: Laws | None = None,
    ) -> "Part":
        """Return it. times: by how much scores vary more than the curvature says. mean, precision:
        (d,) of coefficients. laws: that are tried; those that this curvature tells, where None."""
        d, power = len(arrow.place), arrow.tempering
        noise, cells = arrow.noise(curve.cells), curve.cells
        blurred = np.eye(arrow.per_group)[:, :, None] * noise[d:].reshape(arrow.per_group, 1, -1)
        apart = inverse(times * cells + blurred)
        scaled = by_blocks(apart, curve.border)
        lean = times * scaled
        schur = times * curve.corner + np.diag(noise[:d]) - times * lean @ curve.border.T
        known: Floats = np.asarray(np.linalg.inv(0.5 * (schur + schur.T)), np.float64)
        rest = curve.corner - curve.border @ lean.T
        tilted = scaled * noise[d:]
        first = scaled @ curve.border.T + rest @ known @ rest.T
        across = by_blocks(cells, scaled) + rest @ known @ tilted
        own = np.einsum("iag,abg,bjg->ijg", cells, apart, cells)
        # J K^-1 score, K^-1 being diag(0, apart) and a part of rank d
        solved = known @ (arrow.score - lean @ arrow.cell_score)
        pulled = np.concatenate(
            (
                scaled @ arrow.cell_score + rest @ solved,
                by_blocks(cells, by_blocks(apart, arrow.cell_score)) + solved @ tilted,
            )
        )
        prior, pull = prior_by(arrow.root, arrow.place, mean, precision)
        inner = 0.5 * power * (first + first.T) + prior
        pulled = power * pulled
        pulled[:d] += pull
        part = cls(
            arrow, curve, power * first, power * across, inner, power * own, tilted,
            power * known, pulled, pulled[d:], laws_of_one(arrow.prior), np.zeros(0),
        )  # fmt: skip
        moves: Floats = np.asarray(np.linalg.solve(inner, pulled[:d]), np.float64)
        turned = part.pull_given(moves[None])[0]
        turned = turned - part.across.T @ np.linalg.solve(inner, part.across @ arrow.effects)
        part = replace(part, turned=turned)
        if laws is None:
            alone = len(arrow.prior.scales) == 1
            laws = part.laws if alone else laws_near(arrow.prior, part.log_likelihoods)
        weights = laws.weighed(part.log_likelihoods(laws.values))
        return replace(part, laws=laws, weights=weights)

    def pull_given(self, moves: Floats) -> Floats:
        """Return (n, k g): precision times means of effects given moves of coefficients (n, d)."""
        pulled = self.pulled[len(self.arrow.place) :]
        return np.asarray(pulled - moves @ self.across + self._by_precision(self.arrow.effects))

    def _by_precision(self, effects: Floats) -> Floats:
        """Return (k g,): the precision of effects by rows times effects (k g,)."""
        return by_blocks(self.own, effects) + (self.known @ (self.tilted @ effects)) @ self.tilted

    def _directions(self) -> tuple[Floats, Floats]:
        """Return rows (2 d, k g) and core (2 d, 2 d): the precision of effects beside its diagonal,
        coefficients integrated out."""
        d = len(self.arrow.place)
        core = np.zeros((2 * d, 2 * d))
        core[:d, :d], core[d:, d:] = self.known, -np.linalg.inv(self.inner)
        return np.concatenate((self.tilted, self.across)), core

    def _law_precisions(self, laws: Floats) -> Floats:
        """Return (n, k, k), precisions of effects by (1, t), of laws (n, h)."""
        turn = self.arrow.turn
        return np.asarray(turn.T @ self.arrow.prior.precisions(laws) @ turn)

    def of_effects(self, law: Floats, *, coefficients: bool = False) -> Effects:
        """Return effects' normals given their law (h,). coefficients: whether given these too."""
        rows, core = (self.tilted, self.known) if coefficients else self._directions()
        held = self._law_precisions(law[None])
        q = self.own + held[0][:, :, None]
        if not self.arrow.within:
            return Effects(q, rows, core)
        return Effects(q, rows, core, self._left_of_means(law[None], 1.0 / q[0])[0])

    def _left_of_means(self, laws: Floats, variances: Floats) -> Floats:
        """Return (n, outer): what is left of a precision along the mean of each outer group.

        variances: (n, g) of effects given those of outer groups, by laws (n, h). Written so that
        nothing cancels where outer groups differ far more than those within them.
        """
        share, within = self.arrow.prior.left_of_means(laws)[:, None], self.arrow.within
        by_rows = (self.own[0, 0] * variances).reshape(len(laws), -1, within).mean(axis=2)
        return np.asarray(share + (1.0 - share) * by_rows)

    def log_likelihoods(self, laws: Floats) -> Floats:
        """Return (n,) of laws of effects (n, h), effects and coefficients integrated out."""
        each = max(AT_ONCE // self.own.size, 1)
        with np.errstate(invalid="ignore"):  # -inf - -inf, of laws that no rows tell apart
            parts = [self._logs(laws[k : k + each]) for k in range(0, len(laws), each)]
        logs = np.concatenate(parts)  # answers that no rows give may leave none
        return np.where(np.isfinite(logs), logs, NO_LIKELIHOOD)

    def _logs(self, laws: Floats) -> Floats:
        """Return (n,) log likelihoods of laws (n, h), up to a constant; some may be no number."""
        rows, core = self._directions()
        (r, _), (k, _, g) = rows.shape, self.own.shape
        held = self._law_precisions(laws)
        variances = inverse(np.moveaxis(self.own + held[..., None], 0, 2))  # (k, k, n, g)
        first, second = np.triu_indices(r)
        apart = rows.reshape(r, k, g)
        sums = np.zeros((len(laws), len(first)))
        pulled = np.zeros((len(laws), k, g))
        for i in range(k):
            for j in range(k):
                sums += variances[i, j] @ (apart[first, i] * apart[second, j]).T
                pulled[:, i] += variances[i, j] * self.turned[j * g : (j + 1) * g]
        of_means = 0.0
        if self.arrow.within:
            left_of_means = self._left_of_means(laws, variances[0, 0])
            share = self.arrow.prior.left_of_means(laws)
            shared = (held[:, 0, 0] * (1.0 - share) / self.arrow.within)[:, None] / left_of_means
            cut = (len(laws), -1, self.arrow.within)
            along = np.stack(
                [(variances[0, 0] * row).reshape(cut).sum(axis=2) for row in rows], axis=1
            )  # (n, r, outer)
            sums += ((along * shared[:, None]) @ along.swapaxes(1, 2))[:, first, second]
            means = shared * pulled.reshape(cut).sum(axis=2)
            pulled[:, 0] += variances[0, 0] * np.repeat(means, self.arrow.within, axis=1)
            of_means = left_of_means.shape[1] * np.log(share) - np.log(left_of_means).sum(axis=1)
        where = np.zeros((r, r), np.int64)
        where[first, second] = where[second, first] = np.arange(len(first))
        inside = np.eye(r) + core @ sums[:, where]
        sizes_inside = np.linalg.slogdet(inside)[1]
        inside[~np.isfinite(sizes_inside)] = np.eye(r)  # where noise leaves nothing to invert
        flat = pulled.reshape(len(laws), -1)
        across = flat @ rows.T
        by_coefficients = (across[:, None] @ np.linalg.solve(inside, core @ across[..., None]))[
            :, 0, 0
        ]
        sizes = log_sizes(variances).sum(axis=1) + of_means
        sizes = sizes + g * np.linalg.slogdet(held)[1] - sizes_inside
        return np.asarray(0.5 * (flat @ self.turned - by_coefficients + sizes))

    def middle(self) -> Floats:
        """Return the posterior mean (h,) of the law of effects."""
        return np.asarray(self.weights @ self.laws.values)

    def moments(self, law: Floats) -> tuple[Floats, Curve]:
        """Return mean (d + k g,) of moves from where rows were evaluated, and what is read of their
        covariance."""
        normals = self.of_effects(law)
        covariance = self._covariance(normals)
        return self.under(normals, covariance)._mean(normals), covariance

    def _mean(self, normals: Effects) -> Floats:
        """Return (d + k g,), of moves from where rows were evaluated."""
        effects = normals.solved(self.turned) - self.arrow.effects
        pulled = self.pulled[: len(self.arrow.place)] - self.across @ effects
        return np.concatenate((np.linalg.solve(self.inner, pulled), effects))

    def _covariance(self, normals: Effects) -> Curve:
        """Return what is read of the covariance of moves."""
        back = np.linalg.inv(self.inner)
        through = back @ self.across
        border = -normals.solved(through)
        return Curve(back - border @ through.T, border, normals.covariances)

    def under(self, normals: Effects, covariance: Curve | None = None) -> "Part":
        """Return the posterior given a law of effects, by the variances of predictors under it.

        These differ from those that means of the response were averaged over. normals: of effects
        given that law. covariance: of moves under it, where it is at hand.
        """
        if not len(self.arrow.averaged):
            return self
        covariance = self._covariance(normals) if covariance is None else covariance
        variances = self._variances(normals, covariance)
        moves, effects = self.arrow.moves_for(variances, self.curve.cells[0, 0])
        moves = np.asarray(np.linalg.solve(self.arrow.root, moves), np.float64)
        first = self.first @ moves + self.across @ effects
        last = moves @ self.across + self._by_precision(effects)
        turned = last - self.across.T @ np.linalg.solve(self.inner, first)
        pulled = self.pulled + np.concatenate((first, last))
        return replace(self, pulled=pulled, turned=self.turned + turned)

    def _variances(self, normals: Effects, covariance: Curve) -> Floats:
        """Return (g,) mean squares of usual rows' predictors about `around`.

        Rows were evaluated where an earlier release found groups, so that these are closer to it
        than what is released of them there says alone.
        With a log link a step x of a predictor stands for one of log(1 + x); a variance of 2 x - 2
        log(1 + x), about x^2 where x is small, makes up for it.
        """
        arrow, move = self.arrow, self._mean(normals)
        d, g = arrow.size
        step = move[d : d + g] + move[0] / arrow.unit
        if arrow.link == "log":
            step = np.maximum(arrow.levels() + step - arrow.around, LEAST_STEP)
            away = 2.0 * (step - np.log1p(step))
            variances = predictor_variances(covariance, arrow.unit) + away
            return np.asarray(np.minimum(variances, MOST_AVERAGED[arrow.link]))
        own = np.maximum(predictor_variances(covariance, arrow.unit), 1e-12)
        kept = 1.0 / (1.0 + own * arrow.earlier_precision) if len(arrow.earlier_precision) else 1.0
        variances = kept * own + (kept * (arrow.levels() + step - arrow.around)) ** 2
        return np.asarray(np.minimum(variances, MOST_AVERAGED[arrow.link]))

    def _some_laws(self) -> list[Effects]:
        """Return normals of effects given laws, evenly over their posterior."""
        levels = (np.arange(LAWS) + 0.5) / LAWS
        at = np.searchsorted(np.cumsum(self.weights[:-1]), levels)
        return [self.of_effects(self.laws.values[int(k)]) for k in at]

    def variances(self) -> Floats:
        """Return (g,) of predictors, averaged over the posterior of the law of effects."""
        every = [self._variances(n, self._covariance(n)) for n in self._some_laws()]
        return np.asarray(np.mean(every, axis=0))

    def tangents(self) -> tuple[Floats, Floats]:
        """Return variances (g,) of predictors and means over those that were evaluated, averaged
        over the posterior of the law of effects. Of a log link: see Arrow.tangent."""
        arrow, variances, steps = self.arrow, [], []
        d, g = arrow.size
        for normals in self._some_laws():
            move = self._mean(normals)
            step = move[d : d + g] + move[0] / arrow.unit
            variances.append(predictor_variances(self._covariance(normals), arrow.unit))
            steps.append(np.maximum(arrow.levels() + step - arrow.around, LEAST_STEP))
        times = arrow.times if len(arrow.times) else 1.0
        wide = np.minimum(np.mean(variances, axis=0), MOST_AVERAGED[arrow.link])
        return np.asarray(wide), np.asarray(times * (1.0 + np.mean(steps, axis=0)))

    def draws(self, count: int, random: RandomSource) -> tuple[Floats, Floats, Floats]:
        """Return moves of u (n, d), effects (n, k g) and their laws (n, h).

        Effects are drawn given the middle of the step of the grid that their law is in.
        """
        arrow, d = self.arrow, len(self.arrow.place)
        at, laws = self.laws.drawn(self.weights, count, random)
        effects = random.normals((count, len(arrow.effects)))
        pulled = np.empty((count, d))
        for k in np.unique(at):
            normals, mask = self.of_effects(self.laws.values[k]), at == k
            part = self.under(normals)
            effects[mask] = normals.solved(part.turned) + normals.drawn(effects[mask])
            pulled[mask] = part.pulled[:d]
        back = np.linalg.inv(self.inner)
        root = np.linalg.cholesky(0.5 * (back + back.T))
        middle = pulled - (effects - arrow.effects) @ self.across.T
        moves = middle @ back + random.normals((count, d)) @ root.T
        return moves, effects, laws


@dataclass(frozen=True, slots=True)
class GroupedMixture:
    """A posterior, an even mixture. parts: one for each drawn curvature."""

    release: Arrow
    of: tuple[Part, ...]
    last: tuple[float, float] | None
    random: RandomSource

    def parts(self) -> tuple[Floats, Floats]:
        """Return (means (k, d), roots (k, d, d)) of coefficients, each given a law of effects."""
        means, roots = [], []
        for part, law in self._parts_with_laws():
            mean, spread = part.moments(law)
            d = len(self.release.place)
            means.append(self.release.place + self.release.root @ mean[:d])
            half = np.linalg.cholesky(0.5 * (spread.corner + spread.corner.T))
            roots.append(self.release.root @ half)
        return np.array(means), np.array(roots)

    def _parts_with_laws(self) -> list[tuple[Part, Floats]]:
        """Return parts with laws of effects, evenly over their posterior: the same in each call."""
        each = -(-PARTS // len(self.of))
        levels = (np.arange(each) + 0.5) / each
        return [
            (part, part.laws.values[int(k)])
            for part in self.of
            for k in np.searchsorted(np.cumsum(part.weights[:-1]), levels)
        ]

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, p): coefficients, perhaps the log scale, the
        law of effects and the effects."""
        count = chains * length
        which = np.sort(random.integers(len(self.of), (count,)))
        out = []
        for k, part in enumerate(self.of):
            number = int((which == k).sum())
            if number:
                moves, effects, laws = part.draws(number, random)
                out.append(self._positions(part, moves, effects, laws, random))
        drawn = np.concatenate(out)[np.argsort(random.uniforms((count,)))]
        return drawn.reshape(chains, length, -1)

    def completed(self, coefficients: Floats, which: Any, random: RandomSource) -> Floats:
        """Return positions (n, p), completing coefficients (n, d) of the parts of `parts`."""
        release, every = self.release, self._parts_with_laws()
        which, d = np.asarray(which), len(self.release.place)
        out: Floats | None = None
        moves = np.linalg.solve(release.root, (coefficients - release.place).T).T
        for k in np.unique(which):
            (part, law), mask = every[int(k)], which == k
            normals = part.of_effects(law, coefficients=True)
            averaged = part.under(part.of_effects(law))
            effects = normals.solved(averaged.pull_given(moves[mask]))
            effects = effects + normals.drawn(random.normals(effects.shape))
            laws = np.repeat(law[None], len(effects), axis=0)
            rows = self._positions(part, moves[mask], effects, laws, random)
            out = np.empty((len(coefficients), rows.shape[1])) if out is None else out
            out[mask] = rows
        return np.zeros((0, d)) if out is None else out

    def _positions(
        self, part: Part, moves: Floats, effects: Floats, laws: Floats, random: RandomSource
    ) -> Floats:
        """Return positions (n, p) from moves of u (n, d), effects and sds."""
        release = self.release
        columns = [release.place + moves @ release.root.T]
        if self.last is not None:
            away = np.concatenate((moves, effects - release.effects), axis=1)
            columns.append(self._log_scales(part, away, random)[:, None])
        turned = release.turn @ effects.reshape(len(effects), release.per_group, -1)
        turned = turned.reshape(effects.shape)
        if release.within:
            turned = _split_effects(turned, laws, release, random)
        return np.concatenate((*columns, laws, turned), axis=1)

    def _log_scales(self, part: Part, away: Floats, random: RandomSource) -> Floats:
        """Return log scales (n,) from the mean square, minus what the move explains.

        away: (n, p) of where rows were evaluated.
        """
        release, (mean, precision) = self.release, self.last or (0.0, 1.0)
        explained = part.curve.of(away) / release.rows
        residual = np.maximum(release.square - explained, max(LEAST_LEFT * release.square, 1e-12))
        logs = 0.5 * np.log(residual) + math.log(release.scale)
        variance = 0.5 / release.rows + (0.5 * release.square_sd / float(residual.mean())) ** 2
        kept = 1.0 / (1.0 + variance * precision)
        normals = random.normals((len(logs),))
        return np.asarray(kept * logs + (1 - kept) * mean + math.sqrt(variance * kept) * normals)


def _split_effects(effects: Floats, laws: Floats, arrow: Arrow, random: RandomSource) -> Floats:
    """Return draws (n, outer + g) of the effects of outer groups, and of groups within these.

    effects: (n, g) of both together, which rows tell. laws: (n, 2).
    """
    cells = effects.reshape(len(effects), -1, arrow.within)
    share = arrow.prior.left_of_means(laws)[:, None]
    sd = laws[:, :1] * np.sqrt(share)
    outer = (1.0 - share) * cells.mean(axis=2)
    outer = outer + sd * random.normals(outer.shape)
    return np.concatenate((outer, (cells - outer[:, :, None]).reshape(effects.shape)), axis=1)


def judge(arrow: Arrow, prior: tuple[Floats, Floats] | None) -> Judged:
    """Return the verdict, from released numbers alone. prior: of the job; flat where None."""
    d, g = arrow.size
    mean, precision = (arrow.place, np.full(d, 1e-12)) if prior is None else prior
    mean, precision = mean[:d], precision[:d]
    times, part = arrow.usual_part(mean, precision)
    curve = part.curve
    law = part.middle()
    step, spread = part.moments(law)
    rows_own = times * curve.diagonal
    noise = arrow.noise(curve.cells)
    alone = replace(arrow, sds=0.0 * arrow.sds, left=0.0 * arrow.left)
    without = Part.of(alone, curve, times, mean, precision, part.laws).moments(law)[1]
    share = float(np.mean(1.0 - np.minimum(without.diagonal / spread.diagonal, 1.0)))
    turn = np.linalg.inv(arrow.turn)
    differ = np.diag(turn @ np.linalg.inv(arrow.prior.precisions(law[None])[0]) @ turn.T)
    cells = diagonal_of(curve.cells)
    known = (cells**2 / (times * cells + noise[d:])).reshape(arrow.per_group, g)
    stands = known * differ[:, None] >= 1.0
    sizes, sd = arrow.seen_cells()
    hidden = g - int((stands[0] & (sizes >= CLEAR * sd)).sum())
    flat = int((~stands[1]).sum()) if arrow.slope else 0
    unseen = ""
    if arrow.within:
        unseen = unseen_of_nested(known[0], differ[0] * (law / law[1]) ** 2, arrow.within)
    elif g - hidden < min(LEAST_SEEN, max(g - 1, 2)):  # one group alone differs from nothing
        unseen = (
            f"{g - hidden} of {g} groups stand out of the noise, which tells nothing of how much"
            " groups differ"
        )
    fault, sentence, more = _fault(arrow, curve, step, rows_own, unseen)
    return Judged(not fault, share, sentence, fault, more, "; ".join(_notes(arrow, hidden, flat)))


def _notes(arrow: Arrow, hidden: int, flat: int) -> Iterator[str]:
    """Yield notes on groups that noise hides, and on those whose slopes it hides (flat)."""
    d, g = arrow.size
    if hidden:
        note = (
            f"{hidden} of {g} groups have too few rows beside the noise: they are shrunk to the"
            f" mean of {'their outer group' if arrow.within else 'all'}"
        )
        if d > 1 and hidden >= MANY_HIDDEN * g:
            note += (
                ", and where groups and covariates go together, coefficients are nearer to those of"
                " a model without groups"
            )
        yield note
    if flat:
        yield f"slopes of {flat} of {g} groups are told by their prior more than by their rows"


def unseen_of_nested(known: Floats, differ: Floats, within: int) -> str:
    """Return a sentence where an sd of groups within groups is not told by rows; else nothing.

    known: (g,) precisions of effects by rows. differ: (2,) variances of the effects of outer groups
    and of groups within one.
    """
    outer, inner = (float(part) for part in differ)
    of_means = (known / (1.0 + known * inner)).reshape(-1, within).sum(axis=1)
    for each, variance, who in (
        (of_means, outer, "outer groups"),
        (known, inner, "groups within outer ones"),
    ):
        effective = float(((each * variance / (1.0 + each * variance)) ** 2).sum())
        if effective < OF_ONE_SEEN * min(LEAST_SEEN, len(each) - 1):
            return (
                f"{who} do not stand out of the noise, which tells nothing of how much they differ"
            )
    return ""


def _fault(
    arrow: Arrow, curve: "Curve", step: Floats, variances: Floats, unseen: str
) -> tuple[Fault, str, float | None]:
    """Return the kind of problem, a sentence, and the noise precision factor that would mend it.

    step: (p,), from where rows were evaluated last. variances: (p,) of scores of rows. unseen: a
    sentence where they do not tell how much groups differ.
    """
    d = arrow.size[0]
    change = math.sqrt(max(arrow.squared(curve, step), 0.0) / arrow.rows)
    if not arrow.quadratic and change > MAX_LAST_STEP:
        return "place", "the last Newton step was long: where the posterior is was not found", None
    blur = largest_noise(d, float(arrow.sds[2])) / max(arrow.rows, 1.0)
    if blur > MAX_CURVATURE_NOISE:
        sentence = "rows do not stand out of the noise of the curvature"
        return "noise", sentence, blur / MAX_CURVATURE_NOISE
    if unseen:
        return "noise", unseen, None
    known = float(np.mean(variances[:d])) + float(arrow.sds[0]) ** 2
    bias = float(arrow.left[0]) / math.sqrt(known)
    if bias > MAX_LEFT:
        return "skewed", "clips may have moved coefficients by more than the intervals say", None
    return "", "", None
