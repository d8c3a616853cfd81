"""Fits the moves of a random walk to the posterior, from draws that are released already.

During warm-up only: at step counts that are fixed before the run, the covariance of the latest
draws of all chains decides along which directions and how far the walk moves from then on. After
the warm-up the moves stay as they are, so that the chain is a homogeneous Markov chain.
Privacy: post-processing of released draws. Proof: docs/proofs/adaptation.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.families.target import Places
from dpmcmc.privacy.noise import RandomSource

Floats = NDArray[np.float64]
Fit = Callable[[Floats, int], tuple[Floats, Floats]]
"""(len(LENGTHS), m) public widths of moves of these lengths, and of how many vectors a move is the
sum -> (m,) best lengths, in posterior sds, and (m,) effective draws that a step of these gives."""
Width = Callable[[Floats, bool], Floats]
"""(m, d) moves, and whether each moves one coefficient alone -> (m,) public widths."""
Amounts = Callable[[tuple[int, ...], RandomSource], Floats]
"""(shape, random) -> how far to go, as likely as the same way back."""

# parts of the warm-up, of 64, after which moves are fitted
ADAPTATION_POINTS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
# of all chains, in which effective draws are counted; a chain that drifts has as many
BATCH_COUNT = 32
# effective draws from which a covariance may take the place of what was there,
MIN_ESS_OF_COVARIANCE = 64.0
MIN_ESS_PER_COEFFICIENT = 6.0  # and for each coefficient
SHARED_VARIANCE = 0.1  # of a coefficient's variance, that others tell of it
WORTHWHILE_GAIN = 1.1  # times the draws, from which slanted moves are worth their work
FEWEST_IN_BATCH = 4  # draws of a batch
MAX_GROUPS = 16  # chains that are judged one by one; more of them are judged in groups
MAX_DRAWS_KEPT = 8192  # draws of a chain that are looked at
LEAST_EIGENVALUE = 1e-12  # eigenvalue of a correlation
# of moves, in posterior sds, whose public widths are looked at: where intervals are cut, or bend,
# the width of one says little of that of another
LENGTHS = np.geomspace(2.0**-8, 4.0, 21)
HALVINGS = 24  # of the lengths between which a move is as long as it may be
STRETCHED_SHARES = {
    False: 2 / 3,
    True: 1 / 4,
}  # parts of the warm-up with longer moves; true: if fitted


@dataclass(frozen=True, slots=True)
class Moves:
    """What a step may move by. vectors: (m, d).

    kind: "axes", one coefficient, and vector k moves coefficient k; "slanted", along one vector
    chosen at random; "whole", the sum of all vectors, each times a number of its own.
    """

    vectors: Floats
    kind: Literal["axes", "slanted", "whole"]

    def along(self, chosen: NDArray[np.int64], amounts: Floats) -> Floats:
        """Return (length, chain, d) moves of amounts, (length, chain) or (length, chain, m)."""
        if self.kind == "whole":
            return np.asarray(amounts @ self.vectors)
        return np.asarray(amounts[:, :, None] * self.vectors[chosen][:, None, :])


def axes(scale: float, dimension: int, kind: str) -> Moves:
    """Return moves of one length along every axis; kind: of a proposal."""
    return Moves(scale * np.eye(dimension), "whole" if kind == "full" else "axes")


def drawn(
    moves: Moves,
    shape: tuple[int, int],
    amounts: Amounts,
    random: RandomSource,
) -> tuple[NDArray[np.int64], Floats]:
    """Return (length,) vectors chosen, for all chains, and amounts to go along them.

    shape: (length, chain). Amounts are (length, chain), or (length, chain, m) where all are taken.
    """
    count = len(moves.vectors)
    if moves.kind == "whole":
        return np.zeros(shape[0], np.int64), amounts((*shape, count), random)
    return random.integers(count, shape[:1]), amounts(shape, random)


def draws_a_step(covariance: Floats, vectors: Floats, each: Floats) -> float:
    """Return the effective draws of a step, averaged over the coefficients.

    covariance: (d, d) of the posterior. vectors: (m, d), of which each has length 1 in posterior
    sds. each: (m,) effective draws of a step along it.
    """
    mobility = (vectors.T * (2.0 * each / len(vectors))) @ vectors
    times = 2.0 * np.diag(covariance @ np.linalg.solve(mobility, covariance))
    return float(np.mean(1.0 / np.maximum(times / np.diag(covariance), 1.0)))


def widths_of(width: Width, vectors: Floats, alone: bool) -> Floats:
    """Return (len(LENGTHS), m) public widths of vectors (m, d) of one posterior sd, so long."""
    return np.array([width(length * vectors, alone) for length in LENGTHS.tolist()])


def best_moves(
    covariance: Floats, width: Width, fit: Fit, whole: bool = False
) -> tuple[Moves, float]:
    """Return the moves that give most effective draws of N(., covariance (d, d)), and how many.

    The axes; the columns of the covariance's symmetric root, which leaves coefficients alone that
    are correlated with none; its principal directions. whole: the symmetric root alone.
    """
    lone, root, principal = _roots(covariance)
    if whole:
        scales, each = fit(widths_of(width, root.sum(axis=0, keepdims=True), False), len(root))
        return Moves(scales[0] * root, "whole"), float(each[0])
    best: tuple[Moves, float] | None = None
    for vectors in (lone, root, principal):
        alone = vectors is lone
        scales, each = fit(widths_of(width, vectors, alone), 1)
        draws = draws_a_step(covariance, vectors, each)
        if best is None or draws > WORTHWHILE_GAIN * best[1]:
            best = Moves(scales[:, None] * vectors, "axes" if alone else "slanted"), draws
    if best is None:
        raise ValueError("there are always axes")
    return best


def _roots(covariance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return axes, symmetric root and principal directions as rows of one posterior sd each.

    A coefficient of which the others tell next to nothing keeps to itself: a move of it and a
    little of others has the wide interval of both.
    """
    sds = np.sqrt(np.diag(covariance))
    related = covariance / np.outer(sds, sds)
    values, vectors = _spectrum(related)
    apart = (vectors**2 / values).sum(axis=1) < 1.0 / (1.0 - SHARED_VARIANCE)
    if apart.any():
        related[apart] = related[:, apart] = 0.0
        values, vectors = _spectrum(related + np.diag(apart.astype(np.float64)))
    principal = (vectors * np.sqrt(values)).T * sds
    root = (vectors * np.sqrt(values)) @ vectors.T * sds
    alone = np.diag(sds / np.sqrt((vectors**2 / values).sum(axis=1)))
    return alone, root, principal


def _spectrum(related: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, no less than LEAST_EIGENVALUE, and eigenvectors."""
    values, vectors = np.linalg.eigh(related)
    return np.maximum(values, LEAST_EIGENVALUE), vectors


def enlarged(base: Moves, covariance: Floats, width: Width, fit: Fit) -> Moves:
    """Return base with the principal directions beside it, as seen from its own vectors.

    For draws too few to trust, where nothing better is known: whatever they are like, the moves of
    base stay.
    """
    back = np.linalg.inv(base.vectors)
    values, vectors = np.linalg.eigh(back.T @ covariance @ back)
    tried = (vectors * np.sqrt(np.maximum(values, 0.0))).T @ base.vectors
    tried = tried[values > 0.0]
    if not len(tried):
        return base
    more = fit(widths_of(width, tried, False), 1)[0][:, None] * tried
    return Moves(np.concatenate((base.vectors, more)), "slanted")


def held(moves: Moves, width: Width, widest: float) -> Moves:
    """Return the moves, those shortened that are wider than `widest`, until they are not.

    Widths do not shrink in proportion to lengths: an interval that is cut stays as wide as it is
    cut to until it is narrower by itself.
    """
    alone = moves.kind == "axes"
    factors, shortest = np.ones(len(moves.vectors)), np.zeros(len(moves.vectors))
    wide = width(moves.vectors, alone) > widest
    if moves.kind == "whole" or not wide.any():
        return moves
    longest = factors.copy()
    for _ in range(HALVINGS):
        factors = np.where(wide, 0.5 * (shortest + longest), 1.0)
        fits = width(factors[:, None] * moves.vectors, alone) <= widest
        shortest, longest = np.where(fits, factors, shortest), np.where(fits, longest, factors)
    kept = np.where(wide & (shortest > 0.0), shortest, 1.0)
    return Moves(kept[:, None] * moves.vectors, moves.kind)


def effective(draws: Floats) -> float:
    """Return the effective draws of the slowest coefficient of draws (chain, draw, d).

    By the means of batches, beside the variance of the chain that moves least: one that only drifts
    has about as many as there are batches, and where one never moves there are none.
    """
    chains, count, d = draws.shape
    number = max(2, BATCH_COUNT // chains)
    size = count // number
    if size < FEWEST_IN_BATCH:
        return 0.0
    means = draws[:, count - number * size :].reshape(chains * number, size, d).mean(axis=1)
    groups = [
        (some - some[:1, :1]).reshape(-1, d).var(axis=0)  # exactly 0 where one stands still
        for some in np.array_split(draws, min(chains, MAX_GROUPS))
    ]
    spread, least = means.var(axis=0, ddof=1), np.min(groups, axis=0)
    if not (np.isfinite(least).all() and (spread > 0.0).all()):
        return 0.0
    return float(chains * number * np.min(least / spread))


class Walk:
    """The moves of all chains, and the latest draws until the next fit.

    moves: those of the next step. signs: (chain, m) of a guided walk, None where they are to be
    drawn. A block of a chain may end anywhere.
    """

    def __init__(
        self,
        target: Places,
        moves: Moves,
        steps: int,
        fit: Fit | None,
        lengths: Floats | None = None,
        widest: float = math.inf,
    ) -> None:
        """steps: of the warm-up that fits are made in, 0 for none. fit: None for none.

        lengths: of the moves of the first steps, times what they would be. widest: public width of
        a move beyond which it would be refused: moves are shortened until they are not.
        """
        self.moves, self._widest = moves, widest
        self._lengths = np.ones(0) if lengths is None else lengths
        self.signs: NDArray[np.int64] | None = None
        self._target, self._base, self._fit = target, moves, fit
        self._points = points(steps) if fit is not None else ()
        self._stride = -(-steps // MAX_DRAWS_KEPT) or 1
        self._done, self._kept, self._known = 0, list[Floats](), False

    def through(self, length: int, advance: Callable[[int], Floats]) -> Floats:
        """Return (chain, length, d) draws of advance(steps), fitting the moves where that is due.

        advance: takes so many steps with the present moves and returns (chain, steps, d).
        """
        parts = []
        while length > 0:
            ahead = [point - self._done for point in self._points if point > self._done]
            draws = advance(min([length, *ahead]))
            length -= draws.shape[1]
            parts.append(draws)
            self._see(draws)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def lengths(self, count: int) -> Floats:
        """Return (count,) how many times as long as `moves` the next moves are."""
        some = self._lengths[self._done : self._done + count]
        return np.concatenate((some, np.ones(count - len(some))))

    def _see(self, draws: Floats) -> None:
        before, self._done = self._done, self._done + draws.shape[1]
        if not self._points or before >= self._points[-1]:
            return
        self._kept.append(draws[:, -before % self._stride :: self._stride])
        if self._done in self._points:
            half = -(-self._done // self._stride) // 2
            self._kept = [np.concatenate(self._kept, axis=1)[:, -max(half, 1) :]]
            self.fit(self._kept[0], trusted=self._done // 2 >= len(self._lengths))

    @np.errstate(all="ignore")  # draws far out overflow, and are not trusted
    def fit(self, draws: Floats, *, trusted: bool = True) -> None:
        """Fit the moves to released draws (chain, draw, d).

        trusted: false where some were made by longer moves, most of which are rejected.
        """
        every = draws.reshape(-1, draws.shape[2])
        enough = effective(draws)
        if enough == 0.0:
            self.hold(every[-1])
            return
        covariance = np.atleast_2d(np.cov(every, rowvar=False))
        self.shape(every.mean(axis=0), covariance, enough if trusted else 0.0)

    def shape(self, here: Floats, covariance: Floats, enough: float = math.inf) -> None:
        """Fit the moves to a covariance (d, d) around here (d,), from this many effective draws."""
        if self._fit is None or not np.isfinite(covariance).all():
            return
        whole = self._base.kind == "whole"

        def width(deltas: Floats, alone: bool) -> Floats:
            return self._target.widths(here, deltas, alone)

        if enough >= max(MIN_ESS_OF_COVARIANCE, MIN_ESS_PER_COEFFICIENT * len(here)):
            self.moves = self._base = best_moves(covariance, width, self._fit, whole)[0]
            self._known = True
        elif not whole and not self._known:
            self.moves = enlarged(self._base, covariance, width, self._fit)
        self.hold(here)
        self.signs = None

    def hold(self, here: Floats) -> None:
        """Shorten the moves that would be refused at a place (d,) for the width of their interval.

        From their public widths alone: here is the public start, or follows from what is released.
        """
        if math.isfinite(self._widest) and np.isfinite(here).all():

            def width(deltas: Floats, alone: bool) -> Floats:
                return self._target.widths(here, deltas, alone)

            self.moves = held(self.moves, width, self._widest)


def lengths(stretch: float, steps: int, fitted: bool) -> Floats:
    """Return the first lengths of the moves in a warm-up of this many steps.

    fitted: whether moves are fitted to its draws.
    """
    return np.geomspace(stretch, 1.0, int(STRETCHED_SHARES[fitted] * steps))


def points(steps: int) -> tuple[int, ...]:
    """Return the step counts after which moves are fitted, the last one being steps."""
    return tuple(
        sorted({steps * part // ADAPTATION_POINTS[-1] for part in ADAPTATION_POINTS} - {0})
    )
