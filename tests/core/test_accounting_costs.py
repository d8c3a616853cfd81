"""Every other event against high precision, against each other, and against the exact Gaussian."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy import composition, conversions, losses, pld, subsampling
from dpmcmc.privacy import rdp as curves
from dpmcmc.privacy.accountant import (
    delta,
    epsilon,
    gdp_mu,
    pure_bound,
    pure_epsilon,
    rdp,
    zcdp_rho,
)
from dpmcmc.privacy.events import (
    Barker,
    Compose,
    Event,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
    WithoutReplacement,
)
from dpmcmc.privacy.laplace import laplace_delta
from dpmcmc.privacy.quotes import quote
from tests import bounds

ADD = Neighbouring.ADD_REMOVE
orders = st.one_of(st.floats(1.01, 100), st.integers(2, 64).map(float))
rates = st.floats(-4, -0.1).map(lambda power: 10**power)
multipliers = st.floats(0.5, 50)
small_epsilons = st.floats(-4, 1).map(lambda power: 10**power)
MIX: list[Event] = [
    Gaussian(5.0),
    Repeat(Laplace(8.0), 3),
    PureEpsilon(0.2),
    SmoothLaplace(0.1, 1e-8),
    Repeat(WithoutReplacement(Gaussian(3.0), 1, 50), 200),
    Repeat(WithoutReplacement(Laplace(2.0), 1, 50), 20),
    Repeat(Barker(1000, 100000), 10),
]


def up_to(found: float, exact: mpmath.mpf, slack: float = 1e-9) -> None:
    assert found >= exact * (1 - mpmath.mpf("1e-30"))
    assert found <= exact * (1 + mpmath.mpf(slack))


@settings(max_examples=60)
@given(small_epsilons, orders)
def test_laplace_divergence(each: float, order: float) -> None:
    with mpmath.workdps(60):
        a, e = mpmath.mpf(order), mpmath.mpf(each)
        total = a / (2 * a - 1) * mpmath.exp((a - 1) * e)
        total += (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
        up_to(curves.rdp_laplace(each, order), mpmath.log(total) / (a - 1))


@settings(max_examples=60)
@given(small_epsilons, orders)
def test_randomised_response_divergence(each: float, order: float) -> None:
    with mpmath.workdps(60):
        a, e = mpmath.mpf(order), mpmath.mpf(each)
        p = mpmath.exp(e) / (1 + mpmath.exp(e))
        total = p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)
        up_to(curves.rdp_pure(each, order), mpmath.log(total) / (a - 1))


@settings(max_examples=60)
@given(small_epsilons)
def test_gdp_of_a_pure_mechanism(each: float) -> None:
    with mpmath.workdps(60):
        e = mpmath.mpf(each)
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(e / 2))
        up_to(gdp_mu(PureEpsilon(each)), exact, 1e-12)


def mixture_excess(mu: float, rate: float, order: float, poisson: bool) -> mpmath.mpf:
    """A of the subsampled Gaussian by quadrature in 30 digits."""
    m, q, a = mpmath.mpf(mu), mpmath.mpf(rate), mpmath.mpf(order)

    def term(x: mpmath.mpf) -> mpmath.mpf:
        r = 1 - q + q * mpmath.exp(m * x - m * m / 2)
        if poisson:
            return mpmath.npdf(x) * (r**a - 1 - a * (r - 1))
        return mpmath.npdf(x) * (r**a - 1) * (1 - r ** (1 - a))

    turn = m / 2 + mpmath.log(1 / q) / m
    marks = {float(a * m) + s for s in (-12, -6, 0, 6, 12)} | {float(turn) + s for s in (-1, 0, 1)}
    marks |= {float(m / 2), float(m / 2) + 3, float(m / 2) + 8, float(a * m) + 40}
    low = -40.0 if poisson else float(m / 2)
    points = sorted(x for x in marks | {-8.0, -3.0} if x > low)
    return mpmath.quad(term, [low, *points])


@settings(max_examples=12)
@given(multipliers, rates, st.floats(1.1, 40))
def test_without_replacement_divergence(multiplier: float, rate: float, order: float) -> None:
    with mpmath.workdps(30):
        exact = mpmath.log(1 + mixture_excess(1 / multiplier, rate, order, poisson=False))
        found = subsampling.wor_rdp_gaussian(multiplier, rate, order)
        assert found == pytest.approx(float(exact / (order - 1)), rel=1e-7)


@settings(max_examples=12)
@given(multipliers, rates, st.floats(1.1, 40))
def test_poisson_divergence_at_real_orders(multiplier: float, rate: float, order: float) -> None:
    with mpmath.workdps(30):
        exact = mpmath.log(1 + mixture_excess(1 / multiplier, rate, order, poisson=True))
        found = subsampling.poisson_rdp_gaussian(multiplier, rate, order)
        assert found == pytest.approx(float(exact / (order - 1)), rel=1e-7)


@settings(max_examples=60)
@given(multipliers, rates, st.integers(2, 40))
def test_bounds_of_sampling_without_replacement_are_ordered(
    multiplier: float, rate: float, order: int
) -> None:
    profile = subsampling.wor_rdp_gaussian(multiplier, rate, order)
    differences = bounds.wor_rdp_gaussian_differences(multiplier, rate, order)
    plain = subsampling.wor_rdp(lambda j: j / (2 * multiplier**2), rate, order)
    convex = bounds.wor_rdp_convex(order / (2 * multiplier**2), rate, order)
    assert profile <= differences * (1 + 1e-9)
    assert differences <= plain * (1 + 1e-9)
    assert profile <= convex * (1 + 1e-9)


def test_an_event_on_batches_costs_at_least_what_the_worst_neighbours_differ_by() -> None:
    """A row that only one of them has, seen with probability q: N(0, z^2) against a mixture."""
    z, rate, count, at = 0.8, 0.05, 100, 0.5
    event = Repeat(WithoutReplacement(Gaussian(z), 50, 1000), count)
    for order in (2, 9):
        with mpmath.workdps(30):
            excess = mixture_excess(1 / z, rate, order, poisson=True)
            exact = float(mpmath.log(1 + excess) / (order - 1))
        assert rdp(event, float(order)) >= count * exact
    rng = np.random.default_rng(1)
    seen = rng.normal(scale=z, size=(40_000, count))
    seen += rng.random(seen.shape) < rate
    loss = np.log1p(rate * np.expm1((seen - 0.5) / z**2)).sum(axis=1)
    measured = np.maximum(0.0, -np.expm1(at - loss))
    error = measured.std() / math.sqrt(measured.size)
    assert delta(event, at) >= measured.mean() - 5 * error
    assert measured.mean() > 20 * error


def test_sampling_every_row_is_no_sampling() -> None:
    for order in (1.5, 2.0, 17.0):
        whole = curves.rdp_gaussian(3.0, order)
        assert subsampling.wor_rdp_gaussian(3.0, 1.0, order) == pytest.approx(whole, rel=1e-9)
        assert subsampling.poisson_rdp_gaussian(3.0, 1.0, order) == pytest.approx(whole)


def test_three_rows_in_a_triangle_stay_below_the_bound() -> None:
    """The counterexample to the blog's Conjecture 1: 2.05e-4 where 1.72e-4 was conjectured."""
    assert subsampling.wor_rdp_gaussian(1.0, 0.01, 2.0) > 2.0507e-4
    assert subsampling.poisson_rdp_gaussian(1.0, 0.01, 2.0) == pytest.approx(1.7181e-4, rel=1e-4)


@pytest.mark.parametrize("batch", [20, 100, 1000])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_barker_base_bounds_every_pair_of_gaussians(batch: int, order: int) -> None:
    """Means within 2/sqrt(b), variances in [1, 2] within 4(b-1)/b^2 of each other."""
    bound = subsampling.barker_base_rdp(batch, order)
    variance = np.linspace(1.0, 2.0, 101)
    change = 4 * (batch - 1) / batch**2 * np.linspace(-1, 1, 101)
    first, second = variance[:, None], variance[:, None] + change
    inside = (second >= 1) & (second <= 2)
    mixed = order * second + (1 - order) * first
    spread = 0.5 * np.log(second / first) + np.log(second / mixed) / (2 * (order - 1))
    divergence = spread + order * (4 / batch) / (2 * mixed)
    assert divergence[inside].max() <= bound <= divergence[inside].max() * 1.2
    assert bound <= bounds.barker_base_rdp_loose(batch, min(order, batch / 5 - 0.01))


@settings(max_examples=30)
@given(st.floats(0.01, 2), st.integers(1, 2), st.floats(0, 1))
def test_laplace_profile_against_quadrature(each: float, count: int, share: float) -> None:
    at = share * count * each
    losses = np.linspace(-each, each, 1001)
    middle = 0.5 * (losses[1:] + losses[:-1])
    mass = np.exp((middle - each) / 2) / 4 * np.diff(losses)
    value = np.concatenate([[-each], middle, [each]])
    weight = np.concatenate([[math.exp(-each) / 2], mass, [0.5]])

    def tail(rest: float, left: int) -> float:
        if left == 1:
            return float(weight @ -np.expm1(np.minimum(0, rest - value)))
        return float(weight @ [tail(rest - step, left - 1) for step in value])

    assert laplace_delta(each, count, at) == pytest.approx(tail(at, count), rel=1e-3, abs=1e-7)


@settings(max_examples=40)
@given(small_epsilons, st.integers(1, 60), st.floats(0, 1))
def test_optimal_composition(each: float, count: int, share: float) -> None:
    at = share * count * each
    with mpmath.workdps(60):
        p = mpmath.exp(mpmath.mpf(each)) / (1 + mpmath.exp(mpmath.mpf(each)))
        exact = mpmath.fsum(
            mpmath.binomial(count, i)
            * max(
                mpmath.mpf(0),
                p ** (count - i) * (1 - p) ** i
                - mpmath.exp(mpmath.mpf(at)) * p**i * (1 - p) ** (count - i),
            )
            for i in range(count + 1)
        )
        found = composition.optimal_delta(each, 0.0, count, at)
        assert found >= exact * (1 - mpmath.mpf("1e-12"))
        # what rounding up may add: the rounding error of epsilon, times a probability of at most 1
        assert found <= exact * (1 + mpmath.mpf("1e-9")) + 2.0**-49 * (at + count * each)


@settings(max_examples=40)
@given(st.floats(-6, 1.5).map(lambda p: 10**p), st.floats(1e-12, 0.1))
def test_zcdp_conversion_is_the_best_order_and_inverts(rho: float, small: float) -> None:
    best = conversions.zcdp_epsilon(rho, small)
    assert best <= conversions.zcdp_epsilon_loose(rho, small)
    for order in (1.01, 1.5, 2.0, 5.0, 20.0, 100.0):
        assert best <= conversions.rdp_epsilon(order * rho, order, small) * (1 + 1e-12)
    if best > 0:
        assert conversions.zcdp_rho(best, small) == pytest.approx(rho, rel=1e-9)


@settings(max_examples=60)
@given(st.floats(0.01, 20), st.floats(1e-12, 0.5), st.floats(1.01, 200))
def test_renyi_budget_inverts_the_conversion(at: float, small: float, order: float) -> None:
    rho = conversions.rdp_budget(at, small, order)
    if rho >= 0:
        assert conversions.rdp_epsilon(rho, order, small) <= at * (1 + 1e-13)
        assert conversions.rdp_epsilon(rho, order, small) == pytest.approx(at, rel=1e-9)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(MIX), min_size=1, max_size=4), st.sampled_from(MIX))
def test_another_event_never_lowers_the_cost(events: list[Event], more: Event) -> None:
    before, after = Compose(tuple(events)), Compose((*events, more))
    for order in (1.5, 2.0, 8.0):
        assert rdp(before, order) <= rdp(after, order)
    assert gdp_mu(before) <= gdp_mu(after)
    assert zcdp_rho(before) <= zcdp_rho(after)
    assert pure_epsilon(before) <= pure_epsilon(after)
    # the composed distributions are on grids of their own: 1 part in 1000
    assert epsilon(before, 1e-6) <= epsilon(after, 1e-6) * 1.001


@settings(max_examples=25)
@given(st.lists(st.sampled_from(MIX), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_order_of_events_changes_nothing(events: list[Event], shuffler: object) -> None:
    mixed = list(events)
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = Compose(tuple(events)), Compose(tuple(mixed))
    assert [rdp(one, a) for a in (1.5, 8.0)] == [rdp(other, a) for a in (1.5, 8.0)]
    assert (gdp_mu(one), pure_epsilon(one)) == (gdp_mu(other), pure_epsilon(other))
    assert epsilon(one, 1e-6) == pytest.approx(epsilon(other, 1e-6), rel=1e-6)


@pytest.mark.parametrize("event", MIX, ids=lambda event: event.kind)
def test_delta_and_epsilon_agree(event: Event) -> None:
    at = epsilon(event, 1e-6)
    assert delta(event, at) <= 1e-6 * (1 + 1e-6)
    assert epsilon(event, 1e-7) >= at


@pytest.mark.parametrize(("z", "count"), [(1.0, 1), (30.0, 1000), (100.0, 10_000), (300.0, 10**5)])
def test_composed_distribution_never_under_reports_the_gaussian(z: float, count: int) -> None:
    """With a pure part so small that it only forces the numerical route."""
    event = Compose((Repeat(Gaussian(z), count), PureEpsilon(1e-6)))
    for small in (1e-4, 1e-8, 1e-10, 2e-11):
        exact = epsilon(Repeat(Gaussian(z), count), small)
        found = quote(event, small).notions["pld"]
        assert found is None or exact <= found <= exact * 1.01
        assert found is not None or small < 1e-8


def test_composed_distribution_is_not_trusted_where_round_off_matters() -> None:
    event = Repeat(WithoutReplacement(Gaussian(4.0), 1, 100), 100)
    assert quote(event, 1e-12).notions["pld"] is None
    assert quote(event, 1e-12).epsilon >= quote(event, 1e-8).epsilon


def test_nothing_is_composed_that_round_off_would_make_worthless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = Repeat(WithoutReplacement(Gaussian(1e5), 1, 2), 10**7)
    asked: list[float] = []
    monkeypatch.setattr(pld, "compose", lambda _, variance: asked.append(variance))
    assert 0 < epsilon(event, 1e-9) < math.inf
    assert not asked
    epsilon(event, 1e-6)
    assert asked


@pytest.mark.longer
@pytest.mark.parametrize("z", [0.05, 0.3, 3.0, 200.0])
def test_a_gaussian_on_the_grid_is_the_librarys(z: float) -> None:
    from dp_accounting.pld import privacy_loss_distribution as library

    interval = 2.0 ** math.floor(math.log2(1e-4 / z))
    ours = losses.repeated(pld._gaussian_distribution(z, 1.0, interval), 30, interval)
    theirs = library.from_gaussian_mechanism(z, value_discretization_interval=interval)
    theirs = theirs.self_compose(30)
    for small in (1e-3, 1e-6, 1e-8):
        found = ours.epsilon(small)
        exact = epsilon(Repeat(Gaussian(z), 30), small)
        assert exact <= found <= theirs.get_epsilon_for_delta(small) * (1 + 1e-5)
        assert found <= exact * (1 + 1e-5)


def test_far_losses_are_on_the_grid_too() -> None:
    """Where e^epsilon overflows: the loss has mean 800 and sd 40."""
    grid = pld._gaussian_distribution(1 / 40, 0.5, 0.25)
    for at in (700.0, 720.0, 900.0, 1100.0):
        exact = bounds.wor_delta(1 / 40, 0.5, at)
        assert exact * (1 - 1e-6) <= grid.delta(at) <= exact * 1.5 + 1e-20


def test_subsampling_keeps_the_relations_apart() -> None:
    """Same Delta, z = 1, q = 0.01, 10^4 steps, delta 1e-6: the reference's 6.91 and 8.94."""
    poisson = Repeat(PoissonSampled(Gaussian(1.0, ADD), 0.01), 10_000)
    fixed = Repeat(WithoutReplacement(Gaussian(1.0), 1, 100), 10_000)
    assert epsilon(poisson, 1e-6) == pytest.approx(6.91, abs=0.02)
    assert epsilon(fixed, 1e-6) == pytest.approx(8.94, abs=0.02)


def test_parallel_parts_cost_as_the_dearest() -> None:
    parts = (Repeat(Gaussian(10.0), 5), Laplace(2.0))
    both = Parallel(parts)
    assert epsilon(both, 1e-6) == max(epsilon(part, 1e-6) for part in parts)
    for at in (0.1, 0.4):
        assert delta(both, at) == max(delta(part, at) for part in parts)
    assert rdp(both, 4.0) == max(rdp(part, 4.0) for part in parts)
    assert gdp_mu(Compose((both, Gaussian(3.0)))) < gdp_mu(Compose((*parts, Gaussian(3.0))))


def test_quote_shows_the_three_routes_for_subsampled_steps() -> None:
    shown = quote(Repeat(PoissonSampled(Gaussian(4.0, ADD), 0.01), 1000), 1e-5)
    routes = [shown.notions[name] for name in ("advanced_blog", "rdp_unamplified", "moments")]
    assert all(route is not None and route >= shown.epsilon for route in routes)
    assert shown.notions["gdp"] is None
    assert shown.epsilon == min(value for value in shown.notions.values() if value is not None)


def test_quote_of_a_gaussian_job_orders_the_notions() -> None:
    shown = quote(Repeat(Gaussian(30.0), 100), 1e-6)
    names = ("pld", "zcdp", "zcdp_loose", "advanced", "advanced_blog")
    values = [shown.notions[name] for name in names]
    assert shown.epsilon == shown.notions["gdp"] == values[0]
    assert values == sorted(value for value in values if value is not None)
    assert shown.mu == pytest.approx(1 / 3)
    assert shown.rho == pytest.approx(1 / 18)
    assert shown.pure_epsilon is None


def test_smooth_laplace_has_a_failing_share_of_delta() -> None:
    event = Repeat(SmoothLaplace(0.1, 1e-8), 10)
    assert pure_epsilon(event) == math.inf
    assert epsilon(event, 5e-8) == math.inf
    assert epsilon(event, 1.001e-7) <= 1.0 + 1e-9
    assert epsilon(event, 1e-3) < 0.9


ADDED = Neighbouring.ADD_REMOVE
EXTREMES = [
    kind(at)
    for at in (1e-100, 1e-6, 1e6, 1e100)
    for kind in (
        Gaussian,
        Laplace,
        PureEpsilon,
        lambda z: WithoutReplacement(Gaussian(z), 1, 2),
        lambda z: WithoutReplacement(Gaussian(z), 10**18 - 1, 10**18),
        lambda z: WithoutReplacement(Laplace(z), 1, 10**18),
        lambda z: PoissonSampled(Gaussian(z, ADDED), 1e-100),
        lambda z: PoissonSampled(Gaussian(z, ADDED), 0.5),
        lambda z: Repeat(Gaussian(z), 10**18),
        lambda z: Repeat(PureEpsilon(z), 1000),
    )
]


@pytest.mark.parametrize("event", EXTREMES, ids=str)
def test_the_ends_of_the_vocabulary_have_a_price(event: Event) -> None:
    found = quote(event, 1e-6)
    assert found.epsilon >= 0
    assert all(value is None or value >= 0 for value in found.notions.values())
    assert 0 <= delta(event, 1.0) <= 1


@pytest.mark.parametrize("multiplier", [1e-4, 1e-3, 0.05, 0.3])
@pytest.mark.parametrize("rate", [1e-6, 0.5])
def test_poisson_divergence_at_little_noise_agrees_with_whole_orders(
    multiplier: float, rate: float
) -> None:
    """A grid as fine all the way as it must be at the turn would take all memory."""
    whole = subsampling.poisson_rdp_gaussian(multiplier, rate, 3)
    near = subsampling.poisson_rdp_gaussian(multiplier, rate, 3 + 1e-9)
    assert near == pytest.approx(whole, rel=1e-7)


@given(st.floats(1e-6, 1e6))
def test_the_epsilon_of_laplace_noise_is_never_rounded_down(multiplier: float) -> None:
    bound, failure = pure_bound(Laplace(multiplier))
    assert failure == 0
    assert bound is not None
    assert Fraction(1) <= bound * Fraction(multiplier) <= 1 + Fraction(1, 2**50)
