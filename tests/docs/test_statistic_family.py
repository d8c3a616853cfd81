"""The guide that adds a family of released statistics: its own code is what is run."""

import contextlib
import io
import types

import numpy as np
import pytest

from dpmcmc.queries.statistics.families import FAMILIES
from tests.core import test_statistic_families as conformance
from tests.docs.pages import blocks, built

GUIDE, MOST_LINES = "add_a_statistic_family.md", 60


@pytest.fixture(scope="module")
def module():
    """The file that the page builds, and its example run."""
    made = types.ModuleType("exponential_mean")
    exec(compile(built(GUIDE), GUIDE, "exec"), made.__dict__)
    return made


def test_the_family_is_short_and_named_by_its_line(module):
    assert len(built(GUIDE).splitlines()) <= MOST_LINES
    (line,) = blocks(GUIDE, "diff")
    assert line.strip() == f'+    "exponential_mean": {module.ExponentialMean.__name__},'


def test_the_example_gives_the_posterior_without_bias(module):
    """Mean 3.13 with sd sqrt(100 * 9.8 + 2 * 20^2) / 100 = .42; a flat prior shifts it up a bit."""
    (code,) = blocks(GUIDE, "python", run=True)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(code, GUIDE, "exec"), module.__dict__)
    mean, sd = (float(word) for word in told.getvalue().splitlines()[0].split())
    assert mean == pytest.approx(3.2, abs=0.15)
    assert sd == pytest.approx(0.43, abs=0.06)
    assert "Reliable" in told.getvalue()


@pytest.mark.parametrize("statistic", conformance.STATISTICS)
def test_registration_brings_the_tests_of_all_families(module, monkeypatch, statistic):
    monkeypatch.setitem(FAMILIES, "exponential_mean", module.ExponentialMean)
    conformance.test_moments_are_those_of_the_rows("exponential_mean", statistic)
    conformance.test_rows_never_fall_as_their_normals_rise("exponential_mean")
    conformance.test_share_below_a_number_is_that_of_rows("exponential_mean")


def test_moments_of_exponential_rows_are_known(module):
    theta = np.array([0.5, 2.0])
    wide = conformance.Statistic("power", 1.0, 0.0, 200.0)
    mean, variance = module.ExponentialMean().moments(theta, wide)
    assert mean == pytest.approx(theta, rel=1e-9)
    assert variance == pytest.approx(theta**2, rel=1e-9)
