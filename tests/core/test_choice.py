"""The planner's own choice, why, and what it names as a remedy."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import (
    AutoOptions,
    DpBarkerOptions,
    DpPenaltyGuidedOptions,
    DpPenaltyOptions,
    NoisyMeanOptions,
)
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.releases import RELEASES

FORMULAS = {
    "logistic": "ill ~ age + group",
    "linear": "age ~ group",
    "poisson": "age ~ group",
    "gaussian_mean": "~ age",
    "banana": "~ age + `body mass`",
}


def job(family, epsilon, sampler=None, delta=1e-6, **options):
    return JobSpec(
        model=ModelSpec(family=family, formula=FORMULAS[family], options=ModelOptions(**options)),
        sampler=sampler or AutoOptions(),
        privacy=PrivacySpec(delta=delta, epsilon=epsilon),
    )


@pytest.mark.parametrize("family", ["gaussian_mean", "banana"])
@pytest.mark.parametrize(("rows", "epsilon"), [(200, 0.1), (10**6, 10.0), (10**6, 1e5)])
def test_an_exact_release_wins_wherever_there_is_one(schema_of, family, rows, epsilon):
    made = plan(schema_of(rows), job(family, epsilon, delta=1e-7))
    assert made.spec.sampler.algorithm == "noisy_mean"
    assert any("exact" in reason for reason in made.reasons)


@pytest.mark.parametrize("family", ["logistic", "linear", "poisson"])
def test_a_release_stands_in_where_no_chain_has_enough_draws(schema_of, family):
    made = plan(schema_of(300), job(family, 1.0))
    assert made.spec.sampler.algorithm == "noisy_quadratic"
    assert any("effective sample size" in reason for reason in made.reasons)
    assert made.expected_ess == 4000


@pytest.mark.parametrize("family", ["logistic", "linear", "poisson"])
@pytest.mark.parametrize(("rows", "epsilon"), [(20_000, 2.0), (900_000, 20.0)])
def test_a_release_comes_first_where_it_is_close_and_rows_are_many(
    schema_of, family, rows, epsilon
):
    made = plan(schema_of(rows), job(family, epsilon))
    assert made.spec.sampler.algorithm == "noisy_quadratic"
    assert any("expected to be" in reason and "wide" in reason for reason in made.reasons)


def test_a_chain_is_taken_where_it_has_enough_draws_and_rows_are_few(schema_of):
    made = plan(schema_of(300), job("logistic", 1e5))
    assert made.spec.sampler.algorithm.startswith("dp_")
    assert made.expected_ess >= 400
    assert any(made.spec.sampler.algorithm in reason for reason in made.reasons)
    assert any("noisy_quadratic" in reason for reason in made.reasons)


def test_a_release_is_taken_where_its_mean_is_hardly_off(schema_of):
    """A chain would be nearer, and take a minute to be a tenth of an sd nearer at most."""
    made = plan(schema_of(20_000), job("logistic", 1e5))
    assert made.spec.sampler.algorithm == "noisy_quadratic"
    assert any("no chain is worth its time" in reason for reason in made.reasons)
    chain = plan(schema_of(20_000), job("logistic", 1e5, DpPenaltyGuidedOptions()))
    assert chain.expected_ess > 2000


def test_a_chain_that_has_hardly_mixed_is_not_taken(schema_of):
    """Although its mean is expected to be nearer: its own verdict would refuse it."""
    chain = plan(schema_of(20_000), job("logistic", 20.0, DpPenaltyGuidedOptions()))
    assert 100 < chain.expected_ess < 2000
    made = plan(schema_of(20_000), job("logistic", 20.0))
    assert made.spec.sampler.algorithm == "noisy_quadratic"


def test_the_chain_that_is_taken_is_the_best_of_all(schema_of):
    schema = schema_of(300)
    made = plan(schema, job("logistic", 1e5))
    for options in (DpPenaltyOptions(), DpPenaltyGuidedOptions()):
        other = plan(schema, job("logistic", 1e5, options))
        assert made.expected_ess >= other.expected_ess
        assert other.reasons == ()


def test_the_choice_is_resolved_in_the_plan_and_planned_again_alike(schema_of):
    made = plan(schema_of(5000), job("logistic", 1.0))
    again = plan(schema_of(5000), made.spec)
    assert again.spec == made.spec
    assert again.event == made.event
    assert again.reasons == ()


def test_a_noise_multiplier_needs_a_named_algorithm(schema_of):
    spec = replace(job("logistic", None), privacy=PrivacySpec(delta=1e-6, noise_multiplier=10.0))
    with pytest.raises(SpecError) as caught:
        plan(schema_of(5000), spec)
    assert caught.value.pointer == "/sampler/algorithm"


def test_without_a_sampler_the_library_lets_the_planner_choose():
    schema = Schema(columns=(NumberColumn(name="x", lower=-8, upper=8),), rows=500)
    result = sample(
        {"x": np.random.default_rng(1).normal(1.0, 1.0, 500)},
        schema=schema,
        model=ModelSpec(family="gaussian_mean", formula="~ x"),
        delta=1e-6,
        epsilon=4.0,
    )
    assert result.plan.spec.sampler.algorithm == "noisy_mean"
    assert result.draws.mean() == pytest.approx(1.0, abs=0.3)


def named_epsilon(warning):
    return float(re.search(r"at epsilon ([\d.e+]+) ", warning).group(1))


def test_a_budget_too_small_for_a_chain_names_one_that_does(schema_of):
    schema = schema_of(20_000)
    made = plan(schema, job("logistic", 1.0, DpPenaltyOptions()))
    (warning,) = [w for w in made.warnings if "expected_ess" in w]
    better = named_epsilon(warning)
    assert 1.0 < better < 50.0
    assert plan(schema, job("logistic", better, DpPenaltyOptions())).expected_ess >= 400
    assert plan(schema, job("logistic", 0.97 * better, DpPenaltyOptions())).expected_ess < 400
    assert re.search(r"noisy_quadratic .* [\d.]+ times as wide", warning)


def test_a_remedy_beside_a_noise_multiplier_is_an_epsilon_too(schema_of):
    options = DpPenaltyOptions(num_steps=500, num_chains=1)
    spec = replace(
        job("logistic", None, options), privacy=PrivacySpec(delta=1e-6, noise_multiplier=100.0)
    )
    (warning,) = plan(schema_of(20_000), spec).warnings
    assert "noisy_quadratic" in warning


def test_secret_minibatches_are_pointed_to_what_would_help(schema_of):
    options = DpBarkerOptions(num_steps=1000, num_chains=1)
    (warning,) = plan(schema_of(2000), job("logistic", 1.0, options)).warnings
    assert re.search(r"noisy_quadratic .* [\d.]+ times as wide", warning)


def test_a_release_that_is_wide_names_an_epsilon_at_which_it_is_not(schema_of):
    schema = schema_of(500)
    made = plan(schema, job("banana", 0.3))
    (warning,) = [w for w in made.warnings if "would be" in w]
    better = plan(schema, job("banana", 1.03 * named_epsilon(warning)))
    assert not any("would be" in w for w in better.warnings)


def test_rows_that_are_cut_are_said_to_be_with_what_it_costs_to_cut_none(schema_of):
    schema = schema_of(20_000)
    declared = {"variances": (9.0,)}
    (warning,) = plan(schema, job("gaussian_mean", 1.0, **declared)).warnings
    wide = float(re.search(r"cuts none, for draws ([\d.]+) times", warning).group(1))
    uncut = NoisyMeanOptions(shares=(1.0,))
    assert plan(schema, job("gaussian_mean", 1.0, uncut, **declared)).warnings == ()
    assert 1.0 < wide < 1.25
    assert plan(schema, job("gaussian_mean", 1.0)).warnings == ()  # within two sds anyhow


@pytest.mark.parametrize("family", ["linear", "poisson"])
def test_unbounded_ratios_are_said_to_be_dear_with_what_a_cut_would_save(family):
    columns = (
        NumberColumn(name="x", lower=-1, upper=1),
        NumberColumn(name="y", lower=0, upper=60),
    )
    schema = Schema(columns=columns, rows=10**6)

    def planned(slope):
        scale = 1.0 if family == "linear" else None
        options = ModelOptions(ratio_slope=slope, noise_scale=scale)
        model = ModelSpec(family=family, formula="y ~ x", options=options)
        return plan(
            schema,
            JobSpec(
                model=model,
                sampler=DpPenaltyGuidedOptions(),
                privacy=PrivacySpec(delta=1e-7, epsilon=3.0),
            ),
        )

    (warning,) = [w for w in planned(None).warnings if "ratio_slope" in w]
    slope, ess = map(float, re.search(r"slope ([\d.]+) .*would be ([\d.e+]+) in", warning).groups())
    assert planned(slope).expected_ess == pytest.approx(ess, rel=0.02)
    assert ess >= 2 * planned(None).expected_ess
    assert not any("ratio_slope" in w for w in planned(slope).warnings)


@pytest.mark.parametrize("rows", [1, 2, 10**9])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 1e6])
@pytest.mark.parametrize("family", FORMULAS)
def test_any_size_and_budget_gives_a_choice(schema_of, family, rows, epsilon):
    made = plan(schema_of(rows), job(family, epsilon, delta=min(1e-6, 0.1 / rows)))
    assert math.isfinite(made.expected_ess)
    assert made.reasons
    assert made.cost.epsilon <= epsilon


def test_other_releases_are_set_beside_the_one_that_is_chosen(schema_of):
    made = plan(schema_of(20_000), job("linear", 1.0))
    assert made.spec.sampler.algorithm == "noisy_quadratic"
    for name in ("sufficient_statistics", "dp_vi"):
        assert any(reason.startswith(f"{name} is expected to be") for reason in made.reasons)
    alone = plan(schema_of(20_000), job("poisson", 1.0))
    assert not any(reason.startswith("sufficient_statistics") for reason in alone.reasons)


def test_another_release_is_chosen_where_it_is_expected_to_be_clearly_narrower(
    schema_of, monkeypatch
):
    wide = replace(
        RELEASES["noisy_quadratic"],
        sd_inflation=lambda _, facts, __: np.full(len(facts.prior), 9.0),
        misfit=None,
    )
    monkeypatch.setitem(RELEASES, "noisy_quadratic", wide)
    made = plan(schema_of(20_000), job("linear", 4.0))
    assert made.spec.sampler.algorithm in ("sufficient_statistics", "dp_vi")
    assert any("noisy_quadratic is expected to be 9 times" in reason for reason in made.reasons)
