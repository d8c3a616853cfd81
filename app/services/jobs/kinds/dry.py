"""Dry runs: chains on rows made from declared bounds and categories alone.

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
    """A chain or a release on made rows. It opens no rows of the dataset, and pays nothing."""

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
        """Return the spec as it is stored."""
        return ChainJob.as_json(self) | {DRY_RUN: True}

    def facts(self, session: Session, caller: Caller, dataset_id: UUID) -> tuple[()]:
        """Return nothing: what was released of the data has no place here."""
        return ()

    def streams(self, plan: planner.Plan) -> bool:
        """Return False: made rows are made at once."""
        return False

    def work(self, session: Session, schema: Schema) -> Work:
        """Return the job ready to run. Raises UnrunnableError."""
        event = planner.event(schema, self.spec)
        return _DryWork(ChainJob.work(self, session, schema), schema, event)

    def shown(self, schema: Schema, cost: Cost, scale: Scale) -> Shown:
        """Return how its blocks are shown as a chain: as one that says what it is."""
        made = ChainJob.shown(self, schema, cost, scale)
        attributes = {**made.attributes, DRY_RUN: DRY}
        return Shown(made.parameters, made.num_warmup, made.converted, attributes)


class _DryWork(Work):
    """The work of a job, on made rows. schema: of the rows that it uses. event: of the job."""

    def __init__(self, work: Work, schema: Schema, event: Event) -> None:
        self._work, self._schema, self._event = work, schema, event

    @property
    def seconds(self) -> float:
        """About how long it runs."""
        return self._work.seconds

    def blocks(self, opened: Opened) -> Blocks:
        """Return what is drawn, block by block. The rows of the dataset stay closed."""
        return self._work.blocks(lambda: dummy_rows(self._schema, self._event))

    def finished(self, draws: int, planned: int) -> bool:
        """Whether the block that brings the draws of each chain to this number is the last."""
        return self._work.finished(draws, planned)

    def summary(self, attempt: Attempt) -> tuple[Json, Json]:
        """Return the summaries by scale, and a verdict that nobody takes for one on the data."""
        summaries, verdict = self._work.summary(attempt)
        return summaries, dry_verdict(verdict)

    def kept(self) -> Json | None:
        """Return what stays usable of a release: of a release of made rows."""
        return self._work.kept()


def dry_verdict(verdict: Json) -> Json:
    """Return a verdict of made rows as what it is: unreliable, and why."""
    reasons: Sequence[Any] = verdict.get("reasons", ())
    return verdict | {
        "status": "unreliable",
        "sentence": DRY,
        "reasons": [DRY, *reasons],
        "notes": [],
    }
