"""Every sampler, planned by default and nearly without noise, draws from posteriors known exactly.

Means within 0.2 sd, sds within 15 %, and 2,000 thinned draws no further from exact ones, by the
maximum mean discrepancy, than 95 of 100 exact samples are from each other.
"""

import json

import numba
import numpy as np
import pytest

from dpmcmc.evaluation import median_bandwidth, mmd2
from dpmcmc.models.banana import Banana, draw_posterior, simulate
from dpmcmc.run import sample
from dpmcmc.samplers import SAMPLERS
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.spec import ModelOptions, ModelSpec, NormalPrior, PrivacySpec

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="tens of thousands of steps need the compiler"
)
DRAWS, SETS = 2000, 5
STEPS = {"dp_hmc": 6000, "dp_mala": 12_000}  # as good as 20,000 of the others, which are planned
FAST = ("dp_hmc", "dp_mala")


def wide(name, values, room):
    """Bounds that hold the values with room on one side, as bounds do that nobody looked up."""
    low, high = float(np.min(values)), float(np.max(values))
    return NumberColumn(name=name, lower=low, upper=high + room * (high - low))


def means():
    """(schema, columns, model, exact draws) of the mean of three columns."""
    rng, rows, variances = np.random.default_rng(21), 1000, np.array([4.0, 1.0, 9.0])
    values = np.array([3.0, -1.0, 10.0]) + np.sqrt(variances) * rng.normal(size=(rows, 3))
    model = ModelSpec(
        family="gaussian_mean",
        formula="~ x0 + x1 + x2",
        prior=NormalPrior(scale=20.0),
        options=ModelOptions(variances=tuple(variances)),
    )
    posterior = 1 / (rows / variances + 1 / 20.0**2)
    middle = posterior * values.sum(axis=0) / variances
    exact = middle + np.sqrt(posterior) * rng.normal(size=(30 * DRAWS, 3))
    return values, model, exact


def bananas():
    """(schema, columns, model, exact draws) of a tempered banana."""
    rng, rows, tempering = np.random.default_rng(22), 2000, 0.02
    banana = Banana(variances=(1.0, 0.5), a=0.6, b=0.1, m=0.2, prior_variance=100.0)
    values = simulate(banana, np.array([0.3, -0.2]), rows, random=rng)
    model = ModelSpec(
        family="banana",
        formula="~ x0 + x1",
        prior=NormalPrior(scale=10.0),
        tempering=tempering,
        options=ModelOptions(variances=banana.variances, a=banana.a, b=banana.b, m=banana.m),
    )
    exact = draw_posterior(
        banana, values.mean(axis=0), rows, 30 * DRAWS, random=rng, tempering=tempering
    )
    return values, model, exact


KNOWN = {"gaussian_mean": means, "banana": bananas}


@pytest.fixture(scope="module")
def known():
    """name -> (schema, columns, model, exact draws in their own sds, sds, bandwidth, floor)."""
    found = {}
    for name, make in KNOWN.items():
        values, model, exact = make()
        columns = {f"x{k}": column for k, column in enumerate(values.T)}
        schema = Schema(
            columns=tuple(wide(name, column, 0.5) for name, column in columns.items()),
            rows=len(values),
        )
        sds = exact.std(axis=0)
        parts = (exact / sds).reshape(30, DRAWS, -1)
        bandwidth = median_bandwidth(parts[0], parts[1], random=np.random.default_rng(1))
        apart = [mmd2(*parts[2 * k : 2 * k + 2], bandwidth) for k in range(15)]
        floor = float(np.quantile(np.sqrt(np.abs(apart)), 0.95))
        found[name] = (schema, columns, model, parts, sds, bandwidth, floor)
    return found


def chain(algorithm, schema, columns, model, random, **options):
    result = sample(
        columns,
        schema=schema,
        model=model,
        privacy=PrivacySpec(delta=1e-6, epsilon=1e6),
        sampler=SAMPLERS[algorithm].options(**options),
        random=random,
    )
    kept = result.draws[:, result.plan.num_warmup :]
    return kept.reshape(-1, kept.shape[2])


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("algorithm", SAMPLERS)
def test_every_sampler_draws_from_the_exact_posterior(known, seeded, algorithm, name):
    schema, columns, model, parts, sds, bandwidth, floor = known[name]
    options = {"num_steps": STEPS[algorithm]} if algorithm in STEPS else {}
    draws = chain(algorithm, schema, columns, model, seeded(3), **options) / sds
    exact = parts.reshape(-1, parts.shape[2])
    assert np.abs(draws.mean(axis=0) - exact.mean(axis=0)).max() < 0.2
    np.testing.assert_allclose(draws.std(axis=0), 1.0, rtol=0.15)
    thinned = [draws[k :: len(draws) // DRAWS][:DRAWS] for k in range(SETS)]
    apart = [mmd2(some, parts[k], bandwidth) for k, some in enumerate(thinned)]
    assert np.sqrt(max(np.mean(apart), 0.0)) < floor


def raw(draws, columns):
    """Coefficients of the standardised design as those of the columns themselves."""
    middle = np.array([(column.lower + column.upper) / 2 for column in columns])
    half = np.array([(column.upper - column.lower) / 2 for column in columns])
    slopes = draws[:, 1:] / half
    return np.column_stack((draws[:, 0] - slopes @ middle, slopes))


@pytest.mark.parametrize("algorithm", FAST)
def test_trajectories_have_the_posterior_of_wells(shared_dir, seeded, algorithm):
    """The column is skewed and its bounds are too wide: level and slope are correlated."""
    folder = shared_dir / "data" / "posteriors"
    known = json.loads((folder / "index.json").read_text())["wells_data-wells_dist100_model"]
    stored = np.load(folder / "wells_data-wells_dist100_model.npz")
    far = stored["X"][:, 1]
    schema = Schema(
        columns=(wide("far", far, 1.0), BinaryColumn(name="y", categories=("0", "1"))),
        rows=len(far),
    )
    columns = {"far": far, "y": np.where(stored["y"] > 0, "1", "0")}
    model = ModelSpec(family="logistic", formula="y ~ far", prior=NormalPrior(scale=1000.0))
    draws = chain(algorithm, schema, columns, model, seeded(4), num_steps=STEPS[algorithm])
    found = raw(draws, schema.columns[:1])
    sds = np.array(known["ref_sd"])
    assert (np.abs(found.mean(axis=0) - known["ref_mean"]) < 0.2 * sds).all()
    np.testing.assert_allclose(found.std(axis=0), sds, rtol=0.15)
