"""Commands that sign in and out at the identity provider of a service."""

import typer
from rich.markup import escape

from dpmcmc.client import sign_in
from dpmcmc.client.terminal import complaints, console

commands = typer.Typer()


def _url(context: typer.Context) -> str:
    return str(context.find_root().params["url"])


def _show(address: str, code: str) -> None:
    complaints.print(escape(f"Open {address} in a browser and type {code}"), soft_wrap=True)


@commands.command()
def login(context: typer.Context) -> None:
    """Sign in at the provider of the service, in a browser on any machine."""
    name = sign_in.sign_in(_url(context), _show)
    console.print(escape(f"Signed in as {name}."))


@commands.command()
def logout(context: typer.Context) -> None:
    """Forget the sign-in at the service, and have the provider forget it."""
    was_in = sign_in.sign_out(_url(context))
    console.print("Signed out." if was_in else "Nobody was signed in.")
