"""The database goes, or its disk is full, while a chain is stored: nothing lost, nothing twice."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from sqlalchemy import select, text

from app.storage.rows import ChainBlockRow, JobRow
from dpmcmc.base.private import Released
from tests.api.support import Caller, House, draw_with, house_in
from tests.chaos.programs import Program, postgres_server
from tests.chaos.stacks import small_disk
from tests.conftest import absent
from worker import run as running
from worker.lost_jobs import Recovery

STEPS, BLOCKS = 60_000, 3
PIECE = bytes(2**20)
MOST_PAGES = 2**30


@dataclass
class Server:
    """A PostgreSQL of the tests' own. disk: a small one that holds nothing else, if it has one."""

    program: Program
    url: str
    disk: Path | None

    def keep(self, stop: threading.Event) -> None:
        """Start it, and again whenever it has ended. It ends with the thread that calls this."""
        while not stop.wait(0.05):
            self.program.tend()
        self.program.kill(math.inf)

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.Error:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with small_disk() as (folder, own):
        made = postgres_server(folder)
        if made is None:
            absent("PostgreSQL's initdb")
        program, url = made
        started, stop = Server(program, url, folder if own else None), threading.Event()
        keeper = threading.Thread(target=started.keep, args=(stop,))
        keeper.start()
        try:
            started.wait()
            yield started
        finally:
            stop.set()
            keeper.join()


@pytest.fixture
def on_server(server: Server, tmp_path: Path) -> Iterator[House]:
    """A service whose database is on the server."""
    server.wait()
    name = f"dpmcmc_{uuid4().hex}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    url = server.url.rpartition("/")[0] + f"/{name}"
    with house_in(tmp_path, database_url=url) as house:
        yield house
        house.services.close()


@pytest.fixture
def on_file(tmp_path: Path) -> Iterator[House]:
    """A service on SQLite."""
    with house_in(tmp_path) as house:
        yield house
        house.services.close()


def blocks_around(act: Callable[[], object]) -> Callable[..., Iterator[Released[Any]]]:
    """Draws in place of the sampler's, a megabyte a block; `act` comes after the first one."""

    def draws(*_: Any) -> Iterator[Released[Any]]:
        for number in range(BLOCKS):
            if number == 1:
                act()
            yield Released(np.full((2, STEPS // BLOCKS, 3), float(number)))

    return draws


def submitted(house: House) -> tuple[Caller, str]:
    """An analyst, and a job of theirs."""
    analyst = house.user("analyst")
    return analyst, house.submit(analyst, house.dataset(), num_steps=STEPS)


def check(house: House, job: str, attempt: int = 1) -> None:
    """One debit, and one whole chain of that attempt."""
    with house.services.sessions.read() as session:
        row = session.get_one(JobRow, UUID(job))
        assert (row.status, row.released_attempt) == ("succeeded", attempt)
        stored = session.scalars(
            select(ChainBlockRow)
            .where(ChainBlockRow.job_id == row.id)
            .order_by(ChainBlockRow.attempt, ChainBlockRow.seq)
        ).all()
        assert [block.attempt for block in stored] == [attempt] * BLOCKS
        numbers = [np.frombuffer(block.payload, "<f8") for block in stored]
        assert [set(found) for found in numbers] == [{0.0}, {1.0}, {2.0}]
    items = house.admin.get(f"/v1/datasets/{row.dataset_id}/ledger").json()["items"]
    assert [entry["kind"] for entry in items] == ["open", "reserve", "post"]
    assert house.admin.post(f"/v1/datasets/{row.dataset_id}/ledger/verify").json()["ok"] is True


def limit_pages(house: House, most: int) -> None:
    """Let SQLite's file grow to no more than so many pages, as on a full disk."""
    with house.services.sessions.write() as session:
        session.execute(text(f"PRAGMA max_page_count={most}"))


@pytest.mark.longer
@pytest.mark.services
def test_a_database_that_is_killed_in_mid_job(
    server: Server, on_server: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, job = submitted(on_server)
    draw_with(monkeypatch, blocks_around(lambda: server.program.kill(1.0)))
    on_server.run(job)
    assert server.program.starts == 2
    check(on_server, job)


@pytest.mark.services
def test_a_disk_that_is_full_while_postgresql_stores_a_chain(
    server: Server, on_server: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.disk is None:
        pytest.skip("a small disk can be mounted by root only")
    ballast = server.disk / "ballast"
    later = threading.Timer(2.0, ballast.unlink)

    def fill() -> None:
        try:
            with ballast.open("wb", buffering=0) as file:
                while file.write(PIECE) == len(PIECE):
                    pass
        except OSError:
            pass
        later.start()

    _, job = submitted(on_server)
    draw_with(monkeypatch, blocks_around(fill))
    on_server.run(job)
    later.join()
    check(on_server, job)


def test_a_disk_that_is_full_for_a_moment_while_sqlite_stores_a_chain(
    on_file: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, job = submitted(on_file)
    stored, tries = running._stored, [0]

    def counted(*arguments: Any) -> bool:
        tries[0] += 1
        if tries[0] == BLOCKS:
            arguments[0].execute(text(f"PRAGMA max_page_count={MOST_PAGES}"))
        return stored(*arguments)

    monkeypatch.setattr(running, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(running, "_stored", counted)
    full = blocks_around(lambda: limit_pages(on_file, 1))  # taken for the present number
    draw_with(monkeypatch, full)
    on_file.run(job)
    assert tries[0] == BLOCKS  # once more than the blocks before the last
    check(on_file, job)


def test_a_disk_that_stays_full_leaves_the_job_to_the_next_attempt(
    on_file: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyst, job = submitted(on_file)
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(running, "PATIENCE_SECONDS", 0.3)
    draw_with(monkeypatch, blocks_around(lambda: limit_pages(on_file, 1)))
    on_file.run(job)
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "running"
    limit_pages(on_file, MOST_PAGES)
    now = 0.0
    recovery = Recovery(on_file.services, lambda: now)
    recovery.round()
    now = on_file.settings.lease_seconds + 0.1
    recovery.round()
    draw_with(monkeypatch, blocks_around(lambda: None))
    on_file.run(job)
    check(on_file, job, attempt=2)
