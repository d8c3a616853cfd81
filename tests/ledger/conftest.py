"""A migrated database per test, on SQLite and on PostgreSQL, and an account to debit."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from app import ledger
from app.storage.migrate import upgrade
from app.storage.rows import DatasetRow, JobRow, UserRow
from app.storage.session import SessionFactory
from dpmcmc.privacy.events import Event, Gaussian, Repeat, as_dict, digest
from dpmcmc.privacy.filter import FilterState, FilterTerms, entry_cost, spent_epsilon

EVENT: Event = Repeat(Gaussian(40.0), 100)
DELTA = 1e-6


def terms_for(jobs: int, event: Event = EVENT) -> FilterTerms:
    """A budget that pays for exactly so many of the event."""
    cost, state = entry_cost(FilterTerms(1.0, DELTA), event), None
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

    def job(self, analyst_id: UUID | None = None, event: Event = EVENT, **columns) -> UUID:
        """A stored, queued job without a reservation."""
        row = JobRow(
            id=uuid4(),
            user_id=analyst_id or self.analyst_id,
            dataset_id=self.dataset_id,
            spec={},
            resolved={},
            event=as_dict(event),
            event_digest=digest(event),
            epsilon=1.0,
            delta=DELTA,
            progress_of=1,
            **columns,
        )
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
        with self.factory.debit() as session:
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
        with self.factory.debit() as session:
            return ledger.post(session, job_id)

    def void(self, job_id: UUID, reason: str = "cancelled") -> None:
        with self.factory.debit() as session:
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
    return Books(url, factory, dataset.id, user.id)


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
