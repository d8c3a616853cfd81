"""Weibull regression of censored times: the fit without noise, and what rows say."""

import numpy as np
import pytest
from scipy import optimize, stats

from dpmcmc.base.errors import SpecError
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.families.weibull import Weibull
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from tests.cases import posterior
from tests.sources import Seeded

ROWS, TRUTH, SHAPE = 4000, np.array([3.0, 0.6, -0.5]), 1.5
LAST = 30.0
COLUMNS = (
    NumberColumn(name="a", lower=-1.0, upper=1.0),
    CategoryColumn(name="g", categories=("no", "yes")),
    NumberColumn(name="base", lower=-1.0, upper=1.0),
    NumberColumn(name="days", lower=0.01, upper=LAST, missing=(-1.0,)),
    NumberColumn(name="zero", lower=0.0, upper=LAST),
    BinaryColumn(name="died", categories=("alive", "dead")),
)
SCHEMA = Schema(columns=COLUMNS, rows=ROWS)
LAWS = {
    "weibull": lambda rng, n: np.log(rng.exponential(size=n)),
    "lognormal": lambda rng, n: rng.normal(size=n),
    "loglogistic": lambda rng, n: rng.logistic(size=n),
}


def people_of(rng, rows=ROWS, law="weibull", shape=SHAPE, cut=(5.0, LAST)):
    """Rows of times with a law of logs, censored between two times."""
    a, g = rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)
    base = rng.uniform(-1, 1, rows)
    middle = TRUTH @ np.stack([np.ones(rows), a, g])
    time = np.exp(middle + LAWS[law](rng, rows) / shape)
    last = rng.uniform(*cut, rows)
    days = np.clip(np.minimum(time, last), 0.01, LAST)
    return {
        "a": a, "g": np.array(["no", "yes"])[g], "base": base, "days": days, "zero": days,
        "died": np.where(time <= last, "dead", "alive"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def people():
    return people_of(np.random.default_rng(1))


def model_of(formula="surv(days, died) ~ a + g", **more):
    return ModelSpec(family="weibull", formula=formula, **more)


def fitted(data, time=None, offset=0.0, there=slice(None)):
    """The maximum likelihood fit and its sandwich sds, with slopes of the score by differences."""
    x = np.stack([np.ones(len(data["a"])), data["a"], data["g"] == "yes"])[:, there]
    time = data["days"][there] if time is None else time
    logs, died = np.log(time) - offset, (data["died"] == "dead")[there] * 1.0

    def scores(theta):
        z = (logs - theta[:-1] @ x) * np.exp(-theta[-1])
        off = np.exp(np.clip(z, -50, 50)) - died
        return np.vstack((x * off * np.exp(-theta[-1]), z * off - died))

    start = np.append(np.zeros(len(x)), 0.0)
    start[0] = np.log(time.sum() / died.sum())

    def minus(theta):
        z = np.clip((logs - theta[:-1] @ x) * np.exp(-theta[-1]), -50, 50)
        return np.mean(np.exp(z) - died * (z - theta[-1])), -scores(theta).mean(axis=1)

    found = optimize.minimize(minus, start, jac=True, options={"gtol": 1e-8})
    steps = 1e-5 * np.eye(len(start))
    slope = [scores(found.x + h).sum(axis=1) - scores(found.x - h).sum(axis=1) for h in steps]
    back, each = np.linalg.inv(np.array(slope) / 2e-5), scores(found.x)
    return found.x, np.sqrt(np.diag(back @ each @ each.T @ back.T))


@pytest.mark.parametrize(
    "case",
    ["plain", "weeks", "offset", "missing", "falling", "few events", "lognormal", "loglogistic"],
)
def test_without_noise_it_is_the_fit_of_the_model(people, case):
    data, more, known, there = dict(people), {}, {}, np.ones(ROWS, bool)
    if case == "weeks":
        more = {"formula": "surv(days / 7, died) ~ a + g"}
        known = {"time": data["days"] / 7.0}
    elif case == "offset":
        more = {"formula": "surv(days, died) ~ a + g + offset(base)"}
        known = {"offset": data["base"]}
    elif case == "missing":
        there = np.random.default_rng(2).random(ROWS) < 0.8
        data["days"] = np.where(there, data["days"], -1.0)
        known = {"there": there}
    elif case == "falling":
        data = people_of(np.random.default_rng(3), shape=0.6)
    elif case == "few events":
        data = people_of(np.random.default_rng(4), cut=(0.5, 3.0))
        assert (data["died"] == "dead").mean() < 0.06
    elif case in LAWS:
        data = people_of(np.random.default_rng(5), law=case, shape=2.0)
    theta, sds = fitted(data, **known)
    result, draws = posterior(data, SCHEMA, model_of(prior=NormalPrior(scale=50.0), **more), 3)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert np.abs((draws.mean(axis=0) - theta) / sds).max() < 0.15
    assert draws.std(axis=0) / sds == pytest.approx(np.ones(4), abs=0.1)


@pytest.mark.parametrize(("epsilon", "rows"), [(1.0, 20_000), (4.0, 4000)])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon, rows):
    held, runs, truth = [], 20, np.append(TRUTH, -np.log(SHAPE))
    names = ("a", "g", "days", "died")
    schema = Schema(columns=tuple(c for c in COLUMNS if c.name in names), rows=rows)
    for seed in range(runs):
        data = people_of(np.random.default_rng(100 + seed), rows)
        data = {name: data[name] for name in names}
        result, draws = posterior(data, schema, model_of(), 1000 + seed, epsilon)
        if result.verdict.status == "reliable":
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            held.append((low < truth) & (high > truth))
    assert len(held) > runs / 2
    # four standard errors of as many times 4 intervals, those of a fit taken for half independent
    assert np.mean(held) == pytest.approx(0.9, abs=4.0 * np.sqrt(0.09 / (2.0 * len(held))))


def placed(logs, sigma, *, most=UNCUT, curved=UNCUT, lengths=(1.0, 1.0)):
    """Rows at predictors of 0 with this scale."""
    m, (first, second) = len(logs), lengths
    inner = np.zeros((2, 2, m))
    inner[0, 0], inner[1, 1] = first**2, second**2
    eta = np.stack((np.zeros(m), np.full(m, np.log(sigma))))
    none = np.zeros(m)
    return Evaluation(eta, none, none, most, curved, 1.0, 4.0, inner=inner)


def test_scores_are_the_derivatives_of_the_log_likelihood():
    rng, m, h, sigma = np.random.default_rng(8), 200, 1e-5, 0.7
    logs, event = rng.normal(size=m), (rng.random(m) < 0.5) * 1.0

    def log_likelihood(middle, log_sigma):
        law = stats.weibull_min(c=np.exp(-log_sigma), scale=np.exp(middle))
        time = np.exp(logs)
        return np.where(event == 1.0, law.logpdf(time), law.logsf(time))

    psi = Weibull().terms(np.stack((logs, event), axis=1), placed(logs, sigma)).psi
    zero = np.zeros(m)
    for k, step in enumerate(h * np.eye(2)):
        up, down = (
            log_likelihood(zero + sign * step[0], np.log(sigma) + sign * step[1])
            for sign in (1.0, -1.0)
        )
        assert psi[k] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("most", [UNCUT, 4.0, 1.0, 0.3])
@pytest.mark.parametrize("censoring", ["none", "fixed", "random"])
def test_scores_have_mean_zero_and_the_variance_that_is_said_wherever_times_are_cut(
    most, censoring
):
    rng, m, sigma = np.random.default_rng(9), 400_000, 0.8
    time = rng.exponential(size=m)
    last = {"none": np.inf, "fixed": 0.7, "random": rng.exponential(size=m)}[censoring]
    event, logs = (time <= last) * 1.0, sigma * np.log(np.minimum(time, last))
    at = placed(logs, sigma, most=most, curved=most**2, lengths=(1.2, 0.5))
    told = Weibull().terms(np.stack((logs, event), axis=1), at)
    assert (np.abs(told.psi.mean(axis=1)) < 4.0 * told.psi.std(axis=1) / np.sqrt(m)).all()
    said = np.einsum("ijm,kjm->ik", told.noise, told.noise) / m
    assert said == pytest.approx(told.psi @ told.psi.T / m, rel=0.03, abs=0.02)
    slope = np.einsum("ijm,kjm->ik", told.root, told.root) / m
    if most == UNCUT:
        assert slope == pytest.approx(said, rel=0.03, abs=0.02)
    else:  # without the longest rows
        assert np.abs(told.psi[0]).max() * 1.2 <= most * (1 + 1e-9)


def test_times_and_hazards_are_told_in_words_and_predictions_are_times(people):
    result, _ = posterior(people, SCHEMA, model_of(), 11)
    assert "the time to died is multiplied by" in result.explain()
    free = result.release.posterior(num_draws=40_000, random=Seeded(12))
    setting = {"a": 0.0, "g": "no"}
    law = stats.weibull_min(c=SHAPE, scale=np.exp(TRUTH[0]))
    new = free.predict([setting], random=Seeded(13))[0]
    assert new.expected.mean == pytest.approx(law.mean(), rel=0.08)
    assert new.response.q95 == pytest.approx(law.ppf(0.95), rel=0.08)
    assert new.response.q05 == pytest.approx(law.ppf(0.05), rel=0.15)
    longer = free.compare({"a": 1.0, "g": "no"}, setting)
    assert longer.multiplies == "hazard"
    assert longer.ratio.mean == pytest.approx(np.exp(-SHAPE * TRUTH[1]), rel=0.1)
    assert longer.expected.mean == pytest.approx(law.mean() * np.expm1(TRUTH[1]), rel=0.15)


@pytest.mark.parametrize("epsilon", [2.0, 1e6])
@pytest.mark.parametrize("kind", ["no event", "one time", "all at the first", "all at once"])
def test_times_without_a_fit_are_unreliable_and_raise_nothing(people, kind, epsilon):
    data = {
        "no event": {"died": np.full(ROWS, "alive")},
        "one time": {"days": np.full(ROWS, LAST), "died": np.full(ROWS, "alive")},
        "all at the first": {"days": np.full(ROWS, 0.01), "died": np.full(ROWS, "alive")},
        "all at once": {"days": np.full(ROWS, 10.0), "died": np.full(ROWS, "dead")},
    }[kind]
    result, draws = posterior({**people, **data}, SCHEMA, model_of(), 20, epsilon)
    assert result.verdict.status == "unreliable"
    assert np.isfinite(draws).all()


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 1e4])
def test_a_category_without_events_is_unreliable(epsilon):
    rows = 20_000
    data = people_of(np.random.default_rng(21), rows)
    data["died"] = np.where(data["g"] == "yes", "alive", data["died"])
    schema = Schema(columns=COLUMNS, rows=rows)
    result, _ = posterior(data, schema, model_of(), 22, epsilon)
    assert result.verdict.status == "unreliable"


@pytest.mark.parametrize(
    ("formula", "more", "pointer", "words"),
    [
        ("surv(zero, died) ~ a", {}, "formula", "lower bound of 'zero' is 0"),
        ("days ~ a", {}, "formula", r"needs surv\(time, event\)"),
        ("surv(days, died) ~ a + (1 | g)", {}, "formula", "groups are for"),
        ("surv(days, died) ~ a", {"weights": "base"}, "weights", "exponential regression does"),
    ],
)
def test_what_it_cannot_have_is_refused_with_what_to_write(formula, more, pointer, words):
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    spec = JobSpec(model=model_of(formula, **more), privacy=privacy)
    with pytest.raises(SpecError, match=words) as error:
        plan(SCHEMA, spec)
    assert error.value.pointer == f"/model/{pointer}"
