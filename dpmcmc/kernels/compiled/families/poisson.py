# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Poisson rows: l = y eta - e^eta. State: the rate e^eta."""

from dpmcmc.kernels.compiled.cells import cell, clamped, small
from dpmcmc.kernels.compiled.maths import (
    MAGIC_BITS,
    ONE,
    TWO,
    exp,
    exp_far,
    exp_near_short,
    leaf,
    tanh_half,
    tanh_half_short,
    wide,
)


@leaf
def state_of(eta, count, out):
    """Write the state of each row of a block, e^eta, into out; eta and out may be one array."""
    wide()
    for i in range(count):
        out[i] = exp_far(eta[i])


@leaf
def follow(v, count, state):
    """Update the state of a block after a move of its predictors by v."""
    wide()
    for i in range(count):
        state[i] *= exp(v[i])


@leaf
def follow_near(v, count, state):
    """Update the state as `follow` does, for v from short_dot, which is overwritten."""
    wide()
    for i in range(count):  # a loop of float32 alone takes twice as many rows at once
        v[i] = exp_near_short(v[i])
    for i in range(count):
        state[i] *= v[i]


@leaf
def ratio_near(v, y, e):
    """Return the log likelihood ratio of a row with rate e, for a short change v of eta."""
    t = tanh_half(v)
    return y * v - e * (2.0 * t / (1.0 - t))


@leaf
def ratio_far(v, y, e):
    """Return the log likelihood ratio of a row with rate e, for any change v of eta."""
    return y * v - e * (exp(v) - 1.0)


@leaf
def ratio_cells(v, y, state, scale, shift, half, count):
    """Return the sum over rows of clipped ratios, in cells, where predictors change by v."""
    wide()
    total = 0
    for i in range(count):
        total += cell(ratio_far(v[i], y[i], state[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratio_cells_near(v, y, state, scale, shift, half, count, e):
    """Return ratio_cells for v from short_dot; e: scratch memory."""
    wide()
    total = 0
    for i in range(count):
        t = tanh_half_short(v[i])
        e[i] = TWO * t / (ONE - t)
    for i in range(count):
        total += cell(y[i] * v[i] - state[i] * e[i], scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratios(near, eta, v, y, state, count):
    """Overwrite v with each row's log likelihood ratio."""
    state_of(eta, count, state)
    if near:
        for i in range(count):
            v[i] = ratio_near(v[i], y[i], state[i])
    else:
        for i in range(count):
            v[i] = ratio_far(v[i], y[i], state[i])


@leaf
def factors(eta, y, norm, clip, scale, count, out):
    """Write each row's clipped derivative y - e^eta, in cells; eta is overwritten."""
    wide()
    top = clip * scale
    for i in range(count):
        eta[i] = clamped(y[i] - exp(eta[i]))
    for i in range(count):
        size = abs(eta[i]) * norm[i]
        out[i] = small(eta[i] * (top / (size if size > clip else clip)))
