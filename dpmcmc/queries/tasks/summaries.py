"""Means and sds, quantiles, histograms and contingency tables, with intervals."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.paid import Paid
from dpmcmc.queries.summaries import call as summing
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.summaries.statistics import Counts, Mean, Quantiles
from dpmcmc.queries.tasks.base import Floats, quick_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SummariesTask:
    """Means and sds, quantiles, histograms and contingency tables, with intervals.

    statistics: are released together by one Gaussian event; each gets the same share of the cost.
    """

    kind: Literal["summaries"] = "summaries"
    statistics: tuple[Mean | Quantiles | Counts, ...]


@dataclass(frozen=True, slots=True)
class PlannedSummaries:
    """Summaries of one schema."""

    plan: summing.SummariesPlan
    rows: int
    blocks: int = 1
    memory: int = 0

    @property
    def paid(self) -> Paid:
        """Its event, and what that costs."""
        return self.plan.paid

    @property
    def numbers(self) -> int:
        """How many all blocks hold."""
        return sum(request.size for request in self.plan.requests)

    @property
    def noise(self) -> str:
        """The noise, in words."""
        return f"noise of sd {self.plan.noise_sd:.3g} rows in each count"

    @property
    def seconds(self) -> float:
        """About how long it runs."""
        return quick_seconds(self.rows)

    def release(
        self, rows: Private[AnyRows], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield one block of noisy counts. Privacy: paid.event. Raises PermitError."""
        yield summing.release(self.plan, rows, permit, random)

    def answer(self, first: Floats, level: float, target: IntervalTarget) -> dict[str, Any]:
        """Return estimates with intervals. Raises SpecError unless 0 < level < 1."""
        if not 0.0 < level < 1.0:
            raise SpecError("/level", "must lie between 0 and 1")
        estimates = summing.Summaries(self.plan, first).estimates(level, target)
        names = {"level": level, "target": target, "noise_sd": self.plan.noise_sd}
        shown = [asdict(estimate) for estimate in estimates]
        for estimate in shown:
            if estimate["dates"] is None:
                del estimate["dates"]
        return {**names, "estimates": shown}

    def verdict(self, first: Floats) -> Verdict:
        """Return the verdict on the summaries."""
        return summing.Summaries(self.plan, first).verdict


def planned(schema: Schema, task: SummariesTask, privacy: PrivacySpec) -> PlannedSummaries:
    """Return the planned task with its cost. Raises SpecError."""
    return PlannedSummaries(summing.planned(schema, task.statistics, privacy), schema.rows)
