"""A migrated database per test, on SQLite and on PostgreSQL, and an account to debit."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from app import ledger
from app.storage.rows import JobRow, UserRow
from app.storage.session import SessionFactory
from benchmarks.ledger import Account, job_values, open_account
from dpmcmc.privacy.events import Event, Gaussian, Repeat
from dpmcmc.privacy.filter import FilterState, FilterTerms, entry_cost, spent_epsilon

EVENT: Event = Repeat(Gaussian(40.0), 100)
DELTA = 1e-6


def terms_for(jobs: int, event: Event = EVENT) -> FilterTerms:
    """A budget that pays for exactly so many of the event."""
    cost = entry_cost(FilterTerms(1.0, DELTA), event)
    state = FilterState.empty(FilterTerms(1.0, DELTA))
    for _ in range(jobs):
        state = state.add(cost)
    terms = FilterTerms(spent_epsilon(FilterTerms(1e-9, DELTA), state) * (1 + 1e-9), DELTA)
    assert terms.accepts(state)
    assert not terms.accepts(state.add(cost))
    return terms


@dataclass
class Books:
    """One dataset's ledger, and what tests do with it."""

    url: str
    factory: SessionFactory
    dataset_id: UUID
    analyst_id: UUID

    def row(self, event: Event = EVENT, **columns) -> JobRow:
        """A queued job."""
        account = Account(self.url, self.dataset_id, self.analyst_id)
        return JobRow(**{**job_values(account, event), **columns})

    def job(self, analyst_id: UUID | None = None, event: Event = EVENT, **columns) -> UUID:
        """A stored, queued job without a reservation."""
        row = self.row(event, user_id=analyst_id or self.analyst_id, **columns)
        with self.factory.write() as session:
            session.add(row)
        return row.id

    def user(self) -> UUID:
        with self.factory.write() as session:
            row = UserRow(name=str(uuid4()), role="analyst")
            session.add(row)
        return row.id

    def reserve(self, job_id: UUID | None = None, analyst_id=None, event=EVENT, until=None) -> UUID:
        job_id = job_id or self.job(analyst_id, event)
        with self.factory.write() as session:
            ledger.reserve(
                session,
                self.dataset_id,
                job_id=job_id,
                analyst_id=analyst_id or self.analyst_id,
                event=event,
                until=until,
            )
        return job_id

    def post(self, job_id: UUID):
        with self.factory.write() as session:
            return ledger.post(session, job_id)

    def return_rest(self, job_id: UUID, drawn: Event) -> None:
        with self.factory.write() as session:
            ledger.return_rest(session, job_id, drawn)

    def void(self, job_id: UUID, reason: str = "cancelled") -> None:
        with self.factory.write() as session:
            ledger.void(session, job_id, reason=reason)

    def amend(self, kind: str, **details) -> None:
        with self.factory.write() as session:
            ledger.amend(session, self.dataset_id, kind, details, None)

    def balance(self) -> ledger.Balance:
        with self.factory.read() as session:
            return ledger.balance(session, self.dataset_id)

    def entries(self) -> list[ledger.Entry]:
        with self.factory.read() as session:
            return ledger.entries(session, self.dataset_id, 0, 10**6)

    def verify(self, anchor=None) -> ledger.Verification:
        with self.factory.read() as session:
            return ledger.verify(session, self.dataset_id, anchor)


def open_books(url: str, terms: FilterTerms) -> Books:
    account = open_account(url, terms)
    return Books(url, SessionFactory(url), account.dataset_id, account.analyst_id)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def books(database_url: str) -> Iterator[Books]:
    """A budget for ten jobs."""
    opened = open_books(database_url, terms_for(10))
    yield opened
    opened.factory.dispose()
