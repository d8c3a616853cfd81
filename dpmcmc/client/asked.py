"""The body of a job on the command line: from a file, from options, or both."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpmcmc.client import names
from dpmcmc.client.client import Client
from dpmcmc.client.named import like
from dpmcmc.client.terminal import WRONG_WORDS, complain, complaints, finite, read

Json = dict[str, Any]
# surv(time, event), cases | trials(n): the service reads the family off the response
OF_TWO_COLUMNS = re.compile(r"[^~]*\||\s*(?:[sS]urv|cbind)\s*\([^~]*~")
FAMILIES = {
    "binary": "logistic",
    "category": "multinomial",
    "number": "linear",
    "date": "linear",
}

JobFile = Annotated[
    Path | None,
    typer.Argument(exists=True, dir_okay=False, help="A job as JSON; flags go before it."),
]
Name = Annotated[str | None, typer.Option(help="What the job is called, for people.")]
Note = Annotated[str | None, typer.Option(help="What is noted on the job, for people.")]


class Spend(StrEnum):
    """Whether a hopeless release goes on."""

    until_hopeless = "until_hopeless"
    all = "all"


class Until(StrEnum):
    """What ends a job that begins small."""

    reliable = "reliable"


@dataclass(frozen=True, slots=True)
class Flags:
    """The options of a job on the command line; None where one is left out."""

    dataset: Annotated[str | None, typer.Option(help="Its name or id.")] = None
    formula: Annotated[str | None, typer.Option(help='Such as "visits ~ age + sex".')] = None
    family: Annotated[
        str | None,
        typer.Option(help="By default that of the response's type: logistic, linear, ..."),
    ] = None
    epsilon: Annotated[
        float | None, typer.Option(callback=finite, help="What the job may cost.")
    ] = None
    delta: Annotated[
        float | None, typer.Option(callback=finite, help="By default that of the dataset.")
    ] = None
    algorithm: Annotated[str | None, typer.Option(help="By default the planner chooses.")] = None
    prior_scale: Annotated[
        float | None, typer.Option(callback=finite, help="Sd of the normal prior of coefficients.")
    ] = None
    max_rows: Annotated[
        int | None, typer.Option(help="Most rows of one person, where the dataset has several.")
    ] = None
    accept_low_quality: Annotated[
        bool, typer.Option("--accept-low-quality", help="Run also what the plan calls useless.")
    ] = False
    spend: Annotated[
        Spend | None,
        typer.Option(
            help="until_hopeless (the default) ends a release that cannot succeed; or all."
        ),
    ] = None
    until: Annotated[
        Until | None,
        typer.Option(
            help="reliable: begin small and go on until the result is; --epsilon is then the most."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class SubmitFlags(Flags):
    """The options of a job that is submitted."""

    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="On rows made from the declared bounds alone, for nothing."),
    ] = False


def job(client: Client, file: Path | None, flags: Flags) -> Json:
    """The body of a job, from a file with the options put over it.

    Exits where there is no dataset, or no file and neither formula nor epsilon.
    """
    body = read(file) if file else {}
    dataset_name = flags.dataset or body.get("dataset")
    if not isinstance(dataset_name, str):
        complain(
            "which dataset? Give --dataset NAME, or a file with a job that names one.",
            code=WRONG_WORDS,
        )
    body["dataset"] = names.dataset(client, dataset_name)
    if file is None and (flags.formula is None or flags.epsilon is None):
        complain("a job needs --formula and --epsilon, or a file with a job.", code=WRONG_WORDS)
    _merge(body, "model", formula=flags.formula, family=flags.family)
    _merge(body, "privacy", epsilon=flags.epsilon, delta=flags.delta, max_rows=flags.max_rows)
    if flags.until is not None:
        _go_on(body, flags.until.value)
    _merge(body, "sampler", algorithm=flags.algorithm)
    if flags.prior_scale is not None:
        _merge(body, "model", prior={"kind": "normal", "scale": flags.prior_scale})
    if flags.accept_low_quality:
        body["accept_low_quality"] = True
    if isinstance(flags, SubmitFlags) and flags.dry_run:
        body["dry_run"] = True
    if flags.spend is not None:
        body["spend"] = flags.spend.value
    return _complete(client, body)


def _go_on(body: Json, until: str) -> None:
    """Make the epsilon of a job the most that it may cost."""
    privacy = body.get("privacy")
    epsilon = privacy.get("epsilon") if isinstance(privacy, dict) else None
    if epsilon is None:
        complain("--until needs --epsilon, the most that the job may cost.", code=WRONG_WORDS)
    up_to = epsilon.get("up_to") if isinstance(epsilon, dict) else epsilon
    _merge(body, "privacy", epsilon={"up_to": up_to, "until": until})


def _merge(body: Json, part: str, **flags: Any) -> None:
    fields = {key: value for key, value in flags.items() if value is not None}
    if fields and isinstance(body.setdefault(part, {}), dict):
        body[part] |= fields


def _complete(client: Client, body: Json) -> Json:
    """Add the dataset's delta and the family that fits the response, where they are left out."""
    model, privacy = body.get("model"), body.get("privacy")
    if not isinstance(privacy, dict) or not (isinstance(model, dict) or "task" in body):
        return body  # the service says what is wrong with it
    if "delta" in privacy and (model is None or "family" in model):
        return body
    metadata = client.dataset(body["dataset"])
    privacy.setdefault("delta", metadata["privacy"]["delta"])
    if model is not None and "family" not in model:
        formula = str(model.get("formula", ""))
        if not OF_TWO_COLUMNS.match(formula):
            model["family"] = _family(metadata, formula)
    return body


def _zero_to_one(column: Json) -> bool:
    """Whether a column is a number with bounds 0 and 1, hence perhaps binary."""
    return (column["type"], column.get("lower"), column.get("upper")) == ("number", 0, 1)


def _family(dataset: Json, formula: str) -> str:
    """The family that the type of the response suggests. Exits where there is none."""
    response, tilde, _ = (part.strip() for part in formula.partition("~"))
    kinds = {column["name"]: column["type"] for column in dataset["columns"]}
    if not tilde:
        complain(
            f'{formula!r} is no formula: write one as "response ~ covariate + covariate".',
            code=WRONG_WORDS,
        )
    if response not in kinds:
        near = like(response, kinds)
        hint = f"Did you mean {near}?" if near else f"There is {', '.join(list(kinds)[:10])}."
        complain(
            f"the response {response!r} is no column of {dataset['name']}. {hint}"
            " For one that is computed give --family, such as linear.",
            code=WRONG_WORDS,
        )
    family = FAMILIES[kinds[response]]
    complaints.print(f"family: {family}, for {response} is a {kinds[response]} column")
    if any(_zero_to_one(c) for c in dataset["columns"] if c["name"] == response):
        complaints.print(f"where {response} is 0 or 1 alone, --family logistic takes it")
    return family
