import math
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Neighbouring
from dpmcmc.families import moments
from dpmcmc.inputs.options import (
    DpBarkerOptions,
    DpPenaltyComponentOptions,
    DpPenaltyOptions,
    DpPenaltySubsampledOptions,
    Proposal,
)
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import event, plan
from dpmcmc.privacy import accountant
from dpmcmc.privacy.accountant import epsilon_of_mu
from dpmcmc.privacy.events import Gaussian, Repeat

NAN = math.nan


@pytest.fixture
def schema(schema_of):
    return schema_of(20_000)


def job(options=None, epsilon=4.0, formula="ill ~ age + group", **privacy):
    if privacy.get("noise_multiplier") is not None:
        epsilon = None
    return JobSpec(
        model=ModelSpec(family="logistic", formula=formula),
        sampler=options or DpPenaltyOptions(),
        privacy=PrivacySpec(**{"delta": 1e-6, "epsilon": epsilon, **privacy}),
    )


def test_everything_open_is_filled(schema):
    made = plan(schema, job())
    options = made.spec.sampler
    assert None not in (options.num_steps, options.num_chains, options.num_warmup)
    assert options.proposal.scale > 0
    assert made.spec.privacy.epsilon is None
    assert made.spec.privacy.noise_multiplier == made.noise_multiplier
    assert made.parameters == ("Intercept", "age", "group[b]", "group[c]")


def test_the_cost_is_within_the_epsilon_asked_for_and_close_to_it(schema):
    made = plan(schema, job(epsilon=1.5))
    assert made.cost.epsilon <= 1.5
    assert made.cost.epsilon == pytest.approx(1.5, rel=1e-9)


def test_a_job_costs_the_root_of_all_steps_over_the_noise_multiplier(schema):
    made = plan(schema, job(DpPenaltyOptions(num_steps=500, num_chains=4), noise_multiplier=50.0))
    assert made.cost.mu == pytest.approx(math.sqrt(2000) / 50, rel=1e-12)
    assert made.cost.mu >= math.sqrt(2000) / 50 * (1 - 1e-15)
    assert made.cost.epsilon == epsilon_of_mu(made.cost.mu, 1e-6)
    assert made.event == Repeat(Gaussian(50.0), 2000)


def test_a_plan_of_a_plan_is_the_same_plan(schema):
    made = plan(schema, job())
    again = plan(schema, made.spec)
    assert again.spec == made.spec
    assert again.event == made.event == event(schema, made.spec)
    assert again.expected_ess == pytest.approx(made.expected_ess)


def test_what_the_caller_fixed_stays(schema):
    options = DpPenaltyOptions(
        num_steps=700,
        num_chains=3,
        num_warmup=90,
        proposal=Proposal(kind="full", scale=0.02, adapt=False, stretch=3.0),
    )
    assert replace(plan(schema, job(options)).spec.sampler, start=None) == options


def test_a_budget_too_small_for_a_chain_is_said(schema):
    made = plan(schema, job(epsilon=0.5))
    assert made.expected_ess < 10
    assert any("expected_ess" in warning for warning in made.warnings)
    assert (made.usable, made.expected_width) == (False, None)
    made = plan(schema, job(epsilon=100.0))
    assert not made.warnings
    assert made.usable
    assert 1.0 < made.expected_width < 1.01


def test_the_width_of_a_chain_that_cuts_rows_is_not_known(schema):
    made = plan(schema, job(DpPenaltyOptions(clip_bound=0.5), epsilon=300.0))
    assert made.usable
    assert made.expected_width is None


def test_clipping_is_said_to_change_the_target(schema):
    made = plan(schema, job(DpPenaltyOptions(clip_bound=0.01), epsilon=10.0))
    assert any("clip" in warning for warning in made.warnings)


def test_more_budget_and_more_rows_are_expected_to_give_more(schema_of):
    ess = [plan(schema_of(20_000), job(epsilon=e)).expected_ess for e in (1.0, 2.0, 4.0, 8.0, 16.0)]
    assert ess == sorted(ess)
    ess = [plan(schema_of(n), job()).expected_ess for n in (100, 1000, 10_000, 100_000)]
    assert ess == sorted(ess)


def test_moves_of_one_component_are_expected_to_give_more_than_full_ones(schema):
    full = plan(schema, job(DpPenaltyOptions(proposal=Proposal(kind="full"))))
    assert full.expected_ess < plan(schema, job()).expected_ess


def test_the_planned_scale_is_the_best_of_its_neighbours(schema):
    made = plan(schema, job())
    for factor in (0.5, 2.0):
        scale = made.spec.sampler.proposal.scale * factor
        fixed = replace(
            made.spec.sampler, proposal=replace(made.spec.sampler.proposal, scale=scale)
        )
        assert plan(schema, replace(made.spec, sampler=fixed)).expected_ess < made.expected_ess


@pytest.mark.parametrize("rows", [1, 2, 10, 10**9])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 1e6])
def test_any_size_and_budget_gives_a_finite_plan(schema_of, rows, epsilon):
    made = plan(schema_of(rows), job(epsilon=epsilon, delta=min(1e-6, 0.1 / rows)))
    assert math.isfinite(made.expected_ess)
    assert made.num_steps >= 1
    assert 0 <= made.num_warmup < made.num_steps


OPT = DpPenaltyOptions


@pytest.mark.parametrize(
    ("pointer", "spec"),
    [
        ("/model/family", replace(job(), model=ModelSpec(family="nothing", formula="ill ~ age"))),
        ("/model/formula", job(formula="ill ~ nobody")),
        ("/model/formula", job(formula="age ~ group")),
        ("/model/formula", job(formula="group ~ age")),
        ("/privacy", job(epsilon=None)),
        (
            "/privacy",
            replace(job(), privacy=PrivacySpec(delta=1e-6, epsilon=1, noise_multiplier=1)),
        ),
        ("/privacy/epsilon", job(epsilon=0.0)),
        ("/privacy/epsilon", job(epsilon=NAN)),
        ("/privacy/epsilon", job(epsilon=math.inf)),
        ("/privacy/epsilon", job(epsilon=-1.0)),
        ("/privacy/delta", job(delta=0.0)),
        ("/privacy/delta", job(delta=1.0)),
        ("/privacy/delta", job(delta=NAN)),
        ("/privacy/noise_multiplier", job(noise_multiplier=0.0)),
        ("/privacy/noise_multiplier", job(noise_multiplier=math.inf)),
        ("/sampler/num_steps", job(noise_multiplier=2.0)),
        ("/sampler/num_steps", job(OPT(num_steps=0))),
        ("/sampler/num_steps", job(OPT(num_steps=-3))),
        ("/sampler/num_steps", job(OPT(num_steps=True))),
        ("/sampler/num_steps", job(OPT(num_steps=10**12))),
        ("/sampler/num_steps", job(OPT(num_steps=1_000_000, num_chains=16))),
        ("/sampler/num_chains", job(OPT(num_chains=0))),
        ("/sampler/num_chains", job(OPT(num_chains=10_000))),
        ("/sampler/num_warmup", job(OPT(num_steps=100, num_warmup=100))),
        ("/sampler/num_warmup", job(OPT(num_warmup=-1))),
        ("/sampler/proposal/scale", job(OPT(proposal=Proposal(scale=0.0)))),
        ("/sampler/proposal/scale", job(OPT(proposal=Proposal(scale=math.inf)))),
        ("/sampler/proposal/scale", job(OPT(proposal=Proposal(scale=NAN)))),
        ("/sampler/clip_bound", job(OPT(clip_bound=0.0))),
        ("/sampler/clip_bound", job(OPT(clip_bound=NAN))),
    ],
)
def test_what_cannot_be_planned_names_its_field(schema, pointer, spec):
    with pytest.raises(SpecError) as caught:
        plan(schema, spec)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("options", [DpBarkerOptions, DpPenaltySubsampledOptions])
def test_sizes_are_checked_before_anything_is_costed(schema, options, monkeypatch):
    monkeypatch.setattr(accountant, "epsilon", lambda *_: pytest.fail("costed"))
    with pytest.raises(SpecError) as caught:
        plan(schema, job(options(num_steps=1_000_000, num_chains=8)))
    assert caught.value.pointer == "/sampler/num_steps"


@pytest.mark.parametrize("options", [DpBarkerOptions, DpPenaltySubsampledOptions])
def test_the_longest_chains_on_batches_are_planned_within_seconds(schema, options):
    """They took a minute and more."""
    spec = job(options(num_steps=1_000_000, num_chains=4), epsilon=1.0)
    began = time.process_time()
    made = plan(schema, spec)
    assert made.cost.epsilon <= 1.0
    assert time.process_time() - began < 4.0


@pytest.mark.parametrize(
    ("pointer", "model"),
    [
        ("/model/prior/scale", {"prior": NormalPrior(scale=0.0)}),
        ("/model/prior/scale", {"prior": NormalPrior(scale=NAN)}),
        ("/model/tempering", {"tempering": 0.0}),
        ("/model/tempering", {"tempering": 1.5}),
    ],
)
def test_what_cannot_be_modelled_names_its_field(schema, pointer, model):
    spec = replace(job(), model=ModelSpec(family="logistic", formula="ill ~ age", **model))
    with pytest.raises(SpecError) as caught:
        plan(schema, spec)
    assert caught.value.pointer == pointer


def test_empty_data_and_other_neighbours_are_refused(schema, schema_of):
    with pytest.raises(SpecError, match="no rows"):
        plan(schema_of(0), job())
    with pytest.raises(SpecError, match="replace_one"):
        plan(replace(schema, neighbouring=Neighbouring.ADD_REMOVE), job())


def test_an_open_job_has_no_event_yet(schema):
    with pytest.raises(SpecError):
        event(schema, job())
    with pytest.raises(SpecError):
        event(schema, job(DpPenaltyComponentOptions(num_steps=2), noise_multiplier=3.0))


def test_planning_loads_no_compiler_and_no_statistics():
    script = """
import sys
from dpmcmc import plan
from dpmcmc.inputs.options import DpPenaltyOptions
from dpmcmc.samplers import SAMPLERS
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
columns = (NumberColumn(name="x", lower=0, upper=1), BinaryColumn(name="y", categories=("n", "p")))
spec = JobSpec(model=ModelSpec(family="logistic", formula="y ~ x"), sampler=DpPenaltyOptions(),
               privacy=PrivacySpec(delta=1e-6, epsilon=1.0))
plan(Schema(columns=columns, rows=1000), spec)
loaded = {"numba", "scipy.stats", "arviz_stats", "matplotlib", "xarray"} & set(sys.modules)
sys.exit(repr(loaded) if loaded else 0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_plan_says_what_is_left_where_numbers_vary_half_as_much(schema, monkeypatch):
    def said(epsilon):
        made = plan(schema, job(epsilon=epsilon, formula="ill ~ age + `body mass`"))
        return made, [text for text in made.warnings if "numbers vary by" in text]

    made, (warning,) = said(40.0)
    left = float(warning.rsplit(" ", 1)[1])
    assert left < 0.5 * made.expected_ess
    for name in ("OFF", "FILL"):
        monkeypatch.setattr(moments, name, 0.5 * getattr(moments, name))
    assert plan(schema, made.spec).expected_ess == pytest.approx(left, rel=0.3)
    assert said(1e5)[1] == []
