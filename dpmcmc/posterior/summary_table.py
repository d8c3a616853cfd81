"""Summaries of parameters as a table: by name, as text and as HTML."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol, overload

from dpmcmc.base.errors import near
from dpmcmc.posterior.diagnostics import ParameterSummary

SHOWN = 20  # parameters in a representation
MOST_PLACES, MOST_DIGITS = 6, 9  # of a number without an exponent, behind its point and before it
HEADING = ("mean", "sd", "5 %", "95 %")


class Moments(Protocol):
    """The numbers of a line of the table."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def sd(self) -> float:
        """The standard deviation."""

    @property
    def q05(self) -> float:
        """The quantile .05."""

    @property
    def q95(self) -> float:
        """The quantile .95."""


@dataclass(frozen=True, slots=True)
class Summaries(Sequence[ParameterSummary]):
    """Summaries in the order of a model's parameters, indexed by position or name.

    `summary["dose"].mean` and `summary[1].mean` are the same number; printed, it is a table.
    """

    rows: tuple[ParameterSummary, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, key: int | str) -> ParameterSummary: ...
    @overload
    def __getitem__(self, key: slice) -> "Summaries": ...
    def __getitem__(self, key: int | str | slice) -> "ParameterSummary | Summaries":
        """Return one by position or name, or a slice. Raises IndexError or KeyError."""
        if isinstance(key, slice):
            return Summaries(self.rows[key])
        if isinstance(key, int):
            return self.rows[key]
        names = [row.name for row in self.rows]
        if key not in names:
            raise KeyError(f"{key!r} is none of {', '.join(names)}{near(str(key), names)}")
        return self.rows[names.index(key)]

    def __repr__(self) -> str:
        """Return the table, with R-hat and effective sizes where they were computed."""
        return "\n".join(as_lines([(row.name, row) for row in self.rows], self._mixing()))

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        return as_html([(row.name, row) for row in self.rows], self._mixing())

    def _mixing(self) -> dict[str, list[str]]:
        """Return columns of R-hat and effective sizes, where they were computed."""
        if all(row.ess_bulk is None for row in self.rows):
            return {}
        hats = [_short(row.r_hat, ".3f") for row in self.rows]
        return {"R-hat": hats, "ESS": [_short(row.ess_bulk, ".0f") for row in self.rows]}


def as_lines(
    rows: Sequence[tuple[str, Moments]], more: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Return a heading and aligned lines, names to the left. more: further columns by heading."""
    names, *others = _columns(rows, more or {})
    padded = [[cell.ljust(max(map(len, names))) for cell in names]]
    padded += [[cell.rjust(max(map(len, column))) for cell in column] for column in others]
    return ["  " + "  ".join(line) for line in zip(*padded, strict=True)]


def as_html(
    rows: Sequence[tuple[str, Moments]], more: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the rows as an HTML table, for notebooks. more: as in `as_lines`."""
    heading, *lines = zip(*_columns(rows, more or {}), strict=True)
    head = "".join(f"<th>{escape(title)}</th>" for title in heading)
    body = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(n)}</td>' for n in numbers)}</tr>"
        for name, *numbers in lines
    )
    return f'<table style="color:inherit;text-align:right"><tr>{head}</tr>{body}</table>'


def _columns(
    rows: Sequence[tuple[str, Moments]], more: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Return the columns, names first, each with its heading above it."""
    numbers = [_numbers(row) for _, row in rows]
    columns = [["", *(name for name, _ in rows)]]
    columns += [[title, *(line[k] for line in numbers)] for k, title in enumerate(HEADING)]
    return columns + [[title, *cells] for title, cells in more.items()]


def _numbers(row: Moments) -> list[str]:
    """Return the numbers of a line, all rounded to the second digit of the sd."""
    return [rounded(value, row.sd) for value in (row.mean, row.sd, row.q05, row.q95)]


def rounded(value: float, sd: float) -> str:
    """Return a number to the second digit of its sd."""
    if not 0.0 < sd < math.inf or not math.isfinite(value):
        return f"{value:.4g}"
    decimals = 1 - math.floor(math.log10(sd))
    size = math.log10(max(abs(value), sd))
    if decimals > MOST_PLACES or size > MOST_DIGITS:
        return f"{value:.{max(2, min(math.ceil(size) + decimals, 17))}g}"
    return f"{value:.{max(decimals, 0)}f}"


def _short(value: float | None, spec: str) -> str:
    """Return a number in this format; empty for None."""
    return "-" if value is None else format(value, spec)
