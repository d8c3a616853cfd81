"""Which statistic tells most, from public facts alone."""

import math

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


@pytest.mark.parametrize(
    "wrong", [{"thetas": ()}, {"powers": ()}, {"epsilon": "1"}, {"noise": "smooth_laplace"}]
)
def test_what_cannot_be_known_is_refused(wrong):
    with pytest.raises(SpecError):
        choose_statistic(SCHEMA, "x", NormalVariance(), **ASKED | wrong)
