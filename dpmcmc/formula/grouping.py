"""Groups of rows: what `(1 | ward)`, `(x | ward)` and `(1 | region/ward)` say in a formula.

Groups are declared categories.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, near
from dpmcmc.formula.parse import POINTER, crossed, slashed, unwritten
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema, Table

MOST_GROUPS = 2000  # as many effects as are released beside coefficients
REMEDY = "write (1 | g), where g is a column of categories"


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of a formula: declared categories of a column, or of several crossed.

    columns: whose categories they are. levels: how many each has. categories: of all, the last
    column's fastest. slope: the coefficient that differs by group, empty where none does. related:
    whether both effects of a group may hang together. outer: number of the first columns whose
    categories are groups of groups, with effects and an sd of their own; 0 where there are none.
    outer_categories: the categories of these.
    """

    columns: tuple[str, ...]
    levels: tuple[int, ...]
    categories: tuple[str, ...]
    slope: str = ""
    related: bool = True
    outer: int = 0
    outer_categories: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The groups' name: that of the column, or of those that are crossed."""
        return ":".join(self.columns)

    @property
    def label_of_outer(self) -> str:
        """The name of the groups of groups; empty without any."""
        return ":".join(self.columns[: self.outer])

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.categories)

    @property
    def within(self) -> int:
        """Number of groups within each group of groups; 0 without any."""
        return prod(self.levels[self.outer :]) if self.outer else 0

    @property
    def sd(self) -> str:
        """Name of the parameter that is the sd of groups' effects."""
        return f"sd({self.label})"

    @property
    def sds(self) -> tuple[str, ...]:
        """Names of the sds: of groups of groups, of groups' effects, and of those on a slope."""
        if self.outer:
            return (f"sd({self.label_of_outer})", self.sd)
        return (self.sd, f"sd({self.label}:{self.slope})") if self.slope else (self.sd,)

    @property
    def law(self) -> tuple[str, ...]:
        """Names of the parameters that say how much groups differ: sds, perhaps a correlation."""
        both = self.slope and self.related
        return (*self.sds, f"cor({self.label}:{self.slope})") if both else self.sds

    @property
    def effects_of_outer(self) -> tuple[str, ...]:
        """Names of the effects of groups of groups; none without any."""
        return tuple(f"{self.label_of_outer}[{name}]" for name in self.outer_categories)

    @property
    def levels_of_effects(self) -> tuple[str, ...]:
        """Names of the groups' effects on the level of the predictor."""
        return tuple(f"{self.label}[{category}]" for category in self.categories)

    @property
    def slopes(self) -> tuple[str, ...]:
        """Names of the groups' effects on a slope; none where it differs by no group."""
        return tuple(f"{effect}:{self.slope}" for effect in self.levels_of_effects if self.slope)

    @property
    def effects(self) -> tuple[str, ...]:
        """Names of effects: of groups of groups, of groups on the level, and on a slope."""
        return (*self.effects_of_outer, *self.levels_of_effects, *self.slopes)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters that a model has by its groups: sds first."""
        return (*self.law, *self.effects)

    def codes(self, table: Table) -> NDArray[np.int64]:
        """Return (n,), the group of each row; -1 for a row that misses it."""
        return self.joined([table.columns[name].astype(np.int64) for name in self.columns])

    def joined(self, codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return (n,), the group of codes of each column (n,); -1 where one is no code."""
        group, known = np.zeros(len(codes[0]), np.int64), np.ones(len(codes[0]), np.bool_)
        for code, count in zip(codes, self.levels, strict=True):
            known &= (code >= 0) & (code < count)
            group = group * count + code
        return np.where(known, group, -1)

    def or_new(self, codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return (n,), the group of codes of each column (n,), of which some may be no code.

        Behind the groups comes a new one of each group of groups, and last a new one of a new one.
        """
        group, last = self.joined(codes), self.count + len(self.outer_categories)
        if not self.outer:
            return np.where(group < 0, last, group)
        outer = replace(self, columns=self.columns[: self.outer], levels=self.levels[: self.outer])
        whose = outer.joined(codes[: self.outer])
        return np.where(group >= 0, group, np.where(whose >= 0, self.count + whose, last))


def grouping_of(
    schema: Schema,
    groups: tuple[tuple[str, str, str], ...],
    used: tuple[str, ...],
    numbers: tuple[str, ...],
) -> Grouping | None:
    """Return the grouping of a formula; None where it has none. Raises SpecError.

    groups: what stands before, on and after each bar. used: columns of the other terms. numbers:
    coefficients of these that are slopes.
    """
    if not groups:
        return None
    groups = _unrelated(groups)
    effect, bar, name, outer = _nested(groups)
    _check_slope_is_a_number(schema, effect, name)
    slope = _slope_of(effect, bar, name, numbers, groups)
    if slope and outer:
        message = f"slopes differ by groups of one kind: write ({effect} {bar} {name})"
        raise SpecError(POINTER, message)
    if re.search(r"[/*+()]", _plain(name)):
        raise SpecError(POINTER, f"(1 | {name}): is not available: {REMEDY}")
    columns = [_column_of_groups(schema, unwritten(part), name) for part in crossed(name)]
    names = tuple(column.name for column in columns)
    alone = 1 in (len(names), outer)
    if alone and names[0] in used:
        message = f"{names[0]!r} is a covariate and groups the rows: leave one of the two out"
        raise SpecError(POINTER, message)
    if len(set(names)) < len(names):
        raise SpecError(POINTER, f"(1 | {name}): names a column twice")
    count = prod(len(column.categories) for column in columns)
    most = MOST_GROUPS // 2 if slope else MOST_GROUPS
    if count > most:
        what = repr(names[0]) if len(names) == 1 else name
        message = (
            f"{what} has {count} categories; ({effect} {bar} {name}) takes at most"
            f" {most}: declare coarser ones"
        )
        raise SpecError(POINTER, message)
    levels = tuple(len(column.categories) for column in columns)
    of_outer = _joined_names(columns[:outer]) if outer else ()
    categories = _joined_names(columns)
    return Grouping(names, levels, categories, slope, bar == "|", outer, of_outer)


def _joined_names(columns: Sequence[BinaryColumn | CategoryColumn]) -> tuple[str, ...]:
    """Return the names of all categories of columns crossed."""
    return tuple(":".join(each) for each in product(*(column.categories for column in columns)))


def _plain(name: str) -> str:
    """Return what stands behind a bar with a letter for each name in backticks."""
    return re.sub(r"`[^`]*`", "c", name)


def _unrelated(groups: tuple[tuple[str, str, str], ...]) -> tuple[tuple[str, str, str], ...]:
    """Return (x || g) for (1 | g) + (0 + x | g), which is the same; other groups as they are."""
    if len(groups) != 2 or crossed(groups[0][2]) != crossed(groups[1][2]):
        return groups
    effects = sorted((effect for effect, *_ in groups), key=lambda effect: effect != "1")
    slope = re.fullmatch(r"0\s*\+\s*(.+)|(.+?)\s*-\s*1|(.+?)\s*\+\s*0", effects[1])
    if effects[0] != "1" or slope is None:
        return groups
    return ((next(filter(None, slope.groups())), "||", groups[0][2]),)


def _check_slope_is_a_number(schema: Schema, effect: str, name: str) -> None:
    """Raise SpecError where what stands before a bar is a column of categories."""
    for part in effect.split("+"):
        for column in schema.columns:
            if column.name == unwritten(part.strip()) and not isinstance(column, NumberColumn):
                message = (
                    f"({effect} | {name}): {column.name!r} is no number: write {part.strip()}"
                    f" + (1 | {name}:{part.strip()}) for an effect of each of its categories"
                )
                raise SpecError(POINTER, message)


def _nested(groups: tuple[tuple[str, str, str], ...]) -> tuple[str, str, str, int]:
    """Return what stands before and on the bar, the columns g:h, and how many are of outer groups.

    (1 | g/h) is (1 | g) + (1 | g:h), as in lme4 and brms. Raises SpecError.
    """
    if len(groups) == 1:
        effect, bar, name = groups[0]
        parts = slashed(name)
        if len(parts) == 1 or re.search(r"[*+()]", _plain(name)):
            return effect, bar, name, 0
        if len(parts) > 2:
            first, second = parts[:2]
            third = ":".join(parts[2:])
            message = (
                f"(1 | {name}): two sds of effects are estimated: write"
                f" (1 | {first}/{second}:{third}), or {first} + (1 | {first}:{second}/{third})"
            )
            raise SpecError(POINTER, message)
        return effect, bar, ":".join(parts), len(crossed(parts[0]))
    ordered = sorted(groups, key=lambda group: len(crossed(group[2])))
    (effect, bar, name), (inner_effect, _, inner_name), *others = ordered
    outer, inner = crossed(name), crossed(inner_name)
    rest = [part for part in inner if unwritten(part) not in map(unwritten, outer)]
    nested = rest and len(outer) + len(rest) == len(inner)
    if others or not nested or "/" in _plain(f"{name}{inner_name}"):
        message = (
            "groupings are one, (1 | g), or one within the other, (1 | g/h): write C(h) for another"
            " one"
        )
        raise SpecError(POINTER, message)
    if (effect, inner_effect) != ("1", "1"):
        message = f"slopes differ by groups of one kind: write ({inner_effect} {bar} {inner_name})"
        raise SpecError(POINTER, message)
    return effect, bar, ":".join([*outer, *rest]), len(outer)


def _slope_of(
    effect: str,
    bar: str,
    name: str,
    numbers: tuple[str, ...],
    groups: tuple[tuple[str, str, str], ...],
) -> str:
    """Return the coefficient that differs by group, empty where none does. Raises SpecError.

    effect, bar, name: what stands before, on and after the bar. numbers: coefficients that may.
    groups: as the formula has them.
    """
    terms = [part.strip() for part in re.split(r"\+(?![^(`]*[)`])", effect)]
    bars = " + ".join(f"({before} {on} {after})" for before, on, after in groups)
    if "0" in terms or re.search(r"-\s*1", effect):
        those = re.sub(r"\s*-\s*1", "", " + ".join(part for part in terms if part != "0"))
        message = f"slopes that differ by group go with levels that do: write ({those} || {name})"
        raise SpecError(POINTER, f"{bars}: {message}")
    slopes = [part for part in terms if part != "1"]
    if not slopes:
        return ""
    if len(slopes) > 1:
        message = (
            f"one slope may differ by group: write ({slopes[0]} {bar} {name}), and {slopes[1]}:h"
            " for slopes by few categories h"
        )
        raise SpecError(POINTER, f"{bars}: {message}")
    slope = slopes[0]
    for spelled in (slope, unwritten(slope)):
        if spelled in numbers:
            return spelled
    message = (
        f"a slope that differs by group is of a number with a slope of its own: write {slope} +"
        f" ({effect} {bar} {name}) where {slope} is a number, and {slope}:h by few categories h"
        " where it is not"
    )
    raise SpecError(POINTER, f"{bars}: {message}")


def _column_of_groups(schema: Schema, name: str, whole: str) -> BinaryColumn | CategoryColumn:
    """Return a column of categories. Raises SpecError. whole: what stands behind the bar."""
    column = next((column for column in schema.columns if column.name == name), None)
    if column is None:
        guess = near(name, [column.name for column in schema.columns])
        raise SpecError(POINTER, f"the dataset has no column {name!r}{guess}")
    if isinstance(column, NumberColumn):
        message = f"(1 | {whole}) needs a column of categories, {name!r} is a number"
        raise SpecError(POINTER, message)
    return column
