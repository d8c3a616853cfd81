"""Multinomial logistic regression of a column of three or more categories over a public design.

The first declared category is the reference. Every other one has coefficients of its own, the log
odds against the reference, named `category:column`: "medium:Intercept", "medium:age". Priors, where
none are given: Normal(0, 2.5) for every coefficient. No chain samples it; noisy_quadratic does.
"""

import math

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import distinct
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.priors import Normals, normal_priors, usual
from dpmcmc.families.scores.base import BINOMIAL, TINY, Evaluation, Link, Terms
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design, response_of
from dpmcmc.inputs.schema import CategoryColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS

# Multinomial logistic regression: categories 0, 1, ..., K - 1, of which 0 is the reference.
#
# A row has K - 1 predictors, the log odds of the other categories against the reference. With e_y
# the indicator of its response and q their probabilities, psi = w (e_y - q) and the slope is
# w (diag q - q q^T). w depends only on the covariates and the coefficients, so that psi has mean 0.
# Constants: docs/proofs/noisy_quadratic.md, section 5.
LARGEST_SHIFT = 1.0  # that a predictor is moved, so that probabilities are means over its spread


def probabilities(eta: Floats) -> tuple[Floats, Floats]:
    """Return the reference's probabilities (m,) and the others' (k, m), given predictors (k, m)."""
    top = np.maximum(eta.max(axis=0), 0.0)
    first, others = np.exp(-top), np.exp(eta - top)
    total = first + others.sum(axis=0)
    return first / total, others / total


def averaged(eta: Floats, cover: Floats) -> tuple[Floats, Floats]:
    """Return mean probabilities over normal predictors with covariance `cover` (k, k, m).

    To the second order in it, and positive: those at eta + diag(cover) / 2 - cover @ q.
    """
    first, q = probabilities(eta)
    if not cover.size:
        return first, q
    shift = 0.5 * np.einsum("ccm->cm", cover) - np.einsum("cdm,dm->cm", cover, q)
    return probabilities(eta + np.clip(shift, -LARGEST_SHIFT, LARGEST_SHIFT))


def root_of(first: Floats, q: Floats) -> Floats:
    """Return a root (k, k, m) of the multinomial covariance diag(q) - q q^T of each row.

    For s = sqrt(q), |s|^2 = 1 - first: (1 - s s^T)^(1/2) = 1 - s s^T / (1 + sqrt(first)).
    """
    s = np.sqrt(q)
    root = -(q / (1.0 + np.sqrt(first)))[:, None] * s[None]
    root[range(len(q)), range(len(q))] += s
    return np.asarray(root)


def softened(root: Floats, cover: Floats) -> Floats:
    """Return a root of the slope averaged over normal predictors with covariance `cover` (k, k, m).

    To the second order in it: a mean of diag q - q q^T is that of the mean probabilities, root @
    root.T, less the covariance of q, root @ part @ root.T.
    """
    if not cover.size:
        return root
    part = np.einsum("cjm,cdm,dim->jim", root, cover, root, optimize=True)
    part = part / np.maximum(1.0, np.einsum("ccm->m", part))
    return np.asarray(root - 0.5 * np.einsum("cjm,jim->cim", root, part))


class Multinomial:
    """The score is indicators less probabilities; rows are weighted by their longest score."""

    link: Link = "softmax"
    has_scale, log_scale, quadratic, variance = False, False, False, BINOMIAL

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        first, q = averaged(at.eta, at.cover)
        along, sizes = np.einsum("cdm,dm->cm", at.inner, q), np.einsum("ccm->cm", at.inner)
        mean = (q * along).sum(axis=0)
        longest = np.sqrt(
            np.maximum(mean + np.maximum((sizes - 2.0 * along).max(axis=0), 0.0), 0.0)
        )
        slope = (q * sizes).sum(axis=0) - mean
        w = np.minimum(1.0, at.most / np.maximum(longest, TINY))
        w = np.minimum(w, at.curved / np.maximum(slope, TINY))
        hit = y == np.arange(1.0, len(q) + 1.0)[:, None]
        root = softened(root_of(first, q), at.cover)
        return Terms(w * (hit - q), np.sqrt(w) * root, w * root, np.zeros_like(y))


FEWEST_CATEGORIES, MOST_CATEGORIES = 3, 20  # categories
MOST_COEFFICIENTS = 200  # coefficients
PLAUSIBLE_SD = 0.75  # sd of a coefficient that the planner thinks plausible


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response without three categories, and too many coefficients. Raises SpecError."""
    categories = categories_of(design)
    if not FEWEST_CATEGORIES <= len(categories) <= MOST_CATEGORIES:
        few = "; use logistic for two" if len(categories) < FEWEST_CATEGORIES else "; declare fewer"
        message = (
            f"multinomial regression needs {FEWEST_CATEGORIES} to {MOST_CATEGORIES} categories, not"
        )
        raise SpecError(POINTER, f"{message} {len(categories)}{few}")
    columns, size = len(design.parameters), len(design.parameters) * (len(categories) - 1)
    if size > MOST_COEFFICIENTS:
        message = f"{columns} columns for each category but the first are {size} coefficients"
        raise SpecError(POINTER, f"{message}; up to {MOST_COEFFICIENTS} are allowed")


def categories_of(design: Design) -> tuple[str, ...]:
    """Return the declared categories of the response. Raises SpecError where it has none."""
    response = response_of(design)
    if not isinstance(response, CategoryColumn):
        raise SpecError(POINTER, "multinomial regression needs a category column as its response")
    return response.categories


def parameters(design: Design, _: ModelSpec) -> tuple[str, ...]:
    """Return the names of coefficients, grouped by category of the response."""
    others = categories_of(design)[1:]
    return distinct([f"{word}:{column}" for word in others for column in design.parameters])


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return Normal(0, 2.5) for what is left open."""
    names = parameters(design, model)
    return normal_priors(model.prior, names, usual(len(names)))


class MultinomialForm(DesignForm):
    """Positions are the coefficients (k, d), grouped by category of the response. See Form.

    The response of a row is the number of its category.
    """

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        super().__init__(design, prior(design, spec.model))
        self.classes = len(categories_of(design)) - 1
        self.start = np.zeros(len(self.prior_mean))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior where the reference is twice as frequent as the others.

    As of categories among covariates; what plausible coefficients take of that is as in logistic.
    """
    tempering, classes = spec.model.tempering or 1.0, len(categories_of(design)) - 1
    sds = prior(design, spec.model)[1]
    moments = second_moments(design)
    spread = PLAUSIBLE_SD**2 * float(np.trace(moments))
    q = np.full(classes, 1.0 / (classes + 2.0))
    slopes = (np.diag(q) - np.outer(q, q)) / math.sqrt(1.0 + math.pi * spread / 8.0)
    rows = design.schema.rows * tempering
    most = 2.0 * tempering  # a ratio changes by at most |x_j| either way
    return Guess(
        precision=np.asarray(rows * np.kron(slopes, moments) + np.diag(sds**-2.0), np.float64),
        width=np.full(len(sds), most),
        joint_width=most * len(sds),
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
        steepest=math.sqrt(2.0) * design.max_norm,
        sharpest=0.25,
    )


def categories(eta: Floats) -> Floats:
    """Return the probabilities (k + 1, n) of all categories, given predictors (k, n)."""
    first, others = probabilities(eta)
    return np.concatenate((first[None], others))


MODEL = Model(
    "multinomial",
    check=check,
    form=MultinomialForm,
    guess=guess,
    example=ModelSpec(family="multinomial", formula="g ~ x"),
    options=frozenset(),
    parameters=parameters,
    prior=prior,
    chains=False,
    rows=lambda _: Multinomial(),
    categories=categories,
)
