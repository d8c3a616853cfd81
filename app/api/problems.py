"""RFC 9457 problem details: the format of all refusals."""

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from app.api.codes import address
from app.services.errors import Fault, Refusal
from dpmcmc.inputs.written_priors import is_alone

MEDIA_TYPE = "application/problem+json"
CODES = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    413: "body_too_large",
    415: "unsupported_media_type",
    500: "internal_error",
    503: "unavailable",
}
DETAILS = {
    404: "There is nothing at this address.",
    405: "This address does not know that method.",
    500: "Something went wrong here. The log has the request's id.",
}


MISSING = object()
MOST_TOLD = 20  # faults that one answer lists
MOST_MADE = 2000  # errors that are made of one body: each takes a microsecond or two
UNTIL = frozenset(("up_to", "until"))
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")  # fields
MAPPED = frozenset({"NormalPrior"})  # things that may stand alone, or by names


class FaultOut(BaseModel):
    """One thing wrong with a request."""

    pointer: str
    message: str


class Problem(BaseModel):
    """A problem detail (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultOut] | None = None


class ProblemResponse(JSONResponse):
    """A problem detail as an answer."""

    media_type = MEDIA_TYPE


def problem(refusal: Refusal, headers: Mapping[str, str] | None = None) -> ProblemResponse:
    """Return the response for a refusal."""
    content: dict[str, Any] = {
        "type": address(refusal.code),
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "detail": refusal.detail,
        "code": refusal.code,
        **refusal.extra,
    }
    if refusal.errors:
        content["errors"] = [{"pointer": e.pointer, "message": e.message} for e in refusal.errors]
    sent = dict(headers or {})
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        sent["WWW-Authenticate"] = 'Bearer realm="dpmcmc"'
    if refusal.status == HTTPStatus.TOO_MANY_REQUESTS and refusal.code != "rate_limited":
        sent.setdefault("Retry-After", "5")
    return ProblemResponse(content, refusal.status, sent)


def of_status(status: int, detail: str = "") -> Refusal:
    """Return a refusal with a generic code for an HTTP status."""
    phrase = HTTPStatus(status).phrase
    code = CODES.get(status, phrase.lower().replace(" ", "_").replace("-", "_"))
    return Refusal(status, code, detail or DETAILS.get(status, phrase + "."))


def _step(here: Any, step: int | str) -> Any:
    """Return the child at a pointer step, or MISSING."""
    if isinstance(here, dict):
        return here.get(step, MISSING)
    if isinstance(here, list) and isinstance(step, int) and step < len(here):
        return here[step]
    return MISSING


def escaped(step: int | str) -> str:
    """Return one escaped step of a JSON pointer."""
    return str(step).replace("~", "~0").replace("/", "~1")


def pointer(loc: Sequence[int | str], document: Any, *, missing: bool) -> str:
    """Return the JSON pointer of a validation error, without union tags.

    missing: whether the error is that the last step is not there.
    """
    parts: list[int | str] = []
    here = document
    for step in loc:
        further = _step(here, step)
        if further is not MISSING:
            here = further
            parts.append(step)
    if missing and loc:
        parts.append(loc[-1])
    return "".join(f"/{escaped(part)}" for part in parts)


def too_many_values(most: int) -> Fault:
    """Return the fault of a body with too many values."""
    return Fault("", f"More than {most:,} values are in it, as many as such a body may have.")


def faults(model: type[BaseModel], error: ValidationError, document: Any) -> Refusal:
    """Return the first faults of a JSON body, with their number; values are never quoted.

    Of very many errors only those are made that an excerpt of the body has too.
    """
    made = error.error_count()
    if made > MOST_MADE:
        error = _of_excerpt(model, document) or error
    cut = error.error_count() < made
    items = error.errors(include_url=False, include_input=False) if cut or made <= MOST_MADE else []
    mappings: dict[int, bool] = {}
    listed: list[Fault] = []
    count = 0
    for item in items:
        if _meant(item["loc"], document, mappings):
            fault = _fault(item, document)
            if fault is None:
                continue
            count += 1
            if len(listed) < MOST_TOLD:
                listed.append(fault)
    count = made if cut or not items else count
    if not listed:
        listed = [Fault("", f"{made:,} values are not valid.")]
    detail = "The request is not valid."
    if count > len(listed):
        detail = f"The request is not valid: {count:,} faults, of which the first are listed."
    return Refusal(422, "invalid_request", detail, listed, {"error_count": count})


def _of_excerpt(model: type[BaseModel], document: Any) -> ValidationError | None:
    """Return the errors of an excerpt of a document, or None."""
    try:
        model.model_validate_json(json.dumps(_excerpt(document)))
    except (ValidationError, RecursionError) as error:
        return error if isinstance(error, ValidationError) else None
    return None


def _excerpt(here: Any, depth: int = 0) -> Any:
    """Return a document with only the first items of each list and object."""
    if isinstance(here, dict):
        return {name: _excerpt(here[name], depth + 1) for name in islice(here, MOST_TOLD)}
    if isinstance(here, list):
        return [_excerpt(item, depth + 1) for item in here[: max(1, MOST_TOLD >> depth)]]
    return here


def _meant(loc: Sequence[int | str], document: Any, mappings: dict[int, bool]) -> bool:
    """Return whether an error is of the union member that the document selects.

    Where a thing or a mapping from names to such things may stand, objects and texts alone are a
    mapping. An epsilon that is an object is one that a job goes up to.
    mappings: what was found of objects before, by their identity.
    """
    here, within = document, False  # within: a mapping, where texts may stand
    for step in loc:
        further = _step(here, step)
        if further is not MISSING:
            here = further
            continue
        if step == "float" and isinstance(here, dict) and not UNTIL.isdisjoint(here):
            return False
        if step in ("UpTo", "UnitIn") and not isinstance(here, dict):
            return False
        if str(step).startswith("literal[") and isinstance(here, dict):
            return False
        if step == "str" and isinstance(here, dict):
            return False
        if step in MAPPED and isinstance(here, str) and within:
            return False
        mapping = str(step).startswith("dict[")
        within = within or mapping
        if mapping or step in MAPPED:
            if id(here) not in mappings:
                mappings[id(here)] = bool(here) and _mapping(here)
            if mappings[id(here)] != mapping:
                return False
    return True


def _mapping(here: Any) -> bool:
    """Return whether a value is a JSON object."""
    if not isinstance(here, dict) or is_alone(here):
        return False
    return all(isinstance(value, dict | str) for value in here.values())


def _fault(item: ErrorDetails, document: Any) -> Fault | None:
    """Return the fault of one pydantic error; of unions, at their discriminator.

    None where it misses what is in the document, and was left out of the excerpt alone.
    """
    loc, message = item["loc"], item["msg"].removeprefix("Value error, ")
    context = item.get("ctx", {})
    if item["type"].startswith("union_tag"):
        missing = item["type"] == "union_tag_not_found"
        message = "Field required" if missing else f"Input should be {context['expected_tags']}"
        loc = (*loc, context["discriminator"].strip("'"))
    else:
        missing = item["type"].startswith("missing")
        if item["type"] in UNKNOWN:
            message = "There is no such field here."
    if missing and _there(loc, document):
        return None
    further = context["pointer"] if item["type"] == "event" else ""
    return Fault(pointer(loc, document, missing=missing) + further, message)


def _there(loc: Sequence[int | str], document: Any) -> bool:
    """Return whether the last step of a location exists in the document."""
    here, further = document, MISSING
    for step in loc:
        further = _step(here, step)
        here = here if further is MISSING else further
    return further is not MISSING


def _methods(app: FastAPI, path: str) -> list[str]:
    """Return the methods of all routes with a path."""
    allowed: set[str] = set()
    for template, methods in _documented(app):
        if template.fullmatch(path):
            allowed |= methods
    return sorted(allowed | ({"HEAD"} if "GET" in allowed else set()))


def _documented(app: FastAPI) -> list[tuple[re.Pattern[str], set[str]]]:
    """Return all path patterns of the API, with their methods."""
    return [
        (
            re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))),
            {method.upper() for method in item},
        )
        for template, item in app.openapi()["paths"].items()
    ]


def install(app: FastAPI) -> None:
    """Register handlers that answer every error as a problem detail."""

    @app.exception_handler(Refusal)
    async def _refused(_: Request, refusal: Refusal) -> ProblemResponse:
        """Answer a refusal of a use case."""
        return problem(refusal)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> ProblemResponse:
        """Answer an HTTP error of the framework."""
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            known = ", ".join(await run_in_threadpool(_methods, app, request.url.path))
            headers["Allow"] = known or headers.get("Allow", "")
        return problem(of_status(error.status_code), headers)

    @app.exception_handler(RequestValidationError)
    async def _parameters(_: Request, error: RequestValidationError) -> ProblemResponse:
        """Answer invalid parameters."""
        errors = error.errors()[:MOST_TOLD]
        wrong = [Fault("/" + "/".join(map(str, e["loc"])), e["msg"]) for e in errors]
        refusal = Refusal(422, "invalid_request", "The request is not valid.", wrong)
        return problem(refusal)
