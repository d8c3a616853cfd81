"""Formulas, families and plans as people write them in R, patsy and other software."""

import numpy as np
import pytest

from dpmcmc import (
    BinaryColumn,
    CategoryColumn,
    JobSpec,
    ModelSpec,
    NumberColumn,
    PrivacySpec,
    Schema,
    SpecError,
    plan,
    sample,
)
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Table
from dpmcmc.releases.few_events import groups_of

ROWS = 3000
SCHEMA = Schema(
    columns=(
        NumberColumn(name="y", lower=-10, upper=10),
        NumberColumn(name="x", lower=1, upper=4),
        NumberColumn(name="body mass", lower=10, upper=50),
        CategoryColumn(name="g", categories=("a", "b", "c")),
        BinaryColumn(name="ill", categories=("no", "yes")),
    ),
    rows=ROWS,
)


def rows_of(seed=1):
    rng = np.random.default_rng(seed)
    rows = {
        "x": rng.uniform(1, 4, ROWS),
        "body mass": rng.uniform(10, 50, ROWS),
        "g": rng.choice(["a", "b", "c"], ROWS),
        "ill": rng.choice(["no", "yes"], ROWS),
    }
    shift = np.select([rows["g"] == "b", rows["g"] == "c"], [2.0, -1.0], 0.0)
    rows["y"] = np.clip(1.0 + rows["x"] + shift + rng.normal(0, 1, ROWS), -10, 10)
    return rows


def design_of(formula):
    return make_design(SCHEMA, formula)


SAME = [
    ("y ~ factor(g)", "y ~ g"),
    ("y ~ as.factor(g)", "y ~ g"),
    ("y ~ C(g, Treatment)", "y ~ g"),
    ("y ~ C(g, ref='a')", "y ~ g"),
    ("y ~ C(g, Treatment('b'))", "y ~ C(g, ref='b')"),
    ('y ~ C(g, Treatment(reference="b"))', "y ~ C(g, ref='b')"),
    ("y ~ C(g, Treatment(ref='b'))", "y ~ C(g, ref='b')"),
    ("y ~ relevel(g, ref='b')", "y ~ C(g, ref='b')"),
    ("y ~ relevel(g, 'b')", "y ~ C(g, ref='b')"),
    ("y ~ x:g + C(g, ref='b')", "y ~ x:C(g, ref='b') + C(g, ref='b')"),
    ("y ~ Q('body mass') + x", "y ~ `body mass` + x"),
    ('y ~ Q( "body mass" ):x', "y ~ `body mass`:x"),
    ("y ~ I(x^2)", "y ~ I(x**2)"),
    ("y ~ I(2*x^2)", "y ~ I(2*x**2)"),
    ("y ~ (x + g)^2", "y ~ (x + g)**2"),
    ("y ~ np.log(x)", "y ~ log(x)"),
    ("y ~ numpy.sqrt(x)", "y ~ sqrt(x)"),
    ("y ~ .", "y ~ x + `body mass` + g + ill"),
    ("log(x) ~ .", "log(x) ~ y + `body mass` + g + ill"),
    ("y ~ . - g - ill", "y ~ x + `body mass`"),
    ("y ~ . + x:g", "y ~ x + `body mass` + g + ill + x:g"),
    ("y ~ (.)^2 - x:ill", "y ~ (x + `body mass` + g + ill)**2 - x:ill"),
    ("y ~ splines::ns(x, df=4)", "y ~ ns(x, df=4)"),
    ("y ~ as.numeric(x)", "y ~ I(x)"),
    ("y ~ x + (1 | g) + (0 + x | g)", "y ~ x + (x || g)"),
    ("y ~ x + (x - 1 | g) + (1 | g)", "y ~ x + (x || g)"),
    ("cbind(y, x - y) ~ g", "y | trials(x) ~ g"),
    ("cbind(y, I(x - y)) ~ g", "y | trials(x) ~ g"),
    ("Surv(x, event=ill) ~ g", "surv(x, ill) ~ g"),
    ("survival::Surv(time=x, event=ill) ~ g", "surv(x, ill) ~ g"),
]


@pytest.mark.parametrize(("theirs", "ours"), SAME)
def test_a_formula_of_other_software_is_the_one_here(theirs, ours):
    first, second = design_of(theirs), design_of(ours)
    assert first.parameters == second.parameters
    assert (first.lower, first.upper, first.group) == (second.lower, second.upper, second.group)
    codes = {"a": 0, "b": 1, "c": 2, "no": 0, "yes": 1}
    rows = rows_of()
    coded = {k: np.array([codes[w] for w in v], np.int32) for k, v in rows.items() if k in "gill"}
    table = Table(columns={**rows, **coded}, rows=ROWS)
    for one, other in zip(first.build(table), second.build(table), strict=True):
        np.testing.assert_array_equal(one, other)


def test_natural_splines_have_the_span_of_cr():
    theirs, ours = design_of("y ~ ns(x, df=4)"), design_of("y ~ cr(x, df=4)")
    assert theirs.parameters[1:] == tuple(f"ns(x, df=4)[{k}]" for k in (1, 2, 3, 4))
    assert (theirs.lower, theirs.upper) == (ours.lower, ours.upper)


@pytest.mark.parametrize(
    ("formula", "remedy"),
    [
        ("y ~ C(g, ref='d')", "'d' is no category of 'g'"),
        ("y ~ C(g, Sum)", "there are no other contrasts"),
        ("y ~ C(g, levels=['b', 'a'])", "its reference"),
        ("y ~ C(g, Treatment('a', 'b'))", "its reference"),
        ("y ~ C(g, 'a', 'b')", "its reference"),
        ("y ~ C(g, ref=True)", "its reference"),
        ("y ~ C(g, ref='b') + x:C(g, ref='c')", "'g' has two references"),
        ("y ~ C(x, ref='b')", "'x' is a number"),
        ("y ~ scale(x)", "write x; numbers are standardised by their declared bounds"),
        ("y ~ lag(x)", "compute it before the upload"),
        ("y ~ te(x, z)", "write s(x) + s(z)"),
        ("y ~ gp(x)", "write s(x)"),
        ("y ~ pow(x, 2)", "write I(x^2)"),
        ("y ~ cs(x)", "write cr(x, df=4)"),
        ("y ~ mo(g)", "write C(g)"),
        ("y ~ ns(x)", "ns(x, df=4)"),
        ("y ~ (x | g)", "write x + (x | g)"),
        ("y | cens(ill) ~ x", "write surv(time, event)"),
        ("y | weights(x) ~ x", "weights are named beside a formula"),
        ("y ~ surv(x, ill)", "surv(time, event) ~ x"),
        ("y ~ x %in% g", "a:b"),
        ("y ~ I(x > 2)", "declare a column of categories"),
        ("y ~ data$x", "without the name of a table"),
        ("y ~ X", "did you mean 'x'?"),
        ("y ~", "write y ~ 1"),
        ("y ~ 0", "write y ~ 1"),
        ("y + x ~ g", "write I(...) for arithmetic"),
        ("y / x ~ g", "cases | trials(n)"),
        ("bf(y ~ x)", "write the formula alone"),
        ("y ~ x, sigma ~ x", "one formula"),
        ("y ~ x + (1 | ID | g)", "write (1 | g)"),
        ("y ~ x | g", "both parts of a model have the same columns"),
        ("y ~ x + (g | ill)", "write g + (1 | ill:g)"),
        ("y ~ x + (1 | g) + (1 | ill)", "write C(h)"),
        ("y ~ s(g, bs='re')", "(1 | g) an effect of groups"),
        ("y ~ re(g)", "write (1 | g)"),
        ("y ~ Error(g)", "write (1 | g)"),
        ("y ~ cluster(g)", "privacy_unit"),
        ("y ~ strata(g)", "write g"),
        ("y ~ interaction(g, ill)", "write g:h"),
        ("y ~ mi(x)", "missing codes"),
        ("y ~ me(x, 0.1)", "measured with error"),
        ("y | se(x) ~ g", "weights"),
        ("y | rate(x) ~ g", "offset(log(x))"),
        ("y ~ exposure(x)", "offset(log(x))"),
        ("mvbind(y, x) ~ g", "one response"),
        ("y ~ rcs(x, 4)", "write cr(x, df=4)"),
        ("y ~ pspline(x)", "write s(x)"),
        ("y ~ lo(x)", "write s(x)"),
        ("y ~ pmax(x, 0)", "bs(x, knots=(...), degree=1)"),
        ("y ~ as.integer(x)", "compute it before the upload"),
        ("mo(y) ~ x", "write y on the left side, family ordinal"),
        ("ordered(g) ~ x", "write g"),
        ("Surv(x, ill == 'yes') ~ g", "write surv(time, event)"),
        ("C(y) ~ x", "write y"),
        ("y ~ Q('mass')", "no column 'mass'"),
        (". ~ x", "cannot be parsed"),
    ],
)
def test_what_is_not_available_is_refused_with_what_to_write(formula, remedy):
    with pytest.raises(SpecError) as refused:
        design_of(formula)
    assert remedy in str(refused.value)


def test_a_dot_stands_for_more_columns_than_a_formula_has_room_for():
    names = [f"{'long' * 6}{k}" for k in range(150)]
    columns = [NumberColumn(name=name, lower=0, upper=1) for name in ("y", *names)]
    design = make_design(Schema(columns=tuple(columns), rows=100), "y ~ .")
    assert design.parameters == ("Intercept", *names)


def test_a_dot_needs_another_column():
    alone = Schema(columns=(NumberColumn(name="y", lower=0, upper=1),), rows=100)
    with pytest.raises(SpecError, match="there is none"):
        make_design(alone, "y ~ .")


@pytest.mark.parametrize("formula", ["y ~ x + {}", "y ~ x*{}", "y ~ 0 + x + {}", "y ~ x:{} + {}"])
def test_another_reference_moves_no_prediction_and_no_group(formula):
    """Without noise worth a word; groups are those that few events are looked for in."""
    fits = [
        sample(formula.replace("{}", g), rows_of(), SCHEMA, epsilon=1e6, random=None)
        for g in ("g", "C(g, ref='c')")
    ]
    settings = [{"x": 2.0, "g": level} for level in "abc"]
    first, second = ([row.expected.mean for row in fit.predict(settings)] for fit in fits)
    np.testing.assert_allclose(first, second, atol=0.02)
    names = [{group.name for group in groups_of(fit.design)} for fit in fits]
    assert names[0] == names[1]
    effects = fits[1].release.posterior().effects("g", [{"x": 2.0}])
    assert [effect.against for effect in effects] == ["c", "c"]


FAMILIES = [
    ("gaussian", "linear"),
    ("Normal", "linear"),
    ("binomial", "logistic"),
    ("bernoulli", "logistic"),
    ("Poisson", "poisson"),
    ("Gamma", "gamma"),
    ("student", "student_t"),
    ("StudentT", "student_t"),
    ("negbinomial", "negative_binomial"),
    ("NegativeBinomial", "negative_binomial"),
    ("categorical", "multinomial"),
    ("gaussian_mean", "gaussian_mean"),
    ("beta", "beta"),
    ("OLS", "linear"),
    ("lm", "linear"),
    ("Gamma(link='log')", "gamma"),
    ('Gamma(link = "log")', "gamma"),
    ("binomial(logit)", "logistic"),
    ("poisson()", "poisson"),
    ("glm.nb", "negative_binomial"),
]


@pytest.mark.parametrize(("theirs", "ours"), FAMILIES)
def test_families_have_the_names_of_other_software(theirs, ours):
    assert ModelSpec(family=theirs, formula="y ~ x").family == ours


@pytest.mark.parametrize(
    ("theirs", "remedy"),
    [
        ("lognormal", "log(y) ~"),
        ("coxph", "exponential or weibull"),
        ("quasipoisson", "negative_binomial"),
        ("quasibinomial", "binomial"),
        ("probit", "logistic"),
        ("binomial(link='probit')", "logit"),
        ("Gamma(link='inverse')", "log"),
        ("zero_inflated_negbinomial", "hurdle_poisson"),
        ("hurdle_negbinomial", "hurdle_poisson"),
        ("zero_inflated_beta", "beta"),
        ("beta_binomial", "binomial"),
        ("tweedie", "gamma"),
        ("inverse.gaussian", "gamma"),
        ("skew_normal", "student_t"),
        ("sratio", "ordinal"),
    ],
)
def test_families_that_are_none_here_are_refused_with_what_to_write(theirs, remedy):
    with pytest.raises(SpecError) as refused:
        ModelSpec(family=theirs, formula="y ~ x")
    assert refused.value.pointer == "/model/family"
    assert remedy in str(refused.value)


def test_a_plan_is_one_line():
    job = JobSpec(
        model=ModelSpec(family="linear", formula="y ~ x"),
        privacy=PrivacySpec(epsilon=1, delta=1e-6),
    )
    assert plan("y ~ x", SCHEMA, epsilon=1, delta=1e-6) == plan(SCHEMA, job)
    assert plan("ill ~ x", SCHEMA, epsilon=1).spec.model.family == "logistic"
    fit = sample("y ~ x", rows_of(), SCHEMA, epsilon=2, accept_low_quality=True)
    assert fit.plan == plan("y ~ x", SCHEMA, epsilon=2)


@pytest.mark.parametrize(
    ("arguments", "options", "place"),
    [
        ((), {}, "/schema"),
        (("y ~ x",), {"epsilon": 1}, "/schema"),
        ((SCHEMA, "y ~ x"), {"epsilon": 1}, "/schema"),
        ((SCHEMA,), {"epsilon": 1}, "/schema"),
        (("y ~ x", SCHEMA), {}, "/privacy"),
        ((None, SCHEMA), {"epsilon": 1}, "/model/formula"),
        ((3, SCHEMA), {"epsilon": 1}, "/model/formula"),
        (("y ~ x", SCHEMA), {"epsilon": 1, "family": 3}, "/model/family"),
        (("y ~ x", SCHEMA), {"epsilon": 1, "model": 3}, "/model"),
        (("y ~ x", SCHEMA), {"epsilon": 1, "sampler": "dp_nothing"}, "/sampler"),
        (("y ~ x", SCHEMA), {"epsilon": 1, "whitening": "earlier"}, "/sampler/whitening"),
        (("y ~ x", SCHEMA), {"epsilon": 1, "max_rows": 2}, "/max_rows"),
    ],
)
def test_a_wrong_plan_is_refused_at_its_place(arguments, options, place):
    with pytest.raises((SpecError, ValueError)) as refused:
        plan(*arguments, **options)
    if isinstance(refused.value, SpecError):
        assert refused.value.pointer == place
    else:
        assert "max_rows" in str(refused.value)


def test_a_job_says_all_of_a_plan():
    job = JobSpec(
        model=ModelSpec(family="linear", formula="y ~ x"),
        privacy=PrivacySpec(epsilon=1, delta=1e-6),
    )
    with pytest.raises(SpecError, match="says all of a job"):
        plan(SCHEMA, job, epsilon=2)
