"""`python -m app.migrate`: not under running processes, and not over a later version's schema."""

import os
import subprocess
import sys

import pytest
from sqlalchemy import text

from app.services.presence import API, leave, say
from app.storage.migrate import NewerSchemaError, downgrade, is_current, upgrade
from app.storage.session import SessionFactory


@pytest.fixture
def sessions(tmp_path):
    made = SessionFactory(f"sqlite:///{tmp_path / 'dpmcmc.db'}")
    upgrade(made.engine)
    yield made
    made.dispose()


def migrated(sessions, tmp_path, program="app.migrate"):
    environment = {
        **os.environ,
        "DATABASE_URL": str(sessions.engine.url),
        "DPMCMC_DATA_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.longer
def test_no_migration_is_applied_under_a_process_that_runs(sessions, tmp_path):
    say(sessions, API, able=True)
    assert migrated(sessions, tmp_path).returncode == 0  # nothing is missing
    downgrade(sessions.engine, "-1")
    refused = migrated(sessions, tmp_path)
    assert refused.returncode == 1
    assert "api on " in refused.stderr
    assert "stop them all" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not is_current(sessions.engine)
    leave(sessions)
    done = migrated(sessions, tmp_path)
    assert done.returncode == 0, done.stderr
    assert is_current(sessions.engine)


@pytest.mark.longer
@pytest.mark.parametrize("program", ["app.migrate", "app.serve", "worker.recovery"])
def test_a_database_of_a_later_version_is_left_alone(sessions, tmp_path, program):
    with sessions.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'later'"))
    with pytest.raises(NewerSchemaError):
        upgrade(sessions.engine)
    refused = migrated(sessions, tmp_path, program)
    assert refused.returncode == 1
    assert "later version has migrated the database (to later)" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_empty_database_is_migrated(tmp_path):
    empty = SessionFactory(f"sqlite:///{tmp_path / 'new.db'}")
    assert migrated(empty, tmp_path).returncode == 0
    assert is_current(empty.engine)
    empty.dispose()
