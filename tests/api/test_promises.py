"""Promises that make no sense, and numbers that nothing can be computed with, are refused."""

import copy
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from dpmcmc.errors import SpecError
from dpmcmc.planner import plan
from dpmcmc.schema import NumberColumn, Schema
from dpmcmc.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc_service import serve
from dpmcmc_service.settings import Settings, settings
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


def test_a_delta_is_not_raised_to_one_in_the_rows(house: House) -> None:
    dataset = house.dataset()
    change = {"privacy": {"delta": 1 / ROWS}}
    answer = house.admin.call("PATCH", f"/v1/datasets/{dataset}", json=change)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/privacy/delta"


def test_a_delta_is_below_one_in_the_rows_of_every_dataset_of_a_population(
    either_house: House,
) -> None:
    """Each dataset's own rows count, of those that share a budget those of the largest."""
    house = either_house
    town = {**promised(delta=0.02), "population": "people of the town"}
    small = house.admin.upload(as_csv(csv_rows(20)), town)
    assert small.status_code == 201
    files = set(house.settings.datasets_dir.glob("*.rows"))
    answer = house.admin.upload(as_csv(csv_rows(50)), town)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/metadata/privacy/delta"
    assert set(house.settings.datasets_dir.glob("*.rows")) == files
    assert len(house.admin.get("/v1/datasets").json()["items"]) == 1
    large = house.admin.upload(as_csv(csv_rows(40)), town)
    assert large.status_code == 201
    at = f"/v1/datasets/{small.json()['id']}"
    for _ in range(2):  # what was released of the larger one stays released
        refused = house.admin.call("PATCH", at, json={"privacy": {"delta": 0.03}})
        assert refused.status_code == 422
        assert "with 40 rows" in refused.json()["errors"][0]["message"]
        house.admin.call("DELETE", f"/v1/datasets/{large.json()['id']}")
    assert house.admin.call("PATCH", at, json={"privacy": {"delta": 0.024}}).status_code == 200
    kinds = [e["kind"] for e in house.admin.get(f"{at}/ledger").json()["items"]]
    assert kinds == ["open", "join", "destroy", "raise_budget"]


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
