"""A warm start is paid for, finds the mode, and a plan with one is again a job."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.errors import SpecError
from dpmcmc.planner import event, plan
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Compose, Gaussian, Repeat
from dpmcmc.run import sample
from dpmcmc.samplers import (
    SAMPLERS,
    DpBarkerOptions,
    DpHmcOptions,
    DpMalaOptions,
    DpPenaltyGuidedOptions,
    DpPenaltyOptions,
    DpPenaltySubsampledOptions,
    WarmStart,
)
from dpmcmc.samplers.warm_start import event as warm_event
from dpmcmc.spec import JobSpec, ModelSpec, PrivacySpec

MODEL = ModelSpec(family="logistic", formula="ill ~ age + group")
WARM = [
    DpHmcOptions(num_steps=50),
    DpMalaOptions(num_steps=50, num_chains=2),
    DpPenaltyOptions(num_steps=50, warm_start=WarmStart()),
    DpPenaltyGuidedOptions(num_steps=50, warm_start=WarmStart(share=0.5)),
]

PLAIN = ("dp_penalty", "dp_penalty_component", "dp_penalty_guided")
MINIBATCH = [
    DpBarkerOptions(num_steps=50, warm_start=WarmStart()),
    DpPenaltySubsampledOptions(num_steps=50, warm_start=WarmStart()),
]


def job(options, **privacy):
    return JobSpec(model=MODEL, sampler=options, privacy=PrivacySpec(delta=1e-6, **privacy))


def test_all_its_releases_together_cost_what_its_multiplier_says():
    happens = warm_event(WarmStart(noise_multiplier=2.0, num_scores=7))
    assert accountant.gdp_mu(happens) == pytest.approx(0.5, rel=1e-12)
    kinds = [Gaussian, Repeat, Gaussian, Repeat, Gaussian]
    assert [type(part) for part in happens.events] == kinds
    assert happens.events[1].count == 7


@pytest.mark.parametrize("options", WARM, ids=lambda o: o.algorithm)
def test_the_budget_pays_for_warm_start_and_chain(schema_of, options):
    made = plan(schema_of(2000), job(options, epsilon=2.0))
    assert 1.9999 < made.cost.epsilon <= 2.0
    assert isinstance(made.event, Compose)
    assert plan(schema_of(2000), made.spec).spec == made.spec
    assert event(schema_of(2000), made.spec) == made.event


@pytest.mark.parametrize("name", SAMPLERS)
def test_none_is_paid_for_where_none_is_asked_for(schema_of, name):
    options = SAMPLERS[name].options(num_steps=50, warm_start=WarmStart(share=0.0))
    made = plan(schema_of(2000), job(options, epsilon=2.0))
    assert made.spec.sampler.warm_start is None
    assert made.event == SAMPLERS[name].event(made.spec.sampler, made.noise_multiplier, 2000)


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - set(PLAIN)))
def test_left_open_it_is_chosen_where_more_draws_are_expected_of_it(schema_of, name):
    """The way is 1,000 posterior sds long; a chain that is no good has a start at least."""
    rows = 10**6
    free = plan(schema_of(rows), job(SAMPLERS[name].options(num_steps=2000), epsilon=1.0))
    none = SAMPLERS[name].options(num_steps=2000, warm_start=WarmStart(share=0.0))
    assert free.spec.sampler.warm_start is not None
    assert free.expected_ess >= plan(schema_of(rows), job(none, epsilon=1.0)).expected_ess
    assert 0.5 < free.cost.epsilon <= 1.0
    assert plan(schema_of(rows), free.spec).spec == free.spec


@pytest.mark.parametrize("name", PLAIN)
def test_a_penalty_job_costs_its_steps_alone_unless_a_warm_start_is_asked_for(schema_of, name):
    """What clients compute: mu = sqrt(all steps of all chains) / noise multiplier."""
    options = SAMPLERS[name].options(num_steps=2000, num_chains=2)
    made = plan(schema_of(10**6), job(options, epsilon=1.0))
    assert made.cost.mu == pytest.approx(math.sqrt(4000) / made.noise_multiplier, rel=1e-12)
    asked = plan(schema_of(10**6), job(replace(options, warm_start=WarmStart()), epsilon=1.0))
    assert asked.spec.sampler.warm_start is not None


@pytest.mark.parametrize("options", MINIBATCH)
def test_secret_minibatches_leave_room_for_a_warm_start(schema_of, options):
    made = plan(schema_of(2000), job(options, epsilon=2.0))
    assert 1.99 < made.cost.epsilon <= 2.0
    warm, steps = made.event.events
    assert accountant.gdp_mu(warm) == pytest.approx(
        0.5 * accountant.mu_of_epsilon(2.0, 1e-6), rel=1e-9
    )
    assert accountant.epsilon(steps, 1e-6) < 0.95 * made.cost.epsilon


def test_without_one_a_penalty_job_costs_its_steps_alone(schema_of):
    made = plan(schema_of(2000), job(DpPenaltyOptions(num_steps=50), noise_multiplier=3.0))
    assert made.event == Repeat(Gaussian(3.0), 50)


@pytest.mark.parametrize("options", WARM, ids=lambda o: o.algorithm)
def test_the_first_draw_is_near_the_mode(schema_of, people, options):
    rows = 5000
    result = sample(
        people(rows),
        schema=schema_of(rows),
        model=MODEL,
        delta=1e-6,
        epsilon=1e5,
        sampler=options,
    )
    truth = np.array([-0.3, 1.0, 0.5, -0.5])
    assert np.abs(result.draws[:, 0] - truth).max() < 0.35
    assert np.isfinite(result.draws).all()


@pytest.mark.parametrize(
    ("pointer", "warm"),
    [
        ("share", WarmStart(share=0.001)),
        ("share", WarmStart(share=-0.1)),
        ("share", WarmStart(share=math.nan)),
        ("noise_multiplier", WarmStart(noise_multiplier=math.inf)),
        ("noise_multiplier", WarmStart(noise_multiplier=1e-3)),
        ("num_scores", WarmStart(num_scores=0)),
        ("gradient_clip", WarmStart(gradient_clip=-1.0)),
    ],
)
def test_an_impossible_one_names_its_field(schema_of, pointer, warm):
    with pytest.raises(SpecError) as caught:
        plan(schema_of(2000), job(DpHmcOptions(num_steps=50, warm_start=warm), epsilon=1.0))
    assert caught.value.pointer == f"/sampler/warm_start/{pointer}"


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
    options = DpHmcOptions(num_steps=20, step_size=step, mass=(1e-12,) * 4, warm_start=None)
    result = sample(
        people(200),
        schema=schema_of(200),
        model=MODEL,
        delta=1e-6,
        epsilon=1.0,
        sampler=options,
    )
    assert np.isfinite(result.draws).all()
