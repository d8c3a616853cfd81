"""One trace of a job across API and worker, that tells nothing of rows, and none unasked."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app import tracing
from app.settings import Settings
from tests.api.support import (
    ADMIN,
    METADATA,
    as_csv,
    client,
    csv_rows,
    job_of,
    running,
)
from tests.peers import QuietHandler, served

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
TOKEN = "for-the-collector-alone"


class Collector:
    """What was sent to an OTLP collector."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.tokens: set[str | None] = set()
        self.paths: set[str] = set()

    def spans(self) -> list[tuple[str, Any]]:
        """(service, span) of everything."""
        found = []
        for body in list(self.bodies):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                facts = {a.key: a.value.string_value for a in resource.resource.attributes}
                assert set(facts) == {"service.name"}
                for scope in resource.scope_spans:
                    found += [(facts["service.name"], span) for span in scope.spans]
        return found


@contextmanager
def collector() -> Iterator[tuple[Collector, str]]:
    made = Collector()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            made.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            made.tokens.add(self.headers["x-token"])
            made.paths.add(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with served(Handler) as address:
        yield made, address


def facts_of(span: Any) -> dict[str, Any]:
    values = {a.key: a.value for a in span.attributes}
    return {k: v.string_value or v.int_value for k, v in values.items()}


@pytest.mark.slow
def test_a_job_is_one_trace_across_api_and_worker_and_tells_nothing_of_rows(
    tmp_path: Path,
) -> None:
    plain = csv_rows()
    extreme = [("90", "Female", "<=50K"), *plain[1:]]
    with collector() as (seen, address):
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_EXPORTER_OTLP_HEADERS": f"x-token={TOKEN}",
            "FASTAPI_OTEL_AUTO_CONFIGURE": "true",  # asks the framework for more: in vain
        }
        with running(tmp_path, environment) as (_, service):
            admin = client(service, ADMIN)
            analyst = admin.create_user("analyst", "analyst")["key"]
            jobs = []
            for number, rows in enumerate((plain, extreme)):
                (tmp_path / "rows.csv").write_bytes(as_csv(rows))
                dataset = admin.upload(tmp_path / "rows.csv", METADATA)["id"]
                jobs.append(run_traced(service.url, analyst, dataset, number))
            wait_for_spans(seen, jobs)
    assert seen.paths == {"/v1/traces"}
    assert seen.tokens == {TOKEN}
    spans = seen.spans()
    traces = [[(s, x) for s, x in spans if x.trace_id.hex() == trace_of(n)] for n in (0, 1)]
    for job, trace in zip(jobs, traces, strict=True):
        one_tree(trace)
        assert {facts_of(x).get("dpmcmc.job.id", job) for _, x in trace} == {job}
    assert shape(traces[0]) == shape(traces[1])
    said = b"".join(seen.bodies)
    secrets = (ADMIN, analyst, "SELECT", "UPDATE", "income", "people", "/v1/datasets?", dataset)
    assert not [word for word in secrets if word.encode() in said]
    assert not [x for _, x in spans if x.events or x.links or x.status.message]
    routes = {facts_of(x).get("http.route") for _, x in spans} - {None}
    assert routes == {"/v1/users", "/v1/jobs", "/v1/jobs/{id}"}  # and no upload


def trace_of(number: int) -> str:
    return f"{TRACE[:-1]}{number}"


def run_traced(url: str, key: str, dataset: str, number: int) -> str:
    """Submit with a trace of the caller's own, and wait without one."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        parent = PARENT.replace(TRACE, trace_of(number))
        body = job_of(dataset, num_steps=2500)  # some blocks of draws
        answer = http.post("/v1/jobs", json=body, headers={"traceparent": parent})
        job = str(answer.json()["id"])
        deadline = time.monotonic() + 120
        while http.get(f"/v1/jobs/{job}").json()["status"] != "succeeded":
            assert time.monotonic() < deadline
            time.sleep(0.2)
    return job


def wait_for_spans(seen: Collector, jobs: list[str]) -> None:
    deadline = time.monotonic() + 60
    while sum(span.name == "run" for _, span in seen.spans()) < len(jobs):
        assert time.monotonic() < deadline, Counter(span.name for _, span in seen.spans())
        time.sleep(0.1)


def one_tree(trace: list[tuple[str, Any]]) -> None:
    """Every span but the request hangs below another one, as the way of a job has it."""
    by_id = {span.span_id: span.name for _, span in trace}
    below = {(span.name, by_id.get(span.parent_span_id)) for _, span in trace}
    assert {name for _, name in below} <= {*by_id.values(), None}
    below -= {("run", "reserve"), ("run", "submit")}  # the row is made in either
    assert below == {
        ("request", None),
        ("submit", "request"),
        ("reserve", "submit"),
        ("enqueue", "submit"),
        ("examine rows", "submit"),
        ("claim", "run"),
        ("open rows", "run"),
        ("store", "run"),
        ("succeed", "run"),
    }
    services = {name: service for service, span in trace for name in [span.name]}
    assert services["submit"] == "dpmcmc-api"
    assert services["run"] == "dpmcmc-worker"
    for _, span in trace:
        assert span.start_time_unix_nano <= span.end_time_unix_nano


def shape(trace: list[tuple[str, Any]]) -> Counter[Any]:
    """All that spans tell but identifiers and times."""
    private = {"dpmcmc.job.id", "dpmcmc.request.id"}
    return Counter(
        (service, span.name, *sorted((k, v) for k, v in facts_of(span).items() if k not in private))
        for service, span in trace
    )


def at(address: str) -> Settings:
    return Settings(**{"OTEL_EXPORTER_OTLP_ENDPOINT": address})  # type: ignore[arg-type]


@pytest.fixture
def traced() -> Iterator[Collector]:
    with collector() as (seen, address):
        tracing.configure(at(address), "api")
        yield seen
        tracing.close()


def test_an_exception_is_told_by_its_type_alone(traced: Collector) -> None:
    with pytest.raises(ValueError, match="Alice"), tracing.span("run"):
        raise ValueError("the row of Alice, aged 42")
    tracing.close()
    (_, span) = traced.spans()[0]
    assert facts_of(span) == {"error.type": "ValueError"}
    assert b"Alice" not in b"".join(traced.bodies)


def test_only_public_facts_can_be_told(traced: Collector) -> None:
    with pytest.raises(KeyError), tracing.span("run", mean=1.0):
        pass
    with tracing.span("run"), pytest.raises(KeyError):
        tracing.note(sql="SELECT 1")


@pytest.mark.parametrize("parent", ["", "00-0-0-00", "x" * 5000, PARENT.upper(), f"{PARENT}-extra"])
def test_a_parent_that_is_none_starts_a_trace_of_our_own(traced: Collector, parent: str) -> None:
    with tracing.span("request", parent=parent):
        found = tracing.carrier()
    assert found is not None
    assert found != parent
    assert tracing.PARENT.fullmatch(found)
    assert TRACE not in found


def test_a_collector_that_is_away_stops_nothing() -> None:
    tracing.configure(at("http://127.0.0.1:9"), "api")
    with tracing.span("request"):
        pass
    began = time.monotonic()
    tracing.close()
    assert time.monotonic() - began < 15


def test_without_a_collector_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from app import tracing
from app.services.context import open_services
from app.main import create_app
from app.settings import settings
import worker.tasks
tracing.configure(settings(), "api")
open_services(settings()).close()
create_app(settings())
with tracing.span("request"):
    tracing.note(status=200)
assert tracing.carrier() is None
ours = ("opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf", "botocore", "requests")
found = [name for name in sys.modules if name.startswith(ours)]
sys.exit(", ".join(found) or None)
"""
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        cwd=Path(__file__).resolve().parents[2],
        env={"DPMCMC_DATA_DIR": str(tmp_path), "PATH": ""},
    )
