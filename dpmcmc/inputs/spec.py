"""What an analyst asks for. A plan fills what was left open and is again a JobSpec."""

from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.inputs.options import AlgorithmOptions, AutoOptions

FamilyName = Literal[
    "logistic",
    "linear",
    "poisson",
    "negative_binomial",
    "multinomial",
    "gaussian_mean",
    "banana",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalPrior:
    """Normal(loc, scale^2), of one coefficient of the public design, or of each of them."""

    scale: float = 2.5
    loc: float = 0.0
    kind: Literal["normal"] = "normal"


Prior = NormalPrior | dict[str, NormalPrior] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What some families have beside a formula and a prior; others refuse it.

    ratio_slope: cut each row's log likelihood ratio at +- this times the length of a move, where
    the declared bounds allow more; less noise for a target that is a little off. Not for logistic.
    noise_scale: known sd of a linear model's response; a parameter where None.
    dispersion: k of negative_binomial, which needs it: a count's variance is mu + mu^2 / k.
    variances: known variance of each column (gaussian_mean, banana).
    a, b, m: the banana's constants. coordinates: what a banana's proposals move, see the model.
    """

    ratio_slope: float | None = None
    noise_scale: float | None = None
    dispersion: float | None = None
    variances: tuple[float, ...] | None = None
    a: float | None = None
    b: float | None = None
    m: float | None = None
    coordinates: Literal["straight", "natural"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """family: a name in dpmcmc.families.MODELS. tempering: T in (0, 1] multiplies the likelihood.

    formula: `y ~ a + C(b)`, or `~ a + b` where a family models columns without a response.
    prior: one for every coefficient, or some by the names of parameters. What is left out follows
    from public bounds, as each family says, and a plan writes it here. Of the design's columns,
    which are standardised by their bounds, although results are in the units of the columns.
    weights: a number column, see dpmcmc/families/scores/given.py.
    """

    family: str
    formula: str
    prior: Prior = None
    tempering: float | None = None
    weights: str | None = None
    options: ModelOptions = field(default_factory=ModelOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySpec:
    """delta and one of epsilon or noise_multiplier (sigma / sensitivity).

    noise_multiplier: of every step, for a chain. Of the whole job, for a release: its releases
    together cost mu = 1 / noise_multiplier, whatever the number of draws.
    """

    delta: float
    epsilon: float | None = None
    noise_multiplier: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One sampling job, apart from its dataset. sampler: by default the planner's choice."""

    model: ModelSpec
    sampler: AlgorithmOptions = field(default_factory=AutoOptions)
    privacy: PrivacySpec
