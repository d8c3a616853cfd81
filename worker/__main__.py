"""`python -m worker`: run jobs until SIGTERM, then finish the running ones and exit."""

import os
import signal
import sys
import time
from types import FrameType

from sqlalchemy.exc import SQLAlchemyError

from app import logs
from app.collector import spare_what_is_loaded
from app.priority import give_way
from app.services import presence
from app.services.context import Services, open_services
from app.services.queue.messages import queue_of
from app.services.upkeep import room_to_start
from app.settings import settings
from app.storage.keys import KeyFileError
from worker import warmup
from worker.celery_app import app
from worker.parent import die_with_parent, is_orphan

PARENT = "DPMCMC_PARENT_PID"
NICE = 5  # with what it runs: the API beside it goes first, so that nobody's call waits for jobs
SESSION_NICE = 1  # beside others that compute, median jobs took 7 s under load at 2, 17 s at 5
RETRY_SECONDS = 0.5  # for a database that is away, or not migrated yet


def main() -> None:
    """Load the kernels, then start Celery's worker, whose child processes inherit them."""
    give_way(NICE, SESSION_NICE)
    using = settings()
    logs.configure(using.log_format, using.log_level)
    logs.silence_warnings()
    if PARENT in os.environ:
        die_with_parent(signal.SIGTERM)
        if is_orphan(os.environ[PARENT]):
            sys.exit(0)
    signal.signal(signal.SIGTERM, _end)  # until Celery listens: there is no job to finish
    try:
        with room_to_start("the worker", using.data_dir):
            services = open_services(using)
    except KeyFileError as error:
        sys.exit(error.args[0])  # our own line: a path and how many datasets
    app.conf.task_default_queue = _queue(services)
    services.close()
    warmup.unpack(using.kernels_dir)
    warmup.once(using.data_dir)
    rest = warmup.compile_rest(using.data_dir)
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    level = f"--loglevel={using.log_level}"
    logs.logger().info("kernels_loaded", all=rest is None)
    spare_what_is_loaded()
    app.worker_main(["--quiet", "worker", "--pool=prefork", level, *quiet])


def _queue(services: Services) -> str:
    """Return the installation's queue name, waiting for the database."""
    while True:
        try:
            queue = queue_of(services.sessions)
            presence.say(services.sessions, presence.WORKER, able=False)
        except SQLAlchemyError as error:
            logs.logger().warning("database_unavailable", exception=type(error).__name__)
            time.sleep(RETRY_SECONDS)
        else:
            return queue


def _end(_signal: int, _frame: FrameType | None) -> None:
    """Handle a signal before Celery runs: exit."""
    os._exit(0)


if __name__ == "__main__":
    main()
