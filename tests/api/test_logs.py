"""A job can be followed through the logs, from the request that made it to its end."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from app import logs
from tests.api.support import House, job_of


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level, written = root.handlers[:], root.level, io.StringIO()
    logs.configure("json", "DEBUG", written)
    try:
        yield written
    finally:
        root.handlers[:], root.level = handlers, level


def test_a_request_and_its_job_can_be_followed_in_the_logs(
    house: House, lines: io.StringIO
) -> None:
    analyst = house.user("analyst")
    body = job_of(house.dataset())
    answer = analyst.post("/v1/jobs", json=body, headers={"X-Request-Id": "mine-1"})
    job = answer.json()["id"]
    house.run(job)
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    mine = [line for line in said if line.get("request_id") == "mine-1"]
    assert {"job_accepted", "request"} <= {line["event"] for line in mine}
    assert {line.get("job", job) for line in mine} == {job}
    of_job = [(line["event"], line["attempt"]) for line in said if "attempt" in line]
    assert of_job == [("job_claimed", 1), ("job_ended", 1)]


def test_a_request_line_says_who_called_from_where_and_how_long_it_took(
    house: House, lines: io.StringIO
) -> None:
    ada = house.user("analyst")
    ada.get("/v1/jobs")
    house.http.get("/v1/jobs")
    house.dataset()
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    mine, nobody, upload = [line for line in said if line["event"] == "request"][-3:]
    assert (mine["user"], mine["role"], mine["client"]) == (ada.id, "analyst", "testclient")
    assert mine["key_id"] == ada.get("/v1/users/me").json()["keys"][0]["id"]
    assert 0 < mine["ms"] < 60_000
    assert (nobody["status"], nobody["client"]) == (401, "testclient")
    assert "user" not in nobody
    assert upload["route"] == "/v1/datasets"
    assert "ms" not in upload  # parsing takes as long as the rows are
    assert ada.key not in lines.getvalue()


def test_an_invented_method_makes_no_label_of_its_own(house: House) -> None:
    for method in ("BREW", "SELECT"):
        assert house.http.request(method, "/v1/jobs").status_code == 405
    said = house.admin.get("/metrics").text
    assert "BREW" not in said
    assert "SELECT" not in said
    assert 'method="other"' in said


def test_libraries_that_would_log_bodies_are_quiet_at_every_level(lines: io.StringIO) -> None:
    for name in ("botocore.endpoint", "urllib3.connectionpool", "opentelemetry.sdk"):
        logging.getLogger(name).debug("the row of Alice")
        logging.getLogger(name).warning("the row of Alice")
    assert "Alice" not in lines.getvalue()
