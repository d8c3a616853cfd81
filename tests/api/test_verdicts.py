"""Every surface that shows a result says whether it may be believed, and plans of bounds."""

import io
import json
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import xarray

from tests.api.support import Caller, House, signed_in

ROWS = 4000
METADATA = {
    "name": "crowded",
    "privacy": {"neighbouring": "replace_one", "epsilon": 20.0, "delta": 1e-6},
    "columns": [
        {"name": "age", "type": "number", "lower": 0, "upper": 2000, "missing": [-9]},
        {"name": "dose", "type": "number", "lower": -1, "upper": 1},
        {"name": "y", "type": "binary", "categories": ["no", "yes"]},
    ],
}


def rows() -> str:
    rng = np.random.default_rng(1)
    age, dose = rng.normal(50, 10, ROWS), rng.uniform(-1, 1, ROWS)
    yes = rng.random(ROWS) < 1 / (1 + np.exp(-dose))
    lost = rng.random(ROWS) < 0.1
    lines = [
        f"{-9 if gone else a:.6g},{d:.6g},{'yes' if u else 'no'}"
        for a, d, u, gone in zip(age, dose, yes, lost, strict=True)
    ]
    return "\n".join(["age,dose,y", *lines]) + "\n"


def job(dataset: str, formula: str, epsilon: float, **changes: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": {"family": "logistic", "formula": formula},
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "accept_low_quality": True,
    } | changes


@pytest.fixture
def dataset(house: House) -> str:
    parts = [("metadata", (None, json.dumps(METADATA))), ("file", ("rows.csv", rows()))]
    answer = house.admin.post("/v1/datasets", files=parts)
    assert answer.status_code == 201, answer.text
    assert answer.json()["columns"] == METADATA["columns"]
    return str(answer.json()["id"])


def ran(house: House, analyst: Caller, body: dict[str, Any]) -> dict[str, Any]:
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    house.run(answer.json()["id"])
    found: dict[str, Any] = analyst.get(f"/v1/jobs/{answer.json()['id']}").json()
    assert found["status"] == "succeeded"
    return found


def last_event(analyst: Caller, job_id: str) -> dict[str, Any]:
    lines = analyst.get(f"/v1/jobs/{job_id}/events").text.strip().splitlines()
    assert lines[-2] == "event: status"
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("data: "))
    return found


RELEASE = {"sampler": {"algorithm": "noisy_quadratic"}}
CHAIN = {"sampler": {"algorithm": "dp_penalty", "num_steps": 60, "num_chains": 1}}


@pytest.mark.usefixtures("known_noise")
@pytest.mark.parametrize(("sampler", "status"), [(RELEASE, "reliable"), (CHAIN, "unreliable")])
def test_the_verdict_ends_the_event_stream_and_is_in_every_file(
    house: House, dataset: str, sampler: dict[str, Any], status: str
) -> None:
    analyst = house.user("analyst")
    found = ran(house, analyst, job(dataset, "y ~ dose", 4.0, **sampler))
    assert found["verdict"]["status"] == status
    assert last_event(analyst, found["id"]) == {"status": "succeeded", "verdict": found["verdict"]}
    chain, sentence = f"/v1/jobs/{found['id']}/chain", found["verdict"]["sentence"]
    for kind in ("application/json", "text/csv", "application/vnd.apache.parquet"):
        answer = analyst.get(chain, headers={"Accept": kind})
        assert answer.headers["dpmcmc-verdict"] == status
        if kind == "application/json":
            assert answer.json()["verdict_sentence"] == sentence
    table = pyarrow.parquet.read_table(io.BytesIO(answer.content))
    assert table.schema.metadata[b"verdict"].decode() == status
    file = io.BytesIO(analyst.get(chain, headers={"Accept": "application/x-netcdf"}).content)
    attributes = xarray.open_datatree(file, engine="h5netcdf")["posterior"].attrs
    assert (attributes["verdict"], attributes["verdict_sentence"]) == (status, sentence)


def test_a_later_plan_says_what_an_earlier_release_found_of_bounds(
    house: House, dataset: str
) -> None:
    analyst, other = house.user("analyst"), house.user("analyst")
    ask = job(dataset, "y ~ age + dose", 8.0, **RELEASE)
    before = analyst.post("/v1/plans", json=ask).json()["warnings"]
    assert any("missing code in age" in said for said in before)
    assert not any("earlier release" in said for said in before)
    (note,) = ran(house, analyst, ask)["verdict"]["notes"]
    assert note["column"] == "age"
    ledger = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()
    after = analyst.post("/v1/plans", json=job(dataset, "y ~ age", 1.0)).json()["warnings"]
    assert f"an earlier release found: {note['sentence']}" in after
    for caller, formula in ((analyst, "y ~ dose"), (other, "y ~ age")):  # not used; not theirs
        said = caller.post("/v1/plans", json=job(dataset, formula, 1.0)).json()["warnings"]
        assert not any("earlier release" in one for one in said)
    assert house.admin.get(f"/v1/datasets/{dataset}/ledger").json() == ledger


def test_a_category_without_events_is_unreliable_and_named(house: House) -> None:
    rng = np.random.default_rng(2)
    words, few = np.array(["u", "v"]), rng.random(ROWS) < 0.2
    yes = (rng.random(ROWS) < 0.4) & ~few
    lines = [f"{word},{'yes' if u else 'no'}" for word, u in zip(words[few * 1], yes, strict=True)]
    columns = [
        {"name": "k", "type": "binary", "categories": ["u", "v"]},
        {"name": "y", "type": "binary", "categories": ["no", "yes"]},
    ]
    told = json.dumps(METADATA | {"columns": columns})
    csv = "\n".join(["k,y", *lines]) + "\n"
    parts = [("metadata", (None, told)), ("file", ("rows.csv", csv))]
    dataset = str(house.admin.post("/v1/datasets", files=parts).json()["id"])
    found = ran(house, house.user("analyst"), job(dataset, "y ~ k", 10.0, **RELEASE))
    assert found["verdict"]["status"] == "unreliable"
    assert "y yes in rows where k is v" in found["verdict"]["sentence"]


def test_a_release_says_how_many_rows_were_complete(house: House, dataset: str) -> None:
    found = ran(house, house.user("analyst"), job(dataset, "y ~ age + dose", 8.0, **RELEASE))
    assert "rows are complete, and only those are used" in found["verdict"]["sentence"]


@pytest.mark.parametrize(
    ("codes", "pointer"),
    [
        ([1, 1], "/columns/0"),
        (["x"], "/columns/0/number/missing/0"),
        (-9, "/columns/0/number/missing"),
        ([float(k) for k in range(21)], "/columns/0/number/missing"),
    ],
)
def test_codes_that_are_no_codes_are_refused(house: House, codes: Any, pointer: str) -> None:
    first, *others = METADATA["columns"]
    told = METADATA | {"columns": [first | {"missing": codes}, *others]}
    parts = [("metadata", (None, json.dumps(told))), ("file", ("rows.csv", rows()))]
    answer = house.admin.post("/v1/datasets", files=parts)
    assert answer.status_code == 422
    assert pointer.split("/number")[0] in answer.json()["errors"][0]["pointer"]


@pytest.mark.usefixtures("known_noise")
@pytest.mark.parametrize("sampler", [RELEASE, CHAIN])
def test_a_summary_says_in_words_what_was_found(
    house: House, dataset: str, sampler: dict[str, Any]
) -> None:
    analyst = house.user("analyst")
    found = ran(house, analyst, job(dataset, "y ~ dose", 4.0, **sampler))
    for scale in ("original", "design"):
        summary = analyst.get(f"/v1/jobs/{found['id']}/summary", params={"scale": scale}).json()
        said = summary["explanation"]
        assert said[0] == f"The model describes how y goes with dose in {ROWS:,} rows."
        assert found["verdict"]["sentence"] in said
        assert said[-1] == "It cost epsilon 4 and protects a row."
        effects = [one for one in said if "the odds of y being yes are multiplied by" in one]
        assert len(effects) == (found["verdict"]["status"] == "reliable")
    signed_in(house, analyst.key)
    page = house.http.get(f"/jobs/{found['id']}").text
    assert "<h2>In words</h2>" in page
    assert said[0] in page
