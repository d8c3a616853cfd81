# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Logistic rows: l = -log(1 + e^-eta), as the sign of the response is in x. State: e^-eta."""

import numpy as np

from dpmcmc.kernels.compiled.cells import LARGEST_SINGLE, cell
from dpmcmc.kernels.compiled.maths import (
    MAGIC_BITS,
    ONE,
    atanh_twice_short,
    exp,
    exp_far,
    exp_near_short,
    exp_short,
    leaf,
    log,
    tanh_half_short,
    wide,
)


@leaf
def state_of(eta, count, out):
    """Write the state of each row of a block, e^-eta, into out; eta and out may be one array."""
    wide()
    for i in range(count):
        out[i] = exp_far(-eta[i])


@leaf
def follow(v, count, state):
    """Update the state of a block after a move of its predictors by v."""
    wide()
    for i in range(count):
        state[i] *= exp(-v[i])


@leaf
def follow_near(v, count, state):
    """Update the state as `follow` does, for v from short_dot, which is overwritten."""
    wide()
    for i in range(count):  # a loop of float32 alone takes twice as many rows at once
        v[i] = exp_near_short(-v[i])
    for i in range(count):
        state[i] *= v[i]


@leaf
def ratio_near(v, e):
    """Return the ratio in float32 where e = e^-m, for a short change v of m."""
    t = tanh_half_short(v)
    return atanh_twice_short(e * t / ((ONE + e) + t))


@leaf
def ratio_far(moved, e):
    """Return the ratio where e = e^-m is multiplied by `moved`."""
    return log((1.0 + e) / (1.0 + e * moved))


@leaf
def ratio_cells(v, state, scale, shift, half, count):
    """Return the sum over rows of clipped ratios, in cells; v is overwritten."""
    wide()
    total = 0
    for i in range(count):
        v[i] = exp(-v[i])
    for i in range(count):
        total += cell(ratio_far(v[i], state[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratio_cells_near(v, state, scale, shift, half, count, e):
    """Return ratio_cells for v from short_dot, which is not changed; e: scratch memory."""
    wide()
    total = 0
    for i in range(count):
        e[i] = state[i] if state[i] < LARGEST_SINGLE else LARGEST_SINGLE
    for i in range(count):
        e[i] = ratio_near(v[i], e[i])
    for i in range(count):
        total += cell(np.float64(e[i]), scale, shift, half)
    return total - count * MAGIC_BITS


@leaf
def ratios(near, eta, v, state, short, count):
    """Overwrite v with each row's log likelihood ratio, in float32 for short moves."""
    if near:
        for i in range(count):
            short[0, i], short[1, i] = np.float32(-eta[i]), np.float32(v[i])
        for i in range(count):
            short[0, i] = ratio_near(short[1, i], exp_short(short[0, i]))
        for i in range(count):
            v[i] = short[0, i]
        return
    state_of(eta, count, state)
    for i in range(count):
        v[i] = exp(-v[i])
    for i in range(count):
        v[i] = ratio_far(v[i], state[i])


@leaf
def factors(eta, norm, clip, scale, count, out):
    """Write each row's clipped derivative 1 / (1 + e^eta), in cells, in float32."""
    wide()
    top = clip * scale
    short_clip, short_top, largest = np.float32(clip), np.float32(top), np.float32(LARGEST_SINGLE)
    for i in range(count):
        out[i] = eta[i]
    for i in range(count):  # of float32 alone: twice as many rows at once
        most = short_clip * (ONE + exp_short(out[i]))
        factor = short_top / (norm[i] if norm[i] > most else most)
        out[i] = factor if factor < largest else largest
