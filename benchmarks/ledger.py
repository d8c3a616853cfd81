"""Debits per second, decisions on long ledgers, and a soak with kills.

python -m benchmarks.ledger [--check] [--seconds 60] [--parts rates,scaling,soak] URL...
URL: sqlite:////tmp/ledger.db or postgresql://…, an empty database: it is filled with our tables.
Prints one table of targets with pass or FAIL; with --check it fails where one is missed. It needs a
machine that does nothing else: the clients and the database share its cores.

A debit is what a submission does to the ledger: a reservation, decided and written by
app.ledger.reserve, in one durable transaction of SessionFactory.write; it is measured
together with the insertion of its job's row as well. Beside it, to tell how fast machine and
disk are, a bare durable update of one row by an engine configured like
ours. All are done by as many processes, in turns, several rounds in one run; rates are
medians over rounds.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app import ledger
from app.ledger.codec import read_cost
from app.services.jobs.submit import take
from app.storage.engine import engine_for
from app.storage.migrate import upgrade
from app.storage.rows import DatasetRow, JobRow, LedgerRow, UserRow
from app.storage.session import SessionFactory
from app.storage.types import utc_now
from dpmcmc.privacy.event_json import as_dict, digest
from dpmcmc.privacy.events import Event, Gaussian, Repeat
from dpmcmc.privacy.filter import FilterState, FilterTerms

EVENT = Repeat(Gaussian(1e5), 100)
DIGEST, EVENT_JSON = digest(EVENT), as_dict(EVENT)
AMPLE = FilterTerms(1000.0, 1e-6)
PARTS = ["rates", "scaling", "soak"]
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


def job_values(account: Account, event: Event = EVENT) -> dict[str, Any]:
    """A queued job's columns."""
    usual = event is EVENT
    return {
        "id": uuid4(),
        "user_id": account.analyst_id,
        "dataset_id": account.dataset_id,
        "spec": {},
        "resolved": {},
        "event": EVENT_JSON if usual else as_dict(event),
        "event_digest": DIGEST if usual else digest(event),
        "epsilon": 1.0,
        "delta": 1e-6,
        "status": "queued",
        "attempt": 0,
        "token": 0,
        "cancel_requested": False,
        "progress_step": 0,
        "progress_of": 1,
        "created_at": utc_now(),
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
    with factory.write() as session:
        ledger.reserve(
            session, account.dataset_id, job_id=job_id, analyst_id=account.analyst_id, event=event
        )


def submit(factory: SessionFactory, account: Account, event: Event = EVENT) -> UUID:
    """One debit together with its job's row, as a submission does it."""
    job = JobRow(**job_values(account, event))
    with factory.write() as session:
        take(session, job, event)
    return job.id


# --- what a client does in a loop: (setup) -> (step), one durable transaction per step ---

Step = Callable[[], object]


UPDATE = "UPDATE bare_counter SET n = n + 1 WHERE id = 1"


def bare_update(account: Account, _: int, __: list[UUID]) -> Step:
    engine, prepared = engine_for(account.url), text(UPDATE)

    def step() -> None:
        with engine.begin() as connection:
            connection.execute(prepared)

    return step


def debit(account: Account, _: int, jobs: list[UUID]) -> Step:
    factory, stock = SessionFactory(account.url), iter(jobs)
    return lambda: reserve(factory, account, next(stock))


def submission(account: Account, _: int, __: list[UUID]) -> Step:
    factory = SessionFactory(account.url)
    return lambda: submit(factory, account)


BARE, DEBIT, SUBMISSION = "bare update", "debit", "debit with its job's row"
MODES = {BARE: bare_update, DEBIT: debit, SUBMISSION: submission}
WANTED = 200


def make_bare_table(url: str) -> None:
    factory = SessionFactory(url)
    with factory.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE bare_counter (id INTEGER PRIMARY KEY, n BIGINT)")
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
    need = int(seconds * 4000 / clients) + 50 if mode == DEBIT else 0
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


def throughput(url: str, clients: int, seconds: float, rounds: int) -> Rates:
    """All modes in turn, several times, so that the machine's moods touch all alike."""
    account, found = open_account(url), {mode: [] for mode in MODES}
    waits: dict[str, list[float]] = {mode: [] for mode in MODES}
    make_bare_table(url)
    for _ in range(rounds):
        for mode in MODES:
            per_second, took = rate(mode, account, clients, seconds)
            found[mode].append(per_second)
            waits[mode] += took
    rates = Rates()
    for mode in MODES:
        rates.per_second[mode] = statistics.median(found[mode])
        rates.p99_ms[mode] = 1000 * statistics.quantiles(waits[mode], n=100)[98]
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
    (job,) = add_jobs(account, 1)
    with contextlib.suppress(_Undo), factory.write() as session:
        began = time.perf_counter()
        ledger.reserve(session, account.dataset_id, job_id=job, analyst_id=account.analyst_id,
                       event=EVENT)  # fmt: skip
        took = time.perf_counter() - began
        raise _Undo
    return took


# --- the soak: clients that are killed at random, and a reader that checks at every read ---


@dataclass
class Soak:
    """What a soak found. beyond: reads at which the entries exceeded the budget.

    lost: acknowledged entries that are not stored. twice: entries that repeat another one, or that
    settle a job a second time. apart: jobs without a debit, and debits without a job.
    """

    seconds: float
    kills: int = 0
    reads: int = 0
    beyond: int = 0
    acknowledged: int = 0
    accepted: int = 0
    refused: int = 0
    lost: int = 0
    twice: int = 0
    apart: int = 0
    per_second: float = 0.0

    @property
    def faults(self) -> int:
        return self.beyond + self.lost + self.twice + self.apart


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
            with factory.write() as session:
                if kind == "post":
                    ledger.post(session, job)
                else:
                    ledger.void(session, job, reason="cancelled")
            notes.write(f"{kind} {job}\n".encode())


def row_sum(session: Session, account: Account) -> FilterState:
    """Everything that is reserved or posted, from the entries alone."""
    entries = select(LedgerRow.kind, LedgerRow.cost, func.count()).where(
        LedgerRow.dataset_id == account.dataset_id, LedgerRow.kind.in_(("reserve", "void"))
    )
    held = FilterState.empty(AMPLE)
    for kind, cost, count in session.execute(entries.group_by(LedgerRow.kind, LedgerRow.cost)):
        for _ in range(count):
            held = held.add(read_cost(cost)) if kind == "reserve" else held.remove(read_cost(cost))
    return held


def beyond(session: Session, account: Account) -> bool:
    """Whether more is reserved and posted than the budget of this moment allows."""
    return not ledger.terms_of(session, account.dataset_id).accepts(row_sum(session, account))


def raise_budget(factory: SessionFactory, account: Account, epsilon: float) -> None:
    with factory.write() as session:
        ledger.amend(session, account.dataset_id, "raise_budget", {"epsilon": epsilon}, None)


def soak(url: str, clients: int, seconds: float, folder: Path, jobs: int) -> Soak:
    """Debit with kills until the time is over, and check the budget at every read.

    jobs: how many the budget pays for at first; few, so that it is reached. It is raised up to ten
    times, each time after it was, so that clients are accepted and refused all the time.
    """
    event = Repeat(Gaussian(1e3), 100)
    terms = FilterTerms(ledger_epsilon(event, jobs), 1e-6)
    account, factory, found = open_account(url, terms), SessionFactory(url), Soak(seconds)
    diaries, running = [], []

    def begin() -> None:
        diaries.append(folder / f"{uuid4()}.notes")
        process = FORK.Process(target=soak_client, args=(account, event, diaries[-1]), daemon=True)
        process.start()
        running.append(process)

    for _ in range(clients):
        begin()
    began, raised = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        time.sleep(random.uniform(0.02, 0.2))
        victim = running.pop(random.randrange(len(running)))
        os.kill(victim.pid or 0, signal.SIGKILL)
        victim.join()
        found.kills += 1
        begin()
        with factory.read() as session:
            found.beyond += beyond(session, account)
            full = not ledger.preview(session, account.dataset_id, event).affordable
        found.reads += 1
        if full and time.monotonic() > began + (raised + 1) * seconds / 11:
            raised += 1
            raise_budget(factory, account, terms.epsilon * 1.3**raised)
        factory.dispose()
    for process in running:
        process.kill()
        process.join()
    with factory.read() as session:
        settle(session, account, diaries, found)
        found.beyond += beyond(session, account)
    factory.dispose()
    verified(account)
    return found


def ledger_epsilon(event: Event, jobs: int) -> float:
    """An epsilon that pays for about so many of the event."""
    from dpmcmc.privacy.filter import entry_cost, spent_epsilon

    cost, state = entry_cost(AMPLE, event), FilterState.empty(AMPLE)
    for _ in range(jobs):
        state = state.add(cost)
    return spent_epsilon(FilterTerms(1e-9, 1e-6), state)


def settle(session: Session, account: Account, diaries: list[Path], found: Soak) -> None:
    """Compare what clients were told with what is stored."""
    told: dict[str, set[str]] = {kind: set() for kind in ("reserve", "post", "void", "refused")}
    for diary in diaries:
        lines = diary.read_text().splitlines() if diary.exists() else []
        for kind, job in (line.split() for line in lines if len(line.split()) == 2):
            told[kind].add(job)
    query = select(LedgerRow.kind, LedgerRow.job_id).where(
        LedgerRow.dataset_id == account.dataset_id, LedgerRow.job_id.is_not(None)
    )
    rows = [(kind, str(job)) for kind, job in session.execute(query)]
    own = select(JobRow.id).where(JobRow.dataset_id == account.dataset_id)
    jobs = {str(job) for job in session.scalars(own)}
    stored = {kind: {job for k, job in rows if k == kind} for kind in ("reserve", "post", "void")}
    found.twice = len(rows) - len(set(rows)) + len(stored["post"] & stored["void"])
    found.lost = sum(len(told[kind] - stored[kind]) for kind in stored)
    found.apart = len(jobs ^ stored["reserve"])
    found.acknowledged = sum(len(told[kind]) for kind in stored)
    found.accepted, found.refused = len(stored["reserve"]), len(told["refused"])
    found.per_second = len(rows) / found.seconds


# --- the report ---


@dataclass(frozen=True)
class Target:
    """One line of what must hold."""

    database: str
    what: str
    wanted: str
    found: str
    met: bool


def rate_targets(name: str, clients: int, rates: Rates) -> list[Target]:
    return [
        Target(name, f"{mode}, per second, {clients} clients", f"at least {WANTED}",
               f"{rates.per_second[mode]:.0f}", rates.per_second[mode] >= WANTED)
        for mode in (DEBIT, SUBMISSION)
    ]  # fmt: skip


def scaling_targets(name: str, scaled: Scaling) -> list[Target]:
    took = scaled.verify_seconds
    return [
        Target(name, "a decision with 10,000 entries, beside one with 10", "below 1.5",
               f"{scaled.ratio:.2f}", scaled.ratio < 1.5),
        Target(name, "verifying 10,000 entries", "below 2 s", f"{took:.2f} s", took < 2),
    ]  # fmt: skip


def soak_targets(name: str, clients: int, found: Soak) -> list[Target]:
    during = f"{found.seconds:.0f} s, {clients} clients, {found.kills} kills"
    lines = (
        ("reads that found more than the budget", found.beyond, found.reads),
        ("acknowledged entries lost", found.lost, found.acknowledged),
        ("entries twice", found.twice, found.accepted),
        ("jobs without a debit, debits without a job", found.apart, found.accepted),
    )
    targets = [
        Target(name, f"{what} ({during})", "0", f"{many} of {of}", not many)
        for what, many, of in lines
    ]
    reached = found.kills > 0 and found.refused > 0
    told = f"{found.kills} kills, {found.refused} refusals"
    return [
        *targets,
        Target(name, "the soak kills clients and reaches the budget", "yes", told, reached),
    ]


def details(name: str, rates: Rates) -> str:
    """What was measured of every transaction."""
    lines = ["", f"### {name}", "", "| transaction | per second | p99 ms |", "|---|---|---|"]
    lines += [f"| {m} | {rates.per_second[m]:.0f} | {rates.p99_ms[m]:.0f} |" for m in MODES]
    return "\n".join(lines)


def table(targets: list[Target]) -> str:
    """Every target with pass or FAIL."""
    lines = ["", "| database | what | wanted | found | |", "|---|---|---|---|---|"]
    for target in targets:
        cells = (target.database, target.what, target.wanted, target.found)
        lines.append(f"| {' | '.join(cells)} | {'pass' if target.met else 'FAIL'} |")
    return "\n".join(lines)


def measure(url: str, given: argparse.Namespace, folder: Path) -> tuple[list[Target], list[Any]]:
    """All wanted parts on one database."""
    name, targets, results = make_url(url).get_backend_name(), [], []
    if "rates" in given.parts:
        rates = throughput(url, given.clients, given.slice, given.rounds)
        print(details(name, rates), flush=True)
        targets += rate_targets(name, given.clients, rates)
        results.append(asdict(rates))
    if "scaling" in given.parts:
        scaled = scaling(url)
        targets += scaling_targets(name, scaled)
        results.append(asdict(scaled))
    if "soak" in given.parts:
        soaked = soak(url, given.clients, given.seconds, folder, jobs=int(given.seconds))
        targets += soak_targets(name, given.clients, soaked)
        results.append(asdict(soaked))
    return targets, results


def main() -> None:
    """Measure every URL given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60, help="of the soak")
    parser.add_argument("--slice", type=float, default=4, help="seconds per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=PARTS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true", help="fail unless the targets are met")
    given = parser.parse_args()
    targets, results = [], {}
    with tempfile.TemporaryDirectory(prefix="ledger-soak-") as folder:
        for url in given.urls:
            found, results[url] = measure(url, given, Path(folder))
            targets += found
    print(table(targets))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    if given.check and not all(target.met for target in targets):
        raise SystemExit("a target is missed")


if __name__ == "__main__":
    main()
