"""`python -m dpmcmc_service.recovery`: the recovery process. `serve` has one in a thread."""

import signal
import sys
import threading
from types import FrameType

from dpmcmc_service import liveness, logs
from dpmcmc_service.jobs.presence import RECOVERY, Presence
from dpmcmc_service.jobs.recovery import Recovery
from dpmcmc_service.jobs.retention import Retention
from dpmcmc_service.jobs.rewind import Exporter
from dpmcmc_service.jobs.services import Services, open_services
from dpmcmc_service.jobs.upkeep import migrate
from dpmcmc_service.settings import settings
from dpmcmc_service.storage.keys import KeyFileError

ROUND_SECONDS = 1.0


def rounds(services: Services, stop: threading.Event) -> None:
    """Round after round, whatever happens to the database, until told to stop."""
    recovery, exporter, retention = Recovery(services), Exporter(services), Retention(services)
    while not stop.wait(ROUND_SECONDS):
        try:
            recovery.round()
            liveness.beat(services.settings.liveness_file)
            exporter.round()
            retention.round()
        except Exception as error:
            logs.logger().error("recovery_failed", exception=type(error).__name__)


class RecoveryThread(threading.Thread):
    """Runs a round of recovery once a second, beside the API."""

    def __init__(self, services: Services) -> None:
        super().__init__(name="recovery", daemon=True)
        self._services = services
        self._stop_now = threading.Event()

    def stop(self) -> None:
        """Stop after the present round."""
        self._stop_now.set()
        self.join()

    def run(self) -> None:
        """Run rounds until told to stop."""
        rounds(self._services, self._stop_now)


def main() -> None:
    """Recover jobs until SIGTERM or SIGINT."""
    using = settings()
    logs.configure(using.log_format, using.log_level)
    logs.silence_warnings()
    stop = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    migrate(using)
    try:
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
