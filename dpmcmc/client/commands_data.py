"""Commands on datasets, their budgets and their ledgers."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from dpmcmc.base import schema_file
from dpmcmc.client import names, render
from dpmcmc.client.terminal import (
    WRONG_WORDS,
    AsJson,
    Output,
    Reason,
    TableFormat,
    client_of,
    complain,
    complaints,
    finite,
    read,
    save,
    show,
    taking,
)

Dataset = Annotated[str, typer.Argument(help="A dataset's name or id.")]
User = Annotated[str, typer.Argument(help="A user's name or id.")]
commands = typer.Typer()


@commands.command()
def datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the datasets."""
    listed = list(client_of(context).datasets())
    show(listed, as_json, render.datasets(listed))


@commands.command()
def dataset(context: typer.Context, dataset: Dataset, as_json: AsJson = False) -> None:
    """Show a dataset: its columns with their public bounds and categories."""
    client = client_of(context)
    description = client.dataset(names.dataset(client, dataset))
    show(description, as_json, render.columns(description), f"id: {description['id']}")


@commands.command()
def dummy(
    context: typer.Context,
    dataset: Dataset,
    output: Output,
    rows: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same rows.")] = 0,
    form: TableFormat = TableFormat.csv,
    as_json: AsJson = False,
) -> None:
    """Save rows made from the declared bounds and categories alone; costs nothing.

    They are for code that is written and tried before any budget is spent. No row of the dataset is
    read.
    """
    client = client_of(context)
    table = client.dummy_table(names.dataset(client, dataset), form, rows, seed)
    save(output, table, as_json)


@dataclass(frozen=True, slots=True)
class Format:
    """How a text file is written, as options; None where one is left out."""

    separator: Annotated[
        str | None, typer.Option(help="Between fields, such as ';' or tab; found where left out.")
    ] = None
    decimal: Annotated[str | None, typer.Option(help="The decimal sign, '.' or ','.")] = None
    thousands: Annotated[
        str | None, typer.Option(help="Between groups of digits, such as '.'.")
    ] = None
    encoding: Annotated[str | None, typer.Option(help="Such as windows-1252.")] = None
    dates: Annotated[
        str | None, typer.Option(help="Of dates such as 01/02/2020: dmy, or mdy for month first.")
    ] = None
    row_names: Annotated[
        bool | None,
        typer.Option(help="Whether rows begin with a name that the header does not have."),
    ] = None
    skip_first_rows: Annotated[
        int | None,
        typer.Option(min=0, help="Lines below the header that are no rows, as of units."),
    ] = None
    skip_last_lines: Annotated[
        int | None,
        typer.Option(min=0, help="Lines of notes below the rows, blank ones not counted."),
    ] = None
    none: Annotated[
        list[str] | None, typer.Option(help="A spelling of no value, such as NA; repeat it.")
    ] = None

    def members(self) -> dict[str, object]:
        """The members of a request's format that are named."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given["missing"] = given.pop("none") or None
        if self.separator in ("tab", "\\t"):
            given["separator"] = "\t"
        return {name: value for name, value in given.items() if value is not None}


@commands.command()
@taking(Format)
def inspect(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Text or Parquet.")],
    *,
    given: Format,
    as_json: AsJson = False,
) -> None:
    """Show how a file is written, its columns and first rows; nothing is stored (admin)."""
    inspection = client_of(context).inspect(file, given.members())
    questions = [
        f"[yellow]{escape(question['pointer'] + ': ' + question['message'])}[/]"
        for question in inspection["questions"]
    ]
    show(inspection, as_json, *render.inspected(inspection), *questions)


SchemaPath = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="Columns as a schema file, in place of the metadata's."
    ),
]


@commands.command()
@taking(Format)
def schema(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help="Text or Parquet (admin).")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="A dataset whose columns are taken, by its name or id.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="A file; printed where left out.")] = None,
    *,
    given: Format,
) -> None:
    """Write a schema file: of a dataset, or names and types of a file to be completed.

    Bounds and categories come from a dataset that has them, and never from the file's rows.
    """
    if file is None and dataset is None:
        complain("of what? Give a file, --dataset or both.", code=WRONG_WORDS)
    client = client_of(context)
    columns = [] if dataset is None else client.dataset(names.dataset(client, dataset))["columns"]
    if file is not None:
        known = {column["name"]: column for column in columns}
        found = client.inspect(file, given.members())["columns"]
        in_file = [column for column in found if column["name"]]
        skipped = [
            column["name"] for column in in_file if column["skip"] and column["name"] not in known
        ]
        if skipped:
            message = f"left out, as they look like ids or free text: {', '.join(skipped)}"
            complaints.print(escape(message))
        columns = [
            known.get(column["name"], {"name": column["name"], "type": KINDS[column["kind"]]})
            for column in in_file
            if column["name"] in known or not column["skip"]
        ]
    text = schema_file.written(columns)
    if output is None:
        typer.echo(text, nl=False)
    else:
        save(output, text.encode(), False, f"{len(columns)} columns are in {escape(str(output))}.")


KINDS = {"whole": "integer", "number": "number", "date": "date", "text": "category"}


@commands.command()
@taking(Format)
def upload(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV or Parquet.")],
    metadata: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="As JSON.")],
    more: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, dir_okay=False, help="Of further data holders, in order."),
    ] = None,
    schema: SchemaPath = None,
    separate_budget: Annotated[
        str | None,
        typer.Option(help="Why rows that were here before get a budget besides the earlier one."),
    ] = None,
    *,
    given: Format,
    skip: Annotated[
        list[str] | None, typer.Option(help="A column to leave out, such as an id; repeat it.")
    ] = None,
    skip_undeclared: Annotated[
        bool, typer.Option("--skip-undeclared", help="Leave out all that is not declared.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a text or Parquet file with its metadata (admin)."""
    metadata_given = read(metadata)
    if written := given.members():
        metadata_given = {**metadata_given, "format": metadata_given.get("format", {}) | written}
    if skip:
        metadata_given = {**metadata_given, "skip": [*metadata_given.get("skip", ()), *skip]}
    if skip_undeclared:
        metadata_given = {**metadata_given, "skip_undeclared": True}
    if separate_budget is not None:
        metadata_given = {**metadata_given, "separate_budget": {"reason": separate_budget}}
    client = client_of(context)
    _registered(client.upload(file, metadata_given, *(more or ()), schema=schema), as_json)


@commands.command()
def sources(context: typer.Context, as_json: AsJson = False) -> None:
    """List the databases and folders of which snapshots can be taken (admin)."""
    listed = list(client_of(context).sources())
    show(listed, as_json, render.sources(listed))


@commands.command()
def snapshot(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="A source's name, as `sources` shows it.")],
    metadata: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="As JSON.")],
    table: Annotated[str | None, typer.Option(help="A table that the source offers.")] = None,
    query: Annotated[str | None, typer.Option(help="A query of the source, by its name.")] = None,
    path: Annotated[
        str | None, typer.Option(help="A Parquet file or a folder of them; '' for all.")
    ] = None,
    schema: SchemaPath = None,
    as_json: AsJson = False,
) -> None:
    """Register what a source has now as a dataset (admin).

    Leaving before its end stops it, and nothing is registered.
    """
    options = {"table": table, "query": query, "path": path}
    what = {name: value for name, value in options.items() if value is not None}
    if len(what) != 1:
        complain("of what? Give one of --table, --query and --path.", code=WRONG_WORDS)
    declared = read(metadata)
    if schema is not None:
        content = schema_file.read(schema.read_bytes())
        if content.problems:
            complain(f"{schema} is not valid:", *map(str, content.problems), code=WRONG_WORDS)
        declared = {**declared, "columns": list(content.columns)}
    client = client_of(context)
    with render.rows_read(complaints, source) as progress:
        registered = client.snapshot({"name": source, **what}, declared, progress)
    _registered(registered, as_json)


@commands.command()
def refresh(
    context: typer.Context,
    dataset: Dataset,
    name: Annotated[
        str | None, typer.Option(help="Of the version; otherwise its number is in it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Register what a dataset's source has now as its next version, on its budget (admin)."""
    client = client_of(context)
    dataset_id = names.dataset(client, dataset)
    with render.rows_read(complaints, dataset) as progress:
        registered = client.refresh(dataset_id, name, progress)
    _registered(registered, as_json)


def _registered(description: dict[str, Any], as_json: bool) -> None:
    """Show a dataset that was registered, and what its admin is to know."""
    warnings = [
        f"[yellow]{escape(warning['detail'])}[/]" for warning in description.get("warnings", [])
    ]
    if others := description.get("same_name"):
        namesakes = f"another dataset in use has this name: use ids, or archive {', '.join(others)}"
        warnings.append(f"[yellow]{namesakes}[/]")
    show(description, as_json, render.columns(description), f"id: {description['id']}", *warnings)


@commands.command()
def budget(
    context: typer.Context,
    dataset: Annotated[
        str | None, typer.Argument(help="Its name or id; all where left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what of the budgets is spent, reserved and left."""
    client = client_of(context)
    if dataset is None:
        listed = list(client.budgets())
        name_of = {item["id"]: {"name": item["name"]} for item in client.datasets()}
        rows = [name_of.get(item["dataset"], {}) | item for item in listed]
        show(listed, as_json, render.budgets(rows))
        return
    answer = client.budget(names.dataset(client, dataset))
    show(answer, as_json, render.budgets([{"name": dataset} | answer]))


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
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Raise a budget, archive a dataset or use it again (admin)."""
    changes: dict[str, object] = {} if epsilon is None else {"privacy": {"epsilon": epsilon}}
    if archive is not None:
        changes["archived"] = archive
    if available:
        changes["available"] = True
    if not changes:
        options = "--epsilon, --archive, --unarchive or --available"
        complain(f"what is to change? Give {options}.", code=WRONG_WORDS)
    if reason:
        changes["reason"] = reason
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
    _amend(
        context, dataset, {"grants": [names.user(client, name) for name in users or []]}, as_json
    )


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
    user_id = names.user(client_of(context), user)
    _amend(context, dataset, {"allotments": {user_id: epsilon}}, as_json)


def _amend(context: typer.Context, dataset: str, changes: dict[str, object], as_json: bool) -> None:
    """Change a dataset, and show it with its budget."""
    client = client_of(context)
    dataset_id = names.dataset(client, dataset)
    changed = client.amend(dataset_id, changes)
    if as_json:
        show(changed, True)
        return
    budget = {"name": changed["name"]} | client.budget(dataset_id)
    show(None, False, render.datasets([changed]), render.budgets([budget]))


@commands.command()
def destroy(
    context: typer.Context,
    dataset: Dataset,
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Destroy a dataset's rows and their key (admin). The ledger stays."""
    client = client_of(context)
    dataset_id = names.dataset(client, dataset)
    name = client.dataset(dataset_id)["name"]  # the word may be the beginning of an id
    if not yes:
        question = f"Destroy the rows of {name}? They cannot be had back"
        typer.confirm(question, abort=True, err=True)
    client.destroy(dataset_id, reason)
    show({"id": dataset_id, "destroyed": True}, as_json, escape(f"The rows of {name} are gone."))


@commands.command()
def ledger(context: typer.Context, dataset: Dataset, as_json: AsJson = False) -> None:
    """Show a dataset's ledger, oldest entry first (admin and auditor)."""
    client = client_of(context)
    entries = list(client.ledger(names.dataset(client, dataset)))
    show(entries, as_json, render.ledger(entries))


@commands.command()
def verify(context: typer.Context, dataset: Dataset, as_json: AsJson = False) -> None:
    """Recompute a ledger's chain and totals (admin and auditor). Exits with 1 where it fails."""
    client = client_of(context)
    check = client.verify(names.dataset(client, dataset))
    show(check, as_json, render.verification(check))
    if not check["ok"]:
        raise typer.Exit(1)
