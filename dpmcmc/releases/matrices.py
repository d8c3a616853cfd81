"""Stacks of symmetric matrices."""

from typing import Any

import numpy as np

from dpmcmc.families.scores.base import TINY
from dpmcmc.mechanisms.joint_sums import Floats


def turned(matrices: Any) -> Floats:
    """Return (..., q, p) of (..., p, q)."""
    return np.asarray(matrices.swapaxes(-1, -2), dtype=np.float64)


def even(matrices: Any) -> Floats:
    """Return (..., p, p) without what rounding made uneven."""
    return np.asarray(0.5 * (matrices + turned(matrices)), dtype=np.float64)


def roots_of(precisions: Floats) -> Floats:
    """Return roots (k, p, p) of the inverses of precisions (k, p, p), singular ones included.

    A direction that neither rows nor the prior tell in floating point is as wide as that allows.
    """
    sizes = np.sqrt(np.maximum(np.diagonal(precisions, axis1=1, axis2=2), TINY))
    values, vectors = np.linalg.eigh(even(precisions / sizes[:, :, None] / sizes[:, None]))
    values = np.maximum(values, values[:, -1:] * np.finfo(float).eps)
    return np.asarray(vectors / np.sqrt(values)[:, None] / sizes[:, :, None])


def within(matrices: Floats, root: Floats, most: Floats | float) -> Floats | None:
    """Return matrices (..., p, p) by u, none larger than diag(most) by root @ u; None if none is.

    Larger eigenvalues are cut. Matrices are positive.
    """
    back = np.linalg.inv(root) / np.sqrt(np.asarray(most)).reshape(1, -1)
    told = even(back.T @ matrices @ back)
    if (np.linalg.norm(told, axis=(-2, -1)) <= 1.0).all():
        return None
    values, vectors = np.linalg.eigh(told)
    half = np.linalg.solve(back.T, vectors * np.sqrt(np.clip(values, 0.0, 1.0))[..., None, :])
    return even(half @ turned(half))
