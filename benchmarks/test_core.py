"""What one step, one plan and one decision cost, on the demo's data. `./dev bench`."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from dpmcmc import planner
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import Column, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.privacy.accountant import epsilon
from dpmcmc.privacy.events import Gaussian, Repeat
from dpmcmc.privacy.filter import FilterState, FilterTerms, entry_cost

DATA = Path(__file__).resolve().parents[1] / "experiments" / "data"
STEPS = 500
TERMS = FilterTerms(epsilon=6.0, delta=1e-6)


@pytest.fixture(scope="module")
def schema() -> Schema:
    declared = json.loads((DATA / "randhie.json").read_text())["columns"]
    columns = TypeAdapter(tuple[Column, ...]).validate_python(declared)
    return Schema(columns=columns, rows=20_190)


@pytest.fixture(scope="module")
def rows(schema: Schema) -> dict[str, list[Any]]:
    with gzip.open(DATA / "randhie.csv.gz", "rt") as lines:
        table = list(csv.DictReader(lines))
    return {
        column.name: [
            float(row[column.name]) if isinstance(column, NumberColumn) else row[column.name]
            for row in table
        ]
        for column in schema.columns
    }


@pytest.fixture(scope="module")
def job() -> JobSpec:
    return TypeAdapter(JobSpec).validate_python(json.loads((DATA / "job.json").read_text()))


@pytest.mark.parametrize("chains", [1, 2, 8])
def test_steps_of_the_demo_job(
    benchmark: Any, schema: Schema, rows: dict[str, list[Any]], job: JobSpec, chains: int
) -> None:
    options = DpPenaltyOptions(num_steps=STEPS, num_chains=chains)
    model = ModelSpec(family="logistic", formula=job.model.formula)
    benchmark.extra_info["steps"] = STEPS * chains
    benchmark.pedantic(
        lambda: sample(
            rows,
            schema=schema,
            model=model,
            delta=1e-6,
            noise_multiplier=100.0,
            sampler=options,
            accept_low_quality=True,
        ),
        rounds=5,
        warmup_rounds=1,
    )


def test_plan_of_the_demo_job(benchmark: Any, schema: Schema, job: JobSpec) -> None:
    assert benchmark(planner.plan, schema, job).cost.epsilon <= 4.0


def test_epsilon_of_a_job(benchmark: Any) -> None:
    assert benchmark(epsilon, Repeat(Gaussian(noise_multiplier=100.0), 10_000), 1e-6) > 0


def test_decision_of_the_filter(benchmark: Any) -> None:
    cost = entry_cost(TERMS, Repeat(Gaussian(noise_multiplier=100.0), 10_000))
    state = FilterState.empty(TERMS)
    assert benchmark(lambda: TERMS.accepts(state.add(cost)))
