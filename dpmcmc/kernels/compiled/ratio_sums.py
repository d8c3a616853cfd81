# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Sums over rows of clipped log likelihood ratios, for all chains at once.

Every model is l = f(offset + weights . x; y, curvature), where the family says which f; the map
from a position to (weights, aux) is public and lives in dpmcmc/families. Arrays in, arrays out, no
randomness, no objects.

Arithmetic is float64, but for the ratios of short moves, which are those that chains make.

A move adds `step` to the weights of columns low, low + 1, ... and `lift` to the offset. state is
(known, moved), (blocks, chain, BLOCK) each: what a ratio needs to know of a row at the chain's
position, which a family's `state_of` writes; and, float32, by how much a short move that was asked
for last moves eta. The next sum after an accepted move brings the state of a block up to date
while it is there.

Sums are exact: each row's clipped term is rounded to a whole number of cells and added as an
integer, so the order of rows and the number of threads change no bit, and one replaced row changes
a ratio sum by at most 2 `half` cells. Proof: docs/proofs/dp_penalty.md, section 3.

A row that is left out for a missing value has covariates of 0, of which logistic and Poisson rows
say nothing. Of the other two families its y is not a number, and `counted` makes its part 0.
"""

import numpy as np

from dpmcmc.kernels.compiled.blocks import BLOCK, OFFSET, ask_for, dot, place, short_dot, used
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

KEEP, FOLLOW, FILL = 0, 1, 2  # of a chain's state: it holds, the last move was made, unknown


@kernel
def ratio_room(columns):
    """Return what ratio_sums writes in."""
    weights, dotted = np.empty(columns, np.float32), np.empty(BLOCK, np.float32)
    return np.empty(BLOCK), weights, dotted, np.empty(BLOCK, np.float32)


@kernel
def ratio_sums(
    x, y, count, family, shared, turn, move, ends, modes, before, state, cells, half, total, room
):
    """Add to total (chain,) int64 each chain's clipped ratio sum over the blocks taken, in cells.

    Returns how many parts these are. shared, turn: what threads.part_taken takes.
    move, before: (low, step (chain, columns), lift (chain,), near (chain,)), what is asked for and
    the last one. ends: (weights (chain, all columns), aux (chain, 3)) where a move starts and aux
    where it ends. modes (chain,): what the state needs before. cells: (scale, shift), (chain,).
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
    own, blocks = 0, x.shape[0]
    first, last = part_taken(shared, turn, blocks, own)
    while first < blocks:
        for b in range(first, last):
            rows, answers = used(count, b), row(y, b)
            for c in range(step.shape[0]):
                place_here = (b * step.shape[0] + c) * BLOCK
                now = piece(state, place_here, BLOCK)
                by = piece(moved, place_here, BLOCK) if has_state(family) else dotted
                if modes[c] == FOLLOW and near_before[c]:
                    follow_near(family, by, rows, now)
                elif modes[c] == FOLLOW:
                    dot(x, place(x, b, low_before), row(step_before, c), lift_before[c], rows, v)
                    follow(family, v, rows, now)
                elif modes[c] == FILL:
                    dot(x, place(x, b, 0), row(weights, c), here[c, OFFSET], rows, v)
                    state_of(family, v, answers, rows, now)
                if c == 0:
                    ask_for(x, place(x, min(b + 1, last - 1), low), step.shape[1])
                how = answers, now, row(here, c), row(there, c), scale[c], shift[c], half, rows
                if near[c]:
                    short_dot(x, place(x, b, low), row(step, c), rows, short, by)
                    total[c] += ratio_cells_near(family, by, lift[c], *how, e)
                else:
                    dot(x, place(x, b, low), row(step, c), lift[c], rows, v)
                    total[c] += ratio_cells(family, v, *how)
        own += 1
        first, last = part_taken(shared, turn, blocks, own)
    return own
