"""Transactions straight on the driver: what is written is what a session reads, all or nothing."""

import threading
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from app import ledger
from app.jobs.submit import take
from app.storage.prepared import Prepared
from app.storage.rows import JobRow, UserRow

from .conftest import EVENT

USERS = UserRow.__table__
ADD = Prepared(insert(USERS).values({column: bindparam(column.name) for column in USERS.columns}))
FIND = Prepared(select(USERS).where(USERS.c.name == bindparam("wanted")))
EVER = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
STRANGE = 'it\'s "quoted" \\ back\nslashed % :name $1 {} ü € 𝄞'


def user(name: str) -> dict:
    made = {"id": uuid4(), "name": name, "role": "analyst"}
    return {**made, "created_at": EVER, "disabled_at": None}


def test_a_job_is_stored_as_a_session_would_store_it(books):
    job = books.row(
        spec={"text": STRANGE, "nested": [1, 2.5, None, True]},
        idempotency_key=STRANGE,
        body_hash="h",
        epsilon=0.1,
        reserved_until=EVER,
    )
    with books.factory.direct() as debit:
        take(debit, job, EVENT)
    with books.factory.read() as session:
        stored = session.get_one(JobRow, job.id)
        for column in JobRow.__table__.columns:
            assert getattr(stored, column.key) == getattr(job, column.key), column


def test_what_was_written_is_seen_in_the_same_transaction_and_kept_after_it(books):
    given = user(STRANGE) | {"subject": None}  # of an identity provider, who has none
    with books.factory.direct() as debit:
        debit.write(ADD, given)
        (found,) = debit.rows(FIND, {"wanted": STRANGE})
    assert found._asdict() == given
    with books.factory.direct() as debit:
        assert debit.rows(FIND, {"wanted": STRANGE}) == [found]
        assert debit.rows(FIND, {"wanted": "nobody"}) == []


def test_a_statement_may_be_new_and_used_twice_at_once(books):
    with books.factory.direct() as debit:
        for name in ("one", "two"):
            debit.write(ADD, user(name))
    with books.factory.direct() as debit:
        assert [len(debit.rows(FIND, {"wanted": name})) for name in ("one", "two")] == [1, 1]


def test_a_broken_constraint_undoes_everything_and_the_next_transaction_works(books):
    taken, other = user("taken"), user("other")
    with books.factory.direct() as debit:
        debit.write(ADD, taken)
    with pytest.raises(IntegrityError), books.factory.direct() as debit:  # noqa: PT012
        debit.write(ADD, other)
        debit.write(ADD, user("taken"))
    with pytest.raises(ledger.AlreadyReserved), books.factory.direct() as debit:  # noqa: PT012
        debit.write(ADD, other)
        debit.write(ADD, user("taken"), instead=ledger.AlreadyReserved("told so"))
    with books.factory.direct() as debit:
        assert debit.rows(FIND, {"wanted": "other"}) == []
        debit.write(ADD, other)
    with books.factory.direct() as debit:
        assert len(debit.rows(FIND, {"wanted": "other"})) == 1


def test_an_error_in_the_block_undoes_what_was_written(books):
    for asked in (False, True):
        with pytest.raises(ZeroDivisionError), books.factory.direct() as debit:  # noqa: PT012
            debit.write(ADD, user("lost"))
            if asked:
                debit.rows(FIND, {"wanted": "lost"})
            raise ZeroDivisionError
    with books.factory.direct() as debit:
        assert debit.rows(FIND, {"wanted": "lost"}) == []


def test_a_statement_larger_than_any_buffer_is_sent(books):
    job = books.row(spec={"text": "x" * 8_000_000})
    with books.factory.direct() as debit:
        take(debit, job, EVENT)
    with books.factory.read() as session:
        assert session.get_one(JobRow, job.id).spec == job.spec


def test_a_thread_that_waits_for_the_head_lets_the_one_that_holds_it_go_on(books):
    first, second, holding = books.job(), books.job(), threading.Event()
    waiter = threading.Thread(target=lambda: (holding.wait(), books.reserve(second)))
    waiter.start()
    with books.factory.direct() as debit:
        ledger.reserve(debit, books.dataset_id, job_id=first, analyst_id=books.analyst_id,
                       event=EVENT)  # fmt: skip
        holding.set()
        waiter.join(timeout=0.5)
        assert waiter.is_alive()
    waiter.join(timeout=60)
    assert not waiter.is_alive()
    assert books.balance().jobs == 2
