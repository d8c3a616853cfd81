"""A file that a working process touches; `python -m app.liveness` checks its age.

For the health checks of roles that answer on no port. The file lies where only this process writes,
in a container its own /tmp.
"""

import sys
import time
from pathlib import Path

from app.settings import settings

EVERY_SECONDS = 5.0
STALE_SECONDS = 30.0


def beat(file: Path | None) -> None:
    """Touch the liveness file."""
    if file is not None:
        file.touch(mode=0o600)


def alive(file: Path) -> bool:
    """Return whether the file was touched recently."""
    try:
        return time.time() - file.stat().st_mtime < STALE_SECONDS
    except OSError:
        return False


def main() -> None:
    """Exit with 0 where `DPMCMC_LIVENESS_FILE` is fresh."""
    file = settings().liveness_file
    sys.exit(0 if file is not None and alive(file) else 1)


if __name__ == "__main__":
    main()
