"""The protocol of a sampler, and of its mixing model for the planner."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.target import Floats, Target
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.starts import ChainStart

Options = TypeVar("Options")
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected mixing of a chain.

    options: complete but for the numbers of steps, chains and warm-up. draws: effective draws per
    step of one chain, averaged over the coefficients; NaN: not known. walk: steps from the prior
    mean to the mode. fitting: least steps of a warm-up that adapts moves.
    """

    options: Any
    draws: float
    walk: int
    fitting: int = 0


class MixingModel(Protocol):
    """A sampler's model for the planner: effective draws, noise multiplier and run time.

    All of it follows from public facts. See dpmcmc/samplers/penalty_mixing.py for an example.
    """

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return parts of mu^2 that the planner tries for a start; empty for no start.

        mu: of the job. Called where the caller's options leave the start open.
        """

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Return options with all that does not depend on the budget. Raises SpecError."""

    def steps(self, options: Any, assumptions: Assumptions, mu: float, chains: int) -> float:
        """Return the approximate number of steps of a chain that is best for a budget of mu."""

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return a noise multiplier with which all steps of all chains cost at most (epsilon,
        delta): in closed form where all events are Gaussian, else by the search of calibration.py.

        Raises SpecError where there is none.
        """

    def expectation(
        self, options: Any, assumptions: Assumptions, noise_multiplier: float
    ) -> Expectation:
        """Return the complete options with the expected mixing. Raises SpecError."""

    def clips_ratios(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> bool:
        """Whether the planner's clip of complete options affects usual moves.

        That is, whether such moves can have ratios beyond it under the planner's assumptions.
        """

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return the approximate number of columns (of all rows) that a step of one chain reads."""


@dataclass(frozen=True, slots=True)
class Sampler(Generic[Options, State]):
    """One algorithm. Registered by one explicit line in dpmcmc/samplers/__init__.py.

    event: (options, noise multiplier, rows) -> the event of a whole run, with the release that it
    starts from.
    mixing: its mixing model; Unmodelled where there is none: then the caller gives the number of
    steps. exact: whether it leaves the tempered, clipped posterior invariant. If not, its plan and
    its verdict say so, and the planner never chooses it.
    init: (target, options, noise multiplier, random, start or None) -> state of all chains without
    their positions; it sets the positions from a start.
    step: (target, options, noise multiplier, block length, random, state) -> (chain, block, d)
    draws; changes the state in place.
    """

    name: str
    options: type[Options]
    event: Callable[[Options, float, int], Event]
    mixing: MixingModel
    step: Callable[[Target, Options, float, int, RandomSource, State], Floats]
    init: Callable[[Target, Options, float, RandomSource, ChainStart | None], State]
    exact: bool = True
