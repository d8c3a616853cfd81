"""Exchanges with what is outside of this service: each ends in time, however slowly it is answered.

A timeout of a socket starts anew with every byte. Here the time is that of the whole exchange: its
name looked up, connected, sent, and answered to the last byte; and an answer has a largest size.
"""

import asyncio
import ssl
import threading
from collections.abc import Mapping
from functools import cache

import httpx

MOST_BYTES = 2**20  # of an answer
MOST_AT_ONCE = 16  # that may linger, as those whose name is being looked up do
GRACE_SECONDS = 0.5

_places = threading.BoundedSemaphore(MOST_AT_ONCE)


class OutsideError(httpx.HTTPError):
    """An exchange failed. reason: a type of failure, nothing of its content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def exchange(
    method: str,
    url: str,
    seconds: float,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The body of an answer with a status of success. Raises OutsideError after `seconds` at most.

    Redirects are not followed.
    """
    if not _places.acquire(blocking=False):
        raise OutsideError("TooManyExchanges")
    ended, answers, failures = threading.Event(), list[bytes](), list[str]()

    def run() -> None:
        try:
            answers.append(asyncio.run(_exchanged(method, url, seconds, content, headers)))
        except Exception as error:
            failures.append(type(error).__name__)
        finally:
            ended.set()
            _places.release()

    threading.Thread(target=run, name="exchange", daemon=True).start()
    if not ended.wait(seconds + GRACE_SECONDS) or not answers:
        raise OutsideError(failures[0] if failures else "TimeoutError")
    return answers[0]


@cache
def _trusted() -> ssl.SSLContext:
    """The authorities that servers are checked by, read once: that takes some 30 ms of CPU."""
    return httpx.create_ssl_context()


async def _exchanged(
    method: str,
    url: str,
    seconds: float,
    content: bytes | None,
    headers: Mapping[str, str] | None,
) -> bytes:
    sent = {**(headers or {}), "Accept-Encoding": "identity"}
    async with (
        asyncio.timeout(seconds),
        httpx.AsyncClient(timeout=seconds, verify=_trusted()) as client,
        client.stream(method, url, content=content, headers=sent) as answer,
    ):
        answer.raise_for_status()
        body = bytearray()
        async for piece in answer.aiter_raw():
            body += piece
            if len(body) > MOST_BYTES:
                raise ValueError("the answer is too large")
        return bytes(body)
