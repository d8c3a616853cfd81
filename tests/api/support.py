"""A service in this process, or as a program of its own, and a small dataset to ask it about."""

import atexit
import io
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import UUID

import httpx
import pytest

from app.local_service import Service as Running
from app.local_service import free_port, stop, wait_ready
from app.main import create_app
from app.services import presence
from app.services.accounts.users import ensure_admin
from app.services.context import Services, open_services
from app.services.jobs.kinds import chains
from app.services.planning.processes import Planners
from app.services.upkeep import migrate
from app.settings import Settings
from dpmcmc.client import Client
from worker.run import run

with warnings.catch_warnings():  # it would rather have another client library
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

ADMIN = "dpm_first-admin-key-of-the-tests"
METADATA: dict[str, Any] = {
    "name": "people",
    "description": "made up",
    "privacy": {"neighbouring": "replace_one", "epsilon": 4.0, "delta": 1e-6},
    "separate_budget": {"reason": "many datasets of one test are made of the same rows"},
    "columns": [
        {"name": "age", "type": "number", "lower": 17, "upper": 90},
        {"name": "sex", "type": "category", "categories": ["Female", "Male"]},
        {"name": "income", "type": "binary", "categories": ["<=50K", ">50K"]},
    ],
}
ROWS = 200
MANY = {"rate_requests": 1_000_000}  # tests call as fast as they can


def csv_rows(rows: int = ROWS, seed: int = 1) -> list[tuple[str, str, str]]:
    draw = random.Random(seed)
    made = []
    for _ in range(rows):
        age = draw.randint(20, 80)
        income = ">50K" if draw.random() < 1 / (1 + math.exp((50 - age) / 20)) else "<=50K"
        made.append((str(age), draw.choice(("Female", "Male")), income))
    return made


def as_csv(rows: list[tuple[str, str, str]]) -> bytes:
    return "\n".join(["age,sex,income", *(",".join(row) for row in rows), ""]).encode()


CSV = as_csv(csv_rows())
PLANNERS = Planners(1, 60.0)  # of all services in this process: one takes a second to start


def job_of(dataset: str, **sampler: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": {
            "family": "logistic",
            "formula": "income ~ age + sex",
            "prior": {"kind": "normal", "scale": 2.5},
        },
        "sampler": {"algorithm": "dp_penalty", "num_steps": 60, "num_chains": 2} | sampler,
        "privacy": {"epsilon": 0.5, "delta": 1e-6},
        "accept_low_quality": True,  # a chain of a few steps, for what is around it
    }


@dataclass
class Caller:
    """Somebody with a key."""

    http: Any
    key: str
    id: str = ""

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}", **request.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **request)

    def get(self, path: str, **request: Any) -> httpx.Response:
        return self.call("GET", path, **request)

    def post(self, path: str, **request: Any) -> httpx.Response:
        return self.call("POST", path, **request)

    def upload(
        self, content: bytes | io.IOBase = CSV, metadata: Mapping[str, Any] = METADATA
    ) -> httpx.Response:
        parts = {"file": ("rows.csv", content), "metadata": (None, json.dumps(metadata))}
        return self.post("/v1/datasets", files=parts)


@dataclass
class House:
    """A service in this process. sent: ids that were handed to a broker that is not there."""

    http: TestClient
    services: Services
    settings: Settings
    sent: list[UUID] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.admin = Caller(self.http, ADMIN)

    def user(self, role: str, name: str = "") -> Caller:
        answer = self.admin.post(
            "/v1/users", json={"name": name or f"{role} {os.urandom(4).hex()}", "role": role}
        )
        assert answer.status_code == 201, answer.text
        return Caller(self.http, answer.json()["key"], answer.json()["id"])

    def dataset(self, **changes: Any) -> str:
        answer = self.admin.upload(metadata=METADATA | changes)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def submit(self, analyst: Caller, dataset: str, **sampler: Any) -> str:
        answer = analyst.post("/v1/jobs", json=job_of(dataset, **sampler))
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def run(self, job: str) -> None:
        run(self.services, UUID(job))


@cache
def template() -> Path:
    """A migrated database of SQLite, for copies."""
    folder = Path(mkdtemp(prefix="dpmcmc-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = Settings(data_dir=folder)
    migrate(settings)
    return folder / "dpmcmc.sqlite3"


def migrated(settings: Settings) -> None:
    """Make a new embedded database by copying, as migrating takes most of a house's start."""
    file = settings.data_dir / "dpmcmc.sqlite3"
    if settings.database_url or file.exists():
        migrate(settings)
        return
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(template(), file)


@contextmanager
def house_in(
    folder: Path, tokens: Any = None, *, worker: bool = True, **values: Any
) -> Iterator[House]:
    """A service in this process whose broker only remembers.

    worker: whether this process, whose tests run the jobs, counts as a worker that can take one.
    """
    settings = Settings(data_dir=folder, admin_key=ADMIN, **{**MANY, "workers": 0, **values})
    migrated(settings)
    sent: list[UUID] = []
    opened = open_services(settings)
    services = Services(settings, opened.sessions, opened.vault, sent.append)
    ensure_admin(services, ADMIN)
    if worker:
        presence.say(services.sessions, presence.WORKER, able=True)
    app = create_app(settings, open_house=lambda _: services, planners=PLANNERS, tokens=tokens)
    with TestClient(app, raise_server_exceptions=False) as http:
        yield House(http, services, settings, sent)


class Fake:
    """Blocks in place of the core's, of a job that stores no release."""

    stored = drawn = None

    def __init__(self, blocks: Iterator[Any]) -> None:
        self.blocks = blocks

    def __iter__(self) -> "Fake":
        return self

    def __next__(self) -> Any:
        return next(self.blocks)


def draw_with(monkeypatch: pytest.MonkeyPatch, fake: Callable[..., Iterator[Any]]) -> None:
    """Draw with `fake` in place of the core."""

    def drawn(*given: Any, whitening: None) -> Fake:  # none of these jobs uses one again
        return Fake(fake(*given))

    monkeypatch.setattr(chains, "run", drawn)


OPEN: list[Client] = []


def client(service: Running, key: str) -> Client:
    """A client that `running` closes."""
    OPEN.append(Client(service.url, key))
    return OPEN[-1]


@contextmanager
def running(
    folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Running]]:
    """The whole service as a program of its own."""
    port = free_port()
    service = Running(f"http://127.0.0.1:{port}", ADMIN, folder / "service.log")
    variables = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "BROKER_URL")}
    variables |= {"DPMCMC_DATA_DIR": str(folder), "DPMCMC_ADMIN_KEY": ADMIN}
    variables |= environment or {}
    command = [sys.executable, "-m", "app.serve", "--port", str(port)]
    with service.log.open("ab") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        try:
            wait_ready(process, service)
            yield process, service
        finally:
            while OPEN:
                OPEN.pop().close()
            stop(process)


def signed_in(house: House, key: str) -> str:
    """Sign in, and return the token of the session's forms."""
    house.http.cookies.clear()
    house.http.post("/login", data={"key": key, "then": "/me"})
    token = re.search('name="csrf" value="([^"]+)"', house.http.get("/me").text)
    assert token
    return token.group(1)
