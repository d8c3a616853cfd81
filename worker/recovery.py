"""`python -m worker.recovery`: the recovery process. `serve` runs it in a thread."""

import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from uuid import UUID

from app import liveness, logs
from app.services.accounts import notices
from app.services.budgets.rewind import Exporter
from app.services.context import Services, open_services
from app.services.presence import RECOVERY, Presence
from app.services.results.retention import Retention
from app.services.upkeep import migrate, room_to_start
from app.settings import settings
from app.storage.keys import KeyFileError
from worker.lost_jobs import Recovery

ROUND_SECONDS = 1.0
END_SECONDS = 2.0  # for the round that is under way: every write of it is whole or not at all


class Outbox:
    """A queue of messages to the workers, sent by a thread that may block on the broker."""

    def __init__(self, publish: Callable[[UUID], None]) -> None:
        self._publish = publish
        self._guard, self._jobs = threading.Lock(), dict[UUID, None]()

    def put(self, job_id: UUID) -> None:
        """Queue a message about a job, at most one for each."""
        with self._guard:
            self._jobs[job_id] = None

    def send(self) -> None:
        """Send the queued messages. Unsent ones stay queued."""
        with self._guard:
            jobs = list(self._jobs)
        for job_id in jobs:
            self._publish(job_id)
            with self._guard:
                del self._jobs[job_id]


def rounds(services: Services, stop: threading.Event) -> None:
    """Run rounds of recovery until stopped, whatever the database does.

    Each kind of work has a thread of its own: what waits for a broker, a webhook or a mail server
    holds neither leases and reservations, nor anchors, nor the deletion of what is past its time.
    """
    outbox, exporter = Outbox(services.publish), Exporter(services)
    recovery = Recovery(replace(services, publish=outbox.put))

    def recover() -> None:
        """Run one round."""
        recovery.round()
        liveness.beat(services.settings.liveness_file)

    kinds: dict[str, Callable[[], None]] = {
        "recovery": recover,
        "anchors": exporter.anchor_round,
        "retention": Retention(services).round,
        "messages": outbox.send,
        "webhook": exporter.send,
        "notices": partial(notices.send, services),
    }
    threads = [
        threading.Thread(target=_again_and_again, args=(name, act, stop), daemon=True)
        for name, act in kinds.items()
    ]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(END_SECONDS)


def _again_and_again(name: str, act: Callable[[], None], stop: threading.Event) -> None:
    """Call a function every second, logging its errors, until stopped."""
    while not stop.wait(ROUND_SECONDS):
        try:
            act()
        except Exception as error:
            kind = type(error).__name__
            logs.logger().error("recovery_failed", work=name, exception=kind)


class RecoveryThread(threading.Thread):
    """A thread that runs recovery once a second, within the API process."""

    def __init__(self, services: Services) -> None:
        super().__init__(name="recovery", daemon=True)
        self._services = services
        self._stop_now = threading.Event()

    def stop(self) -> None:
        """Stop after the current round."""
        self._stop_now.set()
        self.join()

    def run(self) -> None:
        """Run rounds until stopped."""
        rounds(self._services, self._stop_now)


def main() -> None:
    """Run recovery until SIGTERM or SIGINT."""
    using = settings()
    logs.configure(using.log_format, using.log_level)
    logs.silence_warnings()
    stop = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        """Handle a signal: stop."""
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        with room_to_start("the recovery process", using.data_dir):
            migrate(using)
            services = open_services(using)
    except KeyFileError as error:
        sys.exit(f"the recovery process does not start: {error}")
    presence = Presence(services.sessions, RECOVERY)
    presence.start()
    try:
        rounds(services, stop)
    finally:
        presence.stop()
        services.close()


if __name__ == "__main__":
    main()
