"""Connections that do not wait for ever: headers come within a time, or the line is closed."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Impatient(H11Protocol):
    """uvicorn's HTTP/1.1, with a limit to the time in which headers may arrive.

    uvicorn limits only the silence between two requests, and forgets that at the first byte.
    """

    seconds = 10.0
    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The client is there, and owes headers."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """More bytes came."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """The answer is out; part of the next request may be here."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        """Let the time run while headers are owed; what trickles in does not renew it."""
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._closing is None:
            self._closing = self.loop.call_later(self.seconds, self._close)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def protocol(seconds: float) -> Any:
    """The class that uvicorn makes one of for each connection."""
    return type("Impatient", (Impatient,), {"seconds": seconds})
