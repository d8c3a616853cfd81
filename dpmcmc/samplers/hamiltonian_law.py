"""How DP HMC and DP MALA mix: what the planner needs of them.

LOSS is measured by experiments/ess_law.py on N(0, I).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmcmc.errors import SpecError
from dpmcmc.privacy import accountant
from dpmcmc.samplers.base import Floats, Outlook, Pace
from dpmcmc.samplers.warm_start_law import chain_mu, finished, gradient_clip, settled, walked

LENGTH = {1: 0.9, 3: 1.2}  # of a trajectory, in posterior sds; 1.2 for every other number of steps
NOISE = 1.5  # best sd of the noise on the ratio
LOSS = 0.6  # draws of the measured chain over those of the formula
MOST_LEAPFROG = 100


@dataclass(frozen=True, slots=True)
class HamiltonianLaw:
    """Half of a chain's mu^2 pays for ratios, half for gradients."""

    def settle(self, options: Any, outlook: Outlook) -> Any:
        """See Law."""
        precision = np.diag(outlook.guess.precision)
        d = len(precision)
        mass = options.mass or tuple(float(f"{m:.6g}") for m in precision)
        _check(options, mass, d)
        clip = options.gradient_clip or gradient_clip(outlook)
        warm = settled(options.warm_start, outlook)
        return replace(options, mass=mass, gradient_clip=clip, warm_start=warm)

    def steps(self, options: Any, outlook: Outlook, mu: float, chains: int) -> float:
        """See Law. As many as leave noise of NOISE sds on the ratio of a trajectory."""
        share = chain_mu(options.warm_start, mu) ** 2 / 2.0
        length = LENGTH.get(options.num_leapfrog, 1.2)
        return float(share * (NOISE / _ratio_width(outlook, length)) ** 2 / chains)

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """See Law. Of the ratios; gradients get the other half, or what the caller fixed."""
        mu = chain_mu(options.warm_start, accountant.mu_of_epsilon(epsilon, delta))
        ratios = options.num_steps * options.num_chains
        if options.gradient_noise_multiplier is None:
            left = mu**2 / 2.0
        else:
            gradients = options.num_chains * (options.num_steps * options.num_leapfrog + 1)
            left = mu**2 - gradients / options.gradient_noise_multiplier**2
        if left <= 0.0:
            raise SpecError("/sampler/gradient_noise_multiplier", "costs more than the budget")
        return math.sqrt(ratios / left) * (1.0 + 1e-12)

    def pace(self, options: Any, outlook: Outlook, noise_multiplier: float) -> Pace:
        """See Law."""
        z = noise_multiplier
        if options.gradient_noise_multiplier is None:
            each = options.num_leapfrog + 1.0 / options.num_steps
            options = replace(options, gradient_noise_multiplier=z * math.sqrt(each) * (1 + 1e-12))
        lengths = np.geomspace(0.02, 2.0, 40) / options.num_leapfrog
        step = options.step_size or float(
            f"{max(lengths.tolist(), key=lambda e: _draws(options, outlook, z, e)):.4g}"
        )
        draws = _draws(options, outlook, z, step)
        chains, steps = options.num_chains, options.num_steps
        gradients = (steps * options.num_leapfrog + 1) / options.gradient_noise_multiplier**2
        spent = math.sqrt(chains * (steps / z**2 + gradients))
        options = replace(options, step_size=step, warm_start=finished(options.warm_start, spent))
        if options.warm_start is not None:
            return Pace(options, draws, walked(draws))
        away = max(1.0, float((outlook.guess.distance / outlook.sds).max()))
        walk = math.ceil((1.0 + math.log(away)) / _draws(options, outlook, z * away, step))
        return Pace(options, draws * min(1.0, steps / walk), walk)

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """See Law."""
        return float(dimension * (2 * options.num_leapfrog + 1))


def _check(options: Any, mass: tuple[float, ...], dimension: int) -> None:
    """Refuse impossible numbers. Raises SpecError."""
    if len(mass) != dimension:
        raise SpecError("/sampler/mass", f"must have {dimension} entries")
    if not all(1e-12 <= m <= 1e18 for m in mass):
        raise SpecError("/sampler/mass", "must be between 1e-12 and 1e18")
    leapfrog = options.num_leapfrog
    if type(leapfrog) is not int or not 1 <= leapfrog <= MOST_LEAPFROG:
        raise SpecError(
            "/sampler/num_leapfrog", f"must be a whole number between 1 and {MOST_LEAPFROG}"
        )
    numbers = (
        ("step_size", 1e-9, 1e3),
        ("gradient_clip", 1e-9, 1e6),
        ("gradient_noise_multiplier", 1e-4, 1e9),
    )
    for name, least, most in numbers:
        value = getattr(options, name)
        if value is not None and not least <= value <= most:
            raise SpecError(f"/sampler/{name}", f"must be between {least:g} and {most:g}")


def _ratio_width(outlook: Outlook, length: float) -> float:
    """Return the typical width of one row's interval over a trajectory of this length."""
    jumps: Floats = outlook.sds * math.sqrt(2.0 * (1.0 - math.cos(min(length, math.pi))))
    return outlook.guess.joint_width * math.sqrt(2.0 / math.pi) * float(jumps.mean())


def _draws(options: Any, outlook: Outlook, z: float, step: float) -> float:
    """Return the effective draws of one step.

    A trajectory of length t turns the position by that angle; the noise of the ratio and the
    energy that noisy gradients add decide how often it is accepted.
    """
    length = step * options.num_leapfrog
    clip, tempering = options.gradient_clip, outlook.tempering
    noise = options.gradient_noise_multiplier * 2.0 * clip * tempering * outlook.sds
    ratio = z * _ratio_width(outlook, length)
    heat = step * length * float((noise**2).sum())
    coarse = len(noise) * step**6 / 32.0  # leapfrog error of exact gradients, squared
    accepted = math.erfc(math.sqrt(0.125 * (ratio**2 + heat + coarse)))
    turned = LOSS * accepted * (1.0 - math.cos(min(length, math.pi)))
    return max(turned / (2.0 - turned), 1e-12)
