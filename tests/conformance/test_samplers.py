"""What every registered sampler must hold. A sampler gets these tests by being registered."""

import dataclasses
import math
import re
import typing
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.base.private import Permit, Private
from dpmcmc.families import rowwise as row_threads
from dpmcmc.fit.local import table_of
from dpmcmc.fit.run import run
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.privacy import accountant
from dpmcmc.privacy.event_json import as_dict, digest, from_dict
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import OPTIONS
from tests.proofs import proof_of
from tests.sources import Seeded

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


def ready(name, **numbers):
    """Options of a sampler with the noise and the batch that an event needs."""
    options = SAMPLERS[name].options(**numbers)
    given = {"gradient_noise_multiplier": 4.0, "batch": 100, "start": None}
    known = {field.name for field in dataclasses.fields(options)}
    return replace(options, **{key: value for key, value in given.items() if key in known})


def simulated(seed, rows=ROWS):
    """theta from the prior and data from the model at theta."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, PRIOR, 2)
    x = rng.uniform(-1, 1, rows)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-theta[0] - theta[1] * x)), "yes", "no")
    return {"x": x, "y": y}


def job(name, noise_multiplier):
    return JobSpec(
        model=ModelSpec(family="logistic", formula=FORMULA, prior=NormalPrior(scale=PRIOR)),
        sampler=SAMPLERS[name].options(num_steps=10, num_chains=1, num_warmup=0),
        privacy=PrivacySpec(delta=1e-6, noise_multiplier=noise_multiplier),
    )


@pytest.mark.parametrize("name", SAMPLERS)
def test_its_name_is_the_discriminator_of_its_options(name):
    options = SAMPLERS[name].options
    assert SAMPLERS[name].name == name == options().algorithm
    assert options in typing.get_args(OPTIONS)
    assert dataclasses.is_dataclass(options)
    assert options.__dataclass_params__.frozen


@pytest.mark.parametrize("name", SAMPLERS)
def test_it_has_a_proof_that_names_the_mechanisms_of_its_event(name):
    """In a file of its own, or in that of the sampler which it says it is a case of."""
    own = proof_of(name)
    others = set(re.findall(r"\b(dp_\w+)\.md", own)) & set(SAMPLERS)
    told = own + "".join(proof_of(other) for other in sorted(others))
    event = SAMPLERS[name].event(ready(name, num_steps=10, num_chains=2, num_warmup=3), 4.0, 1000)
    mechanisms = set(re.findall(r"(\w+)\(", repr(event))) - {"Repeat", "Compose"}
    assert mechanisms >= {"Gaussian"}
    assert not {kind for kind in mechanisms if f"{kind}(" not in told}
    assert "replace-one" in told.lower()


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
    made = plan(SCHEMA, job(name, 1.0))
    permit = Permit(subject="d", event_digest=digest(made.event))
    rows = Private(table_of(SCHEMA, simulated(0)), subject="d")
    draws = np.concatenate([b.value for b in run(SCHEMA, made.spec, rows, permit)], axis=1)
    assert draws.shape == (made.num_chains, made.num_steps, len(made.parameters))
    assert np.isfinite(draws).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_randomness_gives_the_same_bits_on_any_number_of_threads(monkeypatch, name):
    rows = replace(SCHEMA, rows=700)
    made = plan(rows, job(name, 1.0))
    table = table_of(rows, simulated(0, 700))
    monkeypatch.setattr(row_threads, "MIN_NUMBERS_PER_THREAD", 0)
    found = []
    for threads in (1, 2, 2):
        monkeypatch.setattr(row_threads, "THREADS", threads)
        permit = Permit(subject="d", event_digest=digest(made.event))
        private = Private(table, subject="d")
        blocks = list(run(rows, made.spec, private, permit, random=Seeded(9)))
        found.append(np.concatenate([block.value for block in blocks], axis=1).tobytes())
    assert len(set(found)) == 1
