"""Authentication and authorisation of requests.

What waits for nobody is `async`: the framework hands other functions to a thread, each time.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from app.api import limits
from app.api.endpoints import in_thread
from app.api.problems import of_status
from app.api.sse import Notifier
from app.services.accounts import keys, tokens
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.services.errors import not_found
from app.services.planning.processes import Planners

bearer = HTTPBearer(auto_error=False, description="A key made by POST /v1/users.")
MAX_TOKEN, MAX_ADDRESS = 8192, 64


async def get_services(request: Request) -> Services:
    """Return the process's services."""
    services: Services = request.app.state.services
    return services


async def get_planners(request: Request) -> Planners:
    """Return the process's planner pool."""
    planners: Planners = request.app.state.planners
    return planners


async def get_watch(request: Request) -> Notifier:
    """Return the process's notifier of event streams."""
    notifier: Notifier = request.app.state.notifier
    return notifier


async def get_streams(request: Request) -> limits.Places:
    """Return the process's limits of event streams."""
    streams: limits.Places = request.app.state.streams
    return streams


House = Annotated[Services, Depends(get_services)]
Planning = Annotated[Planners, Depends(get_planners)]
Watch = Annotated[Notifier, Depends(get_watch)]
StreamPlaces = Annotated[limits.Places, Depends(get_streams)]


async def get_caller(
    request: Request, services: House, _: Annotated[object, Depends(bearer)] = None
) -> Caller:
    """Return the caller authenticated by the request's key. Raises Refusal 401 or 429."""
    return await in_thread(_caller, request, services)


def _bearer(request: Request) -> str:
    """Return the key or token of a request; empty if it has none."""
    scheme, _space, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= MAX_TOKEN else ""


async def settled(provider: tokens.Tokens, request: Request) -> None:
    """Wait, without blocking a thread, for a fetch of the provider's keys, if needed."""
    token = _bearer(request)
    fetching = provider.fetching(token) if tokens.looks_like_one(token) else None
    if fetching is not None:
        await asyncio.wait({asyncio.wrap_future(fetching)}, timeout=tokens.PATIENCE_SECONDS)


def _caller(request: Request, services: Services) -> Caller:
    """Return the caller of a request's key or token, applying the rate limit."""
    token = _bearer(request)
    if not token:
        raise of_status(401, "A key is needed: Authorization: Bearer <key>.")
    address = request.client.host[:MAX_ADDRESS] if request.client else None
    provider: tokens.Tokens | None = request.app.state.tokens
    if provider is not None and tokens.looks_like_one(token):
        caller = tokens.authenticate(services, provider, token, address)
    else:
        caller = keys.authenticate(services, token, address)
    request.app.state.lanes.remember(request, caller.id if caller else None)
    if caller is None:
        raise of_status(401, "This key or token is not valid.")
    request.state.caller = caller  # for the request's log line
    allowance = request.app.state.rates.ask(caller.id)
    request.state.allowance = allowance  # for the answer's headers
    if not allowance.allowed:
        raise limits.too_fast(allowance)
    return caller


def allow(*roles: str) -> Callable[[Caller], Awaitable[Caller]]:
    """Return a dependency that admits these roles. Raises Refusal 403."""

    async def check(caller: Annotated[Caller, Depends(get_caller)]) -> Caller:
        """Return the caller if its role is allowed."""
        if caller.role not in roles:
            raise of_status(403, f"This needs the role {' or '.join(roles)}.")
        return caller

    return check


async def may_scrape(
    request: Request, services: House, _: Annotated[object, Depends(bearer)] = None
) -> None:
    """Admit the metrics key, admins and auditors. Raises Refusal 401, 403 or 429."""
    own = services.settings.metrics_key.get_secret_value()
    sent = request.headers.get("authorization", "").partition(" ")[2].strip()
    if own and hmac.compare_digest(sent.encode(), own.encode()):
        return
    caller = await in_thread(_caller, request, services)
    if caller.role not in ("admin", "auditor"):
        raise of_status(403, "This needs the role admin or auditor, or the key for metrics.")


async def take_download(request: Request, caller: Annotated[Caller, Depends(get_caller)]) -> None:
    """Hold a download slot until a large answer was sent. Raises Refusal 429."""
    places: limits.Places = request.app.state.downloads
    places.take(caller.id)
    request.state.over = partial(places.leave, caller.id)  # called by Front


Downloading = Depends(take_download)
Anyone = Annotated[Caller, Depends(allow("admin", "analyst", "auditor"))]
Admin = Annotated[Caller, Depends(allow("admin"))]
Analyst = Annotated[Caller, Depends(allow("analyst"))]
Worker = Annotated[Caller, Depends(allow("admin", "analyst"))]
Overseer = Annotated[Caller, Depends(allow("admin", "auditor"))]


def identifier(what: str) -> Callable[[str], Awaitable[UUID]]:
    """Return a dependency that parses `{id}` as a UUID. Raises Refusal 404 otherwise."""

    async def read(id: str) -> UUID:
        """Return the UUID. Raises Refusal 404."""
        try:
            identifier = UUID(id)
        except ValueError:
            raise not_found(what) from None
        if str(identifier) != id.lower():
            raise not_found(what)
        return identifier

    return read


DatasetId = Annotated[UUID, Depends(identifier("dataset"))]
JobId = Annotated[UUID, Depends(identifier("job"))]
UserId = Annotated[UUID, Depends(identifier("user"))]
KeyId = Annotated[UUID, Depends(identifier("key"))]
RequestId = Annotated[UUID, Depends(identifier("access request"))]
