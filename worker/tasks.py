"""The Celery task that runs jobs."""

from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded

from app.services.queue.messages import TASK
from worker.celery_app import app, services
from worker.scheduler import run_next


@app.task(name=TASK)  # type: ignore[untyped-decorator]
def run_job(job_id: str) -> None:
    """Run the next job in turn. job_id is a hint: another may go first."""
    run_next(services(), UUID(job_id), SoftTimeLimitExceeded)
