"""Poisson regression with a log link of a count over a public design.

The response is a number column whose declared lower bound is not negative. Priors, where none are
given: Normal(0, 2.5), the intercept's around the middle of the logarithms of those bounds.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import pdtr

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model, guess_of, unit_of_predictors
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.misfits import Misfits
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.priors import DEFAULT_SCALE, Normals, normal_priors, usual
from dpmcmc.families.scores.base import TINY, Evaluation, Link, Terms, Variance, nodes_of, single
from dpmcmc.families.scores.distributions import of_counts
from dpmcmc.families.scores.responses import COUNT
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design, check_measured, response_of
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import POISSON


# Poisson regression with a log link.
class Poisson:
    """The score is y - mu. scale: residual sd over the Poisson sd (overdispersion)."""

    link: Link = "log"
    has_scale, log_scale, quadratic, variance = True, False, False, Variance(1.0)

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row."""
        rate = np.zeros_like(y)
        for eta, weight in nodes_of(at):
            rate += weight * np.exp(np.minimum(eta, MAX_PREDICTOR))
        return counted(y, at, rate, lambda j: np.asarray(pdtr(j, rate)))


# Counts with a log link: scores are clipped around their mean, and centred again.
#
# Truncated moments follow from the distribution function, as variances are mean + mean^2 / k:
# (j + 1) P(Y = j + 1) is (k + j) mean / (k + mean) times P(Y = j), of negative binomial counts, of
# Poisson ones with 1 / k = 0, and of cases among n trials with 1 / k = -1 / n.
MAX_PREDICTOR = 30.0  # of a predictor: more is not told apart
HARDLY_CUT = 0.99  # of a slope that cutting leaves
DistributionFunction = Callable[[Floats], Floats]


def moments(
    rate: Floats,
    low: Floats,
    high: Floats,
    distribution: DistributionFunction,
    inverse_size: Floats | float = 0.0,
) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance of h(Y) and Cov(h(Y), Y), for h(y) = y clipped to [low, high].

    Less the rate, which low <= rate <= high. inverse_size: 1 / k, of the variance of counts.
    """
    first, last = np.ceil(low), np.floor(high)
    second = rate * rate * (1.0 + inverse_size)
    below = _parts(rate, first - 1.0, distribution, inverse_size)
    within = _parts(rate, last, distribution, inverse_size)
    mass, first_moment, second_moment = (b - a for a, b in zip(below, within, strict=True))
    first_moment, second_moment = (
        rate * first_moment,
        second * second_moment,
    )  # E[Y; in], E[Y (Y - 1); in]
    off = first_moment - rate * mass
    square = second_moment + first_moment - 2.0 * rate * first_moment + rate * rate * mass
    under, over = low - rate, high - rate
    left, right = rate * (below[1] - below[0]), rate * (within[0] - within[1])
    mean = off + under * below[0] + over * (1.0 - within[0])
    squared = square + under**2 * below[0] + over**2 * (1.0 - within[0])
    slope = square + under * left + over * right
    return mean, squared - mean * mean, slope


def counted(
    y: Floats,
    at: Evaluation,
    rate: Floats,
    distribution: DistributionFunction,
    gain: Floats | float = 1.0,
    inverse_size: float = 0.0,
) -> Terms:
    """Return the statistics of counts y (m,) with these means, see `moments`.

    gain: a score is this times the count less its mean. A squared residual is over the variance
    that the model has, times at.scale^2.
    """
    t = at.most / np.maximum(at.row_norm, TINY)
    room = t / gain
    low, high = np.maximum(rate - room, 0.0), rate + room
    mean, variance, slope = moments(rate, low, high, distribution, inverse_size)
    slope = gain * gain * np.maximum(slope, 0.0)
    psi = gain * (np.clip(y, low, high) - rate - mean)
    if not at.spread.any():
        steepest = gain * np.maximum(rate, y + 0.5)
        slope = secant(psi, np.log(y + 0.5) - at.eta[0], slope, steepest)
    longest = gain * np.maximum(high - rate - mean, rate + mean - low)
    w = np.minimum(1.0, t / np.maximum(longest, TINY))
    w = np.minimum(w, at.curved / np.maximum(slope * at.row_norm**2, TINY))
    observed = _observed(psi, slope, rate, gain) if at.spread.any() else 1.0
    z = (y - rate) ** 2 / np.maximum(rate / gain * at.scale**2, TINY)
    squared = np.minimum(z, at.cut**2)
    return single(w * psi, w * slope * observed, w * w * gain * gain * variance * observed, squared)


def _observed(psi: Floats, slope: Floats, rate: Floats, gain: Floats | float) -> Floats:
    """Return observed slopes relative to the expected ones, with a weight that depends on eta.

    By 1 - gain of itself. Their mean is 1 under the model; where it is wrong, what a posterior has
    for its width are the observed ones. Of rows whose counts are hardly ever cut: of others it
    would be noise, and might be negative.
    """
    uncut = slope >= HARDLY_CUT * gain * rate
    more = np.where(uncut, (1.0 - gain) * psi / np.maximum(slope, TINY), 0.0)
    return np.asarray(np.maximum(1.0 + more, 0.0))


def secant(psi: Floats, apart: Floats, slope: Floats, steepest: Floats) -> Floats:
    """Return secant slopes, with which a Newton step moves by the difference of the log rates.

    Far from the mean the tangent is no use: the score of a clipped row is constant there. None is
    steeper than the tangent at the count or at its mean, between which a secant lies: where their
    logs nearly agree the half that is added to a count leaves any quotient.
    """
    agree = psi * apart > 0.0
    return np.where(agree, np.minimum(psi / np.where(agree, apart, 1.0), steepest), slope)


def _parts(
    rate: Floats, j: Floats, distribution: DistributionFunction, inverse_size: Floats | float
) -> tuple[Floats, Floats, Floats]:
    """Return the parts of 1, Y and Y (Y - 1) that counts up to j (m,) have; 0 where j < 0."""
    if (j < 0.0).all():
        none = np.zeros_like(rate)
        return none, none, none
    up_to, below = (_up_to(i, distribution) for i in (j, j - 1.0))
    lost = np.maximum(1.0 + j * inverse_size, 0.0) * (up_to - below)
    first = np.maximum(up_to - lost, 0.0)
    second = first - lost * j / np.maximum(rate * (1.0 + inverse_size), TINY)
    return up_to, first, np.maximum(second, 0.0)


def _up_to(j: Floats, distribution: DistributionFunction) -> Floats:
    """Return P(Y <= j), (m,). Of j < 0 a distribution function is asked at NaN, which is quick."""
    there = j >= 0.0
    return np.where(there, distribution(np.where(there, j, np.nan)), 0.0)


WANTED = "Poisson regression needs a number with a lower bound of 0 or more as its response"
PLAUSIBLE_SD = 0.5  # sd of a coefficient that the planner thinks plausible
LEAST_RATE = 4.0  # minus its log

MOST_COUNT = 1e50  # sums of squares stay finite; coefficients are of the count's logarithm


def count_of(design: Design, wanted: str) -> NumberColumn:
    """Return the response's column. Raises SpecError(wanted) where it is no number from 0 on."""
    response = response_of(design)
    if not isinstance(response, NumberColumn) or response.lower < 0:
        raise SpecError(POINTER, wanted)
    return response


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response that cannot be a count."""
    check_measured(count_of(design, WANTED), MOST_COUNT)


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors; the default of the log mean is centred by the response's bounds."""
    response, names = response_of(design), design.parameters
    means, sds = usual(len(names))
    if isinstance(response, NumberColumn) and INTERCEPT in names:
        low, high = math.log(response.lower + 0.5), math.log(response.upper + 0.5)
        k = names.index(INTERCEPT)
        means[k] = 0.5 * (low + high) - design.middle_offset
        sds[k] = max(DEFAULT_SCALE, 0.25 * (high - low))
    return normal_priors(model.prior, names, (means, sds))


class PoissonForm(DesignForm):
    """Positions are the coefficients; chains begin at an intercept of 0. See Form."""

    family = POISSON

    def __init__(self, design: Design, spec: JobSpec) -> None:
        response = count_of(design, WANTED)
        super().__init__(design, prior(design, spec.model), (response.lower, response.upper))
        self.start = self.prior_mean.copy()
        if INTERCEPT in design.parameters:
            self.start[design.parameters.index(INTERCEPT)] = 0.0
        self._rate = typical_rate(design, prior(design, spec.model)[1])

    def information_scale(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """Return information (chain, d), gradient sizes (chain,): mean rates over the planned.

        Means are over normal predictors with the released moments.
        """
        scale = np.ones(len(positions))
        if moments is not None and INTERCEPT in self.design.parameters:
            first = moments[self.design.parameters.index(INTERCEPT)]
            spread = moments - np.outer(first, first)
            log = positions @ first + 0.5 * np.einsum("cj,jk,ck->c", positions, spread, positions)
            highest = math.log(max(1.0, self.public.response[1]))
            scale = np.exp(np.clip(log, -LEAST_RATE, highest)) / self._rate
        return np.repeat(scale[:, None], positions.shape[1], axis=1), np.sqrt(scale)


def typical_rate(design: Design, sds: Floats) -> float:
    """Return the mean rate at coefficients of a plausible size. sds: (d,) of their priors."""
    sizes = np.minimum(sds, PLAUSIBLE_SD)
    return float(np.exp(0.5 * (sizes**2 @ np.diag(second_moments(design)))))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected at rates around 1 and coefficients of a plausible size."""
    form, tempering = PoissonForm(design, spec), spec.model.tempering or 1.0
    sds = prior(design, spec.model)[1]
    rows = design.schema.rows * tempering * typical_rate(design, sds)
    precision = rows * second_moments(design) + np.diag(form.prior_precision)
    approximation = guess_of(form, spec, precision, np.minimum(sds, PLAUSIBLE_SD))
    return replace(approximation, distance=np.minimum(sds, LARGEST_COEFFICIENT))


def distribution(y: Floats, _: Floats, eta: Floats, __: Floats | float) -> tuple[Floats, Floats]:
    """Return P(Y < y) and P(Y <= y): see Distribution."""
    rate = np.exp(np.minimum(eta, MAX_PREDICTOR))
    return of_counts(y, lambda j: np.asarray(pdtr(j, rate)))


MODEL = Model(
    "poisson",
    check=check,
    form=PoissonForm,
    guess=guess,
    example=ModelSpec(family="poisson", formula="count ~ x"),
    prior=prior,
    rows=lambda _: Poisson(),
    response=lambda _: COUNT,
    distribution=lambda _: distribution,
    misfits=Misfits("counts"),
    group_sd=unit_of_predictors,
)
