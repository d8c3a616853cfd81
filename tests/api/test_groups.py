"""Models with groups over REST: a job, its effects, predictions of wards and of one not seen."""

import json
from typing import Any

import numpy as np
import pytest

from tests.api.support import House

WARDS, ROWS, SLOPE = ("east", "north", "south", "west"), 3000, 1.5
EFFECTS = {"east": -3.0, "north": 0.0, "south": 1.0, "west": 3.0}
METADATA: dict[str, Any] = {
    "name": "wards",
    "privacy": {"epsilon": 50.0, "delta": 1e-7},
    "columns": [
        {"name": "x", "type": "number", "lower": -2, "upper": 2},
        {"name": "ward", "type": "category", "categories": list(WARDS)},
        {"name": "y", "type": "number", "lower": 0, "upper": 40},
    ],
}


@pytest.fixture
def dataset(house: House) -> str:
    rng = np.random.default_rng(5)
    ward, x = rng.choice(WARDS, ROWS), rng.uniform(-2, 2, ROWS)
    effects = np.array([EFFECTS[name] for name in ward])
    y = 20.0 + SLOPE * x + effects + rng.normal(0, 2, ROWS)
    lines = [f"{a:.4f},{b},{c:.4f}" for a, b, c in zip(x, ward, y, strict=True)]
    rows = "\n".join(["x,ward,y", *lines, ""]).encode()
    files: list[Any] = [
        ("metadata", (None, json.dumps(METADATA))),
        ("file", ("rows.csv", rows)),
    ]
    answer = house.admin.post("/v1/datasets", files=files)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def body_of(dataset: str, formula: str, **model: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": {"family": "linear", "formula": formula} | model,
        "privacy": {"epsilon": 8.0, "delta": 1e-7},
    }


def test_a_job_with_groups_gives_their_sd_their_effects_and_predictions(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    answer = analyst.post("/v1/jobs", json=body_of(dataset, "y ~ x + (1 | ward)"))
    assert answer.status_code == 202, answer.text
    job = str(answer.json()["id"])
    house.run(job)
    stored = analyst.get(f"/v1/jobs/{job}").json()
    assert stored["status"] == "succeeded"
    assert stored["spec"]["model"]["prior"]["sd(ward)"]["scale"] == 10.0
    told = {one["name"]: one for one in analyst.get(f"/v1/jobs/{job}/summary").json()["parameters"]}
    names = [f"ward[{name}]" for name in WARDS]
    assert list(told) == ["Intercept", "x", "log_sigma", "sd(ward)", *names]
    for name, effect in EFFECTS.items():
        level = told["Intercept"]["mean"] + told[f"ward[{name}]"]["mean"]
        assert level == pytest.approx(20.0 + effect, abs=0.6)
    free = analyst.post(
        f"/v1/jobs/{job}/posteriors",
        json={
            "prior": {"sd(ward)": {"kind": "student_t", "df": 3, "scale": 2}},
            "given": [{"x": 0, "ward": "west"}, {"x": 0}],
            "num_draws": 2000,
        },
    )
    assert free.status_code == 200, free.text
    known, new = free.json()["predictions"]
    assert known["expected"]["mean"] == pytest.approx(23.0, abs=0.6)
    assert new["expected"]["sd"] > 4 * known["expected"]["sd"]


def test_what_groups_cannot_have_is_refused_at_its_field(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    for body, remedy in (
        (body_of(dataset, "y ~ (x | ward)"), "write (1 | ward)"),
        (body_of(dataset, "y ~ ward + (1 | ward)"), "leave one of the two out"),
        (body_of(dataset, "y ~ x + (1 | ward)", family="student_t"), "C(ward)"),
    ):
        answer = analyst.post("/v1/plans", json=body)
        assert answer.status_code == 422
        assert remedy in answer.text
