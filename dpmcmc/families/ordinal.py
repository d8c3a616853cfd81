"""Ordinal regression of a column of three or more ordered categories: proportional odds.

Categories are in the order in which they are declared. The log odds of one that is no higher than
the j-th are cut_j - x^T beta: one effect of each column for all cuts, above 0 where higher
categories are more frequent. Cuts, in order, stand in the place of an intercept and are named
`low|medium`, `medium|high`. Priors, where none are given: Normal(0, 2.5) for every cut and slope.
noisy_quadratic releases it; no chain samples it. Source: McCullagh 1980.
"""

import math
from itertools import pairwise

import numpy as np
from scipy.special import expit, logit

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT, distinct
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.priors import Normals, normal_priors, usual
from dpmcmc.families.scores.base import BINOMIAL, TINY, UNCUT, Evaluation, Link, Terms
from dpmcmc.families.target import Floats
from dpmcmc.formula.cuts import spread_out
from dpmcmc.formula.design import POINTER, Design, response_of
from dpmcmc.inputs.schema import CategoryColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS

# A row of category j lies between the predictors b of the cut below it and a of that above it. Its
# log likelihood is log F(a) + log F(-b) + log(1 - e^-g) for the logistic F and the gap g = a - b,
# which no covariate changes. It is concave: minus its Hessian is the sum of F(a) F(-a), F(b) F(-b)
# and, in a - b, 1 / (2 sinh(g / 2))^2. Constants: docs/proofs/noisy_quadratic.md, section 5.
LEAST_GAP = 1e-6  # of predictors, below which cuts count as so far apart


def probabilities(eta: Floats) -> Floats:
    """Return category probabilities (k + 1, ...), given predictors (k, ...) of cut points.

    A cut below an earlier one, as a draw may have it, counts as equal to that: none is negative.
    """
    eta = np.maximum.accumulate(eta, axis=0)
    between = -np.expm1(-np.diff(eta, axis=0)) * expit(eta[1:]) * expit(-eta[:-1])
    return np.concatenate((expit(eta[:1]), between, expit(-eta[-1:])))


def slopes_of(eta: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (above, below, bend), derivatives of log probabilities by cut points.

    above, below: (k, m), derivatives in a cut of the log probability of the category under it and
    of that over it. bend: (k - 1, m), minus the second derivative of log(1 - e^-gap).
    """
    share = expit(eta)
    gaps = np.maximum(np.diff(eta, axis=0), LEAST_GAP)
    pull = np.exp(-gaps) / -np.expm1(-gaps)
    above, below = 1.0 - share, -share
    above[1:] += pull
    below[:-1] -= pull
    return above, below, pull * (1.0 + pull)


def information(eta: Floats) -> Floats:
    """Return the expected information (k, k, m) of a row about its predictors (k, m)."""
    roots = _expected(probabilities(eta), *slopes_of(eta)[:2])
    return np.asarray(np.einsum("cjm,ejm->cem", roots, roots))


def _expected(shares: Floats, above: Floats, below: Floats) -> Floats:
    """Return (k, k + 1, m), a root of the expected information, by category."""
    k = len(above)
    roots, sizes = np.zeros((k, k + 1, shares.shape[1])), np.sqrt(shares)
    roots[range(k), range(k)] = above * sizes[:-1]
    roots[range(k), range(1, k + 1)] = below * sizes[1:]
    return roots


class Ordinal:
    """Far from the mode rows are weighted by their covariates; near it no score is clipped."""

    link: Link = "cumulative"
    has_scale, log_scale, quadratic, variance = False, False, False, BINOMIAL

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        eta, numbers = at.eta, np.arange(len(at.eta))[:, None]
        above, below, bend = slopes_of(eta)
        under, over = (y == numbers) * 1.0, (y == numbers + 1.0) * 1.0
        psi, nothing = under * above + over * below, np.zeros_like(y)
        if at.most >= UNCUT:
            sizes = np.sqrt(expit(eta) * expit(-eta))
            apart = np.sqrt(bend) * over[:-1]  # at most one of the middle categories is the row's
            root = np.zeros((len(eta), 3, len(y)))
            root[:, 0], root[:, 1] = under * sizes, over * sizes
            root[1:, 2] += apart
            root[:-1, 2] -= apart
            return Terms(psi, root, root, nothing)
        inner = np.einsum("ccm->cm", at.inner)
        zero = np.zeros((1, len(y)))
        squares = np.concatenate((above**2 * inner, zero)) + np.concatenate(
            (zero, below**2 * inner)
        )
        squares[1:-1] += 2.0 * above[1:] * below[:-1] * np.einsum("ccm->cm", at.inner[1:, :-1])
        squares, shares = np.maximum(squares, 0.0), probabilities(eta)
        longest, size = np.sqrt(squares.max(axis=0)), (shares * squares).sum(axis=0)
        w = np.minimum(1.0, at.most / np.maximum(longest, TINY))
        w = np.minimum(w, at.curved / np.maximum(size, TINY))
        root = _expected(shares, above, below)
        return Terms(w * psi, np.sqrt(w) * root, w * root, nothing)


FEWEST_CATEGORIES, MOST_CATEGORIES = 3, 20  # categories
PLAUSIBLE_SD = 0.75  # sd of a coefficient that the planner thinks plausible


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response without three ordered categories, and a formula without an intercept."""
    categories = categories_of(design)
    if not FEWEST_CATEGORIES <= len(categories) <= MOST_CATEGORIES:
        few = "; use logistic for two" if len(categories) < FEWEST_CATEGORIES else "; declare fewer"
        message = f"ordinal regression needs {FEWEST_CATEGORIES} to {MOST_CATEGORIES} categories"
        raise SpecError(POINTER, f"{message}, not {len(categories)}{few}")


def categories_of(design: Design) -> tuple[str, ...]:
    """Return the declared categories of the response, in order.

    Raises SpecError where it has none, or the formula no intercept, whose place the cuts take.
    """
    response = response_of(design)
    if not isinstance(response, CategoryColumn):
        message = "ordinal regression needs a category column, declared in order, as its response"
        raise SpecError(POINTER, message)
    if design.parameters[0] != INTERCEPT:
        message = "cuts stand in the place of the intercept of ordinal regression: leave out 0 or -"
        raise SpecError(POINTER, f"{message} 1")
    return response.categories


def parameters(design: Design, _: ModelSpec) -> tuple[str, ...]:
    """Return the names of the cut points, in order, and of the slopes."""
    words = categories_of(design)
    cuts = [f"{low}|{high}" for low, high in pairwise(words)]
    return distinct([*cuts, *design.parameters[1:]])


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return Normal(0, 2.5) for what is left open."""
    names = parameters(design, model)
    return normal_priors(model.prior, names, usual(len(names)))


def even_cuts(count: int) -> Floats:
    """Return cut points (count,) between equally frequent categories."""
    return np.asarray(logit(np.arange(1.0, count + 1.0) / (count + 1.0)))


class OrdinalForm(DesignForm):
    """Positions are the cut points (k,) and the slopes (d - 1,). See Form.

    The response of a row is the number of its category.
    """

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        super().__init__(design, prior(design, spec.model))
        self.classes = len(categories_of(design)) - 1
        self.start = np.zeros(len(self.prior_mean))
        self.start[: self.classes] = even_cuts(self.classes)


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior where categories are equally frequent.

    What plausible coefficients take of that is as in logistic.
    """
    tempering, cuts = spec.model.tempering or 1.0, len(categories_of(design)) - 1
    sds = prior(design, spec.model)[1]
    moments = second_moments(design)
    spread = PLAUSIBLE_SD**2 * float(np.trace(moments))
    slopes = information(even_cuts(cuts)[:, None])[..., 0]
    slopes = slopes / math.sqrt(1.0 + math.pi * spread / 8.0)
    expand = spread_out(cuts, len(moments))
    rows = design.schema.rows * tempering
    most = 2.0 * tempering
    return Guess(
        precision=rows * (expand.T @ np.kron(slopes, moments) @ expand) + np.diag(sds**-2.0),
        width=np.full(len(sds), most),
        joint_width=most * len(sds),
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
    )


MODEL = Model(
    "ordinal",
    check=check,
    form=OrdinalForm,
    guess=guess,
    example=ModelSpec(family="ordinal", formula="g ~ x"),
    options=frozenset(),
    parameters=parameters,
    prior=prior,
    chains=False,
    rows=lambda _: Ordinal(),
    categories=probabilities,
)
