"""Weibull regression of times to an event, some of them censored: `surv(time, event) ~ x`.

The log of a time is x^T beta + sigma W, W the log of a standard exponential variable, so that the
hazard rises with time where sigma is below 1 and falls where it is above: the shape is 1 / sigma.
exp of a coefficient is a ratio of times, as in R's survreg and in brms, and exp(-coefficient /
sigma) one of hazards. log_sigma, survreg's Log(scale), is a parameter. What an event is, and what
censoring may depend on, is as in exponential regression. Intervals are by the scores as they are,
so that they are those of the fit without privacy where times follow another law.
Priors: Normal(0, 2.5), the intercept's around the log of the middle of what times can be, and of
log_sigma Normal(0, 1).
noisy_quadratic releases it; no chain samples it. Source: Kalbfleisch and Prentice 2002, chapter 3.
"""

import math

import numpy as np
from scipy.special import gamma

from dpmcmc.base.names import INTERCEPT
from dpmcmc.families import exponential, linear
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.exponential import USUAL_EVENTS, number_of
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.linear import SIGMAS_IN_RANGE
from dpmcmc.families.misfits import NARROW, WIDE, Misfits
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.priors import DEFAULT_SCALE, Normals, normal_priors, usual
from dpmcmc.families.scores.base import (
    TINY,
    UNCUT,
    Evaluation,
    Floats,
    Link,
    Terms,
    Variance,
)
from dpmcmc.families.scores.distributions import of_times
from dpmcmc.families.scores.given import log_middle
from dpmcmc.families.scores.responses import TIME, Response, rate
from dpmcmc.formula.design import Design
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS

LOG_SIGMA_SD = 1.0  # of its prior: a shape is mostly between a fifth and five
FARTHEST_LOG = 30.0  # of a time, over sigma, from its predictor: more is not told apart
TRIED = 200  # times between two ends, of which the one with the longest score is looked for
MOST_SIGMA = 20.0  # of a mean time: it is beyond all times for larger ones
EULER, VARIANCE_OF_LOG = 0.57722, math.pi**2 / 6.0  # of the log of an exponential variable
INFORMATION_OF_SCALE = VARIANCE_OF_LOG + (1.0 - EULER) ** 2
SHARPEST = 5.0  # information of rows about either, where the law is another one: a mean row's


class Weibull:
    """With u = e^z, z the log of a time less its predictor over sigma, and d = 1 where it ended
    with an event, the score is (u - d) / sigma in the predictor and z (u - d) - d in log sigma.

    Both are martingales in time: those of a row whose time is cut off earlier have mean 0 as well.
    """

    link: Link = "identity"
    has_scale, log_scale, quadratic, variance = False, True, False, Variance(0.0)
    symmetric = False
    information, sharpest = (1.0, INFORMATION_OF_SCALE), SHARPEST
    normal_scale = math.sqrt(VARIANCE_OF_LOG)

    def longest(self, squares: Floats) -> Floats:
        """Return infinity: a score grows with the time without bound (see ScaleFamily)."""
        return np.full(squares.shape[1], np.inf)

    def farthest(self, inner: Floats, ends: tuple[float, float], sd: float) -> float:
        """Return the norm of the longest score of a time between two ends: see SkewedFamily."""
        low, high = np.clip(ends, -FARTHEST_LOG, FARTHEST_LOG)
        z, ended = np.linspace(low, high, TRIED)[:, None], np.array([0.0, 1.0])
        off = np.exp(z) - ended
        psi = np.stack((off / sd, z * off - ended))
        return float(np.sqrt(np.einsum("kzd,kj,jzd->zd", psi, inner, psi).max()))

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope and its variance, for the predictor and log scale of each row.

        y: (m, 2) logs of times, and 1 where an event ended them; (m,) of events alone. The slope is
        that at the mode, where scores add up to 0: u (1 / sigma, z) (1 / sigma, z)^T, and d more in
        log sigma. Where scores are clipped, on the way there, times are cut off where hazards add
        up to so much that a score would be longer, and u takes the place of d: its mean, so that
        both are the variance of the scores.
        """
        logs, ended = y.T if y.ndim == 2 else (y, np.ones_like(y))
        sd, unclipped = np.exp(at.eta[1]), at.most >= UNCUT
        z = np.clip((logs - at.eta[0]) / sd, -FARTHEST_LOG, FARTHEST_LOG)
        units, w, none = np.stack((1.0 / sd, np.ones_like(sd))), np.ones_like(sd), np.zeros_like(sd)
        if not unclipped:
            squares = at.inner[0, 0] / sd**2 + at.inner[1, 1]
            length = np.sqrt(np.maximum(squares, TINY))
            room = np.minimum(at.most / length, at.curved / length**2)
            last = np.log(np.maximum(room, 1.0))  # an event adds 1
            ended, z, w = ended * (z <= last), np.minimum(z, last), np.minimum(room, 1.0)
        u = np.exp(z)
        psi = units * np.stack((u - ended, z * (u - ended) - ended))
        of_scale = np.sqrt(ended if unclipped else u)
        root = units[:, None] * np.array([[np.sqrt(u), none], [np.sqrt(u) * z, of_scale]])
        return Terms(w * psi, np.sqrt(w) * root, w * root, none)


def check(design: Design, _: ModelSpec) -> None:
    """Refuse times that may be zero or negative, and events that are not binary."""
    number_of(design)


def unit_of(design: Design, _: ModelSpec) -> float:
    """Return the unit of positions: an eighth of the range of log times."""
    time = number_of(design)
    return (math.log(time.upper) - math.log(time.lower)) / SIGMAS_IN_RANGE


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors; the default of the log time is centred by its bounds."""
    time, names, d = number_of(design), linear.parameters(design, model), len(design.parameters)
    means, sds = usual(len(names))
    if INTERCEPT in names:
        k, width = names.index(INTERCEPT), math.log(time.upper) - math.log(time.lower)
        means[k] = log_middle(time) - design.middle_offset
        sds[k] = max(2.0 * DEFAULT_SCALE, 0.25 * width)
    sds[d:] = LOG_SIGMA_SD
    return normal_priors(model.prior, names, (means, sds), same=d)


class WeibullForm(DesignForm):
    """Positions are (coefficients, log sigma) in units of unit_of. See Form."""

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        unit, time = unit_of(design, spec.model), number_of(design)
        d, (means, sds) = len(design.parameters), prior(design, spec.model)
        means, sds = np.append(means[:d] / unit, means[d] - math.log(unit)), sds.copy()
        sds[:d] /= unit
        ends = math.log(time.lower) / unit, math.log(time.upper) / unit
        super().__init__(design, (means, sds), ends)


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the posterior expected at sigma = 1, where half of the rows have an event."""
    form, tempering = WeibullForm(design, spec), spec.model.tempering or 1.0
    unit, most = unit_of(design, spec.model), tempering * exponential.MOST_HAZARD
    d, precision = len(design.parameters), np.diag(form.prior_precision)
    rows = design.schema.rows * tempering * USUAL_EVENTS
    precision[:d, :d] += rows * unit**2 * second_moments(design)
    precision[d, d] += rows * INFORMATION_OF_SCALE
    size = np.minimum(form.prior_precision**-0.5, LARGEST_COEFFICIENT / unit)
    return Guess(
        precision=precision,
        width=np.full(d + 1, most),
        joint_width=most * (d + 1),
        distance=size,
    )


def release(design: Design, spec: JobSpec, positions: Floats) -> Floats:
    """Return positions as parameters (..., d) of log times."""
    return linear.in_units(positions, unit_of(design, spec.model), len(design.parameters))


def mean_over(sigma: Floats) -> Floats:
    """Return the mean time over the time scale exp(eta): Gamma(1 + sigma)."""
    return np.asarray(gamma(1.0 + np.minimum(sigma, MOST_SIGMA)))


def cumulative(y: Floats, eta: Floats, sigma: Floats | float) -> Floats:
    """Return P(Y <= y), (n,), of times."""
    logs = (np.log(np.maximum(y, TINY)) - eta) / sigma
    return -np.expm1(-np.exp(np.clip(logs, -FARTHEST_LOG, FARTHEST_LOG)))


MODEL = Model(
    "weibull",
    check=check,
    form=WeibullForm,
    guess=guess,
    example=ModelSpec(family="weibull", formula="surv(I(count + 1), y) ~ x"),
    options=frozenset(),
    parameters=linear.parameters,
    release=release,
    prior=prior,
    unit=unit_of,
    chains=False,
    rows=lambda _: Weibull(),
    response=lambda _: Response(
        rate,
        lambda mean, sds, random: mean * (-np.log(random.uniforms(mean.shape))) ** sds,
        TIME,
        times=mean_over,
        of_hazard=True,
    ),
    distribution=lambda _: of_times(cumulative),
    misfits=Misfits(
        "times",
        offers={
            ("times", shape): "the hazard changes with time: weibull has room for that"
            for shape in (WIDE, NARROW)
        },
    ),
    pair="event",
)
