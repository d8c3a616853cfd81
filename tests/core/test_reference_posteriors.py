"""With negligible noise the chains are the reference posteriors that others computed with Stan."""

import numba
import numpy as np
import pytest

from dpmcmc.families.banana import Banana, draw_posterior, simulate
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import DpPenaltyComponentOptions, DpPenaltyOptions, Proposal
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import ModelOptions, ModelSpec, NormalPrior
from experiments.posteriors import number, stored

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="tens of thousands of steps need the compiler"
)


def chain(known, options, random):
    """Draws of a posterior that others computed, in their parameters."""
    result = sample(
        known.columns,
        schema=known.schema,
        model=known.model,
        delta=1e-6,
        epsilon=1e6,
        sampler=options,
        random=random,
    )
    kept = result.draws[:, result.plan.num_warmup :].reshape(-1, result.draws.shape[2])
    return known.read(kept)


def assert_agree(draws, means, sds):
    assert (np.abs(draws.mean(axis=0) - means) < 0.2 * np.array(sds)).all()
    np.testing.assert_allclose(draws.std(axis=0), sds, rtol=0.15)


@pytest.mark.parametrize("name", ["kidiq", "nes1980", "earnings"])
def test_linear_regression_has_the_reference_posterior(shared_dir, seeded, name):
    known = stored(name, folder=shared_dir)
    draws = chain(known, DpPenaltyOptions(num_steps=40_000, num_chains=2), seeded(1))
    assert_agree(draws, known.means, known.sds)


def test_logistic_regression_has_the_reference_posterior(shared_dir, seeded):
    known = stored("wells", folder=shared_dir)
    draws = chain(known, DpPenaltyComponentOptions(num_steps=8000, num_chains=2), seeded(2))
    assert_agree(draws, known.means, known.sds)


ROWS = 2000
BANANA = Banana(variances=(1.0, 0.5), a=0.6, b=0.1, m=0.2, prior_variance=4.0)


@pytest.fixture
def bananas():
    """Rows around (0.3, -0.2), their schema, and draws from the exact posterior."""
    rng = np.random.default_rng(3)
    rows = simulate(BANANA, np.array([0.3, -0.2]), ROWS, random=rng)
    columns = tuple(number(f"x{k}", column) for k, column in enumerate(rows.T))
    exact = draw_posterior(BANANA, rows.mean(axis=0), ROWS, 20_000, random=rng, tempering=0.05)
    return Schema(columns=columns, rows=ROWS), {f"x{k}": c for k, c in enumerate(rows.T)}, exact


@pytest.mark.parametrize("coordinates", ["straight", "natural"])
def test_the_banana_has_its_exact_posterior(bananas, seeded, coordinates):
    schema, data, exact = bananas
    constants = {"a": BANANA.a, "b": BANANA.b, "m": BANANA.m, "variances": BANANA.variances}
    result = sample(
        data,
        schema=schema,
        model=ModelSpec(
            family="banana",
            formula="~ x0 + x1",
            prior=NormalPrior(scale=2.0),
            tempering=0.05,
            options=ModelOptions(coordinates=coordinates, **constants),
        ),
        delta=1e-6,
        epsilon=1e6,
        sampler=DpPenaltyOptions(num_steps=8000, num_chains=2, proposal=Proposal(scale=0.25)),
        random=seeded(4),
    )
    kept = result.draws[:, result.plan.num_warmup :].reshape(-1, 2)
    assert_agree(kept, exact.mean(axis=0), exact.std(axis=0))


def test_poisson_regression_has_its_exact_posterior(seeded):
    """One rate: with a wide prior on its log it is nearly a Gamma(sum, n)."""
    rng = np.random.default_rng(5)
    counts = np.minimum(rng.poisson(2.5, 400), 12).astype(float)
    schema = Schema(columns=(NumberColumn(name="y", lower=0, upper=12),), rows=400)
    result = sample(
        {"y": counts},
        schema=schema,
        model=ModelSpec(family="poisson", formula="y ~ 1", prior=NormalPrior(scale=100.0)),
        delta=1e-6,
        epsilon=1e6,
        sampler=DpPenaltyOptions(num_steps=8000),
        random=seeded(6),
    )
    kept = result.draws[:, result.plan.num_warmup :].reshape(-1, 1)
    rates = np.log(rng.gamma(counts.sum(), 1 / 400, 20_000))
    assert_agree(kept, [rates.mean()], [rates.std()])
