# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Exact discrete Gaussian draws from a tape of random words, by integer comparisons alone.

A tape is an int64 array of independent uniform words of BITS bits. What is drawn is a function of
the tape; a draw that the tape is too short for is left out, to be taken up with more words.
"""

from dpmcmc.kernels.compiled.maths import interpreted, kernel, leaf

BITS = 62
# draws at a time that plain Python makes as quickly as the compiler is loaded
PLAIN_PYTHON_DRAWS = 4096


@leaf
def _word(tape, at):
    """Return the word at this place; behind the end the highest word, which chooses nothing."""
    return tape[at] if at < tape.size else (1 << BITS) - 1


@leaf
def _one_in(tape, at, m):
    """Return (true with probability 1 / m, next place). The last part of all words is refused."""
    share = (1 << BITS) // m
    while at < tape.size and tape[at] >= m * share:
        at += 1
    return _word(tape, at) < share, at + 1


@leaf
def _half(tape, at):
    """Return (true with probability exp(-1 / 2), next place)."""
    k = 1
    going, at = _one_in(tape, at, 2)
    while going:
        k += 1
        going, at = _one_in(tape, at, 2 * k)
    return k % 2 == 1, at


@leaf
def _exp(tape, at, parts, digits, power):
    """Return (true with probability exp(-g), next place), g = x for power 1, x^2 / 2 for 2.

    x = parts / 2^digits. Count k = 1, 2, ... while Bernoulli(g / k) succeeds; the k that fails is
    odd with that probability.
    """
    k, going = 0, True
    while going:
        k += 1
        for _ in range(power):
            if going:
                going = (_word(tape, at) >> (BITS - digits)) < parts
                at += 1
        if going and power * k > 1:
            going, at = _one_in(tape, at, power * k)
    return k % 2 == 1, at


@kernel
def discrete_gaussians(tape, log2_sd, out, done):
    """Fill out[done:]. Return (how many are filled, how many words are used up).

    |v| = 2^log2_sd (k + x): k has weight exp(-k^2 / 2), x is uniform on its grid, and both are kept
    with probability exp(-k x - x^2 / 2). Source: Karney 2016, algorithm D.
    """
    at = 0
    while done < out.size:
        start, whole = at, 0
        going, at = _half(tape, at)
        while going and at <= tape.size:
            whole += 1
            going, at = _half(tape, at)
        kept = True
        for _ in range(whole * (whole - 1)):
            if kept:
                kept, at = _half(tape, at)
        value = 0
        if kept:
            word = _word(tape, at)
            at += 1
            parts = word >> (BITS - log2_sd)
            for _ in range(whole):
                if kept:
                    kept, at = _exp(tape, at, parts, log2_sd, 1)
            if kept:
                kept, at = _exp(tape, at, parts, log2_sd, 2)
            value = (whole << log2_sd) + parts
            if word & 1:  # not among the bits of `parts`
                kept, value = kept and value > 0, -value
        if at > tape.size:
            return done, start
        if kept:
            out[done] = value
            done += 1
    return done, at


_plain = interpreted(discrete_gaussians)


def filler(size: int):
    """Return discrete_gaussians for so many draws: compiled if it is already, or they are many."""
    waits = not getattr(discrete_gaussians, "signatures", None)
    return _plain if waits and size <= PLAIN_PYTHON_DRAWS else discrete_gaussians
