"""Groups of rows: what `(1 | ward)` says in a formula, over declared categories."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, near
from dpmcmc.formula.parse import POINTER, unwritten
from dpmcmc.inputs.schema import NumberColumn, Schema, Table

MOST_GROUPS = 249  # as many as are released beside an intercept
REMEDY = "write (1 | g), where g is a column of categories"


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of a formula. column: whose declared categories they are."""

    column: str
    categories: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.categories)

    @property
    def sd(self) -> str:
        """Name of the parameter that is the sd of groups' effects."""
        return f"sd({self.column})"

    @property
    def effects(self) -> tuple[str, ...]:
        """Names of the groups' effects."""
        return tuple(f"{self.column}[{category}]" for category in self.categories)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters that a model has by its groups: the sd first."""
        return (self.sd, *self.effects)

    def codes(self, table: Table) -> NDArray[np.int64]:
        """Return (n,), the group of each row; -1 for a row that misses it."""
        codes = table.columns[self.column].astype(np.int64)
        return np.where((codes >= 0) & (codes < self.count), codes, -1)


def grouping_of(
    schema: Schema, groups: tuple[tuple[str, str], ...], used: tuple[str, ...]
) -> Grouping | None:
    """Return the grouping of a formula; None where it has none. Raises SpecError.

    groups: what stands before and after each bar. used: columns of the other terms.
    """
    if not groups:
        return None
    if len(groups) > 1:
        message = "one grouping is available, (1 | g): write C(h) for the other one"
        raise SpecError(POINTER, message)
    effect, name = groups[0]
    if effect != "1":
        message = (
            f"({effect} | {name}): slopes that differ by group are not available: write (1 |"
            f" {name}), and {effect}:h for slopes by few categories h"
        )
        raise SpecError(POINTER, message)
    if re.search(r"[/:*+]", name) and not name.startswith("`"):
        message = f"(1 | {name}): groups within groups are not available: {REMEDY}"
        raise SpecError(POINTER, message)
    name = unwritten(name)
    column = next((column for column in schema.columns if column.name == name), None)
    if column is None:
        guess = near(name, [column.name for column in schema.columns])
        raise SpecError(POINTER, f"the dataset has no column {name!r}{guess}")
    if isinstance(column, NumberColumn):
        raise SpecError(POINTER, f"(1 | {name}) needs a column of categories, {name!r} is a number")
    if name in used:
        message = f"{name!r} is a covariate and groups the rows: leave one of the two out"
        raise SpecError(POINTER, message)
    if len(column.categories) > MOST_GROUPS:
        message = (
            f"{name!r} has {len(column.categories)} categories; (1 | {name}) takes at most"
            f" {MOST_GROUPS}: declare coarser ones"
        )
        raise SpecError(POINTER, message)
    return Grouping(name, tuple(column.categories))
