"""The share of noise in a released number's declared range, and the verdict that follows."""

import math
from collections.abc import Callable, Sequence

from scipy.special import ndtri

from dpmcmc.posterior.verdicts import Verdict

MOST_SHARE = 0.25  # of what bounds allow: a wider interval tells little more than bounds do
LEVEL = 0.9  # of that interval
REACH = float(ndtri(0.5 + 0.5 * LEVEL))  # its half width in sds of the noise
HIGHEST_EPSILONS = (1000.0, 31.0)  # that are worth naming; some noise has no larger one than 32
SHOWN = 3  # reasons of a verdict


def reason(
    what: str, share: float, share_at: Callable[[float], float], epsilon: float
) -> str | None:
    """Return why noise hides a number, with an epsilon that would suffice, or None.

    share: width of the interval that noise alone makes, over the width that bounds allow. share_at:
    the same at another epsilon, infinite where there is no such noise. epsilon: of the release.
    """
    if share < MOST_SHARE:
        return None
    wide = f"{100.0 * share:.0f} % of" if share < 1.5 else f"{share:,.0f} times"
    message = (
        f"noise alone makes a {100.0 * LEVEL:.0f} % interval of {what} as wide as {wide} what the"
        " bounds allow"
    )
    enough = _least(share_at, epsilon)
    if enough is None:
        return f"{message}; no larger epsilon is known to mend that, more rows do"
    return f"{message}; at epsilon {enough:.3g} it is below {100.0 * MOST_SHARE:.0f} %"


def verdict(why: str, reasons: Sequence[str]) -> Verdict:
    """Return a reliable verdict with this sentence, or an unreliable one for the first reason."""
    if not reasons:
        return Verdict("reliable", f"Reliable: {why}.", (), None)
    shown = tuple(reasons[:SHOWN])
    if len(reasons) > SHOWN:
        shown += (f"and so of {len(reasons) - SHOWN} more",)
    return Verdict("unreliable", f"Unreliable: {'; '.join(shown)}.", shown, None)


def _least(share_at: Callable[[float], float], above: float) -> float | None:
    """Return about the smallest epsilon at which the share is tolerable, rounded up, or None."""

    def is_enough(epsilon: float) -> bool:
        """Return whether the share of noise is tolerable at this epsilon."""
        return share_at(epsilon) < MOST_SHARE

    high = next(
        (epsilon for epsilon in HIGHEST_EPSILONS if above < epsilon and is_enough(epsilon)), None
    )
    if high is None:
        return None
    low = above
    while high > 1.005 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    digits = 2 - math.floor(math.log10(high))
    return math.ceil(high * 10.0**digits) / 10.0**digits
