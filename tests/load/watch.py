"""What processes take, read from /proc: memory at its peak, and time of a core."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.stacks import Stack

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.5
OF_OTHERS = ("postgres", "redis")  # servers that are not ours


@dataclass(frozen=True, slots=True)
class Process:
    """One process. name: its program, and its place among its children."""

    pid: int
    name: str


def processes(on: Stack) -> list[Process]:
    """Every process of ours that runs, the children of each program numbered."""
    return [
        Process(pid, program.name if not number else f"{program.name}/{number} {_title(pid)}")
        for program in on.programs()
        if program.name not in OF_OTHERS
        for number, pid in enumerate(program.tree())
    ]


def _title(pid: int) -> str:
    """The module that a process runs."""
    words = _read(pid, "cmdline").split("\0")
    return next((word for word in words[1:] if not word.startswith("-")), "?")


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever held; 0 where it has ended."""
    for line in _read(pid, "status").splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return 0


def core_seconds(pid: int) -> float:
    """The time of a core that a process has taken; 0 where it has ended."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def busy_seconds() -> float:
    """The time of all cores that anything on this machine has taken."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, _idle, _waiting, *rest = map(int, first.split()[1:8])
    return (user + nice + system + sum(rest)) / TICKS


class Watch:
    """Peaks of memory, and time of a core, of every process that was seen."""

    def __init__(self, on: Stack) -> None:
        self._on = on
        self._before = {one: core_seconds(one.pid) for one in processes(on)}
        self._latest = dict(self._before)
        self._began, self._busy, self._own = time.monotonic(), busy_seconds(), time.process_time()
        self.peaks: dict[Process, int] = {}

    def look(self) -> None:
        """Look once."""
        for one in processes(self._on):
            self.peaks[one] = max(self.peaks.get(one, 0), peak_bytes(one.pid))
            self._latest[one] = max(self._latest.get(one, 0.0), core_seconds(one.pid))

    def cores(self) -> dict[Process, float]:
        """Seconds of a core that each process took since the watch began."""
        return {one: now - self._before.get(one, 0.0) for one, now in self._latest.items()}

    def cores_of_others(self) -> float:
        """Cores that neither our processes nor the crowd took: all that others do slows us down."""
        ours = sum(self.cores().values()) + time.process_time() - self._own
        others = busy_seconds() - self._busy - ours
        return max(0.0, others) / (time.monotonic() - self._began)


@contextmanager
def watched(on: Stack) -> Iterator[Watch]:
    """Look again and again while the block runs."""
    watch, over = Watch(on), threading.Event()

    def run() -> None:
        while not over.wait(LOOK_SECONDS):
            with suppress(OSError):
                watch.look()

    thread = threading.Thread(target=run, name="watch")
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
        watch.look()
