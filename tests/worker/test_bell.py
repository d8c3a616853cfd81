"""Who waits for the embedded queue is woken: by a message, by a signal, by work that ended."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from kombu import Connection, Message, Queue

from app.services.queue import sqlite_transport
from app.services.queue.bell import SUFFIX, Bell, ring

LONG, SOON = 60.0, 30.0  # a test that is not woken waits LONG


@pytest.fixture
def queue(tmp_path: Path) -> str:
    return str(tmp_path / "queue [1].sqlite3")  # what a pattern would mean otherwise


@pytest.fixture(autouse=True)
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a bell wakes, no look now and then."""
    monkeypatch.setattr(sqlite_transport, "LOOK_SECONDS", LONG)


def bells(queue: str) -> list[Path]:
    return list(Path(queue).parent.glob(f"*{SUFFIX}"))


def later(act: object, *given: object) -> threading.Timer:
    timer = threading.Timer(0.1, act, given)  # type: ignore[arg-type]
    timer.start()
    return timer


def test_a_bell_wakes_who_waits_and_only_once(queue: str) -> None:
    bell = Bell(queue)
    later(ring, queue)
    assert bell.wait(LONG)
    assert not bell.wait(0.0)
    bell.close()
    assert not bells(queue)


def test_rings_before_the_wait_are_not_lost_and_never_block(queue: str) -> None:
    bell = Bell(queue)
    for _ in range(70_000):  # more than a pipe holds
        bell.ring()
    ring(queue)
    assert bell.wait(LONG)
    bell.close()


def test_the_bell_of_a_process_that_died_is_taken_away(queue: str) -> None:
    child = os.fork()
    if not child:
        Bell(queue)
        os._exit(0)
    os.waitpid(child, 0)
    assert len(bells(queue)) == 1
    ring(queue)
    assert not bells(queue)


def test_a_signal_wakes_the_main_thread(queue: str) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    bell = Bell(queue)
    try:
        later(os.kill, os.getpid(), signal.SIGUSR1)
        assert bell.wait(LONG)
    finally:
        bell.close()
        signal.signal(signal.SIGUSR1, before)
    assert signal.set_wakeup_fd(-1) == -1


def connect(path: str, **options: float) -> Connection:
    sqlite_transport.register()
    return Connection("dpmcmcqueue://", transport_options={"path": path, **options})


def test_a_message_is_taken_at_once_by_who_waits_for_it(queue: str) -> None:
    with connect(queue) as ours, ours.SimpleQueue("jobs") as waiting:

        def put() -> None:
            with connect(queue) as theirs, theirs.SimpleQueue("jobs") as told:
                told.put("now")

        began = time.monotonic()
        later(put)
        message = waiting.get(timeout=LONG)
        message.ack()
        assert message.payload == "now"
        assert time.monotonic() - began < SOON
    assert not bells(queue)


def test_what_another_consumer_gives_back_is_taken_at_once(queue: str) -> None:
    with connect(queue) as first, connect(queue) as second:
        first.SimpleQueue("jobs").put("again")
        held = first.SimpleQueue("jobs").get(timeout=LONG)
        later(held.reject, True)
        began = time.monotonic()
        assert second.SimpleQueue("jobs").get(timeout=LONG).payload == "again"
        assert time.monotonic() - began < SOON


@pytest.mark.parametrize("end", ["ack", "reject"])
def test_who_holds_as_many_as_it_may_goes_on_once_one_has_ended(queue: str, end: str) -> None:
    """As a worker does: a thread of its pool says that a job has ended while its loop waits."""
    taken: list[Message] = []
    with connect(queue) as ours:
        for body in ("first", "second"):
            ours.SimpleQueue("jobs").put(body)
        with ours.Consumer([Queue("jobs")], on_message=taken.append, prefetch_count=1):
            ours.drain_events(timeout=LONG)
            later(getattr(taken[0], end))
            began = time.monotonic()
            ours.drain_events(timeout=LONG)
            assert time.monotonic() - began < SOON
    assert [message.payload for message in taken] == ["first", "second"]


def test_a_wait_with_patience_ends_when_it_is_woken_for_something_else(queue: str) -> None:
    with connect(queue, patience=LONG) as ours, ours.SimpleQueue("jobs"):
        with pytest.raises(TimeoutError):
            ours.drain_events(timeout=LONG)  # its bell is made, and looked past once
        later(ours.transport.wake)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            ours.drain_events(timeout=LONG)
        assert time.monotonic() - began < SOON


def test_a_folder_that_takes_no_bells_is_looked_at_instead(
    queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mkfifo", refused)
    with connect(queue) as ours, ours.SimpleQueue("jobs") as waiting:

        def put() -> None:
            with connect(queue) as theirs, theirs.SimpleQueue("jobs") as told:
                told.put("now")

        later(put)
        assert waiting.get(timeout=LONG).payload == "now"
    assert not bells(queue)
