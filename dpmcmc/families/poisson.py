"""Poisson regression with a log link of a count over a public design.

The response is a number column whose declared lower bound is not negative. Priors, where none are
given: Normal(0, 2.5), the intercept's around the middle of the logarithms of those bounds.
"""

import math
from dataclasses import replace

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model, guess_of
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.priors import DEFAULT_SCALE, Normals, given, usual
from dpmcmc.families.scores.poisson import Poisson
from dpmcmc.families.scores.responses import COUNT
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design, check_measured, response_of
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import POISSON

WANTED = "Poisson regression needs a number with a lower bound of 0 or more as its response"
PLAUSIBLE_SD = 0.5  # sd of a coefficient that the planner thinks plausible
LEAST_RATE = 4.0  # minus its log

MOST_COUNT = 1e50  # sums of squares stay finite; coefficients are of the count's logarithm


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response that cannot be a count."""
    response = response_of(design)
    if not isinstance(response, NumberColumn) or response.lower < 0:
        raise SpecError(POINTER, WANTED)
    check_measured(response, MOST_COUNT)


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors that apply. A count's logarithm is guessed from its declared ends."""
    response, names = response_of(design), design.parameters
    means, sds = usual(len(names))
    if isinstance(response, NumberColumn) and INTERCEPT in names:
        low, high = math.log(response.lower + 0.5), math.log(response.upper + 0.5)
        k = names.index(INTERCEPT)
        means[k] = 0.5 * (low + high) - design.middle_offset
        sds[k] = max(DEFAULT_SCALE, 0.25 * (high - low))
    return given(model.prior, names, (means, sds))


class PoissonForm(DesignForm):
    """Positions are the coefficients; chains begin at an intercept of 0. See Form."""

    family = POISSON

    def __init__(self, design: Design, spec: JobSpec) -> None:
        response = response_of(design)
        if not isinstance(response, NumberColumn):
            raise SpecError(POINTER, WANTED)
        super().__init__(design, prior(design, spec.model), (response.lower, response.upper))
        self.start = self.prior_mean.copy()
        if INTERCEPT in design.parameters:
            self.start[design.parameters.index(INTERCEPT)] = 0.0
        self._rate = typical_rate(design, spec)

    def information_scale(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """Return (information (chain, d), gradients (chain,)): mean rates over the planned rate.

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


def typical_rate(design: Design, spec: JobSpec) -> float:
    """Return the mean rate at coefficients of a plausible size."""
    sizes = np.minimum(prior(design, spec.model)[1], PLAUSIBLE_SD)
    return float(np.exp(0.5 * (sizes**2 @ np.diag(second_moments(design)))))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return what to expect of rates around one, at coefficients of a plausible size."""
    form, tempering = PoissonForm(design, spec), spec.model.tempering or 1.0
    sds = prior(design, spec.model)[1]
    rows = design.schema.rows * tempering * typical_rate(design, spec)
    precision = rows * second_moments(design) + np.diag(form.prior_precision)
    found = guess_of(form, spec, precision, np.minimum(sds, PLAUSIBLE_SD))
    return replace(found, distance=np.minimum(sds, LARGEST_COEFFICIENT))


MODEL = Model(
    "poisson",
    check=check,
    form=PoissonForm,
    guess=guess,
    example=ModelSpec(family="poisson", formula="count ~ x"),
    prior=prior,
    rows=lambda _: Poisson(),
    response=lambda _: COUNT,
)
