"""`python -m app.health URL`: the image's health check, for each of its roles.

An API says on its port whether it is ready. Where nothing listens there, the role is one that
touches a file while it works: see app.liveness.
"""

import sys
import urllib.error
import urllib.request
from pathlib import Path

from app import liveness
from app.settings import settings

SECONDS = 4.0


def healthy(url: str, file: Path | None) -> bool:
    """Return whether the API at `url` is ready or, without one, the liveness file is fresh."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - ours
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False
    except urllib.error.URLError as error:
        nobody = isinstance(error.reason, ConnectionRefusedError)
        return nobody and file is not None and liveness.alive(file)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(0 if healthy(sys.argv[1], settings().liveness_file) else 1)
