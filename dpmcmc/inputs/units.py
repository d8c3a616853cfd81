"""Rows grouped by the unit of privacy that they belong to, at most max_rows of each.

Which rows of a unit are kept, and the order of units, follow from a secret key and never from what
the rows hold. The result has max_rows slots for every unit, so that its size tells no more than the
number of units, which is public.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.inputs.schema import Column, NumberColumn, Schema, Table

DIGEST_BYTES = 16
Values = NDArray[np.float64] | NDArray[np.int32]
EMPTY = -1  # a slot that no row is in


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows in the slots of their units.

    slots: (units * max_rows,) row numbers, or EMPTY; unit u has the slots from u * max_rows on.
    digests: (units, 16) uint8, keyed digests of the units' names, in increasing order.
    dropped_rows, cut_units: how many rows were not kept, of how many units; private.
    """

    slots: NDArray[np.int64]
    digests: NDArray[np.uint8]
    dropped_rows: int
    cut_units: int


def digest_of(name: str, key: bytes) -> bytes:
    """Return the keyed digest of a unit's name: BLAKE2b, 16 bytes."""
    return hashlib.blake2b(name.encode(), key=key, digest_size=DIGEST_BYTES).digest()


def by_units(schema: Schema, columns: Mapping[str, Values], groups: Grouped) -> Table:
    """Return clamped columns (rows,) in the slots of their units.

    What no row is in has a public value: the lower bound, or the first category.
    """
    present = groups.slots != EMPTY
    placed = {
        column.name: in_slots(column, columns[column.name], groups.slots, present)
        for column in schema.columns
    }
    return Table(placed, schema.rows, present)


def in_slots(
    column: Column, values: Values, slots: NDArray[np.int64], used: NDArray[np.bool_]
) -> Values:
    """Return a column's values in these slots; a public one where no row is in use."""
    public = column.lower if isinstance(column, NumberColumn) else 0
    placed = np.full(len(slots), public, values.dtype)
    placed[used] = values[slots[used]]
    return placed


def grouped(digests: NDArray[np.uint8], max_rows: int, key: bytes) -> Grouped:
    """Return rows grouped by unit.

    digests: (rows, 16) of each row's unit, see `digest_of`. key: secret; decides which rows of a
    unit are kept.
    """
    words = np.ascontiguousarray(digests).view(f"V{DIGEST_BYTES}").ravel()
    found, unit_of = np.unique(words, return_inverse=True)
    seed = hashlib.blake2b(b"rows of a unit", key=key, digest_size=16).digest()
    shuffled = np.random.Generator(np.random.Philox(key=int.from_bytes(seed))).permutation(
        len(words)
    )
    order = shuffled[np.argsort(unit_of[shuffled], kind="stable")]
    counts = np.bincount(unit_of, minlength=len(found))
    position = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = position < max_rows
    slots = np.full(len(found) * max_rows, EMPTY, np.int64)
    slots[unit_of[order[kept]] * max_rows + position[kept]] = order[kept]
    return Grouped(
        slots,
        found.view(np.uint8).reshape(-1, DIGEST_BYTES),
        int((~kept).sum()),
        int((counts > max_rows).sum()),
    )
