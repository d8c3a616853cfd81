"""The Gaussian path against 50 digits: sound, tight, monotone, and its own inverse."""

import math
import sys
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmcmc.privacy.accountant import (
    delta,
    epsilon,
    noise_multiplier_for,
    num_steps_for,
    num_trajectories_for,
)
from dpmcmc.privacy.events import Compose, Gaussian, Repeat
from dpmcmc.privacy.gaussian import delta_of_mu, epsilon_of_mu, mu_of_epsilon, root_down, root_up

epsilons = st.floats(-6, 3).map(lambda power: 10**power)
deltas = st.one_of(
    st.floats(-300, -1).map(lambda power: 10**power),
    st.floats(-15, -1).map(lambda power: 10**power),
    st.floats(0.01, 0.9999),
)
mus = st.floats(-6, 2).map(lambda power: 10**power)
counts = st.integers(1, 10**6)


def exact_delta(mu: float | mpmath.mpf, at: float | mpmath.mpf) -> mpmath.mpf:
    """delta of mu-GDP with 50 correct digits."""
    if float(at) / float(mu) - float(mu) / 2 > 45:
        return mpmath.mpf(0)  # below 1e-400
    with mpmath.workdps(80):
        mu, at = mpmath.mpf(mu), mpmath.mpf(at)

        def tail(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(x / mpmath.sqrt(2)) / 2

        return tail(at / mu - mu / 2) - mpmath.exp(at) * tail(at / mu + mu / 2)


@settings(max_examples=60)
@given(epsilons, deltas)
def test_budget_in_mu_is_never_too_large_and_loses_at_most_1e_13(at: float, small: float) -> None:
    mu = mu_of_epsilon(at, small)
    assert exact_delta(mu, at) <= small
    assert exact_delta(mpmath.mpf(mu) * (1 + mpmath.mpf("1e-13")), at) > small


@settings(max_examples=60)
@given(mus, deltas)
def test_epsilon_of_mu_is_never_too_small_and_hardly_too_large(mu: float, small: float) -> None:
    at = epsilon_of_mu(mu, small)
    assert exact_delta(mu, at) <= small
    below = at - 1e-12 * (at + mu)
    if below > 0:
        assert exact_delta(mu, below) > small


@settings(max_examples=60)
@given(mus, st.floats(0, 1000))
def test_delta_of_mu_is_never_too_small_and_hardly_too_large(mu: float, at: float) -> None:
    found, exact = delta_of_mu(mu, at), exact_delta(mu, at)
    assert found >= exact
    if exact > 1e-290:
        assert found <= exact * (1 + mpmath.mpf("1e-11"))


def close_below(low: float, high: float) -> bool:
    return low <= high * (1 + 1e-13) + 1e-300


@settings(max_examples=100)
@given(mus, mus, deltas, deltas)
def test_epsilon_of_mu_grows_with_mu_and_falls_with_delta(
    mu: float, other: float, small: float, large: float
) -> None:
    mu, other, small, large = *sorted((mu, other)), *sorted((small, large))
    assert close_below(epsilon_of_mu(mu, small), epsilon_of_mu(other, small))
    assert close_below(epsilon_of_mu(mu, large), epsilon_of_mu(mu, small))


@settings(max_examples=100)
@given(epsilons, epsilons, deltas, deltas)
def test_mu_of_epsilon_grows_with_both(low: float, high: float, small: float, large: float) -> None:
    low, high, small, large = *sorted((low, high)), *sorted((small, large))
    assert close_below(mu_of_epsilon(low, small), mu_of_epsilon(high, small))
    assert close_below(mu_of_epsilon(low, small), mu_of_epsilon(low, large))


@settings(max_examples=100)
@given(st.floats(0.01, 100), deltas)
def test_epsilon_and_mu_invert_each_other(at: float, small: float) -> None:
    mu = mu_of_epsilon(at, small)
    again = epsilon_of_mu(mu, small)
    assert again <= at + 1e-14 * (at + mu)
    # the double next to mu already moves epsilon by mu's own resolution
    assert again == pytest.approx(at, rel=1e-11, abs=1e-14 * mu / exact_slope(mu, at))


def exact_slope(mu: float, at: float) -> float:
    """How much mu moves per unit of epsilon at fixed delta."""
    b = at / mu + mu / 2
    a = at / mu - mu / 2
    with mpmath.workdps(40):
        return float(mpmath.exp(at) * mpmath.erfc(b / mpmath.sqrt(2)) / 2 / mpmath.npdf(a))


@settings(max_examples=100)
@given(epsilons, deltas, counts)
def test_steps_and_noise_multiplier_invert_each_other(at: float, small: float, count: int) -> None:
    multiplier = noise_multiplier_for(at, small, count)
    assert num_steps_for(at, small, multiplier) == count
    assert num_steps_for(at, small, math.nextafter(multiplier, 0) * (1 - 1e-15)) == count - 1
    quoted = epsilon(Repeat(Gaussian(multiplier), count), small)
    assert quoted <= at + 1e-15 * (at + math.sqrt(count) / multiplier)


@settings(max_examples=60)
@given(st.floats(0.01, 50), st.floats(1e-12, 0.5), st.floats(0.5, 300))
def test_number_of_steps_is_the_largest_that_fits(
    at: float, small: float, multiplier: float
) -> None:
    steps = num_steps_for(at, small, multiplier)
    with mpmath.workdps(50):
        one_more = mpmath.sqrt(steps + 1) / mpmath.mpf(multiplier)
        assert exact_delta(one_more, at) > small
        if steps:
            assert exact_delta(mpmath.sqrt(steps) / mpmath.mpf(multiplier), at) <= small


def test_hmc_charges_the_first_gradient() -> None:
    steps = num_trajectories_for(1.0, 1e-5, 31.6, 63.2, 20)
    event = lambda k: Compose(  # noqa: E731
        (Repeat(Gaussian(31.6), k), Repeat(Gaussian(63.2), k * 20 + 1))
    )
    assert epsilon(event(steps), 1e-5) <= 1.0 < epsilon(event(steps + 1), 1e-5)


@settings(max_examples=100)
@given(st.lists(st.floats(0.5, 100), min_size=1, max_size=6), st.floats(0.5, 100), deltas)
def test_another_release_never_lowers_epsilon(zs: list[float], more: float, small: float) -> None:
    event = Compose(tuple(Gaussian(z) for z in zs))
    assert close_below(epsilon(event, small), epsilon(Compose((event, Gaussian(more))), small))


@settings(max_examples=100)
@given(st.lists(st.floats(0.5, 100), min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_order_of_releases_changes_nothing(zs: list[float], shuffler: object) -> None:
    mixed = list(zs)
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = (Compose(tuple(Gaussian(z) for z in order)) for order in (zs, mixed))
    assert epsilon(one, 1e-6) == epsilon(other, 1e-6)
    assert delta(one, 1.0) == delta(other, 1.0)


def test_many_unequal_multipliers_stay_cheap_to_add() -> None:
    event = Compose(tuple(Gaussian(1000 + k / 7) for k in range(3000)))
    assert 0 < epsilon(event, 1e-6) < 1


@pytest.mark.parametrize("small", [0.0, -0.1, 1.0, 1.5, math.nan, math.inf, 1e-301])
def test_impossible_delta_is_refused(small: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        epsilon_of_mu(1.0, small)
    with pytest.raises(ValueError, match="delta"):
        mu_of_epsilon(1.0, small)


@pytest.mark.parametrize("at", [-1.0, math.nan, math.inf])
def test_impossible_epsilon_is_refused(at: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        mu_of_epsilon(at, 1e-6)
    with pytest.raises(ValueError, match="epsilon"):
        delta_of_mu(1.0, at)


@pytest.mark.parametrize("mu", [-1.0, math.nan])
def test_impossible_mu_is_refused(mu: float) -> None:
    with pytest.raises(ValueError, match="mu"):
        epsilon_of_mu(mu, 1e-6)
    with pytest.raises(ValueError, match="mu"):
        delta_of_mu(mu, 1.0)


def test_the_ends_of_the_domain() -> None:
    assert epsilon_of_mu(0.0, 1e-6) == 0.0
    assert epsilon_of_mu(math.inf, 1e-6) == math.inf
    assert delta_of_mu(0.0, 0.0) == 0.0
    assert delta_of_mu(math.inf, 1000.0) == 1.0
    assert delta_of_mu(1e90, 1.0) == 1.0
    assert delta_of_mu(1e-90, 1.0) < 1e-300
    assert 2.5e-6 < mu_of_epsilon(0.0, 1e-6) < 2.51e-6


def test_gaussian_path_imports_neither_statistics_nor_the_library() -> None:
    import subprocess

    script = (
        "import sys; from dpmcmc.privacy.quotes import *; from dpmcmc.privacy.events import *;"
        "quote(Repeat(Gaussian(30.0), 100), 1e-6);"
        "sys.exit(any(m in sys.modules for m in ('scipy.stats', 'dp_accounting', 'numba')))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_roots_are_rounded_as_their_names_say() -> None:
    """Costs are roots that are rounded up and budgets roots that are rounded down."""
    for square in (Fraction(k, 7) ** power for k in range(1, 200) for power in (1, 3)):
        low, high = root_down(square), root_up(square)
        assert Fraction(low) ** 2 <= square <= Fraction(high) ** 2
        assert high <= math.nextafter(low, math.inf)
