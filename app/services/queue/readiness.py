"""Readiness checks: a worker that can take a job, and free disk space."""

import shutil
from pathlib import Path

from app.services.context import Services
from app.services.presence import able_workers

LEAST_FREE = 64 * 2**20  # bytes: below them the database, the queue and uploads soon fail


class DiskFullError(RuntimeError):
    """The disk of the data folder is nearly full."""


def check_worker(services: Services) -> None:
    """Raise LookupError where no worker can take a job now."""
    with services.sessions.read() as session:
        if not able_workers(session):
            raise LookupError("no worker can take a job")


def check_disk(data_dir: Path) -> None:
    """Raise DiskFullError where little space is left."""
    if shutil.disk_usage(data_dir).free < LEAST_FREE:
        raise DiskFullError("less than 64 MiB are free")
