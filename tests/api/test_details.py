"""What HTTP clients rely on beyond the contract's answers: HEAD, strict JSON, codes, counts."""

import ast
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import numpy as np
import pytest
from sqlalchemy import func, select, update

from app.api.codes import CODES, PLACE
from app.api.problems import CODES as OF_STATUS
from app.api.reasons import REASONS
from app.services.results import retention
from app.storage.rows import ChainBlockRow, JobRow, ReleaseRow
from app.storage.types import utc_now
from dpmcmc.base.private import Released
from dpmcmc.families import MODELS
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.api.support import CSV, METADATA, Caller, House, draw_with, job_of

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("app", "worker") for path in (ROOT / folder).rglob("*.py")]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_with(
        monkeypatch, lambda *_: iter([Released(np.random.default_rng(1).normal(size=(2, 60, 3)))])
    )


def codes_in_sources() -> set[str]:
    """Every code that the sources refuse with: of Refusal(status, code), IngestError(code) and

    what ingest.py gathers as (code, place, message).
    """
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if path.name == "ingest.py" and isinstance(node, ast.Assign | ast.Tuple):
                found |= gathered(node)
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", "")
            if name == "IngestError" and isinstance(node.args[0], ast.Constant):
                found.add(node.args[0].value)
            if name == "Refusal":
                code = node.args[1]
                if isinstance(code, ast.Constant):
                    found.add(code.value)
                else:  # of_status, which takes them from its table
                    known = path.name in ("problems.py", "uploads.py")  # see above
                    assert known, f"{path}: a code that cannot be read"
    return found | set(OF_STATUS.values())


def gathered(node: ast.Assign | ast.Tuple) -> set[str]:
    """Codes in `code = "a" if ... else "b"`, and in ("a", pointer, f"...")."""
    if isinstance(node, ast.Assign):
        named = getattr(node.targets[0], "id", "") == "code"
        words = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
        return set(words) if named else set()
    if not node.elts:
        return set()
    first, last = node.elts[0], node.elts[-1]
    if isinstance(first, ast.Constant) and isinstance(last, ast.JoinedStr) and len(node.elts) == 3:
        return {str(first.value)}
    return set()


def test_every_code_is_documented_and_none_that_is_not_there() -> None:
    assert codes_in_sources() == set(CODES)


def test_every_end_of_a_job_is_documented() -> None:
    used = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "error_code":
                used.add(getattr(node.value, "value", None))
    used -= {None}
    assert used
    assert used <= set(REASONS)


def test_a_problems_type_leads_to_its_explanation(house: House) -> None:
    problem = house.http.get("/v1/nowhere").json()
    page, _, anchor = problem["type"].partition("#")
    assert (page, anchor) == (PLACE, "not_found")
    answer = house.http.get(page)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    for code in CODES:
        assert f'id="{code}"' in answer.text
    for code in REASONS:
        assert f'id="job_{code}"' in answer.text


@pytest.mark.parametrize("path", ["/healthz", "/v1/jobs", "/v1/models", "/openapi.json", "/docs"])
def test_head_is_get_without_its_body(house: House, path: str) -> None:
    ada = house.user("analyst")
    got, head = ada.get(path), ada.call("HEAD", path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    assert head.headers.get("content-length") == got.headers.get("content-length")


def test_head_of_a_stream_does_not_wait_for_its_end(house: House) -> None:
    ada = house.user("analyst")
    job = house.submit(ada, house.dataset())
    answer = ada.call("HEAD", f"/v1/jobs/{job}/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert house.http.app.state.streams._open == {}  # type: ignore[attr-defined]


def test_head_is_offered_where_get_is(house: House) -> None:
    ada = house.user("analyst")
    assert "HEAD" in ada.call("PUT", "/v1/jobs").headers["allow"].split(", ")
    assert ada.call("HEAD", "/v1/plans").status_code == 405


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"name": "a", "name": "b", "role": "analyst"}', "/name"),
        ('{"name": "a", "role": "analyst", "role": "admin"}', "/role"),
        ('{"a/b~": 1, "a/b~": 1}', "/a~1b~0"),
        ('{"name": "a", "x": [{}, {"y": {"z": 1, "z": 1}}]}', "/x/1/y/z"),
    ],
)
def test_a_member_that_is_named_twice_is_refused(house: House, body: str, pointer: str) -> None:
    answer = house.admin.post(
        "/v1/users", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"pointer": pointer, "message": "This member is named twice."}
    ]


def test_a_member_of_an_uploads_metadata_that_is_named_twice_is_refused(house: House) -> None:
    import json

    text = json.dumps(METADATA).replace('"epsilon": 4.0', '"epsilon": 400.0, "epsilon": 4.0')
    parts = {"file": ("rows.csv", CSV), "metadata": (None, text)}
    answer = house.admin.post("/v1/datasets", files=parts)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/metadata/privacy/epsilon"


def test_a_client_that_leaves_is_counted_as_such(house: House) -> None:
    """Its body breaks off: neither the service nor anything behind it has failed."""
    messages = iter(
        [
            {"type": "http.request", "body": b'{"na', "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [
        (b"authorization", f"Bearer {house.admin.key}".encode()),
        (b"content-type", b"application/json"),
    ]
    scope = {
        "type": "http", "method": "POST", "path": "/v1/users", "raw_path": b"/v1/users",
        "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http",
        "server": ("x", 80), "http_version": "1.1", "root_path": "", "state": {},
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }  # fmt: skip
    anyio.run(house.http.app, scope, receive, send)
    counted = house.admin.get("/metrics").text
    assert 'status="499"' in counted
    assert 'status="5' not in counted
    assert not sent


def test_the_document_asks_for_what_the_server_asks_for(house: House) -> None:
    schemas = house.http.get("/openapi.json").json()["components"]["schemas"]
    ada, dataset = house.user("analyst"), house.dataset()
    job = job_of(dataset)
    mapping = schemas["JobIn"]["properties"]["sampler"]["discriminator"]["mapping"]
    assert set(mapping) == {"auto", *ALGORITHMS}
    for reference in mapping.values():
        assert "algorithm" in schemas[reference.rsplit("/", 1)[1]]["required"]
    assert ada.post("/v1/plans", json=job | {"sampler": {"num_steps": 5}}).status_code == 422
    kinds = [name for name, schema in schemas.items() if "kind" in schema.get("required", [])]
    assert {"Gaussian", "Laplace", "Repeat", "Compose", "Parallel"} <= set(kinds)
    price = {"events": [{"noise_multiplier": 1.0}], "delta": 1e-6}
    assert ada.post("/v1/accounting/compose", json=price).status_code == 422
    assert set(schemas["ModelSpec"]["properties"]["family"]["enum"]) == set(MODELS)
    assert set(schemas["Problem"]["properties"]["code"]["enum"]) == set(CODES)
    for item in ada.get("/v1/samplers").json()["items"]:
        assert "algorithm" in item["options"]["required"]


def test_the_event_stream_is_described(house: House) -> None:
    document = house.http.get("/openapi.json").json()
    answer = document["paths"]["/v1/jobs/{id}/events"]["get"]["responses"]["200"]
    content = answer["content"]["text/event-stream"]
    assert content["x-item-schema"]["properties"]["event"]["enum"] == ["status", "progress"]
    assert "StatusEvent" in document["components"]["schemas"]


@pytest.mark.usefixtures("quick")
def test_draws_are_deleted_after_their_days_and_the_job_stays(either_house: House) -> None:
    house = either_house
    object.__setattr__(house.settings, "chain_days", 30)
    ada, dataset = house.user("analyst"), house.dataset()
    old, young, waiting = (house.submit(ada, dataset) for _ in range(3))
    for job in (old, young):
        house.run(job)
    before = ada.get(f"/v1/jobs/{old}/summary").json()
    with house.services.sessions.write() as session:
        long_ago = utc_now() - timedelta(days=31)
        session.execute(update(JobRow).where(JobRow.id == UUID(old)).values(finished_at=long_ago))
        session.add(ReleaseRow(job_id=UUID(old), content={}))
    assert retention.expire(house.services) == 1
    assert retention.expire(house.services) == 0
    gone = ada.get(f"/v1/jobs/{old}/chain")
    assert (gone.status_code, gone.json()["code"]) == (410, "expired")
    assert ada.post(f"/v1/jobs/{old}/posteriors", json={}).json()["code"] == "expired"
    assert ada.get(f"/v1/jobs/{old}/summary").json() == before
    shown = ada.get(f"/v1/jobs/{old}").json()
    assert shown["status"] == "succeeded"
    assert shown["expired_at"] is not None
    assert ada.get(f"/v1/jobs/{young}").json()["expired_at"] is None
    assert ada.get(f"/v1/jobs/{young}/chain").status_code == 200
    assert ada.get(f"/v1/jobs/{waiting}/chain").json()["code"] == "job_not_finished"
    with house.services.sessions.read() as session:
        stored = select(func.count()).where(ChainBlockRow.job_id == UUID(old))
        assert session.scalar(stored) == 0
        assert session.get(ReleaseRow, UUID(old)) is None


def test_without_a_time_nothing_is_deleted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "expire", lambda _: pytest.fail("it deletes"))
    retention.Retention(house.services).round()


def test_files_of_sqlite_are_read_by_nobody_else(house: House) -> None:
    from app.storage.session import SessionFactory

    ada: Caller = house.user("analyst")
    house.submit(ada, house.dataset())
    folder = house.settings.data_dir
    files = [path for path in folder.iterdir() if "sqlite3" in path.name]
    assert len(files) >= 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    (folder / "dpmcmc.sqlite3").chmod(0o644)  # as older releases left it
    SessionFactory(house.settings.database).dispose()
    assert stat.S_IMODE((folder / "dpmcmc.sqlite3").stat().st_mode) == 0o600
