"""The audit that ends a chaos run sees what it is there to see."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, update

from app.storage.rows import ChainBlockRow, JobRow
from tests.api.support import Caller, House, house_in
from tests.chaos.audit import audit, unfinished


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as made:
        yield made
        made.services.close()


@pytest.fixture
def analyst(house: House) -> Caller:
    return house.user("analyst")


@pytest.fixture
def ended(house: House, analyst: Caller) -> tuple[UUID, str]:
    """A dataset with a succeeded job."""
    dataset = house.dataset()
    job = house.submit(analyst, dataset)
    house.run(job)
    return UUID(dataset), job


def found(house: House, *accepted: str) -> list[str]:
    with house.services.sessions.read() as session:
        return audit(session, accepted)[0]


def test_it_finds_nothing_wrong_with_what_is_right(
    house: House, analyst: Caller, ended: tuple[UUID, str]
) -> None:
    dataset, job = ended
    cancelled = house.submit(analyst, str(dataset))
    analyst.post(f"/v1/jobs/{cancelled}/cancel")
    assert found(house, job, cancelled) == []


def test_it_misses_a_job_that_is_gone(house: House, ended: tuple[UUID, str]) -> None:
    _, job = ended
    gone = str(uuid4())
    assert found(house, job, gone) == [f"job {gone} was accepted and is gone"]


def test_it_sees_a_job_that_never_ended(
    house: House, analyst: Caller, ended: tuple[UUID, str]
) -> None:
    dataset, _ = ended
    job = house.submit(analyst, str(dataset))
    assert f"job {job} (queued): it has not ended" in found(house)
    with house.services.sessions.read() as session:
        assert len(unfinished(session)) == 1


def test_it_sees_a_chain_with_draws_missing(house: House, ended: tuple[UUID, str]) -> None:
    _, job = ended
    with house.services.sessions.write() as session:
        session.execute(delete(ChainBlockRow).where(ChainBlockRow.seq == 0))
    assert any("gap" in what or "draws of" in what for what in found(house, job))


def test_it_sees_draws_of_a_job_that_released_none(house: House, ended: tuple[UUID, str]) -> None:
    _, job = ended
    with house.services.sessions.write() as session:
        session.execute(update(JobRow).values(status="failed", released_attempt=None))
    assert found(house, job) == [f"job {job} (failed): it left draws behind"]


def test_it_sees_a_debit_without_a_run(
    house: House, analyst: Caller, ended: tuple[UUID, str]
) -> None:
    dataset, _ = ended
    job = house.submit(analyst, str(dataset))
    analyst.post(f"/v1/jobs/{job}/cancel")
    with house.services.sessions.write() as session:
        session.execute(update(JobRow).where(JobRow.id == UUID(job)).values(attempt=1))
    assert any("entries" in what for what in found(house, job))
