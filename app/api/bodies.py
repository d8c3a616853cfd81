"""Request bodies: read once, strictly validated from the JSON text, described in the OpenAPI."""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.api.problems import faults, of_status
from app.jobs.errors import Refusal

Model = TypeVar("Model", bound=BaseModel)
BODIES: dict[str, type[BaseModel]] = {}  # what the OpenAPI document must describe
REFERENCE = "#/components/schemas/{model}"


def parse(model: type[Model], text: bytes) -> Model:
    """A strictly valid model from JSON. Raises Refusal 422 with a pointer for each fault."""
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


def describe(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI of a route that reads `model`."""
    BODIES[model.__name__] = model
    schema = {"$ref": REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
