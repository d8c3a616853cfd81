"""Choice of the clips of scores and squares for the last two iterates, and what they cut off.

Released are, as one vector, for each of a few layers how much of it the rows' scores fill, and
their squared residuals. What lies beyond a clip follows from the layers above it. A clip then costs
noise, which is known, and leaves out a part whose length is known about, and whose direction is
not: the clip is the one at which both together are least, and the part that is left out counts in
the posterior's variance. Proof: docs/proofs/noisy_quadratic.md, section 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpmcmc.inputs.blocks import SomeBlocks, each
from dpmcmc.mechanisms.joint_sums import Block, Caps, Floats, Sums, release
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import reach as reaches
from dpmcmc.releases.reach import FIRST, Reach

# ends of layers: of a score's length, in mean lengths of a row's score under the model; of a
# residual, in sds; of a row's curvature, in mean ones
LENGTHS = np.array([1.5, 2.1, 3.0, 4.2, 6.0, 9.0, 14.0, 25.0, 50.0, 120.0, 400.0])
SIZES = np.array([2.5, 4.0, 7.0, 12.0, 22.0, 40.0, 80.0, 200.0])
# parts of the farthest that is possible, within which layers begin and end
NEAREST, LAST = 0.7, 0.8
# log of a ratio, by which an end is to be off that of a mean row; behind that, as far as so many
# times, layers have this part of the weight by their width: rows with long covariates lie there
NEAR_BY, BEHIND, BEHIND_PART = 0.15, 3.0, 0.2
CURVES = np.array([1.5, 3.0, 6.0, 12.0, 40.0])
# of the precision of layers, of the three kinds
PARTS = (0.6, 0.1, 0.3)
# of what a clip takes from m rows, how much points the same way: (1 + m / 4)^(-1/6), the root mean
# square over real data sets (experiments/tails.py), and (1 + m / 3)^(-1/5) of m persons' sums
# (experiments/persons.py). All of what it takes from a single one does
SAME_WAY = 4.0, 1.0 / 6.0
SAME_WAY_PERSONS = 3.0, 1.0 / 5.0
# and where all long scores are of the same kind, as those of long times: more than all of it in the
# mean direction, as it is not spread over directions (experiments/glms.py)
ALLOWED_ALIKE = 1.2
CLEAR_SDS, DECAY = 3.0, 3.0  # of a layer; power of the length by which rows beyond it fall
DECAY_PERSONS = 4.0  # the same of persons' sums, whose rows differ
# of what layers that noise hides say together, what is taken off it before it is believed
LIKELY_SDS = 1.0
SQUARES_DECAY = 1.02  # and of squared residuals, at least: slower ones have no mean square
# of what noise hides of them, what is taken to be there, over its mean, and the sd, over the most
# that it can be: intervals then hold none of it, and all
HIDDEN_MEAN, HIDDEN_SD = 0.8, 0.38
# of what is hidden, the power where it falls more slowly in what is seen: of lengths, which fall on
# as slowly (experiments/tails.py), and of curvatures' roots; from where that is told
LEAST_DECAY, LEAST_CURVES_DECAY, SLOWEST_DECAY, LOOKED_BACK = 1.7, 2.5, 0.4, 0.3
CONVEX = 1.5  # power by which a layer empties: 1 if it is as full at its upper end, 2 if empty
NUM_TRIED = 90
TRIED_CURVES = np.geomspace(CURVES[0], CURVES[-1], NUM_TRIED)
# mean fourth powers of a normal variable of sd 1, and of what of it is within the first size
NORMAL_FOURTH, INNER_FOURTH = 3.0, 2.4
LEAST_SQUARE = 1e-2  # mean of squared residuals, over what their scale is taken to be
REACH, POINTS = 6.0, 65  # sds of noise, and points of a grid
# parts of a near iterate: of squared residuals, of the score's variance, and of the curvature,
SQUARE, VARIANCE, LEAST_CURVE, MOST_CURVE = 0.05, 0.03, 0.08, 0.35
# the same where scores are sums over persons, which are longer beside their curvature
MOST_CURVE_PERSONS = 0.2
# which is more where its noise is above this part of it, for a cap of so many mean ones, and above
# the second one for the cap that is taken; and where a likelihood is no quadratic, so that a place
# that is off counts by the curvature
CURVE_NOISE, CURVE_NOISE_BENT, USUAL_CURVE = (0.2, 0.25), (0.12, 0.15), 3.0
# of what may be unseen, where a clip is taken for it; by how many times the sd may then be wider,
# and where a likelihood is no quadratic: wide ones of it are unreliable for that. See
# experiments/wider_clips.py
NEARLY, MOST_WIDER, MOST_WIDER_BENT = 0.82, 2.0, 1.3
MINUS_PART = 1.0 / 3.0  # of the clip of a curvature, that of what it has below zero
CUT_WEIGHT = 1.5  # of a mean curvature that is cut, which one direction may have most of

RowSizes = tuple[Floats, Floats, Floats, Floats | None]  # see layers


@dataclass(frozen=True, slots=True)
class Layers:
    """Noisy histogram of row sizes in layers, of a mean row.

    ends: (k + 1,) layer bounds. part: (k,) of each layer that is filled, assumed where noise hides
    it. unsure: (k,) sds of part.
    """

    ends: Floats
    part: Floats
    unsure: Floats

    def beyond(self, clips: Floats) -> Floats:
        """Return means (m,) of max(value - clip, 0) over rows, for clips (m,)."""
        tails = np.append(np.cumsum((self.part * np.diff(self.ends))[::-1])[::-1], 0.0)
        at = np.clip(np.searchsorted(self.ends, clips, side="right") - 1, 0, len(self.part) - 1)
        room = np.clip((self.ends[at + 1] - clips) / np.diff(self.ends)[at], 0.0, 1.0)
        return np.asarray(tails[at + 1] + (tails[at] - tails[at + 1]) * room**CONVEX)

    def longer(self, clips: Floats) -> Floats:
        """Return the parts (m,) of rows that are beyond clips (m,)."""
        middles = np.sqrt(self.ends[:-1] * self.ends[1:])
        return np.asarray(np.interp(clips, middles, self.part))

    def doubt(self, clips: Floats) -> Floats:
        """Return sds (m,) of the noise of `beyond`.

        Errors of visible layers are independent. Hidden layers follow one law, so that their errors
        add up.
        """
        sizes = self.unsure * np.diff(self.ends)
        hidden = self.part < CLEAR_SDS * self.unsure
        together, apart = np.where(hidden, sizes, 0.0), np.where(hidden, 0.0, sizes**2)
        first, second = (
            np.interp(clips, self.ends, np.append(np.cumsum(each[::-1])[::-1], 0.0))
            for each in (together, apart)
        )
        return np.asarray(np.hypot(first, np.sqrt(second)))

    def squared(self) -> float:
        """Return the mean of max(value^2 - first end^2, 0) over rows, by layers above the noise."""
        clear = np.where(self.part > CLEAR_SDS * self.unsure, self.part, 0.0)
        return float(clear @ np.diff(self.ends**2))


def filled(values: Floats, ends: Floats) -> Floats:
    """Return (k, m), the part of each layer that values (m,) fill, minus one half."""
    low, wide = ends[:-1, None], np.diff(ends)[:, None]
    with np.errstate(all="ignore"):
        part = (values - low) / wide
    return np.asarray(np.fmin(np.fmax(part, 0.0), 1.0) - 0.5)  # nothing of what is no number


@dataclass(frozen=True, slots=True)
class RowLayers:
    """Layers of rows' scores and curvatures, and of squared residuals if any.

    slow: of scores, where hidden layers are assumed to fall as slowly as visible ones. reach: of
    scores without such an assumption; None where none can be longer than where layers begin, or
    that is not known.
    """

    scores: Layers
    slow: Layers
    curves: Layers
    squares: Layers | None
    rows: float
    reach: Reach | None = None

    def cut_off(self, clips: Floats) -> tuple[Floats, Floats]:
        """Return means and sds (m,) of the score length that clips (m,) cut off.

        The means are no less than those without any assumption on hidden layers, less some sds of
        noise.
        """
        beyond, doubt = self.scores.beyond(clips), self.scores.doubt(clips)
        if self.reach is None:
            return beyond, doubt
        bound, bound_sd = self.reach.cut_off(clips)
        return np.maximum(beyond, bound - LIKELY_SDS * bound_sd), doubt

    def unseen(self, clips: Floats) -> Floats:
        """Return upper bounds (m,) of the score length that clips (m,) may cut off unnoticed."""
        beyond = self.slow.beyond(clips)
        if self.reach is None:
            return beyond
        return np.maximum(beyond, self.reach.most(clips))


def layers(
    blocks: SomeBlocks[RowSizes],
    rows: int,
    z: float,
    random: RandomSource,
    *,
    scaled: bool,
    gaps: bool,
    reach: float = math.inf,
    last: float = 0.0,
    longest: float = math.inf,
    persons: bool = False,
) -> RowLayers:
    """Release layers of rows. Privacy: one Gaussian(z) event, for any blocks.

    blocks: lengths of scores, curvatures and squared residuals, all (m,), and counted (m,), see
    Block. scaled: whether there are squares. reach: how far a residual can be, by public bounds.
    last: the same of a score, in mean lengths, of a mean row; 0 where that is not known. longest:
    of any row. persons: whether rows are the sums of persons.
    """
    lengths, sizes = _ends(LENGTHS, longest), _ends(SIZES, reach)
    if FIRST < last < lengths[-1]:
        apart = np.abs(np.log(lengths / last)) > NEAR_BY
        apart[[0, -1]] = True
        lengths = np.union1d(lengths[apart], last)
    kinds = [lengths, CURVES, sizes**2][: 3 if scaled else 2]
    counts = [len(ends) - 1 for ends in kinds]
    far = reaches.part_of(last, rows, z)
    weights = [
        np.full(count, math.sqrt((1.0 - far) * share / count))
        for count, share in zip(counts, PARTS, strict=False)
    ]
    if far:  # noise of what all layers hold together is then least: by their widths
        near, behind = np.clip(lengths, FIRST, last), np.clip(lengths, last, BEHIND * last)
        wide = np.diff(near) + BEHIND_PART * np.diff(behind)
        weights[0] = np.sqrt(weights[0] ** 2 + far * wide / wide.sum())
    flat = np.concatenate(weights)
    size = float(np.linalg.norm(flat))

    vectors = each(partial(_in_layers, flat, kinds), blocks)
    caps = Caps(0.5 * size, 1.0, 1.0, 1.0, (1.0, 0.0, 0.0, 0.0))
    sums = release(vectors, len(flat), rows, caps, z, random, gaps=gaps)
    part, sds = sums.score / flat / sums.rows + 0.5, sums.sds[0] / flat / sums.rows
    edges = np.cumsum(counts)[:-1]
    kinds_of_layers = list(zip(np.split(part, edges), kinds, np.split(sds, edges), strict=False))
    usual = DECAY_PERSONS if persons else DECAY
    scores, slow = (
        _cleared(*kinds_of_layers[0], (usual, least)) for least in (LEAST_DECAY, SLOWEST_DECAY)
    )
    curves = _cleared(*kinds_of_layers[1], (0.5 * DECAY, 0.5 * LEAST_CURVES_DECAY))  # of squares
    squares = (SQUARES_DECAY, 0.5 * SLOWEST_DECAY)
    tails = _cleared(*kinds_of_layers[2], squares, longest=True) if scaled else None
    parts, _, noise = kinds_of_layers[0]
    ends = Reach(lengths, last, parts, noise) if far else None
    return RowLayers(scores, slow, curves, tails, sums.rows, ends)


def _in_layers(flat: Floats, kinds: Sequence[Floats], rows: RowSizes) -> Block:
    """Return one block's filling of the layers. flat: weights. kinds: ends of each kind."""
    lengths, curvatures, squares, counted = rows
    values = lengths, curvatures, squares
    parts = [filled(v, ends) for v, ends in zip(values, kinds, strict=False)]
    return Block(flat[:, None] * np.concatenate(parts), (), (), np.zeros(0), counted)


def _ends(usual: Floats, reach: float) -> Floats:
    """Return the layer bounds of sizes of at most `reach`."""
    first = min(float(usual[0]), NEAREST * reach)
    inner = [end for end in usual.tolist() if first < end < LAST * reach]
    last = [reach] if reach < float(usual[-1]) else []
    return np.array([first, *inner, *last])


def _cleared(
    part: Floats, ends: Floats, sds: Floats, powers: tuple[float, float], *, longest: bool = False
) -> Layers:
    """Return the layers estimated from noisy ones: means and sds.

    A layer holds between nothing and what the layer below it holds; where noise hides it, at most
    what a power of the length leaves of that, powers being the usual one and the least. longest:
    whether the tail is to be estimated for its own sake, as that of a scale is: the sd of a hidden
    layer is then so large that intervals include both nothing and all that it may hold. Of scores
    too wide a clip costs only width.
    """
    part, sds = _falling(part, sds)
    power, least = powers
    means, unsure, most, hidden = np.empty(len(part)), np.empty(len(part)), 1.0, False
    for k, (noisy, sd) in enumerate(zip(part, sds, strict=True)):
        if noisy < CLEAR_SDS * sd and k:
            if not hidden:
                power = min(power, max(_visible(means[:k] + unsure[:k], ends), least))
            most *= _fall(ends[k - 1 : k + 2], power)
        middle = min(max(float(noisy), 0.0), most)
        low, high = max(middle - REACH * sd, 0.0), min(middle + REACH * sd, most)
        values = np.linspace(low, high, POINTS)
        logs = -0.5 * ((values - noisy) / sd) ** 2
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        means[k] = float(weights @ values)
        unsure[k] = math.sqrt(float(weights @ (values - means[k]) ** 2))
        hidden = noisy < CLEAR_SDS * sd
        if longest and hidden:
            means[k] *= HIDDEN_MEAN
            unsure[k] = max(unsure[k], HIDDEN_SD * min(most, high))
        if not (longest and hidden and k):
            most = min(most, means[k] + unsure[k])
    return Layers(ends, means, unsure)


def _falling(part: Floats, sds: Floats) -> tuple[Floats, Floats]:
    """Return noisy layers (k,) made nonincreasing outwards, and their sds (k,).

    By isotonic regression: layers that noise puts in the wrong order are averaged.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, precision, number of layers
    for mean, sd in zip(part.tolist(), sds.tolist(), strict=True):
        blocks.append((mean, sd**-2.0, 1))
        while len(blocks) > 1 and blocks[-1][0] > blocks[-2][0]:
            (second, b, m), (first, a, k) = blocks.pop(), blocks.pop()
            blocks.append(((a * first + b * second) / (a + b), a + b, k + m))
    counts = [count for _, _, count in blocks]
    means, precisions = (np.repeat([block[i] for block in blocks], counts) for i in (0, 1))
    return means, precisions**-0.5


def _visible(part: Floats, ends: Floats) -> float:
    """Return the estimated power law of the tail, from layers (k,) that exceed their noise.

    ends: (k + 1,) and more. Between the last layer and that at a third of its length; infinite
    where there are no two.
    """
    middles = np.sqrt(ends[:-1] * ends[1:])[: len(part)]
    near = int(np.searchsorted(middles, LOOKED_BACK * middles[-1]))
    if near >= len(part) - 1:
        return math.inf
    return math.log(part[near] / part[-1]) / math.log(middles[-1] / middles[near])


def _fall(ends: Floats, power: float) -> float:
    """Return the ratio of two adjacent layers (3 bounds) under a power law x^-power."""
    powers = ends ** (1.0 - power)
    below, above = -np.diff(powers) / np.diff(ends)
    return float(above / below)


@dataclass(frozen=True, slots=True)
class Clips:
    """The clips of rows, in mean score lengths and in residual sds.

    size: number of coefficients. parts: of an event, see Caps. length: of scores. left: sd of what
    that leaves out of a coefficient's score, a row's; unseen: what it may leave out where tails go
    on as they begin. most: of curvatures, in mean ones; beyond it a mean row has curve. cut: of
    residuals; beyond it a mean row's square has more, give or take more_sd. fourth: mean fourth
    power beyond the first layer. minus: whether rows' curvatures may be below zero.
    """

    size: int
    parts: tuple[float, float, float, float]
    length: float
    most: float
    left: float = 0.0
    unseen: float = 0.0
    curve: float = 0.0
    cut: float = 1.0
    more: float = 0.0
    more_sd: float = 0.0
    fourth: float = 0.0
    minus: bool = False

    def caps(self) -> Caps:
        """Return the caps on what one row may add to the sums."""
        score, curve = self.length * math.sqrt(self.size), self.most * self.size
        minus = MINUS_PART * curve if self.minus else 0.0
        return Caps(score, curve, score * score, self.cut**2, self.parts, minus)

    def completed(self, sums: Sums) -> Sums:
        """Return sums with the curvature that clips cut off, added evenly to all directions."""
        more = sums.rows * self.curve * np.eye(self.size)
        return replace(sums, curvature=sums.curvature + more)

    def rescaled(self, tau: float) -> "Clips":
        """Return the clips for a residual scale that is tau times as large."""
        square = tau**2
        return replace(
            self,
            length=self.length / square,
            left=self.left / square,
            unseen=self.unseen / square,
            most=self.most / square,
            curve=self.curve / square,
            cut=self.cut / tau,
            more=self.more / square,
            more_sd=self.more_sd / square,
            fourth=self.fourth / square**2,
        )

    def in_lengths_of(self, usual: float) -> "Clips":
        """Return the clips in mean lengths, of those in a usual length."""
        length, left, unseen = usual * self.length, usual * self.left, usual * self.unseen
        return replace(self, length=length, left=left, unseen=unseen)

    def scale(self, sums: Sums) -> tuple[float, float, float]:
        """Return the residual scale over the assumed one, and two sds of its log.

        By noise, and by what is not known of the tail, which two iterates have in common.
        """
        if not self.parts[3]:
            return 1.0, 0.0, 0.0
        noise = sums.sds[3] / sums.rows
        mean = max(sums.square / sums.rows + self.more, noise, self.more_sd, LEAST_SQUARE)
        return math.sqrt(mean), 0.5 * noise / mean, 0.5 * self.more_sd / mean

    def spread(self, tau: float) -> float:
        """Return the variance of the log scale estimated from one row at scale tau."""
        fourth = INNER_FOURTH + self.fourth / tau**4
        return 0.25 * (max(fourth, NORMAL_FOURTH) - 1.0)


def one_sided(rows: Floats, *, persons: bool = False) -> Floats:
    """Return how much of what clips take from so many rows or persons (m,) points the same way."""
    some, power = SAME_WAY_PERSONS if persons else SAME_WAY
    return np.asarray((1.0 + np.maximum(rows, 0.0) / some) ** -power)


def _best(
    variance: Floats, unseen: Floats, of_row: float = 1.0, most_wider: float = MOST_WIDER
) -> int:
    """Return the index of the best clip. variance, unseen: (m,), in posterior variances.

    of_row: variance of a row's score in these, more than 1 where responses vary more than the model
    says. The best clip is that with the least variance, or a wider one where what the former may
    hide would make the result unreliable, and what the latter may hide would not.
    """
    least = int(np.argmin(variance))
    harmless = unseen <= (NEARLY * reaches.HARMLESS) ** 2 * (of_row + variance)
    wider = np.where(harmless, variance, math.inf)
    k = int(np.argmin(wider))
    return k if of_row + wider[k] <= most_wider**2 * (of_row + variance[least]) else least


def choose(
    layers: RowLayers,
    size: int,
    pooled: float,
    *,
    quadratic: bool = True,
    minus: bool = False,
    least: float = 0.0,
    alike: bool = False,
    persons: bool = False,
) -> Clips:
    """Return the clips at which noise and clipping bias together are least.

    size: number of coefficients. pooled: noise multiplier of both near iterates together.
    quadratic: whether the likelihood is. minus: whether rows' curvatures may be below zero. least:
    of clips of scores, in mean lengths, as far as scores are. alike: whether long scores all point
    the same way. persons: whether rows are the sums of persons.
    """
    most_curve = MOST_CURVE_PERSONS if persons else MOST_CURVE
    square = SQUARE if layers.squares is not None else 0.0
    blur = math.sqrt(2.0) * size * pooled / layers.rows * math.sqrt(2.0 * size)
    beyond = layers.curves.beyond(TRIED_CURVES)
    usual_noise, worst_noise = CURVE_NOISE if quadratic else CURVE_NOISE_BENT
    curve, k = min(max((USUAL_CURVE * blur / usual_noise) ** 2, LEAST_CURVE), most_curve), 0
    for _ in range(2):  # a cap that lies farther out asks for a larger part, and that for its cap
        cost = (0.5 * blur / math.sqrt(curve) * TRIED_CURVES) ** 2 + (CUT_WEIGHT * beyond) ** 2
        k = int(np.argmin(cost))
        curve = min(max((TRIED_CURVES[k] * blur / worst_noise) ** 2, curve), most_curve)
    most, lost = float(TRIED_CURVES[k]), float(beyond[k])
    parts = (1.0 - square - curve - VARIANCE, curve, VARIANCE, square)
    each = 2.0 * math.sqrt(size / (layers.rows * parts[0])) * pooled
    first, last = layers.scores.ends[[0, -1]]
    tried = np.geomspace(min(max(first, least), last), last, NUM_TRIED)
    lost_length = np.hypot(*layers.cut_off(tried))
    same_way = one_sided(layers.rows * layers.scores.longer(tried), persons=persons)
    cut_off = same_way * lost_length
    unseen = layers.unseen(tried)
    of_row = max(1.0, layers.scores.squared())
    variance = (each * tried) ** 2 + cut_off**2 * layers.rows
    most_wider = MOST_WIDER if quadratic else MOST_WIDER_BENT
    k = _best(variance, unseen**2 * layers.rows, of_row, most_wider)
    clips = Clips(
        *(size, parts, float(tried[k]), most),
        *(
            float(lost_length[k]) * (ALLOWED_ALIKE if alike else float(same_way[k])),
            float(unseen[k]),
            lost,
        ),
        minus=minus,
    )
    if layers.squares is None:
        return clips
    each = math.sqrt(2.0 / square) * pooled / layers.rows
    cuts = (
        layers.squares.ends
    )  # between these what lies beyond is known about, and no scale is to be
    more, unsure = layers.squares.beyond(cuts), layers.squares.doubt(cuts)
    k = int(np.argmin((each * cuts) ** 2 + unsure**2))
    cut, fourth = float(cuts[k]) ** 0.5, layers.squares.squared()
    return replace(clips, cut=cut, more=float(more[k]), more_sd=float(unsure[k]), fourth=fourth)
