"""One statistic of rows of your own, released in one call."""

from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned
from dpmcmc.inputs.schema import Schema
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.statistics.mechanisms import Form, Released, StatisticKind
from dpmcmc.queries.statistics.plans import Asked, NoiseName, delta_of, number, planned
from dpmcmc.queries.statistics.release import release


def release_statistic(
    data: object,
    column: str,
    *,
    schema: Schema,
    epsilon: float,
    delta: float | None = None,
    kind: StatisticKind = "power",
    a: float = 1.0,
    form: Form = "batch",
    noise: NoiseName = "gaussian",
    budget: Budget | None = None,
    random: RandomSource | None = None,
) -> Released:
    """Release one statistic of a column of rows of your own, with noise whose law is known.

    kind, a: s(x) = x^a (power) or |x|^a (absolute_power). form: batch (the sum of s over rows),
    sequential (s of each row with noise of its own, as in the local model), median or maximum.
    noise: gaussian and smooth_laplace have a delta, by default the budget's (of smooth_laplace at
    most its failure share), or else the smaller of 1e-6 and a tenth of 1 / rows; laplace and
    randomised_response spend pure epsilon. Median and maximum have smooth_laplace;
    randomised_response is for binary columns, sequential. column: of numbers without missing codes,
    or binary (0 and 1).
    Privacy: replace-one, one event, (epsilon, delta)-DP; every call spends it anew. Proof:
    docs/proofs/statistics.md. budget: takes what the call costs. random: for tests only.
    Raises SpecError on the request, ValueError where the data do not suit the schema,
    BudgetExhaustedError where too little is left. Source: thesis B, chapters 3 and 4.
    """
    check_call(schema, budget, random)
    asked = Asked(column=column, kind=kind, a=a, form=form, noise=noise)
    own_delta = delta_of(schema, noise, delta, budget)
    plan = planned(schema, asked, number("epsilon", epsilon), own_delta)
    rows, permit = owned(schema, data, plan.paid.event, plan.paid.cost.delta, budget)
    return release(plan, rows, permit, random or SystemRandom())
