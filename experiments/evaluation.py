"""How far a sample is from a reference sample: the maximum mean discrepancy (MMD).

R-hat and effective sample size do not measure bias: they compare chains with each other, not with
the posterior. A chain with clipped ratios, or a tempered one, can have an R-hat of 1.00 and a large
effective sample size around a wrong mean. Only a comparison with draws of the exact posterior shows
that. It needs such draws, and so is for experiments and tests on models with a known posterior.
Source: thesis A, section 7.1; Gretton et al., A kernel two-sample test, JMLR 2012, Lemma 6.
"""

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS = 1024


def mmd(
    draws: NDArray[np.float64],
    reference: NDArray[np.float64],
    *,
    random: np.random.Generator,
    pairs: int = 50,
) -> float:
    """Return sqrt(|unbiased MMD^2|) under an RBF kernel of the median-heuristic bandwidth.

    draws: (m, d), reference: (n, d), m and n at least 2, in the same units; random: picks the
    subsample of the bandwidth. Exact samples of 2,000 draws are about 0.013 apart (95 %: 0.020).
    Raises ValueError on other shapes, on values that are not finite, on a bandwidth of 0.
    """
    _check(draws, reference)
    bandwidth = median_bandwidth(draws, reference, random=random, pairs=pairs)
    return float(np.sqrt(abs(mmd2(draws, reference, bandwidth))))


def median_bandwidth(
    draws: NDArray[np.float64],
    reference: NDArray[np.float64],
    *,
    random: np.random.Generator,
    pairs: int = 50,
) -> float:
    """Return the median distance between `pairs` random draws and as many references.

    Both are picked with replacement, so samples of different sizes count alike. draws: (m, d),
    reference: (n, d). Source: thesis A, section 7.1. Raises ValueError where the median is 0.
    """
    _check(draws, reference)
    ours = draws[random.integers(len(draws), size=pairs)]
    theirs = reference[random.integers(len(reference), size=pairs)]
    bandwidth = float(np.median(np.sqrt(_squared_distances(ours, theirs))))
    if not bandwidth > 0:
        raise ValueError("the median distance between the samples is 0: no bandwidth")
    return bandwidth


def mmd2(draws: NDArray[np.float64], reference: NDArray[np.float64], bandwidth: float) -> float:
    """Return the unbiased estimate of MMD^2, which may be negative.

    draws: (m, d), reference: (n, d); kernel exp(-|x - y|^2 / (2 bandwidth^2)); memory O(m + n).
    Source: Gretton et al. 2012, Lemma 6. Raises ValueError on bad shapes or bandwidths not above 0.
    """
    _check(draws, reference)
    if not 0 < bandwidth < np.inf:
        raise ValueError("the bandwidth must be a finite number above 0")
    m, n = len(draws), len(reference)
    within_draws = (_kernel_sum(draws, draws, bandwidth) - m) / (m * (m - 1))
    within_reference = (_kernel_sum(reference, reference, bandwidth) - n) / (n * (n - 1))
    between = _kernel_sum(draws, reference, bandwidth) / (m * n)
    return within_draws + within_reference - 2 * between


def _check(draws: NDArray[np.float64], reference: NDArray[np.float64]) -> None:
    """Refuse samples of different dimension, or with fewer than two draws."""
    if draws.ndim != 2 or reference.ndim != 2 or draws.shape[1] != reference.shape[1]:
        raise ValueError("samples are arrays (draw, parameter) with the same parameters")
    if len(draws) < 2 or len(reference) < 2:
        raise ValueError("a sample needs at least 2 draws")
    if not (np.isfinite(draws).all() and np.isfinite(reference).all()):
        raise ValueError("a sample holds values that are not finite")


def _squared_distances(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return squared distances (n, m) of all pairs."""
    squares = np.zeros((len(first), len(second)))
    for left, right in zip(first.T, second.T, strict=True):
        squares += np.subtract.outer(left, right) ** 2
    return squares


def _kernel_sum(first: NDArray[np.float64], second: NDArray[np.float64], bandwidth: float) -> float:
    """Return the sum of the RBF kernel over all pairs."""
    total = 0.0
    for start in range(0, len(first), BLOCK_ROWS):
        squares = _squared_distances(first[start : start + BLOCK_ROWS], second)
        total += float(np.exp(squares / (-2 * bandwidth**2)).sum())
    return total
