"""Which statistic tells most, from public facts alone."""

import math
import warnings

import numpy as np
import pytest

from dpmcmc import NumberColumn, Schema, SpecError, choose_statistic
from dpmcmc.queries.statistics.populations import (
    POPULATIONS,
    Bernoulli,
    NormalMean,
    NormalVariance,
    UniformWidth,
)
from dpmcmc.queries.statistics.questions import family_of

SCHEMA = Schema(columns=(NumberColumn(name="x", lower=-10, upper=10),), rows=1000)
ASKED = {"thetas": (1.0, 2.0), "powers": (0.5, 1.0, 2.0), "epsilon": 1.0}


@pytest.mark.parametrize("noise", [("laplace", 0.0), ("gaussian", 1e-6)])
def test_the_power_with_the_least_mean_inverse_information_is_chosen(noise):
    told = {"noise": noise[0], "delta": noise[1]}
    made = choose_statistic(SCHEMA, "x", NormalVariance(), **ASKED, **told)
    assert made.power == min(made.scores, key=made.scores.get)
    assert set(made.information) == set(ASKED["powers"])
    for a, found in made.information.items():
        assert made.scores[a] == pytest.approx(math.fsum(1.0 / one for one in found) / 2)
    more = choose_statistic(SCHEMA, "x", NormalVariance(), **ASKED | {"epsilon": 10.0}, **told)
    assert all(more.information[a][0] > made.information[a][0] for a in made.information)


def test_arrays_of_numbers_are_lists_of_them():
    expected = choose_statistic(SCHEMA, "x", NormalVariance(), **ASKED)
    arrays = {name: np.array(ASKED[name]) for name in ("thetas", "powers")}
    assert choose_statistic(SCHEMA, "x", NormalVariance(), **ASKED | arrays) == expected


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"thetas": 4}, "/thetas"),
        ({"powers": 1.0}, "/powers"),
        ({"thetas": "12"}, "/thetas"),
        ({"thetas": [1.0, "2"]}, "/thetas"),
        ({"thetas": np.ones((2, 2))}, "/thetas"),
        ({"powers": [1.0, None]}, "/powers"),
        ({"powers": {1.0: 2.0}}, "/powers"),
        ({"thetas": None}, "/thetas"),
        ({"population": "normal_variance"}, "/population"),
        ({"population": NormalVariance}, "/population"),
        ({"population": None}, "/population"),
    ],
)
def test_what_is_no_question_is_refused_by_name(wrong, pointer):
    asked = {"population": NormalVariance()} | ASKED | wrong
    population = asked.pop("population")
    with pytest.raises(SpecError) as found:
        choose_statistic(SCHEMA, "x", population, **asked)
    assert found.value.pointer == pointer


@pytest.mark.parametrize(
    "wrong", [{"thetas": ()}, {"powers": ()}, {"epsilon": "1"}, {"noise": "smooth_laplace"}]
)
def test_what_cannot_be_known_is_refused(wrong):
    with pytest.raises(SpecError):
        choose_statistic(SCHEMA, "x", NormalVariance(), **ASKED | wrong)


@pytest.mark.parametrize("noise", [("laplace", 0.0), ("gaussian", 1e-6)])
@pytest.mark.parametrize(
    ("population", "theta"),
    [
        (NormalVariance(), 0.0),
        (NormalVariance(), -1.0),
        (NormalVariance(), 1e300),
        (UniformWidth(), -1.0),
        (NormalMean(), math.inf),
        (NormalMean(), math.nan),
        (Bernoulli(), 1.0),
    ],
)
def test_what_is_no_value_of_the_unknown_number_is_refused_without_a_warning(
    noise, population, theta
):
    """Of a width below 0 the information was that of its size, of a variance of 0 no number."""
    told = {"noise": noise[0], "delta": noise[1], "thetas": (0.5, theta)}
    with warnings.catch_warnings(action="error"), pytest.raises(SpecError) as found:
        choose_statistic(SCHEMA, "x", population, **ASKED | told)
    assert found.value.pointer == "/thetas"


def test_every_population_has_the_range_of_its_family():
    for name, population in POPULATIONS.items():
        options = {"sd": 1.0} if name == "normal_mean" else {}
        assert population.range == family_of(name, options).range


def test_a_spread_too_small_for_its_information_is_refused_without_a_warning():
    asked = ASKED | {"noise": "gaussian", "delta": 1e-6}
    with warnings.catch_warnings(action="error"), pytest.raises(SpecError, match="not finite"):
        choose_statistic(SCHEMA, "x", NormalMean(sd=1e-300), **asked)
