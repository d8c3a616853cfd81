"""Estimators without DP-SGD that a release is compared with: what they give, not how it is stored.

adaSSP (Wang 2018) for linear, objective (Kifer, Smith and Thakurta 2012) and output perturbation
(Chaudhuri, Monteleoni and Sarwate 2011; the best of several penalties) for logistic, and Newton's
method with noise in public coordinates for all. For experiments alone: noise is NumPy's.
"""

import math

import numpy as np

from dpmcmc.privacy import accountant

DELTA = 1e-6
PENALTIES, STEPS = np.geomspace(1e-4, 1.0, 9), 8


def adassp(x, y, mu, reach, largest, rng):
    """Sums of squares with noise and as much of a ridge as hides their least eigenvalue."""
    d, z = len(x), math.sqrt(3.0) / mu
    gram = x @ x.T
    upper = rng.normal(size=(d, d)) * z * math.sqrt(2.0) * reach**2
    noise = np.triu(upper, 1) / math.sqrt(2.0)
    noise = noise + noise.T + np.diag(np.diag(upper))
    least = np.linalg.eigvalsh(gram)[0] + z * reach**2 * (rng.normal() - 2.0)
    ridge = max(0.0, z * reach**2 * math.sqrt(2.0 * d * math.log(40.0 * d * d)) - max(least, 0.0))
    moments = x @ y + rng.normal(size=d) * z * 2.0 * reach * largest
    return np.linalg.solve(gram + noise + ridge * np.eye(d), moments)


def penalised(x, y, ridge, linear):
    """Minimise the logistic loss + ridge |theta|^2 / 2 + linear . theta."""
    theta = np.zeros(len(x))
    for _ in range(40):
        p = 1.0 / (1.0 + np.exp(-np.clip(theta @ x, -30, 30)))
        slope = (x * (p * (1.0 - p))) @ x.T + ridge * np.eye(len(x))
        step = np.linalg.solve(slope, x @ (y - p) - ridge * theta - linear)
        theta = theta + step * min(1.0, 2.0 / max(float(np.linalg.norm(step)), 1e-12))
    return theta


def objective(x, y, epsilon, reach, rng):
    size = reach * math.sqrt(8.0 * math.log(2.0 / DELTA) + 4.0 * epsilon) / epsilon
    return penalised(x, y, 0.5 * reach**2 / epsilon, size * rng.normal(size=len(x)))


def output(x, y, mu, reach, truth, sds, rng):
    """The penalty is the best one for these rows, which nobody would know."""
    found = []
    for part in PENALTIES:
        ridge = part * len(y)
        theta = penalised(x, y, ridge, np.zeros(len(x)))
        found.append(theta + rng.normal(size=len(x)) * 2.0 * reach / (ridge * mu))
    return min(found, key=lambda theta: float((((theta - truth) / sds) ** 2).sum()))


def newton(case, y, mu, reach, rng):
    """Scores and curvatures cut in public coordinates, half of the budget each.

    Returns the last place and sds by the sandwich of the last noisy curvature, in which the
    score's variance is the rows' (with a residual sd that nobody would know) and the noise's.
    """
    x, (d, n) = case.x, case.x.shape
    low, high = case.ends
    theta, sds, z = np.zeros(d), np.zeros(d), math.sqrt(2.0 * STEPS) / mu
    theta[0] = {"linear": 0.5 * (low + high), "poisson": math.log(0.5 * math.sqrt(high + 0.5))}.get(
        case.family, 0.0
    )
    most = {"linear": 0.25 * (high - low), "poisson": 0.25 * high}.get(case.family, 1.0)
    for _ in range(STEPS):
        eta = theta @ x
        mean = {"linear": eta, "poisson": np.exp(np.minimum(eta, 10.0))}.get(
            case.family, 1.0 / (1.0 + np.exp(-np.clip(eta, -30, 30)))
        )
        slope = {"linear": np.ones(n), "poisson": mean}.get(case.family, mean * (1.0 - mean))
        top = {"linear": 1.0, "poisson": 0.25 * high}.get(case.family, 0.25)
        score = x @ np.clip(y - mean, -most, most) + rng.normal(size=d) * 2.0 * most * reach * z
        upper = rng.normal(size=(d, d)) * math.sqrt(2.0) * top * reach**2 * z
        noise = np.triu(upper, 1) / math.sqrt(2.0)
        curve = (x * np.minimum(slope, top)) @ x.T + noise + noise.T + np.diag(np.diag(upper))
        values, vectors = np.linalg.eigh(curve)
        values = np.maximum(values, math.sqrt(2.0 * d) * math.sqrt(2.0) * top * reach**2 * z)
        step = vectors @ ((vectors.T @ score) / values)
        meat = values * case.sd**2 + (2.0 * most * reach * z) ** 2
        sds = np.sqrt(((vectors / values) ** 2) @ meat)
        longest = 0.5 * (high - low) if case.family == "linear" else 2.0
        theta = theta + step * min(1.0, longest / max(float(np.linalg.norm(step)), 1e-12))
    return theta, sds


def baselines(case, y, epsilon, truth, sds, rng):
    """Return {name: estimate} of the estimators that the family has."""
    mu, reach = accountant.mu_of_epsilon(epsilon, DELTA), math.sqrt(len(case.x))
    found = {"newton": newton(case, y, mu, reach, rng)[0]}
    if case.family == "linear":
        middle, half = 0.5 * sum(case.ends), 0.5 * (case.ends[1] - case.ends[0])
        found["adassp"] = adassp(case.x, y - middle, mu, reach, half, rng)
        found["adassp"][0] += middle
    if case.family == "logistic":
        found["objective"] = objective(case.x, y, epsilon, reach, rng)
        found["output"] = output(case.x, y, mu, reach, truth, sds, rng)
    return found


def estimates(case, y, epsilon, mu, sds, rng):
    """Return {name: rms distance to the truth in sds} of those that take no time.

    newton_coverage: square root of the part of its 90 % intervals that hold the truth.
    """
    reach, (low, high) = math.sqrt(len(case.x)), case.ends
    place, own = newton(case, y, mu, reach, rng)
    found = {"newton": place}
    if case.family == "linear":
        middle = 0.5 * (low + high)
        found["adassp"] = adassp(case.x, y - middle, mu, reach, 0.5 * (high - low), rng)
        found["adassp"][0] += middle
    if case.family == "logistic":
        found["objective"] = objective(case.x, y, epsilon, reach, rng)
    away = {
        key: math.sqrt(float(np.mean(((value - case.theta) / sds) ** 2)))
        for key, value in found.items()
    }
    held = np.abs(place - case.theta) < 1.645 * own
    return away | {"newton_coverage": math.sqrt(float(held.mean()))}
