"""Routes whose plain functions run in threads, shared fairly among callers.

A change wakes two threads, one after the other, which takes longer than most answers take to make.
"""

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from hashlib import blake2b
from inspect import iscoroutinefunction
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Header, Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from app.api.documents import unless_had
from app.api.schemas import Listing
from app.services.errors import Fault, Refusal

Found = TypeVar("Found")
READS = {"GET"}  # requests without a body: there is nothing to wait for
# Threads share one interpreter: each that computes makes the event loop and all others wait.
AT_ONCE, THREADS = 4, 20  # of one caller, and of all together
MOST_REMEMBERED = 10_000
MOST_QUERY, MOST_PARAMETERS = 8192, 200  # bytes; what reads a query takes time for each


KEY_HEADER = "idempotency-key"
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="of your choice; the same request with the same key is done once",
    ),
]


class Lanes:
    """Limits the threads that one caller uses at once, so that others need not wait.

    A caller is known by a key that lately let somebody in; all others together are one more.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._users: OrderedDict[bytes, UUID] = OrderedDict()
        self._lanes: dict[UUID | None, tuple[asyncio.Semaphore, int]] = {}

    def remember(self, request: Request, user: UUID | None) -> None:
        """Record the user of a request's key; None: unknown."""
        key = key_of(request.headers.get("authorization", ""))
        with self._guard:
            self._users.pop(key, None)
            if user is not None:
                self._users[key] = user
            if len(self._users) > MOST_REMEMBERED:
                self._users.popitem(last=False)

    async def run(self, request: Request, waited: Coroutine[Any, Any, Found]) -> Found:
        """Run a request's handler within its caller's limit, in the event loop."""
        with self._guard:
            user = self._users.get(key_of(request.headers.get("authorization", "")))
        lane, inside = self._lanes.get(user) or (asyncio.Semaphore(AT_ONCE), 0)
        self._lanes[user] = lane, inside + 1
        entered = _LANE.set(lane)
        try:
            return await waited
        finally:
            _LANE.reset(entered)
            inside = self._lanes[user][1] - 1
            self._lanes[user] = lane, inside
            if not inside:
                del self._lanes[user]


_LANE: ContextVar[asyncio.Semaphore | None] = ContextVar("lane", default=None)


def key_of(authorization: str) -> bytes:
    """Return the hash of a request's Authorization header, by which its caller is remembered."""
    return blake2b(authorization.encode(), digest_size=16).digest()


async def in_thread(function: Callable[..., Found], *given: Any, **named: Any) -> Found:
    """Return function(*given, **named), run in a thread within the caller's limit.

    Who has as many as may be waits for one of them, without a thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # this is one: see Route
        return function(*given, **named)
    lane = _LANE.get()
    if lane is None:
        return await run_in_threadpool(function, *given, **named)
    async with lane:
        return await run_in_threadpool(function, *given, **named)


class Route(APIRoute):
    """A route that runs a plain function in a thread and refuses unknown parameters.

    Where the request has no body, all of its handling is in that thread: who asks, the function
    and its answer. The framework would take another thread for each of the three.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        self._plain = not iscoroutinefunction(endpoint)
        super().__init__(path, _awaited(endpoint) if self._plain else endpoint, **given)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's request handler, with plain functions in threads."""
        handler: Any = super().get_route_handler()
        every = get_flat_params(self.dependant)
        known = frozenset(
            field.alias for field in every if isinstance(field.field_info, params.Query)
        )
        headers = {
            field.alias.lower() for field in every if isinstance(field.field_info, params.Header)
        }
        makes = KEY_HEADER in headers
        at_once = self._plain and self.methods == READS

        async def handle(request: Request) -> Response:
            """Handle one request."""
            check_asked(request, known, makes=makes)
            settle = request.app.state.settle
            if settle is not None:
                await settle(request)
            waited = in_thread(_to_its_end, handler, request) if at_once else handler(request)
            answer: Response = await request.app.state.lanes.run(request, waited)
            return unless_had(request, answer)

        return handle


def check_asked(request: Request, known: frozenset[str], *, makes: bool) -> None:
    """Raise Refusal 422 on unknown or too many query parameters.

    makes: whether the request makes something, once for each Idempotency-Key; elsewhere there must
    be no such header.
    """
    query = request.scope["query_string"]
    if len(query) > MOST_QUERY or query.count(b"&") >= MOST_PARAMETERS:
        limits = f"{MOST_PARAMETERS} parameters or {MOST_QUERY} bytes"
        raise _not_valid("/query", f"More than {limits}.")
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        hint = f"Known here: {', '.join(sorted(known)) or 'none'}."
        raise _not_valid(f"/query/{unknown[0][:100]}", f"No such query parameter. {hint}")
    if not makes and KEY_HEADER in request.headers:
        hint = "This request makes nothing, so that the key has no meaning: leave it out."
        raise _not_valid(f"/header/{KEY_HEADER}", hint)


def _not_valid(pointer: str, message: str) -> Refusal:
    """Return Refusal 422 with one fault."""
    return Refusal(422, "invalid_request", "The request is not valid.", [Fault(pointer, message)])


def _awaited(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return the endpoint as a coroutine function."""

    @wraps(endpoint)
    async def run(**given: Any) -> Any:
        """Run the plain function in a thread."""
        return await in_thread(answered, **given)

    def answered(**given: Any) -> Any:
        """Run the function and serialise its page."""
        made = endpoint(**given)
        return _serialised(made) if isinstance(made, Listing) else made

    return run


def _serialised(page: Listing[Any]) -> Response:
    """Return a serialised list page, yielding to other requests between items."""
    items = ",".join(item.model_dump_json() for item in page.items)
    text = f'{{"items":[{items}],"next_cursor":{json.dumps(page.next_cursor)}}}'
    return Response(text, media_type="application/json")


def _to_its_end(
    handler: Callable[[Request], Coroutine[Any, Any, Found]], request: Request
) -> Found:
    """Return the result of a coroutine that never suspends."""
    handling = handler(request)
    try:
        handling.send(None)
    except StopIteration as end:
        result: Found = end.value
        return result
    handling.close()
    raise RuntimeError("the handling of a request without a body waited for something")
