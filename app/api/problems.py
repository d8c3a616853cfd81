"""RFC 9457 problem details: the one form in which the service says no."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException

from app.jobs.errors import Fault, Refusal

MEDIA_TYPE = "application/problem+json"
CODES = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
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
    """The answer for a refusal."""
    content: dict[str, Any] = {
        "type": "about:blank",
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
    if refusal.status == HTTPStatus.TOO_MANY_REQUESTS:
        sent.setdefault("Retry-After", "5")
    return ProblemResponse(content, refusal.status, sent)


def of_status(status: int, detail: str = "") -> Refusal:
    """A refusal that says no more than its HTTP status."""
    phrase = HTTPStatus(status).phrase
    code = CODES.get(status, phrase.lower().replace(" ", "_").replace("-", "_"))
    return Refusal(status, code, detail or DETAILS.get(status, phrase + "."))


def pointer(loc: Sequence[int | str], document: Any) -> str:
    """The JSON pointer of a validation error's place; union tags, which are not in it, left out."""
    parts: list[str] = []
    here = document
    for index, step in enumerate(loc):
        last = index == len(loc) - 1
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        ):
            here = here[step]
        elif not (last and isinstance(here, dict)):
            continue
        parts.append(str(step).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in parts)


def faults(error: ValidationError, body: bytes) -> list[Fault]:
    """What is wrong with a JSON body. Never quotes the body."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    found = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        loc = item["loc"]
        if item["type"] not in ("missing", "missing_argument") and loc:
            known = isinstance(document, dict | list)
            loc = _without_tag(loc, document) if known else loc
        message = item["msg"].removeprefix("Value error, ")
        found.append(Fault(pointer(loc, document), message))
    return found


def _without_tag(loc: Sequence[int | str], document: Any) -> Sequence[int | str]:
    """The place without a union's tag at its end."""
    here = document
    for step in loc[:-1]:
        if isinstance(here, dict | list):
            try:
                here = here[step]  # type: ignore[call-overload]
            except (KeyError, IndexError, TypeError):
                continue
    return loc if not isinstance(here, dict) or loc[-1] in here else loc[:-1]


def install(app: FastAPI) -> None:
    """Answer every error of the framework and of the use cases as a problem detail."""

    @app.exception_handler(Refusal)
    async def _refused(_: Request, refusal: Refusal) -> ProblemResponse:
        return problem(refusal)

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> ProblemResponse:
        return problem(of_status(error.status_code), error.headers)

    @app.exception_handler(RequestValidationError)
    async def _parameters(_: Request, error: RequestValidationError) -> ProblemResponse:
        wrong = [Fault("/" + "/".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
        refusal = Refusal(422, "invalid_request", "The request is not valid.", wrong)
        return problem(refusal)
