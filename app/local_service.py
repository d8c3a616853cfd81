"""A complete local service, for the demo, a notebook or a test."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

START_SECONDS = 600  # a first worker compiles its kernels, on a busy machine for minutes
STOP_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Service:
    """A running service. url: base URL; admin_key: first admin's key; log: its output."""

    url: str
    admin_key: str
    log: Path


def free_port() -> int:
    """Return a port that is free at present."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_ready(process: subprocess.Popen[bytes], service: Service) -> None:
    """Wait until /readyz answers 200. Raises RuntimeError where it does not."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{service.url}/readyz", timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    last = service.log.read_text(errors="replace").splitlines()[-20:]
    raise RuntimeError("\n".join(["the service did not start:", *last]))


def stop(process: subprocess.Popen[bytes]) -> int:
    """Stop the service gracefully, killing it after a time. Returns its exit code."""
    process.terminate()
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def local_service(data_dir: Path, extra: Mapping[str, str] | None = None) -> Iterator[Service]:
    """Start the embedded service on a free port of 127.0.0.1 and stop it at the end.

    data_dir: everything that it writes. extra: further environment variables.
    """
    port = free_port()
    service = Service(
        url=f"http://127.0.0.1:{port}",
        admin_key=f"dpm_{secrets.token_urlsafe(32)}",
        log=data_dir / "service.log",
    )
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "BROKER_URL")},
        "DPMCMC_DATA_DIR": str(data_dir),
        "DPMCMC_ADMIN_KEY": service.admin_key,
        **(extra or {}),
    }
    command = [
        sys.executable,
        "-m",
        "app.serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with service.log.open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - our own module
        try:
            wait_ready(process, service)
            yield service
        finally:
            stop(process)
