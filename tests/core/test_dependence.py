"""Columns that no data can tell apart are refused, by public facts; no others are."""

import numpy as np
import pytest

from dpmcmc import ModelSpec, plan
from dpmcmc.dependence import check_dependence
from dpmcmc.design import make_design
from dpmcmc.errors import SpecError
from dpmcmc.spec import JobSpec, PrivacySpec
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
    from dpmcmc.schema import Table

    design = make_design(schema_of(500), f"ill ~ {formula}")
    x, _ = design.build(Table(columns=rows_of(500, 3), rows=500))
    values = np.linalg.svd(x, compute_uv=False)
    assert values[-1] < 1e-10 * values[0]


def test_columns_that_are_modelled_themselves_may_agree():
    check_dependence(make_design(schema_of(100), "~ age + I(2 * age)"))
