"""Commands on jobs and their results."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dpmcmc.client import asked, names, posteriors, render
from dpmcmc.client.answers import Json
from dpmcmc.client.client import Client
from dpmcmc.client.terminal import (
    INTERRUPTED,
    REFUSED,
    AsJson,
    Output,
    TableFormat,
    client_of,
    complain,
    console,
    finite,
    read,
    save,
    show,
    taking,
)


class IntervalTarget(StrEnum):
    """What the interval of a summary is for: the population's value, or that of these rows."""

    population = "population"
    rows = "rows"


class DrawsFormat(StrEnum):
    """File formats of draws."""

    json = "json"
    csv = "csv"
    parquet = "parquet"
    netcdf = "netcdf"


class Scale(StrEnum):
    """Units of coefficients."""

    original = "original"
    design = "design"


ScaleOf = Annotated[
    Scale, typer.Option(help="original: in the units of the columns; design: standardised.")
]
JobId = Annotated[str, typer.Argument(help="A job's id, or how it begins.")]
QuestionFile = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="JSON: what is asked.")
]
commands = typer.Typer()


@commands.command()
@taking(asked.Flags)
def plan(
    context: typer.Context,
    job: asked.JobFile = None,
    *,
    given: asked.Flags,
    as_json: AsJson = False,
) -> None:
    """Show the cost and the expected quality of a job; spends nothing."""
    client = client_of(context)
    answer = client.plan(asked.job(client, job, given))
    warnings = [f"[yellow]{escape(warning)}[/]" for warning in answer["warnings"]]
    show(answer, as_json, render.plan(answer), *map(escape, answer["reasons"]), *warnings)


@commands.command()
@taking(asked.SubmitFlags)
def submit(
    context: typer.Context,
    job: asked.JobFile = None,
    *,
    given: asked.SubmitFlags,
    name: asked.Name = None,
    note: asked.Note = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it, then show the result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job and print its id. Exits with 1 where --wait sees it fail."""
    client = client_of(context)
    words = {key: text for key, text in (("name", name), ("note", note)) if text is not None}
    created = client.submit(asked.job(client, job, given) | words)
    if wait:
        _follow(client, created["id"], as_json)
    elif as_json:
        show(created, True)
    else:
        typer.echo(created["id"])


@commands.command()
def watch(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Follow a job to its end, then show the posterior. Exits with 1 where it fails."""
    client = client_of(context)
    job_id = names.job(client, job)
    client.job(job_id)  # is refused before a bar is drawn
    _follow(client, job_id, as_json)


def _follow(client: Client, job: str, as_json: bool) -> None:
    """Follow a job to its end and show what it gave. Exits where it failed."""
    try:
        ended = client.wait(job) if as_json else render.follow(client, console, job)
    except KeyboardInterrupt:
        complain(f"no longer followed; the job goes on: dpmcmc watch {job[:8]}", code=INTERRUPTED)
    if ended["status"] == "succeeded" and ended["kind"] == "task":
        answer = client.result(job)
        show(answer, as_json, render.result(answer), render.verdict(ended), escape(answer["note"]))
        return
    if ended["status"] == "succeeded":
        _show_result(client.summary(job), as_json)
        return
    error = ended.get("error") or {}
    show(ended, as_json, render.job(ended), escape(str(error.get("detail", ""))))
    raise typer.Exit(REFUSED)


def _show_result(answer: Json, as_json: bool) -> None:
    """Print a job's summary, verdict and explanation, or all of the answer as JSON."""
    show(
        answer, as_json, render.summary(answer), render.verdict(answer), render.explanation(answer)
    )


@commands.command()
def jobs(
    context: typer.Context,
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
) -> None:
    """List the jobs, newest first, each with the verdict on its result."""
    newest = client_of(context).some_jobs(limit)
    show(newest, as_json, render.jobs(newest))


@commands.command()
def job(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Show one job: what was asked, what it costs, how far it is."""
    client = client_of(context)
    answer = client.job(names.job(client, job))
    show(answer, as_json, render.job(answer))


@commands.command()
def cancel(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Cancel a job. Once it runs, its debit stays."""
    client = client_of(context)
    answer = client.cancel(names.job(client, job))
    show(answer, as_json, render.job(answer))


@commands.command()
def summary(
    context: typer.Context, job: JobId, scale: ScaleOf = Scale.original, as_json: AsJson = False
) -> None:
    """Show the posterior of a job that succeeded."""
    client = client_of(context)
    _show_result(client.summary(names.job(client, job), scale=scale), as_json)


@commands.command()
def result(
    context: typer.Context,
    job: JobId,
    level: Annotated[
        float, typer.Option(callback=finite, help="Of the intervals of summaries.")
    ] = 0.9,
    target: Annotated[
        IntervalTarget, typer.Option(help="population: sampling and noise; rows: noise alone.")
    ] = IntervalTarget.population,
    as_json: AsJson = False,
) -> None:
    """Show what a task released: summaries, synthetic tables or a statistic; costs nothing."""
    client = client_of(context)
    job = names.job(client, job)
    answer = client.result(job, level=level, target=target)
    verdict = render.verdict(client.job(job))
    show(answer, as_json, render.result(answer), verdict, escape(answer["note"]))


@commands.command()
def table(
    context: typer.Context,
    job: JobId,
    number: Annotated[int, typer.Argument(min=0, help="Of the synthetic table, from 0.")],
    output: Output,
    form: TableFormat = TableFormat.csv,
    as_json: AsJson = False,
) -> None:
    """Save one synthetic table of a task."""
    client = client_of(context)
    save(output, client.table(names.job(client, job), number, form), as_json)


@commands.command()
def posterior(
    context: typer.Context,
    job: JobId,
    question: QuestionFile,
    output: Annotated[Path | None, typer.Option(help="Save the draws alone, in --form.")] = None,
    form: DrawsFormat = DrawsFormat.csv,
    scale: ScaleOf = Scale.original,
    as_json: AsJson = False,
) -> None:
    """Ask a stored release for another prior, predictions, effects or tests; costs nothing."""
    client = client_of(context)
    job = names.job(client, job)
    if output is not None:
        save(output, client.posterior_draws(job, read(question), form, scale=scale), as_json)
        return
    answer = client.posteriors(job, read(question), scale=scale)
    tables = posteriors.tables(answer)
    show(answer, as_json, *tables, render.verdict(answer), escape(answer["note"]))


@commands.command()
def infer(
    context: typer.Context,
    job: JobId,
    question: QuestionFile,
    output: Annotated[Path | None, typer.Option(help="Save the draws alone, in --form.")] = None,
    form: DrawsFormat = DrawsFormat.csv,
    as_json: AsJson = False,
) -> None:
    """Infer a family's number from a statistic that a task released; costs nothing."""
    client = client_of(context)
    job = names.job(client, job)
    if output is not None:
        save(output, client.inference_draws(job, read(question), form), as_json)
        return
    answer = client.inference(job, read(question))
    if "status" in answer:  # it takes longer than a request
        _follow(client, answer["id"], as_json)
        return
    parts = render.inference(answer), render.verdict(answer), escape(answer["note"])
    show(answer, as_json, *parts)


@commands.command()
def chain(
    context: typer.Context,
    job: JobId,
    output: Output,
    form: DrawsFormat = DrawsFormat.netcdf,
    scale: ScaleOf = Scale.original,
    as_json: AsJson = False,
) -> None:
    """Save the draws of a job."""
    client = client_of(context)
    job = names.job(client, job)
    verdict = render.verdict(client.job(job))
    save(output, client.chain(job, form, scale=scale), as_json, verdict)
