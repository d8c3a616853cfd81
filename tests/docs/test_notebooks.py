"""Every family has a notebook, and it runs from the root of a checkout."""

import os
import subprocess
import sys

import pytest

from dpmcmc.families import MODELS
from tests.docs.pages import ROOT

NOTEBOOKS = ROOT / "docs" / "notebooks"
WITHOUT = {"banana"}  # a shape to try samplers on: docs/guides/from_the_theses.md


def test_every_family_has_a_notebook():
    assert {path.stem for path in NOTEBOOKS.glob("*.py")} == set(MODELS) - WITHOUT


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) - WITHOUT))
def test_a_notebook_runs_and_prints_a_verdict_and_a_cost(name):
    run = subprocess.run(
        [sys.executable, NOTEBOOKS / f"{name}.py"],
        cwd=ROOT,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "eliable" in run.stdout
    assert "cost: epsilon" in run.stdout
