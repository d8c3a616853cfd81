"""The master key is changed: rows, keys, fingerprints and anchors go on under the new one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from app import rotate_key
from app.services import presence
from app.services.context import open_services
from app.settings import Settings
from app.storage.keys import KeyFileError, MasterKey, master_key
from tests.api.support import ADMIN, Caller, House, house_in

STAGES = ("_wrap", "_seal", "_sign", "sync_folder")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def url(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture(autouse=True)
def _nobody_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, which tests run the jobs in, does not count as one that has the key in use."""
    monkeypatch.setattr(presence, "alive", lambda _: False)


@contextlib.contextmanager
def lived_in(folder: Path, url: str) -> Iterator[tuple[House, Caller, str]]:
    with house_in(folder, database_url=url) as house:
        ada, dataset = house.user("analyst"), house.dataset()
        job = house.submit(ada, dataset)
        house.run(job)
        yield house, ada, dataset
        house.services.close()


def goes_on(folder: Path, url: str, ada: Caller, dataset: str, **values: Path) -> None:
    """Everybody's key works, rows open, the same rows are noticed, anchors are believed."""
    with house_in(folder, database_url=url, **values) as house:
        ada = Caller(house.http, ada.key)
        job = house.submit(ada, dataset)
        house.run(job)
        assert ada.get(f"/v1/jobs/{job}").json()["status"] == "succeeded"
        assert house.http.get("/readyz").json()["checks"]["ledger"] == "ok"
        again = house.admin.upload().json()
        assert again["warnings"][0]["dataset"] == dataset
        assert house.admin.post("/v1/audit/verify").json()["ok"]
        house.services.close()


def test_the_service_goes_on_under_the_new_key(tmp_path: Path, url: str) -> None:
    with lived_in(tmp_path, url) as (_, ada, dataset):
        using = Settings(data_dir=tmp_path, database_url=url, admin_key=ADMIN)
    old = (tmp_path / "master.key").read_text()
    assert rotate_key.rotate(using) == tmp_path / "master.key"
    new = (tmp_path / "master.key").read_text()
    assert new.splitlines()[0] != old.splitlines()[0]
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "master.key.next").exists()
    goes_on(tmp_path, url, ada, dataset)
    rotate_key.rotate(using)  # and once more
    goes_on(tmp_path, url, ada, dataset)
    with house_in(tmp_path, database_url=url) as house:
        actions = [e["action"] for e in house.admin.get("/v1/audit?limit=200").json()["items"]]
        assert actions.count("master_key.rotate") == 2
        house.services.close()
    (tmp_path / "master.key").write_text(old)
    with pytest.raises(KeyFileError, match="not the one that sealed 3 of 3 datasets"):
        open_services(using)


@pytest.mark.longer
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rotation_that_was_killed_goes_on(
    tmp_path: Path, url: str, stage: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lived_in(tmp_path, url) as (_, ada, dataset):
        using = Settings(data_dir=tmp_path, database_url=url, admin_key=ADMIN)
    real = getattr(rotate_key, stage)

    def killed(*given: object) -> object:
        if when == "after":
            real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(rotate_key, stage, killed)
        with pytest.raises(KeyboardInterrupt):
            rotate_key.rotate(using)
    rotate_key.rotate(using)
    goes_on(tmp_path, url, ada, dataset)


def test_the_key_in_use_is_the_new_one_alone_once_everything_is_wrapped(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, the service does not start with the old key and says what to do."""
    with lived_in(tmp_path, url) as (house, _, dataset):
        assert house.admin.call("DELETE", f"/v1/datasets/{dataset}").status_code == 204
        house.dataset()
        using = Settings(data_dir=tmp_path, database_url=url, admin_key=ADMIN)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(rotate_key, "_sign", killed)
        with pytest.raises(KeyboardInterrupt):
            rotate_key.rotate(using)
    with pytest.raises(KeyFileError, match=r"sealed 2 of 2 datasets.*rotate-key again"):
        open_services(using)
    rotate_key.rotate(using)
    open_services(using).close()


def test_a_database_from_before_the_rotation_is_rotated_again(tmp_path: Path) -> None:
    with lived_in(tmp_path, "") as (house, ada, dataset):
        using = Settings(data_dir=tmp_path, admin_key=ADMIN)
        house.http.close()
    key, database = tmp_path / "master.key", Path(str(make_url(using.database).database))
    old, before = key.read_text(), database.read_bytes()
    rotate_key.rotate(using)
    database.write_bytes(before)
    with pytest.raises(KeyFileError, match="not the one that sealed 1 of 1"):
        open_services(using)
    key.rename(tmp_path / "master.key.next")
    key.write_text(old)
    rotate_key.rotate(using)
    goes_on(tmp_path, "", ada, dataset)


def test_a_key_that_sealed_nothing_here_is_not_rotated(tmp_path: Path, url: str) -> None:
    """What it would carry on hashed nobody's API keys: every user would be locked out."""
    with lived_in(tmp_path, url) as (_, ada, dataset):
        using = Settings(data_dir=tmp_path, database_url=url, admin_key=ADMIN)
    path = tmp_path / "master.key"
    right = path.read_text()
    path.write_text("00" * 32)
    with pytest.raises(KeyFileError, match="not the one that sealed 1 of 1"):
        rotate_key.rotate(using)
    assert not (tmp_path / "master.key.next").exists()
    path.write_text(right)
    (tmp_path / "master.key.next").write_text("11" * 32)
    with pytest.raises(KeyFileError, match="was not made to follow"):
        rotate_key.rotate(using)
    (tmp_path / "master.key.next").unlink()
    rotate_key.rotate(using)
    goes_on(tmp_path, url, ada, dataset)


def test_the_new_key_may_go_elsewhere(tmp_path: Path, url: str) -> None:
    with lived_in(tmp_path, url) as (_, ada, dataset):
        using = Settings(data_dir=tmp_path, database_url=url, admin_key=ADMIN)
    elsewhere = tmp_path / "elsewhere"
    before = (tmp_path / "master.key").read_text()
    assert rotate_key.rotate(using, elsewhere) == elsewhere
    assert (tmp_path / "master.key").read_text() == before
    goes_on(tmp_path, url, ada, dataset, master_key_file=elsewhere)


def test_a_rotated_key_derives_anew_what_it_did_not_carry_on(tmp_path: Path) -> None:
    old = MasterKey(b"o" * 32)
    new = rotate_key.next_key(tmp_path / "next", old)
    assert new.derive("API keys") == old.derive("API keys")
    assert new.derive("fingerprints") == old.derive("fingerprints")
    for purpose in ("dataset keys", "anchors", "sealed fingerprints"):
        assert new.derive(purpose) != old.derive(purpose)
    assert rotate_key.next_key(tmp_path / "next", old).derive("anchors") == new.derive("anchors")


@pytest.mark.parametrize(
    "content", ["", "zz", "00" * 31, "00" * 32 + "\nAPI keys", "00" * 32 + "\nx 00"]
)
def test_a_broken_key_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "master.key"
    path.write_text(content)
    with pytest.raises(KeyFileError):
        master_key(path, create=False)


@pytest.mark.longer
@pytest.mark.parametrize("kind", [presence.API, presence.WORKER, presence.RECOVERY])
def test_nothing_is_rotated_while_a_process_has_the_key_in_use(
    tmp_path: Path, url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lived_in(tmp_path, url) as (house, ada, dataset):
        presence.say(house.services.sessions, kind, able=False)
    using = Settings(data_dir=tmp_path, database_url=url, admin_key=ADMIN)
    old = (tmp_path / "master.key").read_text()
    with monkeypatch.context() as patched:
        patched.setattr(presence, "alive", lambda _: True)
        patched.setattr(rotate_key, "settings", lambda: using)
        patched.setattr("sys.argv", ["rotate-key"])
        with pytest.raises(SystemExit, match=rf"still run \({kind} on .*stop them all"):
            rotate_key.main()
    assert (tmp_path / "master.key").read_text() == old
    assert not (tmp_path / "master.key.next").exists()
    rotate_key.rotate(using)
    goes_on(tmp_path, url, ada, dataset)
