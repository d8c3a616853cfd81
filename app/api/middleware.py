"""ASGI middleware: request ids, body limits, logs, metrics and uncaught exceptions."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import uuid4

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import logs, tracing
from app.api.documents import tag_of
from app.api.endpoints import key_of
from app.api.limits import Departures, Refusals
from app.api.metrics import UNTIMED, Metrics
from app.api.problems import of_status, problem
from app.services.errors import Refusal

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
DRAIN_BYTES = 2**24  # of a refused body, so that its sender reads the answer


PIECE_BYTES = 2**16  # handed to the connection at once
CLIENT_LEFT = 499  # as nginx counts it
REFUSED = frozenset({401, 429, 503})  # what may be asked again at once, to the same end
LAST_LOOK_SECONDS = 0.25  # for a body that was sent while this process did other work
LEAST_RATE = 1024.0  # bytes of a body a second, besides the time that headers have


class BodyTooSlowError(Exception):
    """The body was not received in time."""


class BodyTooLargeError(Exception):
    """The body exceeds the size limit."""


def header(scope: Scope, name: bytes) -> str:
    """Return a request header, or an empty string."""
    return next((v.decode("latin-1") for k, v in scope["headers"] if k == name), "")


def _keep_own_cookies(scope: Scope, own: re.Pattern[bytes]) -> None:
    """Remove all cookies but the dashboard's valid ones.

    The framework would take every cookie of every request apart, in a time that grows with the
    square of one that is quoted.
    """
    cookies = b";".join(value for name, value in scope["headers"] if name == b"cookie")
    if cookies:
        kept = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
        pairs = (cookie.strip() for cookie in cookies.split(b";"))
        own_cookies = dict[bytes, bytes]()
        for cookie in pairs:
            if own.fullmatch(cookie):
                own_cookies.setdefault(cookie.partition(b"=")[0], cookie)
        if own_cookies:
            kept.append((b"cookie", b"; ".join(own_cookies.values())))
        scope["headers"] = kept


class _Alive:
    """The liveness endpoint, answered without the framework so that it never waits."""

    path = "/healthz"
    _body = b'{"status":"ok","checks":{}}'
    _headers = (
        (b"content-length", str(len(_body)).encode()),
        (b"content-type", b"application/json"),
        (b"etag", tag_of(_body).encode()),
    )

    def asked(self, scope: Scope) -> bool:
        """Return whether a request is for this endpoint."""
        plain = scope["path"] == self.path and not scope.get("query_string")
        plain = plain and scope["method"] in ("GET", "HEAD")
        return plain and not header(scope, b"if-none-match")

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer 200."""
        scope["route"] = self  # for the log line and the count
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


_ALIVE = _Alive()


def _route(scope: Scope) -> str:
    """Return the route template of a request, once it was routed."""
    return str(getattr(scope.get("route"), "path", "none"))


def _span(scope: Scope, request_id: str) -> AbstractContextManager[None]:
    """Open the request's trace span below the caller's; none if tracing is off."""
    if (scope["method"], scope["path"]) in UNTIMED or scope["path"] in PROBES:
        return nullcontext()
    parent = header(scope, b"traceparent") or None
    return tracing.span("request", parent=parent, method=_method(scope), request=request_id)


def _method(scope: Scope, *, head: bool = False) -> str:
    """Return the HTTP method if it is a known one, else a placeholder."""
    if head:
        return "HEAD"
    return str(scope["method"]) if scope["method"] in METHODS else "other"


class Front:
    """The outermost middleware. cookies: names of the dashboard's, with their largest sizes."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        limit: Callable[[Scope], int],
        seconds: float,
        cookies: Mapping[str, int],
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.limit = limit
        self.seconds = seconds
        self.refusals, self.departures = Refusals(), Departures()
        forms = (rf"{re.escape(name)}=[A-Za-z0-9._-]{{1,{most}}}" for name, most in cookies.items())
        self.cookies = re.compile("|".join(forms).encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        _keep_own_cookies(scope, self.cookies)
        given = header(scope, b"x-request-id")
        request_id = given if REQUEST_ID.fullmatch(given) else str(uuid4())
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        limit = self.limit(scope)
        exchange = _Exchange(scope, receive, send, request_id, limit, self.seconds, self.refusals)
        started = time.perf_counter()
        key = key_of(header(scope, b"authorization"))
        wait = 0.0 if scope["path"] in PROBES else self.departures.wait_seconds(key)
        with _span(scope, request_id):
            await exchange.serve(_ALIVE if _ALIVE.asked(scope) else self.app, wait)
            scope = exchange.scope
            tracing.note(route=_route(scope), status=exchange.status)
        status = exchange.status or CLIENT_LEFT
        caller = scope.get("state", {}).get("caller")
        if status == CLIENT_LEFT and caller is not None:
            self.departures.count(key, caller.id)
        self._note(scope, _method(scope, head=exchange.head), status, time.perf_counter() - started)

    def _note(self, scope: Scope, method: str, status: int, seconds: float) -> None:
        """Log and count one request."""
        route = _route(scope)
        self.metrics.request(method, route, status, seconds)
        fields: dict[str, Any] = {"client": scope["client"][0] if scope.get("client") else None}
        caller = scope.get("state", {}).get("caller")
        if caller is not None:
            fields |= {"user": str(caller.id), "role": caller.role, "key_id": str(caller.key_id)}
        if (method, route) not in UNTIMED:
            fields["ms"] = round(1000 * seconds, 1)
        logs.logger().info("request", method=method, route=route, status=status, **fields)


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request_id: str,
        limit: int,
        seconds: float,
        refusals: Refusals,
    ) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._refusals = refusals
        self.request_id = request_id
        self.limit = limit
        self.began, self.seconds = time.monotonic(), seconds
        self.read = 0
        self.done = False  # with the request's body
        self.late = False  # whether the body had its last look
        self.status = 0
        self.head = scope["method"] == "HEAD"
        self._early = deque[Message]()  # came while the request waited

    async def serve(self, app: ASGIApp, wait: float = 0.0) -> None:
        """Run the application for this request, after a wait if its client is still there then."""
        length = header(self.scope, b"content-length")
        if length.isdigit() and int(length) > self.limit:
            await self._refuse(of_status(413, self._too_large()))
            return
        if self.head:  # the routes answer it as GET; the answer's body is left out here
            self.scope = {**self.scope, "method": "GET"}
        try:
            if wait and not await self._stays(wait):
                raise ClientDisconnect
            await app(self.scope, self.receive, self.send)
        except BodyTooLargeError:
            await self._refuse(of_status(413, self._too_large()))
        except BodyTooSlowError:
            await self._refuse(of_status(408, "The body comes too slowly."))
        except ClientDisconnect:
            self.status = self.status or CLIENT_LEFT
        except Exception as error:
            logs.logger().error(
                "unhandled", exception=type(error).__name__, where=logs.where(error)
            )
            await self._refuse(of_status(500))
        finally:
            over = self.scope.get("state", {}).get("over")
            if over is not None:
                over()

    async def _stays(self, seconds: float) -> bool:
        """Wait, and return whether the client is still there. What it sends meanwhile is kept."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0.0:
            if self.read > PIECE_BYTES and not self.done:  # of a large body no more is held
                await asyncio.sleep(left)
                continue
            try:
                message = await asyncio.wait_for(self._received(), left)
            except TimeoutError:
                continue
            if message["type"] == "http.disconnect":
                return False
            self._early.append(message)
        return True

    async def receive(self) -> Message:
        """Return the next message of the request."""
        return self._early.popleft() if self._early else await self._received()

    async def _received(self) -> Message:
        """Receive the next message, enforcing size and time limits of the body."""
        if self.head and self.status:
            return {"type": "http.disconnect"}  # there is no body to wait for
        message = await self._next()
        if message["type"] == "http.request":
            self.read += len(message.get("body", b""))
            self.done = not message.get("more_body", False)
            if self.read > self.limit:
                raise BodyTooLargeError
        return message

    async def _next(self) -> Message:
        """Return the next message. Raises BodyTooSlowError until the body is complete."""
        if self.done:
            return await self._receive()
        left = self.began + self.seconds + self.read / LEAST_RATE - time.monotonic()
        if left <= 0.0 and not self.late:  # what was sent in time may not have been read in time
            self.late, left = True, LAST_LOOK_SECONDS
        try:
            return await asyncio.wait_for(self._receive(), max(0.0, left))
        except TimeoutError:
            raise BodyTooSlowError from None

    async def send(self, message: Message) -> None:
        """Send a message of the answer."""
        if self.head and message["type"] == "http.response.body":
            return
        await self._out(message)
        if self.head and message["type"] == "http.response.start":
            await self._send({"type": "http.response.body", "body": b""})

    async def _out(self, message: Message) -> None:
        """Send a message with the common headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            await self._slow_down()
            names = {name.lower() for name, _ in message["headers"]}
            extra = [(name, value) for name, value in HEADERS if name not in names]
            extra.append((b"x-request-id", self.request_id.encode("ascii")))
            extra += self._allowance()
            message = {**message, "headers": [*message["headers"], *extra]}
        elif len(message.get("body", b"")) > PIECE_BYTES:
            message = await self._all_but_the_end(message)
        await self._send(message)

    async def _slow_down(self) -> None:
        """Delay a repeatedly refused caller. Probes are not counted."""
        if self.status in REFUSED and self.scope["path"] not in PROBES:
            caller = self.scope.get("state", {}).get("caller")
            await asyncio.sleep(self._refusals.wait_seconds(caller.id if caller else None))

    async def _all_but_the_end(self, message: Message) -> Message:
        """Send a large body in pieces, as the client reads; return the last one."""
        body = message["body"]
        last = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        for start in range(0, last, PIECE_BYTES):
            piece = body[start : start + PIECE_BYTES]
            await self._send({"type": message["type"], "body": piece, "more_body": True})
        return {**message, "body": body[last:]}

    def _allowance(self) -> list[tuple[bytes, bytes]]:
        """Return the rate limit headers, if the request was counted."""
        allowance = self.scope.get("state", {}).get("allowance")
        headers = allowance.headers() if allowance is not None else {}
        return [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    def _too_large(self) -> str:
        """Return the message for a body over the limit."""
        return f"The body is larger than {self.limit} bytes."

    async def _refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, if no answer has begun."""
        if self.status:  # the answer has begun: all that is left is to break it off
            return
        await self._drain()
        await problem(refusal, {"Connection": "close"})(self.scope, self._receive, self.send)

    async def _drain(self) -> None:
        """Read the rest of the body, within limits."""
        most = self.read + DRAIN_BYTES
        while not self.done and self.read < most:
            try:
                message = await self._next()
            except BodyTooSlowError:
                return
            if message["type"] != "http.request":
                return
            self.read += len(message.get("body", b""))
            self.done = not message.get("more_body", False)
