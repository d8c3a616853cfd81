"""No request holds the event loop: others are answered meanwhile."""

import json
import random
import time
from collections.abc import Iterator
from hashlib import sha256
from http import HTTPStatus

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api import hostile
from tests.api.hostile import LARGEST, Shape
from tests.api.stalls import MOST_SECONDS, Server, served
from tests.api.support import ADMIN, CSV, METADATA

READS = ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/problems", "/v1/models")
JSON = b"application/json"


class Target:
    """A service that is watched, an analyst's key and session, and a dataset."""

    def __init__(self, server: Server) -> None:
        self.server = server
        url = f"http://127.0.0.1:{server.port}"
        key = {"Authorization": f"Bearer {ADMIN}"}
        with httpx.Client(base_url=url, timeout=120.0) as http:
            parts = {"file": ("rows.csv", CSV), "metadata": (None, json.dumps(METADATA))}
            self.dataset = http.post("/v1/datasets", files=parts, headers=key).json()["id"]
            user = {"name": "ada", "role": "analyst"}
            self.key = str(http.post("/v1/users", json=user, headers=key).json()["key"])
            signed = http.post("/login", data={"key": self.key})
            self.cookie = str(signed.cookies["dpmcmc_session"])
            for path in (*READS, "/v1/plans"):  # what is made once is made
                http.get(path)
        csrf = sha256(f"forms of {self.cookie}".encode()).hexdigest()
        self.form = f"csrf={csrf}&dataset={self.dataset}&".encode()

    def shapes(self) -> dict[str, st.SearchStrategy[tuple[Shape, str, str]]]:
        """Strategies of requests, by what is hostile in them: each with a key and a cookie."""
        draws = st.builds(random.Random, st.integers(0, 2**16))
        near = st.integers(1, 4).map(lambda n: n * LARGEST // 4 - 1000)
        short = st.sampled_from([100, 7000, 14_000, 60_000, LARGEST])
        who = st.sampled_from([(self.key, ""), (ADMIN, ""), ("", "")])
        posts = st.sampled_from(
            [
                ("POST", "/v1/plans"),
                ("POST", "/v1/jobs"),
                ("POST", f"/v1/jobs/{self.dataset}/posteriors"),
                ("POST", f"/v1/jobs/{self.dataset}/inferences"),
                ("POST", "/v1/accounting/compose"),
                ("POST", "/v1/users"),
                ("POST", "/v1/users/me/keys"),
                ("POST", "/v1/audit/verify"),
                ("POST", "/v1/restore"),
                ("PATCH", f"/v1/datasets/{self.dataset}"),
                ("PUT", "/v1/plans"),
            ]
        )
        gets = st.sampled_from(
            [*READS, "/v1/jobs", "/v1/jobs/events", "/v1/users/me", "/jobs", "/login", "/x" * 3000]
        )
        forms = st.sampled_from(["/login", "/jobs/plan", "/jobs", "/me/keys", "/logout"])

        def body(at: tuple[str, str], name: str, draw: random.Random, size: int) -> Shape:
            return Shape(*at, kind=JSON, body=hostile.BODIES[name](draw, size))

        def chunks(at: tuple[str, str], chunk: int) -> Shape:
            return Shape(*at, kind=JSON, body=b"[1,2]" * (2000 * chunk), chunk=chunk)

        def query(path: str, name: str, draw: random.Random, size: int) -> Shape:
            return Shape("GET", path, query=hostile.QUERIES[name](draw, size))

        def header(path: str, name: str, draw: random.Random, size: int) -> Shape:
            return Shape("GET", path, header=hostile.header(name, draw, size))

        def head(at: tuple[str, str], name: str, draw: random.Random, size: int) -> Shape:
            made = hostile.header(name, draw, size)
            return Shape(*at, kind=JSON, body=b"{}", header=made)

        def form(path: str, name: str, draw: random.Random, size: int) -> Shape:
            sent = self.form + hostile.FORMS[name](draw, size)
            return Shape("POST", path, kind=b"application/x-www-form-urlencoded", body=sent)

        def parts(name: str, draw: random.Random, size: int) -> Shape:
            kind = b"multipart/form-data; boundary=x"
            sent = hostile.MULTIPART[name](draw, 2 * size)
            return Shape("POST", "/v1/datasets", kind=kind, body=sent)

        def asked(
            shape: st.SearchStrategy[Shape], by: st.SearchStrategy[tuple[str, str]]
        ) -> st.SearchStrategy[tuple[Shape, str, str]]:
            return st.tuples(shape, by).map(lambda made: (made[0], *made[1]))

        named = {
            kind: st.sampled_from(sorted(getattr(hostile, kind)))
            for kind in ("BODIES", "QUERIES", "HEADERS", "FORMS", "MULTIPART")
        }
        browser = st.just(("", self.cookie))
        return {
            "bodies": asked(st.builds(body, posts, named["BODIES"], draws, near), who),
            "chunks": asked(st.builds(chunks, posts, st.integers(1, 3)), who),
            "queries": asked(st.builds(query, gets, named["QUERIES"], draws, short), who),
            "headers": asked(st.builds(header, gets, named["HEADERS"], draws, short), who),
            "headers of posts": asked(st.builds(head, posts, named["HEADERS"], draws, short), who),
            "pages": asked(st.builds(header, gets, named["HEADERS"], draws, short), browser),
            "forms": asked(st.builds(form, forms, named["FORMS"], draws, near), browser),
            "short forms": asked(st.builds(form, forms, named["FORMS"], draws, short), browser),
            "uploads": asked(
                st.builds(parts, named["MULTIPART"], draws, near), st.just((ADMIN, ""))
            ),
        }


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with served(tmp_path_factory.mktemp("stalls")) as (server, _):
        yield Target(server)


KINDS = (
    *("bodies", "chunks", "queries", "headers", "headers of posts", "pages"),
    *("forms", "short forms", "uploads"),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_request_holds_the_loop(target: Target, kind: str) -> None:
    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(target.shapes()[kind])
    def ask(made: tuple[Shape, str, str]) -> None:
        shape, key, cookie = made
        longest, answer = target.server.stall(shape.written(key, cookie))
        assert (
            not answer
            or int(answer[9:12]) < HTTPStatus.INTERNAL_SERVER_ERROR
            or shape.path == "/readyz"
        )
        assert longest < MOST_SECONDS

    ask()


def test_a_file_of_very_many_columns_holds_nobody_up(target: Target) -> None:
    names = ",".join(f"c{at}" for at in range(38_000))
    file = f"{names}\n{'1,' * 37_999}1\n".encode()
    begin = b'--x\r\nContent-Disposition: form-data; name="file"; filename="wide.csv"\r\n\r\n'
    shape = Shape(
        *("POST", "/v1/datasets/inspect"),
        kind=b"multipart/form-data; boundary=x",
        body=begin + file + b"\r\n--x--\r\n",
    )
    longest, answer = target.server.stall(shape.written(ADMIN))
    assert answer.split()[1] == b"200"
    assert b'"c37999"' in answer
    assert longest < MOST_SECONDS


def test_the_watch_sees_what_holds_the_loop(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop itself at work, and a thread that does not let it go on."""
    from app.api import bodies

    def hold(*_: object) -> None:
        until = time.thread_time() + 2 * MOST_SECONDS
        while time.thread_time() < until:
            pass

    def hold_all(*_: object) -> None:
        sum(range(10**7))  # one call, which no other thread interrupts

    for body, slow in ((b"{}", hold), (b" " * 10_000 + b"{}", hold_all)):
        monkeypatch.setattr(bodies, "parse", slow)
        shape = Shape("POST", "/v1/users", kind=JSON, body=body)
        assert target.server.stall(shape.written(ADMIN))[0] > MOST_SECONDS


@pytest.mark.parametrize("name", sorted(hostile.BODIES))
def test_a_large_body_is_refused_in_few_words(target: Target, name: str) -> None:
    body = hostile.BODIES[name](random.Random(1), LARGEST - 1000)
    shape = Shape("POST", "/v1/plans", kind=JSON, body=body)
    answer = target.server.ask(shape.written(target.key))
    head, _, text = answer.partition(b"\r\n\r\n")
    assert head.split()[1] in (b"422", b"404"), name
    assert len(text) < 20_000
    assert len(json.loads(text).get("errors", [])) <= 20
