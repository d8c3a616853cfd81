"""The thesis' figures can be made again by one command each, and show what they should."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from dpmcmc.samplers import SAMPLERS


@pytest.fixture
def run(repository, tmp_path):
    """Run an experiment quickly: (its JSON, its CSV's rows)."""

    def command(name):
        subprocess.run(
            [
                sys.executable,
                "-W",
                "error",
                repository / "experiments" / f"{name}.py",
                "--quick",
                "--seed=1",
                f"--output={tmp_path}",
            ],
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(repository)},
            stdout=subprocess.DEVNULL,
        )
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        with (tmp_path / f"{name}.csv").open() as lines:
            return json.loads((tmp_path / f"{name}.json").read_text()), list(csv.DictReader(lines))

    return command


def test_contours_of_the_banana_hold_the_share_of_draws_that_they_say(run):
    report, rows = run("figure_2_1")
    assert len(rows) == 2 * 1000
    for panel in report["findings"].values():
        assert panel["probability_on_the_grid"] == pytest.approx(1.0, abs=0.01)
        for share, found in panel["share_of_draws_within"].items():
            sd = np.sqrt(float(share) * (1 - float(share)) / 1000)
            assert abs(found - float(share)) < 4 * sd


@pytest.mark.slow
def test_hard_clipping_is_seen_and_mild_clipping_is_not(run):
    _, rows = run("figure_7_1")
    for name, d in (("RWMH", "2"), ("HMC", "2"), ("HMC", "10")):
        some = [row for row in rows if (row["sampler"], row["d"]) == (name, d)]

        def mean(bound, key="mmd", some=some):
            return np.mean([float(row[key]) for row in some if row["bound"] == bound])

        assert mean("5.0", "clipped") < 0.001
        assert mean("0.1", "clipped") > 0.5
        assert mean("0.1") > 2 * mean("inf")
        assert mean("5.0") < 0.2


@pytest.mark.slow
def test_every_sampler_that_is_registered_is_measured_within_its_budget(run):
    report, rows = run("figure_7_2")
    refused = {key.split(", ")[2] for key in report["findings"]["refused"]}
    assert {row["sampler"] for row in rows} | refused == set(SAMPLERS)
    assert all(float(row["spent"]) <= float(row["epsilon"]) for row in rows)
    guided = [row for row in rows if row["sampler"] == "dp_penalty_guided"]
    assert np.mean([float(row["mmd"]) for row in guided]) < 0.3
