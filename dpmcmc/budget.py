"""A privacy budget for rows of one's own, kept in memory: the library's ledger of one dataset.

It composes as the service does: fully adaptively, by the same filter (docs/proofs/filter.md).
"""

import math
from dataclasses import dataclass, field
from numbers import Real

from dpmcmc.privacy.events import Event
from dpmcmc.privacy.filter import (
    FilterState,
    FilterTerms,
    entry_cost,
    remaining_epsilon,
    spent_epsilon,
)


class BudgetExhaustedError(ValueError):
    """A call that would cost more than is left. requested, remaining: epsilon at delta."""

    def __init__(self, requested: float, remaining: float, delta: float) -> None:
        told = f"this call costs epsilon {requested:.4g} at delta {delta:g}"
        if math.isinf(requested):
            told = (
                "this call needs a failure_share, or a larger one: Budget(..., failure_share=0.1)"
            )
        super().__init__(f"{told}, and {remaining:.4g} is left of the budget")
        self.requested = requested
        self.remaining = remaining


@dataclass(slots=True)
class Budget:
    """(epsilon, delta) for all calls together. Give it to `sample` as `budget=`.

    What a call costs is taken before it reads a row, and stays taken if the call fails. One Budget
    stands for one set of rows in one process; it is not stored. Calls of pure epsilon fit as well
    while all epsilons together do. failure_share: share of delta, at most 1/2, that is kept for
    releases of medians and maxima, which cost a delta of their own; without it none fits.
    Raises ValueError where epsilon, delta or failure_share is none.
    """

    epsilon: float
    delta: float
    failure_share: float = 0.0
    calls: int = field(default=0, init=False)
    _state: FilterState = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if not isinstance(value, Real) or isinstance(value, bool):
                raise ValueError(f"{name} must be a number")
        self._state = FilterState.empty(self._terms)

    @property
    def _terms(self) -> FilterTerms:
        if not 0.0 <= self.failure_share <= 0.5:
            raise ValueError("failure_share must lie between 0 and 1/2")
        rest = round(1.0 - self.failure_share, 12)
        kept = round(self.failure_share, 12)
        return FilterTerms(
            self.epsilon, self.delta, gdp_weight=rest, basic=True, failure_weight=kept
        )

    @property
    def spent(self) -> float:
        """Composed epsilon of all calls so far, at the budget's delta."""
        return spent_epsilon(self._terms, self._state)

    @property
    def remaining(self) -> float:
        """Largest epsilon of a Gaussian call that is still accepted, at the budget's delta."""
        return remaining_epsilon(self._terms, self._state)

    def take(self, event: Event) -> None:
        """Take what an event costs.

        Raises BudgetExhaustedError where it does not fit; then nothing is taken.
        """
        cost = entry_cost(self._terms, event)
        after = self._state.add(cost)
        if not self._terms.accepts(after):
            alone = FilterState.empty(self._terms).add(cost)
            requested = spent_epsilon(self._terms, alone)
            raise BudgetExhaustedError(requested, self.remaining, self.delta)
        self._state, self.calls = after, self.calls + 1

    def __str__(self) -> str:
        """Say what is spent and left."""
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        return (
            f"epsilon {self.epsilon:g} at delta {self.delta:g}: {self.spent:.4g} spent by"
            f" {calls}, a call of {self.remaining:.4g} still fits"
        )
