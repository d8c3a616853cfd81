"""Which statistic tells most, from public facts alone."""

import math

import numpy as np
import pytest

from dpmcmc import NumberColumn, Schema, SpecError, choose_statistic
from dpmcmc.queries.statistics.populations import NormalVariance

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
