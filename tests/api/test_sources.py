"""Snapshots of configured sources: the way of an upload, whole or not at all, on one ledger."""

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import deltalake
import duckdb
import psycopg
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from pyiceberg.catalog.sql import SqlCatalog

from app.services.accounts import keys
from app.services.datasets import snapshots
from app.services.errors import Refusal
from app.storage.read_source import Progress
from app.storage.sources import Item, SourcesFileError, sources_in
from dpmcmc.client import cli
from tests.api.support import ADMIN, CSV, METADATA, House, csv_rows, house_in
from tests.api.test_command_line import Told, within
from tests.object_store import KEY, REGION, Door, admin_of, s3_server

PASSWORD = "hush-this-password"
OWN = {name: value for name, value in METADATA.items() if name != "separate_budget"}
TABLE = arrow_csv.read_csv(io.BytesIO(CSV))
LARGE = pa.concat_tables([TABLE] * 1500)  # many batches
Put = Callable[[pa.Table], None]


def parquet_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, row_group_size=50_000)
    return sink.getvalue()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def s3_door(s3: str) -> Iterator[Door]:
    door = Door(s3)
    yield door
    door.close()


@pytest.fixture
def sources(
    tmp_path: Path, postgres_url: str, s3: str, s3_door: Door, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A file of one source of each kind; secrets are in the environment and in a file."""
    bucket = f"bucket-{os.urandom(4).hex()}"
    admin_of(s3).create_bucket(Bucket=bucket)
    monkeypatch.setenv("CLINIC_URL", postgres_url.replace("+psycopg", ""))
    monkeypatch.setenv("ABSENT_URL", f"postgresql://me:{PASSWORD}@127.0.0.1:1/nowhere")
    monkeypatch.setenv("BUCKET_KEY", KEY["access_key_id"])
    (tmp_path / "secret").write_text(KEY["secret_access_key"] + "\n")
    folder = tmp_path / "exports"
    folder.mkdir()
    file = tmp_path / "sources.toml"
    file.write_text(f"""
[sources.clinic]
kind = "postgresql"
url_env = "CLINIC_URL"
tables = ["study.*"]
seconds = 20

[sources.clinic.queries]
people = "SELECT * FROM study.people -- all of them"
slow = "SELECT pg_sleep(30), * FROM study.people"
writes = "WITH gone AS (DELETE FROM study.people RETURNING *) SELECT * FROM gone"

[sources.hasty]
kind = "postgresql"
url_env = "CLINIC_URL"
seconds = 1

[sources.hasty.queries]
slow = "SELECT pg_sleep(30), * FROM study.people"

[sources.absent]
kind = "postgresql"
url_env = "ABSENT_URL"
tables = ["study.people"]

[sources.lab]
kind = "duckdb"
file = "{tmp_path}/lab.duckdb"
tables = ["people", "elsewhere"]

[sources.exports]
kind = "parquet"
folder = "{folder}"

[sources.lake]
kind = "delta"
folder = "{tmp_path}/lake"

[sources.cloud]
kind = "delta"
folder = "s3://{bucket}/lake"
endpoint = "{s3_door.address}"
region = "{REGION}"
access_key_env = "BUCKET_KEY"
secret_key_file = "{tmp_path}/secret"

[sources.floe]
kind = "iceberg"
folder = "{tmp_path}/floe"

[sources.berg]
kind = "iceberg"
folder = "s3://{bucket}/floe"
endpoint = "{s3_door.address}"
region = "{REGION}"
access_key_env = "BUCKET_KEY"
secret_key_file = "{tmp_path}/secret"

[sources.bucket]
kind = "parquet"
folder = "s3://{bucket}/exports"
endpoint = "{s3_door.address}"
region = "{REGION}"
access_key_env = "BUCKET_KEY"
secret_key_file = "{tmp_path}/secret"
""")
    return file


@pytest.fixture
def house(tmp_path: Path, sources: Path) -> Iterator[House]:
    with house_in(tmp_path / "house", sources=sources) as made:
        yield made


@pytest.fixture
def put(tmp_path: Path, s3: str, sources: Path) -> dict[str, Put]:
    """Put a table where a source of each kind finds it, in place of the one before."""
    bucket = next(
        line.split("/")[2] for line in sources.read_text().splitlines() if "s3://" in line
    )

    def clinic(table: pa.Table) -> None:
        with psycopg.connect(os.environ["CLINIC_URL"]) as connection:
            connection.execute("DROP SCHEMA IF EXISTS study CASCADE; CREATE SCHEMA study")
            columns = ", ".join(
                f"{n} {'numeric(6,1)' if n == 'age' else 'text'}" for n in table.column_names
            )
            connection.execute(f"CREATE TABLE study.people ({columns})")  # type: ignore[arg-type]
            with connection.cursor().copy("COPY study.people FROM STDIN") as copy:
                for row in zip(*table.to_pydict().values(), strict=True):
                    copy.write_row(row)

    def lab(table: pa.Table) -> None:
        (tmp_path / "lab.duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(tmp_path / "lab.duckdb")) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE people AS SELECT * FROM given")
            secret = tmp_path / "elsewhere.csv"
            secret.write_text("age,sex,income\n1,Male,<=50K\n")
            connection.execute(f"CREATE VIEW elsewhere AS SELECT * FROM read_csv('{secret}')")

    def exports(table: pa.Table) -> None:
        (tmp_path / "exports" / "2024").mkdir(exist_ok=True)
        half = len(table) // 2
        (tmp_path / "exports" / "2024" / "a.parquet").write_bytes(parquet_of(table[:half]))
        (tmp_path / "exports" / "2024" / "b.parquet").write_bytes(parquet_of(table[half:]))
        (tmp_path / "exports" / "_temporary.parquet").write_bytes(b"half written")

    def in_bucket(table: pa.Table) -> None:
        key = "exports/people.parquet"
        admin_of(s3).put_object(Bucket=bucket, Key=key, Body=parquet_of(table))
        admin_of(s3).put_object(Bucket=bucket, Key="secret.parquet", Body=parquet_of(table))

    def lake(table: pa.Table) -> None:
        half = len(table) // 2
        place = tmp_path / "lake" / "study" / "people"
        deltalake.write_deltalake(place, table[:half], mode="overwrite")
        deltalake.write_deltalake(place, table[half:], mode="append")

    def to_bucket(folder: str) -> None:
        """Copy the files of tables that were written here."""
        for file in (tmp_path / folder).rglob("*"):
            if file.is_file():
                key = file.relative_to(tmp_path).as_posix()
                admin_of(s3).put_object(Bucket=bucket, Key=key, Body=file.read_bytes())

    def cloud(table: pa.Table) -> None:
        lake(table)
        to_bucket("lake")

    def floe(table: pa.Table) -> None:
        half = len(table) // 2
        catalog = SqlCatalog(
            "floe", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/floe"
        )
        catalog.create_namespace_if_not_exists("study")
        people = catalog.create_table_if_not_exists("study.people", schema=table.schema)
        (people.overwrite if people.current_snapshot() else people.append)(table[:half])
        people.append(table[half:])

    def berg(table: pa.Table) -> None:
        floe(table)
        to_bucket("floe")

    return {
        "clinic": clinic,
        "lab": lab,
        "exports": exports,
        "bucket": in_bucket,
        "lake": lake,
        "cloud": cloud,
        "floe": floe,
        "berg": berg,
    }


WHAT: dict[str, dict[str, str]] = {
    "clinic": {"table": "study.people"},
    "lab": {"table": "people"},
    "exports": {"path": "2024"},
    "bucket": {"path": "people.parquet"},
    "lake": {"path": "study/people"},
    "cloud": {"path": "study/people"},
    "floe": {"path": "study/people"},
    "berg": {"path": "study/people"},
}


def body(name: str, what: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    source = {"name": name, **(WHAT[name] if what is None else what)}
    return {"source": source, "metadata": OWN | metadata}


def snapshot(house: House, *given: Any, **metadata: Any) -> Any:
    return house.admin.post("/v1/datasets/snapshots", json=body(*given, **metadata))


def is_empty(house: House) -> bool:
    """Whether nothing at all was registered, and no file stayed."""
    files = [one.name for one in house.settings.datasets_dir.glob("*.rows")]
    return house.admin.get("/v1/datasets").json()["items"] == [] and files == []


@pytest.mark.services
@pytest.mark.parametrize("name", WHAT)
def test_a_snapshot_is_what_an_upload_of_the_same_rows_is(
    name: str, house: House, put: dict[str, Put]
) -> None:
    put[name](TABLE)
    uploaded = house.admin.upload(metadata=OWN).json()
    answer = snapshot(house, name)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert answer.headers["location"] == f"/v1/datasets/{made['id']}"
    assert made["source"] == {"name": name, **WHAT[name]}
    assert (made["rows"], made["columns"]) == (uploaded["rows"], uploaded["columns"])
    assert made["shares_ledger_with"] == uploaded["id"]
    (warning,) = made["warnings"]
    assert (warning["kind"], warning["shared"]) == ("same_rows", True)
    entries = house.admin.get("/v1/audit").json()["items"]
    (entry,) = [one for one in entries if "source" in one["details"]]
    assert (entry["action"], entry["details"]["source"]["name"]) == ("dataset.create", name)


@pytest.mark.services
def test_sources_are_listed_without_an_address(house: House) -> None:
    listed = house.admin.get("/v1/sources")
    assert [(one["name"], one["kind"]) for one in listed.json()["items"]] == [
        ("absent", "postgresql"),
        ("berg", "iceberg"),
        ("bucket", "parquet"),
        ("clinic", "postgresql"),
        ("cloud", "delta"),
        ("exports", "parquet"),
        ("floe", "iceberg"),
        ("hasty", "postgresql"),
        ("lab", "duckdb"),
        ("lake", "delta"),
    ]
    assert listed.json()["items"][3]["queries"] == ["people", "slow", "writes"]
    for hidden in ("127.0.0.1", "s3://", "/exports", "SELECT", "_URL", KEY["secret_access_key"]):
        assert hidden not in listed.text


@pytest.mark.services
def test_nobody_but_an_admin_reads_a_source(house: House, put: dict[str, Put]) -> None:
    put["lab"](TABLE)
    made = snapshot(house, "lab").json()
    for role in ("analyst", "auditor"):
        caller = house.user(role)
        assert caller.get("/v1/sources").status_code == 403
        assert caller.post("/v1/datasets/snapshots", json=body("lab")).status_code == 403
        assert caller.post(f"/v1/datasets/{made['id']}/refresh").status_code == 403
    seen = house.user("analyst").get(f"/v1/datasets/{made['id']}").json()
    assert "source" not in seen


UNOFFERED = [
    ("clinic", {"table": "pg_catalog.pg_authid"}),
    ("clinic", {"table": 'study.people"; DROP TABLE study.people; --'}),
    ("clinic", {"table": "study."}),
    ("clinic", {"table": "people"}),
    ("clinic", {"query": "SELECT 1"}),
    ("clinic", {"path": "people"}),
    ("lab", {"table": "/etc/passwd"}),
    ("lab", {"table": "read_csv('/etc/passwd')"}),
    ("exports", {"path": "../secret"}),
    ("exports", {"path": "2024/../../secret"}),
    ("exports", {"path": "/etc"}),
    ("exports", {"path": "s3://other/x.parquet"}),
    ("exports", {"path": "http://127.0.0.1/x.parquet"}),
    ("exports", {"path": "..\\secret"}),
    ("exports", {"path": "link.parquet"}),
    ("exports", {"path": "_temporary.parquet"}),
    ("exports", {"path": "nothing"}),
    ("exports", {"table": "people"}),
    ("lake", {"path": "../exports"}),
    ("lake", {"path": "study"}),
    ("lake", {"table": "people"}),
    ("cloud", {"path": "nothing"}),
    ("bucket", {"path": "../secret.parquet"}),
    ("bucket", {"path": "secret.parquet"}),
    ("nowhere", {"path": "x"}),
    ("http://127.0.0.1:9000", {"path": "x"}),
]


@pytest.mark.services
def test_what_is_not_beneath_a_source_is_not_reached(
    house: House, put: dict[str, Put], tmp_path: Path
) -> None:
    for one in put.values():
        one(TABLE)
    (tmp_path / "outside.parquet").write_bytes(parquet_of(TABLE))
    (tmp_path / "exports" / "link.parquet").symlink_to(tmp_path / "outside.parquet")
    for name, what in UNOFFERED:
        answer = snapshot(house, name, what)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), what
        assert answer.json()["errors"][0]["pointer"].startswith("/source"), what
        assert str(tmp_path) not in answer.text
    assert is_empty(house)


@pytest.mark.services
def test_sources_read_and_reach_nothing_else(house: House, put: dict[str, Put]) -> None:
    put["clinic"](TABLE)
    put["lab"](TABLE)
    writes = snapshot(house, "clinic", {"query": "writes"})
    assert (writes.status_code, writes.json()["code"]) == (503, "source_unavailable")
    elsewhere = snapshot(house, "lab", {"table": "elsewhere"})
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (503, "source_unavailable")
    assert "does not let" in elsewhere.json()["detail"]
    assert is_empty(house)
    assert snapshot(house, "clinic", {"query": "people"}).json()["rows"] == len(TABLE)


@pytest.mark.services
@pytest.mark.parametrize("led", ["/../../secret.parquet", "absolute", "link.parquet", "missing"])
def test_a_log_of_delta_leads_to_no_file_elsewhere(
    led: str, house: House, put: dict[str, Put], tmp_path: Path
) -> None:
    """Not by a path, not by a link; and a file that a vacuum took is a change."""
    put["lake"](TABLE)
    table, secret = tmp_path / "lake" / "study" / "people", tmp_path / "lake" / "secret.parquet"
    secret.write_bytes(parquet_of(TABLE))
    outside = tmp_path / "secret.parquet"
    outside.write_bytes(parquet_of(TABLE))
    (table / "link.parquet").symlink_to(outside)
    log = table / "_delta_log" / "00000000000000000001.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (added,) = [line["add"] for line in lines if "add" in line]
    added["path"] = str(outside) if led == "absolute" else led.lstrip("/")
    log.write_text("\n".join(map(json.dumps, lines)))
    refused = snapshot(house, "lake")
    wanted = (409, "source_changed") if led in ("absolute", "missing") else (422, "invalid_request")
    assert (refused.status_code, refused.json()["code"]) == wanted, refused.text
    assert str(tmp_path) not in refused.text
    assert is_empty(house)


@pytest.mark.services
def test_a_feature_of_delta_that_is_not_read_is_no_half_table(
    house: House, put: dict[str, Put], tmp_path: Path
) -> None:
    """Rows that deletion vectors delete are in the files: who does not know them reads too many."""
    put["lake"](TABLE)
    log = tmp_path / "lake" / "study" / "people" / "_delta_log" / "00000000000000000002.json"
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log.write_text(json.dumps({"protocol": protocol | features}))
    refused = snapshot(house, "lake")
    assert (refused.status_code, refused.json()["code"]) == (503, "source_unavailable")
    assert "feature of Delta" in refused.json()["detail"]
    assert is_empty(house)


@pytest.mark.services
@pytest.mark.parametrize("led", ["elsewhere", "above", "link", "missing"])
def test_metadata_of_iceberg_leads_to_no_file_elsewhere(
    led: str, house: House, put: dict[str, Put], tmp_path: Path
) -> None:
    put["floe"](TABLE)
    table, outside = tmp_path / "floe" / "study" / "people", tmp_path / "outside.json"
    last = max(table.glob("metadata/*.metadata.json"))
    content = json.loads(last.read_text())
    (snapshot_of,) = [
        one for one in content["snapshots"] if one["snapshot-id"] == content["current-snapshot-id"]
    ]
    manifests = Path(snapshot_of["manifest-list"].removeprefix("file://"))
    if led == "elsewhere":
        snapshot_of["manifest-list"] = f"file://{outside}"
    elif led == "above":
        snapshot_of["manifest-list"] = f"{content['location']}/../../../outside.json"
    elif led == "link":
        manifests.rename(outside)
        manifests.symlink_to(outside)
    else:
        manifests.unlink()
    last.write_text(json.dumps(content))
    refused = snapshot(house, "floe")
    wanted = (409, "source_changed") if led == "missing" else (422, "invalid_request")
    assert (refused.status_code, refused.json()["code"]) == wanted, refused.text
    assert str(tmp_path) not in refused.text
    assert is_empty(house)


@pytest.mark.services
def test_the_last_version_of_an_iceberg_is_read_or_none(
    house: House, put: dict[str, Put], tmp_path: Path
) -> None:
    put["floe"](TABLE)
    metadata = tmp_path / "floe" / "study" / "people" / "metadata"
    last = max(metadata.glob("*.metadata.json"))
    before = sorted(metadata.glob("*.metadata.json"))[-2]
    (metadata / "version-hint.text").write_text(before.name.removesuffix(".metadata.json"))
    assert snapshot(house, "floe").json()["rows"] == len(TABLE) // 2
    (metadata / "version-hint.text").unlink()
    (metadata / f"{last.name[:5]}-other.metadata.json").write_text(last.read_text())
    refused = snapshot(house, "floe", separate_budget={"reason": "of a test"})
    assert (refused.status_code, refused.json()["code"]) == (503, "source_unavailable")
    assert "two versions" in refused.json()["detail"]
    absent = snapshot(house, "floe", {"path": "study"})
    assert (absent.status_code, absent.json()["errors"][0]["pointer"]) == (422, "/source/path")


@pytest.mark.services
def test_a_source_that_is_gone_or_slow_says_so_without_its_credentials(
    house: House,
    put: dict[str, Put],
    s3_door: Door,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    put["clinic"](TABLE)
    put["bucket"](TABLE)
    s3_door.shut = True
    answers = [
        snapshot(house, "absent", {"table": "study.people"}),
        snapshot(house, "hasty", {"query": "slow"}, skip_undeclared=True),
        snapshot(house, "lab"),  # there is no such file
        snapshot(house, "bucket"),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (503, "source_unavailable")
        assert "Nothing was registered" in answer.json()["detail"]
    assert "longer than the 1 seconds" in answers[1].json()["detail"]
    seen = "".join([*(one.text for one in answers), *capfd.readouterr(), caplog.text])
    for hidden in (PASSWORD, KEY["secret_access_key"], "nowhere", "pg_sleep", "127.0.0.1"):
        assert hidden not in seen
    assert "source_failed" in seen
    assert is_empty(house)


class AtFirst:
    """Does something once, when the first rows have been read."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act, self.done = act, False

    def __call__(self) -> bool:
        if not self.done:
            self.done = True
            self.act()
        return False


def interrupted(house: House, name: str, is_stopped: Callable[[], bool]) -> Refusal:
    """What an admin is told where something happens after the first rows."""
    with pytest.raises(Refusal) as refused:
        snapshots.create(
            house.services,
            admin_caller(house),
            snapshots.Definition(
                name="x",
                description="",
                columns=OWN["columns"],
                neighbouring="replace_one",
                epsilon=1.0,
                delta=1e-7,
            ),
            name,
            Item(**WHAT[name]),
            Progress(is_stopped),
        )
    assert is_empty(house)
    return refused.value


def admin_caller(house: House) -> Any:
    return keys.authenticate(house.services, ADMIN, None)


@pytest.mark.services
def test_a_database_that_breaks_off_registers_nothing(house: House, put: dict[str, Put]) -> None:
    put["clinic"](LARGE)

    def kill() -> None:
        with psycopg.connect(os.environ["CLINIC_URL"], autocommit=True) as other:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            path = urlsplit(os.environ["CLINIC_URL"]).path[1:]
            other.execute(f"{others} AND pid <> pg_backend_pid()", (path,))

    refusal = interrupted(house, "clinic", AtFirst(kill))
    assert refusal.code == "source_unavailable"


@pytest.mark.services
def test_a_store_that_breaks_off_registers_nothing(
    house: House, put: dict[str, Put], s3_door: Door
) -> None:
    put["bucket"](LARGE)

    def shut() -> None:
        s3_door.shut = True

    assert interrupted(house, "bucket", AtFirst(shut)).code == "source_unavailable"


@pytest.mark.services
@pytest.mark.parametrize("name", ["bucket", "exports", "lab"])
def test_what_changes_while_it_is_read_registers_nothing(
    name: str, house: House, put: dict[str, Put], tmp_path: Path
) -> None:
    put[name](LARGE)

    def change() -> None:
        if name == "lab":  # of this process none may write to it meanwhile
            os.utime(tmp_path / "lab.duckdb", (1, 1))
        else:
            put[name](LARGE[:-3])

    refusal = interrupted(house, name, AtFirst(change))
    assert (refusal.status, refusal.code) == (409, "source_changed")


@pytest.mark.services
def test_a_snapshot_that_is_stopped_registers_nothing(house: House, put: dict[str, Put]) -> None:
    put["lab"](LARGE)
    assert interrupted(house, "lab", lambda: True).code == "unavailable"


@pytest.mark.services
def test_wrong_rows_are_counted_as_of_an_upload(house: House, put: dict[str, Put]) -> None:
    wrong = pa.table({"age": [1.0, None], "sex": ["Female", "x"], "income": ["<=50K", ">50K"]})
    put["clinic"](wrong)
    answer = snapshot(house, "clinic")
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json()["errors"]] == [
        "/metadata/columns/0",
        "/metadata/columns/1",
    ]
    assert is_empty(house)
    put["clinic"](TABLE.append_column("id", [[str(at) for at in range(len(TABLE))]]))
    assert snapshot(house, "clinic").json()["errors"][0]["pointer"] == "/source"
    assert snapshot(house, "clinic", None, skip=["id"]).status_code == 201


@pytest.mark.services
def test_progress_is_streamed_until_the_dataset_is_there(
    house: House, put: dict[str, Put], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.routes.sources.LOOK_SECONDS", 0.01)
    put["lab"](LARGE)
    headers = {"Accept": "text/event-stream"}
    asked = {"json": body("lab"), "headers": headers}
    events = events_of(house.admin.post("/v1/datasets/snapshots", **asked).text)
    assert events[-1][0] == "dataset"
    assert events[-1][1]["rows"] == len(LARGE)
    rows = [data["rows"] for name, data in events if name == "progress"]
    assert rows == sorted(rows)
    assert any(0 < read < len(LARGE) for read in rows)
    asked["json"] = body("lab", {"table": "nix"})
    name, problem = events_of(house.admin.post("/v1/datasets/snapshots", **asked).text)[-1]
    assert (name, problem["status"], problem["code"]) == ("problem", 422, "invalid_request")


def events_of(text: str) -> list[tuple[str, Any]]:
    parts = [part.split("\n") for part in text.strip().split("\n\n") if part.startswith("event")]
    return [(a.removeprefix("event: "), json.loads(b.removeprefix("data: "))) for a, b in parts]


@pytest.mark.services
def test_a_snapshot_of_persons_keeps_their_rows_together(house: House, put: dict[str, Put]) -> None:
    put["clinic"](TABLE.append_column("patient", [[at // 4 for at in range(len(TABLE))]]))
    unit = {"column": "patient", "max_rows": 3}
    made = snapshot(house, "clinic", None, privacy_unit=unit).json()
    assert (made["units"], made["rows"]) == (len(TABLE) // 4, None)
    assert [one["code"] for one in made["warnings"]] == ["rows_cut"]


@pytest.mark.longer
@pytest.mark.services
def test_a_refresh_is_the_next_version_on_the_same_ledger(
    house: House, put: dict[str, Put]
) -> None:
    put["clinic"](TABLE)
    ada = house.user("analyst")
    first = snapshot(house, "clinic", None, population="people", grants=[ada.id]).json()
    job = house.submit(ada, first["id"])
    more = pa.Table.from_pylist(
        [dict(zip(TABLE.column_names, (int(a), s, i), strict=True)) for a, s, i in csv_rows(50, 9)]
    )
    put["clinic"](pa.concat_tables([TABLE, more]))
    answer = house.admin.post(f"/v1/datasets/{first['id']}/refresh")
    assert answer.status_code == 201, answer.text
    second = answer.json()
    assert (second["name"], second["rows"]) == ("people, version 2", len(TABLE) + 50)
    assert (second["refreshes"], second["shares_ledger_with"]) == (first["id"], first["id"])
    for same in ("columns", "privacy", "population", "grants", "source", "protects"):
        assert second[same] == first[same]
    house.run(job)
    budgets = [
        house.admin.get(f"/v1/datasets/{one['id']}/budget").json() for one in (first, second)
    ]
    assert budgets[0]["spent"] == budgets[1]["spent"] != {"epsilon": 0.0}
    house.run(house.submit(ada, second["id"]))
    (entry,) = [
        one
        for one in house.admin.get("/v1/audit").json()["items"]
        if one["details"].get("refreshes")
    ]
    assert entry["details"]["refreshes"] == first["id"]
    ledger = house.admin.get(f"/v1/datasets/{first['id']}/ledger").json()["items"]
    assert "join" in [one["kind"] for one in ledger]
    assert house.admin.post(f"/v1/datasets/{first['id']}/ledger/verify").json()["ok"]

    again = house.admin.post(f"/v1/datasets/{first['id']}/refresh")
    assert (again.status_code, again.json()["code"]) == (409, "dataset_refreshed")
    assert again.json()["dataset"] == second["id"]
    third = house.admin.post(f"/v1/datasets/{second['id']}/refresh", json={"name": "May"}).json()
    assert (third["name"], third["refreshes"]) == ("May", second["id"])


@pytest.mark.services
def test_a_refresh_that_fails_leaves_the_version_before(house: House, put: dict[str, Put]) -> None:
    put["exports"](TABLE)
    made = snapshot(house, "exports").json()
    before = house.admin.get(f"/v1/datasets/{made['id']}/ledger").json()
    put["exports"](TABLE.set_column(1, "sex", [["unheard of"] * len(TABLE)]))
    answer = house.admin.post(f"/v1/datasets/{made['id']}/refresh")
    assert (answer.status_code, answer.json()["code"]) == (422, "undeclared_category")
    assert "unheard" not in answer.text
    assert house.admin.get(f"/v1/datasets/{made['id']}/ledger").json() == before
    assert len(house.admin.get("/v1/datasets").json()["items"]) == 1
    house.admin.call("DELETE", f"/v1/datasets/{made['id']}")
    gone = house.admin.post(f"/v1/datasets/{made['id']}/refresh")
    assert (gone.status_code, gone.json()["code"]) == (409, "dataset_destroyed")
    uploaded = house.dataset()
    other = house.admin.post(f"/v1/datasets/{uploaded}/refresh")
    assert (other.status_code, other.json()["code"]) == (409, "not_a_snapshot")


@pytest.mark.services
def test_a_request_that_is_sent_twice_reads_once(house: House, put: dict[str, Put]) -> None:
    put["lab"](TABLE)
    headers = {"Idempotency-Key": "once"}
    made = [
        house.admin.post("/v1/datasets/snapshots", json=body("lab"), headers=headers).json()["id"]
        for _ in range(2)
    ]
    assert made[0] == made[1]
    again = {"Idempotency-Key": "again"}
    versions = [
        house.admin.post(f"/v1/datasets/{made[0]}/refresh", headers=again).json()["id"]
        for _ in range(2)
    ]
    assert versions[0] == versions[1] != made[0]


@pytest.mark.services
def test_the_commands_register_and_refresh(
    house: House, put: dict[str, Put], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cli, "Client", lambda _, key: within(house, key))
    monkeypatch.setenv("COLUMNS", "120")
    put["lab"](TABLE)
    told = Told(house.admin.key)
    assert "duckdb" in told("sources")
    bare = {name: value for name, value in OWN.items() if name != "columns"}
    (tmp_path / "people.json").write_text(json.dumps(bare))
    schema = "name,type,lower,upper,categories\nage,number,17,90,\n"
    schema += "sex,category,,,Female|Male\nincome,binary,,,<=50K|>50K\n"
    (tmp_path / "schema.csv").write_text(schema)
    words = ["snapshot", "lab", str(tmp_path / "people.json"), "--schema"]
    words.append(str(tmp_path / "schema.csv"))
    assert "200 rows" in told(*words, "--table", "people")
    assert "people, version 2" in told("refresh", "people")
    assert "offers no such query" in told(*words, "--query", "nix", code=1)
    assert "one of --table" in told(*words, code=2)
    assert "dataset_refreshed" in told("refresh", "people", code=1)


WRONG = {
    "kind": '[sources.x]\nkind = "mysql"',
    "password": '[sources.x]\nkind = "postgresql"\nurl = "postgresql://me:hush@db/x"',
    "nowhere": '[sources.x]\nkind = "postgresql"\ntables = ["a"]',
    "half a key": '[sources.x]\nkind = "parquet"\nfolder = "s3://b"\naccess_key_env = "A"',
    "relative": '[sources.x]\nkind = "parquet"\nfolder = "hush/data"',
    "no toml": "hush",
    "name": '[sources."a b"]\nkind = "parquet"\nfolder = "/hush"',
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_file_of_sources_that_is_wrong_stops_the_start(fault: str, tmp_path: Path) -> None:
    file = tmp_path / "sources.toml"
    file.write_text(WRONG[fault])
    with pytest.raises(SourcesFileError) as caught:
        sources_in(file)
    assert "hush" not in str(caught.value)
    with pytest.raises(SourcesFileError), house_in(tmp_path / "house", sources=file):
        pass


def test_without_a_file_there_is_no_source(tmp_path: Path) -> None:
    with house_in(tmp_path) as bare:
        assert bare.admin.get("/v1/sources").json()["items"] == []
        assert bare.admin.post("/v1/datasets/snapshots", json=body("lab")).status_code == 422
