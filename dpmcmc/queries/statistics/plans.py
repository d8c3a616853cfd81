"""The plan and the cost of a statistic's release, from public facts alone."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from dpmcmc.base.errors import SpecError, is_number, near
from dpmcmc.base.plain import plain
from dpmcmc.base.private import Neighbouring
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import usual_delta
from dpmcmc.inputs.schema import BinaryColumn, Column, NumberColumn, Schema
from dpmcmc.planner import Cost
from dpmcmc.privacy import accountant
from dpmcmc.privacy.costs import float_up
from dpmcmc.privacy.events import Event, Gaussian, Laplace, PureEpsilon, SmoothLaplace
from dpmcmc.privacy.promises import check_delta
from dpmcmc.privacy.sites import (
    LEAST_MULTIPLIER,
    MOST_MULTIPLIER,
    RANDOMISED_RESPONSE,
    SMOOTH_SENSITIVITY_LAPLACE,
)
from dpmcmc.queries.paid import ONE_ROW, Paid
from dpmcmc.queries.statistics.mechanisms import ReleaseForm, Statistic, StatisticKind

# Noise of pure epsilon is scaled to this part of the requested epsilon: several epsilons whose
# decimals add up to a budget then fit it, though each is rounded to a double and to 2^-96.
SLIGHTLY_LESS = 1.0 - 2.0**-50
NoiseName = Literal["gaussian", "laplace", "smooth_laplace", "randomised_response"]
MOST_ROWS = 2**31 - 1  # docs/proofs/statistics.md, section 1
LARGEST_DELTA = 1.0 / 3.0  # docs/proofs/smooth_laplace.md
ORDERS = ("median", "maximum")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticRequest:
    """A request for a statistic of one column; fields as of `release_statistic`."""

    column: str
    kind: StatisticKind = "power"
    a: float = 1.0
    form: ReleaseForm = "batch"
    noise: NoiseName = "gaussian"


@dataclass(frozen=True, slots=True)
class StatisticPlan:
    """The plan of a release. epsilon: the one that the noise is scaled to."""

    schema: Schema
    request: StatisticRequest
    statistic: Statistic
    epsilon: float
    paid: Paid

    @property
    def failure(self) -> float:
        """The probability with which smooth Laplace noise fails; 0 of other noise."""
        event = self.paid.event
        return event.delta if isinstance(event, SmoothLaplace) else 0.0

    @property
    def rank(self) -> int:
        """The rank of the order statistic among the sorted rows; of two medians the lower."""
        rows = self.schema.rows
        return rows if self.request.form == "maximum" else (rows + 1) // 2


def planned(
    schema: Schema, request: StatisticRequest, epsilon: float, delta: float
) -> StatisticPlan:
    """Return the plan of a release with its cost. Reads no row. Raises SpecError."""
    if schema.neighbouring is not Neighbouring.REPLACE_ONE:
        raise SpecError("/neighbouring", "statistics are released under replace_one only")
    if schema.unit_rows > 1:
        raise SpecError("/privacy/max_rows", ONE_ROW.format("single statistics"))
    if not 1 <= schema.rows <= MOST_ROWS:
        raise SpecError("/rows", f"must be 1 to {MOST_ROWS}")
    request = plain(request)
    column = _column(schema, request.column)
    statistic = Statistic(request.kind, request.a, *_bounds(column))
    _check_together(request, column)
    if not 0.0 <= delta < 1.0:
        raise SpecError("/privacy/delta", "must be 0 or larger, below 1")
    if not 0.0 < epsilon < float("inf"):
        raise SpecError("/privacy/epsilon", "must be a finite number above 0")
    if delta == 0.0 and request.noise in NEED_DELTA:
        raise SpecError("/privacy/delta", f"must be above 0: {request.noise} noise needs one")
    try:
        multiplier, event = MECHANISMS[request.noise](epsilon, delta)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        check_delta("/privacy/delta", delta, schema.units, schema.unit)
        message = f"no {request.noise} noise has this epsilon and delta: choose others"
        raise SpecError("/privacy", message) from error
    cost = Cost(epsilon, delta if request.noise in NEED_DELTA else 0.0, _mu(event))
    if isinstance(event, Gaussian):
        cost = Cost(accountant.epsilon(event, delta), delta, cost.mu)
    if not cost.epsilon > 0.0:
        raise SpecError("/privacy/epsilon", "must be above 0")
    scaled = event.epsilon if isinstance(event, PureEpsilon | SmoothLaplace) else epsilon
    return StatisticPlan(schema, request, statistic, scaled, Paid(multiplier, event, cost))


def replanned(plan: StatisticPlan, epsilon: float) -> StatisticPlan:
    """Return the plan of the same release at another epsilon. Raises SpecError."""
    return planned(plan.schema, plan.request, epsilon, plan.paid.cost.delta)


def number(name: str, value: object) -> float:
    """Return epsilon or delta. Raises SpecError where it is no number."""
    if not is_number(value):
        raise SpecError(f"/privacy/{name}", "must be a number")
    return float(value)  # type: ignore[arg-type]


def delta_of(schema: Schema, noise: object, delta: float | None, budget: Budget | None) -> float:
    """Return the given delta, or the default: 0 for noise of pure epsilon.

    Smooth Laplace noise gets at most the budget's share of delta for failures.
    """
    if delta is not None:
        return number("delta", delta)
    if not isinstance(noise, str) or noise not in NEED_DELTA:
        return 0.0
    usual = usual_delta(schema, budget)
    if noise == "gaussian" or budget is None or not budget.failure_share:
        return usual
    return min(usual_delta(schema, None), budget.delta * budget.failure_share)


def _mu(event: Event) -> float | None:
    """Return mu of an event's GDP bound; None without one."""
    mu = accountant.gdp_mu(event)
    return mu if mu < float("inf") else None


def _column(schema: Schema, name: object) -> Column:
    """Return the declared column of this name. Raises SpecError."""
    if not isinstance(name, str):
        raise SpecError("/column", "must be the name of a declared column")
    for column in schema.columns:
        if column.name == name:
            return column
    guess = near(name, [column.name for column in schema.columns])
    raise SpecError("/column", f"{name!r} is no declared column{guess}")


def _bounds(column: Column) -> tuple[float, float]:
    """Return declared bounds; the categories of a binary column are 0 and 1."""
    if column.missing:
        message = "may have no value, and a statistic needs one of every row: describe counts those"
        raise SpecError("/column", f"{column.name!r} {message}")
    if isinstance(column, NumberColumn):
        return column.lower, column.upper
    if isinstance(column, BinaryColumn):
        return 0.0, 1.0
    raise SpecError("/column", f"{column.name!r} is neither a number nor binary")


def _check_together(request: StatisticRequest, column: Column) -> None:
    """Raise SpecError where form, noise and type of the column do not fit together."""
    words = isinstance(request.form, str) and isinstance(request.noise, str)
    if not words or request.form not in get_args(ReleaseForm) or request.noise not in MECHANISMS:
        forms, noises = ", ".join(get_args(ReleaseForm)), ", ".join(MECHANISMS)
        known = f"the form is one of {forms}; the noise one of {noises}"
        raise SpecError("/statistic", f"no such form or noise: {known}")
    if (request.form in ORDERS) != (request.noise == "smooth_laplace"):
        raise SpecError("/noise", "must be smooth_laplace for median and maximum, else another")
    if request.noise == "randomised_response":
        binary = isinstance(column, BinaryColumn) and request.form == "sequential"
        if not binary or request.kind != "power" or request.a != 1.0:
            raise SpecError("/noise", "randomised_response needs a binary column, sequential, a=1")


def _gaussian(epsilon: float, delta: float) -> tuple[float, Event]:
    """Return noise multiplier and event of Gaussian noise."""
    z = accountant.noise_multiplier_for(epsilon, delta, 1)
    return _within(z, LEAST_MULTIPLIER, MOST_MULTIPLIER), Gaussian(z)


def _laplace(epsilon: float, delta: float) -> tuple[float, Event]:  # noqa: ARG001
    """Return noise multiplier and event of Laplace noise."""
    z = float_up(1 / Fraction(_slightly_less(epsilon, MOST_MULTIPLIER)))
    return _within(z, LEAST_MULTIPLIER, MOST_MULTIPLIER), Laplace(z)


def _smooth(epsilon: float, delta: float) -> tuple[float, Event]:
    """Return noise multiplier 1 / epsilon and event of smooth Laplace noise."""
    if not 0.0 < delta <= LARGEST_DELTA:
        raise ValueError("delta must be above 0, at most 1/3")
    epsilon = _slightly_less(epsilon, SMOOTH_SENSITIVITY_LAPLACE.most)
    delta = delta * SLIGHTLY_LESS
    return _within(
        1.0 / epsilon, SMOOTH_SENSITIVITY_LAPLACE.least, SMOOTH_SENSITIVITY_LAPLACE.most
    ), SmoothLaplace(epsilon, delta)


def _responses(epsilon: float, delta: float) -> tuple[float, Event]:  # noqa: ARG001
    """Return noise multiplier 1 / epsilon and event of randomised responses."""
    epsilon = _slightly_less(epsilon, RANDOMISED_RESPONSE.most)
    return _within(1.0 / epsilon, RANDOMISED_RESPONSE.least, RANDOMISED_RESPONSE.most), PureEpsilon(
        epsilon
    )


def _slightly_less(epsilon: float, most: float) -> float:
    """Return the epsilon that noise is scaled to; the least possible epsilon is unchanged."""
    less = epsilon * SLIGHTLY_LESS
    return less if less * most >= 1.0 else epsilon


def _within(multiplier: float, least: float, most: float) -> float:
    """Return a noise multiplier. Raises ValueError where it is out of range."""
    if not least <= multiplier <= most:
        raise ValueError("no proof covers such noise")
    return multiplier


MECHANISMS: dict[str, Callable[[float, float], tuple[float, Event]]] = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "smooth_laplace": _smooth,
    "randomised_response": _responses,
}
NEED_DELTA = ("gaussian", "smooth_laplace")
