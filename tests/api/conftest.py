from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from app.services.jobs.kinds import chains
from dpmcmc.fit.run import run
from tests.api.support import House, house_in
from tests.sources import Seeded


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def either_house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A service on SQLite, and one on PostgreSQL."""
    url = "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    with house_in(tmp_path, database_url=url) as made:
        yield made
        made.services.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as made:
        yield made


@pytest.fixture
def known_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of jobs has a seed: of sound releases one in a hundred is called unreliable."""
    monkeypatch.setattr(chains, "run", partial(run, random=Seeded(1)))
