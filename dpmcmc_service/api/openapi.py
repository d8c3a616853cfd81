"""openapi.json: made from the routes, with the bodies that we read ourselves and our problems."""

import json
import re
import threading
from functools import lru_cache
from typing import Any, get_args

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from dpmcmc.models import MODELS
from dpmcmc.privacy.events import Event
from dpmcmc_service.api.bodies import BODIES, REFERENCE
from dpmcmc_service.api.codes import CODES
from dpmcmc_service.api.documents import Tagged, tagged
from dpmcmc_service.api.illustrate import illustrate
from dpmcmc_service.api.problems import MEDIA_TYPE, Problem
from dpmcmc_service.api.schemas import JobEvent, StatusEvent

VERSION = "1.0.0"
ADDRESS = "/openapi.json"
DESCRIPTION = """Posterior samples from sensitive data under differential privacy.

Every request below `/v1` carries `Authorization: Bearer <key>`. What is refused is answered as
`application/problem+json` (RFC 9457) with a stable `code`; its `type` leads to what is said of it.

Answers tell in `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` how many requests a
user may still make. Whatever is there for GET is there for HEAD. An object that names a member
twice is refused."""
PROBLEM = {
    "description": "A problem detail",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
SHOWN = (Problem, StatusEvent, JobEvent)
PUBLIC = ("/healthz", "/readyz")


def install(app: FastAPI) -> None:
    """Let the app describe itself, at ADDRESS as well."""
    guard = threading.Lock()

    def document() -> dict[str, Any]:
        with guard:
            if app.openapi_schema is None:
                app.openapi_schema = _document(app)
            return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]

    @lru_cache
    def written() -> Tagged:
        return tagged(json.dumps(document(), separators=(",", ":")).encode())

    @app.get(ADDRESS, include_in_schema=False)
    def _openapi(request: Request) -> Response:
        return written().answer(request)


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title="dpmcmc", version=VERSION, description=DESCRIPTION, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    bodies = [
        *((model, "validation") for model in BODIES.values()),
        *((m, "serialization") for m in SHOWN),
    ]
    _, extra = models_json_schema(bodies, ref_template=REFERENCE)  # type: ignore[arg-type]
    schemas.update(_closed(extra["$defs"]))
    _exact(schemas)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, item in made["paths"].items():
        for operation in item.values():
            _answers(path, operation)
            said = operation.get("description", "")
            operation["summary"] = re.split(r"(?<=\w)\.\s|\.$", said)[0] or operation["summary"]
    illustrate(made)
    return made


def _closed(schemas: dict[str, Any]) -> dict[str, Any]:
    """Requests refuse unknown fields, those of the core's dataclasses too."""
    return {
        name: {**schema, "additionalProperties": schema.get("additionalProperties", False)}
        if schema.get("type") == "object"
        else schema
        for name, schema in schemas.items()
    }


def _exact(schemas: dict[str, Any]) -> None:
    """Say what the server asks for beyond the types: which member is meant, and names it knows."""
    members = schemas["JobIn"]["properties"]["sampler"]["discriminator"]["mapping"].values()
    for reference in members:
        _require(schemas[reference.rsplit("/", 1)[1]], "algorithm")
    for kind in get_args(Event):
        _require(schemas[kind.__name__], "kind")
    schemas["ModelSpec"]["properties"]["family"]["enum"] = list(MODELS)
    schemas["Problem"]["properties"]["code"]["enum"] = list(CODES)


def _require(schema: dict[str, Any], name: str) -> None:
    """Have a member named though the core's own dataclass has a default for it."""
    schema["required"] = sorted({*schema.get("required", []), name})
    schema["properties"][name].pop("default", None)


def _answers(path: str, operation: dict[str, Any]) -> None:
    """Every refusal that an operation may answer with."""
    answers = operation["responses"]
    answers.pop("422", None)
    statuses = ["500"]
    if path not in PUBLIC:
        statuses += ["401", "403", "429", "503"]
        if "{id}" in path or path.endswith("/events") or "requestBody" in operation:
            statuses += ["404", "409"]
    if "requestBody" in operation:
        statuses += ["408", "413", "415"]
    if path.startswith("/v1"):
        statuses += ["422"]
    if path.endswith(("/chain", "/tables/{number}")):
        statuses += ["406"]
    if path.endswith(("/chain", "/summary", "/posteriors", "/result", "/tables/{number}")):
        statuses += ["409", "410"]
    for status in statuses:
        answers.setdefault(status, PROBLEM)
    if path not in PUBLIC:
        operation["security"] = [{"HTTPBearer": []}]
