"""Poisson regression with a log link of a count over a public design.

The response is a number column whose declared lower bound is not negative.
"""

import math
from dataclasses import replace

import numpy as np

from dpmcmc.design import POINTER, Design, check_measured, response_of
from dpmcmc.errors import SpecError
from dpmcmc.models.base import Floats, Guess, Model, guess_of
from dpmcmc.models.forms import DesignForm
from dpmcmc.models.links import POISSON
from dpmcmc.models.moments import FAR, second_moments
from dpmcmc.schema import NumberColumn
from dpmcmc.spec import JobSpec, ModelSpec

WANTED = "Poisson regression needs a number with a lower bound of 0 or more as its response"
TYPICAL = 0.5  # sd of a coefficient that the planner thinks plausible
LEAST_RATE = 4.0  # minus its log


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response that cannot be a count."""
    response = response_of(design)
    if not isinstance(response, NumberColumn) or response.lower < 0:
        raise SpecError(POINTER, WANTED)
    check_measured(response)


class PoissonForm(DesignForm):
    """Positions are the coefficients. See Form."""

    link = POISSON

    def __init__(self, design: Design, spec: JobSpec) -> None:
        response = response_of(design)
        if not isinstance(response, NumberColumn):
            raise SpecError(POINTER, WANTED)
        super().__init__(design, spec.model.prior.scale, (response.lower, response.upper))
        self._rate = typical_rate(design, spec)

    def growth(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """See Form. Mean rates, of normal predictors, over the one that the planner expects."""
        growth = np.ones(len(positions))
        if moments is not None and "Intercept" in self.design.parameters:
            first = moments[self.design.parameters.index("Intercept")]
            spread = moments - np.outer(first, first)
            log = positions @ first + 0.5 * np.einsum("cj,jk,ck->c", positions, spread, positions)
            highest = math.log(max(1.0, self.public.response[1]))
            growth = np.exp(np.clip(log, -LEAST_RATE, highest)) / self._rate
        return np.repeat(growth[:, None], positions.shape[1], axis=1), np.sqrt(growth)


def typical_rate(design: Design, spec: JobSpec) -> float:
    """Return the mean rate at coefficients of a plausible size."""
    size = min(spec.model.prior.scale, TYPICAL)
    return float(np.exp(0.5 * size**2 * np.trace(second_moments(design))))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return what to expect of rates around one, at coefficients of a plausible size."""
    form, tempering = PoissonForm(design, spec), spec.model.tempering or 1.0
    size = min(spec.model.prior.scale, TYPICAL)
    rows = design.schema.rows * tempering * typical_rate(design, spec)
    precision = rows * second_moments(design) + np.diag(form.prior_precision)
    found = guess_of(form, spec, precision, np.full(len(form.start), size))
    return replace(found, distance=np.full(len(form.start), min(spec.model.prior.scale, FAR)))


MODEL = Model("poisson", check=check, form=PoissonForm, guess=guess)
