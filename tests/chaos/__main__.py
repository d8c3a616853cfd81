"""`./dev chaos --minutes N [--seed S]`: kill everything at random, then check the books."""

import argparse
import collections
import math
import os
import random
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import redis

from app.storage.session import SessionFactory
from dpmcmc.client import Client, UnreachedError
from dpmcmc.client.answers import ApiError
from tests.chaos import checked
from tests.chaos.audit import audit, unfinished
from tests.chaos.clients import Analyst, job_of
from tests.chaos.faults import Fault, faults_of
from tests.chaos.stacks import AbsentError, Stack, furnish, logs_of, stack

STACKS = ("embedded", "production")
ANALYSTS = 3
STUCK_SECONDS = 120.0  # without a change once the faults have ended; slow is not stuck


def say(line: str) -> None:
    """Say it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def submitting(analysts: list[Analyst], stopping: threading.Event) -> Iterator[None]:
    """Analysts at work."""
    threads = [threading.Thread(target=analyst.run) for analyst in analysts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def rage(
    on: Stack, seconds: float, choose: random.Random
) -> tuple[collections.Counter[str], list[str]]:
    """One fault after the other, each kind as often as any other.

    Returns how many there were of each, and what is wrong.
    """
    kinds, done, wrong = faults_of(on), collections.Counter[str](), list[str]()
    deadline, bag = time.monotonic() + seconds, list[Fault]()
    pause = min(8.0, seconds / (len(kinds) + 1))
    while time.monotonic() < deadline:
        on.tend(pause * choose.uniform(0.5, 1.5))
        bag = bag or choose.sample(kinds, len(kinds))
        fault = bag.pop()
        try:
            wrong += fault(on, choose) or []
        except (psycopg.Error, redis.RedisError):
            continue  # it was down already
        done[fault.__name__] += 1
    return done, wrong


def settled(on: Stack, sessions: SessionFactory) -> bool:
    """Whether every job ends once nothing is killed any more, as long as something moves."""
    seen: list[Any] = []
    deadline = 0.0

    def ended_or_stuck() -> bool:
        nonlocal seen, deadline
        with sessions.read() as session:
            now = unfinished(session)
        if now != seen or not deadline:
            seen, deadline = now, time.monotonic() + STUCK_SECONDS
        return not now or time.monotonic() > deadline

    return on.tend(STUCK_SECONDS, on.ready) and on.tend(math.inf, ended_or_stuck) and not seen


def books(on: Stack, analysts: list[Analyst]) -> list[str]:
    """Wait for what is left to do, and check everything. Returns what is wrong."""
    sessions = SessionFactory(
        on.database.replace("postgresql:", "postgresql+psycopg:")
        if on.server
        else f"sqlite:///{on.database}"
    )
    began = time.monotonic()
    wrong = [what for analyst in analysts for what in analyst.wrong]
    try:
        if not settled(on, sessions):
            wrong.append("something is stuck")
        accepted = [job for analyst in analysts for job in analyst.accepted.values()]
        with sessions.read() as session:
            found, outcomes = audit(session, accepted)
    finally:
        sessions.dispose()
    say(f"  accepted {len(accepted)}, refused {sum(a.refused for a in analysts)}")
    say(f"  outcomes {dict(outcomes)}; all ended {time.monotonic() - began:.1f} s after the last")
    return wrong + found


def still_works(on: Stack, key: str) -> list[str]:
    """Every API and every slot takes jobs, on every dataset; every program ends in order.

    Returns what is wrong.
    """
    wrong: list[str] = []
    for number, url in enumerate(on.apis):
        for dataset in on.datasets:
            try:
                with Client(url, key) as client:
                    job = client.submit(job_of(dataset, 60))
                    ended = client.wait(job["id"], timeout=STUCK_SECONDS)
            except (ApiError, UnreachedError, TimeoutError) as error:
                wrong.append(f"api {number} does not take a job any more: {error}")
            else:
                if ended["status"] != "succeeded":
                    wrong.append(f"the last job of api {number} is {ended['status']}")
    wrong += checked.idle_slots(on) + checked.webhook_ends(on)
    for program in [*on.workers, *on.apis.values()]:
        code = program.end()
        if code:
            wrong.append(f"{program.name} ended with {code} on SIGTERM")
    return wrong


def let_loose(name: str, seconds: float, seed: int) -> list[str]:
    """Chaos on one stack. Returns what is wrong."""
    choose = random.Random(f"{seed} {name}")
    say(f"{name}: {seconds:.0f} s of faults, seed {seed}")
    with stack(name) as on:
        keys = furnish(on, ANALYSTS)
        if not on.disk:
            say("  the disk is never full: a small one can be mounted by root only")
        stopping = threading.Event()
        urls = list(on.apis)
        analysts = [
            Analyst(urls, key, on.datasets, random.Random(choose.random()), stopping)
            for key in keys
        ]
        with submitting(analysts, stopping):
            done, wrong = rage(on, seconds, choose)
        say(f"  faults {dict(done)}")
        wrong += books(on, analysts)
        wrong = wrong or still_works(on, keys[0])
        if wrong:
            say(logs_of(on))
        return wrong


def main() -> int:
    """The command line. Returns 0 where nothing was lost."""
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults, in all")
    parser.add_argument("--seed", type=int, default=None, help="which faults, in which order")
    parser.add_argument("--stack", choices=STACKS, action="append", help="one of the two only")
    options = parser.parse_args()
    chosen = options.stack or list(STACKS)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    wrong: list[str] = []
    for name in chosen:
        try:
            found = let_loose(name, 60 * options.minutes / len(chosen), seed)
        except AbsentError as absent:
            say(f"{name}: skipped, {absent} is not installed")
            if os.environ.get("CI") == "true":
                wrong.append(f"{name}: {absent} is needed in CI")
            continue
        wrong += [f"{name}: {what}" for what in found]
    say("\n".join(["chaos: WRONG", *wrong]) if wrong else "chaos: nothing lost, nothing paid twice")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
