"""HTTP connections with time limits, which do not block the event loop.

uvicorn limits only the silence between two requests. Here headers come within a time, what is sent
is taken within a time, a body that nobody needs any more ends within a time, and of what a client
sends only a few KiB are parsed before others get their turn.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

PARSED_AT_ONCE = 512  # bytes: of chunks of one byte, each a Python object, a hundred
REST = 20.0  # times as long as a part took: others' turns, before the next part is parsed


class _Flow(FlowControl):
    """uvicorn's flow control, parsing received data before reading on."""

    def __init__(self, transport: asyncio.Transport, parse: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._parse = parse

    def resume_reading(self) -> None:
        """Resume reading, now or after all data is parsed."""
        if self._parse():
            self.read_paused = False
        else:
            super().resume_reading()


class Impatient(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with time limits.

    seconds: for headers, and for the rest of a body after its answer. send_seconds: for a client to
    take what its connection holds, after which the connection is cut.
    """

    seconds = 10.0
    send_seconds = 30.0
    flow: _Flow
    _unparsed: bytearray
    _closing: asyncio.TimerHandle | None = None
    _ending: asyncio.TimerHandle | None = None
    _cutting: asyncio.TimerHandle | None = None
    _parsing: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for headers."""
        super().connection_made(transport)
        self.flow, self._unparsed = _Flow(transport, self._parse_soon), bytearray()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Buffer received bytes, and schedule their parsing."""
        self._unparsed += data
        if self._parsing is None:
            self._parse()

    def _parse_soon(self) -> bool:
        """Schedule parsing; return whether bytes are waiting."""
        if self._unparsed and self._parsing is None:
            self._parsing = self.loop.call_soon(self._parse)
        return bool(self._unparsed)

    def _parse(self) -> None:
        """Parse part of the received bytes, then yield to the event loop."""
        self._parsing = None
        if self.transport.is_closing():
            self._unparsed.clear()
            return
        if self.conn.their_state is h11.DONE and self.conn.our_state is not h11.DONE:
            self.transport.pause_reading()  # the next request waits for the answer to this one
            self.flow.read_paused = True
            return
        part = bytes(self._unparsed[: max(PARSED_AT_ONCE, self._plain())])
        del self._unparsed[: len(part)]
        # asked only where a rest follows: it is a system call, unlike that of other clocks
        began = time.thread_time() if self._unparsed else 0.0
        super().data_received(part)
        self._watch()
        if self._unparsed:
            self.transport.pause_reading()
            rest = REST * (time.thread_time() - began)
            self._parsing = self.loop.call_later(rest, self._parse)
        elif not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _plain(self) -> int:
        """Return how many of the next bytes are body content."""
        reader = self.conn._reader
        return int(getattr(reader, "_remaining", 0) or getattr(reader, "_bytes_in_chunk", 0))

    def on_response_complete(self) -> None:
        """Continue with the next request once a response is complete."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_later()
        elif self.conn.their_state is h11.SEND_BODY and self._ending is None:
            self._ending = self.loop.call_later(self.seconds, self._close)
        self._watch()

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read the response."""
        super().pause_writing()
        self._cut_later()

    def resume_writing(self) -> None:
        """Cancel that time limit, as the client reads again."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._forget("_cutting")

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        super().timeout_keep_alive_handler()
        self._cut_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all timers."""
        super().connection_lost(exc)
        self._unparsed.clear()
        for timer in ("_closing", "_ending", "_cutting", "_parsing"):
            self._forget(timer)

    def _watch(self) -> None:
        """Start the time limit for headers, which partial headers do not extend."""
        if self.conn.their_state is not h11.SEND_BODY:
            self._forget("_ending")
        if self.conn.their_state is not h11.IDLE:
            self._forget("_closing")
        elif self._closing is None:
            self._closing = self.loop.call_later(self.seconds, self._close)

    def _forget(self, timer: str) -> None:
        """Cancel a timer."""
        handle = getattr(self, timer)
        if handle is not None:
            handle.cancel()
            setattr(self, timer, None)

    def _close(self) -> None:
        """Close the connection."""
        if not self.transport.is_closing():
            self.transport.close()
        self._cut_later()

    def _cut_later(self) -> None:
        """Abort the connection where the client does not read the rest in time."""
        if self._cutting is None:
            self._cutting = self.loop.call_later(self.send_seconds, self.transport.abort)


def protocol(seconds: float, send_seconds: float) -> Any:
    """Return the protocol class for uvicorn with these time limits."""
    return type("Impatient", (Impatient,), {"seconds": seconds, "send_seconds": send_seconds})
