"""Jobs on made rows: the way of a job, without a ledger, and labelled wherever they are seen."""

import io
from typing import Any

import pyarrow.parquet as parquet
import pytest

from app.services.jobs.kinds.dry import DRY
from tests.api.support import Caller, House, as_csv, csv_rows, signed_in

ROWS = 4000


@pytest.fixture
def dataset(house: House) -> str:
    return str(house.admin.upload(as_csv(csv_rows(ROWS))).json()["id"])


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


def ask(dataset: str, **changes: Any) -> dict[str, Any]:
    model = {"family": "logistic", "formula": "income ~ age + sex"}
    privacy = {"epsilon": 2.0, "delta": 1e-6}
    return {"dataset": dataset, "model": model, "privacy": privacy, "dry_run": True} | changes


def ran(house: House, analyst: Caller, job: dict[str, Any]) -> dict[str, Any]:
    answer = analyst.post("/v1/jobs", json=job)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    found: dict[str, Any] = analyst.get(f"/v1/jobs/{answer.json()['id']}").json()
    assert found["status"] == "succeeded", found["error"]
    return found


@pytest.mark.longer
def test_a_dry_run_reads_no_rows_and_asks_no_ledger(
    house: House, analyst: Caller, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = type(house.services.vault.files)

    def gone(*_: object, **__: object) -> None:
        raise AssertionError("the rows are not to be looked at")

    for name in ("load", "opens"):
        monkeypatch.setattr(files, name, gone)
    monkeypatch.setattr("app.services.datasets.stored_rows.examine", gone)
    ledger = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()
    budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
    job = ran(house, analyst, ask(dataset, privacy={"epsilon": 900.0, "delta": 1e-6}))
    assert job["dry_run"] is True
    assert job["cost"]["epsilon"] == job["reserved"]["epsilon"] == 0.0
    assert house.admin.get(f"/v1/datasets/{dataset}/ledger").json() == ledger
    assert analyst.get(f"/v1/datasets/{dataset}/budget").json() == budget


def test_all_that_comes_of_a_dry_run_says_what_it_is(
    house: House, analyst: Caller, dataset: str
) -> None:
    job = ran(house, analyst, ask(dataset))
    path = f"/v1/jobs/{job['id']}"
    assert (job["verdict"]["status"], job["verdict"]["sentence"]) == ("unreliable", DRY)
    summary = analyst.get(f"{path}/summary").json()
    assert summary["explanation"] == [DRY]
    assert summary["dry_run"] is True
    assert summary["verdict"] == job["verdict"]
    shown = analyst.get(f"{path}/chain").json()
    assert shown["dry_run"] is True
    assert shown["verdict_sentence"] == DRY
    lines = analyst.get(f"{path}/chain", headers={"Accept": "text/csv"}).text.splitlines()
    assert lines[0].endswith(",dry_run")
    assert all(line.endswith(",1") for line in lines[1:])
    kind = "application/vnd.apache.parquet"
    table = parquet.read_table(
        io.BytesIO(analyst.get(f"{path}/chain", headers={"Accept": kind}).content)
    )
    assert all(table["dry_run"].to_pylist())
    netcdf = analyst.get(f"{path}/chain", headers={"Accept": "application/x-netcdf"}).content
    assert DRY.encode() in netcdf
    free = analyst.post(f"{path}/posteriors", json={"num_draws": 10}).json()
    assert free["dry_run"] is True
    assert free["note"] == free["verdict"]["sentence"] == DRY
    draws = analyst.post(
        f"{path}/posteriors", json={"num_draws": 10}, headers={"Accept": "text/csv"}
    ).text
    assert draws.splitlines()[0].endswith(",dry_run")
    signed_in(house, analyst.key)
    assert "Dry run." in house.http.get(f"/jobs/{job['id']}").text
    assert "(dry run)" in house.http.get("/jobs").text


def test_nothing_of_a_dry_run_is_used_by_a_job_that_pays(
    house: House, analyst: Caller, dataset: str
) -> None:
    dry = ran(house, analyst, ask(dataset))
    paid = analyst.post("/v1/jobs", json=ask(dataset, dry_run=False)).json()
    assert paid["dry_run"] is False
    assert paid["spec"]["sampler"]["whitening"] in (None, "new")
    assert paid["cost"]["epsilon"] > 0.0
    named = {"algorithm": "noisy_quadratic", "whitening": dry["id"]}
    refused = analyst.post("/v1/plans", json=ask(dataset, dry_run=False, sampler=named))
    assert refused.status_code == 422


@pytest.mark.longer
def test_dry_runs_have_the_limits_of_jobs(house: House, analyst: Caller, dataset: str) -> None:
    most = house.services.settings.max_jobs_waiting
    statuses = {analyst.post("/v1/jobs", json=ask(dataset)).status_code for _ in range(most)}
    assert statuses == {202}
    assert analyst.post("/v1/jobs", json=ask(dataset)).status_code == 429
    other = house.user("analyst")
    few = ask(dataset, privacy={"epsilon": 0.01, "delta": 1e-6})
    assert other.post("/v1/jobs", json=few).json()["code"] == "low_quality_plan"


def test_a_repeated_request_is_one_dry_run_and_no_paid_job(analyst: Caller, dataset: str) -> None:
    key = {"Idempotency-Key": "k"}
    first, again = (
        analyst.post("/v1/jobs", json=ask(dataset), headers=key).json()["id"] for _ in range(2)
    )
    assert first == again
    paid = analyst.post("/v1/jobs", json=ask(dataset, dry_run=False), headers=key)
    assert paid.json()["code"] == "idempotency_key_reused"
