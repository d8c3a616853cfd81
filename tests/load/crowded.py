"""What the crowd saw of a stack, and what its processes took: held against what is promised."""

import asyncio
import math
import os
from collections.abc import Iterator

from tests.chaos.stacks import Stack
from tests.load import people
from tests.load.hostile import ATTACKS, LONG_JOB
from tests.load.mix import Record, crowd
from tests.load.probe import HEALTH, OTHER
from tests.load.report import Line, say
from tests.load.watch import Watch, watched

ANALYSTS = 32
MOST_MS = {
    HEALTH: 50.0,
    OTHER: 200.0,
    "POST plans, auto": 300.0,
    "POST plans, the dearest": 2000.0,
}
MOST_GIB = 1.5 * 1e9 / 2**30


def quantile(taken: list[float], share: float) -> float:
    """The smallest value that at least this share of them does not pass."""
    return sorted(taken)[max(0, math.ceil(share * len(taken)) - 1)]


def under_load(on: Stack, seconds: float) -> list[Line]:
    """Let the crowd in, and tell what came of it."""
    dataset, keys = people.furnish(on, ANALYSTS + 2)
    hostile = {"url": next(iter(on.apis)), "key": keys.pop(), "dataset": dataset}
    hostile["job"] = people.finished(on, hostile["key"], dataset, **LONG_JOB)
    rows = people.write_rows(on.folder / "more.csv", seed=2)
    with watched(on) as watch:
        url = next(iter(on.apis))
        record = asyncio.run(crowd(url, on.admin_key, dataset, keys, rows, seconds, hostile))
    say(f"  jobs {dict(record.ended)}; odd answers {dict(record.odd) or 'none'}")
    for name, done in record.attacks.items():
        say(f"  attack: {name} {done}")
    others = watch.cores_of_others()
    load = Line(f"taken by others, of {os.cpu_count()}", others, None, "cores")
    return [*calls(record), *taken(watch, seconds), load]


def calls(record: Record) -> Iterator[Line]:
    """A line for each call's median and 99th percentile; a call that nobody made is a miss."""
    for name in sorted({*record.taken, *MOST_MS}):
        found = record.taken.get(name) or [math.inf]
        yield Line(f"{name}, p50 of {len(found)}", quantile(found, 0.5), None, "ms")
        yield Line(f"{name}, p99", quantile(found, 0.99), MOST_MS.get(name), "ms")
    yield Line("odd answers", record.odd.total(), 0.0, "")
    others = record.ended.total() - record.ended["succeeded"]
    yield Line("jobs that ended otherwise", others, 0.0, "")
    missing = [name for name in ATTACKS if not record.attacks.get(name)]
    yield Line("attacks that were not made", len(missing), 0.0, "")


def taken(watch: Watch, seconds: float) -> Iterator[Line]:
    """A line for each process: its peak, and how much of a core it took."""
    cores = watch.cores()
    for process, peak in watch.peaks.items():
        share = 100 * cores.get(process, 0.0) / seconds
        name = f"{process.name}, peak memory; {share:.0f} % of a core"
        yield Line(name, peak / 2**30, MOST_GIB, "GiB")
