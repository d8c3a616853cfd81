"""What a release is: a few noisy numbers, and a posterior that knows about their noise.

Draws from that posterior are free and without limit: they see nothing but what was released.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.samplers.base import Floats, Outlook, Target

if TYPE_CHECKING:
    from dpmcmc.spec import ModelSpec

NUM_DRAWS, NUM_CHAINS = 2000, 2  # where the caller leaves them open
APART, LEAST = 2.0**20, 1e-30


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal distribution of positions. mean: (d,); root: (d, d), root @ root.T its covariance.

    A function of released numbers and public facts.
    """

    mean: Floats
    root: Floats

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, d)."""
        normals = random.normals((chains, length, len(self.mean)))
        found: Floats = self.mean + normals @ self.root.T
        return found


@dataclass(frozen=True, slots=True)
class Facts:
    """What the planner knows.

    reach: largest norm of a row of the form, see Form. prior: (d,) precision of the prior.
    """

    outlook: Outlook
    reach: float
    prior: Floats


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
    publish: (target, reach of its form, options, noise multiplier, random) -> the posterior given
    what it released.
    model: the model in the coordinates that publish works in; it releases the same parameters.
    """

    name: str
    options: type[Any]
    families: frozenset[str]
    exact: bool
    event: Callable[[Any, float, int], Event]
    settle: Callable[[Any, Facts, float], Any]
    widening: Callable[[Any, Facts, float], Floats]
    passes: Callable[[Any, int], int]
    publish: Callable[[Target, float, Any, float, RandomSource], Normal]
    model: "Callable[[ModelSpec], ModelSpec]"


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
