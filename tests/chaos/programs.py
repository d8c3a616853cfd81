"""Programs that chaos may kill: ours, and servers of its own that nobody else uses."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.local_service import free_port
from worker.parent import die_with_parent

ROOT = Path(__file__).resolve().parent.parent.parent
POSTGRES_USER = "postgres"


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and theirs."""
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    own = [int(child) for child in listing.stdout.split()]
    return own + [other for child in own for other in descendants(child)]


def kill(*pids: int) -> None:
    """kill -9, also where there is nobody any more."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@dataclass(slots=True)
class Program:
    """A command that is started again whenever it has ended, as a supervisor would.

    user: whom it runs as, where we are root.
    """

    name: str
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _not_before: float = 0.0

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.folder / f"{self.name}.log"

    def tend(self) -> None:
        """Start it where it does not run and its pause is over."""
        if self.alive() or time.monotonic() < self._not_before:
            return
        self.starts += 1
        self._not_before = time.monotonic() + 0.5
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
                user=self.user,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def tree(self) -> list[int]:
        """Its process and all that it started."""
        if self._process is None or not self.alive():
            return []
        return [self._process.pid, *descendants(self._process.pid)]

    def kill(self, pause: float) -> None:
        """kill -9 of the whole tree; it is started again after `pause` seconds."""
        self._not_before = time.monotonic() + pause
        kill(*self.tree())
        if self._process is not None:
            self._process.wait()

    def start(self) -> None:
        """Start it now, also where it was to stay away."""
        self._not_before = 0.0
        self.tend()

    def end(self, seconds: float = 120.0) -> int:
        """SIGTERM, and wait. Returns the exit code; kill -9 where it does not end in time."""
        if self._process is None:
            return 0
        tree = self.tree()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        kill(*tree)
        return self._process.wait()


def redis_server(folder: Path) -> tuple[Program, str] | None:
    """A Redis of our own, every write on its disk; None where there is no redis-server."""
    found = shutil.which("redis-server")
    if found is None:
        return None
    port = free_port()
    command = [found, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    return Program("redis", command, folder), f"redis://127.0.0.1:{port}/0"


def postgres_server(folder: Path) -> tuple[Program, str] | None:
    """A PostgreSQL cluster of our own; None where it is not installed or cannot be made."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    search = os.pathsep.join([*map(str, places), os.environ.get("PATH", "")])
    found = [shutil.which(name, path=search) for name in ("initdb", "postgres")]
    if None in found:
        return None
    initdb, postgres = (str(path) for path in found)
    user = POSTGRES_USER if os.geteuid() == 0 else None  # it refuses to run as root
    data = folder / "postgres"
    data.mkdir(mode=0o700)
    if user:
        shutil.chown(data, user)
    made = subprocess.run(
        [initdb, "-D", str(data), "-U", "dpmcmc", "--auth=trust", "--no-sync"],
        user=user,
        cwd="/",
        capture_output=True,
        check=False,
    )
    if made.returncode:
        return None
    port = free_port()
    settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    settings += ["-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB", "-c", "max_connections=200"]
    command = [postgres, "-D", str(data), "-p", str(port), *settings]
    url = f"postgresql://dpmcmc@127.0.0.1:{port}/postgres"
    return Program("postgres", command, folder, user=user), url


def service(folder: Path, environment: Mapping[str, str], name: str) -> tuple[Program, str]:
    """`./dev serve` on a free port."""
    port = free_port()
    command = [sys.executable, "-m", "app.serve", "--port", str(port)]
    return Program(name, command, folder, environment), f"http://127.0.0.1:{port}"


def worker(folder: Path, environment: Mapping[str, str], name: str) -> Program:
    """A worker by itself."""
    return Program(name, [sys.executable, "-m", "worker"], folder, environment)
