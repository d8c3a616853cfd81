"""No analyst starves the others, in whatever order the broker delivers."""

import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import event

from app.services.jobs.kinds import chains
from dpmcmc.base.private import Released
from tests.api.support import House, draw_with
from worker.scheduler import run_next, whose_turn


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws that cost no time."""

    def draws(*_: Any) -> Iterator[Released[Any]]:
        yield Released(np.random.default_rng(1).normal(size=(2, 60, 3)))

    draw_with(monkeypatch, draws)


def test_an_analyst_with_one_job_does_not_wait_for_another_ones_many(house: House) -> None:
    dataset = house.dataset()
    many, one = house.user("analyst"), house.user("analyst")
    crowd = [house.submit(many, dataset) for _ in range(6)]
    lone = house.submit(one, dataset)
    ran = [str(run_next(house.services, UUID(job))) for job in [*crowd, lone]]
    assert ran[:3] == [crowd[0], lone, crowd[1]]
    assert sorted(ran) == sorted([*crowd, lone])


def test_a_free_slot_goes_to_whoever_has_the_fewest_running(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset()
    many, one = house.user("analyst"), house.user("analyst")
    crowd = [house.submit(many, dataset) for _ in range(3)]
    begun, go_on = threading.Event(), threading.Event()
    draws = chains.run

    def held(*arguments: Any) -> Iterator[Released[Any]]:
        begun.set()
        assert go_on.wait(30)
        yield from draws(*arguments)

    with monkeypatch.context() as patched:
        draw_with(patched, held)
        worker = threading.Thread(target=run_next, args=(house.services, UUID(crowd[0])))
        worker.start()
        assert begun.wait(30)
    lone = [house.submit(one, dataset) for _ in range(2)]
    ran = [str(run_next(house.services, UUID(job))) for job in crowd[1:]]
    go_on.set()
    worker.join()
    assert ran == lone  # two in a row: the other analyst's first still runs


def test_messages_that_come_twice_run_nothing_twice(house: House) -> None:
    dataset, analyst = house.dataset(), house.user("analyst")
    job = house.submit(analyst, dataset)
    assert str(run_next(house.services, UUID(job))) == job
    assert run_next(house.services, UUID(job)) is None


def test_workers_at_once_share_the_waiting_jobs_out(house: House) -> None:
    dataset = house.dataset()
    jobs = [house.submit(house.user("analyst"), dataset) for _ in range(6)]
    ran: list[str] = []
    threads = [
        threading.Thread(target=lambda hint=hint: ran.append(str(run_next(house.services, hint))))
        for hint in map(UUID, jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ran) == sorted(jobs)


def test_whose_turn_it_is_costs_no_scan_of_jobs(house: House) -> None:
    """The statement of SQLite's planner, which needs no statistics to tell."""
    seen: list[tuple[str, Any]] = []
    with house.services.sessions.read() as session:
        connection = session.connection()
        if connection.dialect.name != "sqlite":
            pytest.skip("PostgreSQL scans tables that are this small")
        event.listen(
            connection, "before_cursor_execute", lambda *told: seen.append((told[2], told[3]))
        )
        assert whose_turn(session, house.settings.max_attempts, 1) is None
        statement, values = seen[0]
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
    steps = [str(step[3]) for step in plan]
    assert any("ix_jobs_status_user_id_created_at_id" in step for step in steps)
    assert not [step for step in steps if step.startswith("SCAN jobs")]


def test_one_analysts_jobs_never_fill_every_place(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two places one is left for others; the job that waits for it is told of when one is free.

    Messages of both jobs come at the same moment, as workers that are all free take them.
    """
    dataset = house.dataset()
    greedy, other = house.user("analyst"), house.user("analyst")
    jobs = [house.submit(greedy, dataset) for _ in range(4)]
    assert house.services.settings.running_of_user == 1
    begun, go_on = threading.Event(), threading.Event()
    draws = chains.run

    def held(*arguments: Any) -> Iterator[Released[Any]]:
        begun.set()
        assert go_on.wait(60)
        yield from draws(*arguments)

    ran: list[UUID | None] = []
    with monkeypatch.context() as patched:
        draw_with(patched, held)
        workers = [
            threading.Thread(target=lambda hint=hint: ran.append(run_next(house.services, hint)))
            for hint in map(UUID, jobs)
        ]
        for worker in workers:
            worker.start()
        assert begun.wait(60)
        for worker in workers[:]:
            worker.join(1.0)
        assert ran == [None] * 3
    lone = house.submit(other, dataset)
    assert str(run_next(house.services, UUID(lone))) == lone
    house.sent.clear()
    go_on.set()
    for worker in workers:
        worker.join()
    (first,) = {str(one) for one in ran if one}
    assert house.sent  # nobody else would tell a worker of the jobs that wait
    assert str(house.sent[0]) in set(jobs) - {first}
