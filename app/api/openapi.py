"""openapi.json: made from the routes, with the bodies that we read ourselves and our problems."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from app.api.bodies import BODIES, REFERENCE
from app.api.problems import MEDIA_TYPE, Problem

VERSION = "1.0.0"
DESCRIPTION = """Posterior samples from sensitive data under differential privacy.

Every request below `/v1` carries `Authorization: Bearer <key>`. What is refused is answered as
`application/problem+json` (RFC 9457) with a stable `code`."""
PROBLEM = {
    "description": "A problem detail",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
PUBLIC = ("/healthz", "/readyz", "/metrics")


def install(app: FastAPI) -> None:
    """Let the app describe itself."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title="dpmcmc", version=VERSION, description=DESCRIPTION, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    bodies = [*((model, "validation") for model in BODIES.values()), (Problem, "serialization")]
    _, extra = models_json_schema(bodies, ref_template=REFERENCE)  # type: ignore[arg-type]
    schemas.update(_closed(extra["$defs"]))
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, item in made["paths"].items():
        for operation in item.values():
            _answers(path, operation)
    return made


def _closed(schemas: dict[str, Any]) -> dict[str, Any]:
    """Requests refuse unknown fields, those of the core's dataclasses too."""
    return {
        name: {**schema, "additionalProperties": schema.get("additionalProperties", False)}
        if schema.get("type") == "object"
        else schema
        for name, schema in schemas.items()
    }


def _answers(path: str, operation: dict[str, Any]) -> None:
    """Every refusal that an operation may answer with."""
    answers = operation["responses"]
    answers.pop("422", None)
    statuses = ["500"]
    if path not in PUBLIC:
        statuses += ["401", "403", "503"]
        if "{id}" in path or "requestBody" in operation:
            statuses += ["404", "409"]
    if "requestBody" in operation:
        statuses += ["413", "415"]
    if path.startswith("/v1"):
        statuses += ["422"]
    if path.endswith("/chain"):
        statuses += ["406"]
    if path == "/v1/jobs":
        statuses += ["429"]
    for status in statuses:
        answers.setdefault(status, PROBLEM)
    if path not in PUBLIC:
        operation["security"] = [{"HTTPBearer": []}]
