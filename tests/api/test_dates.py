"""Columns of dates and descriptions, from the upload to models, summaries and synthetic tables."""

import csv
import datetime as dt
import io
import random
from typing import Any

import pytest
from pyarrow import parquet

from tests.api.support import METADATA, Caller, House

ROWS = 600
SEEN = {
    "name": "seen", "type": "date", "lower": "2022-01-01", "upper": "2022-12-31", "missing": True,
    "description": "first visit",
}  # fmt: skip
PAID = {"name": "paid", "type": "number", "lower": 0, "upper": 100, "description": "in euros"}
COLUMNS = [SEEN, PAID]


def content() -> bytes:
    draw, first = random.Random(4), dt.date(2022, 1, 1)
    lines = ["seen;paid"]
    for row in range(ROWS):
        day = draw.randrange(365)
        word = "" if row % 100 == 7 else (first + dt.timedelta(day)).strftime("%d.%m.%Y")
        lines.append(f"{word};{20 + day / 10 + draw.gauss(0, 3):.1f}".replace(".", ".", 1))
    return "\n".join([*lines, ""]).encode()


def uploaded(house: House) -> str:
    privacy = {"epsilon": 60.0, "delta": 1e-6}
    answer = house.admin.upload(content(), METADATA | {"columns": COLUMNS, "privacy": privacy})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def done(house: House, analyst: Caller, body: dict[str, Any]) -> str:
    made = analyst.post("/v1/jobs", json=body)
    assert made.status_code == 202, made.text
    house.run(made.json()["id"])
    found = analyst.get(f"/v1/jobs/{made.json()['id']}").json()
    assert found["status"] == "succeeded", found
    return str(found["id"])


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


def test_dates_and_descriptions_are_public_facts(house: House, analyst: Caller) -> None:
    dataset = uploaded(house)
    told = analyst.get(f"/v1/datasets/{dataset}").json()["columns"]
    assert told == [SEEN, PAID | {"lower": 0.0, "upper": 100.0}]


def test_a_model_of_dates_is_asked_at_dates(house: House, analyst: Caller) -> None:
    dataset = uploaded(house)
    privacy = {"epsilon": 20.0, "delta": 1e-6}
    model = {"family": "linear", "formula": "paid ~ seen"}
    job = done(house, analyst, {"dataset": dataset, "model": model, "privacy": privacy})
    given = [{"seen": "2022-01-01"}, {"seen": "2022-12-31"}]
    answer = analyst.post(f"/v1/jobs/{job}/posteriors", json={"given": given})
    assert answer.status_code == 200, answer.text
    first, last = (one["expected"]["mean"] for one in answer.json()["predictions"])
    assert abs(first - 20) < 3
    assert abs(last - 56.4) < 3
    for wrong in ("2023-01-01", "soon", 5):
        refused = analyst.post(f"/v1/jobs/{job}/posteriors", json={"given": [{"seen": wrong}]})
        assert refused.status_code == 422
        assert "a date between its declared bounds, 2022-01-01 and" in refused.text


def test_summaries_have_dates(house: House, analyst: Caller) -> None:
    statistics = [
        {"kind": "mean", "column": "seen"},
        {"kind": "counts", "columns": ["seen"], "bins": {"seen": 4}},
        {"kind": "mean", "column": "paid"},
    ]
    task = {"kind": "summaries", "statistics": statistics}
    body = {"dataset": uploaded(house), "task": task, "privacy": {"epsilon": 20.0, "delta": 1e-6}}
    job = done(house, analyst, body)
    mean, _, *rest = analyst.get(f"/v1/jobs/{job}/result").json()["estimates"]
    assert "2022-06-10" < mean["dates"][0] < "2022-07-20"
    assert mean["dates"][1] <= mean["dates"][0] <= mean["dates"][2]
    assert rest[0]["name"] == "share of seen 2022-01-01 to 2022-04-01"
    assert rest[4]["name"] == "share of seen missing"
    assert all("dates" not in one for one in rest)


def test_synthetic_tables_have_dates(house: House, analyst: Caller) -> None:
    task = {"kind": "synthetic", "tables": 2, "bins": {"seen": 4, "paid": 4}}
    privacy = {"epsilon": 20.0, "delta": 1e-6}
    body = {"dataset": uploaded(house), "task": task, "privacy": privacy}
    job = done(house, analyst, body | {"accept_low_quality": True})
    text = analyst.get(f"/v1/jobs/{job}/tables/0", headers={"Accept": "text/csv"}).text
    days = [row["seen"] for row in csv.DictReader(io.StringIO(text))]
    assert len(days) == ROWS
    there = [dt.date.fromisoformat(day) for day in days if day]
    assert 0 < len(days) - len(there) < 60
    assert {day.year for day in there} == {2022}
    kind = {"Accept": "application/vnd.apache.parquet"}
    answer = analyst.get(f"/v1/jobs/{job}/tables/0", headers=kind)
    assert (
        str(parquet.read_table(io.BytesIO(answer.content)).schema.field("seen").type)
        == "date32[day]"
    )


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"lower": "01.01.2022"}, "lower"),
        ({"lower": 3}, "lower"),
        ({"upper": "2022-02-30"}, "upper"),
        ({"upper": "2021-12-31"}, ""),
        ({"missing": ["x"]}, "missing/0"),
        ({"missing": False}, "missing"),
        ({"integer": True}, "integer"),
        ({"description": 5}, "description"),
        ({"description": "x" * 1001}, "description"),
    ],
)
def test_wrong_declarations_are_told_by_their_place(
    house: House, changes: dict[str, Any], pointer: str
) -> None:
    answer = house.admin.upload(content(), METADATA | {"columns": [SEEN | changes, PAID]})
    assert answer.status_code == 422
    place = f"/metadata/columns/0/{pointer}".rstrip("/")
    assert [one["pointer"] for one in answer.json()["errors"]] == [place]


def test_a_file_of_dates_is_found_to_be_one(house: House) -> None:
    found = house.admin.post("/v1/datasets/inspect", files={"file": ("x", content())}).json()
    assert [column["kind"] for column in found["columns"]] == ["date", "number"]


def test_dummy_rows_have_dates(house: House) -> None:
    path = f"/v1/datasets/{uploaded(house)}/dummy?rows=60"
    seen = house.admin.get(path).json()["data"]["seen"]
    assert 40 < sum(day is not None for day in seen) < 60
    assert all("2022-01-01" <= day <= "2022-12-31" for day in seen if day)
    text = house.admin.get(path, headers={"Accept": "text/csv"}).text
    assert [row["seen"] or None for row in csv.DictReader(io.StringIO(text))] == seen
