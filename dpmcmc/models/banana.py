"""The banana model in d dimensions and its exact posterior, a target whose answer is known.

theta ~ Ban(0, prior_variance I), X_1 ~ N(theta_1, s_1^2), X_j ~ N(theta_j, s_j^2), except for
X_2 ~ N(theta_2 + a (theta_1 - m)^2 + b, s_2^2). The map `straighten`, of Jacobian determinant 1,
makes prior and posterior Gaussian with independent coordinates. All of it is public: only the rows
are private.
Source: thesis A, section 2.3, Definition 8 and Theorem 5 (also Tran, Pitt and Kohn 2014).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Banana:
    """The public constants. variances: s_j^2 of the columns, as many as dimensions, 2 or more."""

    variances: tuple[float, ...]
    a: float = 20.0
    b: float = 0.0
    m: float = 0.0
    prior_variance: float = 1000.0

    def __post_init__(self) -> None:
        if len(self.variances) < 2:
            raise ValueError("a banana has at least 2 dimensions")
        numbers = (*self.variances, self.prior_variance)
        if not all(0 < number < np.inf for number in numbers):
            raise ValueError("variances must be finite numbers above 0")
        if not all(np.isfinite((self.a, self.b, self.m))):
            raise ValueError("a, b and m must be finite")

    @classmethod
    def thesis(cls, dimensions: int) -> "Banana":
        """The constants of the thesis' experiments in this many dimensions."""
        return cls(variances=(20.0, 2.5) + (1.0,) * (dimensions - 2))


def straighten(banana: Banana, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coordinates in which the posterior is Gaussian. theta: (..., d). Definition 8's g^-1."""
    straight = np.array(theta, dtype=np.float64)
    straight[..., 1] += banana.a * (straight[..., 0] - banana.m) ** 2 + banana.b
    return straight


def bend(banana: Banana, straight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `straighten`. straight: (..., d). Definition 8's g."""
    theta = np.array(straight, dtype=np.float64)
    theta[..., 1] -= banana.a * (theta[..., 0] - banana.m) ** 2 + banana.b
    return theta


def exact_posterior(
    banana: Banana, column_means: NDArray[np.float64], rows: int, tempering: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variances, each (d,), of the straightened posterior.

    column_means: (d,) of the rows; tempering: T in (0, 1] multiplies the likelihood. Not private.
    Source: Theorem 5. Raises ValueError on another number of columns, rows below 0, T outside.
    """
    means = np.asarray(column_means, dtype=np.float64)
    if means.shape != (len(banana.variances),):
        raise ValueError("one mean for each dimension is needed")
    if rows < 0 or not 0 < tempering <= 1:
        raise ValueError("rows must not be negative and the tempering must lie in (0, 1]")
    weights = tempering * rows / np.array(banana.variances)
    variances = 1 / (weights + 1 / banana.prior_variance)
    return weights * means * variances, variances


def draw_posterior(
    banana: Banana,
    column_means: NDArray[np.float64],
    rows: int,
    draws: int,
    *,
    random: np.random.Generator,
    tempering: float = 1.0,
) -> NDArray[np.float64]:
    """Independent draws (draws, d) of theta from the exact posterior. Not private."""
    mean, variances = exact_posterior(banana, column_means, rows, tempering)
    noise = random.standard_normal((draws, len(mean)))
    return bend(banana, mean + np.sqrt(variances) * noise)


def simulate(
    banana: Banana, theta: NDArray[np.float64], rows: int, *, random: np.random.Generator
) -> NDArray[np.float64]:
    """Rows (rows, d) of the model at theta (d,). Raises ValueError on another length of theta."""
    if np.shape(theta) != (len(banana.variances),):
        raise ValueError("theta must have one value for each dimension")
    noise = random.standard_normal((rows, len(banana.variances)))
    return straighten(banana, np.asarray(theta)) + np.sqrt(banana.variances) * noise
