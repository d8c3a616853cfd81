"""Negative binomial regression with a log link: counts that vary more than Poisson ones.

A count with mean mu has variance mu + mu^2 / k. k is options.dispersion, which is given and never
estimated: the smaller, the more counts vary; a large one is Poisson regression. Where counts vary
more than k says, intervals are too narrow, which the verdict tells, and where noise makes rows be
cut the intercept is off as well, which is unreliable; where they vary less, intervals are too wide,
which nothing tells. Priors are those of Poisson.
noisy_quadratic releases it; no chain samples it.
"""

import numpy as np
from scipy.special import betainc

from dpmcmc.base.errors import SpecError
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.poisson import (
    MAX_PREDICTOR,
    MOST_COUNT,
    PoissonForm,
    counted,
    prior,
    typical_rate,
)
from dpmcmc.families.scores.base import Evaluation, Floats, Link, Terms, Variance, nodes_of
from dpmcmc.families.scores.responses import Response, counts, rate, uneven
from dpmcmc.formula.design import POINTER, Design, check_measured, response_of
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS

LEAST_K, MOST_K = 0.01, 1e6
EXAMPLE = ModelSpec(
    family="negative_binomial", formula="count ~ x", options=ModelOptions(dispersion=2.0)
)
WANTED = "negative binomial regression needs a number with a lower bound of 0 or more as response"


def check(design: Design, model: ModelSpec) -> None:
    """Refuse a response that cannot be a count, and a dispersion that is none."""
    response, k = response_of(design), model.options.dispersion
    if not isinstance(response, NumberColumn) or response.lower < 0:
        raise SpecError(POINTER, WANTED)
    check_measured(response, MOST_COUNT)
    if k is None:
        raise SpecError("/model/options/dispersion", "is needed by negative_binomial")
    if not LEAST_K <= k <= MOST_K:
        raise SpecError("/model/options/dispersion", f"must be between {LEAST_K:g} and {MOST_K:g}")


class NegativeBinomial:
    """The score is k (y - mu) / (k + mu). scale: residual sd over that of the model."""

    link: Link = "log"
    has_scale, log_scale, quadratic = True, False, False

    def __init__(self, k: float) -> None:
        self.k, self.variance = k, Variance(1.0, k)

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row.

        The mean of a score over a spread of predictors is the score at one mean. The truncated mean
        is E[Y; Y <= j] = mu P(Y' <= j - 1), Y' of size k + 1 and the same k / (k + mu), used twice.
        """
        k, gain, steep = self.k, np.zeros_like(y), np.zeros_like(y)
        for eta, weight in nodes_of(at):
            there = np.exp(np.minimum(eta, MAX_PREDICTOR))
            gain += weight * k / (k + there)
            steep += weight * k * there / (k + there)
        mean = steep / gain
        second = mean * mean * (k + 1.0) / k

        def of(j: Floats, more: int) -> Floats:
            return np.asarray(betainc(k + more, j + 1.0, gain))

        return counted(y, at, mean, second, of, gain)


class Form(PoissonForm):
    """Positions are the coefficients. See Form."""

    family = NOT_IN_KERNELS


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the guess at means around 1: the information of a row is k mu / (k + mu)."""
    k, form = dispersion_of(spec.model.options), Form(design, spec)
    sds, tempering = prior(design, spec.model)[1], spec.model.tempering or 1.0
    mean = typical_rate(design, spec)
    rows = design.schema.rows * tempering * k * mean / (k + mean)
    most = tempering * max(k, form.public.response[1])  # a score is between -k and y
    return Guess(
        precision=rows * second_moments(design) + np.diag(form.prior_precision),
        width=np.full(len(sds), most),
        joint_width=most * len(sds),
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
    )


def dispersion_of(options: ModelOptions) -> float:
    """Return k; no number where there is none, which no plan allows."""
    return options.dispersion or np.nan


def room(model: ModelSpec, mean: float, ratio: float | None) -> str:
    """Return what has room for counts that vary more than a model says, in words.

    By the variance mean (1 + mean / k) of counts, which is ratio times the model's own, their mean.
    """
    if model.family == MODEL.family:
        return "a smaller dispersion"
    if ratio is None:
        return MODEL.family
    k = min(max(mean / (ratio - 1.0), LEAST_K), MOST_K)
    return f"{MODEL.family} with a dispersion of about {float(f'{k:.1g}'):g}"


def response(options: ModelOptions) -> Response:
    """Return how new counts are drawn: Poisson with gamma-distributed means."""
    k = dispersion_of(options)
    return Response(
        rate, lambda mean, sds, random: counts(uneven(mean, k, random), sds, random), "mean count"
    )


MODEL = Model(
    "negative_binomial",
    check=check,
    form=Form,
    guess=guess,
    example=EXAMPLE,
    options=frozenset({"dispersion"}),
    needed=frozenset({"dispersion"}),
    prior=prior,
    chains=False,
    rows=lambda options: NegativeBinomial(dispersion_of(options)),
    response=response,
    room=room,
)
