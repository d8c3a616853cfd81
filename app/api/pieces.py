"""Streamed answers, whose pieces are made in turn with those of other callers.

Making text of numbers keeps a thread busy for as long as a client reads quickly. Few threads do it,
and a caller has one piece made at a time, however many of his downloads are open: small answers do
not wait behind them, nor one caller's download behind the many of another. Who has several open
rests after each piece for several times as long as it took.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from fastapi.responses import StreamingResponse

from app.services.accounts.caller import Caller

REST = 4.0  # times as long as a piece took, before the next one of a caller with several downloads
MAKERS = 2  # pieces that are made at once, of all callers together


class Turns:
    """The order in which callers' pieces are made, in the event loop's thread."""

    def __init__(self) -> None:
        self._threads = CapacityLimiter(MAKERS)
        self._callers: dict[UUID, tuple[asyncio.Lock, int]] = {}

    async def pieces(self, user: UUID, made: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the nonempty pieces of one download."""
        with self._of(user) as turn:
            while True:
                async with turn:
                    began = time.monotonic()
                    piece = await to_thread.run_sync(next, made, None, limiter=self._threads)
                    if self._callers[user][1] > 1:
                        await asyncio.sleep(REST * (time.monotonic() - began))
                if piece is None:
                    return
                if piece:
                    yield piece

    @contextmanager
    def _of(self, user: UUID) -> Iterator[asyncio.Lock]:
        """Hold the user's turn."""
        lock, downloads = self._callers.get(user) or (asyncio.Lock(), 0)
        self._callers[user] = lock, downloads + 1
        try:
            yield lock
        finally:
            downloads = self._callers[user][1] - 1
            self._callers[user] = lock, downloads
            if not downloads:
                del self._callers[user]


def download(
    request: Request, caller: Caller, made: Iterator[bytes], kind: str, headers: dict[str, Any]
) -> StreamingResponse:
    """Return a streaming answer of this media type."""
    turns: Turns = request.app.state.turns
    body = turns.pieces(caller.id, made)
    return StreamingResponse(body, media_type=kind, headers={"Vary": "Accept", **headers})
