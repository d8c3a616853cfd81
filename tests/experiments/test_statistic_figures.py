"""Thesis B's tables and figures of released statistics can be made again, and hold where said."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from experiments.figure_b_6_5 import inverses, ways
from experiments.regression_methods import Source
from experiments.released import laplace, like, posteriors, power, times
from experiments.table_b_6_1 import EPSILON, PARTICLES, THESIS, THETA

RUNS, EFFORT = 40, (100, 1500)


@pytest.fixture(scope="module")
def mixing():
    """Mean time and its standard error, of each algorithm and number of particles."""
    rng, statistic = np.random.default_rng(1), power(1.0)
    how, found = like(laplace(statistic, EPSILON), statistic), {}
    for name in THESIS:
        for particles in PARTICLES:
            draws = posteriors(how, THETA, RUNS, name, (particles, *EFFORT), rng)
            each = times(draws)
            found[name, particles] = each.mean(), each.std(ddof=1) / np.sqrt(RUNS)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", THESIS)
def test_chains_mix_at_least_as_fast_as_published(mixing, name):
    """Less than the published time, by two standard errors of ours."""
    for particles, published in zip(PARTICLES, THESIS[name], strict=True):
        time, error = mixing[name, particles]
        assert time + 2.0 * error < published


@pytest.mark.slow
def test_averaged_ratios_mix_faster_where_particles_are_few(mixing):
    for particles in (2, 5, 10):
        (plain, error), (averaged, other) = (mixing[name, particles] for name in THESIS)
        assert plain - averaged > 3.0 * np.hypot(error, other)


@pytest.mark.slow
def test_both_come_to_the_exact_chain_as_particles_grow(mixing):
    rng, statistic = np.random.default_rng(2), power(1.0)
    how = like(laplace(statistic, EPSILON), statistic)
    exact = times(posteriors(how, THETA, RUNS, "mh", (2, *EFFORT), rng)).mean()
    for name in THESIS:
        assert mixing[name, 100][0] == pytest.approx(exact, rel=0.15)


def ran(repository, tmp_path, name):
    """Run an experiment quickly: its findings and the rows of its CSV."""
    subprocess.run(
        [sys.executable, "-W", "error", "-m", f"experiments.{name}", "--quick", "--seed=1",
         f"--output={tmp_path}"],
        check=True,
        cwd=repository,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open() as lines:
        report = json.loads((tmp_path / f"{name}.json").read_text())
        return report["findings"], list(csv.DictReader(lines))


@pytest.mark.slow
def test_the_first_table_runs(repository, tmp_path):
    _, rows = ran(repository, tmp_path, "table_b_6_1")
    assert len(rows) == 2 * len(PARTICLES) + 1
    assert all(float(row["time"]) >= 1.0 for row in rows)


@pytest.mark.slow
def test_a_median_errs_less_than_a_maximum(repository, tmp_path):
    _, rows = ran(repository, tmp_path, "table_b_6_2")
    honest = {
        (row["statistic"], row["theta"]): (float(row["mse"]), float(row["standard_error"]))
        for row in rows
        if row["noise"] == "replace-one"
    }
    for theta in ("0.5", "1.0", "2.0"):
        (median, error), (largest, other) = honest["median", theta], honest["maximum", theta]
        assert median + 2.0 * np.hypot(error, other) < largest


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 4])
def test_the_absolute_value_tells_more_than_the_square_and_errs_less(repository, tmp_path, number):
    findings, _ = ran(repository, tmp_path, f"figure_b_6_{number}")
    for told in findings.values():
        assert min(told["information of |x| over that of x^2"]) > 1.0
        assert max(told["their difference in standard errors"]) > 3.0
        assert min(told["their difference in standard errors"]) > -2.0


@pytest.mark.slow
def test_a_median_tells_more_than_a_maximum(repository, tmp_path):
    findings, rows = ran(repository, tmp_path, "figure_b_6_3")
    told = {(row["statistic"], row["theta"]): float(row["information"]) for row in rows}
    for theta in ("1.0", "2.0"):
        assert told["median", theta] > 5.0 * told["maximum", theta]
    assert all(
        abs(one["autocorrelation at lags 1, 10, 20, 50"][3]) < 0.3 for one in findings.values()
    )


@pytest.mark.slow
def test_a_chosen_statistic_errs_less_than_the_same_one_in_both_parts():
    """By medians: means are heavy tailed, as a rare first release chooses a large power."""
    theta, random = 0.9, Source(np.random.default_rng(1))
    _, draws = ways(theta, 200, inverses(), random)
    error = {way: np.median((each.mean(axis=1) - theta) ** 2) for way, each in draws.items()}
    assert error["selected"] < 0.8 * error["|x|, two parts"]


@pytest.mark.slow
def test_the_last_figure_runs(repository, tmp_path):
    _, rows = ran(repository, tmp_path, "figure_b_6_5")
    assert {float(row["theta"]) for row in rows} == {0.8, 0.9, 1.0}
    assert all(0.0 < float(row["mse"]) < 1.0 for row in rows if row["way"] != "selected")
