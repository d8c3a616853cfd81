"""Is it up, is it ready, how much does it do."""

from collections.abc import Callable

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import text

from app import logs
from app.api.auth import House, may_scrape
from app.api.endpoints import Route
from app.api.schemas import Health
from app.services.budgets import rewind
from app.services.context import Services
from app.services.datasets.stored_rows import check_store
from app.services.metrics import figures
from app.services.queue import messages, readiness

router = APIRouter(tags=["operations"], route_class=Route)


@router.get("/healthz")
async def healthz() -> Health:
    """The process is up."""
    return Health(status="ok")


@router.get("/readyz", responses={503: {"model": Health}, 507: {"model": Health}})
def readyz(services: House, request: Request, response: Response, workers: bool = True) -> Health:
    """Database, broker and storage can be reached, the disk has room, and a worker can take a job.

    503 also where the database is an older one than the ledgers' anchors. 507: all that is wrong is
    that the disk is full. Where workers run by themselves, an API that has not seen one yet says so
    with 200. With `workers=false` it is this API alone that is looked at.
    """
    data_dir = services.settings.data_dir
    checks = {
        "database": _works(lambda: _database(services)),
        "broker": _works(messages.ping),
        "storage": _works(lambda: check_store(services)),
        "disk": _works(lambda: readiness.check_disk(data_dir)),
        "ledger": _works(lambda: _not_rewound(services)),
    }
    if workers:
        checks["worker"] = _works(lambda: readiness.check_worker(services))
        request.app.state.worker_seen |= checks["worker"]
    failed = {name for name, works in checks.items() if not works}
    full = {"disk", "worker"} if "disk" in failed else set()  # a worker cannot write either
    expected = services.settings.workers or request.app.state.worker_seen
    fatal = failed if expected else failed - {"worker"}
    response.status_code = 503 if fatal - full else 507 if fatal else 200
    named = {name: "ok" if works else "unavailable" for name, works in checks.items()}
    return Health.model_validate({"status": "unavailable" if failed else "ok", "checks": named})


@router.get("/metrics", response_class=Response, dependencies=[Depends(may_scrape)])
def metrics(request: Request, services: House) -> Response:
    """Prometheus metrics, for admins, auditors and the key that reads nothing else."""
    state = request.app.state
    body = state.metrics.render(figures(services), state.planners.outcomes())
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


def _works(check: Callable[[], None]) -> bool:
    try:
        check()
    except Exception as error:
        logs.logger().warning("not_ready", exception=type(error).__name__)
        return False
    return True


def _not_rewound(services: Services) -> None:
    if not rewind.look(services):
        raise rewind.RewoundError


def _database(services: Services) -> None:
    with services.sessions.read() as session:
        session.execute(text("SELECT 1"))
