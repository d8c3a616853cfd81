"""What may be asked of a stored release, and what is answered."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import Discriminator, Field, Tag

from app.api.schemas import Answer, Epsilon, ParameterOut, Positive, Request, VerdictOut, Word
from dpmcmc.inputs.written_priors import is_alone
from dpmcmc.posterior.free.priors import Kind
from dpmcmc.posterior.units import Scale
from dpmcmc.queries.statistics.inference import AlgorithmName
from dpmcmc.queries.statistics.questions import ThetaPrior

Parameter = Annotated[str, Field(min_length=1, max_length=5000, pattern=r"^[^\x00-\x1f\x7f]*$")]
Weights = Annotated[dict[Parameter, float], Field(max_length=250)]
Setting = Annotated[dict[Parameter, float | Word], Field(max_length=250)]
Settings = Annotated[list[Setting], Field(max_length=100)]


class PriorIn(Request):
    """A prior of one parameter of the standardised design, as in a job, whatever the scale.

    scale: of a normal its sd; of laplace, student_t and cauchy what the distance from loc is
    divided by; uniform takes none. df: of student_t. lower, upper: bounds, of any kind: lower 0 is
    the positive half. A uniform without one of them is flat on that side. horseshoe and
    spike_and_slab are of coefficients of which few act. slab_sd: sd of those that do; the sd of the
    job's prior where it is left out. inclusion: of spike_and_slab, the prior probability to act;
    left out, it is estimated. r2d2 is of the share of variance that coefficients explain together:
    mean_r2 and prec_r2 of it, and cons_d2, how evenly they have it.
    """

    kind: Kind = "normal"
    loc: float = 0.0
    scale: Positive | None = None
    df: Positive | None = None
    lower: float | None = None
    upper: float | None = None
    slab_sd: Positive | None = None
    inclusion: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    mean_r2: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    prec_r2: Positive | None = None
    cons_d2: Positive | None = None


class OnePriorIn(PriorIn):
    """One prior of all coefficients but intercepts: see PriorIn."""

    kind: Kind


FormulaIn = Annotated[str, Field(min_length=1, max_length=5000)]
WrittenPrior = Annotated[str, Field(min_length=3, max_length=200)]


def _form(prior: Any) -> str:
    """Return which form a prior has: a text, one object for all, or several by parameter."""
    if isinstance(prior, str):
        return "text"
    return "one" if is_alone(prior) else "several"


AnyPrior = Annotated[
    Annotated[PriorIn, Tag("object")] | Annotated[WrittenPrior, Tag("text")],
    Discriminator(lambda prior: "text" if isinstance(prior, str) else "object"),
]


class ComparisonIn(Request):
    """Two settings of all covariates: what is expected at one, less what is at the other."""

    given: Setting
    against: Setting


class EffectIn(Request):
    """The average effect of one covariate on the mean response, over settings of the others.

    value less against. Without them: of a number the derivative, at its values in `given`; of
    categories each one less the formula's reference.
    """

    covariate: Parameter
    given: Settings
    value: float | Word | None = None
    against: float | Word | None = None


class CurveIn(Request):
    """The mean response along the declared range of a number, at so many points.

    given: the other covariates; those left out are in the middle of their bounds, or at the
    category that others are compared with.
    """

    covariate: Parameter
    given: Setting = Field(default_factory=dict)
    points: Annotated[int, Field(ge=2, le=200)] = 41


class PosteriorIn(Request):
    """What to make of a release that a job stored; a parameter without a prior keeps the job's.

    given: settings of all covariates, by column, to predict the response at; within their declared
    bounds, beyond which nothing was fitted. contrasts: sums of parameters, each by its weight.
    comparisons, effects: of settings and of covariates. null: for each the Bayes factor of the
    model over the one in which these coefficients are fixed to these values, under these priors.
    A prior may be written, as "normal(0, 0.02)", in the units of its column; one alone, as
    "horseshoe()", is of all coefficients but intercepts. models: formulas with some of the job's
    terms, for how probable each is beside the job's. curves: the mean response along numbers.
    """

    most_values = 20_000
    prior: Annotated[
        Annotated[OnePriorIn, Tag("one")]
        | Annotated[WrittenPrior, Tag("text")]
        | Annotated[Annotated[dict[Parameter, AnyPrior], Field(max_length=250)], Tag("several")],
        Discriminator(_form),
    ] = Field(default_factory=dict)
    num_draws: Annotated[int, Field(ge=1, le=20_000)] = 1000
    given: Settings = Field(default_factory=list)
    contrasts: Annotated[list[Weights], Field(max_length=100)] = Field(default_factory=list)
    comparisons: Annotated[list[ComparisonIn], Field(max_length=100)] = Field(default_factory=list)
    effects: Annotated[list[EffectIn], Field(max_length=100)] = Field(default_factory=list)
    null: Annotated[list[Weights], Field(max_length=100)] = Field(default_factory=list)
    models: Annotated[list[FormulaIn], Field(max_length=100)] = Field(default_factory=list)
    curves: Annotated[list[CurveIn], Field(max_length=20)] = Field(default_factory=list)


class SpreadOut(Answer):
    """How a quantity is spread over the draws: its 90 % interval is from q05 to q95."""

    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float


class NamedSpreadOut(SpreadOut):
    """One parameter. inclusion: probability that it acts, under a spike-and-slab prior."""

    name: str
    inclusion: float | None = None


class AppliedOut(Answer):
    """The prior that applied to one parameter: what was asked for, or the job's."""

    name: str
    kind: str
    loc: float
    scale: float | None
    df: float | None
    lower: float | None
    upper: float | None
    slab_sd: float | None = None
    inclusion: float | None = None
    mean_r2: float | None = None
    prec_r2: float | None = None
    cons_d2: float | None = None


class PredictionOut(Answer):
    """What is expected at one setting of the covariates.

    predictor: the linear predictor. expected: mean response, on its own scale: a probability, a
    mean count, a mean. response: what a new row would have; null where that is yes or no.
    probabilities: of each category, where the response is one of several; all else is null then.
    Counts with zeros of their own kind have the probability of "0" beside mean and response.
    """

    given: dict[str, Any]
    predictor: SpreadOut | None
    expected: SpreadOut | None
    response: SpreadOut | None
    probabilities: dict[str, SpreadOut] | None


class ContrastOut(SpreadOut):
    """A sum of parameters, each times its weight."""

    weights: dict[str, float]


class ComparisonOut(Answer):
    """One setting less another. ratio: what `multiplies`, the odds or the mean count, grows by.

    probabilities: differences by category, where the response is one of several; all else is null
    then. odds: what the odds of a zero grow by, of counts with zeros of their own kind.
    """

    given: dict[str, Any]
    against: dict[str, Any]
    predictor: SpreadOut | None
    expected: SpreadOut | None
    ratio: SpreadOut | None
    multiplies: str
    probabilities: dict[str, SpreadOut] | None = None
    odds: SpreadOut | None = None


class EffectOut(Answer):
    """An average effect on the mean response. value and against are null for a derivative.

    probabilities: of each category, where the response is one of several; expected is null then,
    but for counts with zeros of their own kind.
    """

    covariate: str
    value: float | str | None
    against: float | str | None
    expected: SpreadOut | None
    probabilities: dict[str, SpreadOut] | None = None


class CurveOut(Answer):
    """The mean response along a covariate: expected, at each of the values `at`.

    Of a column of dates the values are days since its lower bound. probabilities: by category,
    where the response is one of several; expected is empty then, but for counts with zeros of their
    own kind.
    """

    covariate: str
    given: dict[str, Any]
    at: list[float]
    expected: list[SpreadOut]
    probabilities: dict[str, list[SpreadOut]] | None = None


class BayesFactorOut(Answer):
    """log_bayes_factor: natural logarithm, above 0 where the larger model is favoured.

    error: its standard error, from the draws that it was worked out with.
    """

    null: dict[str, float]
    log_bayes_factor: float
    error: float


class ModelWeightOut(Answer):
    """How probable a model is, of those compared, which were equally so before the release.

    without: parameters of the job's model that are 0 in it. log_bayes_factor: natural logarithm of
    its marginal likelihood over that of the job's model.
    """

    formula: str
    without: list[str]
    probability: float
    log_bayes_factor: float
    error: float


class PosteriorOut(Answer):
    """A posterior under another prior, from what was released. draws: (draw, parameter).

    cost: of this request. note: says so. scale: of draws, summaries, contrasts and nulls; priors,
    those that applied, are of standardised coefficients on either. verdict: of the release, and of
    what these priors made of it.
    """

    job: UUID
    scale: Scale = "original"
    cost: Epsilon
    note: str
    parameters: list[str]
    priors: list[AppliedOut]
    draws: list[list[float]]
    summary: list[NamedSpreadOut]
    predictions: list[PredictionOut]
    contrasts: list[ContrastOut]
    comparisons: list[ComparisonOut]
    effects: list[EffectOut]
    bayes_factors: list[BayesFactorOut]
    models: list[ModelWeightOut]
    curves: list[CurveOut]
    dry_run: bool = Field(False, exclude_if=lambda dry: not dry)
    verdict: VerdictOut


class InferenceIn(Request):
    """What to make of a statistic that a task released: draws of a family's one unknown number.

    family: how rows come about (bernoulli, normal_mean, normal_variance, uniform_width); options:
    what is known of it: sd of normal_mean. prior: of the number. algorithm: mh where the likelihood
    is known, else pmmh, correlated_pmmh, mhaar or mhaar_rb; left out, mh or mhaar.
    normal_approximation: of the sum over rows; false simulates rows. particles: of each step.
    draws: of each chain, after the warm-up.
    """

    family: Word
    options: Annotated[dict[Word, float], Field(max_length=10)] = Field(default_factory=dict)
    prior: Annotated[ThetaPrior, Field(discriminator="kind")]
    algorithm: AlgorithmName | None = None
    normal_approximation: bool = True
    particles: Annotated[int, Field(ge=2, le=10_000)] = 32
    chains: Annotated[int, Field(ge=1, le=64)] = 4
    draws: Annotated[int, Field(ge=1, le=100_000)] = 2000
    warmup: Annotated[int, Field(ge=0, le=100_000)] = 500


class InferenceOut(Answer):
    """Draws of a family's unknown number, (chain, draw), from what was released.

    parameter: its name and summary. cost: of this request. note: says so. verdict: whether the
    chains have mixed; it cannot see a family that does not suit the rows.
    """

    job: UUID
    cost: Epsilon
    note: str
    algorithm: str
    parameter: ParameterOut
    draws: list[list[float]]
    verdict: VerdictOut
