"""Uploads with number columns whose empty values are missing."""

import json
from copy import deepcopy
from uuid import UUID

import numpy as np
import pytest

from app.storage.columns import schema_of
from app.storage.rows import DatasetRow
from dpmcmc.base.private import Permit
from tests.api.support import METADATA, House, as_csv, csv_rows

ROWS = as_csv([*csv_rows(), ("", "Male", ">50K"), ("NA", "Female", ">50K")])


def metadata(missing: object) -> dict:
    made = deepcopy(METADATA)
    made["columns"][0]["missing"] = missing
    made["format"] = {"missing": ["NA"]}
    return made


def test_empty_fields_and_spellings_of_no_value_are_taken(house: House) -> None:
    answer = house.admin.upload(ROWS, metadata(missing=True))
    assert answer.status_code == 201, answer.text
    dataset = house.admin.get(f"/v1/datasets/{answer.json()['id']}").json()
    assert dataset["rows"] == len(csv_rows()) + 2
    assert dataset["columns"][0]["missing"] is True
    assert "empty" not in dataset["columns"][0]


@pytest.mark.parametrize("missing", [False, "true", 1, [True], None])
def test_missing_is_true_or_a_list_of_codes(house: House, missing: object) -> None:
    answer = house.admin.upload(ROWS, metadata(missing))
    assert answer.status_code == 422
    pointer = answer.json()["errors"][0]["pointer"]
    assert pointer.startswith("/metadata/columns/0"), answer.text


def test_what_is_missing_is_not_declared_by_another_field(house: House) -> None:
    made = metadata(missing=True)
    made["columns"][0]["empty"] = True
    assert house.admin.upload(ROWS, made).status_code == 422


HOLED = [*csv_rows(), ("", "Male", ">50K"), ("30", "", ">50K"), ("40", "Female", "NA")]


def all_may_be_missing(**others: object) -> dict:
    made = {**deepcopy(METADATA), **others, "format": {"missing": ["NA"]}}
    for column in made["columns"]:
        column["missing"] = True
    return made


def stored(house: House, made: dict) -> list:
    """Columns of a dataset's stored rows, with how many values of each are missing."""
    with house.services.sessions.read() as session:
        row = session.get_one(DatasetRow, UUID(made["id"]))
        holders = [session.get_one(DatasetRow, UUID(one["dataset"])) for one in row.holders or ()]
        schema = schema_of(row)
        table = house.services.vault.files.load(row, holders).open(
            Permit(subject=str(row.id), event_digest="")
        )
    present = np.ones(table.rows, bool) if table.present is None else table.present
    return [
        int(column.is_missing(table.columns[column.name])[present].sum())
        for column in schema.columns
    ]


def test_any_column_may_be_missing_and_a_job_leaves_such_rows_out(house: House) -> None:
    answer = house.admin.upload(as_csv(HOLED), all_may_be_missing())
    assert answer.status_code == 201, answer.text
    assert [one["missing"] for one in answer.json()["columns"]] == [True] * 3
    assert stored(house, answer.json()) == [1, 1, 1]
    job = {
        "dataset": answer.json()["id"],
        "model": {"family": "logistic", "formula": "income ~ age + sex"},
        "privacy": {"epsilon": 2.0, "delta": 1e-6},
        "accept_low_quality": True,
    }
    analyst = house.user("analyst")
    made = analyst.post("/v1/jobs", json=job)
    assert made.status_code == 202, made.text
    house.run(made.json()["id"])
    done = analyst.get(f"/v1/jobs/{made.json()['id']}").json()
    assert done["status"] == "succeeded", done


@pytest.mark.parametrize("kind", ["rows", "unit", "holders", "files", "population"])
def test_missing_values_go_with_every_kind_of_upload(house: House, kind: str) -> None:
    whose = [f"p{at // 2}" for at in range(len(HOLED))]
    halves = ["a" if at % 2 else "b" for at in range(len(HOLED))]
    content = {"rows": as_csv(HOLED), "population": as_csv(HOLED)}
    content["unit"] = with_column("person", HOLED, whose)
    content["holders"] = with_column("clinic", HOLED, halves)
    others: dict[str, object] = {
        "rows": {"privacy_unit": "row"},
        "unit": {"privacy_unit": {"column": "person", "max_rows": 2}},
        "holders": {"holders": {"names": ["a", "b"], "column": "clinic"}},
        "files": {"holders": {"names": ["a", "b"]}},
        "population": {"population": "town"},
    }[kind]
    made = all_may_be_missing(**others)
    files = [as_csv(HOLED[::2]), as_csv(HOLED[1::2])] if kind == "files" else [content[kind]]
    parts = [("metadata", (None, json.dumps(made))), *(("file", ("x", one)) for one in files)]
    answer = house.admin.post("/v1/datasets", files=parts)
    assert answer.status_code == 201, answer.text
    assert stored(house, answer.json()) == [1, 1, 1]
    made["columns"][1].pop("missing")
    parts[0] = ("metadata", (None, json.dumps(made)))
    refused = house.admin.post("/v1/datasets", files=parts)
    assert refused.status_code == 422
    assert [(one["pointer"], one["message"][:25]) for one in refused.json()["errors"]] == [
        ("/metadata/columns/1", "1 missing values in 'sex'")
    ]


def with_column(name: str, rows: list, values: list[str]) -> bytes:
    lines = [
        f"age,sex,income,{name}",
        *(",".join((*row, v)) for row, v in zip(rows, values, strict=True)),
    ]
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize("missing", [[], [1], "true", None, 1])
def test_missing_of_categories_is_true_or_false(house: House, missing: object) -> None:
    made = deepcopy(METADATA)
    made["columns"][1]["missing"] = missing
    answer = house.admin.upload(as_csv(HOLED), made)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/metadata/columns/1/missing"
