"""Files as people have them, by REST, by the upload page and by the command line."""

import json
from typing import Any

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from app.storage.rows import DatasetRow
from dpmcmc.base.private import Permit
from dpmcmc.client import cli
from tests.api.support import ADMIN, METADATA, House, signed_in
from tests.api.test_command_line import within
from tests.messy.exports import COLUMNS, EXPORTS, NAMES, Export, arrow_file
from tests.messy.tables import PARQUET, TABLES


def metadata_of(export: Export) -> dict[str, Any]:
    return METADATA | {"columns": COLUMNS} | export.declared


@pytest.mark.longer
@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_every_export_goes_in_by_all_three_ways(
    house: House, export: Export, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    by_three_ways(house, export.content, metadata_of(export), monkeypatch, tmp_path)
    told = [one["rows"] for one in house.admin.get("/v1/datasets").json()["items"]]
    assert told == [60, 60, 60]


def by_three_ways(
    house: House,
    content: bytes,
    metadata: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    answer = house.admin.upload(content, metadata)
    assert answer.status_code == 201, answer.text
    token = signed_in(house, ADMIN)
    parts = {"file": ("x", content), "metadata": (None, json.dumps(metadata))}
    page = house.http.post("/datasets/new", files=parts, headers={"X-CSRF": token})
    assert "is there" in page.text, page.text
    monkeypatch.setattr(cli, "Client", lambda _, key: within(house, key))
    (tmp_path / "file").write_bytes(content)
    (tmp_path / "metadata").write_text(json.dumps(metadata))
    words = ["--key", ADMIN, "upload", str(tmp_path / "file"), str(tmp_path / "metadata")]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output


ODD = {name: (text.encode(), *told) for name, (text, *told) in TABLES.items()} | {
    f"Parquet, {name}": (arrow_file(table), declared, {}, wanted)
    for name, (table, declared, wanted) in PARQUET.items()
}


@pytest.mark.longer
@pytest.mark.parametrize(("content", "declared", "format", "wanted"), ODD.values(), ids=ODD)
def test_every_odd_table_is_stored_alike_by_all_three_ways(
    house: House,
    content: bytes,
    declared: list[dict[str, Any]],
    format: dict[str, Any],
    wanted: dict[str, list[float]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    told = {"columns": declared, "format": format, "skip_undeclared": True}
    by_three_ways(house, content, METADATA | told, monkeypatch, tmp_path)
    with house.services.sessions.read() as session:
        rows = session.scalars(select(DatasetRow)).all()
    assert len(rows) == 3
    for row in rows:
        permit = Permit(subject=str(row.id), event_digest="")
        table = house.services.vault.files.load(row).open(permit)
        for name, values in wanted.items():
            assert table.columns[name].tolist() == values


def test_what_the_command_is_asked_its_options_answer(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Of row names and of a last line of totals, one question after the other."""
    monkeypatch.setattr(cli, "Client", lambda _, key: within(house, key))
    monkeypatch.chdir(tmp_path)
    column = {"name": "age", "type": "number", "lower": 0, "upper": 120}
    (tmp_path / "rows.csv").write_text("age,sex\n1,34,f\n2,5,m\nTotal,39,\n")
    (tmp_path / "told.json").write_text(json.dumps(METADATA | {"columns": [column]}))
    words = ["--key", ADMIN, "upload", "rows.csv", "told.json", "--skip-undeclared"]
    for option, asked in (([], "row_names"), (["--row-names"], "skip_last_lines")):
        words += option
        done = CliRunner().invoke(cli.app, words)
        assert done.exit_code != 0
        assert asked in done.output
    done = CliRunner().invoke(cli.app, [*words, "--skip-last-lines", "1"])
    assert done.exit_code == 0, done.output
    assert "2 rows" in done.output


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_what_is_found_of_an_export_is_enough_to_upload_it(house: House, export: Export) -> None:
    """Without declared columns to go by: what is shown is confirmed as it is, and nothing else."""
    told = {"format": export.declared.get("format", {})}
    parts = {"file": ("x", export.content), "metadata": (None, json.dumps(told))}
    answer = house.admin.post("/v1/datasets/inspect", files=parts)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["questions"] == []
    assert set(NAMES) <= {column["name"] for column in found["columns"]}
    skip = [c["name"] for c in found["columns"] if c["name"] not in NAMES]
    confirmed = METADATA | {"columns": COLUMNS, "skip": skip}
    if found["format"] is not None:
        assert len(found["rows"]) == 5
        kinds = {c["name"]: c["kind"] for c in found["columns"]}
        wanted = {"age": "whole", "pay": "number", "stadt": "text", "cured": "text"}
        assert {name: kinds[name] for name in NAMES} in (wanted, wanted | {"age": "number"})
        confirmed["format"] = {k: v for k, v in found["format"].items() if v is not None}
    uploaded = house.admin.upload(export.content, confirmed)
    assert uploaded.status_code == 201, uploaded.text


def test_what_is_open_is_asked_by_its_name(house: House) -> None:
    parts = {"file": ("x", b"a;b\n1.234;2\n")}
    found = house.admin.post("/v1/datasets/inspect", files=parts).json()
    assert [one["pointer"] for one in found["questions"]] == ["/format/decimal"]
    assert found["format"]["decimal"] is None
    column = {"name": "a", "type": "number", "lower": 0, "upper": 2000}
    metadata = METADATA | {"columns": [column], "skip": ["b"]}
    refused = house.admin.upload(b"a;b\n1.234;2\n", metadata)
    assert refused.json()["code"] == "ambiguous_format"
    assert [one["pointer"] for one in refused.json()["errors"]] == ["/metadata/format/decimal"]


def test_whole_numbers_alone_ask_nothing(house: House) -> None:
    parts = {"file": ("x", b"a;b\n1234;2\n")}
    found = house.admin.post("/v1/datasets/inspect", files=parts).json()
    assert (found["questions"], found["format"]["decimal"]) == ([], None)


def test_nobody_but_an_admin_looks_at_a_file(house: House) -> None:
    for role in ("analyst", "auditor"):
        answer = house.user(role).post("/v1/datasets/inspect", files={"file": ("x", b"a\n1\n")})
        assert answer.status_code == 403


def test_skipped_columns_are_nowhere(house: House) -> None:
    secret = b"s3cr3t-note"
    content = b"a,note\n1," + secret + b"\n" + b"2,x\n" * 40
    column = {"name": "a", "type": "number", "lower": 0, "upper": 9}
    answer = house.admin.upload(content, METADATA | {"columns": [column], "skip": ["note"]})
    assert answer.status_code == 201
    assert [one["name"] for one in answer.json()["columns"]] == ["a"]
    both = METADATA | {"columns": [column], "skip": ["a"]}
    assert "cannot be skipped" in house.admin.upload(content, both).text


def test_the_command_shows_what_it_finds(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(cli, "Client", lambda _, key: within(house, key))
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "file").write_bytes(EXPORTS["database, ids and free text"].content)
    done = CliRunner().invoke(cli.app, ["--key", ADMIN, "inspect", str(tmp_path / "file")])
    assert done.exit_code == 0, done.output
    assert "text (skip?)" in done.output
    assert "windows" not in done.output
    assert "P0004" in done.output
