"""What a sampler is, and what it needs of a model with opened rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.discrete import Integers, Scale
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.rules import Rule

if TYPE_CHECKING:
    from dpmcmc.models.base import Guess
    from dpmcmc.samplers.options import Start
    from dpmcmc.samplers.starts import Found

Floats = NDArray[np.float64]


class Steps(NamedTuple):
    """Steps of all chains that are decided by rules.accepts.

    chosen: (step,) the vector that is moved along. deltas: (step, chain, d) moves. alone: whether
    these are of coefficient `chosen` alone. noise: (step, chain), of the ratios; scale:
    of it. uniforms: (step, chain).
    """

    chosen: NDArray[np.int64]
    deltas: Floats
    alone: bool
    noise: Integers
    uniforms: Floats
    scale: Scale


class Path(NamedTuple):
    """How a trajectory moves.

    step_size: of a leapfrog step. clip, noise_multiplier: of its gradients. root: (d, d), root @
    root.T is the inverse mass matrix. back: (d, d), from the coordinates that gradients are clipped
    in, see Target.spread. (position - centre (d,)) @ pull (d, d) and offset (d,) are added to every
    gradient.
    """

    step_size: float
    clip: float
    noise_multiplier: float
    root: Floats
    back: Floats
    centre: Floats
    pull: Floats
    offset: Floats


class Trajectories(NamedTuple):
    """Steps of all chains along trajectories, decided by rules.accepts.

    momenta: (step, chain, d) of unit variance, in the coordinates that Path.root makes of the
    positions. noise: (step, leapfrog, chain, d), see discrete.noisy_sums, of the gradients that are
    released on the way. decisions: (step, chain), noise of the ratios, and scale: of it. uniforms:
    (step, chain).
    """

    momenta: Floats
    noise: Integers
    decisions: Integers
    uniforms: Floats
    scale: Scale


class Target(Protocol):
    """A model with its rows opened, at the current positions of all chains.

    A step is decided from the tempered sum over rows of the log likelihood ratios, the most that
    one replaced row can change it by, and the log prior ratio. All sensitivities are for
    replace-one, depend on public facts and the positions only, and are the same for a move and the
    move back.
    Nothing but the draws of a walk is released here: of all else a caller adds the noise.
    """

    @property
    def rows(self) -> int:
        """Number of rows n, public."""

    @property
    def gaps(self) -> bool:
        """Whether rows may be left out for missing values: public."""

    @property
    def complete(self) -> int:
        """Number of rows that are not left out. Private. For models of rows N(mean, 1) alone."""

    @property
    def tempering(self) -> float:
        """T, the power that the likelihood is raised to."""

    @property
    def bounded(self) -> bool:
        """Whether the declared bounds alone hold the gradients of rows."""

    @property
    def even(self) -> bool:
        """Whether all rows tell as much of their linear predictor, wherever chains are."""

    @property
    def position(self) -> Floats:
        """Current positions, (chain, d). Write into it only before `refresh`."""

    def refresh(self) -> None:
        """Recompute all caches from the positions."""

    def penalty_walk(self, steps: Steps, signs: NDArray[np.int64] | None) -> Floats:
        """Take these steps, each decided by rules.accepts. Return the draws, (chain, step, d).

        signs: (chain, m) of a guided walk, changed in place: the side, 1 or -1, that each chain
        moves to along vector `chosen`, turned round where it rejects.
        """

    def cut(self, steep: Floats) -> None:
        """From now on cut the interval of row ratios of a move by delta (d,).

        To a width of 2 |delta @ steep|, steep (d, d), where the declared bounds allow more, the
        further end first.
        """

    def spread(self, root: Floats | None) -> tuple[Floats, float]:
        """From now on take and clip gradients in coordinates in which the posterior is round.

        root: (d, d), root @ root.T is its covariance, released; None: in those of positions.
        Returns (back, factor): what `gradient` returns, times back (d, d) from the right, is in the
        coordinates of positions; a row's gradient is typically so many times as long as it was.
        """

    def move(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move the accepted chains at a cost that no row is part of.

        Until `refresh`, only `batch_walk`, `gradient` and the priors know of it.
        """

    def gradient(self, positions: Floats, clip: float) -> tuple[Floats, float]:
        """Return (sums (chain, d), L2 sensitivity): tempered score at positions (chain, d).

        Each row's gradient of the log likelihood is clipped to norm `clip`, tempered, and rounded
        to a public power-of-two grid, on which the sums are exact. Without the prior.
        """

    def hamiltonian_walk(self, path: Path, steps: Trajectories, gradients: Floats) -> Floats:
        """Take these steps, each decided by rules.accepts. Return the draws, (chain, step, d).

        gradients: (chain, d), released, of the log posterior at the positions, offset included;
        changed in place to those at the new positions. A trajectory that goes where no number is
        exact is lost: it is rejected, and paid for like all others.
        """

    def batch_walk(
        self,
        rule: Rule,
        deltas: Floats,
        noise: Integers,
        others: Floats,
        batches: NDArray[np.int32],
    ) -> Floats:
        """Take steps that propose deltas (step, chain, d). Return the draws, (chain, step, d).

        Each is decided as `rule` says from the sums of the log likelihood ratios of rows
        batches (step, chain, b) and of their squares, **not tempered**, each clipped to a public
        interval and less its middle. noise: (step, chain) integers; others: (step, kinds, chain),
        what else the rule is told.
        """

    def growth(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """Return (information (chain, d), gradients (chain,)) over what was planned; see Form.

        Of what it is given and of public facts; of no row.
        """

    def widths(self, here: Floats, deltas: Floats, alone: bool = False) -> Floats:
        """Return (m,) sensitivities of moves (m, d), which touches no row.

        here: (d,) or (m, d), from where. alone: move k is of coefficient k alone.
        Without the allowance for rounding.
        """

    def log_prior_ratio(self, deltas: Floats) -> Floats:
        """Return (chain,) log prior ratios of moving each chain by deltas (chain, d)."""

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return (chain, d) gradients of the log prior at positions (chain, d)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What a chain is expected to do.

    options: with nothing left open but the numbers of steps, chains and warm-up. draws: effective
    draws that a step of one chain gives, averaged over the coefficients. walk: steps from the
    prior mean to the mode. fitting: least steps of the warm-up that fits moves to the posterior.
    """

    options: Any
    draws: float
    walk: int
    fitting: int = 0


class Facts(Protocol):
    """What is public of the rows. rows: n. tempering: T."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def tempering(self) -> float:
        """T."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What to expect of a release that chains may start from.

    settle: (start, its noise multiplier) -> start with what the release needs to be told.
    widening: noise multiplier -> (d,) expected sds of draws given it over those of the posterior.
    poor: noise multiplier -> whether nothing is promised of it.
    """

    settle: "Callable[[Start, float], Start]"
    widening: Callable[[float], Floats]
    poor: Callable[[float], bool]


@dataclass(frozen=True)  # no slots: a plan asks for the same sds a thousand times
class Outlook:
    """What the planner knows. guess: of the model. rows: n. tempering: T.

    mu: of the whole job's budget, where it is given as an epsilon. beginning: of the release that
    chains may start from; None where the model has none.
    """

    guess: "Guess"
    rows: int
    tempering: float
    mu: float | None = None
    beginning: Beginning | None = None

    @cached_property
    def sds(self) -> Floats:
        """(d,) conditional posterior standard deviations of the coefficients."""
        sds: Floats = np.diag(self.guess.precision) ** -0.5
        return sds

    @cached_property
    def mean_sd(self) -> float:
        """Their mean."""
        return float(self.sds.mean())


class Law(Protocol):
    """What the planner needs to know of a sampler: how it mixes, what it costs, how long it takes.

    All of it follows from public facts. See dpmcmc/samplers/penalty_law.py for an example.
    """

    def shares(self, options: Any, mu: float) -> tuple[float, ...]:
        """Return parts of mu^2 that the planner tries for a start; none of them for none at all.

        mu: of the job. Where the caller says nothing of a start.
        """

    def settle(self, options: Any, outlook: Outlook) -> Any:
        """Choose what does not depend on the budget. Raises SpecError on impossible options."""

    def steps(self, options: Any, outlook: Outlook, mu: float, chains: int) -> float:
        """Return about how many steps of a chain make the best use of a budget of mu."""

    def noise_multiplier(self, options: Any, rows: int, epsilon: float, delta: float) -> float:
        """Return one at which all steps of all chains cost at most (epsilon, delta).

        Raises SpecError where there is none.
        """

    def pace(self, options: Any, outlook: Outlook, noise_multiplier: float) -> Pace:
        """Return the finished options and what to expect. Raises SpecError on impossible ones."""

    def cuts(self, options: Any, outlook: Outlook, noise_multiplier: float) -> bool:
        """Whether finished options cut rows at a place of the planner's choice.

        That is, whether usual moves can have ratios beyond it, if rows are as guessed.
        """

    def columns(self, options: Any, rows: int, dimension: int) -> float:
        """Return how many columns of the design, all rows, a step of one chain reads, about."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """One algorithm. Registered by one explicit line in dpmcmc/samplers/__init__.py.

    event: (options, noise multiplier, rows) -> everything that a whole run does to the data, the
    release that it starts from included.
    law: what the planner needs to know of how it mixes.
    start: (target, options, noise multiplier, random, what a release found or None) -> state of all
    chains beside the positions, which it sets where something was found.
    advance: (target, options, noise multiplier, block length, random, state) -> (chain, block, d)
    draws; changes the state in place.
    """

    name: str
    options: type[Any]
    event: Callable[[Any, float, int], Event]
    law: Law
    advance: Callable[[Target, Any, float, int, RandomSource, Any], Floats]
    start: "Callable[[Target, Any, float, RandomSource, Found | None], Any]"
