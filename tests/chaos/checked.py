"""Faults with something that must hold while they last. Each returns what is wrong, in words."""

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import httpx

from app.storage.files import name_of
from dpmcmc.client import Client, UnreachedError
from dpmcmc.client.answers import ApiError
from tests.chaos.clients import job_of
from tests.chaos.programs import kill
from tests.chaos.stacks import Stack

AGAIN_SECONDS = 90.0  # in which a stack does again what it did before
AWAY_SECONDS = 3.0
HANG_SECONDS = 8.0
LONG_STEPS = 1_000_000  # of jobs that run until they are cancelled
STRANGERS = 8  # with tokens, at once
TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im5vYm9keSJ9.e30.AAAA"  # RS256, with a key of that name
REFUSED = {httpx.codes.UNAUTHORIZED, httpx.codes.SERVICE_UNAVAILABLE}


@contextlib.contextmanager
def _occupied(stack: Stack) -> Iterator[bool]:
    """Whether every slot of every worker runs a job at once. Long jobs see to it, and end here."""
    jobs, waiting = list[str](), list(stack.keys)

    def all_run() -> bool:
        while waiting and (job := _submitted(stack, waiting[-1], LONG_STEPS, stack.datasets[0])):
            jobs.append(job)
            waiting.pop()
        return _running(stack) >= stack.slots

    try:
        yield stack.tend(AGAIN_SECONDS, all_run)
    finally:
        stack.tend(AGAIN_SECONDS, lambda: all(_cancelled(stack, job) for job in jobs))


def _running(stack: Stack) -> int:
    held = "SELECT count(*) FROM jobs WHERE status = 'running' AND owner IS NOT NULL"
    return int(stack.sql(held)[0][0])


def _submitted(stack: Stack, key: str, steps: int, dataset: str) -> str:
    """The id of a new job; empty where the service is away or refuses it."""
    try:
        with Client(stack.url, key, timeout=20) as client:
            return str(client.submit(job_of(dataset, steps))["id"])
    except (UnreachedError, ApiError):
        return ""


def _cancelled(stack: Stack, job: str) -> bool:
    """Cancel a job. Says whether it ends, or has ended."""
    try:
        with Client(stack.url, stack.admin_key, timeout=20) as client:
            client.cancel(job)
    except UnreachedError:
        return False
    except ApiError as error:
        return error.status < httpx.codes.INTERNAL_SERVER_ERROR
    return True


def idle_slots(stack: Stack) -> list[str]:
    """What is wrong where not every slot of every worker takes a job."""
    with _occupied(stack) as busy:
        return [] if busy else [f"{_running(stack)} of {stack.slots} slots take jobs"]


def take_the_broker_from_busy_workers(stack: Stack, choose: random.Random) -> list[str]:
    """The broker goes while every slot is busy, all jobs end meanwhile, and it comes back."""
    with contextlib.ExitStack() as away:
        with _occupied(stack):
            away.enter_context(stack.broker_away())
        stack.tend(20.0, lambda: not _running(stack))
        stack.tend(choose.uniform(0, AWAY_SECONDS))
    return idle_slots(stack)


DAMAGES: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "absent": lambda _, __: None,
    "empty": lambda _, __: b"",
    "cut": lambda own, _: own[:-1],
    "flipped": lambda own, _: own[:100] + bytes([own[100] ^ 1]) + own[101:],
    "another dataset's": lambda _, other: other,
}


def break_rows(stack: Stack, choose: random.Random) -> list[str]:
    """The file of a dataset is gone or damaged for a while. Nothing is paid for it."""
    dataset, other = choose.sample(stack.datasets[1:], 2)
    damage = choose.choice(list(DAMAGES))
    folder = stack.folder / "data" / "datasets"
    path = folder / name_of(UUID(dataset))
    whole = path.read_bytes()
    broken = DAMAGES[damage](whole, (folder / name_of(UUID(other))).read_bytes())
    _put(path, broken)
    try:
        before = stack.sql("SELECT id FROM jobs")
        noticed = stack.tend(AGAIN_SECONDS, lambda: _set_aside(stack, dataset))
        stack.tend(choose.uniform(0, AWAY_SECONDS))
        paid = _paid(stack, dataset) - {job for (job,) in before}
    finally:
        _put(path, whole)
    wrong = [f"job {job} was paid for rows that were {damage}" for job in paid]
    wrong += [] if noticed else [f"it was not noticed that rows were {damage}"]
    back = stack.tend(AGAIN_SECONDS, lambda: _used_again(stack, dataset))
    return wrong if back else [*wrong, f"rows that were {damage} cannot be put back"]


def _put(path: Path, content: bytes | None) -> None:
    """Replace a file at once; None: delete it."""
    if content is None:
        path.unlink()
        return
    beside = path.with_name("put")
    beside.write_bytes(content)
    beside.replace(path)


def _set_aside(stack: Stack, dataset: str) -> bool:
    """Have a job ask for a dataset's rows. Says whether it was noticed that they are broken."""
    _submitted(stack, stack.keys[0], 60, dataset)
    return [(dataset,)] == [
        (str(UUID(str(found))),)
        for (found,) in stack.sql("SELECT id FROM datasets WHERE unavailable_at IS NOT NULL")
    ]


def _paid(stack: Stack, dataset: str) -> set[object]:
    """The jobs that have paid for a dataset."""
    on_it = f"WHERE kind = 'post' AND dataset_id = '{stack.stored(dataset)}'"
    return {job for (job,) in stack.sql(f"SELECT job_id FROM ledger_entries {on_it}")}


def _used_again(stack: Stack, dataset: str) -> bool:
    """Say that a dataset's rows are right. Returns whether jobs may use it again."""
    try:
        with Client(stack.url, stack.admin_key, timeout=20) as client:
            return bool(client.amend(dataset, {"available": True})["status"] == "open")
    except (UnreachedError, ApiError):
        return False


def hang_what_is_outside(stack: Stack, choose: random.Random) -> list[str]:
    """The webhook and the identity provider take connections, and answer never or too slowly.

    Strangers come with tokens, and the workers are killed: what they ran is handed on meanwhile.
    """
    statuses, over = Counter[int](), threading.Event()
    strangers = [
        threading.Thread(target=_knock, args=(stack.url, statuses, over)) for _ in range(STRANGERS)
    ]
    stack.outside.become(choose.choice(("silent", "trickles")))
    for stranger in strangers:
        stranger.start()
    try:
        stack.tend(choose.uniform(0, HANG_SECONDS))
        held = _leases(stack)
        kill(*(pid for program in stack.workers for pid in program.tree()))
        kill(*(pid for api in stack.apis.values() for pid in api.tree()[1:]))
        handed_on = stack.tend(AGAIN_SECONDS, lambda: not held & _leases(stack))
    finally:
        over.set()
        stack.outside.become("answers")
        for stranger in strangers:
            stranger.join()
    wrong = [f"a token of nobody was answered {status}" for status in statuses.keys() - REFUSED]
    return wrong if handed_on else [*wrong, "leases outlived their workers while a webhook hung"]


def _leases(stack: Stack) -> set[tuple[object, ...]]:
    """The attempts at jobs that some worker has."""
    held = "SELECT id, token FROM jobs WHERE status = 'running' AND owner IS NOT NULL"
    return set(stack.sql(held))


def _knock(url: str, statuses: Counter[int], over: threading.Event) -> None:
    """Come with a token of nobody, again and again. An API that was killed is no answer."""
    while not over.wait(0.1):
        with contextlib.suppress(httpx.HTTPError):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            statuses[httpx.get(f"{url}/v1/datasets", headers=headers, timeout=30).status_code] += 1


def webhook_ends(stack: Stack) -> list[str]:
    """What is wrong where the webhook is not told in time where every ledger ends."""

    def missing() -> list[str]:
        ends = stack.sql("SELECT dataset_id, max(seq) FROM ledger_entries GROUP BY dataset_id")
        told = stack.outside.ends
        return [
            f"the webhook was told of {told.get(str(UUID(str(ledger))))} of {seq} entries"
            for ledger, seq in ends
            if told.get(str(UUID(str(ledger)))) != seq
        ]

    stack.tend(AGAIN_SECONDS, lambda: not missing())
    return missing()
