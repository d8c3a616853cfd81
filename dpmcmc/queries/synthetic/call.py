"""Synthetic tables in one call: noisy marginals, a model of greatest entropy, posterior draws."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from dpmcmc.base.errors import SpecError, is_number
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import check_call, owned, usual_delta
from dpmcmc.inputs.schema import Schema, Table
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.mechanisms.axes import Axis, Bins, axes
from dpmcmc.mechanisms.counts import check_cells, counted, noise_sd, released
from dpmcmc.planner import Cost
from dpmcmc.posterior.verdicts import Verdict, joined
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.paid import Paid, opened, settled
from dpmcmc.queries.synthetic.checks import Check, checked, shares_of
from dpmcmc.queries.synthetic.drawn import Floats, Values, levels, rows_of, tilts_of, values, within
from dpmcmc.queries.synthetic.loglinear import LogLinear, covers
from dpmcmc.queries.synthetic.posterior import Known, draws


# Rubin's rules for fully synthetic tables. Each table is as a fresh sample of rows: what estimates
# vary by between tables is their posterior's variance and, once more, the variance within a table,
# which is therefore taken off. Source: Raghunathan, Reiter & Rubin 2003; Reiter 2002 for variances
# that would be negative.
@dataclass(frozen=True, eq=False)
class Combined:
    """Estimates, one of each quantity, (quantities,). sd: standard errors, of rows and of noise.

    freedom: degrees of freedom of the t distribution of an error over its sd.
    """

    estimate: Floats
    sd: Floats
    freedom: Floats

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of intervals of this level. Raises ValueError unless 0 < level < 1."""
        if not 0.0 < level < 1.0:
            raise ValueError("level must lie between 0 and 1")
        reach = stdtrit(self.freedom, 0.5 + 0.5 * level) * self.sd
        return self.estimate - reach, self.estimate + reach


def combine(estimates: ArrayLike, variances: ArrayLike, share: float = 1.0) -> Combined:
    """Combine the same analysis of m synthetic tables.

    estimates, variances: (m,) or (m, quantities), the latter squared standard errors as the
    analysis gives them for a table that it takes for real. share: rows of a synthetic table over
    the real number of rows. The variance is (1 + 1/m) b - v for b the estimates' variance between
    tables and v the mean of the variances, and share * v where that is not positive.
    Raises ValueError with fewer than two tables, or shapes that differ.
    """
    q, v = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if q.shape != v.shape or q.ndim not in (1, 2) or len(q) < 2:
        raise ValueError("estimates and variances must be of the same two or more tables")
    q, v = q.reshape(len(q), -1), v.reshape(len(v), -1)
    between, inside = (1.0 + 1.0 / len(q)) * q.var(axis=0, ddof=1), v.mean(axis=0)
    total = between - inside
    positive = total > 0.0
    ratio = np.divide(total, between, out=np.ones_like(total), where=positive)
    freedom = np.where(positive, (len(q) - 1) * ratio**2, len(q) - 1.0)
    sd = np.sqrt(np.where(positive, total, share * inside))
    return Combined(q.mean(axis=0), sd, np.maximum(freedom, 1.0))


Impossible = Sequence[Mapping[str, Sequence[str]]]
Marginals = Sequence[Sequence[str]] | Literal["pairs"]
MOST_CELLS, MOST_ENTRIES = 2**20, 2500  # of the model: for memory, and for a minute's work
FEWEST, MOST = 2, 2000  # tables
LEAST_MOVES, MOST_MOVES = 20, 20_000
MAX_RHAT = 1.2  # largest R-hat of a cell of the marginals that counts as mixed


@dataclass(frozen=True, eq=False)
class Plan:
    """What is released, from public facts alone. noise_sd: of each count, in rows."""

    schema: Schema
    axes: tuple[Axis, ...]
    model: LogLinear
    paid: Paid

    @property
    def noise_sd(self) -> float:
        """The sd of the noise of each released count."""
        parts = len(self.model.marginals)
        return noise_sd(sum(self.model.sizes), parts, self.paid.noise_multiplier)


def planned(
    schema: Schema,
    privacy: PrivacySpec,
    *,
    columns: Sequence[str] | None = None,
    marginals: Marginals = "pairs",
    bins: Mapping[str, Bins] | None = None,
    impossible: Impossible = (),
) -> Plan:
    """Return what `synthesise` would release and cost. Reads no row. Raises SpecError."""
    names = [c.name for c in schema.columns] if columns is None else list(columns)
    if not names:
        raise SpecError("/columns", "must name one column or more")
    if not set(bins or {}) <= set(names):
        raise SpecError("/bins", "name a column that is not among the columns")
    found = axes(schema, names, bins or {})
    shape = tuple(axis.size for axis in found)
    model = LogLinear(shape, _places(names, marginals), _ruled_out(found, impossible))
    check_cells([[found[k] for k in one] for one in model.marginals])
    if model.combinations > MOST_CELLS:
        size = sum(math.log10(count) for count in shape)
        message = f"have 10^{size:.1f} cells, at most {MOST_CELLS} are modelled"
        raise SpecError("/columns", message)
    if model.cells == 0:
        raise SpecError("/impossible", "leaves no cell")
    if sum(model.sizes) > MOST_ENTRIES:
        message = f"have {sum(model.sizes)} cells together, at most {MOST_ENTRIES} are modelled"
        raise SpecError("/marginals", message)
    return Plan(schema, found, model, settled(schema, privacy))


def _places(names: Sequence[str], marginals: Marginals) -> tuple[tuple[int, ...], ...]:
    """Return the marginals as numbers of columns. Raises SpecError."""
    every = range(len(names))
    if marginals == "pairs":
        return tuple(itertools.combinations(every, 2)) if len(names) > 1 else ((0,),)
    places = {name: k for k, name in enumerate(names)}
    if not all(name in places for one in marginals for name in one):
        raise SpecError("/marginals", "name a column that is not among the columns")
    found = tuple(tuple(sorted(places[name] for name in one)) for one in marginals)
    if not all(found) or any(len(set(one)) < len(one) for one in found):
        raise SpecError("/marginals", "must name one or more distinct columns each")
    if len(set(found)) < len(found) or not covers(every, found):
        raise SpecError("/marginals", "must differ, and every column must be in one of them")
    return found


def _ruled_out(found: Sequence[Axis], impossible: Impossible) -> tuple[dict[int, list[int]], ...]:
    """Return combinations of levels as numbers. Raises SpecError on what is not declared."""
    if not isinstance(impossible, list | tuple) or not all(map(_are_levels, impossible)):
        raise SpecError("/impossible", 'must be levels by column, such as [{"sex": ["m"]}]')
    places = {axis.name: (k, axis.labels) for k, axis in enumerate(found)}
    for name, words in ((name, words) for one in impossible for name, words in one.items()):
        if name not in places or not set(words) <= set(places[name][1]):
            raise SpecError("/impossible", f"names levels that {name!r} does not have")
    if not all(impossible):
        raise SpecError("/impossible", "must name a column each")
    return tuple(
        {
            places[name][0]: [places[name][1].index(word) for word in words]
            for name, words in one.items()
        }
        for one in impossible
    )


def _are_levels(told: object) -> bool:
    """Whether it holds lists of words by column."""
    if not isinstance(told, Mapping):
        return False
    lists = all(isinstance(words, list | tuple) for words in told.values())
    return lists and all(isinstance(word, str) for words in told.values() for word in words)


def release(plan: Plan, rows: Private[Table], permit: Permit, random: RandomSource) -> Floats:
    """Return the noisy counts of all marginals, (entries,), one after the other.

    Privacy: plan.paid.event, one Gaussian event for all of them, paid for by the permit. Proof:
    docs/proofs/tables.md. Raises PermitError before the rows are opened; never on rows.
    """
    table = opened(plan.paid, rows, permit)
    parts = [counted(table, [plan.axes[k] for k in one]) for one in plan.model.marginals]
    return released(np.concatenate(parts), len(parts), plan.paid.noise_multiplier, random)


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Synthetic tables, drawn given noisy marginals; and what those were.

    cells: (tables, rows), each row's combination of levels, the last column fastest. places: name
    of a number column -> (tables, rows), where in its bin a number lies. counts: the noisy
    marginals. r_hat: the largest of those of the marginals' probabilities over the chains. checks:
    of each column.
    """

    plan: Plan
    counts: Floats
    cells: NDArray[np.intp]
    places: Mapping[str, Floats]
    r_hat: float
    checks: tuple[Check, ...]

    @property
    def cost(self) -> Cost:
        """What the call cost; whoever holds the rows keeps the account."""
        return self.plan.paid.cost

    @property
    def verdict(self) -> Verdict:
        """Whether the chains agree, and the tables have the columns that were released."""
        return judged(self.plan, self.r_hat, self.checks)

    @property
    def reliable(self) -> bool:
        """Whether nothing is wrong: see verdict."""
        return self.verdict.status == "reliable"

    def __len__(self) -> int:
        return len(self.cells)

    def table(self, number: int) -> dict[str, Values]:
        """Return one table: name -> (rows,) words or numbers, ready for csv or a data frame."""
        found = levels(self.plan.axes, self.cells[number])
        none = np.zeros(0)
        return {
            axis.name: values(axis, level, self.places.get(axis.name, [none] * len(self))[number])
            for axis, level in zip(self.plan.axes, found, strict=True)
        }

    def tables(self, count: int | None = None) -> list[dict[str, Values]]:
        """Return the first `count` tables, or all. Raises ValueError where there are fewer."""
        if count is not None and not 1 <= count <= len(self):
            raise ValueError(f"there are {len(self)} tables")
        return [self.table(k) for k in range(count or len(self))]

    def crosstab(self, number: int) -> NDArray[np.int64]:
        """Return counts of all combinations of levels in one table: an axis for each column."""
        counts = np.bincount(self.cells[number], minlength=self.plan.model.combinations)
        return counts.reshape(self.plan.model.shape)

    def combine(self, estimates: ArrayLike, variances: ArrayLike) -> Combined:
        """Combine the same analysis of each table by Rubin's rules. See combine.combine."""
        return combine(estimates, variances, self.cells.shape[1] / self.plan.schema.rows)

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{len(self)} synthetic tables of {self.cells.shape[1]} rows",
                self.verdict.told(False),
                f"{len(self.plan.model.marginals)} marginals, {len(self.counts)} counts, "
                f"noise of sd {self.plan.noise_sd:.3g} rows in each, R-hat {self.r_hat:.2f}",
                f"cost: epsilon {self.cost.epsilon:.4g}, delta {self.cost.delta:g}",
            )
        )

    __repr__ = __str__


def synthesise(
    data: object,
    *,
    schema: Schema,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    columns: Sequence[str] | None = None,
    marginals: Marginals = "pairs",
    bins: Mapping[str, Bins] | None = None,
    impossible: Impossible = (),
    tables: int = 100,
    moves: int = 200,
    budget: Budget | None = None,
    random: RandomSource | None = None,
) -> Synthetic:
    """Release noisy marginals of rows of your own, and draw synthetic tables given them.

    columns: what the tables have, by default all of the schema. marginals: contingency tables that
    are released, each by its columns' names; "pairs": all two-way ones. What no marginal holds is
    not in the tables: an analysis is served as far as the marginals determine it, so for a
    regression take those of the response with each pair of covariates. bins: of a number column,
    how many of equal width, or their inner edges. impossible: levels that no row has
    together, by column, as a fact known beforehand: such cells would hold noise alone, and rows
    that are there all the same are not in the tables. tables: how many, of as many rows as the
    data. moves: of each chain that draws their probabilities; more where `r_hat` says that they did
    not mix.
    Privacy: one Gaussian event at the multiplier that spends (epsilon, delta); every call spends
    it anew, and the tables cost nothing more. budget: takes what the call costs, see
    dpmcmc.fit.budget. random: for tests only.
    Raises SpecError on the request, ValueError where the data do not suit the schema.
    Source: McKenna et al. 2019 (the model), Räisä et al. 2023 (inference).
    """
    check_call(schema, budget, random)
    delta = usual_delta(schema, budget) if delta is None else delta
    check_sizes(tables, moves)
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    plan = planned(
        schema, privacy, columns=columns, marginals=marginals, bins=bins, impossible=impossible
    )
    source = random or SystemRandom()
    counts = release(
        plan, *owned(schema, data, plan.paid.event, plan.paid.cost.delta, budget), source
    )
    return drawn(plan, counts, tables, moves, source)


def judged(plan: Plan, r_hat: float, checks: Sequence[Check]) -> Verdict:
    """Return whether tables may be believed, from released numbers."""
    good = f"the chains that drew the tables agree (R-hat {r_hat:.2f})"
    reasons = [
        reason
        for axis, check in zip(plan.axes, checks, strict=True)
        for reason in check.reasons(axis)
    ]
    if not r_hat <= MAX_RHAT:
        wrong = f"the chains that drew the tables do not agree (R-hat {r_hat:.2f})"
        reasons.insert(0, f"{wrong}: ask for more moves")
    return joined(Verdict("reliable", f"Reliable: {good}.", (), None), reasons)


def check_sizes(tables: int, moves: int) -> None:
    """Refuse numbers of tables and of moves that none are drawn with. Raises SpecError."""
    for name, value, least, most in (
        ("tables", tables, FEWEST, MOST),
        ("moves", moves, LEAST_MOVES, MOST_MOVES),
    ):
        if not is_number(value) or not isinstance(value, Integral) or not least <= value <= most:
            raise SpecError(f"/{name}", f"must be a whole number, {least} to {most}")


def drawn(plan: Plan, counts: Floats, tables: int, moves: int, random: RandomSource) -> Synthetic:
    """Return synthetic tables given released counts, which costs nothing."""
    known = Known(plan.model, counts, plan.noise_sd, plan.schema.rows)
    found, r_hat = draws(known, tables, moves, random)
    rows = plan.schema.rows
    cells = np.stack([plan.model.possible[rows_of(p, rows, random)] for p in found])
    shares = shares_of(plan.model, found.mean(axis=0))
    checks = checked(plan.axes, plan.model, counts, plan.noise_sd, rows, shares)
    at = [levels(plan.axes, one) for one in cells]
    places = {
        axis.name: np.stack(
            [within(axis, level[k], tilts_of(axis, shares[k], rows), random) for level in at]
        )
        for k, axis in enumerate(plan.axes)
        if axis.edges is not None
    }
    return Synthetic(plan, counts, cells, places, r_hat, tuple(checks))
