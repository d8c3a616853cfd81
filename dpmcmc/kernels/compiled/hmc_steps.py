# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Whole steps of HMC: trajectories of noisy gradients, a noisy ratio, the decision, the move.

Two threads may run the same steps, as those of dpmcmc/kernels/compiled/penalty_steps.py.
"""

import numpy as np

from dpmcmc.kernels.compiled.gradient_sums import gradient_room, gradient_sums
from dpmcmc.kernels.compiled.maths import kernel, leaf
from dpmcmc.kernels.compiled.moves import ALL_COEFFICIENTS
from dpmcmc.kernels.compiled.penalty_steps import accepts, no_move, noised, ratios
from dpmcmc.kernels.compiled.position_facts import describe, ends_of_gradients, log_prior_gradient
from dpmcmc.kernels.compiled.ratio_sums import FILL, FOLLOW, KEEP
from dpmcmc.kernels.compiled.threads import all_done, borrowed, borrowed_counters

LARGEST_POSITION = 1e9  # a trajectory beyond +- this is lost (rejected)


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
    """Add step * momentum @ root.T to a position (d,). Return whether it is within bounds."""
    near = True
    for i in range(position.size):
        moved = 0.0
        for k in range(momentum.size):
            moved += momentum[k] * root[i, k]
        position[i] += step * moved
        near = near and abs(position[i]) < LARGEST_POSITION
    return near


@kernel
def gradient_totals(rows, sum_arguments, shared, turn, totals):
    """Write the gradients of all rows, (chain, d) int64, into totals.

    sum_arguments: of gradient_sums, after shared and turn. shared, turn: arguments of
    threads.part_taken. Two threads may call it at once, each with its own totals.
    """
    rows, sum_arguments, shared, room = (
        borrowed(rows),
        borrowed(sum_arguments),
        borrowed_counters(shared),
        gradient_room(),
    )
    totals[:] = 0
    parts = gradient_sums(*rows, shared, turn, *sum_arguments, totals, room)
    all_done(shared, turn, rows[0].shape[0], parts, totals)


@kernel
def leapfrog(
    rows, public, scores, trajectory, noise, shared, turn, here, positions, momenta, slopes
):
    """Move positions, momenta and gradients (chain, d) to the ends of trajectories from here.

    noise: (leapfrog, chain, d) integers; shared, turn: arguments of threads.part_taken; the other
    arguments are those of hmc_steps. slopes: (gradients, lost (chain,)); lost is set where a
    trajectory goes beyond LARGEST_POSITION; it stays at its start, and is charged like all others.
    """
    (norm, precision, columns_back, clip, scale, grid), (gradients, lost) = scores, slopes
    step, root, back, (centre, pull, offset), noisy_grid = trajectory
    (chains, d), totals = here.shape, np.empty(here.shape, np.int64)
    straight, aux, prior = np.empty(d), np.empty(3), np.empty(d)
    for k in range(noise.shape[0]):
        for c in range(chains):
            kick(momenta[c], 0.5 * step, gradients[c], root)
            near = drift(positions[c], step, momenta[c], root)
            lost[c] = lost[c] or not near
            if lost[c]:
                positions[c] = here[c]
        ends = ends_of_gradients(public, positions, columns_back)
        sum_arguments = norm, precision, ends, clip, scale
        gradient_totals(rows, sum_arguments, shared, turn + k, totals)
        for c in range(chains):
            describe(public, positions[c], straight, aux)
            log_prior_gradient(public, positions[c], straight, prior)
            for i in range(d):
                gradients[c, i] = prior[i] + offset[i]
            for j in range(d):
                released = noised(grid * totals[c, j], noisy_grid, noise[k, c, j])
                deviation = positions[c, j] - centre[j]
                for i in range(d):
                    gradients[c, i] += released * back[j, i] + deviation * pull[j, i]
            kick(momenta[c], 0.5 * step, gradients[c], root)


@kernel
def clip_widths(delta, steep, most):
    """Write into most (chain,) the widths to which intervals of moves delta (chain, d) are clipped.

    A width is twice the length of delta @ steep; steep (0, 0) clips nothing.
    """
    for c in range(most.size):
        squares = 0.0
        for k in range(steep.shape[1]):
            along = 0.0
            for i in range(steep.shape[0]):
                along += delta[c, i] * steep[i, k]
            squares += along * along
        most[c] = 2.0 * np.sqrt(squares) if steep.size > 0 else np.inf


@kernel
def hmc_steps(
    rows, round_rows, state, target, public, scores, trajectory, steep, steps, shared, own, draws
):
    """Take the steps of every chain; write the positions after each of them into draws.

    rows: (x, y, count, family); round_rows: in the coordinates in which gradients are clipped.
    target: (max_row_norm, tempering, clip, half) of moves.prepare. scores: (norm, precision,
    columns_back, clip, scale, grid): arguments of gradient_sums, the divisors of x for
    forms.ends_of_gradients, and the size of a cell. trajectory: (step size, root, back, (centre,
    pull, offset), noisy grid) of a target.Path. steep: of clip_widths. steps: a
    target.Trajectories. shared: of threads.part_taken; a step has a turn for each gradient and one
    for the ratio. own: (position, gradients), (chain, d), are changed, and belong to one thread;
    draws (chain, step, d).
    """
    state, (position, gradients) = borrowed(state), own
    momenta, noise, decisions, uniforms, (unit, sd) = steps
    (chains, d), leapfrogs, shape = position.shape, noise.shape[1], position.shape
    ends, after, fresh, delta = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    lost, kinetic, most = np.empty(chains, np.bool_), np.empty(chains), np.empty(chains)
    modes, totals = np.full(chains, FILL, np.int8), np.empty(chains, np.int64)
    before = no_move(target, public, position)
    for t in range(momenta.shape[0]):
        turn = t * (leapfrogs + 1)
        ends[:], after[:], fresh[:], lost[:] = position, momenta[t], gradients, False
        slopes = fresh, lost
        leapfrog(
            *(round_rows, public, scores, trajectory, noise[t], shared, turn, position),
            *(ends, after, slopes),
        )
        for c in range(chains):
            kinetic[c] = 0.0
            for i in range(d):
                delta[c, i] = 0.0 if lost[c] else ends[c, i] - position[c, i]
                kinetic[c] += momenta[t, c, i] ** 2 - after[c, i] ** 2
        clip_widths(delta, steep, most)
        move_of, state_of_chains = (position, delta, ALL_COEFFICIENTS), (modes, before)
        before, far, sums, sensitivities, publics = ratios(
            rows,
            state,
            target,
            public,
            shared,
            turn + leapfrogs,
            move_of,
            state_of_chains,
            most,
            totals,
        )
        for c in range(chains):
            grid, public_ratio = unit * sensitivities[c], publics[c] + 0.5 * kinetic[c]
            noisy = noised(sums[c], grid, decisions[t, c])
            accepted = accepts(noisy, sd * grid, public_ratio, uniforms[t, c]) and not lost[c]
            modes[c] = (FILL if far[c] else FOLLOW) if accepted else KEEP
            for i in range(d):
                position[c, i] += delta[c, i] if accepted else 0.0
                gradients[c, i] = fresh[c, i] if accepted else gradients[c, i]
                draws[c, t, i] = position[c, i]
