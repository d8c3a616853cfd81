"""The experiment on large effects: its designs are what they say, and plans promise no dream."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.families import MODELS
from dpmcmc.families.base import guess_of
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner.facts import PublicFacts
from dpmcmc.planner.planning import plan
from dpmcmc.planner.resolve import ARVIZ_FLOOR, draws_of
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.hamiltonian_mixing import trajectory_draws
from experiments import large_effects
from experiments.reporting import rows_of


@pytest.mark.parametrize("number", range(len(large_effects.DESIGNS)))
def test_rows_suit_their_bounds(number):
    made = large_effects.DESIGNS[number]
    schema, data, formula = large_effects.simulated(made, 500, np.random.default_rng(1))
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


def known_posterior(number, rows, epsilon, sampler):
    """Return a plan, and the effective draws that its own formula has at the true posterior."""
    made = large_effects.DESIGNS[number]
    schema, data, formula = large_effects.simulated(made, rows, np.random.default_rng((1, number)))
    spec = JobSpec(
        model=ModelSpec(family=made.family, formula=formula),
        sampler=SAMPLERS[sampler].options(),
        privacy=PrivacySpec(delta=1e-6, epsilon=epsilon),
    )
    planned, design = plan(schema, spec, advise=False), make_design(schema, formula)
    form = MODELS[made.family].form(design, planned.spec)
    x = form.rows(table_of(schema, data))[0]
    mode = np.array([*made.truth, *made.levels])
    if made.family == "linear":  # residuals have an sd of 1, and positions are in units of 2.5
        mode = np.append(mode, 0.0) / 2.5
        mode[-1] = -np.log(2.5)
        information = np.diag([0.0] * len(x) + [2.0 * rows])
        information[:-1, :-1] = 2.5**2 * x @ x.T
    else:
        share = 1.0 / (1.0 + np.exp(-np.abs(mode @ x)))  # x has the sign of its response
        information = (x * share * (1.0 - share)) @ x.T
    precision = information + np.diag(form.prior_precision)
    facts = PublicFacts(design, planned.spec)
    known = facts.assumptions(replace(planned.spec, privacy=spec.privacy))
    true = guess_of(form, planned.spec, precision, mode)
    guess = replace(known.guess, precision=true.precision, width=true.width)
    guess = replace(guess, joint_width=true.joint_width)
    kept = planned.num_chains * (planned.num_steps - planned.num_warmup)
    return planned, kept * draws_of(planned.spec, replace(known, guess=guess)) + ARVIZ_FLOOR


@pytest.mark.parametrize("sampler", ["dp_penalty", "dp_penalty_guided", "dp_hmc", "dp_mala"])
def test_plans_promise_what_chains_give_where_effects_are_large(sampler):
    """Rare answers, coefficients of three, and residuals of a twentieth of the response's range."""
    found = []
    for number in (0, 2, 3, 4, 5, 7, 9, 14, 15, 16, 17):
        planned, draws = known_posterior(number, 4000, 100.0, sampler)
        found.append(planned.expected_ess / draws)
    assert np.mean(np.array(found) <= 2.0) >= 0.9
    assert max(found) < 2.5
    assert min(found) > 0.3  # nor so little that jobs of use are given up


def draws_of_turns(dimension, ratio, length):
    """Return the effective draws of a step of exact trajectories on N(0, I), by simulation.

    ratio: sd of the noise of a log ratio for a move by one sd. length: of a trajectory, in many
    leapfrogs.
    """
    rng, steps = np.random.default_rng((dimension, int(10 * length))), 800
    here, total = rng.normal(size=(400, dimension)), np.zeros((400, dimension))
    for _ in range(steps):
        there = np.cos(length) * here + np.sin(length) * rng.normal(size=here.shape)
        sds = ratio * np.sqrt(0.5 * np.pi) * np.abs(there - here).mean(axis=1)
        taken = np.log(rng.random(400)) < sds * rng.normal(size=400) - 0.5 * sds**2
        here[taken] = there[taken]
        total += here
    return steps / np.mean(total**2)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_long_trajectories_are_not_taken_to_leave_the_tails(dimension):
    """Noise grows with the way to go, so that chains of few coefficients stay where they are far
    out."""
    for ratio, length in ((0.5, 1.0), (1.5, 0.6), (1.5, 2.0), (1.5, 2.6), (3.0, 0.6)):
        expected = trajectory_draws(np.array([length / 9]), 9, ratio, 0.0, dimension)[0]
        assert expected < 2.0 * draws_of_turns(dimension, ratio, length)
    lengths = np.geomspace(0.02, 2.0, 40)
    best = lengths[trajectory_draws(lengths / 9, 9, 1.5, 0.0, dimension).argmax()]
    most = max(draws_of_turns(dimension, 1.5, length) for length in (0.4, 0.8, 1.2, 1.6))
    assert draws_of_turns(dimension, 1.5, best) > 0.7 * most


ROW = {
    "sampler": "dp_penalty", "promised": 300.0, "measured": 100.0, "least": 10.0,
    "promised_over_measured": 3.0, "still": 0,
}  # fmt: skip


def test_the_table_has_a_row_for_each_design_and_adds_what_is_missing(
    tmp_path, capsys, monkeypatch
):
    asked = []

    def measured(name, number, *_, **__):
        asked.append(number)
        return ROW | {"sampler": name, "design": number}

    monkeypatch.setattr(large_effects, "measured", measured)
    words = ["--samplers", "dp_penalty", f"--output={tmp_path / 'large_effects.csv'}"]
    large_effects.main([*words, "--quick"])
    large_effects.main(words)
    with (tmp_path / "large_effects.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert sorted(asked) == list(range(len(large_effects.DESIGNS)))
    assert len(rows) == len(asked)
    assert "dp_penalty" in capsys.readouterr().out
    page = large_effects.table(rows)
    assert "**300 → 100 (10)**" in page
    assert "20 runs. Half of what is promised or more: 0." in page


def test_the_readme_has_the_table_of_the_runs_that_are_kept():
    """All twenty designs of every sampler: plans promise no more than twice what comes."""
    rows = rows_of(large_effects.DATA)
    every = {(name, number) for name in SAMPLERS for number in range(len(large_effects.DESIGNS))}
    assert {(row["sampler"], int(row["design"])) for row in rows} == every
    assert large_effects.table(rows) in large_effects.TABLE.read_text()
    assert not [row for row in rows if int(row["still"])]
    ratios = np.array([float(row["promised_over_measured"]) for row in rows])
    assert np.mean(ratios <= large_effects.TOO_FEW) >= 0.95
