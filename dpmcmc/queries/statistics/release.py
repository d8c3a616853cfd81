"""The only place where statistics of rows get their noise. Proof: docs/proofs/statistics.md."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.streamed import AnyRows, pieces
from dpmcmc.mechanisms.sums import release_sums
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.discrete import scale_of
from dpmcmc.privacy.discrete_laplace import cells, flip_share, flips, laplace_noise, log2_scale
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import (
    RANDOMISED_RESPONSE,
    SMOOTH_SENSITIVITY_LAPLACE,
    STATISTIC_GAUSSIAN,
    STATISTIC_LAPLACE,
)
from dpmcmc.queries import noise_share
from dpmcmc.queries.paid import opened
from dpmcmc.queries.statistics.mechanisms import (
    LEAST_SHARE,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    RandomisedResponse,
    ReleasedStatistic,
    SmoothLaplaceNoise,
    beta_of,
    order_statistic,
    smooth_sensitivity,
)
from dpmcmc.queries.statistics.plans import StatisticPlan, replanned

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GAUSSIAN_CELLS = 2**21  # of a row's range; times the most rows it is below 2^53
ORDER_CELLS = 2**44  # of the range of an order statistic


def release(
    plan: StatisticPlan, rows: Private[AnyRows], permit: Permit, random: RandomSource
) -> ReleasedStatistic:
    """Return the noisy statistic.

    Privacy: plan.paid.event, paid for by the permit. Raises PermitError before the rows are opened;
    never on rows.
    """
    name = plan.request.column
    source = opened(plan.paid, rows, permit, plan.schema)
    if plan.request.form == "batch":
        parts = (piece.columns[name].astype(np.float64) for piece in pieces(source, [name]))
        return of_parts(plan, parts, random)
    values = source.whole([name]).columns[name].astype(np.float64)
    if plan.request.form == "sequential":
        values = shuffled(values, random)
    return of_parts(plan, [values], random)


def shuffled(values: Floats, random: RandomSource) -> Floats:
    """Return the values in random order, since the order of rows may depend on their values."""
    first, second = random.words(len(values)), random.words(len(values))
    return np.asarray(values[np.lexsort((second, first))])


def of_parts(
    plan: StatisticPlan, parts: Iterable[Floats], random: RandomSource
) -> ReleasedStatistic:
    """Return the noisy statistic of opened rows. Privacy: plan.paid.event.

    parts: values of rows. Where the form is no batch there is one, of all rows.
    """
    return RELEASES[plan.request.noise](plan, parts, random)


def in_cells(plan: StatisticPlan, values: Floats, most: int) -> Integers:
    """Return s of each row as whole steps, 0 to most, of its range; NaN becomes 0."""
    low, high = plan.statistic.range
    share = np.nan_to_num((plan.statistic.of(values) - low) / (high - low))
    return np.clip(np.rint(share * most), 0.0, float(most)).astype(np.int64)


def summed(plan: StatisticPlan, parts: Iterable[Floats], most: int) -> Integers:
    """Return the exact values before noise in whole steps: the sum (1,), or each row (rows,)."""
    if plan.request.form == "sequential":
        return in_cells(plan, _all_of(parts), most)
    total = np.zeros(1, np.int64)
    for values in parts:
        total += in_cells(plan, values, most).sum()
    return total


def _all_of(parts: Iterable[Floats]) -> Floats:
    """Return the values of all rows, which are one part."""
    (values,) = parts
    return values


def in_units(plan: StatisticPlan, noisy: Floats | Integers, most: int) -> Floats:
    """Return noisy cells in the unit of s."""
    low, high = plan.statistic.range
    count = 1 if plan.request.form != "batch" else plan.schema.rows
    return np.asarray(count * low + (high - low) / most * np.asarray(noisy, np.float64))


def noise_of(plan: StatisticPlan) -> GaussianNoise | LaplaceNoise:
    """Return the noise of a sum or of a row, in the unit of s, from public facts."""
    z, sensitivity = plan.paid.noise_multiplier, plan.statistic.sensitivity
    if plan.request.noise == "gaussian":
        unit, sd = scale_of(z, 1)
        return GaussianNoise(sensitivity * unit * sd)
    return LaplaceNoise(sensitivity * (1 << log2_scale(z)) / cells(z))


def with_gaussian(
    plan: StatisticPlan, parts: Iterable[Floats], random: RandomSource
) -> ReleasedStatistic:
    """Return a sum, or every row, with noise of sd slightly above z times the sensitivity."""
    z = plan.paid.noise_multiplier
    sums = summed(plan, parts, GAUSSIAN_CELLS).astype(np.float64)[:, None]
    noisy, _ = release_sums(random, STATISTIC_GAUSSIAN, [sums], float(GAUSSIAN_CELLS), z)
    return released_statistic(plan, in_units(plan, noisy[:, 0], GAUSSIAN_CELLS))


def with_laplace(
    plan: StatisticPlan, parts: Iterable[Floats], random: RandomSource
) -> ReleasedStatistic:
    """Return a sum, or every row, with noise of scale slightly above z times the sensitivity."""
    z = plan.paid.noise_multiplier
    most, scale = cells(z), 1 << log2_scale(z)
    sums = summed(plan, parts, most)
    noise = laplace_noise(random, STATISTIC_LAPLACE, z, scale, sums.shape)
    return released_statistic(plan, in_units(plan, sums + noise, most))


def with_smooth_laplace(
    plan: StatisticPlan, parts: Iterable[Floats], random: RandomSource
) -> ReleasedStatistic:
    """Return the median or maximum with Laplace noise scaled to its smooth sensitivity."""
    epsilon, z = plan.epsilon, plan.paid.noise_multiplier
    beta = beta_of(epsilon, plan.failure)
    ordered = np.sort(in_cells(plan, _all_of(parts), ORDER_CELLS)).astype(np.float64)
    centre = order_statistic(ordered, plan.rank)
    smooth = smooth_sensitivity(ordered, plan.rank, beta, 0.0, float(ORDER_CELLS))
    scale = math.ceil(2.0 * (1.0 + 2.0**-40) * float(smooth) / epsilon)
    noise = laplace_noise(random, SMOOTH_SENSITIVITY_LAPLACE, z, scale, (1,))
    return released_statistic(plan, in_units(plan, centre.astype(np.int64) + noise, ORDER_CELLS))


def with_flips(
    plan: StatisticPlan, parts: Iterable[Floats], random: RandomSource
) -> ReleasedStatistic:
    """Return randomised responses of binary rows."""
    values = _all_of(parts)
    flipped = flips(random, RANDOMISED_RESPONSE, plan.epsilon, values.shape)
    return released_statistic(plan, np.asarray((values == 1.0) ^ flipped, np.float64))


def released_statistic(plan: StatisticPlan, values: Floats) -> ReleasedStatistic:
    """Return noisy values (1,) or (rows,) with the distribution of their noise. Reads no row."""
    rows, form = plan.schema.rows, plan.request.form
    law, cost = law_of(plan), plan.paid.cost
    return ReleasedStatistic(
        values, law, plan.statistic, rows, form, cost, _judged(plan, law, values)
    )


def _judged(plan: StatisticPlan, law: Noise, values: Floats) -> Verdict:
    """Return the verdict, from released values and public facts."""

    def share_at(epsilon: float) -> float:
        """Return the share of noise at this epsilon."""
        try:
            return _noise_share(replanned(plan, epsilon))
        except SpecError:  # no such noise
            return math.inf

    share = _noise_share(plan)
    hidden = noise_share.reason(NAMES[plan.request.form], share, share_at, plan.epsilon)
    reasons = [hidden] if hidden else []
    why = f"noise alone makes a 90 % interval as wide as {100.0 * share:.2g} % of what bounds allow"
    if isinstance(law, SmoothLaplaceNoise):
        low, high = plan.statistic.range
        beyond = max(low - values[0], values[0] - high) / (high - low)
        if not hidden and beyond > 0.5 * noise_share.MOST_SHARE:
            reasons.append(
                "the value lies far beyond the declared bounds: these rows have more noise than"
                " rows that are spread evenly, since the value changes much with a few of them;"
                " narrower bounds and a larger epsilon have less"
            )
        why += ", if rows are spread evenly over them"
    return noise_share.verdict(f"{why}, and an inference knows the noise", reasons)


def _noise_share(plan: StatisticPlan) -> float:
    """Return the width of the 90 % interval that noise alone makes, over what bounds allow.

    Of the mean of s where rows are summed or released one by one. The noise of an order statistic
    depends on the rows; it is that of rows that are spread evenly over the bounds.
    """
    law, rows = law_of(plan), plan.schema.rows
    if isinstance(law, SmoothLaplaceNoise):
        sd = math.sqrt(2.0) * 2.0 / law.epsilon * _even_sensitivity(law.beta, rows)
    elif isinstance(law, RandomisedResponse):
        keep = law.keep_probability
        sd = math.sqrt(keep * (1.0 - keep)) / (2.0 * keep - 1.0) / math.sqrt(rows)
    else:
        count = rows if plan.request.form == "batch" else math.sqrt(rows)
        sd = law.sd / plan.statistic.sensitivity / count
    return 2.0 * noise_share.REACH * sd


def _even_sensitivity(beta: float, rows: int) -> float:
    """Return the smooth sensitivity of rows at equal distances, over the range; see mechanisms."""
    replaced = min(max(1.0 / beta - 1.0, 0.0), float(rows))
    return max(math.exp(-beta * replaced) * (replaced + 1.0) / (rows + 1.0), LEAST_SHARE)


def law_of(plan: StatisticPlan) -> Noise:
    """Return the distribution of the noise, which is public."""
    kind, epsilon = plan.request.noise, plan.epsilon
    if kind == "randomised_response":
        return RandomisedResponse(1.0 - flip_share(epsilon))
    if kind == "smooth_laplace":
        beta = beta_of(epsilon, plan.failure)
        return SmoothLaplaceNoise(epsilon, beta, plan.rank, *plan.statistic.range)
    return noise_of(plan)


NAMES = {
    "batch": "the mean",
    "sequential": "the mean",
    "median": "the median",
    "maximum": "the maximum",
}
RELEASES = {
    "gaussian": with_gaussian,
    "laplace": with_laplace,
    "smooth_laplace": with_smooth_laplace,
    "randomised_response": with_flips,
}
