"""What a sampler is, and what the planner needs to know of one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.target import Floats, Target
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.starts import Found

Options = TypeVar("Options")
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a chain is expected to do.

    options: with nothing left open but the numbers of steps, chains and warm-up. draws: effective
    draws that a step of one chain gives, averaged over the coefficients; no number: not known.
    walk: steps from the prior mean to the mode. fitting: least steps of the warm-up that fits moves
    to the posterior.
    """

    options: Any
    draws: float
    walk: int
    fitting: int = 0


class MixingModel(Protocol):
    """What the planner needs of a sampler: its effective draws, noise multiplier and run time.

    All of it follows from public facts. See dpmcmc/samplers/penalty_mixing.py for an example.
    """

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return parts of mu^2 that the planner tries for a start; none of them for none at all.

        mu: of the job. Where the caller says nothing of a start.
        """

    def settle(self, options: Any, assumptions: Assumptions) -> Any:
        """Choose what does not depend on the budget. Raises SpecError on impossible options."""

    def steps(self, options: Any, assumptions: Assumptions, mu: float, chains: int) -> float:
        """Return about how many steps of a chain make the best use of a budget of mu."""

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return one at which all steps of all chains cost at most (epsilon, delta).

        A closed form where all is Gaussian, for which it is exact and a search would be close; the
        search of calibration.py otherwise.
        Raises SpecError where there is none.
        """

    def expectation(
        self, options: Any, assumptions: Assumptions, noise_multiplier: float
    ) -> Expectation:
        """Return the finished options and what to expect. Raises SpecError on impossible ones."""

    def cuts(self, options: Any, assumptions: Assumptions, noise_multiplier: float) -> bool:
        """Whether finished options cut rows at a place of the planner's choice.

        That is, whether usual moves can have ratios beyond it, if rows are as guessed.
        """

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return how many columns of the design, all rows, a step of one chain reads, about."""


@dataclass(frozen=True, slots=True)
class Sampler(Generic[Options, State]):
    """One algorithm. Registered by one explicit line in dpmcmc/samplers/__init__.py.

    event: (options, noise multiplier, rows) -> everything that a whole run does to the data, the
    release that it starts from included.
    mixing: what the planner needs to know of how it mixes; Unmodelled where that is not known: then
    the caller gives the number of steps. exact: whether it leaves the tempered, clipped posterior
    invariant. Where not, its plan and its verdict say so, and the planner never chooses it.
    init: (target, options, noise multiplier, random, what a release found or None) -> state of all
    chains beside the positions, which it sets where something was found.
    step: (target, options, noise multiplier, block length, random, state) -> (chain, block, d)
    draws; changes the state in place.
    """

    name: str
    options: type[Options]
    event: Callable[[Options, float, int], Event]
    mixing: MixingModel
    step: Callable[[Target, Options, float, int, RandomSource, State], Floats]
    init: Callable[[Target, Options, float, RandomSource, Found | None], State]
    exact: bool = True
