"""Offsets and weights: those of a fit without privacy, and nothing that a row may add grows."""

import numpy as np
import pytest

from dpmcmc import CategoryColumn, ModelSpec, NumberColumn, Schema, plan, sample
from dpmcmc.base.errors import SpecError
from dpmcmc.families.scores.base import Evaluation
from dpmcmc.families.scores.given import Given
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import BinaryColumn
from dpmcmc.inputs.spec import JobSpec, PrivacySpec
from tests.cases import FAMILIES, WEIGHTED

ROWS = 8000
ROBUST = NoisyQuadraticOptions(estimand="robust")


def schema_of():
    return Schema(
        columns=(
            NumberColumn(name="age", lower=20, upper=80),
            CategoryColumn(name="group", categories=("a", "b")),
            NumberColumn(name="years", lower=1, upper=500),
            NumberColumn(name="base", lower=-500, upper=500),
            NumberColumn(name="copies", lower=0, upper=3),
            NumberColumn(name="exact", lower=0.1, upper=5),
            NumberColumn(name="far", lower=0, upper=5000),
            NumberColumn(name="visits", lower=0, upper=2000),
            NumberColumn(name="wage", lower=-1000, upper=3000),
            BinaryColumn(name="ill", categories=("no", "yes")),
        ),
        rows=ROWS,
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    age, group = rng.uniform(20, 80, ROWS), rng.choice(["a", "b"], ROWS)
    years, base = np.exp(rng.uniform(0, 6, ROWS)), rng.uniform(-500, 500, ROWS)
    exact = rng.uniform(0.2, 4, ROWS)
    eta = -3 + 0.03 * (age - 50) + 0.4 * (group == "b")
    odds = np.exp(eta + 3 + base / 500)
    return {
        "age": age,
        "group": group,
        "years": years,
        "base": base,
        "copies": rng.integers(0, 3, ROWS).astype(float),
        "exact": exact,
        "far": np.ones(ROWS),
        "visits": rng.poisson(np.exp(eta) * years).clip(0, 2000),
        "wage": 1000 + 8 * (age - 50) + base + rng.normal(0, 100, ROWS) / np.sqrt(exact),
        "ill": np.where(rng.random(ROWS) < odds / (1 + odds), "yes", "no"),
    }


def columns_of(data):
    return np.stack([np.ones(ROWS), data["age"] / 50, (data["group"] == "b") * 1.0])


def likeliest(x, y, offset, weights, family):
    """Newton's method without privacy."""
    theta = np.zeros(len(x))
    for _ in range(60):
        eta = theta @ x + offset
        if family == "linear":
            mean, slope = eta, np.ones(ROWS)
        else:
            mean = np.exp(eta) if family == "poisson" else 1 / (1 + np.exp(-eta))
            slope = mean if family == "poisson" else mean * (1 - mean)
        information = (weights * slope * x) @ x.T
        step = np.linalg.solve(information, x @ (weights * (y - mean)))
        theta = theta + step * (1.0 if family == "linear" else min(1, 2 / np.abs(step @ x).max()))
    left = weights * (y - theta @ x - offset) ** 2
    scale = left.sum() / (ROWS - len(x)) if family == "linear" else 1.0
    return theta, np.sqrt(scale * np.diag(np.linalg.inv(information))), np.sqrt(scale)


CASES = [
    ("poisson", "visits ~ age + group + offset(log(years))", None),
    ("poisson", "visits ~ age + group + offset(log(years))", "copies"),
    ("logistic", "ill ~ age + group + offset(base / 500)", "copies"),
    ("linear", "wage ~ age + group + offset(base)", "exact"),
    ("linear", "wage ~ age + group + offset(base)", None),
]


@pytest.mark.parametrize("estimand", ["robust", "model"])
@pytest.mark.parametrize(("family", "formula", "weights"), CASES)
def test_offsets_and_weights_are_those_of_a_fit_without_privacy(
    family, formula, weights, estimand, data, seeded
):
    """Of either answer: a weight of counts and of log odds is a number of equal, independent rows.

    So intervals of the model's own answer, whose variance is that of scores, are as wide.
    """
    model = ModelSpec(family=family, formula=formula, weights=weights)
    told = {"sampler": NoisyQuadraticOptions(estimand=estimand), "random": seeded(5)}
    result = sample(data, schema=schema_of(), model=model, epsilon=1e6, delta=1e-6, **told)
    assert result.plan.spec.sampler.algorithm == "noisy_quadratic"
    y = (data["ill"] == "yes") * 1.0 if family == "logistic" else data[formula.split()[0]]
    offsets = {"poisson": np.log(data["years"]), "logistic": data["base"] / 500}
    every = np.ones(ROWS) if weights is None else data[weights]
    given = offsets.get(family, data["base"]), every, family
    theta, sds, sigma = likeliest(columns_of(data), y, *given)
    for one, mean, sd, unit in zip(result.summary(), theta, sds, (1, 50, 1), strict=False):
        assert one.mean == pytest.approx(mean / unit, abs=0.6 * sd / unit)
        assert one.sd == pytest.approx(sd / unit, rel=0.15)
    if family == "linear":
        assert result.summary()[-1].mean == pytest.approx(np.log(sigma), abs=0.05)


def test_a_prediction_adds_the_offset(data, seeded):
    model = ModelSpec(family="poisson", formula=CASES[0][1])
    result = sample(
        data, schema=schema_of(), model=model, epsilon=1e6, delta=1e-6, random=seeded(6)
    )
    setting = {"age": 50, "group": "a", "years": 1}
    found = result.release.posterior(random=seeded(7))
    one, ten = found.predict([setting, {**setting, "years": 10}], random=seeded(8))
    assert one.expected.mean == pytest.approx(np.exp(-3), rel=0.1)
    assert ten.expected.mean == pytest.approx(10 * one.expected.mean, rel=1e-9)
    with pytest.raises(SpecError, match="missing"):
        found.predict([{"age": 50, "group": "a"}])


@pytest.mark.parametrize("name", WEIGHTED)
def test_no_weight_makes_a_row_say_more_than_any_row_may(name):
    rng = np.random.default_rng(3)
    family, m, most, curved = Given(FAMILIES[name], 0.0), 4000, 1.5, 4.0
    answers = rng.integers(0, 2, m) if name == "logistic" else rng.poisson(3, m) ** 2
    weight, reach = 10 ** rng.uniform(-3, 2, m), rng.uniform(0.01, 5, m)
    y = np.stack((answers, rng.normal(0, 1, m), weight), axis=1)
    predictors = 1 + family.log_scale
    inner = np.eye(predictors)[:, :, None] * reach**2
    place = Evaluation(
        rng.normal(0, 2, (predictors, m)), reach, np.zeros(m), most, curved, 1.3, 3.0, inner=inner
    )
    told = family.terms(y, place)
    lengths = np.sqrt((told.psi**2).sum(axis=0)) * reach
    assert lengths.max() <= most * (1 + 1e-9)
    assert ((told.root**2).sum(axis=(0, 1)) * reach**2).max() <= curved * (1 + 1e-9)
    assert lengths.max() > 0.9 * most


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"weights": "nobody"}, "/model/weights"),
        ({"weights": "group"}, "/model/weights"),
        ({"weights": "base"}, "/model/weights"),
        ({"weights": "far"}, "/model/weights"),
        ({"weights": "age"}, "/model/weights"),
        ({"weights": "copies"}, "/model/weights"),
        ({"formula": "wage ~ age + offset(log(base))"}, "/model/formula"),
        ({"formula": "wage ~ offset(wage)"}, "/model/formula"),
        ({"family": "gaussian_mean", "formula": "~ wage", "weights": "exact"}, "/model"),
        ({"family": "gaussian_mean", "formula": "~ wage + offset(base)"}, "/model/formula"),
    ],
)
def test_what_cannot_be_an_offset_or_a_weight_is_refused(change, pointer):
    asked = {"family": "linear", "formula": "wage ~ age", **change}
    spec = JobSpec(model=ModelSpec(**asked), privacy=PrivacySpec(epsilon=1.0, delta=1e-6))
    with pytest.raises(SpecError) as caught:
        plan(schema_of(), spec)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("given", [{"weights": "exact"}, {}])
def test_chains_that_would_not_read_them_are_refused(given):
    from dpmcmc.inputs.options import DpPenaltyOptions

    formula = "wage ~ age" if given else "wage ~ age + offset(base)"
    model = ModelSpec(family="linear", formula=formula, **given)
    spec = JobSpec(
        model=model,
        sampler=DpPenaltyOptions(),
        privacy=PrivacySpec(epsilon=1.0, delta=1e-6),
    )
    with pytest.raises(SpecError) as caught:
        plan(schema_of(), spec)
    assert caught.value.pointer == "/sampler/algorithm"


def test_offsets_add_up_and_are_held_to_their_bounds():
    from dpmcmc.inputs.schema import Table

    design = make_design(schema_of(), "wage ~ age + offset(base) + offset(log(years))")
    assert design.middle_offset == pytest.approx(0.5 * np.log(500))
    columns = {"base": np.array([10.0, np.nan]), "years": np.array([1e9, 0.0])}
    told = design.offset(Table(columns=columns, rows=2))
    assert told.tolist() == [pytest.approx(10 + np.log(500)), pytest.approx(-500.0)]


# with slopes that do not depend on the response: that of a time to an event is how long it was
EXPECTED = [name for name in WEIGHTED if FAMILIES[name].link != "identity"]
EXPECTED.remove("exponential")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_weight_counts_once_where_rows_are_cut(name):
    """A row is cut by its weighted score and its weighted curvature, and by no square of either."""
    rng = np.random.default_rng(4)
    family, m = FAMILIES[name], 4000
    weight, reach = 10 ** rng.uniform(-3, 2, m), rng.uniform(0.01, 5, m)
    eta = rng.normal(0, 1, (1, m))
    y = np.stack((rng.integers(0, 2, m), np.zeros(m), weight), axis=1)
    there = np.zeros(m), 1e9, 1.0, 1.3, 3.0
    alone = family.terms(y[:, 0], Evaluation(eta, reach, there[0], 1e9, 1e9, *there[3:]))
    told = Given(family, 0.0).terms(y, Evaluation(eta, reach, *there))
    whole = weight * alone.root[0, 0] ** 2
    fits = whole * reach**2 < 0.99
    assert fits.any()
    assert (~fits).any()
    np.testing.assert_allclose(told.root[0, 0][fits] ** 2, whole[fits], rtol=1e-9)
    cut = told.root[0, 0][~fits & (whole * reach**2 > 1.01)] ** 2
    np.testing.assert_allclose(cut * reach[~fits & (whole * reach**2 > 1.01)] ** 2, 1.0, rtol=1e-9)


def counts(low, high, weights, rows=20_000):
    """Counts with weights that do not depend on them."""
    rng = np.random.default_rng(21)
    age, weight = rng.uniform(20, 80, rows), weights(rng, rows)
    rate = np.exp(1.0 + 0.02 * (age - 50))
    columns = (
        NumberColumn(name="age", lower=20, upper=80),
        NumberColumn(name="copies", lower=low, upper=high),
        NumberColumn(name="visits", lower=0, upper=100),
    )
    visits = np.minimum(rng.poisson(rate), 100)
    data = {"age": age, "copies": weight, "visits": visits}
    return data, Schema(columns=columns, rows=rows)


def test_equal_weights_cost_no_width_where_rows_are_cut(seeded):
    """All alike they change what a row says, and not what one row is to another.

    The model's own answer is not cut: one row is a hundred there, and its score as long.
    """
    model, widths = ModelSpec(family="poisson", formula="visits ~ age", weights="copies"), []
    for weight in (1.0, 100.0):
        data, schema = counts(0, weight, lambda _, rows, w=weight: np.full(rows, w))
        told = sample(
            data, schema=schema, model=model, sampler=ROBUST, epsilon=4.0, delta=1e-6,
            random=seeded(9),
        ).summary(mixing=False)  # fmt: skip
        widths.append(np.array([one.sd for one in told]) * np.sqrt(weight))
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.2)


def test_a_verdict_says_where_heavy_rows_were_cut(seeded):
    model = ModelSpec(family="poisson", formula="visits ~ age", weights="copies")
    data, schema = counts(0.1, 10, lambda rng, rows: 10 ** rng.uniform(-1, 1, rows))
    for epsilon, status in ((2.0, "unreliable"), (1e5, "reliable")):
        found = sample(
            data, schema=schema, model=model, sampler=ROBUST, epsilon=epsilon, delta=1e-6,
            random=seeded(10),
        ).verdict  # fmt: skip
        assert found.status == status, found.sentence
        assert ("heavy rows were cut" in found.sentence) == (status == "unreliable")


@pytest.mark.parametrize(
    ("family", "formula", "weights", "said"),
    [
        ("poisson", "visits ~ age", "copies", "25 %"),
        ("linear", "wage ~ age", "exact", "wider than expected"),
        ("poisson", "visits ~ age", None, None),
    ],
)
def test_a_plan_says_what_it_does_not_know_of_weights(family, formula, weights, said):
    model = ModelSpec(family=family, formula=formula, weights=weights)
    spec = JobSpec(model=model, privacy=PrivacySpec(epsilon=1.0, delta=1e-6))
    told = [one for one in plan(schema_of(), spec).warnings if "weights" in one]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]
