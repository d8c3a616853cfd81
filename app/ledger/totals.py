"""Totals over all ledgers, for metrics, without reference to single datasets."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.ledger.account import HEADS, sum_of
from app.ledger.codec import read_state, read_terms
from app.storage.rows import ACCOUNT_STATUSES
from dpmcmc.privacy.filter import FilterState, remaining_mu

LEFT = ("most", "less than half", "less than a tenth", "nothing")


@dataclass(frozen=True, slots=True)
class Totals:
    """ledgers: by status. left: open ones by remaining budget. entries: of all ledgers."""

    ledgers: Counter[str]
    left: Counter[str]
    entries: int


def totals(session: Session) -> Totals:
    """Return totals over all ledgers, read from their heads."""
    ledgers, classes, entries = Counter[str](), Counter[str](), 0
    ledgers.update(dict.fromkeys(ACCOUNT_STATUSES, 0))
    classes.update(dict.fromkeys(LEFT, 0))
    query = select(HEADS.c.seq, HEADS.c.status, HEADS.c.terms, HEADS.c.posted, HEADS.c.reserved)
    for seq, status, *budget in session.execute(query):
        ledgers[status] += 1
        entries += seq
        if status == "open":
            classes[_left(*budget)] += 1
    return Totals(ledgers, classes, entries)


@lru_cache(maxsize=4096)
def _left(terms: str, posted: str, reserved: str) -> str:
    """Return the class in LEFT of a ledger's remaining budget, by squared mu."""
    promise = read_terms(terms)
    full = remaining_mu(promise, FilterState.empty(promise)) ** 2
    held = sum_of(read_state(posted), read_state(reserved))
    share = remaining_mu(promise, held) ** 2 / full if full else 0.0
    return LEFT[(share < 0.5) + (share < 0.1) + (share == 0.0)]
