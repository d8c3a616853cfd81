"""Jobs are found by what a list shows of them."""

from typing import Any

import pytest

from tests.api.support import METADATA, ROWS, Caller, House, csv_rows

COLUMNS = [
    *METADATA["columns"],
    {"name": "größe_50%", "type": "number", "lower": 0, "upper": 1},
    {"name": "columns", "type": "category", "categories": ["secret", "other"]},
]
MEAN = {"kind": "mean", "column": "age"}


@pytest.fixture
def analyst(either_house: House) -> Caller:
    return either_house.user("analyst")


@pytest.fixture
def jobs(either_house: House, analyst: Caller) -> dict[str, str]:
    """Identifiers of one job of each sort -> its name."""
    house = either_house
    lines = ["age,sex,income,größe_50%,columns"]
    lines += [",".join((*row, "0.5", "other")) for row in csv_rows(ROWS)]
    told = METADATA | {"name": "Census, wave 2", "columns": COLUMNS}
    dataset = str(house.admin.upload("\n".join(lines).encode(), told).json()["id"])
    privacy = {"epsilon": 0.1, "delta": 1e-6}

    def task(**asked: Any) -> str:
        body = {"dataset": dataset, "task": asked, "privacy": privacy}
        body["accept_low_quality"] = True  # synthetic tables of few rows
        answer = analyst.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    counts = {"kind": "counts", "columns": ["sex", "income"], "bins": {}}
    few = {"columns": ["sex", "columns"], "tables": 2}
    few["impossible"] = [{"columns": ["secret"], "sex": ["Male"]}]
    stages = {"first_rows": 50, "family": "uniform_width", "thetas": [20.0, 40.0], "powers": [1.0]}
    return {
        house.submit(analyst, dataset): "model",
        task(kind="summaries", statistics=[MEAN, counts]): "summaries",
        task(kind="synthetic", tables=2): "all",
        task(kind="synthetic", **few): "few",
        task(kind="statistic", column="größe_50%"): "statistic",
        task(kind="two_stages", column="age", **stages): "stages",
        house.submit(analyst, house.dataset(name="other people")): "elsewhere",
    }


@pytest.mark.longer
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("AGE", "model summaries all stages elsewhere"),
        ("sex", "model summaries all few elsewhere"),
        ("sex, inc", "summaries all"),  # as the list shows columns
        ("größe_5", "all statistic"),
        ("50%", "all statistic"),
        ("5_%", ""),
        ("two stages", "stages"),
        ("o_stag", "stages"),
        ("synthetic", "all few"),
        ("penalty", "model elsewhere"),
        ("census", "model summaries all few statistic stages"),
        ("other people", "elsewhere"),
        ("income ~", "model elsewhere"),
        ("uniform", ""),
        ("secret", ""),
        ("Male", ""),
        ("kind", ""),
        ("'", ""),
    ],
)
def test_a_job_is_found_by_what_a_list_shows_of_it(
    analyst: Caller, jobs: dict[str, str], text: str, found: str
) -> None:
    answer = analyst.get("/v1/jobs", params={"text": text})
    assert answer.status_code == 200, answer.text
    assert {jobs[one["id"]] for one in answer.json()["items"]} == set(found.split())


def test_a_dataset_that_was_closed_to_an_analyst_is_not_searched(
    either_house: House, analyst: Caller
) -> None:
    house = either_house
    dataset = house.dataset(name="Census", grants=[analyst.id])
    house.submit(analyst, dataset)

    def found() -> int:
        return len(analyst.get("/v1/jobs", params={"text": "census"}).json()["items"])

    assert found() == 1
    assert house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"grants": []}).is_success
    assert found() == 0


def test_a_search_holds_with_other_filters_and_for_own_jobs_alone(
    either_house: House, analyst: Caller, jobs: dict[str, str]
) -> None:
    told = {"text": "age", "formula": "income", "status": "queued"}
    (one, other) = analyst.get("/v1/jobs", params=told).json()["items"]
    assert {jobs[one["id"]], jobs[other["id"]]} == {"model", "elsewhere"}
    more = told | {"dataset": other["dataset"]}
    assert len(analyst.get("/v1/jobs", params=more).json()["items"]) == 1
    stranger = either_house.user("analyst")
    assert stranger.get("/v1/jobs", params={"text": "age"}).json()["items"] == []


@pytest.mark.parametrize("name", ["text", "formula"])
def test_a_search_for_what_no_database_takes_is_refused(analyst: Caller, name: str) -> None:
    answer = analyst.get("/v1/jobs", params={name: "a\x00"})
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_request"
