"""The banana experiment runs in pieces, keeps what it has, and shows the planner's choice ahead."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture
def run(repository, tmp_path):
    """Run a piece of the experiment: (its JSON, its CSV's rows)."""

    def command(*words):
        subprocess.run(
            [
                sys.executable,
                "-W",
                "error",
                repository / "experiments" / "banana_mmd.py",
                f"--output={tmp_path}",
                *words,
            ],
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(repository)},
            stdout=subprocess.DEVNULL,
        )
        assert (tmp_path / "banana_mmd.png").read_bytes().startswith(b"\x89PNG")
        with (tmp_path / "banana_mmd.csv").open() as lines:
            return json.loads((tmp_path / "banana_mmd.json").read_text()), list(
                csv.DictReader(lines)
            )

    return command


@pytest.mark.longer
def test_what_was_run_is_kept_and_what_is_missing_is_added(run):
    piece = ("--problem=d2-tempered", "--only", "noisy_mean", "exact", "--eps", "2")
    report, first = run(*piece, "--seeds=1")
    assert len(first) == 2
    _, second = run(*piece, "--seeds=2")
    assert second[:2] == first
    assert [row["seed"] for row in second] == ["0", "0", "1", "1"]
    assert report["thesis"]["d2-tempered"]["dp_hmc"]["1.0"] == 0.34


@pytest.mark.longer
def test_the_planners_choice_has_half_the_mmd_of_any_chain_of_the_thesis(run):
    words = ("--problem=d2", "--only", "auto", "--eps", "1", "2", "4", "--seeds=4")
    report, rows = run(*words)
    assert {row["chosen"] for row in rows} == {"noisy_mean"}
    for row in rows:
        assert float(row["spent"]) <= float(row["epsilon"])
    chains = {k: v for k, v in report["thesis"]["d2"].items() if k.startswith("dp_")}
    for epsilon, found in report["findings"]["d2"]["auto"].items():
        best = min(mmds[epsilon] for mmds in chains.values())
        assert found["mean"] <= 0.5 * best
        assert np.isfinite(found["standard_error"])
