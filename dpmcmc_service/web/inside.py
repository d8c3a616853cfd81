"""The pages' way to the REST API: requests within the process, under the key of who looks.

A page may show what the same key gets by curl, and nothing else: roles, limits, errors and log
lines are those of the API.
"""

import asyncio
from typing import Annotated, Any
from uuid import UUID

import httpx
from fastapi import Depends, Request

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
        found: list[Json] = self.problem.get("errors", [])
        return found


async def identifier(id: str) -> str:
    """Return an identifier of an address. What is none names nothing: RefusedError 404."""
    try:
        return str(UUID(id))
    except ValueError:
        raise RefusedError(404, {"detail": "This address names nothing."}) from None


Id = Annotated[str, Depends(identifier)]


class Api:
    """The REST API as one reader sees it. key: of that reader; empty for none."""

    def __init__(self, request: Request, key: str) -> None:
        client = request.client
        transport = httpx.ASGITransport(
            app=request.app, client=(client.host, client.port) if client else ("127.0.0.1", 0)
        )
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://inside", headers=headers, timeout=PATIENCE
        )

    async def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Return the answer. Raises RefusedError where it is an error.

        In a task of its own: what a request binds to its log lines stays its own.
        """
        answer = await asyncio.create_task(self._http.request(method, path, **given))
        if answer.is_error:
            raise RefusedError(answer.status_code, _problem(answer))
        return answer

    async def json(self, method: str, path: str, **given: Any) -> Json:
        """Return the answer's object."""
        found: Json = (await self.send(method, path, **given)).json()
        return found

    async def get(self, path: str, **params: Any) -> Json:
        """Return what a GET answers. Parameters that are None or empty are left out."""
        return await self.json("GET", path, params={k: v for k, v in params.items() if v})

    async def items(self, path: str) -> list[Json]:
        """Return all items of a list."""
        found: list[Json] = []
        cursor = ""
        while True:
            page = await self.get(path, limit=PAGE, cursor=cursor)
            found += page["items"]
            cursor = page["next_cursor"] or ""
            if not cursor:
                return found


def _problem(answer: httpx.Response) -> Json:
    try:
        found = answer.json()
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"title": "The service did not answer."}
