"""Jobs that draw from a posterior, and the reuse of paid whitenings.

A released value belongs to the analyst whose job released it: another's job is not even named.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Self
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import bindparam, exists, func, select
from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.errors import Fault
from app.services.jobs.kinds.base import (
    BASE_BYTES,
    ROW_NUMBERS,
    Attempt,
    Blocks,
    Drawn,
    Json,
    Opened,
    PaidJob,
    Shown,
    UnrunnableError,
    Work,
)
from app.storage.rows import JobRow, ReleaseRow
from dpmcmc import planner
from dpmcmc.base.errors import SpecError
from dpmcmc.families import parameters_of
from dpmcmc.fit.results import attributes_of, summary_and_verdict
from dpmcmc.fit.run import Run, run
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import FRESH, AutoOptions, NoisyQuadraticOptions
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner.resolve import of_full_data
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.posterior.units import Scale, in_units
from dpmcmc.privacy.events import Event, Gaussian, Repeat, WithoutReplacement
from dpmcmc.releases.reuse import Earlier, whitened_at
from dpmcmc.releases.whitening import Whitening
from dpmcmc.samplers.algorithms import OPTIONS

_SPEC, _SAMPLER = TypeAdapter(JobSpec), TypeAdapter(OPTIONS)
DRAW_COPIES = 3
STREAMED_ROWS = 2**16  # chunks of a file, and blocks of a design with what is made of them
LEAST_COST = 1e9  # noise multiplier of a step that costs next to nothing
MOST = 100  # jobs that are looked through for a whitening, newest first
_NEWEST = (
    select(JobRow.id, JobRow.created_at, JobRow.resolved)
    .where(
        JobRow.user_id == bindparam("analyst"),
        JobRow.dataset_id == bindparam("dataset"),
        JobRow.status == "succeeded",
        exists().where(ReleaseRow.job_id == JobRow.id),
    )
    .order_by(JobRow.created_at.desc(), JobRow.id)
    .limit(MOST)
    .subquery()
)
# most jobs use a whitening again: the database leaves them out, and only the specs
# of those that paid for one are read
_PAYERS = (
    select(_NEWEST.c.id, _NEWEST.c.resolved)
    .where(
        _NEWEST.c.resolved["sampler", "algorithm"].as_string() == NoisyQuadraticOptions().algorithm,
        func.coalesce(_NEWEST.c.resolved["sampler", "whitening"].as_string(), FRESH) == FRESH,
        func.coalesce(_NEWEST.c.resolved["dry_run"].as_string(), "") == "",  # of no data
    )
    .order_by(_NEWEST.c.created_at.desc(), _NEWEST.c.id)
)


@dataclass(frozen=True, slots=True)
class ChainJob(PaidJob):
    """A model, a sampler or release, and a budget."""

    kind = "chain"
    member = "model"
    too_many = Fault("/sampler/num_steps", "Chains x steps x parameters is above the limit.")
    too_wide = Fault("/dataset", "Rows x columns need more memory than a worker may take.")
    unbounded = Fault(
        "/sampler/algorithm",
        "The dataset's promise does not bound this sampler's cost: it takes a dataset whose"
        " privacy.branches has an rdp order that does. Samplers of full data need none.",
    )

    spec: JobSpec

    @classmethod
    def read(cls, stored: Json) -> Self:
        """Return the job of a stored spec. Raises ValidationError."""
        others = {name: value for name, value in stored.items() if name != "sampler"}
        sampler = _SAMPLER.validate_python(stored["sampler"])
        return cls(replace(_SPEC.validate_python(others), sampler=sampler))

    def hashed(self) -> Json:
        """Return the spec as hashed for idempotency, as earlier versions wrote it."""
        body = self.as_json()
        for name in ("dispersion", "degrees_of_freedom"):
            if body["model"]["options"][name] is None:
                del body["model"]["options"][name]
        for name in ("whitening", "estimand", "rounds"):  # as before there were such options
            if body["sampler"].get(name, "") is None:
                del body["sampler"][name]
        if body["privacy"]["max_rows"] is None:
            del body["privacy"]["max_rows"]
        if body["spend"] == JobSpec.__dataclass_fields__["spend"].default:
            del body["spend"]
        if body["sampler"].get("start", "") is None:  # as what it took the place of was called
            body["sampler"]["warm_start"] = body["sampler"].pop("start")
        return body

    @property
    def quick(self) -> bool:
        """Return whether planning is fast: all options are left to the planner."""
        return isinstance(self.spec.sampler, AutoOptions)

    def least_event(self, rows: int) -> Event | None:
        """Return the cheapest event: one step on a secret minibatch."""
        if of_full_data(self.spec.sampler):
            return None
        return Repeat(WithoutReplacement(Gaussian(LEAST_COST), 2, max(2, rows)), 1)

    def facts(self, session: Session, caller: Caller, dataset_id: UUID) -> tuple[Earlier, ...]:
        """Return the caller's succeeded jobs with a paid whitening, newest first.

        One that failed or was cancelled has shown nothing: a payment has one release.
        """
        of_caller = {"analyst": caller.id, "dataset": dataset_id}
        payers = session.execute(_PAYERS, of_caller).all()
        specs = [(str(job_id), ChainJob.read(stored).spec) for job_id, stored in payers]
        return tuple(
            Earlier(name, spec.model.formula, whitened_at(spec))
            for name, spec in specs
            if isinstance(spec.sampler, NoisyQuadraticOptions)
            and not spec.sampler.paid
            and spec.privacy.max_rows == self.spec.privacy.max_rows
        )

    def plan(self, schema: Schema, facts: Sequence[Earlier], *, advise: bool) -> planner.Plan:
        """Return its plan. facts: releases with reusable whitenings. Raises SpecError."""
        return planner.plan(schema, self.spec, advise=advise, earlier=facts)

    def settled(self, plan: planner.Plan) -> Self:
        """Return the job with all options filled in by a plan."""
        return type(self)(plan.spec)

    def numbers(self, plan: planner.Plan) -> int:
        """Return how many numbers the draws are, warm-up included."""
        return plan.num_steps * plan.num_chains * len(plan.parameters)

    def memory_bytes(self, schema: Schema, plan: planner.Plan) -> int:
        """Return the peak memory of a process that runs it.

        Eight bytes for every value, in the dataset's columns and twice in the model's (in blocks,
        and as made or, later, in the coordinates of a released covariance); ROW_NUMBERS and two
        numbers a chain for every row; the draws, and what a summary needs; and BASE_BYTES. Of rows
        that are read anew at every pass, for STREAMED_ROWS alone.
        """
        widths = len(schema.columns) + 2 * len(plan.parameters) + 2 * plan.num_chains
        held = STREAMED_ROWS if self.streams(plan) else schema.rows
        numbers = held * (widths + ROW_NUMBERS) + DRAW_COPIES * self.numbers(plan)
        return BASE_BYTES + 8 * numbers

    def streams(self, plan: planner.Plan) -> bool:
        """Return whether the run reads rows again at every pass."""
        return plan.streams

    def columns(self, plan: planner.Plan) -> Sequence[str]:
        """Return the covariates."""
        return plan.covariates

    def shortfall(self, schema: Schema, plan: planner.Plan) -> tuple[str, float | None]:
        """Return the expected quality of an unusable plan, and an epsilon that would suffice."""
        return planner.shortfall(schema, plan, self.spec)

    def work(self, session: Session, schema: Schema) -> Work:
        """Return the job ready to run. Raises UnrunnableError where its whitening is missing."""
        return _ChainWork(schema, self.spec, self._whitening(session, schema))

    def _whitening(self, session: Session, schema: Schema) -> Whitening | None:
        """Return the named whitening, for the job's columns. Raises UnrunnableError."""
        options = self.spec.sampler
        if not isinstance(options, NoisyQuadraticOptions) or not options.paid:
            return None
        name = UUID(options.whitening)
        job, kept = session.get(JobRow, name), session.get(ReleaseRow, name)
        if job is None or kept is None:
            raise UnrunnableError("whitening_gone")
        release = StoredRelease.read(schema, ChainJob.read(job.resolved).spec, kept.content)
        try:
            return release.whitening(make_design(schema, self.spec.model.formula))
        except SpecError as error:
            raise UnrunnableError("whitening_gone") from error

    def shown(self, schema: Schema, cost: planner.Cost, scale: Scale) -> Shown:
        """Return how its blocks are shown as a chain."""
        parameters = parameters_of(schema, self.spec.model)
        design = make_design(schema, self.spec.model.formula)
        return Shown(
            parameters,
            self.spec.sampler.num_warmup or 0,
            partial(in_units, design, parameters, scale=scale),
            attributes_of(self.spec, cost, schema),
        )


class _ChainWork(Work):
    """A running chain job. whitening: the reused one."""

    def __init__(self, schema: Schema, spec: JobSpec, whitening: Whitening | None) -> None:
        self._schema, self._spec, self._whitening = schema, spec, whitening
        self._run: Run | None = None

    @property
    def seconds(self) -> float:
        """Return the expected run time of the chains in seconds."""
        return planner.expected_seconds(self._schema, self._spec)

    def blocks(self, opened: Opened) -> Blocks:
        """Return the draws, block by block."""
        self._run = run(self._schema, self._spec, *opened(), whitening=self._whitening)
        return self._run

    @property
    def _release(self) -> StoredRelease | None:
        """Return the stored release of the draws; None without one."""
        if self._run is None or self._run.stored is None:
            return None
        return StoredRelease(self._schema, self._spec, self._run.stored)

    def summary(self, attempt: Attempt) -> tuple[Json, Json]:
        """Return summaries on both scales, and the verdict."""
        parameters = parameters_of(self._schema, self._spec.model)
        design = make_design(self._schema, self._spec.model.formula)
        draws = attempt.draws()
        summaries, verdict = summary_and_verdict(
            design, self._spec, parameters, draws, self._release
        )
        by_scale = {
            scale: [asdict(parameter) for parameter in every] for scale, every in summaries.items()
        }
        return by_scale, asdict(verdict)  # type: ignore[return-value]

    def drawn(self) -> Drawn | None:
        """Return what a release that stopped early has drawn."""
        event = None if self._run is None else self._run.drawn
        if event is None:
            return None
        return Drawn(event, planner.cost_of(event, self._spec.privacy.delta))

    def kept(self) -> Json | None:
        """Return the stored release of the draws."""
        return None if self._release is None else self._release.to_dict()
