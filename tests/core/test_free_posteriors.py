"""Other priors, effects and comparisons from a stored release, against what they must be."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit, ndtr

from dpmcmc import CoefficientPrior, NormalPrior
from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import sample
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.posterior.stored import StoredRelease

ROWS = 8000
SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-2.0, upper=6.0),
        CategoryColumn(name="g", categories=("a", "b", "c")),
        NumberColumn(name="t", lower=-20.0, upper=60.0),
        NumberColumn(name="n", lower=0.0, upper=200.0),
        BinaryColumn(name="y", categories=("no", "yes")),
    ),
    rows=ROWS,
)
BUDGET = {"epsilon": 2.0, "delta": 1e-6}
DRAWS = 8000


def prior(kind, **numbers):
    return CoefficientPrior(kind=kind, **numbers)


def people(seed=1):
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-2, 6, ROWS), rng.integers(0, 3, ROWS)
    eta = 0.3 + 0.8 * (x - 2.0) / 4.0 + 0.3 * (g == 2)
    return {
        "x": x,
        "g": np.array(["a", "b", "c"])[g],
        "t": np.clip(10.0 * eta + 3.0 * rng.standard_normal(ROWS), -20, 60),
        "n": np.clip(rng.poisson(np.exp(1.0 + eta)), 0, 200),
        "y": np.where(rng.random(ROWS) < expit(eta), "yes", "no"),
    }


def fitted(family, response, **budget):
    model = ModelSpec(family=family, formula=f"{response} ~ x + g")
    return sample(
        people(),
        schema=SCHEMA,
        model=model,
        sampler="noisy_quadratic",
        **{**BUDGET, **budget},
    )


class OnDesign:
    """A release whose summaries are of the standardised columns, as its priors are."""

    def __init__(self, release):
        self.release = release

    def posterior(self, *given):
        return self.release.posterior(*given, scale="design")

    def __getattr__(self, name):
        return getattr(self.release, name)


@pytest.fixture(scope="module")
def linear():
    return OnDesign(fitted("linear", "t").release)


@pytest.fixture(scope="module")
def logistic():
    return OnDesign(fitted("logistic", "y").release)


@pytest.fixture(scope="module")
def poisson():
    return OnDesign(fitted("poisson", "n").release)


def test_a_prior_with_bounds_cuts_the_posterior_and_leaves_the_rest(linear):
    """With the middle of the own posterior as a bound what is left is its upper half."""
    own = linear.posterior(None, DRAWS).summary()
    cut = own["x"].mean
    half = linear.posterior({"x": prior("uniform", lower=cut)}, DRAWS)
    told = half.summary()
    assert half.draws[:, 1].min() >= cut
    z = (np.quantile(half.draws[:, 1], 0.5) - cut) / own["x"].sd
    assert ndtr(z) == pytest.approx(0.75, abs=0.05)
    assert told["log_sigma"].mean == pytest.approx(
        own["log_sigma"].mean, abs=0.5 * own["log_sigma"].sd
    )
    assert told["log_sigma"].sd == pytest.approx(own["log_sigma"].sd, rel=0.25)
    assert half.verdict == linear.verdict


def test_a_t_with_many_degrees_is_a_normal_in_units_of_the_parameter(linear):
    own = linear.posterior(None, DRAWS).summary()["x"]
    loc, scale = own.mean + 2.0 * own.sd, own.sd
    names = ("Intercept", "x", "g[b]", "g[c]", "log_sigma")
    closed = linear.posterior({"x": NormalPrior(loc=loc, scale=scale)}, DRAWS).summary()
    walked = linear.posterior({"x": prior("student_t", loc=loc, scale=scale, df=1e4)}, DRAWS)
    told = walked.summary()
    for name in names:
        assert told[name].mean == pytest.approx(closed[name].mean, abs=0.2 * own.sd + 0.1)
        assert told[name].sd == pytest.approx(closed[name].sd, rel=0.2)
    assert told["x"].mean == pytest.approx(own.mean + own.sd, abs=0.25 * own.sd)
    applied = walked.priors["x"]
    assert (applied.kind, applied.df) == ("student_t", 1e4)
    assert (applied.loc, applied.scale) == (pytest.approx(loc), pytest.approx(scale))


def test_an_estimate_far_from_a_heavy_tail_is_left_alone_and_a_laplace_shrinks(logistic):
    own = logistic.posterior(None, DRAWS).summary()["x"]
    heavy = logistic.posterior({"x": prior("cauchy", scale=0.01)}, DRAWS).summary()["x"]
    light = logistic.posterior({"x": prior("laplace", scale=0.01)}, DRAWS).summary()["x"]
    assert heavy.mean == pytest.approx(own.mean, abs=0.5 * own.sd)
    assert own.mean - light.mean == pytest.approx(own.sd**2 / 0.01, rel=0.35)


def test_bayes_factors_of_other_priors_agree_with_normal_ones(linear):
    own = linear.posterior(None, 500).summary()["g[b]"]
    scale = 20.0 * own.sd
    normal = linear.posterior({"g[b]": NormalPrior(scale=scale)}, 500).bayes_factor({"g[b]": 0.0})
    many = linear.posterior({"g[b]": prior("student_t", scale=scale, df=1e4)}, 500)
    near = many.bayes_factor({"g[b]": 0.0})
    assert near.log == pytest.approx(normal.log, abs=0.5)
    wide = linear.posterior({"g[b]": prior("uniform", lower=-50 * own.sd, upper=50 * own.sd)}, 500)
    z = own.mean / own.sd
    wanted = math.log(math.sqrt(2 * math.pi) / 100.0) + 0.5 * z * z
    assert wide.bayes_factor({"g[b]": 0.0}).log == pytest.approx(wanted, abs=0.5)


def test_a_one_sided_null_lies_on_the_edge_of_its_prior(linear):
    found = linear.posterior({"x": prior("normal", scale=10.0, lower=0.0)}, 500)
    assert found.bayes_factor({"x": 0.0}).log > 50.0
    with pytest.raises(SpecError) as caught:
        found.bayes_factor({"x": -1e-9})
    assert caught.value.pointer == "/null/x"


def test_effects_of_a_number_are_derivatives_of_the_mean(logistic):
    found = logistic.posterior(None, 400)
    given = [{"x": 1.0, "g": "b"}, {"x": 6.0, "g": "c"}, {"x": -2.0, "g": "a"}]
    (told,) = found.effects("x", given)
    rows = np.array([[1, -0.25, 1, 0], [1, 1.0, 0, 1], [1, -1.0, 0, 0]])
    p = expit(found.draws @ rows.T)
    slopes = (p * (1 - p) * found.draws[:, 1:2] / 4.0).mean(axis=1)
    assert told.expected.mean == pytest.approx(slopes.mean(), rel=1e-3)
    assert told.expected.sd == pytest.approx(slopes.std(ddof=1), rel=1e-2)
    assert (told.value, told.against) == (None, None)
    (step,) = found.effects("x", [{"g": "b"}], value=3, against=-1)
    up, down = (expit(found.draws @ np.array([1, z, 1, 0])) for z in (0.25, -0.75))
    assert step.expected.mean == pytest.approx((up - down).mean())


def test_effects_of_categories_are_against_the_first_or_the_one_named(poisson):
    found = poisson.posterior(None, 400)
    given = [{"x": 2.0}, {"x": 6.0}]
    b, c = found.effects("g", given)
    assert [(one.value, one.against) for one in (b, c)] == [("b", "a"), ("c", "a")]
    d = found.draws
    base = [np.exp(d[:, 0]), np.exp(d[:, 0] + d[:, 1])]
    wanted = np.mean([m * (np.exp(d[:, 3]) - 1.0) for m in base], axis=0)
    assert c.expected.mean == pytest.approx(wanted.mean())
    (turned,) = found.effects("g", given, value="a", against="c")
    assert turned.expected.mean == pytest.approx(-wanted.mean())
    levels = {one.value for one in found.effects("g", given, against="b")}
    assert levels == {"a", "c"}


def test_comparisons_are_differences_and_ratios(poisson, linear):
    found = poisson.posterior(None, 400)
    high, low = {"x": 6.0, "g": "c"}, {"x": 2.0, "g": "a"}
    told = found.compare(high, low)
    contrast = found.contrast({"x": 1.0, "g[c]": 1.0})
    assert told.predictor.mean == pytest.approx(contrast.mean)
    assert told.ratio.mean == pytest.approx(np.exp(found.draws[:, 1] + found.draws[:, 3]).mean())
    assert told.multiplies == "mean count"
    one, two = (found.predict([at])[0].expected for at in (high, low))
    assert told.expected.mean == pytest.approx(one.mean - two.mean)
    d = found.draws
    means = np.exp(d[:, 0] + d[:, 1] + d[:, 3]) - np.exp(d[:, 0])
    assert told.expected.sd == pytest.approx(means.std(ddof=1))  # draw by draw
    plain = linear.posterior(None, 100).compare(high, low)
    assert (plain.ratio, plain.multiplies) == (None, "")


def test_a_prior_beyond_where_the_rows_were_evaluated_is_not_believed(logistic, linear):
    far = {"x": NormalPrior(loc=40.0, scale=1e-3)}
    assert linear.posterior(far, 100).verdict == linear.verdict  # a normal likelihood has no end
    told = logistic.posterior(far, 100).verdict
    assert told.status == "unreliable"
    assert told.sentence.startswith("Unreliable: this prior moves the posterior")
    assert told.width_from_privacy == logistic.verdict.width_from_privacy


def test_two_modes_between_which_nothing_goes_are_not_believed(logistic):
    own = logistic.posterior(None, 2000).summary()["x"]
    loc = own.mean - 5.2 * own.sd
    spike = prior("cauchy", loc=loc, scale=3e-5 * own.sd if own.sd > 0.05 else 1e-6)
    told = logistic.posterior({"x": spike}, 200).verdict
    assert told.status == "unreliable"
    assert "R-hat" in told.reasons[-1]


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"log_sigma": prior("laplace", scale=1.0)}, "/prior/log_sigma/kind"),
        ({"log_sigma": prior("normal", scale=1.0, lower=0.0)}, "/prior/log_sigma/kind"),
        ({"z": prior("laplace", scale=1.0)}, "/prior/z"),
    ],
)
def test_what_cannot_be_joined_names_its_place(linear, asked, pointer):
    with pytest.raises(SpecError) as caught:
        linear.posterior(asked, 10)
    assert caught.value.pointer == pointer


def test_two_coefficients_with_bounds_are_not_tested_at_once(linear):
    half = prior("normal", scale=5.0, lower=-9.0)
    found = linear.posterior({"x": half, "g[b]": half}, 100)
    assert math.isfinite(found.bayes_factor({"x": 1.0, "g[c]": 0.0}).log)
    with pytest.raises(SpecError) as caught:
        found.bayes_factor({"x": 1.0, "g[b]": 0.0})
    assert caught.value.pointer == "/null"


def test_means_take_other_priors_too():
    model = ModelSpec(family="gaussian_mean", formula="~ x", options=_known())
    release = OnDesign(sample(people(), schema=SCHEMA, model=model, **BUDGET).release)
    own = release.posterior(None, DRAWS).summary()["x"]
    told = release.posterior({"x": prior("uniform", upper=own.mean)}, DRAWS)
    assert told.draws.max() <= own.mean
    z = (np.quantile(told.draws, 0.5) - own.mean) / own.sd
    assert ndtr(z) == pytest.approx(0.25, abs=0.05)


def _known():
    from dpmcmc.inputs.spec import ModelOptions

    return ModelOptions(variances=(5.4,))


def test_what_is_read_again_takes_any_prior(logistic):
    text = json.dumps(logistic.to_dict(), allow_nan=False)
    again = StoredRelease.read(SCHEMA, logistic.spec, json.loads(text))
    told = again.posterior({"x": prior("laplace", scale=1.0, lower=0.0)}, 100)
    assert told.draws.shape == (100, 4)


def test_what_is_told_in_units_of_the_columns_is_the_same_posterior(logistic):
    """x is standardised by 4: its coefficient per unit is a quarter, and a null is too."""
    half = {"x": prior("laplace", scale=1.0, lower=0.0)}
    told = logistic.release.posterior(half, 100)
    assert told.shown[:, 1] == pytest.approx(told.draws[:, 1] / 4.0)
    assert told.summary()["x"].mean == pytest.approx(told.draws[:, 1].mean() / 4.0)
    own, design = told.bayes_factor({"x": 0.2}), logistic.posterior(half, 100)
    assert own.log == pytest.approx(design.bayes_factor({"x": 0.8}).log, abs=0.3)
    with pytest.raises(SpecError) as caught:
        told.bayes_factor({"Intercept": 0.0})
    assert caught.value.pointer == "/null/Intercept"
    assert math.isfinite(design.bayes_factor({"Intercept": 0.0}).log)


def test_a_response_of_several_categories_is_told_by_probabilities_under_any_prior():
    model = ModelSpec(family="multinomial", formula="g ~ x")
    release = sample(people(), schema=SCHEMA, model=model, **BUDGET).release
    found = release.posterior({"c:x": prior("uniform", upper=0.0)}, 200, scale="design")
    assert found.draws[:, found.parameters.index("c:x")].max() <= 0.0
    near, there = found.predict([{"x": 1.0}, {"x": 1.004}])
    assert sum(one.mean for one in near.probabilities.values()) == pytest.approx(1.0)
    compared = found.compare({"x": 1.004}, {"x": 1.0})
    (slope,) = found.effects("x", [{"x": 1.002}])
    (step,) = found.effects("x", [{"x": 1.0}], value=1.004, against=1.0)
    assert (compared.expected, compared.ratio, slope.expected) == (None, None, None)
    for name, share in near.probabilities.items():
        gone = there.probabilities[name].mean - share.mean
        assert compared.probabilities[name].mean == pytest.approx(gone, abs=1e-9)
        assert step.probabilities[name].mean == pytest.approx(gone, abs=1e-9)
        assert slope.probabilities[name].mean == pytest.approx(gone / 0.004, rel=0.01, abs=1e-4)
