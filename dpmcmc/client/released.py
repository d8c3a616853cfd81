"""Typed answers on what a job has released: free posteriors, tasks and inferences.

Each is made from the JSON of the service; the methods that return JSON give all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dpmcmc.client.answers import Json, Parameter, Verdict, verdict_of

if TYPE_CHECKING:
    import xarray

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, sd and quantiles of a quantity over the draws; its 90 % interval is q05 to q95."""

    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float


@dataclass(frozen=True, slots=True)
class AppliedPrior:
    """The prior that was used for one standardised coefficient. None: a field its kind lacks."""

    kind: str
    loc: float
    scale: float | None
    df: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Posterior predictions at one setting of the covariates.

    predictor: the linear predictor. expected: the mean response on its own scale. response: the
    response of a new row; None where it is binary. probabilities: of each category, where the
    response has several; the other fields are None then.
    """

    given: Mapping[str, Any]
    predictor: Spread | None
    expected: Spread | None
    response: Spread | None
    probabilities: Mapping[str, Spread] | None


@dataclass(frozen=True, slots=True)
class Contrast:
    """A sum of parameters, each times its weight."""

    weights: Mapping[str, float]
    spread: Spread


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two settings. ratio: of the quantity that `multiplies` names, or None.

    odds: what the odds of a zero grow by, of counts with zeros of their own kind; else None.
    """

    given: Mapping[str, Any]
    against: Mapping[str, Any]
    predictor: Spread
    expected: Spread
    ratio: Spread | None
    multiplies: str
    odds: Spread | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Average effect of a covariate on the mean response; both values None: the derivative."""

    covariate: str
    value: float | str | None
    against: float | str | None
    expected: Spread


@dataclass(frozen=True, slots=True)
class BayesFactor:
    """A Bayes factor as natural logarithm, above 0 in favour of the larger model.

    error: of the logarithm, from the finite number of draws.
    """

    null: Mapping[str, float]
    log: float
    error: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """A posterior under another prior, free of charge. draws: (draw, parameter).

    parameters: by name. scale: of draws, parameters, contrasts and nulls. priors: of standardised
    coefficients, by name. What was not asked for is empty.
    """

    job: str
    scale: str
    parameters: Mapping[str, Spread]
    priors: Mapping[str, AppliedPrior]
    predictions: tuple[Prediction, ...]
    contrasts: tuple[Contrast, ...]
    comparisons: tuple[Comparison, ...]
    effects: tuple[Effect, ...]
    bayes_factors: tuple[BayesFactor, ...]
    verdict: Verdict | None
    draws: Sequence[Sequence[float]] = field(repr=False)
    answer: Json = field(repr=False)

    def __str__(self) -> str:
        """Return the verdict and what was asked for, as the command line shows them."""
        from dpmcmc.client import posteriors, render

        return render.text(render.verdict(self.answer), *posteriors.tables(self.answer))

    def to_arviz(self) -> "xarray.DataTree":
        """Return the draws as one ArviZ DataTree, one chain of independent draws."""
        columns = list(zip(*self.draws, strict=True))
        by_name = dict(zip(self.parameters, ([column] for column in columns), strict=True))
        return _tree(
            by_name, {"job": self.job, "scale": self.scale, **_verdict_attributes(self.verdict)}
        )


@dataclass(frozen=True, slots=True)
class Inference:
    """Posterior draws (chain, draw) of a family's parameter, after warm-up. Free of charge."""

    job: str
    algorithm: str
    parameter: Parameter
    verdict: Verdict | None
    draws: Sequence[Sequence[float]] = field(repr=False)

    def to_arviz(self) -> "xarray.DataTree":
        """Return the draws as one ArviZ DataTree."""
        attributes = {
            "job": self.job,
            "algorithm": self.algorithm,
            **_verdict_attributes(self.verdict),
        }
        return _tree({self.parameter.name: self.draws}, attributes)


@dataclass(frozen=True, slots=True)
class Task:
    """The released numbers of a task. epsilon, delta: its cost. note: what the numbers mean."""

    job: str
    epsilon: float
    delta: float
    verdict: Verdict | None
    note: str
    answer: Json = field(repr=False)

    def __str__(self) -> str:
        """Return what was released, as the command line shows it."""
        from dpmcmc.client import render

        return render.text(render.result(self.answer), render.verdict(self.answer))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval. dates: the three of them, of a column of dates."""

    name: str
    estimate: float
    lower: float
    upper: float
    dates: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Summaries(Task):
    """Means, quantiles and counts. noise_sd: of each count, in rows. Each interval holds alone."""

    level: float
    target: Literal["population", "rows"]
    noise_sd: float
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class Marginal:
    """A noisy contingency table, the last column fastest. counts: in rows."""

    columns: tuple[str, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Synthetic(Task):
    """What synthetic tables were drawn from; `Client.table` downloads one, by its number from 0.

    levels: by column. noise_sd: of each count, in rows. r_hat: of the chains that drew the tables.
    """

    tables: int
    rows: int
    columns: tuple[str, ...]
    levels: Mapping[str, Sequence[str]]
    noise_sd: float
    r_hat: float | None
    marginals: tuple[Marginal, ...]


@dataclass(frozen=True, slots=True)
class StatisticRelease:
    """A noisy statistic and the distribution of its noise. values: one, or one for each row."""

    form: str
    statistic: Mapping[str, Any]
    rows: int
    values: tuple[float, ...]
    noise: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statistic(Task):
    """One statistic."""

    released: StatisticRelease


@dataclass(frozen=True, slots=True)
class TwoStages(Task):
    """Two sums over separate rows. power: of the second, chosen from the first.

    scores: mean of 1 / Fisher information by power. weights: how likely each theta is.
    """

    stages: tuple[StatisticRelease, ...]
    power: float
    scores: Mapping[float, float | None]
    weights: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class CheckedBin:
    """A bin of a check: its ends, the expected and the released share of rows.

    share, noise_sd, sd: None where a bin has too few rows. differs: more or fewer, else empty.
    """

    low: float
    high: float
    expected: float
    share: float | None
    noise_sd: float | None
    sd: float | None
    rows: float
    differs: str


@dataclass(frozen=True, slots=True)
class PredictiveCheck(Task):
    """How rows lie in the predictive distribution of a fitted regression.

    by: distribution or probability. misfit: whether p_value is below .05. detectable: the least
    misfit that shows nine times in ten. sentences: all of it in words.
    """

    family: str
    formula: str
    by: Literal["distribution", "probability"]
    bins: tuple[CheckedBin, ...]
    statistic: float
    degrees: int
    p_value: float
    misfit: bool
    detectable: float
    sentences: tuple[str, ...]


def posterior_of(answer: Json) -> Posterior:
    """Make the JSON of a free posterior into a typed result."""
    return Posterior(
        answer["job"],
        answer["scale"],
        {parameter["name"]: _typed(Spread, parameter) for parameter in answer["summary"]},
        {item["name"]: _typed(AppliedPrior, item) for item in answer["priors"]},
        tuple(_prediction(item) for item in answer["predictions"]),
        tuple(
            Contrast(contrast["weights"], _typed(Spread, contrast))
            for contrast in answer["contrasts"]
        ),
        tuple(_spreads(Comparison, item) for item in answer["comparisons"]),
        tuple(_spreads(Effect, item) for item in answer["effects"]),
        tuple(
            BayesFactor(factor["null"], factor["log_bayes_factor"], factor["error"])
            for factor in answer["bayes_factors"]
        ),
        verdict_of(answer),
        answer["draws"],
        answer,
    )


def inference_of(answer: Json) -> Inference:
    """Make the JSON of an inference into a typed result."""
    parameter = _typed(Parameter, answer["parameter"])
    verdict = verdict_of(answer)
    return Inference(answer["job"], answer["algorithm"], parameter, verdict, answer["draws"])


def inference_of_job(job: Json, summary: Json, chain: Json) -> Inference:
    """Return the typed result of an inference job, from its job, summary and chain in JSON."""
    parameter = _typed(Parameter, summary["parameters"][0])
    draws = [[draw[0] for draw in steps[chain["num_warmup"] :]] for steps in chain["draws"]]
    return Inference(job["id"], job["algorithm"], parameter, verdict_of(summary), draws)


def task_of(job: Json, answer: Json) -> Task:
    """Make the JSON of a task's result into a typed result. job: a job that has succeeded."""
    values = answer | {
        "epsilon": job["cost"]["epsilon"],
        "delta": job["cost"]["delta"],
        "verdict": verdict_of(job),
        "answer": answer | {"verdict": job.get("verdict")},
    }
    if answer["kind"] == "summaries":
        complete = ({"dates": None} | estimate for estimate in answer["estimates"])
        estimates = tuple(_typed(Estimate, estimate) for estimate in complete)
        return _typed(Summaries, values | {"estimates": estimates})
    if answer["kind"] == "synthetic":
        marginals = tuple(
            Marginal(tuple(marginal["columns"]), tuple(marginal["counts"]))
            for marginal in answer["marginals"]
        )
        parts = {"columns": tuple(answer["columns"]), "marginals": marginals}
        return _typed(Synthetic, values | parts)
    if answer["kind"] == "statistic":
        return _typed(Statistic, values | {"released": _released(answer)})
    if answer["kind"] == "predictive_check":
        bins = tuple(_typed(CheckedBin, one) for one in answer["bins"])
        words = {"bins": bins, "sentences": tuple(answer["sentences"])}
        return _typed(PredictiveCheck, values | words)
    scores = {power["power"]: power["mean_inverse_information"] for power in answer["scores"]}
    weights = {weight["theta"]: weight["weight"] for weight in answer["weights"]}
    stages = tuple(_released(stage) for stage in answer["stages"])
    return _typed(TwoStages, values | {"stages": stages, "scores": scores, "weights": weights})


def _typed(kind: type[Answer], values: Json) -> Answer:
    """Make a dataclass from a mapping with its fields; unknown fields are ignored."""
    made_of: Any = kind
    return kind(**{each.name: values[each.name] for each in fields(made_of)})


def _spreads(kind: type[Answer], values: Json) -> Answer:
    """Make a dataclass from a mapping, with each spread in it typed."""
    typed = {
        name: _typed(Spread, value) if _is_spread(value) else value
        for name, value in values.items()
    }
    return _typed(kind, typed)


def _is_spread(value: object) -> bool:
    return isinstance(value, dict) and {"mean", "sd", "q05"} <= set(value)


def _prediction(answer: Json) -> Prediction:
    """A prediction from its JSON."""
    probabilities = answer["probabilities"]
    if probabilities is not None:
        probabilities = {
            category: _typed(Spread, spread) for category, spread in probabilities.items()
        }
    return _spreads(Prediction, answer | {"probabilities": probabilities})


def _released(answer: Json) -> StatisticRelease:
    return _typed(StatisticRelease, answer | {"values": tuple(answer["values"])})


def _verdict_attributes(verdict: Verdict | None) -> dict[str, str]:
    if verdict is None:
        return {}
    return {"verdict": verdict.status, "verdict_sentence": verdict.sentence}


def _tree(draws: Mapping[str, Any], about: Mapping[str, str]) -> "xarray.DataTree":
    """Return draws (chain, draw) by parameter as ArviZ reads them; a slash would be a group."""
    import xarray

    variables: dict[str, Any] = {}
    for name, values in draws.items():
        variable = name.replace("/", "|")
        while variable in (*variables, "chain", "draw"):
            variable += "_"
        variables[variable] = (("chain", "draw"), values)
    attributes = {"inference_library": "dpmcmc", "epsilon": 0.0, **about}
    posterior = xarray.Dataset(variables, attrs=attributes)
    posterior = posterior.assign_coords({k: range(n) for k, n in posterior.sizes.items()})
    tree = xarray.DataTree.from_dict({"posterior": posterior})
    tree.attrs = attributes
    return tree
