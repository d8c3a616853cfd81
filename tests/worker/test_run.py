"""The life of a job: paid once, stored once, whoever dies and however often the broker delivers."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import DataError

from app import ledger
from app.services.jobs.kinds import chains
from app.storage.errors import StoreAwayError
from app.storage.files import DatasetFiles
from app.storage.keys import KeyFileError
from app.storage.rows import ChainBlockRow, JobRow
from app.storage.types import utc_now
from dpmcmc.base.private import Released
from tests.api.support import Caller, House, draw_with, job_of
from worker import run as running
from worker.lost_jobs import Recovery


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


@pytest.fixture
def job(house: House, analyst: Caller) -> str:
    return house.submit(analyst, house.dataset())


def shown(analyst: Caller, job: str) -> dict[str, Any]:
    answer: dict[str, Any] = analyst.get(f"/v1/jobs/{job}").json()
    return answer


def kinds(house: House, dataset: str) -> list[str]:
    items = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    return [entry["kind"] for entry in items]


def blocks(house: House, job: str) -> set[int]:
    with house.services.sessions.read() as session:
        query = select(ChainBlockRow.attempt).where(ChainBlockRow.job_id == UUID(job))
        return set(session.scalars(query))


def row(house: House, job: str) -> JobRow:
    with house.services.sessions.read() as session:
        return session.get_one(JobRow, UUID(job))


Sampler = Callable[..., Iterator[Released[Any]]]


def sampler(monkeypatch: pytest.MonkeyPatch, fake: Sampler) -> None:
    """Draw with `fake` in place of the core."""
    draw_with(monkeypatch, fake)


def some_blocks(count: int, chains: int = 2, steps: int = 60) -> Iterator[Released[Any]]:
    for _ in range(count):
        yield Released(np.ones((chains, steps // count, 3)))


def test_a_job_is_paid_and_stored_once(house: House, analyst: Caller, job: str) -> None:
    house.run(job)
    house.run(job)  # delivered twice
    ended = shown(analyst, job)
    assert ended["status"] == "succeeded"
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]
    assert blocks(house, job) == {1}


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_the_times_of_a_job_are_in_order_though_its_workers_clock_is_behind(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    def draws(*_: Any) -> Iterator[Released[Any]]:
        if end == "failed":
            raise ValueError
        if end == "cancelled":
            analyst.post(f"/v1/jobs/{job}/cancel")
        yield from some_blocks(2)

    sampler(monkeypatch, draws)
    monkeypatch.setattr(running, "utc_now", lambda: utc_now() - timedelta(hours=1))
    house.run(job)
    ended = shown(analyst, job)
    assert ended["status"] == end
    assert ended["created_at"] <= ended["started_at"] <= ended["finished_at"]


def test_two_workers_at_once_run_a_job_once(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def slow(*_: Any) -> Iterator[Released[Any]]:
        started.append(threading.get_ident())
        for block in some_blocks(3):
            time.sleep(0.1)
            yield block

    sampler(monkeypatch, slow)
    threads = [threading.Thread(target=house.run, args=(job,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(started) == 1
    assert shown(analyst, job)["status"] == "succeeded"


@pytest.mark.parametrize(
    "error", [DataError("INSERT", {}, Exception("Alice")), KeyFileError("Alice"), OSError("Alice")]
)
def test_storage_that_fails_is_told_from_a_sampler_that_does(
    house: House,
    analyst: Caller,
    job: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    def broken(*_: Any) -> None:
        raise error

    sampler(monkeypatch, lambda *_: some_blocks(2, steps=30))
    monkeypatch.setattr(running, "_store", broken)
    house.run(job)
    ended = shown(analyst, job)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "storage_failed")
    assert "Alice" not in str(ended) + caplog.text
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]


def test_a_sampler_that_raises_fails_the_job_for_good_and_tells_nothing(
    house: House,
    analyst: Caller,
    job: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: Any) -> Iterator[Released[Any]]:
        yield from some_blocks(1, steps=30)
        raise ValueError("the row of Alice, aged 42")

    sampler(monkeypatch, broken)
    house.run(job)
    ended = shown(analyst, job)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "sampler_failed"
    assert "Alice" not in str(ended) + caplog.text
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]  # the debit stays
    assert blocks(house, job) == set()
    house.run(job)
    assert shown(analyst, job)["status"] == "failed"
    assert analyst.get(f"/v1/jobs/{job}/chain").json()["code"] == "job_without_chain"


def test_a_job_that_takes_too_long_fails(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: Any) -> Iterator[Released[Any]]:
        yield from some_blocks(1, steps=30)
        raise running.TimeUpError

    sampler(monkeypatch, endless)
    house.run(job)
    assert shown(analyst, job)["error"]["code"] == "time_limit_exceeded"


def test_cancelling_a_running_job_stops_it_and_the_debit_stays(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def long(*_: Any) -> Iterator[Released[Any]]:
        for block in some_blocks(60):
            begun.set()
            time.sleep(0.2)
            yield block

    sampler(monkeypatch, long)
    worker = threading.Thread(target=house.run, args=(job,))
    worker.start()
    assert begun.wait(60)
    asked = time.monotonic()
    assert analyst.post(f"/v1/jobs/{job}/cancel").json()["status"] == "running"
    worker.join()
    assert time.monotonic() - asked < 6  # of twelve
    ended = shown(analyst, job)
    assert ended["status"] == "cancelled"
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]
    assert blocks(house, job) == set()


def test_cancelling_stops_a_block_that_would_take_a_minute(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def cancel() -> None:
        asked.append(time.monotonic())
        analyst.post(f"/v1/jobs/{job}/cancel")

    def endless(*_: Any) -> Iterator[Released[Any]]:
        threading.Timer(0.2, cancel).start()
        until = time.monotonic() + 60
        while time.monotonic() < until:
            np.ones(10_000).sum()
        yield from some_blocks(1)

    sampler(monkeypatch, endless)
    house.run(job)  # in the main thread, as a worker's process does
    assert time.monotonic() - asked[0] < 20  # of sixty
    ended = shown(analyst, job)
    assert ended["status"] == "cancelled"
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]
    other = house.submit(analyst, ended["dataset"])
    monkeypatch.undo()
    house.run(other)  # nothing of the interruption is left
    assert shown(analyst, other)["status"] == "succeeded"


def test_a_short_job_is_stored_and_ended_by_one_transaction(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unused(*_: Any) -> None:
        raise AssertionError("a short job was stored in parts")

    monkeypatch.setattr(running, "_store", unused)
    house.run(job)
    assert shown(analyst, job)["progress"] == {"step": 60, "of": 60}


class Killed(BaseException):
    """Stands for kill -9: nothing below may handle it."""


def kill_after_a_block(monkeypatch: pytest.MonkeyPatch, house: House, job: str) -> None:
    """Let a worker claim, pay, store one block, and vanish."""

    def dies(*_: Any) -> Iterator[Released[Any]]:
        yield from some_blocks(1, steps=30)
        raise Killed

    with monkeypatch.context() as patched:
        sampler(patched, dies)
        with pytest.raises(Killed):
            house.run(job)


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def recover(house: House, clock: Clock, *recoveries: Recovery) -> None:
    """Rounds enough for a silent worker to be given up."""
    for recovery in recoveries or (Recovery(house.services, clock),):
        recovery.round()
    clock.now += house.settings.lease_seconds + 0.1
    for recovery in recoveries or (Recovery(house.services, clock),):
        recovery.round()


def test_a_lost_worker_is_replaced_with_one_debit_and_one_chain(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_after_a_block(monkeypatch, house, job)
    house.run(job)  # redelivered too early: the lease is still held
    assert shown(analyst, job)["status"] == "running"
    house.sent.clear()
    clock = Clock()
    recover(house, clock, Recovery(house.services, clock))
    assert [str(sent) for sent in house.sent] == [job]
    house.run(job)
    ended = shown(analyst, job)
    assert ended["status"] == "succeeded"
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]
    assert blocks(house, job) == {2}
    assert row(house, job).released_attempt == 2


def test_the_next_attempt_reads_the_rows_once_and_draws_fresh_noise(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    reads: list[Any] = []
    real, load = chains.run, DatasetFiles.load

    def noted(*arguments: Any) -> Iterator[Released[Any]]:
        for block in real(*arguments):
            drawn.append(block.value)
            if len(drawn) == 1:
                raise Killed  # with the whole chain drawn
            yield block

    def counted(*arguments: Any) -> Any:
        reads.append(arguments)
        return load(*arguments)

    sampler(monkeypatch, noted)
    monkeypatch.setattr(DatasetFiles, "load", counted)
    with pytest.raises(Killed):
        house.run(job)
    clock = Clock()
    recover(house, clock, Recovery(house.services, clock))
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    assert len(reads) == len(drawn) == 2
    assert len(np.unique(drawn[0][:, :, 0])) > 1  # it moved
    assert not np.array_equal(*drawn)


def test_a_worker_that_was_given_up_can_store_nothing(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    recovery = Recovery(house.services, clock)

    def sleeps(*_: Any) -> Iterator[Released[Any]]:
        yield from some_blocks(1, steps=30)
        # the first one would stop the second: a process runs one job, and they share its signals
        with pytest.MonkeyPatch.context() as silent:
            silent.setattr(running.Heartbeat, "_beat", lambda _: None)
            recover(house, clock, recovery)
            monkeypatch.undo()
            house.run(job)
        yield from some_blocks(1, steps=30)

    sampler(monkeypatch, sleeps)
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    assert row(house, job).released_attempt == 2
    assert blocks(house, job) == {2}


@pytest.mark.longer
def test_a_live_worker_keeps_its_job(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery process' clock jumps by an hour between two looks; the lease has moved on."""
    clock = Clock()
    recovery = Recovery(house.services, clock)

    def long(*_: Any) -> Iterator[Released[Any]]:
        for block in some_blocks(2):
            recovery.round()
            clock.now += 3600
            time.sleep(1.6)
            yield block

    sampler(monkeypatch, long)
    house.run(job)
    recovery.round()
    assert shown(analyst, job)["status"] == "succeeded"
    assert row(house, job).attempt == 1


HOUR = timedelta(hours=1)


def off_by(monkeypatch: pytest.MonkeyPatch, jump: timedelta, *modules: str) -> None:
    """Let the wall clock of these modules be wrong by this much."""
    for module in modules:
        monkeypatch.setattr(f"{module}.utc_now", lambda: utc_now() + jump)


@pytest.mark.slow
@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_worker_whose_clock_jumps_by_an_hour_in_mid_job_keeps_it(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    clock = Clock()
    recoveries = [Recovery(house.services, clock), Recovery(house.services, clock)]

    def long(*_: Any) -> Iterator[Released[Any]]:
        for block in some_blocks(3):
            for recovery in recoveries:
                recovery.round()
            clock.now += house.settings.lease_seconds - 0.1
            off_by(monkeypatch, jump, "worker.run", "worker.heartbeat")
            time.sleep(1.1)
            yield block

    sampler(monkeypatch, long)
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    assert row(house, job).attempt == 1


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_worker_whose_clock_is_an_hour_off_is_replaced_as_soon_as_any_other(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    with monkeypatch.context() as patched:
        off_by(patched, jump, "worker.run", "worker.heartbeat")
        kill_after_a_block(patched, house, job)
    clock = Clock()
    recovery = Recovery(house.services, clock)
    recovery.round()
    clock.now += house.settings.lease_seconds - 0.1
    recovery.round()
    assert row(house, job).owner is not None
    clock.now += 0.2
    recovery.round()
    assert row(house, job).owner is None
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    assert row(house, job).released_attempt == 2


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_recovery_process_whose_wall_clock_jumps_by_an_hour_takes_nothing_from_anybody(
    house: House, job: str, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    somebody = house.user("analyst", "Somebody")  # one analyst's jobs never hold every place
    other = house.submit(somebody, house.dataset())
    kill_after_a_block(monkeypatch, house, job)
    clock = Clock()
    recovery = Recovery(house.services, clock)
    recovery.round()
    off_by(monkeypatch, jump, "app.storage.types", "worker.heartbeat")
    recovery.round()
    assert row(house, job).owner is not None
    assert shown(somebody, other)["status"] == "queued"
    house.run(other)
    assert shown(somebody, other)["status"] == "succeeded"


def test_a_time_limit_stops_a_block_that_would_take_a_minute(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Celery has it: an exception in the main thread, from a signal."""

    def over(*_: Any) -> None:
        raise running.TimeUpError

    def endless(*_: Any) -> Iterator[Released[Any]]:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            np.ones(10_000).sum()
        yield from some_blocks(1)

    sampler(monkeypatch, endless)
    before = signal.signal(signal.SIGALRM, over)
    try:
        began = time.monotonic()
        house.run(job)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 20  # of sixty
    ended = shown(analyst, job)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "time_limit_exceeded")
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]


def test_attempts_are_bounded_and_the_debit_stays(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    recovery = Recovery(house.services, clock)
    for _ in range(house.settings.max_attempts):
        kill_after_a_block(monkeypatch, house, job)
        recover(house, clock, recovery)
    ended = shown(analyst, job)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "worker_lost"
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]
    assert blocks(house, job) == set()


def test_a_store_that_stays_away_is_named_when_no_attempt_is_left(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise StoreAwayError("gone")

    monkeypatch.setattr(running, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(DatasetFiles, "load", away)
    clock = Clock()
    recovery = Recovery(house.services, clock)
    for _ in range(house.settings.max_attempts):
        assert shown(analyst, job)["error"] is None
        house.run(job)
        recover(house, clock, recovery)
    ended = shown(analyst, job)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "store_unavailable")
    assert kinds(house, ended["dataset"]) == ["open", "reserve", "post"]


def test_two_recovery_processes_at_once_do_no_harm(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    recoveries = [Recovery(house.services, clock), Recovery(house.services, clock)]
    kill_after_a_block(monkeypatch, house, job)
    house.sent.clear()
    recover(house, clock, *recoveries)
    assert [str(sent) for sent in house.sent] == [job]
    assert row(house, job).attempt == 1
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"


def test_a_cancelled_job_whose_worker_was_lost_is_cancelled(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_after_a_block(monkeypatch, house, job)
    analyst.post(f"/v1/jobs/{job}/cancel")
    clock = Clock()
    recover(house, clock, Recovery(house.services, clock))
    assert shown(analyst, job)["status"] == "cancelled"
    house.run(job)
    assert shown(analyst, job)["status"] == "cancelled"


def test_a_job_whose_message_was_lost_is_sent_again_more_and_more_rarely(
    house: House, job: str
) -> None:
    house.sent.clear()
    clock = Clock()
    recovery = Recovery(house.services, clock)
    for _ in range(100):
        recovery.round()
        clock.now += 1
    assert {str(sent) for sent in house.sent} == {job}
    assert 3 <= len(house.sent) <= 6


def test_a_lost_queue_is_sent_again_as_a_whole(house: House) -> None:
    analyst, dataset = house.user("analyst"), house.dataset()
    jobs = {house.submit(analyst, dataset) for _ in range(40)}
    house.sent.clear()
    clock = Clock()
    recovery = Recovery(house.services, clock)
    recovery.round()
    clock.now += 5
    recovery.round()
    assert {str(sent) for sent in house.sent} == jobs


@pytest.mark.parametrize("wrong", [timedelta(hours=25), timedelta(hours=-25)])
def test_a_process_whose_clock_is_wrong_cancels_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch, wrong: timedelta
) -> None:
    """Reservations are made and lapse by the database's clock."""
    for module in ("worker.lost_jobs", "app.services.jobs.submit"):
        name = f"{module}.utc_now"
        monkeypatch.setattr(name, lambda: utc_now() + wrong, raising=False)
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    Recovery(house.services, Clock()).round()
    assert shown(analyst, job)["status"] == "queued"


def test_a_broker_that_is_away_does_not_refuse_a_job(
    house: House, analyst: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_: UUID) -> None:
        raise ConnectionError("amqp://user:password@host")

    object.__setattr__(house.services, "publish", away)
    job = house.submit(analyst, house.dataset())
    assert shown(analyst, job)["status"] == "queued"
    assert "password" not in caplog.text


def test_a_job_that_nobody_claims_in_time_is_cancelled_and_its_reservation_given_back(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery = Recovery(house.services, Clock())
    recovery.round()
    assert shown(analyst, job)["status"] == "queued"
    kept = house.services.settings.reservation_seconds
    for seconds, status in ((kept - 60, "queued"), (kept + 60, "cancelled")):
        later = utc_now() + timedelta(seconds=seconds)
        monkeypatch.setattr("worker.lost_jobs.database_now", lambda _, later=later: later)
        recovery.round()
        assert shown(analyst, job)["status"] == status
    with house.services.sessions.read() as session:
        dataset_id = session.get_one(JobRow, UUID(job)).dataset_id
        assert ledger.balance(session, dataset_id).jobs == 0
        assert ledger.verify(session, dataset_id).ok


def test_a_job_on_destroyed_rows_fails_unpaid(house: House, analyst: Caller, job: str) -> None:
    """The dataset goes between the job's submission and its claim, behind the use case's back."""
    from app import ledger

    dataset = shown(analyst, job)["dataset"]
    with house.services.sessions.write() as session:
        ledger.amend(session, UUID(dataset), "destroy", {}, None)
    house.run(job)
    ended = shown(analyst, job)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "dataset_destroyed")
    assert kinds(house, dataset) == ["open", "reserve", "destroy", "void"]


def test_a_database_that_is_away_for_a_moment_loses_no_draw(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    stored, failures = running._stored, iter([True, True, False, True])

    def flaky(*arguments: Any) -> bool:
        if next(failures, False):
            raise OperationalError("INSERT", {}, Exception("disk full"))
        return stored(*arguments)

    sampler(monkeypatch, lambda *_: some_blocks(3))
    monkeypatch.setattr(running, "_stored", flaky)
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.01)
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    draws = analyst.get(f"/v1/jobs/{job}/chain").json()["draws"]
    assert np.array(draws).shape == (2, 60, 3)


def test_an_attempt_that_finds_no_database_is_left_to_the_next_one(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    def down(*_: Any) -> bool:
        raise OperationalError("INSERT", {}, Exception("disk full"))

    with monkeypatch.context() as patched:
        sampler(patched, lambda *_: some_blocks(3))
        patched.setattr(running, "_stored", down)
        patched.setattr(running, "RETRY_SECONDS", 0.01)
        patched.setattr(running, "PATIENCE_SECONDS", 0.05)
        house.run(job)
    assert shown(analyst, job)["status"] == "running"
    clock = Clock()
    recover(house, clock, Recovery(house.services, clock))
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"


def test_a_refused_reservation_leaves_no_job(house: House, analyst: Caller) -> None:
    body = job_of(house.dataset())
    body["privacy"]["epsilon"] = 5.0
    analyst.post("/v1/jobs", json=body)
    with house.services.sessions.read() as session:
        assert session.scalar(select(func.count()).select_from(JobRow)) == 0


def test_plans_and_refusals_never_open_rows(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: Any) -> None:
        raise AssertionError("rows were opened")

    dataset = house.dataset()
    monkeypatch.setattr(DatasetFiles, "load", opened)
    assert analyst.post("/v1/plans", json=job_of(dataset)).status_code == 200
    assert analyst.post("/v1/jobs", json=job_of(dataset)).status_code == 202


def test_an_unpaid_job_never_opens_rows(
    house: House, analyst: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app import ledger

    loads: list[Any] = []

    def refuse(*_: Any, **__: Any) -> None:
        raise ledger.LedgerError("no")

    monkeypatch.setattr(DatasetFiles, "load", lambda *_: loads.append(1))
    monkeypatch.setattr(ledger, "post", refuse)
    with pytest.raises(ledger.LedgerError):
        house.run(job)
    assert loads == []
    assert shown(analyst, job)["status"] == "queued"
