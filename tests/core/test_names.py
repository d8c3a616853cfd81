"""Names of columns in formulas: whatever their letters are, the column that is named is read."""

import unicodedata

import numpy as np
import pytest

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema, Table

CHANGED = {  # names that NFKC changes, and what they become
    "\u00b5g": "\u03bcg",  # micro sign, Greek mu
    "\u212b": "\u00c5",  # angstrom sign, A with a ring
    "\uff58": "x",  # full-width x
    "\uff41\uff42\uff43": "abc",
    "gro\u0308\u00dfe": "gr\u00f6\u00dfe",  # an o and its marks, one letter
    "\uff76\uff9e\uff72": "\u30ac\u30a4",  # half-width kana
    "x\u00b2": "x2",
    "\ufb01t": "fit",
    "\u2167": "VIII",
}
PLACES = [
    "{}",
    "log({})",
    "I({}**2)",
    "I({} + 1)",
    "poly({}, 2)",
    "poly({}, 2, raw=T)",
    "bs({}, 4)",
    "cr({}, df=3)",
    "exp(abs({}) / 9)",
    "log(`{}`)",
    "`{}`",
    "I(log(`{}`))",
]


def schema_of(names):
    numbers = [NumberColumn(name=name, lower=1 + k, upper=9 + k) for k, name in enumerate(names)]
    return Schema(columns=(*numbers, BinaryColumn(name="ill", categories=("n", "y"))), rows=3)


@pytest.mark.parametrize("name", CHANGED, ids=ascii)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("both", [False, True])
def test_a_name_that_parsers_change_is_the_column_that_is_read(name, place, both):
    assert unicodedata.normalize("NFKC", name) == CHANGED[name]
    names = [CHANGED[name], name] if both else [name]
    design = make_design(schema_of(names), f"ill ~ {place.format(name)}")
    assert design.covariates == (name,)
    columns = {one: np.array([2.0 + k, 4.0, 7.0]) for k, one in enumerate(names)}
    columns["ill"] = np.zeros(3, np.int32)
    read = design.build(Table(columns=columns, rows=3))[0]
    plain = make_design(
        schema_of(["other", "plain"] if both else ["plain"]), f"ill ~ {place.format('plain')}"
    )
    columns["plain"] = columns[name]
    assert np.array_equal(read, plain.build(Table(columns=columns, rows=3))[0])


@pytest.mark.parametrize("name", CHANGED, ids=ascii)
def test_the_changed_name_alone_is_no_column(name):
    for place in ("{}", "log({})", "poly({}, 2)", "I({} * 2)"):
        with pytest.raises(SpecError, match="looks alike and has other characters"):
            make_design(schema_of([CHANGED[name]]), f"ill ~ {place.format(name)}")
        with pytest.raises(SpecError, match="looks alike and has other characters"):
            make_design(schema_of([name]), f"ill ~ {place.format(CHANGED[name])}")


def test_two_names_that_look_alike_are_two_columns_of_one_formula():
    names = list(CHANGED)[:2] + list(CHANGED.values())[:2]
    for place in ("{}", "log({})", "poly({}, 2)", "I({}**2)"):
        formula = " + ".join(place.format(name) for name in names)
        design = make_design(schema_of(names), f"ill ~ {formula}")
        assert design.covariates == tuple(names)
        assert len(set(design.parameters)) == len(design.parameters)


WORDS = [
    "class",
    "lambda",
    "None",
    "True",
    "T",
    "if",
    "_name0_",
    "log",
    "I",
    "a.b",
    "x.1",
    "_quoted_0",
]


@pytest.mark.parametrize("name", WORDS)
def test_words_of_python_are_names_as_any_other(name):
    names = ["a b", name]
    for place in ("I({} * `a b`)", "I(`a b` * {})", "I(`a b` * `{}`)"):
        design = make_design(schema_of(names), f"ill ~ {place.format(name)}")
        assert set(design.covariates) == {"a b", name}
    assert make_design(schema_of(names), f"ill ~ log({name})").covariates == (name,)


@pytest.mark.parametrize("name", ["0", "1", "~", "a + b", "-1", "1e3", "''", "log(x)"])
def test_a_quoted_name_is_no_sign_and_no_number(name):
    schema = schema_of(["x", name])
    assert make_design(schema, f"ill ~ `{name}`").parameters == ("Intercept", name)
    assert make_design(schema, f"ill ~ x + log(`{name}`)").covariates == ("x", name)


def test_functions_and_options_are_no_other_word_than_theirs():
    schema = schema_of(["x"])
    for formula in ("\uff4c\uff4f\uff47(x)", "poly(x, 2, \uff52\uff41\uff57=True)"):
        with pytest.raises(SpecError, match=r"is not known|is no option"):
            make_design(schema, f"ill ~ {formula}")


def test_categories_and_responses_have_such_names_as_well():
    schema = Schema(
        columns=(
            CategoryColumn(name="\uff47", categories=("a", "b", "c")),
            NumberColumn(name="\u00b5g", lower=1, upper=9),
            NumberColumn(name="\u03bcg", lower=2, upper=5),
        ),
        rows=3,
    )
    design = make_design(schema, "log(\u00b5g) ~ C(\uff47) + offset(\u03bcg)")
    assert design.response == "log(\u00b5g)"
    assert design.read == ("\uff47", "\u03bcg", "\u00b5g")
