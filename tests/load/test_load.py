"""The load test misses where it should."""

import json
import math

import pytest

from tests.load.crowded import MOST_MS, calls, quantile
from tests.load.hostile import ATTACKS
from tests.load.mix import Record, told
from tests.load.probe import HEALTH
from tests.load.report import Line


def record(**of: float) -> Record:
    made = Record()
    for name in MOST_MS:
        made.taken[name] = [1.0] * 99
    made.attacks = {name: {"429": 1} for name in ATTACKS}
    for name, last in of.items():
        made.taken[{"health": HEALTH}[name]] += [last, last]
    return made


def missed(found: Record) -> list[str]:
    return [line.name for line in calls(found) if not line.passed]


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_quantile_is_a_value_that_was_seen(share: float, value: float) -> None:
    assert quantile([float(n) for n in range(100, 0, -1)], share) == value


def test_what_is_quick_enough_passes() -> None:
    assert missed(record()) == []


def test_one_late_answer_in_fifty_is_a_miss() -> None:
    assert missed(record(health=MOST_MS[HEALTH] + 1)) == [f"{HEALTH}, p99"]


def test_a_call_that_nobody_made_is_a_miss() -> None:
    found = record()
    del found.taken[HEALTH]
    assert missed(found) == [f"{HEALTH}, p99"]


def test_answers_that_should_not_come_and_jobs_that_fail_are_misses() -> None:
    found = record()
    found.odd["POST jobs: 500 internal"] += 1
    found.ended["failed"] += 1
    assert missed(found) == ["odd answers", "jobs that ended otherwise"]


def test_an_attack_that_was_not_made_is_a_miss() -> None:
    found = record()
    found.attacks["free posteriors"] = {}
    assert missed(found) == ["attacks that were not made"]


def test_a_line_without_an_aim_only_tells() -> None:
    assert Line("x", math.inf, None, "ms").passed
    assert "MISSED" in str(Line("x", 2.0, 1.0, "ms"))


def test_the_last_event_of_a_job_tells_its_status() -> None:
    ended = {"status": "succeeded", "verdict": {"reasons": []}}
    assert told(f"data: {json.dumps(ended)}") == "succeeded"
    assert told('data: {"step": 1, "of": 2}') == ""
    assert told("event: status") == ""
