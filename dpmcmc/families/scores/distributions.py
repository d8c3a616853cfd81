"""Distribution functions of responses given their predictors, by which fits are checked."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dpmcmc.families.scores.base import Floats


class Distribution(Protocol):
    """The distribution of responses of one family at given parameters."""

    def __call__(
        self, y: Floats, beside: Floats, eta: Floats, scale: Floats | float, /
    ) -> tuple[Floats, Floats]:
        """Return P(Y < y) and P(Y <= y), (n,) each.

        y: responses (n,). beside: the trials of each, or 1 where a time ended with an event. eta:
        predictors (n,), or (k, n) where a row has several. scale: what the scale parameter says.
        """


def of_numbers(cumulative: Callable[[Floats, Floats, Floats | float], Floats]) -> Distribution:
    """Return that of a continuous response. cumulative: (y, eta, scale) -> P(Y <= y)."""

    def distribution(
        y: Floats, _: Floats, eta: Floats, scale: Floats | float
    ) -> tuple[Floats, Floats]:
        """Return P(Y <= y), twice."""
        upto = np.asarray(cumulative(y, eta, scale), np.float64)
        return upto, upto

    return distribution


def of_times(cumulative: Callable[[Floats, Floats, Floats | float], Floats]) -> Distribution:
    """Return the distribution of times to an event: one that was cut off is any later time."""

    def distribution(
        y: Floats, ended: Floats, eta: Floats, scale: Floats | float
    ) -> tuple[Floats, Floats]:
        """Return the ends of what is known of P(Y <= time of the event)."""
        upto = np.asarray(cumulative(y, eta, scale), np.float64)
        return upto, np.where(ended >= 0.5, upto, 1.0)

    return distribution


def of_counts(y: Floats, cumulative: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Return P(Y < y) and P(Y <= y) of counts. cumulative: P(Y <= j) of whole numbers j from 0."""
    before, last = np.ceil(y) - 1.0, np.floor(y)
    below = np.where(before >= 0.0, cumulative(np.maximum(before, 0.0)), 0.0)
    return below, np.asarray(cumulative(last), np.float64)
