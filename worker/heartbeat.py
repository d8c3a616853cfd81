"""The heartbeat of a running job: a thread that renews its lease and detects cancellation."""

import signal
import threading
import time
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Self

from sqlalchemy import update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.sql import ColumnElement

from app import logs
from app.services.context import Services
from app.storage.rows import JobRow
from app.storage.types import utc_now

BEAT_SECONDS = 0.5  # a cancellation is heard this soon
NEARLY = 0.95  # of its steps: what a job is shown to have done until it has ended
INTERRUPT = signal.SIGUSR2  # never sent; the name under which Python runs our handler


class StoppedError(Exception):
    """The attempt must stop: the job is cancelled, or its lease was lost."""


def scheduled(seconds: float, expected: float, steps: int) -> int:
    """Return the progress to show after some seconds, in steps.

    How many of its steps are expected to be done by then, from public facts: never what was done.
    A run whose worker is lost is begun anew for the same payment. Steps that it had taken by some
    time would tell how many were accepted, and nobody has paid for that.
    """
    return int(steps * NEARLY * min(seconds / expected, 1.0))


class Heartbeat:
    """Renews the lease during the `with` block. cancelled, lost: what it detected.

    steps, expected: of the job, and how many seconds they are expected to take; see `scheduled`.

    In a process's main thread it stops work by itself: Python runs a signal's handler between two
    instructions, so after one call of a kernel, however long a step or a block of draws may be.
    """

    def __init__(
        self, services: Services, holds: list[ColumnElement[bool]], steps: int, expected: float
    ) -> None:
        self._services = services
        self._holds = holds
        self._steps, self._expected, self._began = steps, expected, time.monotonic()
        self._every = min(BEAT_SECONDS, services.settings.lease_seconds / 4)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._works = False
        self.cancelled = False
        self.lost = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            signal.signal(INTERRUPT, self._interrupted)  # until the next job's takes its place
        self._thread.start()
        return self

    @contextmanager
    def stops_work(self) -> Iterator[None]:
        """Make a block without writes interruptible. Raises StoppedError in it or at its end."""
        self._works = True
        try:
            yield
        finally:
            self._works = False
        if self.cancelled or self.lost:
            raise StoppedError

    def _interrupted(self, _signal: int, _frame: FrameType | None) -> None:
        """Raise StoppedError in the interrupted block."""
        if self._works:
            self._works = False
            raise StoppedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        """Renew the lease until the block ends."""
        while not self._stop.wait(self._every):
            try:
                if not self.lost:
                    self._beat()
                if self.cancelled or self.lost:
                    interrupt_main(INTERRUPT)  # again and again: a destructor may have swallowed it
            except (OperationalError, InterfaceError, PoolTimeoutError) as error:
                logs.logger().warning("heartbeat_missed", exception=type(error).__name__)

    def _beat(self) -> None:
        """Renew the lease and read the cancellation flag."""
        lease = timedelta(seconds=self._services.settings.lease_seconds)
        with self._services.sessions.write() as session:
            beat = (
                update(JobRow)
                .where(*self._holds)
                .values(lease_until=utc_now() + lease, progress_step=self._progress())
                .returning(JobRow.cancel_requested)
            )
            heard = session.scalar(beat)
        self.lost = heard is None
        self.cancelled = bool(heard)

    def _progress(self) -> int:
        """Return the progress to store."""
        return scheduled(time.monotonic() - self._began, self._expected, self._steps)
