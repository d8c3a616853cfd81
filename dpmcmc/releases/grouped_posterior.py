"""The stored release of a grouped model: an arrow-shaped noisy quadratic, and its posteriors.

A prior of groups' effects with a common sd is a prior: everything here follows from released
numbers and public facts, at no cost. Source of the marginal posterior of the sd and of the shrunken
effects given it: Gelman et al. 2013, Bayesian Data Analysis, section 5.4.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import Fault, Judged

Floats = NDArray[np.float64]
# curvatures that draws are mixed over: of few coefficients, and at least
MIXTURE, LEAST_MIXTURE, MANY = 400, 40, 20
GRID = 120  # sds of effects that are tried
LEAST_SD, MOST_SD, MOST_SD_OF_T = 1e-3, 5.0, 60.0  # of them, over the prior's scale
FLAT, LEAST_NOISE = 1e-4, 1e-3  # part of the rows' curvature; variance of a score's noise
PARTS = 200  # of the mixture of coefficients
LEAST_LEFT = 0.05  # of a mean square, what is left when distances are taken off
MANY_HIDDEN = 0.25  # of groups: noise then says which part of a coefficient is within them
# where a likelihood is not quadratic, changes of a predictor in the last step, root mean square
MAX_LAST_STEP = 0.5
MAX_CURVATURE_NOISE = 0.5  # of covariates, over the curvature
MAX_LEFT = 1.5  # sds of a coefficient that clips may have moved it by
# of a group's curvature: rows, and sds of noise, that it has at least; sds, from which on noise
# hides nothing of it; numbers on a grid
# variance of logarithms of sizes, at least, and times what is seen of it
LEAST_WIDE, WIDER = 0.1, 1.7
LEAST_ROWS, LEAST_SDS, HIDDEN_SDS, SIZES = 0.3, 0.05, 6.0, 200
CLEAR = 2.0  # sds of noise, by which a group's rows are seen
LEAST_SEEN = 3  # groups that stand out, or nothing is told of how much groups differ


@dataclass(frozen=True, slots=True)
class Arrow:
    """A stored release. d coefficients, g groups. Positions are as those of a linear predictor.

    place: (d,) coefficients, effects: (g,): where rows were evaluated. root: (d, d), coefficients
    are place + root @ u. score, cell_score: (d,) by u, (g,). curvature: (d, d), border: (d, g),
    cell_curvature: (g,). sds: of the noise of these five, in this order. unit: of the first u, as
    the intercept is that times it. left: sds of what clips leave out of a number of score and of
    cell_score, the latter for one unit of cell_curvature. rows: how many. square, square_sd: mean
    squared residual over what is expected, which is 1 at `scale`. scaled: whether log_sigma is a
    parameter. spread: whether the square tells by how much scores vary more than expected.
    quadratic: whether the likelihood is. prior_sd: scale of the prior of the sd of effects; df:
    degrees of freedom of the half t that it is, 0 for a half normal.
    """

    place: Floats
    effects: Floats
    root: Floats
    score: Floats
    cell_score: Floats
    curvature: Floats
    border: Floats
    cell_curvature: Floats
    sds: Floats
    unit: float
    left: Floats
    rows: float
    square: float
    square_sd: float
    scale: float
    scaled: bool
    spread: bool
    quadratic: bool
    prior_sd: float
    df: float
    noise_multiplier: float
    tempering: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return lists and numbers that JSON holds."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in held.items()
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Arrow":
        """Return what to_dict made this of."""
        held: dict[str, Any] = {
            name: np.array(value, np.float64) if isinstance(value, list) else value
            for name, value in stored.items()
        }
        return cls(**held)

    def moments(self) -> None:
        """Return None: moments of the covariates alone are not released."""
        return

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of coefficients and of groups."""
        return len(self.place), len(self.effects)

    @property
    def seen_cells(self) -> tuple[Floats, float]:
        """Return the curvature of each group (g,) from both numbers that tell it, and its noise.

        The covariate that is 1 in all rows has the curvature of a group as its border.
        """
        both = np.array([self.cell_curvature, self.border[0] * self.unit])
        sds = np.array([self.sds[4], self.sds[3] * self.unit])
        weights = sds**-2.0 / (sds**-2.0).sum()
        return weights @ both, float((sds**-2.0).sum() ** -0.5)

    def curvatures(self, count: int, random: RandomSource | None) -> Floats:
        """Return curvatures (count, d + g, d + g) that the released numbers may come from.

        Their mean, about, where random is None.
        """
        (d, g), seen = self.size, self.seen_cells[0]
        cells = self._sizes(count, random)
        whole = np.zeros((count, d + g, d + g))
        own = np.arange(d, d + g)
        whole[:, own, own] = cells
        whole[:, 0, d:] = whole[:, d:, 0] = cells / self.unit
        whole[:, 0, 0] = cells.sum(axis=1) / self.unit**2
        if d > 1:
            self._others(whole, cells, seen, random)
        return whole

    def _sizes(self, count: int, random: RandomSource | None) -> Floats:
        """Return (count, g) curvatures of groups: their medians, about, where random is None.

        Sizes have a log normal prior with their own mean and variance, as far as noise lets see it:
        it decides where noise hides a group.
        """
        seen, noise = self.seen_cells
        usual = max(float(self.curvature[0, 0]) * self.unit**2, noise) / len(seen)
        apart = max(float(np.mean((seen - usual) ** 2)) - noise * noise, 0.0)
        wide = WIDER * max(math.log1p(apart / usual**2), LEAST_WIDE)
        shape = (count, len(seen))
        uniforms = np.full(shape, 0.5) if random is None else random.uniforms(shape)
        cells = seen + noise * np.asarray(ndtri(np.clip(uniforms, 1e-12, 1.0 - 1e-12)))
        least = min(LEAST_ROWS * self.unit**2, LEAST_SDS * noise)
        grid = np.geomspace(least, 2.0 * HIDDEN_SDS * noise, SIZES)
        prior = -0.5 * (np.log(grid / usual) + 0.5 * wide) ** 2 / wide
        for k in np.flatnonzero(seen < HIDDEN_SDS * noise):
            logs = -0.5 * ((grid - seen[k]) / noise) ** 2 + prior
            ends = np.cumsum(np.exp(logs - logs.max()))
            at = np.searchsorted(ends, uniforms[:, k] * ends[-1])
            cells[:, k] = grid[np.minimum(at, SIZES - 1)]
        return cells

    def _others(
        self, whole: Floats, cells: Floats, seen: Floats, random: RandomSource | None
    ) -> None:
        """Fill in what whole curvatures have of covariates beside the one that is 1.

        Covariates of rows of a group have a mean of their own, so that no group's part is more than
        its rows can have, and what is left within groups is positive.
        """
        d, count = len(self.place), len(whole)
        border, noise = self.border[1:], float(self.sds[3])
        squares = np.maximum(((border**2) - noise * noise).sum(axis=1), 0.0)
        apart = squares / max(float((seen**2).sum()), 1e-300)  # variances of means of groups
        spread = cells[:, None, :] ** 2 * apart[:, None]
        kept = spread / (spread + noise * noise)
        means = kept * border
        if random is not None:
            means = means + np.sqrt(kept) * noise * random.normals(means.shape)
        between = np.einsum("kjg,kig,kg->kji", means, means, 1.0 / cells)
        within = np.repeat(self.curvature[None, 1:, 1:], count, axis=0)
        if random is not None:
            blurred = random.normals(within.shape) * float(self.sds[2])
            within = within + 0.5 * (blurred + blurred.swapaxes(1, 2))
        within = within - between
        values, vectors = np.linalg.eigh(0.5 * (within + within.swapaxes(1, 2)))
        values = np.maximum(values, FLAT * self.rows)
        whole[:, 1:d, 1:d] = between + (vectors * values[:, None]) @ vectors.swapaxes(1, 2)
        whole[:, 1:d, d:], whole[:, d:, 1:d] = means, means.swapaxes(1, 2)
        first = means.sum(axis=2) / self.unit
        whole[:, 0, 1:d] = whole[:, 1:d, 0] = first

    def noise(self, cells: Floats) -> Floats:
        """Return variances (d + g,) of scores beyond the rows' own. cells: (g,) curvature."""
        first = np.full(len(self.place), self.sds[0] ** 2 + self.left[0] ** 2)
        second = self.sds[1] ** 2 + (self.left[1] * cells) ** 2
        return np.asarray(np.maximum(np.concatenate((first, second)), LEAST_NOISE))

    def dispersion(self, mean: Floats, precision: Floats) -> float:
        """Return how many times as much as expected scores vary: 1 where that is not estimated.

        mean, precision: (d,) of the prior of coefficients.
        """
        if not self.spread:
            return 1.0
        curve = self.curvatures(1, None)[0]
        part = Part.of(self, curve, 1.0, mean, precision)
        moved, covariance = part.moments(part.middle_sd())
        explained = float(moved @ curve @ moved + np.einsum("ij,ij->", curve, covariance))
        left, noise = self.square - explained / self.rows, max(self.square_sd, 1e-12)
        # the mean of what is positive and was seen through noise
        away = left / noise
        hazard = math.exp(-0.5 * away * away - float(log_ndtr(away))) / math.sqrt(2.0 * math.pi)
        return max(left + noise * hazard, LEAST_LEFT * self.square, 1e-12)

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource) -> "GroupedMixture":
        """Return the posterior under normal priors of coefficients, (d,), or (d + 1,) with that of
        the log scale."""
        d, g = self.size
        count = int(min(max(MIXTURE * (MANY / (d + g)) ** 1.5, LEAST_MIXTURE), MIXTURE))
        times = self.dispersion(mean[:d], precision[:d])
        if not self.scaled:
            times = max(times, 1.0)
        parts = tuple(
            Part.of(self, curve, times, mean[:d], precision[:d])
            for curve in self.curvatures(count, random)
        )
        last = (float(mean[d]), float(precision[d])) if self.scaled else None
        return GroupedMixture(self, parts, last, random)


@dataclass(frozen=True, slots=True)
class Part:
    """The posterior given one curvature, with effects turned to where they are independent.

    curve: (p, p). whole: (p, p), precision of coefficients u and effects by the likelihood. inner:
    (d, d), that of u with their prior. pulled: (d,) and (g,), precision times means, of u and moves
    of effects. values, vectors: of the precision of effects, coefficients left out; turned: (g,)
    that times their mean. grid, weights: sds of effects and their probabilities.
    """

    arrow: Arrow
    curve: Floats
    whole: Floats
    inner: Floats
    pulled: Floats
    values: Floats
    vectors: Floats
    turned: Floats
    grid: Floats
    weights: Floats

    @classmethod
    def of(
        cls, arrow: Arrow, curve: Floats, times: float, mean: Floats, precision: Floats
    ) -> "Part":
        """Return it. times: by how much scores vary more than the curvature says. mean, precision:
        (d,) of coefficients."""
        d = len(arrow.place)
        covariance = times * curve + np.diag(arrow.noise(np.diag(curve)[d:]))
        gain = np.linalg.solve(covariance, curve).T
        whole = gain @ curve
        whole = 0.5 * arrow.tempering * (whole + whole.T)
        score = np.concatenate((arrow.score, arrow.cell_score))
        pulled = arrow.tempering * (gain @ score)
        prior = arrow.root.T @ (precision[:, None] * arrow.root)
        inner = whole[:d, :d] + prior
        pulled[:d] += arrow.root.T @ (precision * (mean - arrow.place))
        through = np.linalg.solve(inner, whole[:d, d:])
        left = whole[d:, d:] - whole[d:, :d] @ through
        values, vectors = np.linalg.eigh(0.5 * (left + left.T))
        values = np.maximum(values, 0.0)
        own = pulled[d:] - through.T @ pulled[:d] + left @ arrow.effects
        turned = vectors.T @ own
        grid, weights = _sds(arrow, values, turned)
        return cls(arrow, curve, whole, inner, pulled, values, vectors, turned, grid, weights)

    def middle_sd(self) -> float:
        """Return the posterior mean of the sd of effects."""
        return float(self.weights @ self.grid)

    def moments(self, sd: float) -> tuple[Floats, Floats]:
        """Return mean (p,) of moves from where rows were evaluated, and covariance (p, p)."""
        arrow, d = self.arrow, len(self.arrow.place)
        known = sd * sd / (1.0 + sd * sd * self.values)
        effects = self.vectors @ (known * self.turned) - arrow.effects
        covariance = np.empty((len(self.whole), len(self.whole)))
        covariance[d:, d:] = (self.vectors * known) @ self.vectors.T
        back = np.linalg.inv(self.inner)
        through = back @ self.whole[:d, d:]
        covariance[:d, d:] = -through @ covariance[d:, d:]
        covariance[d:, :d] = covariance[:d, d:].T
        covariance[:d, :d] = back - covariance[:d, d:] @ through.T
        first = back @ self.pulled[:d] - through @ effects
        return np.concatenate((first, effects)), covariance

    def draws(self, count: int, random: RandomSource) -> tuple[Floats, Floats, Floats]:
        """Return moves of u (n, d), effects (n, g) and sds of effects (n,)."""
        arrow, d = self.arrow, len(self.arrow.place)
        sds = self.sds(count, random)
        known = sds[:, None] ** 2 / (1.0 + sds[:, None] ** 2 * self.values)
        turned = known * self.turned + np.sqrt(known) * random.normals(known.shape)
        effects = turned @ self.vectors.T
        back = np.linalg.inv(self.inner)
        root = np.linalg.cholesky(0.5 * (back + back.T))
        middle = self.pulled[:d] - (effects - arrow.effects) @ self.whole[d:, :d]
        moves = middle @ back + random.normals((count, d)) @ root.T
        return moves, effects, sds

    def sds(self, count: int, random: RandomSource) -> Floats:
        """Return draws (n,) of the sd of effects."""
        ends = np.cumsum(self.weights)
        uniforms = random.uniforms((count,)) * ends[-1]
        at = np.minimum(np.searchsorted(ends, uniforms), len(self.grid) - 1)
        step = self.grid[1] / self.grid[0]
        return np.asarray(self.grid[at] * step ** (random.uniforms((count,)) - 0.5))


def _sds(arrow: Arrow, values: Floats, turned: Floats) -> tuple[Floats, Floats]:
    """Return sds of effects on a grid and their probabilities, effects integrated out."""
    most = MOST_SD_OF_T if arrow.df else MOST_SD
    grid = arrow.prior_sd * np.geomspace(LEAST_SD, most, GRID)
    squares = grid[:, None] ** 2
    wide = 1.0 + squares * values
    logs = 0.5 * (squares * turned**2 / wide - np.log(wide)).sum(axis=1)
    ratio = (grid / arrow.prior_sd) ** 2
    logs -= 0.5 * (arrow.df + 1.0) * np.log1p(ratio / arrow.df) if arrow.df else 0.5 * ratio
    weights = np.exp(logs - logs.max()) * grid  # even steps of the logarithm
    return grid, np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class GroupedMixture:
    """A posterior. parts: one for each curvature. last: prior of the log scale, or None."""

    release: Arrow
    of: tuple[Part, ...]
    last: tuple[float, float] | None
    random: RandomSource

    def parts(self) -> tuple[Floats, Floats]:
        """Return (means (k, d), roots (k, d, d)) of coefficients, each given an sd of effects."""
        means, roots = [], []
        for part, sd in self._each():
            mean, covariance = part.moments(sd)
            d = len(self.release.place)
            means.append(self.release.place + self.release.root @ mean[:d])
            half = np.linalg.cholesky(covariance[:d, :d])
            roots.append(self.release.root @ half)
        return np.array(means), np.array(roots)

    def _each(self) -> list[tuple[Part, float]]:
        """Return parts with sds of effects, evenly over their posterior: the same in each call."""
        each = -(-PARTS // len(self.of))
        levels = (np.arange(each) + 0.5) / each
        return [
            (part, float(sd))
            for part in self.of
            for sd in np.interp(levels, np.cumsum(part.weights), part.grid)
        ]

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, p): coefficients, perhaps the log scale, the
        sd of effects and the effects."""
        count = chains * length
        which = np.sort(random.integers(len(self.of), (count,)))
        out = []
        for k, part in enumerate(self.of):
            here = int((which == k).sum())
            if here:
                moves, effects, sds = part.draws(here, random)
                out.append(self._positions(part, moves, effects, sds, random))
        drawn = np.concatenate(out)[np.argsort(random.uniforms((count,)))]
        return drawn.reshape(chains, length, -1)

    def completed(self, coefficients: Floats, which: Any, random: RandomSource) -> Floats:
        """Return positions (n, p) given coefficients (n, d) of the parts of `parts`."""
        release, every = self.release, self._each()
        which, d = np.asarray(which), len(self.release.place)
        out: Floats | None = None
        moves = np.linalg.solve(release.root, (coefficients - release.place).T).T
        for k in np.unique(which):
            (part, sd), here = every[int(k)], which == k
            own = part.whole[d:, d:] + np.eye(len(part.values)) / sd**2
            pulled = part.pulled[d:] - moves[here] @ part.whole[:d, d:]
            pulled = pulled + part.whole[d:, d:] @ release.effects
            back = np.linalg.inv(own)
            half = np.linalg.cholesky(0.5 * (back + back.T))
            effects = pulled @ back + random.normals(pulled.shape) @ half.T
            sds = np.full(len(effects), sd)
            rows = self._positions(part, moves[here], effects, sds, random)
            out = np.empty((len(coefficients), rows.shape[1])) if out is None else out
            out[here] = rows
        return np.zeros((0, d)) if out is None else out

    def _positions(
        self, part: Part, moves: Floats, effects: Floats, sds: Floats, random: RandomSource
    ) -> Floats:
        """Return positions (n, p) of moves of u (n, d) and what goes with them."""
        release = self.release
        columns = [release.place + moves @ release.root.T]
        if self.last is not None:
            away = np.concatenate((moves, effects - release.effects), axis=1)
            columns.append(self._log_scales(part, away, random)[:, None])
        return np.concatenate((*columns, sds[:, None], effects), axis=1)

    def _log_scales(self, part: Part, away: Floats, random: RandomSource) -> Floats:
        """Return log scales (n,): of the mean square, what lies between here and there taken off.

        away: (n, p) of where rows were evaluated.
        """
        release, (mean, precision) = self.release, self.last or (0.0, 1.0)
        explained = np.einsum("np,np->n", away @ part.curve, away) / release.rows
        left = np.maximum(release.square - explained, max(LEAST_LEFT * release.square, 1e-12))
        logs = 0.5 * np.log(left) + math.log(release.scale)
        variance = 0.5 / release.rows + (0.5 * release.square_sd / float(left.mean())) ** 2
        kept = 1.0 / (1.0 + variance * precision)
        normals = random.normals((len(logs),))
        return np.asarray(kept * logs + (1 - kept) * mean + math.sqrt(variance * kept) * normals)


def judge(arrow: Arrow, prior: tuple[Floats, Floats] | None) -> Judged:
    """Judge a release by its own numbers: free. prior: of the job, or None: then it is flat."""
    d, g = arrow.size
    mean, precision = (arrow.place, np.full(d, 1e-12)) if prior is None else prior
    mean, precision = mean[:d], precision[:d]
    times = arrow.dispersion(mean, precision)
    times = times if arrow.scaled else max(times, 1.0)
    curve = arrow.curvatures(1, None)[0]
    part = Part.of(arrow, curve, times, mean, precision)
    sd = part.middle_sd()
    step, covariance = part.moments(sd)
    cells = np.diag(curve)[d:]
    rows_own = times * np.diag(curve)
    noise = arrow.noise(cells)
    alone = replace(arrow, sds=0.0 * arrow.sds, left=0.0 * arrow.left)
    without = Part.of(alone, curve, times, mean, precision).moments(sd)[1]
    share = float(np.mean(1.0 - np.minimum(np.diag(without) / np.diag(covariance), 1.0)))
    known = cells**2 / (times * cells + noise[d:])
    seen, doubt = arrow.seen_cells
    hidden = g - int(((known * sd * sd >= 1.0) & (seen >= CLEAR * doubt)).sum())
    remarks = ""
    if hidden:
        remarks = (
            f"{hidden} of {g} groups have too few rows beside the noise: they are shrunk to the"
            " mean of all"
        )
        if d > 1 and hidden >= MANY_HIDDEN * g:
            remarks += (
                ", and where groups and covariates go together, coefficients are nearer to those of"
                " a model without groups"
            )
    fault, sentence, more = _fault(arrow, curve, step, rows_own, g - hidden)
    return Judged(not fault, share, sentence, fault, more, remarks)


def _fault(
    arrow: Arrow, curve: Floats, step: Floats, variances: Floats, seen: int
) -> tuple[Fault, str, float | None]:
    """Return what is wrong in one word and in words, and how many times less noise would mend it.

    step: (p,), from where rows were evaluated last. variances: (p,) of scores of rows. seen: groups
    that stand out of the noise.
    """
    d, g = arrow.size
    change = math.sqrt(max(float(step @ curve @ step), 0.0) / arrow.rows)
    if not arrow.quadratic and change > MAX_LAST_STEP:
        return "place", "the last Newton step was long: where the posterior is was not found", None
    blur = math.sqrt(2.0 * d) * float(arrow.sds[2]) / max(arrow.rows, 1.0)
    if blur > MAX_CURVATURE_NOISE:
        sentence = "rows do not stand out of the noise of the curvature"
        return "noise", sentence, blur / MAX_CURVATURE_NOISE
    if seen < min(LEAST_SEEN, g - 1):
        sentence = (
            f"{seen} of {g} groups stand out of the noise, which tells nothing of how much groups"
            " differ"
        )
        return "noise", sentence, None
    known = float(np.mean(variances[:d])) + float(arrow.sds[0]) ** 2
    left = float(arrow.left[0]) / math.sqrt(known)
    if left > MAX_LEFT:
        return "skewed", "clips may have moved coefficients by more than the intervals say", None
    return "", "", None
