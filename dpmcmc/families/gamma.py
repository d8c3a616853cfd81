"""Gamma regression with a log link: costs, lengths of stay and other responses above zero.

The sd of a response is sigma times its mean, that is the shape is 1 / sigma^2. log_sigma is a
parameter, by the squares of y / mu - 1 as in R's summary.glm; exp of a coefficient is a ratio of
means. Coefficients are the maximum likelihood ones, which no sigma moves, and intervals are by the
residuals as they are, so that they hold where responses follow another law with the same means.
Priors are those of Poisson, and of log_sigma Normal(0, SIGMA_PRIOR^2).
noisy_quadratic releases it; no chain samples it. Source: McCullagh and Nelder 1989, chapter 8.
"""

import math

import numpy as np
from scipy.special import gammainc

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families import linear
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.misfits import RIGHT, Misfits
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.poisson import MAX_PREDICTOR, MOST_COUNT, secant
from dpmcmc.families.priors import DEFAULT_SCALE, Normals, normal_priors, usual
from dpmcmc.families.scores.base import (
    TINY,
    UNCUT,
    Evaluation,
    Floats,
    Link,
    Terms,
    Variance,
    nodes_of,
    single,
)
from dpmcmc.families.scores.distributions import of_numbers
from dpmcmc.families.scores.responses import Response, rate, uneven
from dpmcmc.formula.design import POINTER, Design, check_measured, number_response
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS

LEAST_SIGMA, MOST_SIGMA = 0.05, 10.0  # that clips on the way to the mode go by


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response that may be zero or less."""
    number_of(design)


def number_of(design: Design) -> NumberColumn:
    """Return the response's column. Raises SpecError where it is not a number above zero."""
    response = number_response(design, "gamma regression")
    if response.lower <= 0.0:
        message = (
            f"gamma regression needs a response above 0, and the lower bound of {response.name!r}"
            f" is {response.lower:g}: declare the smallest value that it can have, and 0 as a"
            " missing code if it stands for none"
        )
        raise SpecError(POINTER, message)
    check_measured(response, MOST_COUNT)
    return response


class Gamma:
    """The score is (y / mu - 1) / sigma^2. scale: sigma, the coefficient of variation."""

    link: Link = "log"
    has_scale, log_scale, quadratic, variance = True, False, False, Variance(2.0)

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row.

        Where scores are clipped, on the way to the mode, they are centred by the truncated moments
        of a gamma law of this dispersion: E[U^r; U <= u] of mean 1 is E[U^r] P(U_r <= u), U_r of
        shape k + r and the same scale. The slope is the observed one where nothing is clipped.
        """
        inverse = np.zeros_like(y)
        for eta, weight in nodes_of(at):
            inverse += weight * np.exp(-np.clip(eta, -MAX_PREDICTOR, MAX_PREDICTOR))
        u = y * inverse
        square = max(at.scale**2, TINY)
        squared = np.minimum((u - 1.0) ** 2 / square, at.cut**2)
        if at.most >= UNCUT:
            return single((u - 1.0) / square, u / square, np.full_like(u, 1.0 / square), squared)
        k = min(max(at.scale, LEAST_SIGMA), MOST_SIGMA) ** -2.0
        t = at.most * square / np.maximum(at.row_norm, TINY)
        low, high = np.maximum(1.0 - t, 0.0), 1.0 + t
        below, within = ([gammainc(k + r, k * end) for r in range(3)] for end in (low, high))
        inside = within[1] - below[1]
        mean = low * below[0] + inside + high * (1.0 - within[0])
        second = (k + 1.0) / k * (within[2] - below[2])
        variance = low**2 * below[0] + second + high**2 * (1.0 - within[0]) - mean**2
        psi = np.clip(u, low, high) - mean
        slope = inside
        if not at.spread.any():
            apart = np.log(np.maximum(u, TINY))
            slope = secant(psi, apart, slope, np.maximum(u, 1.0))
        longest = np.maximum(high - mean, mean - low)
        w = np.minimum(1.0, t / np.maximum(longest, TINY))
        w = np.minimum(w, at.curved * square / np.maximum(slope * at.row_norm**2, TINY))
        return single(w * psi / square, w * slope / square, w * w * variance / square**2, squared)


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors; the default of the log mean is centred by the response's bounds."""
    response, names, d = number_of(design), linear.parameters(design, model), len(design.parameters)
    means, sds = usual(len(names))
    if INTERCEPT in names:
        low, high, k = math.log(response.lower), math.log(response.upper), names.index(INTERCEPT)
        means[k] = 0.5 * (low + high) - design.middle_offset
        sds[k] = max(DEFAULT_SCALE, 0.25 * (high - low))
    sds[d:] = linear.SIGMA_PRIOR
    return normal_priors(model.prior, names, (means, sds), same=d)


class GammaForm(DesignForm):
    """Positions are (coefficients, log sigma). See Form."""

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        response = number_of(design)
        super().__init__(design, prior(design, spec.model), (response.lower, response.upper))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected before the rows are read, at sigma = 1."""
    form, response = GammaForm(design, spec), number_of(design)
    sds, tempering = prior(design, spec.model)[1], spec.model.tempering or 1.0
    most = tempering * math.sqrt(response.upper / response.lower)
    d, precision = len(design.parameters), np.diag(form.prior_precision)
    precision[:d, :d] += design.schema.rows * tempering * second_moments(design)
    precision[d, d] += 2.0 * design.schema.rows * tempering
    return Guess(
        precision=precision,
        width=np.full(len(sds), most),
        joint_width=most * len(sds),
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
    )


def cumulative(y: Floats, eta: Floats, sigma: Floats | float) -> Floats:
    """Return P(Y <= y), (n,)."""
    shape = np.clip(sigma, 1e-3, 1e3) ** -2.0
    return np.asarray(gammainc(shape, shape * y * np.exp(-np.clip(eta, -700.0, 700.0))))


MODEL = Model(
    "gamma",
    check=check,
    form=GammaForm,
    guess=guess,
    example=ModelSpec(family="gamma", formula="I(count + 1) ~ x"),
    options=frozenset(),
    parameters=linear.parameters,
    prior=prior,
    chains=False,
    rows=lambda _: Gamma(),
    response=lambda _: Response(
        rate, lambda mean, sds, random: uneven(mean, sds**-2.0, random), "mean"
    ),
    distribution=lambda _: of_numbers(cumulative),
    misfits=Misfits(
        "numbers",
        offers={
            ("numbers", RIGHT): "residuals are skewed to the right: gamma, or the log of the"
            " response, if it is above 0"
        },
    ),
)
