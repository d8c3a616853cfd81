"""Checks of a fit: one row in one cell, noise, cost, permit. Proof: predictive_check.md."""

import itertools
import math

import numpy as np
import pytest

from dpmcmc.base.private import Permit, PermitError, Private
from dpmcmc.families import MODELS, parameters_of
from dpmcmc.fit.local import table_of
from dpmcmc.inputs.schema import (
    BinaryColumn,
    CategoryColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    Table,
)
from dpmcmc.inputs.spec import ModelSpec, PrivacySpec
from dpmcmc.privacy import accountant
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import Gaussian, of_units
from dpmcmc.queries.checks import call
from dpmcmc.queries.checks.cells import Histogram, histogram_of
from tests.sources import Seeded

COLUMNS = (
    NumberColumn(name="x", lower=-1.0, upper=1.0, missing=(9.0,)),
    NumberColumn(name="count", lower=0.0, upper=8.0),
    NumberColumn(name="time", lower=0.5, upper=8.0),
    BinaryColumn(name="y", categories=("no", "yes")),
    CategoryColumn(name="g", categories=("a", "b", "c")),
)
OTHERS = {
    "x": [0.3, -0.9, 9.0, 1.0, 0.0],
    "count": [0.0, 3.0, 2.0, 8.0, 1.0],
    "time": [0.5, 3.0, 2.0, 8.0, 1.0],
    "y": ["no", "yes", "yes", "no", "yes"],
    "g": ["a", "b", "c", "c", "b"],
}
ROWS = 6
SCHEMA = Schema(columns=COLUMNS, rows=ROWS)
LAST = list(
    itertools.product(
        (-1.0, 0.4, 1.0, 9.0), (0.0, 1.0, 4.5, 8.0, 1e9), (0.5, 4.0, 8.0), ("no", "yes"), "abc"
    )
)
FORMULAS = {
    "logistic": "y ~ x",
    "multinomial": "g ~ x",
    "ordinal": "g ~ x",
    "gamma": "time ~ x",
    "beta": "I(time / 10) ~ x",
    "binomial": "count | trials(count + 1) ~ x",
    "exponential": "surv(time, y) ~ x",
    "weibull": "surv(time, y) ~ x",
}
FAMILIES = [
    family
    for family, model in MODELS.items()
    if model.categories is not None or model.distribution(model.example.options) is not None
]
PRIVACY = PrivacySpec(delta=1e-6, epsilon=1.0)


def checked(family: str, schema: Schema = SCHEMA) -> tuple[Histogram, np.ndarray]:
    """A histogram of a family's model, and draws of its parameters."""
    formula = FORMULAS.get(family, "count ~ x")
    histogram = histogram_of(schema, ModelSpec(family=family, formula=formula), 5)
    parameters = len(parameters_of(schema, histogram.model))
    return histogram, np.random.default_rng(3).normal(0.0, 0.4, (4, parameters))


def neighbours() -> list[Table]:
    """Tables that differ in the last row alone."""
    return [
        table_of(SCHEMA, {c.name: [*OTHERS[c.name], v] for c, v in zip(COLUMNS, row, strict=True)})
        for row in LAST
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_replacing_one_row_moves_the_counts_by_the_root_of_two(family):
    """The random numbers are the same, and as many; where a row lies is its own affair."""
    histogram, draws = checked(family)
    every, left = [], set()
    for table in neighbours():
        random = Seeded(7)
        every.append(histogram.counts(table, draws, random))
        left.add(float(random.uniforms((1,))[0]))
    counts = np.array(every)
    assert len(left) == 1
    assert set(counts.sum(axis=1)) == {4, 5}  # one of the others is always left out
    apart = np.linalg.norm((counts[:, None] - counts).astype(float), axis=-1)
    assert apart.max() == math.sqrt(2.0)
    assert counts.shape[1] == histogram.size


def test_a_unit_that_empties_moves_no_more_cells_than_it_has_rows():
    unit = PrivacyUnit(column="person", max_rows=2)
    schema = Schema(columns=COLUMNS, rows=ROWS, privacy_unit=unit)
    histogram, draws = checked("poisson", schema)
    table = neighbours()[0]
    every = []
    for present in itertools.product((True, False), repeat=2):
        used = np.array([True] * (ROWS - 2) + list(present))
        some = Table(table.columns, ROWS, used)
        every.append(histogram.counts(some, draws, Seeded(7)))
    assert [int(counts.sum()) for counts in every] == [5, 4, 4, 3]
    far = [np.linalg.norm((one - every[0]).astype(float)) for one in every]
    assert max(far) <= 2.0 * math.sqrt(2.0)


def test_one_gaussian_event_is_charged_and_its_noise_is_drawn():
    histogram, draws = checked("poisson")
    plan = call.planned(SCHEMA, histogram.model, 5, PRIVACY)
    z = plan.paid.noise_multiplier
    assert plan.paid.event == Gaussian(z)
    assert plan.paid.cost.epsilon == accountant.epsilon(Gaussian(z), 1e-6) <= 1.0
    table, noise = neighbours()[0], []
    for seed in range(2000):
        random = Seeded(seed)
        permit = Permit(subject="rows", event_digest=digest(plan.paid.event))
        counts = call.release(plan, draws, Private(table, subject="rows"), permit, random)
        noise.append(counts - histogram.counts(table, draws, Seeded(seed)))
    assert np.std(noise) == pytest.approx(math.sqrt(2.0) * z, rel=0.03)
    assert plan.noise_sd == pytest.approx(math.sqrt(2.0) * z, rel=1e-3)
    assert abs(np.mean(noise)) < 5.0 * plan.noise_sd / math.sqrt(len(noise) * 5)


def test_persons_are_charged_with_all_of_their_rows():
    unit = PrivacyUnit(column="person", max_rows=2)
    schema = Schema(columns=COLUMNS, rows=ROWS, privacy_unit=unit)
    histogram, _ = checked("poisson", schema)
    plan = call.planned(schema, histogram.model, 5, PRIVACY)
    assert plan.paid.event == of_units(Gaussian(plan.paid.noise_multiplier), 2)
    assert plan.paid.cost.epsilon <= 1.0


def test_no_row_is_opened_by_the_permit_of_another_event():
    histogram, draws = checked("poisson")
    plan = call.planned(SCHEMA, histogram.model, 5, PRIVACY)
    rows = Private(neighbours()[0], subject="rows")
    permit = Permit(subject="rows", event_digest=digest(Gaussian(1.0)))
    with pytest.raises(PermitError):
        call.release(plan, draws, rows, permit, Seeded(1))
