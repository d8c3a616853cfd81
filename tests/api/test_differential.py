"""One row is replaced by an extreme one: no answer, log line or metric changes but the chain."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app import logs
from tests.api.support import Caller, House, as_csv, csv_rows, house_in, job_of

PLAIN = csv_rows()
EXTREMES = {
    "the farthest bounds": ("90", "Female", "<=50K"),
    "beyond the bounds, at length": ("-123456789.000000000000001", "Male", ">50K"),
}
NORMAL = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "TIME"),
    (r"dpm_[A-Za-z0-9_-]+", "KEY"),
    (r'"(hash|previous|head|signature)": ?"[0-9a-f]{64}"', r'"\1": "HASH"'),
    (r"""'"[0-9a-f]{32}"'""", "ETAG"),  # of an answer, which has identifiers and is compared itself
    (r'"ms": [0-9.]+', '"ms": MS'),
    (r"(dpmcmc_plans_total\{.*?\}) [0-9.]+", r"\1 OF THIS PROCESS"),  # which has both houses
    (r"(_seconds_(bucket|sum)\{.*?\}|_created\{.*?\}) [0-9.e+-]+", r"\1 SECONDS"),
)
NEVER_THE_SAME = {"/chain", "/summary"}
OF_ITS_OWN = {"x-request-id", "date", "content-length"}  # of each answer


def normal(text: str) -> str:
    for pattern, word in NORMAL:
        text = re.sub(pattern, word, text)
    return text


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Every log line of the service, as it would be written."""
    root = logging.getLogger()
    handlers, level, lines = root.handlers[:], root.level, io.StringIO()
    logs.configure("json", "INFO", lines)
    try:
        yield lines
    finally:
        root.handlers[:], root.level = handlers, level


VERDICT = re.compile(r'"verdict": ?(null|\{[^{}]*\})')


def ask(answers: list[Any], caller: Caller, method: str, path: str, **request: Any) -> Any:
    """Call, and note everything that came back."""
    answer = caller.call(method, path, **request)
    # a length is that of the body, which is compared itself: a moment on a whole second is shorter
    headers = {k: v for k, v in answer.headers.items() if k not in OF_ITS_OWN}
    body = answer.text
    if any(path.endswith(end) for end in NEVER_THE_SAME) and answer.status_code == 200:
        body = ""
    if re.fullmatch("/v1/jobs(/[^/]+(/events)?)?", path) and answer.status_code == 200:
        body = VERDICT.sub('"verdict":', body)  # of the draws, as the summary is
    if path == "/readyz":  # whether a worker was heard of lately hangs on the machine's load
        body = re.sub(r'"(status|worker)":"\w+"', r'"\1":', body)
    answers.append((method, path, answer.status_code, sorted(headers.items()), body))
    return answer


def everything(house: House, content: bytes) -> list[Any]:
    """The same requests over all addresses, and what they were answered with."""
    answers: list[Any] = []
    admin, ada = house.admin, house.user("analyst", "Ada")
    uploaded = admin.upload(content)
    dataset = uploaded.json()["id"]
    answers.append((uploaded.status_code, uploaded.text))
    body = job_of(dataset)
    ask(answers, ada, "POST", "/v1/plans", json=body)
    jobs = [ask(answers, ada, "POST", "/v1/jobs", json=body).json()["id"] for _ in range(2)]
    ask(answers, ada, "POST", "/v1/jobs", json=body | {"privacy": {"epsilon": 9.0, "delta": 1e-6}})
    ask(answers, ada, "GET", f"/v1/jobs/{jobs[0]}/chain")
    house.run(jobs[0])
    ended = ada.get(f"/v1/jobs/{jobs[0]}").json()
    assert ended["status"] == "succeeded", ended["error"]  # else there is nothing to compare
    ask(answers, ada, "POST", f"/v1/jobs/{jobs[1]}/cancel")
    for job in jobs:
        for what in ("", "/events", "/chain", "/summary"):
            ask(answers, ada, "GET", f"/v1/jobs/{job}{what}")
    for path in ("/v1/jobs", "/v1/datasets", f"/v1/datasets/{dataset}", "/v1/budget"):
        ask(answers, ada, "GET", path)
    ask(answers, ada, "GET", f"/v1/datasets/{dataset}/budget")
    ask(answers, admin, "GET", f"/v1/datasets/{dataset}/ledger")
    ask(answers, admin, "POST", f"/v1/datasets/{dataset}/ledger/verify")
    ask(answers, admin, "PATCH", f"/v1/datasets/{dataset}", json={"archived": True})
    ask(answers, admin, "GET", "/v1/users")
    for path in ("/healthz", "/readyz", "/metrics", "/v1/nowhere"):
        ask(answers, admin, "GET", path)
    sizes = sorted(file.stat().st_size for file in house.settings.datasets_dir.iterdir())
    ask(answers, admin, "DELETE", f"/v1/datasets/{dataset}")
    return [*answers, sizes]


def observed(folder: Path, content: bytes) -> tuple[list[str], list[str]]:
    """What the callers and the operators saw."""
    with logged() as lines, house_in(folder) as house:
        answers = everything(house, content)
    return [normal(repr(answer)) for answer in answers], normal(lines.getvalue()).splitlines()


@pytest.mark.parametrize("name", EXTREMES)
def test_nothing_but_the_chain_depends_on_one_row(name: str, tmp_path: Path) -> None:
    ours = observed(tmp_path / "a", as_csv(PLAIN))
    theirs = observed(tmp_path / "b", as_csv([*PLAIN[:-1], EXTREMES[name]]))
    assert len(ours[0]) > 25
    assert len(ours[1]) > 25
    for mine, other in zip(*[(seen[0]) for seen in (ours, theirs)], strict=True):
        assert mine == other
    assert ours[1] == theirs[1]


def test_the_comparison_would_see_a_difference(tmp_path: Path) -> None:
    ours = observed(tmp_path / "a", as_csv(PLAIN))
    theirs = observed(tmp_path / "b", as_csv([*PLAIN, EXTREMES["the farthest bounds"]]))
    assert ours[0] != theirs[0]  # the number of rows is public
