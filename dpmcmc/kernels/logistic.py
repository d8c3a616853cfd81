# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Leaves of the logistic samplers: arrays in, arrays out, no randomness, no objects.

Layout: sx (d, n), the design with the sign of the response folded in, one row per parameter;
odds (chain, n), exp(-margin) of every row at each chain's position, margin = sx^T theta.
A tile of rows stays in the first cache while all chains pass over it. The likelihood ratio of a row
is exp(r) = (1 + odds) / (1 + odds'), with odds' = odds * exp(-sx . delta); LANES running products
take one logarithm per tile each.

Sums are exact: every product's logarithm is rounded to a power-of-two grid, coarse enough that
float64 adds up to n of them without error. So a sum depends neither on the order of the rows nor on
the number of threads, and one row moves it by at most hi - lo + SLACK + 2 grid; see
docs/proofs/dp_penalty.md, section 3.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from dpmcmc.models import logistic_bounds

TILE = 512
LANES = 16
STEEP = 16.0  # above this many nats a product of TILE / LANES ratios could overflow
FLOOR, CEILING = 1e-100, 1e100  # of the odds: margins are held within +-230 nats,
REACH = 460.0  # and moves within twice that, so that no product overflows or is subnormal
OPTIONS: Any = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}, "nogil": True}

component_interval = njit(**OPTIONS)(logistic_bounds.component_interval)
vector_interval = njit(**OPTIONS)(logistic_bounds.vector_interval)


@njit(**OPTIONS)
def exp_inplace(values, scratch, count):
    """values[:count] = exp(values[:count]) within +-REACH, relative error 2e-16.

    scratch: (count,) int64.
    """
    power = scratch.view(np.float64)
    for i in range(count):
        x = min(max(values[i], -REACH), REACH)
        shifted = x * 1.4426950408889634 + 6755399441055744.0
        power[i] = shifted
        k = shifted - 6755399441055744.0
        r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        values[i] = p * r + 1.0
    for i in range(count):
        scratch[i] = (scratch[i] + 1023) << 52
    for i in range(count):
        values[i] *= power[i]


@njit(**OPTIONS)
def grid_of(lo, hi, rows):
    """Return the power-of-two grid on which up to `rows` values of this size add up exactly."""
    size = max(hi, -lo, 1e-200)
    return 2.0 ** (math.ceil(math.log2(size)) + math.ceil(math.log2(rows + 1.0)) - 50)


@njit(**OPTIONS)
def tile_ratio(odds, factor, count, lo, hi, grid, lanes):
    """Sum of clipped log ratios of one tile on the grid. factor: exp(-sx . delta) per row."""
    magic = 6755399441055744.0 * grid
    total = 0.0
    if max(hi, -lo) > STEEP:
        for i in range(count):
            moved = min(max(odds[i] * factor[i], FLOOR), CEILING)
            r = min(max(math.log((1.0 + odds[i]) / (1.0 + moved)), lo), hi)
            total += (r + magic) - magic
        return total
    low = math.exp(lo)
    high = math.exp(hi)
    for k in range(LANES):
        lanes[k] = 1.0
    whole = count // LANES * LANES
    for start in range(0, whole, LANES):
        for k in range(LANES):
            i = start + k
            moved = min(max(odds[i] * factor[i], FLOOR), CEILING)
            lanes[k] *= min(max((1.0 + odds[i]) / (1.0 + moved), low), high)
    for i in range(whole, count):
        moved = min(max(odds[i] * factor[i], FLOOR), CEILING)
        lanes[i - whole] *= min(max((1.0 + odds[i]) / (1.0 + moved), low), high)
    for k in range(LANES):
        total += (math.log(lanes[k]) + magic) - magic
    return total


@njit(**OPTIONS)
def refresh(sx, theta, odds):
    """odds[c] = exp(-sx^T theta[c]), held within FLOOR and CEILING."""
    dimension, rows = sx.shape
    values = np.empty(TILE)
    scratch = np.empty(TILE, np.int64)
    for start in range(0, rows, TILE):
        count = min(TILE, rows - start)
        for c in range(theta.shape[0]):
            for i in range(count):
                values[i] = 0.0
            for j in range(dimension):
                t = theta[c, j]
                for i in range(count):
                    values[i] -= sx[j, start + i] * t
            exp_inplace(values, scratch, count)
            for i in range(count):
                odds[c, start + i] = min(max(values[i], FLOOR), CEILING)


@njit(**OPTIONS)
def component_ratios(sx, odds, j, deltas, lo, hi):
    """Return (chain,) exact sums over rows of the clipped log ratios of theta_j -> theta_j + delta.

    lo, hi: (chain,) the public interval of one row's ratio.
    """
    rows = sx.shape[1]
    chains = deltas.shape[0]
    sums = np.zeros(chains)
    values = np.empty(TILE)
    scratch = np.empty(TILE, np.int64)
    lanes = np.empty(LANES)
    column = sx[j]
    for start in range(0, rows, TILE):
        count = min(TILE, rows - start)
        for c in range(chains):
            step = deltas[c]
            for i in range(count):
                values[i] = -step * column[start + i]
            exp_inplace(values, scratch, count)
            grid = grid_of(lo[c], hi[c], rows)
            sums[c] += tile_ratio(odds[c, start:], values, count, lo[c], hi[c], grid, lanes)
    return sums


@njit(**OPTIONS)
def vector_ratios(sx, odds, deltas, lo, hi):
    """Return (chain,) exact sums of the clipped log ratios of theta -> theta + deltas[c]."""
    dimension, rows = sx.shape
    chains = deltas.shape[0]
    sums = np.zeros(chains)
    values = np.empty(TILE)
    scratch = np.empty(TILE, np.int64)
    lanes = np.empty(LANES)
    for start in range(0, rows, TILE):
        count = min(TILE, rows - start)
        for c in range(chains):
            for i in range(count):
                values[i] = 0.0
            for j in range(dimension):
                step = deltas[c, j]
                for i in range(count):
                    values[i] -= sx[j, start + i] * step
            exp_inplace(values, scratch, count)
            grid = grid_of(lo[c], hi[c], rows)
            sums[c] += tile_ratio(odds[c, start:], values, count, lo[c], hi[c], grid, lanes)
    return sums


@njit(**OPTIONS)
def component_commit(sx, odds, j, deltas, accepted):
    """odds[c] *= exp(-sx[j] * delta) for the accepted chains."""
    rows = sx.shape[1]
    values = np.empty(TILE)
    scratch = np.empty(TILE, np.int64)
    column = sx[j]
    for c in range(deltas.shape[0]):
        if accepted[c]:
            for start in range(0, rows, TILE):
                count = min(TILE, rows - start)
                for i in range(count):
                    values[i] = -deltas[c] * column[start + i]
                exp_inplace(values, scratch, count)
                for i in range(count):
                    moved = odds[c, start + i] * values[i]
                    odds[c, start + i] = min(max(moved, FLOOR), CEILING)


@njit(**OPTIONS)
def component_intervals(theta, j, deltas, lower, upper, group, bound):
    """Return (lo, hi), (chain,) each: the public interval of one row's ratio, cut at +-bound."""
    chains = theta.shape[0]
    lo = np.empty(chains)
    hi = np.empty(chains)
    for c in range(chains):
        low, high = component_interval(theta[c], j, deltas[c], lower, upper, group)
        lo[c] = max(low, -bound)
        hi[c] = min(high, bound)
    return lo, hi


@njit(**OPTIONS)
def vector_intervals(theta, deltas, lower, upper, group, bound):
    """Return (lo, hi), (chain,) each, for moves of the whole position."""
    chains = theta.shape[0]
    lo = np.empty(chains)
    hi = np.empty(chains)
    for c in range(chains):
        low, high = vector_interval(theta[c], deltas[c], lower, upper, group)
        lo[c] = max(low, -bound)
        hi[c] = min(high, bound)
    return lo, hi


@njit(**OPTIONS)
def vector_commit(sx, odds, deltas, accepted):
    """odds[c] *= exp(-sx^T deltas[c]) for the accepted chains."""
    dimension, rows = sx.shape
    values = np.empty(TILE)
    scratch = np.empty(TILE, np.int64)
    for start in range(0, rows, TILE):
        count = min(TILE, rows - start)
        for c in range(deltas.shape[0]):
            if accepted[c]:
                for i in range(count):
                    values[i] = 0.0
                for j in range(dimension):
                    step = deltas[c, j]
                    for i in range(count):
                        values[i] -= sx[j, start + i] * step
                exp_inplace(values, scratch, count)
                for i in range(count):
                    moved = odds[c, start + i] * values[i]
                    odds[c, start + i] = min(max(moved, FLOOR), CEILING)


@njit(**OPTIONS)
def grids(lo, hi, rows):
    """Return (chain,) the grids that the sums over `rows` rows are rounded to."""
    steps = np.empty(lo.shape[0])
    for c in range(lo.shape[0]):
        steps[c] = grid_of(lo[c], hi[c], rows)
    return steps
