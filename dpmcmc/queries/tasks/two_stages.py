"""The task of two stages: a sum of some rows chooses the power of the sum of the other rows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.paid import Paid
from dpmcmc.queries.statistics.mechanisms import ReleasedStatistic, StatisticKind
from dpmcmc.queries.statistics.plans import StatisticRequest
from dpmcmc.queries.statistics.questions import population_of
from dpmcmc.queries.statistics.two_stages import (
    Stages,
    StagesPlan,
    plan_of_stages,
    read_stages,
    release_of_stages,
)
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.tasks.base import Floats, quick_seconds
from dpmcmc.queries.tasks.statistic import as_json, pure_epsilon

MOST_GUESSES = 2000  # thetas times powers
GUESS_SECONDS = 2e-3  # of one theta with one power: measured on a busy core


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoStagesTask:
    """Two noisy sums: that of some rows chooses the power of that of the other rows.

    column, statistic, noise: as of a statistic. first_rows: number of rows in the first stage,
    drawn at random. first_power: its a. family, options: assumed distribution of the rows.
    thetas: possible values of the family's parameter, equally likely before. powers: to choose
    from, by the least mean of 1 / Fisher information. Both stages together cost as much as one,
    since every row is in one of them.
    """

    kind: Literal["two_stages"] = "two_stages"
    column: str
    statistic: StatisticKind = "absolute_power"
    noise: Literal["gaussian", "laplace"] = "laplace"
    first_rows: int
    first_power: float = 1.0
    family: str
    options: dict[str, float] = field(default_factory=dict)
    thetas: tuple[float, ...]
    powers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlannedStages:
    """Two stages of one schema. Their block: the first value, the chosen power, the second one."""

    plan: StagesPlan
    rows: int
    blocks: int = 1
    numbers: int = 3
    memory: int = 0

    @property
    def paid(self) -> Paid:
        """Its event, and what that costs."""
        return self.plan.paid

    @property
    def noise(self) -> str:
        """The noise, in words."""
        return f"{self.plan.first.request.noise} noise in both stages"

    @property
    def seconds(self) -> float:
        """About how long it runs."""
        guesses = len(self.plan.thetas) * len(self.plan.powers)
        return quick_seconds(self.rows) + GUESS_SECONDS * guesses

    def release(
        self, rows: Private[AnyRows], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield one block. Privacy: paid.event. Raises PermitError."""
        stages = release_of_stages(self.plan, rows, permit, random)
        yield np.array([stages.first.values[0], stages.power, stages.second.values[0]])

    def answer(self, first: Floats, level: float, target: IntervalTarget) -> dict[str, Any]:  # noqa: ARG002
        """Return both releases, the chosen power and the scores of all powers."""
        stages = self._stages(first)
        weights = zip(self.plan.thetas, stages.weights.tolist(), strict=True)
        return {
            "stages": [as_json(self.plan.first, stage) for stage in (stages.first, stages.second)],
            "power": stages.power,
            "scores": [
                {"power": a, "mean_inverse_information": score if math.isfinite(score) else None}
                for a, score in stages.scores.items()
            ],
            "weights": [{"theta": theta, "weight": weight} for theta, weight in weights],
        }

    def verdict(self, first: Floats) -> Verdict:
        """Return the verdict on both stages."""
        return self._stages(first).verdict

    def released(self, first: Floats) -> tuple[ReleasedStatistic, ...]:
        """Return both released statistics, for an inference."""
        stages = self._stages(first)
        return stages.first, stages.second

    def _stages(self, first: Floats) -> Stages:
        """Return both stages, from the released block."""
        return read_stages(self.plan, float(first[0]), float(first[1]), float(first[2]))


def planned(schema: Schema, task: TwoStagesTask, privacy: PrivacySpec) -> PlannedStages:
    """Return the planned task with its cost. Raises SpecError."""
    if not 1 <= len(task.thetas) * len(task.powers) <= MOST_GUESSES:
        raise SpecError("/thetas", f"times powers must be 1 to {MOST_GUESSES} in number")
    request = StatisticRequest(
        column=task.column, kind=task.statistic, a=task.first_power, noise=task.noise
    )
    plan = plan_of_stages(
        schema,
        request,
        task.first_rows,
        population_of(task.family, task.options),
        task.thetas,
        task.powers,
        (pure_epsilon(privacy), privacy.delta),
    )
    return PlannedStages(plan, schema.rows)
