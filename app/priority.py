"""Who goes first on the cores of a machine: the API, for whose answers somebody waits."""

import contextlib
import os
from pathlib import Path

SESSION = Path("/proc/self/autogroup")


def give_way(nice: int, session: int) -> None:
    """Let other processes of this machine go first, by so much of `nice`.

    Linux may share the cores out between sessions before it looks at what is nice within each
    (autogroup, where no control group limits cores): a process with a session of its own then gives
    way to nobody by `nice` alone. Where it leads one, the session gives way by `session`: by less,
    since it does so to everything on the machine, and not to the API alone.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # there is no such thing here
            SESSION.write_text(str(session))
