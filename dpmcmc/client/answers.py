"""What the service answers, and how it refuses: the same for the client and the async client."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    import xarray

Json = dict[str, Any]
FINAL = frozenset({"succeeded", "failed", "cancelled"})
NO_JSON = {"code": "no_json", "title": "this is no answer of a dpmcmc service"}
PATIENCE = 5  # times that a request is sent again because the service said: not so fast
MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "netcdf": "application/x-netcdf",
}


class ApiError(Exception):
    """The service said no. status: HTTP; code: its stable word; problem: the whole answer."""

    def __init__(self, status: int, problem: Json) -> None:
        self.status = status
        self.code = str(problem.get("code", ""))
        self.problem = problem
        told = str(problem.get("detail") or problem.get("title"))
        super().__init__(f"{status} {self.code}: {told}{_amounts(problem)}")


def _amounts(problem: Json) -> str:
    """What was asked of a budget and what is left of it, where a refusal says so."""
    asked, left = (problem.get(name) for name in ("requested", "remaining"))
    if not isinstance(asked, dict) or not isinstance(left, dict):
        return ""
    both = [f"{one['epsilon']:.4g}" for one in (asked, left) if one.get("epsilon") is not None]
    return f" It costs epsilon {both[0]}, and {both[1]} is left." if len(both) == 2 else ""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a job's stream. name: `status` or `progress`; data: its fields."""

    name: str
    data: Json


class Summary(dict[str, Any]):
    """A summary as it came, which shows its verdict first, in colour on a terminal."""

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
    """Whether a result may be believed. width_from_privacy: part of its intervals' width."""

    status: str
    sentence: str
    reasons: tuple[str, ...]
    width_from_privacy: float | None


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
    found = [Parameter(**{k: one[k] for k in _PARAMETER}) for one in summary["parameters"]]
    cost = job["cost"]
    return Fit(
        job["id"],
        job["algorithm"],
        cost["epsilon"],
        cost["delta"],
        {one.name: one for one in found},
        verdict_of(summary),
        Summary(summary),
        netcdf,
    )


_PARAMETER = tuple(Parameter.__dataclass_fields__)


def verdict_of(answer: Json) -> Verdict | None:
    """Return an answer's verdict; None of a job that ran before results were judged."""
    told = answer.get("verdict")
    if told is None:
        return None
    width = told["width_from_privacy"]
    return Verdict(told["status"], told["sentence"], tuple(told["reasons"]), width)


def failed(job: Json) -> ApiError:
    """Return why a job that has ended has no result."""
    error = job.get("error") or {}
    told = {"code": error.get("code", job["status"]), "detail": error.get("detail", "")}
    return ApiError(409, {**told, "title": f"the job {job['status']}"})


def body_of(response: httpx.Response) -> Json:
    """Return an answer's JSON. Raises ApiError where it is none."""
    try:
        body: Json = response.json()
    except ValueError:
        raise ApiError(response.status_code, NO_JSON) from None
    return body


def too_fast(response: httpx.Response) -> bool:
    """Whether the service asks to be asked again later, having done nothing."""
    refused = response.status_code == httpx.codes.TOO_MANY_REQUESTS
    return (
        refused
        and problem_of(response).get("code") == "rate_limited"
        and response.headers.get("Retry-After", "").isdigit()
    )


def problem_of(response: httpx.Response) -> Json:
    """The problem detail of an answer, also where something before the service answered."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"title": response.reason_phrase}


class EventReader:
    """Server-sent events from their lines; comments and unknown fields are skipped."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def read(self, line: str) -> Event | None:
        """Return the event that a line ends, if it does."""
        name, _, value = line.partition(":")
        if name in ("event", "data"):
            self._fields[name] = self._fields.get(name, "") + value.removeprefix(" ")
        elif not line and "data" in self._fields:
            told, self._fields = self._fields, {}
            return Event(told.get("event", "message"), json.loads(told["data"]))
        return None
