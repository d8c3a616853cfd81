"""Hurdle Poisson regression of counts with zeros of their own kind.

Whether a count is 0 is a logistic regression, and how large it is above 0 a Poisson regression that
is truncated at 0 (Mullahy 1986). Both are on the same design. Coefficients of the log rate of
counts above 0 have the names of their columns; those of the log odds of a zero follow and have
`zero_` before theirs. Priors, where none are given: those of Poisson regression, and Normal(0, 2.5)
for the log odds. noisy_quadratic releases it; no chain samples it.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.special import expit, gammaln, pdtr, pdtrik

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import distinct
from dpmcmc.families import poisson
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.misfits import MORE_BELOW, WIDE, Misfits
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.poisson import MAX_PREDICTOR, MOST_COUNT, count_of, typical_rate
from dpmcmc.families.priors import Normals, normal_priors, usual
from dpmcmc.families.scores.base import (
    NODES,
    TINY,
    UNCUT,
    WEIGHTS,
    Evaluation,
    Link,
    Terms,
    Variance,
)
from dpmcmc.families.scores.distributions import of_counts
from dpmcmc.families.scores.responses import COUNTED, Response, rate
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design, check_measured, response_of
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS
from dpmcmc.privacy.noise import RandomSource

# A row with rate e^a of its count and log odds b of a zero has the log likelihood log F(b) where
# its count y is 0, and log F(-b) + a y - e^a - log(1 - exp(-e^a)) above: one part for each, both
# concave. A count above 0 has the mean m = e^a / (1 - exp(-e^a)) and the variance m (1 + e^a - m),
# which is minus the second derivative in a. Constants: docs/proofs/noisy_quadratic.md, section 5.
SMALL_RATE = 1e-3  # below which moments of a truncated count are taken from their series
ZERO = "zero_"  # before names of coefficients of the log odds of a zero
ZERO_COUNT = "0"  # name of that count among probabilities


def positive_moments(predictor: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of Poisson counts above 0, given the logs of their rates."""
    scale = np.exp(np.clip(predictor, -MAX_PREDICTOR, MAX_PREDICTOR))
    mean = -scale / np.expm1(-scale)
    beyond = np.where(scale < SMALL_RATE, scale * (0.5 - scale / 12.0), 1.0 + scale - mean)
    return mean, np.asarray(mean * beyond)


class HurdlePoisson:
    """Scores of the log rate of counts above 0, and of the log odds of a zero.

    On the way to the mode long rows are weighted down by what they tell on average. scale: residual
    sd of counts above 0 over that of the model's, where zeros count as residuals of 1.
    """

    link: Link = "hurdle"
    has_scale, log_scale, quadratic, variance = True, False, False, Variance(1.0)

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        positive = (y > 0.0) * 1.0
        mean, variance, zero, zero_variance = averaged(at)
        psi = np.stack((positive * (y - mean), 1.0 - positive - zero))
        residuals = np.where(positive > 0.0, (y - mean) ** 2 / np.maximum(variance, TINY), 1.0)
        square = np.minimum(residuals / at.scale**2, at.cut**2)
        root = np.zeros((2, 2, len(y)))
        root[0, 0], root[1, 1] = positive * np.sqrt(variance), np.sqrt(zero_variance)
        if at.most >= UNCUT:
            return Terms(psi, root, root, square)
        size = (1.0 - zero) * variance * at.inner[0, 0] + zero_variance * at.inner[1, 1]
        w = np.minimum(1.0, at.curved / np.maximum(size, TINY))
        return Terms(w * psi, np.sqrt(w) * root, w * root, square)


def averaged(at: Evaluation) -> tuple[Floats, Floats, Floats, Floats]:
    """Return (m,): mean and variance of a count above 0, probability of a zero, its variance.

    Averaged over the posterior's spread of each predictor; a likelihood is one of each alone.
    """
    sds = np.zeros_like(at.eta)
    if at.cover.size:
        sds = np.sqrt(np.maximum(np.einsum("ccm->cm", at.cover), 0.0))
    parts = np.zeros((4, at.eta.shape[1]))
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        predictor, odds = at.eta + node * sds
        zero = expit(odds)
        parts += weight * np.stack((*positive_moments(predictor), zero, zero * expit(-odds)))
    mean, variance, zero, zero_variance = parts
    return mean, variance, zero, zero_variance


def information(predictors: Floats) -> Floats:
    """Return (2, ...), expected information of rows about predictors (2, ...): no cross terms."""
    predictor, odds = predictors
    return np.stack((expit(-odds) * positive_moments(predictor)[1], expit(odds) * expit(-odds)))


# Log rates by means of log counts above 0: what a linear regression of log counts finds.
LOG_RATES = np.linspace(-5.0, 4.0, 91)
COUNTS = np.arange(1.0, 301.0)


def _mean_logs() -> Floats:
    """Return the mean logs of counts above 0 at LOG_RATES."""
    logs = LOG_RATES[:, None] * COUNTS - gammaln(COUNTS + 1.0)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray((shares * np.log(COUNTS)).sum(axis=1) / shares.sum(axis=1))


MEAN_LOGS = _mean_logs()


def log_rate(mean_log: float) -> tuple[float, float]:
    """Return the log rate at a mean log of counts above 0, and by how much it changes with it."""
    if mean_log >= MEAN_LOGS[-1]:
        return mean_log, 1.0
    k = int(np.clip(np.searchsorted(MEAN_LOGS, mean_log), 1, len(MEAN_LOGS) - 1))
    steep = (LOG_RATES[k] - LOG_RATES[k - 1]) / (MEAN_LOGS[k] - MEAN_LOGS[k - 1])
    return float(np.interp(mean_log, MEAN_LOGS, LOG_RATES)), float(steep)


# What two predictors say of counts.
def means(predictors: Floats) -> dict[str, Floats]:
    """Return mean counts and probabilities of a zero at predictors (2, ...)."""
    predictor, odds = predictors
    return {"": expit(-odds) * positive_moments(predictor)[0], ZERO_COUNT: expit(odds)}


def drawn(predictors: Floats, random: RandomSource) -> Floats:
    """Return simulated counts at predictors (2, ...)."""
    predictor, odds = predictors
    size = np.exp(np.clip(predictor, -MAX_PREDICTOR, MAX_PREDICTOR))
    small, most = np.minimum(size, COUNTED), np.nextafter(1.0, 0.0)
    share = -np.expm1(-small) * random.uniforms(size.shape) + np.exp(-small)
    counts = np.nan_to_num(np.ceil(pdtrik(np.minimum(share, most), small)), nan=1.0)
    counts = np.where(size < COUNTED, counts, size + np.sqrt(size) * random.normals(size.shape))
    zero = random.uniforms(size.shape) < expit(odds)
    return np.where(zero, 0.0, np.maximum(counts, 1.0))


RESPONSE = Response(rate, None, "mean count", means=means, counts=drawn)


def distribution(y: Floats, _: Floats, eta: Floats, __: Floats | float) -> tuple[Floats, Floats]:
    """Return P(Y < y) and P(Y <= y): see Distribution."""
    size, zero = np.exp(np.clip(eta[0], -MAX_PREDICTOR, MAX_PREDICTOR)), expit(eta[1])

    def cumulative(j: Floats) -> Floats:
        """Return P(Y <= j), (n,)."""
        above = (pdtr(j, size) - np.exp(-size)) / -np.expm1(-size)
        return np.asarray(zero + (1.0 - zero) * np.clip(above, 0.0, 1.0))

    return of_counts(y, cumulative)


WANTED = "hurdle Poisson regression needs a count with a lower bound of 0 as its response"


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response that cannot be a count with zeros."""
    response = response_of(design)
    if not isinstance(response, NumberColumn):
        raise SpecError(POINTER, WANTED)
    if response.lower != 0.0 or 0.0 in response.missing:
        reason = "stands for missing values" if response.lower == 0.0 else "is not its lower bound"
        message = f"{WANTED}, and of {response.name!r} 0 {reason}"
        raise SpecError(POINTER, f"{message}: without zeros write family poisson")
    check_measured(response, MOST_COUNT)


def parameters(design: Design, _: ModelSpec) -> tuple[str, ...]:
    """Return the names of coefficients of the log rate, and of the log odds of a zero."""
    return distinct([*design.parameters, *(f"{ZERO}{name}" for name in design.parameters)])


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors: those of Poisson regression, and Normal(0, 2.5) for log odds."""
    of_counts = poisson.prior(design, replace(model, prior=None))
    odds = usual(len(design.parameters))
    both = tuple(np.concatenate(parts) for parts in zip(of_counts, odds, strict=True))
    return normal_priors(model.prior, parameters(design, model), (both[0], both[1]))


class HurdleForm(DesignForm):
    """Positions are the coefficients of the log rate (d,), and of log odds (d,). See Form."""

    family, classes = NOT_IN_KERNELS, 2

    def __init__(self, design: Design, spec: JobSpec) -> None:
        response = count_of(design, WANTED)
        super().__init__(design, prior(design, spec.model), (response.lower, response.upper))
        self.start = np.zeros(len(self.prior_mean))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected where half of the counts are 0, and rates are around 1."""
    tempering, sds = spec.model.tempering or 1.0, prior(design, spec.model)[1]
    moments, d = second_moments(design), len(design.parameters)
    rate_of_rows = typical_rate(design, sds[:d])
    each = information(np.array([math.log(rate_of_rows), 0.0]))
    rows = design.schema.rows * tempering
    precision = rows * np.kron(np.diag(each), moments) + np.diag(sds**-2.0)
    most = tempering * max(HurdleForm(design, spec).public.response[1], 1.0)
    return Guess(
        precision=np.asarray(precision, np.float64),
        width=np.full(2 * d, most),  # a score is between -1 and y
        joint_width=most * 2 * d,
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
    )


FAMILY = "hurdle_poisson"
MODEL = Model(
    FAMILY,
    check=check,
    form=HurdleForm,
    guess=guess,
    example=ModelSpec(family="hurdle_poisson", formula="count ~ x"),
    options=frozenset(),
    parameters=parameters,
    prior=prior,
    chains=False,
    rows=lambda _: HurdlePoisson(),
    response=lambda _: RESPONSE,
    distribution=lambda _: distribution,
    misfits=Misfits(
        "counts",
        offers={
            ("counts", WIDE): f"if it is zeros that there are too many of, {FAMILY}",
            (
                "counts",
                MORE_BELOW,
            ): f"there are more small counts than the model's: {FAMILY} has room"
            " for zeros of their own kind",
        },
    ),
)
