"""Options of the functions of formulas: every one is read, or refused with what would be right."""

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema

SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=1, upper=50),
        NumberColumn(name="T", lower=1, upper=3),
        CategoryColumn(name="g", categories=("a", "b", "c")),
        BinaryColumn(name="ill", categories=("no", "yes")),
    ),
    rows=100,
)


def names_of(formula):
    return make_design(SCHEMA, f"ill ~ {formula}").parameters[1:]


@pytest.mark.parametrize("word", ["True", "TRUE", "T"])
def test_every_spelling_of_true_asks_for_powers(word):
    assert names_of(f"poly(x, 2, raw={word})") == ("x", "I(x ** 2)")
    assert names_of(f"poly(x, 2, {word})") == ("x", "I(x ** 2)")


@pytest.mark.parametrize("word", ["False", "FALSE", "F"])
def test_every_spelling_of_false_asks_for_orthogonal_polynomials(word):
    assert names_of(f"poly(x, 2, raw={word})") == tuple(
        f"poly(x, 2, raw={word})[{k}]" for k in (1, 2)
    )


@pytest.mark.parametrize("constant", ["None", "NULL"])
def test_knots_and_df_may_be_left_open_by_name(constant):
    plain = make_design(SCHEMA, "ill ~ bs(x, knots=(20, 40))")
    left = make_design(SCHEMA, f"ill ~ bs(x, {constant}, (20, 40), 3)")
    assert (plain.lower, plain.upper) == (left.lower, left.upper)
    assert len(names_of(f"bs(x, df=5, knots={constant})")) == 5


def test_a_list_of_knots_is_read_as_a_tuple_is():
    assert len(names_of("bs(x, knots=[20, 40])")) == len(names_of("bs(x, knots=(20, 40))")) == 5


WRONG = [
    *((f"poly(x, 2, raw={w})", "raw must be True or False") for w in ("1", "0", "yes", "'yes'")),
    *((f"poly(x, 2, raw={w})", "raw must be True or False") for w in ("true", "`T`", "1.0", "t")),
    *((f"poly(x, 2, raw={w})", "raw must be True or False") for w in ("None", "(True,)", "-1")),
    ("poly(x, 2, 1)", "raw must be True or False"),
    ("poly(x, 2, raw=True, raw=False)", "raw is given twice"),
    ("poly(x, 2, degree=3)", "degree is given twice"),
    ("poly(x, degree=2, degree=2)", "degree is given twice"),
    ("poly(x, 2, True, raw=True)", "raw is given twice"),
    ("poly(x, 2, raw=True, simple=True)", "simple is no option"),
    ("poly(x, 2, Raw=True)", "did you mean 'raw'?"),
    ("poly(x, 2, True, 3)", "too many arguments"),
    ("poly(x, 2, **g)", r"\*\* is no option"),
    ("poly(x, *g)", "degree must be a whole number"),
    *(
        (f"poly(x, {w})", "degree must be a whole number from 1 to 10")
        for w in ("'2'", "2.0", "True", "T", "0", "11", "-1", "x", "(2,)", "None", "2j")
    ),
    *(
        (f"poly(x, degree={w}, raw=True)", "degree must be a whole number from 1 to 10")
        for w in ("'2'", "2.0", "TRUE", "0")
    ),
    *((f"cr(x, df={w})", "df must be a whole") for w in ("3.0", "'4'", "1", "51", "T", "1e1")),
    *((f"bs(x, df={w})", "df must be a whole") for w in ("5.0", "'5'", "2", "TRUE", "x")),
    *((f"bs(x, degree={w})", "degree must be a whole") for w in ("2.0", "'2'", "0", "T")),
    *(
        (f"bs(x, knots={w})", "knots must be at most 50 numbers")
        for w in ("'a'", "('20', '40')", "T", "(True, 40)", "c(20, 40)", "20:40", "x", "(x, 40)")
        if ":" not in w
    ),
    ("bs(x, knots=(40, 20))", "knots must increase"),
    ("bs(x, 5, knots=(20, 40))", "takes df or knots"),
    ("bs(x, df=5, knots=(20, 40))", "takes df or knots"),
    ("bs(x, knots=(20,), knots=(30,))", "knots is given twice"),
    ("bs(x, 5, 4)", "takes df or knots"),
    ("bs(x, df=5, intercept=TRUE)", "intercept is no option"),
    ("bs(x, None, (20,), 3, True)", "too many arguments"),
    ("cr(x, 3, 4)", "too many arguments"),
    ("cr(x, df=3, constraints='center')", "constraints is no option"),
    ("C(g, levels=3)", "its reference"),
    ("C(g, ref=b)", "its reference"),
    ("C(g, b)", "its reference"),
    ("C()", "give a column"),
    ("I(x, 2)", "takes one argument and no options"),
    ("I(x, check=True)", "takes one argument and no options"),
    ("log(x, 2)", "log2 and log10"),
    ("log(x, base=10)", "log2 and log10"),
    ("I(log(x, base=10))", "log2 and log10"),
    ("sqrt(x, 1)", "takes one argument"),
    ("abs(x, out=x)", "takes one argument"),
    ("exp()", "takes one argument"),
    ("offset(log(x), 2)", "takes one argument"),
    ("offset(x, scale=2)", "takes one argument"),
    ("I(x**True)", "exponent must be a number"),
    ("I(x**TRUE)", "exponent must be a number"),
    ("I(x + '1')", "only"),
    ("(x + g)**2.0", "a power of terms must be a whole number"),
    ("x**2", "a power of one term is that term itself: write I"),
    ("x^3", "a power of one term is that term itself: write I"),
    ("g + (x)**2", "a power of one term is that term itself: write I"),
    ("(x + g)**T", "a power of terms must be a whole number"),
    ("(x + g)**'2'", "a power of terms must be a whole number"),
]


@pytest.mark.parametrize(("formula", "why"), WRONG)
def test_what_an_option_cannot_be_is_refused_with_what_it_can_be(formula, why):
    with pytest.raises(SpecError, match=why):
        names_of(formula)


def test_options_come_as_they_were_asked_for():
    design = make_design(SCHEMA, "ill ~ bs(x, 6, degree=2)")
    same = make_design(SCHEMA, "ill ~ bs(x, degree=2, df=6)")
    assert len(design.parameters) == 7
    assert np.array_equal(design.lower, same.lower)
    assert np.array_equal(design.upper, same.upper)


@pytest.mark.parametrize(
    ("formula", "same"),
    [
        ("x + T - x", "T"),
        ("x*T - x:T", "x + T"),
        ("x*T - T:x", "x + T"),
        ("x*T - `x`:`T`", "x + T"),
        ("(x + T + g)**2 - x:T - g:x", "x + T + g + T:g"),
        ("x*g - g", "x + x:g"),
        ("x + T - (x + T) + g", "g"),
        ("x + log(x) - log(x)", "x"),
        ("x + poly(x, 2) - poly(x,2)", "x"),
        ("x + offset(T) - offset(T)", "x"),
        ("x - x + 1", "1"),
        ("x - 1", "0 + x"),
        ("x + I(x - T)", "I(x - T) + x"),
        ("x + I(x**-1)", "I(x**-1) + x"),
    ],
)
def test_a_term_that_is_taken_away_is_not_in_the_model(formula, same):
    taken, plain = (make_design(SCHEMA, f"ill ~ {one}") for one in (formula, same))
    assert {frozenset(one.split(":")) for one in taken.parameters} == {
        frozenset(one.split(":")) for one in plain.parameters
    }
    assert len(taken.offsets) == len(plain.offsets)


@pytest.mark.parametrize("formula", ["x - T", "x - offset(T)", "x*g - x:T", "-T", "x - log(T)"])
def test_a_name_that_is_taken_away_from_nothing_is_refused(formula):
    with pytest.raises(SpecError, match="T is taken away, and no term has it"):
        names_of(formula.replace("T", "`T`"))


@pytest.mark.parametrize("formula", ["x:x - T", "x + x - T", "x*x - T", "x - x + x"])
def test_a_term_twice_is_refused_beside_one_that_is_taken_away(formula):
    with pytest.raises(SpecError, match="twice"):
        names_of(f"{formula} + T + g")
