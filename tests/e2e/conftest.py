"""A whole service, API and worker, as `./dev serve` starts it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpmcmc_service.client.local import Service, local_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The embedded default on a free port, one for each test module."""
    folder: Path = tmp_path_factory.mktemp("service")
    with local_service(folder) as running:
        yield running
