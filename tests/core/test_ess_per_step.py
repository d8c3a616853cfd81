"""What a plan announces from public facts is what real private runs give."""

import importlib.util

import numba
import numpy as np
import pytest

from dpmcmc.samplers.adaptation import LENGTHS
from dpmcmc.samplers.penalty_efficiency import (
    best_length,
    best_scale,
    efficiency,
    guided_efficiency,
)


@pytest.fixture(scope="module")
def experiment(repository):
    path = repository / "experiments" / "ess_per_step.py"
    specification = importlib.util.spec_from_file_location("ess_per_step", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", ["normal", "bactrian"])
@pytest.mark.parametrize("noise", [0.0, 1.0, 4.0])
def test_the_law_is_that_of_the_exact_chain(experiment, shape, noise):
    scale = best_scale(noise)
    exact = experiment.exact_efficiency(shape, noise, scale)
    assert efficiency(shape, noise, scale) == pytest.approx(exact, rel=0.2)
    for other in (0.5, 2.0):
        assert experiment.exact_efficiency(shape, noise, other * scale) < exact


@pytest.mark.parametrize("shape", ["normal", "bactrian"])
@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_the_law_of_guided_walks_is_that_of_the_exact_chain(experiment, shape, noise):
    """At noise .1 a Bactrian walk gives 1.65 times what the spread of its short steps says."""
    for share in (0.3, 0.5, 0.65):
        scale = share * best_scale(noise)
        exact = experiment.exact_efficiency(shape, noise, scale, guided=True)
        assert guided_efficiency(shape, noise, scale) == pytest.approx(exact, rel=0.25)


@pytest.mark.parametrize("shape", ["normal", "bactrian"])
@pytest.mark.parametrize("noise", [0.5, 1.5, 3.0, 5.0])
def test_the_law_holds_of_long_moves_with_the_noise_of_a_clip(experiment, shape, noise):
    """A clipped interval has the same noise for moves of any length: .15 was told where .10 is."""
    for scale in (0.5, 1.8, 3.0, 4.0):
        exact = experiment.exact_efficiency(shape, noise / scale, scale)
        assert efficiency(shape, noise / scale, scale) == pytest.approx(exact, rel=0.25)


def test_moves_are_as_long_as_is_best_of_all_lengths():
    """Short moves below a clip have less noise for their length, and long ones more draws."""
    for wide in (5.0, 40.0, 400.0):
        noises = np.minimum(wide * LENGTHS, 3.0) / LENGTHS
        scale, draws = best_length("bactrian", False, noises, 1, LENGTHS)
        pairs = zip(noises, LENGTHS, strict=True)
        assert draws > 0.99 * max(efficiency("bactrian", noise, s) for noise, s in pairs)
        assert scale > 2.0


@pytest.mark.slow
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs the compiler")
def test_measured_ess_is_no_less_than_half_of_what_is_announced(experiment):
    rows = experiment.demo(runs=4)
    for epsilon in (2.0, 4.0, 8.0):
        some = [row for row in rows if row["epsilon"] == epsilon]
        measured = float(np.mean([row["measured"] for row in some]))
        # stated for large effects, of which these rows have fewer
        assert 0.25 < some[0]["expected"] / measured < 2.0


@pytest.mark.compiled("thousands of steps")
@pytest.mark.slow
def test_the_samplers_own_steps_give_what_their_models_expect(experiment):
    """HMC and MALA give more than their mixing model expects of clipped gradients."""
    for row in experiment.samplers(quick=True):
        least = 0.2 if row["sampler"] in ("dp_hmc", "dp_mala") else 0.5
        assert least < row["expected_over_measured"] < 1.7, row
