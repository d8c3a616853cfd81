"""Summary statistics in one call: one Gaussian event for all, intervals that know the noise."""

import itertools
import math
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned, usual_delta
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.mechanisms.counts import check_cells, noise_sd, released
from dpmcmc.planner import Cost
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.paid import Paid, opened, settled
from dpmcmc.queries.summaries.intervals import Cumulative, Estimate, Moments, Target, moments, share
from dpmcmc.queries.summaries.statistics import (
    MOMENT_SENSITIVITY,
    Asked,
    Quantiles,
    Statistic,
    asked,
)

Floats = NDArray[np.float64]
SHOWN = 40  # lines of a representation
MOST_STATISTICS = 256  # docs/proofs/tables.md, section 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What is released, from public facts alone."""

    schema: Schema
    asked: tuple[Asked, ...]
    paid: Paid

    @property
    def noise_sd(self) -> float:
        """The sd of the noise of each count."""
        size = sum(one.size for one in self.asked)
        return noise_sd(size, len(self.asked), self.paid.noise_multiplier)


def planned(schema: Schema, statistics: Sequence[Statistic], privacy: PrivacySpec) -> Plan:
    """Return what `describe` would release and cost. Reads no row. Raises SpecError."""
    if not isinstance(statistics, Sized) or not 1 <= len(statistics) <= MOST_STATISTICS:
        raise SpecError("/statistics", f"must be a list of 1 to {MOST_STATISTICS}")
    found = tuple(asked(schema, one) for one in statistics)
    check_cells([one.axes for one in found])
    return Plan(schema, found, settled(schema, privacy))


def release(plan: Plan, rows: Private[Table], permit: Permit, random: RandomSource) -> Floats:
    """Return the noisy statistics, one after the other.

    Privacy: plan.paid.event, one Gaussian event for all, paid for by the permit. Proof:
    docs/proofs/tables.md. Raises PermitError before the rows are opened; never on rows.
    """
    table = opened(plan.paid, rows, permit)
    parts = np.concatenate([one.of(table) for one in plan.asked])
    return released(parts, len(plan.asked), plan.paid.noise_multiplier, random)


@dataclass(frozen=True, eq=False)
class Summaries:
    """Noisy statistics. released: one after the other, as they were asked for."""

    plan: Plan
    released: Floats

    @property
    def cost(self) -> Cost:
        """What the call cost; whoever holds the rows keeps the account."""
        return self.plan.paid.cost

    def estimates(self, level: float = 0.9, target: Target = "population") -> list[Estimate]:
        """Return every estimate with an interval of this level.

        target: population, whose random sample the rows are: noise and sampling; or rows: noise
        alone. Each interval holds by itself. Free. Raises ValueError unless 0 < level < 1.
        """
        if not 0.0 < level < 1.0 or target not in ("population", "rows"):
            raise ValueError("level must lie between 0 and 1, target be population or rows")
        reach = float(ndtri(0.5 + 0.5 * level))
        ends = np.cumsum([one.size for one in self.plan.asked])[:-1]
        parts = zip(self.plan.asked, np.split(self.released, ends), strict=True)
        return [found for one, part in parts for found in self._of(one, part, reach, target)]

    def _of(self, one: Asked, part: Floats, reach: float, target: Target) -> Iterator[Estimate]:
        kinds = {"mean": self._mean, "quantiles": self._quantiles, "counts": self._counts}
        return kinds[one.statistic.kind](one, part, reach, target)

    def _mean(self, one: Asked, part: Floats, reach: float, target: Target) -> Iterator[Estimate]:
        """Mean and sd in the units of the column. The declared bounds where noise hides both."""
        column, per_unit = one.column, MOMENT_SENSITIVITY / np.sqrt(2.0)
        half = 0.5 * column.upper - 0.5 * column.lower
        middle = 0.5 * column.upper + 0.5 * column.lower
        sums, sd = part * per_unit, self.plan.noise_sd * float(per_unit)
        rows, missing = self.plan.schema.rows, bool(column.missing)
        found = moments(sums, rows, sd, missing, reach, target)
        if found is None:
            found = Moments((0.0, -1.0, 1.0), (1.0, 0.0, 1.0))
        within = (min(max(middle + half * u, column.lower), column.upper) for u in found.mean)
        yield Estimate(f"mean of {column.name}", *within)
        yield Estimate(f"sd of {column.name}", *(half * u for u in found.sd))

    def _quantiles(
        self, one: Asked, part: Floats, reach: float, target: Target
    ) -> Iterator[Estimate]:
        edges, statistic = np.array(one.axes[0].edges), one.statistic
        sums = Cumulative(edges, part, self.plan.schema.rows, self.plan.noise_sd)
        for at in statistic.at if isinstance(statistic, Quantiles) else ():
            name = f"{one.column.name}, quantile {at:g}"
            found = sums.quantile(at, reach, target)
            yield Estimate(name, *(_whole(found) if one.column.integer else found))

    def _counts(self, one: Asked, part: Floats, reach: float, target: Target) -> Iterator[Estimate]:
        """Shares of the cells."""
        rows, sd = self.plan.schema.rows, self.plan.noise_sd
        labels = itertools.product(*(axis.labels for axis in one.axes))
        for label, count in zip(labels, part, strict=True):
            words = zip(one.axes, label, strict=True)
            name = ", ".join(f"{axis.name} {word}" for axis, word in words)
            estimate, low, high = share(float(count), rows, sd, reach, target)
            yield Estimate(f"share of {name}", estimate, low, high)

    def __str__(self) -> str:
        found = self.estimates()
        lines = [
            f"  {one.name}: {one.estimate:.4g}, 90 % from {one.lower:.4g} to {one.upper:.4g}"
            for one in found[:SHOWN]
        ]
        if len(found) > SHOWN:
            lines.append(f"  and {len(found) - SHOWN} more")
        cost = f"cost: epsilon {self.cost.epsilon:.4g}, delta {self.cost.delta:g}"
        return "\n".join([f"{len(self.plan.asked)} statistics", *lines, cost])

    __repr__ = __str__


def _whole(found: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return a quantile of whole numbers and its interval, from edges halfway between them."""
    low, high = math.ceil(found[1]), math.floor(found[2])
    return float(min(max(round(found[0]), low), high)), float(low), float(high)


def describe(
    data: object,
    statistics: Sequence[Statistic],
    *,
    schema: Schema,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    budget: Budget | None = None,
    random: RandomSource | None = None,
) -> Summaries:
    """Release means, quantiles and tables of counts of rows of your own, with intervals.

    statistics: Mean, Quantiles and Counts; each gets the same share of the budget, so that its
    noise grows with the square root of how many are asked for.
    Privacy: one Gaussian event at the multiplier that spends (epsilon, delta); every call spends
    it anew. budget: takes what the call costs, see dpmcmc.fit.budget. random: for tests only.
    Raises SpecError on the request, ValueError where the data do not suit the schema.
    """
    check_call(schema, budget, random)
    delta = usual_delta(schema, budget) if delta is None else delta
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    plan = planned(schema, statistics, privacy)
    rows, permit = owned(schema, data, plan.paid.event, plan.paid.cost.delta, budget)
    return Summaries(plan, release(plan, rows, permit, random or SystemRandom()))
