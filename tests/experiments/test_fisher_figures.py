"""Thesis B's figures of Fisher information can be made again, and their orderings are checked."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.fisher_curves import NOISES, winners

DATA = Path(__file__).resolve().parents[2] / "experiments" / "data"
NONE, THESIS, RELEASE = NOISES


def rows_of(path):
    with path.open() as lines:
        return [
            {k: v if k == "noise" else float(v) for k, v in row.items()}
            for row in csv.DictReader(lines)
        ]


def ran(repository, tmp_path, name):
    """Run an experiment quickly: its findings and the rows of its CSV."""
    subprocess.run(
        [
            *(sys.executable, "-W", "error", "-m", f"experiments.{name}"),
            *("--quick", "--seed=1", f"--output={tmp_path}"),
        ],
        check=True,
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stdout=subprocess.DEVNULL,
    )
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((tmp_path / f"{name}.json").read_text())
    return report["findings"], rows_of(tmp_path / f"{name}.csv")


def powers(stretches):
    return [power for _, _, power in stretches]


def test_a_cube_tells_more_of_a_larger_mean_once_there_is_noise(repository, tmp_path):
    _, rows = ran(repository, tmp_path, "figure_b_4_1")
    told = winners(rows, (1.0, 3.0))
    assert powers(told[NONE]) == [1.0]
    assert powers(told[THESIS]) == powers(told[RELEASE]) == [1.0, 3.0]
    kept = winners(rows_of(DATA / "figure_b_4_1.csv"), (1.0, 3.0))
    assert kept[THESIS][1][0] == pytest.approx(5.82, abs=0.01)
    assert kept[RELEASE][1][0] == pytest.approx(5.74, abs=0.01)


def test_of_a_variance_absolute_values_tell_more_than_squares_and_roots_still_more(
    repository, tmp_path
):
    _, rows = ran(repository, tmp_path, "figure_b_4_2")
    two, all_powers = winners(rows, (1.0, 2.0)), winners(rows, (0.1, 0.5, 1.0, 2.0))
    assert powers(two[NONE]) == powers(all_powers[NONE]) == [2.0]
    assert powers(two[THESIS]) == powers(two[RELEASE]) == [1.0]
    assert powers(all_powers[THESIS]) == powers(all_powers[RELEASE]) == [0.1, 0.5]


def test_which_power_tells_most_of_a_width_grows_with_it(repository, tmp_path):
    _, rows = ran(repository, tmp_path, "figure_b_4_3")
    told = winners(rows, (0.1, 0.5, 1.0, 2.0))
    assert powers(told[NONE]) == [2.0]
    assert powers(told[RELEASE])[-3:] == powers(told[THESIS])[-3:] == [0.5, 1.0, 2.0]
    kept = winners(rows_of(DATA / "figure_b_4_3.csv"), (0.1, 0.5, 1.0, 2.0))
    assert [u for _, u, _ in kept[THESIS]] == pytest.approx([0.3, 2.8, 5.3, 10.0])
    assert [u for _, u, _ in kept[RELEASE]] == pytest.approx([0.3, 4.1, 6.9, 10.0])


def test_three_releases_of_binary_rows_are_in_the_order_of_the_figure(repository, tmp_path):
    told, rows = ran(repository, tmp_path, "figure_b_4_4")
    small = told["cells with epsilon up to 1"]
    assert told["of these, F1 > F2"] == told["of these, F3 > F1"] == small > 10
    assert told["F1 > all noisy rows, at the same GDP"] == 0
    assert told["F3 above the information in the rows themselves"] > 0
    assert told["F3, exact, above that"] == 0
    for row in rows:
        assert row["F2, all rows"] < row["F3, exact"] < row["rows"] * (1.0 + 1e-9)
        assert row["F1"] < row["rows"]
