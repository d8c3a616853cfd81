"""What a release is: a few noisy numbers, and a posterior that knows about their noise.

Draws from that posterior are free and without limit: they see nothing but what was released.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Outlook

if TYPE_CHECKING:
    from dpmcmc.design import Design
    from dpmcmc.schema import Table
    from dpmcmc.spec import JobSpec, ModelSpec

NUM_DRAWS, NUM_CHAINS = 2000, 2  # where the caller leaves them open
APART, LEAST = 2.0**20, 1e-30


class Judgement(Protocol):
    """What a release says of itself. privacy_share: of the draws' variance, that is its noise."""

    @property
    def reliable(self) -> bool:
        """Whether its intervals may be believed."""

    @property
    def privacy_share(self) -> float:
        """Mean over the coefficients."""

    @property
    def sentence(self) -> str:
        """Why, in words."""


class Stored(Protocol):
    """What a release leaves behind: posteriors under other priors, all of them free."""

    def moments(self) -> tuple[Floats, float] | None:
        """Return (mean of x x^T of the design (d, d), its noise over it), if that was released."""

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers that JSON holds."""

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource, /) -> "Posterior":
        """Return the posterior of positions under independent normal priors (d,)."""


class Posterior(Protocol):
    """What a release leads to: draws without limit, a function of released numbers.

    release: what it is a posterior of; None where nothing is kept.
    """

    @property
    def release(self) -> Stored | None:
        """What may be stored."""

    def parts(self) -> tuple[Floats, Floats]:
        """Return (means (k, p), roots (k, p, p)): coefficients are an even mixture of these."""

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, d)."""

    def completed(self, coefficients: Floats, which: Any, random: RandomSource) -> Floats:
        """Return positions (n, d) given the coefficients (n, p) of parts (n,): with what else is.

        The coefficients may come from anywhere, say from another prior.
        """


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal distribution of positions. mean: (d,); root: (d, d), root @ root.T its covariance.

    A function of released numbers and public facts.
    """

    mean: Floats
    root: Floats
    release: Stored | None = None

    def parts(self) -> tuple[Floats, Floats]:
        """See Posterior."""
        return self.mean[None], self.root[None]

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, d)."""
        normals = random.normals((chains, length, len(self.mean)))
        found: Floats = self.mean + normals @ self.root.T
        return found

    def completed(self, coefficients: Floats, _: Any, __: RandomSource) -> Floats:
        """See Posterior: there is nothing else."""
        return coefficients


@dataclass(frozen=True, slots=True)
class Facts:
    """What the planner knows.

    reach: largest norm of a row of the form, see Form. prior: (d,) precision of the prior.
    family: of the model.
    """

    outlook: Outlook
    reach: float
    prior: Floats
    family: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """One algorithm. Registered by one explicit line in dpmcmc/releases/__init__.py.

    families: of the models that it suits. exact: draws are from the posterior given the release,
    not from an approximation of it.
    event: (options, noise multiplier, rows) -> everything that is done to the data; all releases
    together cost mu = 1 / noise multiplier, whatever the number of draws.
    settle: (options, facts, noise multiplier) -> options with nothing left open but the numbers of
    draws. Raises SpecError on impossible ones.
    widening: (settled options, facts, noise multiplier) -> (d,) expected sds of the draws over
    those of the posterior given the rows.
    passes: (options, number of coefficients) -> how often the rows are read.
    publish: (target or what was opened, reach of its form, options, noise multiplier, random) ->
    the posterior given what it released.
    model: the model in the coordinates that publish works in; it releases the same parameters.
    opened: (design, job, table) -> what publish reads in place of a target, if not None.
    poor: (settled options, facts, noise multiplier) -> whether nothing is promised of its draws.
    read: what a stored one's to_dict made -> it again. judge: (a stored one, precision (d,) of a
    prior that holds what rows do not tell, or None) -> its judgement. None where nothing is stored.
    """

    name: str
    options: type[Any]
    families: frozenset[str]
    exact: bool
    event: Callable[[Any, float, int], Event]
    settle: Callable[[Any, Facts, float], Any]
    widening: Callable[[Any, Facts, float], Floats]
    passes: Callable[[Any, int], int]
    publish: Callable[[Any, float, Any, float, RandomSource], Posterior]
    model: "Callable[[ModelSpec], ModelSpec]"
    opened: "Callable[[Design, JobSpec, Table], Any] | None" = None
    poor: Callable[[Any, Facts, float], bool] | None = None
    read: Callable[[dict[str, Any]], Stored] | None = None
    judge: Callable[[Any, Floats | None], Judgement] | None = None


class Positioned(Protocol):
    """A form or a target: whatever knows the prior of positions."""

    def log_prior_gradient(self, positions: Floats) -> Floats:
        """Return (chain, d)."""


def prior_of(known: Positioned, dimension: int) -> tuple[Floats, Floats]:
    """Return mean and precision (d,) of the independent normal prior of positions.

    Read off its gradient, which is linear, at points so far apart that a far mean hides nothing.
    """
    ends = np.full((1, dimension), APART)
    below, above = known.log_prior_gradient(-ends)[0], known.log_prior_gradient(ends)[0]
    precision = np.maximum((below - above) / (2.0 * APART), LEAST)
    return 0.5 * (below + above) / precision, precision
