"""What a budget allows: noise for a number of steps, or steps at a given noise. Free."""

from numbers import Integral, Real

from dpmcmc.base.errors import SpecError
from dpmcmc.privacy import accountant
from dpmcmc.privacy.promises import MOST_DELTA

MOST_COUNT = 10**12


def noise_for_epsilon(epsilon: float, delta: float, num_steps: int = 1) -> float:
    """Return the least noise multiplier with which so many Gaussian releases cost (epsilon, delta).

    Exact, under replace_one, rounded up.

    Parameters
    ----------
    epsilon, delta
        What all releases may cost together.
    num_steps
        Number of releases, of all chains together; a step of a penalty sampler is one.

    Returns
    -------
    float
        Sd of the noise over the sensitivity.

    Raises
    ------
    SpecError
        If a number is out of range; the message names it.

    Examples
    --------
    >>> noise_for_epsilon(1, 1e-6, num_steps=1000)
    """
    _check_budget(epsilon, delta)
    _check_count("num_steps", num_steps)
    return accountant.noise_multiplier_for(float(epsilon), float(delta), int(num_steps))


def steps_for_epsilon(
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    *,
    gradient_noise_multiplier: float | None = None,
    num_leapfrog: int = 1,
) -> int:
    """Return how many steps with this noise a budget pays for; 0 where it pays for none.

    Exact, under replace_one.

    Parameters
    ----------
    epsilon, delta
        What all steps may cost together.
    noise_multiplier
        Sd of the noise of a log likelihood ratio over its sensitivity.
    gradient_noise_multiplier
        The same of gradients. If given, steps are those of one chain of dp_hmc, or with one
        leapfrog step of dp_mala: each has one ratio and num_leapfrog gradients, and there is one
        gradient more at the start.
    num_leapfrog
        Leapfrog steps of each trajectory.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    SpecError
        If a number is out of range; the message names it.

    Examples
    --------
    >>> steps_for_epsilon(1, 1e-6, noise_multiplier=150)
    """
    _check_budget(epsilon, delta)
    _check_number("noise_multiplier", noise_multiplier, 1e-5, 1e9)
    _check_count("num_leapfrog", num_leapfrog)
    if gradient_noise_multiplier is None:
        return accountant.num_steps_for(float(epsilon), float(delta), float(noise_multiplier))
    _check_number("gradient_noise_multiplier", gradient_noise_multiplier, 1e-5, 1e9)
    trajectory = float(noise_multiplier), float(gradient_noise_multiplier), int(num_leapfrog)
    return accountant.num_trajectories_for(float(epsilon), float(delta), *trajectory)


def _check_budget(epsilon: float, delta: float) -> None:
    """Refuse an epsilon or delta out of range."""
    _check_number("epsilon", epsilon, 1e-4, 1e9)
    _check_number("delta", delta, 1e-20, MOST_DELTA)


def _check_number(name: str, value: object, least: float, most: float) -> None:
    """Refuse a value outside [least, most], or NaN."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not least <= value <= most:  # type: ignore[operator]
        raise SpecError(f"/{name}", f"must be between {least:g} and {most:g}")


def _check_count(name: str, value: object) -> None:
    """Refuse a value that is not a positive whole number."""
    integral = isinstance(value, Integral) and not isinstance(value, bool)
    if not integral or not 1 <= value <= MOST_COUNT:  # type: ignore[operator]
        raise SpecError(f"/{name}", f"must be a whole number between 1 and {MOST_COUNT}")
