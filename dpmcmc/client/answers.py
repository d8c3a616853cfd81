"""Answers and errors of the service, for the client and the async client alike."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from dpmcmc.base.digits import rounded_down
from dpmcmc.base.errors import near
from dpmcmc.client.connection import origin_of

if TYPE_CHECKING:
    import xarray

Json = dict[str, Any]
FINAL = frozenset({"succeeded", "failed", "cancelled"})
EVENTS = {"Accept": "text/event-stream"}  # headers of a request for events
NO_JSON = {"code": "no_json", "title": "this is no answer of a dpmcmc service"}
PATIENCE = 5  # times that a request is sent again because the service said: not so fast
MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "netcdf": "application/x-netcdf",
}


def media_type_of(form: object) -> str:
    """Return the media type of a form of files. Raises ValueError where there is none."""
    if not isinstance(form, str) or form not in MEDIA_TYPES:
        guess = near(str(form), MEDIA_TYPES)
        raise ValueError(f"form must be one of {', '.join(MEDIA_TYPES)}{guess}")
    return MEDIA_TYPES[form]


class ApiError(Exception):
    """The service refused. status: of HTTP; code: of the error; problem: the whole answer."""

    def __init__(self, status: int, problem: Json) -> None:
        self.status = status
        self.code = str(problem.get("code", ""))
        self.problem = problem
        message = str(problem.get("detail") or problem.get("title"))
        super().__init__(f"{status} {self.code}: {message}{_amounts(problem)}")


def _amounts(problem: Json) -> str:
    """A sentence with the cost and what is left of the budget, where the problem has both."""
    requested, remaining = (problem.get(name) for name in ("requested", "remaining"))
    if not isinstance(requested, dict) or not isinstance(remaining, dict):
        return ""
    cost, left = (amount.get("epsilon") for amount in (requested, remaining))
    if cost is None or left is None:
        return ""
    return f" It costs epsilon {cost:.4g}, and {rounded_down(left)} is left."


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a job's stream. name: `status` or `progress`; data: its fields."""

    name: str
    data: Json


class Summary(dict[str, Any]):
    """The JSON of a summary; printed, it is a table under its verdict."""

    def __repr__(self) -> str:
        """Return the verdict and the posterior, as the command line shows them."""
        from dpmcmc.client import render

        return render.shown(self)

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter's draws after warm-up. r_hat, ess_bulk, ess_tail: None where not defined."""

    name: str
    mean: float
    sd: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float
    r_hat: float | None
    ess_bulk: float | None
    ess_tail: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a result may be believed. width_from_privacy: part of its intervals' width.

    mended_at: the epsilon that the sentence names, at which noise would be no reason any more; None
    where it names none. Other reasons that stand beside it may remain.
    """

    status: str
    sentence: str
    reasons: tuple[str, ...]
    width_from_privacy: float | None
    mended_at: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """What a succeeded job released. parameters: by name. epsilon, delta: what it cost."""

    job: str
    algorithm: str
    epsilon: float
    delta: float
    parameters: Mapping[str, Parameter]
    verdict: Verdict | None
    summary: Summary = field(repr=False)
    netcdf: bytes = field(repr=False)

    def __str__(self) -> str:
        """Return the verdict and the posterior, as the command line shows them."""
        return str(self.summary)

    def to_arviz(self) -> "xarray.DataTree":
        """Return the draws as one ArviZ DataTree: posterior, warmup_posterior, sample_stats."""
        import xarray

        return xarray.load_datatree(io.BytesIO(self.netcdf), engine="h5netcdf")


def fit_of(job: Json, summary: Json, netcdf: bytes) -> Fit:
    """Make a job's answers into one typed result."""
    parameters = [Parameter(**{k: row[k] for k in _PARAMETER}) for row in summary["parameters"]]
    cost = job["cost"]
    return Fit(
        job["id"],
        job["algorithm"],
        cost["epsilon"],
        cost["delta"],
        {parameter.name: parameter for parameter in parameters},
        verdict_of(summary),
        Summary(summary),
        netcdf,
    )


_PARAMETER = tuple(Parameter.__dataclass_fields__)


def verdict_of(answer: Json) -> Verdict | None:
    """Return an answer's verdict; None of a job that ran before results were judged."""
    verdict = answer.get("verdict")
    if verdict is None:
        return None
    width = verdict["width_from_privacy"]
    status, sentence, reasons = (verdict[key] for key in ("status", "sentence", "reasons"))
    return Verdict(status, sentence, tuple(reasons), width, verdict.get("mended_at"))


def failed(job: Json) -> ApiError:
    """Return why a job that has ended has no result."""
    error = job.get("error") or {}
    problem = {"code": error.get("code", job["status"]), "detail": error.get("detail", "")}
    return ApiError(409, {**problem, "title": f"the job {job['status']}"})


def check(response: httpx.Response) -> None:
    """Raise ApiError where the service refused, the address leads elsewhere, or no service answers.

    An answer has the type that its request accepts, JSON where it names none and where a job is
    queued; where something was deleted, and only there, it has no content.
    """
    status = response.status_code
    if response.is_error:
        raise ApiError(status, problem_of(response))
    if response.has_redirect_location:
        raise ApiError(status, {"code": "redirected", "title": _elsewhere(response)})
    if response.request.method == "DELETE":
        is_ours = status == httpx.codes.NO_CONTENT
    else:
        accepted = response.request.headers["Accept"]
        if accepted == "*/*" or status == httpx.codes.ACCEPTED:
            accepted = MEDIA_TYPES["json"]
        media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        is_ours = response.is_success and media_type == accepted
    if not is_ours:
        raise ApiError(status, NO_JSON)


def _elsewhere(response: httpx.Response) -> str:
    """Say where a redirect leads, without path, name and password."""
    message = "the address of the service leads elsewhere"
    try:
        target = response.url.join(response.headers["Location"])
    except (httpx.InvalidURL, ValueError):
        return message
    if (target.scheme, target.netloc) == (response.url.scheme, response.url.netloc):
        return f"{message}, to {target.path}: write it as the service has it"
    return f"{message}, to {origin_of(target)}: if that is the service, give that address"


def body_of(response: httpx.Response) -> Json:
    """Return an answer's JSON. Raises ApiError where it is none."""
    try:
        body: Json = response.json()
    except ValueError:
        raise ApiError(response.status_code, NO_JSON) from None
    if not isinstance(body, dict):
        raise ApiError(response.status_code, NO_JSON)
    return body


def too_fast(response: httpx.Response) -> bool:
    """Whether the service refused by its rate limit, and says when to send the request again."""
    refused = response.status_code == httpx.codes.TOO_MANY_REQUESTS
    return (
        refused
        and problem_of(response).get("code") == "rate_limited"
        and response.headers.get("Retry-After", "").isdigit()
    )


def problem_of(response: httpx.Response) -> Json:
    """The problem detail of an answer; a title alone where a proxy answered without one."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"title": response.reason_phrase}


class EventReader:
    """Parse server-sent events line by line; comments and unknown fields are skipped."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def read(self, line: str) -> Event | None:
        """Take one line; return an event where an empty line completes it, else None."""
        name, _, value = line.partition(":")
        if name in ("event", "data"):
            self._fields[name] = self._fields.get(name, "") + value.removeprefix(" ")
        elif not line and "data" in self._fields:
            fields, self._fields = self._fields, {}
            return Event(fields.get("event", "message"), json.loads(fields["data"]))
        return None
