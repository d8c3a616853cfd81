"""Messages to the workers. A message has only a job's id; the database is authoritative."""

from functools import lru_cache
from typing import Any
from uuid import UUID

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from app.services.queue import sqlite_transport
from app.settings import Settings, settings
from app.storage.session import SessionFactory

TASK = "dpmcmc.run_job"
BROKER_SECONDS = 5.0  # that a message may take


def queue_of(sessions: SessionFactory) -> str:
    """Return the queue name of this database's installation; brokers may be shared."""
    return f"dpmcmc.jobs.{sessions.installation}"


def configuration(using: Settings) -> dict[str, Any]:
    """Return Celery's settings: late acknowledgement, no prefetching, no results, no pickle."""
    hard = using.job_time_limit + 60
    options: dict[str, Any] = {
        "broker_url": using.broker,
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": {
            "confirm_publish": True,
            "path": str(using.queue_file),
            "patience": 1.0,  # between two looks at whether the worker is to end
        },
        "task_acks_late": True,
        "task_acks_on_failure_or_timeout": True,
        "task_reject_on_worker_lost": True,
        "task_ignore_result": True,
        "task_soft_time_limit": using.job_time_limit,
        "task_time_limit": hard,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_prefetch_multiplier": 1,
        "worker_concurrency": using.worker_concurrency,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_send_task_events": False,
        "worker_enable_remote_control": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "broker_connection_max_retries": None,
    }
    if using.broker.startswith("redis"):
        options["broker_transport_options"] = {
            "visibility_timeout": hard + 3600,  # shorter than a task: it would be started again
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
        }
    return options


@lru_cache
def celery_app() -> Celery:
    """The Celery application of this process."""
    using = settings()
    sqlite_transport.register()
    for scheme in ("redis", "rediss"):  # by name: its client is loaded only where it is used
        TRANSPORT_ALIASES[scheme] = "app.services.queue.redis_transport:Transport"
    app = Celery("dpmcmc", set_as_current=False)
    app.conf.update(configuration(using))
    return app


def publish(sessions: SessionFactory, job_id: UUID) -> None:
    """Notify the workers of a queued job. Raises OSError or kombu's errors."""
    queue = queue_of(sessions)
    in_time = {"timeout": BROKER_SECONDS, "confirm_timeout": BROKER_SECONDS}
    celery_app().send_task(TASK, args=(str(job_id),), queue=queue, retry=False, **in_time)


def waiting_messages(sessions: SessionFactory) -> int:
    """Return the number of undelivered messages. Raises OSError or kombu's errors."""
    with celery_app().connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, timeout=3)
        try:
            return int(
                connection.default_channel.queue_declare(
                    queue_of(sessions), passive=True
                ).message_count
            )
        except connection.channel_errors:
            return 0  # there is no queue before its first message


def ping() -> None:
    """Connect to the broker. Raises where it does not answer within seconds."""
    with celery_app().connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, timeout=3)
