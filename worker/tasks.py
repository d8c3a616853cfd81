"""The one task."""

from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded

from app.jobs.queue import TASK
from app.jobs.run import run
from worker.celery_app import app, services


@app.task(name=TASK)  # type: ignore[untyped-decorator]
def run_job(job_id: str) -> None:
    """Run one job, if it still waits for a worker."""
    run(services(), UUID(job_id), SoftTimeLimitExceeded)
