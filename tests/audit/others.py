"""Attacks on what is no chain: tasks, single statistics, the rows of one of several holders, and a
whitening that is used again. An attacker sees all numbers that leave.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.run import run
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.privacy.accountant import all_gaussian
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.queries.synthetic import call as synthesising
from dpmcmc.queries.tasks import TASKS, TaskSpec, run_task
from dpmcmc.queries.tasks.synthetic import SyntheticTask
from tests.audit import attacks, replay_cases
from tests.audit.bounds import CONFIDENCE, Claim, errors
from tests.audit.cells import Cell, best_score, signed
from tests.audit.replay import Case, Job, Row, table_with

MOST_NUMBERS = 40  # that an attack looks at
MOST_SECONDS, LEAST_TRIALS = 10.0, 400  # of an attack; of each dataset
PILOT = 30  # trials by which the rows beside are chosen
WANTED = (
    "sufficient_statistics, linear",
    "sufficient_statistics, holders, row 15",
    "dp_vi, linear",
    "noisy_quadratic, linear",
    "noisy_quadratic, a whitening again",
    "describe, 1 statistics",
    "describe, 4 statistics",
    "synthesise",
    "batch of power 1, gaussian, epsilon 4",
    "sequential of power 1, gaussian, epsilon 4",
    "batch of power 1, laplace, epsilon 4",
    "sequential of power 1, laplace, epsilon 4",
    "median of power 1, smooth_laplace, epsilon 4",
    "maximum of power 1, smooth_laplace, epsilon 4",
    "randomised_response, epsilon 4",
    "two_stages, laplace",
    "check_fit, poisson",
    "check_fit, logistic",
)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables of a case, as cells.Candidate has them."""

    case: Case
    pair: tuple[Row, Row]
    beside: tuple[Row, ...]

    @property
    def request(self) -> "Pair":
        """What is asked for: itself."""
        return self

    def as_json(self) -> str:
        """Return all that it takes to see it again: the case of this name, its schema and job."""
        return json.dumps({"case": self.case.name, "job": repr(self.case.job)})


def wanted() -> Iterator[Case]:
    """Return the cases that are attacked."""
    for case in replay_cases.cases(quick=True):
        if case.name in WANTED:
            yield case


def numbers_of(job: Job, table: Table, count: int) -> np.ndarray:
    """Return (trial, number) of `count` releases."""
    random, spec = SystemRandom(), job.spec
    rows = Private(table, subject="audit")
    paid = digest(job.event)
    permits = (Permit(subject="audit", event_digest=paid) for _ in range(count))
    return np.array([_numbers(job, spec, rows, permit, random) for permit in permits])


def _numbers(job: Job, spec: Any, rows: Any, permit: Permit, random: Any) -> np.ndarray:
    schema = job.case.schema
    if isinstance(spec, JobSpec):
        running = run(schema, spec, rows, permit, random=random, whitening=job.white)
        draws = np.concatenate([block.value for block in running], axis=1)
        kept = [] if running.stored is None else list(_flat(running.stored.to_dict()))
        means = [*draws.mean(axis=(0, 1)), *np.log(np.maximum(draws.std(axis=(0, 1)), 1e-300))]
        return np.nan_to_num(np.array([*means, *kept[:MOST_NUMBERS]], np.float64))
    if isinstance(spec.task, SyntheticTask):  # the tables are drawn from its counts
        plan: Any = TASKS[SyntheticTask](schema, spec.task, spec.privacy)
        return synthesising.release(plan.plan, rows, permit, random)[:MOST_NUMBERS]
    task, fitted = TaskSpec(task=spec.task, privacy=spec.privacy), job.case.fitted
    first = next(run_task(schema, task, rows, permit, fitted=fitted))
    return first.value[0, 0, :MOST_NUMBERS]


def _flat(told: Any) -> Iterator[float]:
    """Return the numbers of a stored release, by name."""
    if isinstance(told, dict):
        for _, part in sorted(told.items()):
            yield from _flat(part)
    elif isinstance(told, list | tuple):
        for part in told:
            yield from _flat(part)
    elif isinstance(told, int | float) and not isinstance(told, bool):
        yield float(told)


def affordable(job: Job, table: Table, count: int) -> int:
    """Return as many trials as were asked for, or fewer that take MOST_SECONDS together."""
    numbers_of(job, table, 1)  # what is loaded once
    began = time.process_time()
    numbers_of(job, table, 5)
    each = (time.process_time() - began) / 5
    return max(min(count, int(0.5 * MOST_SECONDS / max(each, 1e-9))), LEAST_TRIALS)


def _apart(job: Job, rows: list[Row], ends: tuple[Row, Row]) -> float:
    """Return by how many sds some number differs on average, on few trials."""
    both = [numbers_of(job, table_with(job.case, rows, end), PILOT) for end in ends]
    sds = np.maximum(np.hypot(*(one.std(axis=0) for one in both)), 1e-300)
    return float((np.abs(both[0].mean(axis=0) - both[1].mean(axis=0)) / sds).max())


def attacked_case(case: Case, count: int) -> Cell:
    """Attack a case: learn on one half of the trials, count errors on the other."""
    began, job = time.monotonic(), Job(case)
    last = min(len(replay_cases.corners(case.schema)), len(case.replacements)) - 1
    ends = case.replacements[0], case.replacements[last]
    rows = max((list(table) for table in case.tables), key=lambda some: _apart(job, some, ends))
    count = affordable(job, table_with(case, rows, ends[0]), count)
    zeros, ones = (numbers_of(job, table_with(case, rows, end), count) for end in ends)
    mu = job.cost.mu if all_gaussian(job.event) else None
    claim = Claim(job.cost.epsilon, job.cost.delta, mu)
    half = count // 2
    scores = attacks.learned(zeros[:half], ones[:half])
    name, threshold, _ = best_score(scores, zeros[:half], ones[:half], claim)
    score = signed(scores, name)
    others = tuple(row for k, row in enumerate(rows) if k != case.at)
    cell = Cell(case.name, "", 0, Pair(case, ends, others), claim, name)  # type: ignore[arg-type]
    cell.counts = errors(score(zeros[half:]), score(ones[half:]), threshold)
    cell.lower = cell.counts.bound(claim, 1.0 - CONFIDENCE)
    cell.trial, cell.seconds = "release", time.monotonic() - began
    return cell
