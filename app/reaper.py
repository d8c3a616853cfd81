"""`python -m app.reaper`: the reaper by itself. `serve` runs one in a thread of its own."""

import signal
import sys
import threading
from types import FrameType

from app import logs, pulse
from app.jobs.reap import Reaper
from app.jobs.retention import Retention
from app.jobs.rewind import Exporter
from app.jobs.services import Services, open_services
from app.jobs.upkeep import migrate
from app.settings import settings
from app.storage.keys import KeyFileError

REAP_SECONDS = 1.0


def rounds(services: Services, stop: threading.Event) -> None:
    """Round after round, whatever happens to the database, until told to stop."""
    reaper, exporter, retention = Reaper(services), Exporter(services), Retention(services)
    while not stop.wait(REAP_SECONDS):
        try:
            reaper.round()
            pulse.beat(services.settings.pulse_file)
            exporter.round()
            retention.round()
        except Exception as error:
            logs.logger().error("reaper_failed", exception=type(error).__name__)


class Reaping(threading.Thread):
    """Runs the reaper once a second, beside the API."""

    def __init__(self, services: Services) -> None:
        super().__init__(name="reaper", daemon=True)
        self._services = services
        self._stop_now = threading.Event()

    def stop(self) -> None:
        """Stop after the present round."""
        self._stop_now.set()
        self.join()

    def run(self) -> None:
        """See `rounds`."""
        rounds(self._services, self._stop_now)


def main() -> None:
    """Reap until SIGTERM or SIGINT."""
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
        sys.exit(f"the reaper does not start: {error}")
    try:
        rounds(services, stop)
    finally:
        services.close()


if __name__ == "__main__":
    main()
