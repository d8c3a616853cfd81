"""Noisy means of the columns, and the exact posterior given them.

For models whose rows are N(mean, known variances) in public coordinates (gaussian_mean, banana):
there the posterior follows from the means of the columns, so that releasing those once is worth
more than any chain. A first, cheap release finds where the rows lie; the last one clips them
closely around that place. A small clip needs little noise but loses some of the rows' tails: the
planner weighs the two. Draws are independent and cost nothing: a job costs
mu = 1 / noise_multiplier whatever their number.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri

from dpmcmc.families.target import Floats, Scores
from dpmcmc.inputs.options import NoisyMeanOptions, Start
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.mechanisms.joint_sums import MIN_COUNT_SDS
from dpmcmc.mechanisms.sums import release_sums
from dpmcmc.privacy.events import Compose, Event, Gaussian
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.privacy.sites import NOISY_MEAN
from dpmcmc.releases import noisy_mean_design as planning
from dpmcmc.releases.base import Facts, Judged, Normal, Record, Release, prior_of

SIGNIFICANCE = 0.01  # probability of such a difference of two releases by noise alone
COUNT_WEIGHT = 0.866  # of the sensitivity, that a row counts as: less than sqrt(3) / 2
MAX_COUNT_NOISE = 0.1  # sd of that number over it, from which on nothing is promised


def options_of(start: Start) -> NoisyMeanOptions:
    """Return the options of the release that a chain starts from."""
    return NoisyMeanOptions(shares=start.shares, clip_bounds=start.clip_bounds)


def event(options: NoisyMeanOptions, noise_multiplier: float, rows: int) -> Event:
    """Return one Gaussian event for each release. Proof: docs/proofs/noisy_mean.md."""
    return Compose(tuple(Gaussian(z) for z in _multipliers(options, noise_multiplier)))


def _multipliers(options: NoisyMeanOptions, noise_multiplier: float) -> list[float]:
    """Return the noise multipliers of the releases, by their shares of mu^2."""
    if options.shares is None:
        raise ValueError("the shares of the releases must be known")
    return [noise_multiplier / math.sqrt(share) for share in options.shares]


def settle(options: NoisyMeanOptions, facts: Facts, noise_multiplier: float) -> NoisyMeanOptions:
    """Return the options with every field filled in but the numbers of draws. Raises SpecError."""
    planning.check(options.shares, options.clip_bounds)
    if options.shares is not None and options.clip_bounds is not None:
        return options
    best = planning.best(facts, noise_multiplier, options.clip_bound, options.shares)
    return replace(options, shares=best.shares, clip_bounds=best.clip_bounds)


def sd_inflation(options: NoisyMeanOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """Return the inflation (d,) of the sd by noise: expected sd of draws over the posterior's."""
    if options.shares is None or options.clip_bounds is None:
        raise ValueError("the releases must be settled")
    variance = planning.variance(facts, noise_multiplier, options.shares, options.clip_bounds)
    assumptions = facts.assumptions
    weight = assumptions.rows * assumptions.tempering
    ratio: Floats = np.sqrt(
        (weight + facts.prior) / (1.0 / (1.0 / weight + variance) + facts.prior)
    )
    return ratio


def publish(
    target: Scores,
    max_row_norm: float,
    options: NoisyMeanOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Normal:
    """Release the means of the rows and return the posterior given them.

    target: of rows N(position, I). Privacy: event(options). Never raises on rows.
    Proof: docs/proofs/noisy_mean.md.
    """
    if options.clip_bounds is None:
        raise ValueError("the clips must be known")
    n, d = target.rows, target.position.shape[1]
    start = target.position[0]
    estimate, information, jump, counts = start.copy(), 0.0, 0.0, []
    for clip, z in zip(options.clip_bounds, _multipliers(options, noise_multiplier), strict=True):
        slope, excess = planning.moments(clip, d, max_row_norm, information == 0.0)
        centre = _within(estimate, start, max_row_norm)
        sums, count, sd = released_sum(target, centre, clip, z, random)
        step = sums / (count * slope)
        mean = centre + step
        unsure = float(step @ step) / d * (sd / count) ** 2
        precision = 1.0 / (planning.noise_variance(slope, excess, clip, z, count) + unsure)
        if information > 0.0:
            jump = max(jump, _jump(mean - estimate, 1.0 / precision + 1.0 / information))
        information += precision
        estimate = estimate + (mean - estimate) * (precision / information)
        counts.append((count, sd))
    prior_mean, prior = prior_of(target, d)
    rows, sd = _pooled(counts) if target.gaps else (float(n), 0.0)
    complete = rows if target.gaps else None
    stored = NoisyMean(estimate, 1.0 / information, rows * target.tempering, jump, complete, sd)
    return stored.posterior(prior_mean, prior, random)


def _pooled(counts: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the precision-weighted mean of several (number of rows, sd), with its sd."""
    weights = [sd**-2.0 for _, sd in counts]
    rows = math.fsum(w * count for w, (count, _) in zip(weights, counts, strict=True))
    return rows / math.fsum(weights), math.fsum(weights) ** -0.5


def _jump(change: Floats, variance: float) -> float:
    """Return the squared change between two releases, over the largest that noise explains."""
    return float((change**2).sum()) / variance / float(chdtri(len(change), SIGNIFICANCE))


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMean(Record):
    """A stored release. mean: (d,), mean of the rows plus normal noise of this variance.

    weight: rows times tempering. jump: largest change between its releases, see _jump. complete:
    noisy number of rows that are not left out, and sd its noise; None where none may be left out.
    """

    mean: Floats
    variance: float
    weight: float
    jump: float = 0.0
    complete: float | None = None
    complete_sd: float = 0.0

    def moments(self) -> None:
        """Return None: no second moments of a design are released."""

    def posterior(self, mean: Floats, precision: Floats, _: RandomSource) -> Normal:
        """Return the posterior under independent normal priors. mean, precision: (d,).

        The likelihood of n rows to the power T is N(mean of rows; theta, 1 / (nT)), so that of the
        noisy mean is wider by the error's variance.
        """
        likelihood = 1.0 / (1.0 / self.weight + self.variance)
        total = likelihood + precision
        middle = (likelihood * self.mean + precision * mean) / total
        return Normal(middle, np.diag(total**-0.5), self)


def judge(release: NoisyMean, _: tuple[Floats, Floats] | None) -> Judged:
    """Return the verdict, from released numbers alone: free of privacy cost."""
    share = release.variance / (release.variance + 1.0 / release.weight)
    blurred = release.complete_sd > MAX_COUNT_NOISE * (release.complete or 0.0)
    if release.jump <= 1.0 and not blurred:
        remarks = of_complete(release.complete, release.complete_sd)
        return Judged(True, share, "", remarks=remarks)
    if blurred:
        sentence = "the noise hides how many rows are complete"
        most = MAX_COUNT_NOISE * (release.complete or 0.0)
        more = release.complete_sd / most if most > 0.0 else None
        return Judged(False, share, sentence, "noise", more)
    sentence = "the released means disagree: rows vary more than their variances were declared to"
    return Judged(False, share, sentence, "variances")


def of_complete(rows: float | None, sd: float) -> str:
    """Return a note on the released number of complete rows, where rows may be left out."""
    if rows is None:
        return ""
    return f"about {rows:.0f} rows (+- {sd:.0f}) are complete, and these means are theirs"


def _within(point: Floats, middle: Floats, max_row_norm: float) -> Floats:
    """Return `point`, moved to within max_row_norm of `middle`, where every row lies.

    A released point, so that this is free.
    """
    away = float(np.linalg.norm(point - middle))
    point_within: Floats = middle + (point - middle) * min(
        1.0, max_row_norm / away if away > 0.0 else 1.0
    )
    return point_within


def released_sum(
    target: Scores, centre: Floats, clip: float, z: float, random: RandomSource
) -> tuple[Floats, float, float]:
    """Release the sum of rows minus centre, each clipped to length clip. One Gaussian(z) event.

    Returns (sum, number of rows in it, sd of that number). Where rows may be left out their number
    is released as well and costs nothing: see docs/proofs/missing.md, section 3.
    """
    sums, sensitivity = target.gradient(centre[None], clip)
    counted = _in_few_digits(COUNT_WEIGHT * sensitivity)
    if target.gaps:
        sums = np.append(sums, [[counted * target.complete]], axis=1)
    noisy, sd = release_sums(random, NOISY_MEAN, [sums], sensitivity, z)
    total = noisy[0]
    if not target.gaps:
        return total / target.tempering, float(target.rows), 0.0
    sd = sd / counted
    rows = min(max(float(total[-1]) / counted, MIN_COUNT_SDS * sd, 1.0), float(target.rows))
    return total[:-1] / target.tempering, rows, sd


def _in_few_digits(size: float) -> float:
    """Return size rounded down to ten binary digits, so that its multiples are exact."""
    digits, exponent = math.frexp(size)
    return math.ldexp(math.floor(digits * 2.0**10), exponent - 10)


def straightened(model: ModelSpec) -> ModelSpec:
    """Return the model in the coordinates in which its rows are normal."""
    return replace(model, options=replace(model.options, coordinates=None))


def passes(options: NoisyMeanOptions, dimension: int) -> int:
    """Return the number of passes over the rows."""
    return len(options.shares or ())


RELEASE = Release(
    "noisy_mean",
    NoisyMeanOptions,
    families=frozenset({"gaussian_mean", "banana"}),
    exact=True,
    event=event,
    settle=settle,
    sd_inflation=sd_inflation,
    passes=passes,
    publish=publish,
    model=straightened,
    read=NoisyMean.from_dict,
    judge=judge,
    few_rows=True,
)
