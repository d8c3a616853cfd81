"""A full disk: the answer says so, nothing half stays, and a start ends in one line."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from app import serve
from app.settings import settings
from app.storage import durable
from app.storage.errors import is_full
from tests.api.support import CSV, House

FULL = "/dev/full"  # every write to it fails as on a full disk


def full_spool(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(**_: Any) -> Any:
        return open(FULL, "r+b", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", opened)


def full_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "_create", lambda _: os.open(FULL, os.O_WRONLY))


@pytest.mark.parametrize("fill", [full_spool, full_store])
def test_an_upload_to_a_full_disk_is_507(
    house: House, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        fill(patched)
        answer = house.admin.upload(CSV)
    assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
    assert not list(house.settings.datasets_dir.glob("*.rows*"))
    assert house.admin.upload(CSV).status_code == 201


def test_an_upload_to_a_full_database_is_507(house: House) -> None:
    engine = house.services.sessions.engine
    with engine.connect() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        kept = connection.execute(text("PRAGMA max_page_count")).scalar_one()
    engine.dispose()

    def limit(connection: Any, _: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "connect", limit)
    try:
        answers = [house.admin.upload(CSV) for _ in range(8)]
    finally:
        event.remove(engine, "connect", limit)
        engine.dispose()
    assert {answer.status_code for answer in answers} <= {201, 507}
    assert (answers[-1].status_code, answers[-1].json()["code"]) == (507, "storage_full")
    assert kept > pages
    assert house.admin.upload(CSV).status_code == 201


@pytest.mark.parametrize("what", ["the key file", "the database"])
def test_a_start_with_a_full_disk_ends_in_one_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullError(Exception):
        sqlite_errorcode = 13

    broken = {
        "the key file": OSError(errno.ENOSPC, "No space left on device"),
        "the database": OperationalError("INSERT", {}, FullError()),
    }[what]
    assert is_full(broken)

    def fails(*_: Any) -> None:
        raise broken

    monkeypatch.setenv("DPMCMC_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(serve, "serve", fails)
    settings.cache_clear()
    with pytest.raises(SystemExit) as ended:
        serve.main([])
    settings.cache_clear()
    (line,) = str(ended.value).splitlines()
    assert line == (f"dpmcmc does not start: the disk of {tmp_path} or of the database is full")
