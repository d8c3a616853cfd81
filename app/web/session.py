"""Signing in: a session is a key of its own, in a cookie that scripts cannot read.

A key that is pasted is used once, to make another one that ends within the day and that signing
out revokes; the users' list shows it like any other. Who signs in at an identity provider gets one
that ends with the provider's token, and goes on where the provider gives the next one. Requests
that change something must come from a page of this service: the cookie is not sent from other sites
(SameSite=Strict), and a form holds a token that follows from the cookie.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from app.web.inside import Api, RefusedError

LASTS = timedelta(hours=12)
COOKIE, ATTEMPT = "dpmcmc_session", "dpmcmc_sign_in"
COOKIES = {COOKIE: 500, ATTEMPT: 1600}  # and how long each may be
ATTEMPT_SECONDS, ATTEMPT_PATH = 600, "/signin/oidc"
LABEL = "browser session"
SMALL_FORM = 4096  # bytes, taken apart by the event loop itself
MOST_FIELDS = 5000


class SignInNeededError(Exception):
    """Nobody is signed in, or the session has ended. then: the page that was asked for."""

    def __init__(self, then: str) -> None:
        self.then = then


class ForgedError(Exception):
    """A form that did not come from a page of this session."""


@dataclass(frozen=True)
class Session:
    """Who looks. user: the API's answer on them; csrf: the token of their forms."""

    api: Api
    user: dict[str, Any]
    csrf: str

    @property
    def role(self) -> str:
        """admin, analyst or auditor."""
        return str(self.user["role"])


def csrf_of(cookie: str) -> str:
    """Return the token of a session's forms."""
    return hashlib.sha256(f"forms of {cookie}".encode()).hexdigest()


async def fields_of(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent. Of several of one name the last."""
    body = await request.body()
    return await run_in_threadpool(_fields, body) if len(body) > SMALL_FORM else _fields(body)


def _fields(body: bytes) -> dict[str, str]:
    text = body.decode("utf-8", "replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        message = f"A form has at most {MOST_FIELDS} fields."
        raise RefusedError(422, {"detail": message, "code": "invalid_request"}) from None


async def signed_in(request: Request) -> Session:
    """Return the session. Raises SignInNeededError, and ForgedError on a form from elsewhere."""
    return await _session(request, lambda: fields_of(request))


async def whoever(request: Request) -> Session | None:
    """Return the session of a GET, None where nobody is signed in or the API says no."""
    try:
        return await signed_in(request)
    except (SignInNeededError, RefusedError):
        return None


async def signed_by_header(request: Request) -> Session:
    """Return the session as `signed_in` does, of a form too large to be looked into for a token."""
    return await _session(request, nothing)


async def nothing() -> dict[str, str]:
    """Return no field."""
    return {}


def address_of(request: Request) -> str:
    """Return the path and query of a request, as a page of this service links to it."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


async def _session(request: Request, fields: Callable[[], Awaitable[dict[str, str]]]) -> Session:
    cookie = request.cookies.get(COOKIE, "")
    then = address_of(request) if request.method == "GET" else "/"
    _, _, key = cookie.partition(".")
    if not key:
        raise SignInNeededError(then)
    token = csrf_of(cookie)
    if request.method != "GET":
        given = request.headers.get("x-csrf") or (await fields()).get("csrf", "")
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise ForgedError
    provider = request.app.state.sign_in
    api = Api(request, key, None if provider is None else lambda: provider.renew(key))
    try:
        return Session(api, await api.get("/v1/users/me"), token)
    except RefusedError as refused:
        if refused.status == 401:
            raise SignInNeededError(then) from None
        raise


Signed = Annotated[Session, Depends(signed_in)]
SignedByHeader = Annotated[Session, Depends(signed_by_header)]


async def begin(request: Request, key: str, then: str) -> RedirectResponse:
    """Make a session for the owner of a key. Raises RefusedError where the key is not valid."""
    ends = datetime.now(UTC) + LASTS
    api = Api(request, key)
    try:
        made = await _session_key(api, ends)
    except RefusedError as refused:
        if refused.status != 422:
            raise
        made = await _session_key(api, None)  # no later than the key itself, which ends sooner
    answer = RedirectResponse(then, status_code=303)
    keep(request, answer, made["id"], made["key"])
    return answer


def keep(request: Request, answer: Response, key_id: str, key: str) -> None:
    """Have the browser keep a session."""
    answer.set_cookie(
        COOKIE,
        f"{key_id}.{key}",
        max_age=int(LASTS.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def keep_attempt(request: Request, answer: Response, attempt: str) -> None:
    """Have the browser keep what binds a sign-in to it, until the provider sends it back.

    It goes with requests that another site leads to (SameSite=Lax), to the pages of sign-ins.
    """
    answer.set_cookie(
        ATTEMPT,
        attempt,
        max_age=ATTEMPT_SECONDS,
        path=ATTEMPT_PATH,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


def forget_attempt(answer: Response) -> None:
    """Have the browser forget a sign-in: what came back once comes back to nothing."""
    answer.delete_cookie(ATTEMPT, path=ATTEMPT_PATH, httponly=True, samesite="lax")


async def _session_key(api: Api, ends: datetime | None) -> dict[str, Any]:
    wanted = {"label": LABEL} | ({"expires_at": ends.isoformat()} if ends else {})
    return await api.json("POST", "/v1/users/me/keys", json=wanted)


async def end(request: Request) -> str | None:
    """Revoke the session's key, if it still lives.

    Returns the provider's address that ends its own session, where it began this one.
    """
    name, _, key = request.cookies.get(COOKIE, "").partition(".")
    if key:
        try:
            await Api(request, key).send("DELETE", f"/v1/keys/{name}")
        except RefusedError as refused:
            if refused.status not in (401, 404):
                raise
    provider = request.app.state.sign_in
    address: str | None = None if provider is None else await provider.leave(name)
    return address


def forget(answer: Response) -> None:
    """Have the browser forget its session."""
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
