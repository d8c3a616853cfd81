"""Uploads with number columns whose empty values are missing."""

from copy import deepcopy

import pytest

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
