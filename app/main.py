"""The ASGI application."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from app import logs, tracing, web
from app.api import openapi, problems
from app.api.auth import settled
from app.api.endpoints import THREADS, Lanes
from app.api.limits import Rates, downloads, streams
from app.api.metrics import Metrics
from app.api.middleware import CLIENT_LEFT, Front
from app.api.pieces import Turns
from app.api.problems import ProblemResponse
from app.api.routes import (
    access_requests,
    audit,
    catalogue,
    datasets,
    job_events,
    jobs,
    operations,
    sign_in,
    sources,
    tasks,
    users,
)
from app.api.sse import Notifier
from app.api.waiting import ClientLeft
from app.services.accounts.sign_in import SignIn
from app.services.accounts.tokens import Tokens
from app.services.context import Services, open_services
from app.services.errors import Refusal
from app.services.planning.processes import Planners, planners_of
from app.services.results.fetch import watched
from app.settings import Settings, settings
from app.storage.errors import StoreAwayError, is_full
from app.storage.sources import sources_in
from app.web.session import COOKIES

ROUTES = (
    datasets,
    sources,
    job_events,
    jobs,
    tasks,
    users,
    access_requests,
    audit,
    catalogue,
    sign_in,
    operations,
)
# The framework's own would tell exceptions' texts and uploads' times, by an environment variable.
NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
MULTIPART_OVERHEAD = 2**21  # the metadata part and the boundaries
FORM_BYTES = 2**17  # of a page
SNAPSHOT_PAGE = "/datasets/snapshots"  # hands on what may be as large as the API takes
UPLOADS = (  # the API's, and the pages that hand on to it
    "/v1/datasets",
    "/v1/datasets/inspect",
    "/datasets/new",
    "/datasets/inspect",
)


def create_app(
    using: Settings | None = None,
    *,
    open_house: Callable[[Settings], Services] = open_services,
    planners: Planners | None = None,
    tokens: Tokens | None = None,
) -> FastAPI:
    """Return the application. Requires the present schema. Raises SourcesFileError.

    planners: processes to plan with, which the caller ends; its own where there are none. tokens:
    reads those of an identity provider, as configured where there is none.
    """
    chosen = using or settings()
    sources_in(chosen.sources)  # each snapshot reads it anew

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Open and close the application's resources."""
        tracing.configure(chosen, "api")
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        app.state.services = open_house(chosen)
        app.state.stopping = threading.Event()
        app.state.planners = planners or planners_of(chosen)
        app.state.rates, app.state.streams = Rates(chosen), streams(chosen)
        app.state.downloads, app.state.turns = downloads(chosen), Turns()
        provider = tokens or (Tokens(chosen) if chosen.oidc_issuer else None)
        app.state.tokens = provider
        way_in = (
            SignIn(app.state.services, provider) if provider and chosen.oidc_client_id else None
        )
        app.state.sign_in = way_in
        app.state.settle = partial(settled, provider) if provider else None
        app.state.notifier = Notifier(partial(watched, app.state.services), app.state.stopping)
        yield
        app.state.stopping.set()
        if way_in is not None:
            way_in.close()
        if planners is None:
            app.state.planners.close()
        app.state.services.close()
        tracing.close()

    app = FastAPI(
        title="dpmcmc",
        version=openapi.VERSION,
        docs_url=None,
        openapi_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=NO_TELEMETRY,
    )
    app.state.metrics = Metrics()
    app.state.worker_seen = False
    app.state.lanes, app.state.settle = Lanes(), None
    for module in ROUTES:
        app.include_router(module.router)
    web.mount(app)
    problems.install(app)
    openapi.install(app)
    app.add_exception_handler(OperationalError, _away)
    app.add_exception_handler(InterfaceError, _away)
    app.add_exception_handler(PoolTimeoutError, _away)
    app.add_exception_handler(StoreAwayError, _store_away)
    app.add_exception_handler(ClientLeft, _left)

    def limit(scope: Scope) -> int:
        """Return the size limit of a request's body in bytes."""
        if scope["method"] == "POST" and scope["path"] in UPLOADS:
            return chosen.max_upload_bytes + MULTIPART_OVERHEAD
        if not scope["path"].startswith("/v1/") and scope["path"] != SNAPSHOT_PAGE:
            return min(FORM_BYTES, chosen.max_body_bytes)
        return chosen.max_body_bytes

    seconds = chosen.request_seconds
    front = {"metrics": app.state.metrics, "limit": limit, "seconds": seconds, "cookies": COOKIES}
    app.add_middleware(Front, **front)
    return app


async def _away(_: Request, error: Exception) -> ProblemResponse:
    """Return 503: the database is unavailable or busy."""
    if is_full(error):
        return _full()
    logs.logger().error("database_unavailable", exception=type(error).__name__)
    refusal = Refusal(503, "unavailable", "The database cannot be reached; try again.")
    return problems.problem(refusal, {"Retry-After": "2"})


def _full() -> ProblemResponse:
    """Return 507: a disk is full."""
    logs.logger().error("storage_full")
    detail = "The disk of the service is full; nothing was stored."
    return problems.problem(Refusal(507, "storage_full", detail))


async def _store_away(_: Request, error: Any) -> ProblemResponse:
    """Return 503 or 507: the store is unavailable or full. The reason is logged."""
    if is_full(error):
        return _full()
    logs.logger().error("store_unavailable", reason=error.reason)
    refusal = Refusal(503, "unavailable", "The store of the rows cannot be reached; try again.")
    return problems.problem(refusal, {"Retry-After": "2"})


async def _left(_: Request, __: Exception) -> Response:
    """Return a status for the metrics; the client has disconnected."""
    return Response(status_code=CLIENT_LEFT)
