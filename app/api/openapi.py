"""The OpenAPI document, from routes, own bodies and problem details."""

import json
import re
import threading
from typing import Any, get_args

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from app.api.bodies import BODIES, REFERENCE
from app.api.codes import CODES
from app.api.documents import JSON, unless_had
from app.api.illustrate import illustrate
from app.api.problems import MEDIA_TYPE, Problem
from app.api.schemas import JobEvent, StatusEvent
from dpmcmc.families import MODELS
from dpmcmc.privacy.events import Event

VERSION = "1.0.0"
ADDRESS = "/openapi.json"
DESCRIPTION = """Posterior samples from sensitive data under differential privacy.

Every request below `/v1` carries `Authorization: Bearer <key>`. What is refused is answered as
`application/problem+json` (RFC 9457) with a stable `code`; its `type` leads to what is said of it.

Answers tell in `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` how many requests a
user may still make. Whatever is there for GET is there for HEAD. An object that names a member
twice is refused."""
TAGS = {
    "datasets": "Rows under a promise of privacy: their public metadata, budgets and ledgers.",
    "jobs": "What a job would cost, jobs, and what they released.",
    "users": "Users, their keys, and what they ask admins for.",
    "audit": "Every act of an admin, and databases that were put back.",
    "catalogue": "Models and algorithms that are registered, with the schemas of their options.",
    "accounting": "The price list of mechanisms.",
    "operations": "Whether the service is up and ready, and how much it does.",
}
# names of the functions that a client is generated with: they stay when addresses are served anew
OPERATIONS = {
    "POST /v1/datasets": "create_dataset",
    "POST /v1/datasets/inspect": "inspect_file",
    "POST /v1/datasets/schema": "check_schema",
    "GET /v1/sources": "list_sources",
    "POST /v1/datasets/snapshots": "create_snapshot",
    "POST /v1/datasets/{id}/refresh": "refresh_dataset",
    "GET /v1/datasets": "list_datasets",
    "GET /v1/datasets/{id}": "get_dataset",
    "PATCH /v1/datasets/{id}": "update_dataset",
    "DELETE /v1/datasets/{id}": "destroy_dataset",
    "GET /v1/datasets/{id}/dummy": "get_dummy_rows",
    "GET /v1/datasets/{id}/budget": "get_budget",
    "GET /v1/budget": "list_budgets",
    "GET /v1/datasets/{id}/ledger": "list_ledger_entries",
    "POST /v1/datasets/{id}/ledger/verify": "verify_ledger",
    "POST /v1/plans": "create_plan",
    "POST /v1/jobs": "create_job",
    "GET /v1/jobs": "list_jobs",
    "GET /v1/jobs/events": "follow_jobs",
    "GET /v1/jobs/{id}": "get_job",
    "PATCH /v1/jobs/{id}": "change_job",
    "GET /v1/jobs/{id}/events": "follow_job",
    "POST /v1/jobs/{id}/cancel": "cancel_job",
    "GET /v1/jobs/{id}/chain": "get_chain",
    "GET /v1/jobs/{id}/summary": "get_summary",
    "POST /v1/jobs/{id}/posteriors": "create_posterior",
    "GET /v1/jobs/{id}/result": "get_result",
    "GET /v1/jobs/{id}/tables/{number}": "get_table",
    "POST /v1/jobs/{id}/inferences": "create_inference",
    "POST /v1/users": "create_user",
    "GET /v1/users": "list_users",
    "GET /v1/users/me": "get_me",
    "PATCH /v1/users/me": "update_me",
    "GET /v1/users/{id}": "get_user",
    "PATCH /v1/users/{id}": "update_user",
    "POST /v1/users/me/keys": "create_own_key",
    "DELETE /v1/users/me/keys": "revoke_own_keys",
    "POST /v1/users/{id}/keys": "create_key",
    "DELETE /v1/users/{id}/keys": "revoke_keys",
    "GET /v1/keys/{id}": "get_key",
    "DELETE /v1/keys/{id}": "revoke_key",
    "POST /v1/access-requests": "create_access_request",
    "GET /v1/access-requests": "list_access_requests",
    "GET /v1/access-requests/{id}": "get_access_request",
    "PATCH /v1/access-requests/{id}": "answer_access_request",
    "GET /v1/sign-in": "get_sign_in",
    "GET /v1/audit": "list_audit_entries",
    "POST /v1/audit/verify": "verify_audit",
    "GET /v1/restore": "get_restore",
    "POST /v1/restore": "accept_restore",
    "GET /v1/models": "list_models",
    "GET /v1/samplers": "list_samplers",
    "POST /v1/accounting/compose": "compose_mechanisms",
    "POST /v1/accounting/noise": "find_noise",
    "POST /v1/accounting/steps": "find_steps",
    "POST /v1/accounting/statistic": "choose_statistic",
    "GET /healthz": "get_health",
    "GET /readyz": "get_readiness",
    "GET /metrics": "get_metrics",
}
_SAID = {
    "Location": "the address of what was made",
    "Retry-After": "seconds to wait before the next request",
    "ETag": "of these very bytes; with If-None-Match they are not sent again (304)",
    "WWW-Authenticate": "Bearer",
    "Dpmcmc-Verdict": "reliable or unreliable; absent from jobs of old",
    "Dpmcmc-Protects": "whom the epsilon of these draws protects, in words",
    "Dpmcmc-Rows": "what these rows are made from, in words",
    "X-Request-Id": "of the request, as the log names it",
    "RateLimit-Limit": "requests of a user in ten seconds",
    "RateLimit-Remaining": "requests that the user may still make now",
    "RateLimit-Reset": "seconds until the user may make all of them again",
}
HEADERS = {
    name: {"description": description, "schema": {"type": "string"}}
    for name, description in _SAID.items()
}
PROBLEM = {
    "description": "A problem detail",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
SHOWN = (Problem, StatusEvent, JobEvent)
PUBLIC = ("/healthz", "/readyz", "/v1/sign-in")


def install(app: FastAPI) -> None:
    """Serve the document at ADDRESS and use it as the application's."""
    guard = threading.Lock()

    def document() -> dict[str, Any]:
        """Return the document, cached."""
        with guard:
            if app.openapi_schema is None:
                app.openapi_schema = _document(app)
            return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]

    kept: list[tuple[dict[str, Any], bytes]] = []

    def written() -> bytes:
        """Return the document as JSON bytes, cached."""
        made = document()
        if not kept or kept[0][0] is not made:
            kept[:] = [(made, json.dumps(made, separators=(",", ":")).encode())]
        return kept[0][1]

    @app.get(ADDRESS, include_in_schema=False)
    def _openapi(request: Request) -> Response:
        """Serve the document."""
        headers = {"Cache-Control": "no-cache"}
        return unless_had(request, Response(written(), media_type=JSON, headers=headers))


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application."""
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
    made["tags"] = [
        {"name": name, "description": description} for name, description in TAGS.items()
    ]
    made["components"]["headers"] = HEADERS
    for path, item in made["paths"].items():
        for method, operation in item.items():
            name = f"{method.upper()} {path}"
            operation["operationId"] = OPERATIONS.get(name, operation["operationId"])
            _answers(path, operation)
            _headers(method, path, operation)
            description = operation.get("description", "")
            operation["summary"] = (
                re.split(r"(?<=\w)\.\s|\.$", description)[0] or operation["summary"]
            )
    illustrate(made)
    return made


def _headers(method: str, path: str, operation: dict[str, Any]) -> None:
    """Add the common headers to every answer of an operation."""
    files = path.endswith(("/chain", "/inferences"))
    for status, answer in operation["responses"].items():
        names = ["X-Request-Id"]
        if path not in PUBLIC and status != "401":
            names += [name for name in _SAID if name.startswith("RateLimit")]
        if status == "201" or (status == "202" and method == "post"):
            names.append("Location")
        if status in ("202", "429", "503"):
            names.append("Retry-After")
        if status == "401":
            names.append("WWW-Authenticate")
        if status == "200" and method == "get" and "application/json" in answer.get("content", {}):
            names.append("ETag")
        if status == "200" and files:
            names.append("Dpmcmc-Verdict")
        if status == "200" and path.endswith("/chain"):
            names.append("Dpmcmc-Protects")
        if status == "200" and path.endswith("/dummy"):
            names.append("Dpmcmc-Rows")
        known = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        operation["responses"][status] = {**answer, "headers": known}
    if "ETag" in operation["responses"].get("200", {}).get("headers", {}):
        kept = {"description": "The client has it already: see If-None-Match"}
        operation["responses"]["304"] = kept


def _closed(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas, with unknown fields of requests forbidden."""
    return {
        name: {**schema, "additionalProperties": schema.get("additionalProperties", False)}
        if schema.get("type") == "object"
        else schema
        for name, schema in schemas.items()
    }


def _exact(schemas: dict[str, Any]) -> None:
    """Add constraints beyond types: discriminators of unions, and known names."""
    members = schemas["JobIn"]["properties"]["sampler"]["discriminator"]["mapping"].values()
    for reference in members:
        _require(schemas[reference.rsplit("/", 1)[1]], "algorithm")
    for kind in get_args(Event):
        _require(schemas[kind.__name__], "kind")
    schemas["ModelSpec"]["properties"]["family"]["enum"] = list(MODELS)
    schemas["Problem"]["properties"]["code"]["enum"] = list(CODES)


def _require(schema: dict[str, Any], name: str) -> None:
    """Mark a member as required although the dataclass has a default."""
    schema["required"] = sorted({*schema.get("required", []), name})
    schema["properties"][name].pop("default", None)


def _answers(path: str, operation: dict[str, Any]) -> None:
    """Add every refusal that an operation may answer with."""
    answers = operation["responses"]
    answers.pop("422", None)
    statuses = ["422", "500"]  # unknown query parameters are refused everywhere
    if path not in PUBLIC:
        statuses += ["401", "403", "429", "503"]
        if "{id}" in path or path.endswith("/events") or "requestBody" in operation:
            statuses += ["404", "409"]
    if "requestBody" in operation:
        statuses += ["408", "413", "415"]
    if path.endswith(("/chain", "/tables/{number}", "/snapshots", "/refresh")):
        statuses += ["406"]
    if path.endswith(("/chain", "/summary", "/posteriors", "/result", "/tables/{number}")):
        statuses += ["409", "410"]
    for status in statuses:
        answers.setdefault(status, PROBLEM)
    if path not in PUBLIC:
        operation["security"] = [{"HTTPBearer": []}]
