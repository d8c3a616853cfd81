"""Protocols of a model with opened rows, as samplers and releases use it.

Of all that is returned here only the draws of a walk are released; callers add noise to everything
else. All sensitivities are for replace-one, depend only on public facts and positions, and are the
same for a move and the move back.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpmcmc.kernels.arithmetic.rules import Rule
from dpmcmc.privacy.discrete import Integers, Scale

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


class PublicRows(Protocol):
    """Public facts of the rows: their number, and the power of the likelihood."""

    @property
    def rows(self) -> int:
        """Number of rows n, public."""

    @property
    def tempering(self) -> float:
        """T, the power that the likelihood is raised to."""


class Places(PublicRows, Protocol):
    """Positions of chains, and the sensitivities of their moves."""

    @property
    def position(self) -> Floats:
        """Return the current positions (chain, d). Write into it only before `refresh`."""

    def widths(self, here: Floats, deltas: Floats, alone: bool = False) -> Floats:
        """Return sensitivities (m,) of moves (m, d), computed without any row.

        here: (d,) or (m, d), from where. alone: move k is of coefficient k alone.
        Without the allowance for rounding.
        """


class Ratios(Places, Protocol):
    """Sums of log likelihood ratios over all rows.

    A step is decided from their tempered sum, the most that one replaced row can change it by, and
    the log prior ratio.
    """

    def penalty_walk(self, steps: Steps, signs: NDArray[np.int64] | None) -> Floats:
        """Take these steps, each decided by rules.accepts. Return the draws, (chain, step, d).

        signs: (chain, m) of a guided walk, changed in place: the side, 1 or -1, that each chain
        moves to along vector `chosen`, turned round where it rejects.
        """


class Minibatches(Places, Protocol):
    """Log likelihood ratios of secret minibatches of the rows."""

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


class Priors(Protocol):
    """The prior of positions: of a target or a form."""

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return (chain, d) gradients of the log prior at positions (chain, d)."""


class Scores(PublicRows, Priors, Protocol):
    """Gradients of the log likelihood, and the number of rows behind them."""

    @property
    def position(self) -> Floats:
        """Return the current positions (chain, d). Write into it only before `refresh`."""

    @property
    def gaps(self) -> bool:
        """Return whether rows may be left out for missing values: public."""

    @property
    def complete(self) -> int:
        """Return the number of complete rows. Private. For models of rows N(mean, 1) alone."""

    def gradient(self, positions: Floats, clip: float) -> tuple[Floats, float]:
        """Return (sums (chain, d), L2 sensitivity): tempered score at positions (chain, d).

        Each row's gradient of the log likelihood is clipped to norm `clip`, tempered, and rounded
        to a public power-of-two grid, on which the sums are exact. Without the prior.
        """


class Gradients(Scores, Places, Protocol):
    """Gradients along trajectories, and the public bounds on the information behind them."""

    @property
    def bounded(self) -> bool:
        """Return whether the declared bounds alone limit the gradients of rows."""

    def information_scale(self, positions: Floats, moments: Floats | None) -> tuple[Floats, Floats]:
        """Return (information (chain, d), gradients (chain,)) over what was planned; see Form.

        Of what it is given and of public facts; of no row.
        """

    def use_coordinates(self, root: Floats | None) -> tuple[Floats, float]:
        """Take and clip gradients, from now on, in coordinates in which the posterior is round.

        root: (d, d), root @ root.T is its covariance, released; None: in those of positions.
        Returns (back, factor): what `gradient` returns, times back (d, d) from the right, is in the
        coordinates of positions; a row's gradient is typically so many times as long as it was.
        """

    def narrow_clip(self, steep: Floats) -> None:
        """Clip the row ratios of a move by delta (d,), from now on, to a width linear in delta.

        To a width of 2 |delta @ steep|, steep (d, d), where the declared bounds allow more, the
        further end first.
        """

    def hamiltonian_walk(self, path: Path, steps: Trajectories, gradients: Floats) -> Floats:
        """Take these steps, each decided by rules.accepts. Return the draws, (chain, step, d).

        gradients: (chain, d), released, of the log posterior at the positions, offset included;
        changed in place to those at the new positions. A trajectory that goes where no number is
        exact is lost: it is rejected, and paid for like all others.
        """


class Target(Ratios, Minibatches, Gradients, Protocol):
    """A model with its rows opened, at the current positions of all chains."""

    def refresh(self) -> None:
        """Recompute all caches from the positions."""

    def move(self, deltas: Floats, accepted: NDArray[np.bool_]) -> None:
        """Move the accepted chains at a cost that no row is part of.

        Until `refresh`, only `batch_walk`, `gradient` and the priors know of it.
        """

    def log_prior_ratio(self, deltas: Floats) -> Floats:
        """Return (chain,) log prior ratios of moving each chain by deltas (chain, d)."""
