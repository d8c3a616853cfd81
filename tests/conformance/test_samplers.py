"""What every registered sampler must hold. A sampler gets these tests by being registered."""

import dataclasses
import math
import typing
from dataclasses import replace

import numba
import numpy as np
import pytest
from scipy.stats import chisquare

from dpmcmc.design import make_design
from dpmcmc.models import MODELS
from dpmcmc.planner import plan
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import as_dict, digest, from_dict
from dpmcmc.privacy.pld import leaves
from dpmcmc.privacy.types import Permit, Private
from dpmcmc.run import run, table_of
from dpmcmc.samplers import SAMPLERS, ComponentProposal, Proposal, SamplerOptions, dp_penalty_guided
from dpmcmc.samplers import penalty as penalty_step
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec

ROWS = 12
PRIOR = 1.0
FORMULA = "y ~ x"
SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-1, upper=1),
        BinaryColumn(name="y", categories=("no", "yes")),
    ),
    rows=ROWS,
)
VARIANTS = [
    pytest.param("dp_penalty", Proposal(kind="full", scale=0.7, shape="normal"), 2.0, id="full"),
    pytest.param("dp_penalty", Proposal(kind="component", scale=1.4), 2.0, id="component"),
    pytest.param("dp_penalty", Proposal(scale=1.0, shape="normal"), 2.5, id="component-normal"),
    pytest.param("dp_penalty_component", ComponentProposal(scale=1.4), 2.0, id="own-component"),
    pytest.param("dp_penalty_guided", ComponentProposal(scale=1.0), 2.0, id="guided"),
]
ELSEWHERE = {"dp_penalty_subsampled", "dp_barker", "dp_hmc", "dp_mala"}  # test_calibration.py
compiled = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="half a million steps need the compiler"
)


def ready(name, **numbers):
    """Options of a sampler with the noise and the batch that an event needs."""
    options = SAMPLERS[name].options(**numbers)
    given = {"gradient_noise_multiplier": 4.0, "batch": 100, "warm_start": None}
    known = {field.name for field in dataclasses.fields(options)}
    return replace(options, **{key: value for key, value in given.items() if key in known})


def simulated(seed):
    """theta from the prior and data from the model at theta."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, PRIOR, 2)
    x = rng.uniform(-1, 1, ROWS)
    y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-theta[0] - theta[1] * x)), "yes", "no")
    return {"x": x, "y": y}


def job(name, proposal, noise_multiplier, tempering=None):
    options = SAMPLERS[name].options(num_steps=10, num_chains=1, num_warmup=0)
    if proposal is not None:
        options = replace(options, proposal=proposal)
    return JobSpec(
        model=ModelSpec(
            family="logistic",
            formula=FORMULA,
            prior=NormalPrior(scale=PRIOR),
            tempering=tempering,
        ),
        sampler=options,
        privacy=PrivacySpec(delta=1e-6, noise_multiplier=noise_multiplier),
    )


def exact(data, tempering, count, rng):
    """Exact posterior on a fine grid: draws, and the marginal distribution functions."""
    axis = np.linspace(-5, 5, 501)
    a, b = np.meshgrid(axis, axis, indexing="ij")
    sign = np.where(data["y"] == "yes", 1.0, -1.0)
    log = -0.5 * (a**2 + b**2) / PRIOR**2
    for x, s in zip(data["x"], sign, strict=True):
        log -= tempering * np.logaddexp(0, -s * (a + b * x))
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    cells = rng.choice(mass.size, count, p=mass.ravel())
    step = axis[1] - axis[0]
    draws = np.stack((a.ravel()[cells], b.ravel()[cells]), axis=1)
    draws += rng.uniform(-0.5, 0.5, draws.shape) * step
    marginals = [np.cumsum(mass.sum(axis=1 - k)) for k in range(2)]
    return draws, lambda k, v: np.interp(v, axis + step / 2, marginals[k])


class Seeded:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def normals(self, shape):
        return self.rng.standard_normal(shape)

    def uniforms(self, shape):
        return 1.0 - self.rng.random(shape)

    def integers(self, high, shape):
        return self.rng.integers(high, size=shape)


def calibration(spec, chains=12_000, steps=60):
    """p-values of the ranks of the chains' ends, all started from exact posterior draws.

    Simulation-based calibration: theta from the prior, data from the model, exact posterior draws,
    then `steps` steps. If every step leaves the posterior invariant, the ranks stay uniform.
    """
    tempering = spec.model.tempering or 1.0
    ranks = [[], []]
    for seed in range(3):
        data = simulated(seed)
        rng = np.random.default_rng(100 + seed)
        draws, distribution = exact(data, tempering, chains, rng)
        design = make_design(SCHEMA, FORMULA)
        target = MODELS["logistic"].target(design, spec, table_of(SCHEMA, data), chains)
        target.position[:] = draws
        sampler = SAMPLERS[spec.sampler.algorithm]
        multiplier = spec.privacy.noise_multiplier
        random = Seeded(seed)
        state = sampler.start(target, spec.sampler, multiplier, random)
        ends = sampler.advance(target, spec.sampler, multiplier, steps, random, state)[:, -1]
        for k in range(2):
            ranks[k].append(distribution(k, ends[:, k]))
    counts = [np.histogram(np.concatenate(r), bins=20, range=(0, 1))[0] for r in ranks]
    return [float(chisquare(c).pvalue) for c in counts]


@compiled
@pytest.mark.parametrize(("name", "proposal", "multiplier"), VARIANTS)
def test_every_step_leaves_the_posterior_invariant(name, proposal, multiplier):
    assert min(calibration(job(name, proposal, multiplier))) > 0.001


@compiled
@pytest.mark.parametrize(("name", "proposal", "multiplier"), VARIANTS[:2])
def test_every_step_leaves_the_tempered_posterior_invariant(name, proposal, multiplier):
    assert min(calibration(job(name, proposal, multiplier, tempering=0.4))) > 0.001


@compiled
@pytest.mark.parametrize(("name", "proposal", "multiplier"), VARIANTS)
def test_calibration_would_see_a_penalty_that_is_wrong_by_a_tenth(
    monkeypatch, name, proposal, multiplier
):
    def wrong(sums, sensitivities, priors, noise_multiplier, normals, uniforms):
        s = noise_multiplier * sensitivities
        return list(np.log(uniforms) < sums + s * normals + priors - 0.45 * s * s)

    monkeypatch.setattr(penalty_step, "accept", wrong)
    monkeypatch.setattr(dp_penalty_guided, "accept", wrong)
    assert min(calibration(job(name, proposal, multiplier))) < 0.001


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in ELSEWHERE])
def test_every_penalty_sampler_is_calibrated_here(name):
    assert name in {variant.values[0] for variant in VARIANTS}


@pytest.mark.parametrize("name", SAMPLERS)
def test_its_name_is_the_discriminator_of_its_options(name):
    options = SAMPLERS[name].options
    assert SAMPLERS[name].name == name == options().algorithm
    assert options in typing.get_args(SamplerOptions)
    assert dataclasses.is_dataclass(options)
    assert options.__dataclass_params__.frozen


@pytest.mark.parametrize("name", SAMPLERS)
def test_its_event_is_in_the_vocabulary_and_costs_something(name):
    options = ready(name, num_steps=10, num_chains=2, num_warmup=3)
    event = SAMPLERS[name].event(options, 4.0, 1000)
    assert from_dict(as_dict(event)) == event
    assert 0 < accountant.epsilon(event, 1e-6) < math.inf


@pytest.mark.parametrize("name", SAMPLERS)
def test_warmup_is_charged_like_any_step(name):
    def cost(**numbers):
        options = ready(name, num_chains=2, **numbers)
        return accountant.epsilon(SAMPLERS[name].event(options, 4.0, 1000), 1e-6)

    assert cost(num_steps=10, num_warmup=9) == cost(num_steps=10, num_warmup=0)
    assert cost(num_steps=10, num_warmup=0) < cost(num_steps=11, num_warmup=1)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_planned_job_runs_and_gives_what_the_plan_says(name):
    made = plan(SCHEMA, job(name, None, 1.0))
    permit = Permit(subject="d", event_digest=digest(made.event))
    rows = Private(table_of(SCHEMA, simulated(0)), subject="d")
    draws = np.concatenate([b.value for b in run(SCHEMA, made.spec, rows, permit)], axis=1)
    assert draws.shape == (made.num_chains, made.num_steps, len(made.parameters))
    assert np.isfinite(draws).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_noise_is_used_up_as_it_was_charged(name):
    """One normal or integer for each charged release, beside those of the proposals."""
    made = plan(SCHEMA, job(name, None, 1.0))

    class Counting(Seeded):
        calls: typing.ClassVar[list] = []

        def normals(self, shape):
            self.calls.append(shape)
            return super().normals(shape)

        def integers(self, high, shape):
            self.calls.append(shape)
            return super().integers(high, shape)

    source = Counting(1)
    source.calls.clear()
    permit = Permit(subject="d", event_digest=digest(made.event))
    rows = Private(table_of(SCHEMA, simulated(0)), subject="d")
    list(run(SCHEMA, made.spec, rows, permit, random=source))
    drawn = sum(math.prod(shape) for shape in source.calls)
    assert drawn >= 2 * sum(leaves(made.event).values())
