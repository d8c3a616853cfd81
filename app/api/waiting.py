"""Waiting for work that another process does, as long as its caller does."""

import asyncio
from typing import Any

from fastapi import Request

from app.services.planning.processes import Ticket

LOOK_SECONDS = 0.1


class ClientLeft(Exception):  # noqa: N818 - no error: nobody is there to answer
    """Whoever asked has gone."""


async def answered(request: Request, ticket: Ticket) -> Any:
    """The answer. Raises its Refusal, or ClientLeft; the work ends with the client."""
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
