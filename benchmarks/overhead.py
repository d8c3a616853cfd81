"""From submit to succeeded for an almost empty job, beside a bare Celery task on the same broker.

    python -m benchmarks.overhead [--jobs 30]

The embedded default, and PostgreSQL with Redis where servers of our own can be started. Prints the
median and the 90th percentile in milliseconds. The bare task is sent to a worker of Celery's own
that does nothing, on the same broker, and its answer is looked for as a client of ours looks for
the job's status.
"""

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from celery import Celery

from app.services.queue import sqlite_transport
from dpmcmc.client import Client
from dpmcmc.client.answers import FINAL
from tests.chaos.faults import kill_a_worker
from tests.chaos.stacks import AbsentError, Stack, furnish, stack

POLL_SECONDS = 0.005
TARGETS = {"embedded": 300.0, "production": 150.0}
BARE = """
import sys
from pathlib import Path
from benchmarks.overhead import bare
app = bare(sys.argv[1], sys.argv[2])
@app.task(name="touch")
def touch(name):
    (Path(sys.argv[3]) / name).touch()
app.worker_main(["--quiet", "worker", "--loglevel=ERROR", "--concurrency=1", *sys.argv[4:]])
"""


def bare(url: str, path: str) -> Celery:
    """A Celery application with nothing of ours but, where it is embedded, the broker."""
    sqlite_transport.register()
    app = Celery("bare", broker=url, set_as_current=False)
    app.conf.update(
        task_default_queue="bare",
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"path": path} if url.startswith("dpmcmc") else {},
    )
    return app


def timed(act: Callable[[], object], number: int) -> list[float]:
    """Milliseconds of each of `number` calls."""
    taken = []
    for _ in range(number):
        began = time.perf_counter()
        act()
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def wait(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Look again and again. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen in time")
        time.sleep(POLL_SECONDS)


@contextmanager
def bare_worker(on: Stack) -> Iterator[Callable[[], None]]:
    """A bare worker; gives a function that sends one task and waits for it."""
    folder = on.folder / "bare"
    folder.mkdir()
    url = on.broker_url or f"{sqlite_transport.SCHEME}://"
    path = str(folder / "queue.sqlite3")
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    command = [sys.executable, "-c", BARE, url, path, str(folder), *quiet]
    process = subprocess.Popen(command)
    app = bare(url, path)
    sent = 0

    def task() -> None:
        nonlocal sent
        sent += 1
        made: Path = folder / str(sent)
        app.send_task("touch", args=(made.name,), queue="bare")
        wait(made.exists)

    try:
        yield task
    finally:
        process.kill()
        process.wait()


def measure(name: str, jobs: int) -> None:
    """Print one stack's figures beside the bare task's."""
    with stack(name) as on:
        dataset, keys = furnish(on, 1)
        body = {
            "dataset": dataset,
            "model": {"family": "logistic", "formula": "income ~ age"},
            "sampler": {"algorithm": "dp_penalty", "num_steps": 10, "num_chains": 1},
            "privacy": {"epsilon": 0.1, "delta": 1e-6},
            "accept_low_quality": True,
        }
        with Client(next(iter(on.apis)), keys[0]) as client, bare_worker(on) as task:

            def job() -> None:
                made = client.submit(body)["id"]
                wait(lambda: client.job(made)["status"] in FINAL)

            timed(job, 5), timed(task, 5)  # the first ones wait for the workers' start
            ours, theirs = [], []
            for _ in range(jobs):  # turn by turn: what else the machine does meets both alike
                ours += timed(job, 1)
                theirs += timed(task, 1)
            replace_workers(on)
            fresh = timed(job, 2)
        say(name, "submit to succeeded", ours, TARGETS[name])
        say(name, "bare Celery task", theirs)
        said = "  ".join(f"{taken:.1f} ms" for taken in fresh)
        sys.stdout.write(
            f"{name:>10}  workers killed; the next two jobs, their start included: {said}\n"
        )


def replace_workers(on: Stack) -> None:
    """kill -9 of every worker. Fresh ones are started at once, here or by their parent."""
    for program in on.workers:
        program.kill(0.0)
    if not on.workers:
        kill_a_worker(on, random.Random(1))
    on.tend()


def say(name: str, what: str, taken: list[float], target: float | None = None) -> None:
    """One line."""
    median, late = statistics.median(taken), statistics.quantiles(taken, n=10)[-1]
    aim = f", target {target:.0f} ms" if target else ""
    sys.stdout.write(f"{name:>10}  {what:<20} median {median:6.1f} ms  p90 {late:6.1f} ms{aim}\n")
    sys.stdout.flush()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30)
    options = parser.parse_args()
    for name in TARGETS:
        try:
            measure(name, options.jobs)
        except AbsentError as absent:
            sys.stdout.write(f"{name:>10}  skipped: {absent} is not installed\n")


if __name__ == "__main__":
    main()
