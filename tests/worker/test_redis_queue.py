"""A worker all of whose places are busy while Redis is away takes messages again afterwards."""

import math
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection
from redis.exceptions import ConnectionError as AwayError

from app.services.queue.messages import celery_app
from tests.chaos.programs import Program, redis_server
from tests.conftest import absent


def listens(url: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1].split("/")[0])), 1).close()
    except OSError:
        return False
    return True


def start(server: Program, url: str) -> None:
    server.start()
    deadline = time.monotonic() + 30
    while not listens(url):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Program, str]]:
    made = redis_server(tmp_path)
    if made is None:
        absent("redis-server")
    start(*made)
    yield made
    made[0].kill(math.inf)


@pytest.mark.services
@pytest.mark.parametrize("answer", ["ack", "reject", "requeue"])
def test_a_message_that_cannot_be_acknowledged_gives_its_place_back(
    server: tuple[Program, str], answer: str
) -> None:
    program, url = server
    celery_app()  # it makes the transport known
    with Connection(url) as connection:
        assert type(connection.transport).__module__ == "app.services.queue.redis_transport"
        channel = connection.default_channel
        channel.basic_qos(0, 1, False)
        queue = connection.SimpleQueue("jobs", channel=channel)
        queue.put("one")
        message: Any = queue.get(timeout=5)
        assert not channel.qos.can_consume()
        program.kill(math.inf)
        answers = {"ack": message.ack, "reject": message.reject, "requeue": message.requeue}
        with pytest.raises((AwayError, OSError)):
            answers[answer]()
        assert channel.qos.can_consume()
        start(program, url)


@pytest.mark.services
def test_with_kombus_own_transport_the_place_is_lost(server: tuple[Program, str]) -> None:
    """Why there is one of ours: once this fails, ours has no use any more."""
    program, url = server
    with Connection(url, transport="kombu.transport.redis:Transport") as connection:
        channel = connection.default_channel
        channel.basic_qos(0, 1, False)
        queue = connection.SimpleQueue("jobs", channel=channel)
        queue.put("one")
        message: Any = queue.get(timeout=5)
        program.kill(math.inf)
        with pytest.raises((AwayError, OSError)):
            message.ack()
        assert not channel.qos.can_consume()
        start(program, url)
