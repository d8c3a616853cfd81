"""A privacy loss distribution on a grid, and its composition with itself in bounded time.

Whatever is done to one here makes it no better: masses move to larger losses, or are split so that
the two parts, merged, give back what they came from (post-processing). Proof, round-off included:
docs/proofs/composition.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

FloatArray = NDArray[np.float64]
GRID_CELLS = 2**15  # of a grid after composition, about
TRUNCATED_TAIL = 1e-16  # probability that a truncation may call infinite
GRID_WIDTH_SHARE = 0.02  # of its spread: a grid's width after one of several compositions
TRIED_TILTS = 12  # exponents that are tried for a bound of a sum's tails
TAIL_GROUPS = 4096  # of cells, for such a bound
FEWEST_AT_ONCE, MOST_CELLS = (
    4,
    2**18,
)  # compositions at once, and cells where they are more than that


@dataclass(frozen=True, slots=True)
class Losses:
    """Probabilities of losses interval * (lowest, lowest + 1, ...), and of an infinite loss.

    interval: a power of 2, so that the grids of different mechanisms fit into each other.
    """

    interval: float
    lowest: int
    masses: FloatArray
    infinite: float

    @property
    def losses(self) -> FloatArray:
        """The finite losses, ascending."""
        return self.interval * np.arange(self.lowest, self.lowest + len(self.masses), dtype=float)

    @property
    def spread(self) -> float:
        """Standard deviation of the finite losses."""
        total, at = float(self.masses.sum()), np.arange(len(self.masses))
        mean = float(self.masses @ at) / total
        return self.interval * math.sqrt(float(self.masses @ (at - mean) ** 2) / total)

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence at epsilon."""
        first = max(0, math.floor(epsilon / self.interval) - self.lowest)
        further = self.losses[first:] - epsilon
        gained = -np.expm1(-np.maximum(further, 0.0))
        return self.infinite + float(gained @ self.masses[first:])

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 with delta(epsilon) <= delta, or infinity."""
        if self.infinite > delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0, self.lowest + len(self.masses) - 1  # at high nothing finite is left
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.delta(self.interval * middle) <= delta
            low, high = (low, middle) if enough else (middle, high)
        return self._between(high, delta)

    def _between(self, cell: int, delta: float) -> float:
        """Return the epsilon with this delta within the interval that ends at a cell."""
        first = max(0, cell - self.lowest)  # it may lie below all losses
        masses, end = self.masses[first:], self.interval * cell
        upper = self.infinite + float(masses.sum())
        lower = float(np.exp(end - self.losses[first:]) @ masses)
        return end + math.log((upper - delta) / lower)


def dotted(interval: float, deltas: FloatArray, others: FloatArray) -> Losses:
    """Return the distribution with a piecewise linear profile (Doroshenko et al. 2022).

    deltas: a profile at interval * (0, 1, ...), at least two of them; others: that of the other
    direction, from which masses below 0 follow without cancelling (docs/proofs/composition.md, 1).
    """
    deltas, others = _falling(deltas), _falling(others)
    above, below = _masses(interval, deltas), _masses(interval, others)
    below *= np.exp(-interval * np.arange(1, len(others), dtype=float))
    steep = (deltas[0] - deltas[1] + others[0] - others[1]) / math.expm1(interval)
    middle = max(0.0, 1.0 - float(min(deltas[0], others[0])) - float(steep))
    masses = np.concatenate([below[::-1], [middle], above])
    return Losses(interval, 1 - len(others), masses, float(deltas[-1]))


def _falling(deltas: FloatArray) -> FloatArray:
    """Return deltas made nonincreasing, as rises can only be round-off."""
    profile: FloatArray = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    return profile


def _masses(interval: float, deltas: FloatArray) -> FloatArray:
    """Return the masses at interval * (1, 2, ...), second differences of a profile."""
    falls = -np.diff(deltas)
    bends = falls - np.append(falls[1:], 0.0)
    masses: FloatArray = np.maximum(bends / math.expm1(interval) + falls, 0.0)
    return masses


def coarsened(given: Losses, interval: float) -> Losses:
    """Return the distribution on a wider grid, each mass split between its neighbours.

    Total and mean of e^-loss are kept, so merging the two gives the mass back.
    """
    if interval <= given.interval:
        return given
    losses = given.losses
    cells = np.floor(losses / interval)
    part = np.expm1(cells * interval - losses) / math.expm1(-interval)
    first = int(cells[0])
    at, above = (cells - first).astype(np.int64), given.masses * part
    size = int(at[-1]) + 2
    masses = np.zeros(size)
    masses += np.bincount(at, given.masses - above, size)
    masses += np.bincount(at + 1, above, size)
    return Losses(interval, first, masses, given.infinite)


def trimmed(given: Losses) -> Losses:
    """Return the distribution without far tails: upper ones as infinite, lower as the least."""
    masses = given.masses
    below, above = np.cumsum(masses), np.cumsum(masses[::-1])[::-1]
    first = min(int(np.searchsorted(below, TRUNCATED_TAIL)), len(masses) - 1)
    last = max(first, int(np.searchsorted(-above, -TRUNCATED_TAIL)) - 1)
    kept = masses[first : last + 1].copy()
    kept[0] += float(masses[:first].sum())
    lost = float(masses[last + 1 :].sum())
    return Losses(given.interval, given.lowest + first, kept, given.infinite + lost)


def together(first: Losses, second: Losses) -> Losses:
    """Return the composition of two distributions, on the wider of their grids."""
    interval = max(first.interval, second.interval)
    first, second = coarsened(first, interval), coarsened(second, interval)
    length = len(first.masses) + len(second.masses) - 1
    size = next_fast_len(length, real=True)
    product = rfft(first.masses, size) * rfft(second.masses, size)
    masses = np.maximum(irfft(product, size)[:length], 0.0)
    infinite = first.infinite + second.infinite
    return trimmed(Losses(interval, first.lowest + second.lowest, masses, infinite))


def repeated(losses: Losses, count: int, widest: float) -> Losses:
    """Return the composition of `count` copies, in time logarithmic in count.

    As many at a time as a grid of about GRID_CELLS holds; then the grid is made wider, by what the
    spread has grown, and so on. widest: the widest interval that serves.
    """
    rest: Losses | None = None
    while count > 1:
        block = _block(losses, count)
        count, remainder = divmod(count, block)
        if remainder:
            few = _power(losses, remainder)
            rest = few if rest is None else together(rest, few)
        losses = _power(losses, block)
        if count > 1:
            losses = coarsened(losses, max(losses.interval, _interval(losses, widest)))
    return losses if rest is None else together(losses, rest)


def _interval(losses: Losses, widest: float) -> float:
    """Return a grid interval, a power of 2: a small part of the sd, within the cell limit."""
    wanted = min(GRID_WIDTH_SHARE * losses.spread, widest)
    least = len(losses.masses) * losses.interval / GRID_CELLS
    return float(2.0 ** math.floor(math.log2(max(wanted, least, losses.interval))))


def _block(losses: Losses, count: int) -> int:
    """Return how many copies to compose at once, so that about GRID_CELLS cells are used."""
    wide = max(20.0 * losses.spread / losses.interval, 1.0)
    block = int(min(count, max(FEWEST_AT_ONCE, (GRID_CELLS / wide) ** 2)))
    while block > FEWEST_AT_ONCE:
        first, last = _ends(losses.masses, block)
        if last - first < MOST_CELLS:
            break
        block = max(FEWEST_AT_ONCE, block // 4)
    return block


def _power(losses: Losses, count: int) -> Losses:
    """Return the composition of `count` copies by one Fourier transform."""
    if count == 1:
        return losses
    first, last = _ends(losses.masses, count)
    size = next_fast_len(max(last - first + 1, len(losses.masses)), real=True)
    wrapped = irfft(rfft(losses.masses, size) ** count, size)
    masses = np.maximum(np.roll(wrapped, -(first % size))[: last - first + 1], 0.0)
    infinite = 1.0 if losses.infinite >= 1 else -math.expm1(count * math.log1p(-losses.infinite))
    return trimmed(
        Losses(losses.interval, count * losses.lowest + first, masses, infinite + TRUNCATED_TAIL)
    )


def _ends(masses: FloatArray, count: int) -> tuple[int, int]:
    """Return cells between which the sum lies except with probability TRUNCATED_TAIL.

    For groups of cells, each taken to lie at its upper end, or at its lower one for the lower tail.
    """
    group = -(-len(masses) // TAIL_GROUPS)
    starts = np.arange(0, len(masses), group)
    grouped = np.add.reduceat(masses, starts)
    total, lower, upper = float(grouped.sum()), starts, starts + group - 1
    mean = float(grouped @ starts) / total
    sd = max(math.sqrt(float(grouped @ (starts - mean) ** 2) / total), 1e-6)
    room, low, high = math.log(2.0 / TRUNCATED_TAIL), 0.0, float(count * (len(masses) - 1))
    gentle, steep = room / (4 * len(masses)), 14 / (math.sqrt(count) * sd)
    for tilt in np.geomspace(min(gentle, steep), steep, TRIED_TILTS).tolist():
        up = max(float(np.exp(tilt * (upper - upper[-1])) @ grouped), 1e-300)
        down = max(float(np.exp(-tilt * lower) @ grouped), 1e-300)
        high = min(high, count * (float(upper[-1]) + math.log(up) / tilt) + room / tilt)
        low = max(low, -count * math.log(down) / tilt - room / tilt)
    return math.floor(low), math.ceil(high)
