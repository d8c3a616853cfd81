"""A thin client for the REST service: one method for each call of the contract."""

import itertools
import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Self

import httpx

from dpmcmc.client.answers import (
    EVENTS,
    FINAL,
    PATIENCE,
    ApiError,
    Event,
    EventReader,
    Fit,
    Json,
    Summary,
    body_of,
    check,
    failed,
    fit_of,
    media_type_of,
    too_fast,
)
from dpmcmc.client.beginning import FilePath, beginning, path_of
from dpmcmc.client.connection import (
    FAILED,
    UnreachedError,
    checked_header,
    checked_path,
    checked_timeout,
    connected,
    origin_of,
    unreached,
)
from dpmcmc.client.named import id_of, is_id
from dpmcmc.client.released import (
    Inference,
    Posterior,
    Task,
    inference_of,
    inference_of_job,
    posterior_of,
    task_of,
)


class Client:
    """A client of one service with one key.

    Parameters
    ----------
    base_url
        Address of the service, such as http://127.0.0.1:8000.
    key
        API key, which was shown once when the user was created.
    timeout
        Seconds to wait for each answer; None to wait without end.

    Raises
    ------
    WrongKeyError, WrongAddressError
        At once, where the key or the address cannot be one.
    ApiError
        From every method, where the service refuses.
    UnreachedError
        From every method, where no service answers.
    UnclearError
        From every method that takes a dataset, also in a job: its name may stand for its id, and
        no dataset has this name, or several have.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000", key)
    >>> job = client.submit({"dataset": "adult", "model": model, "privacy": {"epsilon": 1.0}})
    >>> print(client.fit(job["id"]))
    """

    def __init__(self, base_url: str, key: str, *, timeout: float | None = 60.0) -> None:
        self._http = connected(httpx.Client, base_url, key, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def authorise(self, auth: httpx.Auth) -> None:
        """Have every later request authorised by this in place of the key."""
        self._http.auth = auth

    def _request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request once. Raises UnreachedError."""
        path = checked_path(path)
        try:
            return self._http.request(method, path, **request)
        except FAILED as error:
            failed = unreached(error, self._http.base_url)
        raise failed  # outside, so that it does not lead to the request, which holds the key

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        response = self._request(method, path, **request)
        for _ in range(PATIENCE):
            if "files" in request or not too_fast(response):  # a file is read once
                break
            time.sleep(float(response.headers["Retry-After"]))
            response = self._request(method, path, **request)
        check(response)
        return response

    def _json(self, method: str, path: str, **request: Any) -> Json:
        """Send a request and return its JSON body. Raises as `_send`."""
        return body_of(self._send(method, path, **request))

    def _items(self, path: str) -> Iterator[Json]:
        """Every item of a list, page after page."""
        cursor: str | None = None
        while True:
            page = self._json("GET", path, params={"cursor": cursor} if cursor else {})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _dataset(self, name: str) -> str:
        """The id of a dataset, from its id or its name. Raises UnclearError."""
        return name if is_id(name) else id_of("dataset", name, list(self.datasets()))

    def _job(self, body: Mapping[str, Any]) -> Json:
        """A job's body with the dataset's id, where it had the name."""
        dataset = body.get("dataset")
        return {**body, "dataset": self._dataset(dataset)} if isinstance(dataset, str) else {**body}

    def create_user(self, name: str, role: str, *, expires_at: str | None = None) -> Json:
        """Make a user (admin only). role: admin, analyst or auditor. The key is in the answer.

        expires_at: when the key ends, such as 2027-01-31T00:00:00Z; None: never.
        """
        body = {"name": name, "role": role, "expires_at": expires_at}
        return self._json("POST", "/v1/users", json=body)

    def me(self) -> Json:
        """Who the key's user is, with keys and mail address."""
        return self._json("GET", "/v1/users/me")

    def set_email(self, address: str | None) -> Json:
        """Say where mail about access requests is sent to you; None: nowhere."""
        return self._json("PATCH", "/v1/users/me", json={"email": address})

    def users(self) -> Iterator[Json]:
        """Every user with the keys' labels and dates (admin only)."""
        return self._items("/v1/users")

    def disable(self, user: str, *, disabled: bool = True, reason: str | None = None) -> Json:
        """Close or open a user's account (admin only). reason: for the audit trail."""
        wanted = {"disabled": disabled, "reason": reason}
        return self._json("PATCH", f"/v1/users/{user}", json=wanted)

    def create_key(
        self, user: str = "me", *, label: str | None = None, expires_at: str | None = None
    ) -> Json:
        """Make a further key, which only this answer holds. user: an id (admin only), or me."""
        body = {"label": label, "expires_at": expires_at}
        return self._json("POST", f"/v1/users/{user}/keys", json=body)

    def revoke(self, key: str) -> None:
        """Revoke a key by its id."""
        self._send("DELETE", f"/v1/keys/{key}")

    def ask(
        self,
        reason: str,
        *,
        dataset: str | None = None,
        dataset_name: str | None = None,
        epsilon: float | None = None,
        job: Mapping[str, Any] | None = None,
    ) -> Json:
        """Ask the admins for a dataset, or for budget on one, and say why (analyst only).

        dataset: name or id of one that you see. dataset_name: of one that you do not see, in words.
        epsilon: the budget that is asked for. job: what it is for, as `plan` takes it.
        """
        job = job and {name: value for name, value in job.items() if name != "dataset"}
        known = None if dataset is None else self._dataset(dataset)
        body = {
            "reason": reason,
            "dataset": known,
            "dataset_name": dataset_name,
            "epsilon": epsilon,
            "job": job,
        }
        return self._json("POST", "/v1/access-requests", json=body)

    def requests(self) -> Iterator[Json]:
        """Access requests, newest first: your own; all of them for admins and auditors."""
        return self._items("/v1/access-requests")

    def answer(self, request: str, status: str, **given: Any) -> Json:
        """Answer an access request: "granted" or "refused" (admin), or "withdrawn" (your own).

        given: answer, a sentence to the analyst. Of a grant also dataset, the id of what the
        request names in words; allotment, the analyst's cap from now on; and epsilon, what the
        dataset's budget is raised to.
        """
        body = {"status": status, **given}
        return self._json("PATCH", f"/v1/access-requests/{request}", json=body)

    def audit(self) -> Iterator[Json]:
        """The audit trail, oldest entry first (admin and auditor)."""
        return self._items("/v1/audit")

    def upload(
        self,
        file: FilePath,
        metadata: Mapping[str, Any],
        *more: FilePath,
        schema: FilePath | None = None,
    ) -> Json:
        """Upload a CSV or Parquet file with its public metadata (admin only).

        schema: a schema file, a table or JSON, in place of the metadata's columns. more: further
        files, where the metadata names data holders but no column of holders: one file for each
        holder, in the order of their names. Rows that were uploaded before share the
        earlier dataset's budget (`shares_ledger_with` in the answer), unless the metadata gives a
        reason: {"separate_budget": {"reason": "..."}}.
        """
        with ExitStack() as stack:
            parts: list[tuple[str, Any]] = [("metadata", (None, json.dumps(metadata)))]
            if schema is not None:
                written = path_of(schema)
                parts.append(("schema", (written.name, written.read_bytes())))
            parts += [
                ("file", (path.name, stack.enter_context(path.open("rb"))))
                for path in map(path_of, (file, *more))
            ]
            return self._json("POST", "/v1/datasets", files=parts)

    def sources(self) -> Iterator[Json]:
        """The sources of which snapshots can be taken, and what they offer (admin only)."""
        return self._items("/v1/sources")

    def snapshot(
        self,
        source: Mapping[str, str],
        metadata: Mapping[str, Any],
        progress: Callable[[int], None] | None = None,
    ) -> Json:
        """Register what a source has now as a dataset (admin only).

        source: its name and one of table, query and path, as {"name": "clinic", "table": "visits"}.
        metadata: as of an upload. progress: is called with the number of rows read so far. Whoever
        leaves before the answer stops the snapshot, and nothing is registered.
        """
        body = {"source": dict(source), "metadata": dict(metadata)}
        return self._taken("/v1/datasets/snapshots", body, progress)

    def refresh(
        self,
        dataset: str,
        name: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Json:
        """Register what a dataset's source has now as its next version (admin only).

        It shares the ledger and the budget. name: its own; otherwise with the version's number.
        """
        path = f"/v1/datasets/{self._dataset(dataset)}/refresh"
        return self._taken(path, {"name": name}, progress)

    def _taken(self, path: str, body: Json, progress: Callable[[int], None] | None) -> Json:
        """The dataset of a snapshot, once its stream of events has ended. Raises ApiError."""
        for event in self._stream("POST", path, json=body):
            if event.name == "progress" and progress is not None:
                progress(event.data["rows"])
            if event.name == "problem":
                raise ApiError(event.data["status"], event.data)
            if event.name == "dataset":
                return event.data
        raise UnreachedError("lost", origin_of(self._http.base_url))

    def inspect(self, file: FilePath, format: Mapping[str, Any] | None = None) -> Json:
        """How a file is written, its columns and its first rows (admin only); it is not stored.

        format: members that are known. Of a text file its first MiB is sent.
        """
        metadata = json.dumps({"format": format or {}})
        path = path_of(file)
        parts = {"metadata": (None, metadata), "file": (path.name, beginning(path))}
        return self._json("POST", "/v1/datasets/inspect", files=parts)

    def datasets(self) -> Iterator[Json]:
        """The public metadata of every dataset that this user may see."""
        return self._items("/v1/datasets")

    def dataset(self, dataset: str) -> Json:
        """The public metadata of one dataset."""
        return self._json("GET", f"/v1/datasets/{self._dataset(dataset)}")

    def dummy(self, dataset: str, rows: int = 100, *, seed: int = 0) -> dict[str, list[Any]]:
        """Rows made from a dataset's declared bounds and categories alone: columns by name.

        They read nothing of the dataset and cost nothing: for code that is tried before any budget
        is spent, as `pandas.DataFrame(client.dummy("visits"))`.
        """
        table: Json = json.loads(self.dummy_table(dataset, "json", rows, seed))
        data: dict[str, list[Any]] = table["data"]
        return data

    def dummy_table(self, dataset: str, form: str = "csv", rows: int = 100, seed: int = 0) -> bytes:
        """The same rows as a file. form: csv, parquet or json."""
        request: Json = {
            "headers": {"Accept": media_type_of(form)},
            "params": {"rows": rows, "seed": seed},
        }
        return self._send("GET", f"/v1/datasets/{self._dataset(dataset)}/dummy", **request).content

    def amend(self, dataset: str, changes: Mapping[str, Any]) -> Json:
        """Raise a budget, archive, or grant (admin only)."""
        return self._json("PATCH", f"/v1/datasets/{self._dataset(dataset)}", json=changes)

    def destroy(self, dataset: str, reason: str | None = None) -> None:
        """Destroy a dataset's rows and their key (admin only). The ledger stays."""
        why = {"reason": reason} if reason else {}
        self._send("DELETE", f"/v1/datasets/{self._dataset(dataset)}", params=why)

    def budget(self, dataset: str) -> Json:
        """A dataset's budget, and what of it is spent, reserved and left."""
        return self._json("GET", f"/v1/datasets/{self._dataset(dataset)}/budget")

    def budgets(self) -> Iterator[Json]:
        """The budget of every dataset that this user may see, each with its history."""
        return self._items("/v1/budget")

    def ledger(self, dataset: str) -> Iterator[Json]:
        """The ledger's rows, oldest first (admin and auditor)."""
        return self._items(f"/v1/datasets/{self._dataset(dataset)}/ledger")

    def verify(self, dataset: str) -> Json:
        """Recompute the ledger's chain and totals (admin and auditor)."""
        return self._json("POST", f"/v1/datasets/{self._dataset(dataset)}/ledger/verify")

    def plan(self, job: Mapping[str, Any]) -> Json:
        """The cost and the expected quality of a job, from public facts; spends nothing."""
        return self._json("POST", "/v1/plans", json=self._job(job))

    def submit(self, job: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Reserve the cost and queue the job. The same key never makes a second job."""
        headers = {"Idempotency-Key": checked_header(idempotency_key or str(uuid.uuid4()))}
        return self._json("POST", "/v1/jobs", json=self._job(job), headers=headers)

    def jobs(self) -> Iterator[Json]:
        """The jobs that this user may see, newest first."""
        return self._items("/v1/jobs")

    def some_jobs(self, limit: int) -> list[Json]:
        """The newest jobs, at most `limit` of them."""
        return list(itertools.islice(self.jobs(), limit))

    def job(self, job: str) -> Json:
        """One job: status, cost, progress."""
        return self._json("GET", f"/v1/jobs/{job}")

    def rename(self, job: str, **words: str | None) -> Json:
        """Change the name or the note of an own job: `rename(job, name="...", note=None)`.

        What is not named stays; None takes it off.
        """
        return self._json("PATCH", f"/v1/jobs/{job}", json=words)

    def cancel(self, job: str) -> Json:
        """Cancel a job. Once it runs, its debit stays."""
        return self._json("POST", f"/v1/jobs/{job}/cancel")

    def events(self, job: str) -> Iterator[Event]:
        """The job's event stream, to its end. Raises as the other calls do."""
        return self._stream("GET", f"/v1/jobs/{job}/events")

    def _stream(self, method: str, path: str, **request: Any) -> Iterator[Event]:
        """The events that answer a request, to their end."""
        path = checked_path(path)
        try:
            with self._http.stream(method, path, headers=EVENTS, **request) as response:
                if response.is_error:
                    response.read()
                check(response)
                reader = EventReader()
                for line in response.iter_lines():
                    if (event := reader.read(line)) is not None:
                        yield event
                return
        except FAILED as error:
            failed = unreached(error, self._http.base_url)
        raise failed

    def wait(self, job: str, *, timeout: float | None = 600.0) -> Json:
        """Poll until the job has ended. Raises TimeoutError after `timeout` seconds.

        timeout: above 0, or None to wait without end.
        """
        seconds = checked_timeout(timeout)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while (answer := self.job(job))["status"] not in FINAL:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is still {answer['status']}")
            time.sleep(0.2)
        return answer

    def fit(self, job: str, *, scale: str = "original", timeout: float | None = 600.0) -> Fit:
        """Wait for a job and return its posterior, typed, with `.to_arviz()`.

        Raises ApiError where the job failed, TimeoutError after `timeout` seconds.
        """
        ended = self._succeeded(job, timeout)
        return fit_of(ended, self.summary(job, scale=scale), self.chain(job, "netcdf", scale=scale))

    def _succeeded(self, job: str, timeout: float | None) -> Json:
        """Wait for a job. Raises ApiError where it has not succeeded."""
        ended = self.wait(job, timeout=timeout)
        if ended["status"] != "succeeded":
            raise failed(ended)
        return ended

    def summary(self, job: str, *, scale: str = "original") -> "Summary":
        """Posterior summary of a succeeded job.

        scale: original, in the units of the columns, or design, of the standardised ones.
        """
        return Summary(self._json("GET", f"/v1/jobs/{job}/summary", params={"scale": scale}))

    def posteriors(self, job: str, question: Mapping[str, Any], *, scale: str = "original") -> Json:
        """Posterior, predictions and tests from a stored release under any prior; costs nothing.

        question: the body of the call, such as {"prior": {"dose": {"kind": "normal", "loc": 0,
        "scale": 1}}}.
        """
        path = f"/v1/jobs/{job}/posteriors"
        return self._json("POST", path, json=question, params={"scale": scale})

    def posterior(
        self, job: str, question: Mapping[str, Any], *, scale: str = "original"
    ) -> Posterior:
        """As `posteriors`, as a typed result with `.to_arviz()`."""
        return posterior_of(self.posteriors(job, question, scale=scale))

    def posterior_draws(
        self,
        job: str,
        question: Mapping[str, Any],
        form: str = "csv",
        *,
        scale: str = "original",
    ) -> bytes:
        """As `posteriors`, the draws alone as a file. form: json, csv, parquet or netcdf."""
        request: Json = {"headers": {"Accept": media_type_of(form)}, "params": {"scale": scale}}
        path = f"/v1/jobs/{job}/posteriors"
        return self._send("POST", path, json=question, **request).content

    def chain(self, job: str, form: str = "json", *, scale: str = "original") -> bytes:
        """The released draws. form: json, csv, parquet or netcdf."""
        request: Json = {"headers": {"Accept": media_type_of(form)}, "params": {"scale": scale}}
        return self._send("GET", f"/v1/jobs/{job}/chain", **request).content

    def result(self, job: str, *, level: float = 0.9, target: str = "population") -> Json:
        """The released numbers of a task; costs nothing. level, target: of the intervals."""
        request: Json = {"params": {"level": level, "target": target}}
        return self._json("GET", f"/v1/jobs/{job}/result", **request)

    def task(
        self,
        job: str,
        *,
        level: float = 0.9,
        target: str = "population",
        timeout: float | None = 600.0,
    ) -> Task:
        """Wait for a task and return what it released, typed: see `released.Task`.

        Raises ApiError where the job failed, TimeoutError after `timeout` seconds.
        """
        ended = self._succeeded(job, timeout)
        return task_of(ended, self.result(job, level=level, target=target))

    def infer(
        self, job: str, question: Mapping[str, Any], *, timeout: float | None = 600.0
    ) -> Inference:
        """Posterior of a family's parameter given a released statistic, typed, with `.to_arviz()`.

        Costs nothing. Waits where it takes longer than a request. Raises as `fit` does.
        """
        answer = self.inference(job, question)
        if "status" not in answer:
            return inference_of(answer)
        ended, queued = self._succeeded(answer["id"], timeout), answer["id"]
        return inference_of_job(ended, self.summary(queued), json.loads(self.chain(queued)))

    def inference(self, job: str, question: Mapping[str, Any]) -> Json:
        """Posterior draws of a family's parameter given a released statistic; costs nothing.

        Where that takes longer than a request, the answer is a job, which has a `status`.
        """
        return self._json("POST", f"/v1/jobs/{job}/inferences", json=question)

    def inference_draws(self, job: str, question: Mapping[str, Any], form: str = "csv") -> bytes:
        """As `inference`, the draws alone as a file. form: json, csv, parquet or netcdf."""
        request: Json = {"headers": {"Accept": media_type_of(form)}}
        answer = self._send("POST", f"/v1/jobs/{job}/inferences", json=question, **request)
        if answer.status_code != httpx.codes.ACCEPTED:
            return answer.content
        queued = str(answer.json()["id"])
        self.wait(queued)
        return self.chain(queued, form)

    def noise_for_epsilon(self, epsilon: float, delta: float, num_steps: int = 1) -> float:
        """The least noise multiplier of so many Gaussian steps that cost (epsilon, delta)."""
        body = {"epsilon": epsilon, "delta": delta, "num_steps": num_steps}
        return float(self._json("POST", "/v1/accounting/noise", json=body)["noise_multiplier"])

    def steps_for_epsilon(
        self,
        epsilon: float,
        delta: float,
        noise_multiplier: float,
        *,
        gradient_noise_multiplier: float | None = None,
        num_leapfrog: int = 1,
    ) -> int:
        """How many steps (epsilon, delta) pays for. As `dpmcmc.steps_for_epsilon`."""
        body: Json = {"epsilon": epsilon, "delta": delta, "noise_multiplier": noise_multiplier}
        if gradient_noise_multiplier is not None:
            body["gradient_noise_multiplier"] = gradient_noise_multiplier
            body["num_leapfrog"] = num_leapfrog
        return int(self._json("POST", "/v1/accounting/steps", json=body)["num_steps"])

    def choose_statistic(self, dataset: str, question: Mapping[str, Any]) -> Json:
        """The power of a column with the most Fisher information on a parameter; costs nothing.

        question: column, family, options, thetas, powers, epsilon; delta, statistic and noise
        where they are not the default. Source: thesis B, section 4.2.
        """
        body = {"dataset": self._dataset(dataset), **question}
        return self._json("POST", "/v1/accounting/statistic", json=body)

    def table(self, job: str, number: int, form: str = "csv") -> bytes:
        """A synthetic table of a task, by its number from 0. form: csv or parquet."""
        request: Json = {"headers": {"Accept": media_type_of(form)}}
        return self._send("GET", f"/v1/jobs/{job}/tables/{number}", **request).content
