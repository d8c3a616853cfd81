"""The smallest noise multiplier that a budget pays for, by the price of an event alone."""

import math
from collections.abc import Callable

from dpmcmc.base.errors import SpecError
from dpmcmc.samplers.starts import MOST_NOISE

MIN_NOISE = 1e-3
RELATIVE_TOLERANCE = 1e-3  # how much of the noise a calibration may give away
MOST_TRIES, STEEPEST = 200, 1000.0  # of a cost, and of its fall on logarithmic scales


def smallest(ratio_of: Callable[[float], float], z: float) -> float:
    """Return z at which a falling ratio_of(z) is at most 1, within RELATIVE_TOLERANCE of the least.

    By secants in logarithms, within what is known to be too little and enough; every fourth try
    halves that, for costs that are far from a power of the noise.
    """
    little, enough, slope, last = MIN_NOISE, math.inf, -1.0, (0.0, 0.0)
    for tried in range(MOST_TRIES):
        ratio = ratio_of(z)
        if 1.0 - RELATIVE_TOLERANCE <= ratio <= 1.0 or (
            ratio <= 1.0 and z <= little * (1.0 + RELATIVE_TOLERANCE)
        ):
            return z
        little, enough = (little, z) if ratio <= 1.0 else (z, enough)
        if little >= MOST_NOISE:
            break
        if tried and 0.0 < ratio * last[1] < math.inf and ratio != last[1]:
            slope = math.log(ratio / last[1]) / math.log(z / last[0])
        last, slope = (z, ratio), min(max(slope, -STEEPEST), -0.5)
        z = moved(z, ratio ** (-1.0 / slope))
        if not little < z < enough or tried % 4 == 3:
            z = _between(little, enough, last[0])
        if enough <= little * (1.0 + RELATIVE_TOLERANCE):
            return enough
    if enough < math.inf:
        return enough
    raise SpecError("/privacy/epsilon", "is too small for so many steps")


def _between(little: float, enough: float, z: float) -> float:
    """Return the middle, or a place much further on where one side is not known yet."""
    if enough == math.inf:
        return MOST_NOISE
    return max(z / 4.0, MIN_NOISE) if little <= MIN_NOISE else math.sqrt(little * enough)


def moved(z: float, ratio: float) -> float:
    """Return the next noise multiplier to try, given the cost over the budget."""
    return min(
        max(z * min(max(ratio, 0.5), 2.0) * (1.0 + 0.3 * RELATIVE_TOLERANCE), MIN_NOISE), MOST_NOISE
    )
