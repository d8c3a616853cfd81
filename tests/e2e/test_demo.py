"""`./dev demo` is the first thing that a newcomer runs."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

LIMIT_SECONDS = 60


def test_demo_shows_posterior_budget_and_refusal_within_a_minute(repository: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "app.client.demo"],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "COLUMNS": "120", "TERM": "dumb"},
    )
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    assert "R-hat" in done.stdout
    for parameter in ("Intercept", "chronic", "family_size", "income"):
        assert re.search(rf"^\s*{parameter} +-?\d+\.\d+ +\d+\.\d+", done.stdout, re.M)
    assert re.search(r"409 budget_exhausted: asked for epsilon 5", done.stdout)
    assert seconds < LIMIT_SECONDS


def test_demo_leaves_nothing_running_and_nothing_behind(repository: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "app.client.demo"]
    subprocess.run(command, cwd=repository, check=True, capture_output=True, env=environment)
    assert not list(tmp_path.glob("dpmcmc-demo-*"))
    left = [
        process
        for process in Path("/proc").glob("[0-9]*/environ")
        if str(tmp_path) in readable(process)
    ]
    assert not left


def readable(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
