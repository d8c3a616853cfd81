"""Serialisation of ledger entries and filter states: canonical JSON, and hashes.

Canonical: keys sorted, no spaces, ASCII, shortest round-trip floats; whole numbers of the filter as
decimal strings, because they have no limit. The same text is stored, hashed and read back.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any
from uuid import UUID

from dpmcmc.base.private import Neighbouring
from dpmcmc.privacy.filter import EntryCost, FilterState, FilterTerms

HASHED_FIELDS = (
    "dataset_id",
    "seq",
    "at",
    "kind",
    "actor_id",
    "job_id",
    "analyst_id",
    "event",
    "event_digest",
    "cost",
    "total",
    "details",
    "previous",
)


_WRITER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """Return the canonical JSON of a value."""
    return _WRITER.encode(value)


def genesis(dataset_id: UUID) -> str:
    """Return the hash that a dataset's first entry follows."""
    return hashlib.sha256(f"dpmcmc ledger 1 {dataset_id}".encode()).hexdigest()


def entry_hash(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of an entry's fields and the preceding hash.

    Put together by hand, because every debit does it while the head is held.
    """
    pairs = [f"{key}{_WRITE[type(fields[name])](fields[name])}" for name, key in _KEYS]
    return hashlib.sha256(f"{{{','.join(pairs)}}}".encode()).hexdigest()


_KEYS = [(name, f'"{name}":') for name in sorted(HASHED_FIELDS)]
_WRITE: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    int: str,
    str: encode_basestring_ascii,
    UUID: lru_cache(maxsize=256)(lambda value: f'"{value}"'),
    datetime: lambda value: f'"{value.isoformat(timespec="microseconds")}"',
}


def _numbers(values: Sequence[int | None]) -> list[str | None]:
    """Return whole numbers as decimal strings."""
    return [None if value is None else str(value) for value in values]


@lru_cache(maxsize=1024)
def write_cost(cost: EntryCost) -> str:
    """Return a cost as JSON; None: no bound."""
    return canonical(_numbers(cost.vector))


@lru_cache(maxsize=1024)
def read_cost(text: str) -> EntryCost:
    """Return the cost that `write_cost` wrote."""
    return EntryCost.from_vector([None if v is None else int(v) for v in json.loads(text)])


@lru_cache(maxsize=64)
def write_state(state: FilterState) -> str:
    """Return running sums as JSON, formatted by hand for speed."""
    sums, unbounded = '","'.join(map(str, state.sums)), ",".join(map(str, state.unbounded))
    return f'{{"sums":["{sums}"],"unbounded":[{unbounded}]}}'


@lru_cache(maxsize=64)
def read_state(text: str) -> FilterState:
    """Return the sums that `write_state` wrote."""
    fields = json.loads(text)
    return FilterState(tuple(int(v) for v in fields["sums"]), tuple(fields["unbounded"]))


@lru_cache(maxsize=256)
def write_terms(terms: FilterTerms) -> str:
    """Return a dataset's terms as JSON."""
    return canonical(asdict(terms))


@lru_cache(maxsize=256)
def read_terms(text: str) -> FilterTerms:
    """Return the terms that `write_terms` wrote."""
    fields = json.loads(text)
    renyi = tuple((order, weight) for order, weight in fields.pop("renyi"))
    neighbouring = Neighbouring(fields.pop("neighbouring"))
    return FilterTerms(**fields, renyi=renyi, neighbouring=neighbouring)
