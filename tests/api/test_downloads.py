"""What was released is written a piece at a time, for a few downloads of each caller at once."""

import csv
import io
import json
import socket
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow.parquet
import pytest
from sqlalchemy import delete, insert

from app.api.formats import CSV, FORMATS, JSON, NETCDF, PARQUET
from app.services.accounts.caller import Caller as Who
from app.services.context import Services
from app.services.results import chains, fetch
from app.storage.rows import ChainBlockRow
from dpmcmc.base.private import Released
from dpmcmc.posterior.datatree import data_tree
from tests.api.stalls import served
from tests.api.support import ADMIN, METADATA, Caller, House, draw_with, job_of
from tests.api.support import CSV as ROWS
from worker.run import run

STEPS, WARMUP = 90, 20
BLOCKS = (20, 7, 50, 13)


def draws(steps: int = STEPS) -> Any:
    found = np.random.default_rng(3).normal(size=(2, steps, 3))
    found[:, 5] = found[:, 4]  # a move that was not accepted
    return found


@pytest.fixture
def job(house: House, monkeypatch: pytest.MonkeyPatch) -> tuple[Caller, str]:
    """A finished job whose draws are in several blocks."""

    def blocks(*_: Any) -> Iterator[Any]:
        begin = 0
        for length in BLOCKS:
            yield Released(draws()[:, begin : begin + length])
            begin += length

    draw_with(monkeypatch, blocks)
    ada = house.user("analyst")
    job = house.submit(ada, house.dataset(), num_steps=STEPS, num_warmup=WARMUP)
    house.run(job)
    return ada, job


def lengthen(services: Services, job: str, steps: int) -> None:
    """Have a finished job's chain be of so many draws, in ten blocks."""
    one = np.ascontiguousarray(draws(steps // 10)).tobytes()
    with services.sessions.write() as session:
        session.execute(delete(ChainBlockRow))
        for seq in range(10):
            values = {"job_id": UUID(job), "attempt": 1, "seq": seq, "payload": one}
            at = {"first_draw": seq * steps // 10, "num_draws": steps // 10}
            session.execute(insert(ChainBlockRow).values(values | at))


def fetched(ada: Caller, job: str, kind: str) -> bytes:
    answer = ada.get(f"/v1/jobs/{job}/chain?scale=design", headers={"Accept": kind})
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


@pytest.mark.parametrize("numbers", [1, 10, 40, 10**6])
def test_every_format_is_the_same_however_small_its_pieces(
    job: tuple[Caller, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, numbers: int
) -> None:
    import xarray

    for name in ("NUMBERS_AT_ONCE", "GROUP_NUMBERS", "FILE_NUMBERS"):
        monkeypatch.setattr(f"app.api.formats.{name}", numbers)
    monkeypatch.setattr("app.api.formats.PIECE_BYTES", 100 * numbers)
    monkeypatch.setattr(chains, "PIECE_NUMBERS", numbers)
    whole = draws()
    assert np.array_equal(json.loads(fetched(*job, JSON))["draws"], whole)
    lines = list(csv.reader(io.StringIO(fetched(*job, CSV).decode())))
    assert [line[:3] for line in lines[1:]] == [
        [str(c), str(d), str(int(d < WARMUP))] for c in range(2) for d in range(STEPS)
    ]
    assert np.array_equal(np.array(lines[1:], float)[:, 3:], whole.reshape(-1, 3))
    table = pyarrow.parquet.read_table(io.BytesIO(fetched(*job, PARQUET)))
    assert np.array_equal(np.column_stack(table.columns)[:, 3:], whole.reshape(-1, 3))
    (tmp_path / "chain.nc").write_bytes(fetched(*job, NETCDF))
    with xarray.open_datatree(tmp_path / "chain.nc") as found:
        names = lines[0][3:]
        assert data_tree(whole, names, WARMUP, found.attrs).identical(found.load())


@pytest.mark.slow
def test_pieces_hold_little_of_a_long_chain(
    house: House, job: tuple[Caller, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain of 10 MB in each format: what is in memory at once is a small part of it."""
    ada, job_id = job
    monkeypatch.setattr(chains, "PIECE_NUMBERS", 2**13)
    monkeypatch.setattr("app.api.formats.GROUP_NUMBERS", 2**13)
    steps = 200_000
    lengthen(house.services, job_id, steps)
    for kind, written in FORMATS.items():
        chain = fetch.chain(house.services, Who(UUID(ada.id), "analyst"), UUID(job_id))
        assert chain.draws.shape == (2, steps, 3)
        if kind != JSON:  # the libraries of files are loaded
            next(written(chain))
        tracemalloc.start()
        for number, piece in enumerate(written(chain)):
            assert len(piece) < 2**21
            if number > 50:
                break
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * 2**20, kind


def test_a_table_comes_in_parts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, dataset = house.user("analyst"), house.dataset()
    task = {"kind": "synthetic", "marginals": [["sex", "income"], ["age"]], "tables": 2}
    body = {"dataset": dataset, "task": task, "privacy": {"epsilon": 2.0, "delta": 1e-6}}
    answer = ada.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    job = answer.json()["id"]
    house.run(job)

    def table(kind: str) -> bytes:
        found = ada.get(f"/v1/jobs/{job}/tables/1", headers={"Accept": kind})
        assert found.status_code == 200, found.text
        return bytes(found.content)

    whole = table(CSV)
    for numbers in (1, 50):
        monkeypatch.setattr(chains, "COLUMN_NUMBERS", numbers)
        monkeypatch.setattr("app.api.formats.NUMBERS_AT_ONCE", numbers)
        monkeypatch.setattr("app.api.formats.PIECE_BYTES", 10 * numbers)
        assert table(CSV) == whole
        parquet = pyarrow.parquet.read_table(io.BytesIO(table(PARQUET))).to_pylist()
        assert [list(map(str, row.values())) for row in parquet] == list(
            csv.reader(io.StringIO(whole.decode()))
        )[1:]


def test_downloads_of_one_caller_are_few_and_give_their_places_back(
    house: House, job: tuple[Caller, str]
) -> None:
    ada, job_id = job
    places, user = house.http.app.state.downloads, UUID(ada.id)  # type: ignore[attr-defined]
    for _ in range(4):
        places.take(user)
    asked: list[tuple[str, str, Any]] = [
        ("GET", "chain", None),
        ("GET", "result", None),
        ("GET", "tables/0", None),
        ("POST", "posteriors", {}),
        ("POST", "inferences", {}),
    ]
    for method, what, body in asked:
        answer = ada.call(method, f"/v1/jobs/{job_id}/{what}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_downloads"), what
        assert int(answer.headers["retry-after"]) > 0
    assert ada.get(f"/v1/jobs/{job_id}/summary").status_code == 200
    places.leave(user)
    for method, what, body in asked * 3:  # what is refused gives its place back as well
        answer = ada.call(method, f"/v1/jobs/{job_id}/{what}", json=body)
        assert answer.status_code in (200, 404, 409, 422), answer.text
    for _ in range(3):
        places.leave(user)
    assert not places._open


@pytest.mark.longer
def test_a_download_that_nobody_reads_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is closed and its place is free, however long the client keeps it open."""

    def blocks(*_: Any) -> Iterator[Any]:
        yield Released(draws())

    draw_with(monkeypatch, blocks)
    with served(tmp_path, send_seconds=0.5) as (server, services):
        import httpx

        url = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=url, timeout=60.0) as http:
            admin = Caller(http, ADMIN)
            dataset = admin.upload(ROWS, METADATA).json()["id"]
            user = admin.post("/v1/users", json={"name": "ada", "role": "analyst"}).json()
            ada = Caller(http, user["key"])
            job = ada.post("/v1/jobs", json=job_of(dataset, num_steps=STEPS)).json()["id"]
            run(services, UUID(job))
            lengthen(services, job, 200_000)
            places = server.config.app.state.downloads  # type: ignore[union-attr]
            lines = []
            for _ in range(4):
                line = socket.create_connection(("127.0.0.1", server.port))
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                head = f"GET /v1/jobs/{job}/chain HTTP/1.1\r\nHost: x\r\nAccept: text/csv\r\n"
                line.sendall(f"{head}Authorization: Bearer {ada.key}\r\n\r\n".encode())
                assert line.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
                lines.append(line)
            assert places._open[UUID(user["id"])] == 4
            assert ada.get(f"/v1/jobs/{job}/chain").status_code == 429
            until = time.monotonic() + 60.0
            while places._open and time.monotonic() < until:
                time.sleep(0.05)
            assert not places._open
            for line in lines:
                assert _cut(line)
            whole = ada.get(f"/v1/jobs/{job}/chain", headers={"Accept": "text/csv"})
            assert whole.text.count("\n") == 1 + 2 * 200_000


def _cut(line: socket.socket) -> bool:
    """Whether nobody is at the other end any more, who would take another request."""
    with line:
        for _ in range(100):
            try:
                line.sendall(b"x")
            except ConnectionError:
                return True
            time.sleep(0.05)
    return False


def test_a_task_whose_answer_is_too_large_is_refused_in_plan_and_submission(house: House) -> None:
    ada = house.user("analyst")
    columns = [
        {"name": f"c{k}", "type": "category", "categories": [f"word {n}" for n in range(30)]}
        for k in range(4)
    ]
    rows = "c0,c1,c2,c3\n" + "word 1,word 2,word 3,word 4\n" * 50
    dataset = house.admin.upload(rows.encode(), METADATA | {"columns": columns}).json()["id"]

    def asked(count: int) -> dict[str, Any]:
        counts = {"kind": "counts", "columns": [f"c{k}" for k in range(count)]}
        task = {"kind": "summaries", "statistics": [counts]}
        return {"dataset": dataset, "task": task, "privacy": {"epsilon": 1.0, "delta": 1e-6}}

    for path in ("/v1/plans", "/v1/jobs"):
        answer = ada.post(path, json=asked(4))
        assert (answer.status_code, answer.json()["code"]) == (422, "job_too_large")
        assert "MiB" in answer.json()["errors"][0]["message"]
        assert ada.post(path, json=asked(3)).status_code in (200, 202)


def test_a_large_answer_goes_out_in_pieces_that_wait_for_the_client() -> None:
    import asyncio

    from app.api.metrics import Metrics
    from app.api.middleware import PIECE_BYTES, Front

    body = bytes(range(256)) * (PIECE_BYTES // 64)
    sent: list[Any] = []

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "method": "GET", "path": "/", "headers": [], "state": {}}
    asyncio.run(Front(app, Metrics(), lambda _: 1, 1.0, {"x": 9})(scope, receive, send))
    parts = sent[1:]
    assert b"".join(part["body"] for part in parts) == body
    assert max(len(part["body"]) for part in parts) <= PIECE_BYTES
    assert [bool(part.get("more_body")) for part in parts] == [True] * (len(parts) - 1) + [False]
