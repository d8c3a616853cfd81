"""Migrations: up, down and up again on both databases, the same tables as the rows declare."""

import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, inspect, text
from sqlalchemy.exc import IntegrityError

from app.storage.migrate import downgrade, upgrade
from app.storage.rows import Base, DatasetRow, JobRow, KeyRow, UserRow
from app.storage.session import SessionFactory
from app.storage.types import utc_now

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def factory(request, tmp_path):
    sqlite = f"sqlite:///{tmp_path}/x.db"
    url = sqlite if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    made = SessionFactory(url)
    yield made
    made.dispose()


def tables(factory) -> set[str]:
    return set(inspect(factory.engine).get_table_names()) - {"alembic_version"}


def test_migrations_build_what_the_rows_declare(factory):
    upgrade(factory.engine)
    with factory.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, Base.metadata) == []
    inspector = inspect(factory.engine)
    for table in Base.metadata.sorted_tables:
        declared = {c.name for c in table.constraints if isinstance(c, CheckConstraint)}
        found = {c["name"] for c in inspector.get_check_constraints(table.name)}
        assert found == declared, table.name


def test_migrations_go_down_and_up_again(factory):
    upgrade(factory.engine)
    assert tables(factory) == set(Base.metadata.tables)
    downgrade(factory.engine, "base")
    assert tables(factory) == set()
    if factory.engine.dialect.name == "postgresql":
        with factory.engine.connect() as connection:
            left = connection.execute(
                text("SELECT count(*) FROM pg_proc WHERE proname LIKE 'ledger%'")
            )
            assert left.scalar() == 0
    upgrade(factory.engine)
    assert tables(factory) == set(Base.metadata.tables)


def test_several_processes_may_migrate_at_once(factory):
    url = factory.engine.url.render_as_string(hide_password=False)
    program = """
import sys
from app.storage.migrate import upgrade
from app.storage.session import SessionFactory
upgrade(SessionFactory(sys.argv[1]).engine)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", program, url], cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, errors
    assert tables(factory) == set(Base.metadata.tables)


@pytest.mark.longer
def test_the_command_line_of_alembic_works(factory):
    url = factory.engine.url.render_as_string(hide_password=False)
    for command in (["upgrade", "head"], ["check"], ["downgrade", "base"]):
        subprocess.run(
            [sys.executable, "-m", "alembic", *command],
            cwd=ROOT, check=True, capture_output=True, env={"DATABASE_URL": url, "PATH": ""},
        )  # fmt: skip
    assert tables(factory) == set()


def user() -> UserRow:
    return UserRow(name="a", role="analyst")


def job(**columns) -> JobRow:
    fields = {"spec": {}, "resolved": {}, "event": {}, "event_digest": "", "epsilon": 1.0,
              "delta": 1e-6, "progress_of": 1}  # fmt: skip
    return JobRow(**{**fields, **columns})


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "lost"},
        {"status": "running"},
        {"status": "succeeded", "finished_at": utc_now()},
        {"status": "failed"},
        {"owner": "w"},
        {"idempotency_key": "k"},
        {"progress_step": 2},
        {"attempt": -1},
    ],
)
def test_the_database_refuses_jobs_that_cannot_be(factory, columns):
    upgrade(factory.engine)

    def add(**values):
        with factory.write() as session:
            person = session.query(UserRow).first() or user()
            session.add(person)
            session.flush()
            dataset = DatasetRow(
                name="d", columns=[], rows=1, wrapped_key=b"k", created_by=person.id
            )
            session.add(dataset)
            session.flush()
            session.add(job(user_id=person.id, dataset_id=dataset.id, **values))

    add()
    with pytest.raises(IntegrityError):
        add(**columns)


def test_an_idempotency_key_is_used_once_per_user(factory):
    upgrade(factory.engine)
    with factory.write() as session:
        people = [UserRow(name=name, role="analyst") for name in "ab"]
        session.add_all(people)
        session.flush()
        dataset = DatasetRow(
            name="d", columns=[], rows=1, wrapped_key=b"k", created_by=people[0].id
        )
        session.add(dataset)
    common = {"dataset_id": dataset.id, "idempotency_key": "k", "body_hash": "h"}
    with factory.write() as session:
        session.add_all([job(user_id=person.id, **common) for person in people])
    with pytest.raises(IntegrityError), factory.write() as session:
        session.add(job(user_id=people[0].id, **common))


@pytest.mark.parametrize(
    "make",
    [
        lambda _: UserRow(name="b", role="root"),
        lambda _: UserRow(name="a", role="analyst"),
        lambda one: DatasetRow(name="d", columns=[], rows=0, wrapped_key=b"k", created_by=one.id),
        lambda one: DatasetRow(name="d", columns=[], rows=1, wrapped_key=None, created_by=one.id),
        lambda one: DatasetRow(name="d", columns=[], rows=1, wrapped_key=b"k", created_by=one.id,
                               destroyed_at=utc_now()),
        lambda one: DatasetRow(name="d", columns=[], rows=1, wrapped_key=b"k",
                               created_by=one.id, neighbouring="swap"),
    ],
)  # fmt: skip
def test_the_database_refuses_rows_that_break_their_rules(factory, make):
    upgrade(factory.engine)
    with factory.write() as session:
        session.add(one := user())
    with pytest.raises(IntegrityError), factory.write() as session:
        session.add(make(one))


def test_a_key_of_nobody_is_refused(factory):
    upgrade(factory.engine)
    with pytest.raises(IntegrityError), factory.write() as session:
        session.add(KeyRow(user_id=uuid4(), digest=b"x"))


def test_moments_come_back_in_utc_and_naive_ones_are_refused(factory):
    upgrade(factory.engine)
    before = utc_now()
    with factory.write() as session:
        session.add(one := UserRow(name="a", role="admin", created_at=before))
    with factory.read() as session:
        assert session.get(UserRow, one.id).created_at == before
    with pytest.raises(Exception, match="naive"), factory.write() as session:
        session.add(UserRow(name="b", role="admin", created_at=before.replace(tzinfo=None)))


def test_writers_take_turns_on_sqlite(tmp_path):
    factory = SessionFactory(f"sqlite:///{tmp_path}/x.db")
    upgrade(factory.engine)

    def add(number: int) -> None:
        for at in range(20):
            with factory.write() as session:
                session.add(UserRow(name=f"{number}-{at}", role="analyst"))

    threads = [threading.Thread(target=add, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with factory.read() as session:
        assert session.query(UserRow).count() == 160
    factory.dispose()


def test_sqlite_is_durable_and_zeroes_what_is_deleted(tmp_path):
    factory = SessionFactory(f"sqlite:///{tmp_path}/x.db")
    with factory.engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        }
    assert json.dumps(pragmas) == json.dumps(
        {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1}
    )
    factory.dispose()
    assert sqlite3.sqlite_version_info >= (3, 35)
