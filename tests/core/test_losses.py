"""Composition on grids: never below what is known exactly, close to it, and quick for any count."""

import math
import time

import mpmath
import numpy as np
import pytest

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy import composition, losses, pld
from dpmcmc.privacy.accountant import epsilon
from dpmcmc.privacy.costs import pair_of
from dpmcmc.privacy.events import (
    Compose,
    Event,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureEpsilon,
    Repeat,
    WithoutReplacement,
)
from dpmcmc.privacy.quotes import quote

FloatArray = np.ndarray
ADD = Neighbouring.ADD_REMOVE


def composed(event: Event, delta: float) -> float:
    found = quote(event, delta).notions["pld"]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("z", "count", "delta"),
    [
        (3.0, 10, 1e-6),
        (20.0, 5000, 1e-10),
        (50.0, 3000, 1e-9),
        (400.0, 100_000, 1e-8),
        (1000.0, 8_000_000, 1e-6),
        (5000.0, 9_999_999, 1e-7),
    ],
)
def test_samples_of_all_rows_cost_no_less_than_gaussian_releases(
    z: float, count: int, delta: float
) -> None:
    """A sample of all rows is a release of all: the numerical route beside the closed form."""
    exact = epsilon(Repeat(Gaussian(z), count), delta)
    found = composed(Repeat(WithoutReplacement(Gaussian(z), 1000, 1000), count), delta)
    assert exact <= found <= exact * 1.002


@pytest.mark.parametrize("count", [3, 100, 3000, 100_000])
def test_sampled_laplace_costs_no_less_than_the_randomised_response_that_it_is(count: int) -> None:
    event = WithoutReplacement(Laplace(0.5), 100, 10_000)
    pure, _ = pair_of(event)
    for delta in (1e-5, 1e-9):
        exact = composition.optimal_epsilon(pure, 0.0, count, delta)
        assert exact <= composed(Repeat(event, count), delta) <= exact * 1.002


@pytest.mark.longer
@pytest.mark.parametrize(
    ("z", "rate", "count", "interval"),
    [
        (0.5, 1e-4, 3000, 2e-4),
        (1.1, 0.01, 1000, 1e-4),
        (0.7, 0.2, 30, 1e-4),
        (2.0, 0.9, 50, 1e-4),
        (30.0, 0.3, 20_000, 2e-5),
        (0.8, 0.999, 4, 1e-3),
    ],
)
def test_poisson_samples_cost_what_the_library_finds(
    z: float, rate: float, count: int, interval: float
) -> None:
    from dp_accounting.pld import privacy_loss_distribution as library

    event = Repeat(PoissonSampled(Gaussian(z, ADD), rate), count)
    theirs = library.from_gaussian_mechanism(
        z, sampling_prob=rate, value_discretization_interval=interval
    ).self_compose(count)
    for delta in (0.1, 1e-4, 1e-8):
        expected = theirs.get_epsilon_for_delta(delta)
        assert composed(event, delta) == pytest.approx(expected, rel=2e-3, abs=1e-5)


def test_a_row_added_to_nearly_all_rows_is_not_read_too_low() -> None:
    """Where a sample leaves out next to nothing, e^epsilon times a round-off is no round-off."""
    z = 0.15
    for rate in (1 - 1e-6, 1 - 1e-10, 1 - 2.0**-53):
        _, added = pld._poisson_distribution(z, rate, 0.25)
        for at in (1.0, 8.0, 16.0, 22.0, 31.0, 36.0):
            with mpmath.workdps(60):
                g, q, mu = mpmath.exp(at), mpmath.mpf(rate), 1 / mpmath.mpf(z)
                part = 1 - (1 - 1 / g) / q
                exact = 0.0
                if part > 0:
                    a = -mpmath.log(part) / mu - mu / 2
                    exact = float(q * g * (part * mpmath.ncdf(-a) - mpmath.ncdf(-a - mu)))
            assert added.delta(at) >= exact - 1e-15


def log_moment(z: float, rate: float, t: FloatArray) -> FloatArray:
    """ln E e^(t loss) of a Gaussian release on a sample without replacement, by quadrature."""
    mu = 1 / z
    ends = np.linspace(mu / 2, mu / 2 + 22, 89)  # loss ln r(x) > 0; the other half mirrors it
    nodes, weights = np.polynomial.legendre.leggauss(16)
    x = (ends[:-1, None] + 0.125 * (nodes + 1)).ravel()
    mass = np.tile(0.125 * weights, 88) * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    loss = np.log1p(rate * np.expm1(mu * x - mu * mu / 2))
    up, down = mass * np.exp(loss), mass
    found = [np.expm1(one * loss) @ up + np.expm1(-one * loss) @ down for one in t]
    return np.log1p(np.array(found))


def contour_delta(parts: list[tuple[float, float, int]], epsilon: float) -> float:
    """delta of (z, rate, count) samples: E (1 - e^(epsilon - loss))_+ by contour integration.

    Its Laplace transform is e^(-t epsilon) / (t (t + 1)); the contour passes the saddle.
    """

    def logs(t: FloatArray) -> FloatArray:
        total = sum(count * log_moment(z, rate, t) for z, rate, count in parts)
        return total - t * epsilon - np.log(t * (t + 1))

    tried = np.geomspace(0.03, 27.0, 300)
    best = int(np.argmin(logs(tried).real))
    c = float(tried[best])
    bend = np.diff(logs(c * (1 + np.array([-1e-3, 0, 1e-3]))).real, 2)[0] / (1e-3 * c) ** 2
    at = np.linspace(0.0, math.asinh(9 / (c * math.sqrt(bend))), 401)
    values = np.exp(logs(c + 1j * c * np.sinh(at))).real * c * np.cosh(at)
    return float(np.sum(values[1:] + values[:-1]) * (at[1] - at[0]) / (2 * math.pi))


@pytest.mark.parametrize(
    "parts",
    [
        [(1.0, 0.01, 2000)],
        [(2.0, 1e-3, 300_000)],
        [(40.0, 0.25, 9000)],
        [(300.0, 0.3, 9_000_000)],
        [(20.0, 0.5, 300), (3.0, 0.01, 5000)],
    ],
)
def test_costs_are_no_less_than_contour_integrals_say(
    parts: list[tuple[float, float, int]],
) -> None:
    """A way that shares nothing with the grids: no grid, no transform, no bound."""
    rows = 10**6
    event = Compose(
        tuple(
            Repeat(WithoutReplacement(Gaussian(z), round(rate * rows), rows), count)
            for z, rate, count in parts
        )
    )
    for delta in (0.1, 1e-4, 1e-7):
        found = composed(event, delta)
        assert contour_delta(parts, found) <= delta * (1 + 1e-9)
        assert found == 0 or contour_delta(parts, found * 0.995) > delta


def test_masses_lose_and_gain_nothing() -> None:
    """Differences of profiles near 1 would gain one part in 10^8 for each run."""
    for z, rate in ((0.75, 0.005), (1.0, 1e-5), (400.0, 0.1), (1e4, 1.0)):
        leaf = WithoutReplacement(Gaussian(z), round(rate * 10**6), 10**6)
        one, _ = pld._distribution(leaf, pld._interval(leaf, 1e-3, pld.MOST_CELLS))
        assert math.fsum([*one.masses, one.infinite]) == pytest.approx(1.0, abs=1e-14)
        assert math.fsum(one.masses * np.exp(-one.losses)) == pytest.approx(1.0, abs=1e-14)


def test_an_epsilon_below_all_losses_is_found() -> None:
    event = Repeat(WithoutReplacement(Gaussian(1.0), 10, 10), 600)
    for delta in (0.9999, 1 - 1e-9, 1 - 1e-13):
        exact = epsilon(Repeat(Gaussian(1.0), 600), delta)
        assert exact <= composed(event, delta) <= exact * 1.1
    far = losses.Losses(0.5, 10, np.array([0.5, 0.5]), 0.0)
    assert far.delta(far.epsilon(0.99)) == pytest.approx(0.99)


def test_a_wider_grid_is_nowhere_better() -> None:
    fine = pld._gaussian_distribution(2.0, 0.3, 2.0**-12)
    wide = losses.coarsened(fine, 2.0**-4)
    assert wide.interval == 2.0**-4
    kept = fine.masses @ np.exp(-fine.losses), fine.masses.sum()
    assert wide.masses @ np.exp(-wide.losses) == pytest.approx(kept[0], rel=1e-12)
    assert wide.masses.sum() == pytest.approx(kept[1], rel=1e-12)
    for at in np.linspace(0.0, 2.0, 41).tolist():
        assert fine.delta(at) <= wide.delta(at) * (1 + 1e-12)


def test_trimming_is_nowhere_better() -> None:
    whole = pld._gaussian_distribution(1.0, 0.3, 2.0**-8)
    less = losses.trimmed(whole)
    assert len(less.masses) < len(whole.masses)
    assert all(whole.delta(at) <= less.delta(at) * (1 + 1e-12) for at in (0.0, 1.0, 3.0, 6.0))


def test_an_epsilon_is_the_inverse_of_its_delta() -> None:
    one = losses.repeated(pld._gaussian_distribution(5.0, 0.2, 2.0**-10), 700, 2.0**-10)
    for delta in (0.3, 1e-3, 1e-9):
        found = one.epsilon(delta)
        assert one.delta(found) == pytest.approx(delta, rel=1e-6)
    assert one.epsilon(0.999) == 0.0
    assert losses.Losses(0.5, 0, np.array([0.5, 0.4]), 0.1).epsilon(0.05) == math.inf


@pytest.mark.parametrize(
    "event",
    [
        Repeat(WithoutReplacement(Gaussian(1000.0), 2000, 20_000), 8_000_000),
        Repeat(WithoutReplacement(Gaussian(1.0), 10, 1_000_000), 8_000_000),
        Repeat(Repeat(Repeat(WithoutReplacement(Gaussian(300.0), 20, 2000), 200), 200), 200),
        Repeat(PoissonSampled(Gaussian(0.5, ADD), 1e-5), 9_000_000),
        Repeat(PureEpsilon(1e-5), 9_999_999),
        Compose(
            tuple(
                Repeat(WithoutReplacement(Gaussian(0.6 + i / 9), 10, 10**6), 10**5)
                for i in range(8)
            )
        ),
    ],
    ids=["many", "rare", "nested", "poisson", "pure", "several"],
)
def test_time_is_bounded_for_any_count(event: Event) -> None:
    """A quote of the first one took 23 seconds where one transform held all its sums."""
    composed(Repeat(WithoutReplacement(Gaussian(3.0), 1, 2), 2), 1e-5)
    began = time.process_time()
    assert 0 < quote(event, 1e-7).epsilon < math.inf
    assert time.process_time() - began < 4.0
