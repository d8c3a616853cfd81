"""The image and the composition mean what the code means: no misspelled key, no unknown setting."""

import contextlib
import importlib.util
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.client import Client
from app.settings import Settings
from worker.parent import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
# the keys of the compose specification that are used here; a misspelled one is in no such list
KEYS = {
    "": {"name", "services", "volumes", "secrets"},
    "service": {
        "image",
        "build",
        "restart",
        "read_only",
        "tmpfs",
        "cap_drop",
        "security_opt",
        "volumes",
        "secrets",
        "environment",
        "depends_on",
        "command",
        "ports",
        "healthcheck",
        "deploy",
        "stop_grace_period",
    },
    "healthcheck": {"test", "interval", "timeout", "retries", "start_period", "disable"},
    "deploy": {"replicas"},
    "depends_on": {"condition"},
    "secret": {"file"},
}
OURS = "dpmcmc:"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return content


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {n: s for n, s in compose["services"].items() if s["image"].startswith(OURS)}


def setting_names() -> set[str]:
    names = {f"DPMCMC_{name.upper()}" for name in Settings.model_fields}
    return names | {"DATABASE_URL", "BROKER_URL"}


def test_composition_uses_only_keys_that_compose_knows(compose: dict[str, Any]) -> None:
    assert {key for key in compose if not key.startswith("x-")} <= KEYS[""]
    for service in compose["services"].values():
        assert set(service) <= KEYS["service"]
        assert set(service.get("healthcheck", {})) <= KEYS["healthcheck"]
        assert set(service.get("deploy", {})) <= KEYS["deploy"]
        for needed in service.get("depends_on", {}).values():
            assert set(needed) == KEYS["depends_on"]
    for secret in compose["secrets"].values():
        assert set(secret) == KEYS["secret"]


def test_composition_refers_only_to_what_it_declares(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert {volume.split(":")[0] for volume in service["volumes"]} <= set(compose["volumes"])


def test_composition_sets_only_settings_that_exist(compose: dict[str, Any]) -> None:
    for service in ours(compose).values():
        assert set(service["environment"]) <= setting_names()


def test_every_role_is_a_module_that_can_be_started(compose: dict[str, Any]) -> None:
    assert {"api", "worker"} <= set(ours(compose))
    for service in ours(compose).values():
        module = service["command"][0]
        found = importlib.util.find_spec(module)
        assert found is not None
        if found.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__") is not None


@pytest.mark.services
def test_the_roles_work_together_as_composed(
    compose: dict[str, Any], postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    """Every command of ours as the composition starts it, on PostgreSQL and Redis."""
    from app.client.local import free_port

    port = free_port()
    admin_key, master_key = tmp_path / "admin_key", tmp_path / "master_key"
    admin_key.write_text(secrets.token_hex(32))
    master_key.write_text(secrets.token_hex(32))
    given = {
        "DATABASE_URL": postgres_url,
        "BROKER_URL": redis_url,
        "DPMCMC_ADMIN_KEY_FILE": str(admin_key),
        "DPMCMC_MASTER_KEY_FILE": str(master_key),
        "DPMCMC_DATA_DIR": str(tmp_path / "data"),
    }
    with contextlib.ExitStack() as running:
        for name, service in ours(compose).items():
            environment = {**os.environ, **service["environment"], **given}
            command = [sys.executable, "-m", *service["command"]]
            if name == "api":
                command = [sys.executable, "-m", "app.serve", "--port", str(port)]
            running.enter_context(started(command, environment, tmp_path / f"{name}.log"))
        key = admin_key.read_text()
        answer = first_job(f"http://127.0.0.1:{port}", key, tmp_path)
    assert answer["status"] == "succeeded", (tmp_path / "worker.log").read_text()[-2000:]


@contextlib.contextmanager
def started(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, signal.SIGTERM),
        )
        try:
            yield
            process.terminate()
            assert process.wait(60) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def first_job(url: str, key: str, folder: Path) -> dict[str, Any]:
    """Upload a small table and run one job on it."""
    wait_until_ready(url)
    rows = folder / "rows.csv"
    rows.write_text("y,x\n" + "no,0\nyes,1\nno,1\nyes,0\n" * 50)
    metadata = {
        "name": "small",
        "privacy": {"neighbouring": "replace_one", "epsilon": 6.0, "delta": 1e-6},
        "columns": [
            {"name": "y", "type": "binary", "categories": ["no", "yes"]},
            {"name": "x", "type": "number", "lower": 0, "upper": 1},
        ],
    }
    job = {
        "model": {"family": "logistic", "formula": "y ~ x"},
        "sampler": {"algorithm": "dp_penalty", "num_steps": 20, "num_chains": 1},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
    }
    with Client(url, key) as admin:
        job["dataset"] = admin.upload(rows, metadata)["id"]
        analyst = admin.create_user("analyst", "analyst")["key"]
    with Client(url, analyst) as client:
        return client.wait(client.submit(job)["id"], timeout=120)


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail("the API did not become ready")


def test_every_role_of_ours_is_locked_down(compose: dict[str, Any]) -> None:
    for service in ours(compose).values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]


def test_only_the_api_is_reached_from_outside_and_from_this_host_alone(
    compose: dict[str, Any],
) -> None:
    open_ports = {n: s["ports"] for n, s in compose["services"].items() if "ports" in s}
    assert open_ports == {"api": ["127.0.0.1:8000:8000"]}


def test_no_secret_is_written_down_in_the_composition(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name or "@" in str(value):
                assert "${POSTGRES_PASSWORD:?" in value


def test_image_runs_without_root_and_copies_what_exists() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert re.fullmatch(r"USER \d+", [line for line in lines if line.startswith("USER")][-1])
    copied = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    assert all((ROOT / name).exists() for names in copied for name in names)


def test_image_gets_every_package_that_is_shipped() -> None:
    allowed = (ROOT / ".dockerignore").read_text()
    for folder in ("dpmcmc", "app", "worker", "migrations"):
        assert f"!{folder}\n" in allowed
