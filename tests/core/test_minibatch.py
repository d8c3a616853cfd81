import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltySubsampledOptions
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.kernels.arithmetic.rules import PENALTY, Rule
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Gaussian, Repeat, WithoutReplacement
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.samplers import minibatch


@pytest.fixture
def asked(monkeypatch):
    """Events whose price was asked for."""
    events, real = [], accountant.epsilon

    def heard(event, delta):
        events.append(event)
        return real(event, delta)

    monkeypatch.setattr(accountant, "epsilon", heard)
    minibatch.calibrated.cache_clear()
    return events


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 3.0, 30.0])
def test_noise_is_about_the_least_that_is_affordable(asked, epsilon):
    def price(z):
        return accountant.epsilon(Repeat(WithoutReplacement(Gaussian(z), 50, 1000), 200), 1e-6)

    z = minibatch.calibrated(200, 50, 1000, epsilon, 1e-6, None)
    assert price(z) <= epsilon < price(z * (1 - 3 * minibatch.RELATIVE_TOLERANCE))
    assert len(asked) < 40


@pytest.mark.parametrize(("count", "epsilon"), [(2000, 0.5), (20_000, 1.0), (60_000, 2.0)])
def test_many_steps_are_priced_once_or_twice(asked, count, epsilon):
    minibatch.calibrated(count, 10_000, 100_000, epsilon, 1e-6, None)
    assert len(asked) <= 2


def test_a_budget_that_no_noise_meets_is_refused_after_a_few_tries(asked):
    """At this delta only the Rényi route holds, and its epsilon has a floor."""
    with pytest.raises(SpecError, match="too small for so many steps"):
        minibatch.calibrated(20_000, 1000, 100_000, 1e-3, 1e-12, None)
    assert len(asked) <= minibatch.SEARCH_STEPS + 1


class Reader:
    """A target that keeps the batches and the noise which it is told of."""

    rows = 10_000

    def __init__(self):
        self.batches, self.noise = [], []

    def batch_walk(self, _, deltas, noise, __, batches):
        self.batches.append(batches)
        self.noise.append(noise)
        return np.zeros((deltas.shape[1], *deltas.shape[::2]))


def test_every_step_of_every_chain_has_a_batch_and_noise_of_its_own(monkeypatch):
    """Two of them share about batch^2 / rows rows, and none has a row twice."""
    steps, chains, batch = 10, 3, 100
    monkeypatch.setattr(minibatch, "AT_ONCE", 4 * chains * batch)  # 4 steps, 4, and 2
    target, deltas = Reader(), np.zeros((steps, chains, 2))
    noise = np.arange(steps * chains).reshape(steps, chains)
    rule = Rule(PENALTY, batch, 1.0, 1.0, 1.0, 1.0)
    others = np.zeros((steps, 1, chains))
    minibatch.batch_steps(target, rule, deltas, noise, others, SystemRandom())
    assert len(target.batches) == 3
    assert (np.concatenate(target.noise) == noise).all()
    drawn = np.concatenate(target.batches).reshape(steps * chains, batch)
    assert all(len(np.unique(one)) == batch for one in drawn)
    shared = [len(np.intersect1d(one, other)) for k, one in enumerate(drawn) for other in drawn[:k]]
    assert max(shared) < 15


def test_each_decision_reads_its_own_batch():
    """Rows at one end of their bounds take a move, those at the other refuse it."""
    steps, chains, batch, rows = 9, 3, 4, 40
    columns = (NumberColumn(name="x", lower=-1.0, upper=1.0),)
    schema, model = (
        Schema(columns=columns, rows=rows),
        ModelSpec(family="gaussian_mean", formula="~ x"),
    )
    spec = JobSpec(
        model=model,
        sampler=DpPenaltySubsampledOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    table = table_of(schema, {"x": np.repeat([-1.0, 1.0], rows // 2)})
    target = MODELS["gaussian_mean"].target(make_design(schema, "~ x"), spec, table, chains)
    rng = np.random.default_rng(2)
    yes = rng.random((steps, chains)) < 0.5
    drawn = [np.sort(rng.permutation(rows // 2)[:batch]) for _ in range(steps * chains)]
    chosen = np.array(drawn).reshape(steps, chains, batch) + rows // 2 * yes[:, :, None]
    rule = Rule(PENALTY, batch, 1e4, 1.0, 2.0**-30, 1.0)
    draws = target.batch_walk(
        rule,
        np.full((steps, chains, 1), 1e-2),
        np.zeros((steps, chains), np.int64),
        np.full((steps, 1, chains), 0.5),
        chosen.astype(np.int32),
    )
    assert (np.diff(draws[:, :, 0], axis=1, prepend=0.0).T > 0.0).tolist() == yes.tolist()


@pytest.mark.longer
@pytest.mark.parametrize(
    ("count", "batch", "rows", "epsilon"),
    [
        (1000, 2, 10**6, 1.0),
        (50, 2, 10**6, 0.01),
        (10_000, 10, 10**6, 0.1),
        (1000, 2, 100, 30.0),
        (40_000, 1000, 20_000, 1.0),
    ],
)
def test_noise_is_found_with_few_costs_for_tiny_batches_too(asked, count, batch, rows, epsilon):
    z = minibatch.calibrated(count, batch, rows, epsilon, 1e-6, None)
    assert len(asked) <= 16
    base = WithoutReplacement(Gaussian(z), batch, rows)
    less = WithoutReplacement(Gaussian(z / (1 + 1.1 * minibatch.RELATIVE_TOLERANCE)), batch, rows)
    assert accountant.epsilon(Repeat(base, count), 1e-6) <= epsilon
    assert accountant.epsilon(Repeat(less, count), 1e-6) > epsilon
