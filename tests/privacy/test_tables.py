"""Released tables and sums: sensitivity, noise, cost and permit. Proof: docs/proofs/tables.md."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Neighbouring, Permit, PermitError, Private
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema, Table
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.mechanisms.axes import axes
from dpmcmc.mechanisms.counts import counted, noise_sd, released
from dpmcmc.privacy import accountant
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Gaussian
from dpmcmc.queries.summaries import call as summaries
from dpmcmc.queries.summaries.statistics import Counts, Mean, Quantiles
from dpmcmc.queries.synthetic import call as synthetic
from tests.sources import Seeded

COLUMNS = (
    CategoryColumn(name="kind", categories=("a", "b", "c")),
    BinaryColumn(name="sex", categories=("f", "m")),
    NumberColumn(name="age", lower=-10.0, upper=30.0, missing=(99.0,)),
    NumberColumn(name="pay", lower=0.0, upper=8.0),
)
OTHERS = {
    "kind": ["a", "b", "b"],
    "sex": ["f", "m", "m"],
    "age": [3.0, 99.0, 30.0],
    "pay": [1, 2, 8],
}
ROWS = 4
SCHEMA = Schema(columns=COLUMNS, rows=ROWS)
LAST = list(
    itertools.product("abc", "fm", (-10.0, -1e9, 0.1, 12.345678, 30.0, 99.0), (0.0, 3.3, 8.0, 1e9))
)
PRIVACY = PrivacySpec(delta=1e-6, epsilon=1.0)


def neighbours():
    """Tables that differ in the last row alone."""
    for row in LAST:
        data = {c.name: [*OTHERS[c.name], v] for c, v in zip(COLUMNS, row, strict=True)}
        yield table_of(SCHEMA, data)


def apart(statistics):
    every = np.array(statistics)
    return np.linalg.norm(every[:, None] - every, axis=-1).max()


@pytest.mark.parametrize(
    "names", [("kind",), ("age",), ("kind", "sex"), ("age", "pay", "kind")], ids=str
)
def test_replacing_one_row_moves_a_table_by_the_root_of_two(names):
    found = axes(SCHEMA, names, {"age": 3, "pay": (1.0, 3.3)})
    counts = [counted(table, found) for table in neighbours()]
    assert {c.sum() for c in counts} == {ROWS}
    assert apart(counts) == math.sqrt(2.0)


def test_replacing_one_row_moves_the_sums_of_a_mean_by_the_root_of_two_at_most():
    asked = summaries.request_of(SCHEMA, Mean("age"))
    far = apart([asked.of(asked.cells(table)) for table in neighbours()])
    assert 0.9997 * math.sqrt(2.0) < far <= math.sqrt(2.0)


def test_numbers_beyond_their_bounds_move_a_mean_no_further():
    """What opens rows holds them to their bounds; a release does not rest on it."""
    asked, others = summaries.request_of(SCHEMA, Mean("pay")), [1.0, 2.0, 8.0]
    ends = (-1e300, -math.inf, -1.0, 0.0, 8.0, 9.0, 1e300, math.inf)
    tables = [Table(columns={"pay": np.array([*others, end])}, rows=ROWS) for end in ends]
    far = apart([asked.of(asked.cells(table)) for table in tables])
    assert 0.9997 * math.sqrt(2.0) < far <= math.sqrt(2.0)


@pytest.mark.parametrize("rows", [4, 1000, 100_000])
def test_rounding_of_many_rows_moves_a_mean_by_no_more_than_is_charged(rows):
    """In exact numbers: the product of a sum with a constant is rounded, and that is paid for."""
    schema = Schema(columns=COLUMNS, rows=rows)
    one = summaries.request_of(schema, Mean("pay"))
    random, squares = np.random.default_rng(2), []
    for _ in range(60):
        pay = random.uniform(0.0, 8.0, rows)
        moved = []
        for last in (0.0, 8.0):
            pay[-1] = last
            found = one.of(one.cells(Table(columns={"pay": pay}, rows=rows)))
            moved.append([Fraction(float(part)) for part in found])
        squares.append(sum((a - b) ** 2 for a, b in zip(*moved, strict=True)))
    assert max(squares) <= 2
    assert max(squares) > 1.998


def test_a_whole_release_moves_by_what_its_noise_is_made_for():
    many = [Mean("age"), Mean("pay"), Quantiles("pay", bins=4), Counts(("kind", "sex"))]
    plan = summaries.planned(SCHEMA, many, PRIVACY)
    far = apart(
        [np.concatenate([a.of(a.cells(table)) for a in plan.requests]) for table in neighbours()]
    )
    z, size = plan.paid.noise_multiplier, sum(a.size for a in plan.requests)
    assert 0.9997 * math.sqrt(8.0) < far <= math.sqrt(8.0)
    assert z * far <= plan.noise_sd <= 1.001 * z * far
    assert plan.noise_sd == noise_sd(size, 4, z)


def test_numbers_of_random_rows_keep_to_the_sensitivity():
    """Pairs (u, u^2, 1) anywhere in the interval, with the rounding of float sums."""
    u = np.random.default_rng(1).uniform(-1.0, 1.0, (200_000, 2))
    f = np.stack((u, u * u))
    moved = np.sqrt(((f[..., 0] - f[..., 1]) ** 2).sum(axis=0))
    assert 1.99 < moved.max() <= 2.0


@pytest.mark.parametrize("factor", [1.0, 1.1, 0.9])
def test_noise_has_the_claimed_sd_in_each_release(factor):
    """A chi-square test of 40,000 noises accepts the sd, and refuses one that is 10 % off."""
    n, z = 40_000, 3.0
    noise = released(np.zeros(n), 5, z, Seeded(3))
    square = float(((noise / (factor * noise_sd(n, 5, z))) ** 2).sum())
    within = chi2.ppf(1e-4, n) < square < chi2.ppf(1.0 - 1e-4, n)
    assert within == (factor == 1.0)
    assert noise_sd(n, 5, z) > z * math.sqrt(10.0)


@pytest.mark.parametrize("make", ["synthetic", "summaries"])
def test_one_gaussian_event_spends_the_budget(make):
    if make == "synthetic":
        plan = synthetic.planned(SCHEMA, PRIVACY, columns=("kind", "sex"))
    else:
        plan = summaries.planned(SCHEMA, [Mean("age"), Counts(("kind",))], PRIVACY)
    assert plan.paid.event == Gaussian(plan.paid.noise_multiplier)
    assert plan.paid.cost.epsilon == accountant.epsilon(plan.paid.event, 1e-6)
    assert 0.999999 < plan.paid.cost.epsilon <= 1.0


def test_rows_open_for_the_event_that_was_paid_for_alone():
    plan = synthetic.planned(SCHEMA, PRIVACY, columns=("kind", "sex"))
    dear = synthetic.planned(SCHEMA, PrivacySpec(delta=1e-6, epsilon=2.0), columns=("kind", "sex"))
    rows = Private(next(neighbours()), subject="d")
    for event in (dear.paid.event, Gaussian(1.0)):
        with pytest.raises(PermitError):
            synthetic.release(
                plan, rows, Permit(subject="d", event_digest=digest(event)), Seeded(1)
            )
    paid = Permit(subject="d", event_digest=digest(plan.paid.event))
    assert synthetic.release(plan, rows, paid, Seeded(1)).shape == (6,)


@pytest.mark.parametrize(
    "privacy",
    [
        PrivacySpec(delta=1e-6),
        PrivacySpec(delta=1e-6, epsilon=1.0, noise_multiplier=1.0),
        PrivacySpec(delta=1e-6, epsilon=0.0),
        PrivacySpec(delta=0.0, epsilon=1.0),
        PrivacySpec(delta=1e-6, noise_multiplier=1e-9),
        PrivacySpec(delta=1e-6, noise_multiplier=1e9),
        PrivacySpec(delta=1e-6, noise_multiplier=math.nan),
    ],
)
def test_a_budget_that_no_mechanism_spends_is_refused(privacy):
    with pytest.raises(SpecError):
        summaries.planned(SCHEMA, [Mean("age")], privacy)


def test_counts_are_refused_where_the_number_of_rows_is_private():
    schema = Schema(columns=COLUMNS, rows=ROWS, neighbouring=Neighbouring.ADD_REMOVE)
    with pytest.raises(SpecError):
        synthetic.planned(schema, PRIVACY, columns=("kind", "sex"))
