"""Chains that start from a release: its cost, its starting points and its expected error.

The release itself is made in dpmcmc/samplers/starting.py, where the rows are opened.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.target import Floats, Places
from dpmcmc.inputs.options import Start
from dpmcmc.privacy.events import Compose, Event
from dpmcmc.releases import newton_path, noisy_mean
from dpmcmc.releases.noisy_quadratic import LEAST_FAR, MOST_FAR

START_SHARES = (0.1, 0.25, 0.5)  # of mu^2, that the planner chooses from
LEAST_NOISE, MOST_NOISE = 1e-4, 1e9
ROUNDING_MARGIN = 1.0 + 1e-12  # rounding of what a start costs


@dataclass(frozen=True, slots=True)
class ChainStart:
    """Starting points of chains and the posterior's shape, from released numbers.

    positions: (chain, d), draws from the posterior given the release. mode: (d,), the mean of that
    posterior. root: (d, d), root @ root.T estimates the posterior's covariance given the rows.
    error: (d, d), covariance of the noise of mode. moments: released mean of x x^T. prior: (d,),
    precision of the prior.
    """

    positions: Floats
    mode: Floats
    root: Floats
    error: Floats
    moments: Floats
    prior: Floats


def begin(target: Places, start: ChainStart | None) -> None:
    """Put every chain at its own starting point; without a start they stay at the public one."""
    if start is not None:
        target.position[:] = start.positions


def event(start: Start) -> Event:
    """Return the event of the release.

    Proof: docs/proofs/noisy_mean.md, where it has shares, and docs/proofs/noisy_quadratic.md.
    """
    if start.noise_multiplier is None or (start.num_far is None) == (start.shares is None):
        raise ValueError("the noise and the number of Newton steps of the start must be known")
    if start.num_far is not None:
        return newton_path.event(start.noise_multiplier, start.num_far)
    return noisy_mean.event(noisy_mean.options_of(start), start.noise_multiplier, 0)


def with_event(start: Start | None, chain: Event) -> Event:
    """Return the chain's event with that of its start before it."""
    return chain if start is None else Compose((event(start), chain))


def settled(start: Start | None, assumptions: Assumptions) -> Start | None:
    """Return the start with all that follows from public facts; None for no start.

    Its noise is set if the job gives epsilon. Raises SpecError on impossible numbers.
    """
    if start is None or (start.share == 0.0 and start.noise_multiplier is None):
        return None
    if assumptions.beginning is None:
        raise SpecError("/sampler/start", "this model has no release for a chain to start from")
    _check(start)
    z = start.noise_multiplier
    if z is None and assumptions.mu is not None:
        z = max(1.0 / (math.sqrt(start.share) * assumptions.mu), LEAST_NOISE)
    return replace(assumptions.beginning.settle(start, z or 1.0), noise_multiplier=z)


def _check(start: Start) -> None:
    """Refuse a share, noise multiplier or num_far of a start that is out of range."""
    numbers = (("share", 0.01, 0.99), ("noise_multiplier", LEAST_NOISE, MOST_NOISE))
    for name, least, most in numbers:
        value = getattr(start, name)
        if value is not None and not least <= value <= most:
            raise SpecError(f"/sampler/start/{name}", f"must be between {least:g} and {most:g}")
    count = start.num_far
    if count is not None and (type(count) is not int or not LEAST_FAR <= count <= MOST_FAR):
        limits = f"must be a whole number between {LEAST_FAR} and {MOST_FAR}"
        raise SpecError("/sampler/start/num_far", limits)


def chain_mu(start: Start | None, mu: float) -> float:
    """Return the mu that remains for the chain from a budget of mu. Raises SpecError if it is 0."""
    if start is None:
        return mu
    if start.noise_multiplier is None:
        return mu * math.sqrt(1.0 - start.share) * (2.0 - ROUNDING_MARGIN)
    remaining = mu**2 - ROUNDING_MARGIN / start.noise_multiplier**2
    if remaining <= 0.0:
        message = f"costs more than the budget: take {1.01 / mu:.3g} or more, or a larger epsilon"
        raise SpecError("/sampler/start/noise_multiplier", message)
    return math.sqrt(remaining)


def finished(start: Start | None, chain: float) -> Start | None:
    """Return the start with its noise set, for a chain that costs mu = chain."""
    if start is None or start.noise_multiplier is not None:
        return start
    mu = chain * math.sqrt(start.share / (1.0 - start.share))
    return replace(start, noise_multiplier=1.0 / mu)


def error(start: Start, assumptions: Assumptions) -> float:
    """Return the mode's expected error in posterior sds, root mean square over coefficients."""
    inflation = _sd_inflation(start, assumptions)
    return math.sqrt(float(np.mean(np.maximum(inflation**2 - 1.0, 0.0))))


def arrived(start: Start, assumptions: Assumptions) -> Floats:
    """Return the expected distances (d,) from the mode at the chain's start."""
    distance = assumptions.sds * _sd_inflation(start, assumptions)
    return np.minimum(distance, np.maximum(assumptions.guess.distance, assumptions.sds))


def _sd_inflation(start: Start, assumptions: Assumptions) -> Floats:
    """Return the inflation (d,) of the sd by noise: expected sd over the posterior's."""
    if assumptions.beginning is None:
        raise ValueError("this model has no release for a chain to start from")
    return assumptions.beginning.sd_inflation(start.noise_multiplier or math.inf)
