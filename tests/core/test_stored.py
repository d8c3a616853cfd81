"""What follows from a stored release for free, and what every result says of itself."""

import json
import math

import numpy as np
import pytest

from dpmcmc import JobSpec, NormalPrior, PrivacySpec
from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Released
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import DpPenaltyOptions, NoisyQuadraticOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelOptions, ModelSpec
from dpmcmc.planner import plan
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.posterior.verdicts import of_chain, of_release
from tests.sources import Seeded

ROWS = 8000
SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-2.0, upper=6.0),
        CategoryColumn(name="g", categories=("a", "b")),
        NumberColumn(name="t", lower=-20.0, upper=60.0),
        NumberColumn(name="c", lower=0.0, upper=200.0),
        BinaryColumn(name="y", categories=("no", "yes")),
    ),
    rows=ROWS,
)

ALL = {"epsilon": 1e6, "delta": 1e-6}
COEFFICIENTS = ("Intercept", "x", "g[b]")


def people(seed=1):
    rng = np.random.default_rng(seed)
    x, b = rng.uniform(-2, 6, ROWS), rng.random(ROWS) < 0.4
    eta = 0.3 + 0.8 * (x - 2.0) / 4.0
    return {
        "x": x,
        "g": np.where(b, "b", "a"),
        "t": np.clip(10.0 * eta + 3.0 * rng.standard_normal(ROWS), -20, 60),
        "c": np.clip(rng.poisson(np.exp(1.0 + eta)), 0, 200),
        "y": np.where(rng.random(ROWS) < 1 / (1 + np.exp(-eta)), "yes", "no"),
    }


def design(data):
    return np.stack([np.ones(ROWS), (data["x"] - 2.0) / 4.0, data["g"] == "b"])


def fitted(family, response, prior=10.0, **budget):
    model = ModelSpec(family=family, formula=f"{response} ~ x + g", prior=NormalPrior(scale=prior))
    return sample(
        people(),
        schema=SCHEMA,
        model=model,
        random=Seeded(1),
        **(budget or ALL),
        accept_low_quality=True,
    )


@pytest.fixture(scope="module")
def logistic():
    return fitted("logistic", "y")


@pytest.fixture(scope="module")
def linear():
    robust = NoisyQuadraticOptions(estimand="robust")  # sds as the model has them
    return fitted("linear", "t", 100.0, epsilon=1e6, delta=1e-6, sampler=robust)


def linear_posterior(loc, precision):
    """Given the residuals' sd, of which so many rows know enough: normal in closed form."""
    data = people()
    x = design(data)
    free = np.linalg.solve(x @ x.T, x @ data["t"])
    square = float(((data["t"] - free @ x) ** 2).sum()) / (ROWS - 3)
    whole = x @ x.T / square + np.diag(precision)
    mean = np.linalg.solve(whole, x @ data["t"] / square + precision * loc)
    return mean, np.linalg.inv(whole), math.sqrt(square)


def test_another_prior_gives_the_posterior_under_it(linear):
    loc, scale = np.array([0.0, 20.0, -5.0]), np.array([100.0, 0.1, 0.05])
    prior = {
        "x": NormalPrior(loc=20.0, scale=0.1),
        "g[b]": NormalPrior(loc=-5.0, scale=0.05),
    }
    found = linear.release.posterior(prior, 20_000, scale="design")
    mean, covariance, _ = linear_posterior(loc, scale**-2.0)
    sds = np.sqrt(np.diag(covariance))
    told = found.summary()
    for k, name in enumerate(COEFFICIENTS):
        assert told[name].mean == pytest.approx(mean[k], abs=0.15 * sds[k])
        assert told[name].sd == pytest.approx(sds[k], rel=0.06)
    own = linear.release.posterior(None, 20_000, scale="design").summary()
    mean, covariance, _ = linear_posterior(np.zeros(3), np.full(3, 1e-4))
    assert own["x"].mean == pytest.approx(mean[1], abs=0.15 * math.sqrt(covariance[1, 1]))


def test_a_prior_on_the_log_scale_is_in_its_own_units(linear):
    prior = {"log_sigma": NormalPrior(loc=2.0, scale=1e-4)}
    assert linear.release.posterior(prior).summary()["log_sigma"].mean == pytest.approx(
        2.0, abs=1e-3
    )


def test_linear_predictions_and_contrasts_are_those_of_the_posterior(linear):
    found = linear.release.posterior(None, 20_000, scale="design")
    (one,) = found.predict([{"x": 4.0, "g": "b"}])
    mean, covariance, sigma = linear_posterior(np.zeros(3), np.full(3, 1e-4))
    at = np.array([1.0, 0.5, 1.0])
    sd = math.sqrt(at @ covariance @ at)
    assert one.expected.mean == pytest.approx(at @ mean, abs=0.15 * sd)
    assert one.expected.sd == pytest.approx(sd, rel=0.06)
    assert one.response.sd == pytest.approx(math.hypot(sigma, sd), rel=0.05)
    assert one.predictor == one.expected
    contrast = found.contrast({"Intercept": 1.0, "x": 0.5, "g[b]": 1.0})
    assert contrast.mean == pytest.approx(one.expected.mean)
    assert contrast.q95 == pytest.approx(one.expected.q95)


def test_a_known_noise_scale_stands_in_predictions():
    model = ModelSpec(family="linear", formula="t ~ x", options=ModelOptions(noise_scale=3.0))
    result = sample(people(), schema=SCHEMA, model=model, random=Seeded(2), **ALL)
    (one,) = result.release.posterior(None, 20_000).predict([{"x": 1.0}])
    assert one.response.sd == pytest.approx(3.0, rel=0.04)


def test_counts_are_predicted_with_their_own_spread():
    found = fitted("poisson", "c").release.posterior(None, 20_000)
    (one,) = found.predict([{"x": 2.0, "g": "a"}])
    assert one.expected.mean == pytest.approx(math.exp(1.3), rel=0.05)
    assert one.response.sd == pytest.approx(math.exp(0.65), rel=0.06)
    assert one.response.q95 == round(one.response.q95)


def test_probabilities_lie_between_0_and_1(logistic):
    low, high = logistic.release.posterior().predict([{"x": -2, "g": "a"}, {"x": 6, "g": "a"}])
    assert low.expected.mean == pytest.approx(1 / (1 + math.exp(0.5)), abs=0.03)
    assert high.expected.mean == pytest.approx(1 / (1 + math.exp(-1.1)), abs=0.03)
    assert low.response is None


def test_bayes_factors_are_ratios_of_evidence(linear):
    """Against the evidence of both models, in closed form given the residuals' sd."""
    data = people()
    x, y = design(data), data["t"]
    _, _, sigma = linear_posterior(np.zeros(3), np.full(3, 1e-4))
    scale = 2.0

    def evidence(columns):
        x_in = x[columns]
        prior = np.array([1e-4, scale**-2.0, scale**-2.0])[columns]
        whole = x_in @ x_in.T / sigma**2 + np.diag(prior)
        b = x_in @ y / sigma**2
        fit = 0.5 * b @ np.linalg.solve(whole, b)
        return fit + 0.5 * np.log(prior).sum() - 0.5 * np.linalg.slogdet(whole)[1]

    same = NormalPrior(scale=scale)
    found = linear.release.posterior({"x": same, "g[b]": same})
    wanted = evidence([0, 1, 2]) - evidence([0, 1])
    assert found.log_bayes_factor({"g[b]": 0.0}) == pytest.approx(wanted, abs=0.4)
    assert wanted < -1.0
    assert found.log_bayes_factor({"x": 0.0}) > 500.0


def test_means_have_the_same_in_closed_form():
    model = ModelSpec(family="gaussian_mean", formula="~ x", options=ModelOptions(variances=(5.4,)))
    result = sample(people(), schema=SCHEMA, model=model, random=Seeded(2), **ALL)
    mean, each = float(people()["x"].mean()), 5.4 / ROWS
    found = result.release.posterior({"x": NormalPrior(loc=3.0, scale=0.02)}, 20_000)
    weight = 1 / each / (1 / each + 2500.0)
    told = found.summary()["x"]
    assert told.mean == pytest.approx(weight * mean + (1 - weight) * 3.0, abs=2e-3)
    assert told.sd == pytest.approx((1 / each + 2500.0) ** -0.5, rel=0.05)
    assert result.verdict.status == "reliable"
    with pytest.raises(SpecError) as caught:
        found.predict([{"x": 1.0}])
    assert caught.value.pointer == "/given"


def test_a_bent_model_has_draws_but_no_other_prior():
    model = ModelSpec(family="banana", formula="~ x + t")
    result = sample(people(), schema=SCHEMA, model=model, random=Seeded(2), **ALL)
    found = result.release.posterior(None, 500)
    assert found.draws.shape == (500, 2)
    for ask in (
        lambda: result.release.posterior({"x": NormalPrior(scale=1.0)}),
        lambda: found.log_bayes_factor({"x": 0.0}),
    ):
        with pytest.raises(SpecError, match="not linear"):
            ask()


def test_the_log_scale_has_no_bayes_factor(linear):
    with pytest.raises(SpecError) as caught:
        linear.release.posterior().log_bayes_factor({"log_sigma": 0.0})
    assert caught.value.pointer == "/null"


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_what_is_stored_is_read_again_and_says_the_same(family, request):
    result = request.getfixturevalue(family)
    text = json.dumps(result.release.to_dict(), allow_nan=False)
    again = StoredRelease.read(SCHEMA, result.plan.spec, json.loads(text))
    assert again.verdict == result.verdict == result.release.verdict
    here = result.release.posterior(None, 20_000).summary()["x"]
    assert again.posterior(None, 20_000).summary()["x"].mean == pytest.approx(
        here.mean, abs=0.05 * here.sd
    )


def chain(draws, started=False, num_warmup=0):
    names = [f"p{k}" for k in range(draws.shape[2])]
    found = summarise(Released(draws[:, num_warmup:]), names)
    return of_chain(draws, num_warmup, found, started=started)


def test_chains_are_judged_by_mixing_size_and_start():
    rng = np.random.default_rng(3)
    good = rng.standard_normal((2, 2000, 2))
    assert chain(good).status == "reliable"
    assert chain(good[:1]).status == "reliable"
    assert "halves" in chain(good[:1]).sentence
    apart = good + np.array([0.0, 0.5])[:, None, None]
    assert any("R-hat" in reason for reason in chain(apart).reasons)
    assert any("effective sample size" in reason for reason in chain(good[:, :50]).reasons)
    stuck = good.copy()
    stuck[:, :, 1] = 1.0
    assert any("p1 never moved" in reason for reason in chain(stuck).reasons)
    far = good.copy()
    far[:, 0, 0] = 30.0
    assert chain(far, num_warmup=1).status == "reliable"
    told = chain(far, started=True, num_warmup=1)
    assert (told.status, len(told.reasons)) == ("unreliable", 1)
    assert "start" in told.sentence


@pytest.mark.compiled("thousands of steps")
def test_results_show_their_verdict(logistic, monkeypatch):
    assert repr(logistic).splitlines()[1].startswith("noisy_quadratic: Reliable:")
    assert "g[b]" in str(logistic)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "\x1b[32mReliable\x1b[0m" in repr(logistic)
    poor = sample(
        people(),
        schema=SCHEMA,
        model=ModelSpec(family="logistic", formula="y ~ x"),
        sampler=DpPenaltyOptions(num_steps=40, num_chains=2),
        **{**ALL, "epsilon": 1.0},
        accept_low_quality=True,
    )
    assert poor.release is None
    assert "\x1b[31mUnreliable\x1b[0m" in repr(poor)


def test_a_release_that_keeps_nothing_cannot_be_believed():
    assert of_release(None).status == "unreliable"
    assert "judged" in of_release(None).sentence


@pytest.mark.parametrize(("epsilon", "usable"), [(0.02, False), (1.0, True)])
def test_plans_of_releases_expect_what_their_verdicts_say(epsilon, usable):
    model = ModelSpec(family="logistic", formula="y ~ x + g")
    spec = JobSpec(model=model, privacy=PrivacySpec(epsilon=epsilon, delta=1e-6))
    assert plan(SCHEMA, spec).usable is usable
    told = [
        sample(
            people(s),
            schema=SCHEMA,
            model=model,
            random=Seeded(s),
            **ALL | {"epsilon": epsilon},
            accept_low_quality=True,
        )
        for s in range(5)
    ]
    assert sum((one.verdict.status == "reliable") is usable for one in told) >= 4


def test_every_representation_carries_the_verdict(logistic, monkeypatch):
    """In words everywhere, and in colour on a terminal."""
    found = logistic.release.posterior(num_draws=50)
    for shown in (repr(logistic), repr(logistic.release), repr(found)):
        assert logistic.verdict.sentence in " ".join(shown.split())
        assert "\x1b" not in shown
    assert logistic.to_datatree().attrs["verdict"] == "reliable"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for shown in (repr(logistic), repr(logistic.release), repr(found)):
        assert "\x1b[32mReliable\x1b[0m:" in shown


def test_a_representation_of_what_is_unreliable_is_red(monkeypatch):
    poor = fitted("logistic", "y", epsilon=0.01, delta=1e-6)
    assert poor.verdict.status == "unreliable"
    assert poor.verdict.mark == " (unreliable)"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "\x1b[31mUnreliable\x1b[0m:" in repr(poor)
    assert "\x1b[31m" in repr(poor.release)
