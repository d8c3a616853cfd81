"""Moves are fitted to released draws: when they should be, to what they should, and to no more."""

import math
from dataclasses import replace
from functools import partial

import numba
import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Released
from dpmcmc.families import MODELS
from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import (
    ComponentProposal,
    DpBarkerOptions,
    DpPenaltyOptions,
    DpPenaltySubsampledOptions,
    Proposal,
    Start,
)
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.planner.facts import PublicFacts
from dpmcmc.planner.resolve import ARVIZ_FLOOR, _batched
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.samplers import SAMPLERS, adaptation
from dpmcmc.samplers.adaptation import (
    Walk,
    adaptation_steps,
    axes,
    best_moves,
    effective,
    lengths,
    shortened_to,
)
from dpmcmc.samplers.penalty_mixing import PenaltyMixing

RNG = np.random.default_rng(7)
RIDGE = np.array([[1.0, 0.99], [0.99, 1.0]])


class Even:
    """A target whose widths are lengths, times `noise`."""

    rows, tempering = 100, 1.0

    def __init__(self, noise=0.0):
        self.noise = noise

    def widths(self, _, deltas, __=False):
        return self.noise * np.linalg.norm(deltas, axis=1)


def walk_of(scale=0.1, steps=640, noise=0.0, kind="component", dimension=2):
    fit = PenaltyMixing().fit(DpPenaltyOptions(), Even(), 1.0)
    return Walk(Even(noise), axes(scale, dimension, kind), steps, fit)


def normals(covariance, chains=2, count=400):
    root = np.linalg.cholesky(covariance)
    return RNG.normal(size=(chains, count, len(root))) @ root.T


def following(draws, walk, count):
    return draws[:, walk._done : walk._done + count]


def test_fits_come_at_public_counts_and_end_with_the_warm_up():
    assert adaptation_steps(6400) == (100, 200, 400, 800, 1600, 2400, 3200, 4800, 6400)
    assert adaptation_steps(3) == (1, 2, 3)
    assert adaptation_steps(0) == ()


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_blocks_may_end_anywhere(block):
    draws, taken = normals(RIDGE, count=1000), []
    walk = walk_of()

    def advance(count):
        start = sum(taken)
        taken.append(count)
        return draws[:, start : start + count]

    kinds = []
    for start in range(0, 1000, block):
        size = min(block, 1000 - start)
        assert walk.through(size, advance).shape == (2, size, 2)
        kinds.append((start + size, walk.moves))
    frozen = [moves for done, moves in kinds if done >= 640]
    assert all(moves is frozen[0] for moves in frozen)
    whole = walk_of()
    whole.through(1000, lambda count: draws[:, whole._done : whole._done + count])
    np.testing.assert_array_equal(walk.moves.vectors, whole.moves.vectors)


def test_independent_draws_count_as_many_as_they_are():
    assert effective(normals(np.eye(2), count=20_000)) == pytest.approx(40_000, rel=0.5)


@pytest.mark.parametrize("kind", ["component", "full"])
def test_chains_that_drift_or_stand_still_never_shorten_their_moves(kind):
    drift = np.linspace(0.0, 1e-3, 500)[None, :, None] * np.ones((2, 1, 2))
    still = np.zeros((2, 500, 2))
    half = np.concatenate((still[:1], normals(np.eye(2) * 1e-6, chains=1, count=500)))
    for draws in (drift + 1e-6 * normals(np.eye(2), count=500), still, half):
        walk = walk_of(scale=0.5, kind=kind)
        walk.fit(draws)
        there = walk.moves.vectors[:2]
        np.testing.assert_array_equal(there, 0.5 * np.eye(2))
        assert effective(draws) < 64


def test_a_chain_that_drifts_is_given_longer_moves_beside_its_own():
    way = np.linspace(0.0, 30.0, 500)[None, :, None] * np.array([1.0, 1.0])
    walk = walk_of(scale=0.5)
    walk.fit(np.repeat(way, 2, axis=0) + 0.1 * normals(np.eye(2), count=500))
    np.testing.assert_array_equal(walk.moves.vectors[:2], 0.5 * np.eye(2))
    assert np.linalg.norm(walk.moves.vectors[2:], axis=1).max() > 5.0


def test_draws_of_longer_moves_shorten_none():
    """What looks like a coefficient that hardly varies has only been offered moves too long."""
    crowded = normals(np.diag([1.0, 1e-8]), chains=1, count=1000)
    for first, shortened in ((None, True), (np.geomspace(50.0, 1.0, 330), False)):
        walk = Walk(Even(), axes(0.5, 2, "component"), 640, walk_of()._fit, first)
        walk.through(600, partial(following, crowded, walk))
        shortest = np.linalg.norm(walk.moves.vectors[:2], axis=1).min()
        assert (shortest < 0.1) == shortened
        assert shortened or shortest == 0.5


@pytest.mark.parametrize("block", [1, 50, 300])
def test_first_moves_are_longer_and_shrink_wherever_blocks_end(block):
    walk = Walk(Even(), axes(0.5, 2, "component"), 0, None, lengths(8.0, 300, fitted=False))
    found = []

    def advance(count):
        found.extend(walk.lengths(count))
        return np.zeros((1, count, 2))

    for _ in range(300 // block):
        walk.through(block, advance)
    assert found[0] == pytest.approx(8.0)
    assert np.diff(np.log(found[:200])) == pytest.approx(np.full(199, -math.log(8.0) / 199))
    assert found[200:] == [1.0] * 100


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs the compiler")
@pytest.mark.parametrize("name", ["dp_penalty", "dp_penalty_component", "dp_penalty_guided"])
def test_a_far_mode_is_reached_within_the_planned_warm_up(seeded, name):
    """Four means half an sd off the middle of their bounds: 150 posterior sds in each."""
    rows, rng = 90_000, np.random.default_rng(3)
    data = {f"x{j}": 0.5 + rng.normal(size=rows) for j in range(4)}
    columns = tuple(NumberColumn(name=key, lower=-4.0, upper=4.0) for key in data)
    options = ModelOptions(variances=(1.0,) * 4, ratio_slope=2.0)
    result = sample(
        data,
        schema=Schema(columns=columns, rows=rows),
        model=ModelSpec(family="gaussian_mean", formula="~ x0 + x1 + x2 + x3", options=options),
        delta=1e-6,
        epsilon=4.0,
        sampler=SAMPLERS[name].options(num_steps=2000, num_chains=1),
        random=seeded(2),
        accept_low_quality=True,
    )
    means = np.array([np.mean(column) for column in data.values()])
    away = (result.draws[0] - means) * math.sqrt(rows)
    assert result.plan.num_warmup < 700
    assert np.abs(away[0]).max() > 100.0
    assert np.abs(away[result.plan.num_warmup :]).max() < 8.0
    assert result.plan.expected_ess > 50.0


def test_not_a_number_fits_nothing():
    walk, draws = walk_of(), normals(RIDGE)
    draws[0, 0, 0] = np.inf
    walk.fit(draws)
    assert walk.moves.kind == "axes"


def test_correlated_draws_slant_the_moves_and_others_do_not():
    slanted, straight = walk_of(), walk_of()
    slanted.fit(normals(RIDGE))
    straight.fit(normals(np.diag([1.0, 25.0]), count=2000))
    assert slanted.moves.kind == "slanted"
    vectors = slanted.moves.vectors
    lengths = np.einsum("ki,ij,kj->k", vectors, np.linalg.inv(RIDGE), vectors) ** 0.5
    assert lengths == pytest.approx(np.full(2, 2.4), rel=0.4)
    assert straight.moves.kind == "axes"
    assert straight.moves.vectors[1, 1] / straight.moves.vectors[0, 0] == pytest.approx(5, rel=0.2)


def test_a_coefficient_that_others_tell_nothing_of_keeps_to_itself():
    """Its covariance with others is what few draws make it; a move of two has both their widths."""
    sds, related = np.array([2.0, 0.5, 3.0]), np.eye(3)
    related[0, 1] = related[1, 0] = 0.9
    related[2, :2] = related[:2, 2] = 0.05, 0.1
    lone, root, principal = adaptation._roots(related * np.outer(sds, sds))
    straight = related.copy()
    straight[2, :2] = straight[:2, 2] = 0.0
    for vectors in (root, principal):
        assert vectors.T @ vectors == pytest.approx(straight * np.outer(sds, sds))
        assert sorted(np.abs(vectors[:, 2])) == pytest.approx([0.0, 0.0, 3.0])
    assert np.diag(lone)[2] == pytest.approx(3.0)


def test_noise_shortens_moves():
    def longest(noise):
        fit = PenaltyMixing().fit(DpPenaltyOptions(), Even(), 1.0)
        moves, draws = best_moves(RIDGE, lambda *moved: Even(noise).widths(None, *moved), fit)
        return np.abs(moves.vectors).max(), draws

    quiet, loud = longest(0.1), longest(30.0)
    assert loud[0] < 0.2 * quiet[0]
    assert loud[1] < quiet[1]


def test_full_moves_stay_full():
    walk = walk_of(kind="full")
    walk.fit(normals(RIDGE))
    assert walk.moves.kind == "whole"
    assert np.corrcoef(RNG.normal(size=(500, 2)) @ walk.moves.vectors, rowvar=False)[0, 1] > 0.9


@pytest.mark.parametrize("name", ["logistic", "linear"])
def test_public_widths_are_those_of_the_steps_and_of_the_way_back(schema_of, people, name):
    schema = schema_of(300)
    response = {"logistic": "ill", "linear": "`body mass`"}[name]
    model = ModelSpec(family=name, formula=f"{response} ~ age + group")
    privacy = PrivacySpec(delta=1e-6, noise_multiplier=1.0)
    spec = JobSpec(model=model, sampler=DpPenaltyOptions(), privacy=privacy)
    design = make_design(schema, model.formula)
    target = MODELS[name].target(design, spec, table_of(schema, people(300)), 3)
    d = target.position.shape[1]
    target.refresh()
    here = target.position[0].copy()
    deltas = 0.1 * RNG.normal(size=(3, d))
    found = target.vector_ratios(deltas)[1]
    assert target.widths(here, deltas, False) == pytest.approx(found, rel=1e-9)
    for k in range(3):
        back = target.widths(here + deltas[k], -deltas[k : k + 1], False)
        assert back == pytest.approx(found[k : k + 1], rel=1e-9)
    alone = target.widths(here, 0.1 * np.eye(d), True)
    for j in range(d):
        found = target.vector_ratios(0.1 * np.eye(d)[[j] * 3], alone=j)[1]
        assert alone[j] == pytest.approx(found[0], rel=1e-9)


def test_moves_are_shortened_until_they_are_as_wide_as_they_may_be():
    """Also where the width of a longer one is cut, so that it says nothing of a shorter one."""
    for cut in (math.inf, 0.9):

        def width(deltas, _, cut=cut):
            return np.minimum(10.0 * np.abs(deltas).max(axis=1) ** 2, cut)

        moves = shortened_to(axes(0.5, 2, "component"), width, 0.4)
        assert width(moves.vectors, True) == pytest.approx(np.full(2, 0.4), rel=1e-5)
        assert (width(moves.vectors, True) <= 0.4).all()
        kept = shortened_to(moves, width, 0.4)
        assert kept is moves


def test_a_chain_that_stands_still_is_given_moves_that_it_may_take():
    fit = PenaltyMixing().fit(DpPenaltyOptions(), Even(), 1.0)
    walk = Walk(Even(noise=1.0), axes(0.5, 2, "component"), 640, fit, widest=0.1)
    walk.fit(np.zeros((2, 500, 2)))
    assert np.linalg.norm(walk.moves.vectors, axis=1) == pytest.approx([0.1, 0.1], rel=1e-5)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs the compiler")
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_no_coefficient_of_a_barker_chain_stands_still(seeded, family):
    """An effect of 1 beside .3 and 0, and a count whose intervals are cut.

    As plans at epsilon 100 have them, with fewer steps of the first.
    """
    rng, rows = np.random.default_rng(3), 20_000 if family == "logistic" else 4000
    data = {"a": rng.uniform(-1, 1, rows), "b": rng.uniform(-1, 1, rows)}
    eta = 0.3 + data["a"]
    columns = (*(NumberColumn(name=name, lower=-1, upper=1) for name in data),)
    options, cost = DpBarkerOptions(), {"epsilon": 100.0}
    if family == "logistic":
        data["y"] = np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no")
        columns += (BinaryColumn(name="y", categories=("no", "yes")),)
        start = Start(noise_multiplier=0.31)
        counts = {"batch": rows, "num_steps": 6000, "num_warmup": 1000, "num_chains": 2}
        options, cost = DpBarkerOptions(**counts, start=start), {"noise_multiplier": 25.0}
    else:
        data["y"] = np.minimum(rng.poisson(np.exp(eta)), 60.0)
        columns += (NumberColumn(name="y", lower=0, upper=60),)
    result = sample(
        data,
        schema=Schema(columns=columns, rows=rows),
        model=ModelSpec(family=family, formula="y ~ a + b"),
        delta=1e-6,
        sampler=options,
        random=seeded(2),
        **cost,
        accept_low_quality=True,
    )
    kept = result.draws[:, result.plan.num_warmup :]
    moved = (np.diff(kept, axis=1) != 0.0).mean(axis=(0, 1))
    assert (moved > 0.02).all()
    measured = [one.ess_bulk or 0.0 for one in summarise(Released(kept), result.plan.parameters)]
    assert np.mean(measured) > 0.5 * (result.plan.expected_ess - ARVIZ_FLOOR)


def job(options, epsilon):
    model = ModelSpec(family="logistic", formula="ill ~ age + group")
    return JobSpec(model=model, sampler=options, privacy=PrivacySpec(delta=1e-6, epsilon=epsilon))


def test_the_plan_says_whether_moves_are_fitted(schema_of):
    schema = schema_of(20_000)

    def planned(proposal, epsilon=1000.0, **options):
        return plan(
            schema, job(DpPenaltyOptions(proposal=proposal, **options), epsilon), advise=False
        )

    rich = planned(Proposal())
    assert rich.spec.sampler.proposal.adapt is True
    assert rich.num_warmup == rich.num_steps // 5
    assert planned(Proposal(), epsilon=1.0).spec.sampler.proposal.adapt is True
    none = planned(Proposal(), epsilon=1.0, start=Start(share=0.0))
    assert none.spec.sampler.proposal.adapt is False
    warm = planned(Proposal(), epsilon=2.0, start=Start(share=0.1))
    assert warm.spec.sampler.proposal.adapt is True
    assert warm.num_warmup != warm.num_steps // 5
    assert planned(Proposal(scale=0.1)).spec.sampler.proposal.adapt is False
    assert planned(Proposal(scale=0.1, adapt=True)).spec.sampler.proposal.adapt is True
    assert planned(Proposal(adapt=False)).spec.sampler.proposal.adapt is False
    assert planned(Proposal(adapt=True), num_warmup=0).spec.sampler.proposal.adapt is False
    assert plan(schema, rich.spec, advise=False).spec == rich.spec


@pytest.mark.parametrize("options", [DpPenaltySubsampledOptions, DpBarkerOptions])
def test_a_larger_batch_is_planned_where_the_budget_bears_it(schema_of, options):
    def batch(epsilon, **given):
        spec = job(options(**given), epsilon)
        facts = PublicFacts(make_design(schema_of(20_000), spec.model.formula), spec)
        return _batched(facts.assumptions(spec), spec, 1).batch

    assert batch(0.3) <= batch(3.0) <= batch(1e5) == 20_000
    assert batch(1e5, batch=700) == 700


@pytest.mark.parametrize("options", [DpPenaltySubsampledOptions, DpBarkerOptions])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("num_steps", [2000, None])
def test_no_other_batch_is_expected_to_give_more(schema_of, options, epsilon, num_steps):
    """Where the budget is small as well: there too it is noise that a batch is short of."""

    def ess(batch):
        spec = job(options(num_steps=num_steps, num_chains=1, batch=batch), epsilon)
        return plan(schema_of(20_000), spec, advise=False).expected_ess

    assert ess(None) >= 0.85 * max(ess(batch) for batch in (1000, 2000, 5000, 10_000, 20_000))


def test_a_batch_too_small_for_its_variance_is_said(schema_of):
    for batch, said in ((200, True), (500, False)):
        options = DpPenaltySubsampledOptions(batch=batch, num_steps=500)
        spec = job(options, None)
        spec = replace(spec, privacy=PrivacySpec(delta=1e-6, noise_multiplier=5.0))
        made = plan(schema_of(20_000), spec)
        assert any("take 500" in warning for warning in made.warnings) == said


@pytest.mark.parametrize(
    ("pointer", "proposal"),
    [
        ("/sampler/proposal/kind", Proposal(kind="sideways")),
        ("/sampler/proposal/shape", Proposal(shape="flat")),
        ("/sampler/proposal/kind", ComponentProposal(kind="full")),
    ],
)
def test_words_that_no_walk_knows_are_refused(schema_of, pointer, proposal):
    with pytest.raises(SpecError) as caught:
        plan(schema_of(1000), job(DpPenaltyOptions(proposal=proposal), 1.0))
    assert caught.value.pointer == pointer


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs the compiler")
@pytest.mark.parametrize("name", ["dp_penalty", "dp_penalty_guided"])
def test_a_correlated_design_gives_the_draws_that_were_announced(schema_of, people, seeded, name):
    """Ages within a third of their bounds: level and slope are correlated by 0.97."""
    data = people(2000)
    data["age"] = 62.0 + (data["age"] - 50.0) / 6.0
    result = sample(
        data,
        schema=schema_of(2000),
        model=ModelSpec(family="logistic", formula="ill ~ age"),
        delta=1e-6,
        epsilon=1e6,
        sampler=SAMPLERS[name].options(num_steps=12_000, num_chains=2),
        random=seeded(1),
    )
    kept = Released(result.draws[:, result.plan.num_warmup :])
    measured = [one.ess_bulk for one in summarise(kept, result.plan.parameters)]
    assert 0.6 < np.mean(measured) / result.plan.expected_ess < 1.8
