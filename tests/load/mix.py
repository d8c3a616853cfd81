"""32 analysts, an admin, two probes and hostile callers, all at once, who speak HTTP only."""

import asyncio
import json
import random
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.load import people
from tests.load.people import Json

THINK_SECONDS = 1.0  # between two calls of one analyst, on average
UPLOAD_SECONDS = 4.0
OFTEN = {"read": 40, "plan auto": 20, "plan": 10, "job": 20, "result": 10}
DEAREST = ("dp_barker", "dp_penalty_subsampled")
DEAR = {"num_steps": 600_000, "num_chains": 8}  # as many numbers as one job may have


@dataclass(slots=True)
class Record:
    """What was seen. taken: milliseconds by call; odd: answers that should not have come; attacks:
    what hostile callers did, and what they were answered."""

    taken: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    odd: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    attacks: dict[str, dict[str, int]] = field(default_factory=dict)

    @asynccontextmanager
    async def timed(self, name: str) -> AsyncIterator[None]:
        """Time a call; a connection that fails is odd."""
        began = time.perf_counter()
        try:
            yield
        except httpx.HTTPError as error:
            self.odd[f"{name}: {type(error).__name__}"] += 1
        else:
            self.taken[name].append(1000 * (time.perf_counter() - began))


@dataclass(slots=True)
class Caller:
    """One client with one key."""

    http: httpx.AsyncClient
    key: str
    record: Record

    async def call(self, name: str, method: str, path: str, **given: Any) -> httpx.Response | None:
        """A call whose time counts under a name; None where it was not answered as it should."""
        answer: httpx.Response | None = None
        headers = {"Authorization": f"Bearer {self.key}", **given.pop("headers", {})}
        async with self.record.timed(name):
            answer = await self.http.request(method, path, headers=headers, **given)
        if answer is not None and answer.is_error:
            self.record.odd[f"{name}: {answer.status_code} {_code(answer)}"] += 1
            return None
        return answer


def _code(answer: httpx.Response) -> str:
    kind = answer.headers.get("content-type", "")
    return str(answer.json().get("code", "")) if "json" in kind else ""


@dataclass(slots=True)
class Analyst(Caller):
    """Somebody who reads, plans, submits, follows and fetches, with pauses."""

    dataset: str
    choose: random.Random
    mine: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    async def live(self, over: asyncio.Event) -> None:
        """One thing after the other until it is over."""
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "read": self._read,
            "plan auto": self._plan,
            "plan": self._plan_dearly,
            "job": self._job,
            "result": self._result,
        }
        while not await _over(over, self.choose.expovariate(1 / THINK_SECONDS)):
            await acts[self.choose.choices(list(OFTEN), list(OFTEN.values()))[0]]()

    async def _read(self) -> None:
        paths = ["/v1/datasets", "/v1/budget", "/v1/jobs?limit=20", f"/v1/datasets/{self.dataset}"]
        if self.mine:
            paths.append(f"/v1/jobs/{self.choose.choice(self.mine)}")
        await self.call("GET of an analyst", "GET", self.choose.choice(paths))

    async def _plan(self) -> None:
        await self.call("POST plans, auto", "POST", "/v1/plans", json=self._body())

    async def _plan_dearly(self) -> None:
        dearest = self._body(algorithm=self.choose.choice(DEAREST), **DEAR)
        await self.call("POST plans, the dearest", "POST", "/v1/plans", json=dearest)

    def _body(self, **sampler: Any) -> Json:
        return people.body(self.dataset, self.choose.uniform(0.5, 2.0), **sampler)

    async def _job(self) -> None:
        answer = await self.call("POST jobs", "POST", "/v1/jobs", json=self._body())
        if answer is not None:
            job = answer.json()["id"]
            self.mine.append(job)
            await self._follow(job)

    async def _follow(self, job: str) -> None:
        """The job's events, to the last."""
        began, status = time.perf_counter(), "no status"
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            async with self.http.stream("GET", f"/v1/jobs/{job}/events", headers=headers) as answer:
                async for line in answer.aiter_lines():
                    status = told(line) or status
        except httpx.HTTPError as error:
            self.record.odd[f"events: {type(error).__name__}"] += 1
            return
        self.record.ended[status] += 1
        if status == "succeeded":
            self.done.append(job)
            seconds = time.perf_counter() - began
            self.record.taken["events, to succeeded"].append(1000 * seconds)

    async def _result(self) -> None:
        if self.done:
            job = self.choose.choice(self.done)
            await self.call("GET summary", "GET", f"/v1/jobs/{job}/summary")
            await self.call("GET chain, csv", "GET", f"/v1/jobs/{job}/chain", headers=_CSV)


_CSV = {"Accept": "text/csv"}


def told(line: str) -> str:
    """The status that a line of an event stream tells; empty where it tells another thing."""
    if not line.startswith("data:"):
        return ""
    return str(json.loads(line.removeprefix("data:")).get("status", ""))


async def _over(over: asyncio.Event, seconds: float) -> bool:
    """Pause. Says whether it is over."""
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def probed(url: str, key: str, dataset: str, seconds: float, record: Record) -> None:
    """What a process of its own sees of two calls meanwhile."""
    probe = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.load.probe"), stdin=PIPE, stdout=PIPE
    )
    asked = {"url": url, "key": key, "dataset": dataset, "seconds": seconds}
    answer, _ = await probe.communicate(json.dumps(asked).encode())
    found = json.loads(answer)
    record.odd.update(found["odd"])
    for name, taken in found["taken"].items():
        record.taken[name] += taken


async def attacked(asked: Json, seconds: float, record: Record) -> None:
    """Hostile callers in a process of their own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.load.hostile"), stdin=PIPE, stdout=PIPE
    )
    answer, _ = await process.communicate(json.dumps(asked | {"seconds": seconds}).encode())
    record.attacks = json.loads(answer)


async def upload(admin: Caller, over: asyncio.Event, rows: Path) -> None:
    """The table again and again, each time with a budget of its own."""
    content, number = rows.read_bytes(), 0
    while not await _over(over, UPLOAD_SECONDS):
        number += 1
        metadata = people.metadata(f"upload {number}")
        parts = {"file": ("rows.csv", content), "metadata": (None, metadata)}
        await admin.call("POST datasets, 20,000 rows", "POST", "/v1/datasets", files=parts)


async def crowd(
    url: str,
    admin_key: str,
    dataset: str,
    keys: list[str],
    rows: Path,
    seconds: float,
    hostile: Json,
) -> Record:
    """All of them for some seconds. The last key is the other analyst's, who only reads.

    hostile: what those are told who attack the service meanwhile.
    """
    record, over = Record(), asyncio.Event()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=url, timeout=120.0, limits=limits) as http:
        analysts = [
            Analyst(http, key, record, dataset, random.Random(n)) for n, key in enumerate(keys[:-1])
        ]
        admin = Caller(http, admin_key, record)
        tasks = [
            *(analyst.live(over) for analyst in analysts),
            probed(url, keys[-1], dataset, seconds, record),
            upload(admin, over, rows),
            attacked(hostile, seconds, record),
        ]
        running = [asyncio.create_task(task) for task in tasks]
        await asyncio.sleep(seconds)
        over.set()
        await asyncio.wait(running, timeout=20.0)  # a job's stream may go on: it was load enough
        for task in running:
            task.cancel()
        failed = await asyncio.gather(*running, return_exceptions=True)
        record.odd.update(
            type(one).__name__
            for one in failed
            if isinstance(one, Exception) and not isinstance(one, asyncio.CancelledError)
        )
    return record
