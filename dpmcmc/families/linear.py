"""Linear regression of a number over a public design, with a known or an unknown noise scale.

Parameters: a coefficient for each column of the design, in units of the response; and, where
options.noise_scale is not given, log_sigma. Priors, where none are given: coefficients Normal(0,
r^2), r the response's declared range, the intercept's around its middle; log_sigma Normal(log(r /
8), SIGMA_PRIOR^2). The intercept starts at the middle of that range.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from dpmcmc.base.names import INTERCEPT, LOG_SIGMA
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model, guess_of
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.misfits import Misfits
from dpmcmc.families.moments import LARGEST_COEFFICIENT, second_moments
from dpmcmc.families.priors import Normals, normal_priors
from dpmcmc.families.scores.distributions import of_numbers
from dpmcmc.families.scores.linear import Linear
from dpmcmc.families.scores.responses import NUMBER
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import Design, check_measured, number_response
from dpmcmc.inputs.schema import NumberColumn, Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import LINEAR

SIGMA_PRIOR = 1.5  # sd of log_sigma
SIGMAS_IN_RANGE = 8.0
GROUP_SDS_IN_RANGE = 4.0  # scales of the prior of an sd of groups
LARGE_SIGMAS_IN_RANGE = 16.0  # where the formula says nearly all of a response


def check(design: Design, _: ModelSpec) -> None:
    """Refuse a response that is not a number."""
    number_of(design)


def number_of(design: Design) -> NumberColumn:
    """Return the response's column. Raises SpecError where it is not a number."""
    response = number_response(design, "linear regression")
    check_measured(response)
    return response


def unit_of(design: Design, model: ModelSpec) -> float:
    """Return the unit of positions: the known noise sd, or the sd expected before rows are read."""
    response = number_of(design)
    expected = (response.upper - response.lower) / SIGMAS_IN_RANGE
    return model.options.noise_scale or expected


def prior(design: Design, model: ModelSpec) -> Normals:
    """Return the priors, in units of the response; a common prior applies to coefficients alone."""
    response, names = number_of(design), parameters(design, model)
    spread, d = response.upper - response.lower, len(design.parameters)
    means, sds = np.zeros(len(names)), np.full(len(names), spread, np.float64)
    if INTERCEPT in names:
        middle = 0.5 * response.lower + 0.5 * response.upper
        means[names.index(INTERCEPT)] = middle - design.middle_offset
    means[d:], sds[d:] = math.log(spread / SIGMAS_IN_RANGE), SIGMA_PRIOR
    return normal_priors(model.prior, names, (means, sds), same=d)


def group_sd(design: Design, _: ModelSpec) -> float:
    """Return the scale of the prior of the sd of groups: a quarter of the response's range."""
    response = number_of(design)
    return (response.upper - response.lower) / GROUP_SDS_IN_RANGE


class LinearForm(DesignForm):
    """Positions are (coefficients, log sigma) in units of unit_of. See Form."""

    family = LINEAR

    def __init__(self, design: Design, spec: JobSpec) -> None:
        unit, response = unit_of(design, spec.model), number_of(design)
        ends = response.lower / unit, response.upper / unit
        d, (means, sds) = len(design.parameters), prior(design, spec.model)
        super().__init__(design, (means[:d] / unit, sds[:d] / unit), ends)
        self._unit = unit
        self.start = self.prior_mean.copy()
        if INTERCEPT in design.parameters:
            self.start[design.parameters.index(INTERCEPT)] = 0.5 * (ends[0] + ends[1])
        if spec.model.options.noise_scale is None:
            self.start = np.append(self.start, 0.0)
            self.prior_mean = np.append(self.prior_mean, means[d] - math.log(unit))
            self.prior_precision = np.append(self.prior_precision, sds[d] ** -2.0)
            self.public = self._facts(design.lower, design.upper, design.group, ends)

    def rows(self, table: Table) -> tuple[Floats, Floats]:
        """Return (x (columns, n), y (n,)); y in units of the planned noise scale."""
        x, y = self.design.build(table)
        return x, y / self._unit

    def information_scale(self, positions: Floats, _: Floats | None) -> tuple[Floats, Floats]:
        """Return information (chain, d) and gradient sizes (chain,), by the noise sd alone."""
        information, d = np.ones(positions.shape), len(self.design.parameters)
        weight = -2.0 * self.describe(positions)[1][:, 1]
        if len(self.start) == d:
            return information, weight
        information[:, :d] = weight[:, None]
        squares = float(np.trace(second_moments(self.design)))
        return information, np.sqrt((weight * squares + 2.0) / (squares + 2.0))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior where noise has the expected sd and slopes are of that size."""
    return _guess(design, spec, 1.0)


def guess_of_large(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior where effects explain most of the response's range.

    The posterior is narrower then, and a row may lie more noise scales off.
    """
    return _guess(design, spec, SIGMAS_IN_RANGE / LARGE_SIGMAS_IN_RANGE)


def _guess(design: Design, spec: JobSpec, sigma: float) -> Guess:
    """Return the expected posterior. sigma: noise sd over the expected one; 1 where known."""
    form, tempering = LinearForm(design, spec), spec.model.tempering or 1.0
    d, size = len(design.parameters), len(form.start)
    precision = np.diag(form.prior_precision)
    sigma = sigma if size > d else 1.0
    precision[:d, :d] += design.schema.rows * tempering * second_moments(design) / sigma**2
    if size > d:
        precision[d, d] += 2.0 * design.schema.rows * tempering
    typical = form.start + np.minimum(1.0, form.prior_precision**-0.5)
    typical[d:] = math.log(sigma)
    far = np.minimum(form.prior_precision**-0.5, LARGEST_COEFFICIENT)
    return replace(guess_of(form, spec, precision, typical), distance=far, sharpest=1.0)


def parameters(design: Design, model: ModelSpec) -> tuple[str, ...]:
    """Return the names of what is released."""
    known = model.options.noise_scale is not None
    return design.parameters if known else (*design.parameters, LOG_SIGMA)


def release(design: Design, spec: JobSpec, positions: Floats) -> Floats:
    """Return positions as parameters (..., d) in the response's own units."""
    return in_units(positions, unit_of(design, spec.model), len(design.parameters))


def in_units(positions: Floats, unit: float, d: int) -> Floats:
    """Return positions (..., d), coefficients times `unit` and log scales plus its logarithm."""
    released = positions * unit
    released[..., d:] = positions[..., d:] + math.log(unit)
    return released


MODEL = Model(
    "linear",
    check=check,
    form=LinearForm,
    guess=guess,
    example=ModelSpec(family="linear", formula="count ~ x"),
    options=frozenset({"noise_scale", "ratio_slope"}),
    parameters=parameters,
    release=release,
    prior=prior,
    rows=lambda _: Linear(),
    response=lambda _: NUMBER,
    distribution=lambda _: of_numbers(lambda y, eta, sigma: ndtr((y - eta) / sigma)),
    misfits=Misfits("numbers"),
    guess_of_large=guess_of_large,
    group_sd=group_sd,
    unit=unit_of,
)
