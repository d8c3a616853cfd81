"""Sums are clipped, whole, the same in any order, and get the noise that is charged."""

import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.mechanisms import joint_sums, sums
from dpmcmc.mechanisms.joint_sums import Block, Caps
from dpmcmc.privacy.sites import NOISY_QUADRATIC
from dpmcmc.releases.regression import statistics
from tests.sources import Seeded

D, ROWS = 3, 700
CAPS = Caps(3.0, 2.0, 1.5, 4.0, (0.6, 0.2, 0.1, 0.1))
SPLITS = ([ROWS], [1] * ROWS, [13, 400, 1, 286], [350, 350])


def rows(seed=1):
    """Rows of all sizes, some of them no numbers, some left out."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(D, ROWS)) * 10.0 ** rng.uniform(-3, 3, ROWS)
    vectors[0, 5], vectors[1, 6], vectors[2, 7] = math.inf, math.nan, 1e200
    there = (rng.random(ROWS) < 0.9).astype(float)
    return vectors, rng.normal(size=(D, ROWS)), rng.exponential(size=ROWS), there


def blocks_of(parts, sizes, order=None):
    ends = np.cumsum([0, *sizes])
    made = [
        Block(v, (r,), (r, v), s, t)
        for v, r, s, t in (
            tuple(part[..., a:b] for part in parts) for a, b in itertools.pairwise(ends)
        )
    ]
    return made if order is None else [made[k] for k in order]


def told(blocks):
    found = joint_sums.release(iter(blocks), D, ROWS, CAPS, 1.0, Seeded(3), gaps=True)
    return [found.score, found.curvature, found.noise, found.square, found.rows]


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.compiled(why="loops over rows in Python")
@pytest.mark.parametrize("classes", [0, 1, 3])
def test_compiled_loops_have_the_bits_of_numpy(classes):
    """On blocks of more rows than a tile, of vectors and of products with several classes."""
    rng = np.random.default_rng(classes)
    vectors, _, square, there = rows()
    parts = rng.normal(size=(3, classes or 1, ROWS)) * 10.0 ** rng.uniform(-9, 9, ROWS)
    bases = rng.normal(size=(classes or 1, D, ROWS))
    bases[0] += vectors
    made = [sums.Products(bases, part) if classes else bases[0] * part[0] for part in parts]
    block = Block(made[0], (made[1],), (made[0], made[1]), square, there, (made[2],))
    caps = replace(CAPS, minus=0.5)
    found = [
        joint_sums._cells(caps, 40, gaps, loops, block)
        for loops in (sums.PLAIN, sums.COMPILED_LOOPS)
        for gaps in (True, False)
    ]
    assert same(found[:2], found[2:])
    assert all(np.isfinite(part).all() and np.abs(part).max() > 1e6 for part in found)


@pytest.mark.parametrize("sizes", SPLITS, ids=len)
def test_rows_in_any_blocks_and_any_order_give_the_same_bits(sizes):
    parts = rows()
    whole = told(blocks_of(parts, [ROWS]))
    order = np.random.default_rng(2).permutation(len(sizes))
    assert same(told(blocks_of(parts, sizes)), whole)
    assert same(told(blocks_of(parts, sizes, order)), whole)
    shuffled = np.random.default_rng(3).permutation(ROWS)
    assert same(told(blocks_of([part[..., shuffled] for part in parts], sizes)), whole)
    assert not same(told(blocks_of(rows(2), [ROWS])), whole)


def test_sums_of_blocks_are_added_by_any_tree():
    """What blocks add is whole numbers, below 2^53 in all: partial sums may come from anywhere."""
    parts = blocks_of(rows(), [7] * 100)
    cells = (
        joint_sums._cells(CAPS, sums.digits_of(ROWS), True, sums.PLAIN, block) for block in parts
    )
    every = list(cells)
    assert all(np.array_equal(block, np.trunc(block)) for block in every)
    assert np.abs(every).sum(axis=0).max() < 2.0**53
    whole = sums.added(every)
    pairs = [a + b for a, b in zip(every[::2], every[1::2], strict=True)]
    assert np.array_equal(functools.reduce(np.add, pairs[::-1]), whole)
    assert np.array_equal(sums.added(block.astype(np.int64) for block in every), whole)


def test_what_is_rounded_is_never_longer_than_its_cap():
    """Of vectors and of matrices, each row on its own, at the finest grid and the coarsest."""
    vectors = rows()[0]
    for count in (1, 2**31 - 1):
        one = 2.0 ** sums.digits_of(count)
        for row in vectors.T[:, :, None]:
            assert np.linalg.norm(sums.vector_cells(row, 3.0, one / 3.0)) <= one
            matrix = sums.matrix_cells((row, row), 2.0, 2.0, 2.0 ** (sums.digits_of(count) // 2))
            assert np.linalg.norm(matrix) <= 4.0 ** (sums.digits_of(count) // 2)


def test_rows_that_are_no_numbers_add_nothing():
    vectors = rows()[0][:, 5:8]  # infinite, no number, with a square that overflows
    assert not sums.vector_cells(vectors, 3.0, 2.0**40).any()
    assert not sums.matrix_cells((vectors,), 3.0, 1.0, 2.0**20).any()
    assert sums.scalar_cells(np.array([math.nan, -1.0]), 4.0, 2.0**40) == 0.0


@pytest.mark.parametrize("unit", [1, 4])
def test_noise_is_as_large_as_a_unit_is_charged(monkeypatch, unit):
    """A unit of k rows has k times the sensitivity, and k times the noise."""
    charged = []
    real = sums.noisy_sums

    def heard(total, sensitivity, z, noise):
        charged.append(sensitivity)
        return real(total, sensitivity, z, noise)

    monkeypatch.setattr(sums, "noisy_sums", heard)
    blocks = [np.zeros((20_000, 2))]
    noisy, sd = sums.release_sums(Seeded(1), NOISY_QUADRATIC, blocks, 0.3, 2.0, unit_rows=unit)
    assert charged == [unit * 0.3]
    assert sd == 2.0 * unit * 0.3
    assert noisy.std() == pytest.approx(sd, rel=0.02)


@pytest.mark.parametrize("unit", [2, 5])
def test_neighbours_of_a_unit_are_as_far_apart_as_is_charged(monkeypatch, unit):
    """All rows of a unit turn round, or go: of joint sums and of sums of squares."""
    seen = []
    monkeypatch.setattr(sums, "noisy_sums", lambda s, d, *_: seen.append((s.copy(), d)) or s)
    one = Caps(3.0, 2.0, 1.5, 4.0, (1.0, 0.0, 0.0, 0.0))
    for sign, there in ((1.0, 1.0), (-1.0, 1.0), (1.0, 0.0)):
        vectors = np.full((D, unit), sign * 1e6)
        block = Block(vectors, (), (), np.zeros(unit), np.full(unit, there))
        joint_sums.release([block], D, unit, one, 1.0, Seeded(1), gaps=True, unit_rows=unit)
    (here, charged), (turned, _), (gone, _) = seen
    assert 0.999 * charged < np.linalg.norm(here - turned) <= charged
    assert np.linalg.norm(here - gone) <= charged
    seen.clear()
    for x in (np.eye(2)[:, [0] * unit], np.eye(2)[:, [1] * unit]):
        y = np.ones(unit) * (1.0 if x[0, 0] else -1.0)
        statistics.release(x, y, (1.0, 1.0), 1.0, Seeded(1), unit_rows=unit)
    (here, charged), (other, _) = seen
    assert 0.7 * charged < np.linalg.norm(here - other) <= charged


def test_no_block_is_asked_for_at_a_multiplier_that_no_proof_covers():
    def rows_that_nobody_may_read():
        raise AssertionError("a row was read")
        yield

    with pytest.raises(ValueError, match="no proof covers"):
        sums.release_sums(Seeded(1), NOISY_QUADRATIC, rows_that_nobody_may_read(), 1.0, 0.0)
