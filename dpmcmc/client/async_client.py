"""The client for asyncio: the calls of `Client`, each awaited."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
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

POLL_SECONDS = 0.2


class AsyncClient:
    """A client of one service with one key, for asyncio. Parameters and errors as of `Client`.

    Examples
    --------
    >>> async with AsyncClient("http://127.0.0.1:8000", key) as client:
    ...     fits = await asyncio.gather(*(client.fit(job) for job in jobs))
    """

    def __init__(self, base_url: str, key: str, *, timeout: float | None = 60.0) -> None:
        self._http = connected(httpx.AsyncClient, base_url, key, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request once. Raises UnreachedError."""
        path = checked_path(path)
        try:
            return await self._http.request(method, path, **request)
        except FAILED as error:
            failed = unreached(error, self._http.base_url)
        raise failed  # outside, so that it does not lead to the request, which holds the key

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        response = await self._request(method, path, **request)
        for _ in range(PATIENCE):
            if "files" in request or not too_fast(response):  # a file is read once
                break
            await asyncio.sleep(float(response.headers["Retry-After"]))
            response = await self._request(method, path, **request)
        check(response)
        return response

    async def call(self, method: str, path: str, **request: Any) -> Json:
        """Make any call of the contract. request: as httpx takes it, a query as params."""
        return body_of(await self._send(method, path, **request))

    async def items(self, path: str) -> AsyncIterator[Json]:
        """Every item of a list, page after page."""
        cursor: str | None = None
        while True:
            page = await self.call("GET", path, params={"cursor": cursor} if cursor else {})
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def _dataset(self, name: str) -> str:
        """The id of a dataset, from its id or its name. Raises UnclearError."""
        if is_id(name):
            return name
        return id_of("dataset", name, [dataset async for dataset in self.datasets()])

    async def _job(self, body: Mapping[str, Any]) -> Json:
        """A job's body with the dataset's id, where it had the name."""
        dataset = body.get("dataset")
        return (
            {**body, "dataset": await self._dataset(dataset)}
            if isinstance(dataset, str)
            else {**body}
        )

    def datasets(self) -> AsyncIterator[Json]:
        """The public metadata of every dataset that this user may see."""
        return self.items("/v1/datasets")

    async def dataset(self, dataset: str) -> Json:
        """The public metadata of one dataset."""
        return await self.call("GET", f"/v1/datasets/{await self._dataset(dataset)}")

    async def dummy(self, dataset: str, rows: int = 100, *, seed: int = 0) -> dict[str, list[Any]]:
        """Rows made from declared bounds and categories alone. As Client.dummy."""
        path = f"/v1/datasets/{await self._dataset(dataset)}/dummy"
        params = {"rows": rows, "seed": seed}
        data: dict[str, list[Any]] = (await self.call("GET", path, params=params))["data"]
        return data

    async def upload(
        self,
        file: FilePath,
        metadata: Mapping[str, Any],
        *more: FilePath,
        schema: FilePath | None = None,
    ) -> Json:
        """Upload a CSV or Parquet file with its public metadata (admin only). As Client.upload."""
        with ExitStack() as stack:
            parts: list[tuple[str, Any]] = [("metadata", (None, json.dumps(metadata)))]
            if schema is not None:
                at = path_of(schema)
                parts.append(("schema", (at.name, await asyncio.to_thread(at.read_bytes))))
            for path in map(path_of, (file, *more)):
                content = stack.enter_context(await asyncio.to_thread(path.open, "rb"))
                parts.append(("file", (path.name, content)))
            return await self.call("POST", "/v1/datasets", files=parts)

    def sources(self) -> AsyncIterator[Json]:
        """The sources of which snapshots can be taken, and what they offer (admin only)."""
        return self.items("/v1/sources")

    async def snapshot(
        self,
        source: Mapping[str, str],
        metadata: Mapping[str, Any],
        progress: Callable[[int], None] | None = None,
    ) -> Json:
        """Register what a source has now as a dataset (admin only). As Client.snapshot."""
        body = {"source": dict(source), "metadata": dict(metadata)}
        return await self._taken("/v1/datasets/snapshots", body, progress)

    async def refresh(
        self,
        dataset: str,
        name: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Json:
        """Register a dataset's next version from its source (admin only). As Client.refresh."""
        path = f"/v1/datasets/{await self._dataset(dataset)}/refresh"
        return await self._taken(path, {"name": name}, progress)

    async def _taken(self, path: str, body: Json, progress: Callable[[int], None] | None) -> Json:
        """The dataset of a snapshot, once its stream of events has ended. Raises ApiError."""
        async for event in self._stream("POST", path, json=body):
            if event.name == "progress" and progress is not None:
                progress(event.data["rows"])
            if event.name == "problem":
                raise ApiError(event.data["status"], event.data)
            if event.name == "dataset":
                return event.data
        raise UnreachedError("lost", origin_of(self._http.base_url))

    async def me(self) -> Json:
        """Who the key's user is, with keys and mail address."""
        return await self.call("GET", "/v1/users/me")

    async def set_email(self, address: str | None) -> Json:
        """Say where mail about access requests is sent to you; None: nowhere."""
        return await self.call("PATCH", "/v1/users/me", json={"email": address})

    async def inspect(self, file: FilePath, format: Mapping[str, Any] | None = None) -> Json:
        """How a file is written, its columns and its first rows (admin only). As Client.inspect."""
        metadata = json.dumps({"format": format or {}})
        path = path_of(file)
        begun = await asyncio.to_thread(beginning, path)
        parts = {"metadata": (None, metadata), "file": (path.name, begun)}
        return await self.call("POST", "/v1/datasets/inspect", files=parts)

    async def budget(self, dataset: str) -> Json:
        """A dataset's budget, and what of it is spent, reserved and left."""
        return await self.call("GET", f"/v1/datasets/{await self._dataset(dataset)}/budget")

    async def plan(self, job: Mapping[str, Any]) -> Json:
        """The cost and the expected quality of a job, from public facts; spends nothing."""
        return await self.call("POST", "/v1/plans", json=await self._job(job))

    async def submit(self, job: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Reserve the cost and queue the job. The same key never makes a second job."""
        headers = {"Idempotency-Key": checked_header(idempotency_key or str(uuid.uuid4()))}
        return await self.call("POST", "/v1/jobs", json=await self._job(job), headers=headers)

    def jobs(self) -> AsyncIterator[Json]:
        """The jobs that this user may see, newest first."""
        return self.items("/v1/jobs")

    async def job(self, job: str) -> Json:
        """One job: status, cost, progress."""
        return await self.call("GET", f"/v1/jobs/{job}")

    async def rename(self, job: str, **words: str | None) -> Json:
        """Change the name or the note of an own job: `rename(job, name="...", note=None)`.

        What is not named stays; None takes it off.
        """
        return await self.call("PATCH", f"/v1/jobs/{job}", json=words)

    async def cancel(self, job: str) -> Json:
        """Cancel a job. Once it runs, its debit stays."""
        return await self.call("POST", f"/v1/jobs/{job}/cancel")

    async def events(self, job: str) -> AsyncIterator[Event]:
        """The job's event stream, to its end. Raises as the other calls do."""
        async for event in self._stream("GET", checked_path(f"/v1/jobs/{job}/events")):
            yield event

    async def _stream(self, method: str, path: str, **request: Any) -> AsyncIterator[Event]:
        try:
            async with self._http.stream(method, path, headers=EVENTS, **request) as response:
                if response.is_error:
                    await response.aread()
                check(response)
                reader = EventReader()
                async for line in response.aiter_lines():
                    if (event := reader.read(line)) is not None:
                        yield event
                return
        except FAILED as error:
            failed = unreached(error, self._http.base_url)
        raise failed

    async def wait(self, job: str, *, timeout: float | None = 600.0) -> Json:
        """Poll until the job has ended. Raises TimeoutError after `timeout` seconds.

        timeout: above 0, or None to wait without end.
        """
        async with asyncio.timeout(checked_timeout(timeout)):
            while (answer := await self.job(job))["status"] not in FINAL:
                await asyncio.sleep(POLL_SECONDS)
        return answer

    async def fit(self, job: str, *, scale: str = "original", timeout: float | None = 600.0) -> Fit:
        """Wait for a job and return its posterior, typed, with `.to_arviz()`. As Client.fit."""
        ended = await self._succeeded(job, timeout)
        summary = await self.summary(job, scale=scale)
        return fit_of(ended, summary, await self.chain(job, "netcdf", scale=scale))

    async def _succeeded(self, job: str, timeout: float | None) -> Json:
        """Wait for a job. Raises ApiError where it has not succeeded."""
        ended = await self.wait(job, timeout=timeout)
        if ended["status"] != "succeeded":
            raise failed(ended)
        return ended

    async def summary(self, job: str, *, scale: str = "original") -> Summary:
        """Posterior summary of a succeeded job. scale: original or design."""
        return Summary(await self.call("GET", f"/v1/jobs/{job}/summary", params={"scale": scale}))

    async def chain(self, job: str, form: str = "json", *, scale: str = "original") -> bytes:
        """The released draws. form: json, csv, parquet or netcdf."""
        request: Json = {"headers": {"Accept": media_type_of(form)}, "params": {"scale": scale}}
        return (await self._send("GET", f"/v1/jobs/{job}/chain", **request)).content

    async def posteriors(
        self, job: str, question: Mapping[str, Any], *, scale: str = "original"
    ) -> Json:
        """Posterior, predictions and tests from a stored release under any prior; costs nothing."""
        request: Json = {"json": question, "params": {"scale": scale}}
        return await self.call("POST", f"/v1/jobs/{job}/posteriors", **request)

    async def posterior(
        self, job: str, question: Mapping[str, Any], *, scale: str = "original"
    ) -> Posterior:
        """As `posteriors`, as a typed result with `.to_arviz()`."""
        return posterior_of(await self.posteriors(job, question, scale=scale))

    async def task(
        self,
        job: str,
        *,
        level: float = 0.9,
        target: str = "population",
        timeout: float | None = 600.0,
    ) -> Task:
        """Wait for a task and return what it released, typed. As Client.task."""
        ended = await self._succeeded(job, timeout)
        return task_of(ended, await self.result(job, level=level, target=target))

    async def infer(
        self, job: str, question: Mapping[str, Any], *, timeout: float | None = 600.0
    ) -> Inference:
        """Posterior of a family's parameter given a released statistic, typed. As Client.infer."""
        answer = await self.inference(job, question)
        if "status" not in answer:
            return inference_of(answer)
        queued = answer["id"]
        ended, summary = await self._succeeded(queued, timeout), await self.summary(queued)
        return inference_of_job(ended, summary, json.loads(await self.chain(queued)))

    async def result(self, job: str, *, level: float = 0.9, target: str = "population") -> Json:
        """The released numbers of a task; costs nothing. As Client.result."""
        request: Json = {"params": {"level": level, "target": target}}
        return await self.call("GET", f"/v1/jobs/{job}/result", **request)

    async def inference(self, job: str, question: Mapping[str, Any]) -> Json:
        """Posterior draws of a parameter given a released statistic. As Client.inference."""
        return await self.call("POST", f"/v1/jobs/{job}/inferences", json=question)
