"""Linux's parent-death signal, so that no process outlives a killed parent."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel for a signal when the parent thread ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def is_orphan(expected: str | None) -> bool:
    """Return whether the parent ended before `die_with_parent`. expected: its process id."""
    return expected is not None and str(os.getppid()) != expected
