"""The two stacks that chaos is let loose on, in a folder of their own and with a dataset."""

import contextlib
import math
import os
import random
import secrets
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import redis

from dpmcmc.client import Client
from tests.chaos.clients import job_of
from tests.chaos.outside import Outside
from tests.chaos.programs import Program, postgres_server, redis_server, service, worker

DISK_BYTES = 400 * 2**20
START_SECONDS = 180
SLOTS = 2  # of a worker
SOME = 3  # datasets
METADATA = {
    "name": "people",
    "privacy": {"neighbouring": "replace_one", "epsilon": 500.0, "delta": 1e-6},
    "columns": [
        {"name": "age", "type": "number", "lower": 17, "upper": 90},
        {"name": "sex", "type": "category", "categories": ["Female", "Male"]},
        {"name": "income", "type": "binary", "categories": ["<=50K", ">50K"]},
    ],
}


class AbsentError(Exception):
    """A server that the stack needs is not installed."""


@dataclass(slots=True)
class Stack:
    """What runs. disk: whether the folder is a small disk that chaos may fill.

    datasets, keys: of the datasets that there are, and of analysts whom only faults speak for.
    """

    name: str
    folder: Path
    disk: bool
    database: str
    admin_key: str
    apis: dict[str, Program] = field(default_factory=dict)
    workers: list[Program] = field(default_factory=list)
    broker: Program | None = None
    broker_url: str = ""
    server: Program | None = None
    outside: Outside = field(default_factory=Outside)
    datasets: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The address of the first API."""
        return next(iter(self.apis))

    def stored(self, found: str) -> str:
        """An id as the database keeps it."""
        return found if self.server is not None else UUID(found).hex

    @property
    def slots(self) -> int:
        """How many jobs may run at once."""
        return max(1, len(self.workers)) * SLOTS

    def programs(self) -> list[Program]:
        """Every program, the servers first."""
        servers = [program for program in (self.server, self.broker) if program]
        return [*servers, *self.apis.values(), *self.workers]

    def tend(self, seconds: float = 0.0, until: Callable[[], bool] = lambda: False) -> bool:
        """Restart what has ended, for a while or until something holds. Says whether it does."""
        deadline = time.monotonic() + seconds
        while True:
            for program in self.programs():
                program.tend()
            if until():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)

    def ready(self) -> bool:
        """Whether every API answers that it is."""
        return all(_ready(url) for url in self.apis)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Read or change the database behind everybody's back. Returns the rows, if any."""
        if self.server is not None:
            with psycopg.connect(self.database, connect_timeout=5) as connection:
                found = connection.execute(statement)
                return found.fetchall() if found.description else []
        with contextlib.closing(sqlite3.connect(self.database, timeout=20)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows

    @contextlib.contextmanager
    def broker_away(self) -> Iterator[None]:
        """No broker meanwhile; the embedded one is a file, which is locked."""
        if self.broker is not None:
            self.broker.kill(math.inf)
            try:
                yield
            finally:
                self.broker.start()
            return
        with self.held(str(self.folder / "data" / "queue.sqlite3")):
            yield

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[None]:
        """Writers are kept out of a file of SQLite."""
        with contextlib.closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                file.execute("ROLLBACK")

    def flush_broker(self) -> None:
        """Throw every message away."""
        if self.broker is not None:
            with redis.Redis.from_url(self.broker_url, socket_timeout=5) as client:
                client.flushall()
            return
        with contextlib.closing(
            sqlite3.connect(self.folder / "data" / "queue.sqlite3", timeout=20)
        ) as connection:
            connection.execute("DELETE FROM message")
            connection.commit()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def small_disk() -> Iterator[tuple[Path, bool]]:
    """A folder on a disk of its own where we may mount one; else any folder, and False."""
    folder = Path(tempfile.mkdtemp(prefix="dpmcmc-chaos-"))
    options = f"size={DISK_BYTES},mode=0755"
    mount = ["mount", "-t", "tmpfs", "-o", options, "dpmcmc-chaos", str(folder)]
    mounted = (
        os.geteuid() == 0
        and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    )
    folder.chmod(0o755)
    try:
        yield folder, mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def stack(name: str) -> Iterator[Stack]:
    """The stack, started and ready. Raises AbsentError where a server is not installed."""
    with small_disk() as (folder, disk):
        made = _make(name, folder, disk)
        try:
            if not made.tend(START_SECONDS, made.ready):
                raise RuntimeError(f"the service did not start:\n{logs_of(made)}")
            yield made
        finally:
            for program in reversed(made.programs()):
                program.kill(math.inf)
            made.outside.close()


def _make(name: str, folder: Path, disk: bool) -> Stack:
    made = Stack(name, folder, disk, str(folder / "data" / "dpmcmc.sqlite3"), secrets.token_hex(32))
    environment = {
        "DPMCMC_DATA_DIR": str(folder / "data"),
        "DPMCMC_ADMIN_KEY": made.admin_key,
        "DPMCMC_LEASE_SECONDS": "2",
        "DPMCMC_MAX_ATTEMPTS": "5",
        "DPMCMC_MAX_JOBS_WAITING": "15",  # bounds what is left to do at the end
        "DPMCMC_WORKERS": "0",
        "DPMCMC_WORKER_CONCURRENCY": str(SLOTS),
        "DPMCMC_MAX_JOBS_RUNNING": "1",
        "DATABASE_URL": "",
        "BROKER_URL": "",
        **made.outside.settings(),
    }
    if name == "production":
        postgres, broker = postgres_server(folder), redis_server(folder)
        if postgres is None or broker is None:
            raise AbsentError("PostgreSQL" if postgres is None else "Redis")
        made.server, made.database = postgres
        made.broker, made.broker_url = broker
        environment |= {"DATABASE_URL": made.database, "BROKER_URL": made.broker_url}
        made.tend(START_SECONDS, lambda: _listens(made))
        made.workers = [worker(folder, environment, f"worker-{n}") for n in (1, 2)]
    for number in (1, 2):  # each has a recovery thread: two at once
        own = number == 1 and name == "embedded"
        program, url = service(
            folder, environment | ({"DPMCMC_WORKERS": "1"} if own else {}), f"api-{number}"
        )
        made.apis[url] = program
        if number == 1:
            made.tend(START_SECONDS, lambda url=url: _ready(url))
    return made


def _listens(made: Stack) -> bool:
    try:
        made.sql("SELECT 1")
    except psycopg.Error:
        return False
    return True


def furnish(made: Stack, analysts: int) -> list[str]:
    """Upload datasets and make analysts, those of the faults too. Returns the others' keys."""
    draw = random.Random(1)
    with Client(next(iter(made.apis)), made.admin_key) as admin:
        for number in range(SOME):
            lines = ["age,sex,income"]
            for _ in range(200):
                income = draw.choice(("<=50K", ">50K"))
                lines.append(f"{draw.randint(20, 80)},{draw.choice(('Female', 'Male'))},{income}")
            rows = made.folder / "rows.csv"
            rows.write_text("\n".join([*lines, ""]))
            metadata = {**METADATA, "name": f"people {number}"}
            made.datasets.append(str(admin.upload(rows, metadata)["id"]))
        users = [admin.create_user(f"analyst {n}", "analyst") for n in range(analysts + made.slots)]
    keys = [str(user["key"]) for user in users]
    made.keys = keys[analysts:]
    with Client(next(iter(made.apis)), keys[0]) as analyst:  # kernels are compiled before faults
        first = analyst.wait(analyst.submit(job_of(made.datasets[0], 60))["id"])
    if first["status"] != "succeeded":
        raise RuntimeError(f"a job before all faults {first['status']}:\n{logs_of(made)}")
    return keys[:analysts]


def logs_of(made: Stack, lines: int = 12) -> str:
    """The last lines of every log."""
    said = []
    for program in made.programs():
        text = program.log.read_text(errors="replace") if program.log.exists() else ""
        said += [f"--- {program.name}, started {program.starts} times", *text.splitlines()[-lines:]]
    return "\n".join(said)
