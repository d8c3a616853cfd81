# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Public facts of positions and moves of all chains, for the kernels over rows."""

import numpy as np
from numba import njit

from dpmcmc.kernels.arithmetic import public as plain
from dpmcmc.kernels.compiled.maths import OPTIONS, kernel

describe = njit(**OPTIONS)(plain.describe)
log_prior_ratio = njit(**OPTIONS)(plain.log_prior_ratio)
log_prior_gradient = njit(**OPTIONS)(plain.log_prior_gradient)
shear = njit(**OPTIONS)(plain.shear)


@kernel
def describe_all(public, positions):
    """Return (straight (chain, d), aux (chain, 3)) at positions (chain, d)."""
    straight, aux = np.empty(positions.shape), np.empty((positions.shape[0], 3))
    for c in range(positions.shape[0]):
        describe(public, positions[c], straight[c], aux[c])
    return straight, aux


@kernel
def log_prior_ratios(public, positions, others):
    """Return (chain,) log prior ratios of the moves from positions to others (chain, d)."""
    chains, d = positions.shape
    ratios, aux, here, there = np.empty(chains), np.empty(3), np.empty(d), np.empty(d)
    for c in range(chains):
        describe(public, positions[c], here, aux)
        describe(public, others[c], there, aux)
        ratios[c] = log_prior_ratio(public, here, there)
    return ratios


@kernel
def ends_of_gradients(public, positions, back):
    """Return the ends for gradient_sums: weights (chain, columns), aux (chain, 3), shears.

    back: (columns, columns), by which rows are divided, or (0, 0) where they are not.
    """
    (chains, d), columns = positions.shape, public.lower.size
    weights, aux, shears = np.zeros((chains, columns)), np.empty((chains, 3)), np.empty(chains)
    straight = np.empty(d)
    for c in range(chains):
        describe(public, positions[c], straight, aux[c])
        shears[c] = shear(public, positions[c])
        for k in range(columns):
            if back.size == 0:
                weights[c, k] = straight[k]
            else:
                for i in range(columns):
                    weights[c, k] += back[k, i] * straight[i]
    return weights, aux, shears
