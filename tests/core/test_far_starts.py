"""Chains that start from a release find their own scale where the plan's guess is far off."""

from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmcmc.base.private import Released
from dpmcmc.families import MODELS
from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpHmcOptions, DpMalaOptions, DpPenaltyOptions, Start
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.samplers import SAMPLERS, hamiltonian
from dpmcmc.samplers.starting import begun
from experiments.posteriors import POSTERIORS

BUDGET = PrivacySpec(delta=1e-6, epsilon=1e6)
TINY = 1e-199
ENDS = st.floats(-1e6, 1e6)


def opened(made, **options):
    """(planned job, target, what a release of a random source finds) of a made posterior."""
    spec = JobSpec(
        model=made.model,
        sampler=DpHmcOptions(num_steps=500, num_chains=2, **options),
        privacy=BUDGET,
    )
    spec = plan(made.schema, spec, advise=False).spec
    design, model = make_design(made.schema, spec.model.formula), MODELS[made.model.family]
    table = table_of(made.schema, made.columns)
    target = model.target(design, spec, table, spec.sampler.num_chains)
    return spec, target, lambda random: begun(design, spec, table, random)[1]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="thousands of steps")
@pytest.mark.parametrize("high", [None, 5000.0])
def test_a_generous_budget_has_walks_begin_with_moves_that_fit_counts_of_hundreds(seeded, high):
    """No guess of theirs is near: rates are taken to be about one."""
    made, rng = POSTERIORS["poisson/tight"](), np.random.default_rng(1)
    x = made.columns["x0"]
    y = rng.poisson(np.exp(6.0 + 0.2 * x)).astype(float)
    top = NumberColumn(name="y", lower=0.0, upper=high or float(y.max()))
    result = sample(
        {"x0": x, "y": y},
        schema=replace(made.schema, columns=(made.schema.columns[0], top)),
        model=replace(made.model, formula="y ~ x0", prior=NormalPrior(scale=20.0)),
        delta=BUDGET.delta,
        epsilon=BUDGET.epsilon,
        sampler=DpPenaltyOptions(),
        random=seeded(6),
    )
    kept = result.draws[:, result.plan.num_warmup :]
    sizes = [one.ess_bulk for one in summarise(Released(kept), result.plan.parameters)]
    assert min(sizes) > 1000


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="thousands of gradients")
@pytest.mark.parametrize("options", [DpHmcOptions, DpMalaOptions])
def test_trajectories_are_accepted_where_bounds_allow_far_more_than_rows_do(seeded, options):
    made = POSTERIORS["linear/wide"]()
    result = sample(
        made.columns,
        schema=made.schema,
        model=made.model,
        delta=BUDGET.delta,
        epsilon=BUDGET.epsilon,
        sampler=options(num_steps=600),
        random=seeded(5),
        accept_low_quality=True,
    )
    kept = result.draws[:, result.plan.num_warmup :]
    assert 0.2 < (np.diff(kept, axis=1) != 0).any(axis=2).mean() < 0.9
    draws = kept.reshape(-1, kept.shape[2])
    assert (np.abs(draws.mean(axis=0) - made.means) < 0.4 * made.sds).all()
    np.testing.assert_allclose(draws.std(axis=0), made.sds, rtol=0.3)


def test_ratios_that_are_cut_have_the_narrower_sensitivity_and_keep_it(seeded):
    """A row may be replaced by any other within its bounds: the sum stays within the width."""
    made = POSTERIORS["linear/wide"]()
    spec, target, _ = opened(made)
    deltas = 0.01 * seeded(1).normals((2, 4))
    free = target.widths(target.position, deltas)
    target.narrow_clip(0.05 * np.eye(4))
    widths = target.widths(target.position, deltas)
    assert (widths < 0.1 * free).all()
    np.testing.assert_allclose(widths, 0.1 * np.sqrt((deltas**2).sum(axis=1)), rtol=1e-9)
    target.refresh()
    sums, sensitivities, _ = target.vector_ratios(deltas)
    np.testing.assert_allclose(sensitivities, widths, rtol=1e-6)
    design, model = make_design(made.schema, spec.model.formula), MODELS["linear"]
    for extreme in (0, -1):
        columns = {k: v.copy() for k, v in made.columns.items()}
        for column in made.schema.columns:
            columns[column.name][0] = (column.lower, column.upper)[extreme]
        other = model.target(design, spec, table_of(made.schema, columns), 2)
        other.narrow_clip(0.05 * np.eye(4))
        other.refresh()
        changed, same, _ = other.vector_ratios(deltas)
        np.testing.assert_array_equal(same, sensitivities)
        assert (np.abs(changed - sums) <= sensitivities).all()
        assert (np.abs(changed - sums) > 0.2 * sensitivities).any()


@given(low=ENDS, high=ENDS, width=st.floats(0.01, 100.0))
def test_an_interval_is_cut_to_a_width_the_further_end_first(low, high, width):
    from dpmcmc.kernels.compiled.intervals import clip_interval

    low, high = min(low, high), max(low, high)
    lo, hi = clip_interval(low, high, 1.0, np.inf, np.inf, width)
    assert (-hi, -lo) == clip_interval(-high, -low, 1.0, np.inf, np.inf, width)
    assert low - TINY <= lo <= hi <= high + TINY
    assert hi - lo <= width * (1.0 + 1e-12) + 1e-9
    if high - low <= width:
        assert (lo, hi) == pytest.approx((low, high), abs=TINY)
        return
    assert hi - lo == pytest.approx(width, abs=1e-9)
    if lo > low and hi < high:
        assert -lo == hi


@pytest.mark.compiled("thousands of steps")
def test_walks_cut_what_no_row_does_where_the_budget_is_known():
    """Not where the caller does, beside a noise multiplier, or where a model bounds gradients,
    unless the budget is generous, and then by nats."""
    made, logistic = POSTERIORS["linear-known/wide"](), POSTERIORS["logistic/wide"]()
    for name, sampler in SAMPLERS.items():
        walks = name not in ("dp_hmc", "dp_mala")
        planned = planned_width(made, sampler.options(num_steps=500))
        assert (planned is not None) == walks
        if walks:
            assert planned >= 4.0 * 10.0 / made.schema.rows**0.5
        assert planned_width(made, sampler.options(num_steps=500, clip_bound=2.0)) is None
        generous = planned_width(logistic, sampler.options(num_steps=500))
        assert (generous is not None and generous > 8.0) == walks
        usual = PrivacySpec(delta=1e-6, epsilon=100.0)
        assert planned_width(logistic, sampler.options(num_steps=500), usual) is None
        multiplier = PrivacySpec(delta=1e-6, noise_multiplier=20.0)
        assert planned_width(made, sampler.options(num_steps=500), multiplier) is None
    assert planned_width(made, DpPenaltyOptions(num_steps=500, clip_width=7.0)) == 7.0
    few = PrivacySpec(delta=1e-6, epsilon=1.0)
    assert planned_width(made, DpPenaltyOptions(num_steps=500), few) == pytest.approx(
        2.0 * 10.0 * 2.4 / made.schema.rows**0.5, rel=1e-3
    )


def planned_width(made, options, privacy=BUDGET):
    spec = JobSpec(model=made.model, sampler=options, privacy=privacy)
    return plan(made.schema, spec, advise=False).spec.sampler.clip_width


@pytest.mark.parametrize("options", [DpPenaltyOptions, DpHmcOptions, DpMalaOptions])
def test_a_plan_says_where_declared_bounds_allow_ratios_that_are_cut(options):
    """Where the noise scale is known, so is that bounds are many times too wide."""
    made = POSTERIORS["linear-known/wide"]()
    for scale, said in ((0.2, True), (20.0, False)):
        model = replace(made.model, options=ModelOptions(noise_scale=scale))
        spec = JobSpec(model=model, sampler=options(num_steps=2000), privacy=BUDGET)
        assert any("are cut" in warning for warning in plan(made.schema, spec).warnings) == said


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="tens of thousands of steps")
@pytest.mark.parametrize("options", [DpPenaltyOptions(), DpHmcOptions(num_steps=4000)])
def test_far_rows_that_are_real_keep_their_say(seeded, options):
    """Errors with heavy tails: half of what ratios are cut to would shift log sigma by 0.7 sd."""
    made = POSTERIORS["linear-heavy/tight"]()
    result = sample(
        made.columns,
        schema=made.schema,
        model=made.model,
        delta=BUDGET.delta,
        epsilon=BUDGET.epsilon,
        sampler=options,
        random=seeded(6),
    )
    kept = result.draws[:, result.plan.num_warmup :]
    draws = kept.reshape(-1, kept.shape[2])
    assert (np.abs(draws.mean(axis=0) - made.means) < 0.2 * made.sds).all()
    np.testing.assert_allclose(draws.std(axis=0), made.sds, rtol=0.15)


def test_gradients_are_put_right_at_the_start_where_they_are_clearly_off(seeded):
    """They vanish where the release has found the posterior, and not where clipping has them."""
    spec, target, find = opened(POSTERIORS["linear/tight"](), start=Start())
    found = find(seeded(4))
    for away, room in ((0.0, 0.1), (5.0, 2.5)):
        moved = away * found.root[:, 0]
        where = replace(found, mode=found.mode + moved, positions=found.positions + moved)
        how = target, spec.sampler, spec.privacy.noise_multiplier, seeded(3)
        offset = hamiltonian.init(*how, where).offset @ found.root
        assert np.linalg.norm(offset) == pytest.approx(away, abs=room)


def leaning(seeded, epsilon):
    """A chain's state, its target, what gradients are and how loud, all in posterior sds."""
    made = POSTERIORS["linear-known/tight"]()
    options = DpMalaOptions(num_steps=500, num_chains=1, start=Start(share=0.5))
    spec = JobSpec(model=made.model, sampler=options, privacy=replace(BUDGET, epsilon=epsilon))
    spec = plan(made.schema, spec, advise=False).spec
    design = make_design(made.schema, made.model.formula)
    table = table_of(made.schema, made.columns)
    opening = design, spec, table, 1
    target, plain = MODELS["linear"].target(*opening), MODELS["linear"].target(*opening)
    how = target, spec.sampler, spec.privacy.noise_multiplier
    state = hamiltonian.init(*how, seeded(2), begun(design, spec, table, seeded(3))[1])
    around = target.position + np.zeros((1, 3))
    loud = spec.sampler.gradient_noise_multiplier
    released = [
        hamiltonian._gradients(
            *(target, spec.sampler, state, around),
            hamiltonian.gradient_noise(seeded(seed), loud, around.shape),
        )
        for seed in range(40)
    ]
    found = np.concatenate(released) @ state.root
    exact = plain.gradient(around, 1e3)[0] + plain.log_prior_gradient(around)
    return state, found, exact @ state.root


def test_loud_gradients_lean_on_what_the_start_has_released(seeded):
    """And quiet ones do not."""
    state, found, exact = leaning(seeded, 1e5)
    assert np.abs(state.pull @ state.root @ state.root.T).max() < 0.1
    np.testing.assert_allclose(found.mean(axis=0), exact[0], atol=0.3)
    state, found, exact = leaning(seeded, 300.0)
    assert 0.5 < -np.trace(state.pull @ state.root @ state.root.T) / 3 < 1.0
    assert np.abs(found - exact).max() < 3.0


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="thousands of gradients")
@pytest.mark.parametrize("name", ["dp_hmc", "dp_mala"])
def test_loud_gradients_still_give_the_draws_that_were_announced(seeded, name):
    """A gradient's noise is some ten posterior sds here: alone it leads nowhere."""
    rows, rng = 40_000, np.random.default_rng(3)
    data = {f"x{j}": rng.uniform(-1.0, 1.0, rows) for j in range(3)}
    columns = tuple(NumberColumn(name=key, lower=-1.0, upper=1.0) for key in data)
    data["y"] = (0.5 + sum(data.values()) + rng.normal(size=rows)).clip(-8.0, 8.0)
    columns = (*columns, NumberColumn(name="y", lower=-8.0, upper=8.0))
    x = np.stack([np.ones(rows), *(data[f"x{j}"] for j in range(3))])
    precision = x @ x.T
    means, sds = np.linalg.solve(precision, x @ data["y"]), np.diag(np.linalg.inv(precision)) ** 0.5
    result = sample(
        data,
        schema=Schema(columns=columns, rows=rows),
        model=ModelSpec(
            family="linear",
            formula="y ~ x0 + x1 + x2",
            options=ModelOptions(noise_scale=1.0, ratio_slope=3.0),
        ),
        delta=1e-6,
        epsilon=18.0,
        sampler=SAMPLERS[name].options(num_steps=4000, num_chains=1),
        random=seeded(6),
        accept_low_quality=True,
    )
    kept = result.draws[:, result.plan.num_warmup :]
    assert (np.abs(kept.mean(axis=(0, 1)) - means) / sds).max() < 0.6
    np.testing.assert_allclose(kept.std(axis=(0, 1)) / sds, np.ones(4), rtol=0.35)
    measured = [one.ess_bulk for one in summarise(Released(kept), result.plan.parameters)]
    assert result.plan.expected_ess > 60.0
    assert 0.5 < np.mean(measured) / result.plan.expected_ess < 2.5


@pytest.mark.parametrize("name", ["linear/off-centre", "logistic/wide"])
def test_gradients_in_round_coordinates_are_those_of_positions(seeded, name):
    """And replacing a row changes their clipped sum by at most twice the clip."""
    made = POSTERIORS[name]()
    spec, target, find = opened(made)
    found = find(seeded(1))
    positions = found.mode + seeded(2).normals((2, len(found.mode))) @ found.root.T
    plain, _ = target.gradient(positions, 1e3)
    back, factor = target.use_coordinates(found.root)
    spread, _ = target.gradient(positions, 1e3 * factor)
    np.testing.assert_allclose(spread @ back, plain, rtol=1e-3, atol=0.1)
    clip = 2.0
    sums, sensitivity = target.gradient(positions, clip)
    assert sensitivity == 2.0 * clip
    design, model = make_design(made.schema, spec.model.formula), MODELS[made.model.family]
    columns = {k: np.array(v) for k, v in made.columns.items()}
    for column in made.schema.columns:
        wide = isinstance(column, NumberColumn)
        columns[column.name][0] = column.lower if wide else column.categories[-1]
    other = model.target(design, spec, table_of(made.schema, columns), 2)
    other.use_coordinates(found.root)
    moved = np.linalg.norm(other.gradient(positions, clip)[0] - sums, axis=1)
    assert (moved <= sensitivity).all()
    assert (moved > 0.3 * sensitivity).any()
