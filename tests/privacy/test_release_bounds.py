"""The bounds of docs/proofs that samplers and releases rest on, searched by brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from dpmcmc.privacy.gaussian import delta_of_mu


def spread(values):
    return np.sum(values**2) - np.sum(values) ** 2 / len(values)


@pytest.mark.parametrize("batch", [2, 3, 6])
def test_batch_spread_moves_by_at_most_its_share_of_the_squared_width(batch):
    low, high = -0.3, 0.9
    bound = (high - low) ** 2 * (batch - 1) / batch
    grid = np.linspace(low, high, 4)
    found = max(
        abs(spread(np.array((*rest, one))) - spread(np.array((*rest, other))))
        for rest in itertools.combinations_with_replacement(grid, batch - 1)
        for one in (low, high)
        for other in grid
    )
    assert found <= bound * (1 + 1e-12)
    assert found == pytest.approx(bound, rel=1e-9)


def test_barker_function_moves_by_at_most_its_bound_for_every_fixed_noise():
    g, batch, rows, v0, reach = 1.0, 8, 64, 0.8, 6.0
    clip = g * math.sqrt(batch) / rows
    spread_bound = 4 * g**2 * (batch - 1) / batch**2
    bound = 2 * g / math.sqrt(batch) + reach * spread_bound / (2 * math.sqrt(2 - v0 - g**2))

    def function(values, zeta):
        variance = (rows / batch) ** 2 * spread(values)
        return rows / batch * np.sum(values) + zeta * math.sqrt(2 - v0 - variance)

    found = max(
        abs(function(np.array((*rest, one)), zeta) - function(np.array((*rest, other)), zeta))
        for rest in itertools.combinations_with_replacement((-clip, 0.0, clip), batch - 1)
        for one in (-clip, 0.0, clip)
        for other in (-clip, 0.0, clip)
        for zeta in (-reach, reach)
    )
    assert 0.5 * bound < found <= bound


def test_psd_rows_move_a_gram_matrix_by_at_most_the_orthogonal_change():
    random = np.random.default_rng(1)
    directions = random.normal(size=(300, 3))
    rows = np.vstack((np.eye(3), directions / np.linalg.norm(directions, axis=1)[:, None]))
    weights = np.r_[np.full(3, 0.25), random.uniform(0, 0.25, 300)]
    terms = weights[:, None, None] * rows[:, :, None] * rows[:, None, :]
    upper = np.triu_indices(3)
    scale = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    flat = terms[:, upper[0], upper[1]] * scale
    found = max(np.linalg.norm(flat - one, axis=1).max() for one in flat)
    assert found == pytest.approx(math.sqrt(2) * 0.25, rel=1e-9)


@pytest.mark.parametrize(("variance", "shift"), [(32, 3), (32, 10), (64, 5), (100, 20)])
def test_discrete_gaussian_costs_less_than_the_gaussian_it_is_accounted_as(variance, shift):
    k = np.arange(-3000, 3001)
    log_p = -(k**2) / (2 * variance)
    log_q = -((k - shift) ** 2) / (2 * variance)
    log_p, log_q = log_p - logsumexp(log_p), log_q - logsumexp(log_q)
    mu = shift / math.sqrt(variance - 16)
    for epsilon in np.linspace(0, 8, 33):
        exact = np.sum(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0))
        assert exact <= delta_of_mu(mu, float(epsilon)) + 1e-13
