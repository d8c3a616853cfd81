"""The coding of terms: which categories are left out, and which numbers are centred.

Categories are coded as in R and patsy: a term gets the columns that the terms before it, of lower
degree, do not span yet. A number is centred in a term where the other terms of the formula contain
the shift, so that the columns span the same space as those of the formula itself.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Piece = tuple[tuple[int, bool], ...]  # variables of a term, and whether all categories have columns
Atom = frozenset[int]


def pieces(terms: Sequence[Sequence[int]], categorical: frozenset[int]) -> list[list[Piece]]:
    """Return the pieces of columns that each term adds to those before it.

    terms: numbers of their variables. Source: patsy's redundancy.py.
    """
    added: list[list[Piece]] = [[] for _ in terms]
    spanned: dict[Atom, set[Atom]] = {}
    for number in sorted(range(len(terms)), key=lambda k: len(terms[k])):
        term = terms[number]
        spanned_atoms = spanned.setdefault(
            frozenset(v for v in term if v not in categorical), set()
        )
        atoms = [
            a for a in _subsets([v for v in term if v in categorical]) if a not in spanned_atoms
        ]
        spanned_atoms.update(atoms)
        for full in _merged([{v: False for v in term if v in atom} for atom in atoms]):
            members = (v for v in term if v not in categorical or v in full)
            added[number].append(tuple((v, full.get(v, False)) for v in members))
    return added


def _subsets(members: Sequence[int]) -> Iterable[Atom]:
    for size in range(len(members) + 1):
        yield from (frozenset(subset) for subset in combinations(members, size))


def _merged(parts: list[dict[int, bool]]) -> list[dict[int, bool]]:
    """Merge contrasts that differ by one variable in reduced coding into one in full coding."""
    while True:
        pair = next(((a, b) for a, b in combinations(parts, 2) if _extra(a, b) is not None), None)
        if pair is None:
            return parts
        short, long = pair
        extra = _extra(short, long)
        position = next(k for k, part in enumerate(parts) if part is short)
        parts = [part for part in parts if part is not long]
        parts[position] = {v: (v == extra) or long[v] for v in long}


def _extra(short: dict[int, bool], long: dict[int, bool]) -> int | None:
    """Return the only variable that `long` has beyond `short`; None where they cannot be joined."""
    more = [v for v in long if v not in short]
    fits = len(more) == 1 and not long[more[0]] and all(long.get(v) == f for v, f in short.items())
    return more[0] if fits else None


Column = tuple[frozenset[tuple[int, int]], dict[int, int]]  # (number, part) pairs, category codes


class Span:
    """The linear span of a formula's columns as they are written, before numbers are centred."""

    def __init__(self, columns: Sequence[Column], levels: dict[int, int]) -> None:
        """levels: number of categories by variable."""
        self._columns, self._levels = columns, levels
        self._by_numbers: dict[frozenset[tuple[int, int]], list[int]] = {}
        for k, (numbers, _) in enumerate(columns):
            self._by_numbers.setdefault(numbers, []).append(k)

    def weights(
        self, numbers: frozenset[tuple[int, int]], codes: dict[int, int]
    ) -> dict[int, float] | None:
        """Return weights of columns whose sum is the product of `numbers` in these categories.

        None where no weights of the formula's columns give it.
        """
        candidates = [
            k
            for k in self._by_numbers.get(numbers, [])
            if self._columns[k][1].keys() <= codes.keys()
        ]
        for k in candidates:
            if self._columns[k][1] == codes:
                return {k: 1.0}
        if not candidates or not codes:
            return None
        cells = np.indices([self._levels[v] for v in codes]).reshape(len(codes), -1)
        cell_codes = dict(zip(codes, cells, strict=True))
        matrix = np.stack([_indicator(self._columns[k][1], cell_codes) for k in candidates], axis=1)
        target = _indicator(codes, cell_codes)
        coefficients: Floats = np.round(np.linalg.lstsq(matrix, target, rcond=None)[0])
        if not np.array_equal(matrix @ coefficients, target):
            return None
        return {k: float(w) for k, w in zip(candidates, coefficients, strict=True) if w}


def _indicator(codes: dict[int, int], cell_codes: dict[int, NDArray[np.int64]]) -> Floats:
    """Return (cells,): 1 in the cells with these categories, 0 elsewhere."""
    indicator = np.ones(len(next(iter(cell_codes.values()))))
    for v, code in codes.items():
        indicator *= cell_codes[v] == code
    return indicator
