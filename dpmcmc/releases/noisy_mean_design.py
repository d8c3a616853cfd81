"""The design of `noisy_mean`: clips and budget shares that minimise the expected variance."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri, gammaln

from dpmcmc.base.errors import SpecError
from dpmcmc.families.target import Floats
from dpmcmc.releases.base import Facts

TRIED_SHARES = (0.0005, 0.002, 0.005, 0.02, 0.05, 0.2)  # for each release but the last
MOST_RELEASES = 4
# probability that an earlier release's error is more than the next clip allows for
MISS_PROBABILITY = 1e-3
PILOT_TAIL = 1e-4  # of the rows, outside a clip that only finds the place
CUT = 0.02  # of the rows, outside the last clip: more would rest on normal tails
WIDEST_CLIP = 1e15  # no clip is wider: a row beyond it is cut, whatever the declared bounds
NEGLIGIBLE = 1e-4  # error variance over that of the posterior that does not matter
SLACK = 1.02  # times the least variance: what a wider clip may cost
CLIPS = 25  # tried


@dataclass(frozen=True, slots=True)
class Choice:
    """Releases that the planner compares. variance: of the mean's error, in known variances."""

    shares: tuple[float, ...]
    clip_bounds: tuple[float, ...]
    variance: float


def check(shares: tuple[float, ...] | None, clip_bounds: tuple[float, ...] | None) -> None:
    """Refuse shares or clips that are out of range. Raises SpecError."""
    if shares is not None:
        if not 1 <= len(shares) <= MOST_RELEASES or not all(1e-9 <= s <= 1.0 for s in shares):
            raise SpecError("/sampler/shares", f"must be 1 to {MOST_RELEASES} numbers up to 1")
        if sum(shares) > 1.0:
            raise SpecError("/sampler/shares", "must add up to at most 1")
    if clip_bounds is not None:
        if shares is None or len(shares) != len(clip_bounds):
            raise SpecError("/sampler/clip_bounds", "must be as many as shares")
        if not all(1e-6 <= clip <= 1e15 for clip in clip_bounds):
            raise SpecError("/sampler/clip_bounds", "must be between 1e-6 and 1e15")


def moments(clip: float, dimension: int, max_row_norm: float, first: bool) -> tuple[float, float]:
    """Return clipped_moments, or (1, 0) where no row is clipped.

    A first release is centred at the middle of the declared bounds, whose corners have norm
    max_row_norm.
    """
    return (1.0, 0.0) if first and clip >= max_row_norm else clipped_moments(clip, dimension)


@lru_cache(maxsize=4096)
def clipped_moments(clip: float, dimension: int) -> tuple[float, float]:
    """Return (slope, excess) of x clipped to length clip, x ~ N(0, I).

    slope: what a small move of x's mean moves the mean of the cut x by. excess: variance of
    (cut x) / slope - x in each coordinate; they are uncorrelated with x (Stein's identity).
    """
    d, square = dimension, clip * clip
    inside, outside = float(chdtr(d, square)), float(chdtrc(d, square))
    slope = inside
    if d > 1:
        inverse = math.exp(float(gammaln(0.5 * d - 0.5) - gammaln(0.5 * d))) / math.sqrt(2.0)
        slope += (d - 1) / d * clip * inverse * float(chdtrc(d - 1, square))
    variance = float(chdtr(d + 2, square)) + square * outside / d
    return slope, max(variance / slope**2 - 1.0, 0.0)


def noise_variance(slope: float, excess: float, clip: float, z: float, rows: float) -> float:
    """Return the variance of a released mean around the rows' mean, for each coordinate."""
    return excess / rows + (2.0 * clip * z / (rows * slope)) ** 2


def variance(
    facts: Facts, z: float, shares: tuple[float, ...], clip_bounds: tuple[float, ...]
) -> float:
    """Return the error variance of all releases, precision-weighted together."""
    parts = [
        1.0 / _error(facts, z / math.sqrt(share), clip, not number)
        for number, (share, clip) in enumerate(zip(shares, clip_bounds, strict=True))
    ]
    return 1.0 / sum(parts)


def _error(facts: Facts, z: float, clip: float, first: bool) -> float:
    """Return the error variance of one release."""
    d = len(facts.assumptions.guess.width)
    clipped = moments(clip, d, facts.max_row_norm, first)
    return noise_variance(*clipped, clip, z, facts.assumptions.rows)


def best(
    facts: Facts, z: float, clip_bound: float | None, shares: tuple[float, ...] | None
) -> Choice:
    """Return the fewest releases whose mean has about the least variance.

    Of the last clips that are about as good the widest: it is right for rows that are less normal
    than the model says.
    """
    tried = [_choices(facts, z, clip_bound, s) for s in ([shares] if shares else _all_shares())]
    weight = facts.assumptions.rows * facts.assumptions.tempering
    least = min(choice.variance for some in tried for choice in some)
    enough = max(SLACK * least, NEGLIGIBLE / weight)
    good = next(g for some in tried if (g := [c for c in some if c.variance <= enough]))
    return max(good, key=lambda choice: choice.clip_bounds[-1])


def _all_shares() -> list[tuple[float, ...]]:
    """Return the budget shares to compare: one release, or cheap ones before it."""
    cheap = product(range(1, MOST_RELEASES), TRIED_SHARES)
    return [(1.0,), *((share,) * n + (1.0 - n * share,) for n, share in cheap)]


def _choices(
    facts: Facts, z: float, clip_bound: float | None, shares: tuple[float, ...]
) -> list[Choice]:
    """Return releases of these shares, one for each last clip that is compared."""
    candidates = _clips(facts, z, clip_bound, shares)
    return [Choice(shares, clips, variance(facts, z, shares, clips)) for clips in candidates]


def _clips(
    facts: Facts, z: float, clip_bound: float | None, shares: tuple[float, ...]
) -> list[tuple[float, ...]]:
    """Return the clips to compare: each release narrows those after it."""
    d, max_row_norm = len(facts.assumptions.guess.width), min(facts.max_row_norm, WIDEST_CLIP)
    sure, room, least = (
        math.sqrt(float(chdtri(d, p))) for p in (MISS_PROBABILITY, PILOT_TAIL, CUT)
    )
    earlier: list[float] = []
    near, offset = max_row_norm, 0.0
    for share in shares[:-1]:
        earlier.append(_rounded(near))
        error = _error(facts, z / math.sqrt(share), earlier[-1], len(earlier) == 1)
        offset = sure * math.sqrt(error + 1.0 / facts.assumptions.rows)
        near = min(max_row_norm, room + offset)
    if clip_bound is not None:
        return [(*earlier, clip_bound)]
    if not earlier:
        return [(_rounded(max_row_norm),)]
    lowest = min(least + offset, max_row_norm)
    around: Floats = np.geomspace(lowest, min(lowest + room, max_row_norm), CLIPS)
    return [(*earlier, _rounded(clip)) for clip in around.tolist()]


def _rounded(clip: float) -> float:
    """Return clip rounded up to few digits."""
    step = 10.0 ** (math.floor(math.log10(clip)) - 3)
    return math.ceil(clip / step) * step
