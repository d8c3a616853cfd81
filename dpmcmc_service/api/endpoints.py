"""Routes whose plain functions cost one change of threads each.

A change wakes two threads, one after the other, which takes longer than most answers take to make.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

Found = TypeVar("Found")
READS = {"GET"}  # requests without a body: there is nothing to wait for


async def in_thread(function: Callable[..., Found], *given: Any, **named: Any) -> Found:
    """What a function returns that may wait for the database: called in a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # this is one: see Route
        return function(*given, **named)
    return await run_in_threadpool(function, *given, **named)


class Route(APIRoute):
    """A route that runs a plain function in a thread.

    Where the request has no body, all of its handling is in that thread: who asks, the function
    and its answer. The framework would take another thread for each of the three.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        self._plain = not iscoroutinefunction(endpoint)
        super().__init__(path, _awaited(endpoint) if self._plain else endpoint, **given)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As the framework asks for it, which calls a plain function in a thread."""
        handler: Any = super().get_route_handler()
        if not self._plain or self.methods != READS:
            return handler  # type: ignore[no-any-return]
        return lambda request: _to_its_end(handler(request))


def _awaited(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(endpoint)
    async def run(**given: Any) -> Any:
        return await in_thread(endpoint, **given)

    return run


def _to_its_end(handling: Coroutine[Any, Any, Found]) -> Found:
    """What a coroutine returns that never waits."""
    try:
        handling.send(None)
    except StopIteration as end:
        found: Found = end.value
        return found
    handling.close()
    raise RuntimeError("the handling of a request without a body waited for something")
