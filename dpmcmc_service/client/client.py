"""A thin client for the REST service: one method for each call of the contract."""

import itertools
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

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
        super().__init__(f"{status} {self.code}: {problem.get('detail') or problem.get('title')}")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a job's stream. name: `status` or `progress`; data: its fields."""

    name: str
    data: Json


class Summary(dict[str, Any]):
    """A summary as it came, which shows its verdict first, in colour on a terminal."""

    def __repr__(self) -> str:
        """Return the verdict and the posterior, as the command line shows them."""
        from dpmcmc_service.client import render

        return render.shown(self)

    __str__ = __repr__


class Client:
    """Talks to one service with one key. Every method raises ApiError where the service refuses.

    base_url: such as http://127.0.0.1:8000. key: shown once when the user was made.
    """

    def __init__(self, base_url: str, key: str, *, timeout: float = 60.0) -> None:
        self._http = httpx.Client(
            base_url=base_url, headers={"Authorization": f"Bearer {key}"}, timeout=timeout
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        response = self._http.request(method, path, **request)
        for _ in range(PATIENCE):
            if "files" in request or not _too_fast(response):  # a file is read once
                break
            time.sleep(float(response.headers["Retry-After"]))
            response = self._http.request(method, path, **request)
        if response.is_error:
            raise ApiError(response.status_code, _problem(response))
        return response

    def _json(self, method: str, path: str, **request: Any) -> Json:
        response = self._send(method, path, **request)
        try:
            body: Json = response.json()
        except ValueError:
            raise ApiError(response.status_code, NO_JSON) from None
        return body

    def _items(self, path: str) -> Iterator[Json]:
        """Every item of a list, page after page."""
        cursor: str | None = None
        while True:
            page = self._json("GET", path, params={"cursor": cursor} if cursor else {})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def create_user(self, name: str, role: str) -> Json:
        """Make a user (admin only). role: admin, analyst or auditor. The key is in the answer."""
        return self._json("POST", "/v1/users", json={"name": name, "role": role})

    def users(self) -> Iterator[Json]:
        """Every user with the keys' labels and dates (admin only)."""
        return self._items("/v1/users")

    def disable(self, user: str, *, disabled: bool = True) -> Json:
        """Close or open a user's account (admin only)."""
        return self._json("PATCH", f"/v1/users/{user}", json={"disabled": disabled})

    def create_key(
        self, user: str = "me", *, label: str | None = None, expires_at: str | None = None
    ) -> Json:
        """Make a further key, which only this answer holds. user: an id (admin only), or me."""
        body = {"label": label, "expires_at": expires_at}
        return self._json("POST", f"/v1/users/{user}/keys", json=body)

    def revoke(self, key: str) -> None:
        """Revoke a key by its id."""
        self._send("DELETE", f"/v1/keys/{key}")

    def audit(self) -> Iterator[Json]:
        """The audit trail, oldest entry first (admin and auditor)."""
        return self._items("/v1/audit")

    def upload(self, file: Path, metadata: Mapping[str, Any]) -> Json:
        """Upload a CSV or Parquet file with its public metadata (admin only)."""
        with file.open("rb") as rows:
            parts = {"file": (file.name, rows), "metadata": (None, json.dumps(metadata))}
            return self._json("POST", "/v1/datasets", files=parts)

    def datasets(self) -> Iterator[Json]:
        """The public metadata of every dataset that this user may see."""
        return self._items("/v1/datasets")

    def dataset(self, dataset: str) -> Json:
        """The public metadata of one dataset."""
        return self._json("GET", f"/v1/datasets/{dataset}")

    def amend(self, dataset: str, changes: Mapping[str, Any]) -> Json:
        """Raise a budget, archive, or grant (admin only)."""
        return self._json("PATCH", f"/v1/datasets/{dataset}", json=changes)

    def destroy(self, dataset: str) -> None:
        """Destroy a dataset's rows and their key (admin only). The ledger stays."""
        self._send("DELETE", f"/v1/datasets/{dataset}")

    def budget(self, dataset: str) -> Json:
        """What a dataset's budget is, and what is spent, reserved and left of it."""
        return self._json("GET", f"/v1/datasets/{dataset}/budget")

    def budgets(self) -> Iterator[Json]:
        """The budget of every dataset that this user may see, each with its history."""
        return self._items("/v1/budget")

    def ledger(self, dataset: str) -> Iterator[Json]:
        """The ledger's rows, oldest first (admin and auditor)."""
        return self._items(f"/v1/datasets/{dataset}/ledger")

    def verify(self, dataset: str) -> Json:
        """Recompute the ledger's chain and totals (admin and auditor)."""
        return self._json("POST", f"/v1/datasets/{dataset}/ledger/verify")

    def plan(self, job: Mapping[str, Any]) -> Json:
        """What a job would cost and bring. Spends nothing and touches no rows."""
        return self._json("POST", "/v1/plans", json=job)

    def submit(self, job: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Reserve the cost and queue the job. The same key never makes a second job."""
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return self._json("POST", "/v1/jobs", json=job, headers=headers)

    def jobs(self) -> Iterator[Json]:
        """The jobs that this user may see, newest first."""
        return self._items("/v1/jobs")

    def some_jobs(self, limit: int) -> list[Json]:
        """The newest jobs, at most so many."""
        return list(itertools.islice(self.jobs(), limit))

    def job(self, job: str) -> Json:
        """One job: status, cost, progress."""
        return self._json("GET", f"/v1/jobs/{job}")

    def cancel(self, job: str) -> Json:
        """Cancel a job. Once it runs, its debit stays."""
        return self._json("POST", f"/v1/jobs/{job}/cancel")

    def events(self, job: str) -> Iterator[Event]:
        """The job's event stream, to its end."""
        with self._http.stream("GET", f"/v1/jobs/{job}/events") as response:
            if response.is_error:
                response.read()
                raise ApiError(response.status_code, _problem(response))
            yield from _parse(response.iter_lines())

    def wait(self, job: str, *, timeout: float = 600.0) -> Json:
        """Poll until the job has ended. Raises TimeoutError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (answer := self.job(job))["status"] not in FINAL:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is still {answer['status']}")
            time.sleep(0.2)
        return answer

    def summary(self, job: str, *, scale: str = "original") -> "Summary":
        """Posterior summary of a succeeded job.

        scale: original, in the units of the columns, or design, of the standardised ones.
        """
        return Summary(self._json("GET", f"/v1/jobs/{job}/summary", params={"scale": scale}))

    def posteriors(self, job: str, question: Mapping[str, Any], *, scale: str = "original") -> Json:
        """What follows from a stored release under another prior. Costs nothing."""
        path = f"/v1/jobs/{job}/posteriors"
        return self._json("POST", path, json=question, params={"scale": scale})

    def posterior_draws(
        self,
        job: str,
        question: Mapping[str, Any],
        form: str = "csv",
        *,
        scale: str = "original",
    ) -> bytes:
        """The draws alone of what `posteriors` makes. form: json, csv, parquet or netcdf."""
        how: Json = {"headers": {"Accept": MEDIA_TYPES[form]}, "params": {"scale": scale}}
        path = f"/v1/jobs/{job}/posteriors"
        return self._send("POST", path, json=question, **how).content

    def chain(self, job: str, form: str = "json", *, scale: str = "original") -> bytes:
        """The released draws. form: json, csv, parquet or netcdf."""
        how: Json = {"headers": {"Accept": MEDIA_TYPES[form]}, "params": {"scale": scale}}
        return self._send("GET", f"/v1/jobs/{job}/chain", **how).content

    def result(self, job: str, *, level: float = 0.9, target: str = "population") -> Json:
        """What a task released. level, target: of the intervals of summaries. Costs nothing."""
        how: Json = {"params": {"level": level, "target": target}}
        return self._json("GET", f"/v1/jobs/{job}/result", **how)

    def inference(self, job: str, question: Mapping[str, Any]) -> Json:
        """Draws of a family's number given a statistic that a task released. Costs nothing."""
        return self._json("POST", f"/v1/jobs/{job}/inferences", json=question)

    def inference_draws(self, job: str, question: Mapping[str, Any], form: str = "csv") -> bytes:
        """The draws alone of what `inference` makes. form: json, csv, parquet or netcdf."""
        how: Json = {"headers": {"Accept": MEDIA_TYPES[form]}}
        return self._send("POST", f"/v1/jobs/{job}/inferences", json=question, **how).content

    def table(self, job: str, number: int, form: str = "csv") -> bytes:
        """A synthetic table of a task, by its number from 0. form: csv or parquet."""
        how: Json = {"headers": {"Accept": MEDIA_TYPES[form]}}
        return self._send("GET", f"/v1/jobs/{job}/tables/{number}", **how).content


def _too_fast(response: httpx.Response) -> bool:
    """Whether the service asks to be asked again later, having done nothing."""
    refused = response.status_code == httpx.codes.TOO_MANY_REQUESTS
    return (
        refused
        and _problem(response).get("code") == "rate_limited"
        and response.headers.get("Retry-After", "").isdigit()
    )


def _problem(response: httpx.Response) -> Json:
    """The problem detail of an answer, also where something before the service answered."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"title": response.reason_phrase}


def _parse(lines: Iterator[str]) -> Iterator[Event]:
    """Server-sent events from their lines; comments and unknown fields are skipped."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if name in ("event", "data"):
            fields[name] = fields.get(name, "") + value.removeprefix(" ")
        elif not line and "data" in fields:
            yield Event(fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
