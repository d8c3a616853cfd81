"""A statistic chosen by a part of the rows, and released of the others.

Proof: docs/proofs/statistics.md, section 3. Source: thesis B, section 6.5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.planner import Cost
from dpmcmc.privacy.events import Parallel
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.paid import Paid, opened
from dpmcmc.queries.statistics.fisher import Additive, best_power, log_density_of_sum
from dpmcmc.queries.statistics.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    Released,
    Statistic,
    StatisticKind,
)
from dpmcmc.queries.statistics.plans import Asked, Plan, delta_of, number, planned
from dpmcmc.queries.statistics.populations import Population, moments
from dpmcmc.queries.statistics.release import noise_of, of_values, shuffled, told

Floats = NDArray[np.float64]
MIN_GRID_WEIGHT = 1e-6  # weight of a value of theta


@dataclass(frozen=True, slots=True)
class StagesPlan:
    """Two releases of separate rows, settled before any row is read, but for the second's power."""

    first: Plan
    second: Plan
    population: Population
    thetas: tuple[float, ...]
    powers: tuple[float, ...]
    paid: Paid


@dataclass(frozen=True, eq=False)
class Stages:
    """What two stages released. power: chosen for the second. weights: of thetas given the first.
    scores: the mean of 1 / information of each power."""

    first: Released
    second: Released
    power: float
    scores: dict[float, float]
    weights: Floats
    cost: Cost


def plan_of_stages(
    schema: Schema,
    asked: Asked,
    first_rows: int,
    population: Population,
    thetas: Sequence[float],
    powers: Sequence[float],
    privacy: tuple[float, float],
) -> StagesPlan:
    """Return what two stages release and cost. Reads no row. Raises SpecError."""
    if type(first_rows) is not int or not 1 <= first_rows < schema.rows:
        raise SpecError("/first_rows", "must leave rows for both stages")
    if asked.form != "batch" or asked.noise not in ("gaussian", "laplace"):
        raise SpecError("/noise", "must be gaussian or laplace, of a batch")
    if not callable(getattr(type(population), "nodes", None)):
        raise SpecError("/population", "must be one of dpmcmc.queries.statistics.populations")
    for name, values in (("thetas", thetas), ("powers", powers)):
        listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
        if not listed or not len(values) or not all(map(is_number, values)):
            raise SpecError(
                f"/{name}", "needs numbers in a list: thetas, and powers to choose from"
            )
    parts = [replace(schema, rows=n) for n in (first_rows, schema.rows - first_rows)]
    first, second = (planned(part, asked, *privacy) for part in parts)
    for a in powers:
        planned(parts[1], replace(asked, a=a), *privacy)
    event = Parallel((first.paid.event, second.paid.event))
    paid = replace(first.paid, event=event)
    made = StagesPlan(first, second, population, tuple(thetas), tuple(powers), paid)
    if not _is_known(made):
        raise SpecError("/thetas", "are too far from the bounds for Fisher information to be known")
    return made


@lru_cache(maxsize=128)
def _is_known(plan: StagesPlan) -> bool:
    """Return whether information is a number at every theta, and some power has any."""
    try:
        with np.errstate(all="ignore"):
            _, scores = _chosen(plan, np.ones(len(plan.thetas)))
            known = [moments(plan.population, plan.first.statistic, t) for t in plan.thetas]
    except (ValueError, ArithmeticError):
        return False
    there = all(math.isfinite(x) for one in known for x in one)
    told = list(scores.values())
    return there and math.isfinite(min(told)) and not any(map(math.isnan, told))


def release_of_stages(
    plan: StagesPlan, rows: Private[Table], permit: Permit, random: RandomSource
) -> Stages:
    """Return both releases.

    Privacy: plan.paid.event, two events in parallel on rows that chance assigns to a stage.
    Raises PermitError before the rows are opened; never on rows.
    """
    values = opened(plan.paid, rows, permit).columns[plan.first.asked.column].astype(np.float64)
    values, split = shuffled(values, random), plan.first.schema.rows
    first = of_values(plan.first, values[:split], random)
    power, _ = _chosen(plan, weights_of(first, plan.population, plan.thetas))
    second = of_values(_with_power(plan.second, power), values[split:], random)
    return read_stages(plan, first.values[0], power, second.values[0])


def read_stages(plan: StagesPlan, first: float, power: float, second: float) -> Stages:
    """Return what two released numbers and the power between them say. Free."""
    known = told(plan.first, np.array([first]))
    weights = weights_of(known, plan.population, plan.thetas)
    released = told(_with_power(plan.second, power), np.array([second]))
    scores = _chosen(plan, weights)[1]
    return Stages(known, released, power, scores, weights, plan.paid.cost)


def weights_of(released: Released, population: Population, thetas: Sequence[float]) -> Floats:
    """Return how likely each theta is given a released sum, all being alike before. Free."""
    noise = released.noise
    if not isinstance(noise, GaussianNoise | LaplaceNoise) or released.form != "batch":
        raise SpecError("/form", "must be a batch with Gaussian or Laplace noise")
    value, rows = float(released.values[0]), released.rows
    with np.errstate(all="ignore"):
        known = [moments(population, released.statistic, theta) for theta in thetas]
        logs = np.array([log_density_of_sum(one, rows, noise, value) for one in known])
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    if not np.isfinite(logs).any():  # no theta explains it: nothing was told
        return np.full(len(known), 1.0 / len(known))
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _chosen(plan: StagesPlan, weights: Floats) -> tuple[float, dict[float, float]]:
    kept = np.flatnonzero(weights > MIN_GRID_WEIGHT)
    guesses = [plan.thetas[i] for i in kept]
    rows = plan.second.schema.rows

    def noise(own: Statistic) -> Additive:
        return noise_of(_with_power(plan.second, own.a))

    own = plan.second.statistic
    likely = weights[kept].tolist()
    with np.errstate(all="ignore"):  # where a row hardly varies, information is infinite
        return best_power(plan.population, own, guesses, plan.powers, rows, noise, weights=likely)


def _with_power(plan: Plan, a: float) -> Plan:
    """Return the same release, of another power: its event does not depend on that."""
    asked, statistic = replace(plan.asked, a=a), replace(plan.statistic, a=a)
    return replace(plan, asked=asked, statistic=statistic)


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
    random: RandomSource | None = None,
) -> Stages:
    """Release a sum of some rows, choose a power by what it tells, release it of the others.

    first_rows: how many, drawn by chance. population: of
    statistics.populations. thetas: values of its parameter, alike before the release. powers: to
    choose from, by the least mean of 1 / information. kind, noise, budget, random: as in
    `release_statistic`. Inference may use both releases.
    Privacy: replace-one; both stages together cost what one costs, (epsilon, delta), since every
    row is in one. Proof: docs/proofs/statistics.md, section 3. Raises SpecError on the request,
    ValueError where the data do not suit the schema, BudgetExhaustedError where too little is left.
    """
    check_call(schema, budget, random)
    asked = Asked(column=column, kind=kind, a=first_power, noise=noise)
    privacy = number("epsilon", epsilon), delta_of(schema, noise, delta, budget)
    plan = plan_of_stages(schema, asked, first_rows, population, thetas, powers, privacy)
    rows, permit = owned(schema, data, plan.paid.event, plan.paid.cost.delta, budget)
    return release_of_stages(plan, rows, permit, random or SystemRandom())
