"""Columns that no data can tell apart are refused, by public facts; no others are."""

import numpy as np
import pytest

from dpmcmc import ModelSpec, plan, sample
from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.spec import JobSpec, PrivacySpec
from dpmcmc.planner.planning import check_dependence
from tests.core.test_formulas import RICH, rows_of, schema_of

DEPENDENT = [
    ("age + I(2 * age)", "I(2 * age)", ("age",)),
    ("age + loss + I(age - loss)", "I(age - loss)", ("age", "loss")),
    ("0 + age + I(3 * age)", "I(3 * age)", ("age",)),
    ("log(age) + log2(age)", "log2(age)", ("log(age)",)),
    ("abs(age) + age", "age", ("abs(age)",)),
    ("poly(age, 2) + I(age**2)", "I(age ** 2)", ("poly(age, 2)[2]",)),
    ("bs(age, df=4) + age", "age", ("bs(age, df=4)[1]", "bs(age, df=4)[4]")),
    ("group*age + I(age / 10):group", "I(age / 10):group[a]", ("age",)),
]
INDEPENDENT = [
    *RICH,
    "poly(age, 8, raw=True)",
    "bs(age, df=20):group:kind",
    "cr(age, df=4)",
    "exp(loss) + expm1(I(20 * loss))",
    "group*kind*age*loss",
    "I(age**4) + I(age**3) + I(age**2) + age",
    "log(age * wage) + log(age)",
]


@pytest.mark.parametrize(("formula", "column", "others"), DEPENDENT)
def test_a_column_that_follows_from_others_is_refused_by_name(formula, column, others):
    model = ModelSpec(family="logistic", formula=f"ill ~ {formula}")
    spec = JobSpec(model=model, privacy=PrivacySpec(epsilon=1.0, delta=1e-6))
    with pytest.raises(SpecError) as caught:
        plan(schema_of(10_000), spec)
    assert caught.value.pointer == "/model/formula"
    said, told = str(caught.value).split("follows from")
    assert repr(column) in said
    for other in others:
        assert repr(other) in told


@pytest.mark.parametrize("formula", INDEPENDENT)
def test_what_rows_can_tell_apart_is_not_refused(formula):
    check_dependence(make_design(schema_of(10_000), f"ill ~ {formula}"))


@pytest.mark.parametrize("formula", [one for one, *_ in DEPENDENT])
def test_what_is_refused_has_no_full_rank_on_any_rows(formula):
    """Other rows than those that were looked at."""
    from dpmcmc.inputs.schema import Table

    design = make_design(schema_of(500), f"ill ~ {formula}")
    x, _ = design.build(Table(columns=rows_of(500, 3), rows=500))
    values = np.linalg.svd(x, compute_uv=False)
    assert values[-1] < 1e-10 * values[0]


def test_columns_that_are_modelled_themselves_may_agree():
    check_dependence(make_design(schema_of(100), "~ age + I(2 * age)"))


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
@pytest.mark.parametrize("epsilon", [1.0, 1e4, 6e7])
def test_columns_that_agree_in_all_rows_keep_the_prior_and_are_told(family, epsilon, seeded):
    """Public facts do not show it: their sum is told, how it is shared between them is not."""
    schema, data = schema_of(20_000), rows_of(20_000, 5)
    data["body mass"] = 30.0 + (data["age"] - 50.0) * 20.0 / 30.0
    rng = np.random.default_rng(6)
    line = (data["age"] - 50.0) / 30.0
    data["wage"] = (
        rng.poisson(np.exp(3.0 + 0.5 * line)).clip(1, 100)
        if family == "poisson"
        else np.clip(50.0 + 10.0 * line + 5.0 * rng.normal(size=20_000), 1, 100)
    )
    data["ill"] = np.where(rng.random(20_000) < 1.0 / (1.0 + np.exp(-line)), "yes", "no")
    words = {"group": "abc", "kind": "xy"}
    for name, letters in words.items():
        data[name] = np.array(list(letters))[data[name]]
    answer = "ill" if family == "logistic" else "wage"
    model = ModelSpec(family=family, formula=f"{answer} ~ age + `body mass`")
    result = sample(
        data,
        schema=schema,
        model=model,
        epsilon=epsilon,
        delta=1e-6,
        random=seeded(8),
        sampler="noisy_quadratic",
    )
    draws = result.draws.reshape(-1, result.draws.shape[2])
    prior = {"linear": 99.0, "logistic": 2.5, "poisson": 2.5}[family]
    assert np.isfinite(draws).all()
    apart, together = draws[:, 1] - draws[:, 2], draws[:, 1] + draws[:, 2]
    assert apart.std() == pytest.approx(np.sqrt(2.0) * prior, rel=0.3)
    truth = {"linear": 10.0, "logistic": 1.0, "poisson": 0.5}[family]
    assert abs(together.mean() - truth) < 5.0 * together.std()
    assert "the prior decides" in result.verdict.sentence
