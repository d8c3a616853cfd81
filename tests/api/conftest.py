from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import House, house_in


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as made:
        yield made
