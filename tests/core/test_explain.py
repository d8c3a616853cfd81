"""A fit in sentences: what was found of which column, for readers who are no statisticians."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpmcmc import ModelOptions, ModelSpec, Schema, SpecError, sample
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.posterior.explain import step_of

ROWS = 20_000


def data_of():
    rng = np.random.default_rng(3)
    age, ward = rng.uniform(20, 80, ROWS), rng.choice(["a", "b", "c"], ROWS)
    eta = 0.03 * (age - 50) + np.where(ward == "b", 0.7, 0.0)
    return {
        "age": age,
        "ward": ward,
        "ill": np.where(rng.random(ROWS) < 1 / (1 + np.exp(-eta)), "yes", "no"),
        "visits": np.clip(rng.poisson(np.exp(0.5 + 0.02 * (age - 50))), 0, 20),
        "stage": np.array(["low", "mid", "high"])[rng.integers(0, 3, ROWS)],
        "weight": 70 + 0.2 * (age - 50) + rng.normal(0, 5, ROWS),
        "when": np.datetime64("2020-01-01") + rng.integers(0, 1000, ROWS).astype("m8[D]"),
        "coin": rng.choice(["heads", "tails"], ROWS),
    }


DATA = data_of()
SCHEMA = Schema.from_frame(
    DATA,
    bounds={
        "age": (20, 80),
        "ward": ("a", "b", "c"),
        "ill": ("no", "yes"),
        "visits": (0, 20),
        "stage": ("low", "mid", "high"),
        "weight": (40, 100),
        "when": ("2020-01-01", "2022-12-31"),
        "coin": ("heads", "tails"),
    },
)


def fit_of(formula, family=None, epsilon=1e4, **others):
    options = ModelOptions(dispersion=5.0 if family == "negative_binomial" else None)
    family = family or ("logistic" if formula.startswith("ill") else "linear")
    model = ModelSpec(family=family, formula=formula, options=options)
    return sample(DATA, schema=SCHEMA, model=model, epsilon=epsilon, **others)


@pytest.mark.parametrize(
    ("formula", "family", "sentence"),
    [
        ("ill ~ age + ward", None, "With 10 more of age, the odds of ill being yes are multiplied"),
        ("ill ~ age + ward", None, "Where ward is b in place of a, the odds of ill being yes are"),
        ("ill ~ C(ward, ref='b')", None, "Where ward is a in place of b, the odds of ill being"),
        (
            "visits ~ age",
            "poisson",
            "10 more of age, the mean count of visits is multiplied by 1.2",
        ),
        ("visits ~ age", "negative_binomial", "the mean count of visits is multiplied by 1.2"),
        (
            "stage ~ age",
            "multinomial",
            "the odds of stage being mid rather than low are multiplied",
        ),
        ("weight ~ age", "linear", "With 10 more of age, weight is"),
        ("weight ~ age", "student_t", "With 10 more of age, weight is"),
        ("weight ~ when + age", "linear", "when 100 days later: weight is"),
        ("weight ~ coin + age", "linear", "Where coin is tails in place of heads, weight is"),
        ("ill ~ poly(age, 2)", None, "Its terms are curves or products of columns"),
        ("ill ~ 1", None, "The model describes ill in 20,000 rows."),
    ],
)
def test_effects_are_told_in_the_words_of_the_family(formula, family, sentence):
    fit = fit_of(formula, family)
    assert fit.verdict.status == "reliable", fit.verdict.sentence
    assert sentence in fit.explain()
    assert fit.verdict.sentence in fit.explain()
    assert "protects a row." in fit.explain()


def test_ratios_are_those_of_the_coefficients():
    fit = fit_of("ill ~ age + ward")
    row = fit.summary()["age"]
    middle, low, high = (f"{np.exp(10 * v):.3g}" for v in (row.mean, row.q05, row.q95))
    assert f"multiplied by {middle} (90 % interval {low} to {high})." in fit.explain()


def test_a_difference_that_may_be_none_is_told_as_such():
    fit = fit_of("weight ~ age + coin", epsilon=4)
    row = fit.summary()["coin[tails]"]
    unclear = row.q05 <= 0.0 <= row.q95
    assert ("which may be no effect" in fit.explain()) == unclear


@pytest.mark.parametrize(
    ("formula", "silent"),
    [
        ("ill ~ age * ward", ("With 10 more of age", "Where ward")),
        ("ill ~ age + I(age**2)", ("With 10 more of age",)),
        ("ill ~ age + log(age)", ("With 10 more of age",)),
        ("ill ~ 0 + ward + age", ("Where ward",)),
    ],
)
def test_no_coefficient_is_told_that_is_no_effect_by_itself(formula, silent):
    told = fit_of(formula, epsilon=1e6).explain()
    for words in silent:
        assert words not in told


def test_no_effect_is_told_of_a_result_that_is_not_reliable():
    fit = fit_of("ill ~ age + ward", epsilon=0.05, accept_low_quality=True)
    assert fit.verdict.status == "unreliable"
    assert "not to be relied on" in fit.explain()
    assert "With 10 more" not in fit.explain()


@pytest.mark.parametrize(
    ("bounds", "step"),
    [
        ((0, 1), 0.1),
        ((0, 2), 1),
        ((1, 8), 1),
        ((20, 80), 10),
        ((0, 16_000), 1000),
        ((0, 1e-4), 1e-5),
    ],
)
def test_a_step_follows_from_declared_bounds(bounds, step):
    assert step_of(NumberColumn(name="x", lower=bounds[0], upper=bounds[1])) == pytest.approx(step)


def test_predictions_take_a_data_frame():
    fit = fit_of("ill ~ age + ward")
    frame = pd.DataFrame({"ward": ["a", "b"], "age": [30.0, 50.0], "other": [1, 2]})
    settings = [{"age": 30.0, "ward": "a"}, {"age": 50.0, "ward": "b"}]
    by_frame, by_list = fit.predict(frame), fit.predict(settings)
    means = [[prediction.expected.mean for prediction in made] for made in (by_frame, by_list)]
    np.testing.assert_allclose(*means, atol=0.002)
    many = repr(
        fit.predict(pd.DataFrame({"ward": ["a"] * 30, "age": np.linspace(20, 79, 30) / 3 + 20}))
    )
    assert len(many.splitlines()) == 2 + 20 + 1
    assert "  and 10 more" in many
    assert "age 26.6667, ward a" in many
    for wrong in (frame[["age"]], 3, "age"):
        with pytest.raises(SpecError) as refused:
            fit.predict(wrong)
        assert refused.value.pointer == "/given"


def test_draws_are_a_data_frame():
    fit = fit_of("ill ~ age")
    frame = fit.to_frame()
    assert list(frame.columns) == ["Intercept", "age"]
    assert frame.index.names == ["chain", "draw"]
    assert frame["age"].mean() == pytest.approx(fit.summary()["age"].mean)
    assert len(frame) == fit.draws.shape[0] * (fit.draws.shape[1] - fit.plan.num_warmup)
    table = pa.table(fit)  # by the PyCapsule interface, as other readers of Arrow do
    assert table.column_names == ["chain", "draw", "Intercept", "age"]
    at = list(zip(table["chain"].to_pylist(), table["draw"].to_pylist(), strict=True))
    assert at == frame.index.tolist()
    assert table["age"].to_pylist() == frame["age"].tolist()
