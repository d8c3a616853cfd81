"""What a release is: a few noisy statistics, and the posterior given them and their noise.

Draws from that posterior are post-processing: they are free, and there may be any number of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

import numpy as np

from dpmcmc.families.assumptions import Assumptions
from dpmcmc.families.target import Floats, Priors
from dpmcmc.formula.design import Design
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource

NUM_DRAWS, NUM_CHAINS = 2000, 2  # where the caller leaves them open
APART, LEAST_PRECISION = 2.0**20, 1e-30


# what is wrong with a result, in one word. place: where the posterior is was not found. noise: rows
# do not stand out of it. skewed: responses do not follow the model. uneven: weights. leverage:
# residuals are largest where covariates are far. wide: the posterior is not normal. unseen: tails
# that noise hides. mixing: chains given the release. method, variances: what was declared does not
# suit the rows.
Fault = Literal[
    "", "place", "noise", "skewed", "uneven", "leverage", "wide", "unseen",
    "mixing", "method", "variances",
]  # fmt: skip


class Judgement(Protocol):
    """The verdict on a release. privacy_share: part of the draws' variance that is due to noise."""

    @property
    def reliable(self) -> bool:
        """Whether its intervals may be believed."""

    @property
    def privacy_share(self) -> float:
        """Mean over the coefficients of the part of the variance that is due to noise."""

    @property
    def sentence(self) -> str:
        """The problem in one sentence; empty where the result is reliable."""

    @property
    def remarks(self) -> str:
        """Notes on the result that do not affect the verdict; may be empty."""

    @property
    def fault(self) -> Fault:
        """The kind of problem; empty where the result is reliable."""

    @property
    def more(self) -> float | None:
        """The factor of noise precision at which it would be reliable, roughly; None if not known.

        From released numbers, which are taken for what the rows say.
        """


@dataclass(frozen=True, slots=True)
class Judged:
    """A Judgement whose fields are stored values."""

    reliable: bool
    privacy_share: float
    sentence: str
    fault: Fault = ""
    more: float | None = None
    remarks: str = ""


class Stored(Protocol):
    """The stored statistics of a release; posteriors under other priors cost nothing."""

    def moments(self) -> tuple[Floats, float] | None:
        """Return (mean of x x^T of the design (d, d), relative noise) if released, else None."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as lists and numbers that JSON can hold."""

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource, /) -> "Posterior":
        """Return the posterior of positions under independent normal priors (d,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What is stored of a release: fields that are arrays of floats and plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as lists and numbers that JSON can hold."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Self:
        """Return the record that to_dict wrote."""
        return cls(
            **{k: np.array(v, np.float64) if isinstance(v, list) else v for k, v in stored.items()}
        )


class Posterior(Protocol):
    """A posterior given a release: any number of draws, free of further privacy cost.

    release: what it is a posterior of; None where nothing is kept.
    """

    @property
    def release(self) -> Stored | None:
        """The statistics that may be stored; None where there are none."""

    def parts(self) -> tuple[Floats, Floats]:
        """Return (means (k, p), roots (k, p, p)): coefficients are an even mixture of these."""

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, d)."""

    def completed(self, coefficients: Floats, which: Any, random: RandomSource) -> Floats:
        """Return positions (n, d), completing coefficients (n, p) of mixture parts (n,).

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
        """Return mean (1, d) and root (1, d, d): a mixture of one part."""
        return self.mean[None], self.root[None]

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, d)."""
        normals = random.normals((chains, length, len(self.mean)))
        positions: Floats = self.mean + normals @ self.root.T
        return positions

    def completed(self, coefficients: Floats, _: Any, __: RandomSource) -> Floats:
        """Return the draws (n, d) unchanged: coefficients are this release's only parameters."""
        return coefficients


@dataclass(frozen=True, slots=True)
class Facts:
    """Public facts of a model that a release plans with.

    max_row_norm: largest norm of a row of the form, see Form. prior: (d,) precision of the prior.
    family: of the model. gaps: whether rows may be left out for missing codes. holders: see Schema.
    known_scale: whether the model's noise scale or dispersion is given. unit_rows: see Schema.
    persons: whether persons are protected, whose order says nothing. groups: how many `(1 | ward)`
    has; else 0. effects: how many each of them has. outer_groups: how many hold these, or 0.
    """

    assumptions: Assumptions
    max_row_norm: float
    prior: Floats
    family: str = ""
    gaps: bool = False
    holders: tuple[int, ...] = ()
    known_scale: bool = False
    unit_rows: int = 1
    persons: bool = False
    groups: int = 0
    effects: int = 1
    outer_groups: int = 0


Options = TypeVar("Options")
Opened = TypeVar("Opened")
Kept = TypeVar("Kept", bound=Stored)


def unchanged(model: ModelSpec) -> ModelSpec:
    """Return the model unchanged: a release works in its coordinates."""
    return model


@dataclass(frozen=True, slots=True)
class Release(Generic[Options, Opened, Kept]):
    """One release algorithm. Registered by one explicit line in dpmcmc/releases/__init__.py.

    families: of the models that it suits. exact: draws are from the posterior given the release,
    not from an approximation of it.
    event: (options, noise multiplier, rows) -> everything that is done to the data; all releases
    together cost mu = 1 / noise multiplier, whatever the number of draws.
    settle: (options, facts, noise multiplier) -> options with nothing left open but the numbers of
    draws. Raises SpecError on impossible ones.
    sd_inflation: (settled options, facts, noise multiplier) -> (d,) expected sds of the draws over
    those of the posterior given the rows.
    passes: (options, number of coefficients) -> how often the rows are read.
    publish: (target or what was opened, max_row_norm of its form, options, noise multiplier,
    random) -> the posterior given what it released.
    model: the model in the coordinates that publish works in; it releases the same parameters.
    opened: (design, job, table) -> what publish reads in place of a target, if not None. streams:
    whether that takes rows that do not fit into memory, in the place of a table.
    poor: (settled options, facts, noise multiplier) -> whether nothing is promised of its draws.
    misfit: (settled options, facts, noise multiplier) -> how many times as wide the noise makes its
    draws where responses are as real ones often are, and do not follow the model; and how many
    times as wide such responses make them without any. None where it is not known.
    read: what a stored one's to_dict made -> it again. judge: (a stored one, mean and
    precision (d,) of the job's prior, or None where the likelihood is quadratic) -> its judgement.
    None where nothing is stored.
    stops: whether `publish` may end before all of its event is drawn; what is stored says so.
    in_rounds: what `publish` does where a job has rounds: yields what may be stored after each, of
    all rounds so far; whoever takes them may stop by that. no_hope: (a stored one, the noise
    multiplier of all rounds, prior as in judge) -> why no reliable one will come; or nothing.
    by_units: whether its event holds for units of privacy as it stands: it clips what a unit adds.
    automatic: whether the planner may choose it by itself: only what its sd_inflation tells all of.
    few_rows: whether its draws are no narrower than the posterior given the rows, however few.
    """

    name: str
    options: type[Options]
    families: frozenset[str]
    exact: bool
    event: Callable[[Options, float, int], Event]
    settle: Callable[[Options, Facts, float], Options]
    sd_inflation: Callable[[Options, Facts, float], Floats]
    passes: Callable[[Options, int], int]
    publish: Callable[[Opened, float, Options, float, RandomSource], Posterior]
    model: Callable[[ModelSpec], ModelSpec] = unchanged
    opened: Callable[[Design, JobSpec, Any], Opened] | None = None
    streams: bool = False
    poor: Callable[[Options, Facts, float], bool] | None = None
    misfit: Callable[[Options, Facts, float], tuple[float, float]] | None = None
    read: Callable[[dict[str, Any]], Kept] | None = None
    judge: Callable[[Kept, tuple[Floats, Floats] | None], Judgement] | None = None
    automatic: bool = True
    stops: bool = False
    in_rounds: Callable[[Opened, float, Options, float, RandomSource], Iterator[Kept]] | None = None
    no_hope: Callable[[Kept, float, tuple[Floats, Floats] | None], str] | None = None
    by_units: bool = False
    few_rows: bool = False


def columns_read(design: Design, model: ModelSpec) -> tuple[str, ...]:
    """Return the names of the columns that the formula and the weights read."""
    return (*design.read, *(() if model.weights is None else (model.weights,)))


def prior_of(known: Priors, dimension: int) -> tuple[Floats, Floats]:
    """Return mean and precision (d,) of the independent normal prior of positions.

    Read off its gradient, which is linear, at points so far apart that a far mean hides nothing.
    """
    ends = np.full((1, dimension), APART)
    below, above = known.log_prior_gradient(-ends)[0], known.log_prior_gradient(ends)[0]
    precision = np.maximum((below - above) / (2.0 * APART), LEAST_PRECISION)
    return 0.5 * (below + above) / precision, precision


def prior_by(root: Floats, place: Floats, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """Return precision (p, p) and precision times mean (p,) of u, from independent normal priors.

    mean, precision: (p,), of the priors of place + root @ u.
    """
    return root.T @ (precision[:, None] * root), root.T @ (precision * (mean - place))
