"""Two stages: a noisy sum of some rows chooses the power of the noisy sum of the other rows.

Proof: docs/proofs/statistics.md, section 3. Source: thesis B, section 6.5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.floating import own_errors
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.planner import Cost
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.events import Parallel
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.paid import Paid, opened
from dpmcmc.queries.statistics.choice import checked_question
from dpmcmc.queries.statistics.fisher import Additive, best_power, log_density_of_sum
from dpmcmc.queries.statistics.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    ReleasedStatistic,
    Statistic,
    StatisticKind,
)
from dpmcmc.queries.statistics.plans import (
    StatisticPlan,
    StatisticRequest,
    delta_of,
    number,
    planned,
)
from dpmcmc.queries.statistics.populations import Population, moments
from dpmcmc.queries.statistics.release import noise_of, of_parts, released_statistic, shuffled

Floats = NDArray[np.float64]
MIN_GRID_WEIGHT = 1e-6  # weight of a value of theta


@dataclass(frozen=True, slots=True)
class StagesPlan:
    """The plan of two releases of separate rows; the power of the second is chosen at run time."""

    first: StatisticPlan
    second: StatisticPlan
    population: Population
    thetas: tuple[float, ...]
    powers: tuple[float, ...]
    paid: Paid


@dataclass(frozen=True, eq=False)
class Stages:
    """Both releases. power: of the second. scores: mean of 1 / information, by power. weights:
    posterior probabilities of thetas given the first."""

    first: ReleasedStatistic
    second: ReleasedStatistic
    power: float
    scores: dict[float, float]
    weights: Floats
    cost: Cost

    @property
    def verdict(self) -> Verdict:
        """The verdict on the second stage; the first one chose its power."""
        if self.second.verdict is None:
            raise TypeError("simulated stages have no verdict")
        return self.second.verdict


def plan_of_stages(
    schema: Schema,
    request: StatisticRequest,
    first_rows: int,
    population: Population,
    thetas: Sequence[float],
    powers: Sequence[float],
    privacy: tuple[float, float],
) -> StagesPlan:
    """Return the plan of two stages with their cost. Reads no row. Raises SpecError."""
    if type(first_rows) is not int or not 1 <= first_rows < schema.rows:
        raise SpecError("/first_rows", "must leave rows for both stages")
    additive = isinstance(request.noise, str) and request.noise in ("gaussian", "laplace")
    if request.form != "batch" or not additive:
        raise SpecError("/noise", "must be gaussian or laplace, of a batch")
    population, thetas, powers = checked_question(population, thetas, powers)
    parts = [replace(schema, rows=n) for n in (first_rows, schema.rows - first_rows)]
    first, second = (planned(part, request, *privacy) for part in parts)
    for a in powers:
        planned(parts[1], replace(request, a=a), *privacy)
    event = Parallel((first.paid.event, second.paid.event))
    paid = replace(first.paid, event=event)
    plan = StagesPlan(first, second, population, thetas, powers, paid)
    if not _is_known(plan):
        message = "are too far from the column's bounds: the Fisher information there is not finite"
        raise SpecError("/thetas", message)
    return plan


@lru_cache(maxsize=128)
def _is_known(plan: StagesPlan) -> bool:
    """Return whether information is a number at every theta, and some power has any."""
    try:
        with np.errstate(all="ignore"):
            _, scores = _chosen(plan, np.ones(len(plan.thetas)))
            row_moments = [moments(plan.population, plan.first.statistic, t) for t in plan.thetas]
    except (ValueError, ArithmeticError):
        return False
    finite = all(math.isfinite(x) for moment in row_moments for x in moment)
    means = list(scores.values())
    return finite and math.isfinite(min(means)) and not any(map(math.isnan, means))


def release_of_stages(
    plan: StagesPlan, rows: Private[AnyRows], permit: Permit, random: RandomSource
) -> Stages:
    """Return both releases.

    Privacy: plan.paid.event, two events in parallel on rows that chance assigns to a stage.
    Raises PermitError before the rows are opened; never on rows.
    """
    both = replace(plan.first.schema, rows=plan.first.schema.rows + plan.second.schema.rows)
    name = plan.first.request.column
    values = opened(plan.paid, rows, permit, both).whole([name]).columns[name].astype(np.float64)
    values, split = shuffled(values, random), plan.first.schema.rows
    first = of_parts(plan.first, [values[:split]], random)
    power, _ = _chosen(plan, weights_of(first, plan.population, plan.thetas))
    second = of_parts(_with_power(plan.second, power), [values[split:]], random)
    return read_stages(plan, first.values[0], power, second.values[0])


def read_stages(plan: StagesPlan, first: float, power: float, second: float) -> Stages:
    """Return both stages from the two released numbers and the chosen power; costs nothing."""
    known = released_statistic(plan.first, np.array([first]))
    weights = weights_of(known, plan.population, plan.thetas)
    released = released_statistic(_with_power(plan.second, power), np.array([second]))
    scores = _chosen(plan, weights)[1]
    return Stages(known, released, power, scores, weights, plan.paid.cost)


def weights_of(
    released: ReleasedStatistic, population: Population, thetas: Sequence[float]
) -> Floats:
    """Return posterior probabilities of thetas given a released sum, from a uniform prior."""
    noise = released.noise
    if not isinstance(noise, GaussianNoise | LaplaceNoise) or released.form != "batch":
        raise SpecError("/form", "must be a batch with Gaussian or Laplace noise")
    value, rows = float(released.values[0]), released.rows
    with np.errstate(all="ignore"):
        known = [moments(population, released.statistic, theta) for theta in thetas]
        logs = np.array([log_density_of_sum(m, rows, noise, value) for m in known])
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    if not np.isfinite(logs).any():  # every theta has a likelihood of 0
        return np.full(len(known), 1.0 / len(known))
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _chosen(plan: StagesPlan, weights: Floats) -> tuple[float, dict[float, float]]:
    """Return the power with the best expected score, and all scores."""
    likely_thetas = np.flatnonzero(weights > MIN_GRID_WEIGHT)
    guesses = [plan.thetas[i] for i in likely_thetas]
    rows = plan.second.schema.rows

    def noise(statistic: Statistic) -> Additive:
        """Return the noise of a statistic."""
        return noise_of(_with_power(plan.second, statistic.a))

    statistic = plan.second.statistic
    likely_weights = weights[likely_thetas].tolist()
    with np.errstate(all="ignore"):  # where a row hardly varies, information is infinite
        return best_power(
            plan.population, statistic, guesses, plan.powers, rows, noise, weights=likely_weights
        )


def _with_power(plan: StatisticPlan, a: float) -> StatisticPlan:
    """Return the plan with another power; its event is the same."""
    request, statistic = replace(plan.request, a=a), replace(plan.statistic, a=a)
    return replace(plan, request=request, statistic=statistic)


@own_errors
def release_in_two_stages(
    data: object,
    column: str,
    population: Population,
    *,
    schema: Schema,
    first_rows: int,
    thetas: Sequence[float],
    powers: Sequence[float],
    epsilon: float,
    delta: float | None = None,
    kind: StatisticKind = "absolute_power",
    first_power: float = 1.0,
    noise: Literal["gaussian", "laplace"] = "laplace",
    budget: Budget | None = None,
    max_rows: int | None = None,
    random: RandomSource | None = None,
) -> Stages:
    """Release a sum of the first rows, choose the most informative power, release its sum.

    Inference may use both releases. Privacy: replace-one; both stages together cost (epsilon,
    delta), as one does, since every row is in one stage. Proof: docs/proofs/statistics.md,
    section 3.

    Parameters
    ----------
    data, column, schema
        As of `release_statistic`.
    population
        Distribution of the rows, of dpmcmc.queries.statistics.populations.
    first_rows
        Number of rows in the first stage, which are drawn at random.
    thetas
        Possible values of the population's parameter, equally likely before the release.
    powers
        Values of a to choose from, by the least mean of 1 / Fisher information.
    epsilon, delta
        Cost of the call.
    kind, noise, budget, max_rows, random
        As of `release_statistic`.
    first_power
        The power a of the first stage.

    Returns
    -------
    Stages
        Both releases, the chosen power, the scores of all and a verdict.

    Raises
    ------
    SpecError
        If the request is not possible; the message names the field and the remedy.
    ValueError
        If the data do not fit the schema.
    BudgetExhaustedError
        If too little of the budget is left.

    Examples
    --------
    >>> from dpmcmc.queries.statistics.populations import NormalVariance
    >>> release_in_two_stages(rows, "dose", NormalVariance(), schema=schema, first_rows=1000,
    ...                       thetas=[1, 4], powers=[1, 2], epsilon=1.0)
    """
    schema = check_call(schema, budget, random).with_max_rows(max_rows)
    request = StatisticRequest(column=column, kind=kind, a=first_power, noise=noise)
    privacy = number("epsilon", epsilon), delta_of(schema, noise, delta, budget)
    plan = plan_of_stages(schema, request, first_rows, population, thetas, powers, privacy)
    paid = plan.paid.event, plan.paid.cost.delta
    rows, permit, _ = owned(schema, data, *paid, budget, (column,))
    return release_of_stages(plan, rows, permit, random or SystemRandom())
