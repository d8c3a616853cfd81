"""One statistic of rows of your own, released in one call."""

from dpmcmc.base.floating import own_errors
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned
from dpmcmc.inputs.schema import Schema
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.statistics.mechanisms import ReleasedStatistic, ReleaseForm, StatisticKind
from dpmcmc.queries.statistics.plans import NoiseName, StatisticRequest, delta_of, number, planned
from dpmcmc.queries.statistics.release import release


@own_errors
def release_statistic(
    data: object,
    column: str,
    *,
    schema: Schema,
    epsilon: float,
    delta: float | None = None,
    kind: StatisticKind = "power",
    a: float = 1.0,
    form: ReleaseForm = "batch",
    noise: NoiseName = "gaussian",
    budget: Budget | None = None,
    max_rows: int | None = None,
    random: RandomSource | None = None,
) -> ReleasedStatistic:
    """Release one noisy statistic of a column.

    Privacy: one event under replace-one, (epsilon, delta)-DP; every call costs this again. Proof:
    docs/proofs/statistics.md. Source: thesis B, chapters 3 and 4.

    Parameters
    ----------
    data
        The rows: a data frame, or a mapping of column names to values.
    column
        A number column without missing codes, or a binary one (as 0 and 1).
    schema
        Declared columns and number of rows.
    epsilon
        Cost of the call.
    delta
        Of gaussian and smooth_laplace noise: by default the budget's (of smooth_laplace at most its
        failure share), or else the smaller of 1e-6 and 0.1 / rows. Other noise has delta 0.
    kind, a
        The statistic s of a row: x^a (power) or |x|^a (absolute_power).
    form
        batch: the sum of s over all rows. sequential: s of each row with its own noise, as in the
        local model. median or maximum: of s over all rows.
    noise
        gaussian or laplace; smooth_laplace for median and maximum alone; randomised_response for a
        sequential release of a binary column.
    budget
        If given, the call is charged to it.
    max_rows
        Of a schema of persons: 1, as this is of one row of each person, chosen at random. The cost
        protects a person with all of their rows.
    random
        For tests only.

    Returns
    -------
    ReleasedStatistic
        The noisy values, the distribution of their noise, the cost, and a verdict.

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
    >>> released = release_statistic(rows, "dose", schema=schema, epsilon=0.5, noise="laplace")
    >>> released.values, released.noise
    """
    schema = check_call(schema, budget, random).with_max_rows(max_rows)
    request = StatisticRequest(column=column, kind=kind, a=a, form=form, noise=noise)
    used_delta = delta_of(schema, noise, delta, budget)
    plan = planned(schema, request, number("epsilon", epsilon), used_delta)
    paid = plan.paid.event, plan.paid.cost.delta
    rows, permit, _ = owned(schema, data, *paid, budget, (column,))
    return release(plan, rows, permit, random or SystemRandom())
