"""Smooth terms: what `s(x)` says in a formula beside the columns that it has in the design."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.bases import Basis
from dpmcmc.formula.columns import Factor, Variable
from dpmcmc.formula.parse import POINTER, written


@dataclass(frozen=True, slots=True)
class Smooth:
    """A smooth term. column: of which it is a function. penalised: numbers of its columns in the
    design but that of the straight line. sizes: of these, see Basis."""

    column: str
    penalised: tuple[int, ...]
    sizes: tuple[float, ...]

    @property
    def sd(self) -> str:
        """Name of the parameter that is how far the curve is from its straight line."""
        return f"sd(s({written(self.column)}))"


def is_smooth(variable: Variable) -> bool:
    """Whether a variable of a formula is s(x)."""
    return isinstance(variable.source, Basis) and variable.source.kind == "s"


def check_smooths(terms: Sequence[Sequence[Variable]]) -> None:
    """Refuse smooth terms within other terms, and two of one column. Raises SpecError."""
    earlier: set[str] = set()
    for term in terms:
        for variable in term:
            if not is_smooth(variable):
                continue
            if len(term) > 1:
                column = written(variable.columns[0])
                message = f"a smooth is a term of its own: write ns({column}, df=4) in products"
                raise SpecError(POINTER, f"{variable.label}: {message}")
            if variable.columns[0] in earlier:
                raise SpecError(POINTER, f"{variable.label}: this column has a smooth already")
            earlier.add(variable.columns[0])


def smooths_of(terms: Sequence[tuple[Factor, ...]]) -> tuple[Smooth, ...]:
    """Return the smooth terms of a design. terms: the factors of each of its columns."""
    columns: dict[Basis, list[int]] = {}
    for k, term in enumerate(terms):
        for factor in term:
            if isinstance(factor.source, Basis) and factor.source.sizes and factor.part:
                columns.setdefault(factor.source, []).append(k)
    return tuple(
        Smooth(basis.columns[0], tuple(numbers), basis.sizes) for basis, numbers in columns.items()
    )
