"""Requests to other services, each with a total time limit.

A timeout of a socket starts anew with every byte. Here the time is that of the whole exchange: its
name looked up, connected, sent, and answered to the last byte; and an answer has a largest size.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from email.message import EmailMessage
from functools import cache
from typing import TypeVar

import httpx

from app.settings import Settings

Answer = TypeVar("Answer")
MOST_BYTES = 2**20  # of an answer
MOST_AT_ONCE = 16  # that may linger, as those whose name is being looked up do
GRACE_SECONDS = 0.5

BUSY = "Busy"  # the reason of a status that may pass: 429, or of a server's error

_places = threading.BoundedSemaphore(MOST_AT_ONCE)


class OutsideError(httpx.HTTPError):
    """A request failed. reason: its type, without any content."""

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
    """Return the body of a successful response within `seconds`. Raises OutsideError.

    Redirects are not followed.
    """
    return _in_time(seconds, lambda: _exchanged(method, url, seconds, content, headers))


def send_mail(settings: Settings, to: str, subject: str, text: str, seconds: float) -> None:
    """Send a mail by the configured server within `seconds`. Raises OutsideError.

    The server's certificate is checked, unless the settings say that nothing is encrypted.
    """
    import aiosmtplib  # where it is configured

    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = settings.smtp_from, to, subject
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's absence answers it
    mail.set_content(text)
    security, name = settings.smtp_security, settings.smtp_user

    async def sent() -> None:
        """Send it, in this thread."""
        async with asyncio.timeout(seconds):
            await aiosmtplib.send(
                mail,
                hostname=settings.smtp_host,
                port=settings.smtp_port,
                use_tls=security == "tls",
                start_tls=security == "starttls",
                tls_context=None if security == "none" else _trusted(),
                username=name or None,
                password=settings.smtp_password.get_secret_value() if name else None,
                timeout=seconds,
            )

    _in_time(seconds, sent)


def _in_time(seconds: float, begin: Callable[[], Coroutine[None, None, Answer]]) -> Answer:
    """Return the result of a coroutine within `seconds`. Raises OutsideError."""
    if not _places.acquire(blocking=False):
        raise OutsideError("TooManyExchanges")
    ended, answers, failures = threading.Event(), list[Answer](), list[str]()

    def run() -> None:
        """Run the coroutine in an event loop of this thread."""
        try:
            answers.append(asyncio.run(begin()))
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            busy = error.response.is_server_error or status == httpx.codes.TOO_MANY_REQUESTS
            failures.append(BUSY if busy else type(error).__name__)
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
    """Return the trusted certificate authorities, loaded once (30 ms of CPU)."""
    return httpx.create_ssl_context()


async def _exchanged(
    method: str,
    url: str,
    seconds: float,
    content: bytes | None,
    headers: Mapping[str, str] | None,
) -> bytes:
    """Return the body of a response."""
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
