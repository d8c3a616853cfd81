"""Rows made from what is public of a dataset, over HTTP: to try code with, free of charge."""

import csv
import io
import json

import pyarrow.parquet
import pytest

from dpmcmc.inputs.schema import Schema
from tests.api.support import CSV, METADATA, House


def test_they_are_those_of_the_library(house: House) -> None:
    from app.storage.columns import parse_columns

    dataset, ada = house.dataset(), house.user("analyst")
    answer = ada.get(f"/v1/datasets/{dataset}/dummy?rows=20&seed=5")
    assert answer.status_code == 200
    shown = answer.json()
    expected = Schema(columns=parse_columns(METADATA["columns"]), rows=200).dummy(20, seed=5)
    assert shown["data"] == {name: values.tolist() for name, values in expected.items()}
    assert (shown["dataset"], shown["rows"], shown["seed"]) == (dataset, 20, 5)
    assert "no row of the dataset was read" in shown["note"]
    assert answer.headers["dpmcmc-rows"] == shown["note"]


def test_they_come_as_csv_and_parquet_too(house: House) -> None:
    path = f"/v1/datasets/{house.dataset()}/dummy"
    data = house.admin.get(path).json()["data"]
    text = house.admin.get(path, headers={"Accept": "text/csv"})
    lines = list(csv.reader(io.StringIO(text.text)))
    assert lines[0] == list(data)
    assert len(lines) == 101
    assert [float(line[0]) for line in lines[1:]] == data["age"]
    kind = "application/vnd.apache.parquet"
    made = house.admin.get(path, headers={"Accept": kind})
    assert made.headers["content-type"] == kind
    assert pyarrow.parquet.read_table(io.BytesIO(made.content)).to_pydict() == data
    assert house.admin.get(path, headers={"Accept": "image/png"}).status_code == 406


def test_they_can_be_uploaded_as_a_dataset_of_their_own(house: House) -> None:
    """The public facts alone make a file that the same declarations take."""
    columns = [
        {"name": "age", "type": "number", "lower": 17, "upper": 90, "integer": True},
        {"name": "pay", "type": "number", "lower": 0, "upper": 9000, "missing": True},
        {"name": "sex", "type": "category", "categories": ["a,b", 'say "x"', "c"]},
    ]
    unit = {"column": "who", "max_rows": 3}
    metadata = METADATA | {"columns": columns, "privacy_unit": unit, "skip_undeclared": True}
    file = "who,age,pay,sex\n1,20,1,c\n1,30,,c\n2,40,2,c\n" + "3,20,1,c\n" * 97
    metadata |= {"privacy": METADATA["privacy"] | {"delta": 1e-6}}
    first = house.admin.upload(file.encode(), metadata)
    assert first.status_code == 201, first.text
    path = f"/v1/datasets/{first.json()['id']}/dummy?rows=300"
    made = house.admin.get(path, headers={"Accept": "text/csv"}).content
    again = house.admin.upload(made, metadata | {"name": "made"})
    assert again.status_code == 201, again.text
    assert again.json()["units"] == 150


def test_nothing_of_the_rows_is_in_them(house: House) -> None:
    """Another file under the same declarations: the same bytes. Its rows may even be gone."""
    answers = []
    for changed in (CSV, CSV[: CSV.index(b"\n") + 1] + b"20,Male,>50K\n" * 300):
        dataset = house.admin.upload(changed).json()["id"]
        answers.append(house.admin.get(f"/v1/datasets/{dataset}/dummy").json()["data"])
        assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 204
        answers.append(house.admin.get(f"/v1/datasets/{dataset}/dummy").json()["data"])
    assert all(answer == answers[0] for answer in answers)


def test_the_budget_is_untouched(house: House) -> None:
    dataset = house.dataset()
    before = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()
    house.admin.get(f"/v1/datasets/{dataset}/dummy")
    assert house.admin.get(f"/v1/datasets/{dataset}/ledger").json() == before


@pytest.mark.parametrize("query", ["rows=0", "rows=10001", "rows=x", "seed=-1", "row=3"])
def test_what_is_no_number_of_rows_is_refused(house: House, query: str) -> None:
    answer = house.admin.get(f"/v1/datasets/{house.dataset()}/dummy?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"/query/{query.split('=')[0]}"


def test_somebody_elses_dataset_has_none(house: House) -> None:
    dataset, ada = house.dataset(), house.user("analyst")
    house.admin.call("PATCH", f"/v1/datasets/{dataset}", json={"grants": []})
    assert ada.get(f"/v1/datasets/{dataset}/dummy").status_code == 404


def test_a_wide_table_has_fewer(house: House) -> None:
    columns = [{"name": f"x{at}", "type": "number", "lower": 0, "upper": 1} for at in range(200)]
    head, line = ",".join(c["name"] for c in columns), ",".join(["0"] * 200)
    file = "\n".join([head, *[line] * 200]).encode()
    dataset = house.admin.upload(file, METADATA | {"columns": columns}).json()["id"]
    answer = house.admin.get(f"/v1/datasets/{dataset}/dummy?rows=5001")
    assert answer.status_code == 422
    assert "5,000 rows" in json.dumps(answer.json())
    assert house.admin.get(f"/v1/datasets/{dataset}/dummy?rows=5000").status_code == 200
