"""Process priorities: the API before jobs, as users wait for its answers."""

import contextlib
import os
from pathlib import Path

SESSION = Path("/proc/self/autogroup")


def give_way(nice: int, session: int) -> None:
    """Lower the priority of this process by `nice`, and of its session by `session`.

    Linux may share the cores out between sessions before it looks at what is nice within each
    (autogroup, where no control group limits cores): a process with a session of its own then gives
    way to nobody by `nice` alone. Where it leads one, the session gives way by `session`: by less,
    since it does so to everything on the machine, and not to the API alone.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # there is no such thing here
            SESSION.write_text(str(session))
