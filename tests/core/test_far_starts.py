"""Chains that begin with a warm start find their own scale where the plan's guess is far off."""

from dataclasses import replace

import numba
import numpy as np
import pytest

from dpmcmc.design import make_design
from dpmcmc.models import MODELS
from dpmcmc.planner import plan
from dpmcmc.run import sample, table_of
from dpmcmc.samplers import DpHmcOptions, DpMalaOptions, WarmStart, hamiltonian, warm_start
from dpmcmc.schema import NumberColumn
from dpmcmc.spec import JobSpec, PrivacySpec
from experiments.posteriors import POSTERIORS

FAR = ["linear/wide", "linear/off-centre", "poisson/wide"]
BUDGET = PrivacySpec(delta=1e-6, epsilon=1e6)


def opened(made, **options):
    """(planned job, target, release) of a made posterior."""
    spec = JobSpec(model=made.model, sampler=DpHmcOptions(num_steps=500, **options), privacy=BUDGET)
    spec = plan(made.schema, spec, advise=False).spec
    design, model = make_design(made.schema, spec.model.formula), MODELS[made.model.family]
    target = model.target(design, spec, table_of(made.schema, made.columns), 2)
    return spec, target, lambda positions: model.release(design, spec, positions)


@pytest.mark.parametrize("name", FAR)
def test_the_way_ends_at_the_mode_whatever_the_plan_took_the_scale_to_be(seeded, name):
    made = POSTERIORS[name]()
    spec, target, release = opened(made, warm_start=WarmStart())
    found = warm_start.find(target, spec.sampler.warm_start, seeded(1))
    off = (release(found.mode[None])[0] - made.means) / made.sds
    assert np.abs(off).max() < 0.5
    draws = release(found.mode + seeded(2).normals((4000, len(off))) @ found.root.T)
    np.testing.assert_allclose(draws.std(axis=0), made.sds, rtol=0.2)


@pytest.mark.parametrize("counts", [20.0, 0.1])
def test_the_way_ends_at_the_mode_of_large_and_of_rare_counts(seeded, counts):
    made = POSTERIORS["poisson/tight"]()
    rng = np.random.default_rng(1)
    y = rng.poisson(counts * np.exp(0.3 * made.columns["x0"])).astype(float)
    top = NumberColumn(name="y", lower=0.0, upper=float(y.max()))
    schema = replace(made.schema, columns=(*made.schema.columns[:-1], top))
    spec, target, _ = opened(replace(made, schema=schema, columns=made.columns | {"y": y}))
    found = warm_start.find(target, spec.sampler.warm_start, seeded(1))
    back, positions = np.linalg.inv(found.root), found.mode[None]
    score = target.gradient(positions, 1e3)[0] + target.log_prior_gradient(positions)
    assert np.linalg.norm(score @ found.root) < 0.5
    exact = target.gram(positions, 1e3)[0][0] + np.diag(
        (target.log_prior_gradient(0 * positions) - target.log_prior_gradient(0 * positions + 1))[0]
    )
    np.testing.assert_allclose(found.root.T @ exact @ found.root, np.eye(len(back)), atol=0.4)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="thousands of gradients")
@pytest.mark.parametrize("options", [DpHmcOptions, DpMalaOptions])
def test_trajectories_are_accepted_where_bounds_allow_far_more_than_rows_do(seeded, options):
    made = POSTERIORS["linear/wide"]()
    result = sample(
        made.columns,
        schema=made.schema,
        model=made.model,
        privacy=BUDGET,
        sampler=options(num_steps=600),
        random=seeded(5),
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
    target.cut(0.05 * np.eye(4))
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
        other.cut(0.05 * np.eye(4))
        other.refresh()
        changed, same, _ = other.vector_ratios(deltas)
        np.testing.assert_array_equal(same, sensitivities)
        assert (np.abs(changed - sums) <= sensitivities).all()
        assert (np.abs(changed - sums) > 0.2 * sensitivities).any()


def test_clipped_gradients_are_put_right_at_the_start_where_that_is_clear_of_noise(seeded):
    """Five rows far off pull the true mode, and nothing of a clipped gradient."""
    made = POSTERIORS["linear/tight"]()
    y = made.columns["y"].copy()
    y[:5] = y.max() + 100.0
    bounds = NumberColumn(name="y", lower=float(y.min()), upper=float(y.max()))
    schema = replace(made.schema, columns=(*made.schema.columns[:-1], bounds))
    far = replace(made, schema=schema, columns=made.columns | {"y": y})
    spec, target, _ = opened(far, warm_start=WarmStart())
    state = hamiltonian.start(target, spec.sampler, spec.privacy.noise_multiplier, seeded(3))
    assert np.linalg.norm(state.offset @ state.root) > 1.0
    spec, target, _ = opened(made, warm_start=WarmStart())
    state = hamiltonian.start(target, spec.sampler, spec.privacy.noise_multiplier, seeded(3))
    assert not state.offset.any()


@pytest.mark.parametrize("name", ["linear/off-centre", "logistic/wide"])
def test_gradients_in_round_coordinates_are_those_of_positions(seeded, name):
    """And replacing a row changes their clipped sum by at most twice the clip."""
    made = POSTERIORS[name]()
    spec, target, _ = opened(made)
    found = warm_start.find(target, spec.sampler.warm_start, seeded(1))
    positions = found.mode + seeded(2).normals((2, len(found.mode))) @ found.root.T
    plain, _ = target.gradient(positions, 1e3)
    back, factor = target.spread(found.root)
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
    other.spread(found.root)
    moved = np.linalg.norm(other.gradient(positions, clip)[0] - sums, axis=1)
    assert (moved <= sensitivity).all()
    assert (moved > 0.3 * sensitivity).any()
