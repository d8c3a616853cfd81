"""A job that goes on until its result is reliable: rounds, what they cost, and when they end."""

import dataclasses
import math
import threading
from fractions import Fraction

import numpy as np
import pytest

import dpmcmc
from dpmcmc import (
    BinaryColumn,
    Budget,
    BudgetExhaustedError,
    JobSpec,
    ModelSpec,
    NumberColumn,
    PrivacySpec,
    Schema,
    SpecError,
    UpTo,
    describe,
    plan,
    release_statistic,
    sample,
)
from dpmcmc.fit import run as running
from dpmcmc.inputs.options import DpPenaltyOptions, NoisyQuadraticOptions
from dpmcmc.mechanisms import joint_sums
from dpmcmc.planner import event
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.privacy.accountant import gdp_mu, mu_of_epsilon
from dpmcmc.privacy.drawn import begins, steps
from dpmcmc.privacy.filter import FilterTerms, entry_cost
from dpmcmc.privacy.gaussian import delta_of_mu
from dpmcmc.queries.summaries.statistics import Mean
from dpmcmc.releases import clips, newton_path, whitening
from dpmcmc.releases.noisy_quadratic import pooled
from dpmcmc.releases.reuse import whitened_at
from tests.sources import Seeded

DELTA = 1e-6
UNTIL = {"up_to": 4, "until": "reliable"}
FORMULA = "y ~ x0 + x1 + x2"


def table(rows: int = 4000, seed: int = 3, noise: float = 1.0):
    rng = np.random.default_rng(seed)
    columns = {f"x{k}": rng.uniform(-1, 1, rows) for k in range(3)}
    columns["y"] = columns["x0"] - 0.5 * columns["x1"] + noise * rng.normal(0.0, 1.0, rows)
    facts = [NumberColumn(name=name, lower=-1.0, upper=1.0) for name in columns if name != "y"]
    facts.append(NumberColumn(name="y", lower=-8.0, upper=8.0))
    return columns, Schema(columns=tuple(facts), rows=rows)


def fitted(data, epsilon=UNTIL, **given):
    columns, schema = data
    known = {"delta": DELTA, "random": Seeded(7), "accept_low_quality": True} | given
    return sample(FORMULA, columns, schema, epsilon=epsilon, **known)


def spec_of(epsilon, **given):
    model = ModelSpec(family="linear", formula=FORMULA)
    return JobSpec(model=model, privacy=PrivacySpec(delta=DELTA, epsilon=epsilon), **given)


def ends_after(monkeypatch, count: int) -> None:
    """Let the verdict of the first rounds, so many less one, be that nothing is known yet."""
    real = StoredRelease.after_round

    def after(release):
        return real(release) if release._stored.rounds >= count else (False, release._stored)

    monkeypatch.setattr(StoredRelease, "after_round", after)


def test_it_begins_small_and_pays_for_what_it_drew(tmp_path):
    budget = Budget(5.0, DELTA)
    fit = fitted(table(), budget=budget)
    assert fit.verdict.status == "reliable"
    assert fit.cost.epsilon == pytest.approx(fit.plan.rounds[0], rel=1e-9)
    assert fit.cost.epsilon < 1.2 == pytest.approx(0.3 * fit.plan.cost.epsilon, rel=1e-9)
    assert budget.spent == pytest.approx(fit.cost.epsilon, rel=1e-9)
    assert "of up to 4, delta" in str(fit)
    fit.save(tmp_path / "fit")
    again = dpmcmc.load(tmp_path / "fit")
    assert (again.cost, again.plan.rounds, again.verdict) == (
        fit.cost,
        fit.plan.rounds,
        fit.verdict,
    )
    assert again.to_datatree().attrs["epsilon_up_to"] == fit.plan.cost.epsilon
    assert fitted(table(), epsilon=1.0).to_datatree().attrs.get("epsilon_up_to") is None


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("estimand", ["model", "robust"])
def test_each_round_costs_what_the_plan_says_and_the_budget_spends_it(monkeypatch, count, estimand):
    ends_after(monkeypatch, count)
    budget = Budget(5.0, DELTA)
    fit = fitted(table(), budget=budget, sampler=NoisyQuadraticOptions(estimand=estimand))
    assert fit.release.to_dict()["rounds"] == count
    assert fit.cost.epsilon == pytest.approx(fit.plan.rounds[count - 1], rel=1e-9)
    assert budget.spent == pytest.approx(fit.cost.epsilon, rel=1e-9)
    assert (fit.drawn is None) == (count == 5)
    assert fit.verdict.status == "reliable"


def test_the_rounds_cost_together_what_is_reserved_and_each_as_much_as_all_before():
    _, schema = table()
    for paid in (False, True):
        for estimand in ("model", "robust"):
            whitened = {"whitening": "earlier"} if paid else {}
            known = {"num_far": 4, "rounds": 5, "num_steps": 9, "num_chains": 1}
            options = NoisyQuadraticOptions(estimand=estimand, **known, **whitened)
            spec = spec_of(None, sampler=options)
            z = 8.0
            spec = dataclasses.replace(spec, privacy=PrivacySpec(delta=DELTA, noise_multiplier=z))
            whole = event(schema, spec)
            drawn = [Fraction(step.noise_multiplier) ** -2 for step in steps(whole)]
            assert 1 - 2.0**-38 < sum(drawn) * Fraction(z) ** 2 < 1
            assert gdp_mu(whole) <= 1.0 / z
            looks = 3 if estimand == "model" else 2
            first = len(drawn) - 4 * looks
            sums = [sum(drawn[: first + looks * k]) * Fraction(z) ** 2 for k in range(5)]
            for part, wanted in zip(sums, (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1), strict=True):
                assert float(part) == pytest.approx(wanted, rel=1e-9)
            assert entry_cost(FilterTerms(9.0, DELTA), whole).mu2 == sum(
                -(-(part * 2**96) // 1) for part in [sum(drawn)]
            )


def test_the_plan_says_what_each_round_costs_and_begins_where_a_result_may_be_reliable():
    _, schema = table()
    made = plan(schema, spec_of(UNTIL))
    assert made.algorithm == "noisy_quadratic"
    assert list(made.rounds) == sorted(made.rounds)
    assert made.rounds[-1] == made.cost.epsilon == pytest.approx(4.0, rel=1e-9)
    assert any("is returned" in reason for reason in made.reasons)
    assert plan(schema, spec_of(4.0)).rounds == ()
    again = plan(schema, made.spec)  # a resolved job is planned as it is
    assert (again.rounds, again.event, again.spec) == (made.rounds, made.event, made.spec)
    small = plan(schema, spec_of({"up_to": 0.3, "until": "reliable"}))
    assert len(small.rounds) < len(made.rounds)
    assert dataclasses.replace(small.spec, model=None) != dataclasses.replace(made.spec, model=None)


def test_where_it_may_be_reliable_it_is_no_better_with_all_at_once():
    _, schema = table()
    until, whole = (plan(schema, spec_of(epsilon)) for epsilon in (UNTIL, 4.0))
    assert until.usable == whole.usable
    assert until.expected_width == pytest.approx(whole.expected_width, rel=0.05)


def test_a_job_that_will_not_be_reliable_ends_early_and_says_so(monkeypatch):
    monkeypatch.setattr(StoredRelease, "verdict", unreliable())
    no_hope = dataclasses.replace(
        running.RELEASES["noisy_quadratic"], no_hope=lambda *_: "rows are hidden"
    )
    monkeypatch.setitem(running.RELEASES, "noisy_quadratic", no_hope)
    budget = Budget(5.0, DELTA)
    fit = fitted(table(), budget=budget)
    assert fit.release.to_dict()["rounds"] == 1
    assert fit.release.to_dict()["stopped"].startswith("rows are hidden, and more rounds")
    assert budget.spent == pytest.approx(fit.plan.rounds[0], rel=1e-9)


def unreliable():
    real = StoredRelease.verdict.fget
    return property(lambda release: dataclasses.replace(real(release), status="unreliable"))


def test_a_job_that_is_never_reliable_costs_all_of_it(monkeypatch):
    monkeypatch.setattr(StoredRelease, "verdict", unreliable())
    budget = Budget(5.0, DELTA)
    fit = fitted(table(), budget=budget)
    assert (fit.drawn, fit.cost) == (None, fit.plan.cost)
    assert fit.verdict.status == "unreliable"
    assert fit.release.to_dict()["rounds"] == len(fit.plan.rounds)
    assert budget.spent == pytest.approx(4.0, rel=1e-9)


def test_noise_that_hides_the_rows_ends_it_before_all_is_spent():
    """Nine columns that hardly vary within their bounds: planned as usable, and never seen."""
    rng = np.random.default_rng(5)
    columns = {f"x{k}": 1e-3 * rng.uniform(-1, 1, 3000) for k in range(9)}
    columns["y"] = np.where(rng.random(3000) < 0.5, "1", "0")
    facts = [NumberColumn(name=f"x{k}", lower=-1.0, upper=1.0) for k in range(9)]
    schema = Schema(columns=(*facts, BinaryColumn(name="y", categories=("0", "1"))), rows=3000)
    formula = "y ~ " + " + ".join(f"x{k}" for k in range(9))
    budget = Budget(5.0, DELTA)
    fit = sample(
        formula, columns, schema, epsilon=UNTIL, delta=DELTA, budget=budget,
        random=Seeded(2), accept_low_quality=True,
    )  # fmt: skip
    assert fit.verdict.status == "unreliable"
    assert "more rounds would not mend that" in fit.verdict.sentence
    assert budget.spent == pytest.approx(fit.cost.epsilon)
    assert fit.cost.epsilon < 3.0


@pytest.mark.parametrize("estimand", ["model", "robust"])
@pytest.mark.parametrize("count", [1, 2])
def test_where_it_ends_is_told_by_its_released_numbers(monkeypatch, estimand, count):
    """The same released numbers, of other rows: as many rounds, and the same answer."""
    ends_after(monkeypatch, count)
    kept, real = [], joint_sums.release

    def recorded(*given, **more):
        kept.append(real(*given, **more))
        return kept[-1]

    modules = (newton_path, whitening, clips)
    for module in modules:
        monkeypatch.setattr(module, "release", recorded)
    sampler = NoisyQuadraticOptions(estimand=estimand, num_far=4)
    first = fitted(table(), sampler=sampler)
    replayed = iter(list(kept))

    def forced(*given, **more):
        real(*given, **more)  # its noise is drawn, and paid for
        return next(replayed)

    for module in modules:
        monkeypatch.setattr(module, "release", forced)
    columns, schema = table(seed=4)
    columns["y"] = 4.0 * np.sign(columns["x0"])
    second = fitted((columns, schema), sampler=sampler)
    assert first.release.to_dict()["rounds"] == count
    assert second.release.to_dict() == first.release.to_dict()
    assert (second.verdict, second.cost) == (first.verdict, first.cost)
    assert next(replayed, None) is None


def looks_of(places, scores, sds, curve, scale=1.0):
    return [
        newton_path.Iterate(
            place, np.eye(2),
            joint_sums.Sums(
                score=score, curvature=curve, noise=curve, square=900.0, rows=1000.0,
                sds=(sd, 5.0 * sd, sd, sd), rows_sd=0.0,
            ),
            scale, 3.0, 3.0, 1.0, 0.01,
        )
        for place, score, sd in zip(places, scores, sds, strict=True)
    ]  # fmt: skip


def kept_of(looks, **given):
    white = whitening.Whitening(np.eye(2), np.eye(2), 0.01, np.zeros((2, 2)))
    known = {"additive": True, "has_scale": True, "fixed": False} | given
    return pooled(looks, white, 1000, 1.0, 1.0, **known)


def test_looks_of_all_rounds_count_by_their_precision():
    rng = np.random.default_rng(2)
    curve, mode = np.diag([1000.0, 600.0]), np.array([0.3, -0.2])
    places = mode + 0.05 * rng.standard_normal((5, 2))
    sds = np.array([40.0, 30.0, 25.0, 20.0, 10.0])
    scores = (mode - places) @ curve + sds[:, None] * rng.standard_normal((5, 2))
    together = kept_of(looks_of(places, scores, sds, curve))
    weights = sds**-2.0 / (sds**-2.0).sum()
    estimate = together.place + np.linalg.solve(together.curvature, together.score)
    each = places + scores @ np.linalg.inv(curve)
    assert estimate == pytest.approx(weights @ each, rel=1e-12)
    assert together.score_sd == pytest.approx((sds**-2.0).sum() ** -0.5)
    assert together.score_sds == pytest.approx([(sds[:-1] ** -2.0).sum() ** -0.5, sds[-1]])
    assert together.places[1] == pytest.approx(places[-1])
    assert together.places[0] == pytest.approx(weights[:-1] @ places[:-1] / weights[:-1].sum())
    assert together.first_place == pytest.approx(places[0])
    two = kept_of(looks_of(places[3:], scores[3:], sds[3:], curve))
    assert two.first_place is None
    assert two.places == pytest.approx(places[3:])


def test_a_scale_that_was_seen_from_several_places_is_that_at_the_mean():
    """Mean squares of residuals at a place are the squared scale and the squared distance."""
    curve, sds = np.diag([1000.0, 1000.0]), [10.0] * 5
    places = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5], [0.0, -0.5], [0.0, 0.0]])
    looks = [
        dataclasses.replace(look, tau=math.sqrt(1.0 + float(look.place @ look.place)))
        for look in looks_of(places, -places @ curve, sds, curve)
    ]
    together = kept_of(looks)
    squares = (together.scales * together.taus) ** 2
    assert squares == pytest.approx([1.0, 1.0], rel=0.02)  # a mean of them would be 1.25


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"spend": "all"}, "/spend"),
        ({"sampler": "dp_penalty"}, "/privacy/epsilon/until"),
        ({"sampler": "dp_vi"}, "/privacy/epsilon/until"),
        ({"epsilon": {"up_to": 4, "till": "reliable"}}, "/privacy/epsilon"),
        ({"epsilon": {"until": "reliable"}}, "/privacy/epsilon"),
        ({"epsilon": {"up_to": 4, "until": "usable"}}, "/privacy/epsilon/until"),
        ({"epsilon": {"up_to": "4", "until": "reliable"}}, "/privacy/epsilon/up_to"),
        ({"epsilon": {"up_to": -1, "until": "reliable"}}, "/privacy/epsilon/up_to"),
        ({"epsilon": UpTo(up_to=math.nan)}, "/privacy/epsilon/up_to"),
        ({"epsilon": "4"}, "/privacy/epsilon"),
        ({"epsilon": 1.0, "sampler": NoisyQuadraticOptions(rounds=2)}, "/sampler/rounds"),
        ({"sampler": NoisyQuadraticOptions(rounds=0)}, "/sampler/rounds"),
        ({"sampler": NoisyQuadraticOptions(rounds=6)}, "/sampler/rounds"),
        ({"noise_multiplier": 2.0}, "/privacy"),
        (
            {
                "epsilon": None,
                "noise_multiplier": 2.0,
                "sampler": NoisyQuadraticOptions(rounds=0),
            },
            "/sampler/rounds",
        ),
    ],
)
def test_what_cannot_go_on_is_refused_before_it_is_paid(given, pointer):
    budget = Budget(5.0, DELTA)
    with pytest.raises(SpecError) as refused:
        fitted(table(), **{"budget": budget} | given)
    assert refused.value.pointer == pointer
    assert budget.calls == 0


def test_only_regressions_go_on():
    columns, schema = table()
    with pytest.raises(SpecError, match="a number"):
        describe(columns, [Mean("x0")], schema=schema, epsilon=UNTIL)
    with pytest.raises((SpecError, ValueError), match="number"):
        release_statistic(columns, "x0", schema=schema, epsilon=UNTIL)
    gaussian = JobSpec(
        model=ModelSpec(family="gaussian_mean", formula="~ x0"),
        privacy=PrivacySpec(delta=DELTA, epsilon=UNTIL),
    )
    with pytest.raises(SpecError, match="noisy_quadratic"):
        plan(schema, gaussian)
    with pytest.raises(SpecError) as refused:
        plan(schema, dataclasses.replace(gaussian, sampler=DpPenaltyOptions()))
    assert refused.value.pointer == "/privacy/epsilon/until"


def test_two_jobs_at_once_never_spend_more_than_the_budget():
    budget, costs = Budget(5.0, DELTA), []
    together = threading.Barrier(2)

    def one():
        together.wait()
        try:
            costs.append(fitted(table(), budget=budget, random=None).cost)
        except BudgetExhaustedError:
            costs.append(None)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paid = [cost for cost in costs if cost is not None]
    assert 1 <= len(paid) <= 2
    mu2 = sum(mu_of_epsilon(cost.epsilon, DELTA) ** 2 for cost in paid)
    assert mu_of_epsilon(budget.spent, DELTA) ** 2 == pytest.approx(mu2, rel=1e-6)
    assert budget.spent <= 5.0


def test_its_whitening_is_used_again_as_what_its_first_round_paid_for():
    first = fitted(table())
    own = first.plan.spec
    assert whitened_at(own) == pytest.approx(4.0 * own.privacy.noise_multiplier)
    second = fitted(table(), epsilon=1.0, whitening=first.release)
    assert second.plan.spec.sampler.paid
    third = fitted(table(), whitening=first.release)
    assert third.plan.spec.sampler.paid
    assert third.verdict.status == "reliable"


def test_an_adversary_who_chooses_where_rounds_end_gets_no_more_than_up_to():
    """Jobs of five rounds, each as much as all before; the rest of each is returned."""
    rng, cap, losses = np.random.default_rng(6), 1.0, np.empty(40_000)
    parts = np.array([1, 1, 2, 4, 8]) / 16.0
    for k in range(len(losses)):
        spent = loss = 0.0
        while spent + 0.4 <= cap + 1e-12:
            for part in 0.4 * parts:
                loss += part / 2.0 + math.sqrt(part) * rng.standard_normal()
                spent += part
                if loss > 0.5 * math.sqrt(spent):
                    break
        losses[k] = loss
    for epsilon in (0.5, 1.0, 2.0):
        gained = np.maximum(1.0 - np.exp(epsilon - losses), 0.0)
        sd = gained.std() / math.sqrt(len(gained))
        assert gained.mean() <= delta_of_mu(math.sqrt(cap), epsilon) + 4.0 * sd


def test_what_is_drawn_is_how_the_reserved_event_begins(monkeypatch):
    ends_after(monkeypatch, 2)
    events = []
    real = Budget.return_rest

    def noted(budget, taken, drawn):
        events.append((taken.event, drawn))
        real(budget, taken, drawn)

    monkeypatch.setattr(Budget, "return_rest", noted)
    fitted(table(), budget=Budget(5.0, DELTA))
    ((whole, drawn),) = events
    assert begins(whole, drawn)
    assert len(steps(drawn)) == len(steps(whole)) - 3 * 3
