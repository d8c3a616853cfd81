# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Uniform subsets of rows from a tape of random words. No row is seen here, only their number."""

import numpy as np

from dpmcmc.kernels.compiled.maths import kernel, leaf

U = np.uint64  # of all that is an index: the compiler need not look for negative ones
BITS = U(32)  # of a word
LOW = U((1 << 32) - 1)
ONE, PLACE, SIX = U(1), U(63), U(6)  # marks: 2^6 bits of a number
SPARSE_RATIO = 4  # numbers of marks for a row of a batch, above which they are wiped out one by one


@leaf
def rows_of(words, rows, refused, drawn):
    """Write the row that each word stands for, and the one after the last for a refused word."""
    for i in range(words.size):
        product = U(words[i]) * rows
        drawn[i] = product >> BITS if product & LOW >= refused else rows


@leaf
def collect(drawn, marked, chosen, count):
    """Append what is drawn and not marked to chosen[:count], mark it, return the new count."""
    for i in range(drawn.size):
        row = U(drawn[i])
        word, place = marked[row >> SIX], row & PLACE
        chosen[count] = row
        count += ONE - (word >> place & ONE)
        marked[row >> SIX] = word | ONE << place
    return count


@leaf
def rest(rows, marked, left):
    """Write the rows that are not marked; left has room for one more."""
    count = U(0)
    for i in range(rows):
        row = U(i)
        left[count] = row
        count += ONE - (marked[row >> SIX] >> (row & PLACE) & ONE)


@kernel
def subsets(tape, rows, out, done):
    """Write row numbers into out[done:] (subset, batch). Return (subsets written, words used up).

    Each subset is uniform among those of its size: draws that are already in it are passed over. Of
    more than half of the rows those left out are drawn. As many words are read at a time as rows
    are missing, so none is left over. A subset that the tape is too short for is begun anew by the
    next call, with the same words and more. tape: uint32; rows: 1 to 2^31. Without bias: the part
    of the words that would favour some rows is refused (Lemire 2019); it counts as the row after
    the last, which is marked from the start.
    """
    batch = out.shape[1]
    few = batch if 2 * batch <= rows else rows - batch
    refused, last = U((1 << 32) % rows), U(rows)
    marked = np.zeros(rows // 64 + 1, np.uint64)  # one bit for each row, and for the one after
    sparse = marked.size > SPARSE_RATIO * few
    drawn, chosen, left = (
        np.empty(few, np.uint32),
        np.empty(few, np.int32),
        np.empty(batch + 1, np.int32),
    )
    at = 0
    while done < out.shape[0]:
        start, count = at, U(0)
        marked[last >> SIX] |= ONE << (last & PLACE)
        while count < few:
            missing = few - np.int64(count)
            if at + missing > tape.size:
                return done, start
            rows_of(tape[at : at + missing], last, refused, drawn)
            count = collect(drawn[:missing], marked, chosen, count)
            at += missing
        if few == batch:
            out[done] = chosen
        else:
            rest(rows, marked, left)
            out[done] = left[:batch]
        if sparse:
            for i in range(few):
                marked[U(chosen[i]) >> SIX] = 0
        else:
            marked[:] = 0
        done += 1
    return done, at
