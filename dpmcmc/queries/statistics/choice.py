"""The choice of a statistic by its Fisher information, from public facts alone, at no cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.base.plain import plain
from dpmcmc.inputs.schema import Schema
from dpmcmc.privacy.promises import check_delta
from dpmcmc.queries.statistics.fisher import Additive, best_power, information
from dpmcmc.queries.statistics.mechanisms import LARGEST, Statistic, StatisticKind
from dpmcmc.queries.statistics.plans import StatisticRequest, number, planned
from dpmcmc.queries.statistics.populations import Population
from dpmcmc.queries.statistics.release import noise_of


@dataclass(frozen=True)
class Choice:
    """The best power of a column, and the Fisher information of every power.

    power: the one with the least score. scores: mean of 1 / information over theta, by power.
    information: Fisher information at each theta, noise included, by power.
    """

    power: float
    scores: dict[float, float]
    information: dict[float, tuple[float, ...]]


def checked_question(
    population: Population, thetas: object, powers: object
) -> tuple[Population, tuple[float, ...], tuple[float, ...]]:
    """Return all three, made plain.

    Raises SpecError where one is no population, no numbers, or no value of its parameter.
    """
    of_class = isinstance(population, type)
    if of_class or not callable(getattr(type(population), "nodes", None)):
        raise SpecError("/population", "must be one of dpmcmc.queries.statistics.populations")
    population, guesses = plain(population), _listed("thetas", thetas)
    least, most = population.range
    if not all(least < theta < most and abs(theta) <= LARGEST for theta in guesses):
        message = f"must lie within {least:g} and {most:g}, and {LARGEST:g}"
        raise SpecError("/thetas", message)
    return population, guesses, _listed("powers", powers)


def _listed(name: str, values: Any) -> tuple[float, ...]:
    """Return numbers in a list. Raises SpecError."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    is_list = isinstance(listed, Sequence) and not isinstance(listed, str)
    if not is_list or not listed or not all(map(is_number, listed)):
        raise SpecError(f"/{name}", "needs numbers in a list: thetas, and powers to choose from")
    return plain(tuple(listed), to_float=True)


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
    """Return the power of a column whose noisy sum has the most information on a parameter.

    Privacy: no row is read and nothing is spent. Source: thesis B, sections 4.2 and 6.5.

    Parameters
    ----------
    schema, column
        Declared columns, and the one that would be released.
    population
        Distribution of the rows, of dpmcmc.queries.statistics.populations.
    thetas
        Likely values of its parameter.
    powers
        Values of a to choose from.
    epsilon, delta
        Cost that the release would have.
    kind, noise
        As of `release_statistic`.

    Returns
    -------
    Choice
        The best power; scores and Fisher information of all.

    Raises
    ------
    SpecError
        If the request is not possible; the message names the field and the remedy.

    Examples
    --------
    >>> from dpmcmc.queries.statistics.populations import NormalVariance
    >>> choose_statistic(schema, "dose", NormalVariance(), thetas=[1, 4], powers=[1, 2], epsilon=1)
    """
    if not isinstance(noise, str) or noise not in ("gaussian", "laplace"):
        raise SpecError("/noise", "must be gaussian or laplace")
    population, thetas, powers = checked_question(population, thetas, powers)
    privacy = number("epsilon", epsilon), number("delta", delta)
    check_delta("/privacy/delta", privacy[1], schema.rows)
    plans = {
        a: planned(schema, StatisticRequest(column=column, kind=kind, a=a, noise=noise), *privacy)
        for a in powers
    }

    def added(statistic: Statistic) -> Additive:
        """Return the noise of a statistic."""
        return noise_of(replace(plans[statistic.a], statistic=statistic))

    statistic_of_first = plans[powers[0]].statistic
    try:
        with np.errstate(all="ignore"):  # where a row hardly varies, information is infinite
            power, scores = best_power(
                population, statistic_of_first, thetas, powers, schema.rows, added
            )
            information_of = {
                a: tuple(
                    information(population, plan.statistic, t, schema.rows, noise_of(plan))
                    for t in thetas
                )
                for a, plan in plans.items()
            }
        if any(math.isnan(number) for numbers in information_of.values() for number in numbers):
            raise ValueError("not a number")
    except (ValueError, ArithmeticError):
        message = "are too far from the column's bounds: the Fisher information there is not finite"
        raise SpecError("/thetas", message) from None
    return Choice(power, scores, information_of)
