"""The filter: sound under adaptive choices where the naive hard stop is not, exact, O(1)."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy.accountant import epsilon, epsilon_of_mu, mu_of_epsilon, noise_multiplier_for
from dpmcmc.privacy.conversions import rdp_budget
from dpmcmc.privacy.events import (
    Compose,
    Event,
    EventError,
    Gaussian,
    Laplace,
    Parallel,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
    WithoutReplacement,
)
from dpmcmc.privacy.filter import (
    EntryCost,
    FilterState,
    FilterTerms,
    _share,
    entry_cost,
    mu_limit,
    remaining_epsilon,
    spent_epsilon,
)
from dpmcmc.privacy.gaussian import delta_of_mu
from tests.bounds import wor_delta

DELTA = 1e-6
MIXED = FilterTerms(3.0, DELTA, gdp_weight=0.5, renyi=((9, 0.5),))
Profile = Callable[[float], float]


def spend(terms: FilterTerms, events: list[Event]) -> FilterState:
    state = FilterState.empty(terms)
    for event in events:
        state = state.add(entry_cost(terms, event))
    return state


def accepted(terms: FilterTerms, events: list[Event]) -> bool:
    return terms.accepts(spend(terms, events))


# -- the naive hard stop, and what an adaptive analyst gets out of it ---------------------------


def real(profile: Profile, at: float) -> float:
    """A symmetric profile at any real epsilon."""
    if at >= 0:
        return profile(at)
    return -math.expm1(at) + math.exp(at) * profile(-at)


def after_gaussian(mu: float, profile: Profile, at: float, panels: int = 1500) -> float:
    """delta at `at` of a Gaussian release, then a step of this profile that may depend on it."""
    nodes, weights = np.polynomial.legendre.leggauss(6)
    edges = np.linspace(-10.0, 20.0, panels + 1)
    half = 0.5 * np.diff(edges)
    x = (edges[:-1, None] + half[:, None] * (nodes + 1)).ravel()
    mass = (half[:, None] * weights).ravel() * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return float(mass @ [profile(at - 0.5 * mu * mu - mu * point) for point in x])


def naive_accepts(mu: float, second: Profile, at: float) -> bool:
    """Composes as if both steps had been fixed in advance."""
    return after_gaussian(mu, lambda e: real(second, e), at) <= DELTA * 1.0001


def calibrated(mu: float, family: Callable[[float], Profile], at: float) -> float:
    """Largest parameter with which the second step still composes to delta."""
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        profile = family(middle)
        fits = after_gaussian(mu, partial(real, profile), at, 300) <= DELTA
        low, high = (middle, high) if fits else (low, middle)
    return low


def response(each: float) -> Profile:
    return lambda at: max(0.0, (math.exp(each) - math.exp(at)) / (1 + math.exp(each)))


def subsampled(mu: float) -> Profile:
    return lambda at: wor_delta(1 / mu, 0.001, at) if mu > 0 else 0.0


@pytest.mark.parametrize(
    ("family", "event", "at", "least"),
    [
        (response, PureEpsilon, 3.0, 1.9),
        (subsampled, lambda mu: WithoutReplacement(Gaussian(1 / mu), 1, 1000), 8.0, 1.6),
    ],
)
def test_two_adaptive_steps_pass_the_naive_stop_and_not_ours(
    family: Callable[[float], Profile], event: Callable[[float], Event], at: float, least: float
) -> None:
    most = mu_of_epsilon(at, DELTA)
    first, gaussian = math.sqrt(0.3) * most, math.sqrt(0.7) * most * (1 - 1e-12)
    other = calibrated(first, family, at)

    def second(e: float) -> float:
        return delta_of_mu(gaussian, e)

    assert naive_accepts(first, second, at)
    assert naive_accepts(first, family(other), at)
    spent = after_gaussian(first, lambda e: max(real(second, e), real(family(other), e)), at)
    assert spent > least * DELTA
    terms = FilterTerms(at, DELTA)
    assert accepted(terms, [Gaussian(1 / first), Gaussian(1 / gaussian)])
    assert not accepted(terms, [Gaussian(1 / first), event(other)])


# -- the filter's own arithmetic -------------------------------------------------------------------


@settings(max_examples=60)
@given(st.floats(0.01, 20), st.floats(1e-12, 0.01), st.integers(2, 30), st.integers(1, 10**6))
def test_a_budget_of_n_jobs_takes_n_and_refuses_the_next(
    each: float, small: float, jobs: int, steps: int
) -> None:
    job = Repeat(Gaussian(noise_multiplier_for(each, small, steps)), steps)
    whole = epsilon(Repeat(job, jobs), small)
    terms = FilterTerms(whole, small)
    assert accepted(terms, [job] * jobs)
    assert not accepted(terms, [job] * (jobs + 1))


@settings(max_examples=60)
@given(st.floats(0.01, 20), st.floats(1e-12, 0.01), st.floats(0.05, 0.95))
def test_a_job_for_what_remains_fits_and_hardly_more_does(
    whole: float, small: float, share: float
) -> None:
    terms = FilterTerms(whole, small)
    mu = math.sqrt(share) * mu_limit(terms)
    state = spend(terms, [Gaussian(1 / mu)])
    rest = remaining_epsilon(terms, state)
    assume(rest > 0)  # what is left may be less than epsilon 0 at the full delta
    fits = Gaussian(noise_multiplier_for(rest, small, 1))
    assert terms.accepts(state.add(entry_cost(terms, fits)))
    more = Gaussian(fits.noise_multiplier * (1 - 1e-9))
    assert not terms.accepts(state.add(entry_cost(terms, more)))


EVENTS: list[Event] = [
    Gaussian(4.0),
    Repeat(Gaussian(30.0), 40),
    Laplace(10.0),
    PureEpsilon(0.05),
    Repeat(WithoutReplacement(Gaussian(4.0), 1, 100), 700),
    Parallel((Gaussian(9.0), Laplace(7.0))),
]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.randoms(use_true_random=False))
def test_order_changes_nothing_and_removing_undoes(events: list[Event], shuffler: object) -> None:
    mixed = list(events)
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]
    state = spend(MIXED, events)
    assert spend(MIXED, mixed) == state
    extra = entry_cost(MIXED, EVENTS[4])
    assert state.add(extra).remove(extra) == state


@settings(max_examples=40)
@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=12))
def test_spent_grows_with_every_entry_and_tells_what_is_accepted(events: list[Event]) -> None:
    states = [spend(MIXED, events[:many]) for many in range(len(events) + 1)]
    spent = [spent_epsilon(MIXED, state) for state in states]
    assert spent[0] == 0.0
    assert all(before <= after for before, after in pairwise(spent))
    left = [remaining_epsilon(MIXED, state) for state in states]
    assert all(before >= after for before, after in pairwise(left))
    for state, value in zip(states, spent, strict=True):
        assert MIXED.accepts(state) == (value <= MIXED.epsilon)


def test_a_subsampled_entry_leaves_the_renyi_branch_only() -> None:
    step = WithoutReplacement(Gaussian(4.0), 1, 100)
    assert accepted(MIXED, [Repeat(step, 5000)])
    assert not accepted(FilterTerms(3.0, DELTA), [step])
    assert spend(MIXED, [step]).mu == math.inf


def test_spent_is_the_composed_value_not_a_sum() -> None:
    terms = FilterTerms(4.0, DELTA)
    state = spend(terms, [Gaussian(20.0)] * 9)
    assert (
        spent_epsilon(terms, state)
        == epsilon_of_mu(state.mu, DELTA)
        == pytest.approx(epsilon(Gaussian(20 / 3), DELTA), rel=1e-12)
    )


def test_pure_sums_are_a_branch_only_where_the_terms_say_so() -> None:
    events: list[Event] = [PureEpsilon(0.5), PureEpsilon(0.5)]
    assert accepted(FilterTerms(1.0, DELTA, gdp_weight=0.0, basic=True), events)
    assert not accepted(FilterTerms(1.0, DELTA, gdp_weight=0.0), events)
    assert not accepted(FilterTerms(0.99, DELTA, gdp_weight=0.0, basic=True), events)


def test_smooth_laplace_needs_a_share_of_delta_to_fail_with() -> None:
    event = SmoothLaplace(0.1, 2e-7)
    terms = FilterTerms(1.0, DELTA, gdp_weight=0.5, failure_weight=0.5)
    assert accepted(terms, [event, event])
    assert not accepted(terms, [event, event, event])
    assert not accepted(FilterTerms(1.0, DELTA), [event])
    assert spent_epsilon(terms, spend(terms, [event] * 3)) == math.inf
    assert remaining_epsilon(terms, spend(terms, [event] * 3)) == 0.0


def test_another_relation_is_refused() -> None:
    with pytest.raises(EventError, match="relation"):
        entry_cost(FilterTerms(1.0, DELTA), Gaussian(1.0, Neighbouring.ADD_REMOVE))


def test_something_unknown_is_refused() -> None:
    class Stranger:
        neighbouring = Neighbouring.REPLACE_ONE

    with pytest.raises(EventError, match="vocabulary"):
        entry_cost(FilterTerms(1.0, DELTA), Stranger())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "terms",
    [
        {"gdp_weight": 0.6, "renyi": ((9, 0.5),)},
        {"gdp_weight": -0.1},
        {"gdp_weight": 1.0, "failure_weight": 1e-9},
        {"gdp_weight": 0.5, "renyi": ((1.0, 0.5),)},
        {"gdp_weight": 0.5, "renyi": ((math.inf, 0.5),)},
        {"gdp_weight": 1e-299},
        {"gdp_weight": 0.5, "renyi": ((9, 1e-299),)},
    ],
)
def test_terms_that_promise_too_much_are_refused(terms: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"share|order"):
        FilterTerms(1.0, DELTA, **terms)  # type: ignore[arg-type]


def test_decimal_shares_that_sum_to_one_are_accepted() -> None:
    FilterTerms(1.0, DELTA, gdp_weight=0.7, renyi=((9, 0.2), (17, 0.1)))


def test_costs_survive_being_written_as_whole_numbers() -> None:
    for event in (*EVENTS, Compose((EVENTS[0], EVENTS[4]))):
        cost = entry_cost(MIXED, event)
        assert EntryCost.from_vector(cost.vector) == cost


def test_a_cost_is_rounded_up_and_a_limit_down() -> None:
    cost = entry_cost(FilterTerms(1.0, DELTA), Gaussian(3.0))
    assert cost.mu2 is not None
    assert (cost.mu2 - 1) * 9 < 2**96 <= cost.mu2 * 9
    assert mu_limit(FilterTerms(1.0, DELTA)) <= mu_of_epsilon(1.0, DELTA)


def test_a_share_of_delta_is_never_more_than_its_part() -> None:
    for delta in np.geomspace(1e-20, 0.1, 200).tolist():
        for weight in (0.1, 0.3, 0.7, 0.95, 1.0):
            exact = Fraction(delta) * Fraction(str(weight))
            assert exact * (1 - Fraction(2) ** -51) <= Fraction(_share(delta, weight)) <= exact


def fills(terms: FilterTerms, branch: int, cost: Fraction) -> int:
    """The most units of one branch that the terms accept; `cost` is within a few of them."""
    nothing: list[int | None] = [None] * (len(terms.renyi) + 2)
    found = math.floor(cost * 2**96) + 10

    def takes(units: int) -> bool:
        vector = [*nothing[:branch], units, *nothing[branch + 1 :], 0]
        return terms.accepts(FilterState.empty(terms).add(EntryCost.from_vector(vector)))

    assert not takes(found)
    while not takes(found):
        found -= 1
    return found


def test_each_branch_is_full_at_its_own_share_of_delta_to_the_unit() -> None:
    """Of the limit, which is rounded down, not one more unit of 2^-96 is accepted."""
    terms = FilterTerms(
        3.0, DELTA, gdp_weight=0.3, renyi=((9, 0.5), (17, 0.1)), basic=True, failure_weight=0.1
    )
    budgets = [
        Fraction(mu_of_epsilon(3.0, 0.3 * DELTA)) ** 2,
        Fraction(rdp_budget(3.0, 0.5 * DELTA, 9)),
        Fraction(rdp_budget(3.0, 0.1 * DELTA, 17)),
        Fraction(3),
    ]
    for branch, budget in enumerate(budgets):
        ulp = Fraction(2) ** -50 * budget  # a share of delta is rounded down
        full = fills(terms, branch, budget)
        assert budget - ulp <= Fraction(full, 2**96) <= budget


@pytest.mark.parametrize("epsilon", [1e-300, 1e-12, 1e6, 1e100, 1e300, 1.7e308])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.9])
def test_the_largest_and_smallest_promises_are_answered_at_once(
    epsilon: float, delta: float
) -> None:
    terms = FilterTerms(epsilon, delta)
    fresh = FilterState.empty(terms)
    left = remaining_epsilon(terms, fresh)
    assert 0 <= left <= epsilon
    full = fresh.add(entry_cost(terms, Gaussian(1e-100)))
    assert spent_epsilon(terms, full) >= 0
    assert remaining_epsilon(terms, full) == 0 or terms.accepts(full)
