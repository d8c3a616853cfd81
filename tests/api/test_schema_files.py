"""Schema files over REST, by the page and by the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpmcmc.base import schema_file
from dpmcmc.client import cli
from tests.api.support import ADMIN, CSV, METADATA, House, signed_in
from tests.api.test_command_line import within

BARE = {name: value for name, value in METADATA.items() if name != "columns"}
TABLE = (
    "name;type;lower;upper;categories;missing;description\n"
    "age;integer;17;90;;;in years\nsex;category;;;Female|Male;;\n\n"
    "income;;;;<=50K|>50K;true;in a year\n"
)
DECLARED = [
    {"name": "age", "type": "number", "lower": 17.0, "upper": 90.0, "integer": True,
     "description": "in years"},
    {"name": "sex", "type": "category", "categories": ["Female", "Male"]},
    {"name": "income", "type": "binary", "categories": ["<=50K", ">50K"], "missing": True,
     "description": "in a year"},
]  # fmt: skip
FORMS = {
    "a table": TABLE.encode(),
    "of Windows": TABLE.replace("in years", "über Jahre").encode("cp1252"),
    "of spreadsheets": TABLE.replace(";", "\t").encode("utf-16"),
    "JSON": json.dumps(DECLARED).encode(),
    "a dataset": json.dumps({"id": "x", "columns": DECLARED}).encode(),
}


def send(house: House, schema: bytes, metadata: dict[str, Any] = BARE) -> Any:
    parts = {
        "metadata": (None, json.dumps(metadata)),
        "schema": ("schema.csv", schema),
        "file": ("rows.csv", CSV),
    }
    return house.admin.post("/v1/datasets", files=parts)


@pytest.mark.parametrize("form", FORMS)
def test_an_upload_takes_its_columns_from_a_schema_file(house: House, form: str) -> None:
    answer = send(house, FORMS[form])
    assert answer.status_code == 201, answer.text
    wanted = json.loads(json.dumps(DECLARED))
    wanted[0]["description"] = "über Jahre" if form == "of Windows" else "in years"
    assert answer.json()["columns"] == wanted


@pytest.mark.parametrize(
    ("old", "new", "pointer", "message"),
    [
        ("17;90", "17;old", "/schema/2/upper", "line 2, upper: is no number"),
        ("integer;17", "numbr;17", "/schema/2/type", "line 2, type: must be one of"),
        ("sex;", "age;", "/schema/3/name", "line 3, name: is declared by line 2 as well"),
        ("17;90", "90;17", "/schema/columns/0", "line 2: lower must be below upper"),
        ("17;90", "17.5;90", "/schema/columns/0", "line 2: the bounds and spikes of an integer"),
        ("Female|Male", "Female", "/schema/columns/1/categories", "line 3, categories: "),
        ("17;90", "17;", "/schema/columns/0/upper", "line 2, upper: Field required"),
        (";true;", ";-9;", "/schema/columns/2/missing", "line 5, missing: "),
    ],
)
def test_what_is_wrong_is_told_by_line_and_field(
    house: House, old: str, new: str, pointer: str, message: str
) -> None:
    assert old in TABLE
    answer = send(house, TABLE.replace(old, new, 1).encode())
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == pointer
    assert fault["message"].startswith(message)
    assert house.admin.get("/v1/datasets").json()["items"] == []


def test_columns_are_declared_once(house: House) -> None:
    answer = send(house, TABLE.encode(), METADATA)
    assert answer.json()["errors"][0]["pointer"] == "/metadata/columns"
    assert (
        send(house, TABLE.encode(), {"name": "x"}).json()["errors"][0]["pointer"]
        == "/metadata/privacy"
    )
    parts = {"metadata": (None, "["), "schema": ("s", TABLE), "file": ("x", CSV)}
    assert house.admin.post("/v1/datasets", files=parts).status_code == 422
    twice = [("schema", ("s", TABLE)), ("schema", ("s", TABLE)), ("file", ("x", CSV))]
    assert house.admin.post("/v1/datasets", files=twice).json()["code"] == "malformed_upload"
    large = {"schema": ("s", "x" * (2**20 + 1)), "metadata": (None, "{}"), "file": ("x", CSV)}
    assert house.admin.post("/v1/datasets", files=large).status_code == 413


def test_a_schema_file_is_part_of_what_a_key_repeats(house: House) -> None:
    def sent(schema: str) -> Any:
        parts = {
            "metadata": (None, json.dumps(BARE)), "schema": ("s", schema), "file": ("x", CSV),
        }  # fmt: skip
        return house.admin.post("/v1/datasets", files=parts, headers={"Idempotency-Key": "k"})

    first, again = sent(TABLE), sent(TABLE)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert sent(TABLE.replace("90", "91")).json()["code"] == "idempotency_key_reused"


def test_a_schema_file_is_looked_at_before_an_upload(house: House) -> None:
    table = TABLE.replace("17;90", "17;").replace("integer", "numbr")
    answer = house.admin.post("/v1/datasets/schema", files={"schema": ("s", table)})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["columns"][0] == {"name": "age", "lower": 17, "description": "in years"}
    assert found["columns"][2]["type"] == "binary"
    assert [(one["line"], one["field"]) for one in found["problems"]] == [(2, "type")]
    for role in ("analyst", "auditor"):
        refused = house.user(role).post("/v1/datasets/schema", files={"schema": ("s", table)})
        assert refused.status_code == 403


def test_the_page_hands_schema_files_on(house: House) -> None:
    token = signed_in(house, ADMIN)
    parts = {"schema": ("s", TABLE)}
    found = house.http.post("/datasets/schema", files=parts, headers={"X-CSRF": token})
    assert [one["name"] for one in found.json()["columns"]] == ["age", "sex", "income"]
    dataset = send(house, TABLE.encode()).json()["id"]
    text = house.http.get(f"/datasets/{dataset}/schema")
    assert "attachment" in text.headers["content-disposition"]
    assert list(schema_file.read(text.text).columns) == DECLARED
    assert "in years" in house.http.get(f"/datasets/{dataset}").text
    assert f'value="{dataset}"' in house.http.get("/datasets/new").text


def command(house: House, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setattr(cli, "Client", lambda _, key: within(house, key))
    return CliRunner().invoke(cli.app, ["--key", ADMIN, *words])


def test_the_command_line_uploads_with_a_schema_file(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_bytes(CSV)
    (tmp_path / "metadata.json").write_text(json.dumps(BARE))
    (tmp_path / "schema.csv").write_text(TABLE)
    words = ["upload", str(tmp_path / "rows.csv"), str(tmp_path / "metadata.json")]
    done = command(house, monkeypatch, *words, "--schema", str(tmp_path / "schema.csv"))
    assert done.exit_code == 0, done.output
    assert "in years" in done.output
    (tmp_path / "schema.csv").write_text(TABLE.replace("17;90", "17;old"))
    done = command(house, monkeypatch, *words, "--schema", str(tmp_path / "schema.csv"))
    assert done.exit_code == 1
    assert "line 2, upper: is no number" in done.output


def test_the_command_line_proposes_names_and_types_and_never_bounds(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert send(house, TABLE.encode()).status_code == 201
    (tmp_path / "rows.csv").write_text(
        "id,age,seen,pay,sex\n"
        + "".join(f"a{k},{k % 20},2020-01-{k:02},{k}.5,Male\n" for k in range(1, 31))
    )
    done = command(house, monkeypatch, "schema", str(tmp_path / "rows.csv"))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        ",".join(schema_file.FIELDS), "age,integer,,,,,,,", "seen,date,,,,,,,",
        "pay,number,,,,,,,", "sex,category,,,,,,,",
    ]  # fmt: skip
    assert "left out, as they look like ids or free text: id" in done.stderr
    done = command(house, monkeypatch, "schema", str(tmp_path / "rows.csv"), "--dataset", "people")
    assert "age,number,17,90,,,true,,in years" in done.stdout
    assert "sex,category,,,Female|Male,,,," in done.stdout
    out = str(tmp_path / "schema.csv")
    done = command(house, monkeypatch, "schema", "--dataset", "people", "--output", out)
    assert done.exit_code == 0, done.output
    assert list(schema_file.read(Path(out).read_bytes()).columns) == DECLARED
    assert command(house, monkeypatch, "schema").exit_code == 2
