"""The task that checks a fitted regression against the rows."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import ModelSpec, PrivacySpec
from dpmcmc.inputs.streamed import PIECE_ROWS, AnyRows
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.checks import call
from dpmcmc.queries.checks.cells import BINS, MOST_DRAWS
from dpmcmc.queries.checks.findings import sentences
from dpmcmc.queries.checks.moves import MOVES, moved_by, placed
from dpmcmc.queries.paid import Paid
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.tasks.base import Floats, quick_seconds

DRAW_SECONDS = 5e-7  # of a row under one draw: of negative binomial counts, on a busy core
ROW_COPIES = 24  # numbers of a row that is placed, beside its covariates


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveCheckTask:
    """Whether a fitted regression fits the rows: a histogram by its own predictions.

    job: a regression of yours on the same dataset, which has succeeded. bins: from 4 to 20. model:
    that of the job, which is filled in; leave it out.
    """

    kind: Literal["predictive_check"] = "predictive_check"
    job: str
    bins: int = BINS
    model: ModelSpec | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FittedModel:
    """What is used of a fit: released numbers alone.

    draws: (draw, parameter) of the standardised design, after warm-up. moments: mean of x x^T, as
    it was released, or None. reliable: by the fit's own verdict.
    """

    draws: Floats
    moments: Floats | None = None
    reliable: bool = True


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A check of a model on one schema.

    Its block: whether the fit was reliable, noisy counts, how its errors move them, and bins of
    fitted probabilities or 0.

    fitted: the fit, of a check that is to run.
    """

    plan: call.CheckPlan
    fitted: FittedModel | None = None
    blocks: int = 1

    @property
    def paid(self) -> Paid:
        """Its event, and what that costs."""
        return self.plan.paid

    @property
    def numbers(self) -> int:
        """How many its block holds."""
        bins = self.plan.histogram.bins
        return 1 + self.plan.histogram.size + MOVES * bins + 2 * bins - 1

    @property
    def noise(self) -> str:
        """The noise, in words, and what it leaves to be seen."""
        noise = f"noise of sd {self.plan.noise_sd:.3g} rows in each count"
        least = 100.0 * self.plan.detectable
        return f"{noise}; a misfit of {least:.2g} % of all rows in one bin would show"

    @property
    def memory(self) -> int:
        """Bytes in addition to rows and numbers."""
        rows = min(self.plan.schema.rows, PIECE_ROWS)
        return 8 * rows * (2 * len(self.plan.histogram.design.parameters) + ROW_COPIES)

    @property
    def seconds(self) -> float:
        """About how long it runs."""
        rows = self.plan.schema.rows
        draws = MOST_DRAWS if rows <= call.MANY_ROWS else MOST_DRAWS // call.EVERY
        return quick_seconds(rows) + DRAW_SECONDS * draws * rows

    def release(
        self, rows: Private[AnyRows], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield one block. Privacy: paid.event. Raises PermitError, SpecError without a fit."""
        if self.fitted is None:
            raise SpecError("/task/job", "must be given with the draws of its parameters")
        draws, moments = self.fitted.draws, self.fitted.moments
        histogram = placed(self.plan.histogram, draws, moments)
        moved = moved_by(histogram, draws, moments)
        counts = call.release(replace(self.plan, histogram=histogram), draws, rows, permit, random)
        places = np.array(histogram.fitted or np.zeros(2 * histogram.bins - 1))
        yield np.concatenate(([self.fitted.reliable], counts, moved.reshape(-1), places))

    def answer(self, first: Floats, level: float, target: IntervalTarget) -> dict[str, Any]:  # noqa: ARG002
        """Return the bins, the test of all of them, and what they say in words."""
        check = self._check(first)
        histogram, findings = check.plan.histogram, check.findings
        return {
            "family": histogram.model.family,
            "formula": histogram.model.formula,
            "by": "probability" if histogram.by_probability else "distribution",
            "rows": self.plan.schema.rows,
            "noise_sd": self.plan.noise_sd,
            "bins": [asdict(one) for one in findings.bins],
            "statistic": findings.statistic,
            "degrees": findings.degrees,
            "p_value": findings.p_value,
            "misfit": findings.misfit,
            "detectable": findings.detectable,
            "sentences": list(sentences(histogram, findings, reliable=check.reliable)),
        }

    def verdict(self, first: Floats) -> Verdict:
        """Return whether noise hides misfits that matter."""
        return self._check(first).verdict

    def _check(self, first: Floats) -> call.Check:
        """Return the check, from its block."""
        histogram = self.plan.histogram
        ends = np.cumsum([1, histogram.size, MOVES * histogram.bins])
        reliable, counts, moved, places = np.split(first, ends)
        if places.any():
            histogram = replace(histogram, fitted=tuple(places.tolist()))
        plan = replace(self.plan, histogram=histogram)
        return call.Check(plan, counts, moved.reshape(MOVES, -1), bool(reliable[0]))


def planned(schema: Schema, task: PredictiveCheckTask, privacy: PrivacySpec) -> PlannedCheck:
    """Return the planned task with its cost. Raises SpecError."""
    if task.model is None:
        raise SpecError("/task/model", "must be that of the job")
    return PlannedCheck(call.planned(schema, task.model, task.bins, privacy))
