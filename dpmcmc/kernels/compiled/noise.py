# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Exact discrete Gaussian draws from a tape of random words, by integer comparisons alone.

A tape is an int64 array of independent uniform words of BITS bits. Draws are a function of the
tape; a draw for which the tape is too short is left out, and repeated with more words.
"""

from dpmcmc.kernels.compiled.maths import interpreted, kernel, leaf

BITS = 62
# number of draws that plain Python makes in the time that loading the compiler takes
PLAIN_PYTHON_DRAWS = 4096


@leaf
def _word(tape, position):
    """Return the word at this position; after the end the highest word, which is always refused."""
    return tape[position] if position < tape.size else (1 << BITS) - 1


@leaf
def _one_in(tape, position, m):
    """Return (true with probability 1 / m, next position). Words above m * share are refused."""
    share = (1 << BITS) // m
    while position < tape.size and tape[position] >= m * share:
        position += 1
    return _word(tape, position) < share, position + 1


@leaf
def _half(tape, position):
    """Return (true with probability exp(-1 / 2), next position)."""
    k = 1
    going, position = _one_in(tape, position, 2)
    while going:
        k += 1
        going, position = _one_in(tape, position, 2 * k)
    return k % 2 == 1, position


@leaf
def _exp(tape, position, parts, digits, power):
    """Return (true with probability exp(-g), next position), g = x for power 1, x^2 / 2 for 2.

    x = parts / 2^digits. Count k = 1, 2, ... while Bernoulli(g / k) succeeds; the k that fails is
    odd with that probability.
    """
    k, going = 0, True
    while going:
        k += 1
        for _ in range(power):
            if going:
                going = (_word(tape, position) >> (BITS - digits)) < parts
                position += 1
        if going and power * k > 1:
            going, position = _one_in(tape, position, power * k)
    return k % 2 == 1, position


@kernel
def discrete_gaussians(tape, log2_sd, out, done):
    """Fill out[done:]. Return (number of filled entries, number of used words).

    |v| = 2^log2_sd (k + x): k has weight exp(-k^2 / 2), x is uniform on its grid, and both are kept
    with probability exp(-k x - x^2 / 2). Source: Karney 2016, algorithm D.
    """
    position = 0
    while done < out.size:
        start, whole = position, 0
        going, position = _half(tape, position)
        while going and position <= tape.size:
            whole += 1
            going, position = _half(tape, position)
        kept = True
        for _ in range(whole * (whole - 1)):
            if kept:
                kept, position = _half(tape, position)
        value = 0
        if kept:
            word = _word(tape, position)
            position += 1
            parts = word >> (BITS - log2_sd)
            for _ in range(whole):
                if kept:
                    kept, position = _exp(tape, position, parts, log2_sd, 1)
            if kept:
                kept, position = _exp(tape, position, parts, log2_sd, 2)
            value = (whole << log2_sd) + parts
            if word & 1:  # not among the bits of `parts`
                kept, value = kept and value > 0, -value
        if position > tape.size:
            return done, start
        if kept:
            out[done] = value
            done += 1
    return done, position


_plain = interpreted(discrete_gaussians)


def filler(size: int):
    """Return discrete_gaussians: compiled if it already is or size is large, else plain Python."""
    waits = not getattr(discrete_gaussians, "signatures", None)
    return _plain if waits and size <= PLAIN_PYTHON_DRAWS else discrete_gaussians
