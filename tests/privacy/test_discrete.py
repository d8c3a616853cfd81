"""Released sums carry exact discrete Gaussian noise of at least the size that was paid for."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from dpmcmc.kernels.arithmetic import noise as plain_noise
from dpmcmc.kernels.arithmetic.rounding import LARGEST_UNITS, noised
from dpmcmc.kernels.compiled import noise, penalty_steps
from dpmcmc.privacy.discrete import discrete_gaussian, log2_sd, noisy_grid, noisy_sums
from dpmcmc.privacy.noise import SystemRandom


@pytest.mark.parametrize("log2", [1, 3])
def test_noise_is_the_discrete_gaussian(log2):
    drawn, sd = discrete_gaussian(SystemRandom(), log2, (200_000,)), 2**log2
    values = np.arange(-4 * sd, 4 * sd + 1)
    weights = np.exp(-(values**2) / (2 * sd * sd))
    shares = weights / np.exp(-(np.arange(-40 * sd, 40 * sd + 1) ** 2) / (2 * sd * sd)).sum()
    counts = np.array([(drawn == value).sum() for value in values])
    observed = np.append(counts, len(drawn) - counts.sum())
    expected = np.append(shares, 1 - shares.sum()) * len(drawn)
    assert chisquare(observed, expected).pvalue > 1e-5


def test_a_tape_that_runs_short_changes_no_draw():
    """A draw that was begun goes on with its own words, so none is thrown away for being long."""
    tape = SystemRandom().integers(1 << plain_noise.BITS, (4000,))
    whole = np.zeros(300, dtype=np.int64)
    filled, _ = noise.discrete_gaussians(tape, 4, whole, 0)
    assert 150 < filled < 300
    pieces, done, start, end = np.zeros_like(whole), 0, 0, 1
    while end <= len(tape):
        done, used = noise.discrete_gaussians(tape[start:end], 4, pieces, done)
        start, end = start + used, end + 1
    assert done == filled
    assert (pieces[:done] == whole[:filled]).all()


@pytest.mark.parametrize("log2", [1, 8, 46, 50])
def test_few_draws_are_made_without_the_compiler_and_are_the_same(log2):
    """Word for word: the interpreter and the machine code read one tape alike."""
    tape = SystemRandom().integers(1 << plain_noise.BITS, (9000,))
    compiled, plain = np.zeros((2, 400), dtype=np.int64)
    told = noise.discrete_gaussians(tape, log2, compiled, 0)
    assert plain_noise.discrete_gaussians(tape.tolist(), log2, plain, 0) == told
    assert (plain == compiled).all()
    assert told[0] == 400


@pytest.mark.parametrize("z", [1e-4, 0.3, 1.0, 250.0, 1e7])
def test_the_grid_leaves_the_noise_its_full_size(z):
    """sd over sensitivity, both in grid units, rounding included: at least z, and little more."""
    sensitivity, d = 3.0, 10
    one, none = np.full(d, 1.0), np.zeros(d, dtype=np.int64)
    noise = np.zeros(d, dtype=np.int64)
    noise[0] = 1
    grid = (noisy_sums(one, sensitivity, z, noise) - noisy_sums(one, sensitivity, z, none))[0]
    units = sensitivity / grid + 1.5 * math.sqrt(d)
    ratio = math.sqrt(4.0 ** log2_sd(z) - 16) / units / z
    assert ratio * (1 + 1e-9) >= 1.0
    assert ratio < 1.0001


@pytest.mark.parametrize("z", [0.3, 40.0])
def test_released_sums_scatter_by_what_was_paid_for(z):
    sums = np.full((40_000, 2), 1234.5)
    noise = discrete_gaussian(SystemRandom(), log2_sd(z), sums.shape)
    errors = noisy_sums(sums, 0.7, z, noise) - sums
    assert errors.std() == pytest.approx(0.7 * z, rel=4.5 / math.sqrt(2 * errors.size))
    assert abs(errors.mean()) < 4.5 * 0.7 * z / math.sqrt(errors.size)


def test_what_is_released_is_a_whole_number_of_cells_whatever_the_sum():
    """So that no bit of the sum is left beside the integer (Mironov 2012)."""
    sums = np.random.default_rng(1).normal(size=(300, 2)) * [1.0, 1e6]
    noise = discrete_gaussian(SystemRandom(), log2_sd(2.0), sums.shape)
    released, grid = noisy_sums(sums, 0.7, 2.0, noise), noisy_grid(2, 0.7, 2.0)
    assert (released == grid * np.rint(released / grid)).all()
    assert np.abs(released - sums - grid * noise).max() <= 0.5 * grid * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["plain", "compiled"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_sum_of_more_cells_than_a_float_tells_apart_is_held(kind, sign):
    """There neighbours that are one cell apart would be rounded to numbers that are many apart, and
    beyond 2^63 to anything."""
    add = noised if kind == "plain" else penalty_steps.noised
    far = [2.0**51, 2.0**53 + 2.0, 1e17, 9.3e18, 1e30, 1e300, math.inf]
    assert [float(add(sign * total, 1.0, np.int64(7))) for total in far] == (
        [sign * LARGEST_UNITS + 7.0] * len(far)
    )
    assert LARGEST_UNITS == 2.0**51
    for cells in (2.0**51 - 1.0, 3.0, 0.0):
        assert float(add(sign * cells * 0.25, 0.25, np.int64(0))) == sign * cells * 0.25
