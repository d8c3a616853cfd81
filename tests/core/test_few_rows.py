"""One to three rows: noise never makes a posterior narrower than rows could make it."""

import warnings

import numpy as np
import pytest

from dpmcmc import Schema, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.releases.quadratic import Quadratic
from dpmcmc.samplers import SAMPLERS
from tests.sources import Seeded

BOUNDS = {
    "x": (0, 10),
    "t": (-5, 5),
    "y": ("no", "yes"),
    "c": (0, 20),
    "g": ("a", "b", "c"),
    "h": ("a", "b", "c"),
    "w": (0.5, 2),
}
MODELS = {
    "linear": "t ~ x + h",
    "logistic": "y ~ x + h",
    "poisson": "c ~ x + h",
    "multinomial": "g ~ h",
}


def people(rows):
    rng = np.random.default_rng(rows)
    return {
        "x": rng.uniform(0, 10, rows),
        "t": rng.normal(size=rows),
        "y": ["yes"] * rows,
        "c": rng.poisson(1, rows),
        "g": ["b"] * rows,
        "h": ["a", "b", "c"][:rows] + ["a"] * (rows - 3),
        "w": np.ones(rows),
    }


def fitted(family, rows, epsilon, seed=1, sampler="noisy_quadratic"):
    data = people(rows)
    schema = Schema.from_frame(data, bounds=BOUNDS)
    return sample(
        MODELS[family],
        data,
        schema,
        epsilon=epsilon,
        delta=1e-6,
        sampler=sampler,
        family=family,
        progress=False,
        random=Seeded(seed),
        accept_low_quality=True,
    )


def sds_over_priors(fit):
    """Return sds of the draws over those of the priors, in the coordinates of the priors."""
    prior, rows = fit.plan.spec.model.prior, fit.summary("design", mixing=False)
    scales = [(prior[row.name] if isinstance(prior, dict) else prior).scale for row in rows]
    return np.array([row.sd for row in rows]) / scales


@pytest.mark.slow
@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1, 10])
@pytest.mark.parametrize("estimand", ["robust", "model"])
def test_what_noise_hides_is_left_to_the_prior(family, rows, epsilon, estimand):
    sampler = NoisyQuadraticOptions(estimand=estimand)
    for seed in range(3):
        with warnings.catch_warnings(action="error"):
            fit = fitted(family, rows, epsilon, seed, sampler)
        assert fit.verdict.status == "unreliable"
        assert sds_over_priors(fit).min() > 0.85


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize("rows", [1, 3])
def test_variational_posteriors_are_no_narrower(family, rows):
    for epsilon in (0.1, 1.0, 10.0):
        fit = fitted(family, rows, epsilon, sampler="dp_vi")
        assert fit.verdict.status == "unreliable"
        assert sds_over_priors(fit).min() > 0.85


@pytest.mark.parametrize("algorithm", sorted(SAMPLERS))
@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_a_chain_over_so_few_rows_is_planned_as_of_no_use(family, algorithm):
    """It stays where it began, and draws alone would look sure."""
    model = ModelSpec(family=family, formula=MODELS[family])
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    spec = JobSpec(model=model, sampler=SAMPLERS[algorithm].options(), privacy=privacy)
    assert not plan(Schema.from_frame(people(3), bounds=BOUNDS), spec, advise=False).usable


@pytest.mark.parametrize("family", MODELS)
def test_a_free_posterior_under_a_wide_prior_is_as_wide(family):
    fit = fitted(family, 2, 1.0)
    name = fit.plan.parameters[1]
    wide = fit.release.posterior({name: NormalPrior(scale=30.0)}, 2_000, scale="design")
    assert np.std(wide.draws[:, 1]) > 25


@pytest.mark.parametrize("family", MODELS)
def test_curvature_of_many_rows_is_left_as_it_is(family):
    """The bound is public and far from what many rows say: not one draw depends on it."""
    told = fitted(family, 2_000, 2.0).release.to_dict()
    assert told["most"] > 0
    mean, precision = np.zeros(len(told["place"]) + told["scaled"]), 0.1
    bounded, free = (
        Quadratic.from_dict(one).posterior(mean, np.full(len(mean), precision), Seeded(2))
        for one in (told, told | {"most": None})
    )
    assert np.array_equal(bounded.means, free.means)
    assert np.array_equal(bounded.roots, free.roots)


def test_no_likelihood_is_larger_than_all_rows_allow():
    told = fitted("logistic", 3, 1.0).release.to_dict()
    found = Quadratic.from_dict(told)
    curves = np.eye(len(found.place))[None] * 1e6
    whole, gain = found.likelihoods(curves, np.zeros((len(found.place),) * 2))
    back = np.linalg.inv(found.root)
    sizes = np.linalg.eigvalsh(back.T @ whole[0] @ back)
    assert sizes.max() <= told["most"] * (1 + 1e-9)
    assert np.isfinite(gain).all()
