"""How much a statistic would tell, and which one to release: from public facts alone, free."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.schema import Schema
from dpmcmc.queries.statistics.fisher import Additive, best_power, information
from dpmcmc.queries.statistics.mechanisms import Statistic, StatisticKind
from dpmcmc.queries.statistics.plans import Asked, number, planned
from dpmcmc.queries.statistics.populations import Population
from dpmcmc.queries.statistics.release import noise_of


@dataclass(frozen=True)
class Choice:
    """power: that tells most. scores: the mean of 1 / information of each power.

    information: of each power, the Fisher information at each theta, with the noise counted in.
    """

    power: float
    scores: dict[float, float]
    information: dict[float, tuple[float, ...]]


def choose_statistic(
    schema: Schema,
    column: str,
    population: Population,
    *,
    thetas: Sequence[float],
    powers: Sequence[float],
    epsilon: float,
    delta: float = 0.0,
    kind: StatisticKind = "absolute_power",
    noise: Literal["gaussian", "laplace"] = "laplace",
) -> Choice:
    """Return what noisy sums of powers of a column would tell of a parameter, and the best power.

    population: of statistics.populations. thetas: values of its parameter that are
    thought likely. kind, noise: as in `release_statistic`. No row is read, and nothing is spent.
    Raises SpecError on the request. Source: thesis B, sections 4.2 and 6.5.
    """
    if noise not in ("gaussian", "laplace") or not thetas or not powers:
        raise SpecError("/thetas", "needs thetas, powers, and gaussian or laplace noise")
    privacy = number("epsilon", epsilon), number("delta", delta)
    plans = {
        a: planned(schema, Asked(column=column, kind=kind, a=a, noise=noise), *privacy)
        for a in powers
    }

    def added(statistic: Statistic) -> Additive:
        return noise_of(replace(plans[statistic.a], statistic=statistic))

    own = plans[powers[0]].statistic
    try:
        power, scores = best_power(population, own, thetas, powers, schema.rows, added)
        told = {
            a: tuple(
                information(population, one.statistic, t, schema.rows, noise_of(one))
                for t in thetas
            )
            for a, one in plans.items()
        }
    except (ValueError, ArithmeticError):
        raise SpecError("/thetas", "are too far from the bounds for it to be known") from None
    return Choice(power, scores, told)
