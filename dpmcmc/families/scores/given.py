"""Families of rows that have an offset of their predictor, a weight or a number of trials.

A weight w of a logistic or a Poisson row multiplies its log likelihood, as if there were w such
rows: their scores vary w times as much as one, and not w^2 times. A weight of a linear row divides
the variance of its residual, as in R's lm. The score of a row is clipped after it is weighted, so
that the sensitivity does not depend on the weights.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
from scipy.special import logit

from dpmcmc.base.errors import SpecError
from dpmcmc.families.scores.base import (
    SEVERAL,
    TINY,
    Evaluation,
    Family,
    Floats,
    ScaleFamily,
    ShapedFamily,
    SkewedFamily,
    Terms,
    is_apart,
)
from dpmcmc.families.scores.linear import Linear
from dpmcmc.formula.design import Design
from dpmcmc.inputs.schema import NumberColumn, Table
from dpmcmc.inputs.spec import ModelSpec

LARGEST_WEIGHT = 100.0
MIN_WEIGHT = 1e-6  # a weight, where rows are cut: one of 0 has no largest score
POINTER, ALGORITHM = "/model/weights", "noisy_quadratic"


class Given:
    """A family with offsets and weights: responses are (m, 3), or (m, 4) with trials or events.

    shift: middle of offsets. usual, heaviest: middle and upper end of what weights can be. moved:
    whether there are offsets. trials: the same two of trials.
    """

    def __init__(
        self,
        family: Family,
        shift: float,
        usual: float = 1.0,
        heaviest: float = 1.0,
        *,
        moved: bool = True,
        trials: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        self.moved, self.trials = moved, trials
        self.family, self.shift, self.usual, self.heaviest = family, shift, usual, heaviest
        self.link, self.has_scale = family.link, family.has_scale
        self.quadratic, self.variance = family.quadratic, family.variance
        self.log_scale = family.log_scale

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        answer, offset, weight, *beside = y.T
        if is_apart(self.family):
            return self._apart(_with(answer, beside), offset, weight, at)
        if self.log_scale:
            return self._scaled(answer, offset, np.sqrt(weight), beside, at)
        eta, root = at.eta.copy(), np.sqrt(weight)
        eta[: 1 if self.link == "hurdle" else None] += offset  # of a hurdle, to counts above 0
        if self.link == "identity":
            answer, eta, row_norm, spread = (
                root * v for v in (answer, eta, at.row_norm, at.spread)
            )
            times, curved = root, at.curved
        else:  # a score is weighted once; with the square of this row_norm a slope would be twice
            times, least = weight, np.maximum(weight, MIN_WEIGHT)
            row_norm, spread, curved = least * at.row_norm, at.spread, least * at.curved
        evaluation = replace(at, eta=eta, row_norm=row_norm, spread=spread, curved=curved)
        terms = self.family.terms(_with(answer, beside), evaluation)
        return Terms(times * terms.psi, root * terms.root, root * terms.noise, terms.square)

    @property
    def information(self) -> tuple[float, float]:
        """Return expected information of a row of usual weight: see ScaleFamily."""
        location, scale = cast("ScaleFamily", self.family).information
        return self.usual * location, scale

    @property
    def sharpest(self) -> float:
        """Return the largest information of a row of weight 1: see ScaleFamily."""
        return cast("ScaleFamily", self.family).sharpest

    @property
    def symmetric(self) -> bool:
        """Return whether residuals are symmetric: see ScaleFamily."""
        return cast("ScaleFamily", self.family).symmetric

    @property
    def normal_scale(self) -> float:
        """Return the sd that a fit of normal residuals finds at scale 1: see ScaleFamily."""
        return cast("ScaleFamily", self.family).normal_scale

    def longest(self, squares: Floats) -> Floats:
        """Return the norm of the longest possible score of a row: see ScaleFamily."""
        most = squares * np.array([[self.heaviest], [1.0]])
        return cast("ScaleFamily", self.family).longest(most)

    def farthest(self, inner: Floats, ends: tuple[float, float], sd: float) -> float:
        """Return the norm of the longest score between two ends: see SkewedFamily."""
        return cast("SkewedFamily", self.family).farthest(inner, ends, sd)

    def known(self) -> Family | None:
        """Return the family with the scale fixed: see ShapedFamily."""
        family = cast("ShapedFamily", self.family).known()
        if family is None:
            return None
        return Given(family, self.shift, self.usual, self.heaviest, moved=self.moved)

    def scale_of(self, mean: float, dispersion: float) -> float:
        """Return an estimate of the scale at a mean response: see ShapedFamily."""
        return cast("ShapedFamily", self.family).scale_of(mean, dispersion)

    def mean_of(self, eta: Floats) -> Floats:
        """Return mean responses at predictors eta."""
        return cast("ShapedFamily", self.family).mean_of(eta)

    def expected(self, mean: Floats, scale: float) -> Floats:
        """Return (2, m), expected information of a row of usual weight: see ShapedFamily."""
        return self.usual * cast("ShapedFamily", self.family).expected(mean, scale)

    def tails(self, mean: float, scale: float, beyond: float) -> tuple[float, float]:
        """Return responses below and above which a share `beyond` lies: see ShapedFamily."""
        return cast("ShapedFamily", self.family).tails(mean, scale, beyond)

    def largest_information(self, most: float) -> tuple[float, float]:
        """Return the largest information of a row of weight 1: see ShapedFamily."""
        return cast("ShapedFamily", self.family).largest_information(most)

    def score(self, y: Floats, mean: Floats, scale: float) -> Floats:
        """Return (2, m), unclipped scores of rows of the largest weight: see ShapedFamily."""
        return self.heaviest * cast("ShapedFamily", self.family).score(y, mean, scale)

    def _apart(self, answer: Floats, offset: Floats, weight: Floats, at: Evaluation) -> Terms:
        """Return the statistics of rows whose scale is no unit of their predictors."""
        eta, least = at.eta.copy(), np.maximum(weight, MIN_WEIGHT)
        eta[0] += offset
        evaluation = replace(at, eta=eta, curved=at.curved / least)
        terms, root = self.family.terms(answer, evaluation), np.sqrt(weight)
        return Terms(weight * terms.psi, root * terms.root, root * terms.noise, terms.square)

    def _scaled(
        self, answer: Floats, offset: Floats, root: Floats, beside: list[Floats], at: Evaluation
    ) -> Terms:
        """Return the statistics of rows whose residuals times `root` have the scale."""
        each = np.stack((root, np.ones_like(root)))  # the predictor of the scale is left as it is
        eta = each * at.eta
        eta[0] += root * offset
        inner = each[:, None] * each * at.inner if at.inner.size else at.inner
        unscaled = replace(at, eta=eta, inner=inner)
        terms = self.family.terms(_with(root * answer, beside), unscaled)
        roots = (
            each[:, None] * part if part.size else part
            for part in (terms.root, terms.noise, terms.minus)
        )
        slope, noise, minus = roots
        return Terms(each * terms.psi, slope, noise, terms.square, minus)


def _with(answer: Floats, beside: list[Floats]) -> Floats:
    """Return responses (m,) with their further columns, such as trials, beside them."""
    return np.stack((answer, *beside), axis=1) if beside else answer


def is_given(design: Design, model: ModelSpec) -> bool:
    """Return whether rows have offsets or weights."""
    return bool(design.offsets) or model.weights is not None


def check(
    design: Design, model: ModelSpec, family: Family | None, algorithm: str | None = None
) -> None:
    """Refuse offsets and weights that a family or an algorithm cannot use. Raises SpecError."""
    if design.grouping is not None and algorithm not in (None, "auto", ALGORITHM):
        raise SpecError("/sampler/algorithm", f"(1 | {design.grouping.label}) is for {ALGORITHM}")
    if design.smooths and algorithm not in (None, "auto", ALGORITHM):
        raise SpecError("/sampler/algorithm", f"{design.smooths[0].term} is for {ALGORITHM}")
    if not is_given(design, model):
        return
    hurdle = family is not None and family.link == "hurdle"
    offsets_alone = hurdle and model.weights is None
    if family is None or (family.link in SEVERAL and not offsets_alone):
        known = "offsets" if hurdle else "no offsets"
        raise SpecError("/model", f"{model.family} knows {known} and no weights")
    if algorithm not in (None, "auto", ALGORITHM):
        raise SpecError("/sampler/algorithm", f"offsets and weights are for {ALGORITHM}")
    if model.weights is None:
        return
    if design.kind == "event" and family.log_scale:
        message = f"{model.family} takes no weights; exponential regression does"
        raise SpecError(POINTER, message)
    column = next((c for c in design.schema.columns if c.name == model.weights), None)
    if not isinstance(column, NumberColumn):
        raise SpecError(POINTER, f"{model.weights!r} is no number column of the dataset")
    if column.missing:
        raise SpecError(POINTER, "weights cannot have missing codes")
    if not (0.0 <= column.lower < column.upper <= LARGEST_WEIGHT):
        raise SpecError(POINTER, f"declared bounds of weights lie within 0 and {LARGEST_WEIGHT:g}")
    if family.link == "identity" and column.lower == 0.0:
        raise SpecError(POINTER, "of a linear model must have a declared lower bound above 0")
    if design.answer is not None and model.weights in design.read:
        raise SpecError(POINTER, "weights cannot be a column of the formula as well")


def packing(
    family: Family, design: Design, model: ModelSpec, unit: float
) -> tuple[Family, Callable[[Table, Floats], Floats]]:
    """Return the family extended by offsets and weights, and a function that packs its responses.

    As they are where rows were given nothing. The second takes a table of rows and their responses
    (n,). Where the link is the identity responses and offsets are brought to this unit. Of a time y
    the response is then its log, beside whether an event ended it; else that, and the log is an
    offset: the hazard adds up over it.
    """
    unit = unit if family.link == "identity" else 1.0
    if not is_given(design, model) and design.beside is None:
        return family, lambda _, y: y / unit
    check(design, model, family)
    low, high, weights = 1.0, 1.0, None
    if model.weights is not None:
        weights = next(c for c in design.schema.columns if c.name == model.weights)
        if not isinstance(weights, NumberColumn):
            raise SpecError(POINTER, "is no number")
        low, high = weights.lower, weights.upper
    shift, time = design.middle_offset / unit, None
    moved, trials = bool(design.offsets), (1.0, 1.0)
    if design.kind == "event" and isinstance(design.answer, NumberColumn):
        time = design.answer
        if family.link != "identity":
            shift, moved = shift + log_middle(time), True
    elif design.kind == "trials":
        trials = design.usual_trials, design.most_trials
    extended = Given(family, shift, 0.5 * (low + high), high, moved=moved, trials=trials)

    def responses(table: Table, y: Floats) -> Floats:
        """Return responses (m, 3) or (m, 4), packed with offsets, weights and trials or events."""
        weight = np.ones(len(y))
        if weights is not None:
            values = table.columns[weights.name].astype(np.float64)
            weight = np.fmin(np.fmax(values, low), high)
        offset = design.offset(table) / unit
        parts = [y / unit, offset, weight]
        if time is not None:
            logs = np.log(np.fmax(y, time.lower))
            ended = (design.besides(table) >= 0.5).astype(np.float64)
            if family.link == "identity":
                parts = [logs / unit, offset, weight, ended]
            else:
                parts = [ended, offset + logs, weight]
        elif design.kind == "trials":
            parts = [y, offset, weight, design.besides(table)]
        return np.stack(parts, axis=1)

    return extended, responses


def log_middle(time: NumberColumn) -> float:
    """Return the log of the geometric mid-range of a time."""
    return math.log(0.5 * time.lower + 0.5 * time.upper)


def linear_of(family: Family) -> Family:
    """Return the linear regression of the same rows."""
    if not isinstance(family, Given):
        return Linear()
    return Given(Linear(), family.shift, family.usual, family.heaviest, moved=family.moved)


def pilot(family: Family) -> tuple[Family, Callable[[Floats], Floats]]:
    """Return linear regression of the log response, and the function that transforms responses."""
    if not isinstance(family, Given):
        return Linear(), lambda y: logs_of(family, y)

    def logs(y: Floats) -> Floats:
        """Return log responses of packed rows."""
        return np.stack((logs_of(family, y[:, 0]), y[:, 1], np.ones(len(y))), axis=1)

    return Given(Linear(), family.shift), logs


def logs_of(family: Family, y: Floats) -> Floats:
    """Return log responses: counts with 1/2 added, shares as log odds."""
    if family.link == "logit":
        return np.asarray(logit(np.where((y > 0.0) & (y < 1.0), y, 0.5)))
    above = np.maximum(y, TINY) if family.variance.proportional else np.maximum(y, 0.0) + 0.5
    return np.asarray(np.log(above))


def heaviest_of(family: Family) -> float:
    """Return the largest weight of a row's log likelihood; 1 without weights.

    That of a linear row divides a variance: one that is cut tells less and claims no more.
    """
    return family.heaviest if isinstance(family, Given) and family.link != "identity" else 1.0


def usual_of(family: Family) -> float:
    """Return the mid-range of a row's weight, times its usual number of trials."""
    return family.usual * family.trials[0] if isinstance(family, Given) else 1.0


def most_of(family: Family) -> float:
    """Return the largest weight of a row, times the largest number of trials."""
    return family.heaviest * family.trials[1] if isinstance(family, Given) else 1.0


def copies_of(family: Family, y: Floats) -> Floats | None:
    """Return the frequency weights (m,), how many equal rows each row is; None without.

    The weight of a linear row divides a variance: it is one row, and known better.
    """
    return y[:, 2] if isinstance(family, Given) and family.link != "identity" else None


def slope_of(family: Family, rate: float) -> float:
    """Return the approximate slope (information) of a row with this mean response."""
    rate = rate ** (2.0 - family.variance.power)
    return usual_of(family) * min(rate, family.variance.size)


def first_slope(family: Family) -> float:
    """Return the information of a row at the public start, for one predictor a row."""
    return usual_of(family) * (0.2 if family.link == "logit" else 1.0)


def shift_of(family: Family) -> float:
    """Return the mid-range of the offset."""
    return family.shift if isinstance(family, Given) else 0.0
