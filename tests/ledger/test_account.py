"""Reserve, post, void, amend: pay first, once, within the promise."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import update

from app import ledger
from app.services.jobs.submit import take
from app.storage.rows import JobRow
from app.storage.types import utc_now
from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Compose, EventError, Gaussian, PureEpsilon, Repeat
from dpmcmc.privacy.filter import FilterState, entry_cost

from .conftest import EVENT, terms_for


def test_a_budget_for_ten_jobs_pays_for_ten(books):
    for _ in range(10):
        books.reserve()
    with pytest.raises(ledger.BudgetExhausted) as caught:
        books.reserve()
    assert caught.value.requested > caught.value.remaining >= 0
    assert books.balance().jobs == 10
    assert books.verify().ok


def test_reservations_and_posts_are_kept_apart_and_count_alike(books):
    first, _ = books.reserve(), books.reserve()
    held = books.balance()
    assert held.spent_epsilon == 0
    assert held.reserved_epsilon > 0
    books.post(first)
    after = books.balance()
    assert after.spent_epsilon > 0
    assert after.reserved_epsilon < held.reserved_epsilon
    assert after.remaining_epsilon == held.remaining_epsilon
    assert after.mu_spent == pytest.approx((100 / 40.0**2) ** 0.5)


def test_spent_epsilon_is_composed_and_not_a_sum(books):
    for _ in range(4):
        books.post(books.reserve())
    one = ledger.Balance
    with books.factory.read() as session:
        one = ledger.preview(session, books.dataset_id, EVENT).epsilon
    assert one < books.balance().spent_epsilon < 4 * one


@pytest.mark.longer
def test_a_post_pays_once_however_often_it_is_repeated(books):
    job = books.reserve()
    permits = [books.post(job) for _ in range(3)]
    assert len({(one.subject, one.event_digest) for one in permits}) == 1
    permit = permits[0]
    assert permit.subject == str(books.dataset_id)
    assert permit.event_digest == digest(EVENT)
    assert [entry.kind for entry in books.entries()] == ["open", "reserve", "post"]


def test_a_voided_reservation_is_given_back_and_cannot_be_posted(books):
    before = books.balance()
    job = books.reserve()
    books.void(job)
    books.void(job)
    after = books.balance()
    assert after.remaining_epsilon == before.remaining_epsilon
    assert after.jobs == 0
    with pytest.raises(ledger.Voided):
        books.post(job)
    assert [entry.kind for entry in books.entries()] == ["open", "reserve", "void"]
    assert books.verify().ok


def test_nothing_is_given_back_after_a_post_or_a_claim(books):
    posted, claimed = books.reserve(), books.reserve()
    books.post(posted)
    with books.factory.write() as session:
        session.execute(update(JobRow).where(JobRow.id == claimed).values(attempt=1))
    for job in (posted, claimed):
        with pytest.raises(ledger.NotVoidable):
            books.void(job)
    assert books.balance().jobs == 2


def test_one_job_has_one_reservation(books):
    job = books.reserve()
    with pytest.raises(ledger.AlreadyReserved):
        books.reserve(job)
    assert books.balance().jobs == 1


def test_a_second_reservation_undoes_what_its_transaction_wrote(books):
    job, other = books.reserve(), books.row()

    def reserve_both():
        with books.factory.write() as session:
            take(session, other, EVENT)
            ledger.reserve(session, books.dataset_id, job_id=job, analyst_id=books.analyst_id,
                           event=EVENT)  # fmt: skip

    with pytest.raises(ledger.AlreadyReserved):
        reserve_both()
    with books.factory.read() as session:
        assert session.get(JobRow, other.id) is None
    books.reserve()
    assert [entry.kind for entry in books.entries()] == ["open", "reserve", "reserve"]


def test_a_job_that_is_not_stored_has_no_reservation(books):
    with pytest.raises(ledger.AlreadyReserved):
        books.reserve(uuid4())
    assert [entry.kind for entry in books.entries()] == ["open"]


def test_what_was_never_reserved_is_neither_posted_nor_voided(books):
    job = books.job()
    for settle in (books.post, books.void):
        with pytest.raises(ledger.LedgerError):
            settle(job)


def test_a_refused_submission_leaves_no_job_behind(books):
    for _ in range(10):
        books.reserve()
    job_id = uuid4()

    def submit():
        with books.factory.write() as session:
            take(session, books.row(id=job_id), EVENT)

    with pytest.raises(ledger.BudgetExhausted):
        submit()
    with books.factory.read() as session:
        assert session.get(JobRow, job_id) is None


def test_an_event_of_another_relation_is_refused(books):
    event = Gaussian(100.0, Neighbouring.ADD_REMOVE)
    with pytest.raises(EventError):
        books.reserve(event=event)
    assert books.balance().jobs == 0


def test_an_event_no_branch_can_bound_is_refused(books):
    from dpmcmc.privacy.events import SmoothLaplace

    with pytest.raises(ledger.BudgetExhausted):
        books.reserve(event=SmoothLaplace(0.01, 1e-9))


def test_a_preview_spends_nothing_and_tells_what_a_reservation_does(books):
    with books.factory.read() as session:
        told = ledger.preview(session, books.dataset_id, EVENT, books.analyst_id)
    assert told.affordable
    assert len(books.entries()) == 1
    books.reserve()
    assert books.balance().remaining_epsilon == told.remaining_after
    with books.factory.read() as session:
        assert not ledger.preview(session, books.dataset_id, PureEpsilon(50.0)).affordable


def test_a_raised_budget_is_an_entry_and_is_never_lowered(books):
    for _ in range(10):
        books.reserve()
    books.amend("raise_budget", epsilon=books.balance().epsilon * 2)
    books.reserve()
    for details in ({"epsilon": 0.1}, {"delta": 1e-9}, {}, {"epsilon": float("nan")},
                    {"epsilon": True}, {"renyi": []}, {"delta": 2.0}):  # fmt: skip
        with pytest.raises(ledger.AmendmentRefused):
            books.amend("raise_budget", **details)
    assert [entry.kind for entry in books.entries()][-2:] == ["raise_budget", "reserve"]
    assert books.verify().ok


def test_an_allotment_caps_one_analyst_under_the_datasets_cap(books):
    other = books.user()
    for _ in range(2):
        books.reserve(analyst_id=other)
    with books.factory.read() as session:
        cap = ledger.preview(session, books.dataset_id, Repeat(EVENT, 3)).epsilon * (1 + 1e-9)
    books.amend("allot", analyst=str(other), epsilon=cap)
    books.reserve(analyst_id=other)
    with pytest.raises(ledger.BudgetExhausted) as caught:
        books.reserve(analyst_id=other)
    assert caught.value.allotment
    for _ in range(7):
        books.reserve()
    with pytest.raises(ledger.BudgetExhausted) as caught:
        books.reserve()
    assert not caught.value.allotment
    assert books.verify().ok


def test_a_voided_reservation_returns_to_the_allotment_too(books):
    with books.factory.read() as session:
        cap = ledger.preview(session, books.dataset_id, EVENT).epsilon * (1 + 1e-9)
    books.amend("allot", analyst=str(books.analyst_id), epsilon=cap)
    books.void(books.reserve())
    job = books.reserve()
    with pytest.raises(ledger.BudgetExhausted):
        books.reserve()
    with books.factory.read() as session:
        (own,) = ledger.allotments(session, [books.dataset_id])[books.dataset_id]
        assert own.analyst_id == books.analyst_id
        assert own.spent_epsilon <= own.epsilon == cap
        assert own.remaining_epsilon < 0.01
        nobody = ledger.allotments(session, [books.dataset_id], uuid4())
        assert nobody == {books.dataset_id: []}
    books.amend("allot", analyst=str(books.analyst_id), epsilon=None)
    books.reserve()
    books.post(job)
    assert books.verify().ok


def test_only_unclaimed_reservations_lapse(books):
    past, future = utc_now() - timedelta(seconds=1), utc_now() + timedelta(hours=1)
    lapsed = books.job(reserved_until=past)
    kept = [
        books.job(reserved_until=future),
        books.job(),
        books.job(reserved_until=past, attempt=1, status="running"),
    ]
    for job in (lapsed, *kept):
        books.reserve(job)
    with books.factory.write() as session:
        assert ledger.expire(session, utc_now()) == [lapsed]
        session.get(JobRow, lapsed).status = "cancelled"
        session.get(JobRow, lapsed).finished_at = utc_now()
    with books.factory.write() as session:
        assert ledger.expire(session, utc_now()) == []
    with pytest.raises(ledger.Voided):
        books.post(lapsed)
    assert books.entries()[-1].details == {"reason": "expired"}


def test_an_archived_dataset_takes_no_new_jobs_but_finishes_old_ones(books):
    job = books.reserve()
    books.amend("archive")
    with pytest.raises(ledger.AccountClosed):
        books.reserve()
    books.post(job)
    books.amend("unarchive")
    books.reserve()
    assert books.verify().ok


def test_a_destroyed_dataset_pays_for_nothing_any_more(books):
    job = books.reserve()
    books.amend("destroy")
    with pytest.raises(ledger.AccountClosed):
        books.post(job)
    with pytest.raises(ledger.AccountClosed):
        books.reserve()
    books.void(job)
    for kind in ("destroy", "unarchive", "archive"):
        with pytest.raises(ledger.AmendmentRefused):
            books.amend(kind)
    assert books.verify().ok


def test_amendments_that_do_not_exist_or_are_malformed_are_refused(books):
    for kind, details in (
        ("forgive", {}),
        ("reserve", {}),
        ("archive", {"why": "x"}),
        ("unarchive", {}),
        ("grant", {"users": ["x"]}),
        ("grant", {}),
        ("allot", {"analyst": "x", "epsilon": 1.0}),
        ("allot", {"analyst": str(uuid4()), "epsilon": -1.0}),
    ):
        with pytest.raises(ledger.AmendmentRefused):
            books.amend(kind, **details)
    assert len(books.entries()) == 1


def test_grants_are_written_into_the_ledger(books):
    users = [str(uuid4()), str(uuid4())]
    books.amend("grant", users=users)
    books.amend("grant", users=None)
    assert [entry.details for entry in books.entries()[1:]] == [{"users": users}, {"users": None}]


def test_history_follows_the_budget_and_entries_can_be_paged(books):
    first = books.reserve()
    books.reserve()
    books.void(first)
    with books.factory.read() as session:
        curve = ledger.history(session, books.dataset_id)
        page = ledger.entries(session, books.dataset_id, after_seq=1, limit=2)
        last = ledger.history(session, books.dataset_id, limit=1)
    assert [point.kind for point in curve] == ["open", "reserve", "reserve", "void"]
    spent = [point.epsilon_after for point in curve]
    assert spent[0] == 0 < spent[1] < spent[2]
    assert spent[3] == spent[1]
    assert [entry.seq for entry in page] == [2, 3]
    assert last == curve[-1:]


def test_unknown_datasets_are_refused(books):
    with books.factory.read() as session:
        for look in (ledger.balance, ledger.entries, ledger.history, ledger.verify):
            with pytest.raises(ledger.UnknownAccount):
                look(session, uuid4())
        assert ledger.balances(session, [uuid4()]) == {}


def test_readers_cannot_write(books):
    with pytest.raises(Exception, match=r"read-?only"), books.factory.read() as session:  # noqa: PT012
        ledger.amend(session, books.dataset_id, "archive", {}, None)
        session.commit()


def test_a_failed_job_keeps_its_debit(books):
    job = books.reserve()
    books.post(job)
    with books.factory.write() as session:
        row = session.get(JobRow, job)
        row.status, row.finished_at, row.error_code = "failed", utc_now(), "sampler_failed"
    with pytest.raises(ledger.NotVoidable):
        books.void(job)
    assert books.balance().spent_epsilon > 0


def test_a_return_leaves_exactly_what_was_drawn(books):
    job = books.reserve()
    books.post(job)
    held = books.balance()
    books.return_rest(job, Repeat(Gaussian(40.0), 30))
    books.return_rest(job, Repeat(Gaussian(40.0), 30))  # the answer to the first was lost
    after = books.balance()
    last = books.entries()[-1]
    assert (last.kind, last.event["count"]) == ("return", 30)
    alone = FilterState.empty(terms_for(10)).add(
        entry_cost(terms_for(10), Repeat(Gaussian(40), 30))
    )
    assert last.total["sums"] == [str(units) for units in alone.sums]
    assert after.mu_spent < held.mu_spent
    assert after.jobs == 1
    assert books.verify().ok


@pytest.mark.parametrize(
    "drawn",
    [
        Repeat(Gaussian(40.0), 101),
        Repeat(Gaussian(41.0), 30),
        Compose((Gaussian(40.0), Gaussian(41.0))),
        PureEpsilon(1e-9),
    ],
)
def test_what_is_not_how_the_job_began_gives_nothing_back(books, drawn):
    job = books.reserve()
    books.post(job)
    before = books.balance()
    with pytest.raises(ledger.NotDrawn):
        books.return_rest(job, drawn)
    assert books.balance() == before


def test_what_was_not_debited_is_not_returned(books):
    job = books.reserve()
    with pytest.raises(ledger.NotDrawn):
        books.return_rest(job, Gaussian(40.0))
    books.void(job)
    with pytest.raises(ledger.NotDrawn):
        books.return_rest(job, Gaussian(40.0))
    with pytest.raises((ledger.UnknownReservation, ledger.UnknownAccount)):
        books.return_rest(books.job(), Gaussian(40.0))


def test_a_return_goes_to_the_allotment_and_pays_for_another_job(books):
    books.amend("allot", analyst=str(books.analyst_id), epsilon=terms_for(2).epsilon)
    first = [books.reserve() for _ in range(2)]
    with pytest.raises(ledger.BudgetExhausted):
        books.reserve()
    for job in first:
        books.post(job)
        books.return_rest(job, Repeat(Gaussian(40.0), 50))
    books.reserve()
    books.amend("allot", analyst=str(books.analyst_id), epsilon=terms_for(2).epsilon)
    assert books.verify().ok  # the sums of the new cap are those of the entries
    with pytest.raises(ledger.BudgetExhausted):
        books.reserve()
