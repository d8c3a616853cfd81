"""The one place of `noisy_quadratic` that draws noise: exact sums of whatever it is given."""

import itertools
import math

import numpy as np
import pytest

from dpmcmc.mechanisms import joint_sums, sums
from dpmcmc.mechanisms.joint_sums import Block, Caps, release
from tests.audit.report import most_of_one_vector

CAPS = Caps(3.0, 2.0, 1.5, 4.0, (0.6, 0.2, 0.1, 0.1))


class Fixed:
    """Words that make noise, from a seed."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def integers(self, high, shape):
        return self.rng.integers(high, size=shape)


def block(vectors, curvature, noise, square):
    return Block(vectors, (curvature,), (noise,), square)


def rows(rng, p, m, stretch):
    """Rows of any length, some of them no numbers."""
    made = [rng.normal(size=(p, m)) * stretch for _ in range(3)]
    square = rng.exponential(size=m) * stretch
    return [*made, square]


def flat_of(monkeypatch, parts, caps=CAPS):
    """The vector that noise is added to, and the sensitivity it is charged at."""
    seen = {}

    def spy(total, sensitivity, z, noise):
        seen["flat"], seen["sensitivity"] = np.array(total), sensitivity
        return total

    monkeypatch.setattr(sums, "noisy_sums", spy)
    p, n = parts[0].shape
    release([block(*parts)], p, n, caps, 1.0, Fixed())
    return seen["flat"], seen["sensitivity"]


@pytest.mark.parametrize("stretch", [0.1, 1.0, 1e3, 1e160])
def test_no_neighbour_is_further_away_than_is_paid_for(monkeypatch, stretch):
    rng = np.random.default_rng(1)
    for _ in range(60):
        p, n = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        here = rows(rng, p, n, stretch)
        there = [part.copy() for part in here]
        for part, other in zip(
            there, rows(rng, p, 1, stretch * 10.0 ** rng.uniform(-3, 3)), strict=True
        ):
            part[..., 0] = other[..., 0]
        if rng.random() < 0.3:
            there[int(rng.integers(4))][..., 0] = rng.choice([np.nan, np.inf, -np.inf])
        first, charged = flat_of(monkeypatch, here)
        second, _ = flat_of(monkeypatch, there)
        assert np.isfinite(first).all()
        assert np.linalg.norm(first - second) <= charged


def test_the_worst_neighbours_are_as_far_apart_as_is_paid_for(monkeypatch):
    """Opposite vectors, orthogonal matrices, a scalar at either end."""
    p = 2
    end = np.array([[1e9], [0.0]]), np.array([[0.0], [1e9]])
    caps = Caps(3.0, 2.0, 1.5, 4.0, (0.6, 0.3, 0.1, 0.0))
    first, charged = flat_of(monkeypatch, [end[0], end[0], end[0], np.zeros(1)], caps)
    second, _ = flat_of(monkeypatch, [-end[0], end[1], end[1], np.zeros(1)], caps)
    assert first.shape == (p + 2 * p * (p + 1) // 2,)
    assert 0.999 * charged < np.linalg.norm(first - second) <= charged


SIGNED = Caps(3.0, 2.0, 1.5, 4.0, (0.0, 1.0, 0.0, 0.0), minus=0.7)


def signed(monkeypatch, plus, minus, caps=SIGNED):
    """What is noised of rows whose curvature is a difference, and the sensitivity."""
    p, n = plus.shape
    seen = {}

    def spy(total, sensitivity, z, noise):
        seen["flat"], seen["sensitivity"] = np.array(total), sensitivity
        return total

    monkeypatch.setattr(sums, "noisy_sums", spy)
    rows = Block(plus, (plus,), (plus,), np.zeros(n), minus=(minus,))
    release([rows], p, n, caps, 1.0, Fixed())
    return seen["flat"], seen["sensitivity"]


@pytest.mark.parametrize("stretch", [0.1, 1.0, 1e3])
def test_no_neighbour_is_further_away_where_curvatures_are_differences(monkeypatch, stretch):
    rng = np.random.default_rng(6)
    for _ in range(200):
        p, n = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        plus, minus = rng.normal(size=(2, p, n)) * stretch
        other = rng.normal(size=(2, p)) * stretch * 10.0 ** rng.uniform(-2, 2, (2, 1))
        if rng.random() < 0.3:  # the same direction, where one adds and the other takes off
            other[1], other[0] = plus[:, 0] * rng.uniform(0, 2), other[0] * rng.integers(2)
        there = plus.copy(), minus.copy()
        there[0][:, 0], there[1][:, 0] = other
        first, charged = signed(monkeypatch, plus, minus)
        second, _ = signed(monkeypatch, *there)
        assert np.linalg.norm(first - second) <= charged


def test_the_worst_differences_are_as_far_apart_as_is_paid_for(monkeypatch):
    """One row adds all it may; the other takes off all it may there, and adds the rest across."""
    e = np.eye(2)
    most, taken = SIGNED.curvature, SIGNED.minus
    first, charged = signed(monkeypatch, 1e9 * e[:, :1], 0.0 * e[:, :1])
    rest = np.sqrt(most - taken) * e[:, 1:], np.sqrt(taken) * e[:, :1]
    second, _ = signed(monkeypatch, *rest)
    assert 0.999 * charged < np.linalg.norm(first - second) <= charged
    assert SIGNED.units[1] == pytest.approx(math.sqrt(2.0) * math.hypot(most, taken))


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_what_is_taken_off_counts_in_what_a_row_may_add(monkeypatch, share):
    """Rows that add along one way and take off along another, and the other way round."""
    e = 10.0 * np.eye(2)
    taken = np.sqrt(share * SIGNED.minus / SIGNED.curvature)
    first, charged = signed(monkeypatch, e[:, :1], taken * e[:, 1:])
    second, _ = signed(monkeypatch, e[:, 1:], taken * e[:, :1])
    assert np.linalg.norm(first - second) <= math.sqrt(2.0) * SIGNED.curvature / SIGNED.units[1]
    assert np.linalg.norm(first - second) <= charged


def test_what_is_taken_off_is_nothing_where_no_cap_allows_it(monkeypatch):
    e = np.eye(2)
    none = Caps(3.0, 2.0, 1.5, 4.0, (0.0, 1.0, 0.0, 0.0))
    assert not signed(monkeypatch, e[:, :1], e[:, 1:], none)[0].any()


# parts of an event that iterates use: the score, both matrices, the scalar
SHARES = (
    (0.84, 0.11, 0.05, 0.0),
    (0.79, 0.11, 0.05, 0.05),
    (0.40, 0.40, 0.05, 0.15),
    (0.89, 0.08, 0.03, 0.0),
    (0.84, 0.08, 0.03, 0.05),
)


def pair_of(point, p=2):
    """Two rows of one predictor: angles, and how long each of their parts is before the cut."""
    angle, *sizes = point
    ends = np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])
    made = []
    for end, sign, row in zip(ends, (1.0, -1.0), np.reshape(sizes, (2, 4)), strict=True):
        score, curvature, noise, square = row
        roots = (np.sqrt(size) * end[:, None] for size in (curvature, noise))
        made.append([sign * score * end[:, None], *roots, np.array([square])])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("shares", SHARES)
def test_rows_of_one_predictor_reach_less_than_is_paid_for(monkeypatch, shares):
    """Scores turn round where matrices stand still: the audit's largest shift is no weak search."""
    caps = Caps(3.0, 2.0, 1.5, 4.0, shares)
    whole = [3.0, 2.0, 1.5, 4.0]

    def apart(point):
        first, second = pair_of(point)
        there = flat_of(monkeypatch, first, caps)[0] - flat_of(monkeypatch, second, caps)[0]
        return float(there @ there)

    angles = np.linspace(0.0, math.pi, 13)
    ends = itertools.product(angles, *([(0.0, size) for size in whole] * 2))
    found = max(map(apart, ends))
    most = most_of_one_vector(shares)
    rng = np.random.default_rng(3)
    for _ in range(150):
        sizes = rng.uniform(0.0, 1.2, 8) * np.tile(whole, 2)
        assert apart([rng.uniform(0.0, math.pi), *sizes]) <= most + 1e-6
    assert 0.99 * most < found <= most + 1e-6
    assert most <= 0.945 + 1e-12
    same = apart([0.0, *whole, *whole[:3], 0.0])  # the same covariates, opposite responses
    assert same == pytest.approx(shares[0] + 0.5 * shares[3], rel=1e-5)


def test_the_sensitivity_allows_for_rounding(monkeypatch):
    parts = rows(np.random.default_rng(5), 3, 4, 1.0)
    assert flat_of(monkeypatch, parts)[1] == 1.0 + joint_sums.rounding(3, 4) > 1.0
    monkeypatch.setattr(joint_sums, "rounding", lambda *_: 0.5)
    assert flat_of(monkeypatch, parts)[1] == 1.5


def test_a_scalar_is_charged_as_a_matrix_of_one(monkeypatch):
    parts = [np.zeros((1, 1))] * 3
    first, _ = flat_of(monkeypatch, [*parts, np.array([1e9])])
    second, _ = flat_of(monkeypatch, [*parts, np.array([-1e9])])
    apart = np.linalg.norm(first - second)
    assert apart == pytest.approx(math.sqrt(0.1 / 2.0), rel=1e-6)


def test_sums_are_exact_in_any_order_and_in_any_blocks(monkeypatch):
    rng = np.random.default_rng(2)
    parts = rows(rng, 4, 1000, 1.0)
    order = rng.permutation(1000)
    whole, _ = flat_of(monkeypatch, parts)
    turned, _ = flat_of(monkeypatch, [part[..., order] for part in parts])
    assert (whole == turned).all()


def test_what_is_not_cut_is_the_sum(monkeypatch):
    """To the grid, whose step is 2^-20 of a cap for matrices of a thousand rows."""
    rng = np.random.default_rng(3)
    vectors, curvature, noise, square = (part * 0.1 for part in rows(rng, 3, 1000, 1.0))
    flat, _ = flat_of(monkeypatch, [vectors, curvature, noise, square])
    told = joint_sums._read(flat, 3, CAPS.units, 1.0)
    assert told.score == pytest.approx(vectors.sum(axis=1), rel=1e-6, abs=1e-6)
    assert told.curvature == pytest.approx(curvature @ curvature.T, rel=1e-3, abs=1e-2)
    assert told.noise == pytest.approx(noise @ noise.T, rel=1e-3, abs=1e-2)
    assert told.square == pytest.approx(square.sum(), rel=1e-6)


def test_neighbours_are_mu_apart_and_no_more():
    """5 % is five standard errors: noise that is a tenth too small would fail."""
    mu, runs, caps = 4.0, 3000, Caps(1.0, 1.0, 1.0, 1.0, (1.0, 0.0, 0.0, 0.0))
    random, ends = Fixed(4), []
    for end in (-1e6, 1e6):
        told = [np.array([[end], [0.0]]), *(np.zeros((2, 1)),) * 2, np.zeros(1)]
        ends.append(
            [release([block(*told)], 2, 1, caps, 1.0 / mu, random).score for _ in range(runs)]
        )
    shift = np.linalg.norm(np.mean(ends[1], axis=0) - np.mean(ends[0], axis=0))
    apart = shift / math.sqrt(np.mean(np.var(ends, axis=1)))
    assert 0.95 * mu < apart < 1.05 * mu


@pytest.mark.parametrize(
    ("dimension", "count", "caps", "z"),
    [
        (251, 5, CAPS, 1.0),
        (2, 2**31, CAPS, 1.0),
        (2, 0, CAPS, 1.0),
        (2, 5, Caps(3.0, 2.0, 1.5, 4.0, (0.6, 0.3, 0.1, 0.1)), 1.0),
        (2, 5, Caps(3.0, 2.0, 1.5, 4.0, (1.1, -0.2, 0.1, 0.0)), 1.0),
        (2, 5, Caps(0.0, 2.0, 1.5, 4.0, CAPS.shares), 1.0),
        (2, 5, Caps(math.inf, 2.0, 1.5, 4.0, CAPS.shares), 1.0),
        (2, 5, Caps(3.0, 2.0, 1.5, 4.0, CAPS.shares, minus=2.5), 1.0),
        (2, 5, Caps(3.0, 2.0, 1.5, 4.0, CAPS.shares, minus=-0.5), 1.0),
        (2, 5, CAPS, 0.0),
        (2, 5, CAPS, math.inf),
        (2, 5, CAPS, 2.0**31),
    ],
)
def test_what_the_proof_does_not_cover_is_refused_before_a_row_is_read(dimension, count, caps, z):
    def unread():
        raise AssertionError("a row was read")
        yield

    with pytest.raises(ValueError, match=r"exact|caps|shares|no proof covers"):
        release(unread(), dimension, count, caps, z, Fixed())
