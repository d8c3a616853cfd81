"""Smooth terms: what `s(x)` and `rw(g)` say in a formula beside their columns in the design."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.bases import Basis
from dpmcmc.formula.columns import Factor, Variable
from dpmcmc.formula.parse import POINTER, written


@dataclass(frozen=True, slots=True)
class Smooth:
    """A smooth term. column: of which it is a function. penalised: numbers of its columns in the
    design but that of the straight line. sizes: of these, see Basis. walk: whether it is rw(g)."""

    column: str
    penalised: tuple[int, ...]
    sizes: tuple[float, ...]
    walk: bool = False

    @property
    def term(self) -> str:
        """The term as a formula has it, without options."""
        return f"{'rw' if self.walk else 's'}({written(self.column)})"

    @property
    def sd(self) -> str:
        """Name of the parameter that is how far the curve is from its straight line, or the sd of
        the steps of a random walk."""
        return f"sd({self.term})"

    @property
    def without_penalty(self) -> str:
        """The term to write where no sd in common is available."""
        return unpenalised(self.column, walk=self.walk)


def unpenalised(column: str, *, walk: bool) -> str:
    """Return a term of a column that has no sd in common."""
    name = written(column)
    spline = f"ns({name}, df=4)"
    return f"C({name}), or {spline} where it is a number" if walk else spline


def is_smooth(variable: Variable) -> bool:
    """Whether a variable of a formula is s(x) or rw(g)."""
    return isinstance(variable.source, Basis) and bool(variable.source.sizes)


def check_smooths(terms: Sequence[Sequence[Variable]]) -> None:
    """Refuse smooth terms within other terms, and two of one column. Raises SpecError."""
    earlier: set[str] = set()
    for term in terms:
        for variable in term:
            if not is_smooth(variable):
                continue
            if len(term) > 1:
                walk = cast(Basis, variable.source).kind == "rw"
                instead = unpenalised(variable.columns[0], walk=walk)
                message = f"a smooth is a term of its own: in products write {instead}"
                raise SpecError(POINTER, f"{variable.label}: {message}")
            if variable.columns[0] in earlier:
                raise SpecError(POINTER, f"{variable.label}: this column has a smooth already")
            earlier.add(variable.columns[0])


def smooths_of(terms: Sequence[tuple[Factor, ...]]) -> tuple[Smooth, ...]:
    """Return the smooth terms of a design. terms: the factors of each of its columns."""
    columns: dict[Basis, list[int]] = {}
    for k, term in enumerate(terms):
        for factor in term:
            basis = factor.source
            if isinstance(basis, Basis) and basis.sizes and (factor.part or basis.kind == "rw"):
                columns.setdefault(basis, []).append(k)
    return tuple(
        Smooth(basis.columns[0], tuple(numbers), basis.sizes, basis.kind == "rw")
        for basis, numbers in columns.items()
    )
