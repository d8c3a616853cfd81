"""Dry runs: chains on simulated rows, made from declared bounds and categories alone.

The spec, the plan, the limits and the way are those of the job. No ledger is asked, no stored row
is opened, and every answer, file and page says what it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from uuid import UUID

from sqlalchemy.orm import Session

from app.services.accounts.caller import Caller
from app.services.jobs.kinds.base import Attempt, Blocks, Json, Opened, Shown, Work
from app.services.jobs.kinds.chains import ChainJob
from dpmcmc import planner
from dpmcmc.base.names import DRY_RUN
from dpmcmc.fit.local import dummy_rows
from dpmcmc.inputs.schema import Schema
from dpmcmc.planner import Cost
from dpmcmc.posterior.units import Scale
from dpmcmc.privacy.events import Event

DRY = (
    "Dry run: its rows were made from bounds and categories alone, so nothing here is about the"
    " data."
)


@dataclass(frozen=True, slots=True)
class DryChainJob(ChainJob):
    """A chain or release on simulated rows, free: it opens no rows of the dataset."""

    pays: ClassVar[bool] = False

    @classmethod
    def holds(cls, stored: Mapping[str, Any]) -> bool:
        """Return whether a stored spec is of this kind."""
        return DRY_RUN in stored and ChainJob.holds(stored)

    @classmethod
    def read(cls, stored: Json) -> Self:
        """Return the job of a stored spec. Raises ValidationError."""
        others = {name: value for name, value in stored.items() if name != DRY_RUN}
        return cls(ChainJob.read(others).spec)

    def as_json(self) -> Json:
        """Return the spec as stored JSON."""
        return ChainJob.as_json(self) | {DRY_RUN: True}

    def facts(self, session: Session, caller: Caller, dataset_id: UUID) -> tuple[()]:
        """Return nothing: a dry run reuses no releases of the data."""
        return ()

    def streams(self, plan: planner.Plan) -> bool:
        """Return False: simulated rows are in memory."""
        return False

    def work(self, session: Session, schema: Schema) -> Work:
        """Return the job ready to run. Raises UnrunnableError."""
        event = planner.event(schema, self.spec)
        return _DryWork(ChainJob.work(self, session, schema), schema, event)

    def shown(self, schema: Schema, cost: Cost, scale: Scale) -> Shown:
        """Return how its blocks are shown as a chain, marked as a dry run."""
        chain = ChainJob.shown(self, schema, cost, scale)
        attributes = {**chain.attributes, DRY_RUN: DRY}
        return Shown(chain.parameters, chain.num_warmup, chain.converted, attributes)


class _DryWork(Work):
    """A running dry run. schema: of the rows. event: of the job."""

    def __init__(self, work: Work, schema: Schema, event: Event) -> None:
        self._work, self._schema, self._event = work, schema, event

    @property
    def seconds(self) -> float:
        """Return the expected run time in seconds."""
        return self._work.seconds

    def blocks(self, opened: Opened) -> Blocks:
        """Yield blocks of draws from simulated rows; the dataset stays closed."""
        return self._work.blocks(lambda: dummy_rows(self._schema, self._event))

    def finished(self, draws: int, planned: int) -> bool:
        """Return whether the block ending at draw number `draws` is the last."""
        return self._work.finished(draws, planned)

    def summary(self, attempt: Attempt) -> tuple[Json, Json]:
        """Return summaries by scale, and a verdict marked as that of a dry run."""
        summaries, verdict = self._work.summary(attempt)
        return summaries, dry_verdict(verdict)

    def kept(self) -> Json | None:
        """Return the stored release of simulated rows."""
        return self._work.kept()


def dry_verdict(verdict: Json) -> Json:
    """Return the verdict of a dry run: always unreliable, with the reason."""
    reasons: Sequence[Any] = verdict.get("reasons", ())
    return verdict | {
        "status": "unreliable",
        "sentence": DRY,
        "reasons": [DRY, *reasons],
        "notes": [],
    }
