"""Everything that chaos does to a stack. Each fault leaves it to the stack to recover.

Those of this module say nothing, since the books are checked in the end; those of `checked` return
what is wrong.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

from tests.chaos import checked
from tests.chaos.programs import descendants, kill
from tests.chaos.stacks import Stack

Fault = Callable[[Stack, random.Random], list[str] | None]
FULL_SECONDS = 3.0
LOCKED_SECONDS = 3.0
FROZEN_SECONDS = 6.0
PIECE = bytes(2**20)


def kill_a_worker(stack: Stack, choose: random.Random) -> None:
    """kill -9 of a whole worker."""
    if stack.workers:
        choose.choice(stack.workers).kill(choose.uniform(0, 2))
        return
    for api in stack.apis.values():  # the embedded ones are children that their parent restarts
        kill(*api.tree()[1:])


def kill_a_process_that_runs_jobs(stack: Stack, choose: random.Random) -> None:
    """kill -9 of one process of a worker's pool: the worker goes on."""
    parents = [program.tree()[0] for program in stack.workers if program.alive()]
    parents = parents or [pid for api in stack.apis.values() for pid in api.tree()[1:2]]
    pool = [pid for parent in parents for pid in descendants(parent)]
    if pool:
        kill(choose.choice(pool))


def kill_an_api(stack: Stack, choose: random.Random) -> None:
    """kill -9 of an API, with its recovery process and in the embedded case its workers."""
    choose.choice(list(stack.apis.values())).kill(choose.uniform(0, 2))


def kill_everything(stack: Stack, choose: random.Random) -> None:
    """A power cut."""
    for program in reversed(stack.programs()):
        program.kill(choose.uniform(0, 1))


def kill_the_broker(stack: Stack, choose: random.Random) -> None:
    """kill -9 of the broker; the embedded one is a file that is locked for a while instead."""
    with stack.broker_away():
        stack.tend(choose.uniform(0, LOCKED_SECONDS))


def flush_the_broker(stack: Stack, _: random.Random) -> None:
    """Every message is thrown away."""
    stack.flush_broker()


def restart_the_database(stack: Stack, choose: random.Random) -> None:
    """kill -9 of the database; the embedded one is a file that is locked for a while instead."""
    if stack.server is not None:
        stack.server.kill(choose.uniform(0, 2))
        return
    with stack.held(stack.database):
        stack.tend(LOCKED_SECONDS)


def freeze_the_broker(stack: Stack, choose: random.Random) -> None:
    """The broker takes connections, and answers nothing for a while."""
    pids = stack.broker.tree() if stack.broker is not None else []
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    stack.tend(choose.uniform(1, FROZEN_SECONDS))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def fill_the_disk(stack: Stack, _: random.Random) -> None:
    """Nothing more fits on the disk for a while."""
    ballast = stack.folder / "ballast"
    deadline = time.monotonic() + FULL_SECONDS
    try:
        with ballast.open("wb", buffering=0) as file:
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    while file.write(PIECE) == len(PIECE):
                        pass
                stack.tend(0.05)
    finally:
        os.unlink(ballast)


def move_the_clocks(stack: Stack, choose: random.Random) -> None:
    """Leases are as workers would write them whose clock jumped by an hour, either way."""
    sign = choose.choice("+-")
    if stack.server is not None:
        later = f"lease_until {sign} interval '1 hour'"
    else:
        later = f"strftime('%Y-%m-%d %H:%M:%f000', lease_until, '{sign}1 hour')"
    stack.sql(f"UPDATE jobs SET lease_until = {later} WHERE owner IS NOT NULL")


def faults_of(stack: Stack) -> list[Fault]:
    """Those that this stack can have."""
    every: list[Fault] = [
        kill_a_worker,
        kill_a_process_that_runs_jobs,
        kill_an_api,
        kill_everything,
        kill_the_broker,
        flush_the_broker,
        restart_the_database,
        move_the_clocks,
        checked.take_the_broker_from_busy_workers,
        checked.break_rows,
        checked.hang_what_is_outside,
    ]
    every += [fill_the_disk] if stack.disk else []
    return [*every, freeze_the_broker] if stack.broker is not None else every
