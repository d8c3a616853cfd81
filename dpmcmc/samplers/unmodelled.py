"""A sampler without a mixing model: the caller gives the number of steps, no ESS is expected."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpmcmc.base.errors import SpecError
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Event
from dpmcmc.samplers.base import Expectation
from dpmcmc.samplers.calibration import smallest
from dpmcmc.samplers.starts import finished, settled


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """A MixingModel without a model of mixing. event: of the sampler.

    finish: (options, assumptions, noise multiplier) -> complete options. Raises SpecError on
    impossible ones.
    """

    event: Callable[[Any, float, int], Event]
    finish: Callable[[Any, Assumptions, float], Any] = lambda options, _, __: options

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return an empty tuple: the planner chooses no start."""
        return ()

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Return options with all values that do not depend on the budget. Raises SpecError."""
        if options.num_steps is None:
            message = f"is needed: nothing is known of how {options.algorithm} mixes"
            raise SpecError("/sampler/num_steps", message)
        return replace(options, start=settled(options.start, assumptions))

    def steps(self, options: Any, assumptions: Assumptions, mu: float, chains: int) -> float:
        """Return the number of steps that the caller asked for."""
        return float(options.num_steps)

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return the least noise multiplier at which the event costs at most (epsilon, delta)."""
        mu = accountant.mu_of_epsilon(epsilon, delta)
        count = options.num_steps * options.num_chains

        def ratio(z: float) -> float:
            with_start = self._begun(options, count, z)
            return accountant.epsilon(self.event(with_start, z, rows), delta) / epsilon

        return smallest(ratio, math.sqrt(count) / mu)

    def _begun(self, options: Any, count: int, z: float) -> Any:
        """Return options with the start's noise, for at most `count` releases."""
        return replace(options, start=finished(options.start, math.sqrt(count) / z))

    def expectation(
        self, options: Any, assumptions: Assumptions, noise_multiplier: float
    ) -> Expectation:
        """Return the complete options; the effective draws of a step are not known (NaN)."""
        count = options.num_steps * options.num_chains
        with_start = self._begun(options, count, noise_multiplier)
        return Expectation(self.finish(with_start, assumptions, noise_multiplier), math.nan, 0)

    def clips_ratios(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> bool:
        """Return whether ratios of rows are clipped: False, as no clip is planned here."""
        return False

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return the approximate number of columns (of all rows) that a step of one chain reads."""
        return float(dimension)
