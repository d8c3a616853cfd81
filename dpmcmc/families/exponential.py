"""Exponential regression of times to an event, some of them censored: `surv(time, event) ~ x`.

The hazard of a row is constant in time, exp of its predictor; exp of a coefficient is a hazard
ratio. event is 1, or the second category, of a time that an event ended, and 0 of one that was cut
off, censored for reasons that have nothing to do with the time that was left. The likelihood is
that of a Poisson count of events with the log of the time as its offset. Intervals are by the
residuals as they are; hazard ratios are averages over the time that was seen where hazards change.
Priors: Normal(0, 2.5), the intercept's wider and around the hazard of one event in half of the
longest time.
noisy_quadratic releases it; no chain samples it. Source: Aalen, Borgan and Gjessing 2008.
"""

import math

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.misfits import Misfits
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.poisson import MAX_PREDICTOR, MOST_COUNT
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
from dpmcmc.families.scores.distributions import of_times
from dpmcmc.families.scores.given import log_middle
from dpmcmc.families.scores.responses import HAZARD, MAX_LOG_MEAN, Response, uneven
from dpmcmc.formula.design import POINTER, Design, check_measured, number_response
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS

MOST_HAZARD = 14.0  # added up until an event: one in a million is more
USUAL_EVENTS = 0.5  # share of rows that the planner takes to end with an event


def check(design: Design, _: ModelSpec) -> None:
    """Refuse times that may be zero or negative, and events that are not binary."""
    number_of(design)


def number_of(design: Design) -> NumberColumn:
    """Return the time's column. Raises SpecError where the response is no time with its event."""
    time, event = number_response(design, "a model of times to an event"), design.beside
    if time.lower <= 0.0:
        message = (
            f"times to an event are above 0, and the lower bound of {time.name!r} is"
            f" {time.lower:g}: declare the shortest time that there can be"
        )
        raise SpecError(POINTER, message)
    check_measured(time, MOST_COUNT)
    binary = event is not None and len(event.categories) == 2
    if event is None or not (binary or (event.lower, event.upper) == ((0.0,), (1.0,))):
        message = (
            "the event of surv(time, event) is a binary column, or a number with bounds (0, 1)"
        )
        raise SpecError(POINTER, message)
    return time


class Exponential:
    """The score is the event indicator minus the cumulative hazard; the offset is a log exposure.

    It is a martingale in time: that of a row whose time is cut off earlier has mean 0 as well.
    """

    link: Link = "log"
    has_scale, log_scale, quadratic, variance = False, False, False, Variance(1.0)

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row.

        y: (m,) of 1 where there was an event. Where scores are clipped, on the way to the mode,
        times are cut off where the hazards add up to so much that a score would be longer.
        """
        y, hazard = np.minimum(y, 1.0), np.zeros_like(y)
        for eta, weight in nodes_of(at):
            hazard += weight * np.exp(np.minimum(eta, MAX_PREDICTOR))
        if at.most >= UNCUT:
            return single(y - hazard, hazard, hazard)
        norm = np.maximum(at.row_norm, TINY)
        room = np.minimum(at.most / norm, at.curved / norm**2)
        end = np.maximum(room, 1.0)  # an event adds 1
        cut, w = np.minimum(hazard, end), np.minimum(room, 1.0)
        return single(w * (y * (hazard <= end) - cut), w * cut, w * w * cut)


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors; the default of the log hazard is centred by the longest declared time."""
    time, names = number_of(design), design.parameters
    means, sds = usual(len(names))
    if INTERCEPT in names:
        k, width = names.index(INTERCEPT), math.log(time.upper) - math.log(time.lower)
        means[k] = -log_middle(time) - design.middle_offset
        sds[k] = max(2.0 * DEFAULT_SCALE, 0.25 * width)
    return normal_priors(model.prior, names, (means, sds))


class ExponentialForm(DesignForm):
    """Positions are the coefficients. See Form."""

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        super().__init__(design, prior(design, spec.model), (0.0, MOST_HAZARD))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior where half of the rows have an event, each worth one count."""
    form, tempering = ExponentialForm(design, spec), spec.model.tempering or 1.0
    sds = prior(design, spec.model)[1]
    rows = design.schema.rows * tempering * USUAL_EVENTS
    return Guess(
        precision=rows * second_moments(design) + np.diag(form.prior_precision),
        width=np.full(len(sds), tempering * MOST_HAZARD),
        joint_width=tempering * MOST_HAZARD * len(sds),
        distance=np.minimum(sds, LARGEST_COEFFICIENT),
    )


def mean_time(eta: Floats) -> Floats:
    """Return the mean time to an event."""
    return np.asarray(np.exp(np.minimum(-eta, MAX_LOG_MEAN)))


def cumulative(y: Floats, eta: Floats, _: Floats | float) -> Floats:
    """Return P(Y <= y), (n,), of times with these log hazards."""
    return -np.expm1(-y * np.exp(np.minimum(eta, MAX_LOG_MEAN)))


MODEL = Model(
    "exponential",
    check=check,
    form=ExponentialForm,
    guess=guess,
    example=ModelSpec(family="exponential", formula="surv(I(count + 1), y) ~ x"),
    options=frozenset(),
    prior=prior,
    chains=False,
    rows=lambda _: Exponential(),
    response=lambda _: Response(
        mean_time, lambda mean, _, random: uneven(mean, 1.0, random), HAZARD
    ),
    distribution=lambda _: of_times(cumulative),
    misfits=Misfits("times"),
    pair="event",
)
