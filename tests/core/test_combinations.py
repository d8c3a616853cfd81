"""Whatever of noise, steps and chains a job gives or leaves open: it is planned, or refused with a
reason, and everything that plans says the same."""

import itertools
import math
import re
from dataclasses import fields

import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import DpHmcOptions, Start
from dpmcmc.inputs.spec import JobSpec, PrivacySpec
from dpmcmc.planner import plan, shortfall
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.cases import EXAMPLES, people, schema_of

ROWS, DELTA = 300, 1e-6
SCHEMA = schema_of(ROWS)
PRIVACY = tuple(itertools.product((None, 1.0, 100.0), (None, 30.0)))
OPEN = {
    "num_steps": (None, 50),
    "num_chains": (None, 2),
    "gradient_noise_multiplier": (None, 30.0),
    "start": (None, Start(), Start(share=0.0), Start(noise_multiplier=2.0)),
}
REASONS = {
    "/privacy": "give one of epsilon and noise_multiplier",
    "/sampler/num_steps": "is needed beside a noise multiplier",
    "/sampler/gradient_noise_multiplier": "take .* or more, fewer steps, or a larger epsilon",
    "/sampler/start/noise_multiplier": "take .* or more, or a larger epsilon",
}


def family_of(name):
    """A family that the algorithm knows."""
    return "logistic" if name in SAMPLERS else sorted(RELEASES[name].families)[0]


def combinations(name):
    """Every job of an algorithm, with the values of OPEN that its options have."""
    kind = ALGORITHMS[name].options
    known = [field.name for field in fields(kind) if field.name in OPEN]
    for values in itertools.product(*(OPEN[name] for name in known)):
        options = kind(**dict(zip(known, values, strict=True)))
        for epsilon, z in PRIVACY:
            privacy = PrivacySpec(delta=DELTA, epsilon=epsilon, noise_multiplier=z)
            yield JobSpec(model=EXAMPLES[family_of(name)], sampler=options, privacy=privacy)


def outcome(spec, advise):
    """The cost of a job's plan, or where it is refused and why."""
    try:
        made = plan(SCHEMA, spec, advise=advise)
    except SpecError as error:
        return error.pointer, error.message
    assert made.spec.sampler.num_chains == (spec.sampler.num_chains or made.num_chains)
    assert made.spec.sampler.num_steps == (spec.sampler.num_steps or made.num_steps)
    return made.cost


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_combination_is_planned_or_refused_with_a_reason(name):
    costs = []
    for spec in combinations(name):
        given, z = spec.privacy.epsilon, spec.privacy.noise_multiplier
        found = outcome(spec, advise=True)
        assert found == outcome(spec, advise=False), spec
        if isinstance(found, tuple):
            pointer, message = found
            assert re.search(REASONS[pointer], message), spec
            continue
        assert (given is None) != (z is None), spec
        assert given is None or found.epsilon <= given, spec
        costs.append(found)
    assert costs


@pytest.mark.parametrize("name", ["dp_hmc", "dp_mala"])
@pytest.mark.parametrize("chains", [None, 2])
def test_two_noise_multipliers_are_planned_and_run(name, chains):
    options = SAMPLERS[name].options(
        num_steps=50, num_chains=chains, gradient_noise_multiplier=30.0
    )
    made = sample(
        people(ROWS),
        schema=SCHEMA,
        model=EXAMPLES["logistic"],
        delta=DELTA,
        noise_multiplier=30.0,
        sampler=options,
        accept_low_quality=True,
    )
    gradients = (chains or 1) * (50 * options.num_leapfrog + 1)
    steps = (chains or 1) * 50
    assert made.plan.cost.mu == pytest.approx(math.sqrt((steps + gradients) / 30.0**2))
    assert made.draws.shape[:2] == (chains or 1, 50)
    assert any("no posterior can be described" in warning for warning in made.plan.warnings)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_call_is_refused_as_its_plan_is(name):
    for spec in combinations(name):
        found = outcome(spec, advise=False)
        if isinstance(found, tuple):
            with pytest.raises(SpecError) as refused:
                sample(
                    people(ROWS),
                    schema=SCHEMA,
                    model=spec.model,
                    sampler=spec.sampler,
                    epsilon=spec.privacy.epsilon,
                    noise_multiplier=spec.privacy.noise_multiplier,
                    delta=DELTA,
                )
            assert (refused.value.pointer, refused.value.message) == found


def test_steps_that_are_open_are_as_many_as_gradients_of_given_noise_leave():
    options = DpHmcOptions(gradient_noise_multiplier=30.0)
    privacy = PrivacySpec(delta=DELTA, epsilon=8.0)
    job = JobSpec(model=EXAMPLES["logistic"], sampler=options, privacy=privacy)
    made = plan(SCHEMA, job)
    assert made.cost.epsilon == pytest.approx(8.0)
    assert made.num_steps * made.num_chains < 30.0**2 * made.cost.mu**2 / options.num_leapfrog


def test_no_epsilon_is_named_where_none_pays_for_the_noise_that_is_given():
    """A start that costs more than epsilon 1000 leaves the chain nothing."""
    options = DpHmcOptions(num_steps=50, start=Start(noise_multiplier=1e-3))
    privacy = PrivacySpec(delta=DELTA, noise_multiplier=30.0)
    job = JobSpec(model=EXAMPLES["logistic"], sampler=options, privacy=privacy)
    made = plan(SCHEMA, job)
    assert any("at no epsilon up to 1000" in warning for warning in made.warnings)
    assert shortfall(SCHEMA, made, job)[1] is None
