"""Promises that make no sense, and numbers that nothing can be computed with, are refused."""

import copy
import json
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from app import serve
from app.services.datasets import uploads
from app.settings import Settings, settings
from dpmcmc import Budget
from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from tests.api.support import METADATA, ROWS, House, as_csv, csv_rows, job_of


def promised(**privacy: Any) -> dict[str, Any]:
    made = copy.deepcopy(METADATA)
    made["privacy"] |= privacy
    return made


@pytest.mark.parametrize("delta", [0.5 / 20, 1 / 20, 0.5])
def test_a_delta_of_one_in_the_rows_is_refused(house: House, delta: float) -> None:
    """Publishing a row picked at random keeps such a promise."""
    answer = house.admin.upload(as_csv(csv_rows(20)), promised(delta=delta))
    if delta * 20 < 1:
        assert answer.status_code == 201
        return
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "/metadata/privacy/delta"
    assert "1 / rows" in fault["message"]
    assert not any(house.settings.datasets_dir.glob("*.rows"))
    assert house.admin.get("/v1/datasets").json()["items"] == []


@pytest.mark.parametrize("delta", [0.11, 0.9])
def test_a_delta_above_a_tenth_is_no_promise_for_any_table(house: House, delta: float) -> None:
    """A budget of the library is refused it as well, before any rows are named."""
    refused = house.admin.upload(as_csv(csv_rows(1)), promised(delta=delta))
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/metadata/privacy/delta"
    made = house.admin.upload(as_csv(csv_rows(1)), promised(delta=0.1)).json()
    change = {"privacy": {"delta": delta}}
    raised = house.admin.call("PATCH", f"/v1/datasets/{made['id']}", json=change)
    assert raised.status_code == 422
    assert raised.json()["errors"][0]["pointer"] == "/privacy/delta"
    with pytest.raises(ValueError, match="delta must be at most"):
        Budget(1.0, delta)


def test_a_delta_is_told_of_persons_where_these_are_protected(house: House) -> None:
    rows = "\n".join(["p,age", *(f"{k % 10},{20 + k}" for k in range(50))]).encode()
    age = [{"name": "age", "type": "number", "lower": 0, "upper": 100}]
    unit = {"column": "p", "max_rows": 5}
    metadata = promised(delta=0.1) | {"columns": age, "privacy_unit": unit}
    refused = house.admin.upload(rows, metadata)
    assert "with 10 persons" in refused.json()["errors"][0]["message"]
    made = house.admin.upload(rows, metadata | {"privacy": {"epsilon": 4.0, "delta": 0.09}}).json()
    change = {"privacy": {"delta": 0.1}}
    raised = house.admin.call("PATCH", f"/v1/datasets/{made['id']}", json=change)
    assert "with 10 persons" in raised.json()["errors"][0]["message"]


def test_a_delta_is_not_raised_to_one_in_the_rows(house: House) -> None:
    dataset = house.dataset()
    change = {"privacy": {"delta": 1 / ROWS}}
    answer = house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=change)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/privacy/delta"


def test_a_delta_is_below_one_in_the_rows_of_a_population_together(either_house: House) -> None:
    """Datasets that share a budget share its delta, also with those that were destroyed."""
    house = either_house
    town = {**promised(delta=0.02), "population": "people of the town"}
    small = house.admin.upload(as_csv(csv_rows(20)), town)
    assert small.status_code == 201
    files = set(house.settings.datasets_dir.glob("*.rows"))
    for rows in (50, 40, 30):
        answer = house.admin.upload(as_csv(csv_rows(rows)), town)
        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault["pointer"] == "/metadata/privacy/delta"
        assert f"with {20 + rows} rows" in fault["message"]
    assert set(house.settings.datasets_dir.glob("*.rows")) == files
    assert len(house.admin.get("/v1/datasets").json()["items"]) == 1
    other = house.admin.upload(as_csv(csv_rows(24)), town)
    assert other.status_code == 201
    at = f"/v1/datasets/{small.json()['id']}"
    for _ in range(2):  # what was released of the other one stays released
        refused = house.admin.call("PATCH", at, json={"privacy": {"delta": 0.023}})
        assert refused.status_code == 422
        assert "with 44 rows" in refused.json()["errors"][0]["message"]
        house.admin.call("DELETE", f"/v1/datasets/{other.json()['id']}")
    assert house.admin.upload(as_csv(csv_rows(6)), town).status_code == 422
    assert house.admin.call("PATCH", at, json={"privacy": {"delta": 0.0225}}).status_code == 200
    kinds = [e["kind"] for e in house.admin.get(f"{at}/ledger").json()["items"]]
    assert kinds == ["open", "join", "destroy", "raise_budget"]


@pytest.mark.parametrize("column", [None, "site"])
def test_a_delta_is_below_one_in_the_rows_of_all_holders_together(
    either_house: House, column: str | None
) -> None:
    house, rows = either_house, csv_rows(120)
    holders: dict[str, Any] = {"names": ["north", "south", "west"]}
    files = [as_csv(rows[at : at + 40]) for at in (0, 40, 80)]
    if column is not None:
        holders["column"] = column
        header, *lines = as_csv(rows).decode().split()
        named = [f"{line},{holders['names'][k % 3]}" for k, line in enumerate(lines)]
        files = ["\n".join([f"{header},{column}", *named, ""]).encode()]

    def pool(delta: float) -> Any:
        told = promised(delta=delta) | {"holders": holders}
        parts: list[Any] = [("metadata", (None, json.dumps(told)))]
        parts += [("file", (f"{k}.csv", content)) for k, content in enumerate(files)]
        return house.admin.post("/v1/datasets", files=parts)

    for delta in (0.02, 1 / 120, 0.5):
        answer = pool(delta)
        assert answer.status_code == 422, delta
        assert answer.json()["errors"][0]["pointer"] == "/metadata/privacy/delta"
    assert not any(house.settings.datasets_dir.glob("*.rows"))
    made = pool(0.008)
    assert made.status_code == 201
    at = f"/v1/datasets/{made.json()['id']}"
    own = {"privacy": {"epsilon": 5.0, "delta": 0.008}}
    assert house.admin.call("PATCH", at, json=own).status_code == 200
    refused = house.admin.call("PATCH", at, json={"privacy": {"delta": 0.009}})
    assert refused.status_code == 422
    assert "with 120 rows" in refused.json()["errors"][0]["message"]


def test_a_dataset_keeps_a_delta_that_an_older_version_took(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "refusal", lambda *_: "")
    made = house.admin.upload(as_csv(csv_rows(20)), promised(delta=0.1)).json()
    at = f"/v1/datasets/{made['id']}"
    for change in ({"delta": 0.1}, {"epsilon": 5.0}, {"epsilon": 6.0, "delta": 0.1}):
        assert house.admin.call("PATCH", at, json={"privacy": change}).status_code == 200
    assert house.admin.call("PATCH", at, json={"privacy": {"delta": 0.11}}).status_code == 422


@pytest.mark.parametrize("what", ["job", "task"])
@pytest.mark.parametrize("path", ["/v1/plans", "/v1/jobs"])
def test_a_job_has_a_delta_below_one_in_the_rows(house: House, path: str, what: str) -> None:
    body = job_of(house.dataset())
    if what == "task":
        task = {"kind": "summaries", "statistics": [{"kind": "mean", "column": "x"}]}
        body = {"dataset": body["dataset"], "task": task}
    column = METADATA["columns"][0]["name"]
    if what == "task":
        body["task"]["statistics"][0]["column"] = column
    for delta in (1 / ROWS, 0.05):
        body["privacy"] = {"epsilon": 1.0, "delta": delta}
        answer = house.user("analyst").post(path, json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/privacy/delta"
        assert f"with {ROWS} rows" in answer.json()["errors"][0]["message"]


def test_a_weak_promise_is_warned_of(house: House) -> None:
    assert house.admin.upload(metadata=promised(epsilon=20.0)).json()["warnings"] == []
    weak = house.admin.upload(metadata=promised(epsilon=50.0)).json()
    assert [one["code"] for one in weak["warnings"]] == ["weak_promise", "rows_seen_before"]
    analyst = house.user("analyst")
    (warning,) = analyst.get(f"/v1/datasets/{weak['id']}").json()["warnings"]
    assert warning == weak["warnings"][0]
    assert warning["detail"].startswith("epsilon 50 is above 20")
    assert set(warning) == {"code", "detail"}
    body = job_of(weak["id"]) | {"privacy": {"epsilon": 30.0, "delta": 1e-6}}
    said = analyst.post("/v1/plans", json=body).json()["warnings"]
    assert any(one.startswith("epsilon 30 is above 20") for one in said)


@pytest.mark.parametrize("epsilon", [1.1e4, 1e300])
def test_an_absurd_promise_is_refused(house: House, epsilon: float) -> None:
    answer = house.admin.upload(metadata=promised(epsilon=epsilon))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/metadata/privacy/epsilon"
    change = {"privacy": {"epsilon": epsilon}}
    raised = house.admin.call("PATCH", f"/v1/datasets/{house.dataset()}", json=change)
    assert raised.status_code == 422


def test_an_admin_key_of_one_letter_is_refused_at_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DPMCMC_ADMIN_KEY", "a" * 32)
    settings.cache_clear()
    with pytest.raises(SystemExit) as ended:
        serve.main([])
    settings.cache_clear()
    assert "8 different characters" in str(ended.value)


def test_an_admin_key_is_taken_without_the_line_break_of_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("DPMCMC_ADMIN_KEY", f"{key}\n")
    assert Settings().admin_key.get_secret_value() == key
    monkeypatch.setenv("DPMCMC_ADMIN_KEY", f"{key[:16]}\n{key[16:]}")
    with pytest.raises(ValidationError, match="printable ASCII"):
        Settings()


@pytest.mark.parametrize(("lower", "upper"), [(0, 5e-324), (-5e-324, 0), (0, 9e-31)])
def test_bounds_that_nothing_fits_between_are_refused_at_upload(
    house: House, lower: float, upper: float
) -> None:
    columns = [METADATA["columns"][0] | {"lower": lower, "upper": upper}, *METADATA["columns"][1:]]
    refused = house.admin.upload(metadata=METADATA | {"columns": columns})
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["pointer"] == "/metadata/columns/0/upper"
    assert "scale the column" in fault["message"]


@pytest.mark.parametrize("key", ["abc", "x" * 31])
def test_a_short_admin_key_is_refused_at_start(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match="32 characters"):
        Settings(admin_key=SecretStr(key))
    monkeypatch.setenv("DPMCMC_ADMIN_KEY", key)
    settings.cache_clear()
    with pytest.raises(SystemExit) as ended:
        serve.main([])
    settings.cache_clear()
    assert "DPMCMC_ADMIN_KEY must have 32 characters" in str(ended.value)
    assert key not in str(ended.value)


NUMBER = {"name": "x", "type": "number", "lower": 0, "upper": 1}
DATE = {"name": "x", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
WORDS = {"name": "c", "type": "category", "categories": ["a", "b"]}


@pytest.mark.parametrize(
    ("columns", "pointer"),
    [
        ([], ""),
        ([{**NUMBER, "type": "time"}], "/0"),
        ([{**NUMBER, "name": ""}], "/0/name"),
        ([NUMBER, NUMBER], ""),
        ([{**NUMBER, "upper": 0}], "/0"),
        ([{**NUMBER, "lower": False}], "/0/lower"),
        ([{**NUMBER, "mean": 1}], "/0/mean"),
        ([{**NUMBER, "missing": [1, 1]}], "/0"),
        ([{**NUMBER, "missing": False}], "/0/missing"),
        ([{**NUMBER, "spikes": [2]}], "/0"),
        ([{**NUMBER, "integer": True, "upper": 1.5}], "/0"),
        ([{**NUMBER, "description": 5}], "/0/description"),
        ([{**DATE, "lower": 5}], "/0/lower"),
        ([{**DATE, "upper": "31.12.2020"}], "/0/upper"),
        ([{**DATE, "upper": "2020-01-01"}], "/0"),
        ([{**DATE, "missing": ["9999-12-31"] * 2}], "/0"),
        ([{**DATE, "integer": True}], "/0/integer"),
        ([{**WORDS, "categories": ["a"]}], "/0/categories"),
        ([{**WORDS, "categories": ["a", "a"]}], "/0"),
        ([{**WORDS, "categories": ["a", ""]}], "/0/categories/1"),
        ([{**WORDS, "type": "binary", "categories": ["a", "b", "c"]}], "/0/categories"),
    ],
)
def test_columns_that_promise_nothing_are_refused_by_member(
    house: House, columns: list[dict[str, Any]], pointer: str
) -> None:
    refused = house.admin.upload(metadata=METADATA | {"columns": columns})
    assert refused.status_code == 422
    place = refused.json()["errors"][0]["pointer"]
    assert place == f"/metadata/columns{pointer}" or (pointer == "" and place == "/metadata")


@pytest.mark.parametrize(("bound", "value"), [("upper", 3.5e38), ("lower", -3.5e38)])
def test_bounds_that_nothing_can_be_computed_with_are_refused_at_upload(
    house: House, bound: str, value: float
) -> None:
    made = copy.deepcopy(METADATA)
    made["columns"][0][bound] = value
    answer = house.admin.upload(metadata=made)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"/metadata/columns/0/{bound}"


@pytest.mark.parametrize("half", [3.5e38, 1e36, 1e-14])
def test_a_job_that_cannot_be_computed_is_refused_before_it_is_paid_for(half: float) -> None:
    """For datasets that were taken in earlier."""
    columns = (
        NumberColumn(name="x", lower=-half, upper=half),
        NumberColumn(name="z", lower=0, upper=1),
    )
    spec = JobSpec(
        model=ModelSpec(family="linear", formula="x ~ z"),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    with pytest.raises(SpecError) as caught:
        plan(Schema(columns=columns, rows=300), spec)
    assert caught.value.pointer == "/model/formula"
    assert "scale the column" in caught.value.message
