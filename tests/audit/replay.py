"""Forced transcripts: a mechanism runs on rows, and on neighbours with the same answers forced.

Draws, release and verdict must then be the same to the bit, whatever the replaced row was; and the
cells that it moved an answer by are at most the noise's scale over the multiplier that is charged.
How near the largest shift comes to that says whether the charge could be less.
"""

import itertools
import json
import math
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.local import table_of
from dpmcmc.fit.results import summary_and_verdict
from dpmcmc.fit.run import run
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner import Plan, event, noise_event, plan
from dpmcmc.planner.resolve import unit_rows_of
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.privacy.discrete_laplace import flip_share
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import (
    Compose,
    Event,
    Gaussian,
    Laplace,
    Parallel,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
    WithoutReplacement,
    of_units,
)
from dpmcmc.queries.tasks import TaskPlan, TaskSpec, answer_of, plan_task, run_task, verdict_of
from dpmcmc.queries.tasks.predictive_check import FittedModel
from dpmcmc.releases.reuse import Earlier
from tests.audit.requests import shortened
from tests.audit.transcript import (
    FLIPS,
    GAUSSIAN,
    LAPLACE,
    DifferentError,
    Door,
    Draw,
    standing,
)
from tests.sources import Seeded

Row = dict[str, Any]
CLOSE = 0.99  # of what is charged, that the largest shift of a mechanism must reach
MOST_ROWS, MOST_STEPS = (
    40,
    20,
)  # that replace one row; and of a chain: the noise of each is the same


@dataclass(frozen=True)
class Case:
    """A mechanism, rows, and what one of them may be replaced by.

    name: unique. mechanism: an algorithm or a kind of task. job: as it is asked for. tables: the
    rows that are tried. at: number of the row that is replaced. earlier: whether a whitening of
    these rows is used again. far: whether normals beside the noise are as far out as they count.
    fitted: what a check of a fit is given. With a privacy unit a slot may be None, where no row is,
    at is the number of a unit, and a replacement has the rows of one.
    """

    name: str
    mechanism: str
    schema: Schema
    job: JobSpec | TaskSpec
    tables: tuple[tuple[Row | None, ...], ...]
    replacements: tuple[Row | tuple[Row | None, ...], ...]
    at: int = 0
    earlier: bool = False
    far: bool = False
    fitted: FittedModel | None = None


@dataclass
class Replay:
    """What became of a case. shares: largest shift over what is charged, by place, and events: how
    many were looked at. faults: in words."""

    name: str
    mechanism: str
    shares: dict[str, float] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    runs: int = 0
    seconds: float = 0.0

    @property
    def largest(self) -> float:
        """Of all places."""
        return max(self.shares.values(), default=0.0)


class Far(Seeded):
    """Normals beyond what counts of them."""

    def normals(self, shape: tuple[int, ...]) -> Any:
        return np.where(super().normals(shape) < 0.0, -9.0, 9.0)


def replayed(case: Case) -> Replay:
    """Run a case on its rows and on all neighbours, with the answers of the first run."""
    began, found = time.monotonic(), Replay(case.name, case.mechanism)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what far out numbers overflow
            job = Job(case)
            for seed, rows in enumerate(case.tables):
                _replay(case, job, list(rows), seed + 1, found)
    except Exception as error:  # nothing of a plan or a run may raise on rows
        found.faults.append(f"raised {type(error).__name__}: {error}")
    found.seconds = time.monotonic() - began
    return found


def _replay(case: Case, job: "Job", rows: list[Row | None], seed: int, found: Replay) -> None:
    first, said, seen = None, None, []
    for row in case.replacements[:MOST_ROWS]:
        table = table_with(case, rows, row)
        door = Door(first)
        random = Far(seed) if case.far else Seeded(seed)
        try:
            with standing(door), np.errstate(all="ignore"):
                answer = job.answer(table, random)
        except DifferentError as different:
            found.faults.append(str(different))
            return
        answer.append(random.integers(1 << 60, (3,)).tobytes())  # as much was drawn
        found.runs += 1
        found.faults += [fault for fault in door.closed() if fault not in found.faults]
        if first is None:
            first, said = door.draws, answer
            found.faults += _of_charges(first, job.noise)
        elif answer != said:
            found.faults.append("what is released of neighbours differs though all answers agree")
        seen.append(door.draws)
    for together in zip(*seen, strict=True):
        share, count = _share(list(together), job.smooth)
        share /= job.times
        place = together[0].place
        found.shares[place] = max(found.shares.get(place, 0.0), share)
        found.events[place] = found.events.get(place, 0) + count
        if share > 1.0:
            found.faults.append(f"{place}: a row moves an answer by {share:.6g} of what is charged")


def _of_charges(draws: list[Draw], paid: Event) -> list[str]:
    """Compare what was drawn with what is charged: event by event the same."""
    charged, drawn = Counter(leaves(paid)), Counter[tuple[str, float]]()
    for draw in draws:
        drawn[draw.kind, draw.noise_multiplier] += int(draw.events.max(initial=-1)) + 1
    if drawn == charged:
        return []
    return [f"{dict(drawn - charged)} is drawn beyond what is charged, {dict(charged - drawn)} not"]


def leaves(paid: Event) -> dict[tuple[str, float], int]:
    """Return how often each kind of noise is charged, by its multiplier, all parts together."""
    match paid:
        case Repeat(event=inner, count=count):
            return {key: count * many for key, many in leaves(inner).items()}
        case Compose(events=events) | Parallel(events=events):
            return sum((Counter(leaves(inner)) for inner in events), Counter())
        case WithoutReplacement(event=inner):
            return leaves(inner)
        case Gaussian(noise_multiplier=z):
            return {(GAUSSIAN, z): 1}
        case Laplace(noise_multiplier=z):
            return {(LAPLACE, z): 1}
        case SmoothLaplace(epsilon=epsilon):
            return {(LAPLACE, 1.0 / epsilon): 1}
        case PureEpsilon(epsilon=epsilon):
            return {(FLIPS, 1.0 / epsilon): 1}
    raise ValueError("an event that no mechanism here has")


def _share(draws: list[Draw], smooth: float | None) -> tuple[float, int]:
    """Return the largest shift of an event between two of these runs over what is charged, and how
    many events there are. smooth: what the scale's logarithm may change by, where it may."""
    first = draws[0]
    count = int(first.events.max(initial=-1)) + 1
    z, worst = first.noise_multiplier, 0.0
    for one, other in itertools.combinations(draws, 2):
        moved = np.where(one.unseen, 0.0, np.abs(one.true - other.true).astype(np.float64))
        if first.kind == GAUSSIAN:
            sizes = np.sqrt(np.bincount(first.events, moved * moved, count))
            shares = z * sizes / math.sqrt(first.scale**2 - 16.0)
        elif first.kind == FLIPS:
            odds = (1.0 - flip_share(1.0 / z)) / flip_share(1.0 / z)
            shares = np.array([(moved != 0.0).sum() * math.log(odds) * z])
        elif smooth is not None:
            least = min(one.scale, other.scale)
            slowly = abs(math.log(one.scale / other.scale)) / smooth
            shares = np.array([2.0 * z * moved.sum() / least, slowly])
        else:
            size = np.bincount(first.events, moved, count)
            shares = z * np.where(size > 0.0, size + 2.0, 0.0) / first.scale
            if one.scale != other.scale:
                shares = np.array([math.inf])
        worst = max(worst, float(np.max(shares, initial=0.0)))
    return worst, count


def table_with(case: Case, rows: list[Row | None], row: Row | tuple[Row | None, ...]) -> Table:
    """Return these rows with one, or those of one unit, replaced."""
    size = case.schema.unit_rows
    new = row if isinstance(row, tuple) else (row,)
    new = (*new, *[None] * (size - len(new)))
    return _table(case.schema, [*rows[: size * case.at], *new, *rows[size * (case.at + 1) :]])


def _table(schema: Schema, rows: list[Row | None]) -> Table:
    if schema.unit_rows == 1:
        return table_of(schema, {c.name: [row[c.name] for row in rows] for c in schema.columns})
    some = next(row for row in rows if row is not None)
    table = _table(replace(schema, privacy_unit=None), [row or some for row in rows])
    return replace(table, present=np.array([row is not None for row in rows]))


class Job:
    """A planned job, and all that it releases of a table.

    event: what is charged. cost: of that. noise: the event that noise is drawn for, of rows where
    event is of units of `times` of them. white: whitening that it uses again. smooth: see _share.
    """

    def __init__(self, case: Case) -> None:
        self.case, self.smooth = case, None
        self.white: Any = None
        earlier: tuple[Earlier, ...] = ()
        if case.earlier:
            earlier = (self._whitened(case),)
        made = planned(case.schema, case.job, earlier)
        self._plan, self.spec, self.event, self.cost = made, made.spec, made.event, made.cost
        if isinstance(self.spec, JobSpec):
            self.spec = shortened(self.spec, MOST_STEPS)
            self.event = event(case.schema, self.spec)
        self.noise, self.times = self.event, 1
        if case.schema.unit_rows > 1 and isinstance(self.spec, JobSpec):
            self.noise = noise_event(case.schema, self.spec)
            self.times = unit_rows_of(case.schema, self.spec)
        elif case.schema.unit_rows > 1:
            self.noise, self.times = Gaussian(made.noise_multiplier), case.schema.unit_rows
        if of_units(self.noise, self.times) != self.event:
            raise ValueError("the noise of this job is not what its event says")
        if isinstance(self.event, SmoothLaplace):
            self.smooth = slowest(self.event)

    def answer(self, table: Table, random: Seeded) -> list[bytes]:
        """Return everything that leaves."""
        rows = Private(table, subject="replay")
        permit = Permit(subject="replay", event_digest=digest(self.event))
        schema, spec = self.case.schema, self.spec
        if isinstance(spec, TaskSpec):
            fitted = self.case.fitted
            blocks = [b.value for b in run_task(schema, spec, rows, permit, random, fitted)]
            first = blocks[0][0, 0]
            words = (
                json.dumps(answer_of(schema, spec, first)),
                repr(verdict_of(schema, spec, first)),
            )
            return [*(block.tobytes() for block in blocks), *(word.encode() for word in words)]
        running = run(schema, spec, rows, permit, random=random, whitening=self.white)
        draws = np.concatenate([block.value for block in running], axis=1)
        design, release = make_design(schema, spec.model.formula), None
        if running.stored is not None:
            release = StoredRelease(schema, spec, running.stored)
        kept = json.dumps(release.to_dict()) if release else ""
        verdict = repr(summary_and_verdict(design, spec, self._plan.parameters, draws, release))
        return [draws.tobytes(), kept.encode(), verdict.encode()]

    def _whitened(self, case: Case) -> Earlier:
        """Release a whitening of these rows, which is public from then on."""
        spec: Any = case.job
        spec = replace(spec, sampler=replace(spec.sampler, whitening=None))
        made: Any = planned(case.schema, spec)
        permit = Permit(subject="replay", event_digest=digest(made.event))
        rows = Private(_table(case.schema, list(case.tables[0])), subject="replay")
        running = run(case.schema, made.spec, rows, permit, random=Seeded(3))
        list(running)
        release = StoredRelease(case.schema, made.spec, running.stored)
        self.white = release.whitening(make_design(case.schema, spec.model.formula))
        return Earlier(spec_name(case.job), spec.model.formula, made.noise_multiplier)


def spec_name(job: Any) -> str:
    """Return the name by which a job calls the whitening that it uses again."""
    return str(job.sampler.whitening)


def planned(
    schema: Schema, job: JobSpec | TaskSpec, earlier: tuple[Earlier, ...] = ()
) -> Plan | TaskPlan:
    """Return a job or a task with nothing left open. Raises SpecError.

    Releases go on to their end: where they stop, test_own_noise holds their draws to what they say.
    """
    if isinstance(job, TaskSpec):
        return plan_task(schema, job)
    return plan(schema, replace(job, spend="all"), advise=False, earlier=earlier)


def slowest(happens: SmoothLaplace) -> float:
    """Return the largest b that docs/proofs/smooth_laplace.md allows."""
    half, width = 0.5 * happens.epsilon, math.log(1.0 / happens.delta)

    def excess(b: float) -> float:
        return width * math.expm1(b) - b - half

    return half if excess(half) <= 0.0 else float(brentq(excess, 0.0, half, xtol=1e-15))
