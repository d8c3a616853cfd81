# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Uniform subsets of rows from a tape of random words. No row is seen here, only their number."""

import numpy as np

from dpmcmc.kernels.maths import kernel

BITS = 62  # of a word; a draw takes the upper half
HALF = 31
MASK = (1 << HALF) - 1
ONE = np.int64(1)


@kernel
def subsets(tape, rows, out, done):
    """Write row numbers into out[done:] (subset, batch). Return (subsets written, words used up).

    Each subset is uniform among those of its size: draws that are already in it are passed over. Of
    more than half of the rows those left out are drawn. A subset that the tape is too short for is
    begun anew by the next call, with the same words and more. tape: int64 words of BITS bits;
    rows: 1 to 2^31. Without bias: the part of the words that would favour some rows is refused
    (Lemire 2019).
    """
    batch = out.shape[1]
    few = batch if 2 * batch <= rows else rows - batch
    refused = (1 << HALF) % rows
    at = 0
    while done < out.shape[0]:
        start, chosen = at, 0
        marked = np.zeros(rows // 64 + 1, np.int64)  # one bit for each row
        while chosen < few:
            if at == tape.size:
                return done, start
            product = (tape[at] >> HALF) * rows
            at += 1
            row = product >> HALF
            bit = ONE << (row & 63)
            if product & MASK >= refused and marked[row >> 6] & bit == 0:
                marked[row >> 6] |= bit
                if few == batch:
                    out[done, chosen] = row
                chosen += 1
        if few < batch:
            place = 0
            for row in range(rows):
                if marked[row >> 6] & (ONE << (row & 63)) == 0:
                    out[done, place] = row
                    place += 1
        done += 1
    return done, at
