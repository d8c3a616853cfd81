"""Names of parameters: whatever columns are called, no two things of a result share a name."""

import numpy as np
import pytest

import dpmcmc
from dpmcmc import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.base.names import RESERVED, distinct
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.posterior.datatree import columns
from dpmcmc.posterior.free.priors import CoefficientPrior
from dpmcmc.posterior.units import matrix
from tests.sources import Seeded

ROWS = 3000
SPENT = {"epsilon": 1e3, "delta": 1e-6}
AWKWARD = ["log_sigma", "sigma", "chain", "draw", "warmup", "Intercept", "a[b]", "accepted", "."]


def table_of(first, second):
    rng = np.random.default_rng(3)
    x, z = rng.uniform(-2, 6, ROWS), rng.uniform(0, 1, ROWS)
    y = 1.0 + 0.5 * x + 2.0 * z + rng.standard_normal(ROWS)
    schema = Schema(
        columns=(
            NumberColumn(name=first, lower=-2, upper=6),
            NumberColumn(name=second, lower=0, upper=1),
            NumberColumn(name="y", lower=-10, upper=20),
        ),
        rows=ROWS,
    )
    return {first: x, second: z, "y": y}, schema


def fitted(first, second, formula, **prior):
    data, schema = table_of(first, second)
    model = ModelSpec(family="linear", formula=formula, **prior)
    return dpmcmc.sample(data, schema=schema, model=model, random=Seeded(5), **SPENT)


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("intercept", ["1", "0"])
def test_a_columns_name_changes_no_number_and_every_parameter_has_its_own(name, intercept):
    """Intercepts and log_sigma were found by their names, and a column may be called so."""
    plain = fitted("x", "z", f"y ~ {intercept} + x + z + x:z")
    same = fitted(name, "z", f"y ~ {intercept} + `{name}` + z + `{name}`:z")
    names = same.plan.parameters
    assert len(set(names)) == len(names)
    assert not set(names) & {"chain", "draw", "warmup"}
    assert names.count("log_sigma") == 1
    for scale in ("original", "design"):
        np.testing.assert_array_equal(plain.on(scale), same.on(scale))
    called = {"x": names[1 if intercept == "1" else 0]}
    assert called["x"] == (f"{name}_" if name in RESERVED else name)
    for old, new in zip(plain.plan.parameters, names, strict=True):
        assert plain.summary()[old].mean == same.summary()[new].mean
    tree = same.to_datatree()["posterior"]
    assert len(tree.data_vars) == len(names)
    assert dict(tree.sizes) == {"chain": same.draws.shape[0], "draw": same.draws.shape[1]}
    for k, file_name in enumerate(columns(names)):
        np.testing.assert_array_equal(tree[file_name].values, same.on()[:, :, k])


@pytest.mark.parametrize("name", ["log_sigma", "Intercept", "draw"])
def test_priors_questions_and_answers_go_by_the_one_name(name):
    prior = {"x": NormalPrior(scale=3.0)}
    plain = fitted("x", "z", "y ~ x + z", prior=prior)
    same = fitted(name, "z", f"y ~ {name} + z", prior={f"{name}_": prior["x"]})
    np.testing.assert_array_equal(plain.draws, same.draws)
    assert any(f"'{name}_'" in warning for warning in same.plan.warnings)
    asked = CoefficientPrior(kind="laplace", scale=1.0)
    one, other = (
        fit.release.posterior({word: asked}, 500, random=Seeded(2))
        for fit, word in ((plain, "x"), (same, f"{name}_"))
    )
    np.testing.assert_array_equal(one.draws, other.draws)
    assert one.contrast({"x": 1, "z": -1}) == other.contrast({f"{name}_": 1, "z": -1})
    settings = [{"x": 1.0, "z": 0.5}], [{name: 1.0, "z": 0.5}]
    assert one.predict(settings[0], random=Seeded(1)) == other.predict(
        settings[1], random=Seeded(1)
    )
    assert list(same.release.posterior(num_draws=10).summary()) == list(same.plan.parameters)
    if name == "draw":
        with pytest.raises(dpmcmc.SpecError, match="did you mean 'draw_'"):
            fitted(name, "z", f"y ~ {name} + z", prior={name: prior["x"]})


def test_levels_interactions_and_columns_that_would_share_a_name_do_not():
    schema = Schema(
        columns=(
            CategoryColumn(name="a", categories=("0", "b", "c")),
            NumberColumn(name="a[b]", lower=0, upper=1),
            NumberColumn(name="b", lower=0, upper=1),
            NumberColumn(name="b:x", lower=0, upper=1),
            NumberColumn(name="x", lower=0, upper=1),
            NumberColumn(name="poly(x, 2)[1]", lower=0, upper=1),
            NumberColumn(name="x_", lower=0, upper=1),
            BinaryColumn(name="y", categories=("n", "p")),
        ),
        rows=50,
    )
    for formula, names in (
        ("a + `a[b]`", ("a[b]", "a[c]", "a[b]_")),
        ("`a[b]` + a", ("a[b]", "a[b]_", "a[c]")),
        ("b:x + `b:x`", ("b:x", "b:x_")),
        ("poly(x, 2) + `poly(x, 2)[1]`", ("poly(x, 2)[1]", "poly(x, 2)[2]", "poly(x, 2)[1]_")),
        ("x + x_", ("x", "x_")),
    ):
        design = make_design(schema, f"y ~ {formula}")
        assert sorted(design.parameters[1:]) == sorted(names)
    renamed = plan(
        schema,
        JobSpec(
            model=ModelSpec(family="logistic", formula="y ~ a + `a[b]`"),
            privacy=PrivacySpec(epsilon=1.0, delta=1e-6),
        ),
    )
    assert any("'a[b]_'" in warning for warning in renamed.warnings)


def test_categories_of_a_response_make_names_that_differ():
    schema = Schema(
        columns=(
            CategoryColumn(name="g", categories=("0", "a", "a:b")),
            NumberColumn(name="b:c", lower=0, upper=4),
            NumberColumn(name="c", lower=0, upper=9),
        ),
        rows=50,
    )
    asked = JobSpec(
        model=ModelSpec(family="multinomial", formula="g ~ `b:c` + c"),
        privacy=PrivacySpec(epsilon=1.0, delta=1e-6),
    )
    names = plan(schema, asked).parameters
    assert len(set(names)) == len(names) == 6
    design = make_design(schema, "g ~ `b:c` + c")
    blocks = matrix(design, names)
    own = np.zeros((3, 3))
    for k, j, weight in design.mixing:
        own[k, j] = weight
    np.testing.assert_array_equal(blocks, np.kron(np.eye(2), own))


def test_names_in_files_differ_and_hold_nothing_that_files_read_as_something_else():
    names = ["a/b", "a|b", "a|b_", ".", "..", "._", "a\0b", "chain"]
    found = columns(names)
    assert len({*found, "chain", "draw", "warmup"}) == len(names) + 3
    assert not any("/" in name or "\0" in name or name in (".", "..") for name in found)
    assert distinct(["a", "a", "a_", "a"]) == ("a", "a__", "a_", "a___")
