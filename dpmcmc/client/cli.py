"""The command line: `dpmcmc --help`, or `./dev client --help` in a checkout."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dpmcmc.client import commands_data, commands_jobs, commands_sign_in, commands_users
from dpmcmc.client.client import Client
from dpmcmc.client.connection import (
    WrongAddressError,
    WrongCertificatesError,
    WrongKeyError,
    WrongProxyError,
)
from dpmcmc.client.sign_in import SignedIn, kept
from dpmcmc.client.terminal import UNREACHED, WRONG_WORDS, Refusing, client_of, complain, finite

HELP = """Talk to a dpmcmc service. DPMCMC_URL and DPMCMC_KEY say where and as whom, or login.

Exit codes: 0 done; 1 refused, or a job failed; 2 wrong words; 3 no service answers."""
app = typer.Typer(
    cls=Refusing, help=HELP, no_args_is_help=True, pretty_exceptions_show_locals=False
)
for part in (commands_jobs, commands_data, commands_users, commands_sign_in):
    app.add_typer(part.commands)


class Keyless(Client):
    """Stands in for the client until something is asked of the service: `--help` needs no key."""

    def __init__(self) -> None:
        """Connect to nothing."""

    def close(self) -> None:
        """Close nothing."""

    def _send(self, *_: object, **__: object) -> NoReturn:
        message = "Missing option '--key' (env var: 'DPMCMC_KEY'), and nobody called dpmcmc login."
        complain(message, code=WRONG_WORDS)


def _signed_in(url: str) -> Client:
    """A client with the token of whoever has signed in at the service."""
    tokens = kept(url)
    if tokens is None:
        return Keyless()
    client = Client(url, tokens.token)
    client.authorise(SignedIn(url))
    return client


def _version(show_version: bool) -> None:
    if show_version:
        try:
            typer.echo(f"dpmcmc {version('dpmcmc')}")
        except PackageNotFoundError:
            typer.echo("dpmcmc, from a checkout")
        raise typer.Exit


@app.callback()
def connect(
    context: typer.Context,
    key: Annotated[str, typer.Option(envvar="DPMCMC_KEY", help="Your API key.")] = "",
    url: Annotated[
        str, typer.Option(envvar="DPMCMC_URL", help="Where the service is.")
    ] = "http://127.0.0.1:8000",
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it, and end.")
    ] = False,
) -> None:
    """Remember the service for the command."""
    try:
        client = Client(url, key) if key else _signed_in(url)
    except WrongKeyError as error:
        complain(f"DPMCMC_KEY is no key: {error}.", code=WRONG_WORDS)
    except (WrongProxyError, WrongCertificatesError) as error:
        complain(str(error), code=WRONG_WORDS)
    except WrongAddressError as error:
        complain(f"{error}; is DPMCMC_URL right?", code=UNREACHED)
    context.obj = context.with_resource(client)


@app.command()
def mcp(
    context: typer.Context,
    cap: Annotated[
        float,
        typer.Option(callback=finite, help="Most that the assistant's jobs may cost together."),
    ],
    spent: Annotated[
        Path, typer.Option(dir_okay=False, help="File that keeps what they have cost.")
    ],
) -> None:
    """Serve tools to an assistant by the Model Context Protocol, on stdin and stdout."""
    try:
        from dpmcmc.client.assistant import Cap, server
    except ModuleNotFoundError:
        complain("this needs another package: pip install 'dpmcmc[client,mcp]'.", code=WRONG_WORDS)
    try:
        limit = Cap(cap, spent)
    except ValueError as error:
        complain(f"--cap, --spent: {error}", code=WRONG_WORDS)
    server(client_of(context), limit).run("stdio")
