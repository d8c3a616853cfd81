"""Keyed fingerprints of uploads, which detect equal rows in any order.

Every value is turned into 64 bits by AES under a key of this installation; a row is the sum of its
values' bits, turned once more: neither the order nor the names of columns matter, nor how a number
was written, nor the declared bounds, since values are taken before they are clamped. Kept are

- the sum over all rows, which tells the very same table in any order, also with every row there k
  times,
- the KEPT rows of the smallest bits with how often each is there, a sample that two tables share:
  it tells a copy of which rows were changed, added or dropped,
- the sum over every column: a copy that lost, gained or rescaled columns has the others unchanged,

all of it twice: of the values as they are, and of numbers rounded to COARSE_BITS significant bits,
which tells a copy in single precision, rounded to four digits or more, or moved by a little noise.

Of a dataset of persons every person's keyed digest is kept too, the same in all datasets of one
installation: persons who are in two datasets are recognised one by one, whatever the rows say,
where both write their names alike.

Not noticed: a copy in which every row was changed by much and every column too (all of it rounded
or rescaled), a few columns with a few of the rows, fewer than about one row in a hundred of a large
table, and near copies of tables most of whose rows are there more than once, in which two samples
of one population look the same. A fingerprint is kept sealed: without the master key it is noise of
a length that follows from the number of columns and, of persons, theirs, which is public. With it,
somebody could ask whether a row that he guesses is in the sample, or whether a person is there.

**When a likeness is sure** (`Likeness.sure`; two uploads then share a ledger, otherwise an admin is
warned): when tables of independent rows would be so alike with a probability below 2^-SURE_BITS.

- The same rows, n of them, c_1, ..., c_K of each kind: whatever distribution n independent rows
  have, these counts come out with a probability of at most n! / (c_1! ... c_K!) times the product
  of (c_i / n)^c_i, its largest value over all distributions. Two binary columns of 1000 rows: about
  2^-15, so nobody can tell; 40 different rows: 2^-54. Counts are those of the sample, divided by
  their common divisor.
- The same column: the same bound for the values of the column.
- A share s of m rows in common: a fresh row is one of the other table's with a probability of about
  the share q of that table's rows that are there more than once (Good 1953, Biometrika 40), or, for
  a table that was designed without repetition, of the share of all combinations of the columns'
  values that it has. With the error of that estimate added, m independent rows have so many in
  common with a probability of at most exp(-m KL(s || q)) (Chernoff). At least half of the smaller
  table must be there.

Rows may not be independent: numbers of persons, times and designs are alike in unlike tables. A
column in which every value is there equally often, and none has more than three decimals, therefore
proves nothing, nor does a table of such columns alone.

- A person in both: always, since digests of different names, of 64 bits, are the same with a
  probability below 2^-23 for two datasets of a million persons each. Where names are serial numbers
  that other people have elsewhere an admin says so.
"""

import hmac
import math
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from app.storage.keys import NONCE_BYTES, KeyFileError
from dpmcmc.inputs.schema import Column, NumberColumn

KEPT = 1024  # rows of a sample
KEPT_VALUES = 256  # of a column
TELLING = 16  # different values of a column that two tables do not have in common by chance
LEAST = 8  # rows of a sample that say something
MARGIN = 0.15
SURE_BITS = 40
COARSE_BITS = 8
FOLDED = 0.9  # of the different rows: there a multiple of k times in a table that is k copies
FINE = 2.0**40  # different values that a column with many decimals might have had
HEAD = struct.Struct("<4sQQQI")
MAGIC, BEFORE = b"FP02", b"FP01"
PERSONS = struct.Struct("<4sQ")
PERSONS_MAGIC = b"FU01"
NOTHING = np.uint64(2**64 - 1)
VALUE, ROW = 0, 1

Bits = NDArray[np.uint64]
Counts = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Likeness:
    """The similarity of two uploads. share: of the smaller one's rows, columns or persons.

    sure: no accident, as the module says. persons: how many are in both, for an admin alone.
    """

    kind: Literal["same_rows", "rows", "columns", "persons"]
    share: float
    sure: bool
    persons: int = 0

    @property
    def strength(self) -> tuple[bool, bool, bool, float]:
        """Return the sort key of similarities: larger means more similar."""
        return self.sure, self.kind == "same_rows", self.kind == "rows", self.share


@dataclass(frozen=True, slots=True)
class Print:
    """The fingerprint of one upload's values, exact or rounded.

    sample, counts: the KEPT smallest rows. columns: a sum each, 0 for one that tells nothing.
    distinct: about how many values each column has, or might have; 0: not known. evidence: how
    surprising a column's counts are, in bits; 0: not known, or a design.
    """

    rows: int
    total: tuple[int, int]
    sample: Bits
    counts: Counts
    columns: Bits
    distinct: Bits
    evidence: Bits

    def to_bytes(self) -> bytes:
        """Return the stored form, whose length depends on the number of columns."""
        head = HEAD.pack(MAGIC, self.rows, *self.total, len(self.columns))
        sample, counts = np.full(KEPT, NOTHING), np.zeros(KEPT, np.uint64)
        sample[: len(self.sample)], counts[: len(self.counts)] = self.sample, self.counts
        arrays = (sample, counts, self.columns, self.distinct, self.evidence)
        return head + b"".join(array.astype("<u8").tobytes() for array in arrays)

    @property
    def full(self) -> bool:
        """Return whether the sample is full, so that it omits rows."""
        return len(self.sample) == KEPT


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The fingerprint of one upload. coarse: of rounded values; None in old versions.

    persons: their digests in increasing order; none where rows are protected.
    """

    exact: Print
    coarse: Print | None
    persons: Bits = field(default_factory=lambda: np.empty(0, np.uint64), repr=False)

    def to_bytes(self) -> bytes:
        """Return the stored form, whose length depends on numbers of columns and persons."""
        content = self.exact.to_bytes() + (b"" if self.coarse is None else self.coarse.to_bytes())
        if len(self.persons) == 0:
            return content
        head = PERSONS.pack(PERSONS_MAGIC, len(self.persons))
        return content + head + self.persons.astype("<u8", copy=False).tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Fingerprint":
        """Return the fingerprint that this or the preceding version stored."""
        if stored[: len(BEFORE)] == BEFORE:
            return cls(_print_of(stored, 1), None)
        length = _length(HEAD.unpack_from(stored)[-1])
        parts, persons, at = [], np.empty(0, np.uint64), 0
        while stored[at : at + len(MAGIC)] == MAGIC:
            # one where a fingerprint of the version before was sealed anew, otherwise two
            parts.append(_print_of(stored[at : at + length], 3))
            at += length
        if at < len(stored):
            persons = np.frombuffer(stored, "<u8", offset=at + PERSONS.size)
        return cls(parts[0], parts[1] if len(parts) > 1 else None, persons)


def _length(columns: int) -> int:
    """Return the length of a stored Print in bytes."""
    return HEAD.size + 8 * (2 * KEPT + 3 * columns)


def _print_of(stored: bytes, parts: int) -> Print:
    """Return a stored Print. parts: numbers stored for each column."""
    _, rows, high, low, columns = HEAD.unpack_from(stored)
    numbers = np.frombuffer(stored, "<u8", offset=HEAD.size).astype(np.uint64)
    sample, counts, by_column = np.split(numbers, [KEPT, 2 * KEPT])
    present = counts > 0
    sums, distinct, evidence = np.vstack(
        [by_column.reshape(parts, columns), np.zeros((3 - parts, columns), np.uint64)]
    )
    return Print(rows, (high, low), sample[present], counts[present], sums, distinct, evidence)


def likeness(first: Fingerprint, second: Fingerprint) -> Likeness | None:
    """Return the similarity of two uploads; None where they are not or cannot be compared."""
    likenesses = [_alike(first.exact, second.exact)]
    if first.coarse is not None and second.coarse is not None:
        likenesses.append(_alike(first.coarse, second.coarse))
    best = max((like for like in likenesses if like), key=lambda like: like.strength, default=None)
    common = len(np.intersect1d(first.persons, second.persons, assume_unique=True))
    if common == 0:
        return best
    if best is not None and best.sure:
        return replace(best, persons=common)
    share = common / min(len(first.persons), len(second.persons))
    return Likeness("persons", share, True, common)


def _alike(first: Print, second: Print) -> Likeness | None:
    """Return the similarity of two prints, or None."""
    if _proportional(first, second):
        sure = _may_prove(first, second) and _surprise(first.counts) >= SURE_BITS
        if sure or first.rows == second.rows:
            return Likeness("same_rows", 1.0, sure)
    return _rows_in_common(first, second) or _columns_in_common(first, second)


def _proportional(first: Print, second: Print) -> bool:
    """Return whether one table repeats all rows of the other equally often."""
    mine = np.array(first.total, np.uint64) * np.uint64(second.rows)
    theirs = np.array(second.total, np.uint64) * np.uint64(first.rows)
    return bool((mine == theirs).all())


def _may_prove(first: Print, second: Print) -> bool:
    """Return whether the tables have more distinct rows than a designed experiment."""
    return bool((first.evidence > 0).any() or (second.evidence > 0).any())


def _surprise(counts: Counts) -> float:
    """Return -log2 of the largest probability of these counts under independence."""
    divisor = math.gcd(*map(int, counts))
    least = [int(count) // divisor for count in counts]
    total = sum(least)
    if total <= 1:
        return 0.0
    each = sum(c * math.log(c / total) - math.lgamma(c + 1) for c in least)
    return -(math.lgamma(total + 1) + each) / math.log(2)


def _once(counts: Counts) -> Counts:
    """Return the counts divided by their common divisor, allowing for a few rows."""
    if len(counts) == 0:
        return counts
    candidates = [math.gcd(*map(int, counts)), *np.unique(counts)[:KEPT_VALUES].tolist()]
    fold = max(k for k in candidates if k == 1 or (counts % np.uint64(k) == 0).mean() >= FOLDED)
    once: Counts = np.maximum(counts // np.uint64(fold), np.uint64(1))
    return once


def _rows_in_common(first: Print, second: Print) -> Likeness | None:
    """Return the similarity by common rows; None where chance explains it.

    Two samples of one population have about as many rows in common as a table has rows that are
    there more than once.
    """
    once = [_once(f.counts) for f in (first, second)]
    bound = min((f.sample[-1] for f in (first, second) if f.full), default=NOTHING)
    (mine, ours), (theirs, others) = (
        (f.sample[f.sample <= bound], counts[f.sample <= bound])
        for f, counts in zip((first, second), once, strict=True)
    )
    _, at_mine, at_theirs = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    common = int(np.minimum(ours[at_mine], others[at_theirs]).sum())
    smaller = min(int(ours.sum()), int(others.sum()))
    if smaller < max(1, min(LEAST, first.rows, second.rows)):
        return None
    larger, counts = max(zip((first, second), once, strict=True), key=lambda f: f[0].rows)
    rows = max(1, int(counts.sum()))
    chance = max(int(counts[counts > 1].sum()) / rows, _density(larger, second, first))
    share = common / smaller
    if share <= chance + MARGIN:
        return None
    chance += max(MARGIN, math.sqrt(SURE_BITS * math.log(2) / rows))
    surprise = smaller * _divergence(share, chance) / math.log(2)
    sure = share >= 0.5 and surprise >= SURE_BITS and _may_prove(first, second)
    return Likeness("rows", share, sure)


def _density(*prints: Print) -> float:
    """Return the share of combinations of column values that occur as rows.

    The number of values is taken from the first of them that knows it.
    """
    table = prints[0]
    different = float(len(table.sample))
    if table.full:
        different = (KEPT - 1) * 2.0**64 / float(table.sample[-1])
    known = next((f.distinct for f in prints if f.distinct.any()), None)
    if known is None:
        return 0.0
    logs = np.log(np.maximum(known.astype(np.float64), 1.0)).sum()
    return min(1.0, math.exp(min(0.0, math.log(max(1.0, different)) - float(logs))))


def _divergence(share: float, chance: float) -> float:
    """Return the Kullback-Leibler divergence in nats of two coins; 0 if share <= chance."""
    if share <= chance:
        return 0.0
    rest = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return share * math.log(share / chance) + rest


def _columns_in_common(first: Print, second: Print) -> Likeness | None:
    """Return the similarity by common columns, or None."""
    (mine, known), (theirs, also) = (
        (f.columns * np.uint64(rows), f.evidence)
        for f, rows in ((first, second.rows), (second, first.rows))
    )
    telling = [np.unique(sums[f.columns > 0]) for sums, f in ((mine, first), (theirs, second))]
    smaller = min(map(len, telling))
    both = np.intersect1d(telling[0], telling[1])
    share = len(both) / smaller if smaller else 0.0
    if share < 0.5:
        return None
    bits = [known[np.isin(mine, both)], also[np.isin(theirs, both)]]
    sure = max(int(each.max(initial=0)) for each in bits) >= SURE_BITS
    return Likeness("columns", share, sure) if sure or first.rows == second.rows else None


class _Smallest:
    """The smallest distinct hashes, with their counts (a bottom-k sketch)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.bits, self.counts = np.empty(0, np.uint64), np.empty(0, np.uint64)

    def add(self, bits: Bits, counts: Counts | None = None) -> None:
        """Add hashes. counts: of each; 1 where omitted."""
        if len(self.bits) == self._most:
            near = bits <= self.bits[-1]
            bits, counts = bits[near], None if counts is None else counts[near]
        if counts is None:
            bits, once = np.unique(bits, return_counts=True)
            counts = once.astype(np.uint64)
        every, back = np.unique(np.concatenate([self.bits, bits]), return_inverse=True)
        total = np.zeros(len(every), np.uint64)
        np.add.at(total, back, np.concatenate([self.counts, counts]))
        self.bits, self.counts = every[: self._most], total[: self._most]

    @property
    def different(self) -> int:
        """Return the estimated number of distinct hashes."""
        if len(self.bits) < self._most:
            return len(self.bits)
        return int((self._most - 1) * 2.0**64 / float(self.bits[-1]))


class _Sketched:
    """The sketches of rows and columns."""

    def __init__(self, columns: int) -> None:
        self.values = [_Smallest(KEPT_VALUES) for _ in range(columns)]
        self.fine = np.zeros(columns, np.bool_)
        self.sums = np.zeros(columns, np.uint64)
        self.total = np.zeros(2, np.uint64)
        self.sample = _Smallest(KEPT)
        self.rows = 0

    def printed(self, proving: Bits | None = None) -> Print:
        """Return the print. proving: evidence by unrounded values, where these are rounded."""
        telling = np.array([len(values.bits) >= TELLING for values in self.values])
        evidence = [
            int(_surprise(values.counts)) if fine or len(np.unique(values.counts)) > 1 else 0
            for values, fine in zip(self.values, self.fine, strict=True)
        ]
        if proving is not None:
            evidence = [
                bits if proves else 0 for bits, proves in zip(evidence, proving, strict=True)
            ]
        distinct = [float(values.different) for values in self.values]
        return Print(
            self.rows,
            (int(self.total[0]), int(self.total[1])),
            self.sample.bits,
            self.sample.counts,
            np.where(telling, self.sums, np.uint64(0)),
            np.where(self.fine, np.maximum(distinct, FINE), distinct).astype(np.uint64),
            np.array(evidence, np.uint64),
        )


class Sketch:
    """Builds the fingerprint of an upload from its batches."""

    def __init__(self, key: bytes, columns: Sequence[Column]) -> None:
        # one block at a time and no mode: a keyed function of 16 bytes, nothing is encrypted
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305
        self._texts = key
        self.person_key = hmac.digest(key, b"persons", "sha256")
        self._persons = np.empty(0, np.uint64)
        self._codes = [None if isinstance(c, NumberColumn) else self._table(c) for c in columns]
        self._exact, self._coarse = _Sketched(len(columns)), _Sketched(len(columns))

    def _table(self, column: Any) -> Bits:
        """Return the hashes of every category, and of a missing value."""
        return np.array([self._text(value) for value in (*column.categories, "")], np.uint64)

    def _text(self, value: str) -> int:
        """Return the keyed hash of a text; of a number's text, that of the number."""
        try:
            return int(self._numbers(np.array([float(value)]))[0])
        except ValueError:
            return int.from_bytes(hmac.digest(self._texts, value.encode(), "sha256")[:8])

    def _turn(self, bits: Bits, what: int) -> Bits:
        """Return hashes (n, 2) of n numbers under a label."""
        blocks = np.empty((len(bits), 2), "<u8")
        blocks[:, 0], blocks[:, 1] = bits, what
        turned = self._cipher.encryptor().update(blocks.tobytes())
        return np.frombuffer(turned, "<u8").reshape(-1, 2).astype(np.uint64, copy=False)

    def _numbers(self, values: NDArray[np.float64]) -> Bits:
        """Return the hashes of numbers."""
        return self._turn((values + 0.0).view(np.uint64), VALUE)[:, 0]  # minus zero is zero

    def add(self, batch: Sequence[NDArray[Any]]) -> None:
        """Add a batch: unclamped numbers, and codes of categories."""
        self._add(self._exact, batch)
        numbers = [
            _rounded(values) if codes is None else values
            for values, codes in zip(batch, self._codes, strict=True)
        ]
        self._add(self._coarse, numbers)

    def _add(self, sketched: _Sketched, batch: Sequence[NDArray[Any]]) -> None:
        """Add a batch to the sketches of exact or rounded values."""
        row = np.zeros(len(batch[0]), np.uint64)
        for at, (values, codes) in enumerate(zip(batch, self._codes, strict=True)):
            if codes is None:
                bits = self._numbers(values)
                sketched.values[at].add(bits)
                if sketched is self._exact and not sketched.fine[at]:
                    sketched.fine[at] = _has_many_decimals(values)
            else:
                bits = codes[values]
                counts = np.bincount(values, minlength=len(codes)).astype(np.uint64)
                sketched.values[at].add(codes[counts > 0], counts[counts > 0])
            row += bits
            sketched.sums[at : at + 1] += bits.sum(dtype=np.uint64)  # an array's sums wrap around
        turned = self._turn(row, ROW)
        sketched.total += turned.sum(axis=0, dtype=np.uint64)
        sketched.sample.add(turned[:, 0])
        sketched.rows += len(row)

    def add_persons(self, digests: NDArray[np.uint8]) -> None:
        """Add all persons, once: digests (persons, 16) under `person_key`."""
        self._persons = np.sort(np.ascontiguousarray(digests[:, :8]).view("<u8").ravel())

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of all added rows."""
        exact = self._exact.printed()
        return Fingerprint(exact, self._coarse.printed(exact.evidence), self._persons)


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values rounded to COARSE_BITS significant bits."""
    part, exponent = np.frexp(values)
    near: NDArray[np.float64] = np.rint(part * 2.0**COARSE_BITS)
    rounded: NDArray[np.float64] = np.ldexp(near, exponent - COARSE_BITS)
    return rounded


def _has_many_decimals(values: NDArray[np.float64]) -> bool:
    """Return whether some value is not a multiple of 1/1000, up to rounding."""
    thousandths = values * 1000.0
    off = np.abs(thousandths - np.rint(thousandths))
    return bool((off > 1e-6 * np.maximum(1.0, np.abs(values))).any())


class Fingerprints:
    """Creates sketches and encrypts fingerprints under the installation's keys."""

    __slots__ = ("__seal", "__sketch")

    def __init__(self, sketch: bytes, seal: bytes) -> None:
        self.__sketch, self.__seal = sketch, AESGCM(seal)

    def start(self, columns: Sequence[Column]) -> Sketch:
        """Return an empty sketch for an upload."""
        return Sketch(self.__sketch, columns)

    def seal(self, dataset_id: UUID, made: Fingerprint) -> bytes:
        """Return a fingerprint encrypted and bound to the dataset."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self.__seal.encrypt(nonce, made.to_bytes(), dataset_id.bytes)

    def open(self, dataset_id: UUID, sealed: bytes) -> Fingerprint:
        """Return a decrypted fingerprint. Raises KeyFileError under another master key."""
        nonce, hidden = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return Fingerprint.from_bytes(self.__seal.decrypt(nonce, hidden, dataset_id.bytes))
        except InvalidTag:
            raise KeyFileError("a fingerprint was not sealed by this master key") from None

    def __repr__(self) -> str:
        return "<Fingerprints>"
