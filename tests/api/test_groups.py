"""Models with groups over REST: a job, its effects, predictions of wards and of one not seen."""

import json
from typing import Any

import numpy as np
import pytest

from app.api.questions import PosteriorOut
from tests.api.support import Caller, House

WARDS, ROWS, SLOPE = ("east", "north", "south", "west"), 3000, 1.5
EFFECTS = {"east": -3.0, "north": 0.0, "south": 1.0, "west": 3.0}
METADATA: dict[str, Any] = {
    "name": "wards",
    "privacy": {"epsilon": 50.0, "delta": 1e-7},
    "columns": [
        {"name": "x", "type": "number", "lower": -2, "upper": 2},
        {"name": "ward", "type": "category", "categories": list(WARDS)},
        {"name": "part", "type": "category", "categories": ["a", "b"]},
        {"name": "y", "type": "number", "lower": 0, "upper": 40},
    ],
}


@pytest.fixture
def dataset(house: House) -> str:
    rng = np.random.default_rng(5)
    ward, x = rng.choice(WARDS, ROWS), rng.uniform(-2, 2, ROWS)
    effects = np.array([EFFECTS[name] for name in ward])
    y = 20.0 + SLOPE * x + effects + rng.normal(0, 2, ROWS)
    part = np.where(np.arange(ROWS) % 2, "a", "b")
    lines = [f"{a:.4f},{b},{p},{c:.4f}" for a, b, p, c in zip(x, ward, part, y, strict=True)]
    rows = "\n".join(["x,ward,part,y", *lines, ""]).encode()
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


def succeeded(house: House, analyst: Caller, body: dict[str, Any]) -> tuple[str, Any]:
    """The id of a job that was run, and what its summary has of each parameter, by name."""
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    job = str(answer.json()["id"])
    house.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
    parameters = analyst.get(f"/v1/jobs/{job}/summary").json()["parameters"]
    return job, {parameter["name"]: parameter for parameter in parameters}


def test_a_job_with_groups_gives_their_sd_their_effects_and_predictions(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    job, told = succeeded(house, analyst, body_of(dataset, "y ~ x + (1 | ward)"))
    stored = analyst.get(f"/v1/jobs/{job}").json()
    assert stored["spec"]["model"]["prior"]["sd(ward)"]["scale"] == 10.0
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


def test_a_job_with_slopes_of_groups_gives_both_sds_and_their_correlation(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    body = body_of(dataset, "y ~ x + (x | ward)", prior={"sd(ward:x)": "normal(0, 2)"})
    job, told = succeeded(house, analyst, body)
    names = [f"ward[{name}]" for name in WARDS]
    laws = ["sd(ward)", "sd(ward:x)", "cor(ward:x)"]
    first = ["Intercept", "x", "log_sigma", *laws]
    assert list(told) == [*first, *names, *(f"{name}:x" for name in names)]
    assert told["sd(ward:x)"]["mean"] < 1.5  # no slope differs
    settings = [{"x": x, "ward": "west"} for x in (-1, 1)]
    asked = {"given": settings, "num_draws": 500}
    free = analyst.post(f"/v1/jobs/{job}/posteriors", json=asked)
    low, high = (one["expected"]["mean"] for one in free.json()["predictions"])
    assert high - low == pytest.approx(2 * SLOPE, abs=1.0)


def test_a_job_with_groups_within_groups_gives_both_sds_and_predictions_of_new_ones(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    body = body_of(dataset, "y ~ x + (1 | ward/part)", prior={"sd(ward:part)": "normal(0, 1)"})
    job, told = succeeded(house, analyst, body)
    names = [f"ward[{name}]" for name in WARDS]
    inner = [f"ward:part[{name}:{part}]" for name in WARDS for part in "ab"]
    laws = ["sd(ward)", "sd(ward:part)"]
    assert list(told) == ["Intercept", "x", "log_sigma", *laws, *names, *inner]
    assert told["sd(ward)"]["mean"] > 1.5 > told["sd(ward:part)"]["mean"]  # no part differs
    given = [{"x": 0, "ward": "west", "part": "a"}, {"x": 0, "ward": "west"}, {"x": 0}]
    free = analyst.post(f"/v1/jobs/{job}/posteriors", json={"given": given, "num_draws": 500})
    assert free.status_code == 200, free.text
    known, part, new = (one["expected"] for one in free.json()["predictions"])
    assert known["mean"] == pytest.approx(23.0, abs=0.7)
    assert known["sd"] < part["sd"] < new["sd"]


def test_what_groups_cannot_have_is_refused_at_its_field(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    for body, remedy in (
        (body_of(dataset, "y ~ (x | ward)"), "write x + (x | ward)"),
        (body_of(dataset, "y ~ x + (x | ward/part)"), "write (x | ward:part)"),
        (body_of(dataset, "y ~ ward + (1 | ward)"), "leave one of the two out"),
        (body_of(dataset, "y ~ x + (1 | ward)", family="student_t"), "C(ward)"),
    ):
        answer = analyst.post("/v1/plans", json=body)
        assert answer.status_code == 422
        assert remedy in answer.text


def test_a_job_with_a_smooth_gives_its_sd_and_predictions_along_it(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    body = body_of(dataset, "y ~ s(x)", prior={"sd(s(x))": "normal(0, 2)"})
    job, told = succeeded(house, analyst, body)
    curves = [f"s(x)[{k}]" for k in range(1, 6)]
    assert list(told) == ["Intercept", *curves, "log_sigma", "sd(s(x))"]
    free = analyst.post(
        f"/v1/jobs/{job}/posteriors",
        json={
            "prior": {"sd(s(x))": {"kind": "student_t", "df": 3, "scale": 0.1}},
            "given": [{"x": x} for x in (-1.5, 0, 1.5)],
            "curves": [{"covariate": "x", "points": 5}],
            "num_draws": 2000,
        },
    )
    assert free.status_code == 200, free.text
    assert PosteriorOut.model_validate(free.json()).model_dump(mode="json") == free.json()
    (along,) = free.json()["curves"]
    assert along["at"] == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert along["expected"][2]["mean"] == pytest.approx(20.0, abs=1.0)
    path = f"/v1/jobs/{job}/posteriors"
    wrong = analyst.post(path, json={"curves": [{"covariate": "ward"}]})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["pointer"] == "/curves/0/covariate"
    means = [one["expected"]["mean"] for one in free.json()["predictions"]]
    assert means == pytest.approx([20 + SLOPE * x for x in (-1.5, 0, 1.5)], abs=1.0)
    refused = analyst.post("/v1/plans", json=body_of(dataset, "y ~ s(x, by=ward)"))
    assert refused.status_code == 422
    assert "ns(x, df=4):g" in refused.text
