import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from dpmcmc.kernels.compiled import subsets
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.samplers.minibatch import batches

SURE = 1e-6


@pytest.mark.longer
@pytest.mark.parametrize(
    ("rows", "batch"),
    [(2, 1), (3, 2), (4, 1), (4, 2), (5, 2), (5, 3), (6, 3), (7, 5), (8, 4), (9, 7)],
)
def test_every_subset_is_as_likely_as_any_other(rows, batch):
    drawn = np.sort(batches(SystemRandom(), rows, batch, 40_000), axis=1)
    keys = drawn.astype(np.int64) @ rows ** np.arange(batch)
    every = [sum(k * rows**i for i, k in enumerate(s)) for s in combinations(range(rows), batch)]
    counts = [(keys == key).sum() for key in every]
    assert sum(counts) == len(keys)
    assert chisquare(counts).pvalue > SURE


@pytest.mark.compiled("thousands of batches of hundreds of rows")
@pytest.mark.parametrize(
    ("rows", "batch"), [(64, 20), (1000, 2), (1000, 300), (1000, 500), (1000, 700), (1000, 997)]
)
def test_every_row_is_as_likely_as_any_other_and_no_batch_knows_the_last_one(rows, batch):
    count, part = 4000, batch / rows
    drawn = batches(SystemRandom(), rows, batch, count)
    times = np.bincount(drawn.ravel(), minlength=rows)
    assert len(times) == rows
    spread = ((times - count * part) ** 2).sum() / (count * part * (1.0 - part))
    assert SURE < chi2.sf(spread * (rows - 1) / rows, rows - 1) < 1.0 - SURE
    shared = [np.isin(one, other).sum() for one, other in pairwise(drawn[:1000])]
    sd = batch * (1.0 - part) / math.sqrt(rows - 1)  # of how many rows two subsets share
    assert abs(np.mean(shared) - batch * part) < 6.0 * sd / math.sqrt(len(shared))


@pytest.mark.parametrize(
    ("rows", "batch"), [(1000, 1), (1000, 499), (1000, 501), (65, 64), (64, 64), (1, 1), (63, 62)]
)
def test_batches_hold_distinct_rows(rows, batch):
    drawn = batches(SystemRandom(), rows, batch, 3)
    assert drawn.shape == (3, batch)
    assert [len(np.unique(one)) for one in drawn] == [batch] * 3
    assert drawn.min() >= 0
    assert drawn.max() < rows


@pytest.mark.parametrize("rows", [1, 2, 3, 63, 64, 1000, 100_000, 3 << 29, (1 << 31) - 1, 1 << 31])
def test_equally_many_words_stand_for_every_row(rows):
    """A row's words are neighbours, of which the first one alone may be refused."""
    refused = 2**32 % rows
    for row in {0, rows // 3, rows // 2, rows - 1}:
        first, last = -(-row * 2**32 // rows), -(-(row + 1) * 2**32 // rows) - 1
        words = [first, *{min(first + 1, last), last}]
        drawn = np.empty(len(words), np.uint32)
        subsets.rows_of(np.array(words, np.uint32), np.uint64(rows), np.uint64(refused), drawn)
        assert (drawn[1:] == row).all() or first == last
        assert drawn[0] in (row, rows)
        assert last - first + 1 - (drawn[0] == rows) == 2**32 // rows


def test_refused_words_are_passed_over():
    words = np.array([0, 1, 2**31, 0, 2**32 - 1], np.uint32)
    out = np.empty((2, 1), np.int32)
    assert subsets.subsets(words, 3, out, 0) == (2, 3)
    assert out.ravel().tolist() == [0, 1]


def test_a_tape_that_runs_short_changes_no_subset():
    tape = SystemRandom().words(400).view(np.uint32)
    whole, pieces = np.zeros((30, 10), np.int32), np.zeros((30, 10), np.int32)
    filled, _ = subsets.subsets(tape, 50, whole, 0)
    assert filled == 30
    done, start, end = 0, 0, 1
    while done < filled:
        done, used = subsets.subsets(tape[start:end], 50, pieces, done)
        start, end = start + used, end + 1
    assert (pieces == whole).all()
