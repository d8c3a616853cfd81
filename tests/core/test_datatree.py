"""Draws as one ArviZ DataTree."""

import subprocess
import sys

import arviz
import numpy as np
import pytest

import dpmcmc
from dpmcmc import BinaryColumn, ModelSpec, NumberColumn, Schema
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.posterior.datatree import data_tree
from tests.sources import Seeded

ROWS = 200


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, ROWS)
    data = {"x": x, "y": np.where(rng.random(ROWS) < 0.5 + 0.3 * x, "yes", "no")}
    columns = (
        NumberColumn(name="x", lower=-1, upper=1),
        BinaryColumn(name="y", categories=("no", "yes")),
    )
    sampler = DpPenaltyOptions(num_steps=120, num_chains=2, num_warmup=40)
    model, schema = (
        ModelSpec(family="logistic", formula="y ~ x"),
        Schema(columns=columns, rows=ROWS),
    )
    told = {"model": model, "epsilon": 5.0, "delta": 1e-6, "sampler": sampler}
    return dpmcmc.sample(data, schema=schema, random=Seeded(2), **told, accept_low_quality=True)


def test_summaries_of_arviz_are_those_of_the_library(fit, tmp_path):
    """Warm-up is in a group of its own: ArviZ does not count it."""
    fit.to_datatree().to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    tree = arviz.from_netcdf(tmp_path / "fit.nc")
    found = arviz.summary(tree, round_to="none")
    for one in fit.summary():
        row = found.loc[one.name]
        assert float(row["mean"]) == pytest.approx(one.mean, rel=1e-12)
        assert float(row["sd"]) == pytest.approx(one.sd, rel=1e-9)
        assert float(row["r_hat"]) == pytest.approx(one.r_hat, rel=1e-9)
        assert float(row["ess_bulk"]) == pytest.approx(one.ess_bulk, rel=1e-9)


def test_it_holds_every_draw_once_and_says_how_they_were_made(fit):
    tree = fit.to_datatree()
    assert dict(tree["posterior"].sizes) == {"chain": 2, "draw": 80}
    assert dict(tree["warmup_posterior"].sizes) == {"chain": 2, "draw": 40}
    both = np.concatenate([tree[g]["x"].values for g in ("warmup_posterior", "posterior")], axis=1)
    np.testing.assert_array_equal(both, fit.on("original")[:, :, 1])
    accepted = np.concatenate(
        [tree[g]["accepted"].values for g in ("warmup_sample_stats", "sample_stats")], axis=1
    )
    moved = (np.diff(fit.draws, axis=1) != 0).any(axis=2)
    np.testing.assert_array_equal(accepted[:, 1:], moved)
    assert 0 < accepted.mean() < 1
    for attrs in (tree.attrs, tree["posterior"].attrs):
        assert attrs["epsilon"] == fit.cost.epsilon
        assert attrs["delta"] == 1e-6
        assert (attrs["relation"], attrs["algorithm"]) == ("replace_one", "dp_penalty")
        assert attrs["release"] == "none"
        assert attrs["version"] == dpmcmc.__version__
        assert attrs["verdict"] == fit.verdict.status


RACE = """
import threading
import numpy as np
from dpmcmc.posterior.datatree import data_tree
from dpmcmc.formula.parse import parse

gate, faults = threading.Barrier(8), []

def work(k):
    gate.wait()
    try:
        parse(f"y ~ x{k}") if k % 2 else data_tree(np.zeros((1, 5, 1)), ("x",), 0, {})
    except Exception as error:
        faults.append(error)

threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
assert not faults, faults
"""


@pytest.mark.longer
@pytest.mark.parametrize("again", range(3))  # without the lock every other one fails
def test_first_requests_at_once_find_whole_packages(again):
    ran = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_without_warm_up_there_is_no_group_of_it():
    tree = data_tree(np.zeros((1, 5, 2)), ("a/b", "draw"), 0, {})
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert list(tree["posterior"].data_vars) == ["a|b", "draw_"]
