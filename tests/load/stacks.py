"""The two stacks that load is put on: the embedded default, and PostgreSQL with Redis.

Servers are our own, in the stack's folder, so nobody else's load is measured. Everything has its
default settings.
"""

import contextlib
import math
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.programs import postgres_server, redis_server, service, worker
from tests.chaos.stacks import START_SECONDS, AbsentError, Stack, logs_of

STACKS = ("embedded", "servers")


@contextlib.contextmanager
def started(name: str, *, hanging: bool = False) -> Iterator[Stack]:
    """The stack, ready: one API with its recovery, one worker. Raises AbsentError.

    hanging: with an identity provider and a webhook that answer a byte now and then.
    """
    folder = Path(tempfile.mkdtemp(prefix="dpmcmc-load-"))
    folder.chmod(0o755)  # PostgreSQL is another user where we are root
    made = Stack(name, folder, False, "", secrets.token_hex(32))
    try:
        made.outside.become("trickles" if hanging else "answers")
        _start(made, hanging=hanging)
        if not made.tend(START_SECONDS, made.ready):
            raise RuntimeError(f"the service did not start:\n{logs_of(made)}")
        yield made
    finally:
        for program in reversed(made.programs()):
            program.kill(math.inf)
        made.outside.close()
        shutil.rmtree(folder, ignore_errors=True)


def _start(made: Stack, *, hanging: bool) -> None:
    environment = {
        "DPMCMC_DATA_DIR": str(made.folder / "data"),
        "DPMCMC_ADMIN_KEY": made.admin_key,
        "DATABASE_URL": "",
        "BROKER_URL": "",
        **(made.outside.settings() if hanging else {}),
    }
    if made.name == "servers":
        environment |= _servers(made) | {"DPMCMC_WORKERS": "0"}
        made.workers = [worker(made.folder, environment, "worker")]
    program, url = service(made.folder, environment, "api")
    made.apis[url] = program


def _servers(made: Stack) -> dict[str, str]:
    """Start PostgreSQL and Redis. Returns the variables that name them."""
    postgres, broker = postgres_server(made.folder), redis_server(made.folder)
    if postgres is None or broker is None:
        raise AbsentError("PostgreSQL" if postgres is None else "Redis")
    made.server, made.database = postgres
    made.broker, made.broker_url = broker
    made.tend(START_SECONDS, lambda: _listens(made))
    return {"DATABASE_URL": made.database, "BROKER_URL": made.broker_url}


def _listens(made: Stack) -> bool:
    import psycopg

    try:
        made.sql("SELECT 1")
    except psycopg.Error:
        return False
    return True
