"""Priors of many coefficients of which few act: against sums over all models, and integrals."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import kstest, multivariate_normal

from dpmcmc import (
    CoefficientPrior,
    NormalPrior,
    Schema,
    horseshoe,
    plan,
    r2d2,
    sample,
    spike_and_slab,
)
from dpmcmc.base.errors import SpecError
from dpmcmc.posterior.free.priors import checked, inverse_gaussian_like
from dpmcmc.posterior.free.walk import walked
from dpmcmc.privacy.noise import SystemRandom

NONE = (np.zeros(3), np.zeros(3))
MEANS = np.array([[0.9, 0.15, -0.5], [0.7, 0.3, -0.2]])
COVARIANCE = 0.04 * np.array([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
COVARIANCES = np.stack((COVARIANCE, 2.0 * COVARIANCE))


def walk(prior, means=MEANS, covariances=COVARIANCES):
    given = dict.fromkeys(range(means.shape[1]), prior)
    return walked(means, covariances, given, NONE, 16_000, SystemRandom())


@pytest.mark.parametrize("rate", [0.2, None])
def test_spikes_and_slabs_sum_over_all_models(rate):
    found = walk(spike_and_slab(inclusion=rate, slab_sd=0.8))
    inclusion, means = np.zeros(3), np.zeros(3)
    for mean, covariance in zip(MEANS, COVARIANCES, strict=True):
        total, acting, middle = 0.0, np.zeros(3), np.zeros(3)
        for model in itertools.product([0.0, 1.0], repeat=3):
            count, slab = sum(model), np.diag(0.64 * np.array(model))
            prior = (
                math.exp(betaln(1 + count, 4 - count))
                if rate is None
                else rate**count * (1 - rate) ** (3 - count)
            )
            weight = prior * multivariate_normal.pdf(mean, np.zeros(3), covariance + slab)
            total += weight
            acting += weight * np.array(model)
            middle += weight * (slab @ np.linalg.solve(covariance + slab, mean))
        inclusion += 0.5 * acting / total
        means += 0.5 * middle / total
    assert [found.inclusion[k] for k in range(3)] == pytest.approx(inclusion, abs=0.02)
    draws, _ = found.coefficients(16_000, SystemRandom())
    assert (draws != 0.0).mean(axis=0) == pytest.approx(inclusion, abs=0.03)
    assert draws.mean(axis=0) == pytest.approx(means, abs=0.02)
    assert found.r_hat < 1.01


def agrees(found, mean, covariance, sds, slab=np.inf):
    """Means and sds are those over draws (count, 3) of the sds of normal priors, by importance."""
    inner = np.linalg.inv(covariance)
    whole = inner + np.eye(3) * (sds**-2.0 + slab**-2.0)[:, None]
    pull = inner @ mean
    middle = np.linalg.solve(whole, np.broadcast_to(pull, sds.shape)[..., None])[..., 0]
    logs = 0.5 * (middle @ pull) - 0.5 * np.linalg.slogdet(whole)[1] - np.log(sds).sum(axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    second = np.diagonal(np.linalg.inv(whole), axis1=1, axis2=2) + middle**2
    wanted, draws = weights @ middle, found.coefficients(16_000, SystemRandom())[0]
    assert draws.mean(axis=0) == pytest.approx(wanted, abs=0.015)
    assert draws.std(axis=0) == pytest.approx(np.sqrt(weights @ second - wanted**2), abs=0.015)
    assert found.r_hat < 1.01
    assert found.inclusion == {}


def test_a_horseshoe_is_the_integral_over_its_scales():
    mean, covariance, scale, slab = MEANS[0], COVARIANCE, 0.1, 1.5
    found = walk(horseshoe(scale=scale, slab_sd=slab), mean[None], covariance[None])
    rng, count = np.random.default_rng(1), 100_000
    common = scale * np.abs(rng.standard_cauchy(count))
    sds = common[:, None] * np.abs(rng.standard_cauchy((count, 3)))
    agrees(found, mean, covariance, sds, slab)


def test_a_coefficient_that_never_acts_has_a_finite_r_hat():
    means = np.array([[0.0, 3.0, 0.0]])
    found = walk(spike_and_slab(inclusion=1e-6, slab_sd=0.8), means, COVARIANCE[None])
    assert found.r_hat < 1.01
    assert found.inclusion[0] < 1e-3
    assert found.inclusion[1] > 0.999


@pytest.mark.parametrize(
    ("prior", "field"),
    [
        (CoefficientPrior(kind="horseshoe", lower=0.0), "lower"),
        (CoefficientPrior(kind="horseshoe", inclusion=0.5), "inclusion"),
        (CoefficientPrior(kind="horseshoe", loc=1.0), "loc"),
        (CoefficientPrior(kind="horseshoe", scale=0.0), "scale"),
        (CoefficientPrior(kind="spike_and_slab", scale=1.0), "scale"),
        (CoefficientPrior(kind="spike_and_slab", inclusion=1.0), "inclusion"),
        (CoefficientPrior(kind="spike_and_slab", slab_sd=math.nan), "slab_sd"),
        (CoefficientPrior(kind="normal", scale=1.0, slab_sd=1.0), "slab_sd"),
        (CoefficientPrior(kind="spike_and_slab", df=3.0), "df"),
        (CoefficientPrior(kind="r2d2", scale=1.0), "scale"),
        (CoefficientPrior(kind="r2d2", slab_sd=1.0), "slab_sd"),
        (CoefficientPrior(kind="r2d2", mean_r2=1.0), "mean_r2"),
        (CoefficientPrior(kind="r2d2", prec_r2=math.nan), "prec_r2"),
        (CoefficientPrior(kind="normal", scale=1.0, cons_d2=0.5), "cons_d2"),
    ],
)
def test_what_such_a_prior_does_not_have_is_refused(prior, field):
    with pytest.raises(SpecError) as caught:
        checked(prior, "/prior/x")
    assert caught.value.pointer == f"/prior/x/{field}"


@pytest.mark.parametrize(
    ("power", "omega"),
    [(0.0, 0.3), (-0.4, 1e-3), (0.5, 2.0), (3.0, 0.05), (-2.0, 40.0), (0.0, 1e-6)],
)
def test_generalised_inverse_gaussians_have_their_distribution(power, omega):
    draws = np.log(inverse_gaussian_like(power, np.full(20_000, omega), SystemRandom()))
    at = np.linspace(-30.0, 30.0, 200_001)
    logs = power * at - omega * np.cosh(at)
    ends = np.cumsum(np.exp(logs - logs.max()))
    assert kstest(draws, lambda x: np.interp(x, at, ends / ends[-1])).pvalue > 1e-4


@pytest.mark.parametrize("concentration", [None, 2.0])
def test_an_r2d2_prior_is_the_integral_over_what_is_explained(concentration):
    mean, covariance = MEANS[0], COVARIANCE
    prior = dataclasses.replace(r2d2(0.4, 3.0, concentration).filled(1.0), scale=0.7)
    found = walk(prior, mean[None], covariance[None])
    rng, count = np.random.default_rng(1), 200_000
    share = rng.beta(1.2, 1.8, count)
    parts = rng.dirichlet([concentration or 0.5] * 3, count)
    sds = 0.7 * np.sqrt(parts * (share / (1 - share))[:, None])
    agrees(found, mean, covariance, np.maximum(sds, 1e-6))


ROWS = 20_000
COLUMNS = [f"x{k}" for k in range(8)]


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(4)
    rows = {name: rng.uniform(0, 10, ROWS) for name in COLUMNS}
    predictor = 0.12 * (rows["x0"] - 5) - 0.12 * (rows["x1"] - 5)
    rows["y"] = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-predictor)), "yes", "no")
    bounds = {**dict.fromkeys(COLUMNS, (0, 10)), "y": ("no", "yes")}
    schema = Schema.from_frame(rows, bounds=bounds, privacy_unit="row")
    return sample("y ~ " + " + ".join(COLUMNS), rows, schema, epsilon=2, delta=1e-6)


def test_one_release_says_which_coefficients_act(fit):
    free = fit.release.posterior(spike_and_slab())
    assert list(free.inclusion) == COLUMNS  # an intercept is always there
    assert min(free.inclusion["x0"], free.inclusion["x1"]) > 0.95
    assert max(free.inclusion[name] for name in COLUMNS[2:]) < 0.6
    assert free.verdict.status == "reliable"
    plain, few = (fit.release.posterior(prior).summary() for prior in ({}, "horseshoe(scale=0.02)"))
    sizes = [sum(free[name].mean ** 2 for name in COLUMNS[2:]) for free in (plain, few)]
    assert sizes[1] < 0.8 * sizes[0]
    assert few["x0"].mean == pytest.approx(0.12, abs=0.03)
    with pytest.raises(SpecError, match="no Bayes factor"):
        free.bayes_factor({"x0": 0.0})


def test_a_written_prior_is_in_the_units_of_its_column(fit):
    written = fit.release.posterior({"x0": "normal(0, 0.01)"})
    standardised = fit.release.posterior({"x0": NormalPrior(scale=0.05)})
    assert written.priors["x0"].scale == pytest.approx(0.05)
    assert written.summary()["x0"].mean == pytest.approx(
        standardised.summary()["x0"].mean, abs=0.002
    )
    bounded = fit.release.posterior({"x0": "student_t(4, 0, 0.1, lower=0)"})
    assert bounded.priors["x0"].df == 4.0
    assert bounded.draws[:, fit.release.index("x0", "")].min() >= 0.0


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ({"x0": "normal(0)"}, "scale"),
        ({"x0": "norml(0, 1)"}, "normal"),
        ({"x0": "normal(0, x1)"}, "number for scale"),
        ({"x0": "normal(0, 1, 2)"}, "too many"),
        ({"x0": "normal(0, 1, df=3)"}, "does not take"),
        ({"x0": "__import__('os')"}, "must be one of"),
        ({"x0": "0.02"}, "as one writes it"),
        ({"Intercept": "normal(0, 1)"}, "sum of several"),
        ({"z": "normal(0, 1)"}, "no parameter"),
        ("normal(0, 1)", "by parameter"),
    ],
)
def test_what_is_written_wrongly_is_refused_with_what_is_right(fit, prior, words):
    with pytest.raises(SpecError, match=words):
        fit.release.posterior(prior)


def test_a_job_takes_written_normal_priors():
    schema = Schema.from_frame(
        {"age": [20.0], "y": [1.0]}, bounds={"age": (20, 80), "y": (0, 10)}, privacy_unit="row"
    )
    schema = dataclasses.replace(schema, rows=20_000)
    planned = plan("y ~ age", schema, epsilon=1, prior={"age": "normal(0.01, 0.02)"})
    assert planned.spec.model.prior["age"] == NormalPrior(
        loc=pytest.approx(0.3), scale=pytest.approx(0.6)
    )
    for wrong in ({"age": "cauchy(0, 1)"}, "horseshoe()"):
        with pytest.raises(SpecError, match="afterwards"):
            plan("y ~ age", schema, epsilon=1, prior=wrong)


def test_models_of_one_release_are_compared_by_its_densities(fit):
    small, smaller = "y ~ x0 + x1", "y ~ x0"
    whole, right, wrong = fit.release.compare([small, smaller])
    assert sum(model.probability for model in (whole, right, wrong)) == pytest.approx(1.0)
    assert right.probability > 0.9
    assert wrong.without == tuple(COLUMNS[1:])
    free = fit.release.posterior(scale="design")
    null = dict.fromkeys(COLUMNS[2:], 0.0)
    assert right.log_bayes_factor == pytest.approx(
        -free.bayes_factor(null).log, abs=4 * right.error + 0.2
    )


@pytest.mark.parametrize(
    ("formulas", "words"),
    [
        ([], "list of formulas"),
        ("y ~ x0", "list of formulas"),
        (["y ~ x0 + I(x1**2)"], "has not"),
        (["x1 ~ x0"], "response"),
        (["y ~ 0 + x0"], "has"),
        (["y ~ x9"], "x9"),
        (["y ~ x0", "y ~ x0"], "same model"),
    ],
)
def test_models_that_are_no_part_of_the_job_are_refused(fit, formulas, words):
    with pytest.raises(SpecError, match=words):
        fit.release.compare(formulas)


def test_what_is_explained_decides_how_far_coefficients_are_drawn_to_zero(fit):
    plain, little = (
        fit.release.posterior(p).summary() for p in ({}, "R2D2(mean_R2=0.02, prec_R2=50)")
    )
    sizes = [sum(free[name].mean ** 2 for name in COLUMNS[2:]) for free in (plain, little)]
    assert sizes[1] < 0.8 * sizes[0]
    same = fit.release.posterior(r2d2(mean_r2=0.02, prec_r2=50)).summary()
    assert same["x0"].mean == pytest.approx(little["x0"].mean, abs=0.01)
    one = fit.release.posterior({"x0": "R2D2()"})
    assert one.summary()["x0"].mean == pytest.approx(plain["x0"].mean, abs=0.03)
    with pytest.raises(SpecError, match="no Bayes factor"):
        one.bayes_factor({"x0": 0.0})
    with pytest.raises(SpecError, match="give all the same"):
        fit.release.posterior({"x0": r2d2(0.5), "x1": r2d2(0.2)})
    with pytest.raises(SpecError, match="cons_d2 of at least"):
        fit.release.posterior(r2d2(0.5, 20.0, 0.1))


def test_an_r2d2_prior_is_of_residuals_and_columns_of_a_release():
    rng = np.random.default_rng(2)
    x, z = rng.normal(0, 1, ROWS), rng.normal(0, 3, ROWS)
    rows = {"x": x, "z": z, "y": np.clip(4 * x + rng.normal(0, 2, ROWS), -40, 40)}
    bounds = {"x": (-5, 5), "z": (-15, 15), "y": (-40, 40)}
    schema = Schema.from_frame(rows, bounds=bounds, privacy_unit="row")
    fit = sample("y ~ x + z", rows, schema, epsilon=50, delta=1e-6, sampler="noisy_quadratic")
    (_, _), others = fit.release._joined(fit.release._by_name(r2d2()))
    scales = [prior.scale for prior in others.values()]
    unit = fit.release._units("/prior")[0][1]
    # residuals' sd over that of standardised columns, in units of positions
    assert np.array(scales) * unit == pytest.approx([2 * 5 / 1, 2 * 15 / 3], rel=0.1)
    sums = sample(
        "y ~ x + z", rows, schema, epsilon=50, delta=1e-6, sampler="sufficient_statistics"
    )
    with pytest.raises(SpecError, match="noisy_quadratic"):
        sums.release.posterior("R2D2()")
