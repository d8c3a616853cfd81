"""Chains start from a release: it is paid for, finds the posterior, and stays usable."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.banana import constants, straighten
from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import (
    DpBarkerOptions,
    DpHmcOptions,
    DpMalaOptions,
    DpPenaltyGuidedOptions,
    DpPenaltyOptions,
    DpPenaltySubsampledOptions,
    Start,
)
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import event, plan
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Compose, Gaussian, Repeat
from dpmcmc.releases import newton_path, noisy_mean
from dpmcmc.releases.quadratic import Quadratic
from dpmcmc.samplers import SAMPLERS, starts
from dpmcmc.samplers.starting import begun, chain_start_of
from experiments.posteriors import POSTERIORS

MODEL = ModelSpec(family="logistic", formula="ill ~ age + group")
STARTED = [
    DpHmcOptions(num_steps=50),
    DpMalaOptions(num_steps=50, num_chains=2),
    DpPenaltyOptions(num_steps=50, start=Start()),
    DpPenaltyGuidedOptions(num_steps=50, start=Start(share=0.5)),
]
PLAIN = ("dp_penalty", "dp_penalty_component", "dp_penalty_guided")
MINIBATCH = [
    DpBarkerOptions(num_steps=50, start=Start()),
    DpPenaltySubsampledOptions(num_steps=50, start=Start()),
]
MADE = ["linear/wide", "linear/off-centre", "poisson/wide", "logistic/wide"]
CHAINS = 3


def job(options, **privacy):
    return JobSpec(model=MODEL, sampler=options, privacy=PrivacySpec(delta=1e-6, **privacy))


def opened(made, epsilon=1e6):
    """(planned job, design, table) of a made posterior."""
    options = DpHmcOptions(num_steps=50, num_chains=CHAINS)
    privacy = PrivacySpec(delta=1e-6, epsilon=epsilon)
    spec = JobSpec(model=made.model, sampler=options, privacy=privacy)
    spec = plan(made.schema, spec, advise=False).spec
    return spec, make_design(made.schema, spec.model.formula), table_of(made.schema, made.columns)


def test_its_event_is_that_of_the_release_and_costs_what_its_multiplier_says():
    happens = starts.event(Start(noise_multiplier=2.0, num_far=7))
    assert happens == newton_path.event(2.0, 7)
    assert accountant.gdp_mu(happens) == pytest.approx(0.5, rel=1e-9)
    assert accountant.gdp_mu(happens) <= 0.5


@pytest.mark.parametrize("options", STARTED, ids=lambda o: o.algorithm)
def test_the_budget_pays_for_the_release_and_the_chain(schema_of, options):
    made = plan(schema_of(2000), job(options, epsilon=2.0))
    assert 1.9999 < made.cost.epsilon <= 2.0
    start = made.spec.sampler.start
    assert isinstance(made.event, Compose)
    assert made.event.events[0] == newton_path.event(start.noise_multiplier, start.num_far)
    assert plan(schema_of(2000), made.spec).spec == made.spec
    assert event(schema_of(2000), made.spec) == made.event


@pytest.mark.parametrize("name", SAMPLERS)
def test_none_is_paid_for_where_none_is_asked_for(schema_of, name):
    options = SAMPLERS[name].options(num_steps=50, start=Start(share=0.0))
    made = plan(schema_of(2000), job(options, epsilon=2.0))
    assert made.spec.sampler.start is None
    assert made.event == SAMPLERS[name].event(made.spec.sampler, made.noise_multiplier, 2000)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("epsilon", [1.0, 30.0])
def test_left_open_a_budget_pays_for_a_start(schema_of, name, epsilon):
    made = plan(schema_of(20_000), job(SAMPLERS[name].options(), epsilon=epsilon))
    assert made.spec.sampler.start is not None
    assert 0.5 * epsilon < made.cost.epsilon <= epsilon
    assert plan(schema_of(20_000), made.spec).spec == made.spec


@pytest.mark.parametrize("name", PLAIN)
def test_a_walk_of_so_many_steps_costs_these_alone_unless_a_start_is_asked_for(schema_of, name):
    """What clients compute: mu = sqrt(all steps of all chains) / noise multiplier."""
    options = SAMPLERS[name].options(num_steps=2000, num_chains=2)
    made = plan(schema_of(900_000), job(options, epsilon=1.0))
    assert made.cost.mu == pytest.approx(math.sqrt(4000) / made.noise_multiplier, rel=1e-12)
    asked = plan(schema_of(900_000), job(replace(options, start=Start()), epsilon=1.0))
    assert asked.spec.sampler.start is not None


@pytest.mark.parametrize("options", MINIBATCH)
def test_secret_minibatches_leave_room_for_a_start(schema_of, options):
    made = plan(schema_of(2000), job(options, epsilon=2.0))
    assert 1.99 < made.cost.epsilon <= 2.0
    start, steps = made.event.events
    assert accountant.gdp_mu(start) == pytest.approx(
        0.5 * accountant.mu_of_epsilon(2.0, 1e-6), rel=1e-9
    )
    assert accountant.epsilon(steps, 1e-6) < 0.95 * made.cost.epsilon


def test_beside_a_noise_multiplier_a_job_costs_its_steps_alone(schema_of):
    made = plan(schema_of(2000), job(DpPenaltyOptions(num_steps=50), noise_multiplier=3.0))
    assert made.event == Repeat(Gaussian(3.0), 50)


def test_a_larger_share_is_paid_where_a_smaller_one_promises_nothing(schema_of):
    rich, poor = (
        plan(schema_of(2000), job(DpHmcOptions(num_steps=50), epsilon=epsilon)).spec.sampler.start
        for epsilon in (100.0, 0.3)
    )
    assert rich.share < poor.share == starts.START_SHARES[-1]


MEANS = {
    "gaussian_mean": ModelOptions(variances=(1.0, 4.0)),
    "banana": ModelOptions(variances=(1.0, 4.0)),
    "natural": ModelOptions(variances=(1.0, 4.0), coordinates="natural", a=0.1),
}


def of_means(kind, options, epsilon=1e5, rows=4000):
    """(schema, columns, job) of rows whose means lie far from the middle of their bounds."""
    rng = np.random.default_rng(7)
    columns = {"x": 5.0 + rng.normal(size=rows), "z": -6.0 + 2.0 * rng.normal(size=rows)}
    numbers = tuple(NumberColumn(name=name, lower=-20.0, upper=20.0) for name in columns)
    family = "gaussian_mean" if kind == "gaussian_mean" else "banana"
    model = ModelSpec(family=family, formula="~ x + z", options=MEANS[kind])
    spec = JobSpec(model=model, sampler=options, privacy=PrivacySpec(delta=1e-6, epsilon=epsilon))
    return Schema(columns=numbers, rows=rows), columns, spec


@pytest.mark.parametrize("kind", MEANS)
def test_chains_of_means_start_from_a_noisy_mean(seeded, kind):
    schema, columns, spec = of_means(kind, DpHmcOptions(num_steps=50, num_chains=2))
    made = plan(schema, spec)
    start = made.spec.sampler.start
    told = noisy_mean.NoisyMeanOptions(shares=start.shares, clip_bounds=start.clip_bounds)
    assert made.event.events[0] == noisy_mean.event(told, start.noise_multiplier, 4000)
    assert made.cost.epsilon == pytest.approx(1e5, rel=1e-6)
    design = make_design(schema, spec.model.formula)
    stored, found = begun(design, made.spec, table_of(schema, columns), seeded(1))
    mean = np.array([np.mean(column) for column in columns.values()])
    free = StoredRelease(schema, made.spec, stored).posterior(random=seeded(2))
    release = MODELS[spec.model.family].release
    drawn = found.mode + seeded(3).normals((4000, 2)) @ found.root.T
    straight = shown = release(design, made.spec, drawn)
    if kind != "gaussian_mean":
        straight = straighten(constants(design, spec.model), shown)
    sds = np.array([1.0, 2.0]) / math.sqrt(4000)
    assert np.abs((straight.mean(axis=0) - mean) / sds).max() < 0.5
    np.testing.assert_allclose(straight.std(axis=0), sds, rtol=0.15)
    np.testing.assert_allclose(free.draws.mean(axis=0), shown.mean(axis=0), atol=0.1)
    away = np.linalg.solve(found.root, (found.positions - found.mode).T)
    assert np.abs(away).max() < 7.0


@pytest.mark.parametrize(
    "start", [Start(num_far=4), Start(shares=(2.0,)), Start(clip_bounds=(1.0,))]
)
def test_a_start_of_another_kind_is_refused(schema_of, start):
    schema, _, spec = of_means("banana", DpHmcOptions(num_steps=50, start=start))
    with pytest.raises(SpecError):
        plan(schema, spec)
    with pytest.raises(SpecError):
        plan(schema_of(2000), job(DpHmcOptions(start=Start(shares=(1.0,))), epsilon=1.0))


@pytest.mark.compiled("looks at 5,000 rows, by every sampler")
@pytest.mark.parametrize("options", STARTED, ids=lambda o: o.algorithm)
def test_the_first_draw_is_near_the_mode_and_the_release_is_kept(schema_of, people, options):
    rows = 5000
    result = sample(
        people(rows),
        schema=schema_of(rows),
        model=MODEL,
        delta=1e-6,
        epsilon=1e5,
        sampler=options,
        accept_low_quality=True,
    )
    truth = np.array([-0.3, 1.0, 0.5, -0.5])
    assert np.abs(result.draws[:, 0] - truth).max() < 0.35
    assert np.isfinite(result.draws).all()
    read = StoredRelease.read(schema_of(rows), result.plan.spec, result.release.to_dict())
    other = read.posterior({"age": NormalPrior(scale=1e-3)})
    assert abs(other.summary()["age"].mean) < 0.1
    assert read.verdict == result.release.verdict


@pytest.mark.parametrize("name", MADE)
def test_a_start_has_the_place_and_the_shape_of_the_posterior(seeded, name):
    """However far the plan's guess of its scale is off."""
    made = POSTERIORS[name]()
    spec, design, table = opened(made)
    found = begun(design, spec, table, seeded(1))[1]
    release = MODELS[spec.model.family].release
    off = (release(design, spec, found.mode[None])[0] - made.means) / made.sds
    assert np.abs(off).max() < 0.5
    own = found.mode + seeded(2).normals((4000, len(off))) @ found.root.T
    np.testing.assert_allclose(release(design, spec, own).std(axis=0), made.sds, rtol=0.25)
    assert np.linalg.norm(np.linalg.solve(found.root, found.error)) < 0.5 * np.linalg.norm(
        found.root
    )


def test_chains_start_at_draws_of_their_own_as_far_apart_as_the_release_is_wide(seeded):
    made = POSTERIORS["logistic/wide"]()
    spec, design, table = opened(made, epsilon=20.0)
    told, found = begun(design, spec, table, seeded(1))
    assert found.positions.shape == (CHAINS, len(made.means))
    assert len(np.unique(found.positions, axis=0)) == CHAINS
    many = chain_start_of(told, (np.zeros(len(found.mode)), found.prior), 4000, seeded(2))
    away = np.linalg.solve(many.root, (many.positions - many.mode).T)
    noise = np.linalg.solve(many.root, many.error) @ np.linalg.inv(many.root).T
    d = len(found.mode)
    np.testing.assert_allclose((away**2).mean(axis=1).sum(), d + np.trace(noise), rtol=0.25)
    target = MODELS["logistic"].target(design, spec, table, CHAINS)
    starts.begin(target, found)
    np.testing.assert_array_equal(target.position, found.positions)


def test_what_cannot_be_computed_with_leaves_chains_where_they_are(seeded):
    """A function of released numbers: it raises on none of them."""
    made = POSTERIORS["logistic/wide"]()
    spec, design, table = opened(made)
    told, found = begun(design, spec, table, seeded(1))
    flat = np.zeros(len(found.mode)), found.prior
    content = told.to_dict()
    content["root"] = (1e-200 * told.root).tolist()
    broken = Quadratic.from_dict(content)
    with np.errstate(all="ignore"):
        assert chain_start_of(broken, flat, 2, seeded(2)) is None
    target = MODELS["logistic"].target(design, spec, table, 2)
    before = target.position.copy()
    starts.begin(target, None)
    np.testing.assert_array_equal(target.position, before)


@pytest.mark.parametrize(("width", "known"), [(1e-8, None), (1e-12, None), (1e-8, 1.0)])
@pytest.mark.parametrize("name", ["dp_penalty", "dp_hmc", "dp_barker"])
def test_a_response_of_tiny_width_is_paid_for_and_run(width, name, known):
    """Its curvature was once found singular after the budget was spent."""
    rng, rows = np.random.default_rng(2), 400
    schema = Schema(
        columns=(
            NumberColumn(name="y", lower=0.0, upper=width),
            NumberColumn(name="x", lower=-1.0, upper=1.0),
        ),
        rows=rows,
    )
    scale = None if known is None else known * width
    options = SAMPLERS[name].options(num_steps=20, start=Start(share=0.3))
    result = sample(
        {"y": width * rng.random(rows), "x": rng.uniform(-1.0, 1.0, rows)},
        schema=schema,
        model=ModelSpec(family="linear", formula="y ~ x", options=ModelOptions(noise_scale=scale)),
        delta=1e-6,
        epsilon=1.0,
        sampler=options,
        accept_low_quality=True,
    )
    assert np.isfinite(result.draws).all()


@pytest.mark.parametrize(
    ("pointer", "start"),
    [
        ("share", Start(share=0.001)),
        ("share", Start(share=-0.1)),
        ("share", Start(share=math.nan)),
        ("noise_multiplier", Start(noise_multiplier=math.inf)),
        ("noise_multiplier", Start(noise_multiplier=1e-3)),
        ("num_far", Start(num_far=0)),
        ("num_far", Start(num_far=1000)),
    ],
)
def test_an_impossible_one_names_its_field(schema_of, pointer, start):
    with pytest.raises(SpecError) as caught:
        plan(schema_of(2000), job(DpHmcOptions(num_steps=50, start=start), epsilon=1.0))
    assert caught.value.pointer == f"/sampler/start/{pointer}"


@pytest.mark.parametrize(
    ("pointer", "options"),
    [
        ("/sampler/step_size", DpHmcOptions(step_size=math.nan)),
        ("/sampler/num_leapfrog", DpHmcOptions(num_leapfrog=0)),
        ("/sampler/mass", DpHmcOptions(mass=(1.0,))),
        ("/sampler/mass", DpMalaOptions(mass=(1.0, 1.0, -1.0, 1.0))),
        ("/sampler/gradient_clip", DpMalaOptions(gradient_clip=math.inf)),
        ("/sampler/gradient_noise_multiplier", DpHmcOptions(gradient_noise_multiplier=1e-4)),
    ],
)
def test_impossible_trajectories_name_their_field(schema_of, pointer, options):
    with pytest.raises(SpecError) as caught:
        plan(schema_of(2000), job(options, epsilon=1.0))
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("step", [1e3, 1e-9])
def test_absurd_step_sizes_give_sane_chains(schema_of, people, step):
    options = DpHmcOptions(num_steps=20, step_size=step, mass=(1e-12,) * 4, start=None)
    result = sample(
        people(200),
        schema=schema_of(200),
        model=MODEL,
        delta=1e-6,
        epsilon=1.0,
        sampler=options,
        accept_low_quality=True,
    )
    assert np.isfinite(result.draws).all()


@pytest.mark.parametrize("family", ["linear", "poisson"])
def test_a_start_of_rows_with_missing_codes_is_that_of_the_complete_ones(seeded, family):
    """Half of the rows is left out: were they counted, its sds would be 30 % narrower."""
    rng, rows = np.random.default_rng(1), 6000
    x, out = rng.uniform(-1.0, 1.0, rows), rng.random(rows) < 0.5
    eta = 0.5 + 0.7 * x
    y = rng.poisson(np.exp(eta)) if family == "poisson" else eta + rng.normal(size=rows)
    found = {}
    for kept, codes in ((np.ones(rows, bool), (-99.0,)), (~out, ())):
        columns = {"x": np.where(out, -99.0, x)[kept], "y": y[kept].clip(-10.0, 40.0)}
        numbers = (
            NumberColumn(name="x", lower=-1.0, upper=1.0, missing=codes),
            NumberColumn(name="y", lower=0.0 if family == "poisson" else -10.0, upper=40.0),
        )
        schema = Schema(columns=numbers, rows=int(kept.sum()))
        model = ModelSpec(family=family, formula="y ~ x")
        privacy = PrivacySpec(delta=1e-6, epsilon=1e5)
        spec = JobSpec(model=model, sampler=DpHmcOptions(num_steps=50), privacy=privacy)
        spec = plan(schema, spec, advise=False).spec
        found[codes] = begun(
            make_design(schema, "y ~ x"), spec, table_of(schema, columns), seeded(1)
        )[1]
    gaps, complete = found.values()
    sds = np.sqrt(np.diag(complete.root @ complete.root.T))
    assert np.abs((gaps.mode - complete.mode) / sds).max() < 0.5
    np.testing.assert_allclose(np.sqrt(np.diag(gaps.root @ gaps.root.T)), sds, rtol=0.1)
