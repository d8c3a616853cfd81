"""What a sampler is, and what it needs of a model with opened rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource

Floats = NDArray[np.float64]
Shape = Literal["normal", "bactrian"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Random walk on the standardised coefficients.

    kind: "component" moves one coefficient chosen at random, "full" all of them.
    scale: standard deviation of a moved coefficient; the planner chooses it when None.
    shape: "normal", or "bactrian", two narrow normals on both sides (Yang and Rodríguez 2013),
    which wastes no noise on short moves: 1.5 times the effective draws for the same budget.
    """

    kind: Literal["full", "component"] = "component"
    scale: float | None = None
    shape: Shape = "bactrian"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentProposal:
    """Random walk of one coefficient at a time. See Proposal."""

    kind: Literal["component"] = "component"
    scale: float | None = None
    shape: Shape = "bactrian"


class Options(Protocol):
    """What every sampler's options have."""

    @property
    def num_steps(self) -> int | None:
        """Steps of each chain, warm-up included."""

    @property
    def num_chains(self) -> int | None:
        """Number of chains; all of them are paid for."""

    @property
    def num_warmup(self) -> int | None:
        """Leading draws that are marked as warm-up."""

    @property
    def proposal(self) -> Proposal | ComponentProposal:
        """The proposal."""

    @property
    def clip_bound(self) -> float | None:
        """Cut every row's log ratio at +- this."""


class Target(Protocol):
    """A model with its rows opened, at the current positions of all chains.

    Every `component_ratios` and `vector_ratios` returns (sums, sensitivities, log_prior_ratios),
    (chain,) each: the tempered sum over rows of the log likelihood ratios; the most that one
    replaced row can change it by; and the log prior ratio. All sensitivities are for replace-one,
    depend on public facts and the positions only, and are the same for a move and the move back.
    Nothing here is released: a caller adds the noise.
    """

    @property
    def rows(self) -> int:
        """Number of rows n, public."""

    @property
    def tempering(self) -> float:
        """T, the power that the likelihood is raised to."""

    @property
    def position(self) -> Floats:
        """Current positions, (chain, d). Write into it only before `refresh`."""

    def refresh(self) -> None:
        """Recompute all caches from the positions."""

    def component_ratios(self, j: int, deltas: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the ratios of moving coefficient j of each chain by deltas (chain,)."""

    def component_commit(self, j: int, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move coefficient j of the accepted chains."""

    def vector_ratios(self, deltas: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the ratios of moving each chain by deltas (chain, d)."""

    def vector_commit(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move the accepted chains."""

    def move(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move the accepted chains at a cost that no row is part of.

        For samplers of minibatches: until `refresh`, only `batch_ratios`, `gradient`, `gram` and
        the priors know of it.
        """

    def gradient(self, positions: Floats, clip: float) -> tuple[Floats, float]:
        """Return (sums (chain, d), L2 sensitivity): tempered score at positions (chain, d).

        Each row's gradient of the log likelihood is clipped to norm `clip`, tempered, and rounded
        to a public power-of-two grid, on which the sums are exact. Without the prior.
        """

    def batch_ratios(
        self, deltas: Floats, indices: NDArray[np.int64]
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (sums, sums of squares, lo, hi), (chain,) each, of rows indices (chain, b).

        The log likelihood ratios of moving each chain by deltas (chain, d), **not tempered**, each
        clipped to the public interval [lo, hi].
        """

    def gram(self, positions: Floats, bound: float) -> tuple[Floats, float]:
        """Return (sums (chain, d, d), sensitivity in the Frobenius norm), tempered, no prior.

        Sum over rows of w x x^T, w = min(information of the row's linear predictor, bound), exact
        on a public grid.
        """

    def log_prior_ratio(self, deltas: Floats) -> Floats:
        """Return (chain,) log prior ratios of moving each chain by deltas (chain, d)."""

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return (chain, d) gradients of the log prior at positions (chain, d)."""


class Law(Protocol):
    """How a sampler mixes. See dpmcmc/samplers/penalty_law.py."""

    def best_scale(self, noise: float) -> float:
        """Return the best proposal sd of one coefficient, in conditional posterior sds."""

    def mobility(
        self,
        proposal: Proposal | ComponentProposal,
        precision: Floats,
        width: Floats,
        joint_width: float,
        scale: float,
        noise_multiplier: float,
    ) -> Floats:
        """Return (d,) mobility of a step."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """One algorithm. Registered by one explicit line in dpmcmc/samplers/__init__.py.

    event: (options, noise multiplier) -> everything that a whole run does to the data.
    law: what the planner needs to know of how it mixes.
    advance: (target, options, noise multiplier, block length, random) -> (chain, block, d) draws.
    """

    name: str
    options: type[Any]
    event: Callable[[Any, float], Event]
    law: Law
    advance: Callable[[Target, Any, float, int, RandomSource], Floats]
