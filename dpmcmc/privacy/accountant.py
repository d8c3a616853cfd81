"""What events cost: exact quotes in directed rounding, costs up and budgets down.

The Gaussian path is closed-form and imports neither scipy.stats nor the accounting library.
"""

import math
from fractions import Fraction

from dpmcmc.privacy.events import (
    Compose,
    Event,
    EventError,
    Gaussian,
    Parallel,
    Repeat,
)
from dpmcmc.privacy.gaussian import delta_of_mu, epsilon_of_mu, mu_of_epsilon, root_up


def gdp_mu2(event: Event) -> Fraction | None:
    """The square of `gdp_mu`, exact for Gaussian events; None where no GDP bound is known."""
    match event:
        case Gaussian(noise_multiplier=z):
            return 1 / Fraction(z) ** 2
        case Repeat(event=inner, count=count):
            one = gdp_mu2(inner)
            return None if one is None else count * one
        case Compose(events=events):
            parts = [gdp_mu2(inner) for inner in events]
            return None if None in parts else sum((p for p in parts if p), Fraction(0))
        case Parallel(events=events):
            parts = [gdp_mu2(inner) for inner in events]
            return None if None in parts else max(p for p in parts if p is not None)
        case _:
            raise EventError("this is not an event of the closed vocabulary")


def rdp_bound(event: Event, order: float) -> Fraction | None:
    """Rényi divergence of the event at one order, rounded up; None where no bound is known."""
    square = gdp_mu2(event)
    return None if square is None else square * Fraction(order) / 2


def pure_bound(event: Event) -> tuple[Fraction | None, Fraction]:
    """(epsilon, delta): but for probability delta the event is epsilon-DP; None without such epsilon."""
    del event
    return None, Fraction(0)


def gdp_mu(event: Event) -> float:
    """mu of the event's Gaussian-DP bound, rounded up; infinite where none is known."""
    square = gdp_mu2(event)
    return math.inf if square is None else root_up(square)


def epsilon(event: Event, delta: float) -> float:
    """Tightest sound epsilon of the event at delta, rounded up."""
    return epsilon_of_mu(gdp_mu(event), delta)


def delta(event: Event, epsilon: float) -> float:
    """Tightest sound delta of the event at epsilon, rounded up."""
    return delta_of_mu(gdp_mu(event), epsilon)


def noise_multiplier_for(epsilon: float, delta: float, num_steps: int) -> float:
    """Smallest noise multiplier for which num_steps Gaussian releases cost (epsilon, delta), rounded up.

    Raises ValueError where the budget or num_steps is not positive.
    """
    if num_steps < 1:
        raise ValueError("num_steps must be 1 or larger")
    mu = mu_of_epsilon(epsilon, delta)
    if mu == 0:
        raise ValueError("a budget of epsilon 0 buys no release")
    return root_up(num_steps / Fraction(mu) ** 2)


def num_steps_for(epsilon: float, delta: float, noise_multiplier: float) -> int:
    """Largest number of Gaussian releases at noise_multiplier within (epsilon, delta); may be 0."""
    budget = Fraction(mu_of_epsilon(epsilon, delta)) ** 2
    return math.floor(budget / one) if (one := gdp_mu2(Gaussian(noise_multiplier))) else 0
