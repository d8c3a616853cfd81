"""What every test may use: real servers of its own, the shared vectors, the repository's root.

A server is found by TEST_POSTGRES_URL, TEST_REDIS_URL or TEST_RABBITMQ_URL, else on its usual port
here. Where it is absent the test skips; with CI=true it fails instead.
"""

import logging
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit, urlunsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent
WAITING = ("e2e", "worker", "load", "chaos", "r", "test_deployment.py")
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / "var" / "numba"))

from hypothesis import settings  # noqa: E402 - the cache's place must be set before any import

from tests.parts import part_of  # noqa: E402

# In CI the same examples each time: a change is judged by what it changes. Locally they vary.
settings.register_profile(
    "dpmcmc", deadline=None, print_blob=True, derandomize=os.environ.get("CI") == "true"
)
settings.load_profile("dpmcmc")


def absent(what: str) -> NoReturn:
    """Skip for want of something outside the repository, or fail where CI promised it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is needed in CI and is not there", pytrace=False)
    pytest.skip(f"{what} is not there")


def server(name: str, default: str) -> str:
    """The URL of a server that listens, from the environment or its usual place."""
    url = os.environ.get(f"TEST_{name}_URL", default)
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=2).close()
    except OSError:
        absent(f"{name.capitalize()} at {parts.hostname}:{parts.port}")
    return url


def pytest_addoption(parser: pytest.Parser) -> None:
    """--fuzz-seconds: how long sequences of requests are made up for both roles together.

    --pictures: the folder in which pictures of the pages are kept. --part: of the slow tests, which
    run: every n-th from k on.
    """
    parser.addoption("--fuzz-seconds", default="20", help="how long requests are made up")
    parser.addoption("--pictures", default="", help="where pictures of the pages are kept")
    parser.addoption("--part", default="0/1", help="k/n: a part of the slow tests", metavar="K/N")


def pytest_configure(config: pytest.Config) -> None:
    """Log as the service does, so that what a test finds in the log does not hang on others."""
    from app import logs
    from tests import repeatable

    if os.environ.get("CI") == "true":
        repeatable.begin(config)

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure("json", "INFO")
    root.handlers[:], root.level = handlers, level


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread files whose tests wait for programs evenly among those that compute.

    Side by side on the cores they would leave these idle. A file stays together. Of slow tests
    those of a part are left.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = set(slow) - set(part_of(slow, config.getoption("part")))
    if others:
        config.hook.pytest_deselected(items=sorted(others, key=lambda item: item.nodeid))
        items[:] = [item for item in items if item not in others]
    if not config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    folders = [ROOT / "tests" / name for name in WAITING]
    waiting = [path for path in files if any(map(path.is_relative_to, folders))]
    computing = [path for path in files if path not in waiting]
    places = {path: at / max(len(waiting), 1) for at, path in enumerate(waiting)}
    places |= {path: at / max(len(computing), 1) for at, path in enumerate(computing)}
    items[:] = [item for path in sorted(files, key=places.__getitem__) for item in files[path]]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of reference vectors that lies beside the repository, or DPMCMC_SHARED."""
    path = Path(os.environ.get("DPMCMC_SHARED", ROOT.parent / "shared"))
    if not path.is_dir():
        absent("the shared folder")
    return path


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A PostgreSQL database of the test's own, dropped afterwards."""
    import psycopg

    parts = urlsplit(server("POSTGRES", "postgresql://root@127.0.0.1:5432/postgres"))
    name = f"dpmcmc_test_{uuid.uuid4().hex}"
    with psycopg.connect(urlunsplit(parts), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield urlunsplit(parts._replace(scheme="postgresql+psycopg", path=f"/{name}"))
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def redis_url() -> Iterator[str]:
    """An empty Redis database of the test's own (1 to 15, claimed in 0), flushed afterwards."""
    import redis

    parts = urlsplit(server("REDIS", "redis://127.0.0.1:6379/0"))
    with redis.Redis.from_url(urlunsplit(parts)) as claims:
        number = next(
            (n for n in range(1, 16) if claims.set(f"dpmcmc:test:{n}", 1, nx=True, ex=900)), None
        )
        if number is None:
            pytest.fail("all Redis databases are claimed by other tests", pytrace=False)
        url = urlunsplit(parts._replace(path=f"/{number}"))
        with redis.Redis.from_url(url) as own:
            own.flushdb()
            yield url
            own.flushdb()
        claims.delete(f"dpmcmc:test:{number}")


def rabbitmqctl(*words: str) -> None:
    """Run the broker's own tool."""
    subprocess.run(["rabbitmqctl", "-q", *words], check=True, timeout=60, capture_output=True)


@pytest.fixture
def rabbitmq_url() -> Iterator[str]:
    """A RabbitMQ virtual host of the test's own, deleted afterwards.

    Where the broker's tool is not at hand, the virtual host that TEST_RABBITMQ_URL names.
    """
    parts = urlsplit(server("RABBITMQ", "amqp://guest:guest@127.0.0.1:5672//"))
    if not shutil.which("rabbitmqctl"):
        yield urlunsplit(parts)
        return
    name = f"dpmcmc_test_{uuid.uuid4().hex}"
    rabbitmqctl("add_vhost", name)
    rabbitmqctl("set_permissions", "-p", name, parts.username or "guest", ".*", ".*", ".*")
    yield urlunsplit(parts._replace(path=f"/{name}"))
    rabbitmqctl("delete_vhost", name)
