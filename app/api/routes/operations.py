"""Is it up, is it ready, how much does it do."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from sqlalchemy import text

from app import logs
from app.api.auth import House
from app.api.schemas import Health
from app.jobs import queue
from app.jobs.services import Services

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> Health:
    """The process is up."""
    return Health(status="ok")


@router.get("/readyz", responses={503: {"model": Health}})
def readyz(services: House, response: Response) -> Health:
    """Database, broker and storage can be reached."""
    checks = {
        "database": _works(lambda: _database(services)),
        "broker": _works(queue.ping),
        "storage": _works(services.vault.files.check),
    }
    ready = all(checks.values())
    response.status_code = 200 if ready else 503
    named = {name: "ok" if works else "unavailable" for name, works in checks.items()}
    return Health.model_validate({"status": "ok" if ready else "unavailable", "checks": named})


@router.get("/metrics", response_class=Response)
def metrics(request: Request, services: House) -> Response:
    """Prometheus metrics."""
    with services.sessions.read() as session:
        body = request.app.state.metrics.render(session)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


def _works(check: Callable[[], None]) -> bool:
    try:
        check()
    except Exception as error:
        logs.logger().warning("not_ready", exception=type(error).__name__)
        return False
    return True


def _database(services: Services) -> None:
    with services.sessions.read() as session:
        session.execute(text("SELECT 1"))
