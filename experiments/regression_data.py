"""The data sets of thesis B, chapter 7, as it prepared them, and noise as it was drawn there.

Columns are brought to mean 0 and variance 1, the response to mean 0 and largest size 1, over all
rows; the first 80 % are for training; bounds are the largest norms of training rows. Bounds and
scales that are read off the data are not private: for tables on public data alone. Noise here is
NumPy's, so that thousands of releases are drawn at once; what is served draws it exactly.
"""

import csv
import gzip
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from dpmcmc.privacy.gaussian import epsilon_of_mu, mu_of_epsilon
from dpmcmc.releases.regression.fixed import Prior
from dpmcmc.releases.regression.statistics import Noisy, sensitivity
from experiments.posteriors import SHARED

FILES = {  # file, response, covariates
    "PowerPlant": ("powerplant", 4, range(4)),
    "Bike": ("bike_hour", 17, range(3, 17)),
    "Air": ("airquality_thesis003", 12, range(12)),
}
SHAPE, SCALE = 20.0, 0.5  # of the variance's prior; its mean is 1 / 38, as that of a coefficient


@dataclass(frozen=True)
class Rows:
    """Training and test rows; x: (n, d).

    spread: of the prior of the covariates' covariance. of_coefficients: precision of theirs.
    """

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    spread: np.ndarray
    of_coefficients: float = (SHAPE - 1.0) / SCALE

    @property
    def bounds(self):
        """Largest |x| and |y| of training rows."""
        return float(np.linalg.norm(self.x, axis=1).max()), float(np.abs(self.y).max())

    @property
    def delta(self):
        return 1.0 / len(self.y)

    def prior(self):
        d = self.x.shape[1]
        precision = self.of_coefficients * np.eye(d)
        return Prior(np.zeros(d), precision, SHAPE, SCALE, self.spread, d + 1.0)

    def sums(self, holders):
        """(S, z, u, rows) of each holder: runs of rows as they stand."""
        parts = np.array_split(np.arange(len(self.y)), holders)
        return (
            np.array([self.x[part].T @ self.x[part] for part in parts]),
            np.array([self.x[part].T @ self.y[part] for part in parts]),
            np.array([self.y[part] @ self.y[part] for part in parts]),
            np.array([float(len(part)) for part in parts]),
        )

    def errors(self, theta):
        """Mean squared error of predictions (...,) by coefficients (..., d)."""
        found = np.empty(theta.shape[:-1])
        for at in np.ndindex(found.shape):
            found[at] = ((self.test_x @ theta[at] - self.test_y) ** 2).mean()
        return found


def there():
    """Whether the data is at hand."""
    return (SHARED / "data" / "datasets").exists()


def rows_of(name):
    """One of the data sets."""
    file, response, columns = FILES[name]
    with gzip.open(SHARED / "data" / "datasets" / f"{file}.csv.gz", "rt") as lines:
        table = np.array([[float(cell) for cell in line] for line in list(csv.reader(lines))[1:]])
    x, y = table[:, list(columns)], table[:, response]
    x, y = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1), y - y.mean()
    y, n = y / np.abs(y).max(), math.ceil(0.8 * len(y))
    return Rows(x[:n], y[:n], x[n:], y[n:], np.eye(x.shape[1]))


def simulated(n, d, rng):
    """Normal rows as in section 7.2, half as many for tests, and the true coefficients."""
    root = rng.normal(size=(d, d))
    spread = root.T @ root
    half = np.linalg.cholesky(np.linalg.inv(spread)) @ rng.normal(size=(d, d + 1))
    wide = np.linalg.cholesky(np.linalg.inv(half @ half.T))
    x, theta = rng.normal(size=(n + n // 2, d)) @ wide.T, rng.normal(size=d)
    y = x @ theta + rng.normal(size=len(x))
    return Rows(x[:n], y[:n], x[n:], y[n:], spread, 1.0), theta


def misread_multiplier(epsilon, delta):
    """The noise multiplier of the published tables: sqrt(eps) u where sqrt(eps u) is right."""

    def beyond(u):
        first = norm.cdf(-math.sqrt(epsilon) * u)
        return first - math.exp(epsilon) * norm.cdf(-math.sqrt(epsilon * (u + 2.0))) - delta

    u = brentq(beyond, 0.0, 1e4)
    return (math.sqrt(1.0 + 0.5 * u) + math.sqrt(0.5 * u)) / math.sqrt(2.0 * epsilon)


@dataclass(frozen=True)
class Noise:
    """How sums are noised. multiplier: over the sensitivity. relation: which one it is of.

    flat: the noise of a matrix' upper triangle is the same everywhere, as in the thesis; else
    that of an entry off the diagonal is sqrt(1/2) of it, which costs the same. balanced: covariates
    and response are noised in units of their bounds.
    """

    multiplier: float
    relation: str
    flat: bool
    balanced: bool

    def true_epsilon(self, delta):
        return epsilon_of_mu(1.0 / self.multiplier, delta)

    def sds(self, bounds, *, squares):
        """Of the noise of S, z and u."""
        reach, largest = bounds
        weight = 1.0 if self.balanced else largest / reach
        if self.relation == "add_remove":
            size = math.sqrt(1.0 + weight**2 + (weight**4 if squares else 0.0))
        else:
            size = sensitivity(weight, squares=squares)
        sd, unit = self.multiplier * size * reach**2, largest / (weight * reach)
        return sd, sd * unit, sd * unit**2


def noises(epsilon, delta):
    """The noise of the published tables, the same calibrated rightly, and what replacing costs."""
    right = 1.0 / mu_of_epsilon(epsilon, delta)
    return {
        "as published": Noise(misread_multiplier(epsilon, delta), "add_remove", True, False),
        "exact": Noise(right, "add_remove", True, False),
        "replace-one": Noise(right, "replace_one", False, False),
        "replace-one, balanced": Noise(right, "replace_one", False, True),
    }


def noised(rows, holders, noise, runs, rng, *, squares=False):
    """Releases (runs, J, ...) of the same rows."""
    gram, moments, square, sizes = rows.sums(holders)
    sds = noise.sds(rows.bounds, squares=squares)
    cross, d = 1.0 if noise.flat else math.sqrt(0.5), gram.shape[-1]
    normals = rng.normal(size=(runs, *gram.shape))
    off = cross * np.triu(normals, 1)
    whole = off + np.swapaxes(off, -1, -2)
    whole[..., range(d), range(d)] = normals[..., range(d), range(d)]
    return Noisy(
        gram=gram + sds[0] * whole,
        moments=moments + sds[1] * rng.normal(size=(runs, *moments.shape)),
        squares=square + sds[2] * rng.normal(size=(runs, holders)) if squares else None,
        sds=sds,
        rows=sizes,
        cross=cross,
    )


def adassp_multipliers(epsilon, delta):
    """Noise multipliers of each of adaSSP's three parts, a third of (epsilon, delta) for each.

    its own: the classical Gaussian mechanism of Wang 2018. as published: the misread calibration,
    as of the other methods of the tables.
    """
    return {
        "as published": misread_multiplier(epsilon / 3.0, delta / 3.0),
        "its own": 3.0 * math.sqrt(math.log(6.0 / delta)) / epsilon,
    }


def adassp_epsilons(multiplier, delta):
    """True epsilons of such noise: of one part at a third of delta, and of all three at delta."""
    part = epsilon_of_mu(1.0 / multiplier, delta / 3.0)
    return part, epsilon_of_mu(math.sqrt(3.0) / multiplier, delta)


def adassp_noised(rows, holders, epsilon, runs, rng, multiplier=None):
    """Releases of adaSSP and the safe least eigenvalues, add/remove.

    multiplier: of the noise; by default Wang's. The sds that the releases state, which the ridge
    is made of, and the margin of the eigenvalue are Wang's always, as in the tables.
    """
    third = math.log(6.0 / rows.delta)
    size = adassp_multipliers(epsilon, rows.delta)["its own"]
    (reach, largest), (gram, moments, _, sizes) = rows.bounds, rows.sums(holders)
    normals = rng.normal(size=(runs, *gram.shape))
    whole = np.triu(normals) + np.swapaxes(np.triu(normals, 1), -1, -2)
    sds, part = (size * reach**2, size * reach * largest, math.inf), (multiplier or size) / size
    least = np.linalg.eigvalsh(gram)[..., 0] + part * sds[0] * rng.normal(size=(runs, holders))
    noisy = Noisy(
        gram=gram + part * sds[0] * whole,
        moments=moments + part * sds[1] * rng.normal(size=(runs, *moments.shape)),
        squares=None,
        sds=sds,
        rows=sizes,
        cross=1.0,
    )
    return noisy, least - sds[0] * math.sqrt(third)
