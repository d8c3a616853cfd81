"""The experiment on large effects: its designs are what they say, and plans promise no dream."""

import csv

import numpy as np
import pytest

from dpmcmc.samplers import SAMPLERS
from experiments import large_effects


@pytest.mark.parametrize("number", range(len(large_effects.DESIGNS)))
def test_rows_suit_their_bounds(number):
    made = large_effects.DESIGNS[number]
    schema, data, formula = large_effects.rows_of(made, 500, np.random.default_rng(1))
    assert schema.rows == 500
    assert set(data) == {column.name for column in schema.columns}
    assert all(name in formula for name in data)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_chain_gives_about_what_its_plan_promises(name):
    """A slope of 1 beside one of 0, of 1000 rows, with a budget that leaves little noise."""
    steps = 400 if name in ("dp_hmc", "dp_mala") else 6000
    row = large_effects.measured(name, 0, 1000, 1000.0, 1, num_steps=steps, num_chains=2)
    assert row["steps"] == steps
    assert row["least"] > 0.0
    assert row["promised_over_measured"] < 2.0


def test_the_table_has_a_row_for_each_design(tmp_path, capsys, monkeypatch):
    row = {"sampler": "dp_penalty", "design": 0}
    monkeypatch.setattr(large_effects, "measured", lambda *_: row)
    large_effects.main(["--samplers", "dp_penalty", "--quick", f"--output={tmp_path}"])
    with (tmp_path / "large_effects.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == 4
    assert "dp_penalty" in capsys.readouterr().out
