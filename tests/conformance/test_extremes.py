"""What one row moves stays within its sensitivity where numbers are large, small or far apart."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dpmcmc.families import MODELS
from dpmcmc.families.rowwise import term_grid
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.kernels.arithmetic.rules import PENALTY, Rule, penalty
from dpmcmc.kernels.compiled import penalty_steps
from dpmcmc.kernels.compiled.cells import TERM_BITS
from dpmcmc.samplers import dp_penalty_subsampled
from tests.conformance.test_models import SPECS, opened, random_rows

BATCH, FAR, DELTA = 20, 1e8, 0.1


def line_target(values):
    """Responses in [-1/2, 1/2] of known sd 1, with a prior that says next to nothing."""
    schema = Schema(columns=(NumberColumn(name="y", lower=-0.5, upper=0.5),), rows=len(values))
    model = ModelSpec(
        family="linear",
        formula="y ~ 1",
        prior=NormalPrior(scale=1e6),
        options=ModelOptions(noise_scale=1.0),
    )
    privacy = PrivacySpec(delta=1e-6, epsilon=1.0)
    spec = JobSpec(model=model, sampler=DpPenaltyOptions(), privacy=privacy)
    design = make_design(schema, model.formula)
    return MODELS["linear"].target(design, spec, table_of(schema, {"y": values}), 1)


def threshold(values, rule):
    """Of log u, below which a step on all rows accepts, but for the prior and the sum of ratios.

    The step begins FAR from all responses: ratios are near one another and far from 0.
    """
    target, low, high = line_target(values), -50.0, 0.0
    batch = np.arange(len(values), dtype=np.int32)[None, None]
    deltas, none = np.full((1, 1, 1), DELTA), np.zeros((1, 1), np.int64)
    for _ in range(60):
        middle = 0.5 * (low + high)
        target.position[:] = FAR
        known = float(target.log_prior_ratio(deltas[0])[0])
        target.batch_walk(rule, deltas, none, np.full((1, 1, 1), np.exp(middle)), batch)
        low, high = (middle, high) if target.position[0, 0] > FAR else (low, middle)
    ratios = DELTA * (np.asarray(values) - FAR - 0.5 * DELTA)
    return high - known - rule.scale * ratios.sum()


def test_the_variance_of_a_batch_does_not_know_where_its_interval_lies():
    """A middle of 10^8 widths, added to squares and taken away again, was 588 sensitivities off."""
    rule = Rule(PENALTY, BATCH, scale=1e-9, part=1e18, unit=2.0**-30, sd=1.0)
    allowed = penalty(rule, 0.0, 0.0, DELTA, None)[1] / rule.unit
    for ends in range(1, BATCH, 3):
        values = np.repeat([-0.5, 0.5], [ends, BATCH - ends])
        other = np.concatenate((values[:-1], [-0.5]))
        found = [threshold(some, rule) for some in (values, other)]
        exact = [-0.5 * DELTA**2 * BATCH * np.var(some) for some in (values, other)]
        np.testing.assert_allclose(found, exact, atol=1e-3 * allowed)
        assert abs(found[1] - found[0]) <= allowed


def neighbour(data, seed):
    """Data with another row in one place, at other corners; as they are for seed 0."""
    some = {key: np.array(values) for key, values in data.items()}
    if seed:
        other = random_rows(300, np.random.default_rng(seed), corners=True)
        for key, values in some.items():
            values[7] = other[key][0]
    return some


@pytest.mark.parametrize("power", [-150, -60, -40, -30, -10, 10, 30, 36, 38, 45, 90, 120, 155])
@pytest.mark.parametrize("name", ["logistic", "linear", "poisson"])
def test_no_row_moves_a_gradient_further_in_any_coordinates(name, power):
    """Rows that float32 could not hold once moved a gradient by 300 times its sensitivity."""
    rng, clip = np.random.default_rng(2), 1.0
    assert name in SPECS
    data = random_rows(300, rng, corners=True)
    found, sensitivity = [], None
    for changed in range(6):
        target, *_ = opened(name, neighbour(data, changed))
        d = target.position.shape[1]
        skewed = np.tril(np.random.default_rng(3).normal(size=(d, d))) + 3.0 * np.eye(d)
        with np.errstate(all="ignore"):
            target.use_coordinates(skewed * 10.0**power)
            sums, sensitivity = target.gradient(target.position, clip)
        assert np.isfinite(sums).all()
        found.append(sums[0])
    moved = np.linalg.norm(np.array(found)[:, None] - np.array(found)[None], axis=2)
    assert moved.max() <= sensitivity


@pytest.mark.parametrize("count", [3, 1000, 10**6])
@pytest.mark.parametrize("tempering", [1.0, 0.3])
def test_a_sensitivity_allows_for_the_rounding_of_a_sum(count, tempering):
    """A row moves the total by at most 2 `half` cells, and the float made of it by a little more.

    Totals as large as they can be: there an ulp of the sum is the largest.
    """
    rng, width, chains = np.random.default_rng(1), 0.7, 2000
    half = 2.0 ** (51 - int(np.ceil(np.log2(count + 1.0))))
    most = int(count * half)
    lower = most - 2 * int(half) - rng.integers(most // 4, size=chains)
    filled = np.ones(chains)
    interval = 0.0 * filled, width * filled, width / (2.0 * half) * filled
    below = penalty_steps.summed(lower, count, tempering, interval)
    above = penalty_steps.summed(lower + 2 * int(half), count, tempering, interval)
    allowed = Fraction(below[2][0])
    apart = [
        Fraction(up) - Fraction(down)
        for up, down in zip(above[1].tolist(), below[1].tolist(), strict=True)
    ]
    assert max(apart) <= allowed
    assert max(apart) > Fraction(tempering) * Fraction(width) or count < 1000
    assert allowed < Fraction(tempering) * Fraction(width) * (1 + Fraction(count, 2**49))


@pytest.mark.parametrize("name", ["logistic", "linear", "poisson"])
def test_no_row_is_longer_than_the_norm_that_it_is_clipped_by(name):
    """That norm is in single precision: rounded down it would clip too little."""
    target, *_ = opened(name, random_rows(2000, np.random.default_rng(4)))
    target.gradient(target.position, 1.0)
    exact = np.sqrt((target._x.astype(np.float64) ** 2).sum(axis=1))
    assert (target._norm >= exact).all()
    assert (target._norm <= exact * (1 + 2.0**-22) + 1e-30).all()


def test_sums_over_many_rows_are_as_exact_as_over_few():
    """Rows that are all at the end of their interval: cells are so large that no sum overflows."""
    sums = []
    for rows in (7, 70_000):
        target = line_target(np.full(rows, 0.5))
        total, sensitivity, _ = target.vector_ratios(np.full((1, 1), DELTA))
        sums.append(total[0] / rows)
        assert abs(total[0]) <= rows * sensitivity[0]
    assert sums[0] == pytest.approx(sums[1], rel=1e-9)


@pytest.mark.parametrize("rows", [1, 1000, 2**20, 2**31, 2**40])
@pytest.mark.parametrize("bound", [1e-9, 0.7, 1.0, 3e8])
def test_the_grid_of_a_gradient_is_so_coarse_that_all_rows_add_up_exactly(rows, bound):
    cells = Fraction(bound) / Fraction(term_grid(bound, rows, TERM_BITS))
    assert cells <= 2**TERM_BITS
    assert cells * rows < 2**52
    assert cells > min(2 ** (TERM_BITS - 1), 2**50 / rows) / 2


@pytest.mark.parametrize("batch", [2, 1000, 10**6])
def test_cells_of_a_batch_allow_for_the_rounding_of_its_sums(batch):
    target = SimpleNamespace(rows=2 * batch, tempering=0.5)
    rule = dp_penalty_subsampled.rule_of(1.0, batch, target)
    cell = penalty(rule, 0.0, 0.0, DELTA, None)[1]
    plain = penalty(rule._replace(rounding=1.0), 0.0, 0.0, DELTA, None)[1]
    assert cell / plain == pytest.approx(1.0 + batch**2 * 2.0**-51, rel=1e-15)
    assert batch < 1000 or cell > plain
