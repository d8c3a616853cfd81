"""Commands on datasets, their budgets and their ledgers."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dpmcmc.client import names, render
from dpmcmc.client.terminal import WRONG_WORDS, AsJson, client_of, complain, finite, read, show

Dataset = Annotated[str, typer.Argument(help="A dataset's name or id.")]
User = Annotated[str, typer.Argument(help="A user's name or id.")]
commands = typer.Typer()


@commands.command()
def datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the datasets."""
    found = list(client_of(context).datasets())
    show(found, as_json, render.datasets(found))


@commands.command()
def dataset(context: typer.Context, dataset: Dataset, as_json: AsJson = False) -> None:
    """Show a dataset: its columns with their public bounds and categories."""
    client = client_of(context)
    found = client.dataset(names.dataset(client, dataset))
    show(found, as_json, render.columns(found), f"id: {found['id']}")


@commands.command()
def upload(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV or Parquet.")],
    metadata: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="As JSON.")],
    more: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, dir_okay=False, help="Of further data holders, in order."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Upload a CSV or Parquet file with its metadata (admin)."""
    found = client_of(context).upload(file, read(metadata), *(more or ()))
    warnings = [f"[yellow]{escape(one['detail'])}[/]" for one in found.get("warnings", [])]
    show(found, as_json, render.columns(found), f"id: {found['id']}", *warnings)


@commands.command()
def budget(
    context: typer.Context,
    dataset: Annotated[
        str | None, typer.Argument(help="Its name or id; all where left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What is spent, reserved and left of budgets."""
    client = client_of(context)
    if dataset is None:
        found = list(client.budgets())
        called = {one["id"]: {"name": one["name"]} for one in client.datasets()}
        shown = [called.get(one["dataset"], {}) | one for one in found]
        show(found, as_json, render.budgets(shown))
        return
    known = client.budget(names.dataset(client, dataset))
    show(known, as_json, render.budgets([{"name": dataset} | known]))


PaidEpsilon = Annotated[
    float, typer.Option("--epsilon", callback=finite, help="What all steps together may cost.")
]
PaidDelta = Annotated[float, typer.Option("--delta", callback=finite, help="At this delta.")]


@commands.command()
def noise(
    context: typer.Context,
    epsilon: PaidEpsilon,
    delta: PaidDelta,
    steps: Annotated[int, typer.Option(help="Of all chains together.")] = 1,
) -> None:
    """Print the least noise multiplier with which so many steps cost no more; spends nothing."""
    typer.echo(client_of(context).noise_for_epsilon(epsilon, delta, steps))


@commands.command()
def steps(
    context: typer.Context,
    epsilon: PaidEpsilon,
    delta: PaidDelta,
    noise_multiplier: Annotated[float, typer.Option(callback=finite, help="Of every step.")],
) -> None:
    """Print how many steps with this noise an epsilon pays for; spends nothing."""
    typer.echo(client_of(context).steps_for_epsilon(epsilon, delta, noise_multiplier))


@commands.command()
def amend(
    context: typer.Context,
    dataset: Dataset,
    epsilon: Annotated[float | None, typer.Option(callback=finite, help="The new budget.")] = None,
    archive: Annotated[
        bool | None, typer.Option("--archive/--unarchive", help="Take jobs on it no more.")
    ] = None,
    available: Annotated[
        bool, typer.Option("--available", help="Its stored rows are put right: use it again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Raise a budget, archive a dataset or use it again (admin)."""
    changes: dict[str, object] = {} if epsilon is None else {"privacy": {"epsilon": epsilon}}
    if archive is not None:
        changes["archived"] = archive
    if available:
        changes["available"] = True
    if not changes:
        words = "--epsilon, --archive, --unarchive or --available"
        complain(f"what is to change? Give {words}.", code=WRONG_WORDS)
    _amend(context, dataset, changes, as_json)


@commands.command()
def grant(
    context: typer.Context,
    dataset: Dataset,
    users: Annotated[list[str] | None, typer.Argument(help="Names or ids of analysts.")] = None,
    as_json: AsJson = False,
) -> None:
    """Open a dataset to these analysts and nobody else (admin)."""
    client = client_of(context)
    _amend(context, dataset, {"grants": [names.user(client, one) for one in users or []]}, as_json)


@commands.command()
def allot(
    context: typer.Context,
    dataset: Dataset,
    user: User,
    epsilon: Annotated[
        float | None, typer.Argument(callback=finite, help="Left out: no cap any more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cap what one analyst may spend of a dataset's budget (admin)."""
    found = names.user(client_of(context), user)
    _amend(context, dataset, {"allotments": {found: epsilon}}, as_json)


def _amend(context: typer.Context, dataset: str, changes: dict[str, object], as_json: bool) -> None:
    client = client_of(context)
    found = names.dataset(client, dataset)
    changed = client.amend(found, changes)
    if as_json:
        show(changed, True)
        return
    left = {"name": changed["name"]} | client.budget(found)
    show(None, False, render.datasets([changed]), render.budgets([left]))


@commands.command()
def destroy(
    context: typer.Context,
    dataset: Dataset,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Destroy a dataset's rows and their key (admin). The ledger stays."""
    client = client_of(context)
    found = names.dataset(client, dataset)
    name = client.dataset(found)["name"]  # the word may be the beginning of an id
    if not yes:
        ask = f"Destroy the rows of {name}? They cannot be had back"
        typer.confirm(ask, abort=True, err=True)
    client.destroy(found)
    show({"id": found, "destroyed": True}, as_json, escape(f"The rows of {name} are gone."))


@commands.command()
def ledger(context: typer.Context, dataset: Dataset, as_json: AsJson = False) -> None:
    """Show a dataset's ledger, oldest entry first (admin and auditor)."""
    client = client_of(context)
    found = list(client.ledger(names.dataset(client, dataset)))
    show(found, as_json, render.ledger(found))


@commands.command()
def verify(context: typer.Context, dataset: Dataset, as_json: AsJson = False) -> None:
    """Recompute a ledger's chain and totals (admin and auditor). Exits with 1 where it fails."""
    client = client_of(context)
    found = client.verify(names.dataset(client, dataset))
    show(found, as_json, render.verification(found))
    if not found["ok"]:
        raise typer.Exit(1)
