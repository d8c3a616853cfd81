"""Two stages cost what one does, read every row once, and choose the power that tells most."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, PermitError, Private
from dpmcmc.fit.budget import Budget, BudgetExhaustedError
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.privacy import accountant
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Laplace, Parallel
from dpmcmc.queries.statistics.fisher import log_density_of_sum
from dpmcmc.queries.statistics.mechanisms import GaussianNoise, LaplaceNoise
from dpmcmc.queries.statistics.plans import StatisticRequest
from dpmcmc.queries.statistics.populations import Moments, UniformWidth
from dpmcmc.queries.statistics.two_stages import (
    plan_of_stages,
    release_in_two_stages,
    release_of_stages,
    weights_of,
)
from tests.sources import Seeded

ROWS, FIRST = 100, 10
SCHEMA = Schema(columns=(NumberColumn(name="x", lower=-10.0, upper=10.0),), rows=ROWS)
THETAS = np.geomspace(0.1, 10.0, 30)
POWERS = (0.25, 0.5, 1.0, 2.0)
ASKED = StatisticRequest(column="x", kind="absolute_power", noise="laplace")


def plan_with(epsilon=1.0, asked=ASKED, first_rows=FIRST, thetas=THETAS, powers=POWERS):
    privacy = epsilon, 0.0
    return plan_of_stages(
        SCHEMA, asked, first_rows, UniformWidth(), thetas.tolist(), powers, privacy
    )


def stages(rows, epsilon=1.0, seed=1, thetas=THETAS):
    plan = plan_with(epsilon, thetas=thetas)
    permit = Permit(subject="d", event_digest=digest(plan.paid.event))
    table = Private(table_of(SCHEMA, {"x": list(rows)}), subject="d")
    return release_of_stages(plan, table, permit, Seeded(seed))


def test_both_stages_cost_what_one_does():
    plan = plan_with(0.5)
    first, second = plan.paid.event.events
    assert plan.paid.event == Parallel((first, second))
    assert first == second == Laplace(first.noise_multiplier)
    assert 2.0 <= first.noise_multiplier == pytest.approx(2.0, rel=1e-14)
    assert plan.paid.cost.epsilon == 0.5
    assert accountant.epsilon(plan.paid.event, 1e-300) == pytest.approx(0.5, rel=1e-12)


def test_rows_open_for_both_stages_together_alone():
    plan, table = plan_with(), Private(table_of(SCHEMA, {"x": [0.0] * ROWS}), subject="d")
    permit = Permit(subject="d", event_digest=digest(Laplace(1.0)))
    with pytest.raises(PermitError):
        release_of_stages(plan, table, permit, Seeded(1))


@pytest.mark.slow
def test_each_row_is_read_in_one_stage():
    """With the same noise, a replaced row moves one release by what it changed, and no other."""
    rows = np.linspace(-3.0, 3.0, ROWS)
    base = stages(rows)
    moved_first = 0
    for at in range(ROWS):
        other = rows.copy()
        other[at] = 1.25
        found = stages(other)
        if found.first.values != base.first.values:
            moved = found.first.values - base.first.values
            assert moved == pytest.approx(1.25 - abs(rows[at]), abs=1e-6)
            moved_first += 1
            if found.power != base.power:
                continue
            change = 0.0
        else:
            assert found.power == base.power
            change = 1.25**base.power - abs(rows[at]) ** base.power
        assert found.second.values - base.second.values == pytest.approx(change, abs=1e-6)
    assert moved_first == FIRST


def test_chance_says_which_rows_are_first():
    """A sorted file: at a large epsilon the first release is not the sum of its first rows."""
    rows = np.linspace(0.0, 9.0, ROWS)
    found = [stages(rows, 50.0, seed).first.values[0] / FIRST for seed in range(40)]
    assert np.mean(found) == pytest.approx(4.5, abs=5 * 2.6 / math.sqrt(FIRST * 40))


@pytest.mark.longer
def test_each_stage_has_its_noise_in_full():
    """400 releases of rows at the bound: mean absolute noise to 4 sds, a quarter less is seen."""
    found = [stages([10.0] * ROWS, seed=seed, thetas=THETAS[-2:]) for seed in range(400)]
    for part, rows in (("first", FIRST), ("second", ROWS - FIRST)):
        released = [getattr(one, part) for one in found]
        noise = [abs(one.values[0] / 10.0**one.statistic.a - rows) for one in released]
        assert abs(np.mean(noise) - 1.0) < 4.0 / math.sqrt(400)
        assert {one.rows for one in released} == {rows}


def test_what_is_believed_after_the_first_stage_is_bayes_rule():
    rows = 4.0 * (2.0 * Seeded(3).uniforms((ROWS,)) - 1.0)
    found = stages(rows, epsilon=20.0)
    y, n, scale = found.first.values[0], FIRST, found.first.noise.scale
    u = np.linspace(-400.0, 400.0, 400_001)
    wanted = []
    for theta in THETAS:
        mean, variance = n * theta / 2.0, n * theta**2 / 12.0
        normal = np.exp(-0.5 * (u - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)
        wanted.append(np.trapezoid(normal * np.exp(-np.abs(y - u) / scale), u))
    assert found.weights == pytest.approx(np.array(wanted) / np.sum(wanted), rel=1e-4, abs=1e-9)


def test_guesses_at_which_nothing_can_be_computed_are_refused_before_they_cost():
    asked = replace(ASKED, noise="gaussian")
    with pytest.raises(SpecError, match="too far from the column's bounds"):
        plan_of_stages(SCHEMA, asked, FIRST, UniformWidth(), [1e-300], [1e-300], (1.0, 1e-6))


def test_a_sum_that_no_theta_explains_tells_nothing_and_the_job_goes_on():
    """Rows of one value: a law of variance 0, and guesses beyond all numbers of the noise."""
    rows = np.full(ROWS, 9.0)
    assert stages(rows, thetas=np.array([1e-9, 1e-9])).weights == pytest.approx([0.5, 0.5])
    told = replace(stages(rows).first, values=np.array([1e300]))
    assert weights_of(told, UniformWidth(), [1.0, 2.0]) == pytest.approx([0.5, 0.5])
    narrow = stages(rows, thetas=np.array([1e-12]))
    assert narrow.power in POWERS


@pytest.mark.parametrize("noise", [GaussianNoise(3.0), LaplaceNoise(3.0), LaplaceNoise(1e-3)])
def test_the_density_of_a_noisy_sum_integrates_to_one(noise):
    known = Moments(0.7, 0.5, 0.0, 0.0)
    y = np.linspace(-80.0, 95.0, 20_001)
    each = [math.exp(log_density_of_sum(known, 10, noise, one)) for one in y]
    assert np.trapezoid(each, y) == pytest.approx(1.0, rel=1e-4)


def test_wide_laws_get_large_powers_and_narrow_ones_small_powers():
    random = Seeded(5)
    chosen = {
        theta: [
            stages(theta * (2.0 * random.uniforms((ROWS,)) - 1.0), 5.0, seed).power
            for seed in range(12)
        ]
        for theta in (0.3, 9.0)
    }
    assert np.mean(chosen[0.3]) < 0.8
    assert np.mean(chosen[9.0]) > 1.5


def test_a_budget_pays_for_both_stages_once():
    budget = Budget(epsilon=1.0, delta=1e-6)
    given = {
        "schema": SCHEMA, "first_rows": FIRST, "thetas": THETAS.tolist(), "powers": POWERS,
        "budget": budget,
    }  # fmt: skip
    found = release_in_two_stages({"x": [1.0] * ROWS}, "x", UniformWidth(), epsilon=0.75, **given)
    assert found.cost.epsilon == 0.75
    assert budget.spent == pytest.approx(0.75, rel=1e-14)
    with pytest.raises(BudgetExhaustedError):
        release_in_two_stages({"x": [1.0] * ROWS}, "x", UniformWidth(), epsilon=0.75, **given)
    assert weights_of(found.first, UniformWidth(), [1.0, 2.0]).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "asked",
    [
        {"first_rows": 0},
        {"first_rows": ROWS},
        {"thetas": np.array([])},
        {"powers": ()},
        {"powers": (1.0, -1.0)},
        {"asked": StatisticRequest(column="x", form="median", noise="smooth_laplace")},
        {"asked": StatisticRequest(column="x", form="sequential", noise="laplace")},
        {"epsilon": 0.0},
    ],
)
def test_what_cannot_be_done_is_refused_before_a_row_is_read(asked):
    with pytest.raises(SpecError):
        plan_with(**asked)
