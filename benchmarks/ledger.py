"""Debits per second beside bare durable writes, decisions on long ledgers, and a soak with kills.

python benchmarks/ledger.py --clients 32 --seconds 60 [--check] [--json FILE] URL...
URL: sqlite:////tmp/ledger.db or postgresql://…, an empty database: it is filled with our tables.
Prints a markdown table. With --check it fails unless every target is met.

The baseline is a bare one-row durable write transaction (BEGIN, UPDATE of one row, COMMIT) through
SQLAlchemy Core and an engine configured like ours: SQLite in WAL mode with synchronous=FULL,
BEGIN IMMEDIATE and our queue of writers; PostgreSQL with synchronous_commit=on. All clients update
the same row, as all debits of a dataset move the same head. The same straight through the driver
(sqlite3, psycopg) and with independent INSERTs is measured as well, and printed. A debit is a
reservation decided and written by app.ledger in one durable transaction of SessionFactory. All are
done by as many processes, in turns, several rounds in one run; a ratio is the median over rounds.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import func, insert, select, text
from sqlalchemy.engine import make_url

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app import ledger
from app.ledger.codec import read_cost
from app.storage.engine import engine_for
from app.storage.migrate import upgrade
from app.storage.rows import DatasetRow, JobRow, LedgerRow, UserRow
from app.storage.session import SessionFactory
from dpmcmc.privacy.events import Event, Gaussian, Repeat, as_dict, digest
from dpmcmc.privacy.filter import FilterState, FilterTerms

EVENT = Repeat(Gaussian(1e5), 100)
DIGEST, EVENT_JSON = digest(EVENT), as_dict(EVENT)
AMPLE = FilterTerms(1000.0, 1e-6)
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Account:
    """A dataset to be debited."""

    url: str
    dataset_id: UUID
    analyst_id: UUID


def open_account(url: str, terms: FilterTerms = AMPLE) -> Account:
    """A migrated database with one user and one dataset."""
    factory = SessionFactory(url)
    upgrade(factory.engine)
    user = UserRow(id=uuid4(), name=str(uuid4()), role="analyst")
    dataset = DatasetRow(
        id=uuid4(), name="d", columns=[], rows=1, wrapped_key=b"k", created_by=user.id
    )
    with factory.write() as session:
        session.add(user)
        session.flush()
        session.add(dataset)
        ledger.open_account(session, dataset.id, terms, user.id)
    factory.dispose()
    return Account(url, dataset.id, user.id)


def job_values(account: Account) -> dict[str, Any]:
    """A queued job's columns."""
    return {
        "id": uuid4(),
        "user_id": account.analyst_id,
        "dataset_id": account.dataset_id,
        "spec": {},
        "resolved": {},
        "event": EVENT_JSON,
        "event_digest": DIGEST,
        "epsilon": 1.0,
        "delta": 1e-6,
        "progress_of": 1,
    }


def add_jobs(account: Account, count: int) -> list[UUID]:
    """Queued jobs without reservations."""
    factory = SessionFactory(account.url)
    jobs = [job_values(account) for _ in range(count)]
    with factory.write() as session:
        session.execute(insert(JobRow), jobs)
    factory.dispose()
    return [job["id"] for job in jobs]


def reserve(factory: SessionFactory, account: Account, job_id: UUID, event: Event = EVENT) -> None:
    """One debit for a stored job."""
    with factory.debit() as session:
        ledger.reserve(
            session, account.dataset_id, job_id=job_id, analyst_id=account.analyst_id, event=event
        )


def submit(factory: SessionFactory, account: Account, event: Event = EVENT) -> UUID:
    """One debit together with its job's row, as a submission does it."""
    job = JobRow(**job_values(account))
    with factory.debit() as session:
        session.add(job)
        ledger.reserve(
            session, account.dataset_id, job_id=job.id, analyst_id=account.analyst_id, event=event
        )
    return job.id


# --- what a client does in a loop: (setup) -> (step), one durable transaction per step ---

Step = Callable[[], object]


def bare(account: Account, statement: str) -> Step:
    url = make_url(account.url)
    if url.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(url.database), timeout=120, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

        def step() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(statement)
            connection.execute("COMMIT")

        return step
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    server = psycopg.connect(plain, autocommit=True)

    def transact() -> None:
        with server.transaction():
            server.execute(statement)

    return transact


UPDATE = "UPDATE bare_counter SET n = n + 1 WHERE id = 1"


def core(account: Account, statement: str) -> Step:
    engine, prepared = engine_for(account.url), text(statement)

    def step() -> None:
        with engine.begin() as connection:
            connection.execute(prepared)

    return step


def core_update(account: Account, _: int, __: list[UUID]) -> Step:
    return core(account, UPDATE)


def core_insert(account: Account, number: int, _: list[UUID]) -> Step:
    return core(account, f"INSERT INTO bare_rows VALUES ({number}, 1)")


def driver_update(account: Account, _: int, __: list[UUID]) -> Step:
    return bare(account, UPDATE)


def debit(account: Account, _: int, jobs: list[UUID]) -> Step:
    factory, stock = SessionFactory(account.url), iter(jobs)
    return lambda: reserve(factory, account, next(stock))


def submission(account: Account, _: int, __: list[UUID]) -> Step:
    factory = SessionFactory(account.url)
    return lambda: submit(factory, account)


BASELINE, DRIVER, INSERTS = "bare update", "bare update, driver alone", "bare inserts"
DEBIT, SUBMISSION = "debit", "debit with its job's row"
MODES = {
    BASELINE: core_update,
    DEBIT: debit,
    DRIVER: driver_update,
    INSERTS: core_insert,
    SUBMISSION: submission,
}


def make_bare_tables(url: str) -> None:
    factory = SessionFactory(url)
    with factory.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE bare_counter (id INTEGER PRIMARY KEY, n BIGINT)")
        connection.exec_driver_sql("CREATE TABLE bare_rows (client INTEGER, n BIGINT)")
        connection.exec_driver_sql("INSERT INTO bare_counter VALUES (1, 0)")
    factory.dispose()


def client(mode: str, account: Account, number: int, jobs: list[UUID], seconds: float,
           start: Any, results: Any) -> None:  # fmt: skip
    step, waits = MODES[mode](account, number, jobs), []
    step()
    start.wait()
    end = time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        try:
            step()
        except StopIteration:
            break
        waits.append(time.perf_counter() - before)
    results.put(waits)


def rate(mode: str, account: Account, clients: int, seconds: float) -> tuple[float, list[float]]:
    """Transactions per second of all clients, and how long each one took."""
    need = int(seconds * 1500 / clients) + 50 if mode == DEBIT else 0
    stock = add_jobs(account, need * clients) if need else []
    start, results = FORK.Barrier(clients), FORK.Queue()
    shares = [stock[n * need : (n + 1) * need] for n in range(clients)]
    processes = [
        FORK.Process(target=client, args=(mode, account, n, share, seconds, start, results))
        for n, share in enumerate(shares)
    ]
    for process in processes:
        process.start()
    waits = [wait for _ in processes for wait in results.get()]
    for process in processes:
        process.join()
    return len(waits) / seconds, waits


@dataclass
class Rates:
    """Medians over rounds of interleaved measurements."""

    per_second: dict[str, float] = field(default_factory=dict)
    p99_ms: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)


def throughput(url: str, clients: int, seconds: float, rounds: int) -> Rates:
    """All modes in turn, several times, so that the machine's moods touch all alike."""
    account, found = open_account(url), {mode: [] for mode in MODES}
    waits: dict[str, list[float]] = {mode: [] for mode in MODES}
    make_bare_tables(url)
    for _ in range(rounds):
        for mode in MODES:
            per_second, took = rate(mode, account, clients, seconds)
            found[mode].append(per_second)
            waits[mode] += took
    rates = Rates()
    for mode in MODES:
        rates.per_second[mode] = statistics.median(found[mode])
        rates.p99_ms[mode] = 1000 * statistics.quantiles(waits[mode], n=100)[98]
    for name in (BASELINE, DRIVER, INSERTS):
        for ours in (DEBIT, SUBMISSION):
            pairs = zip(found[ours], found[name], strict=True)
            rates.ratios[f"{ours} / {name}"] = statistics.median(a / b for a, b in pairs)
    verified(account)
    return rates


def verified(account: Account) -> ledger.Verification:
    """Verify the account's ledger, or stop."""
    factory = SessionFactory(account.url)
    with factory.read() as session:
        found = ledger.verify(session, account.dataset_id)
    factory.dispose()
    if not found.ok:
        raise SystemExit(f"the ledger does not verify: {found.problem}")
    return found


@dataclass
class Scaling:
    """Milliseconds per decision (median), and seconds to verify the long ledger."""

    short_ms: float
    long_ms: float
    ratio: float
    verify_seconds: float


def scaling(url: str, entries: int = 10_000, samples: int = 300) -> Scaling:
    """Decide on a ledger with 10 and on one with many entries, in turns."""
    factory = SessionFactory(url)
    short, long = open_account(url), open_account(url)
    for account, count in ((short, 10), (long, entries)):
        jobs = add_jobs(account, count)
        for first in range(0, count, 500):
            with factory.write() as session:
                for job in jobs[first : first + 500]:
                    ledger.reserve(session, account.dataset_id, job_id=job,
                                   analyst_id=account.analyst_id, event=EVENT)  # fmt: skip
    times: dict[UUID, list[float]] = {short.dataset_id: [], long.dataset_id: []}
    for _ in range(samples):
        for account in (short, long):
            times[account.dataset_id].append(decision_time(factory, account))
    began = time.perf_counter()
    verified(long)
    took = time.perf_counter() - began
    few, many = (1000 * statistics.median(found) for found in times.values())
    return Scaling(few, many, many / few, took)


class _Undo(Exception):  # noqa: N818
    pass


def decision_time(factory: SessionFactory, account: Account) -> float:
    """Seconds from asking to the entry written, without the disk; rolled back."""
    took = 0.0
    with contextlib.suppress(_Undo), factory.write() as session:
        job = JobRow(**job_values(account))
        session.add(job)
        session.flush()
        began = time.perf_counter()
        ledger.reserve(session, account.dataset_id, job_id=job.id, analyst_id=account.analyst_id,
                       event=EVENT)  # fmt: skip
        took = time.perf_counter() - began
        raise _Undo
    return took


# --- the soak: clients that are killed at random, and a reader that checks at every read ---


@dataclass
class Soak:
    """What a soak found; every fault is fatal."""

    acknowledged: int
    accepted: int
    refused: int
    kills: int
    reads: int
    per_second: float


def soak_client(account: Account, event: Event, diary: Path) -> None:
    """Reserve, post or void, and write down what was acknowledged. Never returns."""
    factory, chance = SessionFactory(account.url), random.Random(os.urandom(8))
    with diary.open("ab", buffering=0) as notes:
        while True:
            try:
                job = submit(factory, account, event)
            except ledger.BudgetExhausted:
                notes.write(f"refused {uuid4()}\n".encode())
                time.sleep(0.05)
                continue
            notes.write(f"reserve {job}\n".encode())
            kind = chance.choice(("post", "void", "leave"))
            if kind == "leave":
                continue
            with factory.debit() as session:
                if kind == "post":
                    ledger.post(session, job)
                else:
                    ledger.void(session, job, reason="cancelled")
            notes.write(f"{kind} {job}\n".encode())


def row_sum(session: Any, account: Account) -> FilterState:
    """Everything that is reserved or posted, from the entries alone."""
    entries = select(LedgerRow.kind, LedgerRow.cost, func.count()).where(
        LedgerRow.dataset_id == account.dataset_id, LedgerRow.kind.in_(("reserve", "void"))
    )
    held = FilterState.empty(AMPLE)
    for kind, cost, count in session.execute(entries.group_by(LedgerRow.kind, LedgerRow.cost)):
        for _ in range(count):
            held = held.add(read_cost(cost)) if kind == "reserve" else held.remove(read_cost(cost))
    return held


def soak(url: str, clients: int, seconds: float, folder: Path, jobs: int) -> Soak:
    """Debit with kills until the time is over; raises SystemExit on any lost or double debit.

    jobs: how many the budget pays for; few enough that it is reached.
    """
    event = Repeat(Gaussian(1e3), 100)
    terms = FilterTerms(ledger_epsilon(event, jobs), 1e-6)
    account, factory = open_account(url, terms), SessionFactory(url)
    diaries, running, kills, reads = [], [], 0, 0

    def begin() -> None:
        diaries.append(folder / f"{uuid4()}.notes")
        process = FORK.Process(target=soak_client, args=(account, event, diaries[-1]), daemon=True)
        process.start()
        running.append(process)

    factory.dispose()
    for _ in range(clients):
        begin()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(random.uniform(0.02, 0.2))
        victim = running.pop(random.randrange(len(running)))
        os.kill(victim.pid or 0, signal.SIGKILL)
        victim.join()
        kills += 1
        begin()
        with factory.read() as session:
            if not terms.accepts(row_sum(session, account)):
                raise SystemExit("the entries exceed the budget")
        reads += 1
        factory.dispose()
    for process in running:
        process.kill()
        process.join()
    return settle(account, terms, factory, diaries, Soak(0, 0, 0, kills, reads, 0.0), seconds)


def ledger_epsilon(event: Event, jobs: int) -> float:
    """An epsilon that pays for about so many of the event."""
    from dpmcmc.privacy.filter import entry_cost, spent_epsilon

    cost, state = entry_cost(AMPLE, event), FilterState.empty(AMPLE)
    for _ in range(jobs):
        state = state.add(cost)
    return spent_epsilon(FilterTerms(1e-9, 1e-6), state)


def settle(account: Account, terms: FilterTerms, factory: SessionFactory, diaries: list[Path],
           soaked: Soak, seconds: float) -> Soak:  # fmt: skip
    """Compare what clients were told with what is stored."""
    told: dict[str, set[str]] = {"reserve": set(), "post": set(), "void": set(), "refused": set()}
    for diary in diaries:
        lines = diary.read_text().splitlines() if diary.exists() else []
        for kind, job in (line.split() for line in lines if len(line.split()) == 2):
            told[kind].add(job)
    with factory.read() as session:
        query = select(LedgerRow.kind, LedgerRow.job_id).where(
            LedgerRow.dataset_id == account.dataset_id, LedgerRow.job_id.is_not(None)
        )
        rows = [(kind, str(job)) for kind, job in session.execute(query)]
        jobs = {str(job) for job in session.scalars(select(JobRow.id).where(
            JobRow.dataset_id == account.dataset_id))}  # fmt: skip
        fits = terms.accepts(row_sum(session, account))
    stored = {kind: {job for k, job in rows if k == kind} for kind in ("reserve", "post", "void")}
    faults = {
        "a debit twice": len(rows) != len(set(rows)),
        "a job without a debit, or a debit without a job": jobs != stored["reserve"],
        "an acknowledged entry lost": any(told[kind] - stored[kind] for kind in stored),
        "a job both posted and voided": bool(stored["post"] & stored["void"]),
        "the budget passed": not fits,
    }
    found = [name for name, wrong in faults.items() if wrong]
    if found:
        raise SystemExit(f"soak: {'; '.join(found)}")
    verified(account)
    factory.dispose()
    soaked.acknowledged = sum(len(told[kind]) for kind in stored)
    soaked.accepted, soaked.refused = len(stored["reserve"]), len(told["refused"])
    soaked.per_second = len(rows) / seconds
    return soaked


def report(url: str, rates: Rates, scaled: Scaling, soaked: Soak) -> str:
    """The results as markdown."""
    name = make_url(url).get_backend_name()
    lines = [f"### {name}", "", "| transaction | per second | p99 ms |", "|---|---|---|"]
    lines += [f"| {m} | {rates.per_second[m]:.0f} | {rates.p99_ms[m]:.0f} |" for m in MODES]
    lines += ["", "| ratio | value |", "|---|---|"]
    lines += [f"| {what} | {value:.2f} |" for what, value in rates.ratios.items()]
    lines += [
        f"| decision with 10,000 entries / with 10 | {scaled.ratio:.2f} |",
        "",
        f"A decision takes {scaled.short_ms:.2f} ms with 10 entries, {scaled.long_ms:.2f} ms with "
        f"10,000; verifying 10,000 takes {scaled.verify_seconds:.2f} s.",
        f"Soak: {soaked.accepted} reservations, {soaked.acknowledged} entries acknowledged, "
        f"{soaked.refused} refusals, {soaked.kills} kills, {soaked.reads} checks, "
        f"{soaked.per_second:.0f} entries/s, nothing lost, nothing twice.",
        "",
    ]
    return "\n".join(lines)


def misses(url: str, rates: Rates, scaled: Scaling) -> list[str]:
    """The targets that were not met."""
    name, ratio = make_url(url).get_backend_name(), rates.ratios[f"{DEBIT} / {BASELINE}"]
    targets = {
        f"{DEBIT} / {BASELINE} is {ratio:.2f}, below 0.7": ratio >= 0.7,
        f"decisions slow down by {scaled.ratio:.2f}, not below 1.5": scaled.ratio < 1.5,
        f"verifying takes {scaled.verify_seconds:.2f} s, not below 2": scaled.verify_seconds < 2,
    }
    return [f"{name}: {miss}" for miss, met in targets.items() if not met]


def main() -> None:
    """Measure every URL given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60, help="of the soak")
    parser.add_argument("--slice", type=float, default=4, help="seconds per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true", help="fail unless the targets are met")
    given = parser.parse_args()
    folder = Path(f"/tmp/ledger-soak-{os.getpid()}")
    folder.mkdir()
    results, missed = {}, []
    for url in given.urls:
        rates = throughput(url, given.clients, given.slice, given.rounds)
        scaled = scaling(url)
        soaked = soak(url, given.clients, given.seconds, folder, jobs=int(10 * given.seconds))
        results[make_url(url).get_backend_name()] = [asdict(r) for r in (rates, scaled, soaked)]
        print(report(url, rates, scaled, soaked), flush=True)
        missed += misses(url, rates, scaled)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    if given.check and missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
