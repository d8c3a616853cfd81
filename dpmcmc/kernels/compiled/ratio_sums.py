# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Sums over rows of clipped log likelihood ratios, for all chains at once.

Every model is l = f(offset + weights . x; y, curvature), where the family says which f; the map
from a position to (weights, aux) is public and lives in dpmcmc/families. Arrays in, arrays out, no
randomness, no objects.

Arithmetic is float64, except for the ratios of short moves, which are most moves of a chain.

A move adds `step` to the weights of columns low, low + 1, ... and `lift` to the offset. state is
(known, moved), (blocks, chain, BLOCK) each: a row's state at the chain's position, from which
ratios follow and which a family's `state_of` writes; and, float32, the change of eta by the last
short move. The next sum after an accepted move updates the state of a block while it is in cache.

Sums are exact: each row's clipped term is rounded to a whole number of cells and added as an
integer, so the order of rows and the number of threads change no bit, and one replaced row changes
a ratio sum by at most 2 `half` cells. Proof: docs/proofs/dp_penalty.md, section 3.

A row that is left out for a missing value has covariates of 0, with which logistic and Poisson
ratios are 0. For the other two families its y is NaN, and `counted` makes its part 0.
"""

import numpy as np

from dpmcmc.kernels.compiled.blocks import (
    BLOCK,
    OFFSET,
    column_start,
    dot,
    prefetch_columns,
    rows_of_block,
    short_dot,
)
from dpmcmc.kernels.compiled.dispatch import (
    follow,
    follow_near,
    has_state,
    ratio_cells,
    ratio_cells_near,
    state_of,
)
from dpmcmc.kernels.compiled.maths import alone, kernel, piece, row, uncounted
from dpmcmc.kernels.compiled.threads import part_taken

KEEP, FOLLOW, FILL = 0, 1, 2  # a chain's state: is valid, needs the last move, must be computed


@kernel
def ratio_room(columns):
    """Return scratch memory for ratio_sums."""
    weights, dotted = np.empty(columns, np.float32), np.empty(BLOCK, np.float32)
    return np.empty(BLOCK), weights, dotted, np.empty(BLOCK, np.float32)


@kernel
def ratio_sums(
    x, y, count, family, shared, turn, move, ends, modes, before, state, cells, half, total, room
):
    """Add to total (chain,) int64 each chain's clipped ratio sum over this thread's blocks.

    In cells. Returns the number of parts. shared, turn: arguments of threads.part_taken.
    move, before: (low, step (chain, columns), lift (chain,), near (chain,)), of this move and the
    last one. ends: (weights (chain, all columns), aux (chain, 3)) of the start of a move and aux
    of its end. modes (chain,): the update that the state needs. cells: (scale, shift), (chain,).
    room: of ratio_room.
    """
    alone()  # with all its parts, as a call takes its time too
    (low, step, lift, near), (low_before, step_before, lift_before, near_before) = move, before
    (weights, here, there), (scale, shift), (v, short, dotted, e) = ends, cells, room
    x, y, total = uncounted(x), uncounted(y), uncounted(total)
    state, moved = uncounted(state[0]), uncounted(state[1])
    v, e, short, dotted = uncounted(v), uncounted(e), uncounted(short), uncounted(dotted)
    modes, scale, shift = uncounted(modes), uncounted(scale), uncounted(shift)
    step, lift, near = uncounted(step), uncounted(lift), uncounted(near)
    step_before, lift_before = uncounted(step_before), uncounted(lift_before)
    near_before, weights = uncounted(near_before), uncounted(weights)
    here, there = uncounted(here), uncounted(there)
    parts, blocks = 0, x.shape[0]
    first, last = part_taken(shared, turn, blocks, parts)
    while first < blocks:
        for b in range(first, last):
            rows, responses = rows_of_block(count, b), row(y, b)
            for c in range(step.shape[0]):
                state_start = (b * step.shape[0] + c) * BLOCK
                now = piece(state, state_start, BLOCK)
                by = piece(moved, state_start, BLOCK) if has_state(family) else dotted
                if modes[c] == FOLLOW and near_before[c]:
                    follow_near(family, by, rows, now)
                elif modes[c] == FOLLOW:
                    dot(
                        x,
                        column_start(x, b, low_before),
                        row(step_before, c),
                        lift_before[c],
                        rows,
                        v,
                    )
                    follow(family, v, rows, now)
                elif modes[c] == FILL:
                    dot(x, column_start(x, b, 0), row(weights, c), here[c, OFFSET], rows, v)
                    state_of(family, v, responses, rows, now)
                if c == 0:
                    prefetch_columns(x, column_start(x, min(b + 1, last - 1), low), step.shape[1])
                arguments = (
                    responses,
                    now,
                    row(here, c),
                    row(there, c),
                    scale[c],
                    shift[c],
                    half,
                    rows,
                )
                if near[c]:
                    short_dot(x, column_start(x, b, low), row(step, c), rows, short, by)
                    total[c] += ratio_cells_near(family, by, lift[c], *arguments, e)
                else:
                    dot(x, column_start(x, b, low), row(step, c), lift[c], rows, v)
                    total[c] += ratio_cells(family, v, *arguments)
        parts += 1
        first, last = part_taken(shared, turn, blocks, parts)
    return parts
