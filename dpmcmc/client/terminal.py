"""What all commands share: the output, the exit codes, and errors as one line."""

import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from typer.core import TyperGroup

from dpmcmc.client.answers import ApiError
from dpmcmc.client.client import Client
from dpmcmc.client.connection import UnreachedError, WrongAddressError
from dpmcmc.client.sign_in import SignInError

REFUSED, WRONG_WORDS, UNREACHED, INTERRUPTED = 1, 2, 3, 130  # exit codes
console, complaints = Console(), Console(stderr=True)

Output = Annotated[Path, typer.Argument(dir_okay=False, writable=True, help="Where to save.")]
Reason = Annotated[
    str | None, typer.Option(help="Why, for the ledger and the audit trail.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the service's answer as JSON.")]


class TableFormat(StrEnum):
    """File formats of a synthetic table."""

    csv = "csv"
    parquet = "parquet"


class Refusing(TyperGroup):
    """A group of commands that reports every error in one line on stderr."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line, and exit. Wrong arguments are reported in one line as well."""
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except typer.Abort:
            complaints.print("Nothing was done.")
            code = REFUSED
        except Exception as error:
            code = _wrong_words(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; exit with 1 where the service refuses, 3 where no service answers."""
        try:
            return super().invoke(ctx)
        except ApiError as error:
            complain(str(error), *_faults(error.problem))
        except SignInError as error:
            complain(str(error))
        except UnreachedError as error:
            message = f"cannot reach the service; is DPMCMC_URL right? {error}"
            complain(message, code=UNREACHED)
        except WrongAddressError as error:
            complain(str(error), code=WRONG_WORDS)
        except TimeoutError as error:
            complain(str(error))
        except BrokenPipeError:  # who read has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            file = "" if error.filename is None else f"{error.filename}: "
            complain(f"{file}{error.strerror or error}", code=WRONG_WORDS)
        except KeyboardInterrupt:
            complain("interrupted.", code=INTERRUPTED)


def _wrong_words(error: Exception) -> int:
    """Print what typer says of wrong arguments; its exception has no public name."""
    format_message, context = getattr(error, "format_message", None), getattr(error, "ctx", None)
    if format_message is None:
        raise error
    if not format_message().strip():  # no word at all: the help was shown
        return WRONG_WORDS
    call = context.command_path if context else "dpmcmc"
    message = " ".join(format_message().replace("Value error, ", "").split()).rstrip(".")
    complaints.print(escape(f"{message}. Try '{call} --help'."), style="red", soft_wrap=True)
    return WRONG_WORDS


def _faults(problem: Mapping[str, Any]) -> list[str]:
    """Return the faults of a refused request as lines: field and message."""
    return [f"  {item['pointer']}: {item['message']}" for item in problem.get("errors", [])]


def complain(*lines: str, code: int = REFUSED) -> NoReturn:
    """Print lines to stderr, the first in red, and exit."""
    for number, line in enumerate(lines):
        complaints.print(escape(line), style=None if number else "red", soft_wrap=True)
    raise typer.Exit(code) from None


Command = Callable[..., None]


def taking(kind: type[Any]) -> Callable[[Command], Command]:
    """Have a command take the fields of a dataclass as options, and get them as `given`."""

    def decorated(command: Command) -> Command:
        """Return the command with these options in the place of `given`."""

        @wraps(command)
        def called(**values: Any) -> None:
            """Call the command with the options as one dataclass."""
            given = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            command(**values, given=given)

        shown: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            of_kind = inspect.signature(kind, eval_str=True).parameters.values()
            shown += of_kind if parameter.name == "given" else [parameter]
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
        called.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in named}
        return called

    return decorated


def client_of(context: typer.Context) -> Client:
    """The client that `connect` made for this command."""
    client: Client = context.obj
    return client


def show(answer: Any, as_json: bool, *shown: RenderableType) -> None:
    """Print an answer as JSON, or else these parts, such as tables."""
    if as_json:
        console.print_json(data=answer)
        return
    for part in shown:
        console.print(part)


def save(file: Path, content: bytes, as_json: bool, *shown: RenderableType) -> None:
    """Write a download to a file; print the file's name as JSON, or else these parts."""
    file.write_bytes(content)
    show({"file": str(file), "bytes": len(content)}, as_json, *shown)


def read(file: Path) -> dict[str, Any]:
    """A JSON object from a file. Exits where the file holds none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        json.dumps(content, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file} is no JSON: {_where(error)}") from None
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{file} does not hold a JSON object, such as {{...}}")
    return content


def _where(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "its brackets are nested too deep"
    return "its numbers must be finite"


def finite(value: float | None) -> float | None:
    """Return an option's number; raises BadParameter where it is infinite or not a number."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("must be a finite number")
    return value
