"""Posteriors of a linear regression given noisy sums, one function for each published method.

Every method gives an even mixture of normal distributions of the coefficients, each with a variance
of the residuals. Functions of released numbers: free. Source: thesis B, chapters 5.2 and 7; Wang
2018 (adaSSP).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma, polygamma

from dpmcmc.base.loading import loaded
from dpmcmc.mechanisms.sums import Floats
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.regression import chains, intercept, joint_normal
from dpmcmc.releases.regression.fixed import Prior, conditionals, informed, nearest
from dpmcmc.releases.regression.statistics import Noisy

# adaSSP: a ridge estimate from noisy sums of squares. A function of released numbers: free.
#
# Source: Wang 2018; several holders: thesis B, 7.1.1. The source pays for a release of the
# least eigenvalue; here it is read off the noisy matrix, which costs nothing, or handed in.
FAILURE_PROBABILITY = 0.05  # probability that the noise is larger than what the ridge is meant for


def ridges(
    noisy: Noisy, least: Floats | None = None, failure: float = FAILURE_PROBABILITY
) -> Floats:
    """Return a ridge for each holder (..., J): noise size minus a safe least eigenvalue.

    least: (..., J) lower bounds of X'X' eigenvalues that were released; else of the noisy matrix,
    less what noise adds at most but for the failure probability.
    """
    d = noisy.gram.shape[-1]
    size = noisy.sds[0] * math.sqrt(d * math.log(2.0 * d * d / failure))
    known = np.linalg.eigvalsh(noisy.gram)[..., 0] - size if least is None else least
    return np.asarray(np.maximum(0.0, size - np.maximum(known, 0.0)))


def adassp(
    noisy: Noisy, least: Floats | None = None, failure: float = FAILURE_PROBABILITY
) -> Floats:
    """Return adaSSP's estimates (..., d), sums and ridges added over holders. See ridges."""
    d = noisy.gram.shape[-1]
    ridge = ridges(noisy, least, failure).sum(axis=-1)
    ridged = noisy.gram.sum(axis=-3) + ridge[..., None, None] * np.eye(d)
    return np.asarray(np.linalg.solve(ridged, noisy.moments.sum(axis=-2)[..., None])[..., 0])


PARTS = 512  # normals of a mixture
CHAINS, WARMUP, THIN = 32, 400, 20  # that walk at once; steps; steps between two that are kept
SMALL_SPREAD, DEGREES = 0.1, 1.0  # of the prior of covariates: scale; degrees beyond their number
KNOWN = 1e6  # degrees of a variance that is known
GRID, LOOKS = 2001, 4  # log variances, and how often where the density is is looked for
REACH, FARTHEST, LEAST_SD = 8.0, 30.0, 1e-6  # sds; log density; sd of a log variance
SMALLEST = 1e-12  # of a variance, and of an eigenvalue over the largest


@dataclass(frozen=True, slots=True)
class Mixture:
    """An even mixture of normals. means: (k, d). roots: (k, d, d) of the covariances.

    variances: (k,), of the residuals. r_hat: the largest of the chains that found them; 1 where
    draws are independent.
    """

    means: Floats
    roots: Floats
    variances: Floats
    r_hat: float = 1.0


def inverse_gamma(mean: float, sd: float) -> tuple[float, float]:
    """Return shape and scale of the inverse gamma whose log has this mean and sd."""
    from scipy.optimize import brentq  # slow to load, and few jobs need it

    shape = float(brentq(lambda a: float(polygamma(1, a)) - sd * sd, 1e-4, 1e12, xtol=1e-10))
    return shape, math.exp(mean + float(digamma(shape)))


def prior_of(
    mean: Floats,
    precision: Floats,
    log_variance: tuple[float, float] | None,
    covariates: tuple[float, float] = (SMALL_SPREAD, DEGREES),
) -> Prior:
    """Return the prior record of independent normal coefficients. mean, precision: (d,).

    log_variance: mean and sd of that of the residuals; None where their variance is known to be 1.
    covariates: scale and further degrees of freedom of the inverse Wishart prior of their
    covariance.
    """
    shape, scale = (KNOWN, KNOWN) if log_variance is None else inverse_gamma(*log_variance)
    d = len(mean)
    spread, degrees = covariates[0] * np.eye(d), d + covariates[1]
    return Prior(mean, np.diag(precision), shape, scale, spread, degrees, log_variance)


def bayes_fixed_s_fast(noisy: Noisy, prior: Prior, _: bool, random: RandomSource) -> Mixture:
    """Return Bayes-fixedS-fast at the variance from y'y, with the noise of X'X included."""
    known = prior.scale / prior.shape if prior.shape >= KNOWN else None
    normal = informed(noisy, prior, known or SMALLEST, known)[0]
    return _one_normal(
        normal.mean, normal.covariance, _variances(noisy, prior, normal.mean, random)
    )


def ada_ssp(noisy: Noisy, prior: Prior, _: bool, random: RandomSource) -> Mixture:
    """Return adaSSP's estimate with the sd of noise and residuals, without its ridge bias."""
    total = noisy.total
    theta = adassp(noisy)
    ridged = total.gram[0] + float(ridges(noisy).sum()) * np.eye(len(theta))
    variance = left_over(noisy, theta) if prior.shape < KNOWN else 1.0
    values, vectors = nearest(total.gram[0])
    rows = (vectors * (variance * values)) @ vectors.T
    back = np.linalg.inv(ridged)
    spread = back @ (rows + noise_of(total, theta) * np.eye(len(theta))) @ back
    return _one_normal(theta, 0.5 * (spread + spread.T), _variances(noisy, prior, theta, random))


def mcmc_fixed_s(noisy: Noisy, prior: Prior, _: bool, random: RandomSource) -> Mixture:
    """Return the posterior of MCMC-fixedS, by independent draws."""
    normals, variances = conditionals(noisy, with_squares(noisy, prior), PARTS, random)
    roots = np.asarray(np.linalg.cholesky(normals.covariance), np.float64)
    return Mixture(normals.mean, roots, _as_told(noisy, prior, normals.mean, variances, random))


def mcmc_normal_x(noisy: Noisy, prior: Prior, ones: bool, random: RandomSource) -> Mixture:
    """Return the posterior of MCMC-normalX, with or without a column of ones."""
    of_job, prior = prior, with_squares(noisy, prior)
    if ones:
        less = replace(prior, spread=prior.spread[1:, 1:], degrees=prior.degrees - 1.0)
        walk: chains.Chains = intercept.WithIntercept(_many(noisy), less, random, True)
    else:
        walk = chains.Chains(_many(noisy), prior, random, True)
    thetas, precisions, variances = [], [], []
    for step in range(WARMUP + THIN * (PARTS // CHAINS)):
        walk.step(adapt=step < WARMUP)
        if step >= WARMUP:
            thetas.append(walk.theta)
            if (step - WARMUP) % THIN == 0:
                precisions.append(walk.conditional())
                variances.append(walk.variance)
    means, uppers = (np.concatenate(part) for part in zip(*precisions, strict=True))
    variance = _as_told(noisy, of_job, means[..., 0], np.concatenate(variances), random)
    return Mixture(means[..., 0], np.linalg.inv(uppers), variance, _mixing(thetas))


def mcmc_bs(noisy: Noisy, prior: Prior, _: bool, random: RandomSource) -> Mixture:
    """Return the posterior of MCMC-B&S, whose conjugate prior matches ours at variance 1."""
    walk = joint_normal.Gibbs(_many(noisy), prior, random)
    thetas, means, roots, variances = [], [], [], []
    for step in range(WARMUP + THIN * (PARTS // CHAINS)):
        walk.step()
        if step >= WARMUP:
            thetas.append(walk.theta)
            if (step - WARMUP) % THIN == 0:
                means.append(walk.mean)
                size = np.sqrt(walk.variance)[:, None, None]
                roots.append(size * np.linalg.inv(walk.upper))
                variances.append(walk.variance)
    components = [np.concatenate(part) for part in (means, roots, variances)]
    variance = _as_told(noisy, prior, components[0], components[2], random)
    return Mixture(components[0], components[1], variance, _mixing(thetas))


METHODS: dict[str, Callable[[Noisy, Prior, bool, RandomSource], Mixture]] = {
    "mcmc_normalx": mcmc_normal_x,
    "mcmc_fixeds": mcmc_fixed_s,
    "bayes_fixeds_fast": bayes_fixed_s_fast,
    "mcmc_bs": mcmc_bs,
    "adassp": ada_ssp,
}


def squares_left(noisy: Noisy, theta: Floats) -> tuple[float, float]:
    """Return the noisy residual sum of squares at theta (d,), and the sd of its noise.

    That is an sd; the sum may be negative.
    """
    total = noisy.total
    if total.squares is None:
        raise ValueError("the squares of the responses must have been released")
    residual = total.squares[0] - theta @ (2.0 * total.moments[0] - total.gram[0] @ theta)
    size = float(theta @ theta)
    noise = total.sds[2] ** 2 + 4.0 * size * total.sds[1] ** 2 + size**2 * total.sds[0] ** 2
    return float(residual), math.sqrt(noise)


def left_over(noisy: Noisy, theta: Floats) -> float:
    """Return the noisy mean square of the residuals at theta (d,)."""
    return max(squares_left(noisy, theta)[0] / float(noisy.rows.sum()), SMALLEST)


def noise_of(total: Noisy, theta: Floats) -> float:
    """Return the mean variance of the noise of X'y - X'X theta over directions."""
    d = len(theta)
    more = float(theta @ theta) * (1.0 + (d - 1.0) * total.cross**2) / d
    return total.sds[1] ** 2 + total.sds[0] ** 2 * more


def with_squares(noisy: Noisy, prior: Prior) -> Prior:
    """Return the prior with the variance informed by y'y, which the source does not release.

    By the squares that are left over at Bayes-fixedS-fast, as if their log were normal.
    """
    if prior.shape >= KNOWN:
        return prior
    theta = informed(noisy, prior)[0].mean
    logs, weights = log_variances(noisy, prior, theta)
    mean = float(weights @ logs)
    sd = math.sqrt(float(weights @ (logs - mean) ** 2))
    shape, scale = inverse_gamma(mean, max(sd, LEAST_SD))
    return replace(prior, shape=shape, scale=scale)


def log_variances(noisy: Noisy, prior: Prior, theta: Floats) -> tuple[Floats, Floats]:
    """Return log residual variances (GRID,) and their posterior weights.

    The squares that are left at theta are normal about the rows' number times the variance; where
    noise hides them, what is told is no more than that the variance is not above the noise.
    """
    rows, (rest, noise) = float(noisy.rows.sum()), squares_left(noisy, theta)
    middle, wide = prior.log_variance or (0.0, 1.0)
    most = math.log(max((rest + REACH * noise) / rows, SMALLEST)) + REACH * math.sqrt(2.0 / rows)
    low, high = middle - REACH * wide, max(middle + REACH * wide, most)
    for _ in range(LOOKS):
        logs = np.linspace(low, high, GRID)
        squares = rows * np.exp(logs)
        spread = noise**2 + 2.0 * squares**2 / rows
        density = -0.5 * ((rest - squares) ** 2 / spread + np.log(spread))
        density -= 0.5 * ((logs - middle) / wide) ** 2
        likely, step = density > density.max() - FARTHEST, logs[1] - logs[0]
        low, high = float(logs[likely].min() - step), float(logs[likely].max() + step)
    weights = np.exp(density - density.max())
    return logs, np.asarray(weights / weights.sum())


def _variances(noisy: Noisy, prior: Prior, theta: Floats, random: RandomSource) -> Floats:
    """Return draws (PARTS,) of the residual variance, given the noisy sum of squares."""
    if prior.shape >= KNOWN:
        return np.ones(PARTS)
    logs, weights = log_variances(noisy, prior, theta)
    ends = np.concatenate(([0.0], np.cumsum(weights)))
    edges = np.append(logs, 2.0 * logs[-1] - logs[-2]) - 0.5 * (logs[1] - logs[0])
    return np.asarray(np.exp(np.interp(random.uniforms((PARTS,)), ends, edges)))


def _as_told(
    noisy: Noisy, prior: Prior, thetas: Floats, variances: Floats, random: RandomSource
) -> Floats:
    """Return posterior variances (k,), sorted as those of a chain's states.

    A chain's prior is inverse gamma, which leaves no small variances; where noise hides the squares
    the prior that was asked for decides. thetas: (k, d), of the chain.
    """
    if prior.shape >= KNOWN:
        return variances
    drawn = np.sort(_variances(noisy, prior, thetas.mean(axis=0), random))
    return np.asarray(drawn[np.argsort(np.argsort(variances))])


def _one_normal(mean: Floats, covariance: Floats, variances: Floats) -> Mixture:
    """Return a mixture with one normal and many variances."""
    root = np.linalg.cholesky(covariance)
    shape = PARTS, *root.shape
    return Mixture(
        np.broadcast_to(mean, shape[:2]).copy(), np.broadcast_to(root, shape).copy(), variances
    )


def _many(noisy: Noisy) -> Noisy:
    """Return the same sums repeated for several chains."""
    squares = noisy.squares
    return replace(
        noisy,
        gram=np.broadcast_to(noisy.gram, (CHAINS, *noisy.gram.shape)).copy(),
        moments=np.broadcast_to(noisy.moments, (CHAINS, *noisy.moments.shape)).copy(),
        squares=None if squares is None else np.broadcast_to(squares, (CHAINS, *squares.shape)),
    )


def _mixing(thetas: list[Floats]) -> float:
    """Return the largest R-hat over coefficients, from successive states (B, d)."""
    array_stats = loaded("arviz_stats.base").array_stats

    states = np.stack(thetas, axis=1)
    many = range(states.shape[-1])
    each = [float(array_stats.rhat(states[..., k], chain_axis=0, draw_axis=1)) for k in many]
    return max(r_hat if math.isfinite(r_hat) else math.inf for r_hat in each)
