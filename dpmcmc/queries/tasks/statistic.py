"""One statistic of one column, with noise whose law is known."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.paid import Paid
from dpmcmc.queries.statistics import plans
from dpmcmc.queries.statistics.mechanisms import Form, Released, StatisticKind
from dpmcmc.queries.statistics.release import release, told
from dpmcmc.queries.summaries.intervals import Target
from dpmcmc.queries.tasks.base import Floats, quick_seconds, reliable


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticTask:
    """One statistic of one column, with noise whose law is known.

    statistic: x^a (power) or |x|^a (absolute_power) within the declared bounds. form: batch (the
    sum over rows), sequential (each row with noise of its own, in a random order), median or
    maximum. noise: median and maximum have smooth_laplace; randomised_response is for binary
    columns, sequential.
    """

    kind: Literal["statistic"] = "statistic"
    column: str
    statistic: StatisticKind = "power"
    a: float = 1.0
    form: Form = "batch"
    noise: plans.NoiseName = "gaussian"


@dataclass(frozen=True, slots=True)
class PlannedStatistic:
    """A statistic of one schema."""

    plan: plans.Plan
    blocks: int = 1
    memory: int = 0

    @property
    def paid(self) -> Paid:
        """Its event, and what that costs."""
        return self.plan.paid

    @property
    def numbers(self) -> int:
        """How many all blocks hold."""
        return self.plan.schema.rows if self.plan.asked.form == "sequential" else 1

    @property
    def noise(self) -> str:
        """The noise, in words."""
        return f"{self.plan.asked.noise} noise"

    @property
    def seconds(self) -> float:
        """About how long it runs."""
        return quick_seconds(self.plan.schema.rows)

    def release(
        self, rows: Private[Table], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield one block. Privacy: paid.event. Raises PermitError."""
        yield release(self.plan, rows, permit, random).values

    def told(self, first: Floats, level: float, target: Target) -> dict[str, Any]:  # noqa: ARG002
        """Return the values and the law of their noise. Free."""
        return shown(self.plan, told(self.plan, first))

    def verdict(self, first: Floats) -> Verdict:  # noqa: ARG002
        """Return that an inference knows the noise."""
        return reliable("an inference knows the noise")

    def released(self, first: Floats) -> tuple[Released, ...]:
        """Return what was released, as an inference reads it. Free."""
        return (told(self.plan, first),)


def shown(plan: plans.Plan, released: Released) -> dict[str, Any]:
    """Return what was released with the law of its noise, which does not depend on rows."""
    return {
        "form": released.form,
        "statistic": asdict(released.statistic),
        "rows": released.rows,
        "values": released.values.tolist(),
        "noise": {"kind": plan.asked.noise, **asdict(released.noise)},
    }


def pure_epsilon(privacy: PrivacySpec) -> float:
    """Return the epsilon that a statistic's noise is scaled to. Raises SpecError."""
    if privacy.epsilon is None:
        raise SpecError("/privacy/epsilon", "is needed: a statistic takes no noise multiplier")
    return privacy.epsilon


def planned(schema: Schema, task: StatisticTask, privacy: PrivacySpec) -> PlannedStatistic:
    """Return what is released and what it costs. Raises SpecError."""
    asked = plans.Asked(
        column=task.column, kind=task.statistic, a=task.a, form=task.form, noise=task.noise
    )
    return PlannedStatistic(plans.planned(schema, asked, pure_epsilon(privacy), privacy.delta))
