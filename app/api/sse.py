"""Server-sent events: one database query serves all streams."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from fastapi.responses import StreamingResponse
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from app import logs
from app.services.accounts.caller import Caller
from app.services.results.fetch import Watched

LOOK_SECONDS = 0.15
ALIVE_SECONDS = 15.0
Looked = tuple[Mapping[UUID, Watched], Collection[Caller]]


def event(name: str, data: dict[str, Any]) -> bytes:
    """Return one event as bytes."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


@dataclass(slots=True, eq=False)
class _Stream:
    """One stream. seen: last state of each job. new: jobs whose state is unsent."""

    caller: Caller
    seen: dict[UUID, Watched]
    new: set[UUID] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False


class Notifier:
    """Notifies streams of changed jobs; ends them with their key or the service.

    look: the present state of these jobs, and which of these callers may still come in. It is asked
    while any stream is open, by one task, for all of them at once.
    """

    def __init__(
        self,
        look: Callable[[Collection[UUID], Collection[Caller]], Looked],
        stopping: threading.Event,
    ) -> None:
        self._look, self._stopping = look, stopping
        self._streams: set[_Stream] = set()
        self._task: asyncio.Task[None] | None = None

    async def follow(self, caller: Caller, *first: Watched) -> AsyncIterator[Watched | None]:
        """Yield states of jobs without end; None now and then as keep-alive."""
        stream = _Stream(caller, {job.id: job for job in first})
        self._streams.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            for job in first:
                yield job
            while not stream.ended:
                try:
                    await asyncio.wait_for(stream.news.wait(), ALIVE_SECONDS)
                except TimeoutError:
                    yield None
                    continue
                stream.news.clear()
                while stream.new and not stream.ended:
                    yield stream.seen[stream.new.pop()]
        finally:
            self._streams.discard(stream)

    async def _run(self) -> None:
        """Query watched jobs periodically and notify streams."""
        while self._streams and not self._stopping.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            watching = list(self._streams)
            jobs = {job for stream in watching for job in stream.seen}
            callers = {stream.caller for stream in watching}
            try:
                jobs_now, living = await run_in_threadpool(self._look, jobs, callers)
            except (OperationalError, InterfaceError, PoolTimeoutError) as error:
                logs.logger().warning("streams_blind", exception=type(error).__name__)
                continue
            for stream in watching:
                self._tell(stream, jobs_now, stream.caller in living)
        for stream in self._streams:
            self._tell(stream, {}, False)

    def _tell(self, stream: _Stream, jobs_now: Mapping[UUID, Watched], welcome: bool) -> None:
        """Update a stream's states, and end it where its key is not valid any more."""
        stream.ended = not welcome or not stream.seen.keys() <= jobs_now.keys()
        if not stream.ended:
            changed = {job for job, before in stream.seen.items() if jobs_now[job] != before}
            stream.seen.update((job, jobs_now[job]) for job in changed)
            stream.new |= changed
        if stream.ended or stream.new:
            stream.news.set()


class EventStream(StreamingResponse):
    """A streaming response that calls `over` when it ends, however it does."""

    def __init__(self, content: AsyncIterator[bytes], over: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()
