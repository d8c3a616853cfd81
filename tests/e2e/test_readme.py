"""The README's walk with curl is run as it stands, against a service of its own."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from dpmcmc.algorithms import ALGORITHMS
from dpmcmc_service.client.local import Service


def walk(readme: str) -> str:
    """Every sh block of the README, in order."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", readme, re.M | re.S))


def test_walk_with_curl_works_as_printed(
    service: Service, repository: Path, tmp_path: Path
) -> None:
    if not shutil.which("curl") and os.environ.get("CI") != "true":
        pytest.skip("curl is not there")
    script = walk((repository / "README.md").read_text())
    done = subprocess.run(
        [str(shutil.which("bash")), "-euo", "pipefail", "-c", script],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=240,
        env={
            **os.environ,
            "URL": service.url,
            "DPMCMC_ADMIN_KEY": service.admin_key,
            "TMPDIR": str(tmp_path),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in ('"expected_ess"', "succeeded", '"r_hat"', '"remaining"', '"budget_exhausted"'):
        assert shown in done.stdout
    for shown in ("Nothing is charged", '"log_bayes_factor"'):
        assert shown in done.stdout
    # of sound releases one in a hundred is called unreliable
    assert re.search("'status': '(un)?reliable'", done.stdout)


def test_library_example_prints_a_posterior(repository: Path, tmp_path: Path) -> None:
    (example,) = re.findall(
        r"^```python\n(.*?)^```", (repository / "README.md").read_text(), re.M | re.S
    )
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert "cost: epsilon 1, delta 1e-06" in done.stdout
    assert "1 call, a call of 1.6" in done.stdout
    assert "Intercept" in done.stdout


def test_every_dev_command_of_the_readme_exists(repository: Path) -> None:
    known = set(re.findall(r"^\./dev (\w+)", (repository / "dev").read_text(), re.M))
    named = set(re.findall(r"\./dev (\w+)", (repository / "README.md").read_text()))
    assert named <= known


def test_table_of_algorithms_is_the_registry(repository: Path) -> None:
    """Every algorithm has a line, and the options that it names are there."""
    lines = re.findall(
        r"^\| `(\w+)` \|[^|]*\|[^|]*\| (.*) \|$", (repository / "README.md").read_text(), re.M
    )
    assert [name for name, _ in lines] == list(ALGORITHMS)
    for name, own in lines:
        known = {field.name for field in fields(ALGORITHMS[name].options)}
        assert set(re.findall(r"`(\w+)`", own)) <= known
