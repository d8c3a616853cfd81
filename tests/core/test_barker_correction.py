"""The committed correction noise against the logistic distribution, by code of the test's own."""

import math

import pytest

from dpmcmc.samplers.barker_correction import ERROR, LOCATIONS, VARIANCE, WEIGHTS


def accepted(x):
    """P(x + N(0, VARIANCE) + V > 0)."""
    sd = math.sqrt(2 * VARIANCE)
    return sum(
        w * 0.25 * (math.erfc(-(x + m) / sd) + math.erfc(-(x - m) / sd))
        for m, w in zip(LOCATIONS, WEIGHTS, strict=True)
    )


def worst():
    return max(abs(accepted(x / 100) - 1 / (1 + math.exp(-x / 100))) for x in range(-4000, 4001))


def test_acceptance_is_as_near_to_the_logistic_as_the_table_says():
    assert worst() <= ERROR
    assert pytest.approx(ERROR, rel=1e-3) == worst()
    assert ERROR < 6e-4  # the published 100-component mixture has 2.4e-3


def test_weights_are_a_distribution_and_the_variance_is_the_accountants():
    assert sum(WEIGHTS) == pytest.approx(1.0, abs=1e-12)
    assert min(WEIGHTS) > 0
    assert VARIANCE == 2.0


def test_total_variance_is_nearly_that_of_the_logistic():
    variance = VARIANCE + sum(w * m * m for m, w in zip(LOCATIONS, WEIGHTS, strict=True))
    assert variance == pytest.approx(math.pi**2 / 3, rel=0.02)
