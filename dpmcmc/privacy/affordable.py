"""What a budget pays for: noise for a number of steps, and steps at a given noise. Free."""

from numbers import Integral, Real

from dpmcmc.base.errors import SpecError
from dpmcmc.privacy import accountant

MOST_COUNT = 10**12


def noise_for_epsilon(epsilon: float, delta: float, num_steps: int = 1) -> float:
    """Return the least noise multiplier with which so many Gaussian releases cost (epsilon, delta).

    A noise multiplier is the noise's sd over the sensitivity. num_steps: of all chains together; a
    step of a penalty sampler is one release. Exact, under replace_one, rounded up. Raises
    SpecError on what is none of these.
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

    With a gradient_noise_multiplier they are those of one chain of dp_hmc, or with one leapfrog
    step of dp_mala: a step has one ratio and num_leapfrog gradients, and there is one gradient more
    at the start. Exact, under replace_one. Raises SpecError on what is none of these.
    """
    _check_budget(epsilon, delta)
    _check_number("noise_multiplier", noise_multiplier, 1e-5, 1e9)
    _check_count("num_leapfrog", num_leapfrog)
    if gradient_noise_multiplier is None:
        return accountant.num_steps_for(float(epsilon), float(delta), float(noise_multiplier))
    _check_number("gradient_noise_multiplier", gradient_noise_multiplier, 1e-5, 1e9)
    given = float(noise_multiplier), float(gradient_noise_multiplier), int(num_leapfrog)
    return accountant.num_trajectories_for(float(epsilon), float(delta), *given)


def _check_budget(epsilon: float, delta: float) -> None:
    _check_number("epsilon", epsilon, 1e-4, 1e9)
    _check_number("delta", delta, 1e-20, 0.1)


def _check_number(name: str, value: object, least: float, most: float) -> None:
    """Refuse what is no number within [least, most]; not a number is none."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not least <= value <= most:  # type: ignore[operator]
        raise SpecError(f"/{name}", f"must be between {least:g} and {most:g}")


def _check_count(name: str, value: object) -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not 1 <= value <= MOST_COUNT:  # type: ignore[operator]
        raise SpecError(f"/{name}", f"must be a whole number between 1 and {MOST_COUNT}")
