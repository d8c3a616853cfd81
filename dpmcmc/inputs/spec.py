"""The specification of a sampling job. The planner fills what is None and returns a JobSpec."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.options import AlgorithmOptions, AutoOptions
from dpmcmc.inputs.published import family_of
from dpmcmc.inputs.schema import Schema

Spend = Literal["until_hopeless", "all"]
FamilyName = Literal[
    "logistic",
    "linear",
    "poisson",
    "negative_binomial",
    "hurdle_poisson",
    "student_t",
    "gamma",
    "beta",
    "binomial",
    "exponential",
    "weibull",
    "multinomial",
    "ordinal",
    "gaussian_mean",
    "banana",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalPrior:
    """A normal prior of standardised coefficients.

    Parameters
    ----------
    scale
        Standard deviation.
    loc
        Mean.

    Examples
    --------
    >>> NormalPrior(scale=1.0)
    """

    scale: float = 2.5
    loc: float = 0.0
    kind: Literal["normal"] = "normal"


Prior = NormalPrior | dict[str, NormalPrior | str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options of single families; the other families refuse them.

    Parameters
    ----------
    ratio_slope
        Clip each row's log likelihood ratio to +- this times the length of a move: less noise, and
        a slightly different target. Not for logistic.
    noise_scale
        Known sd of the response of a linear model; if None, the sd is a parameter.
    dispersion
        k of negative_binomial, whose counts have the variance mu + mu^2 / k; if None, its log is a
        parameter.
    degrees_of_freedom
        Of student_t, from 1 to 30: fewer for residuals with longer tails; 4 where it is None.
    variances
        Known variance of each column (gaussian_mean, banana).
    a, b, m
        Constants of the banana.
    coordinates
        The coordinates in which proposals of a banana move.

    Examples
    --------
    >>> ModelOptions(noise_scale=1.0)
    """

    ratio_slope: float | None = None
    noise_scale: float | None = None
    dispersion: float | None = None
    degrees_of_freedom: float | None = None
    variances: tuple[float, ...] | None = None
    a: float | None = None
    b: float | None = None
    m: float | None = None
    coordinates: Literal["straight", "natural"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The model of a job.

    Parameters
    ----------
    family
        Likelihood: logistic, binomial, linear, student_t, gamma, beta, poisson, negative_binomial,
        hurdle_poisson, exponential, weibull, multinomial, ordinal, gaussian_mean or banana. Names
        of other software are taken for these: gaussian for linear, bernoulli (or binomial, of rows
        with one trial each) for logistic, negbinomial, categorical, cumulative, student, hurdle.
    formula
        Such as "y ~ a + C(b)", "cases | trials(n) ~ a" for binomial, "surv(time, event) ~ a" for
        exponential and weibull, or "~ a + b" for a family that has no response.
    prior
        One prior for all coefficients, or some by the names of parameters; the planner fills in the
        others from public bounds. Priors are of standardised coefficients, although results are in
        the units of the columns; one that is written as "normal(0, 0.02)" is in those as well.
    tempering
        T in (0, 1], the power of the likelihood; None is 1.
    weights
        A number column with a weight for each row.
    options
        Of single families.

    Examples
    --------
    >>> ModelSpec(family="logistic", formula="cured ~ dose", prior=NormalPrior(scale=1.0))
    """

    family: str
    formula: str
    prior: Prior = None
    tempering: float | None = None
    weights: str | None = None
    options: ModelOptions = field(default_factory=ModelOptions)

    def __post_init__(self) -> None:
        """Replace other software's names of families by ours."""
        if isinstance(self.family, str):
            object.__setattr__(self, "family", family_of(self.family, self.formula))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpTo:
    """An epsilon that a job spends round by round, until its own verdict is reliable.

    It ends as well where its released numbers show that it will not be.

    Parameters
    ----------
    up_to
        The most that it may cost. All of it is reserved, and what was not drawn is returned.

    Examples
    --------
    >>> UpTo(up_to=4)
    """

    up_to: float
    until: Literal["reliable"] = "reliable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySpec:
    """The privacy of a job: delta, and either epsilon or noise_multiplier.

    Parameters
    ----------
    delta
        Of (epsilon, delta)-DP.
    epsilon
        The cost that the planner is to use in full; or UpTo(up_to=4), which may be written
        {"up_to": 4, "until": "reliable"}: a job that begins small and goes on until its result is
        reliable.
    noise_multiplier
        Standard deviation of the noise over the sensitivity: of every step of a chain; for a
        release of the whole job, which then costs mu = 1 / noise_multiplier for any number of
        draws.
    max_rows
        Where one person may have several rows: the most of each that the job uses, chosen at
        random; all that the dataset keeps where None.

    Examples
    --------
    >>> PrivacySpec(epsilon=1.0, delta=1e-6)
    """

    delta: float
    epsilon: float | UpTo | None = None
    noise_multiplier: float | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        """Replace {"up_to": 4, "until": "reliable"} by its record."""
        epsilon = self.epsilon
        if isinstance(epsilon, Mapping) and {"up_to"} <= set(epsilon) <= {"up_to", "until"}:
            object.__setattr__(self, "epsilon", UpTo(**epsilon))

    @property
    def most(self) -> float | None:
        """The largest epsilon that the job may cost; None with a noise multiplier."""
        return self.epsilon.up_to if isinstance(self.epsilon, UpTo) else self.epsilon

    def schema(self, schema: Schema) -> Schema:
        """Return the schema of the rows that a job uses. Raises SpecError on max_rows."""
        try:
            return schema.with_max_rows(self.max_rows)
        except ValueError as error:
            raise SpecError("/privacy/max_rows", str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One sampling job, without its dataset.

    Parameters
    ----------
    model
        Family, formula and prior.
    sampler
        Options of an algorithm; by default the planner chooses the algorithm.
    privacy
        delta, and epsilon or noise_multiplier.
    spend
        Whether a release that its own released numbers show to be hopeless ends early and costs
        what it has drawn ("until_hopeless"), or goes on whatever they show ("all"). The result says
        which. Chains always go on. A job until its result is reliable cannot spend "all".

    Examples
    --------
    >>> model = ModelSpec(family="logistic", formula="cured ~ dose")
    >>> JobSpec(model=model, privacy=PrivacySpec(epsilon=1.0, delta=1e-6))
    """

    model: ModelSpec
    sampler: AlgorithmOptions = field(default_factory=AutoOptions)
    privacy: PrivacySpec
    spend: Spend = "until_hopeless"
