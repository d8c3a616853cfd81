"""Commands on users, their keys and the audit trail."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpmcmc.client import names, render
from dpmcmc.client.terminal import (
    WRONG_WORDS,
    AsJson,
    Reason,
    client_of,
    complain,
    finite,
    read,
    show,
)


class Role(StrEnum):
    """What a user may do."""

    admin = "admin"
    analyst = "analyst"
    auditor = "auditor"


User = Annotated[str, typer.Argument(help="A user's name or id.")]
LASTS = timedelta(days=90)
Expires = Annotated[
    str | None,
    typer.Option(help="Such as 2027-01-31T00:00:00Z, or never; 90 days from now where left out."),
]
commands = typer.Typer()


@commands.command()
def users(context: typer.Context, as_json: AsJson = False) -> None:
    """List the users and their keys (admin)."""
    listed = list(client_of(context).users())
    show(listed, as_json, render.users(listed))


@commands.command()
def user(
    context: typer.Context,
    name: str,
    role: Role = Role.analyst,
    expires: Expires = None,
    as_json: AsJson = False,
) -> None:
    """Make a user and show the key, once (admin)."""
    end = _end(expires)
    created = client_of(context).create_user(name, role, expires_at=end)
    show(created, as_json, render.new_key(created, end))


def _end(expires: str | None) -> str | None:
    """Return a new key's expiry: LASTS from now where not given, None for "never"."""
    if expires is None:
        return (datetime.now(UTC) + LASTS).replace(microsecond=0).isoformat()
    return None if expires == "never" else expires


@commands.command()
def disable(
    context: typer.Context, user: User, reason: Reason = None, as_json: AsJson = False
) -> None:
    """Close a user's account and stop the user's jobs (admin)."""
    _disable(context, user, as_json, disabled=True, reason=reason)


@commands.command()
def enable(context: typer.Context, user: User, as_json: AsJson = False) -> None:
    """Open a user's account again (admin)."""
    _disable(context, user, as_json, disabled=False)


def _disable(
    context: typer.Context, user: str, as_json: bool, *, disabled: bool, reason: str | None = None
) -> None:
    client = client_of(context)
    changed = client.disable(names.user(client, user), disabled=disabled, reason=reason)
    show(changed, as_json, render.users([changed]))


@commands.command()
def key(
    context: typer.Context,
    user: Annotated[str | None, typer.Argument(help="Left out: for yourself.")] = None,
    label: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    expires: Expires = None,
    as_json: AsJson = False,
) -> None:
    """Make a further key and show it, once. One for yourself ends no later than the one you use."""
    client = client_of(context)
    owner = "me" if user is None else names.user(client, user)
    end = expires if user is None and expires is None else _end(expires)
    created = client.create_key(owner, label=label, expires_at=end)
    show(created, as_json, render.new_key(created, created["expires_at"]))


@commands.command()
def revoke(context: typer.Context, key: str, as_json: AsJson = False) -> None:
    """Revoke a key, given its id (`dpmcmc users --json` lists them)."""
    client_of(context).revoke(key)
    show({"id": key, "revoked": True}, as_json, "The key is revoked: requests with it are refused.")


@commands.command()
def ask(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="Its name: that of one you see, or in words.")],
    reason: Annotated[str, typer.Option(help="What for.")],
    epsilon: Annotated[
        float | None, typer.Option(callback=finite, help="The budget that is asked for.")
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The job that it is for, as JSON."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the admins for a dataset, or for budget on one (analyst)."""
    client = client_of(context)
    matches = [listed for listed in client.datasets() if dataset in (listed["id"], listed["name"])]
    named = {"dataset": matches[0]["id"]} if len(matches) == 1 else {"dataset_name": dataset}
    body = read(job) if job else None
    created = client.ask(reason, **named, epsilon=epsilon, job=body)
    show(created, as_json, render.access_requests([created]))


@commands.command()
def requests(context: typer.Context, as_json: AsJson = False) -> None:
    """List access requests: your own ones; for admins and auditors all."""
    client = client_of(context)
    listed = list(client.requests())
    datasets = {dataset["id"]: dataset["name"] for dataset in client.datasets()}
    show(listed, as_json, render.access_requests(listed, datasets))


class Decision(StrEnum):
    """How an access request is answered."""

    granted = "granted"
    refused = "refused"
    withdrawn = "withdrawn"


@commands.command()
def answer(
    context: typer.Context,
    request: Annotated[str, typer.Argument(help="A request's id, or the first digits of it.")],
    decision: Decision,
    say: Annotated[str | None, typer.Option(help="A sentence to the analyst.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Which one is meant, where the request names it in words.")
    ] = None,
    allotment: Annotated[
        float | None, typer.Option(callback=finite, help="The analyst's cap from now on.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(callback=finite, help="Raise the dataset's budget to this.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Grant or refuse an access request (admin), or withdraw an own one."""
    client = client_of(context)
    members = {"answer": say, "allotment": allotment, "epsilon": epsilon}
    if dataset is not None:
        members["dataset"] = names.dataset(client, dataset)
    members = {name: value for name, value in members.items() if value is not None}
    if decision is Decision.withdrawn and members:
        complain("a request is withdrawn without more words.", code=WRONG_WORDS)
    decided = client.answer(names.access_request(client, request), decision, **members)
    show(decided, as_json, render.access_requests([decided]))


@commands.command()
def audit(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the audit trail: every administrative act (admin and auditor)."""
    entries = list(client_of(context).audit())
    show(entries, as_json, render.audit(entries))
