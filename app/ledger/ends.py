"""The ends of ledgers in the database, to be anchored and compared with anchors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select, tuple_
from sqlalchemy.orm import Session

from app.ledger import audit
from app.ledger.account import ENTRIES, HEADS, head_of, holders_of, ledger_of
from app.ledger.anchors import AUDIT, Anchor
from app.ledger.codec import write_state

AT_ONCE = 300
# made once: every submission and every claim runs it
_HASHES = select(ENTRIES.c.dataset_id, ENTRIES.c.hash).where(
    tuple_(ENTRIES.c.dataset_id, ENTRIES.c.seq).in_(bindparam("places", expanding=True))
)


@dataclass(frozen=True, slots=True)
class End:
    """Number and hash of a ledger's last entry, with its sums."""

    ledger: UUID
    seq: int
    head: str
    held: str
    status: str

    def anchor(self, epoch: int) -> Anchor:
        """Return its anchor."""
        return Anchor(
            ledger=self.ledger,
            epoch=epoch,
            seq=self.seq,
            head=self.head,
            held=self.held,
            status=self.status,
        )


def end_of(session: Session, dataset_id: UUID) -> End:
    """Return the end of a dataset's ledger."""
    return _end(ledger_of(session, [dataset_id]).one())


def ends_of(session: Session, dataset_id: UUID) -> list[End]:
    """Return the ends of the ledgers that a dataset's jobs debit, its own first."""
    holders = holders_of(session, [dataset_id])
    return [end_of(session, dataset_id), *(_end(row) for row in holders)]


def _end(row: Any) -> End:
    """Return an end from its row."""
    return End(row.dataset_id, row.seq, row.hash, write_state(head_of(row).held), row.status)


def ends(session: Session, known: Mapping[UUID, Anchor]) -> list[End]:
    """Return the ends of ledgers and audit trail that changed since their anchors."""
    query = select(HEADS.c.dataset_id, HEADS.c.seq)
    seqs = {row.dataset_id: row.seq for row in session.execute(query)}
    moved = [at for at, seq in seqs.items() if at not in known or known[at].seq != seq]
    ends_of = [
        _end(row)
        for start in range(0, len(moved), AT_ONCE)
        for row in session.execute(
            select(HEADS).where(HEADS.c.dataset_id.in_(moved[start : start + AT_ONCE]))
        )
    ]
    seq, head = audit.end(session)
    if seq and (AUDIT not in known or known[AUDIT].seq != seq):
        ends_of.append(End(AUDIT, seq, head, "", "open"))
    return ends_of


def missing(session: Session, anchors: Iterable[Anchor]) -> list[Anchor]:
    """Return the anchors whose entry is missing or different: rewound ledgers."""
    wanted = [anchor for anchor in anchors if anchor.seq]
    hashes: dict[UUID, str] = {}
    for start in range(0, len(wanted), AT_ONCE):
        places = [(a.ledger, a.seq) for a in wanted[start : start + AT_ONCE] if a.ledger != AUDIT]
        rows = session.execute(_HASHES, {"places": places}) if places else ()
        hashes.update((row.dataset_id, row.hash) for row in rows)
    for anchor in wanted:
        if anchor.ledger == AUDIT:
            hashes[AUDIT] = audit.hash_at(session, anchor.seq)
    return [anchor for anchor in wanted if hashes.get(anchor.ledger) != anchor.head]
