"""Every sampler, planned by default and nearly without noise, draws from posteriors known exactly.

Means within 0.2 sd, sds within 15 %, and 2,000 thinned draws no further from exact ones, by the
maximum mean discrepancy, than 95 of 100 exact samples are from each other: experiments/agreement.py
does the same for more posteriors. Declared bounds are three times as wide as rows, or off them.
"""

import numba
import numpy as np
import pytest

from dpmcmc.fit.local import sample
from dpmcmc.samplers import SAMPLERS
from experiments.agreement import compared, reference
from experiments.posteriors import stored

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="tens of thousands of steps need the compiler"
)
STEPS = {"dp_hmc": 6000, "dp_mala": 12_000}  # as good as 20,000 of the others, which are planned
KNOWN = ("means/off-centre", "banana-2-tempered/off-centre", "linear-known/wide", "linear/wide")


def chain(algorithm, known, random):
    """Draws (draw, d) after warm-up, in the parameters of the reference."""
    steps = STEPS.get(algorithm)
    result = sample(
        known.columns,
        schema=known.schema,
        model=known.model,
        delta=1e-6,
        epsilon=1e6,
        sampler=SAMPLERS[algorithm].options(num_steps=steps),
        random=random,
        accept_low_quality=True,
    )
    kept = result.draws[:, result.plan.num_warmup :]
    return known.read(kept.reshape(-1, kept.shape[2]))


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("algorithm", SAMPLERS)
def test_every_sampler_draws_from_the_exact_posterior(seeded, algorithm, name):
    """Of exact samples one in twenty lies beyond the floor too: then a second run decides."""
    for seed in (3, 4):
        found = compared(chain(algorithm, reference(name)[0], seeded(seed)), name)
        assert found["mean"] < 0.2
        assert found["sd"] < 0.15
        if found["mmd"] < found["floor"]:
            return
    pytest.fail(f"mmd {found['mmd']:.4f}, floor {found['floor']:.4f}")


@pytest.mark.parametrize("algorithm", STEPS)
def test_trajectories_have_the_posterior_of_wells(shared_dir, seeded, algorithm):
    """The column is skewed and its bounds are off: level and slope are correlated."""
    known = stored("wells", "off-centre", folder=shared_dir)
    draws = chain(algorithm, known, seeded(4))
    assert (np.abs(draws.mean(axis=0) - known.means) < 0.2 * known.sds).all()
    np.testing.assert_allclose(draws.std(axis=0), known.sds, rtol=0.15)
