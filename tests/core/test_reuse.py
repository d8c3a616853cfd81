"""A whitening that was paid for once serves other jobs on the same columns."""

from dataclasses import replace

import numpy as np
import pytest

from dpmcmc import JobSpec, PrivacySpec
from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.local import sample, table_of
from dpmcmc.fit.run import run
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import FRESH, AutoOptions, DpPenaltyOptions, NoisyQuadraticOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.planner import event, plan, shortfall
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Gaussian
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.pld import leaves
from dpmcmc.releases.noisy_quadratic import publish
from dpmcmc.releases.reuse import Earlier, in_order
from dpmcmc.releases.whitening import Whitening
from tests.sources import Seeded

ROWS = 6000
SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-2.0, upper=6.0),
        NumberColumn(name="w", lower=0.0, upper=100.0),
        CategoryColumn(name="g", categories=("a", "b")),
        NumberColumn(name="t", lower=-20.0, upper=60.0),
        BinaryColumn(name="y", categories=("no", "yes")),
    ),
    rows=ROWS,
)

MU = 0.5


def people(seed=1):
    rng = np.random.default_rng(seed)
    x, b = rng.uniform(-2, 6, ROWS), rng.random(ROWS) < 0.4
    eta = 0.3 + 0.8 * (x - 2.0) / 4.0
    return {
        "x": x,
        "w": np.clip(10.0 + 2.0 * x + rng.standard_normal(ROWS), 0, 100),
        "g": np.where(b, "b", "a"),
        "t": np.clip(10.0 * eta + 3.0 * rng.standard_normal(ROWS), -20, 60),
        "y": np.where(rng.random(ROWS) < 1 / (1 + np.exp(-eta)), "yes", "no"),
    }


def fitted(formula, family="logistic", whitening=None, **budget):
    return sample(
        people(),
        schema=SCHEMA,
        model=ModelSpec(family=family, formula=formula),
        sampler=NoisyQuadraticOptions(num_steps=500),
        whitening=whitening,
        random=Seeded(1),
        **{"noise_multiplier": 1 / MU, "delta": 1e-6, **budget},
    )


@pytest.fixture(scope="module")
def first():
    return fitted("y ~ x + w + g")


def job(formula="y ~ x + w + g", sampler=None, **privacy):
    return JobSpec(
        model=ModelSpec(family="logistic", formula=formula),
        sampler=sampler or NoisyQuadraticOptions(),
        privacy=PrivacySpec(delta=1e-6, **(privacy or {"epsilon": 1.0})),
    )


def old(name="a", formula="t ~ g + w + x", z=2.0):
    return Earlier(name, formula, z)


def test_a_second_job_draws_no_whitening_and_pays_for_none(first):
    again = fitted("t ~ g + w + x", "linear", first.release)
    assert again.plan.cost.mu == pytest.approx(MU, rel=1e-9)
    assert again.plan.cost.mu <= MU
    paid, own = leaves(again.plan.event), leaves(first.plan.event)
    assert sum(own.values()) - sum(paid.values()) == 3  # rounds of a whitening
    spent = sum(n * leaf.noise_multiplier**-2 for leaf, n in paid.items())
    assert spent == pytest.approx(MU**2, rel=1e-9)
    near = min(leaf.noise_multiplier for leaf in paid)
    assert near < 0.98 * min(leaf.noise_multiplier for leaf in own)  # it goes to the rest
    assert all(isinstance(leaf, Gaussian) for leaf in paid)
    told = again.release.to_dict()
    mine = first.release.whitening(again.release.design)
    assert np.array_equal(told["whitening"], mine.root)


def test_it_gives_the_same_posterior_at_a_large_budget(first):
    """The columns stand in another order, and the budget hides nothing."""
    large = {"noise_multiplier": None, "epsilon": 1e6}
    own = fitted("t ~ g + w + x", "linear", **large).release.posterior().summary()
    used = fitted("t ~ g + w + x", "linear", first.release, **large)
    told = used.release.posterior().summary()
    for name in ("Intercept", "x", "w", "g[b]", "log_sigma"):
        assert told[name].mean == pytest.approx(own[name].mean, abs=0.5 * own[name].sd)
        assert told[name].sd == pytest.approx(own[name].sd, rel=0.15)
    assert used.verdict.status == "reliable"


def test_what_was_used_again_may_be_used_again(first):
    second = fitted("t ~ x + g + w", "linear", first.release)
    third = fitted("y ~ w + g + x", whitening=second.release)
    assert leaves(third.plan.event) == leaves(second.plan.event)
    order = third.release.design
    assert np.array_equal(third.release.whitening(order).root, first.release.whitening(order).root)


def test_columns_are_put_in_order():
    one, other = (make_design(SCHEMA, f) for f in ("y ~ x + x:g + w", "t ~ w + g:x + x"))
    names = [one.parameters.index(n) for n in ("Intercept", "w", "x", "x:g[b]")]
    assert other.parameters[1] == "w"
    d = len(names)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((d, 50))
    root = rng.standard_normal((d, d))
    moved = in_order(Whitening(root, x @ x.T, 0.1, np.eye(d)), one, other)
    labels = [one.parameters.index(_like(n, one.parameters)) for n in other.parameters]
    assert np.allclose(moved.root.T @ x[labels], root.T @ x)
    assert np.allclose(moved.known, x[labels] @ x[labels].T)


def _like(name, names):
    """The same column, whatever the order of its factors."""
    return next(n for n in names if sorted(n.split(":")) == sorted(name.split(":")))


@pytest.mark.parametrize("formula", ["t ~ x + w", "t ~ x + w + g + x:g", "t ~ 0 + x + w + g"])
def test_other_columns_are_refused(first, formula):
    with pytest.raises(SpecError) as caught:
        fitted(formula, "linear", first.release)
    assert caught.value.pointer == "/sampler/whitening"


def test_an_algorithm_without_one_refuses_it(first):
    with pytest.raises(SpecError) as caught:
        sample(
            people(),
            schema=SCHEMA,
            model=ModelSpec(family="logistic", formula="y ~ x + w + g"),
            sampler=DpPenaltyOptions(num_steps=10),
            whitening=first.release,
            delta=1e-6,
            epsilon=1.0,
        )
    assert caught.value.pointer == "/sampler/whitening"


@pytest.mark.parametrize("sampler", [NoisyQuadraticOptions(), AutoOptions()])
def test_a_plan_uses_the_best_one_again_and_says_so(sampler):
    earlier = (old("rough", z=30.0), old("fine"), old("other", "t ~ x", z=0.1))
    made = plan(SCHEMA, job(sampler=sampler), earlier=earlier)
    assert made.spec.sampler.whitening == "fine"
    assert any("fine" in reason for reason in made.reasons)
    alone = plan(SCHEMA, job(sampler=sampler))
    assert alone.spec.sampler.whitening is None
    assert not any("whitening" in reason for reason in alone.reasons)
    assert made.expected_width < alone.expected_width
    assert made.cost.epsilon <= 1.0
    assert made.event == event(SCHEMA, made.spec) != alone.event


def test_a_plan_pays_anew_where_the_earlier_one_is_rough_or_the_job_asks():
    rough = plan(SCHEMA, job(epsilon=4.0), earlier=(old(z=100.0),))
    assert rough.spec.sampler.whitening is None
    fresh = NoisyQuadraticOptions(whitening=FRESH)
    assert plan(SCHEMA, job(sampler=fresh), earlier=(old(),)).event == plan(SCHEMA, job()).event
    named = NoisyQuadraticOptions(whitening="a")
    forced = plan(SCHEMA, job(sampler=named, epsilon=4.0), earlier=(old(z=100.0),))
    assert forced.spec.sampler.whitening == "a"


@pytest.mark.parametrize("earlier", [(), (old(formula="t ~ x"),), (old("b"),)])
def test_a_name_that_is_not_of_these_columns_is_refused(earlier):
    with pytest.raises(SpecError) as caught:
        plan(SCHEMA, job(sampler=NoisyQuadraticOptions(whitening="a")), earlier=earlier)
    assert caught.value.pointer == "/sampler/whitening"
    assert "'new'" in caught.value.message


def test_a_chain_is_planned_as_ever():
    made = plan(SCHEMA, job(sampler=DpPenaltyOptions()), earlier=(old(),))
    assert made.spec == plan(SCHEMA, job(sampler=DpPenaltyOptions())).spec


def test_an_epsilon_that_would_do_counts_on_it_too():
    asked = job(epsilon=0.02)
    own, used = (plan(SCHEMA, asked, earlier=e) for e in ((), (old(z=1.0),)))
    assert not used.usable
    (_, for_used), (_, for_own) = (shortfall(SCHEMA, made, asked) for made in (used, own))
    assert for_used <= for_own


def opened(made):
    rows = Private(table_of(SCHEMA, people()), subject="d")
    return rows, Permit(subject="d", event_digest=digest(made.event))


def test_a_run_without_the_whitening_it_names_ends_before_rows_are_opened(monkeypatch):
    made = plan(SCHEMA, job(), earlier=(old(),))
    rows, permit = opened(made)

    def refuse(*_):
        raise AssertionError("the rows are not to be opened")

    monkeypatch.setattr(Private, "open", refuse)
    for wrong in (
        None,
        Whitening(np.eye(3), np.eye(3), 0.1, np.eye(3)),
        Whitening(np.full((4, 4), np.nan), np.eye(4), 0.1, np.eye(4)),
        Whitening(np.zeros((4, 4)), np.eye(4), 0.1, np.eye(4)),
    ):
        with pytest.raises(SpecError) as caught:
            run(SCHEMA, made.spec, rows, permit, whitening=wrong)
        assert caught.value.pointer == "/sampler/whitening"


def test_a_job_that_pays_for_its_own_does_not_use_another(first):
    made = plan(SCHEMA, job())
    rows, permit = opened(made)
    white = Whitening(np.eye(4) * 7.0, np.eye(4), 0.1, np.eye(4))
    running = run(SCHEMA, made.spec, rows, permit, whitening=white)
    next(running)
    assert not np.array_equal(running.stored.whitening, white.root)


@pytest.mark.parametrize("paid", [False, True])
def test_what_is_drawn_and_what_is_charged_agree_where_noise_is_drawn(first, paid):
    """The last place that can tell: a whitening left out of the event, and none at hand."""
    from dpmcmc.families import MODELS
    from dpmcmc.releases import noisy_quadratic

    spec = plan(SCHEMA, job(), earlier=(old(),) if paid else ()).spec
    design = make_design(SCHEMA, spec.model.formula)
    rows = noisy_quadratic.opened(design, spec, table_of(SCHEMA, people()))
    white = None if paid else first.release.whitening(design)
    reach = MODELS["logistic"].form(design, spec).max_row_norm
    with pytest.raises(ValueError, match="whitening"):
        publish(replace(rows, white=white), reach, spec.sampler, 2.0, SystemRandom())
