"""A worker says whether it can take a job now, and ends where it takes none that it could."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection

from app.services.context import open_services
from app.services.queue import messages
from app.services.queue.messages import celery_app, publish, queue_of
from app.settings import Settings
from tests.api.support import House, house_in
from worker import ability
from worker.ability import DEAF_LOOKS, STUCK_SECONDS, Ability


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Celery's, of a worker with nothing to do."""
    made = SimpleNamespace(reserved_requests=set(), total_count=Counter(), should_stop=None)
    monkeypatch.setattr(ability, "state", made)
    return made


def worker(house: House, looked_at: float | None = None) -> Ability:
    connection = SimpleNamespace(transport=SimpleNamespace(looked_at=looked_at))
    return Ability(house.services, SimpleNamespace(connection=connection))


def waiting(monkeypatch: pytest.MonkeyPatch, messages: int) -> None:
    monkeypatch.setattr(ability, "waiting_messages", lambda _: messages)


def test_a_worker_that_ignores_messages_is_deaf_and_ends(
    house: House, state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = worker(house)
    waiting(monkeypatch, 3)
    for _ in range(DEAF_LOOKS):
        assert one.look()
        assert not one.deaf
    assert not one.look()
    assert one.deaf
    assert state.should_stop == 1


@pytest.mark.parametrize("why", ["none waits", "busy", "takes some", "broker away", "connects"])
def test_a_worker_with_a_reason_to_take_none_is_not_deaf(
    house: House, state: Any, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    one = worker(house)
    waiting(monkeypatch, 0 if why == "none waits" else 3)
    if why == "busy":
        state.reserved_requests = set(range(house.settings.worker_concurrency))
    if why == "connects":
        one._consumer.connection = None
    if why == "broker away":

        def away(_: object) -> int:
            raise ConnectionRefusedError

        monkeypatch.setattr(ability, "waiting_messages", away)
    for _ in range(3 * DEAF_LOOKS):
        if why == "takes some":
            state.total_count["job"] += 1
        assert one.look() == (why not in ("broker away", "connects"))
        assert not one.deaf
    assert state.should_stop is None


def test_a_worker_whose_loop_stands_still_is_deaf(house: House, state: Any) -> None:
    assert not worker(house, time.monotonic()).deaf
    assert worker(house, time.monotonic() - 2 * STUCK_SECONDS).deaf


def test_a_worker_with_another_key_or_without_the_rows_is_not_able(
    house: House, state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(monkeypatch, 0)
    one = worker(house)
    house.dataset()
    assert one.look()
    elsewhere = Settings(data_dir=tmp_path / "elsewhere", database_url="")
    one._services = replace(house.services, vault=open_services(elsewhere).vault)
    assert not one.look()
    one._services = house.services
    house.settings.datasets_dir.rename(tmp_path / "aside")
    assert not one.look()
    (tmp_path / "aside").rename(house.settings.datasets_dir)
    assert one.look()
    assert not one.deaf


@pytest.mark.parametrize("broker", ["embedded", pytest.param("redis", marks=pytest.mark.services)])
def test_two_installations_share_a_broker_and_no_queue(
    tmp_path: Path, broker: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "" if broker == "embedded" else request.getfixturevalue("redis_url")
    using = Settings(data_dir=tmp_path / "one", BROKER_URL=url)  # type: ignore[call-arg]
    (tmp_path / "one").mkdir()
    monkeypatch.setattr(messages, "settings", lambda: using)
    celery_app.cache_clear()
    try:
        with house_in(tmp_path / "one") as one, house_in(tmp_path / "two") as two:
            mine, theirs = one.services.sessions, two.services.sessions
            assert str(mine.installation) in queue_of(mine)
            assert queue_of(mine) != queue_of(theirs)
            publish(mine, one.services.sessions.installation)
            assert (messages.waiting_messages(mine), messages.waiting_messages(theirs)) == (1, 0)
            with celery_app().connection_for_write() as connection:
                assert isinstance(connection, Connection)
                connection.default_channel.queue_purge(queue_of(mine))
            one.services.close()
            two.services.close()
    finally:
        celery_app.cache_clear()
