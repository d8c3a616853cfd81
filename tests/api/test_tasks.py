"""Jobs that release something else than a posterior, from the plan to the result."""

import csv
import io
import json
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from pydantic import TypeAdapter

from app.api.schemas import TaskOut
from dpmcmc.privacy import accountant
from tests.api.support import Caller, House, job_of

DELTA, ROWS = 1e-6, 2000
METADATA = {
    "name": "people",
    "privacy": {"neighbouring": "replace_one", "epsilon": 30.0, "delta": DELTA},
    "columns": [
        {"name": "age", "type": "number", "lower": 0, "upper": 100},
        {"name": "sex", "type": "category", "categories": ["Female", "Male"]},
        {"name": "rich", "type": "binary", "categories": ["no", "yes"]},
    ],
}
MEAN = {"kind": "mean", "column": "age"}
COUNTS = {"kind": "counts", "columns": ["sex"]}
STATISTICS = [
    MEAN,
    {"kind": "quantiles", "column": "age", "at": [0.5], "bins": 50},
    {"kind": "counts", "columns": ["sex", "rich"]},
]


def people() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    sex, age = rng.random(ROWS) < 0.4, np.clip(rng.normal(45, 15, ROWS), 0, 100)
    rich = rng.random(ROWS) < np.where(sex, 0.6, 0.2)
    return {"age": age, "sex": np.where(sex, "Male", "Female"), "rich": np.where(rich, "yes", "no")}


@pytest.fixture
def dataset(house: House) -> str:
    data = people()
    lines = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    answer = house.admin.upload("\n".join(lines).encode(), METADATA)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def asked(dataset: str, epsilon: float = 4.0, **task: Any) -> dict[str, Any]:
    return {"dataset": dataset, "task": task, "privacy": {"epsilon": epsilon, "delta": DELTA}}


def summaries(dataset: str, epsilon: float = 4.0) -> dict[str, Any]:
    return asked(dataset, epsilon, kind="summaries", statistics=STATISTICS)


def ran(house: House, analyst: Caller, body: dict[str, Any]) -> str:
    """The address of a job that succeeded."""
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    place = f"/v1/jobs/{answer.json()['id']}"
    found = analyst.get(place).json()
    assert found["status"] == "succeeded", found["error"]
    assert found["progress"]["step"] == found["progress"]["of"]
    return place


def result_of(analyst: Caller, place: str) -> dict[str, Any]:
    """What a task released, as the document says that it is."""
    answer = analyst.get(f"{place}/result")
    assert answer.status_code == 200, answer.text
    assert TypeAdapter(TaskOut).validate_json(answer.content)
    found: dict[str, Any] = answer.json()
    return found


def spent(house: House, dataset: str) -> float:
    budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]
    return float(budget["spent"]["epsilon"])


def test_summaries_are_planned_paid_for_and_told_with_intervals(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    plan = analyst.post("/v1/plans", json=summaries(dataset)).json()
    assert (plan["algorithm"], plan["affordable"], plan["usable"]) == ("summaries", True, True)
    assert 3.99 < plan["epsilon"] <= 4.0
    assert spent(house, dataset) == 0.0
    place = ran(house, analyst, summaries(dataset))
    assert spent(house, dataset) == pytest.approx(plan["epsilon"], rel=1e-6)
    told = result_of(analyst, place)
    found = {one["name"]: one for one in told["estimates"]}
    data = people()
    truth = {
        "mean of age": data["age"].mean(),
        "sd of age": data["age"].std(),
        "age, quantile 0.5": np.median(data["age"]),
        "share of sex Male, rich yes": np.mean((data["sex"] == "Male") & (data["rich"] == "yes")),
    }
    for name, value in truth.items():
        one = found[name]
        assert one["lower"] < one["estimate"] < one["upper"]
        width = one["upper"] - one["lower"]
        assert abs(one["estimate"] - value) < width
    again = analyst.get(f"{place}/result?level=0.5&target=rows").json()
    narrow = {one["name"]: one for one in again["estimates"]}["mean of age"]
    assert narrow["estimate"] == found["mean of age"]["estimate"]
    assert narrow["upper"] < found["mean of age"]["upper"]
    assert spent(house, dataset) == pytest.approx(plan["epsilon"], rel=1e-6)
    shown = analyst.get(place).json()
    assert (shown["algorithm"], shown["verdict"]["status"]) == ("summaries", "reliable")
    assert shown["spec"]["task"]["statistics"][0]["column"] == "age"


def test_synthetic_tables_are_like_the_rows_where_the_marginals_hold_them(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    task = {"kind": "synthetic", "columns": ["sex", "rich", "age"], "tables": 3, "moves": 60}
    task |= {"bins": {"age": 2}}
    place = ran(house, analyst, asked(dataset, 20.0, **task))
    told = result_of(analyst, place)
    assert (told["tables"], told["rows"], told["columns"]) == (3, ROWS, ["sex", "rich", "age"])
    assert [one["columns"] for one in told["marginals"]] == [
        ["sex", "rich"], ["sex", "age"], ["rich", "age"],
    ]  # fmt: skip
    data, text = people(), analyst.get(f"{place}/tables/0", headers={"Accept": "text/csv"}).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == ROWS
    share = np.mean([row["sex"] == "Male" and row["rich"] == "yes" for row in rows])
    assert share == pytest.approx(
        np.mean((data["sex"] == "Male") & (data["rich"] == "yes")), abs=0.05
    )
    assert all(0 <= float(row["age"]) <= 100 for row in rows)
    kind = {"Accept": "application/vnd.apache.parquet"}
    frame = pyarrow.parquet.read_table(
        io.BytesIO(analyst.get(f"{place}/tables/0", headers=kind).content)
    )
    assert frame.column_names == ["sex", "rich", "age"]
    assert frame["sex"].to_pylist() == [row["sex"] for row in rows]
    other = analyst.get(f"{place}/tables/2").text
    assert other != text
    assert analyst.get(f"{place}/tables/3").status_code == 404
    assert analyst.get(f"{place}/tables/0", headers={"Accept": "image/png"}).status_code == 406


STATISTIC = {"kind": "statistic", "column": "age"}


@pytest.mark.parametrize(
    ("task", "noise"),
    [
        (STATISTIC, "gaussian"),
        (STATISTIC | {"noise": "laplace"}, "laplace"),
        (STATISTIC | {"a": 2.0, "form": "sequential"}, "gaussian"),
    ],
)
def test_a_statistic_says_the_law_of_its_noise(
    house: House, dataset: str, task: dict[str, Any], noise: str
) -> None:
    analyst = house.user("analyst")
    told = result_of(analyst, ran(house, analyst, asked(dataset, 3.0, **task)))
    assert told["noise"]["kind"] == noise
    ages = people()["age"]
    assert told["rows"] == ROWS
    if told["form"] == "batch":
        sd = told["noise"].get("sd", 2**0.5 * told["noise"].get("scale", 0.0))
        assert abs(told["values"][0] - ages.sum()) < 6.0 * sd
    else:
        assert len(told["values"]) == ROWS


def test_rows_that_are_flipped_and_noise_that_no_branch_bounds(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    flipped = {"kind": "statistic", "column": "rich", "form": "sequential"}
    flipped |= {"noise": "randomised_response"}
    told = result_of(analyst, ran(house, analyst, asked(dataset, 2.0, **flipped)))
    assert set(told["values"]) == {0.0, 1.0}
    keep = told["noise"]["keep_probability"]
    share = (np.mean(told["values"]) - 1.0 + keep) / (2.0 * keep - 1.0)
    assert share == pytest.approx(np.mean(people()["rich"] == "yes"), abs=0.1)
    before = spent(house, dataset)
    median = STATISTIC | {"form": "median", "noise": "smooth_laplace"}
    for path in ("/v1/plans", "/v1/jobs"):
        answer = analyst.post(path, json=asked(dataset, 1.0, **median))
        assert answer.status_code == 422, answer.text
        (error,) = answer.json()["errors"]
        assert error["pointer"] == "/task/noise"
        assert "has a failure share, and a job whose delta is no more than" in error["message"]
    assert spent(house, dataset) == before


def test_a_gaussian_statistic_costs_what_its_event_does(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    plan = analyst.post("/v1/plans", json=asked(dataset, 3.0, **STATISTIC)).json()
    z = accountant.noise_multiplier_for(3.0, DELTA, 1)
    assert plan["mu"] == pytest.approx(1.0 / z)
    assert plan["noise_multiplier"] == pytest.approx(z)


def test_what_a_task_has_not_is_refused_and_a_chain_has_no_result(
    house: House, dataset: str
) -> None:
    analyst, other = house.user("analyst"), house.user("analyst")
    place = ran(house, analyst, summaries(dataset, 1.0))
    for what in ("chain", "summary"):
        answer = analyst.get(f"{place}/{what}")
        assert (answer.status_code, answer.json()["code"]) == (409, "job_without_chain")
    answer = analyst.post(f"{place}/posteriors", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "job_without_chain")
    assert analyst.get(f"{place}/tables/0").status_code == 404
    assert other.get(f"{place}/result").status_code == 404
    body = job_of(dataset, num_steps=20) | {
        "model": {"family": "logistic", "formula": "rich ~ age"}
    }
    chain = ran(house, analyst, body)
    answer = analyst.get(f"{chain}/result")
    assert (answer.status_code, answer.json()["code"]) == (409, "job_without_result")
    waiting = analyst.post("/v1/jobs", json=summaries(dataset, 0.5)).json()["id"]
    assert analyst.get(f"/v1/jobs/{waiting}/result").json()["code"] == "job_not_finished"
    listed = analyst.get("/v1/jobs").json()["items"]
    assert [one["algorithm"] for one in listed] == ["summaries", "dp_penalty", "summaries"]


@pytest.mark.parametrize(
    ("task", "pointer"),
    [
        ({"kind": "summaries", "statistics": []}, "/task/statistics"),
        (
            {"kind": "summaries", "statistics": [{"kind": "mean", "column": "sex"}]},
            "/task/statistics",
        ),
        ({"kind": "summaries", "statistics": [{"kind": "mode", "column": "age"}]}, "/task"),
        ({"kind": "synthetic", "columns": ["sex", "nobody"]}, "/task/columns"),
        ({"kind": "summaries", "statistics": [COUNTS | {"bins": {"age": 3}}]}, "/task/statistics"),
        ({"kind": "synthetic", "columns": []}, "/task/columns"),
        ({"kind": "synthetic", "columns": ["sex"], "bins": {"age": 3}}, "/task/bins"),
        ({"kind": "synthetic", "tables": 1}, "/task/tables"),
        ({"kind": "synthetic", "marginals": [["sex"]]}, "/task/marginals"),
        ({"kind": "statistic", "column": "sex"}, "/task/column"),
        ({"kind": "statistic", "column": "age", "form": "median"}, "/task/noise"),
        ({"kind": "regression"}, "/task"),
        ({"kind": "statistic", "column": "age", "seed": 1}, "/task"),
    ],
)
def test_a_wrong_task_is_told_where_it_is_wrong_and_costs_nothing(
    house: House, dataset: str, task: dict[str, Any], pointer: str
) -> None:
    analyst = house.user("analyst")
    for path in ("/v1/plans", "/v1/jobs"):
        answer = analyst.post(path, json=asked(dataset, 1.0, **task))
        assert answer.status_code == 422, answer.text
        assert any(one["pointer"].startswith(pointer) for one in answer.json()["errors"]), (
            answer.text
        )
    assert spent(house, dataset) == 0.0


def test_budgets_and_idempotency_hold_for_tasks(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    key = {"Idempotency-Key": "once"}
    first = analyst.post("/v1/jobs", json=summaries(dataset, 20.0), headers=key)
    again = analyst.post("/v1/jobs", json=summaries(dataset, 20.0), headers=key)
    assert first.json()["id"] == again.json()["id"]
    changed = analyst.post("/v1/jobs", json=summaries(dataset, 1.0), headers=key)
    assert changed.json()["code"] == "idempotency_key_reused"
    refused = analyst.post("/v1/jobs", json=summaries(dataset, 29.0))
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exhausted")


def test_nothing_of_the_rows_is_in_a_plan(house: House, dataset: str) -> None:
    """The same of a dataset whose rows are all alike."""
    lines = ["age,sex,rich", *["1,Male,no"] * ROWS]
    other = house.admin.upload("\n".join(lines).encode(), METADATA).json()["id"]
    analyst = house.user("analyst")
    plans = [analyst.post("/v1/plans", json=summaries(d)).json() for d in (dataset, other)]
    assert json.dumps(plans[0]) == json.dumps(plans[1])


WHOLE = METADATA | {
    "columns": [
        {"name": "age", "type": "number", "lower": 0, "upper": 100, "integer": True},
        {
            "name": "gain",
            "type": "number",
            "lower": 0,
            "upper": 1e5,
            "spikes": [0],
            "missing": [-9],
        },
    ]
}


def whole_people() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    gain = np.where(rng.random(ROWS) < 0.85, 0.0, rng.exponential(30_000.0, ROWS)).round(2)
    age = np.clip(np.round(rng.normal(45, 15, ROWS)), 0, 100).astype(int)
    return {"age": age, "gain": np.where(rng.random(ROWS) < 0.05, -9, np.minimum(gain, 1e5))}


def as_file(data: dict[str, Any], kind: str) -> bytes:
    if kind == "parquet":
        out = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.table(data), out)
        return out.getvalue().to_pybytes()
    rows = zip(*(values.tolist() for values in data.values()), strict=True)
    return "\n".join([",".join(data), *(",".join(map(str, row)) for row in rows)]).encode()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_whole_numbers_and_spikes_stay_what_they_are(house: House, kind: str) -> None:
    data = whole_people()
    answer = house.admin.upload(as_file(data, kind), WHOLE)
    assert answer.status_code == 201, answer.text
    dataset, analyst = str(answer.json()["id"]), house.user("analyst")
    columns = analyst.get(f"/v1/datasets/{dataset}").json()["columns"]
    assert (columns[0]["integer"], columns[1]["spikes"]) == (True, [0.0])
    assert "spikes" not in columns[0]
    tables = {"kind": "synthetic", "tables": 2, "bins": {"age": 10}, "moves": 40}
    tables["marginals"] = [["age"], ["gain"]]
    place = ran(house, analyst, asked(dataset, 8.0, **tables))
    told = result_of(analyst, place)
    assert told["levels"]["age"][0] == "0 to 9"
    assert told["levels"]["gain"][-2:] == ["0", "missing"]
    reasons = analyst.get(place).json()["verdict"]["reasons"]
    assert not any("bins" in one or "released" in one for one in reasons)
    rows = list(csv.DictReader(io.StringIO(analyst.get(f"{place}/tables/1").text)))
    assert all(row["age"].isdecimal() for row in rows)
    zeros = np.mean([row["gain"] == "0.0" for row in rows])
    assert zeros == pytest.approx(np.mean(data["gain"] == 0.0), abs=0.05)
    accept = {"Accept": "application/vnd.apache.parquet"}
    stored = analyst.get(f"{place}/tables/0", headers=accept).content
    table = pyarrow.parquet.read_table(pyarrow.BufferReader(stored))
    assert str(table.schema.field("age").type) == "int64"
    assert np.mean(table["age"].to_numpy()) == pytest.approx(data["age"].mean(), abs=3.0)
    asks = [{"kind": "quantiles", "column": "age"}, {"kind": "counts", "columns": ["gain"]}]
    place = ran(house, analyst, asked(dataset, 4.0, kind="summaries", statistics=asks))
    for one in result_of(analyst, place)["estimates"]:
        assert one["lower"] <= one["estimate"] <= one["upper"]
        if "quantile" in one["name"]:
            assert all(float(one[end]).is_integer() for end in ("lower", "estimate", "upper"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fractions_in_a_column_of_whole_numbers_are_counted_for_the_admin(
    house: House, kind: str
) -> None:
    data = whole_people()
    data["age"] = data["age"] + np.where(np.arange(ROWS) < 3, 0.5, 0.0)
    answer = house.admin.upload(as_file(data, kind), WHOLE)
    assert answer.status_code == 422
    assert answer.json()["code"] == "not_whole"
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/metadata/columns/0"
    assert error["message"].startswith("3 values are not whole")


@pytest.mark.parametrize(
    "given",
    [
        {"integer": "true"},
        {"integer": 1},
        {"integer": True, "lower": 0.5},
        {"integer": True, "upper": 1e20},
        {"integer": True, "spikes": [0.5]},
        {"spikes": 0},
        {"spikes": [101]},
        {"spikes": [0, 0]},
        {"spikes": [-9], "missing": [-9], "lower": -10},
        {"spikes": ["0"]},
        {"spikes": list(range(21))},
    ],
)
def test_columns_that_cannot_be_are_refused_where_they_are_declared(
    house: House, given: dict[str, Any]
) -> None:
    age = {"name": "age", "type": "number", "lower": 0, "upper": 100} | given
    answer = house.admin.upload(
        as_file(whole_people(), "csv"), WHOLE | {"columns": [age, WHOLE["columns"][1]]}
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("/metadata/columns/0")


def test_tables_whose_bins_say_nothing_of_a_column_are_not_reliable(house: House) -> None:
    columns = [WHOLE["columns"][0], WHOLE["columns"][1] | {"spikes": [], "upper": 1e6}]
    answer = house.admin.upload(as_file(whole_people(), "csv"), WHOLE | {"columns": columns})
    analyst = house.user("analyst")
    place = ran(
        house,
        analyst,
        asked(
            str(answer.json()["id"]),
            8.0,
            kind="synthetic",
            tables=2,
            moves=40,
            marginals=[["age"], ["gain"]],
        ),
    )
    verdict = analyst.get(place).json()["verdict"]
    assert verdict["status"] == "unreliable"
    (reason,) = (one for one in verdict["reasons"] if "bins" in one)
    assert "'gain'" in reason


@pytest.mark.parametrize("rows", [3, 10, 30])
def test_synthetic_tables_of_few_rows_are_refused(house: House, rows: int) -> None:
    data = {name: values[:rows] for name, values in whole_people().items()}
    answer = house.admin.upload(as_file(data, "csv"), WHOLE)
    dataset, analyst = str(answer.json()["id"]), house.user("analyst")
    body = asked(dataset, 1.0, kind="synthetic", tables=2, moves=40)
    plan = analyst.post("/v1/plans", json=body).json()
    assert not plan["usable"]
    assert "noise alone moves the mean of" in plan["warnings"][0].casefold()
    refused = analyst.post("/v1/jobs", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "low_quality_plan")
    enough = refused.json()["usable_at"]["epsilon"]
    if enough is not None:
        body["privacy"]["epsilon"] = 1.01 * enough
        assert analyst.post("/v1/plans", json=body).json()["usable"]
    body["privacy"]["epsilon"] = 1.0
    verdict = analyst.get(ran(house, analyst, body | {"accept_low_quality": True})).json()
    assert verdict["verdict"]["status"] == "unreliable"


def test_what_noise_hides_is_unreliable_and_taken(house: House, dataset: str) -> None:
    analyst = house.user("analyst")
    for task in (
        {"kind": "summaries", "statistics": [MEAN]},
        {"kind": "statistic", "column": "rich", "form": "sequential"},
    ):
        body = asked(dataset, 0.01, **task)
        assert analyst.post("/v1/plans", json=body).json()["usable"] is True
        verdict = analyst.get(ran(house, analyst, body)).json()["verdict"]
        assert verdict["status"] == "unreliable"
        assert "noise alone makes" in verdict["sentence"]
        assert "at epsilon" in verdict["reasons"][0]


def test_what_pure_epsilon_leaves_is_told_beside_what_gaussian_noise_has(
    house: House, dataset: str
) -> None:
    analyst = house.user("analyst")
    body = asked(dataset, 10.0, kind="statistic", column="age", noise="laplace")
    body["privacy"] = {"epsilon": 10.0, "delta": DELTA}
    ran(house, analyst, body)
    for found in (
        house.admin.get(f"/v1/datasets/{dataset}/budget").json(),
        house.admin.get("/v1/budget").json()["items"][0],
    ):
        assert found["remaining"]["epsilon"] < found["remaining_pure"]["epsilon"]
        assert found["remaining_pure"]["epsilon"] == pytest.approx(20.0)
        assert found["remaining_failure"] == 0.0
