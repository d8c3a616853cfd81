"""With negligible noise the private chain is the exact posterior, of the clipped model as well."""

import numba
import numpy as np
import pytest

from dpmcmc.fit.local import sample, table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyComponentOptions, DpPenaltyOptions, Proposal
from dpmcmc.inputs.spec import ModelSpec, NormalPrior

ROWS = 400
FORMULA = "ill ~ age + group"
PRIOR = 1.5
pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="tens of thousands of steps need the compiler"
)


@pytest.fixture
def rows(schema_of, people):
    x, y = make_design(schema_of(ROWS), FORMULA).build(table_of(schema_of(ROWS), people(ROWS)))
    return x * (2 * y - 1)


def log_posterior(theta, sx, tempering):
    """(draw,) for theta (draw, d)."""
    likelihood = -np.logaddexp(0, -(theta @ sx)).sum(axis=1)
    return tempering * likelihood - 0.5 * (theta**2).sum(axis=1) / PRIOR**2


def exact(sx, tempering):
    """Mean and sd by importance sampling from a Student t around the mode; no chain in it."""
    d = len(sx)
    theta = np.zeros(d)
    for _ in range(50):
        p = 1 / (1 + np.exp(-(theta @ sx)))
        hessian = tempering * (sx * p * (1 - p)) @ sx.T + np.eye(d) / PRIOR**2
        theta += np.linalg.solve(hessian, tempering * sx @ (1 - p) - theta / PRIOR**2)
    rng, df, count = np.random.default_rng(7), 8, 200_000
    z = rng.normal(size=(count, d)) / np.sqrt(rng.chisquare(df, (count, 1)) / df)
    draws = theta + np.linalg.solve(np.linalg.cholesky(hessian).T, z.T).T
    log = np.concatenate([log_posterior(part, sx, tempering) for part in np.split(draws, 200)])
    log += 0.5 * (df + d) * np.log1p((z**2).sum(axis=1) / df)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 0.5 * count  # the weights are nearly even
    mean = weights @ draws
    return mean, np.sqrt(weights @ (draws - mean) ** 2)


def private(schema_of, people, options, tempering=None, random=None):
    result = sample(
        people(ROWS),
        schema=schema_of(ROWS),
        model=ModelSpec(
            family="logistic",
            formula=FORMULA,
            prior=NormalPrior(scale=PRIOR),
            tempering=tempering,
        ),
        delta=1e-6,
        epsilon=1e6,
        sampler=options,
        random=random,
    )
    kept = result.draws[:, result.plan.num_warmup :].reshape(-1, result.draws.shape[2])
    return kept.mean(axis=0), kept.std(axis=0)


def assert_agree(found, reference):
    assert (np.abs(found[0] - reference[0]) < 0.2 * reference[1]).all()
    assert found[1] == pytest.approx(reference[1], rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        DpPenaltyOptions(),
        DpPenaltyOptions(proposal=Proposal(kind="full")),
        DpPenaltyOptions(proposal=Proposal(shape="normal"), num_chains=3),
        DpPenaltyComponentOptions(),
    ],
)
def test_means_and_sds_are_those_of_the_exact_posterior(schema_of, people, rows, seeded, options):
    assert_agree(private(schema_of, people, options, random=seeded(1)), exact(rows, 1.0))


def test_the_tempered_chain_has_the_tempered_posterior(schema_of, people, rows, seeded):
    assert_agree(private(schema_of, people, DpPenaltyOptions(), 0.2, seeded(2)), exact(rows, 0.2))


def clipped_walk(sx, scale, clip, steps, rng):
    """Plain Metropolis with clipped ratios: one normal component move a step, no noise anywhere."""
    d = len(sx)
    theta, draws = np.zeros(d), np.empty((steps, d))
    margin = theta @ sx
    likelihood = -np.logaddexp(0, -margin)
    for t in range(steps):
        j, delta = rng.integers(d), scale * rng.normal()
        moved_margin = margin + delta * sx[j]
        moved = -np.logaddexp(0, -moved_margin)
        prior = -delta * (theta[j] + delta / 2) / PRIOR**2
        if np.log(rng.random()) < np.clip(moved - likelihood, -clip, clip).sum() + prior:
            theta[j] += delta
            margin, likelihood = moved_margin, moved
        draws[t] = theta
    return draws[steps // 10 :]


@pytest.mark.slow
def test_means_and_sds_are_those_of_the_same_clipped_chain(schema_of, people, rows, seeded):
    """Many ratios are cut here; what the cut chain targets depends on its proposals.

    Some 900 and 1700 effective draws: 0.2 sd is five standard errors.
    """
    scale, clip = 0.5, 0.15
    options = DpPenaltyOptions(
        num_steps=40_000,
        num_chains=2,
        num_warmup=2000,
        clip_bound=clip,
        proposal=Proposal(scale=scale, shape="normal"),
    )
    reference = clipped_walk(rows, scale, clip, 150_000, np.random.default_rng(11))
    found = private(schema_of, people, options, random=seeded(12))
    assert_agree(found, (reference.mean(axis=0), reference.std(axis=0)))
    assert not np.allclose(found[0], exact(rows, 1.0)[0], atol=1e-3)
