"""Whether this worker can take jobs, and whether it must be restarted because it gets no messages.

A worker is able where it reaches the broker, the store of the rows and the database, and holds the
installation's master key. It is deaf where messages wait and it has a free place, and yet it takes
none: whatever the reason, waiting does not help.
"""

import threading
import time
from typing import Any

from celery.worker import state
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app import liveness, logs
from app.services.context import Services
from app.services.datasets.stored_rows import check_store
from app.services.queue.messages import waiting_messages
from app.storage.errors import StoreError
from app.storage.rows import DatasetRow

DEAF_LOOKS = 3  # in a row that find messages waiting for a free place which takes none
STUCK_SECONDS = liveness.STALE_SECONDS


class Ability:
    """The state of this worker. consumer: Celery's consumer of messages."""

    def __init__(self, services: Services, consumer: Any) -> None:
        self._services, self._consumer = services, consumer
        self._places = services.settings.worker_concurrency
        self._taken, self._ignored = -1, 0
        self._guard = threading.Lock()

    @property
    def deaf(self) -> bool:
        """Return whether it receives no messages although it could."""
        return self._ignored >= DEAF_LOOKS or self._stuck()

    def _stuck(self) -> bool:
        """Return whether the embedded broker's loop is stuck. Other brokers have heartbeats."""
        connection = self._consumer.connection
        looked_at = getattr(getattr(connection, "transport", None), "looked_at", None)
        return looked_at is not None and time.monotonic() - looked_at > STUCK_SECONDS

    def look(self) -> bool:
        """Return whether it can take a job now. A worker without messages exits after its jobs."""
        with self._guard:
            able = self._hears() and self._has_key() and self._reaches_rows()
        if self.deaf:
            logs.logger().error("worker_deaf")
            state.should_stop = 1
            return False
        return able

    def _hears(self) -> bool:
        """Return whether messages are received."""
        try:
            waiting = waiting_messages(self._services.sessions)
        except Exception as error:  # each broker's client has errors of its own
            logs.logger().warning("broker_unavailable", exception=type(error).__name__)
            self._ignored = 0
            return False
        taken, busy = sum(state.total_count.values()), len(state.reserved_requests)
        free = busy < self._places and self._consumer.connection is not None
        ignores = waiting > 0 and free and taken == self._taken
        self._taken, self._ignored = taken, self._ignored + 1 if ignores else 0
        return self._consumer.connection is not None

    def _has_key(self) -> bool:
        """Return whether our master key decrypts the newest dataset's key."""
        newest = (
            select(DatasetRow.id, DatasetRow.wrapped_key)
            .where(DatasetRow.wrapped_key.is_not(None))
            .order_by(DatasetRow.created_at.desc())
            .limit(1)
        )
        try:
            with self._services.sessions.read() as session:
                row = session.execute(newest).one_or_none()
        except SQLAlchemyError as error:
            logs.logger().warning("database_unavailable", exception=type(error).__name__)
            return False
        if row is None or self._services.vault.files.opens(row.wrapped_key or b"", row.id):
            return True
        logs.logger().error("master_key_mismatch")
        return False

    def _reaches_rows(self) -> bool:
        """Return whether the store of rows is accessible."""
        try:
            check_store(self._services)
        except (StoreError, SQLAlchemyError) as error:
            logs.logger().warning("store_unavailable", exception=type(error).__name__)
            return False
        return True
