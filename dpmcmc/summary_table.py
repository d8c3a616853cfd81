"""Summaries of parameters as a table: by name, as text and as HTML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol, overload

from dpmcmc.diagnostics import ParameterSummary

SHOWN = 20  # parameters in a representation
HEADING = ("mean", "sd", "5 %", "95 %")


class Moments(Protocol):
    """What a line of the table is made of."""

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
    """Summaries in the order of a model's parameters, which are found by name as well.

    `summary["dose"].mean` and `summary[1].mean` are the same number; printed it is a table.
    """

    rows: tuple[ParameterSummary, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int | str) -> ParameterSummary: ...
    @overload
    def __getitem__(self, at: slice) -> "Summaries": ...
    def __getitem__(self, at: int | str | slice) -> "ParameterSummary | Summaries":
        """Return one by place or name, or several. Raises IndexError, KeyError with the names."""
        if isinstance(at, slice):
            return Summaries(self.rows[at])
        if isinstance(at, int):
            return self.rows[at]
        names = [row.name for row in self.rows]
        if at not in names:
            raise KeyError(f"{at!r} is none of {', '.join(names)}")
        return self.rows[names.index(at)]

    def __repr__(self) -> str:
        """Return the table, with R-hat and effective sizes where they were computed."""
        more: dict[str, list[str]] = {}
        if any(row.ess_bulk is not None for row in self.rows):
            more["R-hat"] = [_short(row.r_hat, ".3f") for row in self.rows]
            more["ESS"] = [_short(row.ess_bulk, ".0f") for row in self.rows]
        return "\n".join(as_lines([(row.name, row) for row in self.rows], more))

    def _repr_html_(self) -> str:
        return as_html((row.name, row) for row in self.rows)


def as_lines(
    rows: Sequence[tuple[str, Moments]], more: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Return a heading and aligned lines, names to the left. more: further columns by heading."""
    columns = [["", *(name for name, _ in rows)]]
    numbers = [_numbers(row) for _, row in rows]
    columns += [[word, *(line[k] for line in numbers)] for k, word in enumerate(HEADING)]
    columns += [[word, *cells] for word, cells in (more or {}).items()]
    names, *others = columns
    padded = [[cell.ljust(max(map(len, names))) for cell in names]]
    padded += [[cell.rjust(max(map(len, one))) for cell in one] for one in others]
    return ["  " + "  ".join(line) for line in zip(*padded, strict=True)]


def as_html(rows: Iterable[tuple[str, Moments]]) -> str:
    """Return all of them as a table, for notebooks."""
    heading = "".join(f"<th>{one}</th>" for one in ("parameter", *HEADING))
    lines = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{n}</td>' for n in _numbers(row))}</tr>"
        for name, row in rows
    )
    return f"<table><tr>{heading}</tr>{lines}</table>"


def _numbers(row: Moments) -> list[str]:
    return [f"{row.mean:.4g}", f"{row.sd:.2g}", f"{row.q05:.4g}", f"{row.q95:.4g}"]


def _short(value: float | None, how: str) -> str:
    return "-" if value is None else format(value, how)
