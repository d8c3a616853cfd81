"""Ready means that a job could be taken and run."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpmcmc_service.jobs import readiness, rewind
from tests.api.support import House, house_in


def test_a_full_disk_is_not_ready(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert house.http.get("/readyz").json()["checks"]["disk"] == "ok"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    answer = house.http.get("/readyz")
    assert answer.status_code == 507
    assert answer.json()["checks"]["disk"] == "unavailable"
    assert answer.json()["status"] == "unavailable"
    monkeypatch.setattr(rewind, "look", lambda _: False)  # more than room is wrong
    answer = house.http.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["ledger"]) == (503, "unavailable")


def test_a_service_with_workers_is_ready_once_one_listens(tmp_path: Path) -> None:
    """On a cold cache the first worker compiles for most of a minute."""
    with house_in(tmp_path, workers=1) as house:
        answer = house.http.get("/readyz")
        assert (answer.status_code, answer.json()["checks"]["worker"]) == (503, "unavailable")
        readiness.announce(tmp_path)
        assert house.http.get("/readyz").status_code == 200
        for file in (tmp_path / readiness.FOLDER).iterdir():
            file.unlink()  # a worker that is lost is started again; jobs wait for it
        assert house.http.get("/readyz").status_code == 200


def test_a_worker_of_an_earlier_life_does_not_count(tmp_path: Path) -> None:
    (tmp_path / readiness.FOLDER).mkdir()
    stale = tmp_path / readiness.FOLDER / f"{os.getpid()}:1"
    stale.touch()
    with pytest.raises(LookupError):
        readiness.check_worker(tmp_path)
    readiness.announce(tmp_path)
    assert not stale.exists()
    readiness.check_worker(tmp_path)
