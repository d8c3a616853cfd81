"""Rows grouped by the unit of privacy that they belong to, at most max_rows of each.

Which rows of a unit are kept, and the order of units, follow from a secret key and never from what
the rows hold. The result has max_rows slots for every unit, so that its size tells no more than the
number of units, which is public.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
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


def _seeds(halves: NDArray[np.uint64], key: bytes) -> NDArray[np.uint64]:
    """Return 64 bits for each unit, from its digest (units, 2) and the key alone."""
    seed = hashlib.blake2b(b"rows of a unit", key=key, digest_size=8).digest()
    return _mixed(halves[:, 0] ^ np.uint64(int.from_bytes(seed)), halves[:, 1])


def _mixed(state: NDArray[np.uint64], step: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits of a state and a step. Source: Steele, Lea and Flood 2014, SplitMix."""
    z = state + (step + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def by_units(schema: Schema, columns: Mapping[str, Values], groups: Grouped) -> Table:
    """Return clamped columns (rows,) in the slots of their units.

    What no row is in has a public value.
    """
    present = groups.slots != EMPTY
    read = [column for column in schema.columns if column.name in columns]
    values = [columns[column.name] for column in read]
    names = [column.name for column in read]
    placed = dict(zip(names, in_slots(read, values, groups.slots), strict=True))
    return Table(placed, schema.rows, present)


def in_slots(
    columns: Sequence[Column], values: Sequence[Values], slots: NDArray[np.int64]
) -> list[Values]:
    """Return columns' values in these slots; public ones where no row is in use."""
    empty = np.flatnonzero(slots == EMPTY)
    rows = np.maximum(slots, 0)
    placed = [of_column[rows] for of_column in values]
    for column, part in zip(columns, placed, strict=True):
        part[empty] = _scattered(column, empty)
    return placed


def _scattered(column: Column, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return public values for these places, spread over the column's range, pseudo-random.

    Slots that all held one value would be looked up faster than rows are, and how long a table of
    counts takes would say how many slots are empty.
    """
    bits = _mixed(np.zeros(len(places), np.uint64), places.astype(np.uint64))
    share = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    if not isinstance(column, NumberColumn):
        return np.asarray(np.floor(share * len(column.categories)))
    numbers = np.clip(
        (1.0 - share) * column.lower + share * column.upper, column.lower, column.upper
    )
    return np.asarray(np.round(numbers) if column.integer else numbers)


@dataclass(frozen=True, slots=True)
class Owners:
    """The privacy unit of each row. unit_of: (rows,) number of its unit. digests: of units."""

    digests: NDArray[np.uint8]
    unit_of: NDArray[np.int64]

    def grouped(self, max_rows: int, key: bytes) -> Grouped:
        """Return the rows in the slots of their units.

        key: secret; decides which rows of a unit are kept, with the unit's digest and nothing of
        other units.
        """
        counts = np.bincount(self.unit_of, minlength=len(self.digests))
        order = np.argsort(self.unit_of, kind="stable")  # by unit, as they come in the file
        owner = np.repeat(np.arange(len(counts)), counts)
        position = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        halves = self.digests.view(np.uint64).reshape(-1, 2)
        drawn = _mixed(np.repeat(_seeds(halves, key), counts), position.astype(np.uint64))
        # one sort by unit, and in it by what was drawn: its first bits are enough
        bits = np.uint64(max(len(counts) - 1, 1).bit_length())
        drawn = owner.astype(np.uint64) << (np.uint64(64) - bits) | drawn >> bits
        order = order[np.argsort(drawn, kind="stable")]
        del drawn
        kept = position < max_rows
        slots = np.full(len(counts) * max_rows, EMPTY, np.int64)
        slots[owner[kept] * max_rows + position[kept]] = order[kept]
        cut_units = int((counts > max_rows).sum())
        return Grouped(slots, self.digests, int((~kept).sum()), cut_units)


def in_random_order(unit_of: NDArray[np.int64], units: int) -> Owners:
    """Return the privacy unit of each row, from the number (rows,) of its unit, 0 to units - 1.

    Digests are random in place of keyed ones, so that rows of other data do not meet these.
    """
    drawn = np.frombuffer(os.urandom(units * DIGEST_BYTES), np.uint8).reshape(-1, DIGEST_BYTES)
    order = np.argsort(drawn.view(np.uint64)[:, 0])
    place = np.empty(units, np.int64)
    place[order] = np.arange(units)
    return Owners(drawn[order], place[unit_of])


def owners(digests: NDArray[np.uint8]) -> Owners:
    """Return the privacy unit of each row, from digests (rows, 16) of their units."""
    words = np.ascontiguousarray(digests).view(f"V{DIGEST_BYTES}").ravel()
    distinct, unit_of = np.unique(words, return_inverse=True)
    return Owners(distinct.view(np.uint8).reshape(-1, DIGEST_BYTES), unit_of)
