"""The pages' way to the REST API: requests within the process, under the key of who looks.

A page may show what the same key gets by curl, and nothing else: roles, limits, errors and log
lines are those of the API.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from json import dumps
from typing import Annotated, Any
from uuid import UUID

import httpx
from fastapi import Depends, Request, Response
from starlette.types import Message, Receive, Scope, Send

Json = dict[str, Any]
PAGE = 200  # items asked for at once
PATIENCE = 60.0  # seconds: longer than the API lets a plan take


class RefusedError(Exception):
    """The API said no. status: HTTP; problem: its answer."""

    def __init__(self, status: int, problem: Json) -> None:
        self.status, self.problem = status, problem
        super().__init__(str(problem.get("detail") or problem.get("title") or status))

    @property
    def code(self) -> str:
        """The API's stable word for it."""
        return str(self.problem.get("code", ""))

    @property
    def faults(self) -> list[Json]:
        """What is wrong with which field: pointer and message."""
        faults: list[Json] = self.problem.get("errors", [])
        return faults


async def identifier(id: str) -> str:
    """Return an identifier of an address. What is none names nothing: RefusedError 404."""
    try:
        return str(UUID(id))
    except ValueError:
        raise RefusedError(404, {"detail": "This address names nothing."}) from None


Id = Annotated[str, Depends(identifier)]


class Api:
    """The REST API as one reader sees it.

    key: of that reader; empty for none. renew: makes a key good again that has ended, and returns
    whether it could.
    """

    def __init__(
        self, request: Request, key: str, renew: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        client = request.client
        transport = httpx.ASGITransport(
            app=request.app, client=(client.host, client.port) if client else ("127.0.0.1", 0)
        )
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._request, self._key, self._renew = request, key, renew
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://inside", headers=headers, timeout=PATIENCE
        )

    async def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Return the answer. json: a body, in which the API refuses numbers that are not finite.

        In a task of its own: what a request binds to its log lines stays its own. Where the key
        has ended it is renewed, and the request is sent again. Raises RefusedError where the answer
        is an error.
        """
        repeats = "content" not in given  # the stream of an upload is read once
        if "json" in given:
            headers = {"Content-Type": "application/json"} | given.pop("headers", {})
            given |= {"content": dumps(given.pop("json")).encode(), "headers": headers}
        answer = await asyncio.create_task(self._http.request(method, path, **given))
        if answer.status_code == HTTPStatus.UNAUTHORIZED and repeats and await self._renewed():
            answer = await asyncio.create_task(self._http.request(method, path, **given))
        if answer.is_error:
            raise RefusedError(answer.status_code, _problem(answer))
        return answer

    async def _renewed(self) -> bool:
        return self._renew is not None and await self._renew()

    def stream(self, path: str, query: str = "") -> Response:
        """Return an answer that is handed on as it comes: a stream of events."""
        return _Stream(self._request, self._key, path, query)

    def events(self, path: str) -> Response:
        """Hand the request's JSON body to a POST of the API that a stream of events answers."""
        return _Posted(self._request, self._key, path, "")

    def file(self, path: str, kind: str, headers: Mapping[str, str]) -> Response:
        """Return an answer of this kind that is handed on as it comes, with headers of its own.

        Where the API says no, RefusedError is raised when it is sent.
        """
        return _File(self._request, self._key, path, kind, headers)

    async def json(self, method: str, path: str, **given: Any) -> Json:
        """Return the answer's object."""
        body: Json = (await self.send(method, path, **given)).json()
        return body

    async def get(self, path: str, **params: Any) -> Json:
        """Return what a GET answers. Parameters that are None or empty are left out."""
        return await self.json("GET", path, params={k: v for k, v in params.items() if v})

    async def items(self, path: str, **params: Any) -> list[Json]:
        """Return all items of a list."""
        items: list[Json] = []
        cursor = ""
        while True:
            page = await self.get(path, limit=PAGE, cursor=cursor, **params)
            items += page["items"]
            cursor = page["next_cursor"] or ""
            if not cursor:
                return items


class _Stream(Response):
    """The API's own answer to a GET, its parts sent on as they come."""

    _method, _accept = "GET", "*/*"
    _kept: tuple[str, ...] = ()  # headers of the request that go with it

    def __init__(self, request: Request, key: str, path: str, query: str) -> None:
        super().__init__()
        self._app, self._key, self._path, self._query = request.app, key, path, query

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the API in place of this request."""
        kept = ("type", "asgi", "http_version", "scheme", "root_path", "client", "server")
        asked = {name: scope[name] for name in kept if name in scope} | {
            "method": self._method,
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": self._query.encode(),
            "headers": [
                (b"host", b"inside"),
                (b"authorization", f"Bearer {self._key}".encode()),
                (b"accept", self._accept.encode()),
                *(pair for pair in scope["headers"] if pair[0].decode() in self._kept),
            ],
        }
        await self._app(asked, receive, send)


class _Posted(_Stream):
    """The API's answer to a POST of this request's body."""

    _method, _accept = "POST", "text/event-stream"
    _kept = ("content-type", "content-length")


class _File(_Stream):
    """The API's answer to a GET as a file; nothing of it is kept on its way."""

    def __init__(
        self, request: Request, key: str, path: str, kind: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(request, key, path, "")
        self._accept = kind
        self._own = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self._refused, self._told = 0, b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the API in place of this request. Raises RefusedError before anything is sent."""

        async def hand_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                refused = message["status"] >= HTTPStatus.BAD_REQUEST
                self._refused = message["status"] if refused else 0
                message = {**message, "headers": [*message["headers"], *self._own]}
            elif self._refused:
                self._told += message.get("body", b"")
            if not self._refused:
                await send(message)

        await super().__call__(scope, receive, hand_on)
        if self._refused:
            raise RefusedError(self._refused, _problem(httpx.Response(200, content=self._told)))


def _problem(answer: httpx.Response) -> Json:
    try:
        body = answer.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"title": "The service did not answer."}
