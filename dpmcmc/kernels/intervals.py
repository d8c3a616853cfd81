# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""The public intervals of logistic regression for all chains at once. No row is seen here."""

import numpy as np
from numba import njit

from dpmcmc.kernels.maths import OPTIONS, kernel
from dpmcmc.models import logistic_bounds

component_interval = njit(**OPTIONS)(logistic_bounds.component_interval)
vector_interval = njit(**OPTIONS)(logistic_bounds.vector_interval)


@kernel
def component_intervals(theta, j, deltas, lower, upper, group):
    """Return (lo, hi), (chain,) each: the public interval of one row's ratio."""
    chains = theta.shape[0]
    lo, hi = np.empty(chains), np.empty(chains)
    for c in range(chains):
        lo[c], hi[c] = component_interval(theta[c], j, deltas[c], lower, upper, group)
    return lo, hi


@kernel
def vector_intervals(theta, deltas, lower, upper, group):
    """Return (lo, hi), (chain,) each, for moves of the whole position."""
    chains = theta.shape[0]
    lo, hi = np.empty(chains), np.empty(chains)
    for c in range(chains):
        lo[c], hi[c] = vector_interval(theta[c], deltas[c], lower, upper, group)
    return lo, hi
