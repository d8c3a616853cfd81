"""No row within the public bounds can leave the public interval, and the interval is tight."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmcmc.kernels.arithmetic.intervals.logistic import component_interval, vector_interval

COEFFICIENT = st.floats(-8, 8)
DELTA = st.one_of(st.floats(-3, 3), st.sampled_from([1e-6, -1e-6, 40.0, -40.0, 0.0]))


def ratio(x, theta, moved):
    """(row, 2) log likelihood ratios for both responses."""
    before, after = x @ theta, x @ moved
    yes = np.logaddexp(0, -before) - np.logaddexp(0, -after)
    no = np.logaddexp(0, before) - np.logaddexp(0, after)
    return np.stack((yes, no), axis=1)


@st.composite
def designs(draw):
    """Bounds and groups: an intercept, numbers, and groups of exclusive columns."""
    lower, upper, group = [1.0], [1.0], [0]
    for number in range(1, draw(st.integers(1, 4))):
        columns = draw(st.integers(1, 3))
        low = draw(st.sampled_from([-1.0, 0.0]))
        lower += [low] * columns
        upper += [1.0] * columns
        group += [number] * columns
    return np.array(lower), np.array(upper), np.array(group)


def rows_of(lower, upper, group, levels=(0.0, 0.37, 1.0)):
    """Corners and some inner points of the domain, one non-zero column a group."""
    parts = []
    for number in np.unique(group):
        columns = np.flatnonzero(group == number)
        choices = [] if len(columns) == 1 else [np.zeros(len(group))]
        for k, level in itertools.product(columns, levels):
            row = np.zeros(len(group))
            row[k] = lower[k] + level * (upper[k] - lower[k])
            choices.append(row)
        parts.append(np.unique(choices, axis=0))
    return np.array([np.sum(rows, axis=0) for rows in itertools.product(*parts)])


@given(designs(), st.data())
@settings(max_examples=150)
def test_no_row_leaves_the_interval_of_a_component_move(design, data):
    lower, upper, group = design
    d = len(group)
    theta = np.array(data.draw(st.lists(COEFFICIENT, min_size=d, max_size=d)))
    j, delta = data.draw(st.integers(0, d - 1)), data.draw(DELTA)
    lo, hi = component_interval(theta, j, delta, lower, upper, group)
    moved = theta.copy()
    moved[j] += delta
    ratios = ratio(rows_of(*design), theta, moved)
    error = 1e-12 * (1 + np.abs(theta).sum() + abs(delta))
    assert lo - error <= ratios.min()
    assert ratios.max() <= hi + error


@given(designs(), st.data())
@settings(max_examples=150)
def test_no_row_leaves_the_interval_of_a_vector_move(design, data):
    lower, upper, group = design
    d = len(group)
    theta = np.array(data.draw(st.lists(COEFFICIENT, min_size=d, max_size=d)))
    delta = np.array(data.draw(st.lists(DELTA, min_size=d, max_size=d)))
    lo, hi = vector_interval(theta, delta, lower, upper, group)
    ratios = ratio(rows_of(*design), theta, theta + delta)
    error = 1e-12 * (1 + np.abs(theta).sum() + np.abs(delta).sum())
    assert lo - error <= ratios.min()
    assert ratios.max() <= hi + error


@given(designs(), st.data())
@settings(max_examples=100)
def test_the_move_back_has_the_mirrored_interval(design, data):
    """The noise of a move and of the move back is the same, which the penalty step needs."""
    lower, upper, group = design
    d = len(group)
    theta = np.array(data.draw(st.lists(COEFFICIENT, min_size=d, max_size=d)))
    delta = np.array(data.draw(st.lists(DELTA, min_size=d, max_size=d)))
    there = vector_interval(theta, delta, lower, upper, group)
    back = vector_interval(theta + delta, -delta, lower, upper, group)
    assert back == pytest.approx((-there[1], -there[0]), rel=1e-6, abs=1e-9)
    moved = theta.copy()
    moved[0] += delta[0]
    there = component_interval(theta, 0, delta[0], lower, upper, group)
    back = component_interval(moved, 0, -delta[0], lower, upper, group)
    assert back == pytest.approx((-there[1], -there[0]), rel=1e-6, abs=1e-9)


@given(designs(), st.data())
@settings(max_examples=100)
def test_the_interval_of_a_component_move_is_attained(design, data):
    """Where coefficients are moderate some row within the bounds comes within 1 % of each end."""
    lower, upper, group = design
    d = len(group)
    theta = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=d, max_size=d)))
    j = data.draw(st.integers(0, d - 1))
    delta = data.draw(st.sampled_from([0.3, -0.3, 0.01, -0.01]))
    lo, hi = component_interval(theta, j, delta, lower, upper, group)
    moved = theta.copy()
    moved[j] += delta
    grid = tuple(np.linspace(0, 1, 11))
    ratios = ratio(rows_of(*design, levels=grid if d < 4 else (0.0, 1.0)), theta, moved)
    slack = 0.01 if d < 4 else 0.06
    assert ratios.max() >= (1 - slack) * hi
    assert ratios.min() <= (1 - slack) * lo


def test_near_zero_the_interval_is_half_of_the_lipschitz_one():
    lower, upper, group = np.array([-1.0]), np.array([1.0]), np.array([0])
    lo, hi = component_interval(np.zeros(1), 0, 1e-4, lower, upper, group)
    assert hi - lo == pytest.approx(1e-4, rel=1e-3)
