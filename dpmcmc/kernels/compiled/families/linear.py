# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Linear rows: l = -(y - eta)^2 / (2 sd^2) - log sd. State: the residual y - eta."""

import numpy as np

from dpmcmc.kernels.compiled.blocks import CONSTANT, CURVATURE
from dpmcmc.kernels.compiled.cells import cell, clamped, counted, small
from dpmcmc.kernels.compiled.maths import MAGIC_BITS, leaf, wide


@leaf
def state_of(eta, y, count, out):
    """Write the state of each row of a block, y - eta, into out; eta and out may be one array."""
    wide()
    for i in range(count):
        out[i] = y[i] - eta[i]


@leaf
def follow(v, count, state):
    """Update the state of a block after a move of its predictors by v."""
    wide()
    for i in range(count):
        state[i] -= v[i]


@leaf
def ratio(v, e, here, there):
    """Return the log likelihood ratio of a row with residual e."""
    change, constant = there[CURVATURE] - here[CURVATURE], there[CONSTANT] - here[CONSTANT]
    return there[CURVATURE] * (v * (v - 2.0 * e)) + (change * (e * e) + constant)


@leaf
def ratio_cells(v, y, state, here, there, scale, shift, half, count):
    """Return the sum over rows of clipped ratios, in cells, for a change v of any size."""
    wide()
    total = 0
    for i in range(count):
        part = counted(ratio(v[i], state[i], here, there), y[i])
        total += cell(part, scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratios(eta, v, y, state, here, there, count):
    """Overwrite v with each row's log likelihood ratio."""
    state_of(eta, y, count, state)
    for i in range(count):
        v[i] = counted(ratio(v[i], state[i], here, there), y[i])


@leaf
def factors(eta, y, norm, curvature, clip, scale, count, out):
    """Write each row's clipped derivative by the predictor, in cells; eta is overwritten."""
    wide()
    top = clip * scale
    twice = -2.0 * curvature
    for i in range(count):
        eta[i] = counted(clamped(twice * (y[i] - eta[i])), y[i])
    for i in range(count):
        size = abs(eta[i]) * norm[i]
        out[i] = small(eta[i] * (top / (size if size > clip else clip)))


@leaf
def factors_with_scale(eta, y, norm, curvature, clip, scale, count, out, extra):
    """Write `factors`, and in extra the derivative by the log sd, clipped together."""
    wide()
    twice, top = -2.0 * curvature, clip * scale
    for i in range(count):
        residual = y[i] - eta[i]
        by_eta = counted(clamped(twice * residual), y[i])
        by_scale = counted(clamped(by_eta * residual - 1.0), y[i])
        size = np.sqrt((by_eta * norm[i]) * (by_eta * norm[i]) + by_scale * by_scale)
        shrunk = top / (size if size > clip else clip)
        out[i] = small(by_eta * shrunk)
        extra[i] = by_scale * shrunk
