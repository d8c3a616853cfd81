# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Uniform subsets of rows from a tape of random words. No row is seen here, only their number."""

import numpy as np

from dpmcmc.kernels.maths import kernel

BITS = 62  # of a word, which is good for two draws
HALF = 31
MASK = (1 << HALF) - 1
ONE = np.int64(1)
SPARSE = 4  # words of marks for a row of a batch, above which they are wiped out one by one


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
    marked = np.zeros(rows // 64 + 1, np.int64)  # one bit for each row
    sparse = marked.size > SPARSE * few
    chosen = np.empty(few, np.int32)
    at = 0  # in halves of words
    while done < out.shape[0]:
        start, count = at, 0
        while count < few:
            if at >> 1 == tape.size:
                return done, start >> 1
            product = ((tape[at >> 1] >> (HALF * (at & 1))) & MASK) * rows
            at += 1
            row = product >> HALF
            word, bit = marked[row >> 6], ONE << (row & 63)
            if (product & MASK >= refused) & (word & bit == 0):
                marked[row >> 6] = word | bit
                chosen[count] = row
                count += 1
        at += at & 1
        if few == batch:
            out[done] = chosen
        else:
            place = 0
            for row in range(rows):
                if marked[row >> 6] & (ONE << (row & 63)) == 0:
                    out[done, place] = row
                    place += 1
        if sparse:
            for i in range(few):
                marked[chosen[i] >> 6] = 0
        else:
            marked[:] = 0
        done += 1
    return done, at >> 1
