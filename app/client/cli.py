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

from app.client import render
from app.client.client import ApiError, Client

app = typer.Typer(
    help="Talk to a dpmcmc service. DPMCMC_URL and DPMCMC_KEY say where and as whom.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
console = Console()
Url = Annotated[str, typer.Option(envvar="DPMCMC_URL", help="Where the service is.")]
Key = Annotated[str, typer.Option(envvar="DPMCMC_KEY", help="Your API key.")]
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
        console.print(render.summary(context.obj.summary(job)))


@app.command()
def jobs(context: typer.Context) -> None:
    """List the jobs."""
    with refusals():
        show(list(context.obj.jobs()))


@app.command()
def cancel(context: typer.Context, job: str) -> None:
    """Cancel a job."""
    with refusals():
        show(context.obj.cancel(job))


@app.command()
def summary(context: typer.Context, job: str) -> None:
    """Show the posterior of a job that succeeded."""
    with refusals():
        console.print(render.summary(context.obj.summary(job)))


@app.command()
def chain(context: typer.Context, job: str, output: Path, form: str = "netcdf") -> None:
    """Save the draws. --form: json, csv, parquet or netcdf."""
    with refusals():
        output.write_bytes(context.obj.chain(job, form))


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
