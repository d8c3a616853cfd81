"""Whole numbers, spikes and the widths of bins: what tables of counts and synthetic tables hold."""

import numpy as np
import pytest

import dpmcmc
from dpmcmc import Counts, Quantiles, describe
from dpmcmc.base.errors import SpecError
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema, Table
from dpmcmc.mechanisms.axes import axis
from dpmcmc.queries.synthetic.checks import MOST_OPEN, Check, checked, shares_of
from dpmcmc.queries.synthetic.drawn import tilts_of, values, within
from dpmcmc.queries.synthetic.loglinear import LogLinear
from tests.sources import Seeded

COLUMNS = {
    "whole": NumberColumn(name="x", lower=-3, upper=40, integer=True),
    "few": NumberColumn(name="x", lower=0, upper=4, integer=True, spikes=(0, 3)),
    "spikes": NumberColumn(name="x", lower=0, upper=100, integer=True, spikes=(0, 10, 11, 100)),
    "all spikes": NumberColumn(name="x", lower=0, upper=3, integer=True, spikes=(0, 1, 2, 3)),
    "amount": NumberColumn(name="x", lower=0, upper=1e6, spikes=(0, 500.5, 1e6), missing=(-9,)),
    "codes": NumberColumn(name="x", lower=1, upper=50, integer=True, spikes=(7,), missing=(-9, 99)),
    "years": NumberColumn(name="x", lower=1_000_000, upper=1_000_010, missing=(-9.5,)),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("bins", [1, 3, 10, 64, (2.0, 3.0), (1.5, 2.5)])
def test_every_level_holds_the_values_that_are_drawn_for_it(name, bins):
    column = COLUMNS[name]
    if not isinstance(bins, int):
        bins = tuple(column.lower + edge for edge in bins)
    made = axis(column, bins)
    assert len(set(made.labels)) == made.size
    level = np.repeat(np.arange(made.size), 400)
    tilts = np.linspace(-8.0, 8.0, made.bins)
    drawn = values(made, level, within(made, level, tilts, Seeded(1)))
    there = ~column.is_missing(drawn)
    assert (drawn[there] >= column.lower).all()
    assert (drawn[there] <= column.upper).all()
    if column.integer:
        assert drawn.dtype == np.int64
    table = Table(columns={"x": drawn.astype(np.float64)}, rows=len(drawn))
    found = made.codes(table)
    spiked = np.isin(drawn, made.spikes)  # a bin of whole numbers may hold spikes alone
    np.testing.assert_array_equal(found[~spiked], level[~spiked])
    assert np.isin(drawn, column.missing).sum() == (400 if column.missing else 0)


@pytest.mark.parametrize("name", ["whole", "few", "spikes", "codes"])
@pytest.mark.parametrize("bins", [1, 3, 10, 64])
def test_bins_of_whole_numbers_hold_each_of_them_once_and_about_as_many(name, bins):
    column = COLUMNS[name]
    every = np.arange(column.lower, column.upper + 1.0)
    made = axis(column, bins, spikes=False)
    codes = made.codes(Table(columns={"x": every}, rows=len(every)))
    sizes = np.bincount(codes[~column.is_missing(every)], minlength=made.bins)
    assert made.bins == min(bins, len(every))
    assert sizes.max() - sizes.min() <= 1
    if made.bins == len(every):
        assert list(made.labels[: made.bins]) == [str(int(one)) for one in every]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"lower": 0.5, "integer": True}, "whole"),
        ({"upper": 1e30, "integer": True}, "within"),
        ({"integer": "yes"}, "True or False"),
        ({"integer": 1}, "True or False"),
        ({"spikes": 0}, "list"),
        ({"spikes": "0"}, "list"),
        ({"spikes": (True,)}, "numbers"),
        ({"spikes": ("0",)}, "numbers"),
        ({"spikes": (float("nan"),)}, "within"),
        ({"spikes": (11,)}, "within"),
        ({"spikes": (0, 0.0)}, "different"),
        ({"spikes": tuple(range(11)) * 2}, "different"),
        ({"spikes": (5,), "missing": (5,)}, "missing code"),
        ({"spikes": (0.5,), "integer": True}, "whole"),
    ],
)
def test_what_no_column_can_be_is_refused_where_it_is_declared(given, why):
    with pytest.raises(ValueError, match=why):
        NumberColumn(**({"name": "x", "lower": 0, "upper": 10} | given))


def test_a_frame_declares_them_by_name_and_is_held_to_them():
    frame = {"x": [0, 3, 7], "g": ["a", "b", "a"], "z": [0.5, 1.0, 2.0]}
    bounds = {"x": (0, 10), "g": ("a", "b"), "z": (0, 3)}
    schema = Schema.from_frame(frame, bounds, integer=["x"], spikes={"x": [0]})
    assert (schema.columns[0].integer, schema.columns[0].spikes) == (True, (0.0,))
    assert not schema.columns[2].integer
    for given in (
        {"integer": ["g"]},
        {"spikes": {"g": [0]}},
        {"integer": "x"},
        {"integer": ["w"]},
        {"spikes": {"w": [0]}},
        {"spikes": [0]},
        {"integer": ["x"], "spikes": {"x": [20]}},
    ):
        with pytest.raises(ValueError, match=r"categories|list|no column|dictionary|within"):
            Schema.from_frame(frame, bounds, **given)
    with pytest.raises(ValueError, match="no bounds"):
        Schema.from_frame(frame, {"x": (0, 10)}, integer=["z"])
    wrong = Schema.from_frame(frame, bounds, integer=["x", "z"])
    budget = dpmcmc.Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="'z' has values that are not whole"):
        describe(frame, [Counts(("z",))], schema=wrong, epsilon=1.0, delta=1e-6, budget=budget)


def test_quantiles_of_whole_numbers_are_whole_and_hold():
    rng = np.random.default_rng(1)
    x = np.minimum(rng.poisson(6.0, 2000), 40)
    for upper, bins in ((40, 64), (40, 9), (10_000, 64)):
        column = NumberColumn(name="x", lower=0, upper=upper, integer=True, spikes=(0,))
        schema = Schema(columns=(column,), rows=2000)
        asked = [Quantiles("x", at=(0.1, 0.5, 0.9), bins=bins)]
        found = describe(
            {"x": x}, asked, schema=schema, epsilon=5.0, delta=1e-6, random=Seeded(1)
        ).estimates(0.99, "rows")
        for one, at in zip(found, (0.1, 0.5, 0.9), strict=True):
            for number in (one.estimate, one.lower, one.upper):
                assert float(number).is_integer()
            assert 0.0 <= one.lower <= one.estimate <= one.upper <= upper
            assert one.lower <= np.quantile(x, at, method="inverted_cdf") <= one.upper


def test_a_spike_has_a_share_of_its_own():
    rng = np.random.default_rng(2)
    x = np.where(rng.random(3000) < 0.89, 0.0, rng.exponential(500.0, 3000))
    column = NumberColumn(name="x", lower=0, upper=1e5, spikes=(0,))
    found = describe(
        {"x": x}, [Counts(("x",))], schema=Schema(columns=(column,), rows=3000), epsilon=5.0,
        delta=1e-6, random=Seeded(1),
    ).estimates(0.9, "rows")  # fmt: skip
    shares = {one.name: one for one in found}
    assert shares["share of x 0"].estimate == pytest.approx(0.89, abs=0.02)
    assert shares["share of x 0 to 10000"].estimate == pytest.approx(0.11, abs=0.02)


DRAWS = {
    "crowded": lambda rng, n: rng.exponential(58.0, n),
    "crowded far from the bounds": lambda rng, n: 740.0 + 20.0 * rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(150.0, n),
    "normal": lambda rng, n: 450.0 + 150.0 * rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(0.0, 1000.0, n),
    "log-normal": lambda rng, n: 90.0 * np.exp(rng.standard_normal(n)),
    "heavy": lambda rng, n: 10.0 * (1.0 - rng.random(n)) ** (-1.0 / 1.2),
    "many zeros": lambda rng, n: np.where(rng.random(n) < 0.89, 0.0, rng.exponential(300.0, n)),
    "either end": lambda rng, n: np.where(rng.random(n) < 0.5, 20.0, 980.0) + rng.random(n),
    "one value": lambda rng, n: np.full(n, 333.0) + 0.0 * rng.random(n),
}
UNRESOLVED = {"crowded", "crowded far from the bounds", "heavy", "many zeros", "one value"}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("bins", [1, 2, 3, 5, 10, 20, 50, 200])
@pytest.mark.parametrize("spikes", [(), (0,)])
def test_where_counts_are_exact_a_column_is_near_the_rows_or_is_said_not_to_be(name, bins, spikes):
    rows = 50_000
    x = np.clip(DRAWS[name](np.random.default_rng(3), rows), 0.0, 1000.0)
    made = axis(NumberColumn(name="x", lower=0, upper=1000, spikes=spikes), bins)
    codes = made.codes(Table(columns={"x": x}, rows=rows))
    counts = np.bincount(codes, minlength=made.size).astype(np.float64)
    model = LogLinear((made.size,), ((0,),))
    (share,) = shares_of(model, counts / rows)
    (check,) = checked([made], model, counts, 1.0, rows, [share])
    assert check.off == 0.0
    place = within(made, codes, tilts_of(made, share, rows), Seeded(1))
    drawn = values(made, codes, place)
    if check.open <= MOST_OPEN:
        assert drawn.mean() == pytest.approx(x.mean(), rel=0.09)
        assert abs(drawn.mean() - x.mean()) < 0.09 * x.std()
    if name in UNRESOLVED and bins == 10 and not (name == "many zeros" and spikes):
        assert check.reasons(made)
        assert "'x'" in check.reasons(made)[0]
    if name in ("exponential", "normal", "uniform") and bins >= 10:
        assert not check.reasons(made)
    if name == "many zeros" and spikes and bins >= 10:
        assert not check.reasons(made)
        assert np.mean(drawn == 0.0) == np.mean(x == 0.0)


def test_levels_that_differ_from_the_released_ones_are_told_from_noise():
    columns = [axis(BinaryColumn(name=n, categories=("0", "1"))) for n in "ab"]
    model, rows = LogLinear((2, 2), ((0, 1),)), 1000
    counts = np.array([400.0, 100.0, 300.0, 200.0])
    right = shares_of(model, counts / rows)
    wrong = shares_of(model, np.array([0.3, 0.1, 0.3, 0.3]))
    assert all(one.off == 0.0 for one in checked(columns, model, counts + 3.0, 3.0, rows, right))
    first, second = checked(columns, model, counts, 3.0, rows, wrong)
    assert first.off == pytest.approx(0.1, abs=0.02)
    assert second.off == pytest.approx(0.1, abs=0.02)
    assert "released" in first.reasons(columns[0])[0]
    assert not Check(0.0, 0.0).reasons(columns[0])
    assert Check(float("nan"), 0.0).reasons(columns[0])


@pytest.mark.compiled("hundreds of chains, of no kernel")
def test_tables_hold_whole_numbers_spikes_and_a_verdict_on_each_column():
    rng, rows = np.random.default_rng(5), 4000
    age = np.clip(np.round(45.0 + 14.0 * rng.standard_normal(rows)), 18, 90)
    gain = np.where(rng.random(rows) < 0.89, 0.0, np.minimum(rng.exponential(6000.0, rows), 1e5))
    schema = Schema.from_frame(
        {"age": age, "gain": gain},
        {"age": (18, 90), "gain": (0, 1e5)},
        integer=["age"],
        spikes={"gain": [0]},
    )
    told = {"epsilon": 8.0, "delta": 1e-6, "tables": 4, "random": Seeded(2)}
    edges = (2000, 4000, 8000, 12000, 20000, 40000)
    made = dpmcmc.synthesise(
        {"age": age, "gain": gain}, schema=schema, bins={"gain": edges}, **told
    )
    assert made.verdict.status == "reliable", made.verdict.sentence
    assert made.reliable
    for table in made.tables():
        assert table["age"].dtype == np.int64
        assert table["age"].mean() == pytest.approx(age.mean(), abs=1.5)
        assert np.mean(table["gain"] == 0.0) == pytest.approx(0.89, abs=0.03)
        assert table["gain"].mean() == pytest.approx(gain.mean(), rel=0.25)
    crowded = Schema.from_frame({"gain": gain}, {"gain": (0, 1e5)})
    wide = dpmcmc.synthesise({"gain": gain}, schema=crowded, **told)
    assert wide.verdict.status == "unreliable"
    assert not wide.reliable
    assert "spikes" in str(wide)
    with pytest.raises(SpecError):
        dpmcmc.synthesise({"gain": gain}, schema=crowded, bins={"gain": 0}, **told)
