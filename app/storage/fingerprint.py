"""Keyed fingerprints of uploads: that the same rows come back is noticed, in any order.

Every value is turned into 64 bits by AES under a key of this installation; a row is the sum of its
values' bits, turned once more: neither the order nor the names of columns matter, nor how a number
was written, nor the declared bounds, since values are taken before they are clamped. Kept are

- the sum over all rows, which tells the very same table in any order,
- the KEPT rows of the smallest bits with how often each is there, a sample that two tables share:
  it tells a copy of which rows were changed, added or dropped,
- the sum over every column: a copy that lost, gained or rescaled columns has the others unchanged.

Not noticed: a copy in which every row was changed and every column too (all of it rounded or
rescaled), a few columns with a few of the rows, fewer than about one row in a hundred of a large
table, and near copies of tables most of whose rows are there more than once, in which two samples
of one population look the same. A fingerprint is kept sealed: without the master key it is noise of
a length that follows from the number of columns. With it, somebody could ask whether a row that he
guesses is in the sample.
"""

import hmac
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from app.storage.keys import NONCE_BYTES, KeyFileError
from dpmcmc.inputs.schema import Column, NumberColumn

KEPT = 1024
TELLING = 16  # different values of a column that two tables do not have in common by chance
LEAST = 8  # rows of a sample that say something
MARGIN = 0.15
HEAD = struct.Struct("<4sQQQI")
MAGIC = b"FP01"
NOTHING = np.uint64(2**64 - 1)
VALUE, ROW = 0, 1

Bits = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Likeness:
    """How two uploads are alike. kind: same_rows, rows or columns. share: of the smaller one."""

    kind: Literal["same_rows", "rows", "columns"]
    share: float


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of one upload. sample, counts: the KEPT smallest rows; columns: a sum each, 0 for one that
    tells nothing."""

    rows: int
    total: tuple[int, int]
    sample: Bits
    counts: Bits
    columns: Bits

    def to_bytes(self) -> bytes:
        """As stored; its length follows from the number of columns."""
        head = HEAD.pack(MAGIC, self.rows, *self.total, len(self.columns))
        sample, counts = np.full(KEPT, NOTHING), np.zeros(KEPT, np.uint64)
        sample[: len(self.sample)], counts[: len(self.counts)] = self.sample, self.counts
        return head + b"".join(a.astype("<u8").tobytes() for a in (sample, counts, self.columns))

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Fingerprint":
        """What `to_bytes` wrote."""
        _, rows, high, low, _ = HEAD.unpack_from(stored)
        numbers = np.frombuffer(stored, "<u8", offset=HEAD.size).astype(np.uint64)
        sample, counts, columns = np.split(numbers, [KEPT, 2 * KEPT])
        there = counts > 0
        return cls(rows, (high, low), sample[there], counts[there], columns)


def likeness(one: Fingerprint, other: Fingerprint) -> Likeness | None:
    """How alike two uploads are; None where they are not, or nobody can tell."""
    if one.rows == other.rows and one.total == other.total:
        return Likeness("same_rows", 1.0)
    share = _rows_in_common(one, other)
    if share:
        return Likeness("rows", share)
    share = _columns_in_common(one, other) if one.rows == other.rows else 0.0
    return Likeness("columns", share) if share else None


def _rows_in_common(one: Fingerprint, other: Fingerprint) -> float:
    """The share of the smaller table's rows that the larger one has; 0 where chance explains it.

    Two samples of one population have about as many rows in common as a table has rows that are
    there more than once.
    """
    full = [f.sample[-1] for f in (one, other) if len(f.sample) == KEPT]
    bound = min(full, default=NOTHING)
    (mine, ours), (theirs, others) = (
        (f.sample[f.sample <= bound], f.counts[f.sample <= bound]) for f in (one, other)
    )
    _, at, there = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    common = int(np.minimum(ours[at], others[there]).sum())
    smaller = min(int(ours.sum()), int(others.sum()))
    larger = max((one, other), key=lambda f: f.rows)
    chance = larger.counts[larger.counts > 1].sum() / max(1, larger.counts.sum())
    enough = smaller >= min(LEAST, one.rows, other.rows) and smaller > 0
    share = common / smaller if enough else 0.0
    return share if share > chance + MARGIN else 0.0


def _columns_in_common(one: Fingerprint, other: Fingerprint) -> float:
    mine, theirs = (set(f.columns[f.columns > 0].tolist()) for f in (one, other))
    smaller = min(len(mine), len(theirs))
    share = len(mine & theirs) / smaller if smaller else 0.0
    return share if share >= 0.5 else 0.0


class Sketch:
    """Takes an upload's batches and makes its fingerprint."""

    def __init__(self, key: bytes, columns: Sequence[Column]) -> None:
        # one block at a time and no mode: a keyed function of 16 bytes, nothing is encrypted
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305
        self._texts = key
        self._codes = [None if isinstance(c, NumberColumn) else self._table(c) for c in columns]
        self._seen = [np.empty(0, np.uint64) for _ in columns]
        self._sums = np.zeros(len(columns), np.uint64)
        self._total = np.zeros(2, np.uint64)
        self._sample, self._counts = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._rows = 0

    def _table(self, column: Any) -> Bits:
        """The bits of every declared category; of one that is a number, the number's."""
        return np.array([self._text(value) for value in column.categories], np.uint64)

    def _text(self, value: str) -> int:
        try:
            return int(self._numbers(np.array([float(value)]))[0])
        except ValueError:
            return int.from_bytes(hmac.digest(self._texts, value.encode(), "sha256")[:8])

    def _turn(self, bits: Bits, what: int) -> Bits:
        """(n, 2) bits for n numbers and what they are."""
        blocks = np.empty((len(bits), 2), "<u8")
        blocks[:, 0], blocks[:, 1] = bits, what
        made = self._cipher.encryptor().update(blocks.tobytes())
        return np.frombuffer(made, "<u8").reshape(-1, 2).astype(np.uint64, copy=False)

    def _numbers(self, values: NDArray[np.float64]) -> Bits:
        return self._turn((values + 0.0).view(np.uint64), VALUE)[:, 0]  # minus zero is zero

    def add(self, batch: Sequence[NDArray[Any]]) -> None:
        """Take a batch: numbers before they are clamped, codes of categories."""
        row = np.zeros(len(batch[0]), np.uint64)
        for at, (values, codes) in enumerate(zip(batch, self._codes, strict=True)):
            bits = self._numbers(values) if codes is None else codes[values]
            row += bits
            self._sums[at : at + 1] += bits.sum(dtype=np.uint64)  # an array's sums wrap around
            if len(self._seen[at]) < TELLING:
                self._seen[at] = np.unique(np.concatenate([self._seen[at], bits]))[:TELLING]
        turned = self._turn(row, ROW)
        self._total += turned.sum(axis=0, dtype=np.uint64)
        self._keep(turned[:, 0])
        self._rows += len(row)

    def _keep(self, rows: Bits) -> None:
        if len(self._sample) == KEPT:
            rows = rows[rows <= self._sample[-1]]
        new, counts = np.unique(rows, return_counts=True)
        every, back = np.unique(np.concatenate([self._sample, new]), return_inverse=True)
        total = np.zeros(len(every), np.uint64)
        np.add.at(total, back, np.concatenate([self._counts, counts.astype(np.uint64)]))
        self._sample, self._counts = every[:KEPT], total[:KEPT]

    def fingerprint(self) -> Fingerprint:
        """Of everything that was added."""
        telling = np.array([len(seen) == TELLING for seen in self._seen])
        return Fingerprint(
            self._rows,
            (int(self._total[0]), int(self._total[1])),
            self._sample,
            self._counts,
            np.where(telling, self._sums, np.uint64(0)),
        )


class Fingerprints:
    """Makes sketches under the installation's key, and seals fingerprints for the database."""

    __slots__ = ("__seal", "__sketch")

    def __init__(self, sketch: bytes, seal: bytes) -> None:
        self.__sketch, self.__seal = sketch, AESGCM(seal)

    def start(self, columns: Sequence[Column]) -> Sketch:
        """A sketch of an upload that begins."""
        return Sketch(self.__sketch, columns)

    def seal(self, dataset_id: UUID, made: Fingerprint) -> bytes:
        """Encrypted and bound to the dataset."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self.__seal.encrypt(nonce, made.to_bytes(), dataset_id.bytes)

    def open(self, dataset_id: UUID, sealed: bytes) -> Fingerprint:
        """What `seal` hid. Raises KeyFileError where another master key sealed it."""
        nonce, hidden = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return Fingerprint.from_bytes(self.__seal.decrypt(nonce, hidden, dataset_id.bytes))
        except InvalidTag:
            raise KeyFileError("a fingerprint was not sealed by this master key") from None

    def __repr__(self) -> str:
        return "<Fingerprints>"
