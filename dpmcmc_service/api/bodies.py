"""Request bodies: read once, strictly validated from the JSON text, described in the OpenAPI."""

import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from dpmcmc_service.api.examples import EXAMPLES
from dpmcmc_service.api.problems import escaped, faults, of_status
from dpmcmc_service.jobs.errors import Fault, Refusal

Model = TypeVar("Model", bound=BaseModel)
Other = TypeVar("Other", bound=BaseModel)
BODIES: dict[str, type[BaseModel]] = {}  # what the OpenAPI document must describe
REFERENCE = "#/components/schemas/{model}"


class _Twice(dict[str, Any]):
    """An object that names a member twice. name: of the first such member."""

    name: str


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) == len(members):
        return made
    seen: set[str] = set()
    found = _Twice(made)
    found.name = next(name for name, _ in members if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return found


def _repeated(here: Any, at: str = "") -> Fault | None:
    """The first member that is named twice in a document."""
    if isinstance(here, _Twice):
        return Fault(f"{at}/{escaped(here.name)}", "This member is named twice.")
    inner = here.items() if isinstance(here, dict) else enumerate(here)
    held = ((key, value) for key, value in inner if isinstance(value, dict | list))
    return next(
        filter(None, (_repeated(value, f"{at}/{escaped(key)}") for key, value in held)), None
    )


def _check_members(text: bytes) -> None:
    """Raise Refusal 422 where an object names a member twice: readers differ in which counts."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
        fault = _repeated(document) if isinstance(document, dict | list) else None
    except (ValueError, RecursionError):
        return  # the model's own parser says what is wrong
    if fault is not None:
        raise Refusal(422, "invalid_request", "The request is not valid.", [fault])


def parse(model: type[Model], text: bytes) -> Model:
    """A strictly valid model from JSON. Raises Refusal 422 with a pointer for each fault."""
    _check_members(text)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        wrong = faults(error, text)
        raise Refusal(422, "invalid_request", "The request is not valid.", wrong) from None


@lru_cache
def read(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads the request's body as `model`."""

    async def reader(request: Request) -> Model:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise of_status(415, "The body must be application/json.")
        return parse(model, await request.body())

    return reader


@lru_cache
def read_any(model: type[Model]) -> Callable[[Request], Awaitable[Model | None]]:
    """A dependency that reads the request's body as `model`; None where there is no body."""

    async def reader(request: Request) -> Model | None:
        return await read(model)(request) if await request.body() else None

    return reader


def read_either(
    usual: type[Model], other: type[Other], member: str
) -> Callable[[Request], Awaitable[Model | Other]]:
    """A dependency that reads the body as `other` where it has this member, else as `usual`."""

    async def reader(request: Request) -> Model | Other:
        found: Model | Other
        if await _has(request, member):
            found = await read(other)(request)
        else:
            found = await read(usual)(request)
        return found

    return reader


async def _has(request: Request, member: str) -> bool:
    try:
        document = json.loads(await request.body())
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and member in document


def describe(*models: type[BaseModel], required: bool = True) -> dict[str, Any]:
    """The OpenAPI of a route that reads one of `models`."""
    BODIES.update({model.__name__: model for model in models})
    schemas = [{"$ref": REFERENCE.format(model=model.__name__)} for model in models]
    schema = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    shown: dict[str, Any] = {"example": EXAMPLES[models[0].__name__]}
    if len(models) > 1:
        names = (model.__name__ for model in models)
        shown = {"examples": {name: {"value": EXAMPLES[name]} for name in names}}
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": {"schema": schema, **shown}},
        }
    }
