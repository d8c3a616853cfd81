"""Whether a job could be run: a worker of ours that listens, and room on the disk."""

import shutil
import socket
import time
from pathlib import Path

from dpmcmc_service.jobs.sqlite_queue import alive, consumer

LEAST_FREE = 64 * 2**20  # bytes: below them the database, the queue and uploads soon fail
FOLDER = "workers"
STALE_SECONDS = 30.0  # silence after which a worker of another machine does not count


class DiskFullError(RuntimeError):
    """The disk of the data folder has no room left."""


def announce(data_dir: Path) -> None:
    """Say that this worker has loaded what jobs need and listens; again every few seconds."""
    folder = data_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in folder.iterdir():
        if not _works(file):
            file.unlink(missing_ok=True)
    (folder / f"{consumer()}@{socket.gethostname()}").touch(mode=0o600)


def working(data_dir: Path) -> int:
    """How many workers listen whose data folder is this one."""
    folder = data_dir / FOLDER
    return sum(map(_works, folder.iterdir())) if folder.is_dir() else 0


def _works(file: Path) -> bool:
    """Whether a worker that announced itself is there: by its process, or by its last word."""
    process, _, host = file.name.partition("@")
    if host in ("", socket.gethostname()):
        return alive(process)
    try:
        return time.time() - file.stat().st_mtime < STALE_SECONDS
    except FileNotFoundError:
        return False


def check_worker(data_dir: Path) -> None:
    """Raise LookupError where no worker on this data folder listens yet."""
    if not working(data_dir):
        raise LookupError("no worker listens")


def check_disk(data_dir: Path) -> None:
    """Raise DiskFullError where little can be written."""
    if shutil.disk_usage(data_dir).free < LEAST_FREE:
        raise DiskFullError("less than 64 MiB are free")
