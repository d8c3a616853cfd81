"""Exponential regression of censored times: the fit without noise, and what rows say."""

import numpy as np
import pytest
from scipy import stats

from dpmcmc.base.errors import SpecError
from dpmcmc.families.exponential import Exponential
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from tests.cases import posterior
from tests.sources import Seeded

ROWS, TRUTH = 4000, np.array([-3.0, 0.6, -0.5])
LAST = 60.0
COLUMNS = (
    NumberColumn(name="a", lower=-1.0, upper=1.0),
    CategoryColumn(name="g", categories=("no", "yes")),
    NumberColumn(name="base", lower=-1.0, upper=1.0),
    NumberColumn(name="many", lower=0.0, upper=3.0),
    NumberColumn(name="days", lower=0.01, upper=LAST, missing=(-1.0,)),
    NumberColumn(name="zero", lower=0.0, upper=LAST),
    BinaryColumn(name="died", categories=("alive", "dead")),
    NumberColumn(name="event", lower=0.0, upper=1.0),
)
SCHEMA = Schema(columns=COLUMNS, rows=ROWS)


def people_of(rng, rows=ROWS, shape=1.0):
    """Rows of times with a Weibull law of this shape, 1 for a constant hazard, censored."""
    a, g = rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)
    base, many = rng.uniform(-1, 1, rows), rng.integers(1, 4, rows) * 1.0
    rate = np.exp(TRUTH @ np.stack([np.ones(rows), a, g]))
    time, cut = rng.exponential(size=rows) ** (1.0 / shape) / rate, rng.uniform(5.0, LAST, rows)
    event, days = (time <= cut) * 1.0, np.clip(np.minimum(time, cut), 0.01, LAST)
    return {
        "a": a, "g": np.array(["no", "yes"])[g], "base": base, "many": many, "days": days,
        "zero": days, "died": np.where(event > 0, "dead", "alive"), "event": event,
    }  # fmt: skip


@pytest.fixture(scope="module")
def people():
    return people_of(np.random.default_rng(1))


def model_of(formula="surv(days, died) ~ a + g", **more):
    return ModelSpec(family="exponential", formula=formula, **more)


def design_of(data):
    return np.stack([np.ones(len(data["days"])), data["a"], data["g"] == "yes"])


def fitted(x, time, event, weight=1.0, offset=0.0):
    """The maximum likelihood fit and its sandwich sds."""
    theta = np.zeros(len(x))
    theta[0] = np.log(event.sum() / time.sum())
    for _ in range(30):
        hazard = time * np.exp(theta @ x + offset)
        back = np.linalg.inv((x * weight * hazard) @ x.T)
        theta = theta + back @ (x @ (weight * (event - hazard)))
    scores = x * np.sqrt(weight) * (event - hazard)
    return theta, np.sqrt(np.diag(back @ scores @ scores.T @ back))


@pytest.mark.parametrize(
    "case", ["plain", "R", "number", "weeks", "offset", "weights", "missing", "other hazard"]
)
def test_without_noise_it_is_the_fit_of_the_model(people, case):
    data, x, more, known, there = dict(people), design_of(people), {}, {}, np.ones(ROWS, bool)
    time = data["days"]
    if case == "R":
        more = {"formula": "Surv(days, died) ~ a + g"}
    elif case == "number":
        more = {"formula": "surv(days, event) ~ a + g"}
    elif case == "weeks":
        more, time = {"formula": "surv(days / 7, died) ~ a + g"}, time / 7.0
    elif case == "offset":
        more = {"formula": "surv(days, died) ~ a + g + offset(base)"}
        known = {"offset": data["base"]}
    elif case == "weights":
        more, known = {"weights": "many"}, {"weight": data["many"]}
    elif case == "missing":
        there = np.random.default_rng(2).random(ROWS) < 0.8
        data["days"] = np.where(there, time, -1.0)
    elif case == "other hazard":
        data = people_of(np.random.default_rng(3), shape=2.0)
        x, time = design_of(data), data["days"]
    theta, sds = fitted(x[:, there], time[there], data["event"][there], **{
        key: value if np.ndim(value) == 0 else value[there] for key, value in known.items()
    })  # fmt: skip
    result, draws = posterior(data, SCHEMA, model_of(**more), 3)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert np.abs((draws.mean(axis=0) - theta) / sds).max() < 0.15
    assert draws.std(axis=0) / sds == pytest.approx(np.ones(3), abs=0.1)


@pytest.mark.parametrize(("epsilon", "rows"), [(1.0, 20_000), (4.0, 4000)])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon, rows):
    held, runs = [], 40
    names = ("a", "g", "days", "died")
    schema = Schema(columns=tuple(c for c in COLUMNS if c.name in names), rows=rows)
    for seed in range(runs):
        data = people_of(np.random.default_rng(100 + seed), rows)
        data = {name: data[name] for name in names}
        result, draws = posterior(data, schema, model_of(), 1000 + seed, epsilon)
        if result.verdict.status == "reliable":
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            held.append((low < TRUTH) & (high > TRUTH))
    assert len(held) > runs / 2
    # four standard errors of as many times 3 intervals, those of a fit taken for half independent
    assert np.mean(held) == pytest.approx(0.9, abs=4.0 * np.sqrt(0.09 / (1.5 * len(held))))


def test_scores_and_slopes_are_the_derivatives_of_the_log_likelihood():
    rng, m, h = np.random.default_rng(8), 200, 1e-4
    time, event = rng.exponential(size=m), (rng.random(m) < 0.5) * 1.0
    eta = rng.normal(size=m)
    at = Evaluation((eta + np.log(time))[None], np.ones(m), np.zeros(m), UNCUT, UNCUT, 1.0, 4.0)
    terms = Exponential().terms(event, at)

    def log_likelihood(eta):
        law = stats.expon(scale=np.exp(-eta))
        return np.where(event == 1.0, law.logpdf(time), law.logsf(time))

    up, here, down = (log_likelihood(eta + step) for step in (h, 0.0, -h))
    assert terms.psi[0] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)
    assert terms.root[0, 0] ** 2 == pytest.approx(-(up - 2 * here + down) / h**2, rel=1e-3)


@pytest.mark.parametrize("cut", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("censoring", ["none", "fixed", "random"])
def test_clipped_scores_have_mean_zero_and_keep_within_their_caps(cut, censoring):
    rng, m = np.random.default_rng(9), 400_000
    time = rng.exponential(size=m)
    last = {"none": np.inf, "fixed": 0.7, "random": rng.exponential(size=m)}[censoring]
    event, seen = (time <= last) * 1.0, np.minimum(time, last)
    eta, norm, tiny = np.log(seen)[None], np.full(m, 1.5), np.full(m, 1e-9)
    terms = Exponential().terms(event, Evaluation(eta, norm, tiny, 1.5 * cut, 9.0, 1.0, 4.0))
    psi = terms.psi[0]
    assert abs(psi.mean()) < 4.0 * psi.std() / np.sqrt(m)
    assert psi.var() == pytest.approx((terms.noise[0, 0] ** 2).mean(), rel=0.02)
    assert np.abs(psi).max() * 1.5 <= 1.5 * cut * (1 + 1e-9)
    assert (terms.root**2).max() * 1.5**2 <= 9.0 * (1 + 1e-9)


def test_hazard_ratios_are_told_in_words_and_predictions_are_times(people):
    result, _ = posterior(people, SCHEMA, model_of(), 11)
    assert "the hazard of died is multiplied by" in result.explain()
    free = result.release.posterior(num_draws=40_000, random=Seeded(12))
    setting = {"a": 0.0, "g": "no"}
    new, mean = free.predict([setting], random=Seeded(13))[0], np.exp(-TRUTH[0])
    assert new.expected.mean == pytest.approx(mean, rel=0.08)
    assert new.response.q95 == pytest.approx(mean * np.log(20.0), rel=0.08)
    ratio = free.compare({"a": 1.0, "g": "no"}, setting)
    assert ratio.ratio.mean == pytest.approx(np.exp(TRUTH[1]), rel=0.1)
    assert ratio.multiplies == "hazard"


@pytest.mark.parametrize("kind", ["no event", "one time", "all at the first"])
def test_times_without_a_fit_are_unreliable_and_raise_nothing(people, kind):
    data = {
        "no event": {"died": np.full(ROWS, "alive")},
        "one time": {"days": np.full(ROWS, LAST), "died": np.full(ROWS, "alive")},
        "all at the first": {"days": np.full(ROWS, 0.01), "died": np.full(ROWS, "alive")},
    }[kind]
    result, draws = posterior({**people, **data}, SCHEMA, model_of(), 20, 2.0)
    assert result.verdict.status == "unreliable"
    assert np.isfinite(draws).all()


@pytest.mark.parametrize(
    ("family", "formula", "words"),
    [
        ("exponential", "surv(zero, died) ~ a", "lower bound of 'zero' is 0"),
        ("exponential", "surv(days, many) ~ a", "bounds"),
        ("exponential", "surv(died, event) ~ a", "needs a number"),
        ("exponential", "surv(days) ~ a", r"write surv\(time, event\)"),
        ("exponential", "days ~ a", r"needs surv\(time, event\)"),
        ("exponential", "surv(days, died) ~ days", "cannot be a covariate"),
        ("exponential", "surv(days, died) ~ died", "cannot be a covariate"),
        ("exponential", "days ~ surv(days, died)", "stands on the left side"),
        ("linear", "surv(days, died) ~ a", "take exponential"),
    ],
)
def test_what_is_no_time_to_an_event_is_refused_with_what_to_write(family, formula, words):
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    spec = JobSpec(model=ModelSpec(family=family, formula=formula), privacy=privacy)
    with pytest.raises(SpecError, match=words) as error:
        plan(SCHEMA, spec)
    assert error.value.pointer == "/model/formula"
