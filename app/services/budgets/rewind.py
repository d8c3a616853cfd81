"""Detection of restored databases: a ledger behind its anchor pays for nothing.

Before a worker opens rows, the end of the ledger that paid for them is on the disk outside of the
database; the recovery process adds other new ends, to the file, the log and the webhook. Where an
anchored entry is not in the database, its ledger was rewound: the service is not ready, takes no
jobs on it and runs none, until an admin accepts the restore and with it the worst case.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app import ledger, logs
from app.ledger.anchors import AUDIT, Anchor, AnchorError
from app.ledger.codec import canonical
from app.ledger.ends import End, end_of, ends, ends_of, missing
from app.services.accounts.caller import Caller
from app.services.audit.trail import note
from app.services.context import Services
from app.services.errors import Refusal
from app.services.jobs.cancel import stop_all
from app.services.outward import OutsideError, exchange
from app.storage.rows import DatasetRow, JobRow
from app.storage.types import utc_now

EXPORT_SECONDS = 5.0
WEBHOOK_SECONDS = 5.0  # of the whole exchange
WEBHOOK_PAUSE_SECONDS = 60.0  # after one that failed
SENT_AT_ONCE = 1000  # lines
REWOUND = (
    "The ledger is behind what was anchored outside of the database: an older database was put"
    " back. An admin looks at GET /v1/restore and accepts it by POST /v1/restore."
)


class RewoundError(Exception):
    """The ledger is behind its anchor, so no job may be paid from it."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """A ledger behind its anchor. lost: it is missing in the database.

    datasets: that are on it. now: where it ends.
    """

    anchor: Anchor
    datasets: Sequence[UUID]
    now: End | None

    @property
    def lost(self) -> bool:
        """Return whether the ledger is missing in the database."""
        return self.now is None and self.anchor.ledger != AUDIT


def check(session: Session, services: Services, dataset_id: UUID) -> list[End]:
    """Return the ends of the ledgers that a dataset's jobs debit. Raises RewoundError.

    session: to write, or to read and not used yet. A snapshot that is older than the anchors misses
    what a worker paid for and anchored meanwhile. Raises RewoundError where one ends too early, or
    nobody can tell.
    """
    try:
        anchors = services.vault.anchors.latest()
    except AnchorError as error:
        logs.logger().error("anchors_unreadable", reason=error.reason)
        raise RewoundError from None
    ends = ends_of(session, dataset_id)
    if missing(session, [anchors[end.ledger] for end in ends if end.ledger in anchors]):
        raise RewoundError
    return ends


def refuse_rewound(session: Session, services: Services, dataset_id: UUID) -> None:
    """Refuse jobs on a ledger behind its anchor. Raises Refusal 503."""
    try:
        check(session, services, dataset_id)
    except RewoundError:
        raise Refusal(503, "ledger_rewound", REWOUND) from None


def keep(services: Services, ends: Sequence[End]) -> None:
    """Anchor ledger ends that are durable in the database. Raises AnchorError."""
    anchors = services.vault.anchors
    latest = anchors.latest()
    before = {end.ledger: latest.get(end.ledger) for end in ends}
    new = [
        end.anchor(known.epoch if known else 0)
        for end in ends
        if (known := before[end.ledger]) is None or known.seq < end.seq
    ]
    if new:
        _append(services, new)


def _append(services: Services, made: Sequence[Anchor]) -> None:
    """Append anchors to the file, then log them. Raises AnchorError."""
    anchors = services.vault.anchors
    anchors.append(made)
    for anchor in made:
        line = anchors.signer.line(anchor)
        fields = {name: line[name] for name in ("ledger", "epoch", "seq", "head", "signature")}
        logs.logger().info("ledger_anchored", **fields)


def rewound(services: Services) -> list[Rewound]:
    """Return every ledger behind its anchor, audit trail included. Raises Refusal 503."""
    try:
        anchors = services.vault.anchors.latest()
    except AnchorError as error:
        raise Refusal(503, "anchors_unreadable", f"Nobody can tell: {error.reason}.") from None
    with services.sessions.read() as session:
        return [_described(session, anchor) for anchor in missing(session, anchors.values())]


def _described(session: Session, anchor: Anchor) -> Rewound:
    """Return a ledger behind its anchor with its datasets."""
    pools = select(DatasetRow.pool_id).where(DatasetRow.id == anchor.ledger)
    on_it = (
        (DatasetRow.id == anchor.ledger)
        | (DatasetRow.ledger_id == anchor.ledger)
        | DatasetRow.id.in_(pools)
    )
    datasets = session.scalars(select(DatasetRow.id).where(on_it).order_by(DatasetRow.id)).all()
    if anchor.ledger == AUDIT:
        seq, head = ledger.audit.end(session)
        return Rewound(anchor, (), End(AUDIT, seq, head, "", "open"))
    return Rewound(anchor, datasets, end_of(session, anchor.ledger) if datasets else None)


def look(services: Services) -> bool:
    """Log whether an older database was restored, and return False if so."""
    try:
        behind = rewound(services)
    except Refusal as refusal:
        logs.logger().error(refusal.code, reason=refusal.detail)
        return False
    if behind:
        ledgers = [str(item.anchor.ledger) for item in behind]
        logs.logger().error("database_rewound", ledgers=ledgers, help=REWOUND)
    return not behind


def accept(services: Services, caller: Caller, reason: str) -> list[Rewound]:
    """Accept a restored database, charging the worst case. Returns the rewound ledgers.

    What was held when a ledger was anchored counts as spent; jobs that wait or run, which may have
    released before, end; a dataset that was destroyed is destroyed again. Raises Refusal 409.
    """
    behind = rewound(services)
    if not behind:
        raise Refusal(409, "nothing_rewound", "No ledger is behind its anchor.")
    with services.sessions.write() as session:
        for item in behind:
            if item.now is not None and item.anchor.ledger != AUDIT:
                _book(session, caller, item)
        ledgers = [_as_json(item) for item in behind]
        note(session, caller, "restore.accept", reason=reason, ledgers=ledgers)
    with services.sessions.read() as session:
        _append(services, [_accepted(session, item) for item in behind])
    logs.logger().warning("restore_accepted", ledgers=[line["ledger"] for line in ledgers])
    return behind


def _book(session: Session, caller: Caller, item: Rewound) -> None:
    """Charge the worst case to a rewound ledger."""
    stop_all(session, None, JobRow.dataset_id.in_(item.datasets))
    place = {"rows": item.anchor.seq, "head": item.anchor.head}
    details = {"held": ledger.sums_of(item.anchor.held), "anchor": place}
    ledger.amend(session, item.anchor.ledger, "restore", details, caller.id)
    if (
        item.anchor.status == "destroyed"
        and item.now is not None
        and item.now.status != "destroyed"
    ):
        ledger.amend(session, item.anchor.ledger, "destroy", {}, caller.id)
        row = session.get_one(DatasetRow, item.anchor.ledger)
        row.wrapped_key, row.destroyed_at = None, utc_now()


def _accepted(session: Session, item: Rewound) -> Anchor:
    """Return the anchor that is valid from now on."""
    epoch = item.anchor.epoch + 1
    if item.anchor.ledger == AUDIT:
        return Anchor(ledger=AUDIT, epoch=epoch, **_trail_end(session))
    if item.now is None:
        return Anchor(ledger=item.anchor.ledger, epoch=epoch, seq=0, head="")
    return end_of(session, item.anchor.ledger).anchor(epoch)


def _trail_end(session: Session) -> dict[str, Any]:
    """Return the end of the audit trail, for its entry."""
    seq, head = ledger.audit.end(session)
    return {"seq": seq, "head": head}


def _as_json(item: Rewound) -> dict[str, Any]:
    """Return a rewound ledger as JSON values, for the audit trail."""
    return {
        "ledger": str(item.anchor.ledger),
        "anchor": {"rows": item.anchor.seq, "head": item.anchor.head},
        "found": {"rows": item.now.seq, "head": item.now.head} if item.now else None,
    }


@dataclass(slots=True)
class Exporter:
    """Anchors changed ledgers every EXPORT_SECONDS, and sends new anchors to the webhook.

    Workers write to the file too, whenever a job has paid. The webhook gets the last line of every
    ledger that it has not got from this process, so that it misses no ledger's end, whoever wrote
    it and whoever was killed meanwhile. It gets some lines twice, which does no harm.
    """

    services: Services
    clock: Callable[[], float] = time.monotonic
    _next: float = 0.0
    _send_from: float = 0.0
    _sent: dict[UUID, tuple[int, int]] = field(default_factory=dict)

    def round(self) -> None:
        """Export if it is time."""
        if self._is_time():
            self.export()

    def export(self) -> None:
        """Export changed ledgers, except rewound ones."""
        self.anchor()
        self.send()

    def anchor_round(self) -> None:
        """Anchor if it is time, without any network access."""
        if self._is_time():
            self.anchor()

    def _is_time(self) -> bool:
        """Return whether the next export is due."""
        due = self.clock() >= self._next
        if due:
            self._next = self.clock() + EXPORT_SECONDS
        return due

    def anchor(self) -> None:
        """Write anchors of changed ledgers to the file and the log."""
        anchors = self.services.vault.anchors
        known = anchors.latest()
        with self.services.sessions.read() as session:
            moved = ends(session, known)
            behind = {
                a.ledger
                for a in missing(session, [known[e.ledger] for e in moved if e.ledger in known])
            }
        if not moved:
            return
        new = [
            end.anchor(known[end.ledger].epoch if end.ledger in known else 0)
            for end in moved
            if end.ledger not in behind
        ]
        _append(self.services, new)

    def send(self) -> None:
        """Send unsent anchors to the webhook, unless it failed recently."""
        address, anchors = self.services.settings.anchor_webhook, self.services.vault.anchors
        if not address or self.clock() < self._send_from:
            return
        latest = anchors.latest().values()
        due = [anchor for anchor in latest if self._sent.get(anchor.ledger) != anchor.place][
            :SENT_AT_ONCE
        ]
        if not due:
            return
        body = canonical({"anchors": [anchors.signer.line(anchor) for anchor in due]}).encode()
        kind = {"Content-Type": "application/json"}
        try:
            exchange("POST", address, WEBHOOK_SECONDS, content=body, headers=kind)
        except OutsideError as error:
            logs.logger().warning("webhook_failed", exception=error.reason)
            self._send_from = self.clock() + WEBHOOK_PAUSE_SECONDS
            return
        self._sent.update({anchor.ledger: anchor.place for anchor in due})
