"""Many clients, killed clients: no budget is passed, nothing is lost, nothing is paid twice."""

import multiprocessing
import os
import signal
import threading
import time
from uuid import UUID

import pytest
from sqlalchemy import select, text

from app import ledger
from app.ledger.codec import read_cost
from app.storage.rows import LedgerRow
from app.storage.session import SessionFactory
from benchmarks.ledger import soak
from dpmcmc.privacy.filter import FilterState

from .conftest import EVENT, open_books, terms_for

FORK = multiprocessing.get_context("fork")


def debits(books) -> FilterState:
    """The sum over the rows, not the counter."""
    with books.factory.read() as session:
        terms = ledger.terms_of(session, books.dataset_id)
        held = FilterState.empty(terms)
        for kind, cost in session.execute(select(LedgerRow.kind, LedgerRow.cost)):
            if kind == "reserve":
                held = held.add(read_cost(cost))
            if kind == "void":
                held = held.remove(read_cost(cost))
    return held


def within_budget(books) -> bool:
    with books.factory.read() as session:
        terms = ledger.terms_of(session, books.dataset_id)
    return terms.accepts(debits(books))


def test_of_64_threads_exactly_ten_are_accepted(books):
    jobs = [books.job() for _ in range(64)]
    together, outcomes = threading.Barrier(64), []

    def submit(job: UUID) -> None:
        together.wait()
        try:
            books.reserve(job)
            outcomes.append("accepted")
        except ledger.BudgetExhausted:
            outcomes.append("refused")

    threads = [threading.Thread(target=submit, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["accepted"] * 10 + ["refused"] * 54
    assert within_budget(books)
    assert books.verify().ok


def submit_from_a_process(url, dataset_id, analyst_id, jobs, start, outcomes) -> None:
    factory = SessionFactory(url)
    start.wait()
    for job in jobs:
        try:
            with factory.write() as session:
                ledger.reserve(session, dataset_id, job_id=job, analyst_id=analyst_id, event=EVENT)
            outcomes.put("accepted")
        except ledger.BudgetExhausted:
            outcomes.put("refused")


def test_of_64_submissions_from_8_processes_exactly_ten_are_accepted(books):
    jobs = [books.job() for _ in range(64)]
    start, outcomes = FORK.Barrier(8), FORK.Queue()
    processes = [
        FORK.Process(
            target=submit_from_a_process,
            args=(books.url, books.dataset_id, books.analyst_id, jobs[n::8], start, outcomes),
        )
        for n in range(8)
    ]
    books.factory.dispose()
    for process in processes:
        process.start()
    found = [outcomes.get(timeout=100) for _ in range(64)]
    for process in processes:
        process.join()
    assert sorted(found) == ["accepted"] * 10 + ["refused"] * 54
    assert within_budget(books)
    assert books.verify().ok


def test_one_job_posted_by_many_workers_at_once_is_paid_once(books):
    job = books.reserve()
    together, permits = threading.Barrier(16), []

    def post() -> None:
        together.wait()
        permits.append(books.post(job))

    threads = [threading.Thread(target=post) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(permits) == 16
    assert len({(one.subject, one.event_digest) for one in permits}) == 1
    assert [entry.kind for entry in books.entries()] == ["open", "reserve", "post"]


def test_a_race_of_post_and_void_has_one_winner(books):
    for _ in range(8):
        job, together, won = books.reserve(), threading.Barrier(2), []

        def settle(kind, job=job, together=together, won=won) -> None:
            together.wait()
            try:
                getattr(books, kind)(job)
                won.append(kind)
            except (ledger.Voided, ledger.NotVoidable):
                pass

        threads = [threading.Thread(target=settle, args=(kind,)) for kind in ("post", "void")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
    assert books.verify().ok


def reserve(books, session, job: UUID) -> None:
    ledger.reserve(session, books.dataset_id, job_id=job, analyst_id=books.analyst_id, event=EVENT)


def test_a_thread_that_waits_for_the_head_lets_the_one_that_holds_it_go_on(books):
    first, second, holding = books.job(), books.job(), threading.Event()
    waiter = threading.Thread(target=lambda: (holding.wait(), books.reserve(second)))
    waiter.start()
    with books.factory.write() as session:
        reserve(books, session, first)
        holding.set()
        waiter.join(timeout=0.5)
        assert waiter.is_alive()
    waiter.join(timeout=60)
    assert not waiter.is_alive()
    assert books.balance().jobs == 2


def hold_the_head_for_ever(url, dataset_id, analyst_id, job, holding) -> None:
    factory = SessionFactory(url)
    with factory.write() as session:
        ledger.reserve(session, dataset_id, job_id=job, analyst_id=analyst_id, event=EVENT)
        holding.set()
        time.sleep(600)


def test_a_client_killed_inside_its_transaction_leaves_nothing_and_blocks_nobody(books):
    job, holding = books.job(), FORK.Event()
    client = FORK.Process(
        target=hold_the_head_for_ever,
        args=(books.url, books.dataset_id, books.analyst_id, job, holding),
    )
    books.factory.dispose()
    client.start()
    assert holding.wait(60)
    os.kill(client.pid, signal.SIGKILL)
    client.join()
    began = time.monotonic()
    books.reserve(job)
    assert time.monotonic() - began < 20
    assert books.balance().jobs == 1
    assert books.verify().ok


@pytest.mark.slow
def test_clients_killed_at_random_lose_nothing_and_pay_nothing_twice(database_url, tmp_path):
    found = soak(database_url, clients=6, seconds=6, folder=tmp_path, jobs=25)
    assert found.faults == 0, found
    assert found.kills > 5
    assert found.accepted >= 25
    assert found.refused > 0
    assert found.acknowledged >= found.accepted - found.kills - 6


def test_a_debit_is_on_the_disk_when_it_is_acknowledged_on_sqlite(tmp_path):
    """With synchronous=FULL (2) the log is on the disk before a commit in it can be seen."""
    books = open_books(f"sqlite:///{tmp_path}/ledger.db", terms_for(10))
    books.reserve()
    with books.factory.write() as session:
        found = [session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous")]
    assert found == ["wal", 2]
    books.factory.dispose()


@pytest.mark.services
def test_a_debit_is_on_the_disk_when_it_is_acknowledged_on_postgresql(postgres_url):
    books = open_books(postgres_url, terms_for(10))
    for _ in range(10):
        job = books.job()
        with books.factory.write() as session:
            reserve(books, session, job)
            written = session.scalar(text("SELECT pg_current_wal_insert_lsn()"))
        with books.factory.read() as session:
            flushed = text("SELECT pg_current_wal_flush_lsn() >= CAST(:written AS pg_lsn)")
            assert session.scalar(flushed, {"written": written})
    books.factory.dispose()
