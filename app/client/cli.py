"""The command line: `./dev client --help`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.markup import escape

from app.client import posteriors, render
from app.client.client import ApiError, Client

app = typer.Typer(
    help="Talk to a dpmcmc service. DPMCMC_URL and DPMCMC_KEY say where and as whom.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
console = Console()
Url = Annotated[str, typer.Option(envvar="DPMCMC_URL", help="Where the service is.")]
Key = Annotated[str, typer.Option(envvar="DPMCMC_KEY", help="Your API key.")]
ScaleOf = Annotated[
    str, typer.Option(help="original: in the units of the columns; design: standardised.")
]
JobFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A job as JSON.")]


@app.callback()
def connect(context: typer.Context, key: Key, url: Url = "http://127.0.0.1:8000") -> None:
    """Remember the service for the command."""
    context.obj = context.with_resource(Client(url, key))


@contextmanager
def refusals() -> Iterator[None]:
    """Show a refusal as one line and exit with 1."""
    try:
        yield
    except ApiError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        for item in error.problem.get("errors", []):
            console.print(escape(f"  {item['pointer']}: {item['message']}"))
        raise typer.Exit(1) from None
    except httpx.TransportError:
        console.print("[red]cannot reach the service; is DPMCMC_URL right?[/]")
        raise typer.Exit(1) from None


def show(answer: Any) -> None:
    """Print an answer as JSON."""
    console.print_json(data=answer)


def show_result(answer: dict[str, Any]) -> None:
    """Print a summary with its verdict."""
    console.print(render.summary(answer))
    console.print(render.verdict(answer))


def read(file: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{file} does not hold a JSON object")
    return content


@app.command()
def datasets(context: typer.Context) -> None:
    """List the datasets."""
    with refusals():
        show(list(context.obj.datasets()))


@app.command()
def upload(context: typer.Context, file: Path, metadata: JobFile) -> None:
    """Upload a CSV or Parquet file with its metadata (admin)."""
    with refusals():
        show(context.obj.upload(file, read(metadata)))


@app.command()
def user(context: typer.Context, name: str, role: str = "analyst") -> None:
    """Make a user and show the key, once (admin)."""
    with refusals():
        show(context.obj.create_user(name, role))


@app.command()
def budget(context: typer.Context, dataset: str) -> None:
    """What is spent, reserved and left of a dataset's budget."""
    with refusals():
        console.print(render.budgets([context.obj.budget(dataset)]))


@app.command()
def plan(context: typer.Context, job: JobFile) -> None:
    """What a job would cost and bring; spends nothing."""
    with refusals():
        answer = context.obj.plan(read(job))
        console.print(render.plan(answer))
        for reason in answer["reasons"]:
            console.print(escape(reason))
        for warning in answer["warnings"]:
            console.print(f"[yellow]{escape(warning)}[/]")


@app.command()
def submit(context: typer.Context, job: JobFile) -> None:
    """Submit a job and print its id."""
    with refusals():
        typer.echo(context.obj.submit(read(job))["id"])


@app.command()
def watch(context: typer.Context, job: str) -> None:
    """Follow a job to its end, then show the posterior."""
    with refusals():
        ended = render.follow(context.obj, console, job)
        if ended["status"] != "succeeded":
            raise typer.Exit(1)
        show_result(context.obj.summary(job))


@app.command()
def jobs(context: typer.Context, as_json: bool = False) -> None:
    """List the jobs, each with the verdict on its result. --as-json: with all that is known."""
    with refusals():
        found = list(context.obj.jobs())
        if as_json:
            show(found)
        else:
            console.print(render.jobs(found))


@app.command()
def cancel(context: typer.Context, job: str) -> None:
    """Cancel a job."""
    with refusals():
        show(context.obj.cancel(job))


@app.command()
def summary(context: typer.Context, job: str, scale: ScaleOf = "original") -> None:
    """Show the posterior of a job that succeeded."""
    with refusals():
        show_result(context.obj.summary(job, scale=scale))


@app.command()
def posterior(
    context: typer.Context,
    job: str,
    question: JobFile,
    output: Annotated[Path | None, typer.Option(help="Save the draws alone, in --form.")] = None,
    form: str = "csv",
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as it came.")] = False,
    scale: ScaleOf = "original",
) -> None:
    """Ask a stored release for another prior, predictions, effects or tests; costs nothing."""
    with refusals():
        if output is not None:
            made = context.obj.posterior_draws(job, read(question), form, scale=scale)
            output.write_bytes(made)
            return
        answer = context.obj.posteriors(job, read(question), scale=scale)
        if as_json:
            show(answer)
            return
        for table in posteriors.tables(answer):
            console.print(table)
        console.print(render.verdict(answer))
        console.print(escape(answer["note"]))


@app.command()
def chain(
    context: typer.Context,
    job: str,
    output: Path,
    form: str = "netcdf",
    scale: ScaleOf = "original",
) -> None:
    """Save the draws. --form: json, csv, parquet or netcdf."""
    with refusals():
        output.write_bytes(context.obj.chain(job, form, scale=scale))
        console.print(render.verdict(context.obj.job(job)))


@app.command()
def ledger(context: typer.Context, dataset: str) -> None:
    """Print a dataset's ledger (admin and auditor)."""
    with refusals():
        show(list(context.obj.ledger(dataset)))


@app.command()
def verify(context: typer.Context, dataset: str) -> None:
    """Recompute a ledger's hash chain and totals (admin and auditor)."""
    with refusals():
        show(context.obj.verify(dataset))
