"""Request bodies: strict validation of JSON, and their description in OpenAPI.

What a body may cost is bounded before it is parsed: a parser holds every thread of the process
until it is done. Large bodies are parsed in a thread.
"""

import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError

from app.api.endpoints import in_thread
from app.api.examples import EXAMPLES, FURTHER
from app.api.problems import escaped, faults, of_status, too_many_values
from app.api.schemas import Request as Body
from app.services.errors import Fault, Refusal
from dpmcmc.base.errors import SpecError

Model = TypeVar("Model", bound=Body)
Other = TypeVar("Other", bound=Body)
BODIES: dict[str, type[Body]] = {}  # what the OpenAPI document must describe
REFERENCE = "#/components/schemas/{model}"
SMALL_BYTES = 8192  # read by the event loop itself: a change of threads takes longer
SLACK = 10_000  # commas and brackets inside strings, which count before a body is parsed


class _Twice(dict[str, Any]):
    """A JSON object repeats a member. name: the first repeated member."""

    name: str


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's members, as _Twice where one is repeated."""
    made = dict(members)
    if len(made) == len(members):
        return made
    seen: set[str] = set()
    repeated = _Twice(made)
    repeated.name = next(name for name, _ in members if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return repeated


def _check_values(document: Any, most: int) -> None:
    """Raise Refusal 422 on a repeated member, or on too many values."""
    left = [("", document)]
    count = 0
    while left:
        at, here = left.pop()
        if isinstance(here, _Twice):
            raise _not_valid(Fault(f"{at}/{escaped(here.name)}", "This member is named twice."))
        count += len(here)
        if count > most:
            raise _not_valid(too_many_values(most))
        inner = here.items() if isinstance(here, dict) else enumerate(here)
        held = [
            (f"{at}/{escaped(key)}", value)
            for key, value in inner
            if isinstance(value, dict | list)
        ]
        left += reversed(held)


def _not_valid(fault: Fault) -> Refusal:
    """Return Refusal 422 with one fault."""
    return Refusal(422, "invalid_request", "The request is not valid.", [fault])


def _document(text: bytes, most: int) -> Any:
    """Return the parsed JSON; None where it is invalid, for the model to report.

    Raises Refusal 422 where an object names a member twice, since readers differ in which counts,
    and where there are more than `most` values, before they are made.
    """
    if text.count(b",") + text.count(b"[") + text.count(b"{") > 2 * most + SLACK:
        raise _not_valid(too_many_values(most))
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None
    if isinstance(document, dict | list):
        _check_values(document, most)
    return document


def parse(model: type[Model], text: bytes) -> Model:
    """Return a strictly validated model. Raises Refusal 422 with a pointer for each fault."""
    return _valid(model, text, _document(text, model.most_values))


def _valid(model: type[Model], text: bytes, document: Any) -> Model:
    """Return a validated model of a parsed document."""
    try:
        known = model.prepared(document)
    except SpecError as error:
        raise _not_valid(Fault(error.pointer, error.message)) from None
    if known != document:
        text = json.dumps(known).encode()
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise faults(model, error, document) from None


def _either(usual: type[Model], other: type[Other], member: str, text: bytes) -> Model | Other:
    """Return the other model if the body has `member`, else the usual one."""
    document = _document(text, max(usual.most_values, other.most_values))
    if isinstance(document, dict) and member in document:
        return _valid(other, text, document)
    return _valid(usual, text, document)


async def parsed(function: Callable[..., Any], *given: Any) -> Any:
    """Return function(*given, body), in a thread where the body is large."""
    if len(given[-1]) <= SMALL_BYTES:
        return function(*given)
    return await in_thread(function, *given)


async def _body(request: Request) -> bytes:
    """Return the request's body. Raises Refusal 415 on another content type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise of_status(415, "The body must be application/json.")
    return await request.body()


@lru_cache
def read(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """Return a dependency that reads the request's body as `model`."""

    async def reader(request: Request) -> Model:
        """Return the validated body."""
        body: Model = await parsed(parse, model, await _body(request))
        return body

    return reader


@lru_cache
def read_any(model: type[Model]) -> Callable[[Request], Awaitable[Model | None]]:
    """Return a dependency that reads an optional body as `model`."""

    async def reader(request: Request) -> Model | None:
        """Return the validated body, or None without one."""
        return await read(model)(request) if await request.body() else None

    return reader


def read_either(
    usual: type[Model], other: type[Other], member: str
) -> Callable[[Request], Awaitable[Model | Other]]:
    """Return a dependency that reads the body as `other` if it has `member`, else `usual`."""

    async def reader(request: Request) -> Model | Other:
        """Return the validated body."""
        text = await _body(request)
        body: Model | Other = await parsed(_either, usual, other, member, text)
        return body

    return reader


def describe(*models: type[Body], required: bool = True) -> dict[str, Any]:
    """Return the OpenAPI of a route that reads one of `models`."""
    BODIES.update({model.__name__: model for model in models})
    schemas = [{"$ref": REFERENCE.format(model=model.__name__)} for model in models]
    schema = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    shown: dict[str, Any] = {"example": EXAMPLES[models[0].__name__]}
    if len(models) > 1:
        names = [model.__name__ for model in models]
        examples = {name: EXAMPLES[name] for name in names}
        for name in names:
            examples |= FURTHER.get(name, {})
        shown = {"examples": {name: {"value": example} for name, example in examples.items()}}
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": {"schema": schema, **shown}},
        }
    }
