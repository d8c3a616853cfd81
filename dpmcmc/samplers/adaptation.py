"""Adaptation of the moves of a random walk to the posterior, from draws that are released already.

During warm-up only: at step counts that are fixed before the run, the covariance of the latest
draws of all chains gives the directions and lengths of the next moves. After the warm-up the moves
do not change, so that the chain is a homogeneous Markov chain.
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
# batches of all chains, for batch means; a chain that drifts has as many effective draws
BATCH_COUNT = 32
# effective draws from which a new covariance replaces the old one,
MIN_ESS_OF_COVARIANCE = 64.0
MIN_ESS_PER_COEFFICIENT = 6.0  # and for each coefficient
SHARED_VARIANCE = 0.1  # of a coefficient's variance, explained by others
WORTHWHILE_GAIN = 1.1  # factor of effective draws from which slanted moves are used
FEWEST_IN_BATCH = 4  # draws of a batch
MAX_GROUPS = 16  # chains that are compared singly; more of them are compared in groups
MAX_DRAWS_KEPT = 8192  # draws of a chain that are used
LEAST_EIGENVALUE = 1e-12  # eigenvalue of a correlation
# of moves, in posterior sds, whose public widths are computed: where intervals are clipped or not
# linear, they are not proportional to the length
LENGTHS = np.geomspace(2.0**-8, 4.0, 21)
HALVINGS = 24  # bisections for the longest allowed move
STRETCHED_SHARES = {
    False: 2 / 3,
    True: 1 / 4,
}  # parts of the warm-up with longer moves; true: if fitted


@dataclass(frozen=True, slots=True)
class Moves:
    """The proposals of a step. vectors: (m, d).

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
    """Return the indices (length,) of chosen vectors, for all chains, and amounts along them.

    shape: (length, chain). Amounts are (length, chain), or (length, chain, m) where all are taken.
    """
    count = len(moves.vectors)
    if moves.kind == "whole":
        return np.zeros(shape[0], np.int64), amounts((*shape, count), random)
    return random.integers(count, shape[:1]), amounts(shape, random)


def draws_a_step(covariance: Floats, vectors: Floats, draws_along: Floats) -> float:
    """Return the mean effective draws per step over coefficients.

    covariance: (d, d) of the posterior. vectors: (m, d), of which each has length 1 in posterior
    sds. draws_along: (m,) effective draws of a step along each.
    """
    mobility = (vectors.T * (2.0 * draws_along / len(vectors))) @ vectors
    times = 2.0 * np.diag(covariance @ np.linalg.solve(mobility, covariance))
    return float(np.mean(1.0 / np.maximum(times / np.diag(covariance), 1.0)))


def widths_of(width: Width, vectors: Floats, alone: bool) -> Floats:
    """Return public widths (len(LENGTHS), m) of moves of these LENGTHS along vectors (m, d)."""
    return np.array([width(length * vectors, alone) for length in LENGTHS.tolist()])


def best_moves(
    covariance: Floats, width: Width, fit: Fit, whole: bool = False
) -> tuple[Moves, float]:
    """Return the moves with most effective draws of N(., covariance (d, d)), and their number.

    The candidates are the axes, the columns of the covariance's symmetric root (which does not mix
    uncorrelated coefficients), and its principal directions. whole: the symmetric root alone.
    """
    axes_of, root, principal = _roots(covariance)
    if whole:
        scales, draws_along = fit(
            widths_of(width, root.sum(axis=0, keepdims=True), False), len(root)
        )
        return Moves(scales[0] * root, "whole"), float(draws_along[0])
    best: tuple[Moves, float] | None = None
    for vectors in (axes_of, root, principal):
        axis_moves = vectors is axes_of
        scales, draws_along = fit(widths_of(width, vectors, axis_moves), 1)
        draws = draws_a_step(covariance, vectors, draws_along)
        if best is None or draws > WORTHWHILE_GAIN * best[1]:
            best = Moves(scales[:, None] * vectors, "axes" if axis_moves else "slanted"), draws
    if best is None:
        raise ValueError("no directions of moves were given")
    return best


def _roots(covariance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return axes, symmetric root and principal directions as rows of one posterior sd each.

    A coefficient that is nearly uncorrelated with the others is left alone: a move with a small
    part of others would have a wider interval.
    """
    sds = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(sds, sds)
    values, vectors = _spectrum(correlation)
    independent = (vectors**2 / values).sum(axis=1) < 1.0 / (1.0 - SHARED_VARIANCE)
    if independent.any():
        correlation[independent] = correlation[:, independent] = 0.0
        values, vectors = _spectrum(correlation + np.diag(independent.astype(np.float64)))
    principal = (vectors * np.sqrt(values)).T * sds
    root = (vectors * np.sqrt(values)) @ vectors.T * sds
    axes_of = np.diag(sds / np.sqrt((vectors**2 / values).sum(axis=1)))
    return axes_of, root, principal


def _spectrum(correlation: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, no less than LEAST_EIGENVALUE, and eigenvectors."""
    values, vectors = np.linalg.eigh(correlation)
    return np.maximum(values, LEAST_EIGENVALUE), vectors


def enlarged(base: Moves, covariance: Floats, width: Width, fit: Fit) -> Moves:
    """Return base with the principal directions of the covariance added to its vectors.

    For too few draws to replace base, whose moves are kept.
    """
    back = np.linalg.inv(base.vectors)
    values, vectors = np.linalg.eigh(back.T @ covariance @ back)
    directions = (vectors * np.sqrt(np.maximum(values, 0.0))).T @ base.vectors
    directions = directions[values > 0.0]
    if not len(directions):
        return base
    added = fit(widths_of(width, directions, False), 1)[0][:, None] * directions
    return Moves(np.concatenate((base.vectors, added)), "slanted")


def shortened_to(moves: Moves, width: Width, widest: float) -> Moves:
    """Return the moves, shortened where their public width is above `widest`.

    Widths are not proportional to lengths: a clipped interval keeps its width until the move is
    short enough.
    """
    alone = moves.kind == "axes"
    factors, shortest = np.ones(len(moves.vectors)), np.zeros(len(moves.vectors))
    too_wide = width(moves.vectors, alone) > widest
    if moves.kind == "whole" or not too_wide.any():
        return moves
    longest = factors.copy()
    for _ in range(HALVINGS):
        factors = np.where(too_wide, 0.5 * (shortest + longest), 1.0)
        narrow_enough = width(factors[:, None] * moves.vectors, alone) <= widest
        shortest, longest = (
            np.where(narrow_enough, factors, shortest),
            np.where(narrow_enough, longest, factors),
        )
    shortened = np.where(too_wide & (shortest > 0.0), shortest, 1.0)
    return Moves(shortened[:, None] * moves.vectors, moves.kind)


def effective(draws: Floats) -> float:
    """Return the effective draws of the slowest coefficient of draws (chain, draw, d).

    From batch means and the variance of the chain that moves least: a chain that only drifts has
    about as many as there are batches; if a chain never moves, the result is 0.
    """
    chains, count, d = draws.shape
    number = max(2, BATCH_COUNT // chains)
    size = count // number
    if size < FEWEST_IN_BATCH:
        return 0.0
    means = draws[:, count - number * size :].reshape(chains * number, size, d).mean(axis=1)
    groups = [
        (group - group[:1, :1]).reshape(-1, d).var(axis=0)  # exactly 0 where one stands still
        for group in np.array_split(draws, min(chains, MAX_GROUPS))
    ]
    spread, least = means.var(axis=0, ddof=1), np.min(groups, axis=0)
    if not (np.isfinite(least).all() and (spread > 0.0).all()):
        return 0.0
    return float(chains * number * np.min(least / spread))


class Walk:
    """The moves of all chains, and the latest draws until the next fit.

    moves: of the next step. signs: (chain, m) of a guided walk, None if they must be drawn. A block
    of a chain may end at any step.
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
        """steps: of the warm-up in which moves are fitted, or 0. fit: None for no fit.

        lengths: factors of the moves of the first steps. widest: public width above which a move
        would be rejected for that alone; moves are shortened to it.
        """
        self.moves, self._widest = moves, widest
        self._lengths = np.ones(0) if lengths is None else lengths
        self.signs: NDArray[np.int64] | None = None
        self._target, self._base, self._fit = target, moves, fit
        self._points = adaptation_steps(steps) if fit is not None else ()
        self._stride = -(-steps // MAX_DRAWS_KEPT) or 1
        self._done, self._kept, self._known = 0, list[Floats](), False

    def through(self, length: int, advance: Callable[[int], Floats]) -> Floats:
        """Return draws (chain, length, d) of advance(steps), with fits of the moves in between.

        advance: takes this many steps with the present moves and returns (chain, steps, d).
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
        """Return the factors (count,) of the lengths of the next moves."""
        first_lengths = self._lengths[self._done : self._done + count]
        return np.concatenate((first_lengths, np.ones(count - len(first_lengths))))

    def _see(self, draws: Floats) -> None:
        """Keep released draws, and fit the moves where this many steps are due."""
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
        pooled = draws.reshape(-1, draws.shape[2])
        effective_draws = effective(draws)
        if effective_draws == 0.0:
            self.hold(pooled[-1])
            return
        covariance = np.atleast_2d(np.cov(pooled, rowvar=False))
        self.shape(pooled.mean(axis=0), covariance, effective_draws if trusted else 0.0)

    def shape(self, here: Floats, covariance: Floats, effective_draws: float = math.inf) -> None:
        """Fit the moves to a covariance (d, d) around here (d,), from this many effective draws."""
        if self._fit is None or not np.isfinite(covariance).all():
            return
        whole = self._base.kind == "whole"

        def width(deltas: Floats, alone: bool) -> Floats:
            """Return public widths of moves around `here`."""
            return self._target.widths(here, deltas, alone)

        if effective_draws >= max(MIN_ESS_OF_COVARIANCE, MIN_ESS_PER_COEFFICIENT * len(here)):
            self.moves = self._base = best_moves(covariance, width, self._fit, whole)[0]
            self._known = True
        elif not whole and not self._known:
            self.moves = enlarged(self._base, covariance, width, self._fit)
        self.hold(here)
        self.signs = None

    def hold(self, here: Floats) -> None:
        """Shorten the moves that are too wide at a position (d,).

        It uses public widths alone: here is the public start, or follows from released numbers.
        """
        if math.isfinite(self._widest) and np.isfinite(here).all():

            def width(deltas: Floats, alone: bool) -> Floats:
                """Return public widths of moves at `here`."""
                return self._target.widths(here, deltas, alone)

            self.moves = shortened_to(self.moves, width, self._widest)


def lengths(stretch: float, steps: int, fitted: bool) -> Floats:
    """Return the first lengths of the moves in a warm-up of this many steps.

    fitted: whether moves are fitted to its draws.
    """
    return np.geomspace(stretch, 1.0, int(STRETCHED_SHARES[fitted] * steps))


def adaptation_steps(steps: int) -> tuple[int, ...]:
    """Return the step counts after which moves are fitted, the last one being steps."""
    return tuple(
        sorted({steps * part // ADAPTATION_POINTS[-1] for part in ADAPTATION_POINTS} - {0})
    )
