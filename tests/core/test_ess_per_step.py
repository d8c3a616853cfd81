"""What a plan announces from public facts is what real private runs give."""

import importlib.util

import numba
import numpy as np
import pytest

from dpmcmc.samplers.penalty_efficiency import best_scale, efficiency


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
