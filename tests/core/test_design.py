import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import NumberColumn, Schema, Table


def table(schema, **columns):
    named = {key.replace("_", " "): np.asarray(value) for key, value in columns.items()}
    return Table(columns=named, rows=schema.rows)


def test_a_formula_becomes_named_bounded_columns(schema_of):
    design = make_design(schema_of(5), "ill ~ age + C(group) + age:group")
    assert design.response == "ill"
    assert design.parameters == (
        "Intercept",
        "age",
        "group[b]",
        "group[c]",
        "age:group[b]",
        "age:group[c]",
    )
    assert design.lower == (1, -1, 0, 0, -1, -1)
    assert design.upper == (1,) * 6
    assert design.group == (0, 1, 2, 2, 3, 3)


def test_exclusive_categories_count_once_in_the_norm(schema_of):
    assert make_design(schema_of(5), "ill ~ age + group").max_norm == pytest.approx(3**0.5)


def test_numbers_are_standardised_by_declared_bounds(schema_of):
    schema = schema_of(3)
    design = make_design(schema, "ill ~ age + `body mass` + group")
    x, y = design.build(
        table(schema, age=[20.0, 50, 80], body_mass=[10.0, 50, 20], group=[0, 1, 2], ill=[0, 1, 1])
    )
    assert x.tolist() == [[1, 1, 1], [-1, 0, 1], [-1, 1, -0.5], [0, 1, 0], [0, 0, 1]]
    assert y.tolist() == [0, 1, 1]


def test_no_table_can_leave_the_bounds(schema_of):
    schema = schema_of(4)
    design = make_design(schema, "ill ~ age*group + `body mass`")
    ages = np.array([np.nan, np.inf, -np.inf, 1e300])
    x, y = design.build(
        table(schema, age=ages, body_mass=ages, group=[0, 1, 2, 99], ill=[-5, 7, 0, 1])
    )
    assert np.isfinite(x).all()
    assert (x >= np.array(design.lower)[:, None]).all()
    assert (x <= 1).all()
    assert set(y) <= {0.0, 1.0}


def test_extreme_bounds_stay_finite():
    schema = Schema(
        columns=(
            NumberColumn(name="x", lower=-1.7e308, upper=1.7e308),
            NumberColumn(name="y", lower=0, upper=1),
        ),
        rows=2,
    )
    x, _ = make_design(schema, "y ~ x").build(table(schema, x=[-1.7e308, 0.0], y=[0.0, 1.0]))
    assert x[1].tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("formula", "parameters"),
    [
        ("ill ~ 1", ("Intercept",)),
        ("ill~age-1", ("age",)),
        ("ill ~ 0 + age", ("age",)),
        ("ill ~ C( group )", ("Intercept", "group[b]", "group[c]")),
        ("ill ~ age*`body mass`", ("Intercept", "age", "body mass", "age:body mass")),
    ],
)
def test_supported_formulas(schema_of, formula, parameters):
    assert make_design(schema_of(5), formula).parameters == parameters


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "ill",
        "ill ~ 0",
        "ill ~ nobody",
        "nobody ~ age",
        "ill ~ ill",
        "ill ~ age + ill:age",
        "ill ~ group + C(group)",
        "ill ~ group:C(group)",
        "ill ~ C(age)",
        "ill ~ C(age, group)",
        "ill + age ~ group",
        "ill:age ~ group",
        "C(age) ~ group",
        "1 ~ age",
        "ill ~ age ~ group",
        "ill ~ 3*age",
        "ill ~ age +",
        "ill ~ (age + group)**9",
        "ill ~ age^9",
        "ill ~ age | group",
        "ill ~ np.sin(age)",
        "ill ~ {age}",
        "ill ~ 'age'",
        "ill ~ `__import__('os').getcwd()`",
        "ill ~ C(`__import__('os').getcwd()`)",
        "ill ~ __import__('os')",
        "ill ~ a*b*c*d*e*f*g*h",
        "ill ~ " + "age + " * 1000 + "age",
    ],
)
def test_what_is_not_a_sum_of_products_of_columns_is_refused(schema_of, formula):
    with pytest.raises(SpecError) as caught:
        make_design(schema_of(5), formula)
    assert caught.value.pointer == "/model/formula"
    assert "Traceback" not in caught.value.message


def test_too_many_parameters_are_refused_before_they_are_made(schema_of):
    from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn

    wide = tuple(
        CategoryColumn(name=f"c{k}", categories=tuple(str(i) for i in range(1000)))
        for k in range(5)
    )
    schema = Schema(columns=(BinaryColumn(name="y", categories=("n", "p")), *wide), rows=9)
    with pytest.raises(SpecError, match="parameters"):
        make_design(schema, "y ~ c0:c1:c2:c3:c4")
