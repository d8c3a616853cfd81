"""Ready means that a job could be taken and run."""

import asyncio
import shutil
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from app.api.metrics import Metrics
from app.api.middleware import Front, _Alive
from app.services import presence
from app.services.budgets import rewind
from app.services.presence import WORKER, Presence, able_workers, leave, running, say
from app.storage.rows import ProcessRow
from app.storage.types import utc_now
from tests.api.support import House, house_in


def test_a_plain_probe_is_answered_as_the_framework_would(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(method: str) -> tuple[int, bytes, dict[str, str]]:
        answer = house.http.request(method, "/healthz")
        headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
        return answer.status_code, answer.content, headers

    early = [told(method) for method in ("GET", "HEAD")]
    assert house.http.get("/healthz?of=x").status_code == 422
    assert house.http.post("/healthz").status_code == 405
    with monkeypatch.context() as patched:
        patched.setattr(_Alive, "asked", lambda *_: False)
        assert early == [told(method) for method in ("GET", "HEAD")]
    counted = 'dpmcmc_http_requests_total{method="GET",route="/healthz",status="200"} 2.0'
    assert counted in house.admin.get("/metrics").text


def test_a_full_disk_is_not_ready(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert house.http.get("/readyz").json()["checks"]["disk"] == "ok"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    answer = house.http.get("/readyz")
    assert answer.status_code == 507
    assert answer.json()["checks"]["disk"] == "unavailable"
    assert answer.json()["status"] == "unavailable"
    leave(house.services.sessions)  # a worker cannot say that it is there any more
    assert house.http.get("/readyz").status_code == 507
    monkeypatch.setattr(rewind, "look", lambda _: False)  # more than room is wrong
    answer = house.http.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["ledger"]) == (503, "unavailable")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_service_is_ready_while_a_worker_can_take_a_job(tmp_path: Path, workers: int) -> None:
    """Whoever starts it: this service, or somebody else."""
    with house_in(tmp_path, worker=False, workers=workers) as house:
        sessions = house.services.sessions

        def ready() -> tuple[int, str]:
            answer = house.http.get("/readyz")
            return answer.status_code, answer.json()["checks"]["worker"]

        # of workers that run by themselves none may have been started yet
        assert ready() == (503 if workers else 200, "unavailable")
        assert house.http.get("/readyz").json()["status"] == "unavailable"
        assert house.http.get("/readyz?workers=false").json()["status"] == "ok"
        say(sessions, WORKER, able=False)  # it loads, or has another key, or no rows
        assert ready()[1] == "unavailable"
        say(sessions, WORKER, able=True)
        assert ready() == (200, "ok")
        say(sessions, presence.API, able=True)
        assert ready() == (503, "unavailable")
        say(sessions, WORKER, able=True)
        leave(sessions)
        assert ready() == (503, "unavailable")
        house.services.close()


def known(house: House, **changes: object) -> tuple[int, int]:
    """How many processes run, and how many workers are able, after a change of the only row."""
    with house.services.sessions.write() as session:
        if changes:
            session.execute(update(ProcessRow).values(**changes))
    with house.services.sessions.read() as session:
        return len(running(session)), able_workers(session)


def test_a_process_of_this_machine_counts_while_it_is_there(house: House) -> None:
    long_ago = utc_now() - timedelta(hours=1)
    assert known(house) == (1, 1)
    assert known(house, seen_at=long_ago) == (1, 0)  # it says nothing any more, but has the key
    assert known(house, name=f"1:1@{house.services.settings.data_dir.name}") == (0, 0)
    say(house.services.sessions, WORKER, able=True)  # and forgets who has ended
    with house.services.sessions.read() as session:
        assert session.query(ProcessRow).count() == 1


def test_a_process_of_another_machine_counts_while_it_was_seen_lately(house: House) -> None:
    assert known(house, host="elsewhere") == (1, 1)
    assert known(house, seen_at=utc_now() - timedelta(hours=1)) == (0, 0)


def test_a_thread_says_it_again_and_again_and_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "EVERY_SECONDS", 0.01)
    with house_in(tmp_path, worker=False) as house:
        looked: list[bool] = []
        thread = Presence(
            house.services.sessions, WORKER, lambda: bool(looked.append(True) or len(looked) > 1)
        )
        thread.start()
        while len(looked) < 3:
            pass
        thread.stop()
        with house.services.sessions.read() as session:
            assert running(session) == []
        house.services.close()


def test_a_plain_probe_waits_for_nothing_behind_the_outermost_layer() -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    scope: Any = {"type": "http", "method": "GET", "path": "/healthz", "headers": [], "state": {}}
    front = Front(never, Metrics(), lambda _: 1, 1.0, {"x": 9})
    asyncio.run(asyncio.wait_for(front(scope, receive, send), 5.0))
    assert sent[0]["status"] == 200
