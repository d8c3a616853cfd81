"""How far one machine goes: jobs, chains, debits and uploads a second, for docs/scaling.md.

    python -m benchmarks.scaling measure [embedded] [production] [data]
    python -m benchmarks.scaling write

`measure` keeps what it finds in var/scaling.json, each part with its time and the machine's load;
`write` puts that into the tables of docs/scaling.md. Parts, of less than a minute or two each:

embedded, production: almost empty jobs (10 steps, one chain, 200 rows) from submission to success
by 1, 2 and 4 workers of one process each, submitted by four analysts at once.
data: the database and the store without HTTP: blocks of a chain written as a job writes them and
read as an answer reads them; debits with their job's row on one dataset and on four at once; a CSV
parsed, encrypted and kept, and opened again.
"""

import argparse
import io
import json
import math
import os
import platform
import queue
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
from sqlalchemy import insert, text, update
from sqlalchemy.exc import OperationalError

from app.services.results.chains import stored_chain
from app.storage.columns import columns_json, parse_columns
from app.storage.files import DatasetFiles, file_size
from app.storage.ingest import ingest
from app.storage.keys import MasterKey
from app.storage.local_store import LocalStore
from app.storage.rows import ChainBlockRow, DatasetRow, JobRow
from app.storage.session import SessionFactory
from benchmarks import ledger
from dpmcmc.client import Client
from tests.chaos.programs import Program, postgres_server, redis_server, service, worker
from tests.chaos.stacks import AbsentError, Stack, furnish

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "var" / "scaling.json", ROOT / "docs" / "scaling.md"
WORKERS = (1, 2, 4)
JOBS, ANALYSTS = 60, 4
BLOCK_DRAWS, BLOCKS, CHAINS, PARAMETERS = 4096, 64, 4, 8  # 1 MiB a block
CLIENTS, SECONDS, DATASETS = 8, 3.0, 4
CSV_ROWS, CSV_COLUMNS = 200_000, 10
START_SECONDS = 90
MARKS = ("<!-- measured: written by python -m benchmarks.scaling write -->", "<!-- end -->")
Found = dict[str, Any]


def wait(condition: Callable[[], bool], seconds: float, programs: list[Program]) -> None:
    """Look again and again. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen in time")
        for program in programs:
            program.tend()
        time.sleep(0.05)


@contextmanager
def stack(name: str, workers: int) -> Iterator[Stack]:
    """One API and some workers, ready."""
    with tempfile.TemporaryDirectory(prefix="dpmcmc-scaling-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        on = Stack(name, folder, False, "", secrets.token_hex(32))
        environment = {
            "DPMCMC_DATA_DIR": str(folder / "data"),
            "DPMCMC_ADMIN_KEY": on.admin_key,
            "DPMCMC_WORKER_CONCURRENCY": "1",
            "DPMCMC_WORKERS": "0",
            "DPMCMC_LOG_LEVEL": "WARNING",
            "DATABASE_URL": "",
            "BROKER_URL": "",
        }
        try:
            if name == "production":
                servers(on, environment)
            beats = [folder / f"liveness-{n}" for n in range(workers)]
            on.workers = [
                worker(folder, environment | {"DPMCMC_LIVENESS_FILE": str(file)}, file.name)
                for file in beats
            ]
            program, url = service(folder, environment, "api")
            on.apis[url] = program
            wait(lambda: answers(url), START_SECONDS, on.programs())
            wait(lambda: all(file.exists() for file in beats), START_SECONDS, on.programs())
            yield on
        finally:
            for program in reversed(on.programs()):
                program.kill(math.inf)


def servers(on: Stack, environment: dict[str, str]) -> None:
    """PostgreSQL and Redis of our own. Raises AbsentError."""
    postgres, redis = postgres_server(on.folder), redis_server(on.folder)
    if postgres is None or redis is None:
        raise AbsentError("PostgreSQL" if postgres is None else "Redis")
    (on.server, on.database), (on.broker, on.broker_url) = postgres, redis
    environment |= {"DATABASE_URL": on.database, "BROKER_URL": on.broker_url}


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def job_rates(name: str) -> Found:
    """Accepted and succeeded jobs a second, by number of workers."""
    return {str(workers): _job_rate(name, workers) for workers in WORKERS}


def _job_rate(name: str, workers: int) -> Found:
    with stack(name, workers) as on:
        dataset, keys = furnish(on, ANALYSTS)
        url = next(iter(on.apis))
        run_jobs(url, dataset, keys, 2 * ANALYSTS)  # the first ones of each process load more
        return run_jobs(url, dataset, keys, JOBS)


def run_jobs(url: str, dataset: str, keys: list[str], number: int) -> Found:
    """Submit by all analysts at once, wait for all, and go by the service's own times."""
    body = {
        "dataset": dataset,
        "model": {"family": "logistic", "formula": "income ~ age"},
        "sampler": {"algorithm": "dp_penalty", "num_steps": 10, "num_chains": 1},
        "privacy": {"epsilon": 0.1, "delta": 1e-6},
        "accept_low_quality": True,
    }
    ended: queue.Queue[dict[str, Any]] = queue.Queue()

    def analyst(key: str) -> None:
        with Client(url, key) as client:
            made = [client.submit(body)["id"] for _ in range(number // len(keys))]
            for job in made:
                ended.put(client.wait(job, timeout=120))

    threads = [threading.Thread(target=analyst, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    jobs = [ended.get() for _ in range(ended.qsize())]
    if len(jobs) < number // len(keys) * len(keys) or any(j["status"] != "succeeded" for j in jobs):
        raise RuntimeError("not every job succeeded")
    created, finished = moments(jobs, "created_at"), moments(jobs, "finished_at")
    accepting = max(created) - min(created)
    return {
        "accepted_per_second": (len(jobs) - 1) / accepting,
        "succeeded_per_second": len(jobs) / (max(finished) - min(created)),
    }


def moments(jobs: list[dict[str, Any]], name: str) -> list[float]:
    return [datetime.fromisoformat(job[name]).timestamp() for job in jobs]


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """An SQLite file and, where it is installed, a PostgreSQL of our own."""
    with tempfile.TemporaryDirectory(prefix="dpmcmc-scaling-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        urls = {"SQLite": f"sqlite:///{folder}/dpmcmc.sqlite3"}
        found = postgres_server(folder)
        program = found[0] if found else None
        try:
            if found and program:
                urls["PostgreSQL"] = found[1]
                wait(lambda: connects(found[1]), 30, [program])
            yield urls
        finally:
            if program:
                program.kill(math.inf)


def connects(url: str) -> bool:
    sessions = SessionFactory(url)
    try:
        with sessions.read() as session:
            session.execute(text("SELECT 1"))
    except OperationalError:
        return False
    else:
        return True
    finally:
        sessions.dispose()


def data_rates() -> Found:
    """Chains, debits and uploads, without HTTP."""
    found: Found = {"upload": upload_rates()}
    with databases() as urls:
        for name, url in urls.items():
            account = ledger.open_account(url)
            found[name] = chain_rates(account) | debit_rates(account)
    return found


def chain_rates(account: ledger.Account) -> Found:
    """MB a second of draws, each block and the job's progress in one durable transaction."""
    sessions = SessionFactory(account.url)
    (job,) = ledger.add_jobs(account, 1)
    draws = np.random.default_rng(1).normal(size=(CHAINS, BLOCK_DRAWS, PARAMETERS))
    payload = draws.tobytes()
    began = time.perf_counter()
    for seq in range(BLOCKS):
        with sessions.write() as session:
            session.execute(update(JobRow).where(JobRow.id == job).values(progress_step=0))
            session.execute(
                insert(ChainBlockRow).values(
                    job_id=job,
                    attempt=1,
                    seq=seq,
                    first_draw=seq * BLOCK_DRAWS,
                    num_draws=BLOCK_DRAWS,
                    payload=payload,
                )
            )
    stored = time.perf_counter() - began
    began = time.perf_counter()
    with sessions.read() as session:
        chain = stored_chain(session, job, 1, PARAMETERS)
    fetched = time.perf_counter() - began
    sessions.dispose()
    if chain.shape != (CHAINS, BLOCKS * BLOCK_DRAWS, PARAMETERS):
        raise RuntimeError("the chain came back in another shape")
    size = chain.nbytes / 1e6
    return {"stored_mb_per_second": size / stored, "fetched_mb_per_second": size / fetched}


def debit_rates(first: ledger.Account) -> Found:
    """Debits a second with their job's row: on one dataset, and shared out over several."""
    many = [first, *(ledger.open_account(first.url) for _ in range(DATASETS - 1))]
    return {
        "debits_per_second": debits([first]),
        "debits_per_second_on_four": debits(many),
    }


def debits(accounts: list[ledger.Account]) -> float:
    """By processes that share the accounts out among them."""
    start, results = ledger.FORK.Barrier(CLIENTS), ledger.FORK.Queue()
    processes = [
        ledger.FORK.Process(
            target=ledger.client,
            args=(ledger.SUBMISSION, accounts[n % len(accounts)], n, [], SECONDS, start, results),
        )
        for n in range(CLIENTS)
    ]
    for process in processes:
        process.start()
    done = sum(len(results.get()) for _ in processes)
    for process in processes:
        process.join()
    for account in accounts:
        ledger.verified(account)
    return done / SECONDS


def upload_rates() -> Found:
    """MB of CSV a second taken in, and MB of rows a second opened."""
    numbers = [
        {"name": f"x{n}", "type": "number", "lower": 0, "upper": 1} for n in range(CSV_COLUMNS)
    ]
    columns = parse_columns(numbers)
    values = np.random.default_rng(1).uniform(size=(CSV_ROWS, CSV_COLUMNS))
    written = io.StringIO()
    np.savetxt(written, values, "%.6f", ",", header=",".join(c.name for c in columns), comments="")
    content = written.getvalue().encode()
    with tempfile.TemporaryDirectory(prefix="dpmcmc-scaling-") as folder:
        files = DatasetFiles(LocalStore(Path(folder)), MasterKey(secrets.token_bytes(32)))
        dataset = uuid4()
        began = time.perf_counter()
        stored = ingest(files, dataset, io.BytesIO(content), "csv", columns)
        taken = time.perf_counter() - began
        row = DatasetRow(
            id=dataset,
            columns=columns_json(columns),
            rows=stored.rows,
            neighbouring="replace_one",
            wrapped_key=stored.wrapped_key,
        )
        began = time.perf_counter()
        files.load(row)
        opened = time.perf_counter() - began
    return {
        "csv_mb_per_second": len(content) / 1e6 / taken,
        "opened_mb_per_second": file_size(columns, stored.rows) / 1e6 / opened,
    }


PARTS: dict[str, Callable[[], Found]] = {
    "embedded": lambda: job_rates("embedded"),
    "production": lambda: job_rates("production"),
    "data": data_rates,
}


def measure(parts: list[str]) -> None:
    """Measure and keep."""
    for part in parts:
        load = os.getloadavg()[0]
        try:
            found = PARTS[part]()
        except AbsentError as absent:
            sys.stdout.write(f"{part} skipped: {absent} is not installed\n")
            continue
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        known[part] = {"found": found, "at": at, "load": round(load, 1), "machine": machine()}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
        sys.stdout.write(f"{part}: {json.dumps(found)}\n")
        sys.stdout.flush()


def machine() -> str:
    """Cores, memory and system; no name."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kind = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return f"{cores} cores ({kind}), {memory:.0f} GiB, Linux, Python {platform.python_version()}"


def write() -> None:
    """Put what is kept into the page, between its marks."""
    known = json.loads(RESULTS.read_text())
    page = PAGE.read_text()
    before, rest = page.split(MARKS[0], 1)
    after = rest.split(MARKS[1], 1)[1]
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{tables(known)}\n{MARKS[1]}{after}")


def tables(known: Found) -> str:
    """The measured numbers as Markdown."""
    lines = [
        f"- {part}: {entry['at']} on {entry['machine']}; load before: {entry['load']}"
        for part, entry in known.items()
    ]
    lines += [
        "",
        "| almost empty jobs | workers | accepted / s | succeeded / s |",
        "|---|---|---|---|",
    ]
    for part in ("embedded", "production"):
        for workers, rates in known.get(part, {}).get("found", {}).items():
            accepted, done = rates["accepted_per_second"], rates["succeeded_per_second"]
            lines.append(f"| {part} | {workers} | {accepted:.0f} | {done:.1f} |")
    found = known.get("data", {}).get("found", {})
    names = [name for name in found if name != "upload"]
    rows = {
        "chain stored, MB / s": "stored_mb_per_second",
        "chain fetched, MB / s": "fetched_mb_per_second",
        "debits with their job's row / s, one dataset": "debits_per_second",
        f"the same shared out over {DATASETS} datasets": "debits_per_second_on_four",
    }
    lines += ["", f"| without HTTP | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for label, key in rows.items():
        lines.append(f"| {label} | {' | '.join(f'{found[name][key]:.0f}' for name in names)} |")
    upload = found.get("upload", {})
    if upload:
        taken, opened = upload["csv_mb_per_second"], upload["opened_mb_per_second"]
        lines += ["", f"CSV taken in: {taken:.0f} MB / s. Rows opened: {opened:.0f} MB / s."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("measure", "write"))
    parser.add_argument("parts", nargs="*", choices=(*PARTS, []), metavar="part")
    options = parser.parse_args()
    if options.action == "write":
        write()
    else:
        measure(options.parts or list(PARTS))


if __name__ == "__main__":
    main()
