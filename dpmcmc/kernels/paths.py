# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Leapfrog trajectories of all chains, each of whose gradients is released with noise."""

import numpy as np
from numba import njit

from dpmcmc.kernels.forms import describe, ends_of_gradients, log_prior_gradient
from dpmcmc.kernels.maths import OPTIONS, kernel, leaf, uncounted
from dpmcmc.kernels.rows import score_sums
from dpmcmc.kernels.threads import all_done, held_counters, held_rows, part_done, part_taken
from dpmcmc.privacy import discrete

FARTHEST = 1e9  # a trajectory that leaves +- this is lost

noised = njit(**OPTIONS)(discrete.noised)


@leaf
def kick(momentum, half, gradient, root):
    """Add half * gradient @ root to a momentum (d,)."""
    for k in range(momentum.size):
        moved = 0.0
        for i in range(momentum.size):
            moved += gradient[i] * root[i, k]
        momentum[k] += half * moved


@leaf
def drift(position, step, momentum, root):
    """Add step * momentum @ root.T to a position (d,). Return whether it is still near."""
    near = True
    for i in range(position.size):
        moved = 0.0
        for k in range(momentum.size):
            moved += momentum[k] * root[i, k]
        position[i] += step * moved
        near = near and abs(position[i]) < FARTHEST
    return near


@kernel
def score_totals(rows, told, shared, turn, totals):
    """Write the gradients of all rows, (chain, d) int64, into totals. told: see rows.score_sums.

    shared, turn: see threads.part_taken. Two threads may ask at once, each for totals of its own.
    """
    rows, shared = held_rows(rows), held_counters(shared)
    totals[:], own, blocks = 0, 0, rows[0].shape[0]
    first, last = part_taken(shared, turn, blocks, own)
    while first < blocks:
        score_sums(*rows, first, last, *told, totals)
        part_done(shared, turn, totals)
        own += 1
        first, last = part_taken(shared, turn, blocks, own)
    all_done(shared, turn, blocks, totals)


@kernel
def leapfrog(rows, public, scores, path, noise, shared, here, positions, momenta, gradients, lost):
    """Move positions, momenta and gradients (chain, d) to the ends of trajectories from here.

    rows: (x, y, count, link). scores: (norm, precision, columns_back, clip, scale, grid): what
    score_sums is told, what x has been divided by, see forms.ends_of_gradients, and the size of a
    cell. path: (step size, root, back, (centre, pull, offset), noisy grid); see samplers.base.Path.
    noise: (leapfrog, chain, d) integers. shared: see threads.part_taken. lost (chain,): set where
    a trajectory goes where no number is exact; it stays at its start and is paid for like all
    others. Two threads may run the same trajectories, each on positions, momenta, gradients and
    lost of its own.
    """
    rows, shared = held_rows(rows), held_counters(shared)
    norm, precision, columns_back, clip, scale, grid = scores
    norm, precision = uncounted(norm), uncounted(precision)
    step, root, back, (centre, pull, offset), noisy_grid = path
    (chains, d), totals = here.shape, np.empty(here.shape, np.int64)
    straight, aux, prior = np.empty(d), np.empty(3), np.empty(d)
    for turn in range(noise.shape[0]):
        for c in range(chains):
            kick(momenta[c], 0.5 * step, gradients[c], root)
            near = drift(positions[c], step, momenta[c], root)
            lost[c] = lost[c] or not near
            if lost[c]:
                positions[c] = here[c]
        ends = ends_of_gradients(public, positions, columns_back)
        told = norm, precision, ends, clip, scale
        score_totals(rows, told, shared, turn, totals)
        for c in range(chains):
            describe(public, positions[c], straight, aux)
            log_prior_gradient(public, positions[c], straight, prior)
            for k in range(d):
                gradients[c, k] = prior[k] + offset[k]
            for i in range(d):
                released = noised(grid * totals[c, i], noisy_grid, noise[turn, c, i])
                away = positions[c, i] - centre[i]
                for k in range(d):
                    gradients[c, k] += released * back[i, k] + away * pull[i, k]
            kick(momenta[c], 0.5 * step, gradients[c], root)
