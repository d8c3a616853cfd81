"""MMD against closed forms, a literal double sum and the published noise floor."""

import csv
import json
import math

import numpy as np
import pytest

from dpmcmc.families.banana import Banana, draw_posterior
from experiments.evaluation import median_bandwidth, mmd, mmd2


def test_estimate_is_the_literal_unbiased_double_sum():
    random = np.random.default_rng(1)
    x, y, s = random.normal(size=(7, 3)), random.normal(size=(5, 3)), 0.8

    def kernel(a, b):
        return math.exp(-sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) / (2 * s * s))

    inside_x = sum(kernel(x[i], x[j]) for i in range(7) for j in range(7) if i != j) / (7 * 6)
    inside_y = sum(kernel(y[i], y[j]) for i in range(5) for j in range(5) if i != j) / (5 * 4)
    across = sum(kernel(a, b) for a in x for b in y) / 35
    assert mmd2(x, y, s) == pytest.approx(inside_x + inside_y - 2 * across, abs=1e-12)


def test_samples_longer_than_a_block_give_the_same_sum():
    random = np.random.default_rng(2)
    x, y = random.normal(size=(1500, 1)), random.normal(size=(1100, 1))
    gram = np.exp(-((np.vstack((x, y)) - np.vstack((x, y)).T) ** 2) / (2 * 0.5**2))
    np.fill_diagonal(gram, 0.0)
    expected = (
        gram[:1500, :1500].sum() / (1500 * 1499)
        + gram[1500:, 1500:].sum() / (1100 * 1099)
        - 2 * gram[:1500, 1500:].mean()
    )
    assert mmd2(x, y, 0.5) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("shift", "scale"), [(0.5, 1.0), (0.0, 1.5), (1.0, 0.5)])
def test_estimate_agrees_with_the_closed_form_for_normals(shift, scale):
    # E k(x, y) = sqrt(s^2 / (s^2 + v)) exp(-m^2 / (2 (s^2 + v))) for x - y ~ N(m, v)
    s = 1.3

    def mean_kernel(m, v):
        return math.sqrt(s * s / (s * s + v)) * math.exp(-m * m / (2 * (s * s + v)))

    exact = mean_kernel(0, 2) + mean_kernel(0, 2 * scale**2) - 2 * mean_kernel(shift, 1 + scale**2)
    random = np.random.default_rng(3)
    runs = [
        mmd2(random.normal(size=(800, 1)), random.normal(shift, scale, size=(700, 1)), s)
        for _ in range(30)
    ]
    assert np.mean(runs) == pytest.approx(exact, abs=4 * np.std(runs) / math.sqrt(30))
    assert exact > 10 * np.std(runs) / math.sqrt(30)


def test_estimate_has_mean_zero_between_samples_of_one_distribution():
    random = np.random.default_rng(4)
    runs = [mmd2(random.normal(size=(60, 2)), random.normal(size=(40, 2)), 1.0) for _ in range(600)]
    assert abs(np.mean(runs)) < 4 * np.std(runs) / math.sqrt(600)
    assert min(runs) < 0 < max(runs)


def test_bandwidth_is_the_median_distance_in_the_samples_own_units():
    random = np.random.default_rng(5)
    x, y = random.normal(size=(4000, 1)), random.normal(size=(3000, 1))
    # |x - y| for x - y ~ N(0, 2) has median sqrt(2) * 0.6745
    found = [median_bandwidth(x, y, random=random) for _ in range(50)]
    assert np.mean(found) == pytest.approx(0.9539, rel=0.05)
    one = median_bandwidth(x, y, random=np.random.default_rng(6))
    assert median_bandwidth(9 * x, 9 * y, random=np.random.default_rng(6)) == pytest.approx(9 * one)


def test_noise_floor_of_exact_banana_draws_is_the_published_one(shared_dir):
    with (shared_dir / "data/banana/mmd_baseline.csv").open() as lines:
        floor = next(
            row
            for row in csv.DictReader(lines)
            if (row["d"], row["T"], row["n_other"]) == ("2", "1", "2000")
        )
    exact = np.load(shared_dir / "data/banana/banana_d2_T1_exact.npz")
    draws = exact["draws"].astype(np.float64)
    meta = json.loads((shared_dir / "data/banana/banana_meta.json").read_text())
    model, means = Banana.thesis(2), np.array(meta["cases"]["d2_T1"]["xbar"])
    random = np.random.default_rng(7)
    values = [
        mmd(draw_posterior(model, means, 100_000, 2000, random=random), draws, random=random)
        for _ in range(20)
    ]
    assert np.mean(values) < 2 * float(floor["mmd_abs_mean"])
    assert max(values) < 2 * float(floor["mmd_abs_q95"])


def test_mmd_sees_the_bias_that_agreeing_chains_hide():
    random = np.random.default_rng(8)
    exact = random.normal(size=(2000, 2))
    assert mmd(random.normal(0.3, 1.0, size=(2000, 2)), exact, random=random) > 0.1
    assert mmd(random.normal(0.0, 1.0, size=(2000, 2)), exact, random=random) < 0.05


@pytest.mark.parametrize(
    ("draws", "reference"),
    [
        (np.zeros(5), np.zeros((5, 1))),
        (np.zeros((5, 2)), np.zeros((5, 1))),
        (np.zeros((1, 1)), np.zeros((5, 1))),
        (np.array([[0.0], [np.nan]]), np.zeros((5, 1))),
        (np.zeros((5, 1)), np.zeros((5, 1))),
    ],
)
def test_samples_that_cannot_be_compared_are_refused(draws, reference):
    with pytest.raises(ValueError, match=r"sample|median"):
        mmd(draws, reference, random=np.random.default_rng(9))


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.nan, math.inf])
def test_impossible_bandwidths_are_refused(bandwidth):
    with pytest.raises(ValueError, match="bandwidth"):
        mmd2(np.zeros((3, 1)), np.ones((3, 1)), bandwidth)
