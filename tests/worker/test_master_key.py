"""A lost or another master key: nothing starts, and nothing is paid for that cannot be opened."""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import delete

from app import serve
from app.services.context import open_services
from app.settings import Settings
from app.storage.keys import KeyFileError
from app.storage.rows import FingerprintRow, JobRow
from tests.api.support import House, house_in
from worker.run import run


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """On either database."""
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with house_in(tmp_path, database_url=url) as made:
        yield made


def other_key(house: House) -> None:
    house.settings.master_key_path.write_text(secrets.token_hex(32))


def test_another_master_key_is_refused_at_start(house: House) -> None:
    house.dataset()
    house.dataset()
    other_key(house)
    with pytest.raises(KeyFileError, match="not the one that sealed 2 of 2 datasets"):
        open_services(house.settings)


def test_a_lost_master_key_is_not_made_anew(house: House) -> None:
    house.dataset()
    path = house.settings.master_key_path
    path.unlink()
    with pytest.raises(KeyFileError, match="there is no master key"):
        open_services(house.settings)
    assert not path.exists()


def test_a_master_key_is_made_where_nothing_is_sealed(house: House) -> None:
    house.settings.master_key_path.unlink()
    open_services(house.settings).close()
    assert house.settings.master_key_path.exists()


def test_destroyed_datasets_ask_for_the_key_of_their_fingerprints(house: House) -> None:
    """With another key nobody would notice that their rows come back, nor could take uploads in."""
    assert house.admin.call("DELETE", f"/v1/datasets/{house.dataset()}").status_code == 204
    open_services(house.settings).close()
    other_key(house)
    with pytest.raises(KeyFileError, match="not the one that sealed 1 of 1 datasets"):
        open_services(house.settings)
    house.settings.master_key_path.unlink()
    with pytest.raises(KeyFileError, match="there is no master key"):
        open_services(house.settings)


def test_datasets_that_left_nothing_ask_for_no_key(house: House) -> None:
    """They were destroyed before uploads left fingerprints."""
    assert house.admin.call("DELETE", f"/v1/datasets/{house.dataset()}").status_code == 204
    with house.services.sessions.write() as session:
        session.execute(delete(FingerprintRow))
    other_key(house)
    open_services(house.settings).close()


def test_the_service_says_in_one_line_why_it_does_not_start(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.dataset()
    other_key(house)
    monkeypatch.setattr(serve, "settings", lambda: house.settings)
    with pytest.raises(SystemExit) as ended:
        serve.main(["--port", "1"])
    said = str(ended.value)
    assert said.startswith("dpmcmc does not start: the master key in ")
    assert "\n" not in said


def test_nothing_is_paid_for_that_cannot_be_opened(house: House, tmp_path: Path) -> None:
    """A worker whose key is another leaves the job to one who can open its rows."""
    dataset, analyst = house.dataset(), house.user("analyst")
    job = house.submit(analyst, dataset)
    other = open_services(Settings(data_dir=tmp_path / "elsewhere", database_url=""))
    assert run(replace(house.services, vault=other.vault), UUID(job)) is False
    other.close()
    with house.services.sessions.read() as session:
        assert session.get_one(JobRow, UUID(job)).status == "queued"
    ledger = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert [entry["kind"] for entry in ledger] == ["open", "reserve"]
    assert run(house.services, UUID(job)) is True
    assert analyst.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
