"""Synthetic tables in one call: noisy marginals, a maximum entropy model, posterior draws."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from dpmcmc.base.errors import LowQualityError, SpecError, is_number
from dpmcmc.base.floating import own_errors
from dpmcmc.base.private import Permit, Private
from dpmcmc.fit.budget import Budget
from dpmcmc.fit.local import (
    check_accepted,
    check_call,
    checked_rows,
    paid_rows,
    usual_delta,
)
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.inputs.streamed import AnyRows, pieces
from dpmcmc.mechanisms.axes import Axis, Bins, axes
from dpmcmc.mechanisms.counts import cells, check_cells, counted, noise_sd, released
from dpmcmc.planner import Cost
from dpmcmc.posterior.verdicts import Verdict, joined
from dpmcmc.privacy.noise import RandomSource, SystemRandom
from dpmcmc.queries.paid import ONE_ROW, Paid, opened, settled
from dpmcmc.queries.synthetic.checks import Check, NoiseErrors, checked, noise_errors, shares_of
from dpmcmc.queries.synthetic.drawn import Floats, Values, levels, rows_of, tilts_of, values, within
from dpmcmc.queries.synthetic.loglinear import LogLinear, covers
from dpmcmc.queries.synthetic.posterior import MAX_RHAT, NoisyMarginals, draws


# Rubin's rules for fully synthetic tables. Each table is like a new sample of rows: the variance of
# estimates between tables is that of their posterior plus the variance within a table, which is
# therefore subtracted. Source: Raghunathan, Reiter & Rubin 2003; Reiter 2002 for variances that
# would be negative.
@dataclass(frozen=True, eq=False)
class Combined:
    """Estimates (quantities,). sd: standard errors, which include sampling and noise.

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

    estimates, variances: (m,) or (m, quantities); variances are squared standard errors as the
    analysis gives them for a table of real rows. share: rows of a synthetic table over the real
    number of rows. The variance is (1 + 1/m) b - v for b the estimates' variance between tables and
    v the mean of the variances, and share * v where that is not positive.
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
MOST_CELLS, MOST_ENTRIES = 2**20, 2500  # of the model: limits of memory and of run time
FEWEST, MOST = 2, 2000  # tables
MOST_NUMBERS = 2**29  # of all tables: 4 GiB
FEWER = "name fewer columns, marginals or bins"
LEAST_MOVES, MOST_MOVES = 20, 20_000
GRID = 1.001  # of a noise multiplier: noise of counts is rounded to a grid


@dataclass(frozen=True, eq=False)
class SyntheticPlan:
    """The plan of a release of marginals, from public facts alone."""

    schema: Schema
    axes: tuple[Axis, ...]
    model: LogLinear
    paid: Paid

    @property
    def noise_sd(self) -> float:
        """The sd of the noise of each released count."""
        parts = len(self.model.marginals)
        return noise_sd(sum(self.model.sizes), parts, self.paid.noise_multiplier)

    @property
    def numbers(self) -> int:
        """How many numbers a table is kept as: of each row its cell, and its places in bins."""
        return self.schema.rows * (1 + sum(axis.edges is not None for axis in self.axes))

    def noise_errors(self, counts: Floats | None = None) -> NoiseErrors:
        """Return the errors that noise causes; as declared columns tell where none is released."""
        return noise_errors(self.axes, self.model, self.noise_sd, self.schema.rows, counts)

    @property
    def usable(self) -> bool:
        """Whether the noise is expected to leave means and correlations as they are."""
        return self.noise_errors().excess <= 1.0

    def shortfall(self) -> tuple[str, float | None]:
        """Return what noise is expected to do to tables, and an epsilon at which it would not."""
        errors = self.noise_errors()
        sentence = f"{'; '.join(errors.reasons())}: {FEWER}."
        return sentence[:1].upper() + sentence[1:], self.usable_at(errors)

    def usable_at(self, errors: NoiseErrors) -> float | None:
        """Return about the smallest epsilon at which the errors would be tolerated.

        None where that takes less noise than is allowed.
        """
        multiplier = self.paid.noise_multiplier / errors.excess / GRID
        try:
            less = PrivacySpec(delta=self.paid.cost.delta, noise_multiplier=multiplier)
            return settled(self.schema, less).cost.epsilon
        except SpecError:
            return None


def planned(
    schema: Schema,
    privacy: PrivacySpec,
    *,
    columns: Sequence[str] | None = None,
    marginals: Marginals = "pairs",
    bins: Mapping[str, Bins] | None = None,
    impossible: Impossible = (),
) -> SyntheticPlan:
    """Return the plan of `synthesise` with its cost. Reads no row. Raises SpecError."""
    if schema.unit_rows > 1:
        raise SpecError("/privacy/max_rows", ONE_ROW.format("synthetic tables"))
    names = [c.name for c in schema.columns] if columns is None else _names("/columns", columns)
    if not names:
        raise SpecError("/columns", "must name one column or more")
    if bins is not None and not isinstance(bins, Mapping):
        raise SpecError("/bins", 'must be bins by column, such as {"dose": 8}')
    if not set(bins or {}) <= set(names):
        raise SpecError("/bins", "name a column that is not among the columns")
    all_axes = axes(schema, names, bins or {})
    shape = tuple(axis.size for axis in all_axes)
    model = LogLinear(shape, _numbered(names, marginals), _impossible_levels(all_axes, impossible))
    check_cells([[all_axes[k] for k in marginal] for marginal in model.marginals])
    if model.combinations > MOST_CELLS:
        size = sum(math.log10(count) for count in shape)
        message = f"have 10^{size:.1f} cells, at most {MOST_CELLS} are modelled"
        raise SpecError("/columns", message)
    if model.cells == 0:
        raise SpecError("/impossible", "leaves no cell")
    if sum(model.sizes) > MOST_ENTRIES:
        message = f"have {sum(model.sizes)} cells together, at most {MOST_ENTRIES} are modelled"
        raise SpecError("/marginals", message)
    return SyntheticPlan(schema, all_axes, model, settled(schema, privacy))


def _names(pointer: str, given: object) -> list[str]:
    """Return names of columns. Raises SpecError where these are none."""
    listed = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    names: list[Any] = list(given) if listed else [None]  # type: ignore[call-overload]
    if not all(isinstance(name, str) for name in names):
        raise SpecError(pointer, "must be names of columns in a list")
    return names


def _numbered(names: Sequence[str], marginals: Marginals) -> tuple[tuple[int, ...], ...]:
    """Return the marginals with numbers in place of columns' names. Raises SpecError."""
    columns = range(len(names))
    if isinstance(marginals, str):
        if marginals != "pairs":
            raise SpecError("/marginals", "must be 'pairs', or lists of columns")
        return tuple(itertools.combinations(columns, 2)) if len(names) > 1 else ((0,),)
    if not isinstance(marginals, Iterable) or isinstance(marginals, Mapping):
        raise SpecError("/marginals", "must be 'pairs', or lists of columns")
    named = [_names("/marginals", marginal) for marginal in marginals]
    number_of = {name: k for k, name in enumerate(names)}
    if not all(name in number_of for marginal in named for name in marginal):
        raise SpecError("/marginals", "name a column that is not among the columns")
    numbered = tuple(tuple(sorted(number_of[name] for name in marginal)) for marginal in named)
    if not all(numbered) or any(len(set(marginal)) < len(marginal) for marginal in numbered):
        raise SpecError("/marginals", "must name one or more distinct columns each")
    if len(set(numbered)) < len(numbered) or not covers(columns, numbered):
        raise SpecError("/marginals", "must differ, and every column must be in one of them")
    return numbered


def _impossible_levels(
    axes: Sequence[Axis], impossible: Impossible
) -> tuple[dict[int, list[int]], ...]:
    """Return impossible combinations with numbers in place of names. Raises SpecError."""
    if not isinstance(impossible, list | tuple) or not all(map(_is_levels_by_column, impossible)):
        raise SpecError("/impossible", 'must be levels by column, such as [{"sex": ["m"]}]')
    axis_of = {axis.name: (k, axis.labels) for k, axis in enumerate(axes)}
    for name, names in (
        (name, names) for combination in impossible for name, names in combination.items()
    ):
        if name not in axis_of or not set(names) <= set(axis_of[name][1]):
            raise SpecError("/impossible", f"names levels that {name!r} does not have")
    if not all(impossible):
        raise SpecError("/impossible", "must name a column each")
    return tuple(
        {
            axis_of[name][0]: [axis_of[name][1].index(word) for word in names]
            for name, names in combination.items()
        }
        for combination in impossible
    )


def _is_levels_by_column(value: object) -> bool:
    """Whether a value is a mapping from columns to lists of levels."""
    if not isinstance(value, Mapping):
        return False
    lists = all(isinstance(names, list | tuple) for names in value.values())
    return lists and all(isinstance(word, str) for names in value.values() for word in names)


def release(
    plan: SyntheticPlan, rows: Private[AnyRows], permit: Permit, random: RandomSource
) -> Floats:
    """Return the noisy counts of all marginals, concatenated, (entries,).

    Privacy: plan.paid.event, one Gaussian event for all of them, paid for by the permit. Proof:
    docs/proofs/tables.md. Raises PermitError before the rows are opened; never on rows.
    """
    names = [axis.name for axis in plan.axes]
    tables = [[plan.axes[k] for k in marginal] for marginal in plan.model.marginals]
    parts = [np.zeros(cells(table)) for table in tables]
    for piece in pieces(opened(plan.paid, rows, permit, plan.schema), names):
        for part, table in zip(parts, tables, strict=True):
            part += counted(piece, table)
    return released(np.concatenate(parts), len(parts), plan.paid.noise_multiplier, random)


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Synthetic tables, drawn given noisy marginals, with these marginals.

    cells: (tables, rows), each row's combination of levels, the last column fastest. positions: by
    number column -> (tables, rows), where in its bin a number is, 0 to 1. counts: the noisy
    marginals. r_hat: the largest of the marginals' probabilities over the chains. checks: of each
    column.
    """

    plan: SyntheticPlan
    counts: Floats
    cells: NDArray[np.intp]
    positions: Mapping[str, Floats]
    r_hat: float
    checks: tuple[Check, ...]

    @property
    def cost(self) -> Cost:
        """The cost of the call."""
        return self.plan.paid.cost

    @property
    def verdict(self) -> Verdict:
        """Whether the chains agree, and the tables agree with the released marginals."""
        return judged(self.plan, self.counts, self.r_hat, self.checks)

    @property
    def reliable(self) -> bool:
        """Whether the verdict is reliable."""
        return self.verdict.status == "reliable"

    def __len__(self) -> int:
        return len(self.cells)

    def table(self, number: int) -> dict[str, Values]:
        """Return one table: name -> (rows,) words or numbers, ready for csv or a data frame."""
        levels_of = levels(self.plan.axes, self.cells[number])
        no_positions = np.zeros(0)
        return {
            axis.name: values(
                axis, level, self.positions.get(axis.name, [no_positions] * len(self))[number]
            )
            for axis, level in zip(self.plan.axes, levels_of, strict=True)
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
                self.verdict.text(False),
                f"{len(self.plan.model.marginals)} marginals, {len(self.counts)} counts, "
                f"noise of sd {self.plan.noise_sd:.3g} rows in each, R-hat {self.r_hat:.2f}",
                f"cost: epsilon {self.cost.epsilon:.4g}, delta {self.cost.delta:g}",
            )
        )

    __repr__ = __str__


@own_errors
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
    accept_low_quality: bool = False,
    budget: Budget | None = None,
    max_rows: int | None = None,
    random: RandomSource | None = None,
) -> Synthetic:
    """Release noisy marginals, and draw synthetic tables given them.

    Privacy: one Gaussian event under replace-one that costs (epsilon, delta); every call costs this
    again, and the tables cost nothing more. Source: McKenna et al. 2019 (the model), Räisä et al.
    2023 (inference).

    Parameters
    ----------
    data
        The rows: a data frame, or a mapping of column names to values.
    schema
        Declared columns and number of rows.
    epsilon, delta
        Cost of the call; delta by default the budget's, or the smaller of 1e-6 and 0.1 / rows.
    noise_multiplier
        In place of epsilon: sd of the noise over the sensitivity.
    columns
        Columns of the tables, by default all of the schema.
    marginals
        Contingency tables to release, each by its columns' names; "pairs": all two-way tables. The
        tables have no other dependence than that of the marginals: for a regression, take the
        marginals of the response with each pair of covariates.
    bins
        For number columns, by name: a number of bins of equal width, or their inner edges.
    impossible
        Combinations of levels that are known to be impossible, by column. Without this they would
        have noise alone; rows that have them all the same are not in the tables.
    tables
        Number of tables, each with as many rows as the data.
    moves
        Least number of steps of each chain that draws probabilities. More are made, up to seven
        times as many in all, while the chains do not agree.
    accept_low_quality
        Whether to pay for tables that noise is expected to move too far; refused otherwise.
    budget
        If given, the call is charged to it.
    max_rows
        Of a schema of persons: 1, as this is of one row of each person, chosen at random. The cost
        protects a person with all of their rows.
    random
        For tests only.

    Returns
    -------
    Synthetic
        The tables, the noisy marginals and a verdict; `combine` combines analyses of all tables.

    Raises
    ------
    SpecError
        If the request is not possible; the message names the field and the remedy.
    LowQualityError
        If the noise is too large for so few rows, unless that is accepted. Nothing is charged.
    ValueError
        If the data do not fit the schema.
    BudgetExhaustedError
        If too little of the budget is left.

    Examples
    --------
    >>> synthetic = synthesise(rows, schema=schema, epsilon=1.0, bins={"dose": 8})
    >>> synthetic.table(0)["dose"].mean()
    """
    schema = check_call(schema, budget, random).with_max_rows(max_rows)
    check_accepted(accept_low_quality)
    delta = usual_delta(schema, budget) if delta is None else delta
    check_sizes(tables, moves)
    privacy = PrivacySpec(delta=delta, epsilon=epsilon, noise_multiplier=noise_multiplier)
    plan = planned(
        schema, privacy, columns=columns, marginals=marginals, bins=bins, impossible=impossible
    )
    if tables * plan.numbers > MOST_NUMBERS:
        most = MOST_NUMBERS // plan.numbers
        remedy = f"ask for at most {most}" if most >= FEWEST else "there are too many rows"
        raise SpecError("/tables", f"of {schema.rows} rows would not fit into memory: {remedy}")
    source = random or SystemRandom()
    read = [axis.name for axis in plan.axes]
    table = checked_rows(schema, data, plan.paid.cost.delta, budget, read)
    if not plan.usable and not accept_low_quality:
        raise LowQualityError(*plan.shortfall())
    rows, permit, _ = paid_rows(table, plan.paid.event, budget, schema.unit)
    return drawn(plan, release(plan, rows, permit, source), tables, moves, source)


def judged(plan: SyntheticPlan, counts: Floats, r_hat: float, checks: Sequence[Check]) -> Verdict:
    """Return the verdict on synthetic tables, from released numbers."""
    errors, widest = plan.noise_errors(counts), max(check.open for check in checks)
    sentence = f"{errors}; the chains that drew the tables agree (R-hat {r_hat:.2f})"
    if widest >= 0.005:
        sentence = f"{sentence}; bins hide up to {100.0 * widest:.0f} % of an sd of a mean"
    reasons = errors.reasons()
    if reasons:
        enough = plan.usable_at(errors)
        at_epsilon = "" if enough is None else f", or ask at epsilon {enough:.3g}"
        reasons[-1] += f": {FEWER}{at_epsilon}"
    reasons += [
        reason
        for axis, check in zip(plan.axes, checks, strict=True)
        for reason in check.reasons(axis)
    ]
    if not r_hat <= MAX_RHAT:
        wrong = f"the chains that drew the tables do not agree (R-hat {r_hat:.2f})"
        reasons.insert(0, f"{wrong}: ask for more moves")
    return joined(Verdict("reliable", f"Reliable: {sentence}.", (), None), reasons)


def check_sizes(tables: int, moves: int) -> None:
    """Raise SpecError on a number of tables or of moves outside the limits."""
    for name, value, least, most in (
        ("tables", tables, FEWEST, MOST),
        ("moves", moves, LEAST_MOVES, MOST_MOVES),
    ):
        if not is_number(value) or not isinstance(value, Integral) or not least <= value <= most:
            raise SpecError(f"/{name}", f"must be a whole number, {least} to {most}")


def drawn(
    plan: SyntheticPlan, counts: Floats, tables: int, moves: int, random: RandomSource
) -> Synthetic:
    """Return synthetic tables given released counts; costs nothing."""
    noisy = NoisyMarginals(plan.model, counts, plan.noise_sd, plan.schema.rows)
    thetas, r_hat = draws(noisy, tables, moves, random)
    rows = plan.schema.rows
    cells, mean = np.empty((tables, rows), np.intp), np.zeros(plan.model.cells)
    for table, theta in enumerate(thetas):
        probabilities = plan.model.probabilities(theta)
        cells[table] = plan.model.possible[rows_of(probabilities, rows, random)]
        mean += probabilities / tables
    shares = shares_of(plan.model, mean)
    checks = checked(plan.axes, plan.model, counts, plan.noise_sd, rows, shares)
    table_levels = [levels(plan.axes, table_cells) for table_cells in cells]
    positions = {
        axis.name: np.stack(
            [
                within(axis, level[k], tilts_of(axis, shares[k], rows), random)
                for level in table_levels
            ]
        )
        for k, axis in enumerate(plan.axes)
        if axis.edges is not None
    }
    return Synthetic(plan, counts, cells, positions, r_hat, tuple(checks))
