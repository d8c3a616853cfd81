"""What single calls and an idle service take while nobody else calls."""

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator

from dpmcmc.client import Client
from dpmcmc.client.answers import FINAL
from tests.chaos.stacks import Stack
from tests.load import people
from tests.load.report import Line
from tests.load.watch import Watch, core_seconds, processes

WARM, CALLS, IDLE_SECONDS, SETTLE_SECONDS = 5, 30, 30.0, 8.0
BUSY_PERCENT, LONGEST_SECONDS = 10.0, 240.0  # of a core, and until kernels are compiled
LOOK_SECONDS = 0.01
MILLISECONDS = {"plan": 15.0, "submit": 25.0, "submit to succeeded": 150.0}
IDLE_PERCENT = 1.0


def at_rest(on: Stack) -> list[Line]:
    """Measure everything, one after the other."""
    dataset, (key,) = people.furnish(on, 1)
    until = time.monotonic() + LONGEST_SECONDS
    while idle_percent(on, 2.0)[0] > BUSY_PERCENT and time.monotonic() < until:
        pass  # a new service compiles its kernels
    watch = Watch(on)
    with Client(next(iter(on.apis)), key) as client:
        numbers = itertools.count()  # no two plans are alike: none is answered from memory
        jobs = ({**people.body(dataset, 1.0 + 1e-6 * n)} for n in numbers)
        plans = _timed(lambda: client.plan(next(jobs)))
        submits, whole = _submitted(client, jobs)
    watch.look()
    others = watch.cores_of_others()
    time.sleep(SETTLE_SECONDS)
    taken = {"plan": plans, "submit": submits, "submit to succeeded": whole}
    lines = [
        Line(f"{name}, median of {len(taken[name])}", statistics.median(taken[name]), most, "ms")
        for name, most in MILLISECONDS.items()
    ]
    lines.append(Line(f"taken by others, of {os.cpu_count()}", others, None, "cores"))
    idle, parts = idle_percent(on)
    return [*lines, Line(f"idle for {IDLE_SECONDS:.0f} s ({parts})", idle, IDLE_PERCENT, "% core")]


def _timed(act: Callable[[], object]) -> list[float]:
    """Milliseconds of each of CALLS calls, after WARM ones."""
    taken = []
    for _ in range(WARM + CALLS):
        began = time.perf_counter()
        act()
        taken.append(1000 * (time.perf_counter() - began))
    return taken[WARM:]


def _submitted(client: Client, jobs: Iterator[people.Json]) -> tuple[list[float], list[float]]:
    """Milliseconds of each submission, and until each job had succeeded."""
    accepted: list[float] = []

    def whole() -> None:
        began = time.perf_counter()
        job = client.submit(next(jobs))["id"]
        accepted.append(1000 * (time.perf_counter() - began))
        while (status := client.job(job)["status"]) not in FINAL:
            time.sleep(LOOK_SECONDS)
        if status != "succeeded":
            raise RuntimeError(f"a job at rest {status}")

    done = _timed(whole)
    return accepted[WARM:], done


def idle_percent(on: Stack, seconds: float = IDLE_SECONDS) -> tuple[float, str]:
    """How much of a core our processes take while nobody calls, and each one's part."""
    before = {one: core_seconds(one.pid) for one in processes(on)}
    time.sleep(seconds)
    taken = {one.name: 100 * (core_seconds(one.pid) - was) / seconds for one, was in before.items()}
    return sum(taken.values()), ", ".join(f"{name} {share:.2f}" for name, share in taken.items())
