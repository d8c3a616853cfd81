# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""One function for each operation on rows, which calls the function of the family for a block.

The branch is outside of the loops over a block. Codes of families:
dpmcmc/kernels/arithmetic/families.py.
"""

from numba import njit

from dpmcmc.kernels.arithmetic.families import IDENTITY, LINEAR, LOGISTIC, POISSON
from dpmcmc.kernels.arithmetic.intervals import dispatch as plain
from dpmcmc.kernels.compiled.families import identity, linear, logistic, poisson
from dpmcmc.kernels.compiled.maths import OPTIONS, calling, leaf

CALLED = (
    *("predictor_ranges", "widened", "component_interval", "vector_interval"),
    *("poisson_interval", "linear_interval", "identity_interval"),
)
interval = leaf(
    calling(plain.interval, {name: njit(**OPTIONS)(getattr(plain, name)) for name in CALLED})
)


@leaf
def has_state(family):
    """Return whether the family's ratios need a stored state of each row."""
    return family != IDENTITY


@leaf
def has_predictor(family):
    """Return whether the gradient is a derivative by the linear predictor times x."""
    return family != IDENTITY


@leaf
def has_response(family):
    """Return whether ratios read a response besides x."""
    return family != LOGISTIC


@leaf
def state_of(family, eta, y, count, out):
    """Write the state of each row of a block, from which ratios follow; eta may be out."""
    if family == LOGISTIC:
        logistic.state_of(eta, count, out)
    elif family == POISSON:
        poisson.state_of(eta, count, out)
    elif family == LINEAR:
        linear.state_of(eta, y, count, out)


@leaf
def follow(family, v, count, state):
    """Update the state of a block after a move of its predictors by v."""
    if family == LOGISTIC:
        logistic.follow(v, count, state)
    elif family == POISSON:
        poisson.follow(v, count, state)
    elif family == LINEAR:
        linear.follow(v, count, state)


@leaf
def follow_near(family, v, count, state):
    """Update the state as `follow` does, for v from short_dot, which is overwritten."""
    if family == LOGISTIC:
        logistic.follow_near(v, count, state)
    elif family == POISSON:
        poisson.follow_near(v, count, state)
    elif family == LINEAR:
        linear.follow(v, count, state)


@leaf
def ratio_cells(family, v, y, state, here, there, scale, shift, half, count):
    """Return the sum over rows of clipped log ratios, in cells; v: change of predictors.

    here, there: aux of the two ends. v is overwritten.
    """
    if family == LOGISTIC:
        return logistic.ratio_cells(v, state, scale, shift, half, count)
    if family == POISSON:
        return poisson.ratio_cells(v, y, state, scale, shift, half, count)
    if family == LINEAR:
        return linear.ratio_cells(v, y, state, here, there, scale, shift, half, count)
    return identity.ratio_cells(v, y, scale, shift, half, count)


@leaf
def ratio_cells_near(family, v, lift, y, state, here, there, scale, shift, half, count, e):
    """Return ratio_cells where predictors change by v and, for N(mean, 1) rows only, by lift.

    v: from short_dot, not changed. Ratios are float32 too, with a relative error of at most 1e-6.
    e (BLOCK,) float32: scratch memory; loops of float32 alone process twice as many rows at once.
    """
    if family == LOGISTIC:
        return logistic.ratio_cells_near(v, state, scale, shift, half, count, e)
    if family == POISSON:
        return poisson.ratio_cells_near(v, y, state, scale, shift, half, count, e)
    if family == LINEAR:
        return linear.ratio_cells(v, y, state, here, there, scale, shift, half, count)
    return identity.ratio_cells_near(v, lift, y, scale, shift, half, count)


@leaf
def ratios(family, near, eta, v, y, state, short, here, there, count):
    """Overwrite v with each row's log likelihood ratio.

    eta: predictors; v: their change. state (BLOCK,) and short (2, BLOCK) float32: scratch memory.
    Logistic ratios of short moves are float32, with an error of at most 1e-6 of the move.
    """
    if family == LOGISTIC:
        logistic.ratios(near, eta, v, state, short, count)
    elif family == POISSON:
        poisson.ratios(near, eta, v, y, state, count)
    elif family == LINEAR:
        linear.ratios(eta, v, y, state, here, there, count)
    else:
        identity.ratios(v, y, count)


@leaf
def factors(family, eta, y, norm, curvature, clip, scale, count, out):
    """Write each row's clipped derivative by the predictor, in grid cells.

    Of one block; not of N(mean, 1) rows. norm: of the rows. Clipped so that factor * norm is at
    most clip * scale, up to the rounding of out, float32.
    """
    if family == LOGISTIC:
        logistic.factors(eta, norm, clip, scale, count, out)
    elif family == POISSON:
        poisson.factors(eta, y, norm, clip, scale, count, out)
    else:
        linear.factors(eta, y, norm, curvature, clip, scale, count, out)
