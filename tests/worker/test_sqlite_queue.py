"""The embedded broker keeps every message until it is acknowledged, whoever is killed."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from app.services.queue import sqlite_transport

QUEUE = "jobs"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "queue.sqlite3")


def connect(path: str) -> Connection:
    sqlite_transport.register()
    return Connection("dpmcmcqueue://", transport_options={"path": path})


def put(path: str, *bodies: str) -> None:
    with connect(path) as connection, connection.SimpleQueue(QUEUE) as queue:
        for body in bodies:
            queue.put(body)


def take(path: str, number: int) -> list[str]:
    with connect(path) as connection, connection.SimpleQueue(QUEUE) as queue:
        taken = []
        for _ in range(number):
            message = queue.get(timeout=2)
            message.ack()
            taken.append(message.payload)
        return taken


def test_messages_come_in_order_and_only_once(path: str) -> None:
    put(path, "a", "b", "c")
    assert take(path, 3) == ["a", "b", "c"]
    with pytest.raises(Empty):
        take(path, 1)


def test_an_unacknowledged_message_comes_back_when_its_consumer_closes(path: str) -> None:
    put(path, "a")
    with connect(path) as connection:
        assert connection.SimpleQueue(QUEUE).get(timeout=2).payload == "a"
    assert take(path, 1) == ["a"]


def test_a_rejected_message_comes_back(path: str) -> None:
    put(path, "a")
    with connect(path) as connection, connection.SimpleQueue(QUEUE) as queue:
        queue.get(timeout=2).reject(requeue=True)
    assert take(path, 1) == ["a"]


def hold(path: str, held: Any) -> None:
    connection = connect(path)
    connection.SimpleQueue(QUEUE).get(timeout=5)
    held.set()
    time.sleep(60)


def test_a_message_survives_the_kill_of_its_consumer(path: str) -> None:
    put(path, "a")
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    consumer = context.Process(target=hold, args=(path, held))
    consumer.start()
    assert held.wait(30)
    with pytest.raises(Empty):  # it is held
        take(path, 1)
    os.kill(consumer.pid or 0, signal.SIGKILL)
    consumer.join()
    assert take(path, 1) == ["a"]


def drain(path: str, count: Any) -> None:
    with connect(path) as connection, connection.SimpleQueue(QUEUE) as queue:
        while True:
            try:
                queue.get(timeout=1).ack()
            except Empty:
                return
            with count.get_lock():
                count.value += 1


def test_consumers_at_once_share_the_messages_out(path: str) -> None:
    put(path, *(str(n) for n in range(60)))
    context = multiprocessing.get_context("spawn")
    count = context.Value("i", 0)
    consumers = [context.Process(target=drain, args=(path, count)) for _ in range(3)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert count.value == 60
