"""Inference from noisy sums of squares: closed forms, chains, and calibration of each method."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, multivariate_normal, norm

from dpmcmc.releases.regression import chains, intercept, joint_normal
from dpmcmc.releases.regression.fixed import Prior, fixed_s, fixed_s_fast, informed, nearest
from dpmcmc.releases.regression.mixtures import adassp, ridges
from dpmcmc.releases.regression.statistics import Noisy, release
from dpmcmc.releases.regression.wishart import bartlett, gammas, precisions
from tests.sources import Seeded

D, ROWS = 2, np.array([60.0, 90.0])
PRIOR = Prior(np.array([0.3, -0.2]), np.eye(2) * 0.8, 6.0, 5.0, np.eye(2) * 4.0, 8.0)
SDS = (12.0, 15.0, 30.0)


def truths(count, rng, sds=SDS, *, conjugate=False):
    """Parameters of the prior, and released sums of normal rows."""
    seeded = Seeded(int(rng.integers(2**32)))
    inverse = precisions(np.broadcast_to(PRIOR.spread, (count, D, D)), PRIOR.degrees, seeded)
    root = np.linalg.cholesky(np.linalg.inv(inverse))[:, None]
    variance = PRIOR.scale / gammas(np.full(count, PRIOR.shape), seeded)
    wide = np.sqrt(variance)[:, None] if conjugate else 1.0
    theta = PRIOR.mean + wide * rng.normal(size=(count, D)) / math.sqrt(0.8)
    half = root @ bartlett(np.broadcast_to(ROWS, (count, 2)), D, seeded)
    gram = half @ np.swapaxes(half, -1, -2)
    scale = np.sqrt(variance)[:, None, None]
    moments = np.einsum("bjde,be->bjd", gram, theta)
    moments = moments + scale * np.einsum("bjde,bje->bjd", half, rng.normal(size=(count, 2, D)))
    upper = rng.normal(size=gram.shape) * sds[0] / math.sqrt(2.0)
    noise = (upper + np.swapaxes(upper, -1, -2)) / math.sqrt(2.0)
    noise[..., range(D), range(D)] = rng.normal(size=moments.shape) * sds[0]
    told = Noisy(gram + noise, moments + sds[1] * rng.normal(size=moments.shape), None, sds, ROWS)
    return theta, variance, gram, told


def ranks(draws, truth):
    """Normal scores of the truths' ranks among draws (count, ...)."""
    return norm.ppf((0.5 + (draws < truth).sum(axis=0)) / (len(draws) + 1.0))


def surprise(scores):
    """The least probability, of three tests that scores are N(0, 1), times three."""
    flat = np.ravel(scores)
    uniform = np.histogram(norm.cdf(flat), bins=10, range=(0, 1))[0]
    wide = (flat.var() - 1.0) / math.sqrt(2.0 / len(flat))
    off = flat.mean() * math.sqrt(len(flat))
    found = [2.0 * norm.sf(abs(wide)), 2.0 * norm.sf(abs(off)), chisquare(uniform).pvalue]
    return 3.0 * min(found)


UNIFORM, REJECTED = 1e-3, 1e-4


def smaller(told):
    """Noise that is taken to be a tenth smaller than it is."""
    return replace(told, sds=tuple(0.9 * sd for sd in told.sds))


def test_the_nearest_matrix_is_positive_semidefinite_and_no_other_is_nearer():
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(3, 3))
    matrix = matrix + matrix.T - np.eye(3)
    values, vectors = nearest(matrix)
    found = (vectors * values) @ vectors.T
    assert values.min() >= 0.0
    assert np.linalg.eigvalsh(matrix)[0] < 0.0
    for _ in range(2000):
        root = np.linalg.cholesky(found + 1e-9 * np.eye(3)) + rng.normal(size=(3, 3)) * 0.1
        assert np.linalg.norm(root @ root.T - matrix) >= np.linalg.norm(found - matrix) - 1e-6


def by_brute_force(told, gram, variance):
    """Mean and covariance of theta on a fine grid of its posterior."""
    ends = np.linspace(-5.0, 5.0, 401)
    grid = np.array(np.meshgrid(ends, ends, indexing="ij")).reshape(2, -1).T
    log = multivariate_normal.logpdf(grid, PRIOR.mean, np.linalg.inv(PRIOR.precision))
    for own, moments in zip(gram, told.moments, strict=True):
        total = variance * own + told.sds[1] ** 2 * np.eye(2)
        log += multivariate_normal(np.zeros(2), total).logpdf(moments - grid @ own)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, (grid - mean).T @ ((grid - mean) * weights[:, None]), log


def test_the_closed_form_is_the_posterior_on_a_grid():
    """The prior's mean is not 0: m_post needs it inside the bracket."""
    _, _, gram, told = truths(1, np.random.default_rng(2))
    told = replace(told, gram=gram[0], moments=told.moments[0])
    found = fixed_s_fast(told, PRIOR, 1.3)
    mean, covariance, _ = by_brute_force(told, gram[0], 1.3)
    assert found.mean == pytest.approx(mean, abs=1e-4)
    assert found.covariance == pytest.approx(covariance, rel=1e-3, abs=1e-5)
    assert np.linalg.norm(found.mean - PRIOR.mean) > 0.1


@pytest.mark.longer
def test_variances_are_drawn_from_their_density_on_a_grid():
    _, _, gram, told = truths(1, np.random.default_rng(3), sds=(1e-9, 2.0, 1.0))
    told = replace(told, gram=gram[0], moments=told.moments[0])
    drawn = fixed_s(told, PRIOR, 4000, Seeded(4))
    nodes = np.linspace(-2.5, 3.0, 120)
    log = []
    for node in nodes:
        _, _, inner = by_brute_force(told, gram[0], math.exp(node))
        total = np.log(np.exp(inner - inner.max()).sum()) + inner.max()
        log.append(total - PRIOR.shape * node - PRIOR.scale * math.exp(-node))
    sums = np.cumsum(np.exp(np.array(log) - max(log)))
    law = np.interp(np.log(drawn.variances), nodes + 0.5 * (nodes[1] - nodes[0]), sums / sums[-1])
    assert kstest(law, "uniform").pvalue > 1e-3


def test_fixed_s_fast_is_calibrated_where_its_model_holds():
    """S known and the variance given: scores are exactly normal; a tenth less noise is seen."""
    rng = np.random.default_rng(5)
    theta, _, gram, told = truths(4000, rng)
    root = np.linalg.cholesky(gram)
    exact = np.einsum("bjde,be->bjd", gram, theta)
    own = 1.1 * np.einsum("bjde,bje->bjd", root, rng.normal(size=exact.shape))
    moments = exact + own + told.sds[1] * rng.normal(size=exact.shape)
    told = replace(told, gram=gram, moments=moments)

    def scores(noisy):
        found = fixed_s_fast(noisy, PRIOR, 1.21)
        return (theta - found.mean) / np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))

    assert surprise(scores(told)) > UNIFORM
    assert surprise(scores(smaller(told))) < REJECTED


def of_fixed(told):
    return fixed_s(told, PRIOR, 199, Seeded(6))


def of_fixed_chain(told):
    return chains.walk(told, PRIOR, 800, 200, Seeded(7), moving=False, thin=6)


@pytest.mark.slow
@pytest.mark.parametrize("method", [of_fixed, of_fixed_chain])
def test_fixed_s_is_calibrated_where_its_model_holds(method):
    theta, variance, gram, told = truths(1000, np.random.default_rng(8))
    told = replace(told, gram=gram)
    found = method(told)
    assert surprise(ranks(found.coefficients, theta)) > UNIFORM
    assert surprise(ranks(found.variances, variance)) > UNIFORM
    assert surprise(ranks(method(smaller(told)).coefficients, theta)) < REJECTED


def test_fixed_s_is_too_narrow_where_the_noise_of_s_matters():
    """It takes S to be known; what is drawn of it here is off by as much as X'y is."""
    theta, _, _, told = truths(4000, np.random.default_rng(24), sds=(20.0, 10.0, 1.0))
    found = fixed_s(told, PRIOR, 99, Seeded(25))
    assert surprise(ranks(found.coefficients, theta)) < REJECTED


def test_informed_intervals_hold_the_truth_where_the_noise_of_s_matters():
    """Rows about 0 of two columns, many: coverage within .87 and .93, 90 % being meant."""
    rng, seeded, held, off = np.random.default_rng(29), Seeded(30), [], []
    prior = replace(PRIOR, mean=np.zeros(2), precision=np.eye(2) * 1e-4)
    for _ in range(700):
        x, theta = rng.uniform(-1.0, 1.0, (2, 1500)), np.array([1.5, -1.0])
        y = np.clip(theta @ x + 0.5 * rng.normal(size=1500), -4.0, 4.0)
        told = release(x, y, (math.sqrt(2.0), 4.0), 6.0, seeded, squares=True)
        found, variance = informed(told, prior)
        sds = np.sqrt(np.diagonal(found.covariance))
        held.append(np.abs(found.mean - theta) < 1.645 * sds)
        plain = fixed_s_fast(told, prior, variance)
        off.append(np.abs(plain.mean - theta) < 1.645 * np.sqrt(np.diagonal(plain.covariance)))
    assert 0.87 < np.mean(held) < 0.93
    assert np.mean(off) < 0.87


@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.slow
def test_normal_x_is_calibrated_where_its_model_holds():
    theta, variance, gram, told = truths(1200, np.random.default_rng(9))
    moved = chains.Chains(told, PRIOR, Seeded(10), True)
    thetas, variances, sizes = [], [], []
    for at in range(1500):
        moved.step(adapt=at < 300)
        if at >= 300 and at % 10 == 0:
            thetas.append(moved.theta)
            variances.append(moved.variance)
            sizes.append(np.trace(moved.gram, axis1=-2, axis2=-1))
    assert surprise(ranks(np.array(thetas), theta)) > UNIFORM
    assert surprise(ranks(np.array(variances), variance)) > UNIFORM
    assert surprise(ranks(np.array(sizes), np.trace(gram, axis1=-2, axis2=-1))) > UNIFORM
    short = chains.walk(smaller(told), PRIOR, 900, 300, Seeded(11), moving=True, thin=10)
    assert surprise(ranks(short.coefficients, theta)) < REJECTED


def test_the_proposal_of_matrices_is_accepted_as_often_as_it_is_meant_to_be():
    _, _, _, told = truths(100, np.random.default_rng(12))
    moved = chains.Chains(told, PRIOR, Seeded(13), True)
    for at in range(800):
        moved.step(adapt=at < 500)
        if at == 499:
            moved.accepted[:] = 0.0
    share = moved.accepted.mean() / 300
    assert 0.17 < share < 0.3


@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.slow
def test_the_intercept_is_calibrated_where_its_model_holds():
    """One covariate about an unknown mean: its flat prior is stood in for by a wide one.

    Residuals are small beside the noise, so that a tenth less of it is seen.
    """
    rng, count, rows, sds = np.random.default_rng(26), 2000, ROWS.astype(int), SDS
    prior = replace(PRIOR, spread=np.array([[4.0]]), scale=0.3)
    theta = PRIOR.mean + rng.normal(size=(count, 2)) / math.sqrt(0.8)
    variance = prior.scale / rng.gamma(prior.shape, size=count)
    wide, mean = np.sqrt(4.0 / rng.chisquare(8.0, size=count)), rng.normal(size=count) * 0.5
    gram, moments = np.empty((count, 2, 2, 2)), np.empty((count, 2, 2))
    for j, n in enumerate(rows):
        covariate = mean[:, None] + wide[:, None] * rng.normal(size=(count, n))
        x = np.stack([np.ones((count, n)), covariate])
        y = np.einsum("dbn,bd->bn", x, theta)
        y = y + np.sqrt(variance)[:, None] * rng.normal(size=(count, n))
        gram[:, j] = np.einsum("dbn,ebn->bde", x, x)
        moments[:, j] = np.einsum("dbn,bn->bd", x, y)
    noise = sds[0] * rng.normal(size=gram.shape)
    noise[..., 0, 1] = noise[..., 1, 0] = noise[..., 0, 1] * math.sqrt(0.5)
    moments += sds[1] * rng.normal(size=moments.shape)
    told = Noisy(gram + noise, moments, None, sds, ROWS)
    found = intercept.walk(told, prior, 700, 300, Seeded(27), thin=10)
    assert surprise(ranks(found.coefficients, theta)) > UNIFORM
    assert surprise(ranks(found.variances, variance)) > UNIFORM
    short = intercept.walk(smaller(told), prior, 700, 300, Seeded(28), thin=10)
    assert surprise(ranks(short.coefficients, theta)) < REJECTED


def normal_sums(count, rng, sds):
    """Parameters of the conjugate prior, and sums that are normal as MCMC-B&S takes them to be."""
    theta, variance, _, told = truths(count, rng, conjugate=True)
    seeded = Seeded(int(rng.integers(2**32)))
    inverse = precisions(np.broadcast_to(PRIOR.spread, (count, D, D)), PRIOR.degrees, seeded)
    covariance, rows = np.linalg.inv(inverse), np.array([6000.0, 9000.0])
    gibbs = joint_normal.Gibbs(replace(told, squares=np.ones((count, 2))), PRIOR, seeded)
    gibbs.theta, gibbs.variance, gibbs.covariance = theta, variance, covariance
    root = np.linalg.cholesky(gibbs._joint())[:, None]
    made = root @ bartlett(np.broadcast_to(rows, (count, 2)), D + 1, seeded)
    sums = made @ np.swapaxes(made, -1, -2)
    upper = rng.normal(size=(count, 2, D, D))
    noise = sds[0] * np.tril(upper, -1) * math.sqrt(0.5)
    noise = noise + np.swapaxes(noise, -1, -2)
    noise[..., range(D), range(D)] = sds[0] * rng.normal(size=(count, 2, D))
    return (
        theta,
        variance,
        Noisy(
            sums[..., :D, :D] + noise,
            sums[..., :D, D] + sds[1] * rng.normal(size=(count, 2, D)),
            sums[..., D, D] + sds[2] * rng.normal(size=(count, 2)),
            sds,
            rows,
        ),
    )


@pytest.mark.compiled("hundreds of chains, of no kernel")
@pytest.mark.slow
def test_joint_normal_is_calibrated_where_its_model_holds():
    """Sums of thousands of rows are as good as normal. Noise is wider than they are by chance."""
    theta, variance, told = normal_sums(1200, np.random.default_rng(14), (150.0,) * 3)
    found = joint_normal.walk(told, PRIOR, 1800, 200, Seeded(15))
    assert surprise(ranks(found.coefficients[::16], theta)) > UNIFORM
    assert surprise(ranks(found.variances[::16], variance)) > UNIFORM
    short = joint_normal.walk(smaller(told), PRIOR, 1400, 200, Seeded(16))
    assert surprise(ranks(short.coefficients[::12], theta)) < REJECTED


def test_fourth_moments_are_those_of_normal_rows():
    rng = np.random.default_rng(17)
    root = np.tril(rng.normal(size=(3, 3)))
    rows = rng.normal(size=(400_000, 3)) @ root.T
    flat = joint_normal.svec(rows[:, :, None] * rows[:, None])
    found = joint_normal._fourth((root @ root.T)[None])[0]
    assert np.cov(flat.T) == pytest.approx(found, rel=0.05, abs=0.03 * found.max())


def test_joint_normal_needs_the_squares_of_the_responses():
    _, _, _, told = truths(1, np.random.default_rng(18))
    with pytest.raises(ValueError, match="squares"):
        joint_normal.walk(told, PRIOR, 2, 1, Seeded(0))


def test_adassp_is_least_squares_without_noise_and_a_ridge_with_much():
    rng = np.random.default_rng(19)
    x = rng.normal(size=(500, 2))
    y = x @ [1.0, -2.0] + rng.normal(size=500)
    told = Noisy((x.T @ x)[None], (x.T @ y)[None], None, (1e-9, 1e-9, math.inf), np.array([500.0]))
    assert adassp(told) == pytest.approx(np.linalg.lstsq(x, y, rcond=None)[0])
    noisy = replace(told, sds=(1e4, 1e4, math.inf))
    ridge = ridges(noisy)[0]
    assert ridge == pytest.approx(1e4 * math.sqrt(2.0 * math.log(8.0 / 0.05)))
    assert adassp(noisy) == pytest.approx(np.linalg.solve(x.T @ x + ridge * np.eye(2), x.T @ y))
    assert (ridges(noisy, least=np.array([1e9])) == 0.0).all()


def test_ridges_of_holders_add_up():
    _, _, _, told = truths(3, np.random.default_rng(20))
    whole = told.gram.sum(axis=1) + ridges(told).sum(axis=1)[:, None, None] * np.eye(D)
    found = adassp(told)
    for k in range(3):
        assert whole[k] @ found[k] == pytest.approx(told.moments[k].sum(axis=0))


def test_wishart_draws_have_their_means():
    seeded, spread = Seeded(21), np.array([[2.0, 0.7], [0.7, 1.0]])
    below = bartlett(np.full(40_000, 7.5), 2, seeded)
    made = (below @ np.swapaxes(below, -1, -2)).mean(axis=0)
    assert made == pytest.approx(7.5 * np.eye(2), abs=0.1)
    found = np.linalg.inv(precisions(np.broadcast_to(spread, (40_000, 2, 2)), 9.0, seeded))
    assert found.mean(axis=0) == pytest.approx(spread / 6.0, abs=0.01)
