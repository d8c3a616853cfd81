"""The client by itself, against answers that are written here."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from dpmcmc.client import ApiError, Client, Event, render
from dpmcmc.client.cli import app
from tests.peers import QuietHandler, served

ID = "53c40a79-125f-46c4-bef4-ebdc7fc607ce"
BUDGET = {
    "dataset": "d1",
    "epsilon": 6.0,
    "delta": 1e-6,
    "spent": {"epsilon": 4.0},
    "reserved": {"epsilon": 0.0},
    "remaining": {"epsilon": 4.086},
}
REFUSAL = {
    "title": "Budget exhausted",
    "status": 409,
    "code": "budget_exhausted",
    "detail": "the job costs more than is left",
    "errors": [{"pointer": "/privacy/epsilon", "message": "at most 4.086"}],
}
STREAM = (
    ": hello\n\n"
    'event: status\ndata: {"status": "running"}\n\n'
    'id: 7\nevent: progress\ndata: {"step": 1,\ndata: "of": 2}\n\n'
    'event: status\ndata: {"status": "succeeded"}\n\n'
)


class Handler(QuietHandler):
    """Answers a few paths and remembers what it was asked."""

    asked: list[tuple[str, dict[str, str]]]

    def answer(self, status: int, body: str, media_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        type(self).asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        if self.path == "/v1/jobs":
            self.answer(200, json.dumps({"items": [{"id": "a"}], "next_cursor": "c&1"}))
        elif self.path == "/v1/jobs?cursor=c%261":
            self.answer(200, json.dumps({"items": [{"id": "b"}], "next_cursor": None}))
        elif self.path.endswith("/events"):
            self.answer(200, STREAM, "text/event-stream")
        elif self.path.endswith("/budget"):
            self.answer(200, json.dumps(BUDGET))
        elif self.path == "/v1/datasets":
            self.answer(502, "<html>a proxy's own page</html>", "text/html")
        else:
            self.answer(404, json.dumps({"code": "not_found", "title": "Not found"}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        type(self).asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        self.answer(409, json.dumps(REFUSAL), "application/problem+json")


@pytest.fixture
def peer() -> Iterator[str]:
    Handler.asked = []
    with served(Handler) as address:
        yield address


@pytest.fixture
def client(peer: str) -> Iterator[Client]:
    with Client(peer, "k") as made:
        yield made


def test_lists_are_followed_to_their_last_page(client: Client) -> None:
    assert [job["id"] for job in client.jobs()] == ["a", "b"]


def test_event_stream_is_read_with_its_comments_and_split_data(client: Client) -> None:
    assert list(client.events("j")) == [
        Event("status", {"status": "running"}),
        Event("progress", {"step": 1, "of": 2}),
        Event("status", {"status": "succeeded"}),
    ]


def test_refusal_carries_its_code_and_problem(client: Client) -> None:
    with pytest.raises(ApiError) as refused:
        client.submit({})
    assert (refused.value.status, refused.value.code) == (409, "budget_exhausted")
    assert refused.value.problem["errors"][0]["pointer"] == "/privacy/epsilon"


def test_answer_of_something_before_the_service_is_an_api_error_too(client: Client) -> None:
    with pytest.raises(ApiError, match="502"):
        list(client.datasets())


def test_every_submission_has_an_idempotency_key_of_its_own(client: Client) -> None:
    for _ in range(2):
        with pytest.raises(ApiError):
            client.submit({})
    keys = {headers["idempotency-key"] for _, headers in Handler.asked}
    assert len(keys) == 2
    with pytest.raises(ApiError):
        client.submit({}, idempotency_key="mine")
    assert Handler.asked[-1][1]["idempotency-key"] == "mine"


def test_key_travels_as_a_bearer_header_only(client: Client) -> None:
    client.budget(ID)
    path, headers = Handler.asked[-1]
    assert headers["authorization"] == "Bearer k"
    assert path == f"/v1/datasets/{ID}/budget"


def test_command_line_shows_a_refusal_without_a_traceback(peer: str, tmp_path: Any) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"dataset": ID}))
    done = CliRunner().invoke(app, ["--url", peer, "--key", "k", "submit", str(job)])
    assert done.exit_code == 1
    assert "budget_exhausted" in done.output
    assert "/privacy/epsilon: at most 4.086" in done.output
    assert "Traceback" not in done.output


def test_command_line_says_when_nobody_answers() -> None:
    done = CliRunner().invoke(app, ["--url", "http://127.0.0.1:9", "--key", "k", "jobs"])
    assert done.exit_code == 3
    assert "cannot reach" in done.output


def test_command_line_shows_a_budget(peer: str) -> None:
    done = CliRunner().invoke(app, ["--url", peer, "--key", "k", "budget", ID])
    assert done.exit_code == 0
    assert "4.086" in done.output


def test_budget_bar_is_as_long_as_asked_whatever_the_costs_compose_to() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(render.budget_bar(BUDGET, width=30))
    assert captured.get().strip() == "█" * 30


def test_a_client_that_asks_too_fast_waits_as_it_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([429, 429, 200])
    plain = Handler.do_GET

    def refuse(handler: Any) -> None:
        if next(answers) == 200:
            return plain(handler)
        body = json.dumps({"code": "rate_limited"}).encode()
        handler.send_response(429)
        handler.send_header("Retry-After", "2")
        handler.send_header("Content-Type", "application/problem+json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return None

    waited: list[float] = []
    monkeypatch.setattr(Handler, "do_GET", refuse)
    monkeypatch.setattr("dpmcmc.client.client.time.sleep", waited.append)
    assert client.budget(ID) == BUDGET
    assert waited == [2.0, 2.0]
