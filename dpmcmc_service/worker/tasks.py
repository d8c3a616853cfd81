"""The one task."""

from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded

from dpmcmc_service.jobs.queue import TASK
from dpmcmc_service.jobs.scheduler import run_next
from dpmcmc_service.worker.celery_app import app, services


@app.task(name=TASK)  # type: ignore[untyped-decorator]
def run_job(job_id: str) -> None:
    """Run the job whose turn it is, if any still waits; the id is no more than a hint."""
    run_next(services(), UUID(job_id), SoftTimeLimitExceeded)
