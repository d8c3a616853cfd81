"""PostgreSQL goes away: a clear error, nothing half written, and the next call works."""

from contextlib import ExitStack

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from app import ledger

from .conftest import EVENT, open_books, terms_for

pytestmark = pytest.mark.services


@pytest.fixture
def books(postgres_url):
    opened = open_books(postgres_url, terms_for(10))
    yield opened
    opened.factory.dispose()


def hang_up(books) -> int:
    """End every connection to the database but this one; how many there were."""
    plain = books.url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as server:
        ended = server.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return len(ended)


def reserve(books, session, job) -> None:
    ledger.reserve(session, books.dataset_id, job_id=job, analyst_id=books.analyst_id, event=EVENT)


def test_a_debit_after_the_server_ended_every_idle_connection_works_at_once(books):
    with ExitStack() as stack:  # several connections in each pool, all of them ended
        for _ in range(3):
            stack.enter_context(books.factory.write()).connection()
            stack.enter_context(books.factory.read()).connection()
    assert hang_up(books) >= 6
    books.reserve(books.job())
    books.post(books.reserve())
    assert [entry.kind for entry in books.entries()] == ["open", "reserve", "reserve", "post"]


def test_a_debit_whose_connection_is_lost_before_its_commit_leaves_nothing(books):
    job = books.job()
    with pytest.raises(OperationalError) as caught, books.factory.write() as session:  # noqa: PT012
        reserve(books, session, job)
        hang_up(books)
    assert caught.value.connection_invalidated
    assert [entry.kind for entry in books.entries()] == ["open"]
    books.reserve(job)
    assert books.verify().ok


def test_a_post_whose_connection_is_lost_before_its_statements_says_so(books):
    job = books.reserve()
    with pytest.raises(OperationalError) as caught, books.factory.write() as session:  # noqa: PT012
        session.connection()
        hang_up(books)
        ledger.post(session, job)
    assert caught.value.connection_invalidated
    books.post(job)
    assert [entry.kind for entry in books.entries()] == ["open", "reserve", "post"]


def test_a_post_whose_connection_is_lost_before_its_commit_leaves_nothing(books):
    job = books.reserve()
    with pytest.raises(OperationalError) as caught, books.factory.write() as session:  # noqa: PT012
        ledger.post(session, job)
        hang_up(books)
    assert caught.value.connection_invalidated
    books.post(job)
    assert [entry.kind for entry in books.entries()] == ["open", "reserve", "post"]
    assert books.verify().ok
