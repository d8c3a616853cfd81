"""The task that draws synthetic tables from a maximum entropy model given noisy marginals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Permit, Private
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import PrivacySpec
from dpmcmc.inputs.streamed import AnyRows
from dpmcmc.mechanisms.axes import axes
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.paid import Paid
from dpmcmc.queries.summaries.intervals import IntervalTarget
from dpmcmc.queries.synthetic import call as synthesising
from dpmcmc.queries.synthetic.checks import Check
from dpmcmc.queries.synthetic.drawn import Values, levels, values
from dpmcmc.queries.synthetic.posterior import CHAINS, LONGEST, MOST_COMPARED, PASSES, WARM
from dpmcmc.queries.tasks.base import Floats

MOST_SECONDS = 3600.0  # of a task
COPIES = 8  # of what an R-hat is of, and of a matrix of all entries, at once
LEAPFROG_SECONDS, CELL_SECONDS = 3e-4, 8e-9  # of a step of one chain: measured on a busy core


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTask:
    """Synthetic tables, drawn from a maximum entropy model given noisy marginals.

    columns: of the tables; all where None. marginals: contingency tables to release, each by its
    columns; all pairs where None. bins: of a number column, a number of bins of equal width, or
    their inner edges. impossible: combinations of levels that no row has, by column. tables: their
    number. moves: least number of those of each chain that draws probabilities.
    """

    kind: Literal["synthetic"] = "synthetic"
    columns: tuple[str, ...] | None = None
    marginals: tuple[tuple[str, ...], ...] | None = None
    bins: dict[str, int | tuple[float, ...]] = field(default_factory=dict)
    impossible: tuple[dict[str, tuple[str, ...]], ...] = ()
    tables: int = 20
    moves: int = 200


@dataclass(frozen=True, slots=True)
class PlannedTables:
    """Synthetic tables of one schema.

    The first block has the counts, the largest R-hat, and two numbers of the check of each column.
    """

    plan: synthesising.SyntheticPlan
    task: SyntheticTask
    rows: int

    @property
    def paid(self) -> Paid:
        """Its event, and what that costs."""
        return self.plan.paid

    @property
    def blocks(self) -> int:
        """The counts, and each table."""
        return 1 + self.task.tables

    @property
    def numbers(self) -> int:
        """How many all blocks hold."""
        first = sum(self.plan.model.sizes) + 1 + 2 * len(self.plan.axes)
        return first + self.task.tables * self.plan.numbers

    @property
    def noise(self) -> str:
        """The noise, in words."""
        counts = sum(self.plan.model.sizes)
        return f"noise of sd {self.plan.noise_sd:.3g} rows in each of {counts} counts"

    @property
    def memory(self) -> int:
        """Bytes beyond those of rows and numbers: of the model, its chains and its tables."""
        model, entries = self.plan.model, sum(self.plan.model.sizes)
        moves: int = CHAINS * min(2 ** (PASSES - 1) * self._moves, MOST_COMPARED)
        chains = entries * (self.task.tables + COPIES * (moves + entries))
        return 48 * model.cells * len(model.marginals) + 8 * chains

    @property
    def _moves(self) -> int:
        """Moves of each chain, if chains agree at once: at least one for each of its tables."""
        return max(self.task.moves, -(-self.task.tables // CHAINS))

    @property
    def seconds(self) -> float:
        """The longest that it runs, about."""
        products = self.plan.model.cells * len(self.plan.model.marginals)
        each = LEAPFROG_SECONDS + CELL_SECONDS * products
        most_moves: int = (2**PASSES - 1) * self._moves + 2 * WARM
        chains = most_moves * CHAINS * LONGEST * each
        return 1.0 + chains + (2e-7 * self.rows + each) * self.task.tables

    def release(
        self, rows: Private[AnyRows], permit: Permit, random: RandomSource
    ) -> Iterator[Floats]:
        """Yield noisy counts, then tables. Privacy: paid.event. Raises PermitError."""
        counts = synthesising.release(self.plan, rows, permit, random)
        synthetic = synthesising.drawn(self.plan, counts, self.task.tables, self.task.moves, random)
        checks = [number for check in synthetic.checks for number in (check.open, check.off)]
        yield np.concatenate((counts, [synthetic.r_hat], checks))
        binned = [axis.name for axis in self.plan.axes if axis.edges is not None]
        for k in range(self.task.tables):
            cells = synthetic.cells[k].astype(np.float64)
            yield np.concatenate([cells, *(synthetic.positions[name][k] for name in binned)])

    def answer(self, first: Floats, level: float, target: IntervalTarget) -> dict[str, Any]:  # noqa: ARG002
        """Return the noisy marginals that the tables were drawn from."""
        model = self.plan.model
        *counts, after_counts = np.split(first, np.cumsum(model.sizes))
        r_hat = float(after_counts[0])
        marginals = [
            {"columns": [self.plan.axes[k].name for k in marginal], "counts": part.tolist()}
            for marginal, part in zip(model.marginals, counts, strict=True)
        ]
        return {
            "tables": self.task.tables,
            "rows": self.rows,
            "columns": [axis.name for axis in self.plan.axes],
            "levels": {axis.name: list(axis.labels) for axis in self.plan.axes},
            "noise_sd": self.plan.noise_sd,
            "r_hat": r_hat if np.isfinite(r_hat) else None,
            "marginals": marginals,
        }

    def verdict(self, first: Floats) -> Verdict:
        """Return whether the chains agree, and the tables agree with the released marginals."""
        size = sum(self.plan.model.sizes)
        r_hat, *checks = first[size:].tolist()
        pairs = zip(checks[::2], checks[1::2], strict=True)
        return synthesising.judged(self.plan, first[:size], r_hat, [Check(*p) for p in pairs])


def planned(schema: Schema, task: SyntheticTask, privacy: PrivacySpec) -> PlannedTables:
    """Return the planned task with its cost. Raises SpecError, also where it runs too long."""
    synthesising.check_sizes(task.tables, task.moves)
    plan = synthesising.planned(
        schema,
        privacy,
        columns=task.columns,
        marginals="pairs" if task.marginals is None else task.marginals,
        bins=task.bins,
        impossible=task.impossible,
    )
    tables = PlannedTables(plan, task, schema.rows)
    if tables.seconds > MOST_SECONDS:
        message = (
            f"would run for about {tables.seconds:.0f} s: name fewer columns, marginals or moves"
        )
        raise SpecError("/task", message)
    return tables


def table_of(schema: Schema, task: SyntheticTask, block: Floats) -> Mapping[str, Values]:
    """Return a synthetic table, name -> (rows,), from its block. Free."""
    names = [c.name for c in schema.columns] if task.columns is None else task.columns
    all_axes, (cells, *parts) = axes(schema, names, task.bins), block.reshape(-1, schema.rows)
    positions, no_positions = iter(parts), np.zeros(0)
    return {
        axis.name: values(axis, level, no_positions if axis.edges is None else next(positions))
        for axis, level in zip(all_axes, levels(all_axes, cells.astype(np.intp)), strict=True)
    }
