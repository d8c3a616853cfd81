"""`./dev serve`: the API with worker processes and recovery."""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from pydantic import ValidationError

from app import logs
from app.collector import spare_what_is_loaded
from app.connections import protocol
from app.main import create_app
from app.services.accounts import users
from app.services.budgets import rewind
from app.services.context import open_services
from app.services.datasets.stored_rows import mark_store
from app.services.planning.processes import planners_of
from app.services.presence import API, Presence
from app.services.upkeep import migrate, room_to_start, sweep
from app.settings import Settings, settings
from app.storage.errors import StoreAwayError
from app.storage.keys import KeyFileError
from app.storage.sources import SourcesFileError
from worker.recovery import RecoveryThread

RESTART_SECONDS = (0.5, 10.0)
STEADY_SECONDS = 60.0  # a worker that ran for longer was not broken from its start
MOST_PORT = 65_535
PARENT = "DPMCMC_PARENT_PID"
SWITCH_SECONDS = 0.001  # that the event loop waits for a thread that computes


class Workers(threading.Thread):
    """Supervises worker processes until stopped, then lets them finish their jobs.

    The thread lives as long as its children: their parent-death signal is bound to it.
    """

    def __init__(self, number: int, drain_seconds: float) -> None:
        super().__init__(name="workers")
        self._number = number
        self._drain = drain_seconds
        self._stop_now = threading.Event()

    def end(self) -> None:
        """Ask the workers to finish."""
        self._stop_now.set()

    def stop(self) -> None:
        """Ask the workers to finish, and wait."""
        self.end()
        self.join()

    def run(self) -> None:
        """Start workers and restart ended ones, with growing delays for early ends."""
        children = [self._start() for _ in range(self._number)]
        begun = [time.monotonic()] * self._number
        pause = RESTART_SECONDS[0]
        while not self._stop_now.wait(0.2):
            for index, child in enumerate(children):
                if child.poll() is None:
                    continue
                logs.logger().warning("worker_ended", code=child.returncode)
                if time.monotonic() - begun[index] > STEADY_SECONDS:
                    pause = RESTART_SECONDS[0]
                if self._stop_now.wait(pause):
                    break
                pause = min(2 * pause, RESTART_SECONDS[1])
                children[index], begun[index] = self._start(), time.monotonic()
        self._end(children)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a worker process."""
        command = [sys.executable, "-m", "worker"]
        environment = {**os.environ, PARENT: str(os.getpid())}
        # of this session: where Linux shares cores out by session, `nice` counts within one alone
        return subprocess.Popen(command, env=environment, process_group=0)  # noqa: S603

    def _end(self, children: list[subprocess.Popen[bytes]]) -> None:
        """Terminate the workers, killing them after the drain time."""
        for child in children:
            child.terminate()
        deadline = time.monotonic() + self._drain
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, deadline - time.monotonic()))
            if child.poll() is None:  # its job is handed on when its lease ends
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would skip our clean-up."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, after loading everything."""
        await super().startup(sockets)
        spare_what_is_loaded()
        if self.started:
            tell("Dashboard", address(self.config.host, self.config.port))

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Install no signal handlers."""
        yield


def address(host: str, port: int) -> str:
    """Return the URL of the service for a browser on this machine."""
    local = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104  all interfaces
    return f"http://{local.get(host, f'[{host}]' if ':' in host else host)}:{port}"


def tell(what: str, where: str) -> None:
    """Print a line, in colour on a terminal."""
    bold, plain = ("\x1b[1;36m", "\x1b[0m") if _in_colour() else ("", "")
    sys.stdout.write(f"{what}: {bold}{where}{plain}\n")
    sys.stdout.flush()


def _in_colour() -> bool:
    """Return whether stdout supports colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def prepare(using: Settings) -> None:
    """Migrate the database, create the first admin, and delete orphaned files."""
    migrate(using)
    services = open_services(using)
    try:
        key = users.ensure_admin(services, using.admin_key.get_secret_value())
        with contextlib.suppress(StoreAwayError):  # readiness says so
            mark_store(services)
        sweep(services)
        rewind.look(services)
    finally:
        services.close()
    if key:
        tell("The first admin's key, shown this once", key)
    elif using.admin_key.get_secret_value():
        tell("The first admin's key", "the value of DPMCMC_ADMIN_KEY")
    else:
        tell("The first admin's key", "was shown when the service was first started")


def serve(using: Settings, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Raises KeyFileError before starting."""
    open_services(using).close()
    workers = Workers(using.workers, using.drain_seconds)
    workers.start()  # first of all: they load their kernels meanwhile
    try:
        prepare(using)
        _serve(using, host, port, workers)
    finally:
        workers.stop()


def _serve(using: Settings, host: str, port: int, workers: Workers) -> None:
    """Serve the API, and recovery unless it runs elsewhere, until a signal.

    The signal ends the workers at the same time: the seconds to drain pass once.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    planners = planners_of(using)
    app = create_app(using, planners=planners)
    planners.start()  # they load their libraries meanwhile
    server = Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            loop="uvloop",  # a tenth less of a core under load, and half the wait of a short call
            http=protocol(using.request_seconds, using.send_seconds),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, int(using.drain_seconds)),
        )
    )

    def end(_signal: int, _frame: FrameType | None) -> None:
        """Handle a signal: stop."""
        server.should_exit = True
        workers.end()
        app.state.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    its_services = open_services(using)
    presence = Presence(its_services.sessions, API)
    presence.start()
    recovery = RecoveryThread(its_services)
    if using.recovery:
        recovery.start()
    try:
        server.run()
    finally:
        planners.close()
        if using.recovery:
            recovery.stop()
        presence.stop()
        its_services.close()


class _Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors."""

    def error(self, message: str) -> NoReturn:
        """Print the error to stderr and exit with 2."""
        self.exit(2, f"{message}. Try '{self.prog} --help'.\n")


def _port(word: str) -> int:
    """Return a port number. Raises ArgumentTypeError."""
    if not word.isdecimal() or not 0 <= int(word) <= MOST_PORT:
        raise argparse.ArgumentTypeError(f"{word!r} is no port: give 0 to {MOST_PORT}")
    return int(word)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = _Parser(prog="./dev serve", description="Run the dpmcmc service.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8000)
    options = parser.parse_args(arguments)
    try:
        using = settings()
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        sys.exit(f"dpmcmc does not start: {wrong}")
    logs.configure(using.log_format, using.log_level)
    logs.silence_warnings()
    try:
        with room_to_start("dpmcmc", using.data_dir):
            serve(using, options.host, options.port)
    except (KeyFileError, SourcesFileError) as error:
        sys.exit(f"dpmcmc does not start: {error}")


if __name__ == "__main__":
    main()
