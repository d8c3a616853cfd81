"""Uploads that cannot be taken: a clear problem each, no value of a row, nothing half-stored."""

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import CSV, METADATA, House, as_csv, csv_rows, house_in

SECRET = "s3cr3t-value"


def with_row(*row: str) -> bytes:
    return as_csv([*csv_rows(), row])  # type: ignore[list-item]


CASES = {
    "a missing value": (with_row("", "Male", ">50K"), "missing_value", "/metadata/columns/0"),
    "an undeclared category": (
        with_row("30", SECRET, ">50K"),
        "undeclared_category",
        "/metadata/columns/1",
    ),
    "no number": (with_row(SECRET, "Male", ">50K"), "not_a_number", "/metadata/columns/0"),
    "not a finite number": (with_row("nan", "Male", ">50K"), None, "/metadata/columns/0"),
    "a wrong column": (CSV.replace(b"age,", b"agf,", 1), None, None),
    "a missing column": (b"age,sex\n30,Male\n", None, None),
    "an additional column": (b"age,sex,income,x\n30,Male,>50K,1\n", None, None),
    "a row that is too long": (with_row("30", "Male", ">50K", SECRET), None, None),
    "an empty file": (b"", None, None),
    "a header only": (b"age,sex,income\n", None, None),
    "not UTF-8": (with_row("30", "Male", ">50K") + b"\xff\xfe,\xff,\xff\n", None, None),
    "a cut archive": (gzip.compress(CSV)[:-9], None, None),
    "Parquet in name only": (b"PAR1" + CSV, None, None),
    "an endless field": (b"age,sex,income\n" + b"9" * 3_000_000, None, None),
    "an endless quote": (b'age,sex,income\n"' + b"\n" * 3_000_000, None, None),
}


@pytest.mark.parametrize("name", CASES)
def test_upload_error_is_a_problem_and_stores_nothing(
    house: House, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, code, pointer = CASES[name]
    answer = house.admin.upload(content)
    problem = answer.json()
    assert answer.status_code == 422, problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert code in (None, problem["code"])
    assert problem["errors"]
    assert pointer in (None, problem["errors"][0]["pointer"])
    assert SECRET not in answer.text + caplog.text
    assert list(house.settings.datasets_dir.iterdir()) == []
    assert house.admin.get("/v1/datasets").json()["items"] == []


def test_upload_error_counts_per_column(house: House) -> None:
    rows = [*csv_rows(), ("", "Male", ">50K"), ("", "x", ">50K")]
    errors = house.admin.upload(as_csv(rows)).json()["errors"]
    assert [e["pointer"] for e in errors] == ["/metadata/columns/0", "/metadata/columns/1"]
    assert "2" in errors[0]["message"]
    assert "1" in errors[1]["message"]


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    metadata = deepcopy(METADATA)
    at: Any = metadata
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return metadata


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        (["privacy", "epsilon"], 0, "/metadata/privacy/epsilon"),
        (["privacy", "epsilon"], True, "/metadata/privacy/epsilon"),
        (["privacy", "epsilon"], "4", "/metadata/privacy/epsilon"),
        (["privacy", "epsilon"], None, "/metadata/privacy/epsilon"),
        (["privacy", "delta"], 1.0, "/metadata/privacy/delta"),
        (["privacy", "neighbouring"], "add_remove", "/metadata/privacy/neighbouring"),
        (["name"], "", "/metadata/name"),
        (["surprise"], 1, "/metadata/surprise"),
        (["columns", 0, "lower"], 90, "/metadata/columns/0"),
        (["columns", 0, "surprise"], 1, "/metadata/columns/0/surprise"),
        (["columns", 0, "type"], "text", "/metadata/columns/0/type"),
        (["columns", 1, "categories"], ["Male", "Male"], "/metadata/columns/1"),
        (["columns", 2, "categories"], ["a", "b", "c"], "/metadata/columns/2/categories"),
        (["columns", 1, "name"], "age", "/metadata"),
        (["columns"], [], "/metadata/columns"),
    ],
)
def test_metadata_is_strict(house: House, path: list[Any], value: Any, pointer: str) -> None:
    answer = house.admin.upload(metadata=changed(path, value))
    assert answer.status_code == 422
    assert [e["pointer"] for e in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("column", "pointer"),
    [
        ({"type": "number", "lower": "2023-01-01", "upper": "2024-12-31"}, "lower"),
        ({"type": "number", "lower": 0, "upper": "2024-12-31T12:00:00Z"}, "upper"),
        ({"type": "time", "lower": "2023-01-01", "upper": "2024-12-31"}, ""),
        ({"type": "datetime", "lower": 0, "upper": 1}, ""),
    ],
)
def test_dates_are_refused_by_name(house: House, column: dict[str, Any], pointer: str) -> None:
    metadata = changed(["columns", 0], {"name": "visit"} | column)
    answer = house.admin.upload(metadata=metadata)
    assert answer.status_code == 422
    first = answer.json()["errors"][0]
    assert first["pointer"] == f"/metadata/columns/0/{pointer}".rstrip("/")
    assert "such as days since a date" in first["message"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_metadata_numbers_are_finite(house: House, number: str) -> None:
    text = json.dumps(METADATA).replace("4.0", number)
    parts = {"file": ("rows.csv", CSV), "metadata": (None, text)}
    answer = house.admin.post("/v1/datasets", files=parts)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/metadata/privacy/epsilon"


def test_both_parts_are_needed(house: House) -> None:
    answer = house.admin.post("/v1/datasets", files={"file": ("rows.csv", CSV)})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"pointer": "/metadata", "message": "Field required"}]


@pytest.mark.parametrize(
    "body",
    [b"", b"--x\r\n", b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\nage", b"\x00" * 99],
)
def test_a_broken_multipart_body_is_refused(house: House, body: bytes) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = house.admin.post("/v1/datasets", content=body, headers=kind)
    assert answer.status_code == 422
    assert answer.json()["code"] in ("malformed_upload", "invalid_request")


def test_an_unknown_part_is_refused(house: House) -> None:
    parts = {"file": ("rows.csv", CSV), "metadata": (None, json.dumps(METADATA)), "x": (None, "1")}
    assert house.admin.post("/v1/datasets", files=parts).json()["code"] == "malformed_upload"


def test_an_upload_above_the_limit_is_413_while_it_streams(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
        yield from [b"9" * 2**20] * 8

    with house_in(tmp_path, max_upload_bytes=2**20) as house:
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = house.admin.post("/v1/datasets", content=endless(), headers=kind)
        assert answer.status_code == 413
        assert answer.json()["code"] == "body_too_large"
        assert list(house.settings.datasets_dir.iterdir()) == []


def test_the_spool_hides_what_it_holds(tmp_path: Path) -> None:
    from app.api.spool import Spool

    with Spool(tmp_path) as spool:
        for n in range(300):
            spool.write(b"%07d" % n)
        with open(f"/proc/self/fd/{spool._file.fileno()}", "rb") as raw:
            assert b"0000000" not in raw.read()
        spool.seek(7 * 100)
        assert spool.read(14) == b"00001000000101"
        spool.seek(0)
        assert spool.read() == b"".join(b"%07d" % n for n in range(300))
        assert list(tmp_path.iterdir()) == []
