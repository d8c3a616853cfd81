"""The whole service as `./dev serve` starts it: a life, deaths of workers, an orderly end."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
import redis
from typer.testing import CliRunner

from app import serve
from app.local_service import Service, stop
from dpmcmc.client import Client
from dpmcmc.client.cli import app as cli
from dpmcmc.queries.statistics.inference import AlgorithmName
from tests.api.support import ADMIN, CSV, METADATA, as_csv, client, csv_rows, job_of, running

FAST = {"DPMCMC_LEASE_SECONDS": "3"}


LONG = {"algorithm": "dp_hmc", "num_steps": 30_000}  # some seconds


def children_of(pid: int) -> list[int]:
    """The processes that a process started, and theirs."""
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    own = [int(child) for child in listing]
    return own + [grandchild for child in own for grandchild in children_of(child)]


def wait_for(condition: Callable[[], Any], seconds: float = 90) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
    return found


def set_up(service: Service, folder: Path, epsilon: float = 4.0) -> tuple[Client, Client, str]:
    """An admin, an analyst and a dataset."""
    admin = client(service, ADMIN)
    rows = folder / "rows.csv"
    rows.write_bytes(CSV)
    privacy = METADATA["privacy"] | {"epsilon": epsilon}
    dataset = admin.upload(rows, METADATA | {"privacy": privacy})["id"]
    analyst = client(service, admin.create_user("Ada", "analyst")["key"])
    return admin, analyst, dataset


@pytest.fixture(params=["embedded", pytest.param("production", marks=pytest.mark.services)])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """The embedded default, and PostgreSQL with Redis."""
    if request.param == "embedded":
        return FAST
    return FAST | {
        "DATABASE_URL": request.getfixturevalue("postgres_url").replace("+psycopg", ""),
        "BROKER_URL": request.getfixturevalue("redis_url"),
    }


@pytest.fixture
def with_rabbitmq(request: pytest.FixtureRequest) -> dict[str, str]:
    """PostgreSQL with RabbitMQ."""
    return FAST | {
        "DATABASE_URL": request.getfixturevalue("postgres_url").replace("+psycopg", ""),
        "BROKER_URL": request.getfixturevalue("rabbitmq_url"),
    }


@pytest.fixture
def started(
    environment: dict[str, str], tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Service]]:
    with running(tmp_path, environment) as service:
        yield service


@pytest.mark.longer
def test_a_life_over_http(started: tuple[subprocess.Popen[bytes], Service], tmp_path: Path) -> None:
    process, service = started
    admin, analyst, dataset = set_up(service, tmp_path)
    submitted = analyst.submit(job_of(dataset, **LONG))
    events = list(analyst.events(submitted["id"]))
    statuses = [e.data["status"] for e in events if e.name == "status"]
    steps = [e.data["step"] for e in events if e.name == "progress"]
    assert statuses[-1] == "succeeded"
    assert statuses in (["queued", "running", "succeeded"], ["running", "succeeded"])
    assert steps == sorted(steps)
    assert steps[-1] == LONG["num_steps"]
    assert len(analyst.summary(submitted["id"])["parameters"]) == 3
    assert analyst.chain(submitted["id"], "netcdf")[:4] == b"\x89HDF"
    assert analyst.budget(dataset)["jobs"] == 1
    assert [e["kind"] for e in admin.ledger(dataset)] == ["open", "reserve", "post"]
    assert admin.verify(dataset)["ok"] is True
    assert httpx.get(f"{service.url}/metrics").status_code == 401
    bearer = {"Authorization": f"Bearer {service.admin_key}"}
    metrics = httpx.get(f"{service.url}/metrics", headers=bearer).text
    assert 'dpmcmc_jobs{status="succeeded"} 1.0' in metrics
    assert httpx.get(f"{service.url}/").status_code == 200
    assert httpx.get(f"{service.url}/docs").status_code == 200
    assert stop(process) == 0
    log = service.log.read_text()
    assert "Traceback" not in log
    assert "Female" not in log


def asked(dataset: str, epsilon: float, **what: Any) -> dict[str, Any]:
    privacy = {"epsilon": epsilon, "delta": 1e-6}
    return {"dataset": dataset, "privacy": privacy, "accept_low_quality": True} | what


LINEAR = {"family": "linear", "formula": "age ~ sex + income"}
LOGISTIC = {"family": "logistic", "formula": "income ~ age + sex"}
FLIPPED = {"form": "sequential", "noise": "randomised_response"}
GUESSES = {
    "family": "normal_mean",
    "options": {"sd": 13.0},
    "thetas": [30.0, 40.0, 50.0],
    "powers": [0.5, 1.0, 2.0],
}
NORMAL = {
    "family": "normal_mean",
    "options": {"sd": 13.0},
    "prior": {"kind": "uniform", "lower": 17.0, "upper": 90.0},
    "particles": 4,
    "chains": 2,
    "draws": 200,
}
METHODS = ("mcmc_normalx", "mcmc_fixeds", "bayes_fixeds_fast", "mcmc_bs", "adassp")


@pytest.mark.slow
def test_what_else_than_chains_runs_is_paid_for_and_seen(
    started: tuple[subprocess.Popen[bytes], Service], tmp_path: Path
) -> None:
    """Regression by each method on released sums, variational inference, and every task."""
    _, service = started
    admin, _, dataset = set_up(service, tmp_path, epsilon=20.0)
    key = admin.create_user("Grace", "analyst")["key"]
    analyst = client(service, key)
    sums = {"algorithm": "sufficient_statistics"}
    jobs = [asked(dataset, 1.0, model=LINEAR, sampler=sums | {"method": m}) for m in METHODS]
    jobs.append(asked(dataset, 1.0, model=LOGISTIC, sampler={"algorithm": "dp_vi"}))
    counts = {"kind": "counts", "columns": ["sex", "income"]}
    for task in (
        {"kind": "summaries", "statistics": [{"kind": "mean", "column": "age"}, counts]},
        {"kind": "synthetic", "columns": ["sex", "income"], "tables": 2},
        {"kind": "statistic", "column": "age"},
        {"kind": "statistic", "column": "age", "noise": "laplace"},
        {"kind": "statistic", "column": "age", "form": "sequential", "noise": "laplace"},
        {"kind": "statistic", "column": "income"} | FLIPPED,
        {"kind": "two_stages", "column": "age", "first_rows": 100} | GUESSES,
    ):
        body = asked(dataset, 0.5, task=task)
        del body["accept_low_quality"]
        jobs.append(body)
    ids = [analyst.submit(body)["id"] for body in jobs]
    ended = [analyst.wait(job) for job in ids]
    assert [one["status"] for one in ended] == ["succeeded"] * len(jobs)
    for job in ids[: len(METHODS)]:
        names = [one["name"] for one in analyst.summary(job)["parameters"]]
        assert names == ["Intercept", "sex[Male]", "income[>50K]", "log_sigma"]
    summaries, synthetic, *statistics = ids[len(METHODS) + 1 :]
    told = [analyst.result(job) for job in (summaries, synthetic, *statistics)]
    kinds = ["summaries", "synthetic", *["statistic"] * 4, "two_stages"]
    assert [one["kind"] for one in told] == kinds
    assert len(told[0]["estimates"]) == 6
    assert analyst.table(synthetic, 1).startswith(b"sex,income\r\n")
    assert admin.verify(dataset)["ok"] is True
    assert [e["kind"] for e in admin.ledger(dataset)].count("post") == len(jobs)
    with httpx.Client(base_url=service.url, follow_redirects=True, timeout=60) as page:
        page.post("/login", data={"key": key, "then": "/jobs"})
        listed = page.get("/jobs").text
        assert "sex, income" in listed
        assert "sufficient_statistics" in listed
        shown = [page.get(f"/jobs/{job}") for job in ids]
        assert [one.status_code for one in shown] == [200] * len(ids)
        by_id = dict(zip(ids, shown, strict=True))
        assert "mean of age" in by_id[summaries].text
        assert "table-1.csv" in by_id[synthetic].text
        assert "Two released sums" in by_id[statistics[-1]].text
        saved = page.get(f"/jobs/{synthetic}/table-0.parquet")
        assert saved.content[:4] == b"PAR1"
        read_by_each(page, key, statistics)
        read_by_jobs(page, analyst, key, statistics[1])
    read_on_a_terminal(service.url, key, statistics, tmp_path)


def read_on_a_terminal(url: str, key: str, statistics: list[str], folder: Path) -> None:
    """The command line tells of every statistic, infers from one, and saves the draws."""
    question, draws = folder / "question.json", folder / "draws.csv"
    question.write_text(json.dumps(NORMAL))

    def said(*words: str) -> str:
        found = CliRunner().invoke(cli, ["--url", url, "--key", key, *words])
        assert found.exit_code == 0, found.output
        return found.output

    assert all("noise" in said("result", job) for job in statistics)
    assert "chosen power" in said("result", statistics[-1])
    told = said("infer", statistics[0], str(question))
    assert "By mh" in told
    assert "nothing is charged" in told
    said("infer", statistics[0], str(question), "--output", str(draws))
    assert draws.read_text().startswith("chain,draw,warmup,mean")


def read_by_jobs(page: httpx.Client, analyst: Client, key: str, job: str) -> None:
    """Every algorithm runs on a worker, costs nothing, and has a page as other jobs have."""
    headers = {"Authorization": f"Bearer {key}", "Prefer": "respond-async"}
    for name in get_args(AlgorithmName):
        question = NORMAL | {"algorithm": name}
        answer = page.post(f"/v1/jobs/{job}/inferences", json=question, headers=headers)
        assert answer.status_code == 202, answer.text
        made = answer.json()["id"]
        ended = analyst.wait(made)
        assert (ended["status"], ended["algorithm"]) == ("succeeded", name)
        assert ended["cost"]["epsilon"] == 0.0
        assert [one["name"] for one in analyst.summary(made)["parameters"]] == ["mean"]
        told = page.get(f"/jobs/{made}")
        assert told.status_code == 200
        assert f"normal mean given job {job[:8]}" in told.text
        assert "Ask the release" not in told.text


def read_by_each(page: httpx.Client, key: str, statistics: list[str]) -> None:
    """Every algorithm reads what suits it, by the API and by the page's form."""
    share = {"family": "bernoulli", "prior": {"kind": "beta", "a": 1.0, "b": 1.0}}
    summed = [NORMAL | {"algorithm": one} for one in get_args(AlgorithmName)]
    asked = [
        *((statistics[1], one) for one in summed),
        (statistics[0], NORMAL),
        (statistics[3], share),
        (statistics[4], NORMAL),
    ]
    for job, question in asked:
        bearer = {"Authorization": f"Bearer {key}"}
        answer = page.post(f"/v1/jobs/{job}/inferences", json=question, headers=bearer)
        assert answer.status_code == 200, answer.text
        assert answer.json()["cost"] == {"epsilon": 0.0}
    form = {"family": "normal_mean", "sd": "13", "prior": "uniform", "first": "17", "second": "90"}
    csrf = re.search(r'"X-CSRF": "([^"]+)"', page.get(f"/jobs/{statistics[1]}").text)
    assert csrf
    headers = {"X-CSRF": csrf.group(1)}
    told = page.post(f"/jobs/{statistics[1]}/inference", data=form, headers=headers)
    assert "nothing is charged" in told.text
    wrong = form | {"second": "far"}
    told = page.post(f"/jobs/{statistics[1]}/inference", data=wrong, headers=headers)
    assert "must be a number" in told.text


@pytest.mark.longer
def test_a_worker_that_is_killed_in_mid_job_costs_one_debit_and_gives_one_chain(
    started: tuple[subprocess.Popen[bytes], Service], tmp_path: Path
) -> None:
    outlives_a_kill(*started, tmp_path)


@pytest.mark.slow
def test_each_process_of_a_worker_may_be_killed_while_it_waits(
    started: tuple[subprocess.Popen[bytes], Service], tmp_path: Path
) -> None:
    """One of them holds what the others wait for, where the broker has no event loop."""
    process, service = started
    _, analyst, dataset = set_up(service, tmp_path)
    for number in range(3):
        job = analyst.submit(job_of(dataset))["id"]
        assert analyst.wait(job, timeout=90)["status"] == "succeeded"
        # after a loss it may take a moment until there is one again
        pool = wait_for(lambda: [p for one in children_of(process.pid) for p in children_of(one)])
        os.kill(pool[number % len(pool)], signal.SIGKILL)
    assert analyst.wait(analyst.submit(job_of(dataset))["id"], timeout=90)["status"] == "succeeded"


@pytest.mark.slow
@pytest.mark.services
def test_a_worker_that_is_killed_in_mid_job_on_rabbitmq(
    with_rabbitmq: dict[str, str], tmp_path: Path
) -> None:
    with running(tmp_path, with_rabbitmq) as started:
        outlives_a_kill(*started, tmp_path)
        assert stop(started[0]) == 0


def outlives_a_kill(process: subprocess.Popen[bytes], service: Service, tmp_path: Path) -> None:
    """Kill every worker in mid-job: the job is paid for once and gives one whole chain."""
    admin, analyst, dataset = set_up(service, tmp_path)
    job = analyst.submit(job_of(dataset, **LONG))["id"]
    wait_for(lambda: analyst.job(job)["progress"]["step"] > 0)
    for pid in children_of(process.pid):
        os.kill(pid, signal.SIGKILL)
    ended = analyst.wait(job, timeout=120)
    assert ended["status"] == "succeeded"
    assert [e["kind"] for e in admin.ledger(dataset)] == ["open", "reserve", "post"]
    assert analyst.budget(dataset)["jobs"] == 1
    summary = analyst.summary(job)
    assert summary["draws"] + summary["num_warmup"] == LONG["num_steps"]


@pytest.mark.slow
def test_a_service_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with running(tmp_path, FAST | {"DPMCMC_WORKERS": "0"}) as (process, service):
        _, analyst, dataset = set_up(service, tmp_path)
        jobs = [analyst.submit(job_of(dataset))["id"] for _ in range(3)]
        key = analyst._http.headers["authorization"].split()[1]
        process.kill()
    with running(tmp_path, FAST) as (_, again):
        analyst = client(again, key)
        assert {analyst.wait(job)["status"] for job in jobs} == {"succeeded"}
        assert analyst.budget(dataset)["jobs"] == 3


@pytest.mark.slow
def test_a_broker_that_is_flushed_with_jobs_in_it_loses_none(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with running(tmp_path, environment | {"DPMCMC_WORKERS": "0"}) as (process, service):
        _, analyst, dataset = set_up(service, tmp_path)
        jobs = [analyst.submit(job_of(dataset))["id"] for _ in range(3)]
        key = analyst._http.headers["authorization"].split()[1]
        assert stop(process) == 0
    assert flush(environment, tmp_path) >= 3
    with running(tmp_path, environment) as (_, again):
        analyst = client(again, key)
        assert {analyst.wait(job)["status"] for job in jobs} == {"succeeded"}
        assert analyst.budget(dataset)["jobs"] == 3


def flush(environment: dict[str, str], folder: Path) -> int:
    """Throw every message away. Returns how many there were."""
    if "BROKER_URL" in environment:
        with redis.Redis.from_url(environment["BROKER_URL"]) as broker:
            queues = broker.keys("dpmcmc.jobs.*")  # that of the installation, once something waits
            waiting = sum(int(broker.llen(queue)) for queue in queues)  # type: ignore[arg-type]
            broker.flushdb()
            return waiting
    with contextlib.closing(sqlite3.connect(folder / "queue.sqlite3")) as file:
        thrown = file.execute("DELETE FROM message").rowcount
        file.commit()
        return thrown


@pytest.mark.slow
def test_sigterm_lets_a_running_job_finish_and_exits_0(tmp_path: Path) -> None:
    with running(tmp_path) as (process, service):
        _, analyst, dataset = set_up(service, tmp_path)
        job = analyst.submit(job_of(dataset, **LONG))["id"]
        wait_for(lambda: analyst.job(job)["progress"]["step"] > 0)
        key = analyst._http.headers["authorization"].split()[1]
        assert stop(process) == 0
    with running(tmp_path, FAST) as (_, again):  # a slow machine's was cut off, and is taken up
        analyst = client(again, key)
        assert analyst.wait(job)["status"] == "succeeded"
        assert analyst.budget(analyst.job(job)["dataset"])["jobs"] == 1


@pytest.mark.longer
def test_the_first_admins_key_is_made_and_told_once(tmp_path: Path) -> None:
    told = "The first admin's key, shown this once: "
    alone = {"DPMCMC_ADMIN_KEY": "", "DPMCMC_WORKERS": "0"}
    with running(tmp_path, alone) as (_, service):
        key = service.log.read_text().split(told)[1].split()[0]
        assert list(client(service, key).datasets()) == []
    with running(tmp_path, alone) as (_, service):
        lines = service.log.read_text().splitlines()
        assert sum(told in line for line in lines) == 1
        assert "The first admin's key: was shown when the service was first started" in lines
        assert f"Dashboard: {service.url}" in lines
        assert list(client(service, key).datasets()) == []


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:8000"),
        ("::", "http://[::1]:8000"),
        ("data.example", "http://data.example:8000"),
    ],
)
def test_the_address_that_is_told_opens_in_a_browser(host: str, told: str) -> None:
    assert serve.address(host, 8000) == told


@pytest.mark.parametrize(
    ("terminal", "without", "told"),
    [
        (True, "", "Dashboard: \x1b[1;36mhere\x1b[0m\n"),
        (True, "1", "Dashboard: here\n"),
        (False, "", "Dashboard: here\n"),
    ],
)
def test_colour_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    terminal: bool,
    without: str,
    told: str,
) -> None:
    monkeypatch.setenv("NO_COLOR", without)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    serve.tell("Dashboard", "here")
    assert capsys.readouterr().out == told


@pytest.mark.slow
def test_everything_ends_in_time_under_work(tmp_path: Path) -> None:
    """The API, a worker with a running job, and somebody who follows it: within 25 seconds."""
    with running(tmp_path, {"DPMCMC_DRAIN_SECONDS": "15"}) as (process, service):
        admin, _, dataset = set_up(service, tmp_path)
        key = admin.create_user("Bob", "analyst")["key"]
        bob = client(service, key)
        job = bob.submit(job_of(dataset, **LONG | {"num_steps": 1_000_000}))["id"]
        wait_for(lambda: bob.job(job)["status"] == "running")
        children = children_of(process.pid)
        begun = time.monotonic()
        with httpx.stream(
            "GET",
            f"{service.url}/v1/jobs/{job}/events",
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
        ):
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        assert time.monotonic() - begun < 25
        wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


@pytest.mark.slow
def test_a_service_with_plans_under_way_ends_in_time(tmp_path: Path) -> None:
    """They run in processes that end with it, whoever waits for them."""
    slow = {"algorithm": "dp_barker", "num_steps": 3000, "num_chains": 4, "batch": 10}
    settings = {"DPMCMC_DRAIN_SECONDS": "2", "DPMCMC_PLAN_SECONDS": "120"}
    with running(tmp_path, settings) as (process, service):
        admin, _, _ = set_up(service, tmp_path)
        rows = tmp_path / "many.csv"
        rows.write_bytes(as_csv(csv_rows(20_000)))
        privacy = METADATA["privacy"] | {"branches": {"gdp": 0.5, "rdp": [[16, 0.5]]}}
        dataset = admin.upload(rows, METADATA | {"privacy": privacy})["id"]
        key = admin.create_user("Bob", "analyst")["key"]
        headers = {"Authorization": f"Bearer {key}"}
        with ThreadPoolExecutor(4) as pool:
            for steps in range(4):
                body = job_of(dataset, **slow | {"num_steps": 3000 + steps})
                pool.submit(
                    httpx.post, f"{service.url}/v1/plans", json=body, headers=headers, timeout=60
                )
            time.sleep(2.0)
            children = children_of(process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
