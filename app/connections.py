"""HTTP connections with time limits, which do not block the event loop.

uvicorn limits only the silence between two requests, and no size of what comes before a body. Here
headers are of a bounded size and come within a time, what is sent is taken within a time, a body
that nobody needs any more ends within a time, and of what a client sends only a part is parsed
before others get their turn.
"""

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LEAST_PART, MOST_PART = 1024, 32_768  # bytes that are parsed at once
FEW_EVENTS = 8  # of a part; the next one is then twice as large
REST = 20.0  # times as long as a part took: others' turns, before the next part is parsed
MOST_HEAD = 16_384  # bytes of headers, or of anything else that is not content
MOST_AHEAD = 64  # requests that were sent before the answer to an earlier one


class Receiving(Enum):
    """What a client sends: headers, content, or nothing before it has the answer."""

    HEADERS = "headers"
    CONTENT = "content"
    NOTHING = "nothing"


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


class Impatient(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with time limits.

    seconds: for headers, and for the rest of a body after its answer. send_seconds: for a client to
    take what its connection holds, after which the connection is cut.
    """

    seconds = 10.0
    send_seconds = 30.0
    flow: _Flow
    _unparsed: bytearray
    _receiving = Receiving.HEADERS
    _part = LEAST_PART
    _events, _progress = 0, False  # of the present part; whether headers or content came to an end
    _without = 0  # bytes without such progress
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
        if self._receiving is Receiving.NOTHING:
            self.transport.pause_reading()  # the next request waits for the answer to this one
            self.flow.read_paused = True
            return
        part = bytes(self._unparsed[: self._part])
        del self._unparsed[: len(part)]
        # asked only where a rest follows: it is a system call, unlike that of other clocks
        began = time.thread_time() if self._unparsed else 0.0
        self._feed(part)
        self._watch()
        if self._unparsed:
            self.transport.pause_reading()
            rest = REST * (time.thread_time() - began)
            self._parsing = self.loop.call_later(rest, self._parse)
        elif not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _feed(self, part: bytes) -> None:
        """Parse a part, and refuse headers and what is between contents if it is too long."""
        self._events, self._progress = 0, False
        super().data_received(part)
        self._part = LEAST_PART if self._events > FEW_EVENTS else min(2 * self._part, MOST_PART)
        self._without = 0 if self._progress else self._without + len(part)
        if self._without > MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Those behind a body are passed over."""
        self._events += 1
        if self._receiving is Receiving.HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request. Raises ValueError, which ends the connection, where too many wait."""
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError
        self._events += 1
        self._progress = True
        self._receiving = Receiving.CONTENT
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take content."""
        self._events += 1
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._events += 1
        self._progress = True
        answered = self.cycle.response_complete
        self._receiving = Receiving.HEADERS if answered else Receiving.NOTHING
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request once a response is complete."""
        if self._receiving is Receiving.NOTHING and self.cycle.response_complete:
            self._receiving = Receiving.HEADERS
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_later()
        elif self._receiving is Receiving.CONTENT and self._ending is None:
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
        if self._receiving is not Receiving.CONTENT:
            self._forget("_ending")
        if self._receiving is not Receiving.HEADERS:
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
