"""`python -m app.services.planning.process <fd> <seconds> <nice>`: a planner process.

They come down a line. It ends with the line.

Everything here is of public facts: no key, no row and no connection to a database comes in here.
"""

import os
import pickle
import resource
import signal
import sys
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from app.collector import spare_what_is_loaded
from app.services.planning.calls import load_planner

MOST_BYTES = 1280 * 2**20
STOP_SIGNAL = signal.SIGUSR1  # nobody waits for the answer any more


class StoppedWorkError(BaseException):
    """The result is no longer needed. Raised by a signal; no function may catch it."""


class _Work:
    """Calls functions one at a time, each interruptible by a signal."""

    def __init__(self) -> None:
        self._stoppable = False
        signal.signal(STOP_SIGNAL, self._stop)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Interrupt the current call. A late signal has no effect."""
        if self._stoppable:
            self._stoppable = False
            raise StoppedWorkError

    def done(self, message: bytes) -> tuple[bool, Any]:
        """Return whether the function returned, and its result."""
        try:
            self._stoppable = True
            _, function, arguments = pickle.loads(message)  # noqa: S301 - from who started us
            outcome = function(*arguments)
            self._stoppable = False
        except (Exception, StoppedWorkError):
            self._stoppable = False
            return False, None
        return True, outcome


def main(descriptor: int, seconds: float, nice: int) -> None:
    """Serve calls until the connection closes. Exits if its parent dies."""
    work = _Work()
    os.nice(nice)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    line = Connection(descriptor)
    load_planner()
    spare_what_is_loaded()
    line.send_bytes(b"ready")
    while True:
        try:
            message = line.recv_bytes()
        except (EOFError, OSError):
            return
        signal.setitimer(signal.ITIMER_REAL, 2 * seconds + 1)
        answer = pickle.dumps(work.done(message))
        signal.setitimer(signal.ITIMER_REAL, 0)
        line.send_bytes(answer)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
