"""The stored release of `noisy_quadratic`: a noisy quadratic log likelihood, and its posteriors.

All of it is a function of released numbers: posteriors under any normal prior, any number of draws,
and a verdict. Nothing here reads a row or costs anything.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, polygamma

from dpmcmc.families.scores.base import TINY
from dpmcmc.formula.cuts import spread_out
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.mechanisms.sums import largest_noise
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import categories, far_columns, ordered, scales, shares
from dpmcmc.releases.base import Record
from dpmcmc.releases.categories import eigen, even, roots_of, turned, within
from dpmcmc.releases.hierarchy import Curves
from dpmcmc.releases.quadratic_steps import MIN_WEIGHT_CUT, shrunk
from dpmcmc.releases.whitening import Whitening

# Whether the two near looks of a release agree, and what follows where they do not.
#
# A look tells the score at its place, and by the curvature the score elsewhere. Where few rows
# carry a direction the first look may lie so far out that its score is no line up to the second
# one. What the last look says then stands alone, with its own noise.
SURPRISING = 0.005  # probability of such a difference of two scores by noise alone
SPARSE_DIRECTION_RATIO = 0.5  # of the usual curvature, where a direction is carried by few rows
CLEAR_SCORE_SDS = 2.0  # sds of noise, beyond which a score says that the place lies further on


class Looks(Protocol):
    """The fields of a stored release that compare its two near iterates: see Quadratic."""

    @property
    def root(self) -> Floats:
        """Coordinates (p, p)."""

    @property
    def score(self) -> Floats:
        """Both iterates' scores, pooled (p,)."""

    @property
    def score_sd(self) -> float:
        """Sd of the noise of `score`."""

    def unsure(self) -> Floats:
        """Covariance (p, p) of the noise of `score`, with the bias that clips may leave in it."""

    @property
    def curvature(self) -> Floats:
        """Both iterates' curvatures, pooled (p, p)."""

    @property
    def curvature_sd(self) -> float:
        """Sd of the noise of `curvature`."""

    @property
    def places(self) -> Floats:
        """The expansion points (2, p) of the two iterates."""

    @property
    def scores(self) -> Floats:
        """The scores (2, p) of the two iterates."""

    @property
    def score_sds(self) -> Floats:
        """Sds (2,) of the noise of `scores`."""

    @property
    def scaled(self) -> bool:
        """Whether a log scale is a parameter."""

    @property
    def robust(self) -> bool:
        """Whether rows are weighted down."""


def compared(looks: Looks) -> tuple[Floats, Floats, float]:
    """Return step (p,), difference of scores beyond it (p,), and its variance by noise."""
    step = np.linalg.solve(looks.root, looks.places[1] - looks.places[0])
    turned = looks.scores[1] - looks.scores[0] + looks.curvature @ step
    allowed = float((looks.score_sds**2).sum()) + looks.curvature_sd**2 * float(step @ step)
    return step, turned, allowed


def unmoved(looks: Looks, vectors: Floats) -> NDArray[np.bool_]:
    """Return (p,) in which eigenvectors the last score still exceeds its noise.

    Only of those that few rows carry, in which the place may still be far off.
    """
    sizes = np.einsum("pk,pq,qk->k", vectors, looks.curvature, vectors)
    step, turned, allowed = compared(looks)
    turned, moved, pull = vectors.T @ turned, vectors.T @ step, vectors.T @ looks.scores[1]
    on = (pull * moved > 0.0) & (turned * moved > 0.0)
    on &= (np.abs(turned) > CLEAR_SCORE_SDS * allowed**0.5) & few(sizes)
    return np.asarray(on & (np.abs(pull) > CLEAR_SCORE_SDS * looks.score_sds[1]))


def parted(looks: Looks, vectors: Floats) -> NDArray[np.bool_]:
    """Return (p,) in which eigenvectors the iterates differ by more than noise.

    Where rows are weighted down only those count that few rows carry; none does where the looks
    have scales of their own.
    """
    sizes = np.einsum("pk,pq,qk->k", vectors, looks.curvature, vectors)
    _, turned, allowed = compared(looks)
    surprise = (vectors.T @ turned) ** 2 / max(allowed, TINY)
    apart = (surprise > chdtri(1, SURPRISING / len(sizes))) & (few(sizes) | (not looks.robust))
    return np.asarray(apart & ~unmoved(looks, vectors) & (not looks.scaled))


def agreed(looks: Looks) -> tuple[Floats, Floats]:
    """Return the score (p,) at the pooled expansion point, and its noise covariance (p, p).

    In directions in which the first look is parted from the last one, they are those of the last
    alone.
    """
    vectors = np.linalg.eigh(looks.curvature)[1]
    apart, noise = vectors[:, parted(looks, vectors)], looks.unsure()
    if not apart.shape[1]:
        return looks.score, noise
    first, last = looks.score_sds**2
    turned = compared(looks)[1]
    score = looks.score + last / (first + last) * apart @ (apart.T @ turned)
    return score, noise + (last - looks.score_sd**2) * apart @ apart.T


def few(sizes: Floats) -> NDArray[np.bool_]:
    """Return (p,) whether a direction's curvature is so small that few rows may carry it."""
    return np.asarray(sizes < SPARSE_DIRECTION_RATIO * np.median(sizes))


SDS = 4  # draws of the sds of smooths for each curvature
MIXTURE, LEAST_MIXTURE, MANY = 400, 60, 20  # curvatures that draws are mixed over; fewer for many
FLAT, LEAST_PART = 1e-3, 0.02  # of the mean curvature; of the curvature that is a score's variance
# of a squared scale, that is left when the distance to the mean is taken off
MIN_SQUARE_LEFT = 0.02
HIDING_NOISE = 0.5  # of a log scale, from which on its square is not above its noise
MIN_CURVATURE_LEFT = 0.1  # of a curvature that is told too steep
LEAST_FREE = 0.1  # degrees of freedom of a scale that rows say nothing of
SURE = 1e-12  # of a largest eigenvalue: what is left of one that was taken off
LEAST_INFLATION, MOST_INFLATION = 0.75, 1e6  # of a score's variance, by what no model expects
# of a curvature, that a prior's precision is, from which the score's variance is the model's
RULING = 0.1
FEW_ROWS = 100.0  # a coefficient, of which the spread of scores tells no variance: one may be most
# events that carry a direction, of which it tells none either: cover .80 of coefficients of 13
FEW_EVENTS = 100.0
MIN_WEIGHT = 0.05  # mean weight of a row, for what noise says is less


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic(Record):
    """A stored release.

    place: (p,), around which the rest is. root: (p, p), place + root @ u are coefficients; all
    that follows is by u. score, score_sd: gradient of the log likelihood at place and sd of its
    noise. curvature, curvature_sd: (p, p), minus its slope. noise, noise_sd: (p, p), the score's
    variance under the model. whitening and what begins so: see Whitening.
    places: (2, p), of the near iterates; scores: (2, p), score_sds: (2,) of them. scales, taus,
    tau_sds, cuts: (2,), see Iterate; empty without one. scaled: whether a log scale is a parameter.
    clip: of a row's score, in mean lengths of such scores as residuals of this dispersion have.
    gaps: whether rows may be left out; rows is then about how many were not. heaviest: largest
    declared weight of a row's log likelihood. indicators: (d,), 1 for columns
    that are declared to hold 0 and 1 alone; None where that is not known. log_shift: what offsets
    add to a predictor on average, where an expected response is its exponential; else None.
    by_counts: whether slopes depend on counts there, so that a score is no line in a rate.
    several_rows: whether a person may have several rows: sums of their scores, over a mean number
    of rows, have a variance that the model of a row does not tell.
    spreads: (2, p, p), of the near iterates of linear models with rare categories, see Iterate.
    odds: whether predictors are log odds, and the first column is the intercept.
    most: largest curvature that all rows together can have in any direction of the coefficients, by
    public bounds and the released scale; None of releases that were stored without it.
    robust: whether rows are weighted down, so that the answer is that of a robust fit; else it is
    that of the model, and left_sd is the sd of what clips left out of a coefficient's score.
    square_spread: variance of the log scale by one row; 0 where residuals are taken to be normal.
    stopped: why the path ended before its near looks, or a job before all of its rounds though the
    result is unreliable; empty where it did not. rounds: how many were drawn of a job that goes on
    until its result is reliable; else 0. first_place: (p,), of the first near look, where several
    looks are pooled to the first of the places; else None.
    tail_sd: of the log scale, by what is not known of residuals that are cut. unseen_sd: what clips
    may have left out of a coefficient's score, were tails that noise hides as long as others are.
    ordered: whether coefficients are cuts and slopes, so that p is k + d - 1: see formula/cuts.py.
    log_scale: whether the last coefficient is the log of a scale, so that p is d + 1. most is then
    of each coefficient (p,). skewed: whether residuals are, so that it hangs together with others.
    apart: whether that scale is no unit of predictors. hurdle: whether coefficients are of counts
    above 0 and then of the log odds of a zero, so that p is 2 d.
    smooth: (2, p), of coefficients whose sd is in common the number of it from 1, and their sds
    over that, 0 of others. smooth_priors: (2, s), scales and degrees of freedom of the half-t
    priors of these, half normal where they are 0. None of a model without s(x).
    part: of the likelihood that counts, as a power; less than 1 of few rows. At 0 posteriors are
    the prior. by_columns: whether the bias of clips is larger along columns with far bounds; not of
    releases that were stored before that.
    """

    place: Floats
    root: Floats
    score: Floats
    score_sd: float
    curvature: Floats
    curvature_sd: float
    noise: Floats
    noise_sd: float
    whitening: Floats
    whitening_known: Floats
    whitening_sd: float
    whitening_held: Floats
    places: Floats
    scores: Floats
    score_sds: Floats
    scales: Floats
    taus: Floats
    tau_sds: Floats
    cuts: Floats
    scaled: bool
    dispersion: float
    clip: float
    rows: int
    tempering: float
    noise_multiplier: float
    gaps: bool = False
    heaviest: float = 1.0
    indicators: Floats | None = None
    log_shift: float | None = None
    spreads: Floats | None = None
    odds: bool = False
    most: Floats | float | None = None
    robust: bool = True
    left_sd: float = 0.0
    square_spread: float = 0.0
    stopped: str = ""
    tail_sd: float = 0.0
    unseen_sd: float = 0.0
    rounds: int = 0
    first_place: Floats | None = None
    log_scale: bool = False
    skewed: bool = False
    part: float = 1.0
    by_counts: bool = False
    several_rows: bool = False
    ordered: bool = False
    smooth: Floats | None = None
    smooth_priors: Floats | None = None
    apart: bool = False
    hurdle: bool = False
    by_columns: bool = False

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Quadratic":
        """Return the release that to_dict wrote.

        One that was stored before variances of few events had a floor is read without it, so that
        its posterior stays what it was.
        """
        return super(Quadratic, cls).from_dict({"several_rows": True, **stored})

    @property
    def weight(self) -> float:
        """Mean weight of a row; the score's variance has the square of weights.

        Less than 1 where rows are weighted down, be it for the noise or for outliers: where the
        model is wrong the answer is then that of a robust fit. 1 where the model's own is given.
        """
        return min(max(self.inflation, 0.0), 1.0) if self.robust else 1.0

    @property
    def inflation(self) -> float:
        """The score's variance, relative to a correct model without clipping."""
        return min(float(np.trace(self.noise)) / self._information, MOST_INFLATION)

    @property
    def usual_inflation(self) -> float:
        """The same, no less than that of a correct model; of persons it may be less.

        Sums over persons are divided by how many rows they have on average, and their variance by
        the square of that.
        """
        return max(self.inflation, LEAST_PART if self.several_rows else 1.0)

    @property
    def inflation_sd(self) -> float:
        """Sd of the noise of `inflation`."""
        return self.noise_sd * math.sqrt(len(self.place)) / self._information

    @property
    def _information(self) -> float:
        """The trace of the curvature, no less than its noise."""
        return max(float(np.trace(self.curvature)), self.curvature_sd, TINY)

    @property
    def unsure_sd(self) -> float:
        """Sd of the score's noise, with the bias that clips may have left in it."""
        return math.hypot(self.score_sd, self.left_sd)

    def unsure(self) -> Floats:
        """Return the covariance (p, p) of the score's noise and of the bias that clips may leave.

        Clipped rows lie where scores vary more than their curvature says, and where columns have
        bounds that are many of their sds off. The bias is larger in such directions, in the former
        in so far as they stand out of noise; in none is it less than an even share.
        """
        p = len(self.place)
        values, vectors = np.linalg.eigh(self.noise - self.curvature)
        edge = largest_noise(p, math.hypot(self.noise_sd, self.curvature_sd))
        clear = np.maximum(values - edge, 0.0)
        part = np.maximum(p * clear / max(float(clear.sum()), TINY), 1.0)
        bias = (vectors * part) @ vectors.T
        if self.by_columns:
            bias = bias + far_columns.bias(self)
        return np.asarray(self.score_sd**2 * np.eye(p) + self.left_sd**2 * bias)

    @property
    def inflation_by_columns(self) -> Floats:
        """By how much (p,) bounds that are far widen the sds of coefficients: see far_columns."""
        values, vectors = np.linalg.eigh(self.curvature)
        safe = np.maximum(values, largest_noise(len(values), self.curvature_sd) + TINY)
        back, rows = self.root @ (vectors / safe), safe * self.usual_inflation
        wide, narrow = (
            np.einsum("pi,ij,pj->p", back, np.diag(rows) + vectors.T @ unsure @ vectors, back)
            for unsure in (self.unsure(), replace(self, by_columns=False).unsure())
        )
        return np.asarray(np.sqrt(wide / np.maximum(narrow, TINY)))

    @property
    def unseen(self) -> float:
        """Largest undetected clipping bias, in sds of a coefficient's score."""
        variance = max(float(np.trace(self.noise)) / len(self.place), 0.0)
        return self.unseen_sd / max(math.sqrt(variance + self.unsure_sd**2), TINY)

    @property
    def residual_sd(self) -> float:
        """Residual sd of a linear model, in units in which a fixed sd is 1."""
        if not self.scaled:
            return 1.0
        weights = scales.weights(self.scales, self.taus, self.tau_sds)
        return math.sqrt(float(weights @ (self.scales * self.taus) ** 2))

    @property
    def unit(self) -> float:
        """Unit of the predictors: the estimated scale, if predictors are measured in it."""
        return math.exp(self.place[-1]) if self.log_scale and not self.apart else 1.0

    @property
    def alone(self) -> bool:
        """Whether this is the last near iterate alone, without the first."""
        return self.score_sd == float(self.score_sds[1])

    def changes(self, moves: Floats) -> float:
        """Return the rms change of rare log odds by moves (m, p) of u.

        Their squares are added up. 0 where predictors are no log odds, or no response is rare. Of
        ordered categories the log of a gap between cuts counts as well, however frequent they are.
        """
        if self.ordered:
            return ordered.changes(self.places[1], self.paid, moves @ self.root.T)
        if not self.odds:
            return 0.0
        back, d = np.linalg.inv(self.root), len(self.whitening)
        moved = (moves @ self.root.T).reshape(len(moves), -1, d)
        counted = self.rows * max(self.weight, MIN_WEIGHT)
        curve = back.T @ self.curvature @ back
        if self.hurdle:
            return shares.changes(curve[d:, d:], counted, moved[:, 1:])
        return shares.changes(curve, counted, moved)

    @property
    def paid(self) -> Whitening:
        """The released whitening, which another release of the same columns may reuse."""
        return Whitening(
            self.whitening, self.whitening_known, self.whitening_sd, self.whitening_held
        )

    def moments(self) -> tuple[Floats, float]:
        """Return (mean of x x^T (d, d), sd of its noise) from the whitening.

        A direction below the noise is given the noise level.
        """
        moments = self.paid.moments()
        return moments, largest_noise(len(moments), self.whitening_sd)

    @property
    def classes(self) -> int:
        """Number of predictors of a row that have coefficients of all covariates."""
        if self.ordered:
            return len(self.place) - len(self.whitening) + 1
        return (len(self.place) - self.log_scale) // len(self.whitening)

    def of_predictors(self, coefficients: Floats) -> Floats:
        """Return coefficients (p, ...) expanded to (k d, ...), predictor by predictor."""
        if not self.ordered:
            return coefficients
        return np.asarray(spread_out(self.classes, len(self.whitening)) @ coefficients)

    def predictor_moments(self) -> Floats:
        """Return (k, k) by which moves (..., k) of coefficients change the predictors of rows.

        As a mean square over rows, in units in which a likelihood is about quadratic near 0: where
        there is a log scale its own change counts, and that of predictors is over the scale.
        """
        moments = self.moments()[0]
        if not self.log_scale:
            return moments
        both = np.eye(len(moments) + 1)
        both[:-1, :-1] = moments / self.unit**2
        return both

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource) -> "Mixture":
        """Return the posterior under independent normal priors. mean, precision: (p,), or (p + 1,).

        The last one is of the log scale, where that is a parameter. Given a curvature J the rows'
        own estimate is normal about place + J^-1 score with precision J (V + s^2)^-1 J, V the
        score's variance and s its noise; J itself is known up to its noise: a mixture over it.
        """
        p = len(self.place)
        back = np.linalg.inv(self.root)
        prior = self.root.T @ (precision[:p, None] * self.root)
        pull = prior @ (back @ (mean[:p] - self.place))
        count = int(min(max(MIXTURE * (MANY / p) ** 1.5, LEAST_MIXTURE), MIXTURE))
        curves = self._curvatures(count, random)
        powers = self._powers(len(curves), random)
        last = (float(mean[p]), float(precision[p])) if self.scaled else None
        if not self.part:
            nothing = np.zeros_like(curves), np.zeros(curves.shape[:2])
            prior_alone = Mixture(self, *self._posterior_given(nothing, powers, prior, pull), last)
            return self._smoothed(prior_alone, precision[:p], random)
        score, noise = agreed(self)
        precisions, gain = self.likelihoods(curves, noise, prior)
        likelihood = precisions, gain @ score
        kinds = categories.of(self, mean[:p], precision[:p])
        if kinds is not None:
            middle = float(np.mean(powers))
            likelihood = categories.matched(*likelihood, gain * self.unsure_sd, kinds, middle)
        means, roots = self._posterior_given(likelihood, powers, prior, pull)
        return self._smoothed(Mixture(self, means, roots, last), precision[:p], random)

    @property
    def curves(self) -> Curves | None:
        """The coefficients of smooths, with their common sds; None without smooths."""
        if self.smooth is None or self.smooth_priors is None:
            return None
        number = np.asarray(self.smooth[0], np.int64) - 1
        return Curves(number, self.smooth[1], self.smooth_priors[0], self.smooth_priors[1])

    def _smoothed(self, mixture: "Mixture", precision: Floats, random: RandomSource) -> "Mixture":
        """Return the posterior with the prior sds of smooths integrated out.

        precision: (p,) of their normal priors in `mixture`.
        """
        curves = self.curves
        if curves is None:
            return mixture
        back = np.linalg.inv(self.root)
        halves = np.linalg.inv(mixture.roots) @ back
        precisions = turned(halves) @ halves
        pulled = (precisions @ (self.place + mixture.means @ self.root.T)[..., None])[..., 0]
        diagonal = range(len(precision))
        precisions[:, diagonal, diagonal] -= np.where(curves.penalised, precision, 0.0)
        precisions, pulled = (np.repeat(part, SDS, axis=0) for part in (precisions, pulled))
        sds = curves.sds(precisions, pulled, random)
        precisions[:, diagonal, diagonal] += curves.precisions(sds)
        roots = roots_of(precisions)
        means = (roots @ (turned(roots) @ pulled[..., None]))[..., 0]
        return Mixture(self, (means - self.place) @ back.T, back @ roots, mixture.last, sds)

    def prior_precisions(self, mean: Floats, precision: Floats) -> Floats:
        """Return prior precisions (d,), those of smooths by the mean of their sds. Free.

        mean, precision: (d,) of the priors of all. By the released curvature as it is.
        """
        curves = self.curves
        if curves is None:
            return precision
        p, back = len(self.place), np.linalg.inv(self.root)
        score, noise = agreed(self)
        precisions, gain = self.likelihoods(self.curvature[None], noise)
        precisions = self.part * (back.T @ precisions @ back)
        pulled = self.part * (gain @ score) @ back + (precisions @ self.place)
        others = np.where(curves.penalised, 0.0, precision[:p])
        precisions[:, range(p), range(p)] += others
        sds = curves.sds(precisions, pulled + others * mean[:p], None)
        held = precision.copy()
        held[:p] = np.where(curves.penalised, curves.precisions(sds)[0], precision[:p])
        return held

    def counting(self) -> Floats:
        """Return (p, p) with |u @ matrix|^2 the mean squared change of rows' predictors by u.

        In a direction that few rows carry it is less than in the usual one, as the curvature says.
        """
        values, vectors = np.linalg.eigh(self.curvature)
        usual = max(float(np.median(values)), TINY)
        return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, usual) / usual))

    def _curvatures(self, count: int, random: RandomSource) -> Floats:
        """Return draws (count, p, p) of the curvature, given the released one and its noise."""
        p, n = len(self.place), self.rows
        middle, _, part = shrunk(self.curvature / n, self.curvature_sd / n)
        spread = math.sqrt(part) * self.curvature_sd / n
        flat = random.normals((count // 2, p, p)) * spread
        flat = np.concatenate((flat, -flat))  # so that their mean is what was released
        noise = np.triu(flat, 1) * math.sqrt(0.5)
        noise = noise + noise.swapaxes(1, 2)
        noise[:, range(p), range(p)] = np.diagonal(flat, axis1=1, axis2=2)
        return self._bent(np.asarray(n * (middle + noise)), random)

    def _bent(self, curves: Floats, random: RandomSource) -> Floats:
        """Return curvatures (k, p, p), reduced where the two scores contradict a line.

        Where rows are clipped a score hardly changes with the place. If the last score points on as
        if the step to its place had not been made, the mean lies further on than a tangent says, by
        an unknown length: a uniform part of the curvature is left.
        """
        vectors = np.linalg.eigh(self.curvature)[1]
        directions = vectors[:, unmoved(self, vectors)]
        if not directions.shape[1]:
            return curves
        parts = random.uniforms((len(curves), directions.shape[1]))
        kept = np.sqrt(MIN_CURVATURE_LEFT + (1.0 - MIN_CURVATURE_LEFT) * parts)
        shrink = np.eye(len(directions)) - (directions * (1.0 - kept)[:, None]) @ directions.T
        return np.asarray(shrink @ curves @ shrink)

    def _variance(self, half: Floats, inverse: Floats, prior: Floats | None = None) -> Floats:
        """Return the score's variance (k, p, p), given curvatures half @ half.T.

        Relative to the model it is between LEAST_PART and 1 where rows are weighted down, and else
        may be larger. Of the model's own answer it is no less than the model says in so far as a
        prior (p, p) rules a direction, or few rows or events carry it.
        """
        share, off = self._thinned()
        most = 1.0 if self.robust else MOST_INFLATION
        curve = half @ turned(half)
        values, vectors = eigen(even(inverse @ (share * curve + off) @ turned(inverse)))
        directions, least = half @ vectors, np.full(values.shape, LEAST_PART)
        if not self.robust:
            ways = turned(inverse) @ vectors
            few_rows = FEW_ROWS * len(self.place) / max(self.rows, 1)
            floor = np.full(values.shape, few_rows)
            if not self.several_rows:
                floor = np.maximum(FEW_EVENTS / self._events(ways), floor)
            if prior is not None:
                floor = np.maximum(np.einsum("kpi,pq,kqi->ki", ways, prior, ways) / RULING, floor)
            least = np.clip(floor, LEAST_PART, 1.0)
        kept = np.clip(values, least, most)
        return np.asarray((directions * kept[:, None]) @ turned(directions))

    def _events(self, ways: Floats) -> Floats:
        """Return (k, i), lower bounds of the number of events along directions (k, p, i) of u.

        Along each the curvature is 1. A row that is sure to have an event tells 1 of its predictor,
        or 1 / the squared scale of residuals, and columns are within [-1, 1]; one that is sure to
        be between two cuts tells 1 of the log of their gap.
        """
        p, d = len(self.place) - self.log_scale, len(self.whitening)
        moved = np.abs(self.root @ ways)
        if self.ordered:  # slopes are those of all predictors
            cuts = self.classes
            slopes = moved[:, cuts:].sum(axis=1)
            gaps = np.abs(np.diff((self.root @ ways)[:, :cuts], axis=1))
            apart = gaps / np.maximum(np.diff(self.place[:cuts]), TINY)[:, None]
            largest = np.maximum(moved[:, :cuts].max(axis=1) + slopes, apart.max(axis=1))
            return np.asarray(np.maximum(largest, TINY) ** -2.0)
        blocks = moved[:, :p].reshape(len(moved), p // d, d, -1)
        scale = self.unit if self.log_scale else self.residual_sd
        largest = blocks.sum(axis=2).max(axis=1) / scale
        if self.log_scale:
            largest = np.maximum(largest, moved[:, p])
        return np.asarray(np.maximum(largest, TINY) ** -2.0)

    def _thinned(self) -> tuple[float, Floats]:
        """Return (share, rest): the score's variance is estimated as share * curvature + rest."""
        share = (
            max(self.weight, MIN_WEIGHT) if self.robust else max(self.inflation, LEAST_INFLATION)
        )
        off = self.noise - share * self.curvature
        blur = math.hypot(self.noise_sd, share * self.curvature_sd)
        p, size = len(off), float((off**2).sum())
        part = max(0.0, 1.0 - 0.5 * p * (p + 1) * blur * blur / max(size, TINY))
        return share, part * off

    def _powers(self, count: int, random: RandomSource) -> Floats:
        """Return draws (k,) of the likelihood's power, averaged over the scale's uncertainty.

        Residuals' squares over their variance are a chi-square of n - p degrees of freedom, which
        makes coefficients t distributed. Source of its draws: Wilson and Hilferty 1931.
        """
        power = self.tempering * self.part
        if not self.scaled:
            return np.full(count, power)
        rows = self.rows * self.tempering
        free = max(rows - len(self.place), 1.0)
        third = 2.0 / (9.0 * free)
        cubes = np.maximum(1.0 - third + math.sqrt(third) * random.normals((count,)), 0.1)
        return np.asarray(power * free * cubes**3 / rows)

    def likelihoods(
        self, curves: Floats, noise: Floats, prior: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return precisions (k, p, p) by u, and gains (k, p, p), given curvatures.

        A gain times the score is the precision times the mean. noise: (p, p), of the score. prior:
        (p, p) precision by u, that they are for; None where it is of no account.
        """
        p = curves.shape[1]
        levels = np.abs(np.trace(curves, axis1=1, axis2=2)) / p
        half, inverse = _halves(curves, np.maximum(FLAT * levels, TINY**0.25))
        cut = self._within(half @ turned(half))
        if cut is not None:
            half, inverse = _halves(cut, SURE * np.abs(cut).max(axis=(1, 2)) + TINY**0.25)
        curves = half @ turned(half)
        variance = self._variance(half, inverse, prior) + noise
        gain = turned(np.asarray(np.linalg.solve(variance, curves), np.float64))
        precisions = even(gain @ curves)
        cut = self._within(precisions)
        return (precisions, gain) if cut is None else (cut, cut @ turned(inverse) @ inverse)

    def _within(self, matrices: Floats) -> Floats | None:
        """Return matrices (k, p, p) by u, limited to what all rows together allow.

        None where they are within that already; where noise is larger than the curvature, they may
        not be.
        """
        return None if self.most is None else within(matrices, self.root, self.most)

    def _posterior_given(
        self, likelihood: tuple[Floats, Floats], powers: Floats, prior: Floats, pull: Floats
    ) -> tuple[Floats, Floats]:
        """Return posterior means (k, p) and covariance roots (k, p, p) by u, given likelihoods.

        likelihood: precisions, and those times means. Means are those at the mean of the powers
        (k,): a prior that is far from the rows would else scatter them.
        """
        (precisions, pulled), middle = likelihood, float(np.mean(powers))
        roots = roots_of(prior + middle * precisions)
        pulled = (middle * pulled + pull)[..., None]
        means = np.asarray((roots @ (turned(roots) @ pulled))[..., 0])
        if self.scaled:
            roots = roots_of(prior + powers[:, None, None] * precisions)
        return means, roots


def _halves(matrices: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Return (half, inverse): half @ half.T are matrices with eigenvalues raised to `least`."""
    values, vectors = eigen(matrices)
    sizes = np.sqrt(np.maximum(values, least[:, None]))[:, None]
    return vectors * sizes, turned(vectors / sizes)


@dataclass(frozen=True, slots=True)
class Mixture:
    """A posterior, an even mixture. means: (k, p), roots: (k, p, p) by u. last: log scale's prior.

    beside: (k, s), sds of smooths; None without.
    """

    release: Quadratic
    means: Floats
    roots: Floats
    last: tuple[float, float] | None
    beside: Floats | None = None

    def parts(self) -> tuple[Floats, Floats]:
        """Return (means (k, p), roots (k, p, p)) of the coefficients, without the log scale."""
        means, roots = self._by_coefficients()
        last = len(means[0]) - self.release.log_scale
        return means[:, :last], roots[:, :last]

    def _by_coefficients(self) -> tuple[Floats, Floats]:
        """Return means and roots by u of the coefficients, in the mixture's coordinates."""
        root = self.release.root
        return self.release.place + self.means @ root.T, np.asarray(root @ self.roots)

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, d)."""
        p, count = self.means.shape[1], chains * length
        which = np.sort(random.integers(len(self.means), (count,)))
        normals, moves = random.normals((count, p)), np.empty((count, p))
        ends = np.searchsorted(which, np.arange(len(self.means) + 1))
        for k, (start, end) in enumerate(pairwise(ends)):
            moves[start:end] = self.means[k] + normals[start:end] @ self.roots[k].T
        order = np.argsort(random.uniforms((count,)))
        moves = moves[order]
        out = self.release.place + moves @ self.release.root.T
        if self.last is not None:
            out = np.column_stack((out, self._log_scales(moves, random)))
        if self.beside is not None:
            out = np.column_stack((out, self.beside[which[order]]))
        return out.reshape(chains, length, -1)

    def completed(self, coefficients: Floats, which: Any, random: RandomSource) -> Floats:
        """Return positions (n, d): coefficients (n, p), log scale if estimated, sds of smooths."""
        positions = self._completed(coefficients, which, random)
        if self.beside is None:
            return positions
        return np.column_stack((positions, self.beside[which]))

    def _completed(self, coefficients: Floats, which: Any, random: RandomSource) -> Floats:
        """Return positions (n, d) without sds of smooths."""
        if self.release.log_scale:
            means, roots = self._by_coefficients()
            covariances, normals = roots @ turned(roots), random.normals((len(coefficients),))
            gains = np.linalg.solve(covariances[:, :-1, :-1], covariances[:, :-1, -1:])[..., 0]
            variances = covariances[:, -1, -1] - (gains * covariances[:, -1, :-1]).sum(axis=1)
            away = ((coefficients - means[which, :-1]) * gains[which]).sum(axis=1)
            logs = means[which, -1] + away + np.sqrt(np.maximum(variances[which], 0.0)) * normals
            return np.column_stack((coefficients, logs))
        if self.last is None:
            return coefficients
        away = (coefficients - self.release.place).T
        moves = np.asarray(np.linalg.solve(self.release.root, away).T, np.float64)
        return np.column_stack((coefficients, self._log_scales(moves, random)))

    def _log_scales(self, moves: Floats, random: RandomSource) -> Floats:
        """Return log scales (count,) given moves (count, p) by u."""
        release, mean, precision = self.release, *(self.last or (0.0, 1.0))
        if not release.part:
            return np.asarray(mean + precision**-0.5 * random.normals((len(moves),)))
        weights = scales.weights(release.scales, release.taus, release.tau_sds)
        squares = self._squares(moves, weights, random.uniforms((len(moves),)))
        noise = float(
            np.linalg.norm(weights * release.tau_sds * (release.scales * release.taus) ** 2)
        )
        noise = math.hypot(noise, release.tail_sd * release.residual_sd**2)
        if not release.robust:  # what is known is a square: its log is skewed where it is noisy
            noisy = squares + 2.0 * noise * random.normals((len(moves),))
            squares = np.maximum(noisy, MIN_SQUARE_LEFT * squares)
        logs = 0.5 * np.log(squares)
        p, n = moves.shape[1], release.rows * release.tempering
        logs += (p + 1.0) / (2.0 * n)  # the mean, not the mode
        variance = self._log_variance(n - p, weights, noise)
        kept = 1.0 / (1.0 + (variance + float(np.var(logs))) * precision)
        sd = math.sqrt(variance * kept)
        return np.asarray(kept * logs + (1.0 - kept) * mean + sd * random.normals((len(moves),)))

    def _squares(self, moves: Floats, weights: Floats, part: Floats) -> Floats:
        """Return squared scales (count,) by the mean squares at the iterates.

        A mean square is the squared scale plus the squared distance from the iterate to the mean,
        in no direction more than the rows that carry it can add, as squares are clipped. How much
        of it the clip left is not known: a uniform part (count,) is taken off. moves: (count, p).
        """
        release, squares = self.release, np.zeros(len(moves))
        back = np.linalg.inv(release.root)
        scatter = moves.shape[1] / (release.rows * release.tempering)  # of draws about their mean
        for k, weight in enumerate(weights):
            away = moves + back @ (release.place - release.places[k])
            if release.robust:
                unit = release.scales[0] / release.scales[k]
                off = part * ((self._added(away, k) - scatter) * unit**2)
            else:
                off = np.einsum("mp,pq,mq->m", away, release.curvature, away) / release.rows
                off = np.maximum(off, 0.0) - scatter * max(release.inflation, LEAST_INFLATION)
                off = off * (release.residual_sd / release.scales[k]) ** 2
            square = release.taus[k] ** 2
            net = np.maximum(square - off, MIN_SQUARE_LEFT * square)
            squares += weight * release.scales[k] ** 2 * net
        return squares

    def _log_variance(self, free: float, weights: Floats, noise: float) -> float:
        """Return the variance of log scales beside that of moves.

        free: degrees of freedom of the rows. noise: sd of that of the squared scale.
        """
        release = self.release
        by_rows = float(polygamma(1, 0.5 * max(free, LEAST_FREE))) / 2.0  # about 1 / n, of many
        relative = noise / release.residual_sd**2
        if not release.robust:  # a square that noise hides tells no log
            return release.square_spread * by_rows + max(relative - HIDING_NOISE, 0.0) ** 2
        tails = [scales.hidden(round(float(cut), 3)) for cut in release.cuts / release.taus]
        variance = relative**2
        variance += scales.variance(float(release.taus[-1]), float(release.cuts[-1])) * by_rows
        return variance + (scales.TAIL_SD * float(weights @ np.array(tails))) ** 2

    def _added(self, away: Floats, which: int) -> Floats:
        """Return (count,) what distance (count, p) from an iterate adds to its mean square.

        In no direction is it more than the rows that carry it can add, as squares are clipped.
        Where few do, noise may have stretched u: it is then measured by how far a coefficient
        moves.
        """
        release = self.release
        values, vectors = np.linalg.eigh(release.curvature)
        shares = np.clip(values / (release.rows * MIN_WEIGHT_CUT * len(values)), 0.0, 1.0)
        steps, most = (away @ vectors) ** 2, release.cuts[which] ** 2
        largest = np.abs(release.root @ vectors).max(axis=0) / release.scales[which]
        hidden = shares * np.minimum(steps * largest**2, most)
        some = np.minimum(steps, shares * most)
        return np.asarray(np.where(few(values), hidden, some).sum(axis=1))
