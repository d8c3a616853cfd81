"""Exact discrete Gaussian draws from a tape of random words, by integer comparisons alone.

A tape has independent uniform words of BITS bits: a list, or an int64 array. Draws are a function
of the tape; a draw for which the tape is too short is left out, and repeated with more words.
"""

from typing import Any

BITS = 62


def _word(tape: Any, position: int) -> Any:
    """Return the word at this position; after the end the highest word, which is always refused."""
    return tape[position] if position < len(tape) else (1 << BITS) - 1


def _one_in(tape: Any, position: int, m: int) -> Any:
    """Return (true with probability 1 / m, next position). Words above m * share are refused."""
    share, end = (1 << BITS) // m, len(tape)
    while position < end and tape[position] >= m * share:
        position += 1
    return position < end and tape[position] < share, position + 1


def _half(tape: Any, position: int) -> Any:
    """Return (true with probability exp(-1 / 2), next position)."""
    k = 1
    going, position = _one_in(tape, position, 2)
    while going:
        k += 1
        going, position = _one_in(tape, position, 2 * k)
    return k % 2 == 1, position


def _exp(tape: Any, position: int, parts: Any, digits: int, power: int) -> Any:
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


def discrete_gaussians(tape: Any, log2_sd: int, out: Any, done: int) -> tuple[int, int]:
    """Fill out[done:]. Return (number of filled entries, number of used words).

    |v| = 2^log2_sd (k + x): k has weight exp(-k^2 / 2), x is uniform on its grid, and both are kept
    with probability exp(-k x - x^2 / 2). Source: Karney 2016, algorithm D.
    """
    position = 0
    while done < out.size:
        start, whole = position, 0
        going, position = _half(tape, position)
        while going and position <= len(tape):
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
        if position > len(tape):
            return done, start
        if kept:
            out[done] = value
            done += 1
    return done, position
