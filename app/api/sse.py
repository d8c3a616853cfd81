"""Server-sent events, without holding a thread or a database connection between two looks."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

Seen = TypeVar("Seen")
LOOK_SECONDS = 0.2
ALIVE_SECONDS = 15.0


def event(name: str, data: dict[str, Any]) -> bytes:
    """One event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def follow(
    first: Seen, look: Callable[[], Awaitable[Seen]], stopping: threading.Event
) -> AsyncIterator[Seen | None]:
    """What there is to see, until the service stops; None now and then: still alive."""
    yield first
    quiet = 0.0
    while not stopping.is_set():
        await asyncio.sleep(LOOK_SECONDS)
        quiet += LOOK_SECONDS
        if quiet >= ALIVE_SECONDS:
            quiet = 0.0
            yield None
        yield await look()
