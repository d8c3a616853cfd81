"""A check of a fitted regression against the rows: one histogram, at the cost of one Gaussian."""

from dataclasses import dataclass, replace
from textwrap import fill

import numpy as np

from dpmcmc.base.digits import LINE, rounded_up
from dpmcmc.base.errors import SpecError
from dpmcmc.base.floating import own_errors
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned, usual_delta
from dpmcmc.fit.results import Result
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import ModelSpec, PrivacySpec
from dpmcmc.inputs.streamed import AnyRows, pieces
from dpmcmc.mechanisms.counts import noise_sd, released
from dpmcmc.planner import Cost
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.accountant import epsilon_of_mu
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries import noise_share
from dpmcmc.queries.checks.cells import (
    BINS,
    Floats,
    Histogram,
    histogram_of,
    some_of,
)
from dpmcmc.queries.checks.findings import Bin, Findings, found, least_misfit, sentences
from dpmcmc.queries.checks.moves import moved_by, placed
from dpmcmc.queries.paid import Paid, opened, settled

MOST_MISFIT = 0.5  # of a bin's own share, beyond which a misfit that does not show is too large
SHOWN_WIDTH = 40  # of a bar, in a representation
MANY_ROWS, EVERY = 2**17, 4  # rows, from which on every fourth draw is enough: it takes as long


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """The plan of a check, from public facts alone."""

    schema: Schema
    histogram: Histogram
    paid: Paid

    @property
    def noise_sd(self) -> float:
        """The sd of the noise of each count."""
        return noise_sd(self.histogram.size, 1, self.paid.noise_multiplier)

    @property
    def detectable(self) -> float:
        """About the least misfit that shows, as a share of all rows in one bin."""
        return least_misfit(self.histogram, float(self.schema.rows), self.noise_sd)

    @property
    def verdict(self) -> Verdict:
        """Whether noise hides misfits that matter, from public facts."""
        least, most = self.detectable, MOST_MISFIT / self.histogram.bins
        shown = f"{rounded_up(100.0 * least, 2)} % of all rows in one bin"
        if least <= most:
            return noise_share.verdict(f"a misfit of {shown} would show nine times in ten", [])
        reason = f"only a misfit of {shown} would show nine times in ten"
        enough = self._epsilon_for(most)
        if enough is None:
            reason += "; no larger epsilon is known to mend that, more rows or fewer bins do"
        else:
            reason += f"; at epsilon {enough:.2g} it is one of {100.0 * most:.2g} %"
        return noise_share.verdict("", [reason])

    def _epsilon_for(self, most: float) -> float | None:
        """Return about the epsilon at which so large a misfit shows, rounded up; None if none."""
        rows = float(self.schema.rows)
        least = least_misfit(self.histogram, rows, 0.0)
        if least >= most:
            return None
        now = self.detectable**2 - least**2
        z = self.paid.noise_multiplier * ((most**2 - least**2) / now) ** 0.5
        epsilon = epsilon_of_mu(self.schema.unit_rows / z, self.paid.cost.delta)
        possible = 0.0 < epsilon <= noise_share.HIGHEST_EPSILONS[0]
        return float(rounded_up(epsilon, 2)) if possible else None


def planned(schema: Schema, model: ModelSpec, bins: int, privacy: PrivacySpec) -> CheckPlan:
    """Return the plan of a check of a fitted model, with its cost. Reads no row. Raises SpecError.

    model: resolved, as its job was run.
    """
    return CheckPlan(schema, histogram_of(schema, model, bins), settled(schema, privacy))


def release(
    plan: CheckPlan, draws: Floats, rows: Private[AnyRows], permit: Permit, random: RandomSource
) -> Floats:
    """Return the noisy counts (size,) of a check.

    draws: (draw, parameter) of the model, released numbers that were fixed before.
    Privacy: plan.paid.event, one Gaussian event, paid for by the permit. Proof:
    docs/proofs/predictive_check.md. Raises PermitError before the rows are opened; never on rows.
    """
    draws = draws[:: EVERY if plan.schema.rows > MANY_ROWS else 1]
    names, counts = plan.histogram.read, np.zeros(plan.histogram.size, np.int64)
    for piece in pieces(opened(plan.paid, rows, permit, plan.schema), names):
        counts += plan.histogram.counts(piece, draws, random)
    return released(counts.astype(np.float64), 1, plan.paid.noise_multiplier, random)


@dataclass(frozen=True, eq=False)
class Check:
    """A check of a fitted model: how its rows lie in the model's predictive distribution.

    Parameters
    ----------
    plan
        What was planned.
    released
        Noisy counts of the cells.
    moved
        How the uncertainty of the model's own parameters moves shares of bins: (k, bins).
    reliable
        Whether the fit is, by its own verdict.
    """

    plan: CheckPlan
    released: Floats
    moved: Floats
    reliable: bool = True

    @property
    def cost(self) -> Cost:
        """The cost of the call."""
        return self.plan.paid.cost

    @property
    def findings(self) -> Findings:
        """The test of all bins, and each bin."""
        return found(self.plan.histogram, self.released, self.plan.noise_sd, self.moved)

    @property
    def misfit(self) -> bool:
        """Whether the rows differ from the model by more than sampling and noise explain."""
        return self.findings.misfit

    @property
    def bins(self) -> tuple[Bin, ...]:
        """The bins, in order."""
        return self.findings.bins

    @property
    def verdict(self) -> Verdict:
        """Whether noise hides misfits that matter."""
        return self.plan.verdict

    def explain(self) -> str:
        """Return in words what was found, and what would fit better."""
        said = sentences(self.plan.histogram, self.findings, reliable=self.reliable)
        return "\n".join(said)

    def __str__(self) -> str:
        """Return the words, and a bar for each bin."""
        most = max([1e-9, *(one.share or 0.0 for one in self.bins)])
        lines = [fill(line, LINE) for line in self.explain().splitlines()]
        for one in self.bins:
            ends = f"{one.low:.3g} to {one.high:.3g}"
            if one.share is None or one.noise_sd is None:
                lines.append(f"  {ends:15} too few rows to tell")
                continue
            bar = "#" * round(SHOWN_WIDTH * max(one.share, 0.0) / most)
            numbers = f"{one.share:.3f} for {one.expected:.3f}, noise sd {one.noise_sd:.3f}"
            lines.append(f"  {ends:15} {numbers}  {bar}")
        cost = f"cost: epsilon {self.cost.epsilon:.4g}, delta {self.cost.delta:g}"
        return "\n".join([*lines, f"{cost}; protects {self.plan.schema.protects}"])

    __repr__ = __str__


@own_errors
def check_fit(
    fit: Result,
    data: object,
    *,
    schema: Schema | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    bins: int = BINS,
    budget: Budget | None = None,
    max_rows: int | None = None,
    random: RandomSource | None = None,
) -> Check:
    """Check whether a fitted regression fits the rows: a histogram by its own predictions.

    Each row is placed in the predictive distribution that the fit has for it. Under the model rows
    are spread evenly over that; the histogram of places is released with noise. Of a response with
    categories the histogram compares fitted probabilities with what happened.

    Privacy: one Gaussian event under replace-one that costs (epsilon, delta), beside what the fit
    has cost; every call costs this again. Proof: docs/proofs/predictive_check.md.

    Parameters
    ----------
    fit
        What `sample` returned, of these rows or of others with the same columns.
    data
        The rows: a data frame, or a mapping of column names to values.
    schema
        Of the rows, where they are others than those of the fit; with the same columns.
    epsilon, delta
        Cost of the call; delta by default the budget's, or the smaller of 1e-6 and 0.1 / rows.
    noise_multiplier
        In place of epsilon: sd of the noise over the sensitivity.
    bins
        From 4 to 20.
    budget
        If given, the call is charged to it.
    max_rows
        Fewer rows of each person than the schema declares, chosen at random: less noise.
    random
        For tests only.

    Returns
    -------
    Check
        `explain()` says in words what does not fit, and what may fit better; `bins` and
        `findings` have the numbers.

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
    >>> print(check_fit(fit, rows, epsilon=0.1, budget=budget))
    """
    if not isinstance(fit, Result):
        raise SpecError("/fit", "must be what sample returned")
    known = fit.design.schema if schema is None else schema
    schema = check_call(known, budget, random).with_max_rows(max_rows)
    if schema.columns != fit.design.schema.columns:
        raise SpecError("/schema", "must have the columns of the fit, with the same bounds")
    delta = usual_delta(schema, budget) if delta is None else delta
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    plan = planned(schema, fit.plan.spec.model, bins, privacy)
    draws = some_of(fit.draws, fit.plan.num_warmup)
    moments = None if fit.release is None else fit.release.moments
    plan = replace(plan, histogram=placed(plan.histogram, draws, moments))
    read = plan.histogram.read
    rows, permit, _ = owned(schema, data, plan.paid.event, plan.paid.cost.delta, budget, read)
    counts = release(plan, draws, rows, permit, random or SystemRandom())
    moved, reliable = moved_by(plan.histogram, draws, moments), fit.verdict.status == "reliable"
    return Check(plan, counts, moved, reliable)
