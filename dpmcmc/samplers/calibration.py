"""A search for the smallest noise multiplier that a budget allows, by the cost of an event."""

import math
from collections.abc import Callable

from dpmcmc.base.errors import SpecError
from dpmcmc.samplers.starts import MOST_NOISE

MIN_NOISE = 1e-3
RELATIVE_TOLERANCE = 1e-3  # of a calibrated noise multiplier
MOST_TRIES, STEEPEST = 200, 1000.0  # of a cost, and of its fall on logarithmic scales


def smallest(ratio_of: Callable[[float], float], z: float) -> float:
    """Return z at which a falling ratio_of(z) is at most 1, within RELATIVE_TOLERANCE of the least.

    By secants in logarithms, within a bracket; every fourth attempt bisects it, for costs that are
    far from a power of the noise.
    """
    too_small, enough, slope, last = MIN_NOISE, math.inf, -1.0, (0.0, 0.0)
    for attempt in range(MOST_TRIES):
        ratio = ratio_of(z)
        if 1.0 - RELATIVE_TOLERANCE <= ratio <= 1.0 or (
            ratio <= 1.0 and z <= too_small * (1.0 + RELATIVE_TOLERANCE)
        ):
            return z
        too_small, enough = (too_small, z) if ratio <= 1.0 else (z, enough)
        if too_small >= MOST_NOISE:
            break
        if attempt and 0.0 < ratio * last[1] < math.inf and ratio != last[1]:
            slope = math.log(ratio / last[1]) / math.log(z / last[0])
        last, slope = (z, ratio), min(max(slope, -STEEPEST), -0.5)
        z = moved(z, ratio ** (-1.0 / slope))
        if not too_small < z < enough or attempt % 4 == 3:
            z = _between(too_small, enough, last[0])
        if enough <= too_small * (1.0 + RELATIVE_TOLERANCE):
            return enough
    if enough < math.inf:
        return enough
    raise SpecError("/privacy/epsilon", "is too small for so many steps")


def _between(too_small: float, enough: float, z: float) -> float:
    """Return the middle of the bracket, or a value far outside where one side is not known yet."""
    if enough == math.inf:
        return MOST_NOISE
    return max(z / 4.0, MIN_NOISE) if too_small <= MIN_NOISE else math.sqrt(too_small * enough)


def moved(z: float, ratio: float) -> float:
    """Return the next noise multiplier to try, given the cost over the budget."""
    return min(
        max(z * min(max(ratio, 0.5), 2.0) * (1.0 + 0.3 * RELATIVE_TOLERANCE), MIN_NOISE), MOST_NOISE
    )
