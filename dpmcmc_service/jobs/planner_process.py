"""`python -m dpmcmc_service.jobs.planner_process <fd> <seconds> <nice>`: works out plans.

They come down a line. It ends with the line.

Everything here is of public facts: no key, no row and no connection to a database comes in here.
"""

import os
import pickle
import resource
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from dpmcmc_service.collector import spare_what_is_loaded
from dpmcmc_service.jobs.planner import load_planner

MOST_BYTES = 1280 * 2**20


def _worked(message: bytes) -> tuple[bool, Any]:
    """Whether the function returned, and what."""
    try:
        _, function, given = pickle.loads(message)  # noqa: S301 - from the process that started us
        return True, function(*given)
    except Exception:
        return False, None


def main(descriptor: int, seconds: float, nice: int) -> None:
    """Answer until the line closes. Ends itself where whoever should have ended it is gone."""
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
        answer = pickle.dumps(_worked(message))
        signal.setitimer(signal.ITIMER_REAL, 0)
        line.send_bytes(answer)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
