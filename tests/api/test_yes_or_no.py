"""A response of 0 and 1 that is declared as a number: plans say so, and logistic takes it."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.api.support import METADATA, House

COLUMNS = [
    {"name": "x", "type": "number", "lower": 0, "upper": 10},
    {"name": "y", "type": "number", "lower": 0, "upper": 1},
]
ROWS = 20_000


def rows(truth: bool) -> bytes:
    random = np.random.default_rng(1)
    x = random.uniform(0, 10, ROWS)
    y = random.random(ROWS) < 1 / (1 + np.exp(1 - 0.25 * x))
    if not truth:
        lines = [f"{a!r},{int(b)}" for a, b in zip(x.tolist(), y, strict=True)]
        return "\n".join(["x,y", *lines]).encode()
    sink = io.BytesIO()
    parquet.write_table(pa.table({"x": pa.array(x), "y": pa.array(y)}), sink)
    return sink.getvalue()


def job_of(dataset: str, family: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": {"family": family, "formula": "y ~ x"},
        "privacy": {"epsilon": 2.0, "delta": 1e-6},
    }


@pytest.mark.parametrize("truth", [False, True])
def test_logistic_takes_a_number_that_is_0_or_1(house: House, truth: bool) -> None:
    made = house.admin.upload(rows(truth), METADATA | {"columns": COLUMNS})
    assert made.status_code == 201, made.text
    analyst, dataset = house.user("analyst"), made.json()["id"]
    linear = analyst.post("/v1/plans", json=job_of(dataset, "linear")).json()
    assert any("family logistic takes it" in one for one in linear["warnings"])
    asked = job_of(dataset, "logistic")
    plan = analyst.post("/v1/plans", json=asked).json()
    assert any("a half or more count as 1" in one for one in plan["warnings"])
    job = analyst.post("/v1/jobs", json=asked).json()["id"]
    house.run(job)
    summary = analyst.get(f"/v1/jobs/{job}/summary").json()
    assert summary["verdict"]["status"] == "reliable"
    slope = next(one for one in summary["parameters"] if one["name"] == "x")
    assert abs(slope["mean"] - 0.25) < 4 * slope["sd"]
    assert slope["sd"] < 0.02
