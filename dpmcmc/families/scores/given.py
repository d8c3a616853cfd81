"""Families of rows that have an offset of their predictor and a weight.

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

from dpmcmc.base.errors import SpecError
from dpmcmc.families.scores.base import (
    SEVERAL,
    TINY,
    Evaluation,
    Family,
    Floats,
    ScaleFamily,
    SkewedFamily,
    Terms,
)
from dpmcmc.families.scores.linear import Linear
from dpmcmc.formula.design import Design
from dpmcmc.inputs.schema import NumberColumn, Table
from dpmcmc.inputs.spec import ModelSpec

LARGEST_WEIGHT = 100.0
MIN_WEIGHT = 1e-6  # a weight, where rows are cut: one of 0 has no largest score
POINTER, ALGORITHM = "/model/weights", "noisy_quadratic"


class Given:
    """A family whose responses are (m, 3): response, offset, weight; (m, 4) with what stands beside
    a response, trials or whether a time ended with an event.

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
        if self.log_scale:
            return self._scaled(answer, offset, np.sqrt(weight), beside, at)
        eta, root = at.eta + offset, np.sqrt(weight)
        if self.link == "identity":
            answer, eta, row_norm, spread = (
                root * v for v in (answer, eta, at.row_norm, at.spread)
            )
            times, curved = root, at.curved
        else:  # a score is weighted once; with the square of this row_norm a slope would be twice
            times, least = weight, np.maximum(weight, MIN_WEIGHT)
            row_norm, spread, curved = least * at.row_norm, at.spread, least * at.curved
        asked = replace(at, eta=eta, row_norm=row_norm, spread=spread, curved=curved)
        terms = self.family.terms(_with(answer, beside), asked)
        return Terms(times * terms.psi, root * terms.root, root * terms.noise, terms.square)

    @property
    def information(self) -> tuple[float, float]:
        """See ScaleFamily; of a row of the usual weight."""
        location, scale = cast("ScaleFamily", self.family).information
        return self.usual * location, scale

    @property
    def sharpest(self) -> float:
        """See ScaleFamily; of a row of weight 1."""
        return cast("ScaleFamily", self.family).sharpest

    @property
    def symmetric(self) -> bool:
        """See ScaleFamily."""
        return cast("ScaleFamily", self.family).symmetric

    @property
    def normal_scale(self) -> float:
        """See ScaleFamily."""
        return cast("ScaleFamily", self.family).normal_scale

    def longest(self, squares: Floats) -> Floats:
        """See ScaleFamily."""
        most = squares * np.array([[self.heaviest], [1.0]])
        return cast("ScaleFamily", self.family).longest(most)

    def farthest(self, inner: Floats, ends: tuple[float, float], sd: float) -> float:
        """See SkewedFamily."""
        return cast("SkewedFamily", self.family).farthest(inner, ends, sd)

    def _scaled(
        self, answer: Floats, offset: Floats, root: Floats, beside: list[Floats], at: Evaluation
    ) -> Terms:
        """Return the terms of rows whose residuals, times these roots, have the scale."""
        each = np.stack((root, np.ones_like(root)))  # the predictor of the scale is left as it is
        eta = each * at.eta
        eta[0] += root * offset
        inner = each[:, None] * each * at.inner if at.inner.size else at.inner
        asked = replace(at, eta=eta, inner=inner)
        terms = self.family.terms(_with(root * answer, beside), asked)
        roots = (
            each[:, None] * part if part.size else part
            for part in (terms.root, terms.noise, terms.minus)
        )
        slope, noise, minus = roots
        return Terms(each * terms.psi, slope, noise, terms.square, minus)


def _with(answer: Floats, beside: list[Floats]) -> Floats:
    return np.stack((answer, *beside), axis=1) if beside else answer


def is_given(design: Design, model: ModelSpec) -> bool:
    """Whether rows have offsets or weights."""
    return bool(design.offsets) or model.weights is not None


def check(
    design: Design, model: ModelSpec, family: Family | None, algorithm: str | None = None
) -> None:
    """Refuse offsets and weights that a family or an algorithm cannot use. Raises SpecError."""
    if design.grouping is not None and algorithm not in (None, "auto", ALGORITHM):
        raise SpecError("/sampler/algorithm", f"(1 | {design.grouping.column}) is for {ALGORITHM}")
    if not is_given(design, model):
        return
    if family is None or family.link in SEVERAL:
        raise SpecError("/model", f"{model.family} knows no offsets and no weights")
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
    """Return the family of rows with what they were given, and what makes their responses.

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
    given = Given(family, shift, 0.5 * (low + high), high, moved=moved, trials=trials)

    def responses(table: Table, y: Floats) -> Floats:
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

    return given, responses


def log_middle(time: NumberColumn) -> float:
    """Return the log of the middle of what a time can be."""
    return math.log(0.5 * time.lower + 0.5 * time.upper)


def linear_of(family: Family) -> Family:
    """Return the linear regression of the same rows."""
    if not isinstance(family, Given):
        return Linear()
    return Given(Linear(), family.shift, family.usual, family.heaviest, moved=family.moved)


def pilot(family: Family) -> tuple[Family, Callable[[Floats], Floats]]:
    """Return the linear regression of the log of a response, and what makes it of responses."""
    if not isinstance(family, Given):
        return Linear(), lambda y: logs_of(family, y)

    def logs(y: Floats) -> Floats:
        return np.stack((logs_of(family, y[:, 0]), y[:, 1], np.ones(len(y))), axis=1)

    return Given(Linear(), family.shift), logs


def logs_of(family: Family, y: Floats) -> Floats:
    """Return logs of responses: of counts, which may be 0, with a half added."""
    above = np.maximum(y, TINY) if family.variance.proportional else np.maximum(y, 0.0) + 0.5
    return np.asarray(np.log(above))


def heaviest_of(family: Family) -> float:
    """Return the largest weight that a row's log likelihood may have; 1 without weights.

    That of a linear row divides a variance: one that is cut tells less and claims no more.
    """
    return family.heaviest if isinstance(family, Given) and family.link != "identity" else 1.0


def usual_of(family: Family) -> float:
    """Return the middle of what a row's weight can be, times that of its trials."""
    return family.usual * family.trials[0] if isinstance(family, Given) else 1.0


def most_of(family: Family) -> float:
    """Return the largest weight that a row can have, times the most trials."""
    return family.heaviest * family.trials[1] if isinstance(family, Given) else 1.0


def copies_of(family: Family, y: Floats) -> Floats | None:
    """Return (m,) of how many equal rows each row of responses is; None where it is one.

    The weight of a linear row divides a variance: it is one row, and known better.
    """
    return y[:, 2] if isinstance(family, Given) and family.link != "identity" else None


def slope_of(family: Family, rate: float) -> float:
    """Return about the slope of a row with this mean response."""
    rate = rate ** (2.0 - family.variance.power)
    return usual_of(family) * min(rate, family.variance.size)


def first_slope(family: Family) -> float:
    """Return the slope of a row at the start, where nothing is known of it, of one predictor."""
    return usual_of(family) * (0.2 if family.link == "logit" else 1.0)


def shift_of(family: Family) -> float:
    """Return the middle of what is added to predictors."""
    return family.shift if isinstance(family, Given) else 0.0
