"""The worker's Celery application, and what happens in each process that runs jobs."""

import logging
import os
import signal
from functools import lru_cache
from typing import Any

from celery import bootsteps, signals
from celery.worker import state

from app import logs
from app.jobs.queue import celery_app
from app.jobs.services import Services, open_services
from app.settings import settings
from worker import parent

app = celery_app()
app.conf.include = ["worker.tasks"]


@lru_cache
def services() -> Services:
    """This process's services: made after the fork, never before."""
    return open_services(settings())


class EndAtOnce(bootsteps.StartStopStep):  # type: ignore[misc]
    """Ends an idle worker without the seconds that the pool's threads take to notice.

    It is stopped after the consumer, when no message can come in any more, and before the pool. The
    pool's processes run nothing then, and the kernel ends them with this one.
    """

    requires = ("celery.worker.components:Pool",)

    def stop(self, _worker: Any) -> None:
        """End the process where no job is held; else leave it to the pool to finish them."""
        if state.should_terminate is None and not state.reserved_requests:
            logging.shutdown()
            os._exit(0)


app.steps["worker"].add(EndAtOnce)


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _configure_logs(**_: Any) -> None:
    logs.configure(settings().log_format, settings().log_level)


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _start(**_: Any) -> None:
    """End with the parent; open this process's own services."""
    parent.die_with_parent(signal.SIGKILL)
    services()


@signals.worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _end(**_: Any) -> None:
    services().close()
