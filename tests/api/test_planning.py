"""Planning apart: a time limit that ends the work, turns, and nothing held meanwhile."""

import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from app.services.errors import Refusal
from app.services.planning import processes
from app.services.planning.process import STOP_SIGNAL
from app.services.planning.processes import Planners
from tests.api.support import PLANNERS, House, job_of

PATIENCE = 60.0


@pytest.fixture
def planners() -> Iterator[Planners]:
    made = Planners(1, 1.0)
    assert made.ask("warm", math.sqrt, 4.0).answer.result(PATIENCE) == 2.0
    yield made
    made.close()


def gone(pid: int) -> bool:
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()


def process_of(planners: Planners) -> int:
    return int(planners.ask("b", os.getpid, keep=False).answer.result(PATIENCE))


def test_work_that_takes_too_long_stops_and_its_process_goes_on(planners: Planners) -> None:
    process = process_of(planners)
    slow = planners.ask("a", time.sleep, 600.0)
    with pytest.raises(Refusal) as refused:
        slow.answer.result(PATIENCE)
    assert (refused.value.status, refused.value.code) == (422, "too_long_to_plan")
    assert planners.ask("a", math.sqrt, 9.0).answer.result(PATIENCE) == 3.0
    assert process_of(planners) == process


def test_work_stops_when_nobody_waits_for_it_and_its_process_goes_on(planners: Planners) -> None:
    process = process_of(planners)
    for number in range(20):  # under way, waiting, or just done
        left = [planners.ask("a", time.sleep, 0.9 + n + 3 * number) for n in range(2)]
        left.append(planners.ask("a", math.sqrt, 2.0 + number))
        time.sleep(0.01 * number)
        for ticket in left:
            ticket.leave()
    assert planners.ask("b", math.sqrt, 16.0).answer.result(PATIENCE) == 4.0
    assert process_of(planners) == process


@pytest.mark.longer
def test_work_that_does_not_stop_ends_with_its_process(
    planners: Planners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.2)
    process = process_of(planners)
    deaf = planners.ask("a", signal.pthread_sigmask, signal.SIG_BLOCK, {STOP_SIGNAL})
    deaf.answer.result(PATIENCE)
    slow = planners.ask("a", time.sleep, 600.0)
    time.sleep(0.2)
    slow.leave()
    assert gone(process)
    assert planners.ask("b", math.sqrt, 16.0).answer.result(PATIENCE) == 4.0


def test_what_was_left_takes_no_room_and_nobody_takes_all_of_it() -> None:
    made = Planners(1, PATIENCE, of_caller=3)
    try:
        blocker = made.ask("blocker", time.sleep, 30.0)
        time.sleep(0.2)
        for number in range(50):
            made.ask("hasty", math.sqrt, 1.0 + number).leave()
        many = [made.ask("many", math.sqrt, 100.0 + n) for n in range(3)]
        with pytest.raises(Refusal) as refused:
            made.ask("many", math.sqrt, 200.0)
        assert (refused.value.status, refused.value.code) == (429, "too_many_plans")
        other = made.ask("other", math.sqrt, 4.0)
        blocker.leave()
        assert other.answer.result(PATIENCE) == 2.0
        assert [one.answer.result(PATIENCE) for one in many] == [
            math.sqrt(100.0 + n) for n in range(3)
        ]
    finally:
        made.close()


def test_the_same_request_waits_for_the_same_work() -> None:
    made = Planners(1, PATIENCE, of_caller=1)
    try:
        blocker = made.ask("blocker", time.sleep, 30.0)
        time.sleep(0.2)
        same = [made.ask("a", math.sqrt, 49.0) for _ in range(8)]
        assert len({id(ticket) for ticket in same}) == 1
        for ticket in same[1:]:
            ticket.leave()  # one request still waits
        with pytest.raises(Refusal):
            made.ask("a", math.sqrt, 64.0)
        same[0].leave()  # now none does
        again = made.ask("a", math.sqrt, 49.0)
        assert again is not same[0]
        blocker.leave()
        assert again.answer.result(PATIENCE) == 7.0
        assert made.ask("b", math.sqrt, 49.0) is not again  # what another asks is told to nobody
    finally:
        made.close()


def test_callers_take_turns(planners: Planners) -> None:
    order: list[str] = []
    done = threading.Event()

    def ask(caller: str, number: int) -> None:
        ticket = planners.ask(caller, time.sleep, 0.05 + number / 1000)
        ticket.answer.add_done_callback(lambda _: order.append(caller))
        ticket.answer.add_done_callback(lambda _: done.set() if len(order) == 8 else None)

    for number in range(7):
        ask("many", number)
    ask("one", 8)
    assert done.wait(PATIENCE)
    assert "one" in order[:3]


def test_no_more_than_so_much_waits(planners: Planners, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_WAITING", 2)
    planners.ask("a", time.sleep, 0.7)
    time.sleep(0.2)
    for number in range(2):
        planners.ask("a", time.sleep, 0.01 + number)
    with pytest.raises(Refusal) as refused:
        planners.ask("b", math.sqrt, 2.0)
    assert refused.value.status == 503


def test_closing_ends_what_is_under_way(planners: Planners) -> None:
    process = planners.ask("a", os.getpid).answer.result(PATIENCE)
    under_way, waiting = (planners.ask("a", time.sleep, 600.0 + n) for n in range(2))
    began = time.monotonic()
    planners.close()
    assert time.monotonic() - began < 5.0
    assert gone(process)
    for ticket in (under_way, waiting):
        with pytest.raises(Refusal):
            ticket.answer.result(PATIENCE)


def test_a_process_that_fails_is_no_answer_and_no_end(planners: Planners) -> None:
    for function, given in ((os._exit, 3), (math.sqrt, -1.0)):
        with pytest.raises(Refusal) as refused:
            planners.ask("a", function, given).answer.result(PATIENCE)
        assert refused.value.status == 503
    assert planners.ask("a", math.sqrt, 25.0).answer.result(PATIENCE) == 5.0


def test_a_process_that_dies_while_it_loads_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed, or not to be started at all: who asks later is answered all the same."""
    whole = processes.sys.executable
    for broken in ("/bin/false", "/no/such/program"):
        monkeypatch.setattr(processes.sys, "executable", broken)
        own = Planners(1, 5.0)
        try:
            own.start()
            with pytest.raises(Refusal) as refused:
                own.ask("a", math.sqrt, 4.0).answer.result(PATIENCE)
            assert refused.value.status == 503
            monkeypatch.setattr(processes.sys, "executable", whole)
            assert own.ask("a", math.sqrt, 4.0).answer.result(PATIENCE) == 2.0
        finally:
            own.close()


def test_planners_share_the_session_within_which_they_give_way(planners: Planners) -> None:
    assert planners.ask("a", os.getsid, 0).answer.result(PATIENCE) == os.getsid(0)
    assert planners.ask("a", os.getpgid, 0).answer.result(PATIENCE) != os.getpgid(0)


def test_planners_know_none_of_the_services_secrets(
    planners: Planners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPMCMC_ADMIN_KEY", "secret")
    monkeypatch.setenv("DATABASE_URL_FILE", "secret")
    own = Planners(1, 5.0)
    try:
        assert own.ask("a", os.getenv, "DPMCMC_ADMIN_KEY").answer.result(PATIENCE) is None
        assert own.ask("a", os.getenv, "DATABASE_URL_FILE").answer.result(PATIENCE) is None
        assert own.ask("a", os.getenv, "OMP_NUM_THREADS").answer.result(PATIENCE) == "1"
    finally:
        own.close()


def test_a_plan_parses_no_formula_in_the_service_itself(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser takes seconds to load, and whoever asks the service meanwhile would wait."""

    def parsed(*_: object) -> None:
        raise AssertionError

    dataset, analyst = house.dataset(), house.user("analyst")
    monkeypatch.setattr("app.services.jobs.kinds.chains.make_design", parsed)
    assert analyst.post("/v1/plans", json=job_of(dataset)).status_code == 200


@pytest.mark.longer
def test_plans_under_way_hold_no_connection_and_no_thread(house: House) -> None:
    """More plans than there are connections or threads wait; others are served meanwhile."""
    dataset, analyst = house.dataset(), house.user("analyst")
    assert analyst.post("/v1/plans", json=job_of(dataset)).status_code == 200
    PLANNERS.ask("blocker", time.sleep, 4.0)
    pools = [house.services.sessions.engine.pool, house.services.sessions._reader.pool]
    with ThreadPoolExecutor(50) as crowd:
        plans = [
            crowd.submit(analyst.post, "/v1/plans", json=job_of(dataset, num_steps=100 + n))
            for n in range(50)
        ]
        time.sleep(1.5)
        assert not any(plan.done() for plan in plans)
        assert [pool.checkedout() for pool in pools] == [0, 0]  # type: ignore[attr-defined]
        began = time.monotonic()
        assert analyst.get("/v1/jobs").status_code == 200
        assert time.monotonic() - began < 1.5
        assert {plan.result().status_code for plan in plans} == {200}


def test_what_is_quick_never_waits_for_what_is_not() -> None:
    made = Planners(2, 2 * PATIENCE)
    try:
        for quick in (True, False):  # both processes have started
            warm = made.ask("warm", math.sqrt, 4.0 + quick, quick=quick)
            warm.answer.result(PATIENCE)
        slow = [made.ask(f"slow {n}", time.sleep, 600.0 + n) for n in range(8)]
        for n in range(3):
            quick_one = made.ask("quick", math.sqrt, 25.0 + n, quick=True)
            assert wait([quick_one.answer], PATIENCE).done
        assert not any(ticket.answer.done() for ticket in slow)
    finally:
        made.close()


def test_one_planner_alone_takes_quick_work_and_other_by_turns() -> None:
    made = Planners(1, PATIENCE)
    try:
        order: list[bool] = []
        asked = [made.ask(f"{n}", time.sleep, 0.01 + n / 1000, quick=n >= 4) for n in range(8)]
        for ticket in asked:
            ticket.answer.add_done_callback(
                lambda _, quick=ticket.quick: order.append(quick)  # type: ignore[misc]
            )
        for ticket in asked:
            ticket.answer.result(PATIENCE)
        assert all(before != after for before, after in itertools.pairwise(order))
    finally:
        made.close()
