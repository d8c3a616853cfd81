"""Typed answers on what a job has released: free posteriors, tasks and inferences.

Each is made of the service's JSON, whose `note` and whole answer the methods that return JSON have.
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
    """How a quantity is spread over the draws: its 90 % interval is from q05 to q95."""

    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float


@dataclass(frozen=True, slots=True)
class Prior:
    """The prior of one standardised coefficient that applied. None: what its kind does not have."""

    kind: str
    loc: float
    scale: float | None
    df: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is expected at one setting of the covariates.

    predictor: the linear predictor. expected: the mean response on its own scale. response: what a
    new row would have; None where that is yes or no. probabilities: of each category, where the
    response is one of several; the others are None then.
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
    """One setting less another. ratio: of what `multiplies` names; None where there is none."""

    given: Mapping[str, Any]
    against: Mapping[str, Any]
    predictor: Spread
    expected: Spread
    ratio: Spread | None
    multiplies: str


@dataclass(frozen=True, slots=True)
class Effect:
    """Average effect of a covariate on the mean response; both values None: the derivative."""

    covariate: str
    value: float | str | None
    against: float | str | None
    expected: Spread


@dataclass(frozen=True, slots=True)
class BayesFactor:
    """Natural logarithm, above 0 where the larger model is favoured; error: of the sampling."""

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
    priors: Mapping[str, Prior]
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
        told = dict(zip(self.parameters, ([column] for column in columns), strict=True))
        return _tree(told, {"job": self.job, "scale": self.scale, **_worth(self.verdict)})


@dataclass(frozen=True, slots=True)
class Inference:
    """Draws (chain, draw) of a family's unknown number, given what was released. Free of charge.

    draws: after warm-up.
    """

    job: str
    algorithm: str
    parameter: Parameter
    verdict: Verdict | None
    draws: Sequence[Sequence[float]] = field(repr=False)

    def to_arviz(self) -> "xarray.DataTree":
        """Return the draws as one ArviZ DataTree."""
        told = {"job": self.job, "algorithm": self.algorithm, **_worth(self.verdict)}
        return _tree({self.parameter.name: self.draws}, told)


@dataclass(frozen=True, slots=True)
class Task:
    """What a task released. epsilon, delta: what it cost. note: what its numbers mean."""

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
    """A number with its interval."""

    name: str
    estimate: float
    lower: float
    upper: float


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
class Released:
    """A statistic and the law of its noise. values: one for all rows, or one for each of them."""

    form: str
    statistic: Mapping[str, Any]
    rows: int
    values: tuple[float, ...]
    noise: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statistic(Task):
    """One statistic."""

    released: Released


@dataclass(frozen=True, slots=True)
class TwoStages(Task):
    """Two sums over separate rows. power: of the second, chosen by what the first one told.

    scores: mean of 1 / Fisher information by power. weights: how likely each theta is.
    """

    stages: tuple[Released, ...]
    power: float
    scores: Mapping[float, float | None]
    weights: Mapping[float, float]


def posterior_of(answer: Json) -> Posterior:
    """Make the answer to a question about a stored release into a typed result."""
    return Posterior(
        answer["job"],
        answer["scale"],
        {one["name"]: _made(Spread, one) for one in answer["summary"]},
        {one["name"]: _made(Prior, one) for one in answer["priors"]},
        tuple(_prediction(one) for one in answer["predictions"]),
        tuple(Contrast(one["weights"], _made(Spread, one)) for one in answer["contrasts"]),
        tuple(_spreads(Comparison, one) for one in answer["comparisons"]),
        tuple(_spreads(Effect, one) for one in answer["effects"]),
        tuple(
            BayesFactor(one["null"], one["log_bayes_factor"], one["error"])
            for one in answer["bayes_factors"]
        ),
        verdict_of(answer),
        answer["draws"],
        answer,
    )


def inference_of(answer: Json) -> Inference:
    """Make an inference's answer into a typed result."""
    parameter = _made(Parameter, answer["parameter"])
    verdict = verdict_of(answer)
    return Inference(answer["job"], answer["algorithm"], parameter, verdict, answer["draws"])


def inference_of_job(job: Json, summary: Json, chain: Json) -> Inference:
    """Make the answers of an inference that took longer, a job of its own, into a typed result."""
    parameter = _made(Parameter, summary["parameters"][0])
    kept = [[draw[0] for draw in one[chain["num_warmup"] :]] for one in chain["draws"]]
    return Inference(job["id"], job["algorithm"], parameter, verdict_of(summary), kept)


def task_of(job: Json, answer: Json) -> Task:
    """Make what a task released into a typed result. job: that has succeeded."""
    told = answer | {
        "epsilon": job["cost"]["epsilon"],
        "delta": job["cost"]["delta"],
        "verdict": verdict_of(job),
        "answer": answer | {"verdict": job.get("verdict")},
    }
    if answer["kind"] == "summaries":
        estimates = tuple(_made(Estimate, one) for one in answer["estimates"])
        return _made(Summaries, told | {"estimates": estimates})
    if answer["kind"] == "synthetic":
        marginals = tuple(
            Marginal(tuple(one["columns"]), tuple(one["counts"])) for one in answer["marginals"]
        )
        parts = {"columns": tuple(answer["columns"]), "marginals": marginals}
        return _made(Synthetic, told | parts)
    if answer["kind"] == "statistic":
        return _made(Statistic, told | {"released": _released(answer)})
    scores = {one["power"]: one["mean_inverse_information"] for one in answer["scores"]}
    weights = {one["theta"]: one["weight"] for one in answer["weights"]}
    stages = tuple(_released(one) for one in answer["stages"])
    return _made(TwoStages, told | {"stages": stages, "scores": scores, "weights": weights})


def _made(kind: type[Answer], told: Json) -> Answer:
    """Make what has these fields, and perhaps more; a later service may send more."""
    named: Any = kind
    return kind(**{one.name: told[one.name] for one in fields(named)})


def _spreads(kind: type[Answer], told: Json) -> Answer:
    """Make what has spreads among its fields."""
    whole = {name: _made(Spread, one) if _is_spread(one) else one for name, one in told.items()}
    return _made(kind, whole)


def _is_spread(value: object) -> bool:
    return isinstance(value, dict) and {"mean", "sd", "q05"} <= set(value)


def _prediction(told: Json) -> Prediction:
    several = told["probabilities"]
    if several is not None:
        several = {word: _made(Spread, one) for word, one in several.items()}
    return _spreads(Prediction, told | {"probabilities": several})


def _released(told: Json) -> Released:
    return _made(Released, told | {"values": tuple(told["values"])})


def _worth(verdict: Verdict | None) -> dict[str, str]:
    if verdict is None:
        return {}
    return {"verdict": verdict.status, "verdict_sentence": verdict.sentence}


def _tree(draws: Mapping[str, Any], told: Mapping[str, str]) -> "xarray.DataTree":
    """Return draws (chain, draw) by parameter as ArviZ reads them; a slash would be a group."""
    import xarray

    named: dict[str, Any] = {}
    for name, values in draws.items():
        plain = name.replace("/", "|")
        while plain in (*named, "chain", "draw"):
            plain += "_"
        named[plain] = (("chain", "draw"), values)
    attributes = {"inference_library": "dpmcmc", "epsilon": 0.0, **told}
    posterior = xarray.Dataset(named, attrs=attributes)
    posterior = posterior.assign_coords({k: range(n) for k, n in posterior.sizes.items()})
    tree = xarray.DataTree.from_dict({"posterior": posterior})
    tree.attrs = attributes
    return tree
