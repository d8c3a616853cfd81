"""A replaced row moves a release's sum by at most what its noise is scaled to, for every centre."""

import numpy as np
import pytest

from dpmcmc.families import MODELS
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import NoisyMeanOptions
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec

ROWS = 5
SCHEMA = Schema(
    columns=tuple(NumberColumn(name=name, lower=-30.0, upper=50.0) for name in "uvw"), rows=ROWS
)
CORNERS = np.array([[-30.0, 50.0, 10.0], [50.0, -30.0, 10.0], [10.0, 10.0, 10.0]])


def target_of(rows, tempering):
    spec = JobSpec(
        model=ModelSpec(
            family="gaussian_mean",
            formula="~ u + v + w",
            tempering=tempering,
            options=ModelOptions(variances=(1.0, 9.0, 0.25)),
        ),
        sampler=NoisyMeanOptions(),
        privacy=PrivacySpec(delta=1e-6, epsilon=1.0),
    )
    table = table_of(SCHEMA, {name: rows[:, k] for k, name in enumerate("uvw")})
    return MODELS["gaussian_mean"].target(make_design(SCHEMA, "~ u + v + w"), spec, table, 1)


@pytest.mark.parametrize("tempering", [None, 0.01])
@pytest.mark.parametrize("clip", [0.3, 3.0])
@pytest.mark.parametrize("centre", [(0.0, 0.0, 0.0), (3.0, -2.0, 5.0), (25.0, 5.0, -40.0)])
def test_a_replaced_row_moves_the_sum_by_at_most_the_sensitivity(centre, clip, tempering):
    random = np.random.default_rng(1)
    others = random.uniform(-30, 50, (ROWS - 1, 3))
    middle = 10.0 + np.array(centre) * np.array([1.0, 3.0, 0.5])
    around = middle + random.normal(size=(40, 3)) * np.array([1.0, 3.0, 0.5]) * 8.0
    sums, bound = [], 0.0
    for row in np.clip(np.vstack((CORNERS, around)), -30.0, 50.0):
        target = target_of(np.vstack((others, row)), tempering)
        found, bound = target.gradient(np.array([centre]), clip)
        sums.append(found[0])
    apart = np.linalg.norm(np.array(sums)[:, None] - np.array(sums), axis=-1).max()
    assert bound == pytest.approx(2.0 * clip * (tempering or 1.0))
    assert 0.9 * bound < apart <= bound
