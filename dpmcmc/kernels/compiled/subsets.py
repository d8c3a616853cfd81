# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Uniform subsets of row numbers from a tape of random words."""

import numpy as np

from dpmcmc.kernels.compiled.maths import kernel, leaf

U = np.uint64  # of all that is an index: the compiler need not look for negative ones
BITS = U(32)  # of a word
LOW = U((1 << 32) - 1)
ONE, PLACE, SIX = U(1), U(63), U(6)  # marks: 2^6 bits of a number
SPARSE_RATIO = 4  # words of marks for each row of a batch, above which they are cleared singly


@leaf
def rows_of(words, rows, refused, drawn):
    """Write the row number for each word; for a refused word, the number of rows."""
    for i in range(words.size):
        product = U(words[i]) * rows
        drawn[i] = product >> BITS if product & LOW >= refused else rows


@leaf
def collect(drawn, marked, chosen, count):
    """Append drawn rows without a mark to chosen[:count], mark them, return the new count."""
    for i in range(drawn.size):
        row = U(drawn[i])
        word, bit = marked[row >> SIX], row & PLACE
        chosen[count] = row
        count += ONE - (word >> bit & ONE)
        marked[row >> SIX] = word | ONE << bit
    return count


@leaf
def unmarked(rows, marked, left):
    """Write the rows without a mark into left, whose length is larger by one."""
    count = U(0)
    for i in range(rows):
        row = U(i)
        left[count] = row
        count += ONE - (marked[row >> SIX] >> (row & PLACE) & ONE)


@kernel
def subsets(tape, rows, out, done):
    """Write row numbers into out[done:] (subset, batch). Return (subsets written, words used up).

    Each subset is uniform among those of its size: a row that is drawn again is skipped. For more
    than half of the rows, the complement is drawn. As many words are read at a time as rows are
    missing, so that none is left over. If the tape is too short for a subset, the next call begins
    it again, with the same words and more. tape: uint32; rows: 1 to 2^31. Words that would make
    some rows more likely are refused (Lemire 2019): they count as the row after the last, which is
    marked from the start.
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
    position = 0
    while done < out.shape[0]:
        start, count = position, U(0)
        marked[last >> SIX] |= ONE << (last & PLACE)
        while count < few:
            missing = few - np.int64(count)
            if position + missing > tape.size:
                return done, start
            rows_of(tape[position : position + missing], last, refused, drawn)
            count = collect(drawn[:missing], marked, chosen, count)
            position += missing
        if few == batch:
            out[done] = chosen
        else:
            unmarked(rows, marked, left)
            out[done] = left[:batch]
        if sparse:
            for i in range(few):
                marked[U(chosen[i]) >> SIX] = 0
        else:
            marked[:] = 0
        done += 1
    return done, position
