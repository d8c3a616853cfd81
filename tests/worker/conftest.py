from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import House, house_in


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A service on each database, whose jobs are run by hand."""
    values = {}
    if request.param == "postgresql":
        values["database_url"] = request.getfixturevalue("postgres_url")
    with house_in(tmp_path, **values) as made:
        yield made
        made.services.close()
