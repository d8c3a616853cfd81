from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import House, house_in


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
