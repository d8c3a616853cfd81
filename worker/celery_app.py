"""The worker's Celery application, and what happens in each process that runs jobs."""

import fcntl
from functools import lru_cache
from typing import Any

from celery import signals

from app import logs
from app.jobs.queue import celery_app
from app.jobs.services import Services, open_services
from app.settings import settings
from worker import parent, warmup

app = celery_app()
app.conf.worker_proc_alive_timeout = 300.0  # a first start compiles the kernels
app.conf.include = ["worker.tasks"]


@lru_cache
def services() -> Services:
    """This process's services: made after the fork, never before."""
    return open_services(settings())


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _configure_logs(**_: Any) -> None:
    logs.configure(settings().log_format, settings().log_level)


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _start(**_: Any) -> None:
    """End with the parent; compile or load the kernels, one process at a time."""
    parent.die_with_parent()
    services()
    with (settings().data_dir / "warmup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warmup.warm_up()


@signals.worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _end(**_: Any) -> None:
    services().close()
