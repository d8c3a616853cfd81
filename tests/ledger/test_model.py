"""The ledger against a model of three sets and a number, in any order of any calls."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import update

from app import ledger
from app.storage.rows import JobRow
from dpmcmc.privacy.events import Gaussian, Repeat

from .conftest import open_books, terms_for

UNIT = Gaussian(4.0)
SIZES = {1: Gaussian(4.0), 4: Repeat(UNIT, 4), 16: Repeat(UNIT, 16)}


class Ledger(RuleBasedStateMachine):
    """Budgets in units of mu^2 = 1/16, so that the model adds whole numbers."""

    @initialize(cap=st.integers(5, 60))
    def start(self, cap):
        self.folder = tempfile.TemporaryDirectory()
        url = f"sqlite:///{Path(self.folder.name) / 'l.db'}"
        self.books = open_books(url, terms_for(cap, UNIT))
        self.cap, self.size = cap, {}
        self.reserved, self.posted, self.voided, self.claimed = set(), set(), set(), set()
        self.returned, self.status = {}, "open"

    def teardown(self):
        if hasattr(self, "books"):
            self.books.factory.dispose()
            self.folder.cleanup()

    @property
    def held(self):
        return sum(self.size[job] for job in self.reserved) + self.paid

    @property
    def paid(self):
        return sum(self.returned.get(job, self.size[job]) for job in self.posted)

    def some(self, data):
        return data.draw(st.sampled_from(sorted(self.size)))

    @rule(size=st.sampled_from(sorted(SIZES)))
    def reserve(self, size):
        job = self.books.job(event=SIZES[size])
        if self.status != "open":
            with pytest.raises(ledger.AccountClosed):
                self.books.reserve(job, event=SIZES[size])
        elif self.held + size > self.cap:
            with pytest.raises(ledger.BudgetExhausted):
                self.books.reserve(job, event=SIZES[size])
        else:
            self.books.reserve(job, event=SIZES[size])
            self.size[job] = size
            self.reserved.add(job)

    @precondition(lambda self: self.size)
    @rule(data=st.data())
    def claim(self, data):
        job = self.some(data)
        with self.books.factory.write() as session:
            session.execute(update(JobRow).where(JobRow.id == job).values(attempt=1))
        self.claimed.add(job)

    @precondition(lambda self: self.size)
    @rule(data=st.data())
    def post(self, data):
        job = self.some(data)
        if job in self.voided:
            with pytest.raises(ledger.Voided):
                self.books.post(job)
        else:
            self.books.post(job)
            self.reserved.discard(job)
            self.posted.add(job)

    @precondition(lambda self: self.size)
    @rule(data=st.data(), drawn=st.integers(1, 16))
    def return_rest(self, data, drawn):
        job = self.some(data)
        before = self.returned.get(job, drawn)
        if job not in self.posted or drawn > self.size[job] or before != drawn:
            with pytest.raises(ledger.NotDrawn):
                self.books.return_rest(job, Repeat(UNIT, drawn))
        else:
            self.books.return_rest(job, Repeat(UNIT, drawn))
            self.returned[job] = drawn

    @precondition(lambda self: self.size)
    @rule(data=st.data())
    def void(self, data):
        job = self.some(data)
        if job in self.posted or (job in self.claimed and job not in self.voided):
            with pytest.raises(ledger.NotVoidable):
                self.books.void(job)
        else:
            self.books.void(job)
            self.reserved.discard(job)
            self.voided.add(job)

    @precondition(lambda self: self.size)
    @rule(data=st.data())
    def reserve_again(self, data):
        job = self.some(data)
        with pytest.raises((ledger.AlreadyReserved, ledger.BudgetExhausted, ledger.AccountClosed)):
            self.books.reserve(job, event=UNIT)

    @rule(more=st.integers(1, 10))
    def raise_budget(self, more):
        epsilon = terms_for(self.cap + more, UNIT).epsilon
        self.books.amend("raise_budget", epsilon=epsilon)
        self.cap += more

    @rule()
    def archive_or_open(self):
        kind, status = ("archive", "archived") if self.status == "open" else ("unarchive", "open")
        self.books.amend(kind)
        self.status = status

    @invariant()
    def agrees(self):
        if not hasattr(self, "books"):
            return
        balance = self.books.balance()
        assert balance.jobs == len(self.reserved | self.posted)
        assert balance.mu_spent**2 == pytest.approx(self.paid / 16, rel=1e-12)
        assert (balance.spent_epsilon == 0) == (not self.posted)
        assert (balance.reserved_epsilon == 0) == (not self.reserved)
        assert balance.spent_epsilon <= balance.epsilon
        found = self.books.verify()
        assert found.ok, found.problem
        kinds = [entry.kind for entry in self.books.entries()]
        assert kinds.count("reserve") == len(self.size)
        assert kinds.count("post") == len(self.posted)
        assert kinds.count("void") == len(self.voided)
        assert kinds.count("return") == len(self.returned)


TestLedger = Ledger.TestCase
TestLedger.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
