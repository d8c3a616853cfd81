"""Nothing outside of the service holds what it has to do: every exchange ends in time."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import pytest

from app.services import outward
from app.services.accounts import tokens
from app.services.budgets import rewind
from app.services.budgets.rewind import Exporter
from app.services.context import Services
from app.services.outward import MOST_BYTES, OutsideError, exchange
from tests.api.support import House, house_in
from worker import recovery
from worker.recovery import Outbox, rounds

SECONDS = 0.5
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


def trickle(client: socket.socket, first: bytes) -> None:
    """A byte after the other, each before any timeout of a socket."""
    client.sendall(first)
    while True:
        client.sendall(b"a")
        time.sleep(0.02)


def silent(client: socket.socket) -> None:
    client.recv(1)
    time.sleep(600)


def endless(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        client.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")


MANNERS: dict[str, Callable[[socket.socket], None]] = {
    "head": lambda client: trickle(client, b"HTTP/1.1 200 OK\r\nX: "),
    "status": lambda client: trickle(client, b"H"),
    "body": lambda client: trickle(client, HEAD),
    "silent": silent,
    "endless": endless,
}


@contextmanager
def outside(manner: str) -> Iterator[str]:
    """A server of bad manners."""
    server = socket.create_server(("127.0.0.1", 0))

    def one(client: socket.socket) -> None:
        with client, suppress(OSError):
            MANNERS[manner](client)

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(client,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}/keep"
    server.close()


@pytest.mark.parametrize("manner", MANNERS)
def test_an_exchange_ends_in_time_whatever_is_answered(manner: str) -> None:
    with outside(manner) as url:
        began = time.monotonic()
        with pytest.raises(OutsideError):
            exchange("POST", url, SECONDS, content=b"x" * 1000)
        assert time.monotonic() - began < SECONDS + outward.GRACE_SECONDS + 10


def test_an_answer_has_a_largest_size() -> None:
    with outside("endless") as url, pytest.raises(OutsideError, match="ValueError"):
        exchange("GET", url, 60)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "nowhere", "http://", "http://[::1"])
def test_an_address_that_leads_nowhere_is_an_error_of_its_own(url: str) -> None:
    with pytest.raises(OutsideError):
        exchange("GET", url, SECONDS)


@pytest.mark.longer
def test_what_lingers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outward, "_places", threading.BoundedSemaphore(1))
    with outside("silent") as url:

        def ask() -> None:
            with suppress(OutsideError):
                exchange("GET", url, 5.0)

        first = threading.Thread(target=ask)
        first.start()
        time.sleep(0.2)
        with pytest.raises(OutsideError, match="TooManyExchanges"):
            exchange("GET", url, 5.0)
        first.join()


def test_an_identity_provider_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "FETCH_SECONDS", SECONDS)
    with outside("body") as url, pytest.raises(OutsideError):
        tokens.fetch(url)


def soon(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("manner", ["head", "body", "silent"])
def test_a_webhook_that_hangs_holds_neither_anchors_nor_recovery(
    tmp_path: Path, manner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewind, "WEBHOOK_SECONDS", 120.0)  # longer than this test waits
    monkeypatch.setattr(rewind, "EXPORT_SECONDS", 0.0)
    monkeypatch.setattr(recovery, "ROUND_SECONDS", 0.02)
    monkeypatch.setattr(recovery, "END_SECONDS", 0.1)
    beats: list[bool] = []
    monkeypatch.setattr(recovery.liveness, "beat", lambda _: beats.append(True))
    with outside(manner) as url, house_in(tmp_path, anchor_webhook=url) as house:
        first = UUID(house.dataset())
        stop = threading.Event()
        thread = threading.Thread(target=rounds, args=(house.services, stop))
        thread.start()
        anchors = house.services.vault.anchors
        soon(lambda: first in anchors.latest())
        second = UUID(house.dataset(name="later"))
        before = len(beats)
        soon(lambda: second in anchors.latest() and len(beats) > before + 5)
        stop.set()
        thread.join()
        house.services.close()


def test_a_broker_that_hangs_holds_neither_anchors_nor_recovery(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewind, "EXPORT_SECONDS", 0.0)
    monkeypatch.setattr(recovery, "ROUND_SECONDS", 0.02)
    monkeypatch.setattr(recovery, "END_SECONDS", 0.1)
    monkeypatch.setattr("worker.lost_jobs.FIRST_RESEND_SECONDS", 0.0)
    hanging, goes_on = threading.Event(), threading.Event()

    def publish(_: UUID) -> None:
        hanging.set()
        goes_on.wait(60)

    beats: list[bool] = []
    monkeypatch.setattr(recovery.liveness, "beat", lambda _: beats.append(True))
    dataset, ada = house.dataset(), house.user("analyst")
    house.submit(ada, dataset)
    ours = house.services
    services = Services(ours.settings, ours.sessions, ours.vault, publish)
    stop = threading.Event()
    thread = threading.Thread(target=rounds, args=(services, stop))
    thread.start()
    soon(hanging.is_set)
    before = len(beats)
    soon(lambda: len(beats) > before + 5 and UUID(dataset) in ours.vault.anchors.latest())
    goes_on.set()
    stop.set()
    thread.join()


def test_what_a_broker_does_not_take_stays_to_be_sent() -> None:
    sent: list[int] = []
    away = True

    def publish(job_id: UUID) -> None:
        if away:
            raise ConnectionRefusedError
        sent.append(job_id.int)

    outbox = Outbox(publish)
    for number in (1, 2, 1):
        outbox.put(UUID(int=number))
    with pytest.raises(ConnectionRefusedError):
        outbox.send()
    away = False
    outbox.send()
    outbox.send()
    assert sent == [1, 2]


def test_a_line_that_comes_while_the_webhook_is_told_is_sent_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    exporter = Exporter(house.services)
    using = house.settings.model_copy(update={"anchor_webhook": "http://x"})
    exporter.services = Services(
        using, house.services.sessions, house.services.vault, house.services.publish
    )

    def told(_: str, __: str, ___: float, *, content: bytes, **____: object) -> bytes:
        if not sent:
            house.dataset(name="meanwhile")
            exporter.anchor()
        sent.append(content)
        return b""

    monkeypatch.setattr(rewind, "exchange", told)
    house.dataset()
    exporter.export()
    exporter.send()
    exporter.send()
    assert len(sent) == 2
    assert MOST_BYTES > len(sent[0]) > 0
