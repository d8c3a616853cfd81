"""Draws from gamma and Wishart distributions, by a source of private randomness."""

import numpy as np
from scipy.special import gammaincinv

from dpmcmc.mechanisms.sums import Floats
from dpmcmc.privacy.noise import RandomSource


def gammas(shape: Floats, random: RandomSource) -> Floats:
    """Return gamma variables of these shapes and scale 1, by inverting the distribution."""
    return np.asarray(gammaincinv(shape, random.uniforms(np.shape(shape))))


def bartlett(degrees: Floats, d: int, random: RandomSource) -> Floats:
    """Return lower triangles A (..., d, d) with A A' ~ Wishart(I, degrees). degrees: above d - 1.

    Source: Bartlett 1933.
    """
    below = np.tril(random.normals((*degrees.shape, d, d)), -1)
    squares = 2.0 * gammas(0.5 * (degrees[..., None] - np.arange(d)), random)
    below[..., np.arange(d), np.arange(d)] = np.sqrt(squares)
    return np.asarray(below)


def precisions(spread: Floats, degrees: float, random: RandomSource) -> Floats:
    """Return Q (..., d, d) whose inverses are inverse Wishart(spread, degrees)."""
    shape, d = spread.shape[:-2], spread.shape[-1]
    root = np.linalg.cholesky(spread)
    below = bartlett(np.full(shape, degrees), d, random)
    half = np.linalg.solve(np.swapaxes(root, -1, -2), below)
    return np.asarray(half @ np.swapaxes(half, -1, -2))


def moved(matrix: Floats, degrees: Floats, random: RandomSource) -> tuple[Floats, Floats, Floats]:
    """Return Wishart proposals around a matrix, log determinant ratio, and Hastings correction.

    The ratio is q(matrix | P) / q(P | matrix). matrix: (..., d, d). degrees: (...).
    """
    d = matrix.shape[-1]
    below = bartlett(degrees, d, random)
    half = np.linalg.cholesky(matrix) @ below
    proposal = half @ np.swapaxes(half, -1, -2) / degrees[..., None, None]
    log_size = 2.0 * np.log(np.diagonal(below, axis1=-2, axis2=-1)).sum(axis=-1)
    log_size = log_size - d * np.log(degrees)
    forth = (below**2).sum(axis=(-1, -2)) / degrees
    back = (np.linalg.inv(below) ** 2).sum(axis=(-1, -2)) * degrees
    log_ratio = 0.5 * degrees * (forth - back) - (degrees - 0.5 * (d + 1)) * log_size
    return proposal, np.asarray(log_size), np.asarray(log_ratio)
