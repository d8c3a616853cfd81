"""Groups of rows with a nearly constant response, where the likelihood is not quadratic.

Where all rows of a category have the same response, or counts of 0, its coefficient has a
likelihood that is flat on one side. A quadratic of it, released at a place that a Newton path
reached in a few steps, is narrow and anywhere. What decides is by how much the slopes of a group's
rows change within what is not known of their predictor, which follows from released numbers, so
that asking it is free. Source: the released scores, curvatures and moments; Albert and Anderson
1984 for the cases in which there is no mode.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.special import expit

from dpmcmc.base.names import INTERCEPT
from dpmcmc.families import ordinal
from dpmcmc.families.hurdle_poisson import positive_moments
from dpmcmc.families.moments import second_moments
from dpmcmc.families.multinomial import probabilities
from dpmcmc.families.scores.base import NODES, TINY, WEIGHTS
from dpmcmc.formula.columns import Factor, bounds_of
from dpmcmc.formula.cuts import spread_out
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.mechanisms.joint_sums import Floats
from dpmcmc.releases import categories, quadratic
from dpmcmc.releases.base import prior_by
from dpmcmc.releases.categories import even
from dpmcmc.releases.dp_vi import Variational
from dpmcmc.releases.quadratic import Quadratic

# change of the log of a slope within what is not known of a group's predictor, from which on the
# likelihood is taken to be no quadratic: about six events
MAX_CHANGE = 0.4
# part of the rows that carry the end of a number, from which on these are no group of their own
COMMON_END = 0.2
LEAST_SHARE = 1e-12  # of the rows
LARGEST_PREDICTOR = 50.0
MOST_SPREAD = 4.0  # variance of a predictor within a group
ALL_ROWS = "all rows"
MOST_NAMED = 3
# in a category, an sd below the posterior mean: of fewer noise may hide that there are none
LEAST_EVENTS, LOWER_SDS = 20.0, 1.0
CLEAR_SDS = 5.0  # of noise, that the released sum of a category's events is to stand out by
ZEROS = -1  # in place of the number of a category: that a count is 0
STEP = 2.0  # times a last step, whose end a tangent tells the less the longer it is
_Product = tuple[frozenset[Factor], frozenset[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Link:
    """How the expected response depends on the predictor.

    counts: whether by an exponential; else predictors are log odds against the first category.
    steepest: largest slope of a row's score. shift: middle of what offsets add. usual: middle of
    what weights can be. of_times: whether predictors are of the log of a time, whose log is behind
    them, and shift is the log of a time: hazards then add up to the exponential of what is left.
    ordered: whether coefficients are cuts between ordered categories, and slopes. hurdle: whether
    they are of counts above 0, and then of the log odds of a zero. above: (d,) these log odds, of a
    link of the counts above 0 alone.
    """

    counts: bool
    steepest: float = math.inf
    shift: float = 0.0
    usual: float = 1.0
    of_times: bool = False
    ordered: bool = False
    hurdle: bool = False
    above: Floats | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of rows: those with inside @ x = 1, weighted by weight @ x, not negative.

    weight, inside: (d,). name: in words.
    """

    weight: Floats
    inside: Floats
    name: str


class _Cells:
    """Products of numbers and category indicators, as linear combinations of design columns."""

    def __init__(self, design: Design) -> None:
        self._design, self._known = design, dict[_Product, int]()
        self._references = design.references
        for j, term in enumerate(design.terms):
            numbers = frozenset(factor for factor in term if factor.code is None)
            codes = frozenset((f.column, f.code) for f in term if f.code is not None)
            self._known[numbers, codes] = j

    def categories(self, column: str) -> tuple[str, ...]:
        """Return the declared categories of a column."""
        declared = column_of(self._design.schema, column)
        return () if isinstance(declared, NumberColumn) else declared.categories

    def column(
        self, numbers: frozenset[Factor], codes: frozenset[tuple[str, int]]
    ) -> Floats | None:
        """Return (d,) whose product with a row is that of the factors; None if there is none.

        An indicator without a column is 1 less those of the other categories.
        """
        at = self._known.get((numbers, codes))
        if at is not None:
            return np.asarray(np.eye(len(self._design.terms))[at])
        for column, code in sorted(codes):
            reference = self._references.get(column, 0)
            if code != reference:
                continue
            rest = codes - {(column, code)}
            others = [k for k in range(len(self.categories(column))) if k != reference]
            parts = [self.column(numbers, rest | {(column, other)}) for other in others]
            total = self.column(numbers, rest)
            if total is not None and all(part is not None for part in parts):
                return np.asarray(total - sum(part for part in parts if part is not None))
        return None


def groups_of(design: Design) -> tuple[Group, ...]:
    """Return the groups: all rows, each category with coefficients, each number's two ends."""
    cells, groups = _Cells(design), dict[tuple[bytes, bytes], Group]()
    for term in [(), *design.terms]:
        numbers = frozenset(factor for factor in term if factor.code is None)
        columns = sorted({factor.column for factor in term if factor.code is not None})
        low, high = bounds_of(numbers)
        words = [cells.categories(column) for column in columns]
        for codes in product(*(range(len(each)) for each in words)):
            inside = cells.column(frozenset(), frozenset(zip(columns, codes, strict=True)))
            value = None
            if numbers:
                value = cells.column(numbers, frozenset(zip(columns, codes, strict=True)))
            named = zip(columns, words, codes, strict=True)
            where = " and ".join(f"{column} is {word[code]}" for column, word, code in named)
            name = f"rows where {where}" if where else ALL_ROWS
            if inside is None:  # a slope alone: a part of all rows, by how large the number is
                everyone = cells.column(frozenset(), frozenset())
                if value is not None and everyone is not None and not low < 0.0 < high:
                    group = Group(value / (high if low >= 0.0 else low), everyone, name)
                    groups.setdefault((group.weight.tobytes(), group.inside.tobytes()), group)
                continue
            added = [Group(inside, inside, name)]
            if value is not None:
                label = ":".join(sorted(factor.label for factor in numbers))
                within = f" where {where}" if where else ""
                added += [
                    Group(value - low * inside, inside, f"rows with large {label}{within}"),
                    Group(high * inside - value, inside, f"rows with small {label}{within}"),
                ]
            for group in added:
                groups.setdefault((group.weight.tobytes(), group.inside.tobytes()), group)
    return tuple(groups.values())


@dataclass(frozen=True, slots=True)
class Posterior:
    """Mean (p,) and covariance (p, p) of the coefficients."""

    mean: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class Expansion:
    """A quadratic expansion of the log likelihood around coefficients `place`.

    curvature: (p, p). second, covariance: (d, d), of x; the covariance is 0 without an intercept.
    rows: how many there are; None where second is only a guess, from which no curvature is
    expected.
    """

    place: Floats
    curvature: Floats
    second: Floats
    covariance: Floats
    rows: float | None


def expansion_of(release: Quadratic | Variational, design: Design, link: Link) -> Expansion:
    """Return the quadratic expansion that a release contains."""
    back = np.linalg.inv(release.root)
    if isinstance(release, Variational):
        slope = even(back.T @ release.slope @ back)
        second = second_moments(design)
        return Expansion(release.place, slope, second, np.zeros_like(second), None)
    curvature = even(back.T @ release.curvature @ back)
    rows, second = release.rows * link.usual, release.moments()[0]
    known = design.parameters[0] == INTERCEPT
    covariance = (second - np.outer(second[0], second[0])) * known
    return Expansion(release.places[1], curvature, second, covariance, rows)


def by_hazards(
    expansion: Expansion, link: Link, posterior: Posterior
) -> tuple[Expansion, Link, Posterior]:
    """Return all three for coefficients of the log hazard, given the scale of log times."""
    times, covariance = slice(0, len(expansion.second)), posterior.covariance
    sd = math.exp(float(np.clip(posterior.mean[-1], -LARGEST_PREDICTOR, LARGEST_PREDICTOR)))
    hazards = replace(
        expansion,
        place=-expansion.place[times] / sd,
        curvature=expansion.curvature[times, times] * sd**2,
    )
    of_hazards = Posterior(-posterior.mean[times] / sd, covariance[times, times] / sd**2)
    return hazards, replace(link, shift=link.shift / sd), of_hazards


def without_scale(expansion: Expansion, posterior: Posterior) -> tuple[Expansion, Posterior]:
    """Return both without the log shape parameter that follows the coefficients."""
    return _of_some(slice(0, len(expansion.second)), expansion, posterior)


def _of_some(
    which: slice, expansion: Expansion, posterior: Posterior
) -> tuple[Expansion, Posterior]:
    """Return both of some of the coefficients alone."""
    place, curvature = expansion.place[which], expansion.curvature[which, which]
    some = Posterior(posterior.mean[which], posterior.covariance[which, which])
    return replace(expansion, place=place, curvature=curvature), some


def normal(release: Quadratic | Variational, mean: Floats, precision: Floats) -> Posterior | None:
    """Return the posterior under a normal prior (p,); None if the matrices are singular."""
    try:
        with np.errstate(all="ignore"):
            posterior = _normal(release, mean, precision)
    except np.linalg.LinAlgError:
        return None
    known = np.isfinite(posterior.mean).all() and np.isfinite(posterior.covariance).all()
    return posterior if known else None


def _normal(release: Quadratic | Variational, mean: Floats, precision: Floats) -> Posterior:
    """Return the posterior under a normal prior (p,). Raises LinAlgError."""
    p = len(release.place)
    mean, precision = mean[:p], precision[:p]
    if isinstance(release, Variational):
        posterior = release.normal_posterior(mean, precision)
        return Posterior(posterior.mean, posterior.root @ posterior.root.T)
    power = release.tempering * release.part
    score, noise = quadratic.agreed(release)
    precisions, gain = release.likelihoods(release.curvature[None], noise)
    pulled = gain @ score
    kinds = categories.of(release, mean, precision)
    if kinds is not None and power:
        precisions, pulled = categories.matched(
            precisions, pulled, gain * release.unsure_sd, kinds, power
        )
    prior, pull = prior_by(release.root, release.place, mean, precision)
    covariance = np.linalg.inv(even(power * precisions[0] + prior))
    moved = release.root @ (covariance @ (power * pulled[0] + pull))
    return Posterior(release.place + moved, release.root @ covariance @ release.root.T)


def changes(
    expansion: Expansion, groups: Iterable[Group], link: Link, posterior: Posterior
) -> list[tuple[float, Group, int, bool]]:
    """Return (change of the log curvature, group, response, whether it is rare), for each.

    change: of the log of a slope within an sd of the group's predictor and its last step. response:
    0 for the reference, or counts. A curvature that is larger than one expects at the place is so
    by noise, and the sd and the step are as much longer.
    """
    d, p = len(expansion.second), len(expansion.place)
    if link.ordered:
        return _ordered_changes(expansion, groups, posterior)
    if link.hurdle:
        return _hurdle_changes(expansion, groups, link, posterior)
    curvature = expansion.curvature.reshape(p // d, d, p // d, d)
    positions, step = expansion.place.reshape(-1, d), posterior.mean - expansion.place
    changes = []
    for group in groups:
        mean_row = _mean_row(expansion, group)
        if mean_row is None:
            continue
        row, size, square = mean_row
        eta = np.clip(positions @ row + link.shift, -LARGEST_PREDICTOR, LARGEST_PREDICTOR)
        spread = NODES[:, None] * _spread(expansion.covariance, group, positions)
        curvatures = np.einsum("d,cdef,f->ce", group.weight, curvature, group.weight)
        for response, along, curve in _contrasts(eta, curvatures * (size / square) ** 2, link):
            way = np.outer(along, row).ravel()
            sd = math.sqrt(max(float(way @ posterior.covariance @ way), 0.0))
            at, slope = _slope(eta, response, link)
            ratio = 1.0
            if expansion.rows is not None:
                slope = float(WEIGHTS @ [_slope(node, response, link)[1] for node in eta + spread])
                if link.above is not None:
                    slope *= float(expit(-link.above @ row))
                expected = expansion.rows * size * size / square * slope
                ratio = max(1.0, curve / max(expected, TINY))
            change = ratio * _curved(at, math.hypot(sd, STEP * float(way @ step)), link)
            changes.append((change, group, response, at < 0.0))
    return changes


def _hurdle_changes(
    expansion: Expansion, groups: Iterable[Group], link: Link, posterior: Posterior
) -> list[tuple[float, Group, int, bool]]:
    """Return the same for counts above 0, and for zeros, whose response is ZEROS."""
    d, listed, changed = len(expansion.second), list(groups), []
    above = Link(True, shift=link.shift, above=expansion.place[d:])
    parts = (above, 0), (Link(False), ZEROS)
    for k, (of_part_link, response) in enumerate(parts):
        part, of_part = _of_some(slice(k * d, (k + 1) * d), expansion, posterior)
        of_groups = changes(part, listed, of_part_link, of_part)
        changed += [(change, group, response, rare) for change, group, _, rare in of_groups]
    return changed


def _mean_row(expansion: Expansion, group: Group) -> tuple[Floats, float, float] | None:
    """Return mean row (d,), mean weight and mean squared weight of a group; None if empty.

    None where its rows are so many that they are no group of their own.
    """
    second = expansion.second
    size = max(float(group.inside @ second @ group.weight), LEAST_SHARE)
    square = max(float(group.weight @ second @ group.weight), LEAST_SHARE)
    within = max(float(group.inside @ second @ group.inside), LEAST_SHARE)
    if group.weight is not group.inside and size * size > COMMON_END * square * within:
        return None
    row = np.clip(second @ group.weight / size, -1.0, 1.0)
    row = row + group.inside * (1.0 - group.inside @ row) / (group.inside @ group.inside)
    return row, size, square


def _ordered_changes(
    expansion: Expansion, groups: Iterable[Group], posterior: Posterior
) -> list[tuple[float, Group, int, bool]]:
    """Return the same for ordered categories, whose slopes all cut points share.

    A group is judged by the information about a common shift of its predictors, which vanishes
    where all of its rows are in the first or the last category. All rows together are judged for
    each category as well, by its log odds, which the gap between its cuts determines.
    """
    d, step = len(expansion.second), posterior.mean - expansion.place
    k = len(expansion.place) - d + 1
    expand, changes = spread_out(k, d).reshape(k, d, -1), []
    for group in groups:
        mean_row = _mean_row(expansion, group)
        if mean_row is None:
            continue
        row, size, square = mean_row
        ways = np.einsum("cdp,d->cp", expand, row)
        eta = np.clip(ways @ expansion.place, -LARGEST_PREDICTOR, LARGEST_PREDICTOR)[:, None]
        frequent = ordinal.probabilities(eta)[:, 0]

        def change_of(way: Floats) -> float:
            """Return the posterior sd along a direction, combined with the last step's size."""
            sd = math.sqrt(max(float(way @ posterior.covariance @ way), 0.0))
            return math.hypot(sd, STEP * float(way @ step))

        change = change_of(ways[np.argmin(np.abs(eta[:, 0]))])
        near = eta + np.array([-change, 0.0, change])
        logs = np.log(np.maximum(ordinal.information(near).sum(axis=(0, 1)), TINY))
        ratio = 1.0
        if expansion.rows is not None:
            along = np.einsum("cdp,d->p", expand, group.weight)
            along[:k] = group.weight[0]
            along[k:] = -group.weight[1:]
            released = float(along @ expansion.curvature @ along) * (size / square) ** 2
            expected = expansion.rows * size * size / square * math.exp(logs[1])
            ratio = max(1.0, released / max(expected, TINY))
        end = 0 if logs[2] < logs[0] else k  # that all rows of the group may be in
        changes.append((ratio * float(np.abs(logs - logs[1]).max()), group, end, False))
        if group.inside[0] != 1.0 or np.count_nonzero(group.inside) > 1:
            continue
        if group.weight is not group.inside:
            continue
        above, below, _ = (part[:, 0] for part in ordinal.slopes_of(eta))
        for category, share in enumerate(frequent.tolist()):
            way = np.zeros(len(step))
            if category < k:
                way += above[category] * ways[category]
            if category > 0:
                way += below[category - 1] * ways[category - 1]
            rest = max(1.0 - share, TINY)
            at = math.log(max(share, TINY) / rest)
            curved = _curved(at, change_of(way) / rest, Link(False))
            changes.append((curved, group, category, share < 0.5))
    return changes


def _spread(covariance: Floats, group: Group, places: Floats) -> Floats:
    """Return (k,) along which predictors vary most over a group's rows, by an sd.

    Of the variance over all rows, less the part which the weights of rows explain. places: (k, d).
    """
    shared = covariance @ group.weight
    explained = places @ shared
    squares = places @ covariance @ places.T
    squares -= np.outer(explained, explained) / max(float(group.weight @ shared), LEAST_SHARE)
    values, vectors = np.linalg.eigh(squares)
    return np.asarray(vectors[:, -1] * math.sqrt(min(max(float(values[-1]), 0.0), MOST_SPREAD)))


def _contrasts(eta: Floats, curvatures: Floats, link: Link) -> list[tuple[int, Floats, float]]:
    """Return (response, combination of predictors (k,), curvature along it) of each response.

    Log odds of a response against all others, the others' ratios as they are.
    """
    if link.counts or len(eta) == 1:
        return [(0 if link.counts else 1, np.ones(1), float(curvatures[0, 0]))]
    first, q = (part[..., 0] for part in probabilities(eta[:, None]))
    contrasts = [(0, -q / max(1.0 - float(first), TINY), float(curvatures.sum()))]
    for c in range(len(q)):
        along = -q / max(1.0 - float(q[c]), TINY)
        along[c] = 1.0
        contrasts.append((c + 1, along, float(curvatures[c, c])))
    return contrasts


def _slope(eta: Floats, response: int, link: Link) -> tuple[float, float]:
    """Return a response's log odds or log mean count, and a row's slope, at predictors."""
    if link.above is not None:
        return float(eta[0]), float(positive_moments(eta)[1][0])
    if link.counts:
        mean = math.exp(float(eta[0]))
        return float(eta[0]), mean / (1.0 + mean / link.steepest)
    first, q = (part[..., 0] for part in probabilities(eta[:, None]))
    share = min(max(float(first if response == 0 else q[response - 1]), TINY), 1.0)
    rest = max(1.0 - share, TINY)
    return math.log(share / rest), share * rest


def _curved(at: float, change: float, link: Link) -> float:
    """Return the largest change of a row's log slope within this change of its predictor."""
    ends = np.array([at - change, at, at + change])
    if link.above is not None:
        logs = np.log(np.maximum(positive_moments(ends)[1], TINY))[None]
    elif link.counts:
        bend = np.log1p(np.exp(np.minimum(ends, LARGEST_PREDICTOR)) / link.steepest)
        logs = np.stack((ends - bend, ends - 2.0 * bend))  # as expected, and of counts as they are
    else:
        logs = (-np.logaddexp(0.0, ends) - np.logaddexp(0.0, -ends))[None]
    return float(np.abs(logs - logs[:, 1:2]).max())


def _is_rate(release: Quadratic | Variational, group: Group, link: Link) -> bool:
    """Return whether the likelihood of a group's coefficient is that of a rate, not quadratic.

    So it is for counts of a category that has a column of the design (releases/categories.py).
    """
    if not link.counts or isinstance(release, Variational) or release.indicators is None:
        return False
    if release.log_shift is None or release.by_counts or group.weight is not group.inside:
        return False
    at = int(np.argmax(group.inside))
    alone = np.count_nonzero(group.inside) == 1 and group.inside[at] == 1.0
    return bool(alone and at > 0 and release.indicators[at] > 0.0)


def _stands_out(release: Quadratic | Variational, group: Group) -> bool:
    """Return whether the released sum of a group's events exceeds its noise.

    The sum is the one expected at the place, which is the curvature along the group, and the score.
    """
    if isinstance(release, Variational):
        return False
    along = np.linalg.solve(release.root, group.inside)
    events = float(along @ release.curvature @ along + along @ quadratic.agreed(release)[0])
    square = float(along @ along)
    noise = math.hypot(release.unsure_sd * math.sqrt(square), release.curvature_sd * square)
    return events > CLEAR_SDS * noise


def _events_in(expansion: Expansion, group: Group, link: Link, posterior: Posterior) -> float:
    """Return a lower bound of the number of events in a group, at its mean row."""
    share = max(float(group.inside @ expansion.second @ group.inside), LEAST_SHARE)
    row = expansion.second @ group.inside / share
    sd = math.sqrt(max(float(row @ posterior.covariance @ row), 0.0))
    lower = float(posterior.mean @ row) - LOWER_SDS * sd
    log_mean = min(lower + link.shift, LARGEST_PREDICTOR)
    return (expansion.rows or 0.0) * share * math.exp(log_mean)


def problems(
    release: Quadratic | Variational, design: Design, link: Link, posterior: Posterior | None
) -> tuple[str, ...]:
    """Return at most one sentence: which groups are nearly constant, and the remedy.

    posterior: see normal.
    """
    if posterior is None:
        return ("the noise leaves nothing that a posterior follows from: take a larger budget",)
    with np.errstate(all="ignore"):
        expansion = expansion_of(release, design, link)
        if link.of_times:
            expansion, link, posterior = by_hazards(expansion, link, posterior)
        elif isinstance(release, Quadratic) and release.apart:
            expansion, posterior = without_scale(expansion, posterior)
        groups = groups_of(design)
        rates = {id(group) for group in groups if _is_rate(release, group, link)}
        counted_rates = {
            id(group)
            for group in groups
            if id(group) in rates and _events_in(expansion, group, link, posterior) >= LEAST_EVENTS
        }
        others = [group for group in groups if id(group) not in counted_rates]
        changed = changes(expansion, others, link, posterior)
        changed += [
            (math.inf, group, 0, True)
            for group in groups
            if id(group) in rates and not _stands_out(release, group)
        ]
    worst = sorted(
        (change for change in changed if not change[0] <= MAX_CHANGE), key=lambda change: -change[0]
    )
    if not worst:
        return ()
    named: list[str] = []
    for _, group, response, rare in worst:
        events = f"{_events(design, response, rare)} in {group.name}"
        if events not in named:
            named.append(events)
    more = f" and {len(named) - MOST_NAMED} more such groups" if len(named) > MOST_NAMED else ""
    join = "join such a category to another one or leave it out, "
    join = "" if all(group.name == ALL_ROWS for _, group, _, _ in worst) else join
    return (
        f"too few events stand out of the noise ({'; '.join(named[:MOST_NAMED])}{more}), so that"
        f" these coefficients have no normal posterior: {join}give them narrower priors, or take a"
        " larger epsilon if noise hides the events",
    )


def _events(design: Design, response: int, rare: bool) -> str:
    """Return the rare event in words. rare: whether it is that response, or all others."""
    if design.kind == "event" and design.beside is not None:
        return f"{design.beside.label}"
    if design.answer is None or isinstance(design.answer, NumberColumn):
        return f"{design.response} {'0' if response == ZEROS and rare else 'above 0'}"
    words = design.answer.categories
    if len(words) == 2:
        return f"{design.response} {words[1] if rare else words[0]}"
    return f"{design.response} {'' if rare else 'other than '}{words[response]}"
