"""A plain route changes threads once; what reads a body or waits stays on the event loop."""

import asyncio
from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient

from app.api import endpoints
from app.api.endpoints import Lanes, Route, in_thread


def on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def caller() -> bool:
    return await in_thread(on_loop)


@pytest.fixture
def client() -> TestClient:
    made = FastAPI()
    made.router.route_class = Route
    made.state.lanes, made.state.settle = Lanes(), None

    @made.get("/plain")
    def plain(who: bool = Depends(caller)) -> list[bool]:
        return [who, on_loop()]

    @made.get("/loop")
    async def loop() -> bool:
        return on_loop()

    @made.post("/plain")
    def write(who: bool = Depends(caller)) -> list[bool]:
        return [who, on_loop()]

    return TestClient(made)


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is handed to another thread."""
    seen: list[Any] = []
    hand_over = endpoints.run_in_threadpool

    async def watched(function: Any, *given: Any, **named: Any) -> Any:
        seen.append(function)
        return await hand_over(function, *given, **named)

    monkeypatch.setattr(endpoints, "run_in_threadpool", watched)
    return seen


def test_a_request_without_a_body_is_handled_in_one_thread(client, changes) -> None:
    assert client.get("/plain").json() == [False, False]
    assert changes == [endpoints._to_its_end]


def test_a_request_that_may_have_a_body_is_handled_on_the_loop(client, changes) -> None:
    assert client.post("/plain").json() == [False, False]
    assert len(changes) == 2


def test_a_coroutine_stays_on_the_event_loop(client) -> None:
    assert client.get("/loop").json() is True


def test_handling_that_waits_is_refused() -> None:
    with pytest.raises(RuntimeError, match="waited"):
        endpoints._to_its_end(lambda _: asyncio.sleep(0), Request({"type": "http"}))
