"""The choice of a statistic by Fisher information: the service says what the library does."""

import math
from typing import Any

import pytest

from dpmcmc import NumberColumn, Schema, choose_statistic
from dpmcmc.queries.statistics.questions import population_of
from tests.api.support import ROWS, House

THETAS, POWERS = [30.0, 45.0, 60.0], [0.5, 1.0, 2.0]


def question(house: House, **changes: Any) -> dict[str, Any]:
    return {
        "dataset": house.dataset(),
        "column": "age",
        "family": "normal_mean",
        "options": {"sd": 15.0},
        "thetas": THETAS,
        "powers": POWERS,
        "epsilon": 1.0,
    } | changes


def test_the_service_chooses_as_the_library(house: House) -> None:
    analyst = house.user("analyst")
    asked = question(house)
    facts = analyst.get(f"/v1/datasets/{asked['dataset']}").json()
    column = next(column for column in facts["columns"] if column["name"] == "age")
    age = NumberColumn(name="age", lower=column["lower"], upper=column["upper"])
    schema = Schema(columns=(age,), rows=facts["rows"])
    expected = choose_statistic(
        schema,
        "age",
        population_of("normal_mean", {"sd": 15.0}),
        thetas=THETAS,
        powers=POWERS,
        epsilon=1.0,
    )
    answer = analyst.post("/v1/accounting/statistic", json=asked)
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert made["power"] == expected.power
    assert {one["power"]: one["score"] for one in made["powers"]} == expected.scores
    for one in made["powers"]:
        assert one["information"] == list(expected.information[one["power"]])
        assert all(math.isfinite(value) and value > 0 for value in one["information"])
    before = analyst.get(f"/v1/datasets/{asked['dataset']}/budget").json()
    assert before["jobs"] == 0


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"column": "nobody"}, "/column"),
        ({"family": "cauchy"}, "/family"),
        ({"options": {"scale": 1.0}}, "/options"),
        ({"thetas": []}, "/thetas"),
        ({"powers": [1.0] * 65}, "/powers"),
        ({"noise": "gaussian", "delta": 0.0}, "/delta"),
        ({"epsilon": 1e-300}, "/epsilon"),
        ({"noise": "gaussian", "delta": 1 / ROWS}, "/delta"),
    ],
)
def test_wrong_questions_are_refused_by_name(
    house: House, changes: dict[str, Any], pointer: str
) -> None:
    answer = house.user("analyst").post("/v1/accounting/statistic", json=question(house, **changes))
    assert answer.status_code == 422, answer.text
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]
