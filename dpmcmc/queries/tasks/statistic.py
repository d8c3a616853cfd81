"""The task that releases one noisy statistic of one column."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import PrivacySpec, UpTo
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.paid import A_NUMBER, Paid
from dpmcmc.queries.statistics import plans
from dpmcmc.queries.statistics.mechanisms import ReleasedStatistic, ReleaseForm, StatisticKind
from dpmcmc.queries.statistics.release import release, released_statistic
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.tasks.base import Floats, quick_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticTask:
    """One noisy statistic of one column.

    statistic: x^a (power) or |x|^a (absolute_power) within the declared bounds. form: batch (the
    sum over rows), sequential (each row with its own noise, in a random order), median or maximum.
    noise: smooth_laplace for median and maximum; randomised_response for sequential releases of
    binary columns.
    """

    kind: Literal["statistic"] = "statistic"
    column: str
    statistic: StatisticKind = "power"
    a: float = 1.0
    form: ReleaseForm = "batch"
    noise: plans.NoiseName = "gaussian"


@dataclass(frozen=True, slots=True)
class PlannedStatistic:
    """A statistic of one schema."""

    plan: plans.StatisticPlan
    blocks: int = 1
    memory: int = 0

    @property
    def paid(self) -> Paid:
        """Its event, and what that costs."""
        return self.plan.paid

    @property
    def numbers(self) -> int:
        """How many all blocks hold."""
        return self.plan.schema.rows if self.plan.request.form == "sequential" else 1

    @property
    def noise(self) -> str:
        """The noise, in words."""
        return f"{self.plan.request.noise} noise"

    @property
    def seconds(self) -> float:
        """About how long it runs."""
        return quick_seconds(self.plan.schema.rows)

    def release(
        self, rows: Private[AnyRows], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield one block. Privacy: paid.event. Raises PermitError."""
        yield release(self.plan, rows, permit, random).values

    def answer(self, first: Floats, level: float, target: IntervalTarget) -> dict[str, Any]:  # noqa: ARG002
        """Return the values and the distribution of their noise."""
        return as_json(self.plan, released_statistic(self.plan, first))

    def verdict(self, first: Floats) -> Verdict:
        """Return the verdict on the released statistic."""
        return verdict_of(released_statistic(self.plan, first))

    def released(self, first: Floats) -> tuple[ReleasedStatistic, ...]:
        """Return the released statistics, for an inference."""
        return (released_statistic(self.plan, first),)


def as_json(plan: plans.StatisticPlan, released: ReleasedStatistic) -> dict[str, Any]:
    """Return a released statistic with the distribution of its noise, as JSON values."""
    return {
        "form": released.form,
        "statistic": asdict(released.statistic),
        "rows": released.rows,
        "values": released.values.tolist(),
        "noise": {"kind": plan.request.noise, **asdict(released.noise)},
    }


def verdict_of(released: ReleasedStatistic) -> Verdict:
    """Return the verdict of a release of rows."""
    if released.verdict is None:
        raise TypeError("a simulated statistic has no verdict")
    return released.verdict


def pure_epsilon(privacy: PrivacySpec) -> float:
    """Return the epsilon that a statistic's noise is scaled to. Raises SpecError."""
    if privacy.epsilon is None:
        raise SpecError("/privacy/epsilon", "is needed: a statistic takes no noise multiplier")
    if isinstance(privacy.epsilon, UpTo):
        raise SpecError("/privacy/epsilon", A_NUMBER)
    return privacy.epsilon


def planned(schema: Schema, task: StatisticTask, privacy: PrivacySpec) -> PlannedStatistic:
    """Return the planned task with its cost. Raises SpecError."""
    request = plans.StatisticRequest(
        column=task.column, kind=task.statistic, a=task.a, form=task.form, noise=task.noise
    )
    return PlannedStatistic(plans.planned(schema, request, pure_epsilon(privacy), privacy.delta))
