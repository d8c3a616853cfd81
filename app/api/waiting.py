"""Waiting for another process's result, cancelled when the client disconnects."""

import asyncio
from typing import Any

from fastapi import Request

from app.services.planning.processes import Ticket

LOOK_SECONDS = 0.1


class ClientLeft(Exception):  # noqa: N818 - no error: nobody is there to answer
    """The client has disconnected."""


async def answered(request: Request, ticket: Ticket) -> Any:
    """Return the result. Raises its Refusal, or ClientLeft, which cancels the work."""
    answer = asyncio.wrap_future(ticket.answer)
    try:
        while True:
            done, _ = await asyncio.wait({answer}, timeout=LOOK_SECONDS)
            if done:
                return answer.result()
            if await request.is_disconnected():
                raise ClientLeft
    finally:
        if not answer.done():
            ticket.leave()
