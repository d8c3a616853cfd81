"""The penalty step decides as its formula says, with noise of the size that was paid for."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpmcmc.inputs.options import DpPenaltyComponentOptions, DpPenaltyOptions
from dpmcmc.privacy.discrete import gaussian_noise, scale_of
from dpmcmc.privacy.events import Gaussian, Repeat
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.sites import PENALTY_DECISION
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.adaptation import axes, drawn
from dpmcmc.samplers.penalty import amounts, penalty_event
from experiments.stepped import decided

CHAINS = 400_000


def decide(total, sensitivity, noise_multiplier, prior=0.0, uniforms=None):
    source = SystemRandom()
    noise = gaussian_noise(source, PENALTY_DECISION, noise_multiplier, (CHAINS,))
    uniforms = source.uniforms((CHAINS,)) if uniforms is None else uniforms
    scale = scale_of(noise_multiplier)
    return float(np.mean(decided(total, sensitivity, prior, scale, noise, uniforms)))


@pytest.mark.compiled("400,000 draws of noise")
@pytest.mark.parametrize(("sensitivity", "multiplier"), [(0.004, 250.0), (3.0, 0.5)])
def test_the_noise_has_the_size_that_was_paid_for(sensitivity, multiplier):
    """Fixed uniforms leave only the noise to decide: P(accept) = P(s N > t) at t = s and t = -s.

    Noise that is 5 % too small moves each by 0.012, which is 21 standard errors.
    """
    s = sensitivity * multiplier
    uniforms = np.full(CHAINS, 0.5)
    for sign in (1.0, -1.0):
        total = 0.5 * s * s + math.log(0.5) + sign * s
        found = decide(total, sensitivity, multiplier, uniforms=uniforms)
        assert found == pytest.approx(norm.cdf(sign), abs=4.5 * math.sqrt(0.14 / CHAINS))


@pytest.mark.compiled("400,000 draws of noise")
@pytest.mark.parametrize("lam", [-2.0, 0.0, 1.5])
def test_acceptance_satisfies_detailed_balance(lam):
    """P(accept) = Phi(lam/s - s/2) + e^lam Phi(-lam/s - s/2): its ratio to -lam's is e^lam."""
    s = 2.0
    found = decide(lam - 0.3, 0.01, s / 0.01, prior=0.3)
    expected = norm.cdf(lam / s - s / 2) + math.exp(lam) * norm.cdf(-lam / s - s / 2)
    assert found == pytest.approx(expected, abs=4.5 * math.sqrt(0.25 / CHAINS))


@pytest.mark.compiled("400,000 moves")
@pytest.mark.parametrize("shape", ["normal", "bactrian"])
def test_proposals_are_symmetric_with_the_scale_asked_for(shape):
    source, walk = SystemRandom(), axes(0.3, 1, "component")
    found = walk.along(*drawn(walk, (1, CHAINS), amounts(shape), source))[0, :, 0]
    assert abs(found.mean()) < 4.5 * 0.3 / math.sqrt(CHAINS)
    assert found.std() == pytest.approx(0.3, rel=0.006)


def test_bactrian_proposals_waste_nothing_on_short_moves():
    found = amounts("bactrian")((CHAINS,), SystemRandom())
    assert np.mean(np.abs(found) < 0.3) < 0.03


@pytest.mark.parametrize("options", [DpPenaltyOptions, DpPenaltyComponentOptions])
def test_every_step_of_every_chain_is_charged(options):
    event = penalty_event(options(num_steps=70, num_chains=3, num_warmup=20), 5.0, 1000)
    assert event == Repeat(Gaussian(5.0), 210)


class Nowhere:
    """A target that no step is taken on."""

    position = np.zeros((1, 1))


def test_an_open_job_has_no_event():
    with pytest.raises(ValueError, match="must be known"):
        penalty_event(DpPenaltyOptions(num_chains=1), 5.0, 1000)
    with pytest.raises(ValueError, match="must be known"):
        SAMPLERS["dp_penalty"].init(Nowhere(), DpPenaltyOptions(), 5.0, SystemRandom())
