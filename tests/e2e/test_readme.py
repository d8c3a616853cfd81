"""The README's walk with curl, and guides' commands, are run as they stand against a service."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpmcmc_service.client.demo import ALONE
from dpmcmc_service.client.local import Service, local_service


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


@pytest.mark.parametrize("guide", ["command_line", "budgets"])
def test_commands_of_a_guide_work_as_printed(guide: str, repository: Path, tmp_path: Path) -> None:
    """Each on a service of its own, as both destroy or spend."""
    script = walk((repository / "docs" / "guides" / f"{guide}.md").read_text())
    command = tmp_path / "dpmcmc"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dpmcmc_service "$@"\n')
    command.chmod(0o755)
    (tmp_path / "data").mkdir()
    with local_service(tmp_path / "data", ALONE) as service:
        done = subprocess.run(
            [str(shutil.which("bash")), "-euo", "pipefail", "-c", script],
            cwd=repository,
            capture_output=True,
            text=True,
            timeout=240,
            env={
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "PYTHONPATH": str(repository),
                "DPMCMC_URL": service.url,
                "DPMCMC_KEY": service.admin_key,
                "TMPDIR": str(tmp_path),
            },
        )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = {
        "command_line": ("expected width", "succeeded", "Bayes factor"),
        "budgets": ("raise_budget", "whole: 5 entries", "destroyed"),
    }
    for words in shown[guide]:
        assert words in done.stdout, done.stdout


def test_every_dev_command_of_the_readme_exists(repository: Path) -> None:
    known = set(re.findall(r"^\./dev (\w+)", (repository / "dev").read_text(), re.M))
    named = set(re.findall(r"\./dev (\w+)", (repository / "README.md").read_text()))
    assert named <= known
