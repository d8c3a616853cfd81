"""The worker's Celery application, and the set-up of its job processes."""

import logging
import os
import signal
import threading
import time
from functools import lru_cache
from typing import Any

from celery import bootsteps, signals
from celery.concurrency.asynpool import AsynPool
from celery.worker import state

from app import liveness, logs, tracing
from app.services.context import Services, open_services
from app.services.presence import WORKER, Presence
from app.services.queue.messages import celery_app
from app.settings import settings
from worker import parent
from worker.ability import Ability

WATCH_SECONDS = 0.2

app = celery_app()
app.conf.include = ["worker.tasks"]


@lru_cache
def services() -> Services:
    """Return this process's services, created after the fork."""
    return open_services(settings())


class EndAtOnce(bootsteps.StartStopStep):  # type: ignore[misc]
    """Lets an idle worker exit at once, without waiting for the pool's threads.

    It is stopped after the consumer, when no message can come in any more, and before the pool. The
    pool's processes run nothing then, and the kernel ends them with this one.
    """

    requires = ("celery.worker.components:Pool",)

    def stop(self, _worker: Any) -> None:
        """Exit if no job is running; else let the pool finish its jobs."""
        if state.should_terminate is None and not state.reserved_requests:
            logging.shutdown()
            os._exit(0)


class EndWithLostProcess(bootsteps.StartStopStep):  # type: ignore[misc]
    """Ends the worker when a job process was killed and others might block.

    A broker without an event loop, as the embedded one is, goes with a pool whose processes take
    turns at one pipe. The lock of a process that is killed at its turn is never given back. Whoever
    started this worker starts another; jobs that its other processes ran are handed on.
    """

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: Any) -> None:
        """Watch the pool, unless each process has its own pipe."""
        pool = worker.pool._pool
        if not isinstance(pool, AsynPool):
            threading.Thread(target=self._watch, args=(pool,), daemon=True).start()

    def _watch(self, pool: Any) -> None:
        """Watch the pool's processes in a thread."""
        first = {process.pid for process in pool._pool}
        while first <= {process.pid for process in pool._pool}:
            time.sleep(WATCH_SECONDS)
        if state.should_stop is None and state.should_terminate is None:
            logs.logger().error("worker_process_lost")
            logging.shutdown()
            os._exit(1)


app.steps["worker"].add(EndAtOnce)
app.steps["worker"].add(EndWithLostProcess)


class Liveness(bootsteps.StartStopStep):  # type: ignore[misc]
    """Touches the liveness file from the message loop."""

    requires = ("celery.worker.components:Timer",)

    def start(self, worker: Any) -> None:
        """Touch it now and every few seconds."""
        _beat()
        worker.timer.call_repeatedly(liveness.EVERY_SECONDS, _beat)


_abilities: list[Ability] = []  # of this worker, once it is ready


def _beat() -> None:
    """Touch the liveness file."""
    if not any(ability.deaf for ability in _abilities):
        liveness.beat(settings().liveness_file)


app.steps["worker"].add(Liveness)


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _configure_logs(**_: Any) -> None:
    """Configure logging of a worker process."""
    logs.configure(settings().log_format, settings().log_level)


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _announce(sender: Any, **_: Any) -> None:
    """Start recording this worker's presence, once it receives messages."""
    its_services = open_services(settings())
    _abilities[:] = [Ability(its_services, sender)]
    Presence(its_services.sessions, WORKER, _abilities[0].look).start()


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _end_in_time(**_: Any) -> None:
    """Give running jobs the drain time; jobs cut off are recovered later."""
    end = threading.Timer(settings().drain_seconds, os._exit, (0,))
    end.daemon = True
    end.start()


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _start(**_: Any) -> None:
    """Set up a job process: exit with the parent, open its services."""
    parent.die_with_parent(signal.SIGKILL)
    signal.set_wakeup_fd(-1)  # it was the parent's: its bell rings for its own signals only
    tracing.configure(settings(), "worker")
    services()


@signals.worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _end(**_: Any) -> None:
    """Close the services of a job process."""
    services().close()
    tracing.close()
