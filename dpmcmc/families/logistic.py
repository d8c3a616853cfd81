"""Logistic regression of a binary column, or of a number that is 0 or 1, over a public design.

Priors, where none are given: Normal(0, 2.5) for every coefficient.
"""

import math

import numpy as np
from scipy.special import expit

from dpmcmc.base.errors import SpecError
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import PROBE_MOVE, Model, unit_of_predictors, usual_prior
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.scores.base import BINOMIAL, TINY, Evaluation, Link, Terms, nodes_of, single
from dpmcmc.families.scores.responses import YES
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design, response_of
from dpmcmc.inputs.schema import BinaryColumn, Table, zero_to_one
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import LOGISTIC
from dpmcmc.kernels.arithmetic.intervals.logistic import component_interval, vector_interval


# Logistic regression of a binary response, 0 or 1.
def yes(y: Floats) -> Floats:
    """Return responses as 0 or 1, rounded at one half."""
    return (y >= 0.5).astype(np.float64)


class Logistic:
    """Binary responses: the score is y - p, so a row is limited by a weight and needs no clip."""

    link: Link = "logit"
    has_scale, log_scale, quadratic, variance = False, False, False, BINOMIAL

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        y, p, slope = yes(y), np.zeros_like(y), np.zeros_like(y)
        for eta, weight in nodes_of(at):
            at_node = expit(eta)
            p += weight * at_node
            slope += weight * at_node * (1.0 - at_node)
        longest = np.maximum(p, 1.0 - p) * at.row_norm
        w = np.minimum(1.0, at.most / np.maximum(longest, TINY))
        w = np.minimum(w, at.curved / np.maximum(slope * at.row_norm**2, TINY))
        return single(w * (y - p), w * slope, w * w * slope)


PLAUSIBLE_SD = 0.75  # standard deviation of a coefficient that the planner thinks plausible
LARGE_SD = 1.75  # and one where effects are large, see experiments/large_effects.py


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response that is neither a binary column nor a number with bounds 0 and 1."""
    response = response_of(design)
    if not isinstance(response, BinaryColumn) and not zero_to_one(response):
        message = (
            "logistic regression needs a binary column as its response, or a number with bounds"
            f" (0, 1): declare {response.name!r} so"
        )
        raise SpecError(POINTER, message)


class LogisticForm(DesignForm):
    """Positions are the coefficients. Interval proofs: docs/proofs/dp_penalty{,_component}.md."""

    family = LOGISTIC

    def __init__(self, design: Design, spec: JobSpec) -> None:
        super().__init__(design, usual_prior(design, spec.model))

    def rows(self, table: Table) -> tuple[Floats, Floats]:
        """Return rows signed by their response, x (columns, n), and zeros (n,) in place of y."""
        x, y = super().rows(table)
        return x * (2.0 * yes(y) - 1.0), np.zeros(len(y))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected before the rows are read, rows spread over their bounds."""
    return _guess(design, spec, PLAUSIBLE_SD)


def guess_of_large(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior where coefficients are large, or one response is rare.

    A row then says less, so that the posterior is wider, and so is what a row can say of a move
    across it.
    """
    return _guess(design, spec, LARGE_SD)


def _guess(design: Design, spec: JobSpec, size: float) -> Guess:
    """Return the expected posterior at coefficients Normal(0, min(prior sd, size)^2).

    The variance of a response is averaged over them, widths are taken where all have that size. The
    largest may be LARGEST_COEFFICIENT.
    """
    tempering = spec.model.tempering or 1.0
    sds = usual_prior(design, spec.model)[1]
    theta = np.minimum(sds, size)
    moments = second_moments(design)
    spread = float(theta**2 @ np.diag(moments))
    variance = 0.25 / math.sqrt(1.0 + math.pi * spread / 8.0)
    d = len(design.parameters)
    bounds = (design.lower, design.upper, design.group)
    single = [component_interval(theta, j, PROBE_MOVE, *bounds) for j in range(d)]
    joint = vector_interval(theta, np.full(d, PROBE_MOVE), *bounds)
    return Guess(
        precision=design.schema.rows * tempering * variance * moments + np.diag(sds**-2.0),
        width=tempering * np.array([hi - lo for lo, hi in single]) / PROBE_MOVE,
        joint_width=tempering * (joint[1] - joint[0]) / PROBE_MOVE,
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
        steepest=design.max_norm,
        sharpest=0.25,
    )


def categories(eta: Floats) -> Floats:
    """Return the probabilities (2, n) of no and yes, given predictors (1, n)."""
    return np.concatenate((expit(-eta), expit(eta)))


MODEL = Model(
    "logistic",
    check=check,
    form=LogisticForm,
    guess=guess,
    example=ModelSpec(family="logistic", formula="y ~ x"),
    options=frozenset(),
    rows=lambda _: Logistic(),
    response=lambda _: YES,
    categories=categories,
    guess_of_large=guess_of_large,
    group_sd=unit_of_predictors,
)
