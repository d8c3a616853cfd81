"""The dataset and the jobs of the load: made up, of the size that the service's promises name."""

import json
import random
import time
from pathlib import Path
from typing import Any

from dpmcmc.client import Client
from dpmcmc.client.answers import FINAL
from tests.chaos.stacks import Stack

ROWS = 20_000
NAMES = ("dose", "age", "weight")
METADATA: dict[str, Any] = {
    "name": "people",
    "privacy": {
        "neighbouring": "replace_one",
        "epsilon": 2000.0,
        "delta": 1e-6,
        "branches": {"gdp": 0.5, "rdp": [[8, 0.5]]},
    },
    "columns": [
        *({"name": name, "type": "number", "lower": 0, "upper": 10} for name in NAMES),
        {"name": "cured", "type": "binary", "categories": ["no", "yes"]},
    ],
}


def write_rows(path: Path, rows: int = ROWS, seed: int = 1) -> Path:
    """A table of made-up people as CSV."""
    draw = random.Random(seed)
    lines = [",".join([*NAMES, "cured"])]
    for _ in range(rows):
        values = [draw.uniform(0, 10) for _ in NAMES]
        cured = "yes" if draw.random() < 0.1 + 0.05 * values[0] else "no"
        lines.append(",".join([*(f"{value:.3f}" for value in values), cured]))
    path.write_text("\n".join([*lines, ""]))
    return path


def furnish(on: Stack, analysts: int) -> tuple[str, list[str]]:
    """Upload the table and make analysts. Returns the dataset's id and their keys."""
    rows = write_rows(on.folder / "rows.csv")
    with Client(next(iter(on.apis)), on.admin_key) as admin:
        dataset = str(admin.upload(rows, METADATA)["id"])
        keys = [str(admin.create_user(f"analyst {n}", "analyst")["key"]) for n in range(analysts)]
    return dataset, keys


def finished(on: Stack, key: str, dataset: str, **sampler: Any) -> str:
    """The id of a job that has succeeded."""
    with Client(next(iter(on.apis)), key) as analyst:
        job = str(analyst.submit(body(dataset, 1.0, **sampler))["id"])
        while (status := analyst.job(job)["status"]) not in FINAL:
            time.sleep(0.2)
    if status != "succeeded":
        raise RuntimeError(f"a job before the load {status}")
    return job


def metadata(name: str) -> str:
    """The same with a budget of its own, as JSON."""
    reason = {"reason": "the load of a test uploads one table often"}
    return json.dumps({**METADATA, "name": name, "separate_budget": reason})


Json = dict[str, Any]


def body(dataset: str, epsilon: float, **sampler: Any) -> dict[str, Any]:
    """A job; without options of a sampler the planner chooses."""
    made: dict[str, Any] = {
        "dataset": dataset,
        "model": {"family": "logistic", "formula": "cured ~ dose + age + weight"},
        "privacy": {"epsilon": epsilon, "delta": 1e-7},
        "accept_low_quality": True,
    }
    return made | ({"sampler": sampler} if sampler else {})
