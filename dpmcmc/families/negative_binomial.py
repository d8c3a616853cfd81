"""Negative binomial regression with a log link: counts that vary more than Poisson ones.

A count with mean mu has variance mu + mu^2 / k: the smaller k, the more counts vary; a large one is
Poisson regression. k is a parameter, by its logarithm log_dispersion, unless options.dispersion
gives it. Means and k hang not together under the model, and intervals are by the scores as they
are, so that they are those of the fit without privacy where counts follow another law.
Where a k is given and counts vary more than it says, intervals are too narrow, which the verdict
tells, and where noise makes rows be cut the intercept is off as well, which is unreliable; where
they vary less, intervals are too wide, which nothing tells.
Priors are those of Poisson, and of log_dispersion Normal(0, 2).
noisy_quadratic releases it; no chain samples it. Source: Lawless 1987.
"""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import betainc, digamma, nbdtrik, polygamma

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import LOG_DISPERSION
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.misfits import WIDE, Misfits
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.poisson import MAX_PREDICTOR, MOST_COUNT, count_of, counted, typical_rate
from dpmcmc.families.poisson import prior as prior_of_means
from dpmcmc.families.priors import Normals, normal_priors
from dpmcmc.families.scores.base import (
    TINY,
    UNCUT,
    Evaluation,
    Floats,
    Link,
    Terms,
    Variance,
    nodes_of,
)
from dpmcmc.families.scores.distributions import Distribution, of_counts
from dpmcmc.families.scores.responses import Response, counts, rate, uneven
from dpmcmc.formula.design import Design, check_measured
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS
from dpmcmc.privacy.noise import RandomSource

LEAST_K, MOST_K = 0.01, 1e6
LOG_K_SD = 2.0  # of its prior: a k is mostly between a fiftieth and fifty
WANTED = "negative binomial regression needs a number with a lower bound of 0 or more as response"


def check(design: Design, model: ModelSpec) -> None:
    """Refuse a response that cannot be a count, and a dispersion that is not positive."""
    check_measured(count_of(design, WANTED), MOST_COUNT)
    k = model.options.dispersion
    if k is not None and not LEAST_K <= k <= MOST_K:
        raise SpecError("/model/options/dispersion", f"must be between {LEAST_K:g} and {MOST_K:g}")


class NegativeBinomial:
    """The score is k (y - mu) / (k + mu). scale: residual sd over the negative binomial sd."""

    link: Link = "log"
    has_scale, log_scale, quadratic = True, False, False

    def __init__(self, k: float) -> None:
        self.k, self.variance = k, Variance(1.0, k)

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row.

        The mean of a score over a spread of predictors is the score at one mean.
        """
        k, gain, steep = self.k, np.zeros_like(y), np.zeros_like(y)
        for eta, weight in nodes_of(at):
            at_node = np.exp(np.minimum(eta, MAX_PREDICTOR))
            gain += weight * k / (k + at_node)
            steep += weight * k * at_node / (k + at_node)
        mean = steep / gain

        def distribution(j: Floats) -> Floats:
            """Return P(Y <= j), (m,)."""
            return np.asarray(betainc(k, j + 1.0, gain))

        return counted(y, at, mean, distribution, gain, 1.0 / k)


# on the way to the mode: the k that it begins with, and what it may be taken to be after that
FIRST_K, START_K = 5.0, (0.05, 20.0)
FARTHEST_LOG_K = (math.log(1e-3), math.log(MOST_K))  # more is not told apart
FEW_COUNTS, MANY_COUNTS, SUMMED = 64, 1e12, 160  # summed one by one, then at so many places
LOG_MEANS = np.linspace(-12.0, MAX_PREDICTOR, 127)  # between which information is interpolated


@lru_cache(maxsize=8)
def _logs_of_information(k: float) -> Floats:
    """Return logs of a count's information about log k at LOG_MEANS, over (mean / (k + mean))^2.

    k^2 times the sum over j of P(Y > j) / (k + j)^2, less k mean / (k + mean): Lawless 1987.
    """
    mean = np.exp(LOG_MEANS)[:, None]
    ends = np.append(
        np.arange(FEW_COUNTS + 1.0), np.geomspace(FEW_COUNTS + 1.0, MANY_COUNTS, SUMMED)
    )
    low, high = ends[:-1], ends[1:]
    middle = np.where(high - low > 1.0, np.sqrt(low * high), low)
    beyond = betainc(np.floor(middle) + 1.0, k, mean / (k + mean))
    weights = np.where(
        high - low > 1.0, 1.0 / (k + low - 0.5) - 1.0 / (k + high - 0.5), 1.0 / (k + low) ** 2
    )
    information = k * k * (beyond * weights).sum(axis=1) - (k * mean / (k + mean))[:, 0]
    least, most = 1.0 / (2.0 * k * (k + 1.0)), k * k * float(polygamma(1, k)) - k
    shape = (mean[:, 0] / (k + mean[:, 0])) ** 2
    # of small means it is least mean^2, and of large ones most
    floor, ceiling = sorted((least * k * k, most))
    return np.asarray(np.log(np.clip(information / shape, floor, ceiling)))


class AnyDispersion:
    """Negative binomial counts with unknown k: log k is a coefficient behind the others.

    The score in log k is k (digamma(y + k) - digamma(k) - log(1 + mu / k) + (mu - y) / (k + mu)).
    The slope is the observed one in the predictor, and the expected one in log k: what a row is
    seen to tell of that is many times what rows tell on average where counts are nearly Poisson.
    """

    link: Link = "log"
    has_scale, log_scale, quadratic, variance = False, True, False, Variance(1.0)
    symmetric = True

    def known(self) -> NegativeBinomial:
        """Return the family with k fixed, which starts the path to the mode: see ShapedFamily."""
        return NegativeBinomial(FIRST_K)

    def scale_of(self, mean: float, dispersion: float) -> float:
        """Return k at a mean response, from the variance mean + mean^2 / k of counts."""
        more = dispersion**2 * (1.0 + mean / FIRST_K) - 1.0
        return float(np.clip(mean / max(more, TINY), *START_K))

    def mean_of(self, eta: Floats) -> Floats:
        """Return mean counts at predictors eta."""
        return np.asarray(np.exp(np.clip(eta, -MAX_PREDICTOR, MAX_PREDICTOR)))

    def expected(self, mean: Floats, scale: float) -> Floats:
        """Return (2, m), the expected information of a row about its predictor and about log k."""
        k, logs = min(max(scale, math.exp(FARTHEST_LOG_K[0])), MOST_K), np.log(mean + TINY)
        about_log_k = np.exp(np.interp(logs, LOG_MEANS, _logs_of_information(k)))
        return np.stack((k * mean / (k + mean), about_log_k * (mean / (k + mean)) ** 2))

    def tails(self, mean: float, scale: float, beyond: float) -> tuple[float, float]:
        """Return counts below and above which a share `beyond` lies, at this mean."""
        most = float(nbdtrik(1.0 - beyond, scale, scale / (scale + mean)))
        return 0.0, max(np.nan_to_num(most, nan=math.inf), 1.0)

    def largest_information(self, most: float) -> tuple[float, float]:
        """Return the largest information about predictor and log k. most: largest count."""
        return most + 0.5, 1.0

    def score(self, y: Floats, mean: Floats, scale: float) -> Floats:
        """Return (2, m), unclipped derivatives of the log likelihood by predictor and by log k."""
        gain = scale / (scale + mean)
        logs = digamma(y + scale) - digamma(scale) - np.log1p(mean / scale)
        return np.stack((gain * (y - mean), scale * logs + gain * (mean - y)))

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope and its variance, for the predictor and log k of each row.

        On the way to the mode long rows are weighted down by what they tell on average.
        """
        k = float(np.exp(np.clip(at.shared, *FARTHEST_LOG_K)))
        mean = self.mean_of(at.eta[0])
        psi, information, w = self.score(y, mean, k), self.expected(mean, k), np.ones_like(y)
        if at.most < UNCUT:
            size = information[0] * at.inner[0, 0] + information[1] * at.inner[1, 1]
            w = np.minimum(1.0, at.curved / np.maximum(size, TINY))
        else:
            information[0] *= (k + y) / (k + mean)
        root = np.zeros((2, 2, len(y)))
        root[[0, 1], [0, 1]] = np.sqrt(np.maximum(information, 0.0))
        return Terms(w * psi, np.sqrt(w) * root, w * root, np.zeros_like(y))


def parameters(design: Design, model: ModelSpec) -> tuple[str, ...]:
    """Return the names of what is released."""
    known = model.options.dispersion is not None
    return design.parameters if known else (*design.parameters, LOG_DISPERSION)


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors: those of Poisson regression, and that of log k where k is not given."""
    of_means = prior_of_means(design, replace(model, prior=None))
    names, d = parameters(design, model), len(design.parameters)
    means, sds = np.zeros(len(names)), np.full(len(names), LOG_K_SD)
    means[:d], sds[:d] = of_means
    return normal_priors(model.prior, names, (means, sds), same=d)


class Form(DesignForm):
    """Positions are the coefficients, with log k behind them where k is not given. See Form."""

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        response = count_of(design, WANTED)
        super().__init__(design, prior(design, spec.model), (response.lower, response.upper))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior at means around 1: a row's information is k mu / (k + mu).

    Where k is not given, that of 1.
    """
    k, form = spec.model.options.dispersion or 1.0, Form(design, spec)
    sds, tempering = prior(design, spec.model)[1], spec.model.tempering or 1.0
    d = len(design.parameters)
    mean = typical_rate(design, sds[:d])
    each = AnyDispersion().expected(np.array([mean]), k)[:, 0]
    rows, most = design.schema.rows * tempering, tempering * max(k, form.public.response[1])
    precision = np.diag(form.prior_precision)
    precision[:d, :d] += rows * each[0] * second_moments(design)
    precision[d:, d:] += rows * each[1]
    return Guess(
        precision=precision,
        width=np.full(len(sds), most),  # a score is between -k and y
        joint_width=most * len(sds),
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
    )


def room(model: ModelSpec, mean: float, ratio: float | None) -> str:
    """Return advice: which family or dispersion allows counts that vary more than the model says.

    By the variance mean (1 + mean / k) of counts, which is ratio times the model's own, their mean.
    """
    if model.family == MODEL.family:
        return "a smaller dispersion, or one that is estimated as you give none,"
    if ratio is None:
        return MODEL.family
    k = min(max(mean / (ratio - 1.0), LEAST_K), MOST_K)
    return f"{MODEL.family} with a dispersion of about {float(f'{k:.1g}'):g}"


def rows_of(options: ModelOptions) -> NegativeBinomial | AnyDispersion:
    """Return the family of scores: with k given, or with k unknown."""
    return AnyDispersion() if options.dispersion is None else NegativeBinomial(options.dispersion)


def response(options: ModelOptions) -> Response:
    """Return how new counts are simulated: Poisson counts with gamma-distributed means."""
    known = options.dispersion

    def drawn(mean: Floats, sds: Floats, random: RandomSource) -> Floats:
        """Return simulated counts with these means."""
        return counts(uneven(mean, sds if known is None else known, random), sds, random)

    return Response(rate, drawn, "mean count")


def distribution(options: ModelOptions) -> Distribution:
    """Return the distribution function of a count."""
    known = options.dispersion

    def of_rows(y: Floats, _: Floats, eta: Floats, scale: Floats | float) -> tuple[Floats, Floats]:
        """Return P(Y < y) and P(Y <= y): see Distribution."""
        k = scale if known is None else known
        gain = k / (k + np.exp(np.minimum(eta, MAX_PREDICTOR)))
        return of_counts(y, lambda j: np.asarray(betainc(k, j + 1.0, gain)))

    return of_rows


FAMILY = "negative_binomial"
MODEL = Model(
    FAMILY,
    check=check,
    form=Form,
    guess=guess,
    example=ModelSpec(family="negative_binomial", formula="count ~ x"),
    options=frozenset({"dispersion"}),
    parameters=parameters,
    prior=prior,
    chains=False,
    rows=rows_of,
    response=response,
    distribution=distribution,
    misfits=Misfits(
        "counts",
        {("counts", WIDE): f"counts vary more than the model's: {FAMILY} has room for that"},
    ),
    room=room,
)
