"""A release that reads its rows anew at every pass, and a store that fails it on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app import ledger
from app.services.jobs.kinds.chains import ChainJob
from app.services.jobs.kinds.dry import DryChainJob
from app.services.jobs.kinds.tasks import TaskJob
from app.storage import files
from app.storage.cluster import ClusterKey, Order
from app.storage.errors import StoreAwayError
from app.storage.files import RowReader, name_of
from app.storage.local_store import LocalStore
from app.storage.store import Source
from dpmcmc import planner
from dpmcmc.inputs.options import DpHmcOptions, NoisyQuadraticOptions
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.privacy import discrete
from dpmcmc.queries.summaries.statistics import Counts
from dpmcmc.queries.tasks import StatisticTask, SummariesTask, TaskSpec, plan_task
from dpmcmc.releases import design_rows
from tests.api.support import Caller, House, job_of
from tests.storage.clusters import running as cluster_running
from tests.worker.test_run import Clock, kinds, recover, row, shown
from worker import run as running
from worker.lost_jobs import Recovery

PAID = ["open", "reserve", "post"]
READS = 2  # the examination and the head, which come before the first pass


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


@pytest.fixture(autouse=True)
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any dataset counts as large."""
    monkeypatch.setattr(files, "LARGEST_HELD", 0)
    monkeypatch.setattr(design_rows, "HELD_NUMBERS", 0)
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.01)


def submitted(analyst: Caller, dataset: str) -> str:
    body = job_of(dataset) | {"sampler": {"algorithm": "noisy_quadratic"}, "spend": "all"}
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def failing(monkeypatch: pytest.MonkeyPatch, fails: set[int], error: Exception) -> list[int]:
    """Let reads of the store fail by their number. Returns what noise was drawn before each."""
    unbroken, real, seen, drawn = LocalStore.read, discrete.gaussian_noise, list[int](), [0]

    def noise(*arguments: Any) -> Any:
        drawn[0] += 1
        return real(*arguments)

    @contextmanager
    def read(store: LocalStore, name: str, start: int = 0) -> Iterator[Source]:
        if name.endswith(files.SUFFIX):
            seen.append(drawn[0])
            if len(seen) in fails:
                raise error
        with unbroken(store, name, start) as file:
            yield file

    monkeypatch.setattr("dpmcmc.mechanisms.sums.gaussian_noise", noise)
    monkeypatch.setattr(LocalStore, "read", read)
    return seen


def test_each_pass_reads_the_rows_and_then_draws_its_noise(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = failing(monkeypatch, set(), StoreAwayError("away"))
    dataset = house.dataset()
    seen.clear()
    job = submitted(analyst, dataset)
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    passes = seen[READS:]
    assert len(passes) > 8
    assert passes == list(range(passes[0], passes[0] + len(passes)))


def test_a_store_that_is_away_in_mid_pass_is_waited_for(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    seen = failing(monkeypatch, {READS + 3, READS + 4}, StoreAwayError("away"))
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    assert row(house, job).attempt == 1
    assert kinds(house, dataset) == PAID
    passes = seen[READS:]
    assert passes[2] == passes[3] == passes[4]  # no noise was drawn meanwhile


def test_a_store_that_stays_away_leaves_the_job_to_an_attempt_with_fresh_noise(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PATIENCE_SECONDS", 0.0)
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    with monkeypatch.context() as during:
        failing(during, set(range(READS + 4, 10**6)), StoreAwayError("away"))
        house.run(job)
    assert shown(analyst, job)["status"] == "running"
    assert kinds(house, dataset) == PAID
    clock = Clock()
    recover(house, clock, Recovery(house.services, clock=clock))
    seen = failing(monkeypatch, set(), StoreAwayError("away"))
    house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    assert row(house, job).attempt == 2
    assert kinds(house, dataset) == PAID  # one debit, and nothing of it is given back
    assert seen[READS] == 0  # from its first event on


def test_a_file_that_is_damaged_between_two_passes_ends_the_job_and_the_debit_stays(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    folder, real, passes = house.settings.datasets_dir, RowReader.tables, [0]

    def tables(*arguments: Any) -> Any:
        passes[0] += 1
        if passes[0] == 3:
            path = folder / name_of(row(house, job).dataset_id)
            content = bytearray(path.read_bytes())
            content[50] ^= 1
            path.write_bytes(content)
        return real(*arguments)

    monkeypatch.setattr(RowReader, "tables", tables)
    house.run(job)
    ended = shown(analyst, job)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "dataset_unavailable")
    assert kinds(house, dataset) == PAID
    assert passes[0] == 3


@pytest.mark.longer
def test_a_job_is_summed_on_a_cluster_by_orders_for_the_event_that_it_paid_for(
    house: House, analyst: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = house.dataset()
    job = submitted(analyst, dataset)
    seen, events = failing(monkeypatch, set(), OSError()), set()
    unsealed, posted = ClusterKey.seal, ledger.post

    def seal(key: ClusterKey, what: object, purpose: bytes) -> bytes:
        if isinstance(what, Order):
            events.add(what.event)
        return unsealed(key, what, purpose)

    def post(*given: Any) -> Any:
        permit = posted(*given)
        paid.append(permit.event_digest)
        return permit

    paid: list[str] = []
    monkeypatch.setattr(ClusterKey, "seal", seal)
    monkeypatch.setattr("worker.run.ledger.post", post)
    with cluster_running(house.settings.data_dir, 1) as made:
        monkeypatch.setattr(running, "cluster_of", lambda _: made.cluster)
        house.run(job)
    assert shown(analyst, job)["status"] == "succeeded"
    assert len(seen) == READS  # this process read no row
    assert events == set(paid)
    assert len(paid) == 1
    assert kinds(house, dataset) == PAID


def test_what_reads_rows_in_pieces_is_admitted_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # of what counts as large
    names = [f"x{k}" for k in range(10)]
    columns = tuple(NumberColumn(name=name, lower=0.0, upper=1.0) for name in names)
    few, many = (Schema(columns=columns, rows=rows) for rows in (10**4, 10**8))
    model = ModelSpec(family="linear", formula="x0 ~ .")
    privacy = PrivacySpec(epsilon=1.0, delta=1e-9)
    release = JobSpec(model=model, privacy=privacy, sampler=NoisyQuadraticOptions())
    chain = JobSpec(model=model, privacy=privacy, sampler=DpHmcOptions())
    for made, spec, held in (
        (ChainJob, release, False),
        (ChainJob, chain, True),
        (DryChainJob, release, True),
    ):
        plan = planner.plan(many, spec, advise=False)
        assert (made(plan.spec).memory_bytes(many, plan) > 2**33) == held
        assert any("held in memory" in reason for reason in plan.reasons) == (spec is chain)
        short = planner.plan(few, spec, advise=False)
        assert not any("held in memory" in reason for reason in short.reasons)
    for task, held in (
        (SummariesTask(statistics=(Counts(("x1",)),)), False),
        (StatisticTask(column="x1", noise="laplace"), False),
        (StatisticTask(column="x1", form="median", noise="smooth_laplace"), True),
    ):
        own = PrivacySpec(epsilon=1.0, delta=1e-9)
        asked = TaskSpec(task=task, privacy=own)
        made_plan = plan_task(many, asked)
        assert (TaskJob(asked).memory_bytes(many, made_plan) > 2**33) == held
        assert any("held in memory" in reason for reason in made_plan.reasons) == held
