"""Synthetic tables: the model, its posterior, Rubin's rules, and what analyses of tables cover."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy.special import ndtri, stdtr
from scipy.stats import chi2

import dpmcmc
from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.queries.synthetic import posterior
from dpmcmc.queries.synthetic.call import FEWER, combine, planned
from dpmcmc.queries.synthetic.loglinear import LogLinear
from dpmcmc.queries.synthetic.posterior import NoisyMarginals, Walk, r_hat
from dpmcmc.queries.tasks import SyntheticTask, TaskSpec, plan_task
from tests.sources import Seeded

SHAPE, PAIRS = (3, 2, 4), ((0, 1), (1, 2), (0, 2))
MODEL = LogLinear(SHAPE, PAIRS)


def test_marginals_are_those_of_the_full_table():
    p = np.random.default_rng(1).dirichlet(np.ones(MODEL.cells))
    full = p.reshape(SHAPE)
    every = np.concatenate(
        [full.sum(axis=2).ravel(), full.sum(axis=0).ravel(), full.sum(1).ravel()]
    )
    np.testing.assert_allclose(MODEL.by_entry @ p, every)
    draws = np.random.default_rng(2).multinomial(50, p, size=100_000) @ MODEL.by_cell.toarray()
    np.testing.assert_allclose(np.cov(draws.T) / 50, MODEL.covariance(p), atol=4e-3)


def test_the_gradient_is_that_of_the_density():
    rng = np.random.default_rng(3)
    counts = MODEL.by_entry @ rng.multinomial(500, np.full(24, 1 / 24)) + rng.normal(0, 5, 26)
    walk = Walk(NoisyMarginals(MODEL, counts, 5.0, 500), 1, Seeded(1))
    z, step = walk.z, 1e-5
    _, gradient = walk._at(z)
    for k in range(0, 26, 5):
        move = np.zeros_like(z)
        move[k] = step
        slope = (walk._at(z + move)[0] - walk._at(z - move)[0]) / (2.0 * step)
        assert slope[0] == pytest.approx(gradient[k, 0], rel=1e-4, abs=1e-5)


def test_rubins_rules_are_the_closed_form():
    found = combine([1.0, 2.0, 4.0, 5.0], [0.5, 0.7, 0.9, 0.3])
    b, v = 10.0 / 3.0, 0.6
    total = 1.25 * b - v
    assert found.estimate[0] == 3.0
    assert found.sd[0] == pytest.approx(math.sqrt(total))
    assert found.freedom[0] == pytest.approx(3.0 * (1.0 - v / (1.25 * b)) ** 2)
    narrow = combine([1.0, 1.0001], [0.5, 0.7], share=0.5)
    assert narrow.sd[0] == pytest.approx(math.sqrt(0.3))
    for wrong in (([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([[[1.0]]] * 2, [[[1.0]]] * 2)):
        with pytest.raises(ValueError, match="two or more"):
            combine(*wrong)


def test_rubins_rules_cover_where_their_posterior_is_exact():
    """Normal means: the variance that is found is the posterior's, not that and once more v."""
    rng, v, sd = np.random.default_rng(4), 0.04, 0.3
    held, variances = [], []
    for _ in range(2000):
        centre = rng.normal(0.0, sd)
        q = centre + sd * rng.normal(size=60) + math.sqrt(v) * rng.normal(size=60)
        found = combine(q, np.full(60, v))
        low, high = found.interval(0.9)
        held.append(low[0] <= 0.0 <= high[0])
        variances.append(found.sd[0] ** 2)
    assert np.mean(held) == pytest.approx(0.9, abs=0.03)
    # b / m of the mean of finitely many tables is in the error, and is in the variance
    assert np.mean(variances) == pytest.approx(sd**2 + (sd**2 + v) / 60, rel=0.03)


WORDS = {"a": ("x", "y", "z"), "b": ("n", "p"), "c": ("k", "l")}
TABLE = np.array(
    [[[0.2, 0.05], [0.1, 0.1]], [[0.05, 0.1], [0.15, 0.02]], [[0.06, 0.07], [0.02, 0.08]]]
)
ROWS = 3000


def data(rng):
    cells = rng.choice(TABLE.size, ROWS, p=TABLE.ravel())
    codes = np.unravel_index(cells, TABLE.shape)
    return {k: np.array(words)[code] for (k, words), code in zip(WORDS.items(), codes, strict=True)}


SCHEMA = Schema(
    columns=(
        CategoryColumn(name="a", categories=WORDS["a"]),
        BinaryColumn(name="b", categories=("n", "p")),
        BinaryColumn(name="c", categories=("k", "l")),
    ),
    rows=ROWS,
)


def log_odds(counts):
    """Log odds ratio of b and c, and its variance."""
    pair = counts.sum(axis=0) + 0.5
    return math.log(pair[0, 0] * pair[1, 1] / (pair[0, 1] * pair[1, 0])), (1.0 / pair).sum()


@pytest.mark.compiled("hundreds of chains, of no kernel")
def test_errors_of_a_log_odds_ratio_are_as_large_as_its_intervals_say():
    """Sum of squared normal scores over 30 runs: chi-square, and not with sds twice off.

    The noise makes up most of these: without it the sds would be half of what they are.
    """
    rng, truth = np.random.default_rng(12), log_odds(TABLE * 1e9)[0]
    errors, freedom, ratio = [], [], []
    for run in range(30):
        made = dpmcmc.synthesise(
            data(rng), schema=SCHEMA, noise_multiplier=25.0, delta=1e-6, tables=40, moves=40,
            random=Seeded(run),
        )  # fmt: skip
        fits = [log_odds(made.crosstab(k)) for k in range(len(made))]
        found = made.combine([f[0] for f in fits], [f[1] for f in fits])
        errors.append((found.estimate[0] - truth) / found.sd[0])
        freedom.append(found.freedom[0])
        ratio.append(found.sd[0] ** 2 / np.mean([f[1] for f in fits]))

    def fits_well(factor):
        scores = ndtri(stdtr(freedom, np.array(errors) * factor))
        return bool(chi2.ppf(1e-3, 30) < np.sum(scores**2) < chi2.ppf(1.0 - 1e-3, 30))

    assert [fits_well(factor) for factor in (0.5, 1.0, 2.0)] == [False, True, False]
    assert np.mean(ratio) > 3.0


def test_tables_have_the_columns_of_the_schema():
    schema = Schema(
        columns=(
            BinaryColumn(name="b", categories=("n", "p")),
            NumberColumn(name="age", lower=0.0, upper=90.0, missing=(-1.0,)),
        ),
        rows=400,
    )
    rng = np.random.default_rng(6)
    age = np.where(rng.random(400) < 0.2, -1.0, rng.uniform(20.0, 60.0, 400))
    rows = {"b": np.where(rng.random(400) < 0.5, "n", "p"), "age": age}
    made = dpmcmc.synthesise(
        rows, schema=schema, epsilon=20.0, delta=1e-6, tables=8, bins={"age": (20.0, 40.0, 60.0)},
        random=Seeded(1),
    )  # fmt: skip
    first, *others = made.tables()
    assert len(others) == 7
    assert set(first) == {"b", "age"}
    assert set(first["b"]) == {"n", "p"}
    present = first["age"][first["age"] != -1.0]
    assert present.min() >= 0.0
    assert present.max() <= 90.0
    assert np.mean((present >= 20.0) & (present <= 60.0)) > 0.95
    assert np.mean(first["age"] == -1.0) == pytest.approx(0.2, abs=0.08)
    assert made.crosstab(0).sum() == 400
    assert "R-hat" in str(made)
    assert made.cost.epsilon <= 20.0
    with pytest.raises(ValueError, match="8 tables"):
        made.tables(9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": ("a", "a")},
        {"columns": ("a", "q")},
        {"marginals": [("a", "b")]},
        {"marginals": [("a", "b"), ("b", "a"), ("c",)]},
        {"marginals": [("a", "q"), ("b", "c")]},
        {"marginals": [(), ("a", "b", "c")]},
        {"marginals": [("a", "a"), ("b", "c")]},
        {"bins": {"q": 3}},
        {"tables": 1},
        {"moves": 0},
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_rows_are_read(wrong):
    with pytest.raises(SpecError):
        dpmcmc.synthesise({}, schema=SCHEMA, epsilon=1.0, delta=1e-6, **wrong)


def test_a_model_that_is_too_large_is_refused():
    many = tuple(CategoryColumn(name=f"c{k}", categories=tuple("abcdefgh")) for k in range(7))
    with pytest.raises(SpecError, match="are modelled"):
        dpmcmc.synthesise({}, schema=Schema(columns=many, rows=10), epsilon=1.0, delta=1e-6)


def test_chains_that_disagree_are_told_from_chains_that_do_not():
    draws = np.random.default_rng(7).normal(size=(200, 3, 4))
    assert r_hat(draws) < 1.05
    draws[:, 1, 2] += 3.0
    assert r_hat(draws) > 1.3


def mixed(rows):
    """Ages, amounts with a spike and a missing code, a rare category."""
    rng = np.random.default_rng(rows)
    data = {
        "age": np.clip(rng.normal(40.0, 12.0, rows), 0.0, 90.0),
        "cost": np.where(rng.random(rows) < 0.3, 0.0, np.minimum(rng.gamma(2.0, 8.0, rows), 100.0)),
        "ward": rng.choice(["a", "b", "c"], rows, p=[0.8, 0.15, 0.05]),
    }
    data["cost"] = np.where(rng.random(rows) < 0.1, -1.0, data["cost"])
    bounds = {"age": (0, 90), "cost": (0, 100), "ward": ("a", "b", "c")}
    extra = {"spikes": {"cost": [0]}, "missing": {"cost": [-1]}}
    return data, Schema.from_frame(data, bounds, **extra)


def test_the_errors_that_noise_causes_are_those_of_weighted_counts():
    """Means and covariances of standardised scores, of 4,000 releases without rows."""
    rows = 5000
    schema = mixed(rows)[1]
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    plan = planned(schema, privacy, bins={"age": 6, "cost": (5.0, 20.0, 50.0)})
    model, rng = plan.model, np.random.default_rng(2)
    shares = [rng.dirichlet(np.full(axis.size, 5.0)) for axis in plan.axes]
    exact = np.concatenate(
        [rows * np.outer(shares[a], shares[b]).ravel() for a, b in model.marginals]
    )
    errors = plan.noise_errors(exact)
    noise = plan.noise_sd * rng.standard_normal((4000, len(exact)))
    age = 0.5 * (np.array(plan.axes[0].edges[1:]) + np.array(plan.axes[0].edges[:-1]))
    centre = float(shares[0] @ age)
    inside = (90.0 / 6) ** 2 / 12.0
    z_age = (age - centre) / math.sqrt(float(shares[0] @ (age - centre) ** 2) + inside)
    top = int(shares[2].argmax())
    z_ward = (np.arange(3) == top) - shares[2][top]
    z_ward = z_ward / math.sqrt(shares[2][top] * (1.0 - shares[2][top]))
    number = model.marginals.index((0, 2))
    first = sum(model.sizes[:number])
    pair = noise[:, first : first + model.sizes[number]].reshape(-1, 6, 3)
    assert errors.of_correlation["age", "ward"] == pytest.approx(
        np.std(np.einsum("nab,a,b->n", pair, z_age, z_ward)) / rows, rel=0.05
    )
    number = model.marginals.index((0, 1))
    first = sum(model.sizes[:number])
    other = noise[:, first : first + model.sizes[number]].reshape(4000, 6, -1)
    weights = 1.0 / 3.0, 1.0 / other.shape[2]
    ages = (weights[0] * pair.sum(axis=2) + weights[1] * other.sum(axis=2)) / sum(weights)
    assert errors.of_mean["age"] == pytest.approx(np.std(ages @ z_age) / rows, rel=0.05)


@pytest.mark.longer
@pytest.mark.parametrize("rows", [3, 30])
def test_tables_of_few_rows_are_not_reliable(rows):
    data, schema = mixed(rows)
    given = {"schema": schema, "tables": 4, "moves": 40, "accept_low_quality": True}
    for run in range(5):
        made = dpmcmc.synthesise(data, epsilon=1.0, random=Seeded(run), **given)
        assert made.verdict.status == "unreliable"
        assert "noise alone moves the mean" in made.verdict.sentence
        assert FEWER in made.verdict.sentence


def test_what_noise_moves_little_is_told_of_reliable_tables():
    data, schema = mixed(3000)
    edges = {"age": 9, "cost": (5.0, 10.0, 20.0, 40.0)}
    told = {"bins": edges, "marginals": [["age", "ward"], ["cost"]]}
    made = dpmcmc.synthesise(data, schema=schema, epsilon=8.0, random=Seeded(1), **told)
    assert made.verdict.status == "reliable", made.verdict.sentence
    assert "noise moves means by about 0.0" in made.verdict.sentence
    means = [table["age"].mean() for table in made.tables()]
    assert np.mean(means) == pytest.approx(data["age"].mean(), abs=0.1 * data["age"].std())


def test_chains_that_do_not_agree_go_on(monkeypatch):
    counts = np.full(26, 30.0)
    noisy = NoisyMarginals(MODEL, counts, 1.0, 180)
    found = iter([2.0, 1.5, 1.0, 1.0])
    seen = []
    monkeypatch.setattr(posterior, "r_hat", lambda draws: seen.append(len(draws)) or next(found))
    thetas, largest = posterior.draws(noisy, 5, 8, Seeded(1))
    assert (seen, largest, thetas.shape) == ([8, 16, 32], 1.0, (5, 26))


def test_what_chains_are_compared_by_is_evenly_spaced_and_bounded(monkeypatch):
    noisy, found = NoisyMarginals(MODEL, np.full(26, 30.0), 1.0, 180), {}
    for most in (10, 1000):
        monkeypatch.setattr(posterior, "MOST_COMPARED", most)
        walk = Walk(noisy, 4, Seeded(1))
        found[most] = posterior._moved(walk, 8, 5)
    (thetas, some), (same, every) = found[10], found[1000]
    assert np.array_equal(thetas, same)
    assert (thetas.shape, len(every)) == ((32, 26), 40)
    assert np.array_equal(some, every[3::4])


@pytest.mark.longer
def test_many_tables_of_many_cells_need_no_memory_for_all_probabilities():
    """They took 8 bytes for each cell of each table, 16 GB at most, once all was paid for."""
    model = LogLinear((20, 20, 50), ((0,), (1,), (2,)))
    noisy = NoisyMarginals(model, np.full(90, 30.0), 5.0, 600)
    tracemalloc.start()
    thetas, _ = posterior.draws(noisy, 600, 20, Seeded(1))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(thetas) == 600
    assert most < 0.5 * 8 * 600 * model.cells


def test_more_numbers_than_fit_into_memory_are_refused_before_rows_are_read():
    number = NumberColumn(name="x", lower=0.0, upper=1.0)
    for columns, rows, remedy in (
        (SCHEMA.columns, 10**7, "of 10000000 rows .* at most 53"),
        ((*SCHEMA.columns, number), 10**7, "at most 26"),
        (SCHEMA.columns, 2**30, "too many rows"),
    ):
        schema = Schema(columns=columns, rows=rows)
        with pytest.raises(SpecError, match=remedy) as found:
            dpmcmc.synthesise({}, schema=schema, epsilon=1.0, delta=1e-12)
        assert found.value.pointer == "/tables"


def test_a_task_of_many_tables_is_asked_for_their_time_and_memory():
    names, levels = ("a", "b", "c"), tuple(f"l{k}" for k in range(100))
    schema = Schema(
        columns=tuple(CategoryColumn(name=name, categories=levels) for name in names), rows=300
    )
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    given = {"marginals": tuple((name,) for name in names), "moves": 20}
    few, many = (SyntheticTask(tables=tables, **given) for tables in (20, 2000))
    assert plan_task(schema, TaskSpec(task=few, privacy=privacy)).cost.epsilon <= 1.0
    with pytest.raises(SpecError, match="would run for about"):
        plan_task(schema, TaskSpec(task=many, privacy=privacy))
    small = Schema(columns=schema.columns[:1], rows=300)
    one, several = (
        plan_task(small, TaskSpec(task=SyntheticTask(tables=20, moves=m), privacy=privacy)).memory
        for m in (20, 2000)
    )
    assert several > one + 8 * 100 * 4 * 900


@pytest.mark.compiled("hundreds of chains, of no kernel")
def test_what_is_impossible_is_in_no_table_and_in_no_probability():
    made = dpmcmc.synthesise(
        data(np.random.default_rng(8)), schema=SCHEMA, epsilon=5.0, delta=1e-6, tables=4,
        impossible=[{"a": ["x", "y"], "b": ["p"]}], random=Seeded(2),
    )  # fmt: skip
    for k in range(4):
        counts = made.crosstab(k)
        assert counts[:2, 1].sum() == 0
        assert counts.sum() == ROWS
        assert counts[2, 1].sum() > 0
    for wrong in ([{}], [{"q": ["x"]}], [{"a": ["q"]}], [{"a": ["x", "y", "z"]}]):
        with pytest.raises(SpecError, match="impossible"):
            dpmcmc.synthesise({}, schema=SCHEMA, epsilon=1.0, delta=1e-6, impossible=wrong)
