"""Families of released statistics: rows, probabilities and moments agree with each other."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gamma, ndtri

from dpmcmc.base.errors import SpecError
from dpmcmc.queries.statistics.families import FAMILIES, NormalMean
from dpmcmc.queries.statistics.mechanisms import Statistic

THETAS = {"bernoulli": (0.1, 0.6)}
STATISTICS = [
    Statistic("absolute_power", 1.0, -1.5, 2.0),
    Statistic("power", 1.0, -1.0, 3.0),
    Statistic("absolute_power", 0.1, -10.0, 10.0),
    Statistic("power", 3.0, 0.25, 2.0),
]
CELLS = 400_000


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_moments_are_those_of_the_rows(name, statistic):
    theta = np.array(THETAS.get(name, (0.3, 1.7)))
    family, z = FAMILIES[name](), ndtri((np.arange(CELLS) + 0.5) / CELLS)
    s = statistic.of(family.rows(theta[:, None], z))
    mean, variance = family.moments(theta, statistic)
    span = statistic.sensitivity
    assert mean == pytest.approx(s.mean(axis=1), abs=1e-5 * span)
    assert variance == pytest.approx(s.var(axis=1), abs=2e-5 * span**2)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_never_fall_as_their_normals_rise(name):
    theta = np.array(THETAS.get(name, (0.3, 1.7)))
    rows = FAMILIES[name]().rows(theta[:, None], np.linspace(-8.0, 8.0, 999))
    assert rows.shape == (2, 999)
    assert (np.diff(rows, axis=1) >= 0.0).all()


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "bernoulli"])
def test_share_below_a_number_is_that_of_rows(name):
    family, theta = FAMILIES[name](), np.array([0.4, 2.0])
    rows = family.rows(theta[:, None], ndtri((np.arange(CELLS) + 0.5) / CELLS))
    for x in (-0.7, 0.2, 1.1):
        assert family.below(theta, x) == pytest.approx((rows < x).mean(axis=1), abs=1e-5)


@pytest.mark.parametrize("a", [0.1, 0.5, 1.0, 2.0])
def test_moments_equal_closed_forms(a):
    theta, wide = np.array([0.1, 0.5, 2.0]), Statistic("absolute_power", a, -20.0, 20.0)

    def normal(b):
        return (2.0 * theta) ** (b / 2) * gamma((b + 1) / 2) / np.sqrt(np.pi)

    mean, variance = FAMILIES["normal_variance"]().moments(theta, wide)
    assert mean == pytest.approx(normal(a), rel=1e-10)
    assert variance == pytest.approx(normal(2 * a) - normal(a) ** 2, rel=1e-9)
    mean, variance = FAMILIES["uniform_width"]().moments(theta, wide)
    assert mean == pytest.approx(theta**a / (a + 1), rel=1e-10)
    spread = 1.0 / (2 * a + 1) - 1.0 / (a + 1) ** 2
    assert variance == pytest.approx(theta ** (2 * a) * spread, rel=1e-9)


@pytest.mark.parametrize("sd", [0.0, -1.0, float("inf"), float("nan")])
def test_a_standard_deviation_that_is_none_is_refused(sd):
    with pytest.raises(SpecError):
        NormalMean(sd)


def test_a_normal_row_has_its_own_standard_deviation():
    assert NormalMean(3.0).below(np.array(1.0), 4.0) == pytest.approx(stats.norm.cdf(1.0))
