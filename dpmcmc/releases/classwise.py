"""Rows with several linear predictors, one for each class, in the coordinates of a release.

Coefficients are ordered by class: (k, d). With one class the products here are products with a
number.
"""

import math

import numpy as np

from dpmcmc.families.scores.base import Family, Floats, Place

MIN_RELATIVE_SLOPE = 1e-3  # of what was known of a class: slopes below it are taken for so much
LEAST_SLOPE = 1e-30


def at_rest(family: Family, classes: int) -> Floats:
    """Return (k, k), minus the slope of a row whose predictors are all 0: public."""
    none = np.zeros(1)
    place = Place(
        *(np.zeros((classes, 1)), none, none, math.inf, math.inf, 1.0, 1.0),
        inner=np.zeros((classes, classes, 1)),
    )
    root = family.terms(none, place).root[:, :, 0]
    return np.asarray(root @ root.T)


def jacobians_of(x: Floats, root: Floats) -> list[Floats]:
    """Return for each class (p, m): what a unit of its predictor's derivative adds to the score.

    x: (d, m). root: (p, p), score in these coordinates is root.T @ score.
    """
    d = len(x)
    if len(root) == d:
        return [np.asarray(root.T @ x)]
    return [np.asarray(root[k : k + d].T @ x) for k in range(0, len(root), d)]


def products(parts: Floats, jacobians: list[Floats]) -> Floats:
    """Return (p, m), the sum over classes of parts (k, m) times Jacobians."""
    found = jacobians[0] * parts[0]
    for part, jacobian in zip(parts[1:], jacobians[1:], strict=True):
        found += jacobian * part
    return np.asarray(found, np.float64)


def inner(jacobians: list[Floats]) -> Floats:
    """Return (k, k, m), inner products of the classes' jacobians."""
    found = np.empty((len(jacobians), len(jacobians), jacobians[0].shape[1]))
    for c, one in enumerate(jacobians):
        for e, other in enumerate(jacobians[: c + 1]):
            found[c, e] = found[e, c] = np.einsum("pm,pm->m", one, other)
    return found


def mean_slopes(curve: Floats, root: Floats, white: Floats, sd: float) -> Floats:
    """Return (k, k), mean slope of a row, lifted to what is not noise.

    curve: (p, p), over n, in the coordinates of root (p, p), with noise of this sd. white: (d, d),
    covariates are round by it: means of x x^T count as 1, so that blocks of the curvature count as
    what they are multiplied by.
    """
    d, back = len(white), np.linalg.inv(root)
    blocks = (back.T @ curve @ back).reshape(len(root) // d, d, -1, d)
    found = np.einsum("ab,caeb->ce", white @ white.T, blocks) / d
    values, vectors = np.linalg.eigh(0.5 * (found + found.T))
    least = max(MIN_RELATIVE_SLOPE, 2.0 * sd / math.sqrt(d)) * max(float(values[-1]), LEAST_SLOPE)
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def weakened(known: Floats, slopes: Floats, white: Floats) -> Floats:
    """Return a curvature (p, p) that was known, brought down to slopes (k, k) that are less."""
    before = mean_slopes(known, np.eye(len(known)), white, 0.0)
    values, vectors = np.linalg.eigh(before)
    half, back = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    least, jacobians = np.linalg.eigh(back @ slopes @ back.T)
    change = half @ (jacobians * np.sqrt(np.clip(least, 0.0, 1.0))) @ jacobians.T @ back
    whole = np.kron(change, np.eye(len(white)))
    return np.asarray(whole @ known @ whole.T)
