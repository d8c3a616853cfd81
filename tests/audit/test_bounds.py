"""The audit's own statistics: bounds that hold, and that come near."""

import numpy as np
import pytest
from scipy.stats import norm

from dpmcmc.privacy import gaussian
from tests.audit.bounds import Claim, Counts, best_threshold, epsilon_of_mu, errors, upper

TRIALS, AUDITS = 4000, 400


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_epsilon_of_mu_is_that_of_the_accountant(mu, delta):
    assert epsilon_of_mu(mu, delta) == pytest.approx(gaussian.epsilon_of_mu(mu, delta), abs=1e-6)


def test_upper_bounds_of_a_rate_hold_as_often_as_they_should():
    random = np.random.default_rng(1)
    for rate in (0.001, 0.1, 0.9):
        seen = random.binomial(TRIALS, rate, AUDITS)
        assert np.mean(upper(seen, TRIALS, 0.05) < rate) < 0.05 + 4 * (0.05 / AUDITS) ** 0.5
    assert upper(np.array([TRIALS]), TRIALS, 0.05) == 1.0


@pytest.mark.parametrize(("mu", "delta"), [(1.0, 1e-5), (None, 1e-3)])
def test_bounds_of_one_gaussian_release_stay_below_its_epsilon_and_come_near(mu, delta):
    """Both conversions, with a threshold that is chosen on a training half."""
    random = np.random.default_rng(2)
    claim = Claim(gaussian.epsilon_of_mu(1.0, delta), delta, mu)
    found = []
    for _ in range(AUDITS // 4):
        zeros, ones = random.normal(0, 1, (2, 2, TRIALS)) + np.array([0.0, 1.0])[:, None, None]
        threshold, _ = best_threshold(zeros[0], ones[0], claim, 0.05)
        found.append(errors(zeros[1], ones[1], threshold).bound(claim, 0.05))
    assert np.mean(np.array(found) > claim.epsilon) < 0.05 + 4 * (0.05 / len(found)) ** 0.5
    assert np.median(found) > 0.5 * claim.epsilon


def test_half_of_the_noise_is_seen_by_either_conversion():
    random = np.random.default_rng(3)
    for mu, delta in ((1.0, 1e-5), (None, 1e-3)):
        claim = Claim(gaussian.epsilon_of_mu(1.0, delta), delta, mu)
        zeros, ones = random.normal(0, 1, (2, 2, 20 * TRIALS)) + np.array([0.0, 2.0])[:, None, None]
        threshold, _ = best_threshold(zeros[0], ones[0], claim, 0.05)
        assert errors(zeros[1], ones[1], threshold).bound(claim, 1e-5) > claim.epsilon


def test_errors_are_those_of_saying_second_from_the_threshold_on():
    counts = errors(np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0]), 1.0)
    assert counts == Counts(2, 3, 0, 2)
    assert norm.isf(0.5) == 0.0
