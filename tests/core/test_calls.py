"""What a call of the library refuses, it refuses before the budget is touched."""

import re

import numpy as np
import pytest

from dpmcmc import (
    Budget,
    JobSpec,
    Mean,
    ModelSpec,
    PrivacySpec,
    Schema,
    SpecError,
    describe,
    plan,
    release_in_two_stages,
    release_statistic,
    sample,
    synthesise,
)
from dpmcmc.privacy.promises import too_likely
from dpmcmc.statistics.populations import NormalMean
from dpmcmc.tasks import StatisticTask, SummariesTask, SyntheticTask, TaskSpec, plan_task

ROWS = 100
rng = np.random.default_rng(1)
DATA = {
    "x": rng.uniform(0, 1, ROWS),
    "y": rng.choice(["no", "yes"], ROWS),
    "z": rng.choice(["a", "b", "c"], ROWS),
}
SCHEMA = Schema.from_frame(DATA, {"x": (0, 1), "y": ("no", "yes"), "z": ("a", "b", "c")})
MODEL = ModelSpec(family="logistic", formula="y ~ x")

CALLS = {
    "sample": (sample, {"formula": "y ~ x", "data": DATA, "schema": SCHEMA, "epsilon": 1.0}),
    "describe": (
        describe,
        {"data": DATA, "statistics": [Mean(column="x")], "schema": SCHEMA, "epsilon": 1.0},
    ),
    "synthesise": (
        synthesise,
        {"data": DATA, "schema": SCHEMA, "epsilon": 1.0, "columns": ["y"], "tables": 2},
    ),
    "release_statistic": (
        release_statistic,
        {"data": DATA, "column": "x", "schema": SCHEMA, "epsilon": 1.0},
    ),
    "release_in_two_stages": (
        release_in_two_stages,
        {
            "data": DATA,
            "column": "x",
            "population": NormalMean(sd=1.0),
            "schema": SCHEMA,
            "first_rows": 50,
            "thetas": (0.2, 0.5),
            "powers": (1.0, 2.0),
            "epsilon": 1.0,
            "noise": "gaussian",
        },
    ),
}


@pytest.mark.parametrize(
    ("delta", "rows", "is_likely"),
    [
        (0.01, 100, True),
        (0.0099, 100, False),
        (1 / 49, 49, True),  # the product is below 1
        (np.nextafter(1 / 49, 0), 49, False),
        (0.9, 1, False),
        (1e-20, 10**20, True),
        (1e-21, 10**20, False),
        (0.5, 0, False),
    ],
)
def test_a_delta_of_one_in_the_rows_is_no_promise(delta, rows, is_likely):
    assert too_likely(float(delta), rows) == is_likely


@pytest.mark.parametrize("delta", [0.9, 0.1, 0.05, 1 / ROWS])
@pytest.mark.parametrize("whose", ["call", "budget"])
@pytest.mark.parametrize("name", CALLS)
def test_no_call_takes_a_delta_of_one_in_the_rows(name, whose, delta):
    call, given = CALLS[name]
    budget = Budget(10.0, delta if whose == "budget" else 1e-6)
    asked = {"delta": delta if whose == "call" else 1e-6, "budget": budget}
    with pytest.raises(SpecError) as found:
        call(**given | asked)
    assert (budget.spent, budget.calls) == (0.0, 0)
    assert re.search("/delta$", found.value.pointer)
    if delta <= 0.1:  # larger ones are refused whatever the rows
        assert f"with {ROWS} rows" in found.value.message


def test_no_plan_has_a_delta_of_one_in_the_rows():
    privacy = PrivacySpec(epsilon=1.0, delta=1 / ROWS)
    with pytest.raises(SpecError, match=f"with {ROWS} rows"):
        plan(SCHEMA, JobSpec(model=MODEL, privacy=privacy))
    tasks = (
        SummariesTask(statistics=(Mean(column="x"),)),
        StatisticTask(column="x"),
        SyntheticTask(columns=("y",)),
    )
    for task in tasks:
        with pytest.raises(SpecError, match=f"with {ROWS} rows"):
            plan_task(SCHEMA, TaskSpec(task=task, privacy=privacy))


def test_a_delta_below_one_in_the_rows_is_taken():
    for name, (call, given) in CALLS.items():
        budget = Budget(10.0, 0.009)
        call(**given | {"delta": 0.009, "budget": budget})
        assert budget.calls == 1, name
