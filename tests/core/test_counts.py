"""Clipped counts, and their slopes where a release looks from afar."""

import numpy as np
import pytest
from scipy.stats import binom, nbinom, poisson

from dpmcmc import ModelOptions, ModelSpec, Schema, sample
from dpmcmc.families import MODELS
from dpmcmc.families.poisson import moments
from dpmcmc.families.scores.base import Evaluation
from tests.sources import Seeded


@pytest.mark.parametrize(("family", "k"), [("poisson", None), ("negative_binomial", 2.0)])
def test_no_secant_is_steeper_than_the_tangents_that_it_lies_between(family, k):
    """A rate just above a count and a half, whose logs nearly agree while the two do not."""
    counts = np.repeat(np.arange(6.0), 400)
    eta = np.log(np.tile(np.exp(np.linspace(-3.0, 3.0, 400)), 6))
    eta[::7] = np.log(counts[::7] + 0.5 + 1e-6)
    one = np.ones(len(counts))
    found = (
        MODELS[family]
        .rows(ModelOptions(dispersion=k))
        .terms(counts, Evaluation(eta[None], one, 0.0 * one, 1e9, 1e9, 1.0, 4.0))
    )
    slope = (found.root[0, 0] ** 2).ravel()
    assert (slope <= np.maximum(np.exp(eta), counts + 0.5) * (1.0 + 1e-9)).all()


def test_powers_of_a_number_are_found_at_any_budget():
    """Means that rise and fall: looks from afar have to see what rows say of each direction."""
    rng = np.random.default_rng(0)
    x = rng.uniform(1.0, 5.0, 20_000)
    rate = np.exp(0.3 * (x - 3.0) - 0.2 * (x - 3.0) ** 2)
    data = {"x": x, "y": rng.poisson(rate).astype(float)}
    schema = Schema.from_frame(data, bounds={"x": (1, 5), "y": (0, 40)})
    for seed, epsilon in enumerate((1.0, 2.0, 4.0, 10.0)):
        model = ModelSpec(family="poisson", formula="y ~ poly(x, 3)")
        told = {"schema": schema, "model": model, "delta": 1e-6, "random": Seeded(50 + seed)}
        found = sample(data, epsilon=epsilon, **told)
        assert found.verdict.status == "reliable"
        for at in (1.5, 3.0, 4.5):
            mean = found.predict([{"x": at}])[0].predictor
            truth = 0.3 * (at - 3.0) - 0.2 * (at - 3.0) ** 2
            assert abs(mean.mean - truth) < 5.0 * mean.sd


@pytest.mark.parametrize(
    ("law", "inverse_size"),
    [
        (poisson(3.7), 0.0),
        (poisson(0.02), 0.0),
        (nbinom(0.6, 0.6 / (0.6 + 3.7)), 1.0 / 0.6),
        (binom(9, 0.3), -1.0 / 9.0),
        (binom(1, 0.3), -1.0),
    ],
    ids=["poisson", "rare", "negative binomial", "binomial", "one trial"],
)
@pytest.mark.parametrize("room", [0.4, 2.2, 3.0, 40.0])
def test_moments_of_clipped_counts_are_sums_over_all_counts(law, inverse_size, room):
    mean = float(law.mean())
    low, high = max(mean - room, 0.0), min(mean + room, law.support()[1])
    counts = np.arange(2000.0)
    chance = law.pmf(counts)
    kept = np.clip(counts, low, high) - mean
    ours = moments(*(np.array([part]) for part in (mean, low, high)), law.cdf, inverse_size)
    middle = chance @ kept
    theirs = middle, chance @ kept**2 - middle**2, chance @ (kept * (counts - mean))
    np.testing.assert_allclose(np.concatenate(ours), theirs, rtol=1e-9, atol=1e-12)
