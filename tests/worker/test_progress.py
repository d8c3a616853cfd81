"""Progress says what is expected by now, and nothing of what a run has done."""

import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.storage.rows import JobRow
from dpmcmc import planner
from dpmcmc.base.private import Released
from tests.api.support import House, draw_with
from worker import heartbeat
from worker.heartbeat import scheduled

NUM_BLOCKS, LENGTH = 5, 12


def test_progress_is_a_schedule() -> None:
    assert [scheduled(seconds, 10.0, 1000) for seconds in (0.0, 1.0, 5.0)] == [0, 95, 475]
    assert scheduled(10.0, 10.0, 1000) == scheduled(1e9, 10.0, 1000) == 950


@pytest.mark.longer
@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_progress_of_a_running_job_does_not_depend_on_what_it_has_done(
    house: House, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    """Whether no block was stored or some of them: the same is shown at the same time."""
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    reached, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(planner, "expected_seconds", lambda *_: 1e9)
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.02)

    def fake(*_: Any) -> Iterator[Released[Any]]:
        for block in range(NUM_BLOCKS):
            if block == blocks:
                reached.set()
                go_on.wait(30)
            yield Released(np.zeros((2, LENGTH, 3)))

    draw_with(monkeypatch, fake)
    worker = threading.Thread(target=house.run, args=(job,))
    worker.start()
    try:
        assert reached.wait(30)
        time.sleep(0.2)  # some heartbeats
        with house.services.sessions.read() as session:
            row = session.get_one(JobRow, UUID(job))
            assert (row.status, row.progress_step) == ("running", 0)
        assert analyst.get(f"/v1/jobs/{job}").json()["progress"]["step"] == 0
    finally:
        go_on.set()
        worker.join()
    shown = analyst.get(f"/v1/jobs/{job}").json()
    assert shown["status"] == "succeeded"
    assert shown["progress"] == {"step": NUM_BLOCKS * LENGTH, "of": NUM_BLOCKS * LENGTH}


def test_progress_moves_while_a_job_runs(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock: half of the expected time shows nearly half of the steps."""
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    monkeypatch.setattr(planner, "expected_seconds", lambda *_: 0.2)
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.02)
    seen: list[int] = []

    def fake(*_: Any) -> Iterator[Released[Any]]:
        deadline = time.monotonic() + 30
        while not (seen and seen[-1] == 57) and time.monotonic() < deadline:
            time.sleep(0.02)
            seen.append(analyst.get(f"/v1/jobs/{job}").json()["progress"]["step"])
        yield Released(np.zeros((2, NUM_BLOCKS * LENGTH, 3)))

    draw_with(monkeypatch, fake)
    house.run(job)
    assert seen == sorted(seen)
    assert seen[-1] == 57
