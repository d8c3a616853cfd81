"""What an earlier release stored survives every migration, there and back, on both databases.

`data/REVISION.json` is what the service wrote when REVISION was the newest schema (`freeze.py`).
"""

import base64
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import JSON, DateTime, LargeBinary, MetaData, Uuid, insert, inspect, select, text

from app.storage.migrate import downgrade, upgrade
from app.storage.session import SessionFactory
from tests.api.support import ADMIN, Caller, House, house_in, job_of

RECORDS = sorted((Path(__file__).parent / "data").glob("*.json"))
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=RECORDS, ids=lambda path: path.stem)
def record(request: pytest.FixtureRequest) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(request.param.read_text())
    return read


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/dpmcmc.sqlite3"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def old(record: dict[str, Any], url: str, tmp_path: Path) -> Iterator[SessionFactory]:
    """A database at the record's revision with its rows, and the folder that belongs to it."""
    (tmp_path / "master.key").write_text(record["master_key"])
    (tmp_path / "datasets").mkdir()
    for name, content in record["files"].items():
        (tmp_path / "datasets" / name).write_bytes(base64.b64decode(content))
    sessions = SessionFactory(url)
    upgrade(sessions.engine, record["revision"])
    fill(sessions, record["tables"])
    yield sessions
    sessions.dispose()


def fill(sessions: SessionFactory, rows: Rows) -> None:
    """Write the record's rows, as they were, into tables as they were."""
    tables = MetaData()
    tables.reflect(sessions.engine)
    with sessions.engine.begin() as connection:
        for name, found in rows.items():
            table = tables.tables[name]
            kinds = {column.name: column.type for column in table.columns}
            values = [{k: stored(kinds[k], v) for k, v in row.items()} for row in found]
            assert values, f"the record has nothing in {name}"
            connection.execute(insert(table), values)


def stored(kind: Any, value: Any) -> Any:
    """A value of the record as its column takes it."""
    if value is None or isinstance(kind, JSON):
        return value
    if isinstance(kind, LargeBinary):
        return base64.b64decode(value)
    if isinstance(kind, Uuid):
        return UUID(value)
    if isinstance(kind, DateTime):
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if kind.timezone else moment
    return value


def everything(sessions: SessionFactory) -> Rows:
    """All rows of all tables, in an order of their own."""
    tables = MetaData()
    tables.reflect(sessions.engine)
    with sessions.engine.connect() as connection:
        return {
            table.name: sorted(
                (dict(row) for row in connection.execute(select(table)).mappings()), key=repr
            )
            for table in tables.sorted_tables
            if table.name != "alembic_version"
        }


def revision(sessions: SessionFactory) -> str:
    with sessions.engine.connect() as connection:
        return str(connection.scalar(text("SELECT version_num FROM alembic_version")))


def schema(sessions: SessionFactory) -> Any:
    """Tables, columns, indexes and triggers by name."""
    found = inspect(sessions.engine)
    triggers = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }[sessions.engine.dialect.name]
    with sessions.engine.connect() as connection:
        rules = sorted(connection.scalars(text(triggers)))
    return rules, {
        table: (
            [(column["name"], str(column["type"])) for column in found.get_columns(table)],
            sorted(str(index["name"]) for index in found.get_indexes(table)),
            sorted(str(check["name"]) for check in found.get_check_constraints(table)),
            sorted(str(key["name"]) for key in found.get_foreign_keys(table)),
        )
        for table in found.get_table_names()
    }


def test_old_rows_survive_up_down_and_up_again(old: SessionFactory, record: dict[str, Any]) -> None:
    before, looked = everything(old), schema(old)
    upgrade(old.engine)
    assert revision(old) != record["revision"]
    above = everything(old)
    for table, rows in before.items():
        kept = [{name: row[name] for name in rows[0]} for row in above[table]]
        assert sorted(kept, key=repr) == rows, table
    downgrade(old.engine, record["revision"])
    assert (everything(old), schema(old)) == (before, looked)
    upgrade(old.engine)
    assert everything(old) == above


def test_ledgers_are_not_dropped_unasked(old: SessionFactory) -> None:
    upgrade(old.engine)
    before = everything(old)
    with pytest.raises(RuntimeError, match=r"ledger_entries .*would be dropped"):
        downgrade(old.engine, "base")
    assert everything(old) == before
    downgrade(old.engine, "base", drop_ledgers=True)
    assert inspect(old.engine).get_table_names() == ["alembic_version"]


@pytest.mark.slow
def test_the_service_goes_on_with_what_an_earlier_release_stored(
    old: SessionFactory, record: dict[str, Any], tmp_path: Path, url: str
) -> None:
    old.dispose()
    known = record["known"]
    with house_in(tmp_path, database_url=url) as house:
        analyst = Caller(house.http, known["analyst"])
        served(house, analyst, known)
        house.run(known["queued"])
        job = house.submit(analyst, known["dataset"])
        house.run(job)
        for ended in (known["queued"], job):
            assert analyst.get(f"/v1/jobs/{ended}").json()["status"] == "succeeded"
        verified(house)
        house.services.close()
    sessions = SessionFactory(url)
    acts = everything(sessions)["audit_entries"]
    downgrade(sessions.engine, record["revision"])  # with jobs of this release in it
    upgrade(sessions.engine)
    assert len(everything(sessions)["audit_entries"]) == len(acts) > 0
    sessions.dispose()
    with house_in(tmp_path, database_url=url) as house:
        served(house, Caller(house.http, known["analyst"]), known)
        verified(house)
        house.services.close()


def served(house: House, analyst: Caller, known: dict[str, Any]) -> None:
    """Keys, chains and statuses are what they were."""
    chain = analyst.get(f"/v1/jobs/{known['succeeded']}/chain?scale=design")
    assert chain.json() == known["chain"]
    assert analyst.get(f"/v1/jobs/{known['stopped']}").json()["status"] == "cancelled"
    auditor = Caller(house.http, known["auditor"])
    items = auditor.get("/v1/datasets").json()["items"]
    assert {item["status"] for item in items} == {"open", "archived", "destroyed"}
    refused = analyst.post("/v1/jobs", json=job_of(known["destroyed"]))
    assert refused.status_code in (404, 409)


def verified(house: House) -> None:
    """Every ledger's chain and totals hold, and no budget was passed."""
    for item in house.admin.get("/v1/datasets").json()["items"]:
        answer = house.admin.post(f"/v1/datasets/{item['id']}/ledger/verify").json()
        assert answer["ok"], answer
        budget = house.admin.get(f"/v1/datasets/{item['id']}/budget").json()
        assert budget["spent"]["epsilon"] <= budget["epsilon"]
        assert math.isfinite(budget["remaining"]["epsilon"])


def test_a_record_holds_jobs_in_several_states_and_no_key_of_todays_tests(
    record: dict[str, Any],
) -> None:
    assert ADMIN not in json.dumps(record)
    assert {row["status"] for row in record["tables"]["jobs"]} == {
        "succeeded",
        "cancelled",
        "queued",
    }
