"""A thread that says "still here" for a running job and listens for its cancellation."""

import threading
from datetime import timedelta
from types import TracebackType
from typing import Self

from sqlalchemy import update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.sql import ColumnElement

from app import logs
from app.jobs.services import Services
from app.storage.rows import JobRow
from app.storage.types import utc_now

BEAT_SECONDS = 0.5  # a cancellation is heard this soon; a block of draws takes as long again


class Heartbeat:
    """Renews the lease while the `with` block runs. cancelled, lost: what it has heard."""

    def __init__(self, services: Services, holds: list[ColumnElement[bool]]) -> None:
        self._services = services
        self._holds = holds
        self._every = min(BEAT_SECONDS, services.settings.lease_seconds / 4)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.cancelled = False
        self.lost = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every) and not self.lost:
            try:
                self._beat()
            except (OperationalError, InterfaceError, PoolTimeoutError) as error:
                logs.logger().warning("heartbeat_missed", exception=type(error).__name__)

    def _beat(self) -> None:
        lease = timedelta(seconds=self._services.settings.lease_seconds)
        with self._services.sessions.write() as session:
            beat = (
                update(JobRow)
                .where(*self._holds)
                .values(lease_until=utc_now() + lease)
                .returning(JobRow.cancel_requested)
            )
            heard = session.scalar(beat)
        self.lost = heard is None
        self.cancelled = bool(heard)
