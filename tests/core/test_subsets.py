from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from dpmcmc.kernels import subsets
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.samplers.minibatch import batches


@pytest.mark.parametrize(("rows", "batch"), [(5, 2), (5, 3), (4, 1)])
def test_every_subset_is_as_likely_as_any_other(rows, batch):
    drawn = np.sort(batches(SystemRandom(), rows, batch, 40_000), axis=1)
    keys = drawn @ rows ** np.arange(batch)
    every = [sum(k * rows**i for i, k in enumerate(s)) for s in combinations(range(rows), batch)]
    counts = [(keys == key).sum() for key in every]
    assert sum(counts) == len(keys)
    assert chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize(
    ("rows", "batch"), [(1000, 1), (1000, 499), (1000, 501), (65, 64), (64, 64)]
)
def test_batches_hold_distinct_rows(rows, batch):
    drawn = batches(SystemRandom(), rows, batch, 3)
    assert drawn.shape == (3, batch)
    assert [len(np.unique(one)) for one in drawn] == [batch] * 3
    assert drawn.min() >= 0
    assert drawn.max() < rows


def test_words_that_would_favour_some_rows_are_refused():
    """2^31 is 2 more than a multiple of 3: of the upper halves of words 0 is among the refused."""
    words = np.array([0, 1 << 31], np.int64)
    out = np.empty((1, 1), np.int64)
    assert subsets.subsets(words, 3, out, 0) == (1, 2)
    assert out[0, 0] == 0


def test_a_tape_that_runs_short_changes_no_subset():
    tape = SystemRandom().integers(1 << subsets.BITS, (400,))
    whole, pieces = np.zeros((30, 10), np.int64), np.zeros((30, 10), np.int64)
    filled, _ = subsets.subsets(tape, 50, whole, 0)
    assert filled == 30
    done, start, end = 0, 0, 1
    while done < filled:
        done, used = subsets.subsets(tape[start:end], 50, pieces, done)
        start, end = start + used, end + 1
    assert (pieces == whole).all()
