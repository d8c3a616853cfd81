"""Sums of squares of a regression: what one row moves, what is charged, and nothing beyond."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dpmcmc.mechanisms import sums
from dpmcmc.mechanisms.sums import matrix_of, svec
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Gaussian, Parallel
from dpmcmc.releases.regression.statistics import (
    event,
    release,
    release_all,
    sensitivity,
)
from tests.sources import Seeded

WEIGHTS = (0.01, 0.5, 1.0, 1.3, math.sqrt(2.0), 1.5, 1.7, 2.5, 30.0)


def flat_of(monkeypatch, x, y, **options):
    """The vector that noise is added to, and the sensitivity it is charged at."""
    seen = {}

    def spy(total, charged, z, noise):
        seen["flat"], seen["charged"] = np.array(total), charged
        return total

    monkeypatch.setattr(sums, "noisy_sums", spy)
    release(x, y, (2.0, 3.0), 1.0, Seeded(0), **options)
    return seen["flat"], seen["charged"]


def moved(point, weight, squares):
    """Minus the distance between neighbours: radius, angle and response of each row."""
    a, b, angle, p, q = point
    first, second = a * np.array([1.0, 0.0]), b * np.array([math.cos(angle), math.sin(angle)])
    parts = [
        svec(np.outer(first, first) - np.outer(second, second)),
        weight * (first * p - second * q),
        [weight**2 * (p**2 - q**2)] if squares else [],
    ]
    return -float(np.linalg.norm(np.concatenate(parts)))


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_sensitivity_is_what_a_search_over_neighbours_finds(weight, squares):
    rng, box = np.random.default_rng(1), [(0, 1), (0, 1), (0, math.pi), (-1, 1), (-1, 1)]
    starts = [[rng.uniform(*ends) for ends in box] for _ in range(30)]
    starts += [[1, 1, angle, 1, -q] for angle in np.linspace(0, math.pi, 9) for q in (0.0, 1.0)]
    found = -min(minimize(moved, s, (weight, squares), bounds=box).fun for s in starts)
    assert found == pytest.approx(sensitivity(weight, squares=squares), rel=1e-6)


def test_adding_a_row_is_what_the_source_charges_and_replacing_one_costs_more():
    for weight in WEIGHTS:
        ratio = sensitivity(weight, squares=False) / math.sqrt(1.0 + weight**2)
        assert math.sqrt(2.0) <= ratio <= 2.0


@pytest.mark.parametrize("options", [{}, {"squares": True, "weight": 1.7}, {"weight": 0.3}])
@pytest.mark.parametrize("stretch", [0.1, 1.0, 1e3, 1e160])
def test_no_neighbour_is_further_away_than_is_paid_for(monkeypatch, stretch, options):
    rng = np.random.default_rng(2)
    for _ in range(40):
        d, n = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        x, y = rng.normal(size=(d, n)) * stretch, rng.normal(size=n) * stretch
        other_x, other_y = x.copy(), y.copy()
        other_x[:, 0] = rng.normal(size=d) * stretch * 10.0 ** rng.uniform(-3, 3)
        other_y[0] = rng.normal() * stretch
        if rng.random() < 0.3:
            other_x[0, 0], other_y[0] = rng.choice([np.nan, np.inf, 1.0], size=2)
        first, charged = flat_of(monkeypatch, x, y, **options)
        second, _ = flat_of(monkeypatch, other_x, other_y, **options)
        assert np.isfinite(first).all()
        assert np.linalg.norm(first - second) <= charged


def test_the_worst_neighbours_are_as_far_apart_as_is_paid_for(monkeypatch):
    """At weight 1 the best cosine is 1/2."""
    first, charged = flat_of(monkeypatch, np.array([[1e9], [0.0]]), np.array([1e9]))
    turned = 1e9 * np.array([[0.5], [math.sqrt(0.75)]])
    second, _ = flat_of(monkeypatch, turned, np.array([-1e9]))
    assert 0.999999 * charged < np.linalg.norm(first - second) <= charged


@pytest.mark.parametrize(
    ("d", "n", "weight"), [(1, 1, 1.0), (3, 50, 0.2), (7, 2000, 30.0), (2, 60_000, 1.0)]
)
def test_the_sensitivity_allows_for_rounding(monkeypatch, d, n, weight):
    """By as much as section 2 of the proof needs, whatever the rows are."""
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(d, n)), rng.normal(size=n)
    _, charged = flat_of(monkeypatch, x, y, weight=weight, squares=True)
    one = sensitivity(weight, squares=True)
    formula, products = 2.0**-40, n * (d + 2.0) * max(1.0, weight**2) * 2.0**-49
    assert charged == pytest.approx(one * (1.0 + formula) + products, rel=1e-15)
    assert one < one * (1.0 + formula) < charged


@pytest.mark.parametrize("k", [2, 5, 50])
def test_groups_move_more_than_single_rows_and_no_more_than_is_paid_for(monkeypatch, k):
    """thesis B, 5.2.4.1, says no more than single rows: sqrt(2) without a response."""
    x, y = np.tile([[2.0], [0.0]], (1, k)), np.zeros(k)
    other = x.copy()
    other[0, 0] = -2.0
    first, charged = flat_of(monkeypatch, x, y, group=k, weight=1e-3)
    second, _ = flat_of(monkeypatch, other, y, group=k, weight=1e-3)
    apart = np.linalg.norm(first - second)
    assert apart == pytest.approx(4.0 * (k - 1.0) / k, rel=1e-5)  # the grid
    assert sensitivity(1e-3, squares=False) < apart <= charged


def test_no_neighbour_of_groups_is_further_away_than_is_paid_for(monkeypatch):
    rng = np.random.default_rng(3)
    for _ in range(100):
        k = int(rng.integers(2, 6))
        x, y = np.tile(rng.normal(size=(2, 1)) * 9.0, (1, k)), np.full(k, rng.normal() * 9.0)
        other, its = x.copy(), y.copy()
        other[:, 0], its[0] = -x[:, 0] + rng.normal(size=2), -y[0] * rng.choice([-1.0, 1.0])
        first, charged = flat_of(monkeypatch, x, y, group=k)
        assert np.linalg.norm(first - flat_of(monkeypatch, other, its, group=k)[0]) <= charged


def test_sums_are_exact_in_any_order(monkeypatch):
    rng = np.random.default_rng(4)
    x, y, order = rng.normal(size=(4, 1000)), rng.normal(size=1000), rng.permutation(1000)
    whole, _ = flat_of(monkeypatch, x, y, squares=True)
    turned, _ = flat_of(monkeypatch, x[:, order], y[order], squares=True)
    assert (whole == turned).all()


@pytest.mark.parametrize("k", [8, 50, 500])
def test_sums_of_groups_are_exact_in_any_order(monkeypatch, k):
    """A sum of k rows squared is k^2 as large: so many fewer digits are left for a row."""
    rng = np.random.default_rng(4)
    groups = rng.uniform(1.0, 2.0, (3, 4000 // k, k))
    first = groups.reshape(3, -1)
    whole, _ = flat_of(monkeypatch, first[:2], first[2], group=k)
    for _ in range(5):
        second = groups[:, rng.permutation(4000 // k)][..., rng.permutation(k)].reshape(3, -1)
        turned, _ = flat_of(monkeypatch, second[:2], second[2], group=k)
        assert (whole == turned).all()


def test_what_is_released_is_the_sums_of_the_rows_in_their_units():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-1, 1, (3, 600)), rng.uniform(-3, 3, 600)
    told = release(x, y, (2.0, 3.0), 2.0**-20, Seeded(1), weight=1.7, squares=True)
    assert told.gram[0] == pytest.approx(x @ x.T, rel=1e-4, abs=1e-3)
    assert told.moments[0] == pytest.approx(x @ y, rel=1e-4, abs=1e-3)
    assert told.squares[0] == pytest.approx(y @ y, rel=1e-4)
    parts = release(x, y, (2.0, 3.0), 2.0**-20, Seeded(1), group=3)
    sums = x.reshape(3, 200, 3).sum(axis=2) / math.sqrt(3.0)
    assert parts.gram[0] == pytest.approx(sums @ sums.T, rel=1e-4, abs=1e-3)


def test_matrices_of_flat_ones_are_the_same():
    matrix = np.random.default_rng(6).normal(size=(2, 4, 4))
    matrix = matrix + np.swapaxes(matrix, -1, -2)
    assert matrix_of(svec(matrix), 4) == pytest.approx(matrix)
    assert np.linalg.norm(svec(matrix)) == pytest.approx(np.linalg.norm(matrix))


def test_neighbours_are_mu_apart_and_no_more():
    """5 % is five standard errors: noise that is a tenth too small would fail."""
    mu, runs, random, ends = 4.0, 3000, Seeded(7), []
    for x, y in (([1.0, 0.0], 1.0), ([0.5, math.sqrt(0.75)], -1.0)):
        rows = 1e6 * np.array(x)[:, None], 1e6 * np.array([y])
        told = [release(*rows, (1.0, 1.0), 1.0 / mu, random) for _ in range(runs)]
        ends.append([np.concatenate([svec(one.gram[0]), one.moments[0]]) for one in told])
    shift = np.linalg.norm(np.mean(ends[1], axis=0) - np.mean(ends[0], axis=0))
    apart = shift / math.sqrt(np.mean(np.var(ends, axis=1)))
    assert 0.95 * mu < apart < 1.05 * mu


def test_the_noise_has_the_sds_that_are_told():
    """4 % is five standard errors of 8,000 runs."""
    random, rows = Seeded(8), (np.zeros((2, 3)), np.zeros(3))
    told = [release(*rows, (2.0, 5.0), 1.5, random, weight=1.6, squares=True) for _ in range(8000)]
    gram = np.std([one.gram[0] for one in told], axis=0)
    cross = told[0].cross
    assert gram / told[0].sds[0] == pytest.approx(np.array([[1, cross], [cross, 1]]), rel=0.04)
    assert np.std([one.moments for one in told]) == pytest.approx(told[0].sds[1], rel=0.04)
    assert np.std([one.squares for one in told]) == pytest.approx(told[0].sds[2], rel=0.04)


@pytest.mark.parametrize("holders", [1, 5, 10])
def test_holders_cost_together_what_one_costs_exactly(holders):
    told = event(3.0, holders)
    assert isinstance(told, Gaussian if holders == 1 else Parallel)
    assert accountant.epsilon(told, 1e-6) == accountant.epsilon(Gaussian(3.0), 1e-6)


def test_holders_have_noise_of_their_own_and_add_up():
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(2, 90)) / 9, rng.normal(size=90) / 9
    parts = [(x[:, :40], y[:40]), (x[:, 40:], y[40:])]
    told = release_all(parts, (1.0, 1.0), 0.1, Seeded(10), squares=True)
    assert told.gram.shape == (2, 2, 2)
    assert told.rows.tolist() == [40.0, 50.0]
    noise = told.gram - np.array([a @ a.T for a, _ in parts])
    assert len(np.unique(noise.round(12))) == 6
    whole = told.total
    assert whole.gram[0] == pytest.approx(told.gram.sum(axis=0))
    assert whole.sds[1] == pytest.approx(told.sds[1] * math.sqrt(2.0))
    assert whole.squares == pytest.approx([told.squares.sum()])


@pytest.mark.parametrize(
    ("bounds", "z", "options"),
    [
        ((0.0, 1.0), 1.0, {}),
        ((1.0, math.inf), 1.0, {}),
        ((1e-200, 1.0), 1.0, {}),
        ((1.0, 1.0), 0.0, {}),
        ((1.0, 1.0), 2.0**31, {}),
        ((1.0, 1.0), 1.0, {"weight": 0.0}),
        ((1.0, 1.0), 1.0, {"weight": 1e7}),
        ((1.0, 1.0), 1.0, {"group": 4}),
        ((1.0, 1.0), 1.0, {"group": 0}),
        ((1.0, 1.0), 1.0, {"group": 2, "squares": True}),
    ],
)
def test_what_the_proof_does_not_cover_is_refused(bounds, z, options):
    message = r"bounds|no proof covers|weight|groups|rows"
    with pytest.raises(ValueError, match=message):
        release(np.zeros((2, 6)), np.zeros(6), bounds, z, Seeded(0), **options)
    with pytest.raises(ValueError, match="too many"):
        release(np.zeros((251, 6)), np.zeros(6), (1.0, 1.0), 1.0, Seeded(0))
