"""Summary statistics in one call: one Gaussian event for all, intervals that include the noise."""

import itertools
import math
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpmcmc.base.errors import SpecError
from dpmcmc.base.floating import own_errors
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned, usual_delta
from dpmcmc.inputs.schema import DateColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.inputs.streamed import AnyRows, pieces
from dpmcmc.mechanisms.counts import check_cells, noise_sd, released
from dpmcmc.planner import Cost
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy import accountant
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries import noise_share
from dpmcmc.queries.paid import Paid, opened, settled
from dpmcmc.queries.summaries.intervals import (
    Cumulative,
    Estimate,
    IntervalTarget,
    Moments,
    moments,
    share,
)
from dpmcmc.queries.summaries.statistics import (
    MOMENT_SENSITIVITY,
    Counts,
    Quantiles,
    Statistic,
    SummaryRequest,
    request_of,
)

Floats = NDArray[np.float64]
SHOWN = 40  # lines of a representation
MOST_STATISTICS = 256  # docs/proofs/tables.md, section 1


@dataclass(frozen=True, slots=True)
class SummariesPlan:
    """The plan of a release of summaries, from public facts alone."""

    schema: Schema
    requests: tuple[SummaryRequest, ...]
    paid: Paid

    @property
    def noise_sd(self) -> float:
        """The sd of the noise of each count."""
        size = sum(request.size for request in self.requests)
        return noise_sd(size, len(self.requests), self.paid.noise_multiplier)


def planned(schema: Schema, statistics: Sequence[Statistic], privacy: PrivacySpec) -> SummariesPlan:
    """Return the plan of `describe` with its cost. Reads no row. Raises SpecError."""
    if not isinstance(statistics, Sized) or not 1 <= len(statistics) <= MOST_STATISTICS:
        raise SpecError("/statistics", f"must be a list of 1 to {MOST_STATISTICS}")
    requests = tuple(request_of(schema, statistic) for statistic in statistics)
    check_cells([statistic.axes for statistic in requests])
    return SummariesPlan(schema, requests, settled(schema, privacy))


def release(
    plan: SummariesPlan, rows: Private[AnyRows], permit: Permit, random: RandomSource
) -> Floats:
    """Return the noisy statistics, concatenated.

    Privacy: plan.paid.event, one Gaussian event for all, paid for by the permit. Proof:
    docs/proofs/tables.md. Raises PermitError before the rows are opened; never on rows.
    """
    names = [axis.name for request in plan.requests for axis in request.axes]
    totals = [np.zeros(request.size, np.int64) for request in plan.requests]
    for piece in pieces(opened(plan.paid, rows, permit, plan.schema), names):
        for total, request in zip(totals, plan.requests, strict=True):
            total += request.cells(piece)
    parts = np.concatenate(
        [request.of(total) for total, request in zip(totals, plan.requests, strict=True)]
    )
    return released(parts, len(plan.requests), plan.paid.noise_multiplier, random)


@dataclass(frozen=True, eq=False)
class Summaries:
    """Noisy statistics, with their plan. released: concatenated in the order of the requests."""

    plan: SummariesPlan
    released: Floats

    @property
    def cost(self) -> Cost:
        """The cost of the call."""
        return self.plan.paid.cost

    @property
    def verdict(self) -> Verdict:
        """Whether noise hides any of the statistics, from released values and public facts."""
        ends = np.cumsum([request.size for request in self.plan.requests])[:-1]
        parts = np.split(self.released, ends)
        reasons_of_each = map(self._reasons, self.plan.requests, parts)
        sentence = "intervals include the noise, which alone makes none of a quarter of its range"
        return noise_share.verdict(
            sentence, [reason for reasons in reasons_of_each for reason in reasons]
        )

    def _reasons(self, request: SummaryRequest, part: Floats) -> list[str]:
        """Return why the noise hides a statistic, the worst of its numbers for all of them."""
        cost, z = self.cost, self.plan.paid.noise_multiplier
        part, rows, sd = self._known(request, part)
        several = self.plan.schema.unit_rows > 1
        shares = _noise_shares(request, part, rows, sd, several)
        worst = max(shares, key=lambda name: shares[name])
        if isinstance(request.statistic, Quantiles):
            part = Cumulative(np.array(request.axes[0].edges), part, rows, sd).increasing()
            without = _noise_shares(request, part, rows, 0.0, several)[worst]
            if without >= noise_share.MOST_SHARE:
                return [f"the bins of {worst} are too coarse for it: ask for more"]

        def share_at(epsilon: float) -> float:
            """Return the share of noise at this epsilon."""
            least = accountant.noise_multiplier_for(epsilon, cost.delta, 1)
            less = least * self.plan.schema.unit_rows / z
            shares = _noise_shares(request, part, rows, sd * less, several)
            return max(shares.values())

        hidden = noise_share.reason(worst, shares[worst], share_at, cost.epsilon)
        return [hidden] if hidden else []

    def _known(self, request: SummaryRequest, part: Floats) -> tuple[Floats, float, float]:
        """Return (released numbers, number of rows, sd of a count's noise).

        With a privacy unit the number of rows is estimated, and all three are divided by the most
        rows of a unit: rows of a person may say the same, and then count as one.
        """
        schema, sd = self.plan.schema, self.plan.noise_sd
        if schema.unit_rows == 1:
            return part, schema.rows, sd
        rows = float(schema.rows)
        if request.statistic.kind != "mean":
            rows = min(max(float(part.sum()), 1.0), rows)
            largest_share = min(max(float(part.max()) / rows, 0.0), 1.0)
            sd = math.hypot(sd, largest_share * sd * math.sqrt(len(part)))
        return part / schema.unit_rows, rows / schema.unit_rows, sd / schema.unit_rows

    def estimates(
        self, level: float = 0.9, target: IntervalTarget = "population"
    ) -> list[Estimate]:
        """Return every estimate with an interval of this level.

        target: population (of which the rows are a random sample): intervals include sampling and
        noise; or rows: noise alone. Each interval has the level by itself. Costs nothing. Raises
        ValueError unless 0 < level < 1.
        """
        if not 0.0 < level < 1.0 or target not in ("population", "rows"):
            raise ValueError("level must lie between 0 and 1, target be population or rows")
        reach = float(ndtri(0.5 + 0.5 * level))
        ends = np.cumsum([request.size for request in self.plan.requests])[:-1]
        parts = zip(self.plan.requests, np.split(self.released, ends), strict=True)
        return [
            estimate
            for request, part in parts
            for estimate in self._of(request, part, reach, target)
        ]

    def _of(
        self, request: SummaryRequest, part: Floats, reach: float, target: IntervalTarget
    ) -> Iterator[Estimate]:
        """Yield the estimates of one statistic."""
        methods = {"mean": self._mean, "quantiles": self._quantiles, "counts": self._counts}
        return methods[request.statistic.kind](request, part, reach, target)

    def _mean(
        self, request: SummaryRequest, part: Floats, reach: float, target: IntervalTarget
    ) -> Iterator[Estimate]:
        """Mean and sd in the units of the column. The declared bounds where noise hides both."""
        column, per_unit = request.column, MOMENT_SENSITIVITY / np.sqrt(2.0)
        half = 0.5 * column.upper - 0.5 * column.lower
        middle = 0.5 * column.upper + 0.5 * column.lower
        part, rows, sd = self._known(request, part)
        sums, sd = part * per_unit, sd * float(per_unit)
        missing = bool(column.missing) or self.plan.schema.unit_rows > 1
        standardised = moments(sums, rows, sd, missing, reach, target)
        if standardised is None:
            standardised = Moments((0.0, -1.0, 1.0), (1.0, 0.0, 1.0))
        estimate, lower, upper = (
            min(max(middle + half * u, column.lower), column.upper) for u in standardised.mean
        )
        dates = _dates(column, (estimate, lower, upper))
        yield Estimate(f"mean of {column.name}", estimate, lower, upper, dates)
        estimate, lower, upper = (half * u for u in standardised.sd)
        yield Estimate(f"sd of {column.name}", estimate, lower, upper)

    def _quantiles(
        self, request: SummaryRequest, part: Floats, reach: float, target: IntervalTarget
    ) -> Iterator[Estimate]:
        """Yield the quantiles with intervals."""
        edges, statistic = np.array(request.axes[0].edges), request.statistic
        sums = Cumulative(edges, *self._known(request, part))
        for at in statistic.at if isinstance(statistic, Quantiles) else ():
            name = f"{request.column.name}, quantile {at:g}"
            quantile = sums.quantile(at, reach, target)
            values = _whole(quantile) if request.column.integer else quantile
            yield Estimate(name, *values, _dates(request.column, values))

    def _counts(
        self, request: SummaryRequest, part: Floats, reach: float, target: IntervalTarget
    ) -> Iterator[Estimate]:
        """Shares of the cells."""
        part, rows, sd = self._known(request, part)
        labels = itertools.product(*(axis.labels for axis in request.axes))
        for label, count in zip(labels, part, strict=True):
            parts_of_cell = zip(request.axes, label, strict=True)
            name = ", ".join(f"{axis.name} {word}" for axis, word in parts_of_cell)
            estimate, low, high = share(float(count), rows, sd, reach, target)
            yield Estimate(f"share of {name}", estimate, low, high)

    def __str__(self) -> str:
        estimates = self.estimates()
        lines = [f"  {estimate}" for estimate in estimates[:SHOWN]]
        if len(estimates) > SHOWN:
            lines.append(f"  and {len(estimates) - SHOWN} more")
        cost = f"cost: epsilon {self.cost.epsilon:.4g}, delta {self.cost.delta:g}"
        cost += f"; protects {self.plan.schema.protects}"
        verdict = self.verdict.text(False)
        return "\n".join([f"{len(self.plan.requests)} statistics", verdict, *lines, cost])

    __repr__ = __str__


def _noise_shares(
    request: SummaryRequest, part: Floats, rows: float, sd: float, several: bool
) -> dict[str, float]:
    """Return the widths of the intervals that noise alone makes, over what bounds allow, by name.

    part: as released. sd: of the noise of a count. several: whether a person may have several rows,
    whose number is not public then. Of a table in which no cell stands out of the
    noise it is the width of all cells together.
    """
    reach, statistic = noise_share.REACH, request.statistic
    if isinstance(statistic, Counts):
        name, cells = " and ".join(axis.name for axis in request.axes), len(part)
        most = sd * float(ndtri(1.0 - 0.05 / cells))  # that the noise alone makes of any cell
        if max(rows / cells, part.max()) < most:
            return {f"all shares of {name}, together": 2.0 * reach * sd / rows * cells}
        return {f"a share of {name}": 2.0 * reach * sd / rows}
    column = request.column
    if isinstance(statistic, Quantiles):
        sums = Cumulative(np.array(request.axes[0].edges), part, rows, sd)
        quantiles = {at: sums.quantile(at, reach, "rows") for at in statistic.at}
        size = column.upper - column.lower
        return {
            f"quantile {at:g} of {column.name}": (high - low) / size
            for at, (_, low, high) in quantiles.items()
        }
    per_unit = MOMENT_SENSITIVITY / math.sqrt(2.0)
    missing = several or bool(column.missing)
    known = moments(part * per_unit, rows, sd * per_unit, missing, reach, "rows")
    if known is None:
        return {f"the mean of {column.name}": 1.0}
    count = min(part[2] * per_unit, rows) if missing else rows
    wide = reach * sd * per_unit / count * math.hypot(1.0, known.mean[0] * missing)
    return {
        f"the mean of {column.name}": wide,
        f"the sd of {column.name}": known.sd[2] - known.sd[1],
    }


def _dates(column: NumberColumn, values: Sequence[float]) -> tuple[str, str, str] | None:
    """Return an estimate and its interval as dates, where they are those of a column of dates."""
    if not isinstance(column, DateColumn):
        return None
    estimate, lower, upper = (str(column.date_of(value)) for value in values)
    return estimate, lower, upper


def _whole(interval: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return a quantile of whole numbers and its interval, from edges halfway between them."""
    low, high = math.ceil(interval[1]), math.floor(interval[2])
    return float(min(max(round(interval[0]), low), high)), float(low), float(high)


@own_errors
def describe(
    data: object,
    statistics: Sequence[Statistic],
    *,
    schema: Schema,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    budget: Budget | None = None,
    max_rows: int | None = None,
    random: RandomSource | None = None,
) -> Summaries:
    """Release means, quantiles and tables of counts, with intervals.

    Privacy: one Gaussian event under replace-one that costs (epsilon, delta); every call costs this
    again. Proof: docs/proofs/tables.md.

    Parameters
    ----------
    data
        The rows: a data frame, or a mapping of column names to values.
    statistics
        Mean, Quantiles and Counts. All have the same share of the cost, so that the noise of each
        grows with the square root of their number.
    schema
        Declared columns and number of rows.
    epsilon, delta
        Cost of the call; delta by default the budget's, or the smaller of 1e-6 and 0.1 / rows.
    noise_multiplier
        In place of epsilon: sd of the noise over the sensitivity.
    budget
        If given, the call is charged to it.
    max_rows
        Fewer rows of each person than the schema declares, chosen at random: less noise.
    random
        For tests only.

    Returns
    -------
    Summaries
        `estimates()` returns every estimate with its interval, `verdict` whether noise hides one.

    Raises
    ------
    SpecError
        If the request is not possible; the message names the field and the remedy.
    ValueError
        If the data do not fit the schema.
    BudgetExhaustedError
        If too little of the budget is left.

    Examples
    --------
    >>> describe(rows, [Mean("dose"), Counts(("cured",))], schema=schema, epsilon=0.5)
    """
    schema = check_call(schema, budget, random).with_max_rows(max_rows)
    delta = usual_delta(schema, budget) if delta is None else delta
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    plan = planned(schema, statistics, privacy)
    read = {axis.name for request in plan.requests for axis in request.axes}
    rows, permit, _ = owned(schema, data, plan.paid.event, plan.paid.cost.delta, budget, read)
    return Summaries(plan, release(plan, rows, permit, random or SystemRandom()))
