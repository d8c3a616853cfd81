"""The README's walk with curl, and guides' commands, are run as they stand against a service."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.local_service import Service


def walk(readme: str) -> str:
    """Every sh block of the README, in order."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", readme, re.M | re.S))


def ran(script: str, repository: Path, **variables: str) -> str:
    """What a script prints. It must end well."""
    done = subprocess.run(
        [str(shutil.which("bash")), "-euo", "pipefail", "-c", script],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.longer
def test_walk_with_curl_works_as_printed(
    service: Service, repository: Path, tmp_path: Path
) -> None:
    if not shutil.which("curl") and os.environ.get("CI") != "true":
        pytest.skip("curl is not there")
    done = ran(
        walk((repository / "README.md").read_text()),
        repository,
        URL=service.url,
        DPMCMC_ADMIN_KEY=service.admin_key,
        TMPDIR=str(tmp_path),
    )
    for shown in ('"expected_ess"', "succeeded", '"r_hat"', '"remaining"', '"budget_exhausted"'):
        assert shown in done
    for shown in ("Nothing is charged", '"log_bayes_factor"'):
        assert shown in done
    # of sound releases one in a hundred is called unreliable
    assert re.search("'status': '(un)?reliable'", done)


@pytest.mark.longer
@pytest.mark.parametrize(
    ("guide", "shown"),
    [
        ("command_line", ("expected width", "succeeded", "Bayes factor")),
        ("budgets", ("raise_budget", "whole: 5 entries", "destroyed")),
    ],
)
def test_commands_of_a_guide_work_as_printed(
    guide: str, shown: tuple[str, ...], service: Service, repository: Path, tmp_path: Path
) -> None:
    command = tmp_path / "dpmcmc"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dpmcmc.client "$@"\n')
    command.chmod(0o755)
    done = ran(
        walk((repository / "docs" / "guides" / f"{guide}.md").read_text()),
        repository,
        PATH=f"{tmp_path}:{os.environ['PATH']}",
        PYTHONPATH=str(repository),
        DPMCMC_URL=service.url,
        DPMCMC_KEY=service.admin_key,
        TMPDIR=str(tmp_path),
    )
    for words in shown:
        assert words in done, done


def test_every_dev_command_of_the_readme_exists(repository: Path) -> None:
    known = set(re.findall(r"^\./dev (\w+)", (repository / "dev").read_text(), re.M))
    named = set(re.findall(r"\./dev (\w+)", (repository / "README.md").read_text()))
    assert named <= known
