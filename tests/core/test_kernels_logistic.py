import math
import os
import subprocess
import sys

import numpy as np
import pytest

from dpmcmc.kernels import logistic as kernels

ROWS, CHAINS, DIMENSION = 600, 3, 4


@pytest.fixture
def setting():
    rng = np.random.default_rng(3)
    sx = rng.uniform(-1, 1, (DIMENSION, ROWS))
    theta = rng.normal(size=(CHAINS, DIMENSION))
    odds = np.empty((CHAINS, ROWS))
    kernels.refresh(sx, theta, odds)
    return sx, theta, odds


def log_likelihood(sx, theta):
    return -np.logaddexp(0.0, -(theta @ sx))


def test_refresh_gives_the_odds_of_every_row(setting):
    sx, theta, odds = setting
    assert odds == pytest.approx(np.exp(-(theta @ sx)), rel=1e-13)


def test_exp_is_exact_to_two_ulp():
    values = np.concatenate((np.linspace(-460, 460, 999), np.linspace(-1e-3, 1e-3, 101)))
    result = values.copy()
    kernels.exp_inplace(result, np.empty(len(values), np.int64), len(values))
    assert result == pytest.approx(np.exp(values), rel=5e-16)


@pytest.mark.parametrize("scale", [1e-7, 0.05, 3.0, 60.0])
def test_component_sums_are_those_of_the_formula(setting, scale):
    sx, theta, odds = setting
    deltas = scale * np.array([0.4, -1.0, 0.7])
    limits = np.abs(deltas)
    sums = kernels.component_ratios(sx, odds, 1, deltas, -limits, limits)
    moved = theta.copy()
    moved[:, 1] += deltas
    expected = (log_likelihood(sx, moved) - log_likelihood(sx, theta)).sum(axis=1)
    assert sums == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-7, 0.05, 3.0, 60.0])
def test_vector_sums_are_those_of_the_formula(setting, scale):
    sx, theta, odds = setting
    deltas = scale * np.random.default_rng(5).normal(size=(CHAINS, DIMENSION))
    limits = np.abs(deltas).sum(axis=1)
    sums = kernels.vector_ratios(sx, odds, deltas, -limits, limits)
    expected = (log_likelihood(sx, theta + deltas) - log_likelihood(sx, theta)).sum(axis=1)
    assert sums == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("bound", [0.02, 30.0])
def test_every_row_is_clipped(setting, bound):
    sx, theta, odds = setting
    deltas = np.array([bound * 4, -bound * 3, bound])
    limits = np.full(CHAINS, bound)
    moved = theta.copy()
    moved[:, 2] += deltas
    ratios = log_likelihood(sx, moved) - log_likelihood(sx, theta)
    expected = np.clip(ratios, -bound, bound).sum(axis=1)
    assert kernels.component_ratios(sx, odds, 2, deltas, -limits, limits) == pytest.approx(expected)
    one_sided = np.clip(ratios, -bound, bound / 2).sum(axis=1)
    sums = kernels.component_ratios(sx, odds, 2, deltas, -limits, limits / 2)
    assert sums == pytest.approx(one_sided)


def test_sums_do_not_depend_on_the_order_of_tiles(setting):
    """Exact sums: whole tiles may be added in any order, by any number of threads."""
    sx, _, odds = setting
    sx, odds = np.tile(sx, 5)[:, : 4 * kernels.TILE], np.tile(odds, 5)[:, : 4 * kernels.TILE]
    deltas = np.array([0.03, -0.02, 0.3])
    limits = np.abs(deltas)
    order = np.concatenate([np.arange(kernels.TILE) + kernels.TILE * k for k in (2, 0, 3, 1)])
    there = kernels.component_ratios(sx, odds, 1, deltas, -limits, limits)
    again = kernels.component_ratios(sx[:, order], odds[:, order], 1, deltas, -limits, limits)
    assert there.tolist() == again.tolist()


def test_sums_lie_on_their_grid(setting):
    sx, _, odds = setting
    deltas = np.array([0.03, -0.02, 0.3])
    limits = np.abs(deltas)
    sums = kernels.component_ratios(sx, odds, 1, deltas, -limits, limits)
    steps = sums / kernels.grids(-limits, limits, ROWS)
    assert (steps == np.round(steps)).all()
    assert (np.abs(steps) < 2**52).all()


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 511, 512, 513])
def test_any_number_of_rows(setting, rows):
    sx, theta, odds = setting
    deltas = np.array([0.3, -0.2, 0.1])
    moved = theta.copy()
    moved[:, 0] += deltas
    part = np.ascontiguousarray(sx[:, :rows])
    expected = (log_likelihood(part, moved) - log_likelihood(part, theta)).sum(axis=1)
    few = np.ascontiguousarray(odds[:, :rows])
    sums = kernels.component_ratios(part, few, 0, deltas, -np.abs(deltas), np.abs(deltas))
    assert sums == pytest.approx(expected, rel=1e-9)


def test_a_chain_alone_gives_the_bits_that_it_gives_among_others(setting):
    sx, _, odds = setting
    deltas = np.array([0.3, -0.2, 0.1])
    limits = np.abs(deltas)
    together = kernels.component_ratios(sx, odds, 0, deltas, -limits, limits)
    for c in range(CHAINS):
        one = slice(c, c + 1)
        alone = kernels.component_ratios(sx, odds[one], 0, deltas[one], -limits[one], limits[one])
        assert alone[0] == together[c]


def test_commits_move_the_accepted_chains_only(setting):
    sx, theta, odds = setting
    deltas, accepted = np.array([0.5, -0.4, 2.0]), np.array([True, False, True])
    before = odds.copy()
    kernels.component_commit(sx, odds, 1, deltas, accepted)
    moved = theta.copy()
    moved[accepted, 1] += deltas[accepted]
    assert odds == pytest.approx(np.exp(-(moved @ sx)), rel=1e-12)
    assert (odds[1] == before[1]).all()
    steps = np.random.default_rng(5).normal(size=(CHAINS, DIMENSION))
    kernels.vector_commit(sx, odds, steps, accepted)
    moved[accepted] += steps[accepted]
    assert odds == pytest.approx(np.exp(-(moved @ sx)), rel=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e300])
def test_absurd_positions_and_moves_stay_finite(setting, size):
    sx, theta, odds = setting
    kernels.refresh(sx, size * theta, odds)
    assert np.isfinite(odds).all()
    for limit in (1e3, 1e300):
        limits = np.full(CHAINS, limit)
        deltas = size * np.array([1.0, -1.0, 0.5])
        assert np.isfinite(kernels.component_ratios(sx, odds, 1, deltas, -limits, limits)).all()
        kernels.component_commit(sx, odds, 1, deltas, np.ones(CHAINS, bool))
        assert np.isfinite(odds).all()


def test_one_row_moves_a_sum_by_no_more_than_the_sensitivity(setting):
    """Replace-one on a small table, each row in turn, by extreme rows; and nearly attained."""
    sx, theta, _ = setting
    sx = np.ascontiguousarray(sx[:, :20])
    sx[0] = 1.0
    theta = theta[:1] * 0.3
    lower, upper = np.array([1.0, -1, -1, -1]), np.ones(DIMENSION)
    group, delta = np.arange(DIMENSION), np.array([0.2])
    lo, hi = kernels.component_intervals(theta, 1, delta, lower, upper, group, math.inf)
    allowed = hi - lo + 2 * kernels.grids(lo, hi, 20) + 2.0**-40

    def total(design):
        odds = np.empty((1, 20))
        kernels.refresh(design, theta, odds)
        return kernels.component_ratios(design, odds, 1, delta, lo, hi)[0]

    corners = np.array(np.meshgrid(1, [-1, 1], [-1, 1], [-1, 1])).reshape(DIMENSION, -1)
    sums = []
    for corner in np.concatenate((corners, -corners), axis=1).T:
        other = sx.copy()
        other[:, 7] = corner
        sums.append(total(other))
    assert np.ptp(sums) <= allowed
    assert np.ptp(sums) >= 0.99 * allowed


SCRIPT = """
import sys; sys.path.insert(0, {here!r})
import numpy as np
from numba import config
from dpmcmc.kernels import logistic as k
assert bool(config.DISABLE_JIT) == {disabled}
rng = np.random.default_rng(0)
sx, theta = rng.uniform(-1, 1, (3, 40)), rng.normal(size=(2, 3))
odds = np.empty((2, 40)); k.refresh(sx, theta, odds)
deltas = np.array([0.3, -0.2])
lower, group = -np.ones(3), np.arange(3)
lo, hi = k.component_intervals(theta, 1, deltas, lower, -lower, group, np.inf)
moves = rng.normal(size=(2, 3))
vlo, vhi = k.vector_intervals(theta, moves, lower, -lower, group, np.inf)
out = [lo, hi, vlo, vhi, k.component_ratios(sx, odds, 1, deltas, lo, hi),
       k.vector_ratios(sx, odds, moves, vlo, vhi),
       k.component_ratios(sx, odds, 1, 99 * deltas, lo, hi)]
k.component_commit(sx, odds, 1, deltas, np.array([True, False]))
k.vector_commit(sx, odds, moves, np.array([True, True]))
print(*[repr(float(v)) for v in np.concatenate([*out, odds.ravel()])])
"""


def test_compiled_and_plain_kernels_agree(repository):
    def values(disabled):
        script = SCRIPT.format(here=str(repository), disabled=disabled)
        environment = {**os.environ, "NUMBA_DISABLE_JIT": str(int(disabled))}
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return np.array([float(v) for v in done.stdout.split()])

    assert values(True) == pytest.approx(values(False), rel=1e-10, abs=1e-12)
