"""What one caller may take of the service: requests, event streams, connections."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app import connections
from app.api import limits
from app.api.endpoints import key_of
from app.api.limits import OwnMeter, Rates, SharedMeter
from app.api.metrics import Metrics
from app.api.middleware import Front
from app.connections import LEAST_PART, MOST_PART, Impatient
from app.services.errors import Refusal
from app.settings import Settings
from tests.api.support import ADMIN, CSV, METADATA, House, client, house_in, job_of, running


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path, rate_requests=10) as made:
        yield made


def test_requests_beyond_the_rate_are_429_until_time_has_passed(narrow: House) -> None:
    ada = narrow.user("analyst")
    bob = narrow.user("analyst")
    answers = [ada.get("/v1/models") for _ in range(12)]
    first, last = answers[0], answers[-1]
    assert first.status_code == 200
    assert first.headers["ratelimit-limit"] == "10"
    assert first.headers["ratelimit-remaining"] == "9"
    assert first.headers["ratelimit-reset"] == "1"
    assert "retry-after" not in first.headers
    assert [a.status_code for a in answers].count(429) >= 1
    assert (last.status_code, last.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(last.headers["retry-after"]) <= 10
    assert last.headers["ratelimit-remaining"] == "0"
    assert bob.get("/v1/models").status_code == 200
    time.sleep(int(last.headers["retry-after"]))
    assert ada.get("/v1/models").status_code == 200


def test_further_keys_are_no_further_requests(narrow: House) -> None:
    ada = narrow.user("analyst")
    key = ada.post("/v1/users/me/keys").json()["key"]
    statuses = [ada.get("/v1/models").status_code for _ in range(12)]
    assert 429 in statuses
    other = ada.http.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
    assert other.status_code == 429


def test_what_is_no_key_is_not_counted(narrow: House) -> None:
    for _ in range(20):
        assert narrow.http.get("/v1/models").status_code == 401
    assert narrow.http.get("/healthz").status_code == 200


def test_who_is_refused_again_and_again_waits_for_each_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, ada = 1000.0, uuid4()
    monkeypatch.setattr(limits.time, "monotonic", lambda: now)
    refusals = limits.Refusals()
    assert [refusals.wait_seconds(ada) for _ in range(limits.AT_ONCE)] == [0.0] * limits.AT_ONCE
    assert refusals.wait_seconds(ada) == limits.WAIT_SECONDS
    assert refusals.wait_seconds(uuid4()) == refusals.wait_seconds(None) == 0.0
    now += limits.WINDOW_SECONDS
    assert refusals.wait_seconds(ada) == 0.0


def test_refusals_wait_and_no_other_answer_does(
    narrow: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[UUID | None]()

    def wait_seconds(_: limits.Refusals, user: UUID | None) -> float:
        asked.append(user)
        return 0.3

    monkeypatch.setattr(limits.Refusals, "wait_seconds", wait_seconds)
    ada = narrow.user("analyst")
    assert ada.get("/v1/models").status_code == 200
    assert narrow.http.get("/readyz").status_code in (200, 503)
    assert ada.get("/v1/users").status_code == 403
    assert asked == []
    began = time.monotonic()
    assert narrow.http.get("/v1/models").status_code == 401
    assert time.monotonic() - began >= 0.3
    while ada.get("/v1/models").status_code == 200:
        pass
    assert asked == [None, UUID(ada.id)]


def test_who_leaves_again_and_again_waits_with_every_key_until_time_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, ada, each = 1000.0, uuid4(), limits.WINDOW_SECONDS / limits.LEFT_AT_ONCE
    monkeypatch.setattr(limits.time, "monotonic", lambda: now)
    departures = limits.Departures()
    for _ in range(limits.LEFT_AT_ONCE):
        departures.count(b"one key", ada)
        assert departures.wait_seconds(b"one key") == 0.0
    departures.count(b"another", ada)
    assert departures.wait_seconds(b"one key") == departures.wait_seconds(b"another") == each
    assert departures.wait_seconds(b"somebody else's") == 0.0
    now += each
    assert departures.wait_seconds(b"one key") == 0.0
    for _ in range(1000):
        departures.count(b"one key", ada)
    assert departures.wait_seconds(b"one key") == limits.WAIT_SECONDS


@pytest.mark.parametrize("stays", [True, False])
def test_nothing_is_done_for_who_leaves_while_he_waits_and_the_rest_for_who_stays(
    monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    caller = SimpleNamespace(id=uuid4(), role="analyst", key_id=None)
    bodies, statuses = list[bytes](), list[int]()
    counted = list[tuple[bytes, UUID]]()
    monkeypatch.setattr(limits.Departures, "count", lambda _, *left: counted.append(left))
    monkeypatch.setattr(limits.Departures, "wait_seconds", lambda *_: 0.05 if counted else 0.0)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["caller"] = caller
        bodies.append(b"".join([(await receive())["body"] for _ in range(2)]))
        if len(bodies) < 2:
            raise ClientDisconnect
        await send({"type": "http.response.start", "status": 200, "headers": []})

    def asked(path: str = "/v1/plans") -> None:
        queue = [b"a", b"b"]

        async def receive() -> Message:
            if queue:
                return {"type": "http.request", "body": queue.pop(0), "more_body": bool(queue)}
            await asyncio.sleep(60.0 if stays else 0.0)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            statuses.append(message["status"])

        headers = [(b"authorization", b"Bearer hers")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        asyncio.run(front(scope, receive, send))

    front = Front(app, Metrics(), lambda _: 1000, 10.0, {})
    asked()
    assert (bodies, counted) == ([b"ab"], [(key_of("Bearer hers"), caller.id)])
    asked()
    assert (bodies[1:], statuses) == (([b"ab"], [200]) if stays else ([], []))
    asked("/readyz")
    assert (bodies[-1], statuses[-1], len(statuses)) == (b"ab", 200, 2 if stays else 1)
    assert len(counted) == 1


def test_a_meter_earns_back_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(limits.time, "monotonic", lambda: now)
    meter, user = OwnMeter(), uuid4()
    assert [meter.ask(user, 1.0)[0] for _ in range(11)] == [True] * 10 + [False]
    now += 3.0
    assert [meter.ask(user, 1.0)[0] for _ in range(4)] == [True] * 3 + [False]
    now += 3600.0
    assert meter.ask(user, 1.0) == (True, 1.0)


@pytest.mark.services
def test_processes_share_one_meter_in_redis(redis_url: str) -> None:
    first, second, user = SharedMeter(redis_url), SharedMeter(redis_url), uuid4()
    allowed = [meter.ask(user, 2.0)[0] for _ in range(4) for meter in (first, second)]
    assert allowed == [True] * 5 + [False] * 3
    assert first.ask(uuid4(), 2.0)[0]


def test_a_process_counts_alone_while_redis_is_away(tmp_path: Path) -> None:
    away = Settings(data_dir=tmp_path, broker_url="redis://127.0.0.1:1/0", rate_requests=10)  # type: ignore[call-arg]
    rates, user = Rates(away), uuid4()
    assert [rates.ask(user).allowed for _ in range(11)] == [True] * 10 + [False]


def test_places_for_streams_are_few_for_each_and_for_all(tmp_path: Path) -> None:
    streams = limits.streams(Settings(data_dir=tmp_path, max_streams_of_user=2, max_streams=3))
    ada, bob = uuid4(), uuid4()
    streams.take(ada)
    streams.take(ada)
    with pytest.raises(Refusal) as refused:
        streams.take(ada)
    assert (refused.value.status, refused.value.code) == (429, "too_many_streams")
    streams.take(bob)
    with pytest.raises(Refusal):
        streams.take(bob)
    streams.leave(ada)
    streams.take(bob)


class Listening:
    """One event stream over a socket of its own."""

    def __init__(self, url: str, job: str, key: str) -> None:
        port = int(url.rsplit(":", 1)[1])
        self.line = socket.create_connection(("127.0.0.1", port), timeout=30)
        ask = (
            f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
        )
        self.line.sendall(ask.encode())
        self.status = int(self.line.recv(200).split()[1])

    def close(self) -> None:
        self.line.close()


@pytest.mark.longer
def test_streams_leave_their_places(tmp_path: Path) -> None:
    """A stream too many is 429, and one that ended makes room."""
    few = {"DPMCMC_WORKERS": "0", "DPMCMC_MAX_STREAMS_OF_USER": "5"}
    with running(tmp_path, few) as (_, service), ExitStack() as opened:
        admin = client(service, ADMIN)
        (tmp_path / "rows.csv").write_bytes(CSV)
        dataset = admin.upload(tmp_path / "rows.csv", METADATA)["id"]
        key = admin.create_user("ada", "analyst")["key"]
        ada = client(service, key)
        job = ada.submit(job_of(dataset))["id"]
        streams = [
            opened.enter_context(closing(Listening(service.url, job, key))) for _ in range(7)
        ]
        assert [s.status for s in streams] == [200] * 5 + [429] * 2
        streams[0].close()
        assert _within(10, lambda: _status(service.url, job, key) == 200)
        ada.cancel(job)
        for stream in streams[1:5]:
            assert b'"cancelled"' in _rest(stream.line)
        assert _status(service.url, job, key) == 200  # all have ended


def _status(url: str, job: str, key: str) -> int:
    with closing(Listening(url, job, key)) as stream:
        return stream.status


def _rest(line: socket.socket) -> bytes:
    line.settimeout(30)
    said = b""
    while b'"cancelled"' not in said:
        more = line.recv(65536)
        if not more:
            break
        said += more
    return said


def _within(seconds: float, condition: Any) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


def test_one_look_serves_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred streams of ten jobs: each look asks for all of them at once."""
    from app.api import sse
    from app.services.accounts.caller import Caller
    from app.services.results.fetch import Watched

    monkeypatch.setattr(sse, "LOOK_SECONDS", 0.01)
    jobs = [Watched(uuid4(), "queued", 0, 10, None) for _ in range(10)]
    callers = [Caller(uuid4(), "analyst", uuid4()) for _ in range(10)]
    looks: list[int] = []

    def look(ids: Any, who: Any) -> Any:
        looks.append(len(ids))
        ended = len(looks) > 3
        state = "succeeded" if ended else "queued"
        return {one.id: Watched(one.id, state, 10 * ended, 10, None) for one in jobs}, set(who)

    async def read(notifier: sse.Notifier, n: int) -> list[str]:
        told = []
        async for found in notifier.follow(callers[n % 10], jobs[n % 10]):
            assert found is not None
            told.append(found.status)
            if found.status == "succeeded":
                break
        return told

    async def all_of_them() -> list[list[str]]:
        notifier = sse.Notifier(look, threading.Event())
        return await asyncio.gather(*(read(notifier, n) for n in range(100)))

    told = asyncio.run(all_of_them())
    assert told == [["queued", "succeeded"]] * 100
    assert looks == [10] * 4


def test_a_stream_of_several_jobs_tells_what_changed_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from app.api import sse
    from app.services.accounts.caller import Caller
    from app.services.results.fetch import Watched

    monkeypatch.setattr(sse, "LOOK_SECONDS", 0.01)
    first, second = (Watched(uuid4(), "queued", 0, 10, None) for _ in range(2))
    running = Watched(second.id, "running", 5, 10, None)
    looks = iter([{first.id: first, second.id: second}, {first.id: first, second.id: running}])

    def look(_: Any, who: Any) -> Any:
        return next(looks, {first.id: first}), set(who)  # in the end one is not there any more

    async def read() -> list[Watched | None]:
        follow = sse.Notifier(look, threading.Event()).follow
        return [found async for found in follow(Caller(uuid4(), "analyst", uuid4()), first, second)]

    assert asyncio.run(read()) == [first, second, running]


def test_progress_of_several_jobs_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.api.routes import job_events
    from app.services.results.fetch import Watched

    monkeypatch.setattr(job_events, "PROGRESS_SECONDS", 60.0)
    one, other = uuid4(), uuid4()
    steps = [Watched(one, "running", step, 1000, None) for step in range(0, 1000, 10)]
    ends = [Watched(job, "cancelled", 990, 1000, None) for job in (one, other)]

    async def seen() -> AsyncIterator[Watched | None]:
        for found in [steps[0], None, *steps, *ends]:
            yield found

    async def read() -> list[bytes]:
        return [part async for part in job_events.job_events(seen(), 2)]

    told = asyncio.run(read())
    assert [b'"running"' in part for part in told] == [True, False, False, False]
    assert told[1] == b": still here\n\n"
    assert [b'"cancelled"' in part for part in told[2:]] == [True, True]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that waits a second for headers."""
    folder = tmp_path_factory.mktemp("hasty")
    environment = {"DPMCMC_WORKERS": "0", "DPMCMC_REQUEST_SECONDS": "1"}
    with running(folder, environment) as (_, service):
        yield service.url


def _open(url: str, said: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=10)
    line.sendall(said)
    return line


@pytest.mark.longer
@pytest.mark.parametrize(
    "said", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-More: "]
)
def test_a_connection_that_sends_no_headers_is_closed(hasty: str, said: bytes) -> None:
    began = time.monotonic()
    with closing(_open(hasty, said)) as line:
        assert line.recv(1000) == b""
    assert time.monotonic() - began < 8


def test_headers_that_trickle_in_renew_no_time(hasty: str) -> None:
    """Also of a second request on the same connection."""
    with closing(_open(hasty, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")) as line:
        assert b" 200 " in line.recv(5000)
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 8:
                line.sendall(b"G")
                time.sleep(0.2)
    assert time.monotonic() - began < 7


def test_a_body_that_does_not_come_is_408(hasty: str) -> None:
    head = (
        "POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {ADMIN}\r\nContent-Length: 100\r\n\r\n"
    )
    with closing(_open(hasty, head.encode() + b'{"name"')) as line:
        answer = b""
        while more := line.recv(5000):  # until the service closes the connection
            answer += more
    assert b" 408 " in answer
    assert b'"request_timeout"' in answer


def test_a_body_that_was_sent_while_the_service_was_busy_is_read() -> None:
    """Bytes that trickle in renew no time, also after it."""
    read: list[bytes] = []

    def posted(*pieces: bytes) -> int:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            time.sleep(0.3)
            while True:
                message = await receive()
                read.append(message["body"])
                if not message["more_body"]:
                    break
            await send({"type": "http.response.start", "status": 200, "headers": []})

        queue = list(pieces)

        async def receive() -> Message:
            await asyncio.sleep(0.01)
            if not queue:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": queue.pop(0), "more_body": bool(queue)}

        statuses: list[int] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
        front = Front(app, Metrics(), lambda _: 1000, 0.1, {})
        asyncio.run(front(scope, receive, send))
        return statuses[0]

    assert posted(b"all at once") == 200
    assert read == [b"all at once"]
    assert posted(*(b"x" for _ in range(500))) == 408


def test_a_client_that_answers_in_time_is_served(hasty: str) -> None:
    with httpx.Client(base_url=hasty) as http:
        for _ in range(3):
            assert http.get("/healthz").status_code == 200
            time.sleep(1.2)  # idle between two requests is no trickle


def test_a_body_that_nobody_needs_any_more_does_not_hold_its_connection(hasty: str) -> None:
    """One byte after the other behind a 401: the answer comes at once, and then the end."""
    head = "POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    with closing(_open(hasty, head.encode())) as line:
        assert b" 401 " in line.recv(5000)
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 8:
                line.sendall(b"x")
                time.sleep(0.1)
    assert time.monotonic() - began < 7


@pytest.mark.parametrize("size", [1000, 84_000])  # one part, and a large one last
def test_a_body_that_comes_whole_behind_its_answer_keeps_the_connection(
    hasty: str, size: int
) -> None:
    head = f"POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
    with closing(_open(hasty, head.encode())) as line:
        answer = b""
        while not answer.endswith(b"}"):
            answer += line.recv(5000)
        line.sendall(b"x" * size)
        time.sleep(0.3)
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in line.recv(5000)


def test_requests_one_behind_the_other_are_answered_in_order(hasty: str) -> None:
    """Pipelined, in more bytes than are parsed at once, the last one in two parts."""
    many = b"".join(b"GET /x%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(99))
    last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with closing(_open(hasty, many + last[:10])) as line:
        time.sleep(0.2)
        line.sendall(last[10:])
        answer = b""
        while more := line.recv(2**16):
            answer += more
    statuses = [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [404] * 99 + [200]


@pytest.mark.parametrize(
    "said",
    [
        b"GET /" + b"x" * 100_000,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-More: " + b"x" * 100_000,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 20_000,
        b"POST /v1/users HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\nx\r\n0\r\nX-Trailer: " + b"x" * 100_000,
        b"POST /v1/users HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1;" + b"x" * 100_000,
        b"POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n"
        + b"x" * 99_999
        + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 1000,
        b"BREW /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_too_long_or_no_http_ends_the_connection(hasty: str, said: bytes) -> None:
    answer = b""
    with closing(_open(hasty, said)) as line, suppress(ConnectionError):
        while more := line.recv(2**16):
            answer += more
    assert b" 200 " not in answer
    with httpx.Client(base_url=hasty) as http:
        assert http.get("/healthz").status_code == 200


def test_headers_behind_a_body_are_none_of_the_request(hasty: str) -> None:
    head = (
        "POST /v1/users HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n"
    )
    body = f"2\r\n{{}}\r\n0\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"
    with closing(_open(hasty, (head + body).encode())) as line:
        answer = b""
        while more := line.recv(5000):
            answer += more
    assert b" 401 " in answer


def test_a_large_body_comes_in_ever_larger_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds many events, such as chunks of one byte, comes in small ones."""
    parts = list[int]()
    line: Any = Impatient.__new__(Impatient)
    line._events_of_a_part = 1

    def parsed(part: bytes) -> None:
        parts.append(len(part))
        line._events += line._events_of_a_part
        line._progress = True

    monkeypatch.setattr(HttpToolsProtocol, "data_received", lambda _, part: parsed(part))
    for _ in range(7):
        line._feed(b"x" * line._part)
    assert parts == [LEAST_PART * 2**n for n in range(6)] + [MOST_PART]
    line._events_of_a_part = 1000
    for _ in range(2):
        line._feed(b"x" * line._part)
    assert parts[-2:] == [MOST_PART, LEAST_PART]


def test_what_comes_whole_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a thread is a system call, for each packet of each body."""
    asked, parsed = list[int](), list[bytes]()
    line: Any = Impatient.__new__(Impatient)
    line.transport, line._watch = SimpleNamespace(), lambda: None
    for name in ("is_closing", "pause_reading", "resume_reading"):
        setattr(line.transport, name, lambda: None)
    line.loop = SimpleNamespace(call_later=lambda *_: None)
    line.flow = SimpleNamespace(read_paused=False)
    line._unparsed = bytearray()
    monkeypatch.setattr(HttpToolsProtocol, "data_received", lambda _, data: parsed.append(data))
    monkeypatch.setattr(connections.time, "thread_time", lambda: asked.append(1) or 0.0)
    line.data_received(b"x" * LEAST_PART)
    assert (parsed, asked) == ([b"x" * LEAST_PART], [])
    line.data_received(b"y" * (2 * LEAST_PART + 1))
    assert (len(parsed), len(asked)) == (2, 2)


def test_threads_of_one_caller_are_few(house: House) -> None:
    """Who waits for as many slow answers as there are threads leaves threads to others."""
    from concurrent.futures import ThreadPoolExecutor

    from app.api.endpoints import AT_ONCE
    from app.services.datasets import records

    ada, bob = house.user("analyst"), house.user("analyst")
    for one in (ada, bob):
        assert one.get("/v1/jobs").status_code == 200  # both are known by their keys
    go_on, inside = threading.Event(), threading.Semaphore(0)

    def slow(*given: Any) -> Any:
        inside.release()
        assert go_on.wait(60.0)
        return plain(*given)

    plain, records.datasets = records.datasets, slow  # type: ignore[assignment]
    try:
        with ThreadPoolExecutor(60) as crowd:
            asked = [crowd.submit(ada.get, "/v1/datasets") for _ in range(60)]
            for _ in range(AT_ONCE):
                assert inside.acquire(timeout=60.0)
            assert not inside.acquire(timeout=0.3)
            for _ in range(5):
                assert bob.get("/v1/jobs").status_code == 200
                assert house.http.get("/v1/jobs").status_code == 401
            assert not any(one.done() for one in asked)
            go_on.set()
            assert {one.result().status_code for one in asked} == {200}
    finally:
        records.datasets = plain
