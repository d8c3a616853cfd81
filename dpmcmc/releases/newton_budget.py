"""What `noisy_quadratic` charges: how its budget is shared, and the event of all that it does."""

import math

from dpmcmc.privacy.events import Compose, Event, Gaussian, Repeat
from dpmcmc.releases import whitening

ROUNDING_MARGIN = 1.0 - 2.0**-40  # of mu^2: rounding of what follows costs nothing
WHITENING_SHARE = 0.05  # share of mu^2;
NEAR_SHARES = (0.38, 0.42)  # of the near iterates. The far ones share what is left


def shares(num_far: int, paid: bool = False) -> tuple[float, ...]:
    """Return the parts of mu^2 of all iterates, far ones first. paid: for the whitening, before."""
    left = 1.0 - sum(NEAR_SHARES) - WHITENING_SHARE
    scale = ROUNDING_MARGIN / (1.0 - WHITENING_SHARE) if paid else ROUNDING_MARGIN
    return tuple(scale * share for share in (*(left / num_far,) * num_far, *NEAR_SHARES))


def event(z: float, num_far: int, paid: bool = False) -> Event:
    """Return everything that `find_mode` does to the rows. Proof: docs/proofs/noisy_quadratic.md.

    paid: whether the coordinates come from a whitening that was charged elsewhere.
    """
    *far, first, last = shares(num_far, paid)
    iterates = (
        Repeat(Gaussian(z / math.sqrt(far[0])), len(far)),
        Gaussian(z / math.sqrt(first)),
        Gaussian(z / math.sqrt(last)),
    )
    if paid:
        return Compose(iterates)
    return Compose((whitening.event(z / math.sqrt(ROUNDING_MARGIN * WHITENING_SHARE)), *iterates))
