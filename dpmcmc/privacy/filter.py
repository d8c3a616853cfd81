"""The privacy filter of a dataset: a bound on adaptively chosen events (see docs/proofs).

A dataset fixes (epsilon, delta), the relation and weighted branches once. An entry carries its cost
in every branch; it is accepted while some branch still holds. Proof: docs/proofs/filter.md (Smith &
Thakurta 2022, Koskela et al. 2022: GDP; Feldman & Zrnic 2021: Rényi at a fixed order; union lemma).

Costs are whole numbers of 2^-96, rounded up; limits are rounded down; so sums are exact, do not
depend on the order of entries, and deciding takes the same time after any number of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from scipy.special import log_ndtr

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy.conversions import rdp_budget, rdp_epsilon
from dpmcmc.privacy.costs import but_for_failure, float_up, gdp_mu2, pure_bound, rdp_bound
from dpmcmc.privacy.events import LARGEST_NUMBER, SMALLEST_NUMBER, Event, EventError, PureEpsilon
from dpmcmc.privacy.gaussian import (
    SMALLEST_DELTA,
    check_delta,
    check_epsilon,
    epsilon_of_mu,
    mu_of_epsilon,
    root_down,
    root_up,
)

FRACTION_BITS = 96
LEAST_FAILURE = 1e-20  # of a job that is told of: no delta is smaller


def units_up(value: Fraction) -> int:
    """Return the value in units of 2^-96, rounded up."""
    return math.ceil(value * (1 << FRACTION_BITS))


def units_down(value: Fraction) -> int:
    """Return the value in units of 2^-96, rounded down."""
    return math.floor(value * (1 << FRACTION_BITS))


def in_units(units: int) -> Fraction:
    """Return the value of a number of units."""
    return Fraction(units, (1 << FRACTION_BITS))


@dataclass(frozen=True, slots=True)
class FilterTerms:
    """The privacy guarantee of a dataset, fixed when it is created.

    epsilon, delta: the promise, under `neighbouring`. gdp_weight: share of delta of the GDP branch.
    renyi: (order, share of delta) of each Rényi branch. basic: whether sums of pure epsilon are a
    branch too (it needs no delta). failure_weight: share of delta that entries may use up which are
    themselves (epsilon, delta). A GDP branch of share 0 is off. Raises ValueError where an order is
    not above 1, a share is not in [0, 1] or so small that no delta is left of it, or they sum to
    more than 1.
    """

    epsilon: float
    delta: float
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    gdp_weight: float = 1.0
    renyi: tuple[tuple[float, float], ...] = ()
    basic: bool = False
    failure_weight: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "renyi", tuple((a, w) for a, w in self.renyi))
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not all(order > 1 and math.isfinite(order) for order, _ in self.renyi):
            raise ValueError("a Rényi branch needs a finite order above 1")
        shares = [self.gdp_weight, self.failure_weight, *(share for _, share in self.renyi)]
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("every share of delta must lie between 0 and 1")
        if sum(Fraction(str(share)) for share in shares) > 1:
            raise ValueError("the shares of delta must sum to at most 1")
        if any(share > 0 and _share(self.delta, share) < SMALLEST_DELTA for share in shares):
            raise ValueError("a share of delta must be 0 or leave at least 1e-300")

    def accepts(self, state: "FilterState") -> bool:
        """Return whether some branch is within its limit: exact comparisons, in constant time."""
        *branches, failure = zip(state.sums, state.unbounded, _limits(self), strict=True)
        return _within(*failure) and any(_within(*branch) for branch in branches)


def _within(total: int, unbounded: int, limit: int | None) -> bool:
    """Return whether a branch's total is within its limit; None: the branch is off."""
    return limit is not None and unbounded == 0 and total <= limit


@dataclass(frozen=True, slots=True)
class EntryCost:
    """The cost of one entry in every branch, in units of 2^-96 rounded up; None: no bound.

    mu2: GDP. rdp: at each of the terms' orders. pure: epsilon of the part that does not fail.
    failure: probability of failing, 0 but for (epsilon, delta) events.
    """

    mu2: int | None
    rdp: tuple[int | None, ...]
    pure: int | None
    failure: int | None

    @property
    def vector(self) -> tuple[int | None, ...]:
        """Costs of all branches in the order of `FilterState.sums`: mu2, rdp..., pure, failure."""
        return (self.mu2, *self.rdp, self.pure, self.failure)

    @classmethod
    def from_vector(cls, vector: Sequence[int | None]) -> "EntryCost":
        """Return the cost with this `vector`."""
        return cls(vector[0], tuple(vector[1:-2]), vector[-2], vector[-1])

    def beyond(self, beginning: "EntryCost") -> "EntryCost":
        """Return the cost minus that of its beginning, in every branch; 0 without a bound."""
        pairs = zip(self.vector, beginning.vector, strict=True)
        return self.from_vector(
            [0 if total is None or part is None else max(0, total - part) for total, part in pairs]
        )


@dataclass(frozen=True, slots=True)
class FilterState:
    """Running sums of entries per branch, and the number of entries without a bound there.

    Exact whole numbers: adding and removing commute. The order is that of `EntryCost.vector`.
    """

    sums: tuple[int, ...]
    unbounded: tuple[int, ...]

    @classmethod
    def empty(cls, terms: FilterTerms) -> "FilterState":
        """Return the state of a dataset that has no entries."""
        zeros = (0,) * (len(terms.renyi) + 3)
        return cls(zeros, zeros)

    def add(self, cost: EntryCost) -> "FilterState":
        """Return the state with one more entry."""
        return self._moved(cost, 1)

    def remove(self, cost: EntryCost) -> "FilterState":
        """Return the state without an entry added before (a voided reservation)."""
        return self._moved(cost, -1)

    def _moved(self, cost: EntryCost, sign: int) -> "FilterState":
        """Return the state with a cost added (sign 1) or removed (sign -1)."""
        moves = list(zip(self.sums, self.unbounded, cost.vector, strict=True))
        sums = [total + sign * (value or 0) for total, _, value in moves]
        return FilterState(
            tuple(sums), tuple([many + sign * (value is None) for _, many, value in moves])
        )

    @property
    def mu2(self) -> int | None:
        """Return the sum of mu^2 in units of 2^-96; None once an entry has no GDP bound."""
        return None if self.unbounded[0] else self.sums[0]

    @property
    def mu(self) -> float:
        """Return the root of the sum of mu^2, rounded up; infinite without a GDP bound."""
        return math.inf if self.mu2 is None else root_up(in_units(self.mu2))


def entry_cost(terms: FilterTerms, event: Event) -> EntryCost:
    """Return the cost of the event in every branch of the terms, rounded up.

    Raises EventError where the event's neighbouring relation is not the terms'.
    """
    if event.neighbouring != terms.neighbouring:
        raise EventError("the event's neighbouring relation is not the dataset's")
    pure, failure = pure_bound(event)
    core = but_for_failure(event)
    return EntryCost(
        mu2=_units_or_none(gdp_mu2(core)),
        rdp=tuple(_units_or_none(rdp_bound(core, order)) for order, _ in terms.renyi),
        pure=_units_or_none(pure),
        failure=units_up(failure),
    )


def _units_or_none(value: Fraction | None) -> int | None:
    """Return the value in units, rounded up; None without a bound."""
    return None if value is None else units_up(value)


def _share(delta: float, weight: float) -> float:
    """Return weight * delta, rounded down."""
    product = delta * weight
    exact = Fraction(delta) * Fraction(str(weight))
    return math.nextafter(product, 0) if Fraction(product) > exact else product


@lru_cache(maxsize=256)
def _limits(terms: FilterTerms) -> tuple[int | None, ...]:
    """Return the limits of all branches in units, rounded down; None: branch is off."""
    renyi = [_renyi_limit(terms, order, weight) for order, weight in terms.renyi]
    basic = units_down(Fraction(terms.epsilon)) if terms.basic else None
    failure = units_down(Fraction(_share(terms.delta, terms.failure_weight)))
    return (_gdp_limit(terms), *renyi, basic, failure)


def _gdp_limit(terms: FilterTerms) -> int | None:
    """Return the limit of mu^2 in units; None where the GDP branch is off."""
    share = _share(terms.delta, terms.gdp_weight)
    if share == 0:
        return None
    return units_down(Fraction(mu_of_epsilon(terms.epsilon, share)) ** 2)


def _renyi_limit(terms: FilterTerms, order: float, weight: float) -> int | None:
    """Return the limit of a Rényi branch in units."""
    share = _share(terms.delta, weight)
    return None if share == 0 else units_down(Fraction(rdp_budget(terms.epsilon, share, order)))


def mu_limit(terms: FilterTerms) -> float:
    """Return the total mu that the GDP branch allows, rounded down; 0 where it is off."""
    limit = _limits(terms)[0]
    return 0.0 if limit is None else root_down(in_units(limit))


def spent_epsilon(terms: FilterTerms, state: FilterState) -> float:
    """Return the composed epsilon at the terms' delta, of the best branch, rounded up.

    At most terms.epsilon exactly where the terms accept the state; infinite where no branch has a
    bound. Not a running guarantee of its own: the promise is (epsilon, delta) of the terms.
    """
    if not any(state.sums) and not any(state.unbounded):
        return 0.0
    *_, failed = zip(state.sums, state.unbounded, _limits(terms), strict=True)
    if not _within(*failed):
        return math.inf
    candidates = [_spent_gdp(terms, state), *_spent_renyi(terms, state)]
    if terms.basic and not state.unbounded[-2]:
        candidates.append(float_up(in_units(state.sums[-2])))
    spent = min(candidates)
    return min(spent, terms.epsilon) if terms.accepts(state) else spent


def _spent_gdp(terms: FilterTerms, state: FilterState) -> float:
    """Return the epsilon spent by the GDP branch."""
    share = _share(terms.delta, terms.gdp_weight)
    return epsilon_of_mu(state.mu, share) if share > 0 else math.inf


def _spent_renyi(terms: FilterTerms, state: FilterState) -> list[float]:
    """Return the epsilons spent by the Rényi branches."""
    spent = []
    for at, (order, weight) in enumerate(terms.renyi, start=1):
        share = _share(terms.delta, weight)
        bounded = share > 0 and not state.unbounded[at]
        total = float_up(in_units(state.sums[at]))
        spent.append(rdp_epsilon(total, order, share) if bounded else math.inf)
    return spent


def remaining_mu(terms: FilterTerms, state: FilterState) -> float:
    """Return the mu of the largest Gaussian entry still accepted, rounded down."""
    room = max(_rooms(terms, state), default=Fraction(0))
    return root_down(room) if room > 0 else 0.0


def _rooms(terms: FilterTerms, state: FilterState) -> list[Fraction]:
    """Return the mu^2 still available to a Gaussian entry, per Gaussian and Rényi branch."""
    limits = _limits(terms)
    if not _within(state.sums[-1], state.unbounded[-1], limits[-1]):
        return []
    per_mu2 = [Fraction(1), *(2 / Fraction(order) for order, _ in terms.renyi)]
    return [
        in_units(limit - state.sums[at] - 1) * factor
        for at, (limit, factor) in enumerate(zip(limits, per_mu2, strict=False))
        if limit is not None and not state.unbounded[at]
    ]


def remaining_pure_epsilon(terms: FilterTerms, state: FilterState) -> float:
    """Return the largest epsilon of a pure entry still accepted, rounded down."""
    limits, rooms = _limits(terms), [0.0]
    if limits[-2] is not None and not state.unbounded[-2]:
        rooms.append(float(in_units(limits[-2] - state.sums[-2])))
    mu = 0.0 if limits[0] is None or state.unbounded[0] else remaining_mu(terms, state)
    rooms.append(float(log_ndtr(mu / 2.0) - log_ndtr(-mu / 2.0)))
    return max(_accepted_below(terms, state, min(room, terms.epsilon)) for room in rooms)


def _accepted_below(terms: FilterTerms, state: FilterState, epsilon: float) -> float:
    """Return the largest accepted pure epsilon at or just below this one; 0 for none."""
    back = 1e-15 * max(epsilon, 1.0)
    while epsilon >= SMALLEST_NUMBER:
        job = entry_cost(terms, PureEpsilon(min(epsilon, LARGEST_NUMBER), terms.neighbouring))
        if terms.accepts(state.add(job)):
            return min(epsilon, LARGEST_NUMBER)
        epsilon, back = epsilon - back, 2 * back
    return 0.0


def failure_left(terms: FilterTerms, state: FilterState) -> float:
    """Return the failure probability still available to further jobs, rounded down."""
    failure = float(in_units((_limits(terms)[-1] or 0) - state.sums[-1]))
    return failure if failure >= LEAST_FAILURE else 0.0


def remaining_for(terms: FilterTerms, state: FilterState, cost: EntryCost) -> float:
    """Return the largest epsilon of a job of this kind still accepted, rounded down.

    0 where its failure alone is more than is left of the share for that.
    """
    failure = state.sums[-1] + (cost.failure or 0)
    if not _within(failure, state.unbounded[-1], _limits(terms)[-1]):
        return 0.0
    pure = cost.pure is not None
    return remaining_pure_epsilon(terms, state) if pure else remaining_epsilon(terms, state)


def remaining_epsilon(terms: FilterTerms, state: FilterState) -> float:
    """Return the largest epsilon of a Gaussian job still accepted at delta, rounded down.

    A job calibrated to it (`noise_multiplier_for`) fits. 0 where no epsilon above 0 fits any more.
    """
    mu = remaining_mu(terms, state)
    if mu == 0:
        return 0.0
    epsilon = min(epsilon_of_mu(mu, terms.delta), terms.epsilon)
    back = 1e-15 * max(epsilon, 1.0)
    while epsilon > 0 and mu_of_epsilon(epsilon, terms.delta) > mu:
        epsilon, back = max(0.0, epsilon - back), 2 * back
    return epsilon
