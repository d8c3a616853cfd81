"""A release that stops early pays for what it drew: the meter, the budget and the stored result."""

import copy
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpmcmc
from dpmcmc import NumberColumn, Schema, sample
from dpmcmc.fit import local
from dpmcmc.fit.budget import Budget
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.mechanisms import joint_sums
from dpmcmc.privacy.discrete import gaussian_noise
from dpmcmc.privacy.drawn import Metered, begins, steps
from dpmcmc.privacy.events import Compose, EventError, Gaussian, Laplace, Parallel, Repeat
from dpmcmc.privacy.filter import FilterTerms, entry_cost
from dpmcmc.privacy.sites import NOISY_QUADRATIC
from dpmcmc.releases import newton_path, whitening
from tests.sources import Seeded

PLANNED = Compose((Repeat(Gaussian(8.0), 3), Gaussian(4.0), Repeat(Compose((Gaussian(2.0),)), 2)))
MULTIPLIERS = (8.0, 8.0, 8.0, 4.0, 2.0, 2.0)
DELTA = 1e-6


def metered(count: int) -> Metered:
    source = Metered(Seeded(1), PLANNED)
    for z in MULTIPLIERS[:count]:
        gaussian_noise(source, NOISY_QUADRATIC, z, (3,))
    return source


def test_a_composition_is_its_gaussian_events_in_order():
    assert [step.noise_multiplier for step in steps(PLANNED)] == list(MULTIPLIERS)
    for other in (Laplace(1.0), Parallel((Gaussian(1.0),)), Repeat(Gaussian(1.0), 10**6)):
        with pytest.raises(EventError):
            steps(other)


@pytest.mark.parametrize("count", range(1, 7))
def test_the_meter_tells_what_was_drawn(count):
    source = metered(count)
    assert steps(source.drawn) == steps(PLANNED)[:count]
    assert begins(PLANNED, source.drawn)
    assert source.complete == (count == 6)
    mu2 = entry_cost(FilterTerms(1.0, DELTA), source.drawn).mu2
    assert mu2 == sum(Fraction(z) ** -2 for z in MULTIPLIERS[:count]) * 2**96


def test_noise_beyond_the_plan_or_out_of_turn_is_not_drawn():
    for count, z, shape in ((6, 2.0, (3,)), (0, 7.9, (3,)), (3, 8.0, (3,)), (0, 8.0, (2, 3))):
        source = metered(count)
        with pytest.raises(ValueError, match="paid for"):
            gaussian_noise(source, NOISY_QUADRATIC, z, shape)
        assert source.complete == (count == 6)
    assert metered(0).drawn is None


def test_what_another_plan_began_with_is_no_beginning():
    assert not begins(PLANNED, Repeat(Gaussian(8.0), 4))
    assert not begins(PLANNED, Compose((PLANNED, Gaussian(2.0))))
    assert begins(PLANNED, PLANNED)
    assert not begins(Laplace(1.0), Gaussian(1.0))


@given(
    st.lists(st.tuples(st.floats(0.5, 50.0), st.integers(1, 5)), min_size=1, max_size=4),
    st.data(),
)
def test_a_budget_that_was_given_the_rest_back_has_spent_what_was_drawn(parts, data):
    budget, drawn = Budget(1e6, DELTA), []
    for z, count in parts:
        planned = Repeat(Gaussian(z), count)
        some = Repeat(Gaussian(z), data.draw(st.integers(1, count)))
        budget.return_rest(budget.take(planned), some)
        drawn.append(some)
    alone = Budget(1e6, DELTA)
    for event in drawn:
        alone.take(event)
    assert budget._now().state == alone._now().state
    assert budget.spent == alone.spent


def test_the_rest_is_given_back_once_and_only_of_what_began_so(tmp_path):
    path = tmp_path / "b.json"
    budget, other = Budget(10.0, DELTA, path=path), Budget.load(path)
    taken = budget.take(PLANNED)
    with pytest.raises(ValueError, match="begins"):
        budget.return_rest(taken, Gaussian(4.0))
    full = other.spent
    budget.return_rest(taken, Repeat(Gaussian(8.0), 3))
    assert other.spent < full
    assert Budget.load(path).spent == other.spent == budget.spent
    with pytest.raises(ValueError, match="before"):
        budget.return_rest(taken, Repeat(Gaussian(8.0), 3))
    before = path.read_bytes()
    other.take(Gaussian(8.0))
    path.write_bytes(before)
    with pytest.raises(ValueError, match="older"):
        _ = other.spent


def give_back_in_a_child(budget, taken):
    """Whether a forked process gives the rest of a call back, that this process may give back."""
    child = os.fork()
    if child == 0:
        try:
            budget.return_rest(taken, Gaussian(8.0))
        except ValueError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_rest_is_given_back_to_the_budget_that_paid_and_by_no_copy(tmp_path):
    budget, other = (Budget(10.0, DELTA, path=tmp_path / name) for name in ("a.json", "b.json"))
    taken = budget.take(PLANNED)
    other.take(PLANNED)
    full = budget.spent
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="no copies"):
            copied(taken)
    with pytest.raises(AttributeError):
        taken.event = Repeat(Gaussian(8.0), 400)
    with pytest.raises(ValueError, match="another budget"):
        other.return_rest(taken, Gaussian(8.0))
    assert not give_back_in_a_child(budget, taken)
    assert budget.spent == other.spent == full
    budget.return_rest(taken, Gaussian(8.0))
    assert budget.spent < full


def stopping_analyst(mu2: float, cap: float, rng: np.random.Generator, rounds: int) -> np.ndarray:
    """Log ratios of whole transcripts under the alternative, by an adversary who chooses stops.

    A job of four events of mu2 / 4 each is reserved; after each event the adversary goes on while
    the ratio so far is below what would be lucky, and else stops, so that the rest is returned; the
    next job is reserved as long as what was drawn and what is reserved fits the cap.
    """
    found = np.empty(rounds)
    for k in range(rounds):
        spent = loss = 0.0
        while spent + mu2 <= cap + 1e-12:
            for _ in range(4):
                step = mu2 / 4.0
                loss += step / 2.0 + math.sqrt(step) * rng.standard_normal()
                spent += step
                if loss > 0.5 * math.sqrt(spent):
                    break
        found[k] = loss
    return found


def test_an_adversary_who_chooses_when_jobs_stop_gets_no_more_than_the_cap():
    from dpmcmc.privacy.gaussian import delta_of_mu

    cap, rng = 1.0, np.random.default_rng(5)
    losses = stopping_analyst(0.2, cap, rng, 40_000)
    for epsilon in (0.5, 1.0, 2.0):
        gained = np.maximum(1.0 - np.exp(epsilon - losses), 0.0)
        seen, sd = gained.mean(), gained.std() / math.sqrt(len(gained))
        allowed = delta_of_mu(math.sqrt(cap), epsilon)
        assert seen <= allowed + 4.0 * sd
    charged_as_planned = stopping_analyst(0.2, 2.0 * cap, rng, 40_000)  # a cap that is passed shows
    gained = np.maximum(1.0 - np.exp(1.0 - charged_as_planned), 0.0).mean()
    assert gained > 1.2 * delta_of_mu(math.sqrt(cap), 1.0)


def few_rows(rows: int = 400, seed: int = 3):
    rng = np.random.default_rng(seed)
    columns = {f"x{k}": rng.uniform(-1, 1, rows) for k in range(5)}
    columns["y"] = rng.normal(0.0, 1.0, rows)
    facts = [NumberColumn(name=name, lower=-4.0, upper=4.0) for name in columns]
    return columns, Schema(columns=tuple(facts), rows=rows)


def fitted(data, **given):
    columns, schema = data
    formula = "y ~ x0 + x1 + x2 + x3 + x4"
    options = {"sampler": "noisy_quadratic", "random": Seeded(7)} | given
    return sample(
        formula, columns, schema, epsilon=0.3, delta=DELTA, **options, accept_low_quality=True
    )


def test_a_hopeless_fit_pays_for_what_it_drew(tmp_path):
    budget = Budget(2.0, DELTA)
    fit = fitted(few_rows(), budget=budget)
    assert fit.verdict.status == "unreliable"
    assert "ended there" in fit.verdict.sentence
    assert budget.spent == pytest.approx(fit.cost.epsilon, rel=1e-9)
    assert fit.cost.epsilon < 0.6 * fit.plan.cost.epsilon
    assert f"of {fit.plan.cost.epsilon:.4g} that were planned" in str(fit)
    fit.save(tmp_path / "fit")
    again = dpmcmc.load(tmp_path / "fit")
    assert (again.cost, again.drawn, again.verdict) == (fit.cost, fit.drawn, fit.verdict)
    assert again.release.posterior().verdict.status == "unreliable"
    whole = fitted(few_rows(), budget=(other := Budget(2.0, DELTA)), spend="all")
    assert (whole.drawn, whole.cost) == (None, whole.plan.cost)
    assert other.spent == pytest.approx(whole.cost.epsilon, rel=1e-9)
    assert "ended there" not in whole.verdict.sentence


@pytest.mark.parametrize("lost", ["no such file", "a full disk", "a damaged file"])
def test_a_rest_that_cannot_be_given_back_loses_no_result(tmp_path, monkeypatch, lost):
    """The fit is paid for: it costs all that was taken."""
    path, ran = tmp_path / "budget.json", local._ran
    budget = Budget(2.0, DELTA, path=path)

    def then_lost(*given):
        result = ran(*given)
        if lost == "no such file":
            path.unlink()
        elif lost == "a damaged file":
            path.write_text("{")
        else:
            monkeypatch.setattr(os, "fsync", lambda _: os.open(tmp_path / "none", os.O_RDONLY))
        return result

    monkeypatch.setattr(local, "_ran", then_lost)
    fit = fitted(few_rows(), budget=budget)
    assert fit.verdict.status == "unreliable"
    assert (fit.drawn, fit.cost) == (None, fit.plan.cost)


@pytest.mark.parametrize("rows", [400, 3000])
@pytest.mark.parametrize("estimand", ["robust", "model"])
def test_where_a_run_stops_is_told_by_its_released_numbers(monkeypatch, estimand, rows):
    """The same released numbers, of other rows: the run ends at the same place."""
    kept, real = [], joint_sums.release

    def recorded(*given, **more):
        kept.append(real(*given, **more))
        return kept[-1]

    for module in (newton_path, whitening):
        monkeypatch.setattr(module, "release", recorded)
    sampler = NoisyQuadraticOptions(estimand=estimand)
    first = fitted(few_rows(rows), sampler=sampler)
    replayed = iter(list(kept))
    for module in (newton_path, whitening):
        monkeypatch.setattr(module, "release", lambda *_, **__: next(replayed, kept[-1]))
    columns, schema = few_rows(rows, seed=4)
    columns["y"] = 4.0 * np.sign(columns["x0"])
    second = fitted((columns, schema), sampler=sampler)
    assert second.verdict == first.verdict
    assert next(replayed, None) is None
